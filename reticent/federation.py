"""Federation, Host, Guests, Replies: the host asks, guests answer.

A host's driver is a plain synchronous function. Given its answers and its secret randomness it does the same again, so a
killed run is resumed by running the driver again: what it heard comes from the journal, finished steps are passed over.
"""

import hashlib
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor

from reticent import state
from reticent.door import Door, Wire, remembered, restore
from reticent.errors import DataError, GuestGone, JournalError, MissingReplies, ReticentError
from reticent.journal import Clock, Journal, Record
from reticent.ledger import Ledger
from reticent.party import C, G, Guest, Meet, Party, Present, Q, R, hash_ids, verb_of

T = TypeVar("T")
I = TypeVar("I")


@dataclass
class Place:
    """Where the driver is: a letter's number is made of it."""

    phase: str = "fit"
    loop: str = ""
    step: int = 0
    call: int = 0
    ask: int = 0  # the how-manieth ask of the run comes next
    kept: int = -1  # asks up to here are covered by the host's snapshot
    taken: set[str] = field(default_factory=set)  # names of once and steps that were used

    def take(self, name: str) -> None:
        """What is journaled under a name is found by it: a second use would be answered with the first one's value."""
        if name in self.taken:
            raise ReticentError(
                f"the name {name!r} is used a second time in one run: give every once() of a step, and every steps() of a phase, a name of its own"
            )
        self.taken.add(name)

    def next(self) -> tuple[str, int]:
        n = f"{self.phase}/{self.loop}/{self.step}/{self.call}" if self.loop else f"{self.phase}/{self.call}"
        self.call, self.ask = self.call + 1, self.ask + 1
        return n, self.ask - 1


class Replies(dict[str, R]):
    """Answers by guest, in the study's order whatever order they came in; `missing` says who did not answer and why."""

    def __init__(self, answers: Mapping[str, R], missing: Mapping[str, Exception], size: int) -> None:
        super().__init__(answers)
        self.missing = dict(missing)
        self.bytes = size  # both ways, headers included


class Guests(Generic[G]):
    """The guests of a run, as its host speaks with them."""

    def __init__(self, names: Sequence[str], door: Door, wire: Wire, place: Place | None = None) -> None:
        self.names = tuple(names)
        self._door, self._wire = door, wire
        self.place = place or Place()

    def __len__(self) -> int:
        return len(self.names)

    def ask(self, verb: Callable[[G, Q], R], question: Q, *, within: float | None = None, quorum: int | None = None) -> Replies[R]:
        """Asks all guests the same and waits: one round. `within`: seconds; `quorum`: how many answers are enough (default: all)."""
        return self.ask_each(verb, dict.fromkeys(self.names, question), within=within, quorum=quorum)

    def ask_each(self, verb: Callable[[G, Q], R], questions: Mapping[str, Q], *, within: float | None = None, quorum: int | None = None) -> Replies[R]:
        spec, door, journal = verb_of(verb), self._door, self._door.journal
        n, ask = self.place.next()
        letters: dict[str, bytes] = {}
        answers: dict[str, R] = {}
        size = 0
        gone = journal.find("missing", n)
        missing: dict[str, Exception] = {name: GuestGone(why) for name, why in gone.facts["why"].items()} if gone else {}
        for name, question in questions.items():
            if type(question) is not spec.question:
                raise ReticentError(f"verb {spec.name!r} is asked with {spec.question.__name__}, not with {type(question).__name__}")
            letter = door.seal(question, to=name, verb=spec.name, way="down", n=n, ask=ask, kept=self.place.kept)
            head = {"ask": ask, "n": n, "from": door.party.name, "to": name, "verb": spec.name, "way": "down"}
            heard = journal.find("heard", n, name)
            if heard is None and name not in missing:
                door.record(letter, head, question)
                letters[name] = letter
                size += len(letter)
                continue
            door.settle(letter, head, question)
            size += len(letter)
            if heard is not None:
                size += heard.length
                answers[name] = self._heard(heard, spec, name, n, ask)
        if letters:
            for name, came in self._wire.exchange(letters, within):
                try:
                    if isinstance(came, Exception):
                        raise came
                    answers[name] = self._open(came, spec, name, n, ask)
                    size += len(came)
                except ReticentError as error:
                    missing[name] = error
                    if isinstance(came, bytes):
                        size += len(came)
                        door.refused(came, {"ask": ask, "n": n, "from": name, "to": door.party.name, "verb": spec.name})
        for name in getattr(self._wire, "resent", ()) if letters else ():  # what the wire sent a second time, after a connection broke, crossed twice
            door.record(letters[name], {"ask": ask, "n": n, "from": door.party.name, "to": name, "verb": spec.name, "way": "down"}, questions[name])
        if len(answers) < (len(questions) if quorum is None else quorum):
            raise MissingReplies(spec.name, len(answers), len(questions) if quorum is None else quorum, missing)
        if missing and gone is None:
            journal.add("missing", n=n, ask=ask, why={name: str(error) for name, error in missing.items()})
        return Replies({name: answers[name] for name in questions if name in answers}, missing, size)

    def _open(self, came: bytes, spec: Any, name: str, n: str, ask: int) -> Any:  # Any: the verb's own answer type
        answer = self._door.open(came, guest=name, verb=spec, n=n, ask=ask)
        self._door.journal.add("heard", came, durable=bool(answer.spent()), n=n, who=name, ask=ask)
        self._door.record(came, {"ask": ask, "n": n, "from": name, "to": self._door.party.name, "verb": spec.name, "way": "up"}, answer)
        return answer

    def _heard(self, record: Record, spec: Any, name: str, n: str, ask: int) -> Any:  # Any: as above
        came = self._door.journal.blob(record)
        answer = self._door.open(came, guest=name, verb=spec, n=n, ask=ask)
        self._door.settle(came, {"ask": ask, "n": n, "from": name, "to": self._door.party.name, "verb": spec.name, "way": "up"}, answer)
        return answer


class Host(Generic[C]):
    """Base of every algorithm's host. What it knows lies in its attributes: they are its model, and what survives a kill."""

    search: tuple[str, ...] = ()  # loops that were trials of settings and were not chosen: their bytes are counted apart

    def __init__(self, party: Party, config: C) -> None:
        self.party = party
        self.config = config
        self._journal = Journal()
        self._place = Place()
        self._clock = Clock()

    def setup(self) -> None:
        """Called once before `fit`, and again when a run goes on."""

    def fit(self, guests: Guests[Any]) -> None:
        raise ReticentError(f"{type(self).__name__} has no fit")

    def predict(self, guests: Guests[Any], rows: Tensor) -> Tensor:
        """Raw scores of the rows (int64 numbers), in their order."""
        raise ReticentError(f"{type(self).__name__} has no predict")

    def once(self, name: str, f: Callable[[], T], *inputs: Tensor | str) -> T:
        """What the host computes in private, journaled: after a kill it is read, not computed again. Noise drawn inside is bound to `inputs`.

        What `f` does besides returning is lost then, but for its draws from the party's generator."""
        n, bound = f"{self._place.phase}/{self._place.loop}/{self._place.step}/{name}", [_digest(item) for item in inputs]
        self._place.take(n)
        if (found := self._journal.find("once", n)) is not None:
            if found.facts["bound"] != bound:
                raise JournalError(f"once({name!r}) was computed before the run was killed, from other inputs: the host's driver did not go on as it began")
            kept = state.from_bytes(self._journal.blob(found), {"rng": self.party.rng}, self._homes())
            said: T = kept["value"]
            return said
        with self.party.privacy.during(n, *bound):
            value = f()
        if self._journal.kept:
            self._journal.add("once", state.to_bytes({"value": value, "rng": self.party.rng}), durable=True, n=n, bound=bound)
        return value

    def steps(self, name: str, items: Iterable[I]) -> Iterator[I]:
        """A long loop that can be killed: on resume only attributes of `self` survive, and finished steps are passed over."""
        place, folder = self._place, self._journal.folder
        if place.loop or "/" in name:
            raise ReticentError(f"steps({name!r}) within steps({place.loop!r}): loops that can be killed do not nest, and their names have no '/'")
        place.take(f"{place.phase}/{name}")
        path = folder / f"steps-{place.phase}-{name}" if folder else None
        done, finished = -1, False
        if path is not None and path.exists():
            kept = state.load(path, {"host": vars(self), "rng": self.party.rng}, self._homes())
            self._bring_back(kept)
            done, finished, place.ask, place.kept = kept["step"], kept["finished"], kept["ask"], kept["ask"] - 1
        if finished:
            return
        outer, step, place.loop = place.call, done, name
        try:
            for step, item in enumerate(items):
                if step <= done:
                    continue
                place.step, place.call = step, 0
                with self.party.privacy.during(f"{place.phase}/{name}/{step}"):
                    yield item
                if path is not None and self._clock.due():
                    self._keep(path, step, False)
            if path is not None:
                self._keep(path, step, True)
        finally:
            place.loop, place.step, place.call = "", 0, outer

    def _keep(self, path: Any, step: int, finished: bool) -> None:  # Any: a Path
        place = self._place
        state.save(path, {"step": step, "finished": finished, "ask": place.ask, **self._known()})
        place.kept = place.ask - 1
        within = f"{place.phase}/{place.loop}/"
        self._journal.drop(lambda r: r.kind in ("heard", "missing") and r.facts["n"].startswith(within) and r.facts["ask"] <= place.kept)

    def _known(self) -> dict[str, object]:
        return {"host": remembered(self), "rng": self.party.rng, "table": self.party.table.encoding}

    def _bring_back(self, kept: Mapping[str, Any]) -> None:  # Any: what _known gave
        restore(self, kept["host"])
        self.party.table.encoding = kept["table"]

    def _homes(self) -> tuple[str, ...]:
        return ("reticent", type(self).__module__.split(".")[0])


def _digest(item: Tensor | str) -> str:
    data = item.encode() if isinstance(item, str) else item.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()
    return hashlib.sha256(data).hexdigest()


class Algorithm(Protocol):
    """Anything with these three is an algorithm: a module, or a class in a notebook."""

    Config: type
    Guest: type[Guest[Any]]
    Host: type[Host[Any]]


@dataclass
class Federation:
    """One run as its host's process sees it: the host, its door, and a wire to guests known by name."""

    algorithm: Any  # an Algorithm; Any because modules do not satisfy a Protocol's nested types under mypy
    host: Party
    guests: Sequence[str]
    config: Any  # the algorithm's Config
    wire: Wire
    door: Door
    place: Place = field(default_factory=Place)

    def __post_init__(self) -> None:
        self.driver: Host[Any] = self.algorithm.Host(self.host, self.config)
        self.driver._journal, self.driver._place = self.door.journal, self.place
        self.talk: Guests[Any] = Guests(self.guests, self.door, self.wire, self.place)
        self.driver.setup()

    @property
    def ledger(self) -> Ledger:
        return self.door.ledger

    def fit(self) -> None:
        self._phase("meet")
        self._meet()
        self._phase("fit")
        self.driver.fit(self.talk)
        self.ledger.search = {f"fit/{name}" for name in self.driver.search}

    def predict(self, rows: Tensor, phase: str = "predict") -> Tensor:
        """Raw scores for rows of the common table: a bool mask, or row numbers."""
        self._phase(phase)
        numbers = rows.nonzero().flatten() if rows.dtype == torch.bool else rows
        return self.driver.predict(self.talk, numbers).detach().float().cpu()

    def _phase(self, name: str) -> None:
        self.place.phase, self.place.loop, self.place.step, self.place.call = name, "", 0, 0

    def _meet(self) -> None:
        """Until alignment exists, all parties must hold the same ids in the same order: this is where it shows."""
        if not self.guests:
            return
        key = self.driver.once("key", lambda: secrets.token_hex(16))
        mine = hash_ids(self.host.table, key)
        replies: Mapping[str, Present] = self.talk.ask(Guest.meet, Meet(key))
        for name, present in replies.items():
            if present.rows != len(self.host.table):
                raise DataError(
                    f"{self.host.name} holds {len(self.host.table):,} rows and {name} {present.rows:,}: bring both tables to the same people (reticent align)"
                )
            if present.ids != mine:
                raise DataError(
                    f"{self.host.name} and {name} hold {present.rows:,} rows each, but of other ids: bring both tables to the same people (reticent align)"
                )

    def save(self, path: Path) -> None:
        """What the host knows, its model above all; `reopen` reads it."""
        state.write(path, self.known())

    def reopen(self, path: Path) -> None:
        self.bring_back(path.read_bytes())

    def known(self) -> bytes:
        return state.to_bytes({**self.driver._known(), "ask": self.place.ask, "search": sorted(self.ledger.search)})

    def bring_back(self, known: bytes) -> None:
        kept = state.from_bytes(known, {"host": vars(self.driver), "rng": self.host.rng}, self.driver._homes())
        self.driver._bring_back(kept)
        self.place.ask = max(kept["ask"], 1 + max(self.ledger.latest.values(), default=-1))  # a prediction that was killed has used some since
        self.place.kept, self.ledger.search = kept["ask"] - 1, set(kept["search"])
