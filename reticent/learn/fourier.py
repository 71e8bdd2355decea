"""Random Fourier features (Rahimi and Recht, "Random features for large-scale kernel machines", 2007): an encoder that reads no data.

The row is scaled to norm 1, z = cos(x R + b) with R ~ N(0, 2^2) and b uniform on the circle, and z is scaled to norm 1: each row by itself,
so it spends no privacy and couples no rows. R and b come from a public seed: they hide nothing, and enough of these numbers determine the row.
"""

import math
from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from reticent.learn.nets import in_blocks

SPREAD = 2.0  # deviation of R: the kernel is exp(-2 |x - y|^2) on rows of norm 1


class Fourier:
    """cos(x R + b) of flattened rows, at norm 1: [n, dim]. A State, made of its three numbers alone."""

    def __init__(self, columns: int, dim: int, seed: int) -> None:
        self.columns, self.dim, self.seed = columns, dim, seed
        rng = torch.Generator().manual_seed(seed)
        self.matrix = SPREAD * torch.randn(columns, dim, generator=rng)  # R
        self.shift = 2 * math.pi * torch.rand(dim, generator=rng)  # b

    def __call__(self, x: Tensor) -> Tensor:
        matrix, shift = self.matrix.to(x.device), self.shift.to(x.device)

        def block(rows: Tensor) -> Tensor:
            rows = F.normalize(rows.reshape(len(rows), self.columns).float(), dim=1)  # a row of zeros stays one
            return F.normalize(torch.cos(rows @ matrix + shift), dim=1)

        return in_blocks(block, x)

    def to_arrays(self) -> Mapping[str, object]:
        return {"columns": self.columns, "dim": self.dim, "seed": self.seed}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Self:  # Any: what to_arrays gave
        return cls(arrays["columns"], arrays["dim"], arrays["seed"])
