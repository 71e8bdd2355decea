import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from reticent.cli import bench
from reticent.cli.commands import app
from reticent.errors import StudyError

ROOT = Path(__file__).resolve().parents[2]
TINY = """title = "A tiny table"
source = "nobody's"
seeds = [0, 1]
hosts = [0, 1]
[base.study]
algorithm = "fedonce"
task = "classification"
[base.data]
set = "default_credit"
split = "columns"
columns = [5, 6, 6, 6]
rows = 600
test = 0.02
[base.config]
dim = 3
model = "linear"
[scale.small]
[scale.paper]
targets = false
set = { config.dim = 2 }
[[case]]
name = "fedonce"
compare = ["solo"]
paper = { auc = 0.77 }
target = ["rounds <= 1", "auc >= 0.999", "auc >= solo - 1 at host 1"]
[[case]]
name = "comm"
set = { study.algorithm = "splitnn", config = { epochs = 1 } }
budget_from = "fedonce"
hosts = [1]
seeds = [0]
target = ["auc <= fedonce + 1", "bytes <= fedonce"]
"""


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:  # Any: JSON
    folder = tmp_path_factory.mktemp("bench")
    (folder / "tiny.toml").write_text(TINY)
    done = CliRunner().invoke(app, ["bench", str(folder / "tiny.toml"), "--out", str(folder / "out" / "tiny.json"), "--json"])
    assert done.exception is None, done.exception
    said = json.loads(done.stdout)
    assert json.loads((folder / "out" / "tiny.json").read_text()) == {key: value for key, value in said.items() if key != "out"}
    return dict(said)


def test_a_case_is_run_for_each_host_and_seed(figures: dict[str, Any]) -> None:
    case = figures["cases"]["fedonce"]
    assert [(run["host"], run["seed"]) for run in case["runs"]] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    aucs = [run["metrics"]["auc"] for run in case["runs"]]
    assert case["metrics"]["auc"] == pytest.approx(sum(aucs) / 4)
    assert case["spread"]["auc"] > 0
    assert case["rounds"] == 1
    assert case["paper"] == {"auc": 0.77}


def test_a_figure_says_where_it_comes_from(figures: dict[str, Any]) -> None:
    assert figures["command"] == "reticent bench tiny --scale small"
    assert set(figures["machine"]) == {"cores", "threads", "device", "processor", "python", "torch"}
    assert len(figures["commit"]) == 40 or figures["commit"] == "unknown"
    assert figures["cases"]["fedonce"]["data"]["complete"] is True


def test_a_target_that_is_missed_is_named_with_what_was_found(figures: dict[str, Any]) -> None:
    auc = figures["cases"]["fedonce"]["metrics"]["auc"]
    assert figures["missed"] == [f"fedonce: auc >= 0.999 ({auc:.4f}, at least 0.9990 was wanted)"]
    met = {found["claim"]: (found["met"], found["runs"]) for case in figures["cases"].values() for found in case["targets"]}
    assert met == {
        "rounds <= 1": (True, 4), "auc >= 0.999": (False, 4), "auc >= solo - 1 at host 1": (True, 2), "auc <= fedonce + 1": (True, 1), "bytes <= fedonce": (True, 1),
    }  # fmt: skip


def test_a_budget_is_what_the_other_case_s_same_run_cost(figures: dict[str, Any]) -> None:
    theirs = next(run for run in figures["cases"]["fedonce"]["runs"] if (run["host"], run["seed"]) == (1, 0))
    comm = figures["cases"]["comm"]
    assert comm["config"]["byte_budget"] == sum(theirs["bytes"]["fit"].values())
    assert [(run["host"], run["seed"]) for run in comm["runs"]] == [(1, 0)]


def test_a_scale_changes_settings_and_may_be_held_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TINY)
    words = ["bench", str(tmp_path / "tiny.toml"), "--scale", "paper", "--seeds", "3", "--out", str(tmp_path / "out.json")]
    done = CliRunner().invoke(app, words)
    assert done.exception is None, done.exception
    assert "no targets at this scale" in done.stdout
    found = json.loads((tmp_path / "out.json").read_text())
    assert (found["cases"]["fedonce"]["config"]["dim"], found["cases"]["fedonce"]["seeds"], found["missed"]) == (2, [3], [])


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("*.toml")), ids=lambda path: path.stem)
def test_every_benchmark_can_be_read_and_its_studies_meant(path: Path) -> None:
    wanted = bench.described(path)
    assert set(wanted.scale) == {"small", "paper"}
    for scale in wanted.scale.values():
        for case in wanted.case:
            some = list(bench.pairs(wanted, scale, case, None))
            assert some
            for host, _ in some:
                bench.meant(bench.settled(wanted, scale, case, host))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (TINY.replace("rounds <= 1", "rounds are few"), 'case fedonce, target "rounds are few" is not understood'),
        (TINY.replace('budget_from = "fedonce"', 'budget_from = "fedtwice"'), "which has no run with host 1 and seed 0 before it"),
        (TINY.replace("[[case]]", "[[cases]]"), 'unknown key "cases", did you mean'),
        (TINY.replace("auc >= 0.999", "rmse >= 0.999"), "a target speaks of rmse, which fedonce does not have"),
    ],
)
def test_what_a_benchmark_cannot_mean_is_one_sentence(text: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(text)
    done = CliRunner().invoke(app, ["bench", str(tmp_path / "tiny.toml"), "--seeds", "0", "--out", str(tmp_path / "out.json")])
    assert isinstance(done.exception, StudyError), done.exception
    assert sentence in str(done.exception)


def test_without_a_name_all_are_listed() -> None:
    listed = json.loads(CliRunner().invoke(app, ["bench", "--json"]).stdout)["benchmarks"]
    assert set(listed) == {path.stem for path in (ROOT / "benchmarks").glob("*.toml")}
    assert {"phishing", "tables-vs-lightgbm", "mnist-quadrants", "uji-longitude", "mfeat-views"} <= set(listed)
