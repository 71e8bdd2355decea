"""A party's own table: columns or pictures, sorted by id, encoded a few rows at a time."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl
import torch
from torch import Tensor

from reticent.data import encoding
from reticent.data.encoding import Declared, Encoding, listed
from reticent.data.labels import Labels, labels, with_gaps
from reticent.errors import DataError

suffixes = (".csv", ".parquet", ".arrow", ".feather")


class Table:
    """Rows of one party. A host without features has a table of zero columns, which still has its rows.

    Rows are asked for by a bit mask of length n, or by row numbers (int64). Columns come out as [rows, width] float32, pictures
    as [rows, channels, height, width] float32 in [-1, 1].
    """

    def __init__(
        self,
        columns: pl.DataFrame | None = None,
        pictures: Tensor | None = None,
        ids: pl.Series | None = None,
        declared: Mapping[str, Declared] | None = None,
        encoding: Encoding | None = None,
        rows: int | None = None,
    ) -> None:
        if columns is not None and pictures is not None:
            raise DataError("a table has columns or pictures, not both: make two parties of them")
        if pictures is not None and (pictures.dtype != torch.uint8 or pictures.dim() != 4):
            raise DataError(
                f"pictures are {str(pictures.dtype).removeprefix('torch.')} of shape {list(pictures.shape)}: uint8 of [rows, channels, height, width] is needed"
            )
        self.columns, self.pictures, self.ids = columns, pictures, ids
        self.declared, self.encoding = declared, encoding
        sizes = [len(part) for part in (columns if columns is not None and columns.width else None, pictures, ids) if part is not None]
        self.rows = rows if rows is not None else sizes[0] if sizes else 0
        if any(size != self.rows for size in sizes):
            raise DataError(f"a table's parts have {', '.join(map(str, sizes))} rows where {self.rows} were expected: they must be of the same rows")

    def __len__(self) -> int:
        return self.rows

    @property
    def names(self) -> list[str]:
        """Raw columns; a picture's are its channels."""
        if self.pictures is not None:
            return [f"channel {i}" for i in range(self.pictures.shape[1])]
        return [] if self.columns is None else self.columns.columns

    @property
    def width(self) -> int:
        """Numbers a row has once encoded; of columns that were not fitted yet, the raw ones."""
        if self.pictures is not None:
            return self.pictures[0].numel() if self.rows else int(np.prod(self.pictures.shape[1:]))
        return len(self.names) if self.encoding is None else self.encoding.width

    def fit(self, rows: Tensor) -> Tensor:
        """Fits the encoding on these rows (by the declarations alone, if there are any) and gives them encoded."""
        if self.columns is not None and self.columns.width:
            self.encoding = encoding.fit(self._frame(rows), self.declared)
        return self[rows]

    def __getitem__(self, rows: Tensor | slice) -> Tensor:
        """These rows, encoded; nothing else is read or copied."""
        chosen = self._numbers(rows)
        if self.pictures is not None:
            return self.pictures[chosen].float().div_(127.5).sub_(1)
        if self.columns is None or not self.columns.width:
            return torch.zeros(len(chosen), 0)
        if self.encoding is None:
            raise DataError("this table is read before it was fitted: call table.fit(training_rows) first")
        return self.encoding(self._frame(chosen))

    def take(self, rows: Tensor) -> "Table":
        chosen = self._numbers(rows)
        columns = None if self.columns is None else self._frame(chosen) if self.columns.width else self.columns
        pictures = None if self.pictures is None else self.pictures[chosen]
        ids = None if self.ids is None else self.ids.gather(chosen.numpy())
        return Table(columns, pictures, ids, self.declared, self.encoding, len(chosen))

    def select(self, names: Sequence[str]) -> "Table":
        """The same rows with these columns, in this order, not fitted yet."""
        unknown = [name for name in names if name not in self.names]
        if unknown:
            raise DataError(f'there is no column "{unknown[0]}"; the table has {listed(self.names)}')
        if self.pictures is not None:
            return Table(None, self.pictures[:, [self.names.index(name) for name in names]].contiguous(), self.ids, self.declared, rows=self.rows)
        columns = pl.DataFrame() if self.columns is None else self.columns.select(names)
        return Table(columns, None, self.ids, self.declared, rows=self.rows)

    def sha256(self) -> str:
        """Of names, ids and values: the same from CSV, Parquet and Arrow, whatever width their integers have."""
        digest = hashlib.sha256(f"table {self.rows}".encode())
        if self.ids is not None:
            digest.update(content(self.ids.alias("id")))
        if self.pictures is not None:
            digest.update(f"pictures {list(self.pictures.shape)}".encode())
            digest.update(self.pictures.contiguous().numpy().data)
        for column in [] if self.columns is None else self.columns.iter_columns():
            digest.update(content(column))
        return digest.hexdigest()

    def _numbers(self, rows: Tensor | slice) -> Tensor:
        """Row numbers, checked."""
        if isinstance(rows, slice):
            return torch.arange(self.rows)[rows]
        if rows.dtype == torch.bool:
            if rows.shape != (self.rows,):
                raise DataError(
                    f"a mask of {list(rows.shape)} rows does not fit a table of {self.rows} rows: parties must hold the same rows in the same order"
                )
            return rows.nonzero().flatten()
        if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < self.rows:
            raise DataError(f"rows {int(rows.min())} to {int(rows.max())} were asked for, but the table has rows 0 to {self.rows - 1}")
        return rows.to(torch.int64)

    def _frame(self, rows: Tensor) -> pl.DataFrame:
        assert self.columns is not None
        chosen = self._numbers(rows)
        if len(chosen) == self.rows and bool((chosen == torch.arange(self.rows)).all()):
            return self.columns
        return self.columns[chosen.numpy()]


def content(series: pl.Series) -> bytes:
    """The SHA-256 of one column's name, kind and values, as they are meant, not as they are stored."""
    family = encoding.family_of(series)
    exact = not series.dtype.is_integer() or bool(series.cast(pl.Int128).is_between(-(2**53), 2**53).all())  # floats hold these
    digest = hashlib.sha256()
    if family in ("number", "date", "nothing") and exact:
        x = encoding.numbers(series, family) + 0.0  # -0.0 becomes 0.0
        gap = np.isnan(x)
        digest.update(f"numbers {series.name!r} {family == 'date'}".encode())
        digest.update(np.packbits(gap).tobytes() + np.where(gap, 0, x).astype("<f8").tobytes())
    else:
        text = encoding.texts(series)
        digest.update(f"text {series.name!r}".encode())
        digest.update(np.packbits(text.is_null().to_numpy()).tobytes())
        digest.update(text.str.len_bytes().fill_null(0).to_numpy().astype("<i8").tobytes())
        digest.update("".join(text.drop_nulls().to_list()).encode())
    return digest.digest()


def digest_of(table: Table, found: Labels, *more: bytes) -> str:
    """One SHA-256 for a table with its labels."""
    y = found.y.contiguous().numpy()
    parts = [table.sha256().encode(), repr((found.task.kind, found.classes, found.names, str(y.dtype))).encode(), y.tobytes(), *more]
    return hashlib.sha256(b"\n".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def frame(path: str | Path) -> pl.DataFrame:
    """Reads a .csv, .parquet, .arrow or .feather file whole."""
    path = Path(path)
    if not path.is_file():
        raise DataError(f'{path}: there is no such file; check `table = "…"`, which is looked for from the folder you are in')
    try:
        if path.suffix == ".csv":
            return pl.read_csv(path, infer_schema_length=None, try_parse_dates=True)
        if path.suffix == ".parquet":
            return pl.read_parquet(path)
        if path.suffix in (".arrow", ".feather"):
            with path.open("rb") as file:
                whole = file.read(6) == b"ARROW1"  # the stream format has no such beginning
            return pl.read_ipc(path) if whole else pl.read_ipc_stream(path)
    except (pl.exceptions.PolarsError, OSError, UnicodeDecodeError) as error:
        first = (str(error).splitlines() or ["empty"])[0]
        raise DataError(f"{path}: cannot be read as {path.suffix} ({first}): export it anew") from error
    raise DataError(f'{path}: files that end in "{path.suffix}" are not read; {", ".join(suffixes)} are')


def read(
    path: str | Path,
    id: str | None = None,
    label: str | Sequence[str] | None = None,
    task: Literal["classification", "regression", "auto"] | None = None,
    declared: Mapping[str, Declared] | None = None,
    gaps: bool = False,
) -> tuple[Table, Labels | None]:
    """A party's file as its table, sorted by id, and its labels, if it names any (several: multi-label). `gaps`: some may be empty.

    Ids that are all whole numbers are sorted as such, others as text: so parties that hold the same ids agree on the order,
    whatever type their files give them.
    """
    found = frame(path)
    if not found.height:
        raise DataError(f"{path}: the table is empty; at least one row is needed")
    wanted = [] if label is None else [label] if isinstance(label, str) else list(label)
    for role, name in [("id", id)] * (id is not None) + [("label", name) for name in wanted]:
        if name not in found.columns:
            raise DataError(f'{path}: {role} column "{name}" is missing; the file has {listed(found.columns)}')
    if id is not None and id in wanted:
        raise DataError(f'{path}: column "{id}" cannot be both id and label')
    ids = None
    if id is not None:
        ids, order = sorted_ids(found[id], path)
        found = found[order]
    target = None
    if wanted:
        kept = declared.get(wanted[0]) if declared and len(wanted) == 1 else None
        try:
            target = (with_gaps if gaps else labels)(found[wanted[0]] if len(wanted) == 1 else found.select(wanted), task or "auto", kept)
        except DataError as error:
            raise DataError(f"{path}: {error}") from error
    columns = found.drop([*wanted, *([id] if id is not None else [])])
    for name in columns.columns:
        try:
            encoding.family_of(columns[name])
        except DataError as error:
            raise DataError(f"{path}: {error}") from error
    return Table(columns, None, ids, declared, rows=found.height), target


def sorted_ids(ids: pl.Series, path: str | Path) -> tuple[pl.Series, list[int]]:
    """The ids as text, sorted, and the order that sorts them."""
    text = encoding.texts(ids)
    if text.null_count():
        raise DataError(f'{path}: id column "{ids.name}" is empty in {text.null_count()} rows, first in row {text.is_null().arg_max()}: give every row its id')
    twice = text.filter(text.is_duplicated())
    if len(twice):
        value = twice[0]
        raise DataError(
            f'{path}: id "{value}" occurs {int((text == value).sum())} times in column "{ids.name}" ({twice.n_unique()} ids repeat): keep one row an id'
        )
    whole = text.cast(pl.Int64, strict=False)
    order = (text if whole.null_count() or (whole.cast(pl.String) != text).any() else whole).arg_sort().to_list()
    return text[order], order
