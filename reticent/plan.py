"""From the files people wrote to what runs: the algorithm, its Config, the study's hash, and each party's own data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import torch

from reticent import algorithms, study
from reticent.data import federated, sets, splits, tables
from reticent.data.federated import Deal
from reticent.data.labels import Labels
from reticent.data.sets import Set
from reticent.data.simulated import IN_MEMORY
from reticent.data.tables import Table
from reticent.errors import DataError, StudyError
from reticent.learn.task import Task
from reticent.party import Party, Policy, generator, hash_ids
from reticent.privacy.budget import Budget
from reticent.privacy.secret import Privacy, keep
from reticent.study import PartyFile, Simulation, Study


@dataclass(frozen=True)
class Plan:
    """All that a process must know of a study before it opens a door. `deal` holds the data of the parties that run here."""

    study: Study
    algorithm: Any  # a module or class with Config, Guest and Host
    config: Any  # its Config
    effective: Mapping[str, Any]  # what the hash covers
    hash: str
    deal: Deal
    files: Mapping[str, PartyFile]  # of the parties that have files here
    looked: str  # what the row mask was drawn by, and so what it tells the guests of; "" if by chance alone

    @property
    def host(self) -> str:
        return self.deal.host

    @property
    def guests(self) -> tuple[str, ...]:
        named = self.study.parties.guests if self.study.parties else self.deal.names
        return tuple(name for name in named if name != self.host)


def make(
    wanted: Study,
    *,
    homes: Sequence[Path] = (),
    files: Mapping[str, PartyFile] | None = None,
    fold: int | None = None,
    algorithm: Any = None,  # Any: a module or class with Config, Guest and Host
    found: Set | None = None,
) -> Plan:
    """`homes`: folders with data sets. `files`: the party files on this machine. `fold`: which of [data] folds. `algorithm` and `found`, the set
    of [data]: handed over, not looked for by name."""
    chosen = algorithm or _find(wanted)
    config = study.configure(chosen.Config, wanted.config, wanted.place("config"))
    deal = _simulated(wanted, homes, fold, found) if wanted.data else _gathered(wanted, files or {}, fold)
    if wanted.data and wanted.data.split == "dirichlet" and not getattr(chosen, "horizontal", False):
        raise StudyError(
            f'split = "dirichlet" deals rows, and {wanted.study.algorithm} learns from columns: choose split = "equal", "columns" or another split of columns'
        )
    if wanted.privacy is not None:
        raise StudyError(f"{wanted.study.algorithm} makes no noise, so no ε can be kept: leave [privacy] out")
    effective = study.effective(wanted, config)
    if fold is not None:
        effective = {**effective, "fold": fold}
    data = deal.sha256 if wanted.data else None
    return Plan(wanted, chosen, config, effective, study.study_hash(effective, data), deal, files or {}, _looked(wanted, deal))


def _looked(wanted: Study, deal: Deal) -> str:
    """What the row mask depends on besides chance."""
    rows = wanted.data or wanted.rows
    own_test_part = wanted.data is not None and wanted.data.test is None and wanted.data.folds is None
    said = []
    if rows.split_by is not None:
        said.append(f"the column {rows.split_by}")
    elif deal.labels.task.kind in ("binary", "multiclass") and not own_test_part:
        said.append("the labels' classes (stratified, by a seed that is in the study)")
    if deal.labels.known is not None:
        said.append("who has a label")
    return " and ".join(said)


def baseline(plan: Plan, name: str) -> Study:
    """The same study for another algorithm: of [config] it takes the fields it has, and [compare.NAME] says the rest."""
    found = algorithms.find(name)
    tree = plan.study.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    tree["study"] = {**tree["study"], "algorithm": name}
    tree["config"] = {**study.fields_shared(found.Config, plan.study.config), **plan.study.compare.get(name, {})}
    return study.study_from(tree)


def _find(wanted: Study) -> Any:  # Any: an algorithm
    try:
        return algorithms.find(wanted.study.algorithm)
    except StudyError as error:
        raise StudyError(f"{wanted.place('study')('algorithm')}: {error}") from None


def _load(wanted: Study, data: Simulation, homes: Sequence[Path]) -> Set:
    where = wanted.place("data")
    if data.set == IN_MEMORY:
        raise StudyError(f'{where("set")}: the tables were in the memory of a Python program: give them again, as in reticent.load("runs/1", fed)')
    try:
        return sets.load(
            data.set, data.label, folder=list(homes), task=wanted.study.task if "/" in data.set or Path(data.set).suffix in tables.suffixes else "auto"
        )
    except StudyError as error:
        raise StudyError(f"{where('set')}: {error}") from None


def _simulated(wanted: Study, homes: Sequence[Path], fold: int | None, found: Set | None) -> Deal:
    data = wanted.data
    assert data is not None
    found = found or _load(wanted, data, homes)
    regression = found.labels.task.kind == "regression"
    if regression != (wanted.study.task == "regression"):
        raise StudyError(
            f'{wanted.place("study")("task")}: task = "{wanted.study.task}", but the label of {data.set} is {"a number to regress" if regression else "a class"}'
        )
    dealt = federated.deal(
        found, split=data.split, parties=data.parties, host=data.host, columns=data.columns, views=data.views, alpha=data.alpha, beta=data.beta,
        test=data.test if fold is None else None, rows=data.rows, seed=wanted.study.seed if data.seed is None else data.seed, fold=None if fold is None else (fold, data.folds or 5), split_by=data.split_by,
        names=data.names,
    )  # fmt: skip
    strangers = [name for name in data.modules or {} if name not in dealt.names]
    if strangers:
        raise StudyError(f'{wanted.place("data")("modules")}: modules names "{strangers[0]}", and the parties are {", ".join(dealt.names)}')
    return dealt


def _gathered(wanted: Study, files: Mapping[str, PartyFile], fold: int | None) -> Deal:
    """The tables of the parties whose files are here: all of them in a pilot, one in a real federation."""
    parties = wanted.parties
    assert parties is not None
    names = (parties.host, *parties.guests)
    strangers = [name for name in files if name not in names]
    if strangers:
        raise StudyError(f"{wanted.place('parties')('guests')}: {strangers[0]} has a party file, but the study names {', '.join(names)}")
    dealt: dict[str, Table] = {}
    labels: Labels | None = None
    for name, file in files.items():
        dealt[name], found = read(file, wanted)
        if name == parties.host:
            if found is None:
                raise DataError(f'{file.path or name}: {name} is the study\'s host, and its file names no label: say label = "…"')
            labels = found
    rows = max((len(table) for table in dealt.values()), default=0)
    nothing = torch.zeros(rows, dtype=torch.bool)
    train, test = nothing, nothing
    if labels is not None:
        known = torch.ones(rows, dtype=torch.bool) if labels.known is None else labels.known
        test = torch.zeros(rows, dtype=torch.bool)
        test[known.nonzero().flatten()] = _test(wanted, dealt[parties.host].take(known), labels.take(known), fold)
        train = known & ~test
    aligned = len(dealt) == len(names) and len({hash_ids(table, "") for table in dealt.values()}) == 1
    whole = _together(dealt, names) if aligned else Table(rows=rows)
    return Deal(
        names=names, host=parties.host, tables=dealt, labels=labels or Labels(torch.zeros(0), Task("binary", 1)), train=train, test=test, whole=whole,
        set_name="", sha256="", complete=True, declared={},
    )  # fmt: skip


def _test(wanted: Study, table: Table, labels: Labels, fold: int | None) -> torch.Tensor:
    rows, seed = wanted.rows, wanted.study.seed
    stratify = labels.task.kind in ("binary", "multiclass")
    if fold is not None:
        return splits.folds(labels.y, rows.folds or 5, generator(seed, "test"), stratify) == fold
    if rows.split_by is not None:
        if table.columns is None or rows.split_by not in table.columns.columns:
            raise StudyError(
                f'{wanted.place("rows")("split_by")}: split_by = "{rows.split_by}", and the host\'s table has no such column; it has {", ".join(table.names)}'
            )
        return splits.by_date(table.columns[rows.split_by], rows.test)
    return splits.holdout(labels.y, rows.test, generator(seed, "test"), stratify)


def _together(dealt: Mapping[str, Table], names: Sequence[str]) -> Table:
    """All columns in one place, for `combined`; only a pilot on one machine can make it."""
    frames = []
    for name in names:
        columns = dealt[name].columns
        if columns is not None:
            frames.append(columns.rename({column: f"{name}.{column}" for column in columns.columns}))
    return Table(pl.concat(frames, how="horizontal") if frames else None, ids=dealt[names[0]].ids, rows=len(dealt[names[0]]))


def read(file: PartyFile, wanted: Study | None = None) -> tuple[Table, Labels | None]:
    """A party file's table and labels."""
    label = list(file.label) if isinstance(file.label, tuple) else file.label
    table, labels = tables.read(file.table, id=file.id, label=label, task=wanted.study.task if wanted and label else None, gaps=True)
    unknown = [column for column in file.drop if column not in table.names]
    if unknown:
        raise DataError(f'{file.path or file.name}: drop names column "{unknown[0]}", which {file.table} does not have: {", ".join(table.names)}')
    return (table.select([column for column in table.names if column not in file.drop]) if file.drop else table), labels


def party(plan: Plan, name: str, folder: Path | None, device: torch.device) -> Party:
    """The party `name` as its own process knows it. `folder` is where it keeps its secret."""
    deal, file, seed = plan.deal, plan.files.get(name), plan.study.study.seed
    table = deal.tables[name]
    table = replace_table(table)
    hosting = name == deal.host
    return Party(
        name=name, table=table, privacy=Privacy(keep(folder), name, cache(table.sha256)),
        policy=policy_of(file) if file else Policy(),
        rng=generator(seed, name), device=device, labels=deal.labels if hosting else None, train=deal.train if hosting else None,
        module=file.module if file else _module(plan, name), seed=seed, whole=replace_table(deal.whole) if hosting and len(deal.whole.names) else None,
    )  # fmt: skip


def _module(plan: Plan, name: str) -> str:
    """A simulated party's own net; the files of real ones name theirs."""
    return (plan.study.data.modules or {}).get(name, "") if plan.study.data else ""


def policy_of(file: PartyFile) -> Policy:
    said, allowed = file.policy, file.policy.budget
    budget = Budget(file.path.with_name(f"{file.path.name}.budget"), allowed.epsilon, allowed.delta, allowed.against) if allowed and file.path else None
    return Policy(said.verbs, said.max_bytes, said.unnoised, said.approve, said.keep_days, budget)


def replace_table(table: Table) -> Table:
    """The same rows with an encoding of their own: two runs in one process fit their own."""
    return Table(table.columns, table.pictures, table.ids, table.declared, None, len(table))


def with_seed(wanted: Study, seed: int) -> Study:
    return wanted.model_copy(update={"study": wanted.study.model_copy(update={"seed": seed})})
