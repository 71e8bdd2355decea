"""`reticent resume`: goes on with a run that was killed, to the same digest as if it had not been."""

from pathlib import Path
from typing import Annotated

import typer

from reticent import run as runs
from reticent import study, sweeps
from reticent.cli.app import AsJson, app, bars, say
from reticent.cli.run import shown


@app.command()
def resume(folder: Annotated[Path, typer.Argument(metavar="DIR", help="The run's folder.")], as_json: AsJson = False) -> None:
    """Goes on with a run that was killed."""
    folder = folder.absolute()
    found = runs.noted(folder)
    options = runs.options_of(found)
    wanted = study.read_study(folder / "study.toml")
    with bars(as_json) as progress:
        if found["state"] == "done":
            result = found["result"]
        elif found["sweep"]:
            result = sweeps.sweep(wanted, options, folder, found["sweep"]["seeds"], found["sweep"]["folds"], progress)
        else:
            result = sweeps.conduct(wanted, options, folder, progress)
    say(result, as_json, shown(result))
