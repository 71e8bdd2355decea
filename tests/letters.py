"""Messages of every kind of field, real letters of them, and ways to spoil a letter: for the tests of the core and the fuzz target."""

import json
import random
from collections.abc import Callable
from typing import Annotated

import torch
from torch import Tensor

from reticent.algorithms import fedonce, splitnn
from reticent.door import Refusal
from reticent.message import Array, Letter, Matrix, Message, Noised, Numbers, RowSet
from reticent.party import Meet, Present

EVENT = {"type": "PoissonSampledDpEvent", "sampling_probability": 0.1, "event": {"type": "GaussianDpEvent", "noise_multiplier": 1.5}}
HEAD = {"run": "5f", "study": "a9", "ask": 3, "n": "fit/0", "kept": "-00000000001", "way": "up", "verb": "learn", "from": "shop", "to": "bank"}


class Everything(Message):
    """A test's message with a field of every kind; reveals nothing."""

    z: Matrix
    numbers: Numbers | None
    rows: RowSet
    anything: Tensor
    wild: Annotated[Tensor, Array((torch.float32, torch.float64, torch.bfloat16), finite=False)]
    noised: Noised
    layers: dict[str, Tensor]
    truth: bool
    count: int
    share: float
    word: str
    maybe: int | None
    counts: tuple[int, ...]
    shares: tuple[float, ...]
    words: tuple[str, ...]
    truths: tuple[bool, ...] | None


class Plain(Message):
    """A test's message without tensors; reveals nothing."""

    word: str


def everything() -> Everything:
    return Everything(
        z=torch.tensor([[1.0, -2.0], [0.5, 3.0]]), numbers=None, rows=torch.tensor([5], dtype=torch.uint8), anything=torch.tensor([True, False, True]),
        wild=torch.tensor([float("nan"), float("inf")]), noised=Noised(torch.ones(2, 3), EVENT), layers={"b": torch.ones(2), "a": torch.zeros(0, 3)}, truth=True,
        count=-7, share=0.25, word="größer", maybe=None, counts=(1, 2), shares=(0.5, 1.0), words=(), truths=None,
    )  # fmt: skip


def examples() -> list[Message]:
    """One message of every class that can cross, and one with every kind of field."""
    mask = torch.tensor([7, 1], dtype=torch.uint8)
    return [
        everything(), Plain("x"), Meet("k"), Present(10, "ab"), Refusal("DataError", "a sentence"), fedonce.Learn(mask), fedonce.Rows(torch.tensor([3, 1])),
        fedonce.Representation(torch.randn(4, 3, generator=torch.Generator().manual_seed(0))),
        fedonce.Representation(None, torch.tensor([[1, 2], [3, 4]], dtype=torch.uint8), torch.zeros(3), torch.ones(3)), splitnn.Start(mask, 0, 1e-3, 0), splitnn.Gradient(torch.ones(2, 2), 0, 1),
        splitnn.Rows(mask, 1), splitnn.Activations(torch.ones(2, 2)),
    ]  # fmt: skip


def halves(letter: bytes) -> tuple[bytes, bytes]:
    """A letter's header, and its data."""
    length = int.from_bytes(letter[:8], "little")
    return letter[8 : 8 + length], letter[8 + length :]


def joined(header: bytes, data: bytes) -> bytes:
    return len(header).to_bytes(8, "little") + header + data


def rewritten(letter: bytes, change: Callable[[dict[str, object], dict[str, object]], None]) -> bytes:
    """The letter after `change` of its layout (tensors by name) and of what is in its entry (head, with values)."""
    header, data = halves(letter)
    layout = json.loads(header)
    inner = json.loads(layout["__metadata__"]["reticent"])
    change(layout, inner)
    if isinstance(layout.get("__metadata__"), dict):
        layout["__metadata__"]["reticent"] = json.dumps(inner)
    return joined(json.dumps(layout).encode(), data)


NASTY: tuple[object, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**33, 2**63, 2**64, -(2**63), 10**400, 0.5, -0.0, 1e308, float("nan"), float("inf"), "", "x", "\ud800", "é" * 50, "F32", "BF16", "U8",
    [], [0], [[]], [0, 0], [0, 2**33, 2**33, 2**33], [1] * 9, [0, 8], [8, 0], [-1, 4], [True, 4], [0.0, 4], {}, {"a": {}}, {"type": "GaussianDpEvent", "noise_multiplier": "x"},
)  # fmt: skip


def spoiled(letter: bytes, rng: random.Random) -> bytes:
    """The letter with a few things wrong: in its bytes, its text, or its meaning."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        letter = rng.choice((_bytes, _bytes, _text, _meaning, _meaning, _meaning))(letter, rng)
    return letter


def _bytes(letter: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(letter) + 1)
    what = rng.randrange(6)
    if what == 0:
        return letter[:at]
    if what == 1:
        return letter[:at] + rng.randbytes(rng.randrange(1, 9)) + letter[at:]
    if what == 2:
        return letter[:at] + letter[at + rng.randrange(1, 9) :]
    if what == 3:
        return rng.choice((0, 1, len(letter), len(letter) + 1, 1 << 20, (1 << 20) + 1, 1 << 62, (1 << 64) - 1)).to_bytes(8, "little") + letter[8:]
    flipped = bytearray(letter)
    for _ in range(rng.choice((1, 3))):
        if flipped:
            flipped[rng.randrange(len(flipped))] = rng.randrange(256)
    return bytes(flipped)


def _text(letter: bytes, rng: random.Random) -> bytes:
    """Another text, with a length that fits it: what only a reader of JSON can see is wrong."""
    header, data = halves(letter)
    at = rng.randrange(len(header) + 1)
    pieces = (
        b'"',
        b"\\",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"0",
        b"-",
        b"1e999",
        b"NaN",
        b"\\ud800",
        b"[" * 5000,
        b'{"":' * 5000,
        b"9" * 5000,
        b"\x00",
        b"\xff",
        b" ",
    )
    twice = rng.choice((b"", header[at : at + rng.randrange(1, 40)]))
    return joined(header[:at] + (twice or rng.choice(pieces)) + header[at + rng.choice((0, 0, 1)) :], data)


def _meaning(letter: bytes, rng: random.Random) -> bytes:
    """A value that JSON allows and a letter does not, or a key too many, or one too few."""

    def change(layout: dict[str, object], inner: dict[str, object]) -> None:
        place: object = rng.choice((layout, inner, inner.get("values")))
        while isinstance(place, dict) and place:
            key = rng.choice(sorted(place))
            if isinstance(place[key], dict) and rng.random() < 0.7:
                place = place[key]
                continue
            what = rng.randrange(4)
            if what == 0:
                del place[key]
            elif what == 1:
                place[rng.choice(("extra", "z", "layers/", f"{key}/x"))] = place[key]
            else:
                place[key] = rng.choice(NASTY)
            return

    try:
        return rewritten(letter, change)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):  # spoiled before: it has no meaning any more
        return _bytes(letter, rng)


def read(kind: type[Message], letter: bytes) -> Message:
    """What both ends do with a letter."""
    return kind.build(Letter.parse(letter))
