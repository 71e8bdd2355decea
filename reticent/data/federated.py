"""One set, dealt out to simulated parties: what `[data]` in a study says."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from reticent.data import splits
from reticent.data.encoding import Declared, listed
from reticent.data.labels import Labels, counts, named
from reticent.data.sets import Set
from reticent.data.tables import Table
from reticent.errors import DataError, StudyError

Split = Literal["equal", "quadrants", "halves", "views", "columns", "importance", "dirichlet"]
SPLITS: tuple[str, ...] = ("equal", "quadrants", "halves", "views", "columns", "importance", "dirichlet")
LABELS_ONLY = "labels-only"
HOST = "host"  # the name of a host besides the parties that hold columns


@dataclass(frozen=True, eq=False)
class Deal:
    """Tables of all parties, rows in the set's order (its train part, then its test part)."""

    names: tuple[str, ...]  # a labels-only host comes first
    host: str  # who holds the labels
    tables: Mapping[str, Table]  # not fitted, and without declarations: a private run sets `declared`
    labels: Labels  # of all rows
    train: Tensor  # bool [n]
    test: Tensor  # bool [n]
    whole: Table  # all columns in one place, for `combined`
    set_name: str
    sha256: str  # of the whole set, before anything was drawn
    complete: bool  # False: a subset of the published set; say so beside every figure
    declared: Mapping[str, Declared]  # of all columns, and of the label by its name
    rows: Mapping[str, Tensor] = field(default_factory=dict)  # dirichlet only: the rows of the set that each party's table holds


def deal(
    set: Set,
    *,
    split: str,
    parties: int | None = None,
    host: int | str = 0,
    columns: Sequence[int] | Sequence[Sequence[str]] | None = None,
    views: Sequence[str] | None = None,
    alpha: float | None = None,
    beta: float | None = None,
    test: float | None = None,
    rows: int | None = None,
    seed: int = 0,
    names: Sequence[str] | None = None,
    fold: tuple[int, int] | None = None,
    split_by: str | None = None,
    stratify: bool = True,
) -> Deal:
    """`test` or `fold` = (which, of how many) given: all rows are pooled and split anew, by class unless `stratify` is off, or, with
    `split_by`, the latest ones are the test. Neither given: the set's own test part. `rows`: a sample of the training rows.

    Each draw has a generator of its own from the seed, so that asking for fewer rows does not change who holds what.
    """
    if split not in SPLITS:
        raise StudyError(f'split = "{split}": {", ".join(SPLITS)} are possible')
    tested = test_rows(set, test, fold, split_by, seed, stratify)
    train = ~tested
    if rows is not None:
        own = train.nonzero().flatten()
        train = torch.zeros_like(train)
        train[own[splits.sample(len(own), rows, generator(seed, "rows"))]] = True
    there, kept = counts(set.labels, torch.ones_like(train)), counts(set.labels, train)
    lacking = [i for i, count in enumerate(there) if count and not kept[i]]  # a declared class may have no row at all
    if lacking:
        raise DataError(f"{set.name}: class {named(set.labels, lacking)} has no training row: take more rows, another seed or another test part")
    dealt: dict[int, Tensor] = {}
    if split == "dirichlet":
        dealt = dict(enumerate(horizontal(set, train, parties, beta, seed)))
        parts = [set.table.take(own) for own in dealt.values()]
    else:
        parts = vertical(set, split, train, parties, columns, views, alpha, seed)
    people = party_names(len(parts), names)
    tables = dict(zip(people, parts, strict=True))
    if host == LABELS_ONLY:
        if HOST in people:
            raise StudyError(f'a party is named "{HOST}", which is the labels-only host\'s name: give it another one')
        tables = {HOST: Table(ids=set.table.ids, rows=len(set.table)), **tables}
        holder = HOST
    else:
        holder = person(host, people)
    return Deal(
        names=tuple(tables),
        host=holder,
        tables=tables,
        labels=set.labels,
        train=train,
        test=tested,
        whole=set.table,
        set_name=set.name,
        sha256=set.sha256,
        complete=set.complete,
        declared=set.declared,
        rows={people[i]: own for i, own in dealt.items()},
    )


def test_rows(set: Set, test: float | None, fold: tuple[int, int] | None, split_by: str | None, seed: int, stratify: bool) -> Tensor:
    stratify = stratify and set.labels.task.kind in ("binary", "multiclass")
    rng = generator(seed, "test")
    if fold is not None:
        which, k = fold
        if test is not None or split_by is not None:
            raise StudyError("folds cannot be combined with test or split_by: choose one of them")
        if not 0 <= which < k:
            raise StudyError(f"fold {which} of {k}: folds are counted from 0 to {k - 1}")
        return splits.folds(set.labels.y, k, rng, stratify) == which
    if split_by is not None:
        if test is None:
            raise StudyError(f'split_by = "{split_by}" needs to know how many of the latest rows are the test: say test = 0.2')
        if set.table.columns is None or split_by not in set.table.names:
            raise StudyError(f'split_by = "{split_by}": the set has no such column; it has {listed(set.table.names)}')
        return splits.by_date(set.table.columns[split_by], test)
    if test is not None:
        return splits.holdout(set.labels.y, test, rng, stratify)
    if set.test is None:
        raise StudyError(f"{set.name} has no test part of its own: say test = 0.2, or ask for folds")
    return set.test.clone()


def vertical(
    set: Set,
    split: str,
    train: Tensor,
    parties: int | None,
    columns: Sequence[int] | Sequence[Sequence[str]] | None,
    views: Sequence[str] | None,
    alpha: float | None,
    seed: int,
) -> list[Table]:
    table = set.table
    pictures = table.pictures
    if split in ("quadrants", "halves"):
        if pictures is None:
            raise StudyError(f'split = "{split}" cuts pictures, but {set.name} has columns: split it by "equal" or "columns"')
        pieces = splits.quadrants(pictures) if split == "quadrants" else splits.halves(pictures)
    elif split == "equal" and pictures is not None:
        pieces = splits.bands(pictures, parties or 2)
    else:
        pieces = []
    if pieces:
        fits(split, len(pieces), parties)
        return [Table(None, piece, table.ids, table.declared) for piece in pieces]
    if split == "equal":
        lists = [[table.names[i] for i in part] for part in splits.equal(len(table.names), parties or 2)]
    elif split == "views":
        lists = splits.views(set.views, views)
    elif split == "columns":
        if columns is None:
            raise StudyError('split = "columns" needs widths, as columns = [13, 10], or lists of names')
        lists = splits.columns(table.names, columns)
    else:
        if table.columns is None:
            raise StudyError(f'split = "importance" ranks columns, but {set.name} has pictures: split it by "quadrants" or "halves"')
        if alpha is None:
            raise StudyError('split = "importance" needs the host\'s share of the best columns: say alpha = 0.3')
        x = splits.raw(table.columns.filter(train.numpy()))
        both = splits.importance(alpha, x, set.labels.y[train], generator(seed, "columns"))
        lists = [[table.names[i] for i in part] for part in both]
    fits(split, len(lists), parties)
    return [table.select(part) for part in lists]


def horizontal(set: Set, train: Tensor, parties: int | None, beta: float | None, seed: int) -> list[Tensor]:
    """The training rows each party holds; test rows stay in one place."""
    if parties is None or beta is None:
        raise StudyError('split = "dirichlet" needs parties and beta, as parties = 10 and beta = 0.5')
    if set.labels.task.kind not in ("binary", "multiclass"):
        raise StudyError(f'split = "dirichlet" deals rows by class, but {set.name} has a {set.labels.task.kind} label')
    own = train.nonzero().flatten()
    return [own[part] for part in splits.dirichlet(set.labels.y[own], parties, beta, generator(seed, "parties"))]


def fits(split: str, made: int, parties: int | None) -> None:
    if parties is not None and parties != made:
        raise StudyError(f'parties = {parties}, but split = "{split}" makes {made} parts: leave `parties` out, or say {made}')


def party_names(count: int, names: Sequence[str] | None) -> list[str]:
    people = [f"p{i}" for i in range(count)] if names is None else list(names)
    if len(people) != count or len({*people}) < count:
        raise StudyError(f"parties are named {listed(people)}, but the columns are dealt to {count}: give each its own name")
    return people


def person(host: int | str, people: Sequence[str]) -> str:
    if isinstance(host, str):
        if host not in people:
            raise StudyError(f'host = "{host}": the parties are {listed(people)}; "{LABELS_ONLY}" is a host besides them')
        return host
    if not 0 <= host < len(people):
        raise StudyError(f'host = {host}: parties are counted from 0 to {len(people) - 1}; "{LABELS_ONLY}" is a host besides them')
    return people[host]


def generator(seed: int, purpose: str) -> torch.Generator:
    """A stream of its own for each purpose, the same on every machine."""
    key = hashlib.sha256(f"reticent data {seed} {purpose}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(key[:7], "little"))
