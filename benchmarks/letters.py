"""What letters, the journal and an ask cost: prints one JSON object.

    OMP_NUM_THREADS=1 python benchmarks/letters.py [--repeat 5]

`ask`: a small question to three guests in this process, median and 90th percentile in ms, without and with a folder. `journal`: 1,000 letters
(250 asks of two guests, whose answers have 10 kB): bytes on the disk, their share beyond the letters themselves, and what keeping them costs. `letters`: encoding
and decoding in GB/s, the header's share, and one small letter in µs.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from reticent.algorithms.fedonce import Representation
from reticent.federation import Guests
from reticent.message import Message
from tests.letters import HEAD
from tests.toys import Guest, Host, Number, Toy

ROWS, LARGE = 100, (2_000_000, 25)  # of 25 numbers: 10 kB and 200 MB a letter


def nothing(host: Host, guests: Guests[Guest]) -> None:
    return


def seconds(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def milliseconds(times: Sequence[float]) -> dict[str, float]:
    ordered = sorted(times)
    return {"median": round(1e3 * statistics.median(ordered), 3), "p90": round(1e3 * ordered[int(0.9 * len(ordered))], 3)}


def asks(folder: Path | None, verb: Callable[..., Any], count: int = 500) -> dict[str, float]:
    with Toy(nothing, folder, ("shop", "telco", "tax")) as toy:
        talk = toy.federation.talk
        return milliseconds([seconds(lambda: talk.ask(verb, Number(1))) for _ in range(count)][count // 10 :])


def journal(folder: Path) -> dict[str, float]:
    """The same asks with and without a folder, by turns, so that a busy machine slows both."""
    with Toy(nothing) as bare, Toy(nothing, folder) as kept:
        spent = [[seconds(lambda toy=toy: toy.federation.talk.ask(Guest.many, Number(ROWS))) for toy in (bare, kept)] for _ in range(250)]  # type: ignore[misc]
        crossed = kept.wire.up + kept.wire.down
        disk = {name: (folder / name / "journal").stat().st_size for name in ("bank", "shop", "telco")}
        ledgers = sum((folder / name / "ledger.jsonl").stat().st_size for name in ("bank", "shop", "telco"))
    without, with_folder = (statistics.median(column) for column in zip(*spent, strict=True))
    return {
        "letters": 1000,
        "crossed_mb": round(crossed / 1e6, 3),
        "host_journal_mb": round(disk["bank"] / 1e6, 3),
        "guests_journals_mb": round((disk["shop"] + disk["telco"]) / 1e6, 3),
        "ledgers_mb": round(ledgers / 1e6, 3),
        "ask_ms_without": round(1e3 * without, 3),
        "ask_ms_with": round(1e3 * with_folder, 3),
        "us_a_letter": round((with_folder - without) / 4 * 1e6, 1),
    }


def codec(said: Message, repeat: int) -> dict[str, float]:
    letter = said.encode(**HEAD)
    encode = min(seconds(lambda: said.encode(**HEAD)) for _ in range(repeat))
    decode = min(seconds(lambda: type(said).decode(letter)) for _ in range(repeat))
    payload = sum(t.numel() * t.element_size() for _, _, t in said._named())
    return {
        "mb": round(len(letter) / 1e6, 3), "over_payload_percent": round(100 * (len(letter) - payload) / max(payload, 1), 4), "encode_us": round(1e6 * encode, 1),
        "decode_us": round(1e6 * decode, 1), "encode_gb_s": round(len(letter) / encode / 1e9, 2), "decode_gb_s": round(len(letter) / decode / 1e9, 2),
    }  # fmt: skip


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--repeat", type=int, default=5)
    repeat: int = options.parse_args().repeat
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = {
            "ask": {
                "without_a_folder_ms": asks(None, Guest.add), "with_a_folder_ms": asks(folder / "a", Guest.add),
                "noised_with_a_folder_ms": asks(folder / "b", Guest.blur, 200),
            },
            "journal": journal(folder / "c"),
            "letters": {
                "small": codec(Number(1), 500), "1 MB": codec(Representation(torch.randn(1 << 18, 1)), 20 * repeat), "200 MB": codec(Representation(torch.randn(LARGE)), repeat),
            },
        }  # fmt: skip
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
