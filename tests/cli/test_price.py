import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from reticent.cli.commands import app
from reticent.errors import StudyError

STUDY = """[study]
name = "credit"
algorithm = "{algorithm}"
task = "classification"
[data]
set = "default_credit"
split = "columns"
columns = [5, 6, 6, 6]
rows = {rows}
test = 0.02
[config]
dim = 3
{config}
"""


def ask(*words: str) -> dict[str, Any]:  # Any: JSON
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exception is None, done.exception
    return dict(json.loads(done.stdout))


def written(folder: Path, algorithm: str, config: str, rows: int = 2000) -> str:
    path = folder / "study.toml"
    path.write_text(STUDY.format(algorithm=algorithm, config=config, rows=rows))
    return str(path)


@pytest.mark.parametrize(("algorithm", "config"), [("fedonce", 'model = "linear"'), ("splitnn", "epochs = 4")])
def test_price_foretells_the_bytes_of_the_run(algorithm: str, config: str, tmp_path: Path) -> None:
    path = written(tmp_path, algorithm, config)
    priced = ask("price", path)
    run = ask("run", path, "--wire", "inprocess", "--out", str(tmp_path / "run"))
    assert (priced["rounds"], priced["letters"]) == (run["rounds"]["fit"], run["letters"]["fit"])
    assert priced["rows"] == run["rows"]
    for way in ("up", "down"):
        assert abs(priced["bytes"][way] - run["bytes"]["fit"][way]) <= 0.02 * run["bytes"]["fit"][way]
        assert abs(priced["predict"]["bytes"][way] - run["bytes"]["predict"][way]) <= 0.02 * run["bytes"]["predict"][way] + 500
    assert priced["privacy"] == run["privacy"]


def test_set_changes_the_price(tmp_path: Path) -> None:
    path = written(tmp_path, "fedonce", 'model = "linear"')
    thin, wide = ask("price", path, "--set", "config.dim=1"), ask("price", path, "--set", "config.dim=5")
    assert wide["bytes"]["up"] - thin["bytes"]["up"] == pytest.approx(2000 * 3 * 4 * 4, rel=0.01)  # four more float32 of each row from three guests


def test_dry_run_says_the_price_and_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "fedonce", 'model = "linear"')
    monkeypatch.chdir(tmp_path)
    found = ask("run", path, "--dry", "--compare", "splitnn,solo")
    assert found["bytes"] == ask("price", path)["bytes"]
    assert found["compare"]["splitnn"]["rounds"] > 100
    assert found["compare"]["solo"]["bytes"] == {"up": 0, "down": 0}
    assert [file.name for file in tmp_path.iterdir()] == ["study.toml"]


def test_a_study_of_parties_is_priced_with_one_file_and_says_what_it_assumes(tmp_path: Path) -> None:
    out = tmp_path / "parties"
    ask("data", "get", "default_credit", "--split", "columns", "--columns", "5,18", "--names", "bank,shop", "--rows", "900", "--out", str(out))
    study, bank, shop = (str(out / name) for name in ("study.toml", "bank.toml", "shop.toml"))
    words = ["price", study, "--set", "config.dim=3", "--set", "config.model=linear"]
    whole = ask(*words, "--parties", bank, "--parties", shop)
    assert whole["assumed"] == []
    alone = ask(*words, "--parties", bank)
    assert alone["bytes"] == whole["bytes"]
    assert alone["assumed"] == ["the tables of shop are not on this machine: each is taken to have 8 encoded columns or more"]
    guest = ask(*words, "--parties", shop)
    assert guest["bytes"]["up"] == whole["bytes"]["up"]
    assert guest["assumed"][0] == "bank's labels are not on this machine: two classes are assumed"
    nobody = CliRunner().invoke(app, words)
    assert isinstance(nobody.exception, StudyError)
    assert "give your own party file" in str(nobody.exception)


def test_a_party_whose_limit_is_too_low_is_warned(tmp_path: Path) -> None:
    out = tmp_path / "parties"
    ask("data", "get", "default_credit", "--split", "equal", "--parties", "2", "--rows", "900", "--out", str(out))
    with (out / "p1.toml").open("a") as file:
        file.write('max_bytes = "10 kB"\n')  # [policy] stands last
    found = ask("price", str(out / "study.toml"), "--parties", str(out / "p0.toml"), "--parties", str(out / "p1.toml"), "--set", "config.model=linear")
    assert len(found["warnings"]) == 1
    assert found["warnings"][0].startswith("p1 allows 10,000 bytes a run (max_bytes), and about ")


def test_the_real_command_shows_a_table(tmp_path: Path) -> None:
    path = written(tmp_path, "fedonce", 'model = "linear"')
    done = subprocess.run([sys.executable, "-m", "reticent", "price", path], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "fedonce, fit" in done.stdout
    assert "minutes within a factor of two" in done.stdout
