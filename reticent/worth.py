"""What each guest is worth to the host's model: leave-one-out and Shapley values, from letters already heard. Nothing is asked.

A set of guests is worth the metric, on the run's test rows, of a model fitted to the host's columns and their letters alone. Up to
eight guests the Shapley values are exact, over all sets; beyond, they are means over random orders, each beside its reverse, with a 95 %
interval (Student's t over the pairs). Both ways they sum to what all guests together add.
"""

import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from scipy.special import stdtrit
from torch import Tensor

from reticent import plan as plans
from reticent import run as runs
from reticent import study
from reticent.errors import DataError, JournalError, PrivacyError, StudyError
from reticent.folder import forget
from reticent.learn import metrics
from reticent.learn.models import Model
from reticent.learn.task import Task
from reticent.run import Nobody, Run

EXACT = 8  # guests: 256 fits
ORDERS = 32

Players = tuple[str, ...]
Value = Callable[[Players], float]  # of a set of guests, in the study's order
Kept = Mapping[str, Mapping[str, Tensor]]

of_task = {"multiclass": "accuracy", "regression": "rmse"}  # and AUC for the others


@runtime_checkable
class Keeper(Protocol):
    """A host that kept what it heard, and can fit its model again to fewer guests."""

    heard: Kept
    tested: Kept

    def refit(self, names: Players) -> Model: ...

    def scores(self, own: Tensor, said: dict[str, Tensor]) -> Tensor: ...

    def letters(self, kept: Any, names: Players) -> dict[str, Tensor]: ...  # Any: `heard` or `tested`, of the host's own type


def exact(names: Players, value: Value) -> dict[str, float]:
    """Shapley values: what a guest adds to a set of others, averaged over the sizes of the set, and over the sets of each size."""
    worth = dict.fromkeys(names, 0.0)
    for name in names:
        others = [other for other in names if other != name]
        added = []
        for size in range(len(names)):
            for there in itertools.combinations(others, size):
                with_it = tuple(n for n in names if n in there or n == name)
                added.append((value(with_it) - value(there)) / math.comb(len(others), size))
        worth[name] = math.fsum(added) / len(names)
    return worth


def sampled(names: Players, value: Value, orders: int, rng: torch.Generator) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    """Shapley values as means over `orders` random orders, half of them the others' reverses, and a 95 % interval for each guest."""
    pairs = max(2, orders // 2)
    added: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(pairs):
        order = torch.randperm(len(names), generator=rng).tolist()
        both = [steps([names[i] for i in way], names, value) for way in (order, order[::-1])]
        for name in names:
            added[name].append((both[0][name] + both[1][name]) / 2)
    reach = float(stdtrit(pairs - 1, 0.975))
    worth = {name: math.fsum(found) / pairs for name, found in added.items()}
    margin = {name: reach * math.sqrt(math.fsum((x - worth[name]) ** 2 for x in found) / (pairs - 1) / pairs) for name, found in added.items()}
    return worth, {name: (worth[name] - margin[name], worth[name] + margin[name]) for name in names}


def steps(order: Sequence[str], names: Players, value: Value) -> dict[str, float]:
    """What each adds as they come in this order."""
    there: set[str] = set()
    before, added = value(()), {}
    for name in order:
        there.add(name)
        now = value(tuple(n for n in names if n in there))
        added[name], before = now - before, now
    return added


def measured(scores: Tensor, y: Tensor, task: Task) -> float:
    """The metric that worth is counted in: more is better."""
    name = of_task.get(task.kind, "auc")
    found = metrics.measure(scores.numpy(), y.numpy(), task).get(name)
    if not isinstance(found, float):
        raise DataError(f"the run's {len(y)} test rows define no {name}: worth needs test rows of both classes")
    return -found if name == "rmse" else found


def of_run(run: Run, orders: int = ORDERS) -> dict[str, Any]:  # Any: JSON
    """What each guest of a finished run is worth. `orders`: how many are sampled where there are more than eight guests."""
    began = time.monotonic()
    plan, host = run.plan, run.federation.driver
    if plan.study.privacy is not None:
        raise PrivacyError("each of these fits would be a release, and the run's ε covers the run's own: what guests are worth is not computed under a target")
    if not isinstance(host, Keeper):
        raise StudyError(f"{plan.study.study.algorithm} keeps no letters to fit again from: what guests are worth is read from a run of fedonce")
    names = tuple(name for name in host.heard if name in host.tested)
    if not names:
        raise JournalError("the host kept no guest's letters on both training and test rows: execute the run first")
    rows = plan.deal.test
    own, said, y, task = host.party.table[rows].to(host.party.device), host.letters(host.tested, names), plan.deal.labels.y[rows], plan.deal.labels.task
    values: dict[Players, float] = {}
    fits = 0

    def value(there: Players) -> float:
        nonlocal fits
        if there not in values:
            if len(there) == len(host.heard):
                scores = host.scores(own, said)
            else:
                scores, fits = host.refit(there).predict(own, [said[name] for name in there]), fits + 1
            values[there] = measured(scores.cpu(), y, task)
        return values[there]

    interval = None
    if len(names) <= EXACT:
        worth = exact(names, value)
    else:
        worth, interval = sampled(names, value, orders, host.party.seeded("worth"))
    metric = of_task.get(task.kind, "auc")
    return {
        "metric": "-rmse" if metric == "rmse" else metric, "all": value(names), "solo": value(()),
        "leave_one_out": {name: value(tuple(n for n in names if n != name)) for name in names}, "shapley": worth, "interval": interval,
        "absent": [name for name in plan.guests if name not in names], "fits": fits, "seconds": round(time.monotonic() - began, 3),
    }  # fmt: skip


def of_folder(folder: Path, orders: int = ORDERS) -> dict[str, Any]:  # Any: JSON
    """The same of a run's folder; of the parties' tables the host's alone must be on this machine, and what is in the folder stays as it is."""
    run = opened(folder)
    try:
        return of_run(run, orders)
    finally:
        run.abandon()
        forget(folder)  # secrets were made anew as the doors opened


def opened(folder: Path) -> Run:
    """A finished run with its host's model and letters, and a wire that carries nothing."""
    said = runs.noted(folder)
    if said["state"] != "done":
        raise JournalError(f"{folder} holds a run that is not finished: `reticent resume {folder}` goes on with it")
    if "study" not in said["result"]:
        raise JournalError(f"{folder} holds several runs: name one of the folders in it, as in {folder}/seed-0")
    options = replace(runs.options_of(said), wire="inprocess")
    files = {file.name: file for file in map(study.read_party, map(Path, options.parties))}
    plan = plans.make(study.read_study(folder / "study.toml"), homes=[Path(home) for home in options.homes], files=files, fold=options.fold)
    if plan.hash != said["result"]["study"]:
        raise DataError(f"{folder}: the study or its data is not what it was: its hash was {said['result']['study'][:16]}…, it is {plan.hash[:16]}…")
    run = runs.begin(plan, options, folder, between=Nobody)
    try:
        run.federation.reopen(folder / "state")
    except BaseException:
        run.abandon()
        forget(folder)
        raise
    return run
