"""Numbers in 8, 4 or 2 bits: each column cut at three deviations into equal steps, the levels packed tightly into bytes.

A row of d numbers takes ceil(d · bits / 8) bytes, and the letter 8 · d more for `low` and `step`. A row's levels are a function
of that row, `low` and `step` alone: the same row gives the same bytes in whatever company it is packed.
"""

from typing import Literal, cast

import torch
from torch import Tensor

from reticent.errors import DataError, LetterError, StudyError

Letters = Literal["float32", "float16", "int8", "int4", "int2"]
Packed = Literal["int8", "int4", "int2"]

DEVIATIONS = 3.0  # where a column is cut, either side of its mean
BLOCK = 4096  # rows at a time in float64, so that memory stays that of the float32 numbers
BITS: dict[str, int] = {"int8": 8, "int4": 4, "int2": 2}
WIDEST_FIRST: dict[Letters, int] = {"float32": 32, "float16": 16, "int8": 8, "int4": 4}


def cut(z: Tensor, letters: Packed) -> tuple[Tensor, Tensor]:
    """`low` and `step`, float32 [d], of z's columns ([n, d]): level q stands for low + q · step, in the middle of its cell.

    The cells cover each column from three deviations below its mean to three above, or from its smallest to its largest number
    where that is nearer, so that none lies where no number is. A constant column has step 0 and comes back exactly.
    """
    _check(z)
    if not len(z):
        raise DataError(f"numbers of shape {tuple(z.shape)} have no deviation: cut the columns of at least one row")
    low, step = torch.empty(z.shape[1]), torch.empty(z.shape[1])
    for j in range(z.shape[1]):  # a column at a time: float64 copies of all would be twice z
        column = z[:, j].double()
        reach = DEVIATIONS * column.std(correction=0)
        edges = torch.stack([column.mean() - reach, column.mean() + reach]).clamp(column.min(), column.max())
        cell = (edges[1] - edges[0]) / (1 << BITS[letters])
        low[j], step[j] = edges[0] + cell / 2, cell
    return low.to(z.device), step.to(z.device)


def pack(z: Tensor, letters: Packed, low: Tensor, step: Tensor) -> Tensor:
    """uint8 [n, ceil(d · bits / 8)]: the nearest level of each number, the first column in a byte's lowest bits; beyond the cut, the last level.

    Inside the cut |z − unpack(pack(z))| ≤ step / 2, up to the rounding of float32.
    """
    _check(z)
    bits, columns = BITS[letters], z.shape[1]
    _fit(low, step, columns)
    low, step = low.to(z.device).double(), step.to(z.device).double()
    packed = torch.empty(len(z), width(columns, letters), dtype=torch.uint8, device=z.device)
    for at in range(0, len(z), BLOCK):
        apart = z[at : at + BLOCK].double() - low
        levels = torch.where(step > 0, apart / step, 0.0).round().clamp(0, (1 << bits) - 1).to(torch.uint8)
        packed[at : at + BLOCK] = _together(levels, bits)
    return packed


def unpack(packed: Tensor, letters: Packed, low: Tensor, step: Tensor) -> Tensor:
    """float32 [n, d], d being the length of `low`; LetterError where the three do not fit each other."""
    bits, columns = BITS[letters], len(low)
    _fit(low, step, columns)
    if packed.dim() != 2 or packed.dtype != torch.uint8 or packed.shape[1] != width(columns, letters):
        raise LetterError(
            f"packed levels are {packed.dtype} of shape {tuple(packed.shape)}: {columns} columns in {letters} take {width(columns, letters)} bytes (uint8) a row"
        )
    low, step = low.to(packed.device).double(), step.to(packed.device).double()
    if not bool(torch.cat([low, low + ((1 << bits) - 1) * step]).float().isfinite().all()):
        raise LetterError(f"low and step reach beyond float32: the last level stands for {float((low + ((1 << bits) - 1) * step).abs().max()):g}")
    z = torch.empty(len(packed), columns, device=packed.device)
    for at in range(0, len(packed), BLOCK):
        z[at : at + BLOCK] = (low + _apart(packed[at : at + BLOCK], bits)[:, :columns].double() * step).float()
    return z


def width(columns: int, letters: Packed) -> int:
    """Bytes a row."""
    return -(-columns * BITS[letters] // 8)


def columns_within(letter_bytes: int, columns: int) -> int:
    """d under a budget of `letter_bytes` a row, of a party with `columns` columns: two numbers a byte.

    Many numbers of few bits win, down to 4 bits: MNIST in quadrants loses more with half the bits than with half the numbers.
    """
    if letter_bytes < 1:
        raise StudyError(f"letter_bytes = {letter_bytes}: a row takes at least 1 byte; leave letter_bytes out for no limit")
    return max(1, min(2 * letter_bytes, columns))


def letters_within(letter_bytes: int | None, columns: int, wanted: Letters) -> Letters:
    """The most bits, from 32 down to 4, in which so many numbers fit `letter_bytes` a row; without such a limit, what is wanted."""
    if letter_bytes is None:
        return wanted
    for letters, bits in WIDEST_FIRST.items():
        if -(-columns * bits // 8) <= letter_bytes:
            return letters
    raise StudyError(f"{columns} numbers do not fit {letter_bytes} bytes a row, at 4 bits each: allow {-(-columns // 2)} bytes, or send fewer")


def packed_letters(letters: Letters) -> Packed | None:
    """`letters` where they are packed, None where they are floats."""
    return cast(Packed, letters) if letters in BITS else None


def _together(levels: Tensor, bits: int) -> Tensor:
    """[n, d] levels below 2^bits -> [n, ceil(d · bits / 8)]; what is left of the last byte is 0."""
    each = 8 // bits
    whole = torch.nn.functional.pad(levels, (0, -levels.shape[1] % each))
    shifts = torch.arange(each, dtype=torch.uint8, device=levels.device) * bits
    return (whole.reshape(len(levels), whole.shape[1] // each, each) << shifts).sum(2, dtype=torch.uint8)


def _apart(packed: Tensor, bits: int) -> Tensor:
    """The inverse of `_together`, with the padding."""
    each = 8 // bits
    shifts = torch.arange(each, dtype=torch.uint8, device=packed.device) * bits
    return ((packed[:, :, None] >> shifts) & ((1 << bits) - 1)).reshape(len(packed), packed.shape[1] * each)


def _check(z: Tensor) -> None:
    if z.dim() != 2:
        raise DataError(f"numbers of shape {tuple(z.shape)} cannot be packed: give rows and columns, [n, d]")
    finite = z.isfinite().all(0)
    if not bool(finite.all()):
        first = int((~finite).nonzero()[0])
        raise DataError(
            f"{int((~finite).sum())} of {z.shape[1]} columns to be packed hold NaN or infinite numbers, column {first} the first, in {int((~z[:, first].isfinite()).sum())} rows: no level stands for them"
        )


def _fit(low: Tensor, step: Tensor, columns: int) -> None:
    if tuple(low.shape) != (columns,) or tuple(step.shape) != (columns,):
        raise LetterError(f"low and step have shapes {tuple(low.shape)} and {tuple(step.shape)}: one number for each of {columns} columns was expected")
