"""Guests as processes of their own on this machine, each started as `reticent join` and started again if it dies."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from reticent.party import Progress

AGAIN = 3  # how often a guest that died is started again
CLEAN = range(2, 11)  # exit codes of an error that has a sentence: starting again would not help


class Children:
    """`commands`: for each guest, the words after `python -m reticent`. All stay in the caller's process group, and end with it."""

    def __init__(
        self, commands: Mapping[str, Sequence[str]], logs: Mapping[str, Path], failed: Callable[[str, str], None], progress: Progress | None = None
    ) -> None:
        self.commands, self.logs, self.failed, self.progress = dict(commands), dict(logs), failed, progress
        self.running: dict[str, subprocess.Popen[str]] = {}
        self.over = False
        self.threads = [threading.Thread(target=self._watch, args=(name,), daemon=True, name=f"child {name}") for name in commands]
        for thread in self.threads:
            thread.start()

    def _watch(self, name: str) -> None:
        for attempt in range(AGAIN + 1):
            if self.over:
                return
            with open(self.logs[name], "a") as log:
                # the child reads its standard input only to notice that this process has died
                child = subprocess.Popen(
                    [sys.executable, "-m", "reticent", *self.commands[name]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
                )
            self.running[name] = child
            assert child.stdout is not None
            for line in child.stdout:
                self._tell(line)
            child.stdout.close()
            code = child.wait()
            if code == 0 or self.over:
                return
            if code in CLEAN or attempt == AGAIN:
                lines = self.logs[name].read_text(errors="replace").strip().splitlines()
                self.failed(name, lines[-1] if lines else f"its process ended with {code}")
                return
            time.sleep(0.2)

    def _tell(self, line: str) -> None:
        if self.progress is not None:
            try:
                said = json.loads(line)
                self.progress(said["party"], said["done"], said["of"], said["what"])
            except (ValueError, KeyError):
                return

    def close(self, within: float = 20.0) -> None:
        """Waits for the guests to go home; ends those that do not."""
        self.over = True
        until = time.monotonic() + within
        for child in list(self.running.values()):
            try:
                child.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            if child.stdin is not None:
                child.stdin.close()
