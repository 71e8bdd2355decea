"""The journal: the letters themselves, so that a killed run goes on where it stopped; and the snapshots beside it.

A record is written whole, with a checksum, before what it speaks of leaves the party; a record that a kill tore is cut off
when the journal is opened again. What carries a privacy event is forced to the disk first.

    guest   answer: {n, ask, sha} and the question and the answer       host   heard: {n, ask, sha}, from whom, and the answer
            failed: {n, ask} and the question whose verb raised                 missing: {n, who, why} · once: {name} and its state
"""

import json
import os
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reticent.errors import FormatError, JournalError

try:
    import fcntl
except ImportError:  # Windows has none: there, two processes on one folder are the user's care
    fcntl = None  # type: ignore[assignment]

FORMAT = 1
_FRAME = struct.Struct("<IQI")  # length of the facts, length of the blob, CRC-32 of both
SNAPSHOT_EVERY = 30.0  # seconds
LONG_VERB = 5.0  # seconds: after a verb that took longer the state is kept at once
DROP_FROM = 64 << 20  # bytes of letters nobody will ask for again, before the file is written anew


@dataclass(frozen=True)
class Record:
    kind: str
    facts: dict[str, Any]  # Any: JSON
    offset: int
    length: int


class Journal:
    """Append-only. `folder=None`: nothing is kept, for runs that live in one process and die with it."""

    def __init__(self, folder: Path | None = None, wait: float = 10.0) -> None:
        self.folder = folder
        self.index: dict[tuple[str, str, str], Record] = {}  # by kind, number and party
        self._file = -1
        self._lock = -1
        if folder is None:
            return
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = _lock(folder / "lock", wait)
        self.path = folder / "journal"
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            self._recall()
        except BaseException:
            self.close()  # nobody else can: the lock would stand until the process ends
            raise

    def _recall(self) -> None:
        size, offset = os.fstat(self._file).st_size, 0
        while offset + _FRAME.size <= size:
            facts_length, blob_length, check = _FRAME.unpack(os.pread(self._file, _FRAME.size, offset))
            end = offset + _FRAME.size + facts_length + blob_length
            if end > size or not facts_length:  # zeros are what a power failure leaves
                break
            facts = os.pread(self._file, facts_length, offset + _FRAME.size)
            blob = _read(self._file, blob_length, offset + _FRAME.size + facts_length)
            if zlib.crc32(blob, zlib.crc32(facts)) != check:
                if end < size:  # a kill tears the last record alone
                    raise JournalError(
                        f"{self.path} is damaged at byte {offset:,}, and {size - end:,} bytes follow: bring it back from a copy, or begin a new run"
                    )
                break
            said = json.loads(facts)
            self._note(said.pop("kind"), said, offset + _FRAME.size + facts_length, blob_length)
            offset = end
        os.ftruncate(self._file, offset)  # what a kill tore never left the party
        os.lseek(self._file, 0, os.SEEK_END)

    def _note(self, kind: str, facts: dict[str, Any], offset: int, length: int) -> None:
        self.index[(kind, facts.get("n", ""), facts.get("who", ""))] = Record(kind, facts, offset, length)

    @property
    def kept(self) -> bool:
        return self.folder is not None

    def add(self, kind: str, blob: bytes = b"", *, durable: bool = False, **facts: object) -> None:
        if not self.kept:
            return
        text = json.dumps({"kind": kind, **facts}, separators=(",", ":")).encode()
        head = _FRAME.pack(len(text), len(blob), zlib.crc32(blob, zlib.crc32(text))) + text
        offset = os.lseek(self._file, 0, os.SEEK_CUR) + len(head)
        whole(self._file, head, blob)
        if durable:
            os.fsync(self._file)
        self._note(kind, dict(facts), offset, len(blob))

    def find(self, kind: str, n: str = "", who: str = "") -> Record | None:
        return self.index.get((kind, n, who))

    def blob(self, record: Record) -> bytes:
        return _read(self._file, record.length, record.offset)

    def records(self, kind: str) -> Iterator[Record]:
        yield from [record for record in self.index.values() if record.kind == kind]

    def size(self) -> int:
        return os.fstat(self._file).st_size if self.kept else 0

    def drop(self, useless: Callable[[Record], bool]) -> None:
        """Writes the journal anew without records that nobody will ask for again, once they are worth it."""
        if not self.kept or sum(r.length for r in self.index.values() if useless(r)) < DROP_FROM:
            return
        beside = self.path.with_name("journal.part")
        old, self._file = self._file, os.open(beside, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        records, self.index = list(self.index.values()), {}
        for record in records:
            if not useless(record):
                self.add(record.kind, _read(old, record.length, record.offset), **record.facts)
        os.fsync(self._file)
        os.replace(beside, self.path)
        os.close(old)

    def begin(self, **facts: Any) -> None:  # Any: JSON
        """Binds the folder to one run: the first time it notes the facts, later it compares them."""
        found = self.find("run")
        if found is None:
            self.add("run", format=FORMAT, **facts)
            return
        if found.facts.get("format") != FORMAT:
            raise FormatError(f"{self.folder}: a journal of format {found.facts.get('format')!r}; this version reads format {FORMAT}")
        for key, value in facts.items():
            if found.facts.get(key) != value:
                raise JournalError(f"{self.folder} belongs to a run with {key} {found.facts.get(key)!r}; this one has {value!r}: choose another folder")

    def close(self) -> None:
        for descriptor in (self._file, self._lock):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._lock = -1


class Clock:
    """Says when the next snapshot is due: every half minute, or after a verb that took long."""

    def __init__(self) -> None:
        self.last = time.monotonic()

    def due(self, took: float = 0.0) -> bool:
        if took > LONG_VERB or time.monotonic() - self.last >= SNAPSHOT_EVERY:
            self.last = time.monotonic()
            return True
        return False


def _lock(path: Path, wait: float) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    until = time.monotonic() + wait
    while fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > until:
                os.close(descriptor)
                raise JournalError(f"{path.parent} is in use by another process: wait for it to end, or choose another folder") from None
            time.sleep(0.05)
    return descriptor


def alone(descriptor: int) -> None:
    """Waits until no other process holds this file."""
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def whole(descriptor: int, *parts: bytes) -> None:
    """Writes all parts at the end, or takes back what was written: a full disk must not leave a torn record that more follow."""
    start = os.lseek(descriptor, 0, os.SEEK_END)
    try:
        for part in (b"".join(parts),) if sum(map(len, parts)) < 1 << 16 else parts:
            view = memoryview(part)
            while view:
                view = view[os.write(descriptor, view) :]
    except BaseException:
        os.ftruncate(descriptor, start)
        os.lseek(descriptor, start, os.SEEK_SET)
        raise


def _read(descriptor: int, length: int, offset: int) -> bytes:
    parts = []
    while length:
        part = os.pread(descriptor, min(length, 1 << 30), offset)
        if not part:
            raise JournalError("the journal is shorter than it was")
        parts.append(part)
        offset, length = offset + len(part), length - len(part)
    return b"".join(parts)
