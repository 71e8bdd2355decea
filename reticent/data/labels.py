"""What is to be learnt: the labels as a tensor, and what their numbers mean."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
import torch
from torch import Tensor

from reticent.data import encoding
from reticent.data.encoding import Declared
from reticent.errors import DataError
from reticent.learn.task import Task

FEW = 20  # whole numbers of at most so many values are classes, if nobody says otherwise


@dataclass(frozen=True, eq=False)
class Labels:
    """Binary: 0/1 float32, 1 is the second class. Several classes: their numbers, int64. Regression: float32. Multi-label: float32 [n, labels]."""

    y: Tensor
    task: Task
    classes: tuple[str | int, ...] = ()  # what y's numbers stand for, sorted; regression has none
    names: tuple[str, ...] = ()  # the columns they came from
    known: Tensor | None = None  # bool [n]: rows that have a label, where some have none; theirs in y are zeros

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, rows: Tensor | slice) -> Tensor:
        return self.y[rows]

    def take(self, rows: Tensor) -> "Labels":
        return Labels(self.y[rows], self.task, self.classes, self.names, None if self.known is None else self.known[rows])


def labels(column: pl.Series | pl.DataFrame, task: Literal["classification", "regression", "auto"] = "auto", declared: Declared | None = None) -> Labels:
    """Builds labels from one column, or from several 0/1 columns (multi-label).

    `auto`: text, true/false and whole numbers of at most 20 values are classes. Declared classes keep their declared order sorted, also
    those that no row has; a value outside the declaration counts as the first class or is clipped, since an error would be a release.
    """
    if isinstance(column, pl.DataFrame):
        if column.width == 1:
            return labels(column.to_series(), task, declared)
        return several(column)
    complete(column)
    family = encoding.family_of(column)
    if task == "auto":
        task = (
            "classification"
            if family in ("text", "truth") or (declared and declared.values) or (family == "number" and looks_like_classes(column))
            else "regression"
        )
    if task == "regression":
        return measured(column, family, declared)
    return classified(column, family, declared)


def several(frame: pl.DataFrame) -> Labels:
    for name in frame.columns:
        complete(frame[name])
        odd = [value for value in frame[name].unique().to_list() if value not in (0, 1)]
        if odd:
            raise DataError(f'label column "{name}" holds {odd[0]!r}: several label columns must each be 0 or 1')
    y = torch.from_numpy(frame.select(pl.all().cast(pl.Float32)).to_numpy().copy())
    return Labels(y, Task("multilabel", frame.width), (0, 1), tuple(frame.columns))


def measured(column: pl.Series, family: encoding.Family, declared: Declared | None) -> Labels:
    if family not in ("number", "date"):
        raise DataError(f'label "{column.name}" holds {encoding.words[family]}, which cannot be regressed: say task = "classification"')
    y = encoding.numbers(column, family)
    if not np.isfinite(y).all():
        raise DataError(f'label "{column.name}" holds an infinite value: correct it, or leave the row out')
    if declared and declared.min is not None and declared.max is not None:
        y = y.clip(declared.min, declared.max)
    return Labels(torch.from_numpy(y.astype(np.float32)), Task("regression", 1), (), (column.name,))


def classified(column: pl.Series, family: encoding.Family, declared: Declared | None) -> Labels:
    if family not in ("number", "text", "truth"):
        raise DataError(f'label "{column.name}" holds {encoding.words[family]}, which are no classes: say task = "regression"')
    if family == "number" and not whole(column) and column.n_unique() > FEW:
        raise DataError(f'label "{column.name}" holds {column.n_unique()} different fractions, such as {column[0]}: say task = "regression"')
    text = encoding.texts(column)
    found = [encoding.text_of(value, family) for value in declared.values] if declared and declared.values else text.unique().to_list()
    numeric = family == "number" and all(name.lstrip("-").isdigit() for name in found)
    found = sorted(set(found), key=int) if numeric else sorted(set(found))
    y = torch.from_numpy(text.cast(pl.Enum(found), strict=False).to_physical().fill_null(0).cast(pl.Int64).to_numpy().copy())
    classes: tuple[str | int, ...] = tuple(map(int, found)) if numeric else (0, 1) if found == ["false", "true"] and family == "truth" else tuple(found)
    if len(found) == 1:
        warnings.warn(f'label "{column.name}" has one class only, {classes[0]!r}: nothing can be learnt to tell apart', stacklevel=3)
    if len(found) <= 2:
        return Labels(y.float(), Task("binary", 1), classes, (column.name,))
    return Labels(y, Task("multiclass", len(found)), classes, (column.name,))


def with_gaps(column: pl.Series | pl.DataFrame, task: Literal["classification", "regression", "auto"], declared: Declared | None = None) -> Labels:
    """Labels of the rows that have one: the others can be predicted, and neither train nor test."""
    frame = column.to_frame() if isinstance(column, pl.Series) else column
    known = torch.from_numpy(frame.fill_nan(None).select(pl.all_horizontal(pl.all().is_not_null())).to_series().to_numpy().copy())
    if bool(known.all()) or not bool(known.any()):
        return labels(column, task, declared)
    found = labels(column.filter(pl.Series(known.numpy())), task, declared)
    y = torch.zeros(len(known), *found.y.shape[1:], dtype=found.y.dtype)
    y[known] = found.y
    return Labels(y, found.task, found.classes, found.names, known)


def complete(column: pl.Series) -> None:
    if not len(column):
        raise DataError(f'label "{column.name}" has no rows')
    gaps = column.is_null() | column.is_nan() if column.dtype.is_float() else column.is_null()
    if gaps.any():
        raise DataError(
            f'label "{column.name}" is empty in {gaps.sum()} of {len(column)} rows, first in row {gaps.arg_max()}: fill it in, or leave those rows out'
        )


def whole(column: pl.Series) -> bool:
    return column.dtype.is_integer() or bool((column.cast(pl.Float64) % 1 == 0).all())


def looks_like_classes(column: pl.Series) -> bool:
    return whole(column) and column.n_unique() <= FEW


def counts(found: Labels, rows: Tensor) -> list[int]:
    """Rows of each class among `rows`; empty for labels without classes."""
    if found.task.kind not in ("binary", "multiclass"):
        return []
    return torch.bincount(found.y[rows].long(), minlength=len(found.classes)).tolist()


def named(found: Labels, positions: Sequence[int]) -> str:
    return ", ".join(repr(found.classes[i]) for i in positions)
