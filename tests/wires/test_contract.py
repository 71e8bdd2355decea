"""One contract, held by every wire."""

import itertools
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reticent.errors import GuestGone, Late, WireError
from reticent.wires import STOPPED
from reticent.wires.dialling import dial
from reticent.wires.inprocess import InProcess
from reticent.wires.processes import Processes
from reticent.wires.tls import make

GUEST = Path(__file__).with_name("guest.py")
ROOT = Path(__file__).parents[2]
GUESTS = ("shop", "telco", "tax")
MEGA = 1 << 20

spec = spec_from_file_location("wires_guest", GUEST)
assert spec is not None
assert spec.loader is not None
guest = module_from_spec(spec)
spec.loader.exec_module(guest)
answer: Callable[[bytes], bytes] = guest.answer

Wire = InProcess | Processes
Children = dict[str, subprocess.Popen[bytes]]


def start(name: str, wire: Processes, folder: Path, patience: float = 20.0) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(GUEST), name, wire.host, str(wire.address[1]), str(folder / name), str(patience)]
    return subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, stderr=subprocess.DEVNULL)


def stop(children: Children) -> None:
    for child in children.values():
        child.kill()
        child.wait()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    make(folder, ["bank", *GUESTS])
    return folder


@pytest.fixture(scope="module", params=["inprocess", "processes"])
def wire(request: pytest.FixtureRequest, folder: Path) -> Iterator[Wire]:
    if request.param == "inprocess":
        inside = InProcess(dict.fromkeys(GUESTS, answer))
        yield inside
        inside.close()
        return
    outside = Processes("bank", GUESTS, ("127.0.0.1", 0), folder / "bank", patience=5.0)
    children = {name: start(name, outside, folder) for name in GUESTS}
    try:
        outside.wait(30)
        yield outside
        outside.close()
        assert [child.wait(5) for child in children.values()] == [0, 0, 0]  # all went home when the run was over
    finally:
        outside.close()
        stop(children)


Opened = Callable[..., tuple[Processes, Children]]


@pytest.fixture
def opened(folder: Path) -> Iterator[Opened]:
    """A wire of one test's own, whose guests may be killed."""
    wires: list[Processes] = []
    everyone: list[Children] = []

    def make_one(here: Sequence[str], expected: Sequence[str], patience: float = 0.0, largest: int = 8 << 30) -> tuple[Processes, Children]:
        wire = Processes("bank", expected, ("127.0.0.1", 0), folder / "bank", patience, largest)
        wires.append(wire)
        children = {name: start(name, wire, folder) for name in here}
        everyone.append(children)
        if set(here) == set(expected):
            wire.wait(30)
        return wire, children

    yield make_one
    for wire in wires:
        wire.close()
    for children in everyone:
        stop(children)


def ask(wire: Wire, letters: Mapping[str, bytes], within: float | None = None) -> dict[str, bytes | Exception]:
    answers = list(wire.exchange(letters, within))
    assert sorted(name for name, _ in answers) == sorted(letters)  # one item a name
    return dict(answers)


def test_a_letter_is_answered_by_the_guest_it_was_written_to(wire: Wire) -> None:
    assert ask(wire, {name: f"echo {name}".encode() for name in GUESTS}) == {name: f"echo {name}".encode() for name in GUESTS}


def test_only_those_who_were_asked_answer(wire: Wire) -> None:
    assert ask(wire, {"telco": b"echo"}) == {"telco": b"echo"}
    assert ask(wire, {}) == {}


def test_whoever_is_ready_first_is_heard_first(wire: Wire) -> None:
    heard = [name for name, _ in wire.exchange({"shop": b"sleep 0.6", "telco": b"echo", "tax": b"sleep 0.3"}, 5.0)]
    assert heard == ["telco", "tax", "shop"]


@given(sizes=st.lists(st.integers(0, 70_000), min_size=1, max_size=3), seed=st.integers(0, 2**32))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_letters_arrive_byte_for_byte(wire: Wire, sizes: list[int], seed: int) -> None:
    letters = {name: random.Random(seed + size).randbytes(size).replace(b" ", b"_") for name, size in zip(GUESTS, sizes, strict=False)}
    assert ask(wire, letters) == letters


@pytest.mark.parametrize("size", [0, 1, (1 << 14) - 16, 1 << 14, (1 << 18) - 1, 1 << 18, (1 << 18) + 1])
def test_letters_of_the_sizes_at_which_frames_are_cut_arrive(wire: Wire, size: int) -> None:
    assert ask(wire, dict.fromkeys(GUESTS, b"x" * size)) == dict.fromkeys(GUESTS, b"x" * size)


def test_large_letters_go_to_all_guests_and_come_back(wire: Wire) -> None:
    letters = {name: b"echo " + bytes([i]) * (64 * MEGA) for i, name in enumerate(GUESTS)}
    answers = ask(wire, letters, 60.0)
    assert all(answers[name] == letters[name] for name in GUESTS)


def test_a_guest_nobody_knows_is_missing_and_the_others_answer(wire: Wire) -> None:
    answers = ask(wire, {"shop": b"echo", "nobody": b"echo"})
    assert answers["shop"] == b"echo"
    assert isinstance(answers["nobody"], GuestGone)
    assert str(answers["nobody"]) == "nobody: no guest of this name here; the guests are shop, telco, tax"


def test_within_is_kept_to_half_a_second_and_a_late_answer_is_thrown_away(wire: Wire) -> None:
    began = time.monotonic()
    answers = ask(wire, {"shop": b"sleep 2", "telco": b"echo"}, 1.0)
    assert 0.9 < time.monotonic() - began < 1.5
    assert answers["telco"] == b"echo"
    assert isinstance(answers["shop"], Late)
    assert str(answers["shop"]).startswith("shop: no answer within 1 s; ask again with a larger within=")
    assert ask(wire, {"shop": b"echo next"}) == {"shop": b"echo next"}  # in order: after the late letter, and not its answer
    assert time.monotonic() - began > 1.9
    assert ask(wire, {"shop": b"echo then"}, 1.0) == {"shop": b"echo then"}


def test_a_late_large_answer_and_the_next_large_letter_do_not_wait_for_each_other(wire: Wire) -> None:
    assert isinstance(ask(wire, {"tax": b"sleep 0.5 "}, 0.2)["tax"], Late)
    assert isinstance(ask(wire, {"tax": b"big %d" % (32 * MEGA)}, 0.01)["tax"], Late)
    letter = b"echo" * (8 * MEGA)
    assert ask(wire, {"tax": letter}, 20.0)["tax"] == letter


def test_who_stops_listening_early_hears_nothing_of_it_in_the_next_ask(wire: Wire) -> None:
    first = next(iter(wire.exchange({"shop": b"echo 1", "telco": b"sleep 0.2"}, 5.0)))
    assert first == ("shop", b"echo 1")
    assert ask(wire, {"shop": b"echo 2", "telco": b"echo 2"}) == {"shop": b"echo 2", "telco": b"echo 2"}


@pytest.mark.parametrize("within", [None, 5.0])
def test_a_guest_that_raises_says_the_class_and_no_data_and_goes_on(wire: Wire, within: float | None) -> None:
    answers = ask(wire, {"shop": b"raise", "telco": b"echo"}, within)
    assert isinstance(answers["shop"], GuestGone)
    assert str(answers["shop"]) == "shop: ValueError in its own code; the log at shop says where"
    assert answers["telco"] == b"echo"
    assert ask(wire, {"shop": b"echo"}) == {"shop": b"echo"}


def test_hundreds_of_small_asks_keep_their_order(wire: Wire) -> None:
    for i in range(200):
        letters = {name: f"{i} {name}".encode() for name in GUESTS}
        assert ask(wire, letters) == letters


def test_a_closed_wire_sends_nothing() -> None:
    wire = InProcess({"shop": answer})
    wire.close()
    with pytest.raises(WireError, match="this wire is closed: nothing was sent to shop"):
        list(wire.exchange({"shop": b"echo"}, None))


def test_an_interrupt_goes_through_a_wire_in_process() -> None:
    def interrupted(letter: bytes) -> bytes:
        raise KeyboardInterrupt

    for within in (None, 2.0):
        with pytest.raises(KeyboardInterrupt):
            list(InProcess({"shop": interrupted}).exchange({"shop": b""}, within))


# processes alone


def test_every_guest_is_a_process_of_its_own(opened: Opened) -> None:
    wire, children = opened(GUESTS, GUESTS)
    pids = {name: int(pid) for name, pid in ask(wire, dict.fromkeys(GUESTS, b"pid")).items() if isinstance(pid, bytes)}
    assert pids == {name: child.pid for name, child in children.items()}
    assert len({*pids.values(), os.getpid()}) == 4


def test_wait_names_who_has_not_dialled_in(opened: Opened) -> None:
    wire, _ = opened(["shop"], ["shop", "telco"])
    with pytest.raises(WireError, match=r"^telco did not dial in to 127\.0\.0\.1:\d+ within 3 s; start `reticent join` there$"):
        wire.wait(3)
    answers = ask(wire, {"shop": b"echo", "telco": b"echo"})
    assert answers["shop"] == b"echo"
    assert isinstance(answers["telco"], GuestGone)
    assert "it has not dialled in" in str(answers["telco"])


@pytest.mark.parametrize("how", ["exits", "is killed"])
def test_a_guest_that_dies_is_gone_at_once_without_patience(opened: Opened, how: str) -> None:
    wire, children = opened(["shop", "telco"], ["shop", "telco"])
    if how == "is killed":
        threading.Timer(0.3, children["shop"].send_signal, [signal.SIGKILL]).start()
    began = time.monotonic()
    answers = ask(wire, {"shop": b"die" if how == "exits" else b"sleep 30", "telco": b"sleep 1"})
    assert time.monotonic() - began < 3
    assert isinstance(answers["shop"], GuestGone)
    assert str(answers["shop"]).startswith("shop: no connection (")
    assert answers["telco"] == b"sleep 1"


def test_a_guest_that_is_started_again_within_patience_gets_the_same_letter(opened: Opened, folder: Path) -> None:
    wire, children = opened(["shop", "telco"], ["shop", "telco"], patience=15.0)

    def restart() -> None:
        children["shop"].kill()
        children["shop"].wait()
        time.sleep(0.3)
        children["again"] = start("shop", wire, folder)

    threading.Timer(0.3, restart).start()
    answers = ask(wire, {"shop": b"sleep 1", "telco": b"echo"})
    assert answers == {"shop": b"sleep 1", "telco": b"echo"}
    assert ask(wire, {"shop": b"pid"}) == {"shop": str(children["again"].pid).encode()}


def test_patience_ends(opened: Opened) -> None:
    wire, _ = opened(["shop"], ["shop"], patience=1.0)
    began = time.monotonic()
    gone = ask(wire, {"shop": b"die"})["shop"]
    assert 0.9 < time.monotonic() - began < 2.5
    assert isinstance(gone, GuestGone)
    assert "it did not dial in again within 1 s" in str(gone)


def test_a_connection_that_breaks_is_dialled_again_and_no_letter_is_lost(opened: Opened) -> None:
    wire, children = opened(["shop"], ["shop"], patience=10.0)
    for i in range(3):
        threading.Timer(0.2, wire.post.lines["shop"].connection.shutdown, [socket.SHUT_RDWR]).start()
        assert ask(wire, {"shop": b"sleep 0.5 "}) == {"shop": b"sleep 0.5 "}, i
    assert ask(wire, {"shop": b"pid"}) == {"shop": str(children["shop"].pid).encode()}


def test_a_second_connection_of_a_name_replaces_the_first_which_is_told(opened: Opened, folder: Path) -> None:
    wire, children = opened(["shop"], ["shop"])
    children["second"] = start("shop", wire, folder)
    assert children["shop"].wait(20) == 1
    assert ask(wire, {"shop": b"pid"}) == {"shop": str(children["second"].pid).encode()}


def test_a_guest_goes_on_with_a_host_that_was_started_again(folder: Path) -> None:
    first = Processes("bank", ["shop"], ("127.0.0.1", 0), folder / "bank")
    children = {"shop": start("shop", first, folder)}
    try:
        first.wait(30)
        first.listener.shutdown(socket.SHUT_RDWR)
        first.listener.close()
        first.closed.set()
        first.post.lines["shop"].connection.shutdown(socket.SHUT_RDWR)  # a host that is killed says no goodbye
        second = Processes("bank", ["shop"], ("127.0.0.1", first.address[1]), folder / "bank")
        second.wait(20)
        assert ask(second, {"shop": b"pid"}) == {"shop": str(children["shop"].pid).encode()}
        second.close()
        assert children["shop"].wait(5) == 0
    finally:
        stop(children)


def test_a_host_that_stops_before_the_end_and_is_started_again_finds_its_guest(folder: Path) -> None:
    first = Processes("bank", ["shop"], ("127.0.0.1", 0), folder / "bank")
    children = {"shop": start("shop", first, folder)}
    try:
        first.wait(30)
        first.close(STOPPED)
        second = Processes("bank", ["shop"], ("127.0.0.1", first.address[1]), folder / "bank")
        second.wait(20)
        assert ask(second, {"shop": b"pid"}) == {"shop": str(children["shop"].pid).encode()}
        second.close()
        assert children["shop"].wait(5) == 0
    finally:
        stop(children)


def test_a_guest_whose_host_stopped_and_stays_away_says_so_when_its_patience_ends(folder: Path) -> None:
    wire = Processes("bank", ["shop"], ("127.0.0.1", 0), folder / "bank")
    threading.Timer(0.5, wire.close, [STOPPED]).start()
    with pytest.raises(WireError, match=r"for 1 s .*: the host stopped before the end: start `reticent join` again with the same --out"):
        dial("shop", "bank", wire.address, folder / "shop", answer, patience=1.0)


def test_a_wire_that_is_closed_keeps_nobody_waiting(opened: Opened) -> None:
    alone, _ = opened([], ["shop"], patience=60.0)
    threading.Timer(0.3, alone.close, [STOPPED]).start()
    began = time.monotonic()
    with pytest.raises(WireError, match="^the wire was closed before shop dialled in"):
        alone.wait(60)
    wire, _ = opened(["shop", "telco"], ["shop", "telco"], patience=60.0)
    threading.Timer(0.5, wire.close, [STOPPED]).start()
    answers = ask(wire, {"shop": b"sleep 20", "telco": b"echo"})
    assert time.monotonic() - began < 10
    assert answers["telco"] == b"echo"
    assert isinstance(answers["shop"], GuestGone)
    assert str(answers["shop"]) == "shop: the wire was closed before it answered"


def test_a_wire_says_whose_letters_crossed_again(opened: Opened) -> None:
    wire, _ = opened(["shop", "telco"], ["shop", "telco"], patience=10.0)
    assert wire.resent == ()
    threading.Timer(0.2, wire.post.lines["shop"].connection.shutdown, [socket.SHUT_RDWR]).start()
    assert ask(wire, {"shop": b"sleep 0.5 ", "telco": b"sleep 0.5 "}) == {"shop": b"sleep 0.5 ", "telco": b"sleep 0.5 "}
    assert wire.resent == ("shop",)
    assert ask(wire, {"shop": b"echo"}) == {"shop": b"echo"}
    assert wire.resent == ()


def test_a_guest_tries_every_address_of_its_host(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        nobody = free.getsockname()
    wire = Processes("bank", ["shop"], ("127.0.0.1", 0), folder / "bank")
    found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", place) for place in (nobody, wire.address)]  # a name with two addresses, the first of no use
    monkeypatch.setattr(socket, "getaddrinfo", lambda *name, **kind: found)
    thread = threading.Thread(target=dial, args=("shop", "bank", ("bank.example", 1), folder / "shop", answer, 0.0))
    thread.start()
    wire.wait(10)
    assert ask(wire, {"shop": b"echo"}) == {"shop": b"echo"}
    wire.close()
    thread.join(5)
    assert not thread.is_alive()


def test_a_guest_at_work_on_a_late_letter_still_hears_that_the_run_is_over(opened: Opened) -> None:
    wire, children = opened(["shop"], ["shop"])
    assert isinstance(ask(wire, {"shop": b"sleep 3"}, 0.2)["shop"], Late)
    wire.close()
    assert children["shop"].wait(10) == 0


def test_a_letter_above_the_largest_is_refused_on_its_way_out_and_on_its_way_in(opened: Opened) -> None:
    wire, _ = opened(["shop"], ["shop"], patience=10.0, largest=MEGA)
    out = ask(wire, {"shop": bytes(MEGA + 1)})["shop"]
    assert isinstance(out, WireError)
    assert str(out) == "shop: this letter has 1,048,577 bytes, and the largest allowed is 1,048,576: send less at a time"
    back = ask(wire, {"shop": b"big %d" % (MEGA + 1)})["shop"]
    assert isinstance(back, WireError)
    assert str(back) == "shop: the letter that is announced has 1,048,577 bytes, and the largest allowed is 1,048,576: send less at a time"
    assert ask(wire, {"shop": b"big %d" % MEGA}) == {"shop": bytes(MEGA)}  # it dialled in again


def test_a_guest_gives_up_when_its_patience_ends(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(WireError, match=rf"shop has had no connection to bank at 127\.0\.0\.1:{port} for 0.5 s .*: is the host running there\?"):
        dial("shop", "bank", ("127.0.0.1", port), folder / "shop", answer, patience=0.5)


def test_a_guest_that_is_told_to_stop_goes_home(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    asked = itertools.count()
    dial("shop", "bank", ("127.0.0.1", port), folder / "shop", answer, stop=lambda: next(asked) > 2)
    wire = Processes("bank", ["shop"], ("127.0.0.1", 0), folder / "bank")
    over = threading.Event()
    thread = threading.Thread(target=dial, args=("shop", "bank", wire.address, folder / "shop", answer), kwargs={"stop": over.is_set})
    thread.start()
    wire.wait(10)
    assert ask(wire, {"shop": b"echo"}) == {"shop": b"echo"}
    over.set()
    thread.join(5)
    assert not thread.is_alive()
    wire.close()
