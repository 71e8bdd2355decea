"""A run written up as one page of HTML that needs nothing else: for the reader in a bank who was not there.

Reads what lies in the run's folder, writes one file, and sends nothing. Test labels, for three of the pictures, are read from the
tables again; where those are gone, the page says so and does without.
"""

from pathlib import Path

import jinja2

from reticent import state
from reticent.data.labels import Labels
from reticent.report import pictures, reading, words

SHOWN = 50  # lines of the ledger; the rest is counted


def write(folder: Path, file: Path | None = None, labels: Labels | None = None) -> Path:
    """Writes the report of the run in `folder`, to `file` or to report.html beside what the run kept; gives its path back.

    `labels`: of the test rows, where they are at hand and no file holds them.
    """
    page = html(folder, labels)
    file = file or folder / "report.html"
    file.parent.mkdir(parents=True, exist_ok=True)
    state.write(file, page.encode())
    return file


def html(folder: Path, labels: Labels | None = None) -> str:
    """The page. JournalError where `folder` holds no finished run."""
    facts = reading.read(folder, labels)
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("reticent.report", "."), autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {"size": words.size, "many": words.many, "figure": words.figure, "clock": words.clock}
    return environment.get_template("page.html.j2").render(
        f=facts, r=facts.result, first=facts.first, methods=facts.methods, verdict=words.verdict(facts.result), columns=words.columns(facts.result),
        further=words.further(facts.result), pictures=pictures.all_of(facts), missing=facts.unlabelled, shown=SHOWN, words=words, title=facts.title,
        describe=words.describe, label=words.label, against=[facts.result["privacy"], *facts.result["privacy"].get("others", [])],
    )  # fmt: skip
