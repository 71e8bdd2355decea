"""`reticent host`: the host's side of a run over the network; its guests dial in with `reticent join`."""

import contextlib
import secrets
from pathlib import Path
from typing import Annotated

import torch
import typer

from reticent import plan as plans
from reticent import run as runs
from reticent import state, study
from reticent.cli.app import AsJson, Device, Threads, app, bars, say, screen
from reticent.cli.join import address
from reticent.cli.run import shown
from reticent.door import Door
from reticent.errors import StudyError
from reticent.federation import Federation
from reticent.journal import Journal
from reticent.ledger import Ledger
from reticent.wires.processes import Processes


@app.command()
def host(
    party: Annotated[Path, typer.Argument(metavar="PARTY", help="The host's party file.")],
    path: Annotated[Path, typer.Argument(metavar="STUDY", help="The study file, the same as the guests'.")],
    listen: Annotated[str, typer.Option(help="Where to listen: HOST:PORT.")],
    tls: Annotated[Path, typer.Option(help="Folder with the host's ca.pem, cert.pem and key.pem.")],
    out: Annotated[Path | None, typer.Option(help="Where the run is kept; the same folder again goes on with it.")] = None,
    wait: Annotated[float, typer.Option(help="Seconds that guests have to dial in, and to come back.")] = 600.0,
    device: Device = "cpu",
    threads: Threads = 1,
    as_json: AsJson = False,
) -> None:
    """Drives a run over the network."""
    runs.use_threads(threads)
    wanted, file = study.read_study(path), study.read_party(party)
    if wanted.parties is None:
        raise StudyError(f"{path} simulates its data on one machine: use `reticent run`")
    plan = plans.make(wanted, files={file.name: file})
    if file.name != plan.host:
        raise StudyError(f"{file.name} is not the host of this study, {plan.host} is: a guest uses `reticent join`")
    folder = (out or Path("runs") / wanted.study.name).absolute()
    options = runs.Options(wire="processes", threads=threads, device=device, parties=(str(party.absolute()),))
    runs.folder_of(folder)
    runs.note(folder, options, None)
    state.write(folder / "study.toml", study.write_toml(plan.effective).encode())
    journal = Journal(folder)
    found = journal.find("run")
    run = found.facts["run"] if found else secrets.token_hex(8)
    journal.begin(run=run, study=plan.hash, party=plan.host)
    me = plans.party(plan, plan.host, folder, torch.device(device))
    door = Door(me, plan.host, plan.hash, run, Ledger(folder / "ledger.jsonl"), journal, allowed=runs.homes_of(plan))
    with contextlib.ExitStack() as stack:
        wire = Processes(plan.host, plan.guests, address(listen), tls, patience=wait)
        stack.callback(wire.close)
        screen.print(f"{plan.host} listens on {wire.address[0]}:{wire.address[1]}; {', '.join(plan.guests)} dial in with `reticent join`")
        wire.wait(wait)
        with bars(as_json) as progress:
            me.told = progress
            made = runs.Run(plan, options, folder, Federation(plan.algorithm, me, plan.guests, plan.config, wire, door), {})
            result = {**made.execute(), "out": str(folder)}
        runs.note(folder, options, result)
        made.close()
    say(result, as_json, shown(result))
