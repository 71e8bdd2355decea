import polars as pl
import pytest
import torch

from reticent.data.encoding import Declared
from reticent.data.labels import labels
from reticent.errors import DataError
from reticent.learn.task import Task


def test_two_classes_are_0_and_1_in_their_sorted_order() -> None:
    found = labels(pl.Series("paid", ["yes", "no", "yes"]))
    assert (found.task, found.classes, found.names) == (Task("binary", 1), ("no", "yes"), ("paid",))
    assert found.y.dtype == torch.float32
    assert found.y.tolist() == [1, 0, 1]


def test_several_classes_are_their_numbers_whole_numbers_in_numeric_order() -> None:
    found = labels(pl.Series("y", [10, 9, -1, 10]))
    assert (found.task, found.classes) == (Task("multiclass", 3), (-1, 9, 10))
    assert found.y.dtype == torch.int64
    assert found.y.tolist() == [2, 1, 0, 2]


@pytest.mark.parametrize("column", [pl.Series("y", [0.0, 1.0]), pl.Series("y", [False, True]), pl.Series("y", [0, 1], pl.UInt8)])
def test_0_and_1_are_the_same_classes_in_every_type(column: pl.Series) -> None:
    found = labels(column)
    assert (found.task.kind, found.classes, found.y.tolist()) == ("binary", (0, 1), [0, 1])


def test_fractions_are_regressed_and_many_whole_numbers_too() -> None:
    assert labels(pl.Series("y", [0.5, 1.0])).task == Task("regression", 1)
    assert labels(pl.Series("y", range(21))).task == Task("regression", 1)
    assert labels(pl.Series("y", range(21)), "classification").task == Task("multiclass", 21)
    assert labels(pl.Series("y", [1, 2]), "regression").y.tolist() == [1, 2]


def test_several_columns_are_several_labels() -> None:
    found = labels(pl.DataFrame({"a": [0, 1], "b": [1, 1]}))
    assert (found.task, found.names) == (Task("multilabel", 2), ("a", "b"))
    assert found.y.tolist() == [[0, 1], [1, 1]]
    assert found.take(torch.tensor([1])).y.tolist() == [[1, 1]]
    with pytest.raises(DataError, match='label column "a" holds 2'):
        labels(pl.DataFrame({"a": [2], "b": [0]}))


def test_declared_classes_are_there_without_rows_and_what_is_outside_is_no_error() -> None:
    found = labels(pl.Series("y", [3, 1, 99]), "classification", Declared(values=(1, 2, 3)))
    assert (found.classes, found.y.tolist()) == ((1, 2, 3), [2, 0, 0])
    assert labels(pl.Series("y", [-5.0, 0.5, 7]), "regression", Declared(0, 1)).y.tolist() == [0, 0.5, 1]


def test_one_class_is_allowed_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="one class only, 'no'"):
        found = labels(pl.Series("y", ["no", "no"]))
    assert (found.task.kind, found.y.tolist()) == ("binary", [0, 0])


@pytest.mark.parametrize(
    "column, task, words",
    [
        (pl.Series("y", [1, None, None]), "auto", "empty in 2 of 3 rows, first in row 1"),
        (pl.Series("y", [1.0, float("nan")]), "auto", "empty in 1 of 2 rows"),
        (pl.Series("y", ["a", "b"]), "regression", "holds text"),
        (pl.Series("y", [i / 3 for i in range(30)]), "classification", "different fractions"),
        (pl.Series("y", [1.0, float("inf")]), "regression", "infinite"),
        (pl.Series("y", [], pl.Int64), "auto", "no rows"),
    ],
)
def test_labels_that_are_none_are_refused_in_a_sentence(column: pl.Series, task: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        labels(column, task)  # type: ignore[arg-type]
