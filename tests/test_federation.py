import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.data.tables import Table
from reticent.errors import DataError, JournalError, Late, MissingReplies, PrivacyError, Refused, ReticentError
from reticent.federation import Guests
from reticent.party import Meet, Policy
from tests.toys import Drive, Guest, Killed, Number, Toy, guest_door, letter, opened


def add(value: int = 1) -> Number:
    return Number(value)


def nothing(host: Any, guests: Guests[Guest]) -> None:
    return


def events(toy: Toy) -> Sequence[tuple[str, object]]:
    return toy.ledger.spent


def slow(toy: Toy, name: str, seconds: float, times: int = 1) -> None:
    """That guest takes its time with its next answers."""
    inner = toy.wire.inner
    desk, real, left = inner.desks[name], inner.desks[name].answer, [times]  # type: ignore[attr-defined]

    def later(data: bytes) -> bytes:
        left[0] -= 1
        time.sleep(seconds if left[0] >= 0 else 0)
        return bytes(real(data))

    desk.answer = later


def test_one_ask_is_one_round_and_every_guest_answers() -> None:
    with Toy(nothing, guests=("a", "b", "c")) as toy:
        replies = toy.federation.talk.ask(Guest.add, add(2))
        assert {name: reply.value for name, reply in replies.items()} == {"a": 2, "b": 2, "c": 2}
        assert (replies.missing, toy.ledger.rounds(), len(toy.federation.talk)) == ({}, 1, 3)
        assert replies.bytes == toy.wire.up + toy.wire.down
        each = toy.federation.talk.ask_each(Guest.add, {"c": add(1), "a": add(5)})
        assert {name: reply.value for name, reply in each.items()} == {"c": 3, "a": 7}


@settings(max_examples=15)
@given(st.permutations(["a", "b", "c", "d"]))
def test_replies_are_in_the_studys_order_whatever_order_they_came_in(order: list[str]) -> None:
    with Toy(nothing, guests=("a", "b", "c", "d")) as toy:

        class Shuffled:
            def exchange(self, letters: Any, within: float | None) -> Iterator[tuple[str, bytes | Exception]]:
                came = dict(toy.wire.exchange(letters, within))
                yield from ((name, came[name]) for name in order)

        toy.federation.talk._wire = Shuffled()  # type: ignore[assignment]
        assert list(toy.federation.talk.ask(Guest.add, add())) == ["a", "b", "c", "d"]


def test_all_answer_or_missing_replies_says_who_and_why() -> None:
    with Toy(nothing, policies={"telco": Policy(verbs=())}) as toy:
        with pytest.raises(MissingReplies, match=r"add: 1 of 2 guests answered, 2 needed; telco: policy of telco: verb 'add' is not among") as caught:
            toy.federation.talk.ask(Guest.add, add())
        assert isinstance(caught.value.missing["telco"], Refused)
        replies = toy.federation.talk.ask(Guest.add, add(), quorum=1)
        assert (list(replies), list(replies.missing)) == (["shop"], ["telco"])
        with pytest.raises(MissingReplies, match="0 of 1 guests answered, 1 needed"):
            toy.federation.talk.ask_each(Guest.add, {"telco": add()})


def test_a_late_guest_is_missing_on_the_ask_it_concerns_only() -> None:
    with Toy(nothing) as toy:
        slow(toy, "telco", 0.4)
        began = time.monotonic()
        replies = toy.federation.talk.ask(Guest.add, add(1), within=0.1, quorum=1)
        assert time.monotonic() - began < 0.3
        assert list(replies) == ["shop"]
        assert isinstance(replies.missing["telco"], Late)
        assert toy.federation.talk.ask(Guest.add, add(1), within=5.0)["telco"].value == 2, "it did the first, late; that answer was thrown away"
        slow(toy, "shop", 0.3)
        with pytest.raises(MissingReplies, match="no answer within"):
            toy.federation.talk.ask(Guest.add, add(1), within=0.05)


def test_a_question_of_another_class_is_refused_before_anything_is_sent() -> None:
    with Toy(nothing) as toy:
        with pytest.raises(ReticentError, match="verb 'add' is asked with Number, not with Meet"):
            toy.federation.talk.ask(Guest.add, Meet("x"))  # type: ignore[arg-type]
        assert toy.wire.carried == []


def test_a_guest_that_was_missing_is_missing_again_when_the_run_goes_on(tmp_path: Path) -> None:
    heard: list[tuple[list[str], list[str], int]] = []

    def drive(host: Any, guests: Guests[Guest]) -> None:
        replies = guests.ask(Guest.add, add(), quorum=1)
        heard.append((list(replies), [str(error) for error in replies.missing.values()], replies.bytes))
        if len(heard) == 1:
            raise Killed
        after = guests.ask(Guest.add, add())
        heard.append((list(after), [], 0))

    with Toy(drive, tmp_path, policies={"telco": Policy(verbs=())}) as toy, pytest.raises(Killed):
        toy.fit()
    with Toy(drive, tmp_path) as toy:  # its operator has changed his mind: for the asks that come
        toy.fit()
        assert [len(data) for _, data in toy.wire.carried] == [len(data) for _, data in toy.wire.carried][:4], "the first ask did not cross again"
    assert heard[1][:2] == heard[0][:2] == (["shop"], ["policy of telco: verb 'add' is not among verbs = []"])
    assert heard[2][0] == ["shop", "telco"]


def test_what_once_computed_is_read_after_a_kill_and_not_computed_again(tmp_path: Path) -> None:
    calls: list[int] = []

    def drive(host: Any, guests: Guests[Guest]) -> None:
        def compute() -> dict[str, Any]:
            calls.append(1)
            return {"x": torch.randn(3, generator=host.party.rng), "n": (1, "a")}

        host.found = host.once("found", compute, torch.ones(2))
        if len(calls) == 1 and not getattr(drive, "again", False):
            drive.again = True  # type: ignore[attr-defined]
            raise Killed

    with Toy(drive, tmp_path) as first, pytest.raises(Killed):
        first.fit()
    with Toy(drive, tmp_path) as second:
        second.fit()
        assert len(calls) == 1
        assert second.driver.found["n"] == (1, "a")
        assert torch.equal(second.driver.found["x"], torch.randn(3, generator=torch.Generator().manual_seed(0)))


def test_once_with_other_inputs_than_before_the_kill_is_refused(tmp_path: Path) -> None:
    def drive(value: float) -> Any:
        return lambda host, guests: setattr(host, "x", host.once("x", lambda: value, torch.tensor([value])))

    with Toy(drive(1.0), tmp_path) as toy:
        toy.fit()
    with Toy(drive(2.0), tmp_path) as toy, pytest.raises(JournalError, match=r"once\('x'\) was computed before the run was killed, from other inputs"):
        toy.fit()


def test_a_name_is_used_once() -> None:
    def twice(host: Any, guests: Guests[Guest]) -> None:
        host.once("x", lambda: 1)
        host.once("x", lambda: 2)

    def loops(host: Any, guests: Guests[Guest]) -> None:
        for _ in range(2):
            for _ in host.steps("epoch", range(2)):
                pass

    def nested(host: Any, guests: Guests[Guest]) -> None:
        for _ in host.steps("outer", range(2)):
            for _ in host.steps("inner", range(2)):
                pass

    for drive, match in ((twice, "used a second time"), (loops, "used a second time"), (nested, "do not nest")):
        with Toy(drive) as toy, pytest.raises(ReticentError, match=match):
            toy.fit()


def program(host: Any, guests: Guests[Guest]) -> None:
    """Two loops in a row, one of them left by break, once() within and without them, asks everywhere: its log is what it heard."""
    host.log = [reply.value for reply in guests.ask(Guest.add, add(1)).values()]
    for item in host.steps("first", [3, 5, 7]):
        host.log += [reply.value for reply in guests.ask(Guest.add, add(item)).values()]
        host.log += [host.once("half", lambda item=item: item / 2)]
        host.log += [round(float(reply.x.sum()), 4) for reply in guests.ask(Guest.draw, add(item)).values()]
        if item == host._leave:
            break
    host.log.append(host.once("between", lambda: float(torch.rand(1, generator=host.party.rng))))
    host.log += [reply.value for reply in guests.ask(Guest.add, add(100)).values()]
    for item in host.steps("second", range(4)):
        host.log.append(float(torch.rand(1, generator=host.party.rng)))
        host.log += [reply.value for reply in guests.ask(Guest.add, add(item)).values()]
    host.log += [reply.value for reply in guests.ask(Guest.add, add(0)).values()]


def with_break(at: int) -> Drive:
    """`program` whose first loop is left at item `at`."""

    def drive(host: Any, guests: Guests[Guest]) -> None:
        host._leave = at
        program(host, guests)

    return drive


@pytest.mark.parametrize("snapshots", [False, True])
@pytest.mark.parametrize("leave", [0, 5])
def test_a_driver_killed_before_any_ask_goes_on_to_the_same_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leave: int, snapshots: bool) -> None:
    if snapshots:  # after every step and every answer
        monkeypatch.setattr("reticent.journal.SNAPSHOT_EVERY", 0.0)
        monkeypatch.setattr("reticent.journal.DROP_FROM", 0)
    with Toy(with_break(leave)) as whole:
        expected = whole.fit().driver.log
        asks, lines = sum(1 for _ in whole.wire.carried) // 4, len(whole.ledger.lines())
    for when in range(asks):
        folder, count = tmp_path / str(when), [0]
        with Toy(with_break(leave), folder) as toy:
            inner = toy.wire

            class Deadly:
                def exchange(
                    self, letters: Any, within: float | None, inner: Any = inner, count: list[int] = count, when: int = when
                ) -> Iterator[tuple[str, bytes | Exception]]:
                    count[0] += 1
                    if count[0] > when:
                        raise Killed
                    yield from inner.exchange(letters, within)

            toy.federation.talk._wire = Deadly()  # type: ignore[assignment]
            with pytest.raises(Killed):
                toy.fit()
        with Toy(with_break(leave), folder) as toy:
            assert toy.fit().driver.log == expected, f"killed at ask {when}"
            found = toy.ledger.lines()
            assert len([entry for entry in found if not entry.get("again")]) == lines
            assert len([entry for entry in found if entry.get("again")]) <= 2
        with Toy(with_break(leave), folder) as toy:
            assert toy.fit().driver.log == expected, "a finished run, run again, asks nobody"
            assert toy.wire.carried == []


def test_steps_hand_out_every_item_once_and_number_the_letters() -> None:
    numbers: list[str] = []

    def drive(host: Any, guests: Guests[Guest]) -> None:
        guests.ask(Guest.add, add())
        for _ in host.steps("loop", iter("xy")):
            guests.ask(Guest.add, add())
            guests.ask(Guest.add, add())
        guests.ask(Guest.add, add())

    with Toy(drive, guests=("shop",)) as toy:
        toy.fit()
        numbers = [entry["n"] for entry in toy.ledger.lines() if entry["way"] == "down"]
        assert numbers == ["fit/0", "fit/loop/0/0", "fit/loop/0/1", "fit/loop/1/0", "fit/loop/1/1", "fit/1"]
        assert [entry["ask"] for entry in toy.ledger.lines() if entry["way"] == "up"] == list(range(6))


def blurring(host: Any, guests: Guests[Guest]) -> None:
    host.heard = [reply.x.tensor for value in (1, 1, 2) for reply in guests.ask(Guest.blur, add(value)).values()]


def test_noise_of_a_killed_run_is_the_very_same_wherever_it_was_killed(tmp_path: Path) -> None:
    question = letter(Guest.blur, add(), ask=1)
    seen: list[bytes] = []
    guest_door(folder=tmp_path).close()
    for journaled in (False, True):
        door = guest_door(folder=tmp_path)
        door.answer(letter(Guest.add, add(), ask=0))
        real_add, real_seal = door.journal.add, door._seal_answer

        def dying(*arguments: Any, real_add: Any = real_add, journaled: bool = journaled, **facts: Any) -> None:
            if journaled:
                real_add(*arguments, **facts)
            raise Killed

        def seal(*arguments: Any, real_seal: Any = real_seal) -> Any:
            seen.append(real_seal(*arguments))
            return seen[-1]

        door.journal.add, door._seal_answer = dying, seal  # type: ignore[method-assign, assignment]
        with pytest.raises(Killed):
            door.answer(question)
        door.close()
    door = guest_door(folder=tmp_path)
    answer = door.answer(question)
    assert seen == [answer, answer], "computed before the journal was written, and after: the same noise"
    spent = [event for entry in door.ledger.lines() for event in entry["events"] if not entry.get("again")]
    assert spent == [{"type": "GaussianDpEvent", "noise_multiplier": 2.0}]
    door.close()


def test_another_question_number_run_or_party_has_other_noise_and_the_seed_has_no_part(tmp_path: Path) -> None:
    def noise(folder: str, value: int = 1, ask: int = 0, name: str = "shop", seed: int = 0) -> torch.Tensor:
        door = guest_door(name, tmp_path / folder)
        door.party.rng.manual_seed(seed)
        found = opened(door.answer(letter(Guest.blur, add(value), ask=ask, to=name)), Guest.blur, ask=ask, guest=name).x.tensor - value / 2
        door.close()
        return torch.as_tensor(found)

    first = noise("a")
    assert torch.equal(noise("a", seed=99), first), "the same run: from its journal"
    secret = (tmp_path / "a" / "secret").read_bytes()
    for folder in ("b", "c", "d", "e", "f"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "secret").write_bytes(secret)
    assert torch.equal(noise("b", seed=5), first), "the run secret alone draws it, and no seed"
    others = [noise("c", value=2), noise("d", ask=1), noise("e", name="telco"), noise("another run")]
    assert all(not torch.allclose(other, first) and abs(float((other - first).mean())) > 0 for other in others)
    assert abs(float(torch.corrcoef(torch.stack([first.flatten(), others[0].flatten()]))[0, 1])) < 0.9
    assert torch.equal(torch.randn(3, generator=torch.Generator().manual_seed(0)), torch.randn(3, generator=guest_door().party.rng)), "and moves no generator"


def test_events_stand_in_the_ledger_exactly_once_after_a_resume(tmp_path: Path) -> None:
    with Toy(blurring, tmp_path / "whole") as whole:
        whole.fit()
        expected = events(whole)
        assert len(expected) == 6
    for point in range(1, 25):
        folder, count = tmp_path / str(point), [0]
        with pytest.MonkeyPatch.context() as patch:
            from reticent.journal import Journal
            from reticent.ledger import Ledger

            for kind, name in ((Journal, "add"), (Ledger, "add")):
                real = getattr(kind, name)

                def deadly(self: Any, *arguments: Any, real: Any = real, count: list[int] = count, point: int = point, **facts: Any) -> None:
                    count[0] += 1
                    if count[0] == point:
                        raise Killed
                    real(self, *arguments, **facts)

                patch.setattr(kind, name, deadly)
            try:
                with Toy(blurring, folder) as toy:
                    toy.fit()
            except Killed:
                pass
        with Toy(blurring, folder) as toy:
            toy.fit()
            assert sorted(map(str, events(toy))) == sorted(map(str, expected)), f"killed at point {point}"
            for name, door in toy.doors.items():
                assert door.ledger.spent == [(name, {"type": "GaussianDpEvent", "noise_multiplier": 2.0})] * 3


def test_noise_at_the_host_is_bound_to_its_step_and_drawn_again_after_a_kill(tmp_path: Path) -> None:
    def drive(kill: int) -> Any:
        def fit(host: Any, guests: Guests[Guest]) -> None:
            host.noise = [float(host.once("first", lambda: host.party.privacy.stream().normal((1,))))]
            for step in host.steps("loop", range(3)):
                host.noise.append(float(host.party.privacy.stream().normal((1,))))
                host.once("within", lambda: host.party.privacy.stream().bytes(4))
                host.noise.append(float(host.party.privacy.stream().normal((1,))))
                if step == kill:
                    raise Killed
            with pytest.raises(PrivacyError):
                host.party.privacy.stream()

        return fit

    with Toy(drive(-1), tmp_path / "whole") as toy:
        toy.fit()
        expected = toy.driver.noise
        assert len(set(expected)) == 7
    for kill in range(3):
        (tmp_path / str(kill) / "bank").mkdir(parents=True)
        with Toy(drive(kill), tmp_path / str(kill)) as toy, pytest.raises(Killed):
            toy.fit()
        before = toy.driver.noise
        with Toy(drive(-1), tmp_path / str(kill)) as toy:
            assert toy.fit().driver.noise[: len(before)] == before
            assert toy.driver.noise != expected, "another run has other noise"


def test_parties_with_other_ids_or_rows_are_told_before_anything_is_learnt() -> None:
    with Toy(nothing, guests=("shop",)) as toy:
        toy.federation.fit()
        assert [entry["n"] for entry in toy.ledger.lines()] == ["meet/0", "meet/0"]
    with Toy(nothing, guests=("shop",)) as toy:
        toy.doors["shop"].party.table = Table(rows=7)
        with pytest.raises(DataError, match="bank holds 6 rows and shop 7: bring both tables to the same people"):
            toy.federation.fit()


def test_the_drivers_model_is_kept_and_opened_again(tmp_path: Path) -> None:
    def drive(host: Any, guests: Guests[Guest]) -> None:
        host.model = torch.ones(2) * guests.ask(Guest.add, add(4))["shop"].value

    with Toy(drive, tmp_path / "run") as toy:
        toy.fit()
        toy.federation.save(tmp_path / "state")
    with Toy(drive) as toy:
        toy.federation.reopen(tmp_path / "state")
        assert toy.driver.model.tolist() == [4, 4]
        assert toy.federation.place.ask == 1
