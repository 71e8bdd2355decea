import datetime as dt

import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reticent.data import splits
from reticent.errors import DataError, StudyError


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_equal_deals_contiguous_columns_the_first_parties_one_more() -> None:
    assert splits.equal(5, 2) == [[0, 1, 2], [3, 4]]
    assert [len(part) for part in splits.equal(68, 10)] == [7] * 8 + [6] * 2
    with pytest.raises(StudyError, match="3 columns cannot be dealt to 4 parties"):
        splits.equal(3, 4)


@given(st.integers(1, 200), st.integers(1, 200))
def test_equal_deals_every_column_once(width: int, parties: int) -> None:
    if parties <= width:
        parts = splits.equal(width, parties)
        assert [i for part in parts for i in part] == list(range(width))
        assert len(parts) == parties
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_columns_are_dealt_by_widths_or_by_names() -> None:
    assert splits.columns(["a", "b", "c"], [2, 1]) == [["a", "b"], ["c"]]
    assert splits.columns(["a", "b", "c"], [["c"], ["a"]]) == [["c"], ["a"]]


@pytest.mark.parametrize(
    "parts, words",
    [
        ([2, 2], "adds up to 4, but the set has 3"),
        ([3, 0], "at least 1"),
        ([["a"], ["z"]], 'no column "z"; it has "a", "b", "c"'),
        ([["a"], ["a", "b"]], '"a" is dealt 2 times'),
        ([["a"], []], "empty"),
        ([2, ["c"]], "columns takes widths"),
        ([], "columns takes widths"),
    ],
)
def test_columns_that_cannot_be_dealt_are_refused(parts: list[int], words: str) -> None:
    with pytest.raises(StudyError, match=words):
        splits.columns(["a", "b", "c"], parts)


def test_views_are_dealt_in_the_order_chosen() -> None:
    known = {"pix": ["p0", "p1"], "fou": ["f0"]}
    assert splits.views(known) == [["p0", "p1"], ["f0"]]
    assert splits.views(known, ["fou"]) == [["f0"]]
    with pytest.raises(StudyError, match='no view "zer"; it has "pix", "fou"'):
        splits.views(known, ["zer"])
    with pytest.raises(StudyError, match="no views"):
        splits.views({})


def test_quadrants_are_row_major_halves_left_and_right_bands_from_above() -> None:
    picture = torch.arange(16, dtype=torch.uint8).view(1, 1, 4, 4)
    assert [piece.flatten().tolist() for piece in splits.quadrants(picture)] == [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]
    assert [piece[0, 0, 0].tolist() for piece in splits.halves(picture)] == [[0, 1], [2, 3]]
    assert [piece.shape[2] for piece in splits.bands(picture, 3)] == [2, 1, 1]


@pytest.mark.parametrize("without", [False, True])
def test_importance_gives_the_host_its_share_of_the_best_columns(without: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if without:
        monkeypatch.setattr(splits.importlib, "import_module", lambda name: (_ for _ in ()).throw(ImportError(name)))
    x = torch.randn(400, 8, generator=rng())
    y = (x[:, 1] + x[:, 3] + x[:, 5] + x[:, 7] > 0).float()  # the odd columns tell, the even ones do not
    for alpha, good in ((0.0, 0), (0.5, 2), (1.0, 4)):
        host, guest = splits.importance(alpha, x, y, rng())
        assert len(host) == len(guest) == 4
        assert sorted(host + guest) == list(range(8))
        assert sum(i % 2 for i in host) == good
    assert splits.importance(0.5, x, y, rng(1)) == splits.importance(0.5, x, y, rng(1))
    with pytest.raises(StudyError, match="alpha = 2"):
        splits.importance(2, x, y, rng())


def test_importance_gives_the_host_one_more_of_an_odd_number() -> None:
    x = torch.randn(100, 5, generator=rng())
    assert [len(part) for part in splits.importance(0.3, x, (x[:, 0] > 0).long(), rng())] == [3, 2]


def test_raw_columns_are_numbers_and_ranks() -> None:
    frame = pl.DataFrame({"a": [1, None], "b": ["y", "x"], "c": [True, False]})
    assert torch.nan_to_num(splits.raw(frame), nan=-1).tolist() == [[1, 2, 2], [-1, 1, 1]]


def test_dirichlet_deals_every_row_once_and_small_beta_makes_unlike_parties() -> None:
    y = torch.arange(1000) % 2
    spread = {}
    for beta in (0.1, 100.0):
        parts = splits.dirichlet(y, 4, beta, rng())
        assert torch.cat(parts).sort().values.tolist() == list(range(1000))
        spread[beta] = torch.tensor([y[part].float().mean() for part in parts]).std()
    assert spread[0.1] > 5 * spread[100.0]
    assert all(torch.equal(a, b) for a, b in zip(splits.dirichlet(y, 4, 1, rng(3)), splits.dirichlet(y, 4, 1, rng(3)), strict=True))
    with pytest.raises(StudyError, match="beta = 0"):
        splits.dirichlet(y, 4, 0, rng())
    with pytest.raises(StudyError, match="without a row"):
        splits.dirichlet(torch.zeros(20), 20, 0.01, rng())
    with pytest.raises(StudyError, match="no classes"):
        splits.dirichlet(torch.rand(20, generator=rng()), 2, 1, rng())


def test_holdout_takes_its_share_of_each_class() -> None:
    y = torch.tensor([0] * 80 + [1] * 20)
    test = splits.holdout(y, 0.1, rng())
    assert (int(test.sum()), int(test[y == 1].sum())) == (10, 2)
    assert torch.equal(test, splits.holdout(y, 0.1, rng()))
    assert not torch.equal(test, splits.holdout(y, 0.1, rng(1)))
    assert int(splits.holdout(torch.rand(11055, generator=rng()), 0.1, rng()).sum()) == 1106


def test_holdout_leaves_a_class_of_one_row_to_training() -> None:
    y = torch.tensor([0] * 9 + [1])
    assert not any(splits.holdout(y, 0.5, rng(seed))[9] for seed in range(20))


@pytest.mark.parametrize("share, words", [(0.0, "between 0 and 1"), (1.0, "between 0 and 1"), (0.01, "leaves 10 for training and 0"), (0.99, "leaves 0")])
def test_holdout_refuses_an_empty_side(share: float, words: str) -> None:
    with pytest.raises(StudyError, match=words):
        splits.holdout(torch.arange(10), share, rng())


@given(st.lists(st.integers(0, 3), min_size=2, max_size=60), st.integers(2, 6), st.integers(0, 5))
def test_folds_are_as_large_as_each_other_also_within_a_class(classes: list[int], k: int, seed: int) -> None:
    y = torch.tensor(classes)
    if k > len(y):
        with pytest.raises(StudyError, match=f"folds = {k}"):
            splits.folds(y, k, rng(seed))
        return
    fold = splits.folds(y, k, rng(seed))
    for rows in [torch.ones(len(y), dtype=torch.bool), *(y == kind for kind in set(classes))]:
        sizes = torch.bincount(fold[rows], minlength=k)
        assert sizes.max() - sizes.min() <= 1


def test_the_latest_rows_are_the_test_and_no_day_is_cut() -> None:
    days = pl.Series("d", [dt.date(2020, 1, day) for day in (3, 1, 2, 3, 1, 2, 3, 1)])
    assert splits.by_date(days, 0.3).tolist() == [d.day == 3 for d in days]
    assert splits.by_date(pl.Series("year", [1, 2, 3, 4]), 0.5).tolist() == [False, False, True, True]
    with pytest.raises(DataError, match="one value only"):
        splits.by_date(pl.Series("d", [1, 1]), 0.5)
    with pytest.raises(DataError, match="empty in 1 rows"):
        splits.by_date(pl.Series("d", [1, None]), 0.5)
    with pytest.raises(DataError, match="holds text"):
        splits.by_date(pl.Series("d", ["a", "b"]), 0.5)


def test_a_sample_is_sorted_and_without_repeats() -> None:
    rows = splits.sample(100, 30, rng())
    assert rows.tolist() == sorted(set(rows.tolist()))
    assert len(rows) == 30
    with pytest.raises(StudyError, match="rows = 101: there are 100"):
        splits.sample(100, 101, rng())


def test_nothing_draws_from_the_global_generator() -> None:
    before = torch.get_rng_state()
    y = torch.arange(50) % 2
    splits.holdout(y, 0.2, rng())
    splits.folds(y, 5, rng())
    splits.dirichlet(y, 2, 1.0, rng())
    splits.importance(0.5, torch.randn(50, 4, generator=rng()), y, rng())
    assert torch.equal(torch.get_rng_state(), before)
