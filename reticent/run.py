"""One execution of a study: begun, gone on with after a kill, measured, kept, opened again.

What lies in its folder: reticent/folder.py.
"""

import json
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from torch import Tensor

from reticent import plan as plans
from reticent import state, study
from reticent.children import Children
from reticent.data.sets import Set
from reticent.door import Door, Wire
from reticent.errors import (
    DataError,
    JournalError,
    LetterError,
    PartyError,
    PrivacyError,
    Refused,
    ReticentError,
    StudyError,
    WireError,
)
from reticent.federation import Federation
from reticent.folder import Options as Options
from reticent.folder import ended as ended
from reticent.folder import folder_of as folder_of
from reticent.folder import forget, forget_keys, write_study
from reticent.folder import note as note
from reticent.folder import noted as noted
from reticent.folder import options_of as options_of
from reticent.folder import slug as slug
from reticent.journal import Journal
from reticent.ledger import Ledger
from reticent.outcome import chances as chances
from reticent.outcome import decided as decided
from reticent.outcome import digest as digest
from reticent.outcome import outcome
from reticent.party import Progress
from reticent.plan import Plan
from reticent.study import Study
from reticent.wires import STOPPED
from reticent.wires.inprocess import InProcess
from reticent.wires.processes import Processes
from reticent.wires.tls import make as make_tls

Rows = Tensor | NDArray[Any] | Sequence[int] | Sequence[bool]  # Any: truth values or whole numbers

START = 180.0  # seconds that guests have to dial in
PATIENCE = 90.0  # seconds that a guest who died has to come back

said_by = {kind.exit_code: kind for kind in (StudyError, PartyError, LetterError, Refused, WireError, JournalError, PrivacyError)}  # a guest's exit code


class Lines:
    """Collects progress for the report: (who, how far, of how much, what)."""

    def __init__(self, onward: Progress | None) -> None:
        self.onward = onward
        self.kept: list[dict[str, object]] = []
        self.began = time.monotonic()

    def __call__(self, who: str, done: int, of: int, what: str) -> None:
        self.kept.append({"at": round(time.monotonic() - self.began, 3), "party": who, "done": done, "of": of, "what": what})
        if self.onward is not None:
            self.onward(who, done, of, what)


@dataclass
class Run:
    """A run whose doors are open."""

    plan: Plan
    options: Options
    folder: Path | None
    federation: Federation
    doors: Mapping[str, Door]  # of the guests that live in this process
    children: Children | None = None
    lines: Lines = field(default_factory=lambda: Lines(None))
    result: dict[str, Any] = field(default_factory=dict)  # Any: JSON
    test_scores: Tensor | None = None  # raw, of the test rows
    failed: list[ReticentError] = field(default_factory=list)  # what guests' own processes ended with
    asked: int = 0  # predictions made after the run

    @property
    def ledger(self) -> Ledger:
        return self.federation.ledger

    @property
    def metrics(self) -> dict[str, Any]:
        return dict(self.result.get("metrics", {}))

    def execute(self) -> dict[str, Any]:
        """Fits, predicts the test rows, measures. Returns the JSON of design §9."""
        plan, deal, federation = self.plan, self.plan.deal, self.federation
        try:
            began = time.monotonic()
            federation.fit()
            fitted = time.monotonic()
            self.test_scores = federation.predict(deal.test)
            done = time.monotonic()
        except ReticentError as error:
            if self.failed:  # the cause; `error` says no more than that the guest went
                raise self.failed[0] from error
            raise
        self.result = outcome(
            plan, self.ledger, self.test_scores, {"fit": round(fitted - began, 3), "predict": round(done - fitted, 3)}, alone=not federation.guests
        )
        model = getattr(federation.driver, "model", None)
        if model is not None and hasattr(model, "name"):
            self.result["model"] = {"name": model.name, "tried": getattr(model, "tried", {})}
        return self.result

    def scores(self, rows: Rows) -> Tensor:
        """Raw scores for rows of the common table: a bool mask, or row numbers."""
        self.asked += 1
        return self.federation.predict(torch.as_tensor(rows), f"predict-{self.asked + self._before()}")

    def predict(self, rows: Rows) -> NDArray[Any]:  # Any: texts or numbers, as the label has them
        """The likeliest class of each row, by its own name; the number, of a regression; 0 or 1 of each of several labels."""
        return decided(self.scores(rows), self.plan.deal.labels)

    def _before(self) -> int:
        return sum(1 for part in {p for p, _, _ in self.ledger.tallies} if part.startswith("predict-")) - (self.asked - 1)

    def predict_proba(self, rows: Rows) -> Tensor:
        """Chances, [rows, classes]; for several labels the chance of each."""
        return chances(self.scores(rows), self.plan.deal.labels.task.kind)

    def keep(self) -> None:
        """Writes what everybody in this process knows into the run's folder, if it has one and is finished."""
        if self.folder is None or not self.result:
            return
        for door in self.doors.values():
            door.keep()
        self.federation.save(self.folder / "state")
        if self.test_scores is not None:
            state.save(self.folder / "scores", self.test_scores)

    def known(self) -> dict[str, bytes]:
        """What everybody in this process knows, by party: `bring_back` gives it to a run that was only begun."""
        asked = self.federation.place.ask - 1
        return {self.plan.host: self.federation.known(), **{name: door.known(asked) for name, door in self.doors.items()}}

    def bring_back(self, known: Mapping[str, bytes]) -> None:
        self.federation.bring_back(known[self.plan.host])
        for name, door in self.doors.items():
            door.bring_back(known[name])

    def save(self, path: str | Path) -> Path:
        """Writes the run to a folder from which `reticent.load` opens it again; a run that has its own folder is copied."""
        path = Path(path).absolute()
        if not self.result:
            raise JournalError("this run is not finished, so there is nothing to save: call execute() first")
        if path != self.folder and (path / "run.json").exists():
            raise JournalError(f"{path} holds a run already: choose another folder")
        if self.folder is None:
            self._write(path)
        elif path == self.folder:
            self.keep()
        elif self.children is not None:
            raise JournalError(f"the guests of this run are processes of their own: close it, and copy its folder, {self.folder}")
        else:
            self.keep()
            shutil.copytree(self.folder, path, ignore=shutil.ignore_patterns("lock", "secret*", "*.part", "tls"))
        self._conclude(path)
        return path

    def _conclude(self, path: Path) -> dict[str, Any]:  # Any: JSON
        """Says in run.json what came out; gives it."""
        result = {**self.result, "out": str(path)}
        state.write(path / "progress.json", json.dumps(self.lines.kept).encode())
        note(path, self.options, result)
        return result

    def finish(self) -> dict[str, Any]:  # Any: JSON
        """Closes, and says last of all in run.json that the run is done: until then it can be gone on with. Gives the result."""
        self.close()
        return dict(self.result) if self.folder is None else self._conclude(self.folder)

    def _write(self, path: Path) -> None:
        """The folder of a run that lived in memory: as if it had been there from the beginning, but for its letters."""
        known = self.known()
        for name, door in {self.plan.host: self.federation.door, **self.doors}.items():
            hosting = name == self.plan.host
            home = path if hosting else path / "parties" / name
            folder_of(home)
            state.write(home / "ledger.jsonl", b"".join(door.ledger.kept))
            state.write(home / ("state" if hosting else "snapshot"), known[name])
            journal = Journal(home)
            journal.begin(run=door.run, study=self.plan.hash, party=name)
            journal.close()
        write_study(path, self.plan)
        if self.test_scores is not None:
            state.save(path / "scores", self.test_scores)

    def report(self, file: str | Path = "report.html") -> Path:
        """Writes the run up as one page of HTML."""
        from reticent import report  # matplotlib and Jinja2 are not needed before

        file = Path(file).absolute()
        truth = self.plan.deal.labels.take(self.plan.deal.test)
        if self.folder is not None:
            self.save(self.folder)
            return report.write(self.folder, file, truth)
        with tempfile.TemporaryDirectory() as folder:
            return report.write(self.save(Path(folder) / "run"), file, truth)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        figures = ", ".join(f"{key} {self.metrics[key]:.4f}" for key in ("auc", "accuracy", "rmse", "r2") if key in self.metrics)
        return f"Run({self.plan.study.study.algorithm}: {figures or 'not finished'})"

    def close(self) -> None:
        """Everybody goes home: states are kept, secrets destroyed, doors closed. The host's secret ends with `note`: until run.json says so, the run
        can be resumed. A run that is not finished is abandoned."""
        if not self.result:
            self.abandon()
            return
        try:
            self.keep()  # before the guests go home: a host that is killed while they do needs nothing of them any more
        except BaseException:
            self.abandon()
            raise
        self.federation.wire.close()
        self._dismiss(20.0)
        if self.folder is not None:
            forget(self.folder)
        for door in (*self.doors.values(), self.federation.door):
            door.close()

    def abandon(self) -> None:
        """Closes without keeping anything more: the run can be resumed, and its guests are told so."""
        self.federation.wire.close(STOPPED)
        self._dismiss(0.0)
        for door in (*self.doors.values(), self.federation.door):
            door.close()

    def _dismiss(self, within: float) -> None:
        if self.children is not None and self.folder is not None:
            self.children.close(within)
            forget_keys(self.folder)


class Nobody:
    """The wire of a host that asks nobody."""

    def exchange(self, letters: Mapping[str, bytes], within: float | None) -> Any:
        raise WireError(f"this algorithm asks nobody, and wanted to send {len(letters)} letters")

    def close(self, last_word: bytes = b"") -> None:
        return


def begin(plan: Plan, options: Options, folder: Path | None = None, progress: Progress | None = None, between: Callable[[], Wire] | None = None) -> Run:
    """Opens the doors of a run: a new one, or one that was killed and lies in `folder`. Nothing is written into a folder that is another run's.

    `between`: opens the wire to guests on other machines, and returns when they are there; it is called when the folder is this run's."""
    use_threads(options.threads)
    device = torch.device(options.device)
    lines = Lines(progress)
    with ExitStack() as opened:  # what fails here leaves no lock behind
        journal = Journal(folder)
        opened.callback(journal.close)
        found = journal.find("run")
        run = found.facts["run"] if found else secrets.token_hex(8)
        if found is not None:
            journal.begin(run=run, study=plan.hash, party=plan.host)  # another run's folder is refused before anything is written into it
        if folder is not None and not ended(folder):
            write_study(folder, plan)  # before any guest starts
            note(folder, options, None)
        journal.begin(run=run, study=plan.hash, party=plan.host)
        host = plans.party(plan, plan.host, folder, device)
        host.told = lines
        door = Door(host, plan.host, plan.hash, run, Ledger(folder / "ledger.jsonl" if folder else None), journal, allowed=homes_of(plan))
        opened.callback(door.close)
        guests = () if getattr(plan.algorithm.Host, "alone", False) else plan.guests
        doors: dict[str, Door] = {}
        children: Children | None = None
        failed: list[ReticentError] = []
        wire: Wire
        if not guests:
            wire = Nobody()
        elif between is not None:
            wire = between()
            opened.callback(wire.close, STOPPED)
        elif options.wire == "inprocess":
            for name in guests:
                doors[name] = guest_door(plan, name, folder / "parties" / name if folder else None, device)
                opened.callback(doors[name].close)
                doors[name].party.told = lines
                doors[name].wake()
            wire = InProcess({name: door.answer for name, door in doors.items()})
        elif options.wire == "processes":
            if folder is None:
                raise StudyError('wire = "processes" needs a folder: give --out')
            wire, children = _start(plan, options, folder, guests, failed, lines)
            opened.callback(forget_keys, folder)
            opened.callback(children.close, 0.0)
            opened.callback(wire.close, STOPPED)
        else:
            raise StudyError(f'wire = "{options.wire}" is not there yet: "inprocess" and "processes" are')
        federation = Federation(plan.algorithm, host, guests, plan.config, wire, door)
        opened.pop_all()
        return Run(plan, options, folder, federation, doors, children, lines, failed=failed)


def use_threads(count: int) -> None:
    """Torch's threads, and those of the libraries under numpy: more than one changes the last bits."""
    torch.set_num_threads(count)
    threadpool_limits(count)


def _start(plan: Plan, options: Options, folder: Path, guests: Sequence[str], failed: list[ReticentError], lines: Lines) -> tuple[Processes, Children]:
    """Guests as processes of this machine, over mutual TLS on loopback; one that ends with an error closes the wire, and `failed` says which."""
    make_tls(folder / "tls", [plan.host, *guests])
    wire = Processes(plan.host, guests, ("127.0.0.1", 0), folder / "tls" / plan.host, patience=PATIENCE)
    files = {study.read_party(Path(path)).name: path for path in options.parties}
    commands, logs = {}, {}
    for name in guests:
        home = folder / "parties" / name
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        logs[name] = home / "log"
        commands[name] = [
            "join", files.get(name, name), str(folder / "study.toml"), "--connect", f"{wire.address[0]}:{wire.address[1]}", "--tls", str(folder / "tls" / name),
            "--out", str(home), "--threads", str(options.threads), "--device", options.device, "--child", *(word for h in options.homes for word in ("--data", h)),
            *(("--fold", str(options.fold)) if options.fold is not None else ()),
        ]  # fmt: skip

    def gone(name: str, code: int, sentence: str) -> None:
        failed.append(said_by.get(code, ReticentError)(f"{name}: {sentence}"))
        wire.close(STOPPED)

    children = Children(commands, logs, gone, lines)
    try:
        wire.wait(START)
    except BaseException as error:
        wire.close(STOPPED)
        children.close(0.0)
        forget_keys(folder)
        if failed and isinstance(error, WireError):
            raise failed[0] from error
        raise
    return wire, children


def guest_door(plan: Plan, name: str, folder: Path | None, device: torch.device, confirm: Callable[[str], bool] | None = None) -> Door:
    """A guest's door, ready to be woken."""
    party = plans.party(plan, name, folder_of(folder), device)
    guest = plan.algorithm.Guest(party, plan.config)
    return Door(party, plan.host, plan.hash, "", Ledger(folder / "ledger.jsonl" if folder else None), Journal(folder), guest, confirm, homes_of(plan))


def homes_of(plan: Plan) -> tuple[str, ...]:
    return ("reticent", str(plan.algorithm.Host.__module__).split(".")[0])


def to_completion(
    wanted: Study,
    options: Options,
    folder: Path | None,
    progress: Progress | None = None,
    algorithm: Any = None,  # Any: as in `plan.make`
    found: Set | None = None,
    between: Callable[[], Wire] | None = None,
) -> Run:
    """Runs a study from where it stands to its end. The doors are open still: `close` them. `algorithm`, `found`: as in `plan.make`; `between`: as in `begin`."""
    if folder is not None and (folder / "run.json").exists():
        said = noted(folder)
        if said["state"] == "done":
            raise JournalError(f"{folder} holds a finished run: `reticent report {folder}` writes it up; choose another --out for a new one")
        if said["sweep"]:
            raise JournalError(f"{folder} holds several runs: `reticent resume {folder}` goes on with them; choose another --out for one run")
    files = {file.name: file for file in map(study.read_party, map(Path, options.parties))}
    plan = plans.make(wanted, homes=[Path(home) for home in options.homes], files=files, fold=options.fold, algorithm=algorithm, found=found)
    if between is None and wanted.parties and set(files) < {plan.host, *plan.guests}:
        raise StudyError(
            f"the study's parties are {plan.host}, {', '.join(plan.guests)}; give all their files with --parties, or use `reticent host` and `reticent join`"
        )
    run = begin(plan, options, folder, progress, between)
    try:
        run.execute()
    except BaseException:
        run.abandon()
        raise
    return run


def reopen(folder: Path, progress: Progress | None = None, algorithm: Any = None, found: Set | None = None) -> Run:  # Any: as in `plan.make`
    """A finished run, its model and its guests as they were left, to predict with: all on this machine."""
    said = noted(folder)
    if said["state"] != "done":
        raise JournalError(f"{folder} holds a run that is not finished: `reticent resume {folder}` goes on with it")
    options = Options(**{**asdict(options_of(said)), "wire": "inprocess"})
    wanted = study.read_study(folder / "study.toml")
    files = {file.name: file for file in map(study.read_party, map(Path, options.parties))}
    plan = plans.make(wanted, homes=[Path(home) for home in options.homes], files=files, fold=options.fold, algorithm=algorithm, found=found)
    if plan.hash != said["result"]["study"]:
        raise DataError(f"{folder}: the study or its data is not what it was: its hash was {said['result']['study'][:16]}…, it is {plan.hash[:16]}…")
    run = begin(plan, options, folder, progress)
    try:
        run.federation.reopen(folder / "state")
        run.test_scores = state.load(folder / "scores")
    except BaseException:
        run.abandon()
        forget(folder)  # it was made anew as the doors opened
        raise
    run.result = dict(said["result"])
    return run
