"""The real path between machines, on loopback: certificates, a host and its guests as commands of their own, what breaks and what goes on."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch

ROOT = Path(__file__).parents[2]
HOST, GUESTS = "bank", ("shop", "telco")
ROWS = 240
FEDONCE = 'algorithm = "fedonce"\ntask = "classification"\n{parties}\n[config]\nencoder = "pca"\nmodel = "linear"\ndim = 2\n'
SPLITNN = 'algorithm = "splitnn"\ntask = "classification"\n{parties}\n[config]\ndim = 2\nbatch = 40\nepochs = {epochs}\n'
PARTIES = f'[parties]\nhost = "{HOST}"\nguests = ["shop", "telco"]'


def study(folder: Path, name: str, text: str, **values: object) -> Path:
    path = folder / f"{name}.toml"
    path.write_text(f'[study]\nname = "{name}"\n' + text.format(parties=PARTIES, **values))
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Party files, their tables, and certificates as `reticent init --tls` makes them."""
    folder = tmp_path_factory.mktemp("between")
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, 6, generator=draw)
    y = (x @ torch.tensor([1.0, 0.5, 1.0, -0.5, 1.0, 0.5]) > 0).int()
    for place, name in enumerate((HOST, *GUESTS)):
        columns = {"id": list(range(ROWS)), "a": x[:, 2 * place].tolist(), "b": x[:, 2 * place + 1].tolist()}
        pl.DataFrame({**columns, "y": y.tolist()} if name == HOST else columns).write_parquet(folder / f"{name}.parquet")
        label = 'label = "y"\n' if name == HOST else ""
        (folder / f"{name}.toml").write_text(f'name = "{name}"\ntable = "{name}.parquet"\nid = "id"\n{label}')
    made = command("init", *(word for name in (HOST, *GUESTS) for word in ("--tls", name)), "certificates", cwd=folder)
    assert made.wait(60) == 0
    return folder


def command(*words: str, cwd: Path, **streams: Any) -> subprocess.Popen[str]:  # Any: Popen's own
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
    return subprocess.Popen([sys.executable, "-m", "reticent", *words], text=True, env=environment, cwd=cwd, **{**quiet, **streams})


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@dataclass
class Machines:
    """One test's commands. They run side by side, as on machines of their own; `ended` gives what one said."""

    folder: Path  # with the party files
    own: Path  # where they work
    port: int = field(default_factory=free_port)
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, *words: str) -> subprocess.Popen[str]:
        self.started.append(command(*words, cwd=self.own, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return self.started[-1]

    def host(self, study: Path, *words: str, tls: str = HOST) -> subprocess.Popen[str]:
        listen, folder = f"127.0.0.1:{self.port}", self.folder / "certificates" / tls
        return self.start("host", str(self.folder / "bank.toml"), str(study), "--listen", listen, "--tls", str(folder), "--json", *words)

    def join(self, name: str, study: Path, *words: str, tls: str | None = None) -> subprocess.Popen[str]:
        connect, folder = f"127.0.0.1:{self.port}", self.folder / "certificates" / (tls or name)
        return self.start("join", str(self.folder / f"{name}.toml"), str(study), "--connect", connect, "--tls", str(folder), "--json", *words)

    def ledger(self, home: str) -> list[dict[str, Any]]:  # Any: JSON
        path = self.own / home / "ledger.jsonl"
        return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]] if path.exists() else []

    def until(self, home: str, letters: int) -> None:
        """Waits until so many letters stand in the ledger."""
        end = time.monotonic() + 60
        while len(self.ledger(home)) < letters:
            assert time.monotonic() < end, f"{home}: {len(self.ledger(home))} letters, {letters} awaited"
            time.sleep(0.005)


def ended(process: subprocess.Popen[str], code: int = 0) -> tuple[str, str]:
    out, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert "Traceback" not in err
    return out, err


@pytest.fixture
def machines(place: Path, tmp_path: Path) -> Iterator[Machines]:
    made = Machines(place, tmp_path)
    yield made
    for process in made.started:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def expected(place: Path) -> str:
    """The digest of the long study, all of it in one process."""
    wanted = study(place, "long", SPLITNN, epochs=60)
    words = ("run", str(wanted), "--wire", "inprocess", "--out", "whole", "--json")
    done = command(*words, *(w for name in (HOST, *GUESTS) for w in ("--parties", f"{name}.toml")), cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return str(json.loads(ended(done)[0])["digest"])


def test_a_host_and_two_guests_end_with_a_result_and_nobody_keeps_a_secret(machines: Machines) -> None:
    wanted = study(machines.folder, "short", FEDONCE)
    wanted.write_text(wanted.read_text().replace('name = "short"', 'name = "../short"'))  # a name is no path
    guests = {name: machines.join(name, wanted) for name in GUESTS}
    result = json.loads(ended(machines.host(wanted))[0])
    assert result["out"] == str(machines.own / "runs" / "short")
    assert result["metrics"]["auc"] > 0.9
    for name, guest in guests.items():
        said = json.loads(ended(guest)[0])
        lines = machines.ledger(f"runs/short-{name}")
        sizes = {way: sum(line["bytes"] for line in lines if line["way"] == way) for way in ("up", "down")}
        assert said == {"party": name, "run": said["run"], "bytes": sizes, "ledger": f"runs/short-{name}/ledger.jsonl"}
    assert sorted(path.name for path in (machines.own / "runs").iterdir()) == ["short", "short-shop", "short-telco"]
    assert not list(machines.own.rglob("secret*"))
    assert (machines.own / "runs" / "short" / "progress.json").exists()

    before = {path: path.read_bytes() for path in (machines.own / "runs" / "short").rglob("*") if path.is_file()}
    _, refused = ended(machines.host(wanted, "--out", "runs/short"), 9)  # the finished run is left as it was
    assert "holds a finished run: `reticent report" in refused
    assert {path: path.read_bytes() for path in (machines.own / "runs" / "short").rglob("*") if path.is_file()} == before

    guests = {name: machines.join(name, wanted) for name in GUESTS}  # the same commands once more: a run of its own beside it
    again = json.loads(ended(machines.host(wanted))[0])
    assert again["out"] == str(machines.own / "runs" / "short-2")
    assert again["digest"] == result["digest"]
    assert {json.loads(ended(guest)[0])["ledger"] for guest in guests.values()} == {f"runs/short-{name}-2/ledger.jsonl" for name in GUESTS}


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_host_that_was_stopped_goes_on_with_the_same_command_and_finds_its_guests(machines: Machines, expected: str, how: signal.Signals) -> None:
    wanted = machines.folder / "long.toml"
    guests = [machines.join(name, wanted, "--out", name) for name in GUESTS]
    first = machines.host(wanted, "--out", "run")
    machines.until("run", 60)
    first.send_signal(how)
    out, err = ended(first, 130 if how == signal.SIGINT else -signal.SIGKILL)
    assert out == ""
    assert how == signal.SIGKILL or "goes on with this run" in err
    assert [guest.poll() for guest in guests] == [None, None]
    assert (machines.own / "shop" / "secret").exists()
    assert json.loads((machines.own / "run" / "run.json").read_text())["state"] == "running"
    result = json.loads(ended(machines.host(wanted, "--out", "run"))[0])
    assert result["digest"] == expected
    for guest in guests:
        ended(guest)
    assert not list(machines.own.rglob("secret*"))


def test_a_guest_that_was_killed_goes_on_when_it_joins_again(machines: Machines, expected: str) -> None:
    wanted = machines.folder / "long.toml"
    shop, telco = (machines.join(name, wanted, "--out", name) for name in GUESTS)
    host = machines.host(wanted, "--out", "run")
    machines.until("shop", 60)
    shop.kill()
    ended(shop, -signal.SIGKILL)
    again = machines.join("shop", wanted, "--out", "shop")
    assert json.loads(ended(host)[0])["digest"] == expected
    for guest in (again, telco):
        ended(guest)
    for home in ("run", "shop"):  # nothing stands twice but what crossed again
        first = [(line["n"], line["from"], line["to"], line["way"]) for line in machines.ledger(home) if not line.get("again")]
        assert len(first) == len(set(first))


def test_a_guest_with_somebody_elses_certificates_does_not_join(machines: Machines) -> None:
    wanted = machines.folder / "long.toml"
    _, err = ended(machines.join("shop", wanted, tls="telco"), 8)
    assert "names 'telco', and this party is 'shop'" in err


def test_a_guest_with_another_study_refuses_and_both_hashes_are_shown(machines: Machines) -> None:
    mine = study(machines.folder, "mine", FEDONCE)
    theirs = machines.folder / "theirs.toml"
    theirs.write_text(mine.read_text().replace("dim = 2", "dim = 1"))
    guests = [machines.join("shop", mine, "--out", "shop"), machines.join("telco", theirs, "--out", "telco")]
    _, err = ended(machines.host(mine, "--out", "run"), 7)
    found = re.search(r"telco holds another study: its hash is ([0-9a-f]{16})…, the host's ([0-9a-f]{16})…: compare the two study files", err)
    assert found is not None, err
    assert found[1] != found[2]
    assert [guest.poll() for guest in guests] == [None, None]  # they wait for the host that has the right file
