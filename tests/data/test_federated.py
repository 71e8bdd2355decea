import datetime as dt
import time
from pathlib import Path

import polars as pl
import pytest
import torch

from reticent.data import sets
from reticent.data.federated import deal
from reticent.data.labels import labels
from reticent.data.sets import Set
from reticent.data.tables import Table
from reticent.errors import DataError, StudyError


def toy(rows: int = 20, **more: object) -> Set:
    columns = pl.DataFrame({name: [float(i + j) for i in range(rows)] for j, name in enumerate("abcde")})
    test = torch.arange(rows) >= rows - 5
    given = {"table": Table(columns), "labels": labels(pl.Series("y", [i % 2 for i in range(rows)])), "test": test, **more}
    return Set(name="toy", declared={}, complete=True, sha256="0", licence="", note="", **given)  # type: ignore[arg-type]


def pictures() -> Set:
    return toy(table=Table(pictures=torch.zeros(20, 1, 4, 4, dtype=torch.uint8)))


def test_parties_are_p0_p1_and_on_and_the_sets_own_test_part_is_the_test() -> None:
    dealt = deal(toy(), split="equal", parties=2)
    assert (dealt.names, dealt.host) == (("p0", "p1"), "p0")
    assert [table.names for table in dealt.tables.values()] == [["a", "b", "c"], ["d", "e"]]
    assert dealt.test.nonzero().flatten().tolist() == [15, 16, 17, 18, 19]
    assert torch.equal(dealt.train, ~dealt.test)
    assert dealt.whole.names == list("abcde")


def test_a_labels_only_host_has_rows_and_no_columns() -> None:
    dealt = deal(toy(), split="equal", parties=2, host="labels-only")
    assert (dealt.names, dealt.host) == (("host", "p0", "p1"), "host")
    assert (len(dealt.tables["host"]), dealt.tables["host"].width) == (20, 0)


def test_test_given_pools_all_parts_and_splits_anew_by_class() -> None:
    dealt = deal(toy(), split="equal", parties=2, test=0.2, seed=1)
    assert int(dealt.test.sum()) == 4
    assert dealt.labels.y[dealt.test].sum() == 2
    assert dealt.test.tolist() == deal(toy(), split="equal", parties=5, test=0.2, seed=1).test.tolist()
    assert dealt.test.tolist() != deal(toy(), split="equal", parties=2, test=0.2, seed=2).test.tolist()


def test_rows_samples_the_training_rows_and_leaves_the_test() -> None:
    all_rows, some = (deal(toy(), split="equal", parties=2, test=0.2, rows=rows) for rows in (None, 8))
    assert torch.equal(all_rows.test, some.test)
    assert int(some.train.sum()) == 8
    assert not (some.train & ~all_rows.train).any()
    with pytest.raises(StudyError, match="rows = 100: there are 16"):
        deal(toy(), split="equal", parties=2, test=0.2, rows=100)


def test_five_folds_test_every_row_once() -> None:
    tested = torch.stack([deal(toy(), split="equal", parties=2, fold=(i, 5)).test for i in range(5)])
    assert tested.sum(0).tolist() == [1] * 20


def test_split_by_date_tests_the_latest_rows() -> None:
    days = pl.DataFrame({"x": range(20), "day": [dt.date(2020, 1, 1 + (7 * i) % 20) for i in range(20)]})
    dealt = deal(toy(table=Table(days)), split="columns", columns=[1, 1], test=0.25, split_by="day")
    assert int(dealt.test.sum()) == 5
    assert days["day"].filter(dealt.test.numpy()).min() > days["day"].filter(dealt.train.numpy()).max()  # type: ignore[operator]


def test_pictures_are_dealt_in_pieces() -> None:
    for split, shape in (("quadrants", (20, 1, 2, 2)), ("halves", (20, 1, 4, 2)), ("equal", (20, 1, 2, 4))):
        dealt = deal(pictures(), split=split)
        assert {tuple(table.pictures.shape) for table in dealt.tables.values() if table.pictures is not None} == {shape}


def test_dirichlet_deals_training_rows_and_leaves_the_test_in_one_place() -> None:
    dealt = deal(toy(200), split="dirichlet", parties=4, beta=0.5, test=0.2, host="labels-only")
    held = torch.cat([dealt.rows[name] for name in ("p0", "p1", "p2", "p3")]).sort().values
    assert torch.equal(held, dealt.train.nonzero().flatten())
    for name, rows in dealt.rows.items():
        assert dealt.tables[name].columns is not None
        assert dealt.tables[name].columns["a"].to_list() == rows.tolist()  # type: ignore[index]
    with pytest.raises(StudyError, match="needs parties and beta"):
        deal(toy(), split="dirichlet", parties=4)


def test_names_and_a_host_by_number_or_name() -> None:
    assert deal(toy(), split="columns", columns=[3, 2], names=["bank", "shop"], host=1).host == "shop"
    assert deal(toy(), split="columns", columns=[3, 2], names=["bank", "shop"], host="bank").host == "bank"


@pytest.mark.parametrize(
    "asked, words",
    [
        ({"split": "thirds"}, 'split = "thirds"'),
        ({"split": "equal", "parties": 6}, "5 columns cannot be dealt to 6"),
        ({"split": "equal", "host": 2}, "host = 2: parties are counted from 0 to 1"),
        ({"split": "equal", "host": "bank"}, 'host = "bank"'),
        ({"split": "columns"}, "needs widths"),
        ({"split": "columns", "columns": [3, 2], "parties": 3}, "makes 2 parts"),
        ({"split": "quadrants"}, "cuts pictures"),
        ({"split": "views"}, "no views"),
        ({"split": "importance"}, "alpha"),
        ({"split": "equal", "names": ["one"]}, "dealt to 2"),
        ({"split": "equal", "names": ["one", "one"]}, "its own name"),
        ({"split": "equal", "names": ["host", "one"], "host": "labels-only"}, 'named "host"'),
        ({"split": "equal", "fold": (5, 5)}, "fold 5 of 5"),
        ({"split": "equal", "fold": (0, 5), "test": 0.2}, "folds cannot be combined"),
        ({"split": "equal", "split_by": "a"}, "say test = 0.2"),
        ({"split": "equal", "split_by": "z", "test": 0.2}, 'split_by = "z"'),
    ],
)
def test_a_deal_that_cannot_be_made_is_refused_in_a_sentence(asked: dict[str, object], words: str) -> None:
    with pytest.raises(StudyError, match=words):
        deal(toy(), **asked)  # type: ignore[arg-type]


def test_a_set_without_a_test_part_asks_for_one() -> None:
    with pytest.raises(StudyError, match=r"no test part of its own: say test = 0\.2"):
        deal(toy(test=None), split="equal")


def test_a_class_without_a_training_row_is_named() -> None:
    late = toy(labels=labels(pl.Series("y", ["a", "b"] * 7 + ["a"] + ["c"] * 5)))
    with pytest.raises(DataError, match="class 'c' has no training row"):
        deal(late, split="equal")


def test_the_demos_four_parties_of_default_credit() -> None:
    dealt = deal(sets.load("default_credit"), split="views", names=["bank", "shop", "telco", "lender"], test=0.2)
    assert [len(table.names) for table in dealt.tables.values()] == [5, 6, 6, 6]
    assert (int(dealt.train.sum()), int(dealt.test.sum())) == (24_000, 6_000)
    assert all(table.fit(dealt.train).isfinite().all() for table in dealt.tables.values())
    split = deal(sets.load("default_credit"), split="importance", alpha=0.3, test=0.2, rows=2000)
    assert [len(table.names) for table in split.tables.values()] == [12, 11]


@pytest.mark.data
def test_mnist_is_dealt_in_quadrants_in_under_three_seconds(data: Path) -> None:
    start = time.perf_counter()
    dealt = deal(sets.load("mnist", folder=data), split="quadrants")
    assert time.perf_counter() - start < 3
    assert [table.width for table in dealt.tables.values()] == [196] * 4
    assert (int(dealt.train.sum()), int(dealt.test.sum())) == (60_000, 10_000)
