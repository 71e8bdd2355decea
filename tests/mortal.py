"""FedOnce and SplitNN whose processes kill themselves where they are told to: `algorithm = "mortal:fedonce"`, with this folder on PYTHONPATH.

The file that MORTAL names holds one order: who, where, the how-manieth time, and whom to kill (`me`, or `all`: the whole process group). Whoever
carries it out removes the file first, so that nobody dies twice of it. Places: `verb` (a guest's answer is computed, its journal not written),
`before NAME` and `after NAME` (of a journal record), `arrived` (a question came: the answer before it was sent), `asked` (the host's letters left).
"""

import functools
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from reticent.algorithms import fedonce as fedonce
from reticent.algorithms import splitnn as splitnn
from reticent.door import Door
from reticent.journal import Journal
from reticent.wires.processes import Processes

seen: Counter[str] = Counter()


def strike(who: str, where: str) -> None:
    order = Path(os.environ["MORTAL"])
    if not order.exists():
        return
    victim, place, count, whom = order.read_text().split(",")
    if (who, where) != (victim, place):
        return
    seen[where] += 1
    if seen[where] == int(count):
        order.unlink()
        if whom == "all":
            os.killpg(os.getpgrp(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


def deadly_add(real: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(real)
    def add(self: Journal, kind: str, blob: bytes = b"", **facts: Any) -> None:
        folder = self.folder
        who = "" if folder is None else folder.name if folder.parent.name == "parties" else "host"
        strike(who, f"before {kind}")
        real(self, kind, blob, **facts)
        strike(who, f"after {kind}")

    return add


def deadly_answer(real: Callable[[Door, bytes], bytes]) -> Callable[[Door, bytes], bytes]:
    @functools.wraps(real)
    def answer(self: Door, letter: bytes) -> bytes:
        strike(self.party.name, "arrived")
        return real(self, letter)

    return answer


def deadly_execute(real: Callable[[Door, Any], Any]) -> Callable[[Door, Any], Any]:
    @functools.wraps(real)
    def execute(self: Door, letter: Any) -> Any:
        said = real(self, letter)
        strike(self.party.name, "verb")
        return said

    return execute


def deadly_exchange(real: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    @functools.wraps(real)
    def exchange(self: Processes, letters: Mapping[str, bytes], within: float | None) -> Iterator[Any]:
        for came in real(self, letters, within):
            strike("host", "asked")  # one guest has answered; others may be at work
            yield came

    return exchange


Journal.add = deadly_add(Journal.add)  # type: ignore[method-assign]
Door.answer = deadly_answer(Door.answer)  # type: ignore[method-assign, assignment]
Door._execute = deadly_execute(Door._execute)  # type: ignore[method-assign, assignment]
Processes.exchange = deadly_exchange(Processes.exchange)  # type: ignore[method-assign]
