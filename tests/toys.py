"""The smallest federation there is: parties without columns, a guest that counts, remembers and makes noise, and doors between them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor

from reticent.data.tables import Table
from reticent.door import Door, Wire
from reticent.federation import Federation, Guests
from reticent.federation import Host as BaseHost
from reticent.journal import Journal
from reticent.ledger import Ledger
from reticent.message import Array, Matrix, Message, Noised
from reticent.party import Guest as BaseGuest
from reticent.party import Party, Policy, answers, verb_of
from reticent.privacy import mechanisms
from reticent.privacy.secret import Privacy, keep
from reticent.wires.inprocess import InProcess

STUDY = "5" * 64
ROWS = 6


class Number(Message):
    """A test's number; reveals it, and it is nobody's."""

    plain = True

    value: int


class Values(Message):
    """A test's tensor; reveals it."""

    x: Matrix


class Blurred(Message):
    """A test's tensor with noise; reveals as much as its event says."""

    x: Annotated[Noised, Array((torch.float32,), 2)]


@dataclass(frozen=True)
class Config:
    clip: float = 1.0
    noise: float = 2.0


class Guest(BaseGuest[Config]):
    """Its answers depend on what it was asked before, and on its generator: a guest that forgets or repeats is found out."""

    def setup(self) -> None:
        self.total = 0
        self.net = torch.nn.Linear(2, 1)
        torch.nn.init.constant_(self.net.weight, 0.5)
        self.optimiser = torch.optim.SGD(self.net.parameters(), lr=0.1, momentum=0.9)

    @answers
    def add(self, ask: Number) -> Number:
        self.total += ask.value
        return Number(self.total)

    @answers
    def draw(self, ask: Number) -> Values:
        self.net.weight.grad = torch.full((1, 2), float(ask.value))
        self.optimiser.step()
        return Values(torch.randn(3, 2, generator=self.party.rng) + self.total + self.net.weight.detach())

    @answers
    def many(self, ask: Number) -> Values:
        return Values(torch.ones(ask.value, 25))

    @answers
    def blur(self, ask: Number) -> Blurred:
        rows = torch.ones(ROWS, 4) / 2 * ask.value
        return Blurred(mechanisms.gaussian_rows(rows, self.config.clip, self.config.noise, self.party.privacy.stream()))

    @answers
    def quote(self, ask: Number) -> Number:
        self.total += ask.value  # what a verb did before it failed stays done
        raise ValueError(f"the row of Ms {CANARY} is broken")


CANARY = "Ophelia-Quartermain-1957"
Drive = Callable[[Any, Guests[Guest]], object]  # Any: a host, with the attributes a test gives it


class Host(BaseHost[Config]):
    drive: ClassVar[Drive | None] = None  # what fit does, given by the test

    def fit(self, guests: Guests[Guest]) -> None:
        drive = type(self).drive
        assert drive is not None
        drive(self, guests)

    def predict(self, guests: Guests[Guest], rows: Tensor) -> Tensor:
        return torch.zeros(len(rows)) + sum(reply.value for reply in guests.ask(Guest.add, Number(0)).values())


def host_that(drive: Drive) -> Any:  # Any: an algorithm
    class Driven(Host):
        pass

    Driven.drive = drive
    return type("Toy", (), {"Config": Config, "Guest": Guest, "Host": Driven})


def party(name: str, folder: Path | None = None, policy: Policy | None = None, seed: int = 0) -> Party:
    table = Table(rows=ROWS)
    return Party(name, table, Privacy(keep(folder), name, table.sha256), policy or Policy(), torch.Generator().manual_seed(seed))


def guest_door(
    name: str = "shop", folder: Path | None = None, policy: Policy | None = None, confirm: Callable[[str], bool] | None = None, study: str = STUDY
) -> Door:
    """A guest's door, awake. The same folder again: a guest that was killed, and started again."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    mine = party(name, folder, policy)
    door = Door(
        mine, "bank", study, "", Ledger(folder / "ledger.jsonl" if folder else None), Journal(folder, wait=0.2), Guest(mine, Config()), confirm, ("reticent",)
    )
    door.wake()
    return door


def host_door(folder: Path | None = None, run: str = "run-1") -> Door:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    journal = Journal(folder, wait=0.2)
    try:
        journal.begin(run=run, study=STUDY, party="bank")
    except BaseException:
        journal.close()
        raise
    return Door(party("bank", folder), "bank", STUDY, run, Ledger(folder / "ledger.jsonl" if folder else None), journal)


def letter(asked: Callable[..., Any], question: Message, *, ask: int = 0, n: str | None = None, to: str = "shop", run: str = "run-1", **other: Any) -> bytes:
    """A question as the host's door would seal it; `other` replaces what its head says."""
    head = {
        "run": run,
        "study": STUDY,
        "ask": ask,
        "n": n or f"fit/{ask}",
        "kept": "-00000000001",
        "way": "down",
        "verb": verb_of(asked).name,
        "to": to,
        "from": "bank",
    }
    return question.encode(**{**head, **other})


def opened(answer: bytes, verb: Callable[..., Any], *, ask: int = 0, n: str | None = None, guest: str = "shop", run: str = "run-1") -> Any:
    return host_door(run=run).open(answer, guest=guest, verb=verb_of(verb), n=n or f"fit/{ask}", ask=ask)


@dataclass
class Counting:
    """A wire that counts what it carries, and does what it is told before and after."""

    inner: Wire
    down: int = 0
    up: int = 0
    carried: list[tuple[str, bytes]] = field(default_factory=list)

    def exchange(self, letters: Mapping[str, bytes], within: float | None) -> Iterator[tuple[str, bytes | Exception]]:
        self.down += sum(map(len, letters.values()))
        self.carried += [(name, one) for name, one in letters.items()]
        for name, came in self.inner.exchange(letters, within):
            if isinstance(came, bytes):
                self.up += len(came)
                self.carried.append((name, came))
            yield name, came

    def close(self) -> None:
        self.inner.close()


@dataclass
class Toy:
    """A federation in one process. The same folder again: the run goes on."""

    drive: Drive
    folder: Path | None = None
    guests: Sequence[str] = ("shop", "telco")
    run: str = "run-1"
    policies: Mapping[str, Policy] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.doors: dict[str, Door] = {}
        try:
            for name in self.guests:
                self.doors[name] = guest_door(name, self.folder / name if self.folder else None, self.policies.get(name))
            self.wire = Counting(InProcess({name: door.answer for name, door in self.doors.items()}))
            self.door = host_door(self.folder / "bank" if self.folder else None, self.run)
        except BaseException:
            for door in self.doors.values():
                door.close()
            raise
        self.federation = Federation(host_that(self.drive), self.door.party, self.guests, Config(), self.wire, self.door)

    @property
    def ledger(self) -> Ledger:
        return self.door.ledger

    @property
    def driver(self) -> Any:  # Any: as in Drive
        return self.federation.driver

    def fit(self) -> "Toy":
        self.federation._phase("fit")
        self.federation.driver.fit(self.federation.talk)
        return self

    def close(self) -> None:
        """What a kill does to files and locks: nothing more is written."""
        for door in (*self.doors.values(), self.door):
            door.close()

    def __enter__(self) -> "Toy":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Killed(BaseException):
    """A kill, in one process: no code of ours catches it."""
