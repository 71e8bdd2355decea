"""The demo's files, what it shows while it runs, and that the quickstart runs."""

import io
import json
import subprocess
import sys
from pathlib import Path

import polars as pl
from rich.console import Console

from reticent import study
from reticent.cli import demo

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"


def test_the_examples_files_are_the_demos() -> None:
    written = {"study.toml": demo.STUDY, **{f"{name}.toml": demo.party_file(name) for name in demo.views}}
    assert {path.name: path.read_text() for path in (EXAMPLES / "credit").glob("*.toml")} == written


def test_a_bank_and_three_guests_hold_the_same_customers_and_other_columns(tmp_path: Path) -> None:
    files = demo.prepare(tmp_path / "files")
    tables = {path.stem: pl.read_parquet(path.with_suffix(".parquet")) for path in files}
    assert {name: frame.width - 1 for name, frame in tables.items()} == {"bank": 6, "repayments": 6, "bills": 6, "payments": 6}
    assert all(frame["customer"].to_list() == list(range(1, 30_001)) for frame in tables.values())
    assert sum(tables["bank"]["default"]) == 6636  # of the published set
    wanted = study.read_study(tmp_path / "files" / "study.toml")
    parties = [study.read_party(file) for file in files]
    assert wanted.parties is not None
    assert [party.name for party in parties] == [wanted.parties.host, *wanted.parties.guests]
    assert [party.label for party in parties] == ["default", None, None, None]


def test_a_second_demo_has_a_folder_of_its_own(tmp_path: Path) -> None:
    made = set()
    for _ in range(3):
        folder = demo.new_folder(tmp_path)
        folder.mkdir()
        made.add(folder)
    assert len(made) == 3


def test_a_line_a_party_shows_what_it_said_and_heard(tmp_path: Path) -> None:
    view = demo.View(tmp_path, ("fedonce", "solo"))
    assert "starts its process" in drawn(view)
    letters = [("bank", "bills", "down", 4100), ("bills", "bank", "up", 288_400)]
    lines = [json.dumps({"from": a, "to": b, "way": way, "verb": "learn", "bytes": size}) + "\n" for a, b, way, size in letters]
    (tmp_path / "ledger.jsonl").write_text(lines[0] + lines[1][:20])  # a line that is being written is waited for
    assert "asked to learn" in drawn(view)
    (tmp_path / "ledger.jsonl").write_text("".join(lines))
    view("bank", 3, 30, "epoch 3 of 30, loss 0.4000")
    shown = drawn(view)
    assert "answered learn" in shown
    assert "288.4 kB" in shown
    assert "epoch 3 of 30" in shown
    (tmp_path / "compare" / "solo").mkdir(parents=True)
    (tmp_path / "compare" / "solo" / "ledger.jsonl").write_text("")
    assert "is not asked" in drawn(view)


def drawn(view: demo.View) -> str:
    console = Console(width=110, record=True, file=io.StringIO())
    console.print(view)
    return console.export_text()


def test_the_quickstart_runs_and_gains_by_its_partners(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, EXAMPLES / "quickstart.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    alone, together = (float(line.split("AUC ")[1][:5]) for line in done.stdout.splitlines()[:2])
    assert together > alone + 0.1
    assert (tmp_path / "quickstart.html").read_text().startswith("<!doctype html>")
