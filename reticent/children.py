"""Guests as processes of their own on this machine, each started as `reticent join` and started again if it dies."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from reticent.party import Progress

AGAIN = 3  # how often a guest that died is started again
CLEAN = range(2, 11)  # exit codes of an error that has a sentence: starting again would not help
HEED = 3.0  # seconds in which a process whose standard input was closed has noticed it


def _wait(child: subprocess.Popen[str], seconds: float) -> bool:
    """Whether it has ended within so many seconds."""
    try:
        child.wait(max(0.0, seconds))
    except subprocess.TimeoutExpired:
        return False
    return True


class Children:
    """`commands`: for each guest, the words after `python -m reticent`. All stay in the caller's process group, and end with it.

    `failed(name, code, sentence)` is called when a guest has ended for good: its exit code, and the last line it said.
    """

    def __init__(
        self, commands: Mapping[str, Sequence[str]], logs: Mapping[str, Path], failed: Callable[[str, int, str], None], progress: Progress | None = None
    ) -> None:
        self.commands, self.logs, self.failed, self.progress = dict(commands), dict(logs), failed, progress
        self.running: dict[str, subprocess.Popen[str]] = {}
        self.over = False
        self.lock = threading.Lock()  # nobody is started after `over`
        self.threads = [threading.Thread(target=self._watch, args=(name,), daemon=True, name=f"child {name}") for name in commands]
        for thread in self.threads:
            thread.start()

    def _watch(self, name: str) -> None:
        for attempt in range(AGAIN + 1):
            if (child := self._start(name)) is None:
                return
            assert child.stdout is not None
            for line in child.stdout:
                self._tell(line)
            child.stdout.close()
            code = child.wait()
            assert child.stdin is not None
            child.stdin.close()
            if code == 0 or self.over:
                return
            if code in CLEAN or attempt == AGAIN:
                lines = self.logs[name].read_text(errors="replace").strip().splitlines()
                self.failed(name, code, lines[-1].removeprefix("reticent: ") if lines else f"its process ended with {code}")
                return
            time.sleep(0.2)

    def _start(self, name: str) -> subprocess.Popen[str] | None:
        with self.lock, open(os.open(self.logs[name], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a") as log:
            if self.over:
                return None
            # the child reads its standard input only to notice that this process has died
            child = subprocess.Popen(
                [sys.executable, "-m", "reticent", *self.commands[name]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
            self.running[name] = child
            return child

    def _tell(self, line: str) -> None:
        if self.progress is not None:
            try:
                said = json.loads(line)
                self.progress(said["party"], said["done"], said["of"], said["what"])
            except (ValueError, KeyError):
                return

    def close(self, within: float = 20.0) -> None:
        """Waits for the guests to go home; ends those that do not. `within=0`: none is to go on, and each ends where it stands, as by a kill."""
        with self.lock:
            self.over = True
            children = list(self.running.values())
        until = time.monotonic() + within
        for child in children:
            if within > 0:
                _wait(child, until - time.monotonic())
        for child in children:
            if child.stdin is not None:
                child.stdin.close()
        until = time.monotonic() + HEED
        for child in children:
            if not _wait(child, until - time.monotonic()):
                child.kill()
                child.wait()
