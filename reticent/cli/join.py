"""`reticent join`: a guest's side of a run over the network."""

import json
import logging
import os
import sys
import threading
from pathlib import Path
from typing import Annotated

import torch
import typer

from reticent import plan as plans
from reticent import run as runs
from reticent import study
from reticent.cli.app import Data, Device, Threads, app, homes, screen
from reticent.errors import StudyError
from reticent.privacy import secret
from reticent.wires.dialling import dial


def address(text: str) -> tuple[str, int]:
    name, _, port = text.rpartition(":")
    if not name or not port.isdigit() or int(port) > 65535:
        raise StudyError(f"{text!r} is no address: write HOST:PORT, as in bank.example:8443")
    return name.strip("[]"), int(port)


@app.command()
def join(
    party: Annotated[str, typer.Argument(metavar="PARTY", help="This party's file, or its name where the study simulates its data.")],
    path: Annotated[Path, typer.Argument(metavar="STUDY", help="The study file, the same as the host's.")],
    connect: Annotated[str, typer.Option(help="Where the host listens: HOST:PORT.")],
    tls: Annotated[Path, typer.Option(help="Folder with this party's ca.pem, cert.pem and key.pem.")],
    out: Annotated[Path | None, typer.Option(help="Where this party keeps its journal and its ledger; else runs/NAME-PARTY.")] = None,
    patience: Annotated[float, typer.Option(help="Seconds to go on dialling a host that is not there.")] = 600.0,
    device: Device = "cpu",
    threads: Threads = 1,
    data: Data = None,
    child: Annotated[bool, typer.Option("--child", hidden=True, help="Ends with the process that started it, and tells it of progress.")] = False,
    fold: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Takes part in a run as a guest, then goes home."""
    if child:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    else:
        logging.getLogger("reticent").setLevel(logging.INFO)
    runs.use_threads(threads)
    wanted = study.read_study(path)
    files = {}
    if wanted.parties:
        file = study.read_party(Path(party))
        files, name = {file.name: file}, file.name
    else:
        name = party
    plan = plans.make(wanted, homes=[Path(home) for home in homes(data)], files=files, fold=fold)
    if name not in plan.guests:
        raise StudyError(f"{name} is no guest of this study: {plan.host} is the host, {', '.join(plan.guests)} are the guests")
    folder = out or Path("runs") / f"{wanted.study.name}-{name}"
    door = runs.guest_door(plan, name, folder, torch.device(device), None if child else _confirm)
    door.party.told = _tell_parent if child else _tell_screen
    door.wake()
    try:
        dial(name, plan.host, address(connect), tls, door.answer, patience)
        door.keep()
        secret.destroy(folder)
    finally:
        door.close()
    if not child:
        screen.print(f"{name}: done. {door.ledger.bytes_of(name, 'up'):,} bytes left this building; {folder}/ledger.jsonl lists every letter.")


def _end_with_parent() -> None:
    while os.read(0, 1):  # ends when the parent does, however it ended
        pass
    os._exit(0)


def _tell_parent(who: str, done: int, of: int, what: str) -> None:
    print(json.dumps({"party": who, "done": done, "of": of, "what": what}), flush=True)


def _tell_screen(who: str, done: int, of: int, what: str) -> None:
    if screen.is_terminal:
        screen.print(f"{who}: {what}", end="\r")


def _confirm(sentence: str) -> bool:
    return sys.stdin.isatty() and typer.confirm(sentence, err=True)
