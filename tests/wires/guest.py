"""A guest as a process of its own: python guest.py NAME HOST PORT FOLDER PATIENCE. What it answers is chosen by the letter's first word."""

import os
import sys
import time
from pathlib import Path


def answer(letter: bytes) -> bytes:
    word, _, rest = letter.partition(b" ")
    if word == b"pid":
        return str(os.getpid()).encode()
    if word == b"sleep":
        time.sleep(float(rest))
    if word == b"raise":
        raise ValueError("row 7 says Smith")
    if word == b"die":
        os._exit(9)
    if word == b"big":
        return bytes(int(rest))
    return letter


if __name__ == "__main__":
    from reticent.errors import WireError
    from reticent.wires.dialling import dial

    name, host, port, folder, patience = sys.argv[1:]
    try:
        dial(name, host, ("127.0.0.1", int(port)), Path(folder), answer, float(patience))
    except WireError as error:
        sys.exit(f"WireError: {error}")
