import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from reticent.cli.commands import app
from reticent.errors import JournalError

STUDY = """[study]
name = "credit"
algorithm = "fedonce"
task = "classification"
[data]
set = "default_credit"
split = "columns"
columns = [5, 9, 9]
rows = 600
test = 0.2
[config]
dim = 3
model = "gbdt"
trees = 20
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("worth")
    (made / "study.toml").write_text(STUDY)
    done = CliRunner().invoke(app, ["run", str(made / "study.toml"), "--out", str(made / "run"), "--json"])
    assert done.exception is None, done.exception
    return made / "run"


def test_worth_prints_one_object_and_adds_no_line_to_any_ledger(folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("ledger.jsonl")}
    done = CliRunner().invoke(app, ["worth", str(folder), "--json"])
    found = json.loads(done.stdout)
    assert set(found) == {"metric", "all", "solo", "leave_one_out", "shapley", "interval", "absent", "fits", "seconds"}
    assert (found["metric"], found["fits"], set(found["shapley"])) == ("auc", 3, {"p1", "p2"})
    assert found["all"] == json.loads((folder / "run.json").read_text())["result"]["metrics"]["auc"]
    assert sum(found["shapley"].values()) == pytest.approx(found["all"] - found["solo"], abs=1e-12)
    assert {path: path.read_bytes() for path in folder.rglob("ledger.jsonl")} == before
    assert not list(folder.rglob("secret*"))


def test_people_read_a_table_with_a_line_a_guest(folder: Path) -> None:
    shown = CliRunner().invoke(app, ["worth", str(folder)]).stdout
    assert "nothing sent" in shown and "Shapley value" in shown
    assert sum(line.startswith(("p1", "p2")) for line in shown.splitlines()) == 2


def test_several_runs_in_one_folder_are_named_and_refused(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    assert CliRunner().invoke(app, ["run", str(tmp_path / "study.toml"), "--seeds", "0-1", "--out", str(tmp_path / "runs"), "--json"]).exception is None
    error = CliRunner().invoke(app, ["worth", str(tmp_path / "runs")]).exception
    assert isinstance(error, JournalError) and "name one of the folders in it" in str(error)
