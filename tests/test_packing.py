"""Numbers in few bits: near enough, in exactly the bytes promised, and the same bytes for the same row."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from reticent import packing
from reticent.errors import DataError, LetterError, StudyError

FEW = ("int8", "int4", "int2")
ROUNDING = 2.0**-22  # of a float32 that is unpacked, and of `low` and `step` themselves, relative to the largest number


def drawn(rows, columns, seed=0):
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


def there_and_back(z, letters):
    low, step = packing.cut(z, letters)
    return packing.unpack(packing.pack(z, letters, low, step), letters, low, step)


def test_four_cells_of_a_column_from_0_to_8_stand_for_their_middles():
    z = torch.tensor([[0.0], [1.9], [2.1], [5.0], [8.0]])
    low, step = packing.cut(z, "int2")
    assert (low.tolist(), step.tolist()) == ([1.0], [2.0])
    assert packing.pack(z, "int2", low, step).flatten().tolist() == [0, 0, 1, 2, 3]
    assert there_and_back(z, "int2").flatten().tolist() == [1.0, 1.0, 3.0, 5.0, 7.0]


def test_a_column_is_cut_at_three_deviations():
    z = torch.cat([torch.full((50, 1), -1.0), torch.full((50, 1), 1.0), torch.tensor([[100.0], [-100.0]])])  # mean 0, deviation sqrt(20100 / 102)
    low, step = packing.cut(z, "int4")
    three = 3 * (20100 / 102) ** 0.5
    assert float(step) == pytest.approx(2 * three / 16) and float(low) == pytest.approx(three * (1 / 16 - 1))
    assert there_and_back(z, "int4")[-2:].flatten().tolist() == pytest.approx([three * (1 - 1 / 16), three * (1 / 16 - 1)])


def test_a_bytes_lowest_bits_are_the_first_columns_and_what_is_left_is_0():
    low, step = torch.zeros(5), torch.ones(5)
    row = torch.tensor([[3.0, 2.0, 1.0, 0.0, 2.0]])
    assert packing.pack(row, "int2", low, step).tolist() == [[3 + 2 * 4 + 1 * 16, 2]]
    assert packing.pack(row, "int4", low, step).tolist() == [[3 + 2 * 16, 1, 2]]
    assert packing.pack(row, "int8", low, step).tolist() == [[3, 2, 1, 0, 2]]


@pytest.mark.parametrize("letters", FEW)
@pytest.mark.parametrize("columns", [1, 2, 3, 4, 5, 7, 8, 9])
def test_every_level_comes_back_whatever_the_number_of_columns(letters, columns):
    top = (1 << packing.BITS[letters]) - 1
    levels = torch.randint(0, top + 1, (5000, columns), generator=torch.Generator().manual_seed(1)).float()  # more rows than a block has
    packed = packing.pack(levels, letters, torch.zeros(columns), torch.ones(columns))
    assert packed.dtype == torch.uint8 and packed.numel() == 5000 * -(-columns * packing.BITS[letters] // 8)
    assert torch.equal(packing.unpack(packed, letters, torch.zeros(columns), torch.ones(columns)), levels)


@pytest.mark.parametrize("letters", FEW)
def test_numbers_beyond_the_cut_take_the_last_level(letters):
    low, step = torch.tensor([-1.0]), torch.tensor([0.25])
    back = packing.unpack(packing.pack(torch.tensor([[-1e30], [1e30]]), letters, low, step), letters, low, step)
    assert back.flatten().tolist() == [-1.0, -1.0 + 0.25 * ((1 << packing.BITS[letters]) - 1)]


@pytest.mark.parametrize("letters", FEW)
def test_constant_columns_and_a_single_row_come_back_exactly(letters):
    constant = torch.tensor([[0.1, -7.3e5, 0.0]]).repeat(1001, 1)
    assert torch.equal(there_and_back(constant, letters), constant)
    assert torch.equal(there_and_back(drawn(1, 5), letters), drawn(1, 5))


@pytest.mark.parametrize("letters", FEW)
def test_no_rows_and_no_columns_are_packed_to_nothing(letters):
    assert packing.pack(torch.empty(0, 3), letters, torch.zeros(3), torch.ones(3)).shape == (0, packing.width(3, letters))
    assert there_and_back(torch.empty(4, 0), letters).shape == (4, 0)


@settings(max_examples=200, deadline=None)
@given(
    z=arrays.arrays(np.float32, st.tuples(st.integers(1, 20), st.integers(1, 9)), elements=st.floats(-(2.0**60), 2.0**60, width=32, allow_subnormal=False)),
    letters=st.sampled_from(FEW),
)
def test_inside_the_cut_no_number_moves_by_more_than_half_a_step(z, letters):
    z = torch.from_numpy(z)
    low, step = packing.cut(z, letters)
    back = packing.unpack(packing.pack(z, letters, low, step), letters, low, step).double()
    bottom, cell = low.double(), step.double()
    top = bottom + cell * ((1 << packing.BITS[letters]) - 1)
    inside = (z >= bottom - cell / 2) & (z <= top + cell / 2)
    slack = ROUNDING * z.abs().amax(0).double() + 2.0**-140
    assert bool(back.isfinite().all()) and bool((step >= 0).all())
    assert bool((((back - z.double()).abs() <= cell / 2 + slack) | ~inside).all())
    assert bool((back >= z.amin(0).double() - slack).all()) and bool((back <= z.amax(0).double() + slack).all())


@pytest.mark.parametrize("letters", FEW)
def test_order_within_a_column_is_kept(letters):
    z = drawn(500, 3).sort(0).values
    assert bool((there_and_back(z, letters).diff(dim=0) >= 0).all())


@pytest.mark.parametrize("letters", FEW)
def test_the_same_row_gives_the_same_bytes_in_whatever_company(letters):
    z = drawn(9001, 5)
    low, step = packing.cut(z, letters)
    whole = packing.pack(z, letters, low, step)
    assert torch.equal(whole, packing.pack(z, letters, *packing.cut(z.clone(), letters)))
    assert torch.equal(whole[4000:4200], packing.pack(z[4000:4200], letters, low, step))
    assert torch.equal(whole[8999:], packing.pack(z[8999:], letters, low, step))
    assert torch.equal(whole, packing.pack(z.T.contiguous().T, letters, low, step))


@pytest.mark.parametrize("letters", ["int8", "int4"])
def test_a_normal_column_loses_what_equal_steps_cost(letters):
    z = drawn(20_000, 1)
    _, step = packing.cut(z, letters)
    inside = z.abs() < 2.9
    assert float((there_and_back(z, letters) - z)[inside].square().mean().sqrt()) == pytest.approx(float(step) / 12**0.5, rel=0.02)


def test_numbers_that_have_no_level_are_refused():
    z = drawn(3, 4)
    z[1, 2], z[2, 2] = float("nan"), float("inf")
    with pytest.raises(DataError, match=r"1 of 4 columns .* column 2 the first, in 2 rows"):
        packing.cut(z, "int8")
    with pytest.raises(DataError, match="column 2"):
        packing.pack(z, "int8", torch.zeros(4), torch.ones(4))
    with pytest.raises(DataError, match=r"\[n, d\]"):
        packing.cut(torch.ones(3), "int8")
    with pytest.raises(DataError, match="at least one row"):
        packing.cut(torch.ones(0, 3), "int8")


def test_levels_that_do_not_fit_their_scale_are_refused():
    scale = (torch.zeros(3), torch.ones(3))
    with pytest.raises(LetterError, match="3 columns in int4 take 2 bytes"):
        packing.unpack(torch.zeros(5, 3, dtype=torch.uint8), "int4", *scale)
    with pytest.raises(LetterError, match="2 bytes"):
        packing.unpack(torch.zeros(5, 2), "int4", *scale)
    with pytest.raises(LetterError, match=r"shapes \(3,\) and \(2,\)"):
        packing.unpack(torch.zeros(5, 2, dtype=torch.uint8), "int4", torch.zeros(3), torch.ones(2))
    with pytest.raises(LetterError, match="beyond float32"):
        packing.unpack(torch.zeros(5, 2, dtype=torch.uint8), "int4", torch.zeros(3), torch.full((3,), 3e38))


@pytest.mark.parametrize(
    ("letter_bytes", "columns", "dim", "letters"),
    [(8, 196, 16, "int4"), (1, 6, 2, "int4"), (3, 6, 6, "int4"), (3, 5, 5, "int4"), (6, 6, 6, "int8"), (12, 6, 6, "float16"), (24, 6, 6, "float32"), (1, 1, 1, "int8")],
)  # fmt: skip
def test_a_byte_budget_buys_numbers_first_and_then_bits(letter_bytes, columns, dim, letters):
    assert packing.columns_within(letter_bytes, columns) == dim
    assert packing.letters_within(letter_bytes, dim, "float32") == letters


@given(letter_bytes=st.integers(1, 5000), columns=st.integers(1, 5000))
def test_a_byte_budget_is_kept(letter_bytes, columns):
    dim = packing.columns_within(letter_bytes, columns)
    bits = packing.WIDEST_FIRST[packing.letters_within(letter_bytes, dim, "int2")]
    assert 1 <= dim <= columns and -(-dim * bits // 8) <= letter_bytes


def test_an_impossible_byte_budget_is_refused():
    with pytest.raises(StudyError, match="letter_bytes = 0"):
        packing.columns_within(0, 5)
    with pytest.raises(StudyError, match="5 numbers do not fit 2 bytes a row, at 4 bits each: allow 3 bytes"):
        packing.letters_within(2, 5, "float32")
