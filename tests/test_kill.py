"""A run that is killed goes on to the same bits: in one process at every point where it touches the disk or a wire, and by real SIGKILLs."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from reticent import journal as journals
from reticent import state, study
from reticent.journal import Journal
from reticent.ledger import Ledger
from reticent.run import Options
from reticent.sweeps import conduct
from reticent.wires.inprocess import InProcess
from tests.toys import Killed

HERE = Path(__file__).parent
DATA = '[data]\nset = "default_credit"\nsplit = "equal"\nhost = 0\nrows = 200\ntest = 0.2\n'
FEDONCE = 'dim = 2\nmodel = "linear"\n'
SPLITNN = "dim = 2\nbatch = 80\nepochs = 1\n"


def text(algorithm: str, parties: int, prefix: str = "") -> str:
    config = FEDONCE if algorithm == "fedonce" else SPLITNN
    return f'[study]\nname = "kill"\nalgorithm = "{prefix}{algorithm}"\ntask = "classification"\n{DATA}parties = {parties}\n[config]\n{config}'


def lines(path: Path) -> list[bytes]:
    """A ledger's whole lines: a kill may have torn the last one."""
    return [line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")] if path.exists() else []


def key(line: bytes) -> tuple[str, ...]:
    entry = json.loads(line)
    return entry["n"], entry["from"], entry["to"], entry["verb"], entry["way"]


def ledgers(folder: Path) -> dict[str, Path]:
    return {str(path.relative_to(folder)): path for path in sorted(folder.rglob("ledger.jsonl"))}


def holds(folder: Path, before: Mapping[str, list[bytes]], whole: Mapping[str, list[bytes]]) -> None:
    """What stood before the kill stands to the byte; no letter stands twice but those marked `again`; none is missing; each spends once."""
    after = {name: lines(path) for name, path in ledgers(folder).items()}
    assert after.keys() == whole.keys()
    for name, found in after.items():
        stood = before.get(name, [])
        assert found[: len(stood)] == stood
        first = [key(line) for line in found if not json.loads(line).get("again")]
        assert len(first) == len(set(first))
        assert set(first) == set(map(key, whole[name]))
        assert {key(line) for line in found} == set(first)


class Death:
    """Counts the points at which a run touches the disk or a wire, and dies at one of them: before it, or with half of a write on the disk."""

    def __init__(self, at: int) -> None:
        self.at, self.count = at, 0
        self.opened: list[Journal | Ledger] = []

    def point(self) -> bool:
        self.count += 1
        return self.count == self.at

    def before(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def deadly(*arguments: Any, **facts: Any) -> Any:
            if self.point():
                raise Killed
            return real(*arguments, **facts)

        return deadly

    def torn(self, real: Callable[[int, Any], int]) -> Callable[[int, Any], int]:
        def deadly(descriptor: int, data: Any) -> int:
            if self.point():
                real(descriptor, data[: len(data) // 2])
                raise Killed
            return real(descriptor, data)

        return deadly

    def exchange(self, real: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        def deadly(*arguments: Any) -> Iterator[Any]:
            if self.point():
                raise Killed
            for came in real(*arguments):
                if self.point():
                    raise Killed
                yield came

        return deadly

    def remember(self, real: Callable[..., None]) -> Callable[..., None]:
        def init(one: Any, *arguments: Any, **facts: Any) -> None:
            self.opened.append(one)
            one._file = one._lock = None if isinstance(one, Ledger) else -1
            real(one, *arguments, **facts)

        return init

    def strikes(self, run: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "write", self.torn(os.write))
            patch.setattr(Journal, "add", self.before(Journal.add))
            patch.setattr(Ledger, "add", self.before(Ledger.add))
            patch.setattr(state, "write", self.before(state.write))
            patch.setattr(InProcess, "exchange", self.exchange(InProcess.exchange))
            for kind in (Journal, Ledger):
                patch.setattr(kind, "__init__", self.remember(kind.__init__))
            try:
                return run()
            except Killed:
                return None
            finally:
                for one in self.opened:  # the files and locks of a process end with it
                    one.close()


@pytest.mark.parametrize("algorithm, snapshots", [("fedonce", False), ("splitnn", False), ("splitnn", True)])
def test_a_run_killed_at_any_point_goes_on_to_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str, snapshots: bool) -> None:
    if snapshots:  # after every answer and every step, and letters before them are dropped
        monkeypatch.setattr(journals, "SNAPSHOT_EVERY", 0.0)
        monkeypatch.setattr(journals, "DROP_FROM", 0)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # a kill takes nothing from the system's memory; test_journal has when it is called
    wanted = tmp_path / "study.toml"
    wanted.write_text(text(algorithm, 3))

    def run(folder: Path) -> dict[str, Any]:
        return conduct(study.read_study(wanted), Options(), folder)

    census = Death(0)
    expected = census.strikes(lambda: run(tmp_path / "whole"))
    assert expected is not None
    whole = {name: lines(path) for name, path in ledgers(tmp_path / "whole").items()}
    step = 3 if snapshots else 1  # the same points lie closer together there
    for at in range(1, census.count + 1, step):
        folder = tmp_path / str(at)
        assert Death(at).strikes(lambda folder=folder: run(folder)) is None, f"nothing died at point {at}"  # type: ignore[misc]
        before = {name: lines(path) for name, path in ledgers(folder).items()}
        assert run(folder)["digest"] == expected["digest"], f"killed at point {at}"
        holds(folder, before, whole)


ORDERS = {  # who dies, where, the how-manieth time, who with it: with the kill from outside below, a dozen
    "fedonce": ["p1,verb,2,me", "p1,after answer,2,me", "host,before heard,2,me", "host,after heard,2,all", "p1,verb,3,all", "host,asked,1,me"],
    "splitnn": ["p1,verb,4,me", "p1,after answer,3,all", "p1,arrived,4,me", "host,after heard,4,me", "host,asked,5,all"],
}


def reticent(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command, in a process group of its own."""
    environment = {**os.environ, "MORTAL": str(folder / "order"), "PYTHONPATH": str(HERE), "OMP_NUM_THREADS": "1"}
    started = subprocess.Popen(
        [sys.executable, "-m", "reticent", *words, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True, cwd=HERE.parent
    )  # fmt: skip
    try:
        out, err = started.communicate(timeout=120)
    finally:
        if started.poll() is None:
            os.killpg(started.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(words, started.returncode, out, err)


def killed(folder: Path, algorithm: str, order: str, expected: str, whole: Mapping[str, list[bytes]]) -> None:
    """One real kill. A guest that dies alone is started again and the run goes on by itself; otherwise `reticent resume` goes on with it."""
    victim, _, _, whom = order.split(",")
    folder.mkdir()
    (folder / "order").write_text(order)
    (folder / "study.toml").write_text(text(algorithm, 2, "mortal:"))
    ended = reticent(folder, "run", str(folder / "study.toml"), "--wire", "processes", "--out", str(folder / "run"))
    assert not (folder / "order").exists(), f"{order}: nobody died; {ended.stderr}"
    before: dict[str, list[bytes]] = {}
    if victim == "p1" and whom == "me":
        assert ended.returncode == 0, f"{order}: the run did not go on by itself; {ended.stderr}"
    else:
        assert ended.returncode == -signal.SIGKILL, f"{order}: {ended.returncode} {ended.stderr}"
        before = {name: lines(path) for name, path in ledgers(folder / "run").items()}
        ended = reticent(folder, "resume", str(folder / "run"))
        assert ended.returncode == 0, f"{order}: {ended.stderr}"
    assert json.loads(ended.stdout)["digest"] == expected, order
    holds(folder / "run", before, whole)
    assert not list((folder / "run").rglob("secret*")), "a finished run keeps no secret"
    assert {path.stat().st_mode & 0o777 for path in (folder / "run").rglob("*") if path.is_file()} == {0o600}, "its files are its owner's"


@pytest.mark.timeout(400)
def test_real_kills_at_chosen_points_end_in_the_same_bits(tmp_path: Path) -> None:
    cases, wholes = [], {}
    for algorithm, orders in ORDERS.items():
        (tmp_path / f"{algorithm}.toml").write_text(text(algorithm, 2))
        expected = conduct(study.read_study(tmp_path / f"{algorithm}.toml"), Options(), tmp_path / algorithm)["digest"]
        wholes[algorithm] = {name: lines(path) for name, path in ledgers(tmp_path / algorithm).items()}
        cases += [(tmp_path / f"{algorithm}-{number}", algorithm, order, expected, wholes[algorithm]) for number, order in enumerate(orders)]
    with ThreadPoolExecutor(3) as side_by_side:
        for outcome in [side_by_side.submit(killed, *case) for case in cases]:
            outcome.result()


def test_all_killed_from_outside_at_a_letter_nobody_chose(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(text("splitnn", 2).replace("epochs = 1", "epochs = 20"))
    expected = conduct(study.read_study(tmp_path / "study.toml"), Options(), tmp_path / "whole")["digest"]
    words = [sys.executable, "-m", "reticent", "run", str(tmp_path / "study.toml"), "--wire", "processes", "--out", str(tmp_path / "run"), "--json"]
    started = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    until = time.monotonic() + 60
    while len(lines(tmp_path / "run" / "ledger.jsonl")) < 20 and started.poll() is None and time.monotonic() < until:
        time.sleep(0.005)
    assert started.poll() is None
    os.killpg(started.pid, signal.SIGKILL)
    started.wait()
    before = {name: lines(path) for name, path in ledgers(tmp_path / "run").items()}
    ended = reticent(tmp_path, "resume", str(tmp_path / "run"))
    assert json.loads(ended.stdout)["digest"] == expected, ended.stderr
    holds(tmp_path / "run", before, {name: lines(path) for name, path in ledgers(tmp_path / "whole").items()})
