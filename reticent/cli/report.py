"""`reticent report`: a finished run as one page of HTML."""

import os
from pathlib import Path
from typing import Annotated

import typer

from reticent import report as reports
from reticent.cli.app import AsJson, app, say


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The run's folder.")],
    out: Annotated[Path | None, typer.Option(help="The file to write; else report.html in the run's folder.")] = None,
    as_json: AsJson = False,
) -> None:
    """Writes a run up as one HTML file that needs nothing else."""
    file = reports.write(folder.absolute(), out)
    say({"report": str(file), "bytes": file.stat().st_size}, as_json, f"written to {os.path.relpath(file)}")
