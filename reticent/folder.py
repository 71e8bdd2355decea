"""A run's folder: what lies in it, whose it is, and what goes when the run has ended.

OUT/study.toml     the effective study        OUT/ledger.jsonl   what crossed           OUT/run.json   options and result
OUT/state          the host's model           OUT/journal        what the host heard    OUT/scores     raw scores on the test rows
OUT/parties/NAME/  a guest's own: ledger.jsonl, journal, snapshot, log                  OUT/tls/NAME/  its certificate

Until a run has ended its parties' folders hold a `secret` each, and those in OUT/tls a private key; a run that has ended has neither.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from reticent import state, study
from reticent.errors import FormatError, JournalError
from reticent.plan import Plan
from reticent.privacy import secret

FORMAT = 1


@dataclass(frozen=True)
class Options:
    """How a study is run here; no part of what is learnt."""

    wire: str = "inprocess"
    threads: int = 1
    device: str = "cpu"
    compare: tuple[str, ...] = ()
    parties: tuple[str, ...] = ()  # paths of party files, where all parties run on this machine
    homes: tuple[str, ...] = ()  # folders with data sets
    fold: int | None = None


def folder_of(folder: Path | None) -> Path | None:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def slug(name: str) -> str:
    """A study's name as a folder's: never one outside."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.") or "run"


def forget_keys(folder: Path) -> None:
    """Removes the private keys of a run's certificates; a run that goes on makes new ones."""
    for key in folder.glob("tls/*/key.pem"):
        key.unlink(missing_ok=True)


def forget(folder: Path) -> None:
    """Destroys the secrets of a finished run's guests on this machine, and the host's once run.json says so."""
    for home in folder.glob("parties/*"):
        secret.destroy(home)
    if ended(folder):
        secret.destroy(folder)


def write_study(folder: Path, plan: Plan) -> None:
    """The effective study, as a file; one that stands there is left alone."""
    folder_of(folder)
    if not (folder / "study.toml").exists():
        state.write(folder / "study.toml", study.write_toml({k: v for k, v in plan.effective.items() if k != "fold"}).encode())


def note(folder: Path, options: Options, result: Mapping[str, object] | None, sweep: Mapping[str, object] | None = None) -> None:
    """Writes run.json: how it is run, and what came out once it is done. `sweep`: the seeds and folds of several runs."""
    text = {"format": FORMAT, "state": "done" if result is not None else "running", "options": asdict(options), "sweep": sweep, "result": result}
    state.write(folder / "run.json", json.dumps(text, indent=1).encode())
    if result is not None:
        secret.destroy(folder)


def noted(folder: Path) -> dict[str, Any]:
    """What run.json says; refuses another format by name."""
    path = folder / "run.json"
    if not path.exists():
        raise JournalError(f"{folder} holds no run: there is no run.json in it")
    try:
        found = json.loads(path.read_text())
    except ValueError as error:
        raise JournalError(f"{path} cannot be read: {error}") from error
    if found.get("format") != FORMAT:
        raise FormatError(f"{path} is of format {found.get('format')!r}; this version reads format {FORMAT}")
    return dict(found)


def ended(folder: Path) -> bool:
    """Whether this is the folder of a run that is done."""
    return (folder / "run.json").exists() and noted(folder)["state"] == "done"


def options_of(found: Mapping[str, Any]) -> Options:
    said: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in found["options"].items()}  # Any: JSON
    return Options(**said)
