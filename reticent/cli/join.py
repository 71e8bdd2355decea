"""`reticent join`: a guest's side of a run over the network."""

import itertools
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import torch
import typer

from reticent import plan as plans
from reticent import run as runs
from reticent import study
from reticent.cli.app import AsJson, Data, Device, Threads, app, homes, say, screen
from reticent.errors import StudyError
from reticent.privacy import secret
from reticent.wires.dialling import dial


def address(text: str) -> tuple[str, int]:
    name, _, port = text.rpartition(":")
    if not name or not port.isdigit() or int(port) > 65535:
        raise StudyError(f"{text!r} is no address: write HOST:PORT, as in bank.example:8443")
    return name.strip("[]"), int(port)


def unended(folder: Path, ended: Callable[[Path], bool]) -> Path:
    """The folder, or it with -2, -3, … where a run lies that has ended: what has not ended is gone on with."""
    names = itertools.chain([folder.name], (f"{folder.name}-{number}" for number in itertools.count(2)))
    return next(one for one in map(folder.with_name, names) if not ended(one))


def gone_home(folder: Path) -> bool:
    """Whether a guest's folder is of a run that has ended: its secret is there before anything else, and goes last."""
    return (folder / "journal").exists() and not (folder / "secret").exists()


@app.command()
def join(
    party: Annotated[str, typer.Argument(metavar="PARTY", help="This party's file, or its name where the study simulates its data.")],
    path: Annotated[Path, typer.Argument(metavar="STUDY", help="The study file, the same as the host's.")],
    connect: Annotated[str, typer.Option(help="Where the host listens: HOST:PORT.")],
    tls: Annotated[Path, typer.Option(help="Folder with this party's ca.pem, cert.pem and key.pem.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where this party keeps its journal and its ledger; the same folder again goes on. Else runs/NAME-PARTY, runs/NAME-PARTY-2 once that run has ended, …"
        ),
    ] = None,
    patience: Annotated[float, typer.Option(help="Seconds to go on dialling a host that is not there, or that stopped before the end.")] = 600.0,
    device: Device = "cpu",
    threads: Threads = 1,
    data: Data = None,
    as_json: AsJson = False,
    child: Annotated[bool, typer.Option("--child", hidden=True, help="Ends with the process that started it, and tells it of progress.")] = False,
    fold: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Takes part in a run as a guest, then goes home."""
    if child:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal tells the whole group; the process that started this one decides
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
    place = address(connect)
    plan = plans.make(wanted, homes=[Path(home) for home in homes(data)], files=files, fold=fold)
    if name not in plan.guests:
        raise StudyError(f"{name} is no guest of this study: {plan.host} is the host, {', '.join(plan.guests)} are the guests")
    folder = out or unended(Path("runs") / runs.slug(f"{wanted.study.name}-{name}"), gone_home)
    door = runs.guest_door(plan, name, folder, torch.device(device), None if child or not sys.stdin.isatty() else _confirm)
    door.party.told = _tell_parent if child else _tell_screen
    try:
        door.wake()
        dial(name, plan.host, place, tls, door.answer, patience)
        door.keep()
        secret.destroy(folder)
    except KeyboardInterrupt:
        screen.print(f"`reticent join` with --out {folder} goes on with this run", soft_wrap=True, markup=False)
        sys.exit(130)
    finally:
        door.close()
    if not child:
        size = {"up": door.ledger.bytes_of(name, "up"), "down": door.ledger.bytes_of(name, "down")}
        listed = folder / "ledger.jsonl"
        say({"party": name, "run": door.run, "bytes": size, "ledger": str(listed)}, as_json)
        screen.print(f"{name}: done. {size['up']:,} bytes left this building; {listed} lists every letter.", soft_wrap=True, markup=False)


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
    return typer.confirm(sentence, err=True)
