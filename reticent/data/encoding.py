"""A party's own encoding of its columns into one matrix: column statistics only, never a row norm, never another party's.

| a column of | becomes |
|---|---|
| numbers | (x - mean) / deviation of the fitted rows; a column of whole 0s and 1s stays 0/1 |
| text, true/false, categories | one 0/1 column a category, never divided by its deviation (a rare one would then fill a component) |
| dates | days since 2000-01-01, as a number; sine and cosine of the day of the week, if it varies |
| one value only, or none | a column of zeros |

A missing value is 0, and "x is missing" says so where any was missing in the fitted rows. Above 64 categories the 63 most
frequent stay, and the rest is `other`. A category not seen in training counts as `other`: the column "x=other" where there
is one, else no category at all, which is what an `other` that never occurred would be.

With declarations (private runs) nothing is read from the rows, but the types of their columns: a number is
(x - middle) / (half the range), clipped to [-1, 1]; categories are the declared ones and `other`; missing is 0. A number
declared as values = [0, 1] is the one column "x=1". A date's bounds are days since 2000-01-01.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import polars as pl
import torch
from torch import Tensor

from reticent.errors import DataError, PartyError

Floats = npt.NDArray[np.float64]
Family = Literal["number", "text", "truth", "date", "nothing"]

MOST = 64  # categories a column may have
FAR = 1e6  # deviations: what lies beyond is no measurement, and float32 stays finite
MICROSECONDS_A_DAY = 86_400e6
DAYS_TO_2000 = 10_957  # from 1970-01-01

words: dict[str, str] = {"number": "numbers", "text": "text", "truth": "true/false", "date": "dates", "nothing": "nothing"}


@dataclass(frozen=True)
class Declared:
    """What is public about a column: its bounds, or its categories."""

    min: float | None = None  # smallest value; dates: days since 2000-01-01
    max: float | None = None  # largest value
    values: tuple[Any, ...] | None = None  # the categories (Any: text, whole numbers or booleans, as in the table)


@dataclass(frozen=True)
class Column:
    """How one raw column is encoded."""

    name: str
    family: Family  # of the fitted rows; another one is refused
    kind: Literal["constant", "number", "category", "date"]
    unit: float = 1.0  # divided by first: the largest magnitude seen, so that no sum overflows
    centre: float = 0.0  # of x / unit
    scale: float = 1.0  # of x / unit
    limit: float = FAR  # the result stays within ± this
    bounded: bool = False  # declared: an infinite value is clipped, not refused (a refusal would say something)
    categories: tuple[str, ...] = ()
    other: bool = False  # has the column "x=other"
    weekday: bool = False  # has the two columns of the day of the week
    missing: bool = False  # has the column "x is missing"

    @property
    def names(self) -> list[str]:
        names = [self.name] if self.kind != "category" else [f"{self.name}={category}" for category in self.categories]
        names += [f"{self.name}=other"] * self.other
        names += [f"{self.name} weekday {wave}" for wave in ("sine", "cosine")] if self.weekday else []
        return names + [f"{self.name} is missing"] * self.missing


class Encoding:
    """Fitted columns. Called with a frame, gives [rows, width] float32; columns it does not know are ignored."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = tuple(columns)
        self.names = tuple(name for column in self.columns for name in column.names)
        self.width = len(self.names)

    def __call__(self, frame: pl.DataFrame) -> Tensor:
        encoded = np.zeros((frame.height, self.width), np.float32)
        place = 0
        for column in self.columns:
            width = len(column.names)
            if column.name not in frame.columns:
                raise DataError(f'column "{column.name}" is missing; the table has {listed(frame.columns)}: give it back its name, or fit anew')
            write(column, frame[column.name], encoded[:, place : place + width])
            place += width
        return torch.from_numpy(encoded)

    def to_arrays(self) -> Mapping[str, object]:
        return {"columns": [asdict(column) for column in self.columns]}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Self:  # Any: what to_arrays gave
        return cls([Column(**{**column, "categories": tuple(column["categories"])}) for column in arrays["columns"]])


def fit(frame: pl.DataFrame, declared: Mapping[str, Declared] | None = None) -> Encoding:
    """With `declared`, nothing is read from the rows, and a column without a declaration is refused by name."""
    if declared is not None:
        return Encoding([promised(frame[name], declared.get(name)) for name in frame.columns])
    if frame.width and not frame.height:
        raise DataError("there are no rows to fit the encoding on: at least one is needed")
    return Encoding([seen(frame[name]) for name in frame.columns])


def seen(series: pl.Series) -> Column:
    """How a column is encoded, by the values in it."""
    name, family = series.name, family_of(series)
    if family == "nothing":
        return Column(name, family, "constant")
    if family in ("text", "truth"):
        return seen_categories(series, family)
    x = numbers(series, family)
    missing = np.isnan(x)
    known = x[~missing]
    if np.isinf(known).any():
        raise DataError(f'column "{name}" holds {int(np.isinf(known).sum())} infinite values: make them empty cells, or correct them')
    hole = bool(missing.any()) and known.size > 0
    unit = float(np.abs(known).max(initial=0.0)) or 1.0
    small = known / unit
    centre, scale = (float(small.mean()), float(small.std())) if known.size and known.min() < known.max() else (0.0, 0.0)
    if scale == 0:  # one value, or several so near that floats cannot tell them apart
        return Column(name, family, "constant", missing=hole)
    if series.dtype.is_integer() and known.min() == 0 and known.max() == 1:
        return Column(name, family, "number", missing=hole)
    if family == "date":
        return Column(name, family, "date", unit, centre, scale, weekday=len(np.unique(weekdays(known))) > 1, missing=hole)
    return Column(name, family, "number", unit, centre, scale, missing=hole)


def seen_categories(series: pl.Series, family: Family) -> Column:
    counts = texts(series).drop_nulls().value_counts()
    count = dict(zip(*counts.get_columns(), strict=True)) if counts.height else {}
    hole = bool(count) and series.null_count() > 0
    if len(count) <= 1:
        return Column(series.name, family, "constant", missing=hole)
    if len(count) <= MOST:
        return Column(series.name, family, "category", categories=tuple(sorted(count)), missing=hole)
    count.pop("other", None)  # a category of that very name joins the rest
    kept = sorted(count, key=lambda category: (-count[category], category))[: MOST - 1]
    return Column(series.name, family, "category", categories=tuple(sorted(kept)), other=True, missing=hole)


def promised(series: pl.Series, declared: Declared | None) -> Column:
    """How a column is encoded, by its declaration and its type alone."""
    name, family = series.name, family_of(series)
    if declared is None:
        raise PartyError(
            f'column "{name}" has no declared bounds or categories: add it to [columns], as {name} = {{min = 0, max = 1}} or {name} = {{values = [1, 2]}}'
        )
    if declared.values is not None:
        if not declared.values:
            raise PartyError(f'[columns] "{name}": values = [] names no category; at least one is needed')
        categories = tuple(dict.fromkeys(text_of(value, family) for value in declared.values))
        if family == "number" and set(categories) == {"0", "1"}:
            return Column(name, family, "category", categories=("1",), bounded=True)
        return Column(name, family, "category", categories=tuple(c for c in categories if c != "other"), other=True, bounded=True)
    if family not in ("number", "date", "nothing"):
        raise PartyError(f'column "{name}" holds {words[family]}, so bounds do not describe it: declare its categories, as {name} = {{values = ["a", "b"]}}')
    low, high = declared.min, declared.max
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise PartyError(f'[columns] "{name}": min = {low} and max = {high}; two finite numbers are needed, the first one smaller')
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    return Column(name, family, "date" if family == "date" else "number", 1.0, middle, half, limit=1.0, bounded=True, weekday=family == "date")


def write(column: Column, series: pl.Series, into: npt.NDArray[np.float32]) -> None:
    """Writes one encoded column into its place, which is all zeros before."""
    family = family_of(series)
    if "nothing" not in (family, column.family) and family != column.family:
        raise DataError(f'column "{column.name}" holds {words[family]} ({series.dtype}) where {words[column.family]} were: read it as before, or fit anew')
    if family in ("text", "truth") or column.kind == "category":
        categories = texts(series)
        gap = categories.is_null().to_numpy()
        if column.kind == "category":
            codes = categories.cast(pl.Enum(column.categories), strict=False).to_physical()
            known = (~codes.is_null()).to_numpy()
            into[np.flatnonzero(known), codes.drop_nulls().to_numpy()] = 1
            if column.other:
                into[:, len(column.categories)] = ~known & ~gap
    else:
        x = numbers(series, family)
        gap = np.isnan(x)
        if not column.bounded and np.isinf(x).any():
            raise DataError(f'column "{column.name}" holds {int(np.isinf(x).sum())} infinite values: make them empty cells, or correct them')
        if column.kind != "constant":
            with np.errstate(over="ignore"):  # clipped in the same line
                scaled = np.clip((x / column.unit - column.centre) / column.scale, -column.limit, column.limit)
            into[:, 0] = np.where(gap, 0, scaled)
        if column.weekday:
            turn = 2 * np.pi / 7 * weekdays(np.where(gap, 0, x))
            into[:, 1], into[:, 2] = np.where(gap, 0, np.sin(turn)), np.where(gap, 0, np.cos(turn))
    if column.missing:
        into[:, -1] = gap


def family_of(series: pl.Series) -> Family:
    kind = series.dtype
    if kind.is_numeric() or kind in (pl.Duration, pl.Time):
        return "number"
    if kind in (pl.String, pl.Categorical, pl.Enum):
        return "text"
    if kind == pl.Boolean:
        return "truth"
    if kind in (pl.Date, pl.Datetime):
        return "date"
    if kind == pl.Null:
        return "nothing"
    raise DataError(f'column "{series.name}" is of type {kind}: numbers, text, true/false, categories and dates can be learnt from; drop it or unfold it')


def numbers(series: pl.Series, family: Family) -> Floats:
    """As float64, NaN where missing: numbers as they are, times and durations in seconds, dates in days since 2000-01-01."""
    if family == "nothing":
        return np.full(len(series), np.nan)
    if family == "date":
        microseconds = series.cast(pl.Datetime("us") if series.dtype == pl.Date else series.dtype).dt.epoch("us")
        return np.asarray(microseconds.cast(pl.Float64).to_numpy() / MICROSECONDS_A_DAY - DAYS_TO_2000, np.float64)
    if series.dtype == pl.Duration:
        series = series.dt.total_microseconds().cast(pl.Float64) / 1e6
    elif series.dtype == pl.Time:
        series = series.cast(pl.Int64).cast(pl.Float64) / 1e9
    return np.asarray(series.cast(pl.Float64).fill_null(float("nan")).to_numpy(), np.float64)


def weekdays(days: Floats) -> Floats:
    """0 is Monday; 2000-01-01 was a Saturday."""
    return np.asarray((np.floor(days) + 5) % 7, np.float64)


def texts(series: pl.Series) -> pl.Series:
    """Categories as text: 2, 2.0 and a declared 2 are the same one; NaN is missing."""
    if series.dtype.is_float() or series.dtype.is_decimal():
        return pl.Series(series.name, [None if v is None or v != v else text_of(float(v), "number") for v in series.to_list()], pl.String)
    return series.cast(pl.String)


def text_of(value: object, family: Family) -> str:
    if family == "truth" or isinstance(value, bool):
        word = str(value).lower()
        return {"1": "true", "0": "false"}.get(word, word) if family == "truth" else str(int(bool(value))) if family == "number" else word
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def listed(names: Sequence[str], most: int = 8) -> str:
    """Names as they are read in a sentence."""
    shown = ", ".join(f'"{name}"' for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown or "no columns"
