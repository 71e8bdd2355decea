"""Secret randomness: the only place noise is drawn from.

A ChaCha20 stream keyed by HKDF(run secret, party, what is being done, hash of what it is done to, hash of the table).
So a verb that is executed again after a kill draws the very same noise (nothing is released twice), another question
draws other noise, and nobody who lacks the run secret can draw it at all. The study's seed has no part in it.
"""

import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from torch import Tensor

from reticent.errors import JournalError, PrivacyError


class Stream:
    """Random bytes and what is made of them; every draw moves on."""

    def __init__(self, key: bytes) -> None:
        self._cipher = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()

    def bytes(self, count: int) -> bytes:
        return self._cipher.update(bytes(count))

    def uniform(self, shape: Sequence[int]) -> Tensor:
        """float64 in (0, 1): 53 random bits and a half, so never 0 and never 1."""
        count = math.prod(shape)
        bits = torch.frombuffer(bytearray(self.bytes(8 * count)) or bytearray(8), dtype=torch.int64)[:count]
        return (((bits >> 11) & ((1 << 53) - 1)).double() + 0.5).mul_(2.0**-53).reshape(tuple(shape))

    def normal(self, shape: Sequence[int]) -> Tensor:
        """Standard normal, float64 (Box and Muller)."""
        count = math.prod(shape)
        half = (count + 1) // 2
        radius, angle = self.uniform((half,)).log_().mul_(-2).sqrt_(), self.uniform((half,)).mul_(2 * math.pi)
        return torch.cat([radius * angle.cos(), radius * angle.sin()])[:count].reshape(tuple(shape))

    def coins(self, count: int, q: float) -> Tensor:
        """Independent truth values, each true with probability q: Poisson sampling."""
        return self.uniform((count,)) < q


class Privacy:
    """A party's own source of noise for one run. `table` says the hash of the party's table, when it is needed."""

    def __init__(self, secret: bytes, party: str, table: Callable[[], str] = lambda: "") -> None:
        self._secret, self._party, self._table = secret, party, cache(table)
        self._doing: tuple[str, ...] | None = None
        self._drawn: Counter[str] = Counter()

    @contextmanager
    def during(self, *doing: str) -> Iterator[None]:
        """Around a verb (the door does it), `once` and a step: names what noise is drawn for, and afterwards what it was before."""
        before = self._doing, self._drawn
        self._doing, self._drawn = doing, Counter()
        try:
            yield
        finally:
            self._doing, self._drawn = before

    def stream(self, purpose: str = "") -> Stream:
        """Another stream at every call: two releases of one verb never share noise."""
        if self._doing is None:
            raise PrivacyError(f"{self._party}: noise was asked for outside a verb, once() or steps(): it could not be drawn again after a kill")
        parts = [self._party, *self._doing, self._table(), purpose, str(self._drawn[purpose])]
        self._drawn[purpose] += 1
        info = b"".join(len(part.encode()).to_bytes(4, "big") + part.encode() for part in parts)
        return Stream(HKDF(algorithm=SHA256(), length=32, salt=b"reticent run secret", info=info).derive(self._secret))


def keep(folder: Path | None) -> bytes:
    """The run secret of a folder: made the first time (mode 600), read again by a run that goes on."""
    if folder is None:
        return os.urandom(32)
    path, beside = folder / "secret", folder / f"secret.{os.getpid()}"
    if not path.exists():
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(os.urandom(32))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):  # whole or not at all, and the first of two processes has it
            os.link(beside, path)
        beside.unlink()
    secret = path.read_bytes()
    if len(secret) != 32:
        raise JournalError(f"{path} holds {len(secret)} bytes, 32 are needed: this run cannot go on with the same noise")
    return secret


def destroy(folder: Path | None) -> None:
    """Ends the life of a run's secret: overwritten and removed."""
    for path in sorted(folder.glob("secret*")) if folder is not None else ():
        with open(path, "r+b") as file:
            file.write(bytes(32))
            file.flush()
            os.fsync(file.fileno())
        path.unlink()
