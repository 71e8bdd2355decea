"""A run's folder: whose it is, what goes when the run has ended, and how a guest's own failure ends a run."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from reticent import plan as plans
from reticent import run as runs
from reticent import study
from reticent.errors import FormatError, JournalError, MissingReplies, PartyError, Refused, ReticentError
from reticent.run import Options
from reticent.study import Study

ROOT = Path(__file__).parents[1]
SIMULATED = '[data]\nset = "default_credit"\nsplit = "equal"\nparties = 3\nhost = 0\nrows = 200\ntest = 0.2\n'
FILES = '[parties]\nhost = "bank"\nguests = ["shop"]\n'


def wanted(folder: Path, dim: int = 2, where: str = SIMULATED, algorithm: str = "fedonce", more: str = 'model = "linear"\n') -> Study:
    path = folder / "wanted.toml"
    path.write_text(f'[study]\nname = "run"\nalgorithm = "{algorithm}"\ntask = "classification"\n{where}[config]\ndim = {dim}\n{more}')
    return study.read_study(path)


def parties(folder: Path, policy: str = "", table: str = "shop.parquet") -> tuple[str, ...]:
    """Two party files, the guest's with this policy and this table."""
    rows = range(40)
    pl.DataFrame({"id": rows, "a": [i % 7 for i in rows], "y": [i % 2 for i in rows]}).write_parquet(folder / "bank.parquet")
    pl.DataFrame({"id": rows, "b": [i % 5 for i in rows], "c": [i % 3 for i in rows]}).write_parquet(folder / "shop.parquet")
    (folder / "bank.toml").write_text('name = "bank"\ntable = "bank.parquet"\nid = "id"\nlabel = "y"\n')
    (folder / "shop.toml").write_text(f'name = "shop"\ntable = "{table}"\nid = "id"\n{policy}')
    return str(folder / "bank.toml"), str(folder / "shop.toml")


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_finished_runs_folder_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    runs.to_completion(wanted(tmp_path), Options(), tmp_path / "run").finish()
    before = everything(tmp_path / "run")
    for dim in (2, 1):
        with pytest.raises(JournalError, match=r"run holds a finished run: `reticent report .*run` writes it up; choose another --out"):
            runs.to_completion(wanted(tmp_path, dim), Options(), tmp_path / "run")
        assert everything(tmp_path / "run") == before


def test_another_studys_unfinished_run_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    runs.begin(plans.make(wanted(tmp_path)), Options(threads=1), tmp_path / "run").abandon()
    before = everything(tmp_path / "run")
    with pytest.raises(JournalError, match="belongs to a run with study"):
        runs.to_completion(wanted(tmp_path, dim=1), Options(device="cpu", compare=("solo",)), tmp_path / "run")
    assert everything(tmp_path / "run") == before
    with runs.to_completion(wanted(tmp_path), Options(), tmp_path / "run") as run:  # and its own study goes on there
        assert run.finish()["out"] == str(tmp_path / "run")


def test_a_folder_of_several_runs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    runs.note(tmp_path / "run", Options(), None, {"seeds": [0, 1], "folds": None})
    with pytest.raises(JournalError, match="holds several runs: `reticent resume"):
        runs.to_completion(wanted(tmp_path), Options(), tmp_path / "run")


def test_a_finished_run_says_done_last_and_keeps_no_secret(tmp_path: Path) -> None:
    run = runs.to_completion(wanted(tmp_path), Options(), tmp_path / "run")
    homes = [tmp_path / "run", *(tmp_path / "run" / "parties").iterdir()]
    assert [(home / "secret").exists() for home in homes] == [True] * 3
    run.close()  # a kill here leaves a run to go on with: its model is there, and it is not yet done
    assert runs.noted(tmp_path / "run")["state"] == "running"
    assert (tmp_path / "run" / "state").exists()
    assert [(home / "secret").exists() for home in homes] == [True, False, False]
    digest = run.result["digest"]
    assert runs.to_completion(wanted(tmp_path), Options(), tmp_path / "run").finish()["digest"] == digest
    assert runs.noted(tmp_path / "run")["state"] == "done"
    assert not list((tmp_path / "run").rglob("secret*"))


def test_a_run_with_guests_of_their_own_process_leaves_no_secret_and_no_private_key(tmp_path: Path) -> None:
    run = runs.to_completion(wanted(tmp_path), Options(wire="processes"), tmp_path / "run")
    assert len(list((tmp_path / "run").rglob("secret"))) == 3
    assert len(list((tmp_path / "run").glob("tls/*/key.pem"))) == 3
    assert run.children is not None
    run.children.running["p2"].kill()  # who cannot tidy up after itself any more
    run.finish()
    assert not list((tmp_path / "run").rglob("secret*"))
    assert not list((tmp_path / "run").rglob("key.pem"))
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "run").rglob("log")} == {0o600}
    with runs.reopen(tmp_path / "run") as again:
        assert again.scores([0, 1, 2]).shape[0] == 3
    assert not list((tmp_path / "run").rglob("secret*"))


def test_a_run_that_is_abandoned_keeps_its_secrets_and_goes_on_with_new_keys(tmp_path: Path) -> None:
    plan = plans.make(wanted(tmp_path))
    run = runs.begin(plan, Options(wire="processes"), tmp_path / "run")
    run.federation.fit()
    kept = {path: path.read_bytes() for path in (tmp_path / "run").rglob("secret")}
    began = time.monotonic()
    run.abandon()
    assert time.monotonic() - began < 5
    assert len(kept) == 3
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("secret")} == kept  # a guest that took this for the end would destroy its own
    assert not list((tmp_path / "run").rglob("key.pem"))
    assert run.children is not None
    assert None not in [child.poll() for child in run.children.running.values()]
    expected = runs.to_completion(wanted(tmp_path), Options(), tmp_path / "whole").finish()["digest"]
    assert runs.to_completion(wanted(tmp_path), Options(wire="processes"), tmp_path / "run").finish()["digest"] == expected


def test_an_interrupt_from_the_terminal_leaves_a_name_and_a_run_that_goes_on(tmp_path: Path) -> None:
    wanted(tmp_path, algorithm="splitnn", more="batch = 40\nepochs = 40\n")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}

    def reticent(*words: str) -> subprocess.Popen[str]:
        whole = [sys.executable, "-m", "reticent", *words]
        return subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=tmp_path, start_new_session=True)

    started = reticent("run", "wanted.toml", "--wire", "processes", "--out", "run")
    ledger = tmp_path / "run" / "ledger.jsonl"
    until = time.monotonic() + 60
    while (not ledger.exists() or ledger.read_bytes().count(b"\n") < 60) and time.monotonic() < until:
        time.sleep(0.005)
    os.killpg(started.pid, signal.SIGINT)  # as Ctrl-C does: the guests too
    _, said = started.communicate(timeout=30)
    assert started.returncode == 130, said
    assert said.startswith("kept in run; if it is stopped, `reticent resume run` goes on with it\n")
    assert len(list((tmp_path / "run").rglob("secret"))) == 3
    resumed = reticent("resume", "run", "--json")
    out, said = resumed.communicate(timeout=60)
    assert resumed.returncode == 0, said
    whole = runs.to_completion(study.read_study(tmp_path / "wanted.toml"), Options(), tmp_path / "whole").finish()
    assert json.loads(out)["digest"] == whole["digest"]


@pytest.mark.parametrize(
    "policy, table, kind, sentence",
    [
        ('[policy]\nunnoised = "never"\n', "shop.parquet", Refused, 'shop: policy of shop: unnoised = "never", but verb'),
        ("", "none.parquet", PartyError, r"shop: .*none\.parquet"),
    ],
)
def test_a_guest_whose_process_fails_ends_the_run_at_once_with_its_own_sentence(
    tmp_path: Path, policy: str, table: str, kind: type[ReticentError], sentence: str
) -> None:
    files = parties(tmp_path)
    asked = wanted(tmp_path, where=FILES)
    plan = plans.make(asked, files={file.name: file for file in map(study.read_party, map(Path, files))})
    parties(tmp_path, policy, table)  # the host's process read the good file; the guest's reads this one
    began = time.monotonic()
    with pytest.raises(kind, match=sentence):
        runs.begin(plan, Options(wire="processes", parties=files), tmp_path / "run")
    assert time.monotonic() - began < 10
    with pytest.raises(kind, match=sentence):  # once more: no lock stayed behind
        runs.begin(plan, Options(wire="processes", parties=files), tmp_path / "run")


def test_a_guest_that_fails_for_good_in_the_middle_of_a_run_ends_it_at_once(tmp_path: Path) -> None:
    files = parties(tmp_path)
    asked = wanted(tmp_path, where=FILES)
    plan = plans.make(asked, files={file.name: file for file in map(study.read_party, map(Path, files))})
    run = runs.begin(plan, Options(wire="processes", parties=files), tmp_path / "run")
    parties(tmp_path, '[policy]\nunnoised = "never"\n')
    assert run.children is not None
    began = time.monotonic()
    run.children.running["shop"].kill()  # started again, it reads its operator's new policy
    with pytest.raises(Refused, match='^shop: policy of shop: unnoised = "never"'):
        run.execute()
    assert time.monotonic() - began < 10
    run.abandon()


@pytest.mark.parametrize("wire", ["inprocess", "processes"])
def test_a_party_that_a_person_must_approve_for_says_how_where_nobody_is_asked(tmp_path: Path, wire: str) -> None:
    files = parties(tmp_path, "[policy]\napprove = true\n")
    with pytest.raises(MissingReplies, match="start this party with `reticent join` on a terminal"):
        runs.to_completion(wanted(tmp_path, where=FILES), Options(wire=wire, parties=files), tmp_path / "run")


@pytest.mark.parametrize("broken, kind", [(b"", JournalError), (b"\x10\0\0\0\0\0\0\0{}              ", FormatError)])
def test_a_run_that_cannot_be_opened_again_leaves_no_lock_and_no_secret(tmp_path: Path, broken: bytes, kind: type[ReticentError]) -> None:
    runs.to_completion(wanted(tmp_path), Options(), tmp_path / "run").finish()
    whole = (tmp_path / "run" / "state").read_bytes()
    (tmp_path / "run" / "state").write_bytes(broken)
    with pytest.raises(kind):
        runs.reopen(tmp_path / "run")
    assert not list((tmp_path / "run").rglob("secret*"))
    (tmp_path / "run" / "state").write_bytes(whole)
    began = time.monotonic()
    with runs.reopen(tmp_path / "run") as run:
        assert time.monotonic() - began < 5  # a lock is waited for longer than that
        assert run.scores([0]).shape[0] == 1


@pytest.mark.parametrize("name, folder", [("credit-default", "credit-default"), ("../x", "x"), ("Who will pay?", "Who-will-pay"), ("..", "run"), ("/", "run")])
def test_a_studys_name_makes_a_folder_that_lies_within(name: str, folder: str) -> None:
    assert runs.slug(name) == folder
