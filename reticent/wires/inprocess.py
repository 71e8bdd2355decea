"""All parties in one process: notebooks, tests, benchmarks."""

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping

from reticent.errors import GuestGone, WireError
from reticent.wires import failed, late, unknown

Outcome = tuple[str, bytes | BaseException]

log = logging.getLogger(__name__)


def gone(name: str, error: BaseException) -> GuestGone:
    """What the guest's code raised, as the host may read it; anything that is no Exception (an interrupt, an injected crash) goes through."""
    if not isinstance(error, Exception):
        raise error
    log.error("%s: an error in answering", name, exc_info=error)
    sentence = GuestGone(failed(name, error))
    sentence.__cause__ = error  # one process: who debugs here may see the trace
    return sentence


class Desk:
    """One guest's letters, answered in the order in which they came, in a thread of its own once one of them has a time limit."""

    def __init__(self, name: str, answer: Callable[[bytes], bytes]) -> None:
        self.name = name
        self.answer = answer
        self.letters: queue.SimpleQueue[tuple[bytes, queue.SimpleQueue[Outcome]] | None] = queue.SimpleQueue()
        self.unanswered = 0
        self.lock = threading.Lock()
        self.thread: threading.Thread | None = None

    def busy(self) -> bool:
        with self.lock:
            return self.unanswered > 0

    def put(self, letter: bytes, answers: queue.SimpleQueue[Outcome]) -> None:
        with self.lock:
            self.unanswered += 1
            if self.thread is None:
                self.thread = threading.Thread(target=self.work, name=f"guest {self.name}", daemon=True)
                self.thread.start()
        self.letters.put((letter, answers))

    def work(self) -> None:
        while (found := self.letters.get()) is not None:
            letter, answers = found
            outcome: bytes | BaseException
            try:
                outcome = self.answer(letter)
            except BaseException as error:  # it is raised again, or told, where the letter came from
                outcome = error
            with self.lock:
                self.unanswered -= 1
            answers.put((self.name, outcome))
            del found, letter, answers, outcome  # a desk that waits keeps nobody's letter


class InProcess:
    """Guests are functions from a letter to an answer. Without `within` they are called one after the other, in the letters' order."""

    def __init__(self, answers: Mapping[str, Callable[[bytes], bytes]]) -> None:
        self.desks = {name: Desk(name, answer) for name, answer in answers.items()}
        self.closed = False

    def exchange(self, letters: Mapping[str, bytes], within: float | None) -> Iterator[tuple[str, bytes | Exception]]:
        if self.closed:
            raise WireError(f"this wire is closed: nothing was sent to {', '.join(letters)}; start a new run")
        start = time.monotonic()
        answers: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        waiting: list[str] = []
        direct: list[str] = []
        for name, letter in letters.items():
            if name not in self.desks:
                yield name, unknown(name, ", ".join(self.desks))
            elif within is None and not self.desks[name].busy():
                direct.append(name)
            else:  # a guest that is busy with a late letter handles its letters in order
                self.desks[name].put(letter, answers)
                waiting.append(name)
        for name in direct:
            try:
                outcome: bytes | Exception = self.desks[name].answer(letters[name])
            except Exception as error:
                outcome = gone(name, error)
            yield name, outcome
        while waiting:
            try:
                name, heard = answers.get(timeout=None if within is None else max(0.0, start + within - time.monotonic()))
            except queue.Empty:
                for name in waiting:
                    yield name, late(name, within or 0.0)
                return
            waiting.remove(name)
            yield name, gone(name, heard) if isinstance(heard, BaseException) else heard

    def close(self, last_word: bytes = b"") -> None:
        """Guests that live in this process see the end themselves, and need no word."""
        self.closed = True
        for desk in self.desks.values():
            desk.letters.put(None)
