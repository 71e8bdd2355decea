import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from reticent import study
from reticent.cli.commands import app
from reticent.data import sets
from reticent.errors import StudyError


def ask(*words: str) -> dict[str, Any]:  # Any: JSON
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exception is None, done.exception
    return dict(json.loads(done.stdout))


def test_list_names_every_set_and_knows_the_one_that_ships(tmp_path: Path) -> None:
    found = {entry["name"]: entry for entry in ask("data", "list", "--data", str(tmp_path))["sets"]}
    assert set(found) == set(sets.names())
    credit = found["default_credit"]
    assert (credit["rows"], credit["columns"], credit["task"], credit["complete"]) == (30_000, 23, "binary", True)
    assert credit["here"] is not None
    assert all(entry["licence"] and entry["home"].startswith("http") for entry in found.values())


def test_list_says_that_a_subset_is_one(tmp_path: Path) -> None:
    (tmp_path / "default_credit").mkdir()
    pl.read_parquet(Path(sets.__file__).parent / "default_credit.parquet").head(500).write_parquet(tmp_path / "default_credit" / "default_credit.parquet")
    credit = next(entry for entry in ask("data", "list", "--data", str(tmp_path))["sets"] if entry["name"] == "default_credit")
    assert (credit["rows"], credit["complete"], credit["published"], credit["here"]) == (500, False, 30_000, str(tmp_path / "default_credit"))


def test_get_of_a_set_that_is_here_fetches_nothing() -> None:
    found = ask("data", "get", "default_credit")
    assert found["fetched"] is False
    assert Path(found["where"]).is_dir()


def test_get_deals_a_set_to_parties_whose_files_run(tmp_path: Path) -> None:
    out = tmp_path / "parties"
    found = ask("data", "get", "default_credit", "--split", "columns", "--columns", "5,18", "--names", "bank,shop", "--rows", "600", "--out", str(out))
    assert sorted(path.name for path in out.iterdir()) == ["bank.parquet", "bank.toml", "shop.parquet", "shop.toml", "study.toml"]
    bank, shop = pl.read_parquet(out / "bank.parquet"), pl.read_parquet(out / "shop.parquet")
    assert bank.columns == ["id", "LIMIT_BAL", "SEX", "EDUCATION", "MARRIAGE", "AGE", "default"]
    assert (bank.height, shop.width, "default" in shop.columns) == (600, 19, False)
    assert bank["id"].to_list() == shop["id"].to_list()
    official = pl.read_parquet(Path(sets.__file__).parent / "default_credit.parquet").drop("ID", strict=False)
    together = bank.join(shop, on="id").drop("id").select(official.columns).cast(dict(official.schema))
    assert together.join(official, on=official.columns, how="semi").height == 600  # each person keeps its own columns and its own label
    words = found["run"].split()[1:]
    result = ask(*words, "--wire", "inprocess", "--set", "config.model=linear", "--set", "config.dim=3", "--out", str(tmp_path / "run"))
    assert result["parties"] == ["bank", "shop"]
    assert result["rows"] == {"train": 480, "test": 120}


def test_several_classes_and_a_set_by_path_keep_their_labels(tmp_path: Path) -> None:
    kinds = ["ash", "beech", "oak"]
    table = pl.DataFrame({"height": range(30), "girth": [i % 7 for i in range(30)], "id": range(100, 130), "kind": [kinds[i % 3] for i in range(30)]})
    table.write_csv(tmp_path / "trees.csv")
    found = ask(
        "data", "get", str(tmp_path / "trees.csv"), "--label", "kind", "--split", "equal", "--parties", "3", "--host", "1", "--out", str(tmp_path / "out")
    )
    host = pl.read_parquet(tmp_path / "out" / "p1.parquet")
    assert (found["host"], host.columns, host["kind"].to_list()) == ("p1", ["row", "girth", "kind"], table["kind"].to_list())
    assert study.read_party(tmp_path / "out" / "p1.toml").label == "kind"
    assert study.read_study(tmp_path / "out" / "study.toml").parties == study.Parties(host="p1", guests=("p0", "p2"))


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    done = CliRunner().invoke(app, ["data", "get", "default_credit", "--split", "equal", "--parties", "2", "--out", str(tmp_path)])
    assert "is not empty" in str(done.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nothing"], 'set = "nothing" is unknown: adult'),
        (["default_credit", "--split", "equal", "--parties", "2"], "say where with --out"),
        (["default_credit", "--split", "columns", "--columns", "5,x", "--out", "new"], "'x' is no number of columns"),
        (["default_credit", "--split", "sideways", "--out", "new"], 'split = "sideways"'),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(words: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["data", "get", *words])
    assert isinstance(done.exception, StudyError)
    assert sentence in str(done.exception)
