"""Parties simulated on this machine: what `rt.fit` learns from. One set or a table a party, dealt as `[data]` in a study would say it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import polars as pl
import pyarrow as pa
import torch
from torch import Tensor

from reticent.data import encoding, federated, tables
from reticent.data.encoding import listed
from reticent.data.federated import HOST, LABELS_ONLY, Deal
from reticent.data.labels import labels
from reticent.data.sets._shared import Set
from reticent.data.tables import Table
from reticent.errors import DataError, StudyError

IN_MEMORY = "in memory"  # what a study says of a set that no file holds
TEST = 0.2  # share of the rows that tests, where nothing else is said and a set has no test part of its own


def by_columns(
    found: Set, host: int | Sequence[str], guests: Mapping[str, int | Sequence[str]], test: float | None, seed: int, rows: int | None, split_by: str | None
) -> "Federation":
    """Parties by name, the host first; numbers take what nobody names, in the set's order."""
    if HOST in guests:
        raise StudyError(f'a guest is named "{HOST}", which is the host\'s name: give it another one')
    stated = {name: [said] if isinstance(said, str) else said for name, said in {HOST: host, **guests}.items()}
    named = {column for said in stated.values() if not isinstance(said, int) for column in said}
    free = [column for column in found.table.names if column not in named]
    wanted = {name: said for name, said in stated.items() if isinstance(said, int)}
    if any(count < 0 for count in wanted.values()) or sum(wanted.values()) > len(free):
        asked = " and ".join(f"{name} {count}" for name, count in wanted.items())
        raise StudyError(f"{asked} columns were asked for, and {found.name} has {len(free)}{' others' if named else ''}: {listed(free)}")
    parts: dict[str, list[str]] = {}
    for name, said in stated.items():
        if isinstance(said, int):
            parts[name], free = free[:said], free[said:]
        else:
            parts[name] = list(said)
    empty = [name for name in guests if not parts[name]]
    if empty:
        raise StudyError(f"guest {empty[0]} has no columns: give it some, or leave it out")
    if not any(parts.values()):
        raise StudyError("nobody has a column: give the host or a guest some")
    holders = {name: part for name, part in parts.items() if part}
    return by_rule(
        found, "columns", seed,
        {"columns": list(holders.values()), "names": list(holders), "host": 0 if parts[HOST] else LABELS_ONLY, "test": test, "rows": rows, "split_by": split_by},
    )  # fmt: skip


def by_rule(found: Set, split: str, seed: int, how: Mapping[str, Any]) -> "Federation":  # Any: the keys of [data]
    """`how`: the keys of [data] but for set, label and split; without `test`, the set's own test part, or a fifth where it has none."""
    section = {key: value for key, value in how.items() if value is not None}
    known = {"parties", "host", "columns", "views", "alpha", "beta", "rows", "test", "split_by", "names", "modules"}
    strange = [key for key in section if key not in known]
    if strange:
        raise StudyError(f'a deal has no "{strange[0]}": {", ".join(sorted(known))} are possible')
    if "test" not in section and found.test is None:
        section["test"] = TEST
    return Federation.of(found, {"split": split, **section}, seed)


def as_polars(table: object, owner: str) -> pl.DataFrame:
    """A polars, pandas or pyarrow table as polars; pandas need not be there."""
    kind = type(table)
    home = kind.__module__.partition(".")[0]
    if isinstance(table, pl.DataFrame):
        return table
    try:
        if home == "pandas" and kind.__name__ == "DataFrame":
            return pl.from_pandas(table)
        if home == "pyarrow":
            made = pl.from_arrow(table)
            if isinstance(made, pl.DataFrame):
                return made
    except (pl.exceptions.PolarsError, TypeError, ValueError, pa.ArrowException) as error:
        raise DataError(f"{owner}: the table cannot be read ({error}): give every column one type") from error
    raise DataError(f"{owner}: a table is a {kind.__module__}.{kind.__qualname__}: give a polars or pandas DataFrame, or a pyarrow Table")


def aligned(frames: Mapping[str, pl.DataFrame], id: str | None) -> tuple[pl.Series | None, dict[str, pl.DataFrame]]:
    """The common ids, sorted, and everybody's other columns in that order. Without `id`, row i is the same person everywhere."""
    first, *others = frames
    if not frames[first].height:
        raise DataError(f"{first}: the table is empty; at least one row is needed")
    if id is None:
        for name in others:
            if frames[name].height != frames[first].height:
                raise DataError(
                    f'{first} has {frames[first].height:,} rows and {name} {frames[name].height:,}: say id = "…", the column that says who a row is about'
                )
        return None, dict(frames)
    ids: dict[str, pl.Series] = {}
    sorted_frames: dict[str, pl.DataFrame] = {}
    for name, frame in frames.items():
        if id not in frame.columns:
            raise DataError(f'{name}: id column "{id}" is missing; the table has {listed(frame.columns)}')
        ids[name], order = tables.sorted_ids(frame[id], name)
        sorted_frames[name] = frame[order].drop(id)
    for name in others:
        lacking, more = ids[first].filter(~ids[first].is_in(ids[name].implode())), ids[name].filter(~ids[name].is_in(ids[first].implode()))
        if len(lacking) or len(more):
            example = f'"{lacking[0]}" is at {first} alone' if len(lacking) else f'"{more[0]}" is at {name} alone'
            raise DataError(
                f"{len(lacking):,} of {len(ids[first]):,} ids of {first} are not at {name}, and {len(more):,} of {len(ids[name]):,} the other way round "
                f"({example}): bring all tables to the same people first"
            )
    return ids[first], sorted_frames


def joined(frames: Mapping[str, pl.DataFrame]) -> tuple[pl.DataFrame | None, dict[str, list[str]]]:
    """All columns side by side, and whose they are; a name that two parties use gets its owner's before it."""
    everywhere = [column for frame in frames.values() for column in frame.columns]
    owned: dict[str, list[str]] = {}
    parts = []
    for name, frame in frames.items():
        renamed = frame.rename({column: f"{name}.{column}" for column in frame.columns if everywhere.count(column) > 1})
        owned[name] = renamed.columns
        if renamed.width:
            parts.append(renamed)
    return (pl.concat(parts, how="horizontal") if parts else None), owned


@dataclass(frozen=True, eq=False)
class Federation:
    """Who holds which columns, who has the labels, and which rows train and test. Made by `Set.split`, `Set.deal` or `from_tables`."""

    found: Set  # all columns in one place, from which they were dealt
    section: Mapping[str, Any]  # [data] of a study, without set and label (Any: TOML values)
    seed: int  # of the split
    deal: Deal

    @classmethod
    def of(cls, found: Set, section: Mapping[str, Any], seed: int) -> Self:  # Any: as above
        keys = {key: value for key, value in section.items() if key != "modules"}
        return cls(found, section, seed, federated.deal(found, **keys, seed=seed))

    @classmethod
    def from_tables(
        cls,
        *,
        host: object,
        label: str | Sequence[str],
        guests: Mapping[str, object] | None = None,
        id: str | None = None,
        test: float = TEST,
        seed: int = 0,
        split_by: str | None = None,
        task: Literal["classification", "regression", "auto"] = "auto",
    ) -> Self:
        """Parties from tables in memory (polars, pandas, pyarrow); the label is a column of the host's, or several 0/1 columns.

        Rows are brought together by `id`, and all tables must hold the same people; without it, row i is the same person everywhere.
        """
        if HOST in (guests or {}):
            raise StudyError(f'a guest is named "{HOST}", which is the host\'s name: give it another one')
        frames = {HOST: as_polars(host, HOST), **{name: as_polars(table, name) for name, table in (guests or {}).items()}}
        wanted = [label] if isinstance(label, str) else list(label)
        missing = [column for column in wanted if column not in frames[HOST].columns]
        if missing or not wanted:
            raise DataError(f'{HOST}: label column "{(missing or ["…"])[0]}" is missing; the table has {listed(frames[HOST].columns)}')
        if id in wanted:
            raise DataError(f'{HOST}: column "{id}" cannot be both id and label')
        ids, frames = aligned(frames, id)
        try:
            target = labels(frames[HOST][wanted[0]] if isinstance(label, str) else frames[HOST].select(wanted), task)
        except DataError as error:
            raise DataError(f"{HOST}: {error}") from error
        frames[HOST] = frames[HOST].drop(wanted)
        for name, frame in frames.items():
            for column in frame.columns:
                try:
                    encoding.family_of(frame[column])
                except DataError as error:
                    raise DataError(f"{name}: {error}") from error
        whole, owned = joined(frames)
        table = Table(whole, ids=ids, rows=len(target))
        found = Set("tables", table, target, None, {}, True, tables.digest_of(table, target), "the owners'", "")
        return cls.of_columns(found, owned, test, seed, split_by)

    @classmethod
    def of_columns(cls, found: Set, owned: Mapping[str, Sequence[str]], test: float, seed: int, split_by: str | None) -> Self:
        made = by_columns(found, owned[HOST], {name: part for name, part in owned.items() if name != HOST}, test, seed, None, split_by)
        return cls(made.found, made.section, made.seed, made.deal)

    @property
    def train(self) -> Tensor:
        """A mask of the rows that train."""
        return self.deal.train

    @property
    def test(self) -> Tensor:
        """A mask of the rows that test."""
        return self.deal.test

    @property
    def names(self) -> tuple[str, ...]:
        return self.deal.names

    @property
    def host(self) -> str:
        return self.deal.host

    @property
    def ids(self) -> list[str] | None:
        """Who each row is about, in the order of `train` and `test`."""
        return None if self.found.table.ids is None else self.found.table.ids.to_list()

    @property
    def task(self) -> Literal["classification", "regression"]:
        """What a study calls it."""
        return "regression" if self.found.labels.task.kind == "regression" else "classification"

    def with_seed(self, seed: int) -> Self:
        """The same columns for the same parties, and other test rows (a set's own test part stays)."""
        return self if seed == self.seed else type(self).of(self.found, self.section, seed)

    def module(self, party: str, net: str | type[torch.nn.Module]) -> Self:
        """The federation in which this party trains a net of its own, "package.module:Class" or the class, built as Class(inputs, outputs).

        Encoders that train a net take it (nat, autoencoder, random-net), and `splitnn` does. The host's is said by `fit(…, model=…)`.
        """
        if party not in self.names:
            raise StudyError(f'there is no party "{party}": the parties are {", ".join(self.names)}')
        return replace(self, section={**self.section, "modules": {**self.section.get("modules", {}), party: dotted(net)}})

    def data(self, seed: int) -> dict[str, Any]:  # Any: TOML values
        """[data] of a study with this seed, which finds the same rows and columns again."""
        label, _ = self.found.asked or (None, ())
        named = {"set": self.found.name if self.found.asked else IN_MEMORY, **({"label": label} if label else {})}
        return {**named, **self.section, **({} if seed == self.seed else {"seed": self.seed})}

    @property
    def homes(self) -> tuple[str, ...]:
        """Folders that the set was looked for in."""
        return self.found.asked[1] if self.found.asked else ()

    def __repr__(self) -> str:
        parties = ", ".join(f"{name} {len(self.deal.tables[name].names)}" for name in self.names)
        kind = self.found.labels.task.kind
        return f"Federation({self.found.name}: columns of {parties}; {int(self.train.sum()):,} rows train, {int(self.test.sum()):,} test; {kind} label of {self.host})"


def dotted(net: str | type[torch.nn.Module]) -> str:
    """How a file names a net."""
    from reticent.learn.nets import own_class

    path = net if isinstance(net, str) else f"{net.__module__}:{net.__qualname__}"
    own_class(path)  # refuses what another process could not import
    return path
