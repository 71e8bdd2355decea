"""`reticent audit`: every question and answer of an algorithm, and what each reveals, read from its Guest class without running it."""

from pathlib import Path
from typing import Annotated

import typer

from reticent import audit as audits
from reticent.cli.app import AsJson, app, grid, say
from reticent.errors import StudyError


@app.command()
def audit(
    algorithm: Annotated[str, typer.Argument(metavar="ALGORITHM", help="A name, or a dotted path to your own.")] = "",
    markdown: Annotated[bool, typer.Option("--markdown", help="As a table for a page.")] = False,
    refresh: Annotated[Path | None, typer.Option(help="Writes the audits on this page anew, between its <!-- audit NAME --> and <!-- end -->.")] = None,
    as_json: AsJson = False,
) -> None:
    """Lists all that an algorithm can make a party say."""
    if refresh is not None:
        if not refresh.is_file():
            raise StudyError(f"{refresh}: there is no such page; --refresh names one with audit sections in it")
        changed = audits.refresh(refresh)
        say({"page": str(refresh), "changed": changed}, as_json, f"{refresh}: {'written anew' if changed else 'as it was'}")
        return
    if not algorithm:
        raise StudyError("audit: which algorithm? name one, as in `reticent audit fedonce`")
    found = {"algorithm": algorithm, "citation": audits.citation(algorithm), "verbs": audits.exits(algorithm)}
    if markdown and not as_json:
        print(audits.markdown(algorithm))
        return
    columns = ("verb", "the host asks", "the guest answers", "noise")
    shown = grid(*columns, title=audits.citation(algorithm), texts=columns[1:])
    for entry in audits.exits(algorithm):
        question, answer = f"{entry['question']}: {entry['question_reveals']}", f"{entry['answer']}: {entry['reveals']}"
        shown.add_row(entry["verb"], question, answer, audits.noise(entry))
    if not found["verbs"]:
        shown.caption = "The host asks nobody: nothing leaves anyone."
    say(found, as_json, shown)
