"""What each guest is worth: exact on toys, the sum of what all add on a run, and nothing sent."""

import itertools
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
import torch

import reticent as rt
from reticent import run as runs
from reticent import worth
from reticent.data.sets import default_credit
from reticent.errors import DataError, JournalError, PrivacyError, StudyError, WireError
from reticent.learn.task import Task
from reticent.party import Policy
from reticent.run import Options, Run
from reticent.study import study_from

CREDIT = {"set": "default_credit", "split": "columns", "columns": [5, 6, 6, 6], "host": 0, "rows": 1000, "test": 0.2}


def done(config: dict[str, object] | None = None, data: dict[str, object] | None = None, folder: Path | None = None, task: str = "classification", algorithm: str = "fedonce") -> Run:  # fmt: skip
    made = {"dim": 3, "model": "gbdt", "trees": 20} if algorithm == "fedonce" else {}
    wanted = study_from({"study": {"name": "t", "algorithm": algorithm, "task": task}, "data": data or CREDIT, "config": {**made, **(config or {})}})
    run = runs.to_completion(wanted, Options(), folder)
    run.finish()
    return run


def gloves(there: tuple[str, ...]) -> float:
    """One left glove (a) and two right ones (b, c): a pair is worth 1. Shapley values 2/3, 1/6, 1/6."""
    return float("a" in there and ("b" in there or "c" in there))


def test_the_glove_game_is_shared_two_thirds_and_two_sixths() -> None:
    assert worth.exact(("a", "b", "c"), gloves) == pytest.approx({"a": 2 / 3, "b": 1 / 6, "c": 1 / 6}, abs=1e-15)


def test_a_guest_that_adds_a_fixed_amount_is_worth_it_and_a_dummy_nothing() -> None:
    adds = {"a": 0.25, "b": 0.5, "c": 0.0}
    assert worth.exact(("a", "b", "c"), lambda there: 0.125 + sum(adds[name] for name in there)) == adds


def table_of(names: tuple[str, ...], seed: int) -> dict[tuple[str, ...], float]:
    sets = [there for size in range(len(names) + 1) for there in itertools.combinations(names, size)]
    return dict(zip(sets, torch.rand(len(sets), generator=torch.Generator().manual_seed(seed)).double().tolist(), strict=True))


@pytest.mark.parametrize("seed", range(5))
def test_shapley_values_are_the_mean_over_all_orders_and_sum_to_what_all_add(seed: int) -> None:
    names = ("a", "b", "c", "d")
    value = table_of(names, seed)
    found = worth.exact(names, value.__getitem__)
    orders = [worth.steps(order, names, value.__getitem__) for order in itertools.permutations(names)]
    assert found == pytest.approx({name: sum(order[name] for order in orders) / len(orders) for name in names}, abs=1e-12)
    assert sum(found.values()) == pytest.approx(value[names] - value[()], abs=1e-12)


def test_sampled_values_sum_to_what_all_add_and_their_intervals_hold_the_exact_ones_nearly_always() -> None:
    names, held = ("a", "b", "c", "d", "e"), 0
    for seed in range(40):
        value = table_of(names, seed)
        found, interval = worth.sampled(names, value.__getitem__, 24, torch.Generator().manual_seed(seed))
        assert sum(found.values()) == pytest.approx(value[names] - value[()], abs=1e-12)
        truth = worth.exact(names, value.__getitem__)
        held += sum(low <= truth[name] <= high for name, (low, high) in interval.items())
    assert 0.90 <= held / 200 <= 0.99  # 95 % are claimed; 200 cases scatter by 1.5


def test_worth_of_a_run_sums_to_all_less_solo_and_fits_each_set_once() -> None:
    run = done()
    found = worth.of_run(run)
    assert found["metric"] == "auc" and found["all"] == run.metrics["auc"]
    assert sum(found["shapley"].values()) == pytest.approx(found["all"] - found["solo"], abs=1e-12)
    assert found["fits"] == 7 and list(found["shapley"]) == ["p1", "p2", "p3"] and found["interval"] is None and found["absent"] == []


def test_a_set_of_guests_is_worth_the_metric_of_a_run_with_them_alone() -> None:
    found = worth.of_run(done())
    solo = done({"model": "gbdt", "trees": 20}, algorithm="solo")
    assert found["leave_one_out"]["p3"] == done(data={**CREDIT, "columns": list(default_credit.views.values())[:3]}).metrics["auc"]
    assert found["solo"] == solo.metrics["auc"]


def test_nothing_is_sent_and_the_folder_stays_as_it_is(tmp_path: Path) -> None:
    run = done(folder=tmp_path / "run")
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    found = worth.of_folder(tmp_path / "run")
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == before
    assert {**found, "seconds": 0} == {**worth.of_run(run), "seconds": 0}


def test_a_run_opened_for_its_worth_has_no_wire_to_ask_over(tmp_path: Path) -> None:
    done(folder=tmp_path / "run")
    run = worth.opened(tmp_path / "run")
    with pytest.raises(WireError, match="asks nobody"):
        run.scores(run.plan.deal.test)
    run.abandon()


def test_it_needs_no_guest_s_table(tmp_path: Path) -> None:
    """As at the host of a run between machines: the others' party files and tables are elsewhere."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(300, 4, generator=g)
    frames = {"bank": {"a": x[:, 0].tolist(), "y": (x.sum(1) > 0).long().tolist()}, "shop": {"b": x[:, 1].tolist()}, "telco": {"c": x[:, 2].tolist(), "d": x[:, 3].tolist()}}  # fmt: skip
    for name, columns in frames.items():
        pl.DataFrame({"id": list(range(300)), **columns}).write_parquet(tmp_path / f"{name}.parquet")
        label = 'label = "y"\n' if name == "bank" else ""
        (tmp_path / f"{name}.toml").write_text(f'name = "{name}"\ntable = "{name}.parquet"\nid = "id"\n{label}')
    wanted = study_from(
        {
            "study": {"name": "t", "algorithm": "fedonce", "task": "classification"},
            "parties": {"host": "bank", "guests": ["shop", "telco"]},
            "rows": {"test": 0.3},
            "config": {"model": "linear"},
        }
    )
    runs.to_completion(wanted, Options(parties=tuple(str(tmp_path / f"{name}.toml") for name in frames)), tmp_path / "run").finish()
    kept = runs.noted(tmp_path / "run")
    options = replace(runs.options_of(kept), parties=(str(tmp_path / "bank.toml"),))
    runs.note(tmp_path / "run", options, kept["result"])
    for name in ("shop", "telco"):
        (tmp_path / f"{name}.parquet").unlink()
    found = worth.of_folder(tmp_path / "run")
    assert found["shapley"]["telco"] > found["shapley"]["shop"] > 0.05


def test_a_guest_that_was_not_heard_is_named_and_not_counted() -> None:
    wanted = study_from({"study": {"name": "t", "algorithm": "fedonce", "task": "classification"}, "data": CREDIT, "config": {"dim": 3, "model": "linear", "quorum": 1}})  # fmt: skip
    for verb, mode in itertools.product(("learn", "represent"), ("refit", "zeros")):
        run = runs.begin(runs.plans.make(wanted.model_copy(update={"config": {**wanted.config, "absent": mode}})), Options())
        run.doors["p2"].party.policy = Policy(verbs=(verb,))
        run.execute()
        found = worth.of_run(run)
        assert found["absent"] == ["p2"] and list(found["shapley"]) == ["p1", "p3"]
        assert sum(found["shapley"].values()) == pytest.approx(found["all"] - found["solo"], abs=1e-12)
        run.abandon()


def test_beyond_eight_guests_values_are_sampled_with_an_interval() -> None:
    g = torch.Generator().manual_seed(3)
    x = torch.randn(400, 10, generator=g)
    columns = {f"x{i}": x[:, i].tolist() for i in range(10)}
    fed = rt.Federation.from_tables(
        host=pl.DataFrame({"x0": columns["x0"], "y": (3 * x[:, 1] + x[:, 0] + 0.5 * x[:, 2] > 0).long().tolist()}),
        label="y", guests={f"g{i}": pl.DataFrame({f"x{i}": columns[f"x{i}"]}) for i in range(1, 10)},
    )  # fmt: skip
    found = worth.of_run(rt.fit("fedonce", fed, model="linear"), 8)
    assert sum(found["shapley"].values()) == pytest.approx(found["all"] - found["solo"], abs=1e-12)
    assert max(found["shapley"], key=found["shapley"].__getitem__) == "g1"
    assert all(low <= found["shapley"][name] <= high for name, (low, high) in found["interval"].items())
    assert found["fits"] < 8 * 9


@pytest.mark.parametrize(("kind", "metric"), [("multiclass", "accuracy"), ("regression", "-rmse")])
def test_the_metric_follows_the_task_and_a_host_without_columns_has_base_rates(tmp_path: Path, kind: str, metric: str) -> None:
    x = torch.randn(300, 4, generator=torch.Generator().manual_seed(1))
    y = torch.bucketize(x[:, 1] + x[:, 3], torch.tensor([-0.7, 0.7])) if kind == "multiclass" else 3 * x[:, 1] - x[:, 3]
    label = [f"c{int(v)}" for v in y] if kind == "multiclass" else y.tolist()
    pl.DataFrame({**{f"x{i}": x[:, i].tolist() for i in range(4)}, "y": label}).write_parquet(tmp_path / "t.parquet")
    data = {"set": str(tmp_path / "t.parquet"), "label": "y", "split": "equal", "parties": 2, "host": "labels-only", "test": 0.2}
    run = done({"model": "linear"}, data, task="classification" if kind == "multiclass" else "regression")
    found = worth.of_run(run)
    assert found["metric"] == metric and found["fits"] == 3
    if kind == "multiclass":
        assert found["solo"] == pytest.approx(run.metrics["majority"])
    else:
        deal = run.plan.deal
        assert found["solo"] == pytest.approx(-float((deal.labels.y[deal.test] - deal.labels.y[deal.train].mean()).square().mean().sqrt()))
    assert sum(found["shapley"].values()) == pytest.approx(found["all"] - found["solo"], abs=1e-12)


def test_what_cannot_be_valued_is_refused_in_a_sentence(tmp_path: Path) -> None:
    run = done()
    with pytest.raises(PrivacyError, match="each of these fits would be a release"):
        worth.of_run(replace(run, plan=replace(run.plan, study=run.plan.study.model_copy(update={"privacy": SimpleNamespace(epsilon=1.0)}))))
    with pytest.raises(StudyError, match="solo keeps no letters"):
        worth.of_run(done({"model": "linear"}, algorithm="solo"))
    with pytest.raises(DataError, match="worth needs test rows of both classes"):
        worth.measured(torch.zeros(3), torch.ones(3), Task("binary"))
    run = runs.begin(run.plan, Options())
    with pytest.raises(JournalError, match="execute the run first"):
        worth.of_run(run)
    run.abandon()
    with pytest.raises(JournalError, match="holds no run"):
        worth.of_folder(tmp_path)
