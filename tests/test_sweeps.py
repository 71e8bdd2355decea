"""A run beside its baselines, over seeds and folds."""

import json
from pathlib import Path

import pytest

from reticent import run as runs
from reticent import sweeps
from reticent.errors import StudyError
from reticent.run import Options
from reticent.study import Study, study_from


def wanted(**data: object) -> Study:
    dealt = {"set": "default_credit", "split": "columns", "columns": [5, 6, 6, 6], "rows": 300, "test": 0.02, **data}
    dealt = {key: value for key, value in dealt.items() if value is not None}
    return study_from({"study": {"name": "t", "algorithm": "fedonce", "task": "classification"}, "data": dealt, "config": {"dim": 2, "model": "linear"}})


def test_a_baseline_that_cannot_be_had_does_not_cost_the_run(tmp_path: Path) -> None:
    result = sweeps.conduct(wanted(host="labels-only"), Options(compare=("solo", "combined")), tmp_path / "run")
    assert list(result["compare"]) == ["combined"]
    assert "solo" in result["failed"]
    assert runs.noted(tmp_path / "run")["state"] == "done"


def test_a_baseline_of_no_known_name_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="combind"):
        sweeps.conduct(wanted(), Options(compare=("combind",)), tmp_path / "run")
    assert not (tmp_path / "run" / "ledger.jsonl").exists()


def test_several_seeds_give_means_and_spread_and_a_folder_each(tmp_path: Path) -> None:
    result = sweeps.sweep(wanted(), Options(compare=("solo",)), tmp_path / "runs", [0, 1, 2], None)
    single = [json.loads((tmp_path / "runs" / f"seed-{seed}" / "run.json").read_text())["result"]["metrics"]["auc"] for seed in range(3)]
    assert result["metrics"]["auc"] == pytest.approx(sum(single) / 3)
    assert result["spread"]["auc"] > 0 and len(result["digests"]) == 3 and "solo" in result["compare"]


def test_folds_test_every_row_once(tmp_path: Path) -> None:
    result = sweeps.sweep(wanted(test=None, rows=None, folds=3, host=0), Options(), None, [0], 3)
    assert len(result["runs"]) == 3
    tested = [runs.plans.make(sweeps._with_folds(wanted(), 3), fold=fold).deal.test for fold in range(3)]
    assert (sum(mask.int() for mask in tested) == 1).all()
