import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from reticent import run as runs
from reticent import state
from reticent.cli.commands import app
from reticent.errors import DataError, ReticentError, StudyError

STUDY = """[study]
name = "credit"
algorithm = "fedonce"
task = "classification"
[data]
set = "default_credit"
split = "columns"
columns = [5, 6, 6, 6]
rows = 600
test = 0.01
[config]
dim = 3
model = "gbdt"
trees = 20
"""


def ask(*words: str) -> dict[str, Any]:  # Any: JSON
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exception is None, done.exception
    return dict(json.loads(done.stdout))


def refused(*words: str) -> ReticentError:
    done = CliRunner().invoke(app, ["predict", *words])
    assert isinstance(done.exception, ReticentError), done.exception
    return done.exception


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two parties with files, over processes; ids of letters, so that no row number passes for one."""
    folder = tmp_path_factory.mktemp("predict")
    ask("data", "get", "default_credit", "--split", "columns", "--columns", "5,18", "--names", "bank,shop", "--rows", "600", "--out", str(folder / "parties"))
    for name in ("bank", "shop"):
        path = folder / "parties" / f"{name}.parquet"
        pl.read_parquet(path).with_columns(pl.format("c{}", pl.col("id") + 100).alias("id")).write_parquet(path)
    words = [word for name in ("bank", "shop") for word in ("--parties", str(folder / "parties" / f"{name}.toml"))]
    sets = ["--set", "config.dim=3", "--set", "config.model=gbdt", "--set", "config.trees=20"]
    ask("run", str(folder / "parties" / "study.toml"), *words, *sets, "--wire", "processes", "--out", str(folder / "run"))
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """The run and its parties' files, for one test to spoil."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    run = tmp_path / "run" / "run.json"
    run.write_text(run.read_text().replace(str(made), str(tmp_path)))
    return tmp_path


def test_predictions_are_the_run_s_own_scores(folder: Path) -> None:
    """Asked for everybody, the test people get the scores that the run kept, bit for bit."""
    bank = pl.read_parquet(folder / "parties" / "bank.parquet")
    bank.select("id").sample(fraction=1.0, shuffle=True, seed=1).write_csv(folder / "ids.csv")
    found = ask("predict", str(folder / "run"), "--rows", str(folder / "ids.csv"))
    scores = {entry["id"]: entry["score"] for entry in found["predictions"]}
    assert (found["rows"], set(scores)) == (600, set(bank["id"]))
    run = runs.reopen(folder / "run")
    run.abandon()
    ids, tested = run.plan.deal.tables["bank"].ids, run.plan.deal.test.nonzero().flatten().tolist()
    assert ids is not None
    assert len(tested) == 120
    assert [scores[ids[row]] for row in tested] == state.load(folder / "run" / "scores").tolist()
    assert found["bytes"]["up"] > 600 * 3 * 4


def test_a_chance_is_the_score_s_and_a_prediction_the_likelier_class(folder: Path) -> None:
    (folder / "ids.csv").write_text("id,note\nc103,x\nc100,y\nc103,z\n")
    found = ask("predict", str(folder / "run"), "--rows", str(folder / "ids.csv"))["predictions"]
    assert [entry["id"] for entry in found] == ["c103", "c100", "c103"]
    assert found[0] == found[2]
    for entry in found:
        assert entry["chance"] == pytest.approx(1 / (1 + 2.718281828 ** -entry["score"]), rel=1e-5)
        assert entry["prediction"] == (entry["score"] > 0)


def test_a_run_predicts_as_often_as_it_is_asked(folder: Path) -> None:
    (folder / "ids.csv").write_text("id\nc103\nc100\n")
    (folder / "other.csv").write_text("id\nc400\nc103\n")
    words = ["predict", str(folder / "run"), "--rows"]
    first, other, again = ask(*words, str(folder / "ids.csv")), ask(*words, str(folder / "other.csv")), ask(*words, str(folder / "ids.csv"))
    assert first["predictions"] == again["predictions"]
    assert other["predictions"][1] == first["predictions"][0]


def test_files_out_are_csv_and_parquet_for_their_owner_alone(folder: Path) -> None:
    pl.DataFrame({"id": ["c101", "c500"]}).write_parquet(folder / "ids.parquet")
    for name, reader in (("out.csv", pl.read_csv), ("out.parquet", pl.read_parquet)):
        done = CliRunner().invoke(app, ["predict", str(folder / "run"), "--rows", str(folder / "ids.parquet"), "--out", str(folder / name)])
        assert done.exception is None, done.exception
        assert reader(folder / name).columns == ["id", "score", "chance", "prediction"]
        assert (folder / name).stat().st_mode & 0o777 == 0o600
    csv = CliRunner().invoke(app, ["predict", str(folder / "run"), "--rows", str(folder / "ids.parquet")]).stdout
    assert csv == (folder / "out.csv").read_text()
    assert "written as .csv or .parquet" in str(refused(str(folder / "run"), "--rows", str(folder / "ids.parquet"), "--out", str(folder / "out.txt")))


def test_unknown_ids_and_a_missing_id_column_are_refused_by_name(folder: Path) -> None:
    (folder / "ids.csv").write_text("id\nc100\nd7\nc99999\n")
    error = refused(str(folder / "run"), "--rows", str(folder / "ids.csv"))
    assert isinstance(error, DataError)
    assert '2 of 3 ids are in no party\'s table: "d7", "c99999"; the parties hold 600 rows' in str(error)
    (folder / "ids.csv").write_text("customer,age\nc100,3\n")
    assert 'the id column "id" is missing; the file has "customer", "age"' in str(refused(str(folder / "run"), "--rows", str(folder / "ids.csv")))
    (folder / "ids.csv").write_text("id,age\nc100,3\n,4\n")
    assert 'id column "id" is empty in 1 rows, first in row 1' in str(refused(str(folder / "run"), "--rows", str(folder / "ids.csv")))
    assert "there is no such file" in str(refused(str(folder / "run"), "--rows", str(folder / "nothing.csv")))


def test_a_column_that_a_party_renamed_is_refused_by_name_and_nothing_is_spoilt(folder: Path) -> None:
    (folder / "ids.csv").write_text("id\nc100\n")
    shop = folder / "parties" / "shop.parquet"
    whole = pl.read_parquet(shop)
    before = ask("predict", str(folder / "run"), "--rows", str(folder / "ids.csv"))
    whole.rename({"PAY_2": "PAY_TWO"}).write_parquet(shop)
    done = subprocess.run(
        [sys.executable, "-m", "reticent", "predict", str(folder / "run"), "--rows", str(folder / "ids.csv")], capture_output=True, text=True, timeout=120, check=False
    )  # fmt: skip
    assert done.returncode != 0
    assert 'shop: column "PAY_2" is missing' in done.stderr
    assert "Traceback" not in done.stderr
    whole.write_parquet(shop)
    assert ask("predict", str(folder / "run"), "--rows", str(folder / "ids.csv"))["predictions"] == before["predictions"]


def test_a_party_that_lost_people_is_refused_before_it_is_asked(folder: Path) -> None:
    """A row's number is its place among sorted ids: one person less, and every answer would be about another one."""
    (folder / "ids.csv").write_text("id\nc100\n")
    shop = folder / "parties" / "shop.parquet"
    whole = pl.read_parquet(shop)
    whole.filter(pl.col("id") != "c300").write_parquet(shop)
    assert "bank holds 600 rows and shop 599" in str(refused(str(folder / "run"), "--rows", str(folder / "ids.csv")))
    whole.with_columns(pl.col("id").replace("c300", "c3000")).write_parquet(shop)
    assert 'bank and shop hold other people, from id "c300" and "c3000" on' in str(refused(str(folder / "run"), "--rows", str(folder / "ids.csv")))


def test_a_run_between_machines_says_whose_tables_it_lacks(folder: Path) -> None:
    (folder / "ids.csv").write_text("id\nc100\n")
    path = folder / "run" / "run.json"
    noted = json.loads(path.read_text())
    noted["options"]["parties"] = noted["options"]["parties"][:1]
    path.write_text(json.dumps(noted))
    error = refused(str(folder / "run"), "--rows", str(folder / "ids.csv"))
    assert isinstance(error, StudyError)
    assert "the tables of shop are not on this machine" in str(error)


def test_simulated_data_is_asked_for_by_row_numbers(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    run = ask("run", str(tmp_path / "study.toml"), "--wire", "inprocess", "--out", str(tmp_path / "run"))
    (tmp_path / "rows.csv").write_text("row\n29999\n0\n")
    found = ask("predict", str(tmp_path / "run"), "--rows", str(tmp_path / "rows.csv"))
    assert [entry["row"] for entry in found["predictions"]] == [29_999, 0]
    assert run["rows"]["train"] == 600
    (tmp_path / "rows.csv").write_text("row\n30000\n")
    assert '1 of 1 ids are in no party\'s table: "30000"' in str(refused(str(tmp_path / "run"), "--rows", str(tmp_path / "rows.csv")))


def test_people_without_a_label_neither_train_nor_test_and_can_be_predicted(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "parties", tmp_path / "parties")
    file = tmp_path / "parties" / "bank.parquet"
    bank = pl.read_parquet(file)
    label = next(name for name in bank.columns if name == "default")
    applicants = bank["id"].to_list()[:50]
    bank.with_columns(pl.when(pl.col("id").is_in(applicants)).then(None).otherwise(pl.col(label)).alias(label)).write_parquet(file)
    words = [word for name in sorted((tmp_path / "parties").glob("*.toml")) if name.name != "study.toml" for word in ("--parties", str(name))]
    study = next(iter((tmp_path / "parties").glob("study.toml")), None) or next(iter(tmp_path.rglob("study.toml")))
    result = ask("run", str(study), *words, "--wire", "inprocess", "--out", str(tmp_path / "new"))
    assert result["rows"]["unlabelled"] == 50
    assert result["rows"]["train"] + result["rows"]["test"] == 550
    pl.DataFrame({"id": applicants}).write_csv(tmp_path / "ids.csv")
    assert len(ask("predict", str(tmp_path / "new"), "--rows", str(tmp_path / "ids.csv"))["predictions"]) == 50
