"""Party, Guest and @answers: who is there, and what a guest can be asked."""

import hashlib
import hmac
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, Literal, TypeVar

import torch
from torch import Tensor

from reticent.data.labels import Labels
from reticent.data.tables import Table
from reticent.errors import DataError
from reticent.learn.task import Task
from reticent.message import Message
from reticent.privacy.budget import Budget
from reticent.privacy.secret import Privacy

C = TypeVar("C")
G = TypeVar("G", bound="Guest[Any]")  # Any: whatever the algorithm's Config is
Q = TypeVar("Q", bound=Message)
R = TypeVar("R", bound=Message)

Progress = Callable[[str, int, int, str], None]  # who, how far, of how much, what


@dataclass(frozen=True)
class Policy:
    """What a party's operator allows, over whatever the study says."""

    verbs: tuple[str, ...] | None = None  # None: all of the algorithm's; `meet` is always allowed
    max_bytes: int | None = None  # outgoing, in one run
    unnoised: Literal["to-host", "never"] = "to-host"
    approve: bool = False  # a person says yes before the first letter leaves
    keep_days: int | None = None  # how long the host may keep what this party sent
    budget: Budget | None = None  # over all runs


@dataclass
class Party:
    """One organisation, as its own process knows it. Labels and the row masks are the host's."""

    name: str
    table: Table
    privacy: Privacy
    policy: Policy = field(default_factory=Policy)
    rng: torch.Generator = field(default_factory=torch.Generator)
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    labels: Labels | None = None
    train: Tensor | None = None  # bool mask over the common rows
    module: str = ""  # dotted path of a net of the party's own
    seed: int = 0  # [study] seed: for what all parties draw alike
    whole: Table | None = None  # a simulation's table of all columns: `combined` alone reads it
    told: Progress | None = None  # who watches

    def tell(self, how_far: int, of: int, what: str) -> None:
        """Progress, for whoever watches."""
        if self.told is not None:
            self.told(self.name, how_far, of, what)

    def epoch(self, done: int, of: int, loss: float) -> None:
        self.tell(done, of, f"epoch {done} of {of}, loss {loss:.4f}")

    @property
    def training_rows(self) -> Tensor:
        if self.train is None:
            raise DataError(f"{self.name} is no host: only the host says which rows train")
        return self.train

    @property
    def task(self) -> Task:
        return self._labels.task

    def y(self, rows: Tensor) -> Tensor:
        return self._labels.y[rows]

    @property
    def _labels(self) -> Labels:
        if self.labels is None:
            raise DataError(f'{self.name} has no labels: name the label\'s column in its party file (label = "…")')
        return self.labels

    def seeded(self, *purpose: object) -> torch.Generator:
        """Seeded randomness for one purpose, the same at every party: from the study's seed, never for noise."""
        return generator(self.seed, *purpose)


def generator(*facts: object) -> torch.Generator:
    digest = hashlib.sha256("/".join(map(str, facts)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)


class Meet(Message):
    """A key to hash the common ids with; reveals nothing of anybody's data."""

    plain = True

    key: str


class Present(Message):
    """How many rows the guest holds, and a keyed hash of its sorted ids: tells whether two lists are equal; whoever guesses the whole list can check the guess."""

    plain = True

    rows: int
    ids: str


@dataclass(frozen=True)
class Verb:
    name: str
    question: type[Message]
    answer: type[Message]

    @property
    def reveals(self) -> str:
        return self.answer.reveals()


def answers(verb: Callable[[G, Q], R]) -> Callable[[G, Q], R]:
    """Marks a guest's method as one that the host may ask: one message in, one message out."""
    verb.__answers__ = True  # type: ignore[attr-defined]
    return verb


@cache
def verb_of(function: Callable[..., Any]) -> Verb:  # Any: a verb's own message types, read from its annotations
    hints = typing.get_type_hints(function, include_extras=True)
    answer = hints.pop("return", None)
    questions = list(hints.values())
    if len(questions) != 1 or not all(isinstance(t, type) and issubclass(t, Message) for t in (answer, *questions)):
        raise TypeError(f"verb {function.__qualname__} must take one Message and return one: its annotations are {hints} -> {answer}")
    return Verb(function.__name__, questions[0], typing.cast(type[Message], answer))


class Guest(Generic[C]):
    """Base of every algorithm's guest. What it remembers between verbs lies in its attributes."""

    def __init__(self, party: Party, config: C) -> None:
        self.party = party
        self.config = config

    def setup(self) -> None:
        """Called once before the first verb, and again after a restart."""

    @answers
    def meet(self, ask: Meet) -> Present:
        return Present(rows=len(self.party.table), ids=hash_ids(self.party.table, ask.key))


def hash_ids(table: Table, key: str) -> str:
    """Until alignment, parties must hold the same ids: this is how they find out that they do."""
    mac = hmac.new(key.encode(), str(len(table)).encode(), hashlib.sha256)
    if table.ids is not None:
        for value in table.ids.to_list():
            mac.update(b"\0" + str(value).encode())
    return mac.hexdigest()


def verbs_of(guest: type[Guest[Any]]) -> Iterator[Verb]:
    """Every exit of a guest, read from its class: the algorithm's own verbs in the order of the file, then `meet`."""
    names = [name for kind in guest.__mro__ for name in vars(kind) if getattr(vars(kind)[name], "__answers__", False)]
    for name in dict.fromkeys(names):
        yield verb_of(getattr(guest, name))
