"""SplitNN: one network cut at its first layers; every batch, guests send the cut layer's outputs and get its gradients back.

Vepakomma, Gupta, Swedish, Raskar, "Split learning for health", 2018; as FedOnce's paper describes it in 2.3. With
`byte_budget` it stops where its bytes, both ways and headers included, would exceed the budget: the paper's SplitNN-Comm.
Rounds: one a batch (the gradient of a batch travels with the call for the next), 1 to predict.

Deviations: `lr` may be a list; then a tenth of the training rows judges, each rate has the whole budget, and what the
rates that were not chosen cost, and the judging, is counted as `search`.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F

from reticent import rows as row_sets
from reticent.errors import StudyError
from reticent.federation import Guests, Replies
from reticent.federation import Host as BaseHost
from reticent.learn import nets
from reticent.learn.training import Trained
from reticent.message import Matrix, Message, RowSet
from reticent.party import Guest as BaseGuest
from reticent.party import Party, answers, generator


@dataclass(frozen=True)
class Config:
    dim: int = 8  # outputs of each party's part: the cut layer
    epochs: int = 10  # passes over the training rows
    lr: float | tuple[float, ...] = 1e-3  # Adam's rate; a list: chosen on validation rows
    weight_decay: float = 1e-5  # L2, in Adam's gradient
    batch: int = 100  # rows a step
    part_hidden: tuple[int, ...] = (30, 30)  # hidden layers of a party's part on tables; pictures take CNN0
    top_hidden: tuple[int, ...] = (30,)  # hidden layers of the aggregation net
    byte_budget: int | None = None  # bytes of a trial's training, both ways, all guests
    validation: float = 0.1  # share of the training rows that judges, where lr is a list


class Start(Message):
    """Which rows train, and with which rate. Reveals which people the host trains on."""

    plain = True

    rows: RowSet
    trial: int
    lr: float
    first: int


class Gradient(Message):
    """dLoss/dh_j for the batch before, and which batch is next. Reveals the labels of those rows to guest j: their sign and size tell classes apart."""

    plain = True

    g: Matrix
    trial: int
    next: int


class Rows(Message):
    """Which rows to represent, after trial `trial`. Reveals whom the host wants a prediction for."""

    plain = True

    rows: RowSet
    trial: int


class Activations(Message):
    """h_j, the cut layer's outputs for a batch: reveals to the host what they tell of guest j's columns, anew as the net changes."""

    h: Matrix


class Guest(BaseGuest[Config]):
    def setup(self) -> None:
        self.parts: dict[int, Trained] = {}  # by trial
        self.rows = torch.zeros(0, dtype=torch.int64)
        self._x: Tensor | None = None  # the training rows, encoded once

    @answers
    def start(self, ask: Start) -> Activations:
        self.rows = row_sets.unpack(ask.rows, len(self.party.table))
        self._x = self.party.table.fit(self.rows).to(self.party.device)
        self.parts[ask.trial] = part(self.party, self._x.shape[1:], self.config, ask.lr)
        return self._forward(ask.trial, ask.first)

    @answers
    def step(self, ask: Gradient) -> Activations:
        self.parts[ask.trial].backward(ask.g.to(self.party.device))
        return self._forward(ask.trial, ask.next)

    @answers
    def represent(self, ask: Rows) -> Activations:
        return Activations(self.parts[ask.trial](self.party.table[row_sets.unpack(ask.rows, len(self.party.table))].to(self.party.device)))

    def _forward(self, trial: int, number: int) -> Activations:
        if number < 0:
            return Activations(torch.zeros(0, self.config.dim))
        if self._x is None:  # after a restart
            self._x = self.party.table[self.rows].to(self.party.device)
        return Activations(self.parts[trial].forward(self._x[batch(self.party.seed, self.config.batch, len(self.rows), number)]))


class Host(BaseHost[Config]):
    def fit(self, guests: Guests[Guest]) -> None:
        c, party, rows = self.config, self.party, self.party.training_rows
        if c.byte_budget is not None and not len(guests):
            raise StudyError("splitnn: byte_budget is set, but there is no guest to speak with")
        rates = c.lr if isinstance(c.lr, tuple) else (c.lr,)
        numbers = rows.nonzero().flatten()
        judges = numbers[:0]
        if len(rates) > 1:
            shuffled = numbers[torch.randperm(len(numbers), generator=party.seeded("judges"))]
            few = math.ceil(c.validation * len(numbers))
            judges, numbers = shuffled[:few].sort().values, shuffled[few:].sort().values
        self.chosen, self.losses = 0, [math.inf] * len(rates)
        self._x, self._y = party.table.fit(numbers).to(party.device), party.y(numbers)
        y = self._y
        self.centre, self.spread = (float(y.mean()), float(y.std(correction=0)) or 1.0) if party.task.kind == "regression" else (0.0, 1.0)
        self.parts: dict[int, Trained] = {}
        self.tops: dict[int, Trained] = {}
        for trial, lr in enumerate(rates):
            self.train(guests, trial, lr, numbers)
            if len(rates) > 1:
                for _ in self.steps(f"judge {trial}", [trial]):
                    self.losses[trial] = float(self.loss(self.scores(guests, judges, trial), party.y(judges)))
        self.chosen = min(range(len(rates)), key=lambda trial: self.losses[trial])
        self.search = (*(f"trial {t}" for t in range(len(rates)) if t != self.chosen), *(f"judge {t}" for t in range(len(rates)))) if len(rates) > 1 else ()

    def train(self, guests: Guests[Guest], trial: int, lr: float, numbers: Tensor) -> None:
        """One rate's training: every batch is one round."""
        c, party = self.config, self.party
        mask = row_sets.pack(torch.zeros(len(party.table), dtype=torch.bool).index_fill(0, numbers, True), len(party.table))
        count = c.epochs * math.ceil(len(numbers) / c.batch)
        self.spent = 0
        self.gradients: dict[str, Tensor] = {}  # of the batch before, by guest
        for number in self.steps(f"trial {trial}", range(count + 1)):
            if number == 0:
                speakers = len(guests)
                if self._x.shape[1:].numel():  # a host without columns has no part of its own
                    self.parts[trial] = part(party, self._x.shape[1:], c, lr)
                    speakers += 1
                self.tops[trial] = Trained(
                    nets.mlp(c.dim * speakers, c.top_hidden, party.task.outputs, party.seeded("top")).to(party.device), lr, c.weight_decay
                )
                heard = guests.ask(Guest.start, Start(mask, trial, lr, 0))
            else:
                after = number if number < count and self.affords(number, len(numbers)) else -1
                heard = guests.ask_each(Guest.step, {name: Gradient(g, trial, after) for name, g in self.gradients.items()})
            self.spent += heard.bytes
            if number > 0 and after < 0:
                break
            loss = self.learn(trial, batch(party.seed, c.batch, len(numbers), number), heard)
            if number % 20 == 0:
                party.tell(number, count, f"batch {number} of {count}, loss {loss:.4f}")

    def learn(self, trial: int, chosen: Tensor, heard: Replies[Activations]) -> float:
        """Forward from the cut layer, loss, and back to it; leaves the guests' gradients in `self.gradients`."""
        top, device = self.tops[trial], self.party.device
        own = [self.parts[trial].forward(self._x[chosen])] if trial in self.parts else []
        h = torch.cat([*own, *(reply.h.to(device) for reply in heard.values())], 1).requires_grad_()  # [b, d (k)]
        out = top.forward(h).requires_grad_()
        loss = self.loss(out, self._y[chosen])
        loss.backward()  # type: ignore[no-untyped-call]
        top.backward(_gradient(out))
        pieces = list(torch.split(_gradient(h).cpu(), self.config.dim, 1))
        if own:
            self.parts[trial].backward(pieces.pop(0).to(device))
        self.gradients = dict(zip(heard, pieces, strict=True))
        return float(loss.detach())

    def affords(self, number: int, rows: int) -> bool:
        """Whether the budget has room for what batch `number` still costs: this exchange, and the gradient that goes back after it."""
        if self.config.byte_budget is None:
            return True
        each = self.spent / number  # a full batch, up and down
        return self.spent + 1.5 * each <= self.config.byte_budget

    def predict(self, guests: Guests[Guest], rows: Tensor) -> Tensor:
        scores = self.scores(guests, rows, self.chosen) * self.spread + self.centre
        return scores if self.party.task.kind in ("multiclass", "multilabel") else scores[:, 0]

    def scores(self, guests: Guests[Guest], rows: Tensor, trial: int) -> Tensor:
        heard = guests.ask(Guest.represent, Rows(row_sets.pack(rows, len(self.party.table)), trial))
        x = self.party.table[rows].to(self.party.device)
        own = [self.parts[trial](x)] if trial in self.parts else []
        return self.tops[trial](torch.cat([*own, *(reply.h.to(self.party.device) for reply in heard.values())], 1))

    def loss(self, out: Tensor, y: Tensor) -> Tensor:
        y = y.to(out.device)
        if self.party.task.kind == "multiclass":
            return F.cross_entropy(out, y)
        if self.party.task.kind == "regression":
            return F.mse_loss(out[:, 0], (y - self.centre) / self.spread)
        return F.binary_cross_entropy_with_logits(out, y.reshape(out.shape))


def part(party: Party, shape: torch.Size, config: Config, lr: float) -> Trained:
    """A party's own layers, up to the cut."""
    rng = party.seeded("part", party.name)
    if party.module:
        inputs = (int(shape[0]), int(shape[1]), int(shape[2])) if len(shape) == 3 else int(shape[0])
        net = nets.own(party.module, inputs, config.dim, rng)
    else:
        net = nets.cnn0(*shape, config.dim, rng) if len(shape) == 3 else nets.mlp(shape[0], config.part_hidden, config.dim, rng)
    return Trained(net.to(party.device), lr, config.weight_decay)


@lru_cache(maxsize=2)
def shuffled(seed: int, epoch: int, rows: int) -> Tensor:
    """All parties shuffle alike, from the study's seed, so no row number has to travel."""
    return torch.randperm(rows, generator=generator(seed, "batches", epoch))


def batch(seed: int, size: int, rows: int, number: int) -> Tensor:
    """Positions, among the training rows, of batch `number`."""
    epoch, within = divmod(number, math.ceil(rows / size))
    return shuffled(seed, epoch, rows)[within * size : (within + 1) * size]


def _gradient(x: Tensor) -> Tensor:
    assert x.grad is not None  # backward was called
    return x.grad
