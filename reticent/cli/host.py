"""`reticent host`: the host's side of a run over the network; its guests dial in with `reticent join`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from reticent import run as runs
from reticent import study
from reticent.cli.app import AsJson, Device, Threads, app, bars, say, screen
from reticent.cli.join import address, unended
from reticent.cli.run import shown
from reticent.errors import StudyError
from reticent.wires import STOPPED
from reticent.wires.processes import Processes


@app.command()
def host(
    party: Annotated[Path, typer.Argument(metavar="PARTY", help="The host's party file.")],
    path: Annotated[Path, typer.Argument(metavar="STUDY", help="The study file, the same as the guests'.")],
    listen: Annotated[str, typer.Option(help="Where to listen: HOST:PORT.")],
    tls: Annotated[Path, typer.Option(help="Folder with the host's ca.pem, cert.pem and key.pem.")],
    out: Annotated[
        Path | None, typer.Option(help="Where the run is kept; the same folder again goes on with it. Else runs/NAME, runs/NAME-2 once that is done, …")
    ] = None,
    wait: Annotated[float, typer.Option(help="Seconds that guests have to dial in, and to come back.")] = 600.0,
    device: Device = "cpu",
    threads: Threads = 1,
    as_json: AsJson = False,
) -> None:
    """Drives a run over the network."""
    wanted, file = study.read_study(path), study.read_party(party)
    if wanted.parties is None:
        raise StudyError(f"{path} simulates its data on one machine: use `reticent run`")
    parties, place = wanted.parties, address(listen)
    if file.name != parties.host:
        raise StudyError(f"{file.name} is not the host of this study, {parties.host} is: a guest uses `reticent join`")
    folder = (out or unended(Path("runs") / runs.slug(wanted.study.name), runs.ended)).absolute()
    options = runs.Options(wire="processes", threads=threads, device=device, parties=(str(party.absolute()),))

    def between() -> Processes:
        wire = Processes(parties.host, parties.guests, place, tls, patience=wait)
        try:
            screen.print(f"{parties.host} listens on {wire.address[0]}:{wire.address[1]}; {', '.join(parties.guests)} dial in with `reticent join`")
            wire.wait(wait)
        except BaseException:
            wire.close(STOPPED)
            raise
        return wire

    try:
        with bars(as_json) as progress:
            result = runs.to_completion(wanted, options, folder, progress, between=between).finish()
    except KeyboardInterrupt:
        screen.print(
            f"the same command with --out {folder} goes on with this run; guests that were there dial again by themselves", soft_wrap=True, markup=False
        )
        sys.exit(130)
    say(result, as_json, shown(result))
