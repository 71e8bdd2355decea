"""Small networks that know their own architecture, so that they can be written down as JSON and tensors and built again.

Every number comes from the generator that is passed in: initial weights, and dropout's coins as well.
"""

import importlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, Self

import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init

from reticent.errors import StudyError

BLOCK = 4096  # rows computed at once: another number changes the last bits, so it is the same everywhere

empty: Callable[..., nn.Module] = skip_init  # a layer whose weights are not drawn: that would be from the global generator

Final = Literal["linear", "tanh"]


def mlp(inputs: int, hidden: Sequence[int], outputs: int, rng: torch.Generator, final: Final = "linear", dropout: float = 0.0) -> "Net":
    """ReLU layers of `hidden` units, then `outputs` numbers: the paper's FC(m x n)."""
    return Net({"kind": "mlp", "inputs": inputs, "hidden": list(hidden), "outputs": outputs, "final": final, "dropout": dropout}, rng)


def cnn0(channels: int, height: int, width: int, outputs: int, rng: torch.Generator) -> "Net":
    """The paper's CNN0 (Fig. 4) as its authors' code has it. Pictures under six pixels are padded to keep their size."""
    return Net({"kind": "cnn0", "shape": [channels, height, width], "outputs": outputs}, rng)


def features(channels: int, height: int, width: int, rng: torch.Generator) -> "Net":
    """Convolutions and poolings down to about three pixels a side, flattened: the own part of the model `cnn`."""
    return Net({"kind": "features", "shape": [channels, height, width]}, rng)


def own(module: str | Callable[..., nn.Module], inputs: int | tuple[int, int, int], outputs: int, rng: torch.Generator) -> "Net":
    """A user's nn.Module, built as Class(inputs, outputs); for pictures inputs = (channels, height, width).

    It is kept as its dotted path and its state_dict, so the class must be importable when a run is loaded.
    """
    if not isinstance(module, str):
        module = f"{module.__module__}:{module.__qualname__}"
    return Net({"kind": "own", "module": module, "inputs": list(inputs) if isinstance(inputs, tuple) else inputs, "outputs": outputs}, rng)


def own_class(path: str) -> type[nn.Module]:
    """The class behind "package.module:Class". Nothing but a subclass of nn.Module is ever called."""
    place, _, name = path.partition(":") if ":" in path else path.rpartition(".")
    try:
        found: object = importlib.import_module(place)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise StudyError(f"module {path!r} cannot be imported ({error}): write it as package.module:Class, in a file on Python's path") from error
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise StudyError(f"module {path!r} is no subclass of torch.nn.Module: it is built as Class(inputs, outputs) and must be one")
    return found


@contextmanager
def borrowed(rng: torch.Generator) -> Iterator[None]:
    """Lends `rng` to code that knows only the global generator (a user's module); the global one is as it was afterwards."""
    before = torch.get_rng_state()
    torch.set_rng_state(rng.get_state())
    try:
        yield
    finally:
        rng.set_state(torch.get_rng_state())
        torch.set_rng_state(before)


def child(rng: torch.Generator) -> torch.Generator:
    """A generator of its own, seeded by one draw."""
    return torch.Generator().manual_seed(seed(rng))


def seed(rng: torch.Generator) -> int:
    return int(torch.randint(2**31 - 1, (1,), generator=rng))


def in_blocks(compute: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """compute(x), 4,096 rows at a time."""
    return torch.cat([compute(x[at : at + BLOCK]) for at in range(0, max(len(x), 1), BLOCK)])


class Dropout(nn.Module):
    """nn.Dropout with a generator of its own."""

    def __init__(self, share: float, rng: torch.Generator) -> None:
        super().__init__()
        self.share, self.rng = share, rng

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.share == 0:
            return x
        kept = torch.empty(x.shape).bernoulli_(1 - self.share, generator=self.rng).to(x.device)  # drawn on the CPU: the same coins on every device
        return x * kept.div_(1 - self.share)


def layers(spec: Mapping[str, Any], rng: torch.Generator) -> nn.Sequential:  # Any: JSON
    kind = spec["kind"]
    if kind == "own":
        inputs = tuple(spec["inputs"]) if isinstance(spec["inputs"], list) else spec["inputs"]
        made = own_class(spec["module"])
        with borrowed(rng):
            return nn.Sequential(made(inputs, spec["outputs"]))
    if kind == "mlp":
        sizes = [spec["inputs"], *spec["hidden"]]
        parts: list[nn.Module] = []
        for before, after in pairwise(sizes):
            parts += [empty(nn.Linear, before, after), nn.ReLU()]
            if spec["dropout"]:
                parts.append(Dropout(spec["dropout"], rng))
        parts.append(empty(nn.Linear, sizes[-1], spec["outputs"]))
        return nn.Sequential(*parts, nn.Tanh()) if spec["final"] == "tanh" else nn.Sequential(*parts)
    channels, height, width = spec["shape"]
    if kind == "cnn0":
        padding = 0 if min(height, width) >= 6 else 1
        shrunk = 4 if padding == 0 else 0
        flat = 64 * math.ceil((height - shrunk) / 2) * math.ceil((width - shrunk) / 2)
        return nn.Sequential(
            empty(nn.Conv2d, channels, 32, 3, padding=padding), nn.ReLU(),
            empty(nn.Conv2d, 32, 64, 3, padding=padding), nn.ReLU(), nn.MaxPool2d(2, ceil_mode=True), Dropout(0.25, rng),
            nn.Flatten(), empty(nn.Linear, flat, 128), nn.ReLU(), Dropout(0.5, rng), empty(nn.Linear, 128, spec["outputs"]),
        )  # fmt: skip
    if kind == "features":
        parts, depth = [], 32
        while min(height, width) > 3 or depth == 32:
            parts += [empty(nn.Conv2d, channels, depth, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2, ceil_mode=True)]
            channels, depth, height, width = depth, min(depth * 2, 128), math.ceil(height / 2), math.ceil(width / 2)
        return nn.Sequential(*parts, nn.Flatten())
    raise StudyError(f"a network of kind {kind!r} is unknown: mlp, cnn0, features and own are known")


class Net(nn.Module):
    """Layers, the JSON they are built from, and the generator of their dropout. A State: `to_arrays` and `from_arrays` are exact."""

    def __init__(self, spec: Mapping[str, Any], rng: torch.Generator | None) -> None:  # Any: JSON; rng None: weights are filled in later
        super().__init__()
        self.spec = dict(spec)
        self.rng = child(rng) if rng is not None else torch.Generator()
        self.layers = layers(self.spec, self.rng)
        if rng is not None and spec["kind"] != "own":
            for layer in self.layers:
                if isinstance(layer, nn.Linear | nn.Conv2d):  # PyTorch's own distribution, drawn from rng
                    bound = 1 / math.sqrt(layer.weight[0].numel() or 1)
                    nn.init.uniform_(layer.weight, -bound, bound, generator=rng)
                    if layer.bias is not None:
                        nn.init.uniform_(layer.bias, -bound, bound, generator=rng)

    @property
    def outputs(self) -> int:
        """How many numbers a row becomes."""
        if self.spec["kind"] != "features":
            return int(self.spec["outputs"])
        with torch.no_grad():
            return int(self.layers(torch.zeros(1, *self.spec["shape"], device=next(self.parameters()).device)).shape[1])

    if TYPE_CHECKING:  # nn.Module's is untyped

        def __call__(self, x: Tensor) -> Tensor: ...

    def forward(self, x: Tensor) -> Tensor:
        if self.spec["kind"] == "own":
            with borrowed(self.rng):
                z: Tensor = self.layers(x)
        else:
            z = self.layers(x)
        return z.flatten(1) if z.dim() > 1 else z[:, None]

    def to_arrays(self) -> Mapping[str, object]:
        return {"spec": self.spec, "tensors": dict(self.state_dict()), "rng": self.rng}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Self:  # Any: what to_arrays gave
        net = cls(arrays["spec"], None)
        net.load_state_dict(arrays["tensors"])
        net.rng.set_state(arrays["rng"].get_state())
        return net
