import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from dp_accounting.dp_event import GaussianDpEvent, SelfComposedDpEvent
from dp_accounting.pld import pld_privacy_accountant
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.errors import JournalError
from reticent.federation import Guests
from reticent.ledger import Ledger, part_of, phase_of
from tests.toys import Guest, Number, Toy

GAUSS = {"type": "GaussianDpEvent", "noise_multiplier": 2.0}


def line(ask: int, way: str = "down", guest: str = "shop", size: int = 100, part: str = "fit", **more: Any) -> dict[str, Any]:
    sender, to = ("bank", guest) if way == "down" else (guest, "bank")
    facts = {
        "ask": ask, "n": f"{part}/{ask}", "sender": sender, "to": to, "verb": "add", "way": way, "size": size, "sha256": "0" * 64, "rows": 0, "reveals": "größer",
        "events": [], "speaks": way == "up", "bare": way == "up",
    }  # fmt: skip
    return {**facts, **more}


def filled(path: Path | None) -> Ledger:
    """Two asks of two guests in a fit, one of them repeated, a loop, and a prediction."""
    ledger = Ledger(path)
    for ask in (0, 1):
        for guest in ("shop", "telco"):
            ledger.add(**line(ask, "down", guest, 10))
            ledger.add(**line(ask, "up", guest, 1000, events=[GAUSS] if guest == "shop" else []))
    ledger.add(**line(1, "down", "shop", 10))
    ledger.add(**line(1, "up", "shop", 1000, events=[GAUSS]))
    ledger.add(**line(2, "up", "shop", 7, n="fit/trial 0/3/0"))
    ledger.add(**line(3, "up", "shop", 300, n="predict/0"))
    ledger.add(**line(4, "up", "shop", 40, n="fit/4", refused=True, bare=False, speaks=False))
    return ledger


def tallies(ledger: Ledger) -> object:
    return (
        {key: vars(tally) for key, tally in ledger.tallies.items()}, dict(ledger.asks), ledger.latest, ledger.spent, dict(ledger.bare), ledger.head, ledger.rounds(),
        ledger.letters(), ledger.again(), [ledger.bytes(way, phase) for way in ("up", "down", None) for phase in ("fit", "predict", "search")],
    )  # fmt: skip


def test_numbers_are_these() -> None:
    ledger = filled(None)
    assert (ledger.bytes("up"), ledger.bytes("down"), ledger.bytes()) == (4047, 40, 4087)
    assert (ledger.bytes("up", "predict"), ledger.bytes(None, "search"), ledger.again()) == (300, 0, 1010)
    assert (ledger.rounds(), ledger.rounds("predict"), ledger.letters(), ledger.letters("predict")) == (4, 1, 3, 1)
    assert ledger.spent == [("shop", GAUSS)] * 2, "a letter that crosses again spends nothing"
    assert (ledger.bytes_of("shop", "up"), ledger.bytes_of("telco", "up")) == (3347, 2000)
    ledger.search = {"fit/trial 0"}
    assert (ledger.bytes("up"), ledger.bytes("up", "search"), ledger.rounds("search")) == (4040, 7, 1)


def test_a_part_is_a_phase_or_a_loop_in_it() -> None:
    assert [part_of(n) for n in ("fit/0", "predict-2/7", "fit/trial 0/3/1", "")] == ["fit", "predict-2", "fit/trial 0", ""]
    assert phase_of("fit/trial 0") == "fit"


def test_tallies_after_reading_again_are_those_before(tmp_path: Path) -> None:
    ledger = filled(tmp_path / "ledger.jsonl")
    before, lines = tallies(ledger), ledger.lines()
    ledger.close()
    again = Ledger(tmp_path / "ledger.jsonl")
    assert tallies(again) == before
    assert again.lines() == lines
    assert len(lines) == 13
    again.close()
    assert (tmp_path / "ledger.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_line_has_these_keys(tmp_path: Path) -> None:
    said = filled(None).lines()[1]
    assert list(said) == ["ask", "n", "from", "to", "verb", "way", "bytes", "sha256", "rows", "reveals", "events", "speaks", "bare", "at", "hash"]
    assert len(said["hash"]) == 64


def test_any_changed_byte_of_any_line_is_found_and_the_line_named(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path)
    for ask in range(3):
        ledger.add(**line(ask))
    ledger.close()
    data = path.read_bytes()
    starts = [0, *(match.end() for match in re.finditer(b"\n", data))]
    for at in range(len(data) - 1):
        for byte in {data[at] ^ 1, (b"\r\n 9"[at % 4])} - {data[at]}:
            path.write_bytes(data[:at] + bytes([byte]) + data[at + 1 :])
            number = sum(start <= at for start in starts)
            with pytest.raises(JournalError, match=rf"ledger.jsonl, line [{number}{min(number + 1, 3)}]: "):
                Ledger(path)
            assert len(path.read_bytes()) == len(data), "what was found broken is not cut off"


@pytest.mark.parametrize("change", ["remove", "swap", "repeat", "list", "number"])
def test_lines_removed_swapped_or_put_in_are_found(tmp_path: Path, change: str) -> None:
    path = tmp_path / "ledger.jsonl"
    filled(path).close()
    lines = path.read_bytes().splitlines(keepends=True)
    if change == "remove":
        del lines[4]
    elif change == "swap":
        lines[4], lines[5] = lines[5], lines[4]
    else:
        lines.insert(4, {"repeat": lines[3], "list": b"[1]\n", "number": b"7\n"}[change])
    path.write_bytes(b"".join(lines))
    with pytest.raises(JournalError, match="line 5"):
        Ledger(path)


def test_a_torn_last_line_is_cut_at_any_byte_and_the_letter_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    filled(path).close()
    data = path.read_bytes()
    start = data[:-1].rindex(b"\n") + 1
    for end in range(start, len(data)):
        path.write_bytes(data[:end])
        ledger = Ledger(path)
        assert path.read_bytes() == data[:start]
        ledger.settle(**line(4, "up", "shop", 40, n="fit/4", refused=True))
        assert [entry.get("again") for entry in ledger.lines()[12:]] == [None]
        ledger.close()


def test_settling_writes_only_what_does_not_stand() -> None:
    ledger = filled(None)
    count = len(ledger.lines())
    for ask in (0, 1):
        ledger.settle(**line(ask, "up", "telco"))
        ledger.settle(**line(ask, "down", "telco"))
    assert len(ledger.lines()) == count
    ledger.settle(**line(2, "up", "telco"))
    assert len(ledger.lines()) == count + 1


def test_bytes_are_those_that_the_wire_carried(tmp_path: Path) -> None:
    def drive(host: Any, guests: Guests[Guest]) -> None:
        guests.ask(Guest.add, Number(1))
        for step in host.steps("loop", range(3)):
            guests.ask_each(Guest.draw, {"telco": Number(step)})
        guests.ask(Guest.quote, Number(0), quorum=0)
        guests.ask(Guest.blur, Number(1))

    for folder in (None, tmp_path):
        with Toy(drive, folder) as toy:
            toy.fit()
            assert (toy.ledger.bytes("down"), toy.ledger.bytes("up")) == (toy.wire.down, toy.wire.up)
            assert toy.ledger.again() == 0
            assert toy.ledger.rounds() == 6
            for name, door in toy.doors.items():
                mine = [(e["n"], e["way"], e["bytes"], e["sha256"]) for e in toy.ledger.lines() if name in (e["from"], e["to"])]
                assert [(e["n"], e["way"], e["bytes"], e["sha256"]) for e in door.ledger.lines()] == mine, "both sides saw the same letters"


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["up", "down"]), st.sampled_from(["shop", "telco"]), st.integers(1, 99)), max_size=30))
def test_every_byte_is_counted_once_or_as_again(letters: list[tuple[int, str, str, int]]) -> None:
    ledger = Ledger()
    for ask, way, guest, size in letters:
        ledger.add(**line(ask, way, guest, size))
    assert ledger.bytes() + ledger.again() == sum(size for *_, size in letters)
    assert ledger.bytes("up") + ledger.bytes("down") == ledger.bytes()
    assert sum(json.loads(one)["bytes"] for one in ledger.kept) == sum(size for *_, size in letters)


def test_an_unnoised_letter_costs_infinity_against_whoever_hears_it() -> None:
    ledger = Ledger()
    assert ledger.epsilon(1e-5, rows="shared", against="public") == 0.0, "nobody said anything"
    ledger.add(**line(0, "up"))
    assert ledger.epsilon(1e-5, rows="shared", against="host") == float("inf")
    assert ledger.epsilon(1e-5, rows="shared", against="guests") == 0.0
    assert ledger.epsilon(1e-5, rows="shared", against="public") == float("inf"), "no mechanism stands between the letter and the model"
    ledger.add(**line(1, "down", bare=True))
    assert ledger.epsilon(1e-5, rows="shared", against="guests") == float("inf")


def test_epsilon_adds_up_when_parties_share_rows_and_the_worst_counts_when_they_do_not() -> None:
    ledger = Ledger()
    for guest in ("shop", "telco"):
        ledger.add(**line(0, "up", guest, events=[GAUSS], bare=False))
    ledger.add(**line(1, "up", "shop", events=[GAUSS], bare=False))

    def expected(count: int) -> float:
        return float(pld_privacy_accountant.PLDAccountant().compose(SelfComposedDpEvent(GaussianDpEvent(2.0), count)).get_epsilon(1e-5))

    assert ledger.epsilon(1e-5, rows="shared", against="host") == pytest.approx(expected(3), rel=1e-3)
    assert ledger.epsilon(1e-5, rows="disjoint", against="host") == pytest.approx(expected(2), rel=1e-3)


def test_one_bare_guest_makes_the_public_epsilon_infinite_unless_the_host_adds_noise_of_its_own() -> None:
    ledger = Ledger()
    ledger.add(**line(0, "up", "shop", events=[GAUSS], bare=False))
    ledger.add(**line(0, "up", "telco", events=[], bare=True))
    assert ledger.epsilon(1e-5, rows="shared", against="host") == float("inf")
    assert ledger.epsilon(1e-5, rows="shared", against="public") == float("inf")
    ledger.spent.append(("bank", GAUSS))  # what the host noised in private: nothing bare goes past it
    assert ledger.epsilon(1e-5, rows="shared", against="public") < float("inf")


def test_a_full_disk_takes_back_the_torn_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.add(**line(0, "up", "shop"))
    real, room = os.write, [10]

    def full(descriptor: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(28, "No space left on device")
        written, room[0] = real(descriptor, bytes(data)[: room[0]]), 0
        return written

    monkeypatch.setattr("reticent.journal.os.write", full)
    with pytest.raises(OSError, match="No space"):
        ledger.add(**line(1, "up", "shop"))
    monkeypatch.undo()
    ledger.add(**line(1, "up", "shop"))
    ledger.close()
    assert [entry["ask"] for entry in Ledger(tmp_path / "ledger.jsonl").lines()] == [0, 1]
