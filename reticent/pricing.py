"""What a run costs before it costs: the real algorithm is rehearsed in this process, on few made-up rows, and drawn out to all of them.

Rounds, letters and bytes grow linearly with the rows, up to masks that end within a byte and batches that end within a step.
The two sizes that are rehearsed leave the same rest over from whole batches as the full size does, so batches cost no error.
The rows are made up: where a table is here, its own rows as they are encoded; where it is at another party, noise. Nothing is sent.
"""

import math
import time
import warnings
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import polars as pl
import torch
from torch import Tensor

from reticent import run as runs
from reticent.data import encoding
from reticent.data.federated import Deal
from reticent.data.labels import Labels
from reticent.data.tables import Table
from reticent.errors import StudyError
from reticent.learn import models
from reticent.learn.task import Task
from reticent.ledger import Ledger, Way
from reticent.party import generator
from reticent.plan import Plan
from reticent.privacy import statement

SMALL = 250  # training rows of the first rehearsal, at least
APART = 500  # how many more the second has, at least
LARGE = 8_000  # more rows than this are not rehearsed for the sake of whole batches
JOURNALED = 7e-4  # seconds a letter takes to the disk, which a rehearsal spares itself: measured over 500 letters of SplitNN
BRIEF = 3.0  # seconds: a first rehearsal as short as this is done twice, since the first one also pays for imports
ASSUMED_WIDTH = 8  # columns of a table that is elsewhere, where the study says no `dim`
Figures = dict[tuple[str, str, str], float]  # what is counted, of which part of a run (or party), and which way

PHASES = ("meet", "fit", "predict", "search")
WAYS: tuple[Way, ...] = ("up", "down")


@dataclass(frozen=True)
class Rows:
    """The common rows by what they do; the rest of a sampled set does nothing but lengthens every mask."""

    train: Tensor  # int64 numbers, ordered by label
    test: Tensor
    rest: Tensor

    def thinned(self, train: int) -> "Rows":
        """Every so-manieth row of each part, so that classes keep their shares; `train` of those that train."""
        share = train / max(len(self.train), 1)
        return Rows(_spaced(self.train, train), _spaced(self.test, max(1, round(len(self.test) * share))), _spaced(self.rest, round(len(self.rest) * share)))


def rehearse(plan: Plan, device: str = "cpu", threads: int = 1) -> dict[str, Any]:  # Any: JSON
    """The JSON of `reticent price`: figures of one run of this plan."""
    began = time.monotonic()
    if plan.deal.rows:
        raise StudyError(f"{plan.study.study.algorithm} deals rows, not columns: price foretells runs in which all parties hold the same people")
    everyone = _everyone(plan)
    labels, assumed = _labels(plan, everyone)
    train = len(everyone.train)
    free = _free(plan, train)
    heard: dict[int, Figures] = {}
    chosen = sizes(train, free)
    for count in (chosen[0], *chosen):
        if count in heard and time.monotonic() - began > BRIEF:
            continue
        heard[count] = _rehearsed(replace(plan, config=free, files=_willing(plan)), everyone.thinned(count), everyone, labels, device, threads)
    figures = _capped(_drawn(heard, train), getattr(plan.config, "byte_budget", None))
    away = [name for name in (plan.host, *plan.guests) if name not in plan.deal.tables]
    if away:
        assumed.append(f"the tables of {', '.join(away)} are not on this machine: each is taken to have {_width(plan)} encoded columns or more")
    guests = () if getattr(plan.algorithm.Host, "alone", False) else plan.guests
    told = Ledger()
    told.bare.update({name: round(value) for (kind, name, _), value in figures.items() if kind == "bare"})
    crossed = 2 * len(guests) * (figures["rounds", "fit", ""] + figures["rounds", "search", ""])
    minutes = (figures["seconds", "fit", ""] + figures["seconds", "predict", ""] + crossed * JOURNALED) / 60
    moved = {phase: {way: round(figures["bytes", phase, way]) for way in WAYS} for phase in PHASES}
    return {
        "algorithm": plan.study.study.algorithm,
        "rows": {"train": train, "test": len(everyone.test)},
        "letters": round(figures["letters", "fit", ""]),
        "rounds": round(figures["rounds", "fit", ""]),
        "bytes": moved["fit"],
        "predict": {"letters": round(figures["letters", "predict", ""]), "rounds": round(figures["rounds", "predict", ""]), "bytes": moved["predict"]},
        "search": moved["search"],
        "meet": moved["meet"],
        "minutes": round(minutes, 4),
        "privacy": statement.of_run(told, plan.host, guests, plan.looked, bool(getattr(plan.algorithm.Host, "simulated", False))),
        "rehearsed": {"rows": list(heard), "seconds": round(time.monotonic() - began, 2)},
        "accuracy": "rehearsed in process on this machine: bytes to about 2 %, minutes within a factor of two",
        "assumed": assumed,
        "warnings": _over(plan, figures),
    }


def sizes(train: int, config: object) -> list[int]:
    """How many training rows to rehearse with: twice, unless there are few. Both leave the same rest over from whole batches as `train` does."""
    step = 1
    for field in fields(config) if hasattr(config, "__dataclass_fields__") else ():  # type: ignore[arg-type]  # a dataclass, by the line itself
        value = getattr(config, field.name)
        if field.name.startswith("batch") and type(value) is int and value > 0 and math.lcm(step, value) <= LARGE:
            step = math.lcm(step, value)
    if any(isinstance(getattr(config, name, None), tuple) for name in ("lr", "rates")) and step * 10 <= LARGE:
        step *= 10  # a tenth of the rows judges the rates, and must not cut a batch either
    first = train % step
    first += math.ceil(max(SMALL - first, 0) / step) * step
    second = first + math.ceil(APART / step) * step
    return [train] if second >= train else [first, second]


def _everyone(plan: Plan) -> Rows:
    deal = plan.deal
    count = max((len(table) for table in deal.tables.values()), default=0)
    if not count:
        raise StudyError("price needs to know how many rows there are: give your own party file with --parties, or all that are on this machine")
    if plan.host in deal.tables:
        y = deal.labels.y if deal.labels.y.dim() == 1 else deal.labels.y[:, 0]
        parts = [mask.nonzero().flatten() for mask in (deal.train, deal.test, ~(deal.train | deal.test))]
        return Rows(*(part[torch.argsort(y[part], stable=True)] for part in parts))
    test = max(1, round(count * (1 / plan.study.rows.folds if plan.study.rows.folds else plan.study.rows.test)))
    numbers = torch.arange(count)
    return Rows(numbers[test:], numbers[:test], numbers[:0])


def _labels(plan: Plan, everyone: Rows) -> tuple[Labels, list[str]]:
    """The labels, or made-up ones where the host is elsewhere; and what had to be assumed."""
    if plan.host in plan.deal.tables:
        return plan.deal.labels, []
    count = sum(len(part) for part in (everyone.train, everyone.test, everyone.rest))
    if plan.study.study.task == "regression":
        return Labels(torch.randn(count, generator=generator("price", "labels")), Task("regression", 1)), []
    return Labels((torch.arange(count) % 2).float(), Task("binary", 1), (0, 1)), [f"{plan.host}'s labels are not on this machine: two classes are assumed"]


def _willing(plan: Plan) -> dict[str, Any]:  # Any: PartyFile
    """Party files for a rehearsal: nobody is asked to approve what is never sent, few rows fit under any limit, and made-up rows spend no budget."""
    return {
        name: file.model_copy(update={"policy": file.policy.model_copy(update={"approve": False, "max_bytes": None, "budget": None})})
        for name, file in plan.files.items()
    }


def _over(plan: Plan, figures: Figures) -> list[str]:
    """Whom a limit of the party's own would stop."""
    found = []
    for name, file in plan.files.items():
        left, most = figures.get(("left", name, ""), 0.0), file.policy.max_bytes
        if most is not None and left > most:
            found.append(f"{name} allows {most:,} bytes a run (max_bytes), and about {left:,.0f} would leave: it would refuse")
    return found


def _free(plan: Plan, train: int) -> Any:  # Any: the algorithm's Config
    """The Config to rehearse with: no budget, which few rows would never reach, and the model that `auto` does not have to choose at full size."""
    said: dict[str, object] = {"byte_budget": None} if getattr(plan.config, "byte_budget", None) else {}
    host = plan.deal.tables.get(plan.host)
    if getattr(plan.config, "model", None) == "auto" and host is not None and host.pictures is not None and train >= models.PICTURES_ALONE:
        said["model"] = "cnn"
    return replace(plan.config, **said) if said else plan.config


def _rehearsed(plan: Plan, rows: Rows, everyone: Rows, labels: Labels, device: str, threads: int) -> Figures:
    """One small run, and all that is counted of it."""
    small = replace(plan, deal=_thin_deal(plan, rows, everyone, labels))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows may lack a class; the study's own rows are not judged here
        run = runs.begin(small, runs.Options(device=device, threads=threads))
        try:
            began = time.monotonic()
            run.federation.fit()
            fitted = time.monotonic()
            run.federation.predict(small.deal.test)
            done = time.monotonic()
        finally:
            run.abandon()
    ledger = run.ledger
    figures: Figures = {("seconds", "fit", ""): fitted - began, ("seconds", "predict", ""): done - fitted}
    for phase in PHASES:
        figures |= {("letters", phase, ""): ledger.letters(phase), ("rounds", phase, ""): ledger.rounds(phase)}
        figures |= {("bytes", phase, way): ledger.bytes(way, phase) for way in WAYS}
    for (part, _, way), tally in ledger.tallies.items():
        key = ("searched" if part in ledger.search else "part", part, way)
        figures[key] = figures.get(key, 0) + tally.bytes
    figures |= {("bare", name, ""): count for name, count in ledger.bare.items()}
    return figures | {("left", name, ""): ledger.bytes_of(name, "up") for name in plan.guests}


def _drawn(heard: Mapping[int, Figures], train: int) -> Figures:
    """Each figure on the line through both rehearsals, at `train` rows."""
    small, large = min(heard), max(heard)
    figures: Figures = {}
    for key in heard[small].keys() | heard[large].keys():
        a, b = heard[small].get(key, 0.0), heard[large].get(key, 0.0)
        slope = (b - a) / (large - small) if large > small else 0.0
        figures[key] = max(b + slope * (train - large), b if key[0] == "seconds" else 0.0)
    return figures


def _capped(figures: Figures, budget: int | None) -> Figures:
    """With `byte_budget`, each trial's training ends where its bytes, both ways, are spent, and its rounds and its time end with it."""
    if budget is None:
        return figures
    capped = dict(figures)
    fit = sum(figures["bytes", "fit", way] for way in WAYS)
    share = min(1.0, budget / max(fit, 1))
    for key in (("letters", "fit", ""), ("rounds", "fit", ""), ("rounds", "search", "")):
        capped[key] *= share
    capped["seconds", "fit", ""] *= share
    for way in WAYS:
        capped["bytes", "fit", way] *= share
    trials: dict[str, float] = defaultdict(float)
    for (kind, part, _), size in figures.items():
        if kind == "searched":
            trials[part] += size
    whole = fit + sum(trials.values())
    for part, size in trials.items():
        for way in WAYS:
            capped["bytes", "search", way] -= figures.get(("searched", part, way), 0.0) * (1 - min(1.0, budget / max(size, 1)))
    left = sum(capped["bytes", phase, way] for phase in ("fit", "search") for way in WAYS) / max(whole, 1)
    for key in capped:
        if key[0] in ("left", "bare"):  # what a guest says in all is nearly all training
            capped[key] *= left
    return capped


def _thin_deal(plan: Plan, rows: Rows, everyone: Rows, labels: Labels) -> Deal:
    chosen = torch.cat([rows.train, rows.test, rows.rest]).sort().values
    deal, fitted_on = plan.deal, everyone.train
    tables = {}
    for name in (plan.host, *plan.guests):
        if name in deal.tables:
            tables[name] = _encoded(deal.tables[name], fitted_on, chosen)
        else:
            tables[name] = _framed(torch.randn(len(chosen), _width(plan), generator=generator("price", name)))
    whole = _encoded(deal.whole, fitted_on, chosen) if getattr(plan.algorithm.Host, "simulated", False) else Table(rows=len(chosen))
    return replace(
        deal, tables=tables, labels=labels.take(chosen), train=torch.isin(chosen, rows.train), test=torch.isin(chosen, rows.test), whole=whole, declared={}
    )


def _encoded(table: Table, fitted_on: Tensor, rows: Tensor) -> Table:
    """These rows with as many columns as the whole table has once it is encoded: few rows do not show every category."""
    if table.pictures is not None:
        return Table(pictures=table.pictures[rows])
    if table.columns is None or not table.columns.width:
        return Table(rows=len(rows))
    return _framed(encoding.fit(table.columns[fitted_on.numpy()], table.declared)(table.columns[rows.numpy()]))


def _framed(x: Tensor) -> Table:
    return Table(pl.from_numpy(x.numpy(), schema=[f"c{i}" for i in range(x.shape[1])]))


def _width(plan: Plan) -> int:
    dim = getattr(plan.config, "dim", None)
    return max(dim, ASSUMED_WIDTH) if isinstance(dim, int) else ASSUMED_WIDTH


def _spaced(numbers: Tensor, count: int) -> Tensor:
    if not count or not len(numbers):
        return numbers[:0]
    return numbers[torch.linspace(0, len(numbers) - 1, min(count, len(numbers)), dtype=torch.float64).round().long()]
