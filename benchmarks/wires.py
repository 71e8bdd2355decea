"""How fast letters go: python benchmarks/wires.py prints one JSON object.

Over the wire `processes`, one guest that echoes; beside it bare TLS: a plain ssl socket between two processes, with the same
certificates, letters and system buffers. The two take turns in one run, and the median counts: this machine may be busy.
"""

import argparse
import functools
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from reticent.wires.dialling import dial
from reticent.wires.inprocess import InProcess
from reticent.wires.processes import Processes, tune, widen
from reticent.wires.tls import context, make

GUESTS = ("shop", "telco", "tax")
ROOT = Path(__file__).parents[1]


def echo(letter: bytes) -> bytes:
    return letter


def bare_guest(port: int, folder: Path) -> None:
    """Reads a letter of known size whole, and sends it back, until there is none."""
    with socket.socket() as plain:
        widen(plain)
        tune(plain)
        plain.connect(("127.0.0.1", port))
        with context(folder, server=False).wrap_socket(plain) as connection:
            while head := connection.recv(8):
                letter = bytearray(int.from_bytes(head, "big"))
                receive(connection, letter)
                connection.sendall(letter)


def receive(connection: socket.socket, letter: bytearray) -> None:
    view, filled = memoryview(letter), 0
    while filled < len(letter):
        filled += connection.recv_into(view[filled:])


def child(*words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, __file__, *words], env=os.environ | {"PYTHONPATH": str(ROOT)})


def seconds(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def ask(carrier: Processes | InProcess, letters: dict[str, bytes]) -> None:
    list(carrier.exchange(letters, None))


def spread(values: list[float]) -> dict[str, float]:
    return {"median": round(statistics.median(values), 3), "low": round(min(values), 3), "high": round(max(values), 3)}


def throughput(folder: Path, megabytes: int, repeats: int) -> dict[str, object]:
    letter = os.urandom(megabytes * 1_000_000)
    wire = Processes("bank", ["shop"], ("127.0.0.1", 0), folder / "bank")
    listener = socket.socket()
    widen(listener)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    children = [child("wire", "shop", str(wire.address[1]), str(folder)), child("bare", "shop", str(listener.getsockname()[1]), str(folder))]
    try:
        wire.wait(30)
        plain, _ = listener.accept()
        tune(plain)
        with context(folder / "bank", server=True).wrap_socket(plain, server_side=True) as connection:
            back = bytearray(len(letter))

            def over_bare() -> None:
                connection.sendall(len(letter).to_bytes(8, "big"))
                connection.sendall(letter)
                receive(connection, back)

            heard: dict[str, bytes | Exception] = {}

            def over_wire() -> None:
                heard.clear()
                heard.update(wire.exchange({"shop": letter}, None))

            bare: list[float] = []
            ours: list[float] = []
            for _ in range(repeats + 1):
                bare.append(2 * megabytes / seconds(over_bare))
                ours.append(2 * megabytes / seconds(over_wire))
        del bare[0], ours[0]  # the first turn opens TCP's windows
        if heard["shop"] != letter or back != letter:
            raise SystemExit("what came back is not what was sent")
        ratio = statistics.median(ours) / statistics.median(bare)
        return {"letter_mb": megabytes, "repeats": repeats, "bare_mb_s": spread(bare), "wire_mb_s": spread(ours), "ratio": round(ratio, 3)}
    finally:
        wire.close()
        listener.close()
        for process in children:
            process.wait(10)


def round_trips(folder: Path, repeats: int) -> dict[str, object]:
    """A letter of 1,000 bytes to three guests and back."""
    letters = dict.fromkeys(GUESTS, bytes(1000))
    wire = Processes("bank", GUESTS, ("127.0.0.1", 0), folder / "bank")
    children = [child("wire", name, str(wire.address[1]), str(folder)) for name in GUESTS]
    carriers: dict[str, Processes | InProcess] = {"processes": wire, "inprocess": InProcess(dict.fromkeys(GUESTS, echo))}
    found: dict[str, object] = {}
    try:
        wire.wait(30)
        for name, carrier in carriers.items():
            taken = sorted(1000 * seconds(functools.partial(ask, carrier, letters)) for _ in range(repeats))
            found[f"{name}_ms"] = {"median": round(statistics.median(taken), 4), "p99": round(taken[int(0.99 * len(taken))], 4)}
    finally:
        wire.close()
        for process in children:
            process.wait(10)
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["wire"]:
        dial(sys.argv[2], "bank", ("127.0.0.1", int(sys.argv[3])), Path(sys.argv[4]) / sys.argv[2], echo)
    elif sys.argv[1:2] == ["bare"]:
        bare_guest(int(sys.argv[3]), Path(sys.argv[4]) / sys.argv[2])
    else:
        parser = argparse.ArgumentParser(description=__doc__)
        parser.add_argument("--megabytes", type=int, nargs="+", default=[20, 200])
        parser.add_argument("--repeats", type=int, default=7)
        options = parser.parse_args()
        with tempfile.TemporaryDirectory() as name:
            make(Path(name), ["bank", *GUESTS])
            letters = [throughput(Path(name), size, options.repeats) for size in options.megabytes]
            print(json.dumps({"letters": letters, "small_ask_three_guests": round_trips(Path(name), 1000), "cores": os.cpu_count()}, indent=1))
