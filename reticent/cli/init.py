"""`reticent init`: the two files to start from, with comments; or certificates for a run between machines."""

from pathlib import Path
from typing import Annotated

import typer

from reticent import study
from reticent.cli.app import AsJson, app, say
from reticent.errors import ReticentError
from reticent.wires import tls as certificates


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write.")] = Path("."),
    tls: Annotated[list[str] | None, typer.Option("--tls", help="Makes certificates instead, in DIR/NAME; once for each party.")] = None,
    days: Annotated[int, typer.Option(min=1, help="How long certificates are valid.")] = 30,
    as_json: AsJson = False,
) -> None:
    """Writes study.toml and party.toml to start from."""
    texts = {} if tls else {folder / "study.toml": study.describe_study(), folder / "party.toml": study.describe_party()}
    there = [path for path in (*texts, *(folder / name for name in tls or [])) if path.exists()]
    if there:
        raise ReticentError(f"{there[0]} is there already, and is not written over: name another folder, as in `reticent init new`")
    if tls:
        made = certificates.make(folder, tls, days)
        said = f"Hand each party its own folder, and nobody another's: key.pem is secret. Valid for {days} days."
        say({"written": [str(path) for path in made.values()], "days": days}, as_json, "\n".join([*(f"{path}/" for path in made.values()), said]))
        return
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    said = f"Next: put your table's name into {folder / 'party.toml'}, then `reticent check {folder / 'party.toml'} {folder / 'study.toml'}`."
    say({"written": [str(path) for path in texts]}, as_json, "\n".join([*map(str, texts), said]))
