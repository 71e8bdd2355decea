"""What a party's operator allows over all runs: an append-only file beside the party file, one line an answer that left.

Noised answers are composed by PLD with all that stands in the file; an answer that would pass the budget does not leave.
Un-noised tensors cost infinity against the host and cannot be summed: they are listed, and `unnoised = "never"` forbids them.
"""

import hashlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from reticent.errors import JournalError, Refused
from reticent.journal import alone
from reticent.message import Event


@dataclass(frozen=True)
class Budget:
    path: Path  # bank.toml.budget
    epsilon: float  # over all runs
    delta: float
    against: Literal["public", "host"] = "public"  # who the operator means; un-noised letters to the host pass no "public" budget

    def lines(self) -> list[dict[str, Any]]:  # Any: JSON
        if not self.path.exists():
            return []
        found = []
        for number, line in enumerate(self.path.read_text().splitlines(), 1):
            try:
                found.append(dict(json.loads(line)))
            except ValueError as error:
                raise JournalError(f"{self.path}, line {number}, cannot be read ({error}): mend it by hand; until then nothing noised leaves") from error
        return found

    def spent(self, more: Sequence[Event] = ()) -> float:
        from reticent.privacy import accounting  # where a budget is set

        events = [event for line in self.lines() for event in line["events"]] + list(more)
        return accounting.epsilon(events, self.delta) if events else 0.0

    def charge(self, *, run: str, n: str, verb: str, events: Sequence[Event], bare: bool, sealed: bytes) -> None:
        """Notes an answer before it leaves, once; Refused if it would pass the budget. Other bytes under the same number are another release."""
        if not events and not bare:
            return
        with open(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "a") as file:
            alone(file.fileno())  # two runs at once spend one budget
            sha256 = hashlib.sha256(sealed).hexdigest()
            if any((line["run"], line["n"], line["sha256"]) == (run, n, sha256) for line in self.lines()):
                return
            if events and (would := self.spent(events)) > self.epsilon:
                raise Refused(
                    f"budget of {self.path}: epsilon = {self.epsilon:g} at delta = {self.delta:g} over all runs, and with this answer to {verb!r} {would:.4g} would be spent: "
                    f"raise the budget, or take no part"
                )
            entry = {
                "format": 1,
                "run": run,
                "n": n,
                "verb": verb,
                "sha256": sha256,
                "events": list(events),
                "unnoised_bytes": len(sealed) if bare else 0,
                "at": round(time.time(), 3),
            }
            file.write(json.dumps(entry) + "\n")
            file.flush()
            os.fsync(file.fileno())
