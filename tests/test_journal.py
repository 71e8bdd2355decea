import json
import os
import re
import struct
import subprocess
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent import journal as journals
from reticent.errors import FormatError, JournalError
from reticent.federation import Guests
from reticent.journal import Clock, Journal, Record
from tests.toys import Blurred, Guest, Number, Toy, guest_door, letter


def said(journal: Journal) -> list[tuple[str, object, bytes]]:
    return [(r.kind, sorted(r.facts.items()), journal.blob(r)) for r in journal.index.values()]


def test_a_record_is_these_bytes(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.add("heard", b"letter", n="fit/0", who="shop", ask=0)
    journal.close()
    facts = b'{"kind":"heard","n":"fit/0","who":"shop","ask":0}'
    assert (tmp_path / "journal").read_bytes() == struct.pack("<IQI", len(facts), 6, zlib.crc32(facts + b"letter")) + facts + b"letter"


def test_what_was_added_is_found_now_and_after_opening_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.add("answer", b"a" * 100_000, n="fit/0", ask=0)
    journal.add("heard", b"", n="fit/0", who="shop", ask=0)
    journal.add("heard", b"x", n="fit/0", who="telco", ask=0)
    journal.add("heard", b"y", n="fit/0", who="telco", ask=0)
    before = said(journal)
    assert len(before) == 3, "the later record of one name stands for it"
    journal.close()
    again = Journal(tmp_path)
    assert said(again) == before
    found = again.find("heard", "fit/0", "telco")
    assert found is not None
    assert again.blob(found) == b"y"
    assert again.find("heard", "fit/0") is None
    again.add("once", b"later", n="fit//0/model")
    again.close()
    last = Journal(tmp_path)
    assert said(last) == [*before, ("once", [("n", "fit//0/model")], b"later")]
    last.close()


def test_a_record_torn_at_any_byte_is_cut_off_and_the_rest_stands(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.add("answer", b"first", n="a")
    size = journal.size()
    journal.add("answer", b"second", n="b", ask=1)
    journal.close()
    data = (tmp_path / "journal").read_bytes()
    for end in range(size, len(data) + 1):
        (tmp_path / "journal").write_bytes(data[:end])
        again = Journal(tmp_path)
        assert (again.find("answer", "a") is not None, again.find("answer", "b") is not None) == (True, end == len(data))
        assert again.size() == (len(data) if end == len(data) else size)
        again.add("answer", b"other", n="c")
        found = again.find("answer", "c")
        assert found is not None
        assert again.blob(found) == b"other"
        again.close()


@pytest.mark.parametrize("tail", [bytes(64), bytes(16), b"\xff" * 64, struct.pack("<IQI", 2, 0, 0) + b"{}"])
def test_what_a_power_failure_leaves_is_cut_off(tmp_path: Path, tail: bytes) -> None:
    journal = Journal(tmp_path)
    journal.add("answer", b"first", n="a")
    size = journal.size()
    journal.close()
    with (tmp_path / "journal").open("ab") as file:
        file.write(tail)
    again = Journal(tmp_path)
    assert again.size() == size
    assert again.find("answer", "a") is not None
    again.close()


def test_a_changed_byte_of_the_last_record_is_found(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.add("answer", b"noise", n="a")
    journal.close()
    data = (tmp_path / "journal").read_bytes()
    for at in range(len(data)):
        (tmp_path / "journal").write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        try:
            again = Journal(tmp_path)
        except JournalError:
            continue  # a length that changed: bytes are left over
        assert again.find("answer", "a") is None
        again.close()


@settings(max_examples=30)
@given(st.lists(st.tuples(st.sampled_from(["answer", "heard", "once"]), st.sampled_from("abc"), st.binary(max_size=50)), max_size=12), st.sampled_from("abc"))
def test_dropping_keeps_the_rest_to_the_byte(tmp_path_factory: pytest.TempPathFactory, records: list[tuple[str, str, bytes]], useless: str) -> None:
    journal = Journal(tmp_path_factory.mktemp("journal"))
    for kind, n, blob in records:
        journal.add(kind, blob, n=n, ask=1)
    journal.drop(lambda record: True)
    assert len(said(journal)) == len({(kind, n) for kind, n, _ in records}), "so few bytes are not worth writing the file anew"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journals, "DROP_FROM", 0)
        expected = [one for one in said(journal) if dict(one[1])["n"] != useless]  # type: ignore[call-overload]
        journal.drop(lambda record: record.facts["n"] == useless)
    assert said(journal) == expected
    journal.add("late", b"z", n="z")
    journal.close()
    assert journal.folder is not None
    again = Journal(journal.folder)
    assert said(again) == [*expected, ("late", [("n", "z")], b"z")]
    assert sorted(path.name for path in journal.folder.iterdir()) == ["journal", "lock"]
    again.close()


def test_one_process_at_a_time_uses_a_folder(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with pytest.raises(JournalError, match="in use by another process"):
        Journal(tmp_path, wait=0.1)
    code = f"from pathlib import Path; from reticent.journal import Journal; Journal(Path({str(tmp_path)!r}), wait=0.1)"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "in use by another process" in other.stderr
    journal.close()
    Journal(tmp_path, wait=0.1).close()


def test_another_format_and_another_run_are_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path)
    journal.begin(run="r", study="s", party="shop")
    journal.begin(run="r", study="s", party="shop")
    with pytest.raises(JournalError, match=r"belongs to a run with study 's'; this one has 't': choose another folder"):
        journal.begin(run="r", study="t", party="shop")
    monkeypatch.setattr(journals, "FORMAT", 2)
    with pytest.raises(FormatError, match="a journal of format 1; this version reads format 2"):
        journal.begin(run="r", study="s", party="shop")
    journal.close()


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    door = guest_door(folder=tmp_path / "guest")
    door.answer(letter(Guest.add, Number(1)))
    door.keep()
    door.close()
    assert {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "guest").iterdir()} == dict.fromkeys(
        ("journal", "ledger.jsonl", "lock", "secret", "snapshot"), 0o600
    )
    Journal(tmp_path / "new" / "folder").close()
    assert (tmp_path / "new" / "folder").stat().st_mode & 0o777 == 0o700


def test_what_carries_a_privacy_event_is_on_the_disk_before_it_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        forced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    door = guest_door(folder=tmp_path / "shop")
    monkeypatch.setattr(os, "fsync", fsync)
    door.answer(letter(Guest.add, Number(1)))
    assert forced == []
    answer = door.answer(letter(Guest.blur, Number(1), ask=1))
    assert forced == [str(tmp_path / "shop" / "journal")]
    assert Blurred.decode(answer).x.event
    door.close()
    forced.clear()

    def drive(host: Any, guests: Guests[Guest]) -> None:
        guests.ask(Guest.add, Number(1))
        assert forced == []
        guests.ask(Guest.blur, Number(1))

    with Toy(drive, tmp_path / "toy") as toy:
        forced.clear()
        toy.fit()
    assert [path.removeprefix(str(tmp_path)) for path in forced] == ["/toy/shop/journal", "/toy/bank/journal", "/toy/telco/journal", "/toy/bank/journal"]


def test_a_journal_without_a_folder_keeps_nothing() -> None:
    journal = Journal()
    journal.add("answer", b"x", n="a")
    assert (journal.find("answer", "a"), journal.size(), journal.kept) == (None, 0, False)
    journal.drop(lambda record: True)
    journal.close()


def test_a_snapshot_is_due_each_half_minute_and_after_a_long_verb(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    clock = Clock()
    due = []
    for seconds, took in ((1, 0.0), (28, 4.9), (1, 0.0), (1, 5.1), (29.5, 0.0), (0.5, 0.0)):
        now[0] += seconds
        due.append(clock.due(took))
    assert due == [False, False, True, True, False, True]


def test_records_know_where_they_lie(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.add("answer", b"abc", n="a")
    text = (tmp_path / "journal").read_bytes()
    record = journal.index[("answer", "a", "")]
    assert record == Record("answer", {"n": "a"}, len(text) - 3, 3)
    assert json.loads(re.findall(rb"\{.*\}", text)[0]) == {"kind": "answer", "n": "a"}
    journal.close()


def test_a_record_damaged_in_the_middle_is_told_and_nothing_is_cut_off(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for n in range(3):
        journal.add("heard", bytes(range(100)), n=f"fit/{n}")
    journal.close()
    data = bytearray((tmp_path / "journal").read_bytes())
    data[40] ^= 1
    (tmp_path / "journal").write_bytes(data)
    with pytest.raises(JournalError, match=r"damaged at byte 0, and [\d,]+ bytes follow"):
        Journal(tmp_path)
    assert (tmp_path / "journal").read_bytes() == data
