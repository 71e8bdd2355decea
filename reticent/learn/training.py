"""Mini-batch training on resident tensors, and Adam as a handful of operations on one vector."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from reticent.learn.flat import Array, Flat, with_ones
from reticent.learn.nets import Net, in_blocks

Progress = Callable[[int, int, float], None]  # epoch (from 1), epochs, mean loss of the epoch


@dataclass(frozen=True)
class Schedule:
    epochs: int  # passes over the rows
    batch: int  # rows a step
    lr: float  # Adam's rate; the peak where one_cycle is set
    weight_decay: float  # L2 in the gradient, or AdamW's where decoupled
    decoupled: bool = False  # AdamW instead of Adam
    one_cycle: bool = False  # rises over the first third, then falls to nothing, instead of staying constant
    patience: int = 0  # stop after so many epochs without a better check; 0: never


def rate(schedule: Schedule, step: int, steps: int) -> float:
    """The learning rate of step `step` of `steps`."""
    if not schedule.one_cycle:
        return schedule.lr
    rise = max(1.0, 0.3 * steps)
    if step < rise:
        low, part = 0.04, step / rise
    else:
        low, part = 0.0, 1 - (step - rise) / max(1.0, steps - rise)
    return schedule.lr * (low + (1 - low) * (0.5 - 0.5 * math.cos(math.pi * part)))


class Adam:
    """Adam (or AdamW) over all parameters as one vector; they and their gradients become views of it.

    Move a net to its device before, not after: `.to` would replace the views.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], weight_decay: float, decoupled: bool = False) -> None:
        learnt = [p for p in parameters if p.requires_grad]
        self.weight_decay, self.decoupled, self.steps = weight_decay, decoupled, 0
        self.vector = torch.cat([p.detach().reshape(-1) for p in learnt]) if learnt else torch.zeros(0)
        self.gradient, self.first, self.second = (torch.zeros_like(self.vector) for _ in range(3))
        at = 0
        for p in learnt:
            place = slice(at, at + p.numel())
            p.data = self.vector[place].view(p.shape)
            p.grad = self.gradient[place].view(p.shape)
            at += p.numel()

    @torch.no_grad()
    def step(self, rate: float, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8) -> None:
        """Applies the gradient that backward left, and clears it."""
        self.steps += 1
        if self.weight_decay and self.decoupled:
            self.vector.mul_(1 - rate * self.weight_decay)
        elif self.weight_decay:
            self.gradient.add_(self.vector, alpha=self.weight_decay)
        self.first.lerp_(self.gradient, 1 - beta1)
        self.second.mul_(beta2).addcmul_(self.gradient, self.gradient, value=1 - beta2)
        root = math.sqrt(1 - beta2**self.steps)
        self.vector.addcdiv_(self.first, self.second.sqrt().add_(epsilon * root), value=-rate * root / (1 - beta1**self.steps))
        self.gradient.zero_()


class Trained:
    """A net and its optimiser, driven by gradients that come from elsewhere: a guest of split learning. A State, exact at any
    moment: between `forward` and `backward` it keeps the batch, and computes the graph again when it is read back."""

    def __init__(self, net: Net, lr: float, weight_decay: float) -> None:
        self.net, self.lr, self.optimiser = net.train(), lr, Adam(net.parameters(), weight_decay)
        self.batch: Tensor | None = None  # what forward saw last, until backward
        self.before: dict[str, object] = {}  # the net's coins and buffers as they were before that
        self.outputs: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        """The batch's representation, with its graph kept for `backward`; detached for whoever reads it."""
        self._follow(x.device)
        self.net.train()
        self.batch = x
        self.before = {"rng": self.net.rng.clone_state(), "buffers": {name: b.clone() for name, b in self.net.named_buffers()}}
        self.outputs = self.net(x)
        return self.outputs.detach()

    def backward(self, gradient: Tensor) -> None:
        """dLoss/dOutputs of the last `forward`; one step of Adam."""
        self._follow(gradient.device)
        if self.outputs is None:
            raise RuntimeError("backward was called without a forward before it: each batch is forward, then backward, once")
        torch.autograd.backward(self.outputs, gradient)
        self.optimiser.step(self.lr)
        self.batch, self.outputs, self.before = None, None, {}

    def __call__(self, x: Tensor) -> Tensor:
        """The representation as it is now, without dropout or graph, in blocks of 4,096 rows."""
        self._follow(x.device)
        self.net.eval()
        with torch.no_grad():
            return in_blocks(self.net, x)

    def to_arrays(self) -> Mapping[str, object]:
        o = self.optimiser
        return {
            "net": self.net, "lr": self.lr, "weight_decay": o.weight_decay, "steps": o.steps, "first": o.first, "second": o.second,
            "batch": self.batch, "before": self.before,
        }  # fmt: skip

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Self:  # Any: what to_arrays gave
        trained = cls(arrays["net"], arrays["lr"], arrays["weight_decay"])
        trained.optimiser.steps = arrays["steps"]
        trained.optimiser.first.copy_(arrays["first"])
        trained.optimiser.second.copy_(arrays["second"])
        if arrays["batch"] is not None:
            trained.net.rng.set_state(arrays["before"]["rng"].get_state())
            for name, buffer in trained.net.named_buffers():
                buffer.copy_(arrays["before"]["buffers"][name])
            trained.forward(arrays["batch"])
        return trained

    def _follow(self, device: torch.device) -> None:
        """A snapshot is read back onto the CPU: the first batch says where it belongs."""
        if self.optimiser.vector.device != device:
            self.__dict__.update(vars(self.to(device)))

    def to(self, device: torch.device) -> "Trained":
        """The same on another device."""
        moved = dict(self.to_arrays())
        moved["net"] = self.net.to(device)
        moved["batch"] = self.batch.to(device) if self.batch is not None else None
        return Trained.from_arrays(moved)


def batches(rows: int, size: int, rng: torch.Generator) -> Iterator[Tensor]:
    """All row numbers once, in a new order, `size` at a time."""
    yield from torch.split(torch.randperm(rows, generator=rng), size)


def stalled(history: list[float], patience: int) -> bool:
    return patience > 0 and len(history) > patience and min(history[-patience:]) >= min(history[:-patience])


def train(
    parameters: Iterable[nn.Parameter],
    loss: Callable[[Tensor, int], Tensor],
    rows: int,
    schedule: Schedule,
    rng: torch.Generator,
    device: torch.device,
    progress: Progress | None = None,
    check: Callable[[], float] | None = None,
) -> list[float]:
    """Minimises loss(row numbers, epoch) by autograd; returns each epoch's mean loss. `check` is read after each epoch where
    `patience` is set (without it, the training loss is)."""
    optimiser = Adam(parameters, schedule.weight_decay, schedule.decoupled)
    size = max(1, min(schedule.batch, rows))
    steps, step = schedule.epochs * math.ceil(rows / size), 0
    losses: list[float] = []
    checks: list[float] = []
    for epoch in range(schedule.epochs):
        total = torch.zeros((), device=device)
        for chosen in batches(rows, size, rng):
            value = loss(chosen.to(device), epoch)
            torch.autograd.backward(value)
            optimiser.step(rate(schedule, step, steps))
            total += value.detach() * len(chosen)  # one read an epoch, not one a step: a GPU would wait for each
            step += 1
        losses.append(float(total) / rows)
        if progress:
            progress(epoch + 1, schedule.epochs, losses[-1])
        if schedule.patience:
            checks.append(check() if check else losses[-1])
            if stalled(checks, schedule.patience):
                break
    return losses


def train_flat(
    net: Net,
    x: Array,
    slope: Callable[[Array, NDArray[np.int64], int], tuple[Array, float]],
    schedule: Schedule,
    rng: torch.Generator,
    progress: Progress | None = None,
    check: Callable[[], float] | None = None,
) -> list[float]:
    """The same for a net of kind mlp on the CPU, by hand: slope(outputs, row numbers, epoch) gives dLoss/dOutputs and the loss
    summed over the batch. The net is trained in place."""
    rows = len(x)
    size = max(1, min(schedule.batch, rows))
    flat = Flat(net, size, schedule.weight_decay, schedule.decoupled)
    x = with_ones(x)
    batch = np.empty((size, x.shape[1]), np.float32)
    steps, step = schedule.epochs * math.ceil(rows / size), 0
    losses: list[float] = []
    checks: list[float] = []
    for epoch in range(schedule.epochs):
        order = torch.randperm(rows, generator=rng).numpy()
        total = 0.0
        for at in range(0, rows, size):
            chosen = order[at : at + size]
            z = flat.forward(x.take(chosen, 0, batch[: len(chosen)], "clip"))  # clip: "raise" would copy
            delta, value = slope(z, chosen, epoch)
            flat.backward(delta)
            flat.step(rate(schedule, step, steps))
            total += value
            step += 1
        losses.append(total / rows)
        if progress:
            progress(epoch + 1, schedule.epochs, losses[-1])
        if schedule.patience:
            flat.write_back()
            checks.append(check() if check else losses[-1])
            if stalled(checks, schedule.patience):
                break
    flat.write_back()
    return losses
