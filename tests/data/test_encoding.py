import datetime as dt
import math

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent import state
from reticent.data.encoding import Declared, Encoding, fit
from reticent.errors import DataError, PartyError


def test_numbers_are_standardised_and_missing_ones_are_zero_with_a_column_that_says_so() -> None:
    frame = pl.DataFrame({"x": [1.0, 3.0, None]})
    encoding = fit(frame)
    assert encoding.names == ("x", "x is missing")
    assert encoding(frame).tolist() == [[-1, 0], [1, 0], [0, 1]]
    assert encoding(pl.DataFrame({"x": [5.0, None]})).tolist() == [[3, 0], [0, 1]]


def test_categories_stay_0_and_1_and_one_not_seen_in_training_is_no_category() -> None:
    encoding = fit(pl.DataFrame({"x": ["b", "a", "a"], "y": [True, False, True]}))
    assert encoding.names == ("x=a", "x=b", "y=false", "y=true")
    assert encoding(pl.DataFrame({"x": ["b", "c", None], "y": [True, None, False]})).tolist() == [[0, 1, 0, 1], [0, 0, 0, 0], [0, 0, 1, 0]]


def test_whole_numbers_of_0_and_1_are_left_as_they_are() -> None:
    frame = pl.DataFrame({"x": [0, 1, 1, 1]})
    assert fit(frame)(frame).flatten().tolist() == [0, 1, 1, 1]


def test_of_more_than_64_categories_the_63_most_frequent_stay() -> None:
    words = [f"w{i:02}" for i in range(65)]
    encoding = fit(pl.DataFrame({"x": words + words[2:]}))  # w00 and w01 are the rare ones
    assert encoding.width == 64
    assert encoding.names[0] == "x=w02"
    assert encoding.names[-1] == "x=other"
    rare = encoding(pl.DataFrame({"x": ["w00", "never seen", "w64", None]}))
    assert rare[:, -1].tolist() == [1, 1, 0, 0]
    assert rare.sum(1).tolist() == [1, 1, 1, 0]


def test_64_categories_all_stay() -> None:
    assert fit(pl.DataFrame({"x": [f"w{i}" for i in range(64)]})).width == 64


def test_dates_are_days_and_the_day_of_the_week_if_it_varies() -> None:
    saturday = dt.date(2000, 1, 1)
    weekly = fit(pl.DataFrame({"d": [saturday, saturday + dt.timedelta(7)]}))
    assert weekly.names == ("d",)
    daily = fit(pl.DataFrame({"d": [saturday, saturday + dt.timedelta(2)]}))
    assert daily.names == ("d", "d weekday sine", "d weekday cosine")
    row = daily(pl.DataFrame({"d": [dt.datetime(2000, 1, 3, 12)]}))[0]  # a Monday's noon, a day and a half from the mean
    assert row.tolist() == pytest.approx([1.5, 0, 1])


@pytest.mark.parametrize("values", [[7, 7], [None, None], ["a", "a"], [0.1, 0.1], [dt.date(2020, 1, 1)]])
def test_a_constant_column_is_one_column_of_zeros(values: list[object]) -> None:
    frame = pl.DataFrame({"x": values})
    assert fit(frame)(frame).tolist() == [[0]] * len(values)


def test_declarations_alone_decide_and_nothing_is_read_from_the_rows() -> None:
    declared = {"age": Declared(20, 60), "school": Declared(values=(1, 2)), "flag": Declared(values=(0, 1)), "city": Declared(values=("x",))}
    frames = [
        pl.DataFrame({"age": [30.0], "school": [2], "flag": [1], "city": ["x"]}),
        pl.DataFrame({"age": [float("inf"), 0, None], "school": [9, 1, None], "flag": [0, 7, 1], "city": ["y", None, "x"]}, strict=False),
    ]
    encodings = [fit(frame, declared) for frame in frames]
    assert encodings[0].to_arrays() == encodings[1].to_arrays()
    assert encodings[0].names == ("age", "school=1", "school=2", "school=other", "flag=1", "city=x", "city=other")
    assert encodings[0](frames[0]).tolist() == [[-0.5, 0, 1, 0, 1, 1, 0]]
    assert encodings[0](frames[1]).tolist() == [[1, 0, 0, 1, 0, 0, 1], [-1, 1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1, 0]]


@pytest.mark.parametrize(
    "declared, words",
    [
        ({}, 'column "x" has no declared bounds'),
        ({"x": Declared(1, 1)}, "min = 1 and max = 1"),
        ({"x": Declared(0, None)}, "max = None"),
        ({"x": Declared(0, math.inf)}, "two finite numbers"),
        ({"x": Declared(values=())}, "names no category"),
    ],
)
def test_a_declaration_that_says_nothing_is_refused_by_name(declared: dict[str, Declared], words: str) -> None:
    with pytest.raises(PartyError, match=words):
        fit(pl.DataFrame({"x": [1, 2]}), declared)


def test_bounds_do_not_describe_text() -> None:
    with pytest.raises(PartyError, match='column "x" holds text'):
        fit(pl.DataFrame({"x": ["a"]}), {"x": Declared(0, 1)})


def test_a_missing_a_retyped_and_an_infinite_column_are_refused_by_name() -> None:
    encoding = fit(pl.DataFrame({"age": [1, 2]}))
    with pytest.raises(DataError, match='column "age" is missing; the table has "years"'):
        encoding(pl.DataFrame({"years": [1]}))
    with pytest.raises(DataError, match='column "age" holds text .* where numbers were'):
        encoding(pl.DataFrame({"age": ["1"]}))
    with pytest.raises(DataError, match="1 infinite values"):
        encoding(pl.DataFrame({"age": [math.inf]}))
    with pytest.raises(DataError, match="2 infinite values"):
        fit(pl.DataFrame({"age": [math.inf, -math.inf, 0]}))
    with pytest.raises(DataError, match="of type List"):
        fit(pl.DataFrame({"age": [[1], [2]]}))
    with pytest.raises(DataError, match="no rows"):
        fit(pl.DataFrame({"age": []}, schema={"age": pl.Int64}))


def test_columns_are_found_by_name_and_unknown_ones_are_ignored() -> None:
    encoding = fit(pl.DataFrame({"a": [0.0, 2.0], "b": ["x", "y"]}))
    assert encoding(pl.DataFrame({"new": [9], "b": ["y"], "a": [2]})).tolist() == [[1, 0, 1]]


cells = {
    "numbers": st.one_of(st.none(), st.floats(), st.integers(-(2**62), 2**62).map(float)),
    "whole": st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
    "text": st.one_of(st.none(), st.text(max_size=3)),
    "dates": st.one_of(st.none(), st.dates()),
    "truth": st.one_of(st.none(), st.booleans()),
}
types = {"numbers": pl.Float64, "whole": pl.Int64, "text": pl.String, "dates": pl.Date, "truth": pl.Boolean}


@st.composite
def pairs(draw: st.DrawFn) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Two frames of the same columns."""
    kinds = draw(st.lists(st.sampled_from(list(cells)), min_size=1, max_size=4))
    frames = []
    for _ in range(2):
        rows = draw(st.integers(1, 6))
        data = {f"{kind} {i}": draw(st.lists(cells[kind], min_size=rows, max_size=rows)) for i, kind in enumerate(kinds)}
        frames.append(pl.DataFrame(data, schema={f"{kind} {i}": types[kind] for i, kind in enumerate(kinds)}))
    return frames[0], frames[1]


@given(pairs())
@settings(max_examples=200, deadline=None)
def test_any_frame_gives_finite_numbers_or_a_sentence_and_survives_being_written_down(both: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    seen, new = both
    try:
        encoding = fit(seen)
        first, second = encoding(seen), encoding(new)
    except DataError as error:
        said = "infinite" in str(error)
        assert said
        assert any(np.isinf(frame[name].drop_nulls().to_numpy()).any() for frame in both for name in frame.columns if name.startswith("numbers"))
        return
    assert first.isfinite().all()
    assert second.isfinite().all()
    assert first.shape == (seen.height, encoding.width)
    assert len(set(encoding.names)) == encoding.width
    again = state.from_bytes(state.to_bytes(encoding))
    assert isinstance(again, Encoding)
    assert again.names == encoding.names
    assert torch.equal(again(new), second)


@given(pairs())
@settings(max_examples=100, deadline=None)
def test_declared_encodings_stay_within_one(both: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    seen, new = both
    declared = {name: Declared(-3, 5) if name.split()[0] in ("numbers", "whole", "dates") else Declared(values=("a", "true")) for name in seen.columns}
    encoding = fit(seen, declared)
    assert encoding.to_arrays() == fit(new, declared).to_arrays()
    assert (encoding(new).abs() <= 1).all()
