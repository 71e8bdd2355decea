"""The ledger: one line of JSON for every letter that crossed a party's door, each chained to the line before by its hash.

    {ask, n, from, to, verb, way, bytes, sha256, rows, reveals, events, at, hash}      and `again: true` on a letter that had to cross again,
                                                                                    `refused: true` on a sentence that came instead of an answer

`way` is "down" for a question (host to guest) and "up" for an answer. `bytes` are those of the whole letter, header included.
"""

import hashlib
import json
import os
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from reticent.errors import JournalError
from reticent.journal import whole
from reticent.message import Event

Way = Literal["up", "down"]
UNSAID = -2  # before the first ask, and before -1: what refuses a letter that nobody could read


@dataclass
class Tally:
    """What crossed between the host and one guest, one way, in one part of a run."""

    letters: int = 0
    speaking: int = 0  # letters with tensors other than row numbers or masks
    bytes: int = 0
    again: int = 0


def phase_of(n: str) -> str:
    return n.split("/", 1)[0]


def part_of(n: str) -> str:
    """The part of a run a number belongs to: its phase, and the loop within it, if any."""
    words = n.split("/")
    return "/".join(words[:2]) if len(words) == 4 else words[0]


class Ledger:
    """Written as letters cross, read back when a run goes on. `path=None` keeps the lines in memory."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.kept: list[bytes] = []
        self.head = "0" * 64
        self.tallies: dict[tuple[str, str, Way], Tally] = defaultdict(Tally)  # by part, guest and way
        self.asks: dict[str, tuple[int, int]] = defaultdict(lambda: (0, -1))  # by part: how many, and the latest
        self.latest: dict[tuple[str, str], int] = {}  # by guest, and way or "refused"
        self.spent: list[tuple[str, Event]] = []  # by party: what its mechanisms did
        self.bare: dict[str, int] = defaultdict(int)  # by party: letters with un-noised tensors
        self.search: set[str] = set()  # parts that were trials of settings, not chosen
        self._file: int | None = None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            self._recall(path)

    def _recall(self, path: Path) -> None:
        kept = 0
        *lines, _ = path.read_bytes().split(b"\n")  # a kill tore the last line, if there is one: what it was about crosses again
        for number, line in enumerate(lines, 1):
            try:
                entry = json.loads(line)
                said = entry.pop("hash")
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise JournalError(f"{path}, line {number}: this is no ledger line: {error}") from error
            if chain(self.head, entry) != said:
                raise JournalError(
                    f"{path}, line {number}: the line or one before it was changed: its hash is {said[:12]}…, {chain(self.head, entry)[:12]}… fits"
                )
            self.head = said
            self._count(entry)
            kept += len(line) + 1
        os.ftruncate(self._file or 0, kept)

    def add(
        self,
        *,
        ask: int,
        n: str,
        sender: str,
        to: str,
        verb: str,
        way: Way,
        size: int,
        sha256: str,
        rows: int,
        reveals: str,
        events: Sequence[Event],
        speaks: bool,
        bare: bool,
        refused: bool = False,
    ) -> None:
        entry: dict[str, Any] = {  # Any: JSON
            "ask": ask, "n": n, "from": sender, "to": to, "verb": verb, "way": way, "bytes": size, "sha256": sha256, "rows": rows,
            "reveals": reveals, "events": list(events), "speaks": speaks, "bare": bare, "at": round(time.time(), 3),
        }  # fmt: skip
        if refused:
            entry["refused"] = True
        if self._stands(entry):
            entry["again"] = True
        head = chain(self.head, entry)
        line = json.dumps({**entry, "hash": head}, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
        if self._file is None:
            self.kept.append(line)
        else:
            whole(self._file, line)
        self.head = head
        self._count(entry)

    def settle(self, **facts: Any) -> None:  # Any: passed on to add
        """Adds the line of a letter that crossed before a kill, unless it stands there already."""
        if not self._stands({**facts, "from": facts["sender"]}):
            self.add(**facts)

    def _stands(self, entry: Mapping[str, Any]) -> bool:
        return bool(entry["ask"] <= self.latest.get(_lane(entry), UNSAID))

    def _count(self, entry: dict[str, Any]) -> None:
        lane, part = _lane(entry), part_of(entry["n"])
        tally = self.tallies[(part, lane[0], entry["way"])]
        if entry.get("again"):
            tally.again += entry["bytes"]
            return
        tally.letters += 1
        tally.speaking += entry["speaks"]
        tally.bytes += entry["bytes"]
        count, latest = self.asks[part]
        if entry["ask"] > latest:
            self.asks[part] = (count + 1, entry["ask"])
        self.latest[lane] = max(entry["ask"], self.latest.get(lane, UNSAID))
        self.spent += [(entry["from"], event) for event in entry["events"]]
        if entry["bare"]:
            self.bare[entry["from"]] += 1

    def _tallies(self, phase: str, way: Way | None = None) -> Iterator[Tally]:
        for (part, _, direction), tally in list(self.tallies.items()):
            if way in (None, direction) and (phase_of(part) == phase and part not in self.search if phase != "search" else part in self.search):
                yield tally

    def bytes(self, way: Way | None = None, phase: str = "fit") -> int:
        """Bytes that crossed once, summed over guests, headers included; phase "search" is what trials cost that were not chosen."""
        return sum(tally.bytes for tally in self._tallies(phase, way))

    def again(self) -> int:
        return sum(tally.again for tally in self.tallies.values())

    def rounds(self, phase: str = "fit") -> int:
        return sum(
            count
            for part, (count, _) in self.asks.items()
            if (phase_of(part) == phase and part not in self.search if phase != "search" else part in self.search)
        )

    def letters(self, phase: str = "fit") -> int:
        """Speaking letters of the guest that has most of them, both ways."""
        by_guest: dict[str, int] = defaultdict(int)
        for (part, guest, _), tally in self.tallies.items():
            if phase_of(part) == phase and part not in self.search:
                by_guest[guest] += tally.speaking
        return max(by_guest.values(), default=0)

    def bytes_of(self, party: str, way: Way) -> int:
        """What one guest said or heard in the whole run, repeats included."""
        return sum(t.bytes + t.again for (_, guest, direction), t in self.tallies.items() if guest == party and direction == way)

    def epsilon(self, delta: float, *, rows: Literal["shared", "disjoint"], against: Literal["host", "guests", "public"]) -> float:
        """What was released, composed: all parties' events if they hold the same people, the worst party's if they hold different ones.

        A letter with an un-noised tensor costs infinity against whoever hears it."""
        from reticent.privacy import accounting  # where a privacy target is set: it needs dp-accounting

        guests = {guest for (_, guest, _) in self.tallies}
        bare = {party for party in self.bare if (party in guests) == (against != "guests")}
        if bare and against != "public":
            return float("inf")
        by_party: dict[str, list[Event]] = defaultdict(list)
        for party, event in self.spent:
            by_party[party].append(event)
        if bare and set(by_party) <= guests:  # the public sees what was made of un-noised letters, and no mechanism of the host's stands between
            return float("inf")
        if not by_party:
            return 0.0
        groups = [[event for events in by_party.values() for event in events]] if rows == "shared" else list(by_party.values())
        return max(accounting.epsilon(events, delta) for events in groups)

    def lines(self) -> list[dict[str, Any]]:  # Any: JSON
        source = self.kept if self.path is None else self.path.read_bytes().splitlines()
        return [json.loads(line) for line in source]

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _lane(entry: Mapping[str, Any]) -> tuple[str, str]:
    """The guest, and which of its letters follow each other: questions, answers, or what came instead of them."""
    guest = entry["from"] if entry["way"] == "up" else entry["to"]
    return guest, "refused" if entry.get("refused") else entry["way"]


def chain(head: str, entry: Mapping[str, Any]) -> str:  # Any: JSON
    """The hash of a line: of the line before and of all this one says."""
    return hashlib.sha256(head.encode() + json.dumps(entry, separators=(",", ":"), ensure_ascii=False).encode()).hexdigest()
