from collections.abc import Mapping
from dataclasses import dataclass

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from reticent import plan as plans
from reticent import pricing, study
from reticent import run as runs
from reticent.algorithms import fedonce, splitnn
from reticent.federation import Guests
from reticent.federation import Host as BaseHost
from reticent.message import Matrix, Message
from reticent.party import Guest as BaseGuest
from reticent.party import answers
from reticent.plan import Plan


class Number(Message):
    """How far the loop is; reveals nothing."""

    step: int


class Slice(Message):
    """Two numbers for each of some rows; reveals them."""

    z: Matrix


class Chatty:
    """An algorithm of somebody's own: pages of 50 rows, twice over."""

    @dataclass(frozen=True)
    class Config:
        batch: int = 50

    class Guest(BaseGuest["Chatty.Config"]):
        @answers
        def page(self, ask: Number) -> Slice:
            return Slice(torch.zeros(ask.step, 2))

    class Host(BaseHost["Chatty.Config"]):
        def fit(self, guests: Guests["Chatty.Guest"]) -> None:
            left = int(self.party.training_rows.sum())
            for number in self.steps("pages", range(2 * -(-left // self.config.batch))):
                at = number % -(-left // self.config.batch) * self.config.batch
                guests.ask(Chatty.Guest.page, Number(min(self.config.batch, left - at)))

        def predict(self, guests: Guests["Chatty.Guest"], rows: Tensor) -> Tensor:
            guests.ask(Chatty.Guest.page, Number(len(rows)))
            return torch.zeros(len(rows))


def planned(algorithm: object, config: Mapping[str, object] | None = None, rows: int = 2030, **data: object) -> Plan:
    section = {"set": "default_credit", "split": "columns", "columns": [5, 6, 6, 6], "rows": rows, "test": 0.02, **data}
    name = algorithm if isinstance(algorithm, str) else "fedonce"
    tree = {"study": {"name": "credit", "algorithm": name, "task": "classification"}, "data": section, "config": dict(config or {})}
    return plans.make(study.study_from(tree), algorithm=None if isinstance(algorithm, str) else algorithm)


def spent(plan: Plan) -> dict[str, int]:
    run = runs.begin(plan, runs.Options())
    run.federation.fit()
    ledger = run.ledger
    run.abandon()
    return {"up": ledger.bytes("up"), "down": ledger.bytes("down"), "rounds": ledger.rounds(), "search": ledger.bytes(None, "search")}


def test_both_sizes_leave_the_same_rest_as_the_whole() -> None:
    assert pricing.sizes(10_000, fedonce.Config()) == [250, 750]
    assert pricing.sizes(3_030, splitnn.Config()) == [330, 830]
    assert pricing.sizes(13_030, splitnn.Config(lr=(1e-3, 1e-2))) == [1_030, 2_030]
    assert pricing.sizes(600, splitnn.Config()) == [600]


@given(train=st.integers(1, 10**7), batch=st.integers(1, 9_000), trials=st.booleans())
def test_sizes_are_few_rows_and_cut_no_batch(train: int, batch: int, trials: bool) -> None:
    found = pricing.sizes(train, splitnn.Config(batch=batch, lr=(1e-3, 1e-2) if trials else 1e-3))
    assert found == sorted(set(found))
    assert found[-1] <= train
    if len(found) == 1:
        assert found == [train]
    elif batch <= pricing.LARGE:
        assert {size % batch for size in found} == {train % batch}
    assert max(found) <= 4 * pricing.LARGE


def test_an_algorithm_of_one_s_own_is_priced_to_the_round_and_the_percent() -> None:
    plan = planned(Chatty)
    priced, real = pricing.rehearse(plan), spent(plan)
    assert priced["rounds"] == real["rounds"] == 2 * 41
    assert priced["letters"] == 2 * 41
    assert abs(priced["bytes"]["up"] - real["up"]) <= 0.01 * real["up"]
    assert abs(priced["bytes"]["down"] - real["down"]) <= 0.01 * real["down"]


def test_a_byte_budget_caps_the_price() -> None:
    config = {"dim": 3, "epochs": 4, "byte_budget": 150_000}
    plan = planned("splitnn", config)
    priced, real = pricing.rehearse(plan), spent(plan)
    said, cost = sum(priced["bytes"].values()), real["up"] + real["down"]
    assert said <= 150_000
    assert abs(said - cost) <= 0.05 * cost
    assert abs(priced["rounds"] - real["rounds"]) <= 2
    assert sum(pricing.rehearse(planned("splitnn", {**config, "byte_budget": 10**9}))["bytes"].values()) > 2 * said


def test_trials_of_rates_are_priced_as_search() -> None:
    plan = planned("splitnn", {"dim": 2, "epochs": 2, "lr": [1e-3, 1e-2]})
    priced, real = pricing.rehearse(plan), spent(plan)
    assert priced["rounds"] == real["rounds"]
    assert abs(sum(priced["search"].values()) - real["search"]) <= 0.02 * real["search"]


def test_a_rehearsal_changes_nothing_of_the_plan() -> None:
    plan = planned("fedonce", {"model": "linear"}, rows=600, host="labels-only")
    pricing.rehearse(plan)
    assert all(table.encoding is None for table in plan.deal.tables.values())
    assert int(plan.deal.train.sum()) == 600
    assert pricing.rehearse(plan)["bytes"] == pricing.rehearse(plan)["bytes"]
