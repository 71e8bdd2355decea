"""A guest that is not there: the run goes on, and the model is that of a run which never had it."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from reticent import run as runs
from reticent.algorithms import fedonce
from reticent.data.sets import default_credit
from reticent.errors import MissingReplies, StudyError
from reticent.learn import absent, models
from reticent.learn.task import Task
from reticent.party import Policy, answers
from reticent.run import Options, Run
from reticent.study import study_from
from tests.test_kill import Death

CREDIT = {"set": "default_credit", "split": "columns", "columns": [5, 6, 6, 6], "host": 0, "rows": 800, "test": 0.2}
COLUMNS = default_credit.views
LESS = {**CREDIT, "columns": [COLUMNS[view] for view in list(COLUMNS)[:3]]}  # the same without its last guest
FEW = {"dim": 3, "model": "gbdt", "trees": 20}
DEAF, MUTE = Policy(verbs=("represent",)), Policy(verbs=("learn",))  # a guest that refuses to train, and one that refuses to predict


def begun(config: dict[str, object], data: dict[str, object] | None = None, folder: Path | None = None, algorithm: Any = None) -> Run:
    wanted = study_from({"study": {"name": "t", "algorithm": "fedonce", "task": "classification"}, "data": data or CREDIT, "config": {**FEW, **config}})
    return runs.begin(runs.plans.make(wanted, algorithm=algorithm), Options(), folder)


def executed(config: dict[str, object], policies: dict[str, Policy] | None = None, data: dict[str, object] | None = None, folder: Path | None = None) -> Run:
    run = begun(config, data, folder)
    say(run, policies or {})
    try:
        run.execute()
    except BaseException:
        run.abandon()
        raise
    run.finish()
    return run


def say(run: Run, policies: dict[str, Policy]) -> None:
    for name, policy in policies.items():
        run.doors[name].party.policy = policy


def without_the_last() -> Run:
    return executed({}, data=LESS)


def test_zeros_stand_where_a_guest_said_nothing() -> None:
    said = {"b": torch.ones(2, 1)}
    tables = absent.in_place(said, {"a": 2, "b": 1}, 2, torch.device("cpu"))
    assert [t.tolist() for t in tables] == [[[0, 0], [0, 0]], [[1], [1]]]


@pytest.mark.parametrize(
    ("task", "y", "scores"),
    [
        (Task("binary"), torch.tensor([1.0, 1.0, 1.0, 0.0, 0.0, 0.0]), [[0.0]]),
        (Task("binary"), torch.ones(1), [[0.6931472]]),  # log(2 / 1)
        (Task("multiclass", 3), torch.tensor([0, 1, 1]), [[-1.0986123, -0.6931472, -1.7917595]]),  # log of 2, 3 and 1 sixths
        (Task("multilabel", 2), torch.tensor([[1.0, 0.0], [1.0, 0.0]]), [[1.0986123, -1.0986123]]),
        (Task("regression"), torch.tensor([1.0, 4.0]), [[2.5]]),
    ],
)
def test_who_has_no_column_says_the_base_rates(task: Task, y: torch.Tensor, scores: list[list[float]]) -> None:
    torch.testing.assert_close(absent.base(y, task), torch.tensor(scores))


def test_a_guest_that_refuses_ends_the_run_where_no_quorum_says_otherwise() -> None:
    with pytest.raises(MissingReplies, match=r"learn: 2 of 3 guests answered, 3 needed; p3: policy of p3"):
        executed({}, {"p3": DEAF})
    with pytest.raises(MissingReplies, match=r"represent: 2 of 3 guests answered, 3 needed"):
        executed({}, {"p3": MUTE})


def test_fewer_than_the_quorum_end_the_run() -> None:
    with pytest.raises(MissingReplies, match=r"learn: 1 of 3 guests answered, 2 needed"):
        executed({"quorum": 2}, {"p2": DEAF, "p3": DEAF})


@pytest.mark.parametrize("quorum", [-1, 4])
def test_a_quorum_of_more_guests_than_there_are_is_refused_before_anyone_is_asked(quorum: int) -> None:
    run = begun({"quorum": quorum})
    with pytest.raises(StudyError, match=f"quorum = {quorum}, and there are 3 guests"):
        run.execute()
    assert not [line for line in run.ledger.lines() if line["verb"] == "learn"]
    run.abandon()


@pytest.mark.parametrize("model", ["gbdt", "linear", "auto"])
def test_a_guest_missing_in_training_leaves_the_model_of_a_run_that_never_had_it(model: str) -> None:
    run = executed({"quorum": 2, "model": model}, {"p3": DEAF})
    other = executed({"model": model}, data=LESS)
    assert run.result["digest"] == other.result["digest"]
    assert not [line for line in run.ledger.lines() if line["verb"] == "represent" and line["to"] == "p3"]  # what it never learnt it is not asked


@pytest.mark.parametrize("letters", ["float32", "float16", "int8", "int4"])
def test_a_guest_missing_at_prediction_leaves_the_scores_of_a_run_that_never_had_it(letters: str) -> None:
    run = executed({"quorum": 2, "letters": letters}, {"p3": MUTE})
    other = executed({"letters": letters}, data=LESS)
    assert run.result["digest"] == other.result["digest"]


def test_with_auto_a_refit_is_of_the_kind_that_was_chosen() -> None:
    run = executed({"quorum": 0, "model": "auto"}, {"p3": MUTE})
    driver = run.federation.driver
    assert driver.refits["p1, p2"].name == driver.model.name and not driver.refits["p1, p2"].tried
    assert abs(run.metrics["auc"] - executed({"model": "auto"}, data=LESS).metrics["auc"]) < 0.03


def test_zeros_are_the_plain_model_s_scores_with_the_missing_columns_zero() -> None:
    run = executed({"quorum": 2, "absent": "zeros"}, {"p3": MUTE})
    driver, rows = run.federation.driver, run.plan.deal.test
    z = driver.letters(driver.tested, ("p1", "p2"))
    by_hand = driver.model.predict(driver.party.table[rows], [z["p1"], z["p2"], torch.zeros(int(rows.sum()), 3)])
    assert torch.equal(run.test_scores, by_hand) and driver.refits == {}


def test_zeros_in_training_are_dim_columns_where_the_guest_never_spoke() -> None:
    run = executed({"quorum": 2, "absent": "zeros", "dim": 4}, {"p2": DEAF})
    assert run.federation.driver.widths == {"p1": 4, "p2": 4, "p3": 4}
    assert run.federation.driver.model.scorer.boosters[0].num_feature() == 5 + 12
    assert run.metrics["auc"] > 0.6


def test_one_refit_for_each_pattern_of_absence_made_when_first_needed_and_kept() -> None:
    run = begun({"quorum": 0})
    run.execute()
    driver, test = run.federation.driver, run.plan.deal.test
    assert driver.refits == {}
    say(run, {"p3": MUTE})
    first = run.scores(test)
    kept = driver.refits["p1, p2"]
    say(run, {"p1": MUTE, "p2": MUTE})
    alone = run.scores(test)
    say(run, {"p1": Policy(), "p2": Policy()})
    again = run.scores(test)
    say(run, {"p3": Policy()})
    assert list(driver.refits) == ["p1, p2", ""] and driver.refits["p1, p2"] is kept
    assert torch.equal(first, again) and not torch.equal(first, alone)
    assert torch.equal(run.scores(test), run.test_scores)  # the plain model stands as it was
    run.abandon()


def test_a_refit_asks_nobody() -> None:
    run = begun({"quorum": 0})
    run.execute()
    say(run, {"p3": MUTE})
    before = len(run.ledger.lines())
    run.scores(run.plan.deal.test)
    asked = run.ledger.lines()[before:]
    assert {line["verb"] for line in asked} == {"represent"} and len([line for line in asked if line["way"] == "down"]) == 3
    run.abandon()


def test_a_refit_is_kept_with_the_run(tmp_path: Path) -> None:
    run = executed({"quorum": 2}, {"p3": MUTE}, folder=tmp_path / "run")
    again = runs.reopen(tmp_path / "run")
    say(again, {"p3": MUTE})
    assert list(again.federation.driver.refits) == ["p1, p2"]
    assert torch.equal(again.scores(run.plan.deal.test), run.test_scores)
    again.close()


def test_a_host_without_columns_needs_one_guest_at_least() -> None:
    data = {**CREDIT, "host": "labels-only"}
    assert executed({"quorum": 1}, dict.fromkeys(("p0", "p2", "p3"), MUTE), data).metrics["auc"] > 0.6
    with pytest.raises(MissingReplies, match=r"represent: 0 of 4 guests answered, 1 needed"):
        executed({"quorum": 1}, {f"p{i}": MUTE for i in range(4)}, data)


class SlowGuest(fedonce.Guest):
    """p3 takes its time where it is told to."""

    def _wait(self) -> None:
        if self.party.name == "p3":
            time.sleep(1.5)

    @answers
    def learn(self, ask: fedonce.Learn) -> fedonce.Representation:
        self._wait()
        return super().learn(ask)


class LostGuest(fedonce.Guest):
    """p3 fails at prediction."""

    @answers
    def represent(self, ask: fedonce.Rows) -> fedonce.Representation:
        if self.party.name == "p3":
            raise OSError("its disk is gone")
        return super().represent(ask)


def of_guest(kind: type[fedonce.Guest]) -> Any:  # Any: an algorithm
    return type("Toy", (), {"Config": fedonce.Config, "Guest": kind, "Host": fedonce.Host})


def test_a_guest_that_is_late_is_missing() -> None:
    run = begun({"quorum": 2, "within": 0.75}, algorithm=of_guest(SlowGuest))
    digest = run.execute()["digest"]
    assert list(run.federation.driver.heard) == ["p1", "p2"]
    assert digest == without_the_last().result["digest"]
    run.abandon()
    run.federation.wire.desks["p3"].thread.join()  # who is late still writes into its ledger, and the kills below count every write


def test_a_guest_that_fails_at_prediction_is_missing() -> None:
    run = begun({"quorum": 3}, algorithm=of_guest(LostGuest))
    assert run.execute()["digest"] == without_the_last().result["digest"]
    run.abandon()


@pytest.mark.parametrize("policy", [DEAF, MUTE], ids=["training", "prediction"])
def test_a_run_with_a_missing_guest_killed_at_any_point_goes_on_to_the_same_bits(tmp_path: Path, policy: Policy) -> None:
    data = {**LESS, "rows": 150}

    def run(folder: Path) -> dict[str, Any]:
        return executed({"quorum": 1, "trees": 3}, {"p2": policy}, data, folder).result

    census = Death(0)
    expected = census.strikes(lambda: run(tmp_path / "whole"))
    assert expected is not None
    for at in range(1, census.count + 1, 3):
        folder = tmp_path / str(at)
        assert Death(at).strikes(lambda folder=folder: run(folder)) is None, f"nothing died at point {at}"  # type: ignore[misc]
        if (folder / "run.json").exists() and runs.ended(folder):  # only the cleaning up was left
            assert json.loads((folder / "run.json").read_text())["result"]["digest"] == expected["digest"]
            continue
        assert run(folder)["digest"] == expected["digest"], f"killed at point {at}"


def test_a_refit_of_nothing_at_all_says_the_base_rate() -> None:
    y = torch.tensor([1.0, 0.0, 0.0, 0.0])
    plain = models.Model("gbdt", Task("binary"), models.Constant(torch.zeros(1, 1)))
    made = absent.refit(torch.zeros(4, 0), [], y, Task("binary"), models.ModelConfig(), plain, torch.Generator(), torch.device("cpu"))
    torch.testing.assert_close(made.predict(torch.zeros(3, 0), []), torch.full((3,), 0.5).log())  # 2 against 4
