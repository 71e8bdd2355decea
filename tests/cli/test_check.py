import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from reticent.cli.commands import app
from reticent.errors import DataError, ReticentError, StudyError

STUDY = """[study]
name = "trees"
algorithm = "fedonce"
task = "classification"
[parties]
host = "forest"
guests = ["saw"]
[config]
dim = 3
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A forest that knows kinds, and a saw that cut the same twenty trees."""
    ids = [f"t{i}" for i in range(20)]
    pl.DataFrame({"id": ids, "girth": [float(i) for i in range(19)] + [None], "kind": ["oak", "ash"] * 10}).write_parquet(tmp_path / "forest.parquet")
    saw = {
        "id": ids,
        "age": range(20),
        "wood": ["hard", "soft", None, "hard"] * 5,
        "mill": ["north"] * 20,
        "felled": pl.date_range(pl.date(2020, 1, 1), pl.date(2020, 1, 20), eager=True),
    }
    pl.DataFrame(saw).write_parquet(tmp_path / "saw.parquet")
    (tmp_path / "forest.toml").write_text('name = "forest"\ntable = "forest.parquet"\nid = "id"\nlabel = "kind"\n')
    (tmp_path / "saw.toml").write_text('name = "saw"\ntable = "saw.parquet"\nid = "id"\n')
    (tmp_path / "study.toml").write_text(STUDY)
    return tmp_path


def ask(*words: str) -> dict[str, Any]:  # Any: JSON
    done = CliRunner().invoke(app, ["check", *words, "--json"])
    assert done.exception is None, done.exception
    return dict(json.loads(done.stdout))


def refused(*words: str) -> ReticentError:
    done = CliRunner().invoke(app, ["check", *words])
    assert isinstance(done.exception, ReticentError), done.exception
    return done.exception


def test_check_of_a_guest_says_columns_and_what_would_leave(folder: Path) -> None:
    found = ask(str(folder / "saw.toml"), str(folder / "study.toml"))
    assert (found["party"], found["role"], found["rows"], found["label"]) == ("saw", "guest", 20, None)
    assert found["columns"] == [
        {"name": "age", "kind": "numbers", "missing": 0, "encoded": 1},
        {"name": "wood", "kind": "text", "missing": 5, "encoded": 3},
        {"name": "mill", "kind": "text", "missing": 0, "encoded": 1},
        {"name": "felled", "kind": "dates", "missing": 0, "encoded": 3},
    ]
    assert [(verb["verb"], verb["allowed"]) for verb in found["verbs"]] == [("learn", True), ("represent", True), ("meet", True)]
    assert found["warnings"] == ['column "mill" has one value only and tells nothing: drop = ["mill"] leaves it out']


def test_check_of_the_host_says_its_classes_and_its_questions(folder: Path) -> None:
    found = ask(str(folder / "forest.toml"), str(folder / "study.toml"))
    assert found["label"] == {"name": "kind", "task": "binary", "classes": {"ash": 10, "oak": 10}}
    assert [(verb["verb"], verb["message"]) for verb in found["verbs"]] == [("learn", "Learn"), ("represent", "Rows"), ("meet", "Meet")]
    assert found["columns"] == [{"name": "girth", "kind": "numbers", "missing": 1, "encoded": 2}]


def test_both_parties_are_shown_the_same_hash(folder: Path) -> None:
    hashes = {ask(str(folder / f"{name}.toml"), str(folder / "study.toml"))["study"]["hash"] for name in ("forest", "saw")}
    assert len(hashes) == 1


def test_check_without_a_study_is_of_the_table_alone(folder: Path) -> None:
    found = ask(str(folder / "forest.toml"))
    assert (found["role"], found["study"], found["verbs"], found["rows"]) == (None, None, [], 20)


def test_a_policy_that_would_stop_the_run_is_said_beforehand(folder: Path) -> None:
    (folder / "saw.toml").write_text(
        'name = "saw"\ntable = "saw.parquet"\nid = "id"\ndrop = ["mill"]\n[policy]\nverbs = ["learn", "lern"]\nunnoised = "never"\n'
    )
    found = ask(str(folder / "saw.toml"), str(folder / "study.toml"))
    assert [verb["allowed"] for verb in found["verbs"]] == [True, False, True]
    assert found["warnings"] == [
        "policy: verb 'lern' is none of fedonce's, which has learn, represent, meet",
        "policy: fedonce asks 'represent', which is not among verbs: such a question is refused",
        "policy: unnoised = \"never\", and 'learn' answers without noise: saw would refuse to start",
        "policy: unnoised = \"never\", and 'represent' answers without noise: saw would refuse to start",
    ]


def test_a_class_of_few_rows_and_a_name_in_every_row_are_said(folder: Path) -> None:
    names = [f"Ms {i}" for i in range(20)]
    pl.DataFrame({"id": range(20), "owner": names, "kind": ["oak"] * 18 + ["ash", "elm"]}).write_parquet(folder / "forest.parquet")
    said = ask(str(folder / "forest.toml"), str(folder / "study.toml"))["warnings"]
    assert [warning.split(":")[0] for warning in said] == [
        'column "owner" differs in every row, as a name or a number of a person does',
        "class 'ash' has 1 rows",
        "class 'elm' has 1 rows",
    ]


def test_people_read_the_columns_and_the_warnings(folder: Path) -> None:
    said = CliRunner().invoke(app, ["check", str(folder / "saw.toml"), str(folder / "study.toml")]).stdout
    assert "nothing was sent" in said
    assert "would leave, learn: Representation" in said
    assert '! column "mill" has one value only' in said


def test_what_is_wrong_is_one_sentence(folder: Path) -> None:
    study, saw = folder / "study.toml", folder / "saw.toml"
    (folder / "other.toml").write_text(saw.read_text().replace('"saw"', '"axe"'))
    assert "names forest as host and saw as guests" in str(refused(str(folder / "other.toml"), str(study)))
    study.write_text(STUDY.replace("dim = 3", "dims = 3"))
    error = refused(str(saw), str(study))
    assert isinstance(error, StudyError)
    assert "unknown key \"dims\", did you mean 'dim'?" in str(error)
    pl.DataFrame({"id": ["a", "a"], "age": [1, 2]}).write_parquet(folder / "saw.parquet")
    error = refused(str(saw))
    assert isinstance(error, DataError)
    assert 'id "a" occurs 2 times' in str(error)


def test_the_real_command_ends_with_the_error_s_code(folder: Path) -> None:
    (folder / "saw.parquet").unlink()
    done = subprocess.run(
        [sys.executable, "-m", "reticent", "check", str(folder / "saw.toml"), "--json"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (4, "")
    assert "there is no such file" in done.stderr
    assert "Traceback" not in done.stderr
