"""Which rows a message speaks of: a bit mask over all common rows, or their numbers, whichever is shorter."""

import numpy as np
import torch
from torch import Tensor

from reticent.errors import DataError


def pack(rows: Tensor, count: int) -> Tensor:
    """`rows`: a bool mask over `count` rows, or int64 row numbers in the order wanted."""
    if rows.dtype == torch.bool:
        return torch.from_numpy(np.packbits(rows.numpy()))
    ordered = bool((rows[1:] > rows[:-1]).all())
    if ordered and len(rows) * 8 > count / 8:
        mask = torch.zeros(count, dtype=torch.bool)
        mask[rows] = True
        return pack(mask, count)
    return rows.to(torch.int64)


def unpack(rows: Tensor, count: int) -> Tensor:
    """Row numbers, int64."""
    if rows.dtype == torch.uint8:
        if len(rows) != (count + 7) // 8:
            raise DataError(f"a mask over {8 * len(rows)} rows came, this party holds {count}")
        return torch.from_numpy(np.flatnonzero(np.unpackbits(rows.numpy(), count=count)))
    if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < count:
        raise DataError(f"row numbers {int(rows.min())} to {int(rows.max())} were asked for, this party holds {count} rows")
    return rows
