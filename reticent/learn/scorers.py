"""What gives raw scores once it is trained: constants, dense nets and boosted trees, each a State."""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from reticent.errors import DataError
from reticent.learn.nets import BLOCK, Net


class Scorer(Protocol):
    """Raw scores [m, outputs] float32 of a block of rows; a State."""

    def __call__(self, own: Tensor | None, heard: Sequence[Tensor]) -> Tensor: ...

    def to_arrays(self) -> Mapping[str, object]: ...

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Self: ...  # Any: what to_arrays gave


@dataclass
class Constant:
    """The same scores for every row: all that one class can teach."""

    scores: Tensor

    def __call__(self, own: Tensor | None, heard: Sequence[Tensor]) -> Tensor:
        return self.scores.expand(len(heard[0]) if own is None else len(own), -1)

    def to_arrays(self) -> Mapping[str, object]:
        return {"scores": self.scores}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Self:  # Any: what to_arrays gave
        return cls(arrays["scores"])


@dataclass
class Scaling:
    """Column by column: (x - centre) / spread, from the training rows; a constant column becomes zeros."""

    centre: Tensor
    spread: Tensor

    @classmethod
    def of(cls, x: Tensor) -> Self:
        centre = x.mean(0, dtype=torch.float64)
        spread = sum(((part.double() - centre).square().sum(0) for part in torch.split(x, BLOCK)), torch.zeros_like(centre)).div(max(len(x), 1)).sqrt()
        varies = spread > 1e-6 * centre.abs() + 1e-12
        return cls(centre.float(), torch.where(varies, spread, torch.inf).float())

    def __call__(self, x: Tensor) -> Tensor:
        return (x - self.centre.to(x.device)) / self.spread.to(x.device)

    def to_arrays(self) -> Mapping[str, object]:
        return {"centre": self.centre, "spread": self.spread}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Self:  # Any: what to_arrays gave
        return cls(arrays["centre"], arrays["spread"])


@dataclass
class Dense:
    """head([local(own) | scaling(heard)]), or head(scaling([own | heard])) where there is no local part."""

    local: Net | None
    scaling: Scaling | None
    head: Net
    low: float = 0.0  # regression: score = low + width * output, of which a sigmoid is taken first where `squash` says so
    width: float = 1.0
    squash: bool = False

    def __call__(self, own: Tensor | None, heard: Sequence[Tensor]) -> Tensor:
        device = next(self.head.parameters()).device
        self.train(False)
        with torch.no_grad():
            z = self.forward(None if own is None else own.to(device), self.rest(own, heard).to(device))
            return self.low + self.width * (z.sigmoid() if self.squash else z)

    def rest(self, own: Tensor | None, heard: Sequence[Tensor]) -> Tensor:
        """What goes to the head directly."""
        x = columns(None if self.local else own, heard, 0 if own is None else len(own))
        return self.scaling(x) if self.scaling else x

    def forward(self, own: Tensor | None, rest: Tensor) -> Tensor:
        if self.local and own is not None:
            rest = torch.cat([self.local(own), rest], 1)
        return self.head(rest)

    def train(self, on: bool) -> None:
        for net in (self.local, self.head):
            if net:
                net.train(on)

    def to_arrays(self) -> Mapping[str, object]:
        return {"local": self.local, "scaling": self.scaling, "head": self.head, "low": self.low, "width": self.width, "squash": self.squash}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Self:  # Any: what to_arrays gave
        return cls(**arrays)


class Boosted:
    """LightGBM, kept as its own text: one booster, or one a label; a number stands for a label that never varies."""

    def __init__(self, texts: Sequence[str | float], threads: int) -> None:
        self.texts, self.threads = list(texts), threads
        lightgbm: Any = importlib.import_module("lightgbm")  # Any: untyped; imported when used, for it takes a second
        self.boosters = [lightgbm.Booster(model_str=text) if isinstance(text, str) else text for text in self.texts]

    def __call__(self, own: Tensor | None, heard: Sequence[Tensor]) -> Tensor:
        x = columns(own, heard, 0).cpu().numpy()
        parts = [
            np.full(len(x), booster) if isinstance(booster, float) else booster.predict(x, raw_score=True, num_threads=self.threads)
            for booster in self.boosters
        ]
        return torch.from_numpy((parts[0].reshape(len(x), -1) if len(parts) == 1 else np.stack(parts, 1)).astype(np.float32))

    def to_arrays(self) -> Mapping[str, object]:
        return {"texts": self.texts, "threads": self.threads}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Self:  # Any: what to_arrays gave
        return cls(arrays["texts"], arrays["threads"])


def check(own: Tensor | None, heard: Sequence[Tensor]) -> None:
    parts = [*heard] if own is None else [own, *heard]
    if not parts:
        raise DataError("a model needs the host's own columns or at least one guest's letter: here are neither")
    if len({len(part) for part in parts}) > 1:
        raise DataError(f"the parts of a model's input have {', '.join(str(len(part)) for part in parts)} rows: they must be the same people")


def columns(own: Tensor | None, heard: Sequence[Tensor], rows: int) -> Tensor:
    """[own | heard] as one float32 table; pictures are flattened. `rows` counts where there is nothing."""
    parts = [part.flatten(1).float() for part in ([*heard] if own is None else [own, *heard])]
    return torch.cat(parts, 1) if parts else torch.zeros(rows, 0)
