"""The door: the one exit of a party. It checks, prices, records, journals and encodes; nothing else makes bytes.

A letter's head: run, study (SHA-256), ask (the how-manieth ask of the run), n (its number: phase, loop, step, call),
kept (asks up to here will never be repeated), from, to, verb, way. A repeated number is answered from the journal.
"""

import hashlib
import logging
import re
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from reticent import errors, state
from reticent.errors import GuestGone, JournalError, LetterError, Refused, ReticentError
from reticent.journal import Clock, Journal, Record
from reticent.ledger import Ledger
from reticent.message import WHOLE, Letter, Message
from reticent.party import Guest, Party, Verb, verb_of, verbs_of

log = logging.getLogger("reticent.door")


class Wire(Protocol):
    """Carries sealed letters between doors; knows bytes and names only."""

    def exchange(self, letters: Mapping[str, bytes], within: float | None) -> Iterator[tuple[str, bytes | Exception]]:
        """Yields, for every name, the answer or why there is none, in the order they come."""
        ...

    def close(self, last_word: bytes = b"") -> None:
        """Ends the connections; an empty last word says that the run is over, another one why it stopped."""
        ...


class Refusal(Message):
    """One sentence that says why a verb was not answered, and the class of the error; names columns and counts, and quotes no cell."""

    plain = True

    error: str
    sentence: str


@dataclass
class Door:
    """One party's exit in one run. `host` is the party that asks; a guest's door holds its guest."""

    party: Party
    host: str
    study: str  # SHA-256 of the effective study
    run: str = ""  # a guest learns it from the first letter
    ledger: Ledger = field(default_factory=Ledger)
    journal: Journal = field(default_factory=Journal)
    guest: Guest[Any] | None = None  # Any: whatever the algorithm's Config is
    confirm: Callable[[str], bool] | None = None  # how a person is asked, where policy.approve is set
    allowed: tuple[str, ...] = ("reticent",)  # packages whose saved objects are loaded
    _clock: Clock = field(default_factory=Clock)
    _verbs: dict[str, Callable[[Any], Message]] = field(default_factory=dict)
    _snapshot: int = -1  # the last ask that the snapshot covers
    _approved: bool = False
    _told: float = float("-inf")  # when progress was told last

    # --- both sides

    def seal(self, message: Message, *, to: str, verb: str, way: str, n: str, ask: int, kept: int = -1) -> bytes:
        return message.encode(run=self.run, study=self.study, ask=ask, n=n, kept=f"{kept:012d}", way=way, verb=verb, to=to, **{"from": self.party.name})

    def record(self, letter: bytes, head: Mapping[str, Any], message: Message) -> None:
        """Writes the ledger's line of a letter that crosses now."""
        self.ledger.add(**_line(letter, head, message))

    def settle(self, letter: bytes, head: Mapping[str, Any], message: Message) -> None:
        """Writes the line of a letter that crossed before a kill, unless it stands there."""
        self.ledger.settle(**_line(letter, head, message))

    def refused(self, letter: bytes, head: Mapping[str, Any]) -> None:
        """Writes the line of what came instead of an answer: it crossed too."""
        facts = {**_facts(letter, {**head, "way": "up"}), "rows": 0, "reveals": Refusal.reveals(), "events": [], "speaks": False, "bare": False}
        self.ledger.add(**facts, refused=True)

    # --- the guest's side

    def wake(self) -> None:
        """Makes the guest ready: sets it up, and brings back what it knew before a kill."""
        guest = self._mine
        for verb in verbs_of(type(guest)):
            if self.party.policy.unnoised == "never" and verb.answer.unnoised():
                raise Refused(
                    f'policy of {self.party.name}: unnoised = "never", but verb {verb.name!r} answers with {verb.answer.__name__}, a tensor that no mechanism has noised: '
                    f"choose an algorithm or a privacy target that noises it, or allow it"
                )
            self._verbs[verb.name] = getattr(guest, verb.name)
        guest.setup()
        if (found := self.journal.find("run")) is not None:
            self.run = found.facts["run"]
            self.journal.begin(run=self.run, study=self.study, party=self.party.name)
        self._recall()

    def _recall(self) -> None:
        """Loads the last snapshot, and executes again the verbs journaled since; what they answer is compared and thrown away."""
        folder = self.journal.folder
        if folder is None:
            return
        if (folder / "snapshot").exists():
            self.bring_back((folder / "snapshot").read_bytes())
        for record in self._executed():
            if record.facts["ask"] <= self._snapshot:
                continue
            if record.kind == "failed":  # what it did to the guest before it failed is done again
                with suppress(Exception):
                    self._execute(Letter.parse(self.journal.blob(record)))
                continue
            question, sealed = self._halves(record)
            letter = Letter.parse(question)
            again = self._execute(letter)
            said = self._seal_answer(again, letter.head)
            if hashlib.sha256(said).digest() != hashlib.sha256(sealed).digest() and self.party.device.type == "cpu":
                raise JournalError(
                    f"{self.party.name}: verb {letter.head['verb']!r} (number {letter.head['n']}) gave other bits when it was executed again after a restart: "
                    f"its table, its libraries or its processor are not what they were, or the verb draws from a generator that is not its party's"
                )
            self.settle(question, letter.head, self._question(letter))
            self.settle(sealed, Letter.parse(sealed).head, again)

    def answer(self, letter: bytes) -> bytes:
        """One letter in, one letter out; an error becomes a refusal, and no exception passes."""
        head: dict[str, Any] = {}  # Any: JSON
        try:
            parsed = Letter.parse(letter)
            head = parsed.head
            self._check(head)
            return self._answer(letter, parsed)
        except ReticentError as error:
            return self._refuse(head, type(error).__name__, str(error))
        except Exception as error:
            log.error("%s: %s failed\n%s", self.party.name, head.get("verb"), traceback.format_exc())
            return self._refuse(head, "ReticentError", f"{type(error).__name__} in verb {head.get('verb')!r}: {self.party.name}'s own log says more")

    def _answer(self, letter: bytes, parsed: Letter) -> bytes:
        head = parsed.head
        if (found := self.journal.find("answer", head["n"])) is not None:
            if found.facts["sha"] != _essence(parsed):
                raise LetterError(f"number {head['n']} was answered already, and this is another question: the host's driver did not go on as it began")
            _, sealed = self._halves(found)
            message = verb_of(getattr(type(self._mine), head["verb"])).answer.decode(sealed)
            self.record(letter, head, self._question(parsed))
            self.record(sealed, Letter.parse(sealed).head, message)
            return sealed
        if head["ask"] <= self.ledger.latest.get((self.party.name, "up"), -1):
            raise LetterError(
                f"ask {head['ask']} was answered already, under another number or so long ago that its answer was dropped: nothing is released twice"
            )
        began = time.monotonic()
        question_message = self._question(parsed)
        self._approve()
        self.record(letter, head, question_message)
        try:
            return self._released(letter, parsed, began)
        except Exception:
            if self.journal.find("answer", head["n"]) is None:  # else it is the door that failed, not the verb
                failures = sum(record.facts["ask"] == head["ask"] for record in self.journal.records("failed"))
                self.journal.add("failed", letter, n=f"{head['n']} {failures}", ask=head["ask"])
            raise

    def _released(self, letter: bytes, parsed: Letter, began: float) -> bytes:
        """Executes a verb, and lets its answer out if the policy does: journaled before it leaves."""
        head, policy = parsed.head, self.party.policy
        said = self._execute(parsed)
        sealed = self._seal_answer(said, head)
        left = self.ledger.bytes_of(self.party.name, "up") + len(sealed)
        if policy.max_bytes is not None and left > policy.max_bytes:
            raise Refused(
                f"policy of {self.party.name}: max_bytes is {policy.max_bytes:,}, and with this answer to {head['verb']!r} {left:,} bytes would have left"
            )
        if policy.budget is not None:
            policy.budget.charge(run=self.run, n=head["n"], verb=head["verb"], events=said.spent(), bare=said.unnoised(), sealed=sealed)
        self.journal.add("answer", letter + sealed, durable=bool(said.spent()), n=head["n"], ask=head["ask"], sha=_essence(parsed), question=len(letter))
        self.record(sealed, {**head, "from": head["to"], "to": head["from"], "way": "up"}, said)
        if (now := time.monotonic()) - self._told > 0.2:  # a guest that says little still shows that it spoke
            self._told = now
            self.party.tell(1, 1, f"{head['verb']}: {left:,} bytes said")
        if self.journal.kept and self._clock.due(time.monotonic() - began):
            self.keep(head["ask"])
            self.journal.drop(lambda record: record.kind in ("answer", "failed") and record.facts["ask"] <= min(int(head["kept"]), self._snapshot))
        return sealed

    def _check(self, head: Mapping[str, Any]) -> None:
        me, shape = self.party.name, {"run": str, "study": str, "n": str, "ask": int, "kept": str, "from": str, "to": str, "verb": str, "way": str}
        for key, kind in shape.items():
            if type(head.get(key)) is not kind or len(str(head[key])) > 200 or (kind is int and head[key] < -1):
                raise LetterError(f"a letter's head says {key} = {str(head.get(key))[:40]!r}")
        if not re.fullmatch(r"-?\d{1,12}", head["kept"]):  # of one length, so that a letter's size does not depend on the clock
            raise LetterError(f"a letter's head says kept = {head['kept'][:40]!r}")
        if head["to"] != me or head["from"] != self.host or head["way"] != "down":
            raise LetterError(f"{me} hears questions from {self.host} to {me}; this letter is from {head['from']!r} to {head['to']!r}, {head['way']!r}")
        if head["study"] != self.study:
            raise LetterError(f"{me} holds another study: its hash is {self.study[:16]}…, the host's {head['study'][:16]}…: compare the two study files")
        if head["verb"] not in self._verbs:
            raise LetterError(f"{head['verb'][:40]!r} is no verb of {me}'s: {', '.join(self._verbs)}")
        if not self.run:
            self.run = head["run"]
            self.journal.begin(run=self.run, study=self.study, party=me)
        if head["run"] != self.run:
            raise LetterError(
                f"{me} takes part in run {self.run}, this letter is of run {head['run']}: for another run start `reticent join` with another --out"
            )
        verbs = self.party.policy.verbs
        if verbs is not None and head["verb"] not in (*verbs, "meet"):
            raise Refused(f"policy of {me}: verb {head['verb']!r} is not among verbs = {list(verbs)}")

    def _approve(self) -> None:
        if not self.party.policy.approve or self._approved:
            return
        listed = "; ".join(f"{v.name}: {v.reveals}" for v in verbs_of(type(self._mine)))
        if self.confirm is None or not self.confirm(f"{self.host} asks {self.party.name} to take part in study {self.study[:16]}…\n{listed}\nSend answers?"):
            raise Refused(f"policy of {self.party.name}: approve = true, and nobody has said yes: start this party with `reticent join` on a terminal")
        self._approved = True

    def _question(self, letter: Letter) -> Message:
        return verb_of(getattr(type(self._mine), letter.head["verb"])).question.build(letter)

    def _execute(self, letter: Letter) -> Message:
        verb = verb_of(getattr(type(self._mine), letter.head["verb"]))
        with self.party.privacy.during(letter.head["n"], _essence(letter)):
            said = self._verbs[verb.name](verb.question.build(letter))
        if type(said) is not verb.answer:
            raise ReticentError(f"verb {verb.name!r} should answer with {verb.answer.__name__}, it gave {type(said).__name__}")
        return said

    def _seal_answer(self, said: Message, head: Mapping[str, Any]) -> bytes:
        return self.seal(said, to=head["from"], verb=head["verb"], way="up", n=head["n"], ask=head["ask"])

    def _refuse(self, head: Mapping[str, Any], error: str, sentence: str) -> bytes:
        said = {key: head[key] if isinstance(head.get(key), str) and len(head[key]) <= 200 else "" for key in ("n", "verb", "from")}
        ask = head["ask"] if type(head.get("ask")) is int and 0 <= head["ask"] <= WHOLE else -1
        to = said["from"] or self.host
        letter = self.seal(Refusal(error, sentence[:2000]), to=to, verb=said["verb"], way="refusal", n=said["n"], ask=ask)
        self.refused(letter, {"ask": ask, "n": said["n"], "from": self.party.name, "to": to, "verb": said["verb"]})
        return letter

    def _halves(self, record: Record) -> tuple[bytes, bytes]:
        both = self.journal.blob(record)
        return both[: record.facts["question"]], both[record.facts["question"] :]

    def keep(self, ask: int | None = None) -> None:
        """Writes the guest's snapshot: what it knows after ask `ask`."""
        if self.journal.folder is None:
            return
        last = max([self._snapshot, *(int(record.facts["ask"]) for record in self._executed())]) if ask is None else ask
        state.write(self.journal.folder / "snapshot", self.known(last))
        self._snapshot = last

    def _executed(self) -> list[Record]:
        """The verbs that were executed, in their order: an ask that failed may have been answered when it was asked again."""
        records = [*self.journal.records("failed"), *self.journal.records("answer")]
        return sorted(records, key=lambda record: int(record.facts["ask"]))  # stable: failures first

    def known(self, ask: int) -> bytes:
        """What the guest knows after ask `ask`, as a snapshot holds it."""
        return state.to_bytes({"ask": ask, "guest": remembered(self._mine), "rng": self.party.rng, "table": self.party.table.encoding})

    def bring_back(self, snapshot: bytes) -> None:
        kept = state.from_bytes(snapshot, {"guest": vars(self._mine), "rng": self.party.rng}, self.allowed)
        self._snapshot = kept["ask"]
        restore(self._mine, kept["guest"])
        self.party.rng.set_state(kept["rng"].get_state())
        self.party.table.encoding = kept["table"]

    def close(self) -> None:
        self.ledger.close()
        self.journal.close()

    @property
    def _mine(self) -> Guest[Any]:
        if self.guest is None:
            raise ReticentError(f"{self.party.name}'s door has no guest behind it: only guests answer")
        return self.guest

    # --- the host's side

    def open(self, data: bytes, *, guest: str, verb: Verb, n: str, ask: int) -> Message:
        """Reads a guest's answer. The class is the verb's; a refusal is raised as what it was."""
        letter = Letter.parse(data)
        head = letter.head
        if (head.get("from"), head.get("to")) != (guest, self.party.name) or (head.get("run") != self.run and head.get("way") != "refusal"):
            raise LetterError(
                f"an answer came over {guest}'s connection that says it is from {head.get('from')!r} to {head.get('to')!r} in run {head.get('run')!r}"
            )
        if head.get("way") == "refusal":
            refusal = Refusal.build(letter)
            kind = getattr(errors, refusal.error, ReticentError)
            known = isinstance(kind, type) and issubclass(kind, ReticentError) and kind not in (errors.MissingReplies, GuestGone)
            raise (kind if known else ReticentError)(refusal.sentence)
        if (head.get("n"), head.get("ask"), head.get("verb"), head.get("way"), head.get("study")) != (n, ask, verb.name, "up", self.study):
            raise LetterError(f"{guest} answered number {head.get('n')!r} ({head.get('verb')!r}); {n!r} ({verb.name!r}) was asked")
        return verb.answer.build(letter)


def _essence(letter: Letter) -> str:
    """SHA-256 of a question without what may differ when it is asked again (`kept`)."""
    digest = hashlib.sha256(repr(sorted((k, v) for k, v in letter.head.items() if k != "kept")).encode())
    digest.update(repr(letter.values).encode())
    for name, entry in sorted(letter.tensors.items()):
        digest.update(f"{name}{entry.shape}{entry.torch}".encode())
        digest.update(letter.data[entry.begin : entry.end])
    return digest.hexdigest()


def _facts(letter: bytes, head: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "ask": head["ask"], "n": head["n"], "sender": head["from"], "to": head["to"], "verb": head["verb"], "way": head["way"],
        "size": len(letter), "sha256": hashlib.sha256(letter).hexdigest(),
    }  # fmt: skip


def _line(letter: bytes, head: Mapping[str, Any], message: Message) -> dict[str, Any]:
    said = {"rows": message.height(), "reveals": message.reveals(), "events": message.spent(), "speaks": message.speaks(), "bare": message.unnoised()}
    return {**_facts(letter, head), **said}


def remembered(owner: object) -> dict[str, object]:
    """What a guest or a host knows: its attributes, but for its party, its config and what begins with an underscore."""
    return {name: value for name, value in vars(owner).items() if name not in ("party", "config") and not name.startswith("_")}


def restore(owner: object, kept: Mapping[str, object]) -> None:
    for name, value in kept.items():
        setattr(owner, name, value)
