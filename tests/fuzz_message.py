"""A million letters that nobody wrote: `make fuzz`. Reading one gives a message or a LetterError; never another exception, an import, a file, a process
or a socket, and never more than 256 MB above what the process had at its start."""

import json
import random
import resource
import sys
import time
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[1]))

with atheris.instrument_imports(include=["reticent.message"]):
    from reticent.errors import LetterError
    from tests.letters import HEAD, examples, read, spoiled

FORBIDDEN = ("import", "exec", "compile", "open", "os.", "socket.", "subprocess.", "ctypes.", "marshal.", "pickle.")
ABOVE = 256 << 20
LONGEST = 1 << 17

messages = examples()
kinds = [type(one) for one in messages]
letters = [one.encode(**HEAD) for one in messages]


class Watch:
    """What happened while a letter was read."""

    def __init__(self) -> None:
        self.reading = False
        self.seen: list[str] = []
        self.cases = self.refused = 0
        self.began = time.monotonic()
        self.start = peak()

    def audit(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.reading and event.startswith(FORBIDDEN):
            self.seen.append(f"{event} {str(arguments)[:200]}")


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def case(data: bytes) -> None:
    """The first byte says which class the letter is read as; the rest is the letter."""
    watch.cases += 1
    if not data:
        return
    kind, letter = kinds[data[0] % len(kinds)], data[1:]
    watch.reading = True
    try:
        read(kind, letter)
    except LetterError:
        watch.refused += 1
    finally:
        watch.reading = False
    if watch.seen:
        raise AssertionError(f"reading a letter did what it must not: {watch.seen}")
    if watch.cases % 1000 == 0 and peak() - watch.start > ABOVE:
        raise AssertionError(f"{(peak() - watch.start) >> 20} MB above the start after {watch.cases:,} cases")
    if watch.cases in (1000, wanted):
        said = {
            "cases": watch.cases,
            "refused": watch.refused,
            "seconds": round(time.monotonic() - watch.began, 1),
            "mb_above_start": (peak() - watch.start) >> 20,
        }
        print(json.dumps(said), file=sys.stderr, flush=True)


def mutate(data: bytes, largest: int, seed: int) -> bytes:
    """Half of the cases are spoiled where a letter has meaning, half where libFuzzer's coverage says; one in eight starts from a real letter."""
    rng = random.Random(seed)
    if len(data) < 2 or rng.random() < 0.125:
        number = rng.randrange(len(letters))
        data = bytes([number]) + letters[number]
    if rng.random() < 0.5:
        return (data[:1] + spoiled(data[1:], rng))[:largest]
    return bytes(atheris.Mutate(data, min(len(data) + 64, largest)))


def corpus(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number, letter in enumerate(letters):
        (folder / f"letter-{number}").write_bytes(bytes([number]) + letter)
    return folder


if __name__ == "__main__":
    runs = [word for word in sys.argv if word.startswith("-runs=")]
    wanted = int(runs[-1].partition("=")[2]) if runs else 0
    for message, letter in zip(messages, letters, strict=True):  # what is imported at the first use is imported now
        read(type(message), letter)
    watch = Watch()
    sys.addaudithook(watch.audit)
    folder = corpus(Path(__file__).parents[1] / "build" / "fuzz")
    limits = [
        word
        for word in (f"-max_len={LONGEST}", "-rss_limit_mb=4096", f"-artifact_prefix={folder.parent}/")
        if not any(a.startswith(word.partition("=")[0]) for a in sys.argv)
    ]
    atheris.Setup([*sys.argv, *limits, str(folder)], case, custom_mutator=mutate)
    atheris.Fuzz()
