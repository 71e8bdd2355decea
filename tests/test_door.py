import logging
from pathlib import Path

import pytest

from reticent.door import Refusal
from reticent.errors import GuestGone, JournalError, LetterError, MissingReplies, Refused, ReticentError
from reticent.message import Letter
from reticent.party import Meet, Policy, Present, verb_of, verbs_of
from tests.letters import rewritten
from tests.toys import CANARY, STUDY, Blurred, Guest, Number, Toy, Values, guest_door, host_door, letter, opened


def refusal(answer: bytes) -> Refusal:
    assert Letter.parse(answer).head["way"] == "refusal"
    return Refusal.decode(answer)


def test_a_question_is_answered_with_the_verbs_own_class() -> None:
    door = guest_door()
    answer = door.answer(letter(Guest.add, Number(3)))
    assert opened(answer, Guest.add).value == 3
    assert Letter.parse(answer).head == {
        "format": 1, "run": "run-1", "study": STUDY, "ask": 0, "n": "fit/0", "kept": "-00000000001", "way": "up", "verb": "add", "to": "bank", "from": "shop",
    }  # fmt: skip


def test_every_exit_of_a_guest_is_read_from_its_class() -> None:
    assert [(v.name, v.question, v.answer) for v in verbs_of(Guest)] == [
        ("add", Number, Number), ("draw", Number, Values), ("many", Number, Values), ("blur", Number, Blurred), ("quote", Number, Number), ("meet", Meet, Present),
    ]  # fmt: skip


def test_a_forbidden_verb_is_refused_with_the_rule_and_meet_is_always_allowed() -> None:
    door = guest_door(policy=Policy(verbs=("add",)))
    said = refusal(door.answer(letter(Guest.draw, Number(1))))
    assert (said.error, said.sentence) == ("Refused", "policy of shop: verb 'draw' is not among verbs = ['add']")
    assert opened(door.answer(letter(Guest.meet, Meet("k"), ask=1)), Guest.meet, ask=1).rows == 6
    with pytest.raises(Refused, match="is not among verbs"):
        opened(door.answer(letter(Guest.draw, Number(1), ask=2)), Guest.draw, ask=2)


def test_the_byte_cap_counts_whole_letters_and_nothing_over_it_leaves() -> None:
    free = guest_door()
    each = len(free.answer(letter(Guest.add, Number(1))))
    door = guest_door(policy=Policy(max_bytes=2 * each))
    for ask in (0, 1):
        assert Letter.parse(door.answer(letter(Guest.add, Number(1), ask=ask))).head["way"] == "up"
    said = refusal(door.answer(letter(Guest.add, Number(1), ask=2)))
    assert said.sentence == f"policy of shop: max_bytes is {2 * each:,}, and with this answer to 'add' {3 * each:,} bytes would have left"
    assert door.ledger.bytes("up") - sum(line["bytes"] for line in door.ledger.lines() if line.get("refused")) == 2 * each


def test_unnoised_never_refuses_at_the_start_and_names_the_verb() -> None:
    with pytest.raises(Refused, match="policy of shop: unnoised = \"never\", but verb 'draw' answers with Values"):
        guest_door(policy=Policy(unnoised="never"))


def test_approve_asks_a_person_once_and_before_anything_leaves() -> None:
    asked: list[str] = []

    def yes(sentence: str) -> bool:
        asked.append(sentence)
        return True

    door = guest_door(policy=Policy(approve=True), confirm=yes)
    assert asked == []
    for ask in range(2):
        opened(door.answer(letter(Guest.add, Number(1), ask=ask)), Guest.add, ask=ask)
    assert len(asked) == 1
    assert "bank asks shop" in asked[0]
    assert Values.reveals() in asked[0]
    for confirm in (None, lambda sentence: False):
        said = refusal(guest_door(policy=Policy(approve=True), confirm=confirm).answer(letter(Guest.add, Number(1))))
        assert said.sentence == "policy of shop: approve = true, and nobody has said yes: start this party with `reticent join` on a terminal"


def test_another_study_is_refused_and_both_hashes_are_shown() -> None:
    said = refusal(guest_door(study="7" * 64).answer(letter(Guest.add, Number(1))))
    assert "its hash is 7777777777777777…, the host's 5555555555555555…" in said.sentence


def test_another_run_another_party_and_another_way_are_refused() -> None:
    door = guest_door()
    opened(door.answer(letter(Guest.add, Number(1))), Guest.add)
    for changed, match in (
        (letter(Guest.add, Number(1), ask=1, run="run-2"), "takes part in run run-1, this letter is of run run-2"),
        (letter(Guest.add, Number(1), ask=1, to="telco"), "to 'telco'"), (letter(Guest.add, Number(1), ask=1, **{"from": "tax"}), "from 'tax'"),
        (letter(Guest.add, Number(1), ask=1, way="up"), "'up'"), (letter(Guest.add, Number(1), ask=1, **{"verb": "steal"}), "'steal' is no verb of shop's: add, draw"),
        (letter(Guest.add, Number(1), ask=1, **{"verb": "setup"}), "no verb"),
    ):  # fmt: skip
        said = refusal(door.answer(changed))
        assert said.error == "LetterError"
        assert match in said.sentence
    assert opened(door.answer(letter(Guest.add, Number(1), ask=1)), Guest.add, ask=1).value == 2, "nothing of that was executed"


@pytest.mark.parametrize("change", [
    {"ask": True}, {"ask": "0"}, {"ask": -5}, {"ask": 1.0}, {"ask": None}, {"kept": False}, {"kept": -1}, {"kept": "x"}, {"n": 3}, {"n": "x" * 300}, {"verb": ["add"]}, {"run": {}}, {"from": None},
    {"to": "x" * 5000}, {"study": 0},
])  # fmt: skip
def test_a_head_that_says_nonsense_gets_a_sentence(change: dict[str, object]) -> None:
    answer = guest_door().answer(rewritten(letter(Guest.add, Number(1)), lambda layout, inner: inner.update(change)))
    assert refusal(answer).error == "LetterError"


def test_bytes_that_are_no_letter_get_a_sentence() -> None:
    for data in (b"", b"\0" * 8, b"GET / HTTP/1.1\r\n\r\n", bytes(1000)):
        assert refusal(guest_door().answer(data)).error == "LetterError"
    question = letter(Guest.add, Meet("x"))
    assert refusal(guest_door().answer(question)).sentence == "Number: field 'value' is missing"


@pytest.mark.parametrize("killed", [False, True])
def test_a_repeated_number_is_answered_with_the_same_bytes_and_marked_again(tmp_path: Path, killed: bool) -> None:
    door = guest_door(folder=tmp_path)
    first = [door.answer(letter(Guest.draw, Number(1), ask=ask)) for ask in range(3)]
    if killed:
        door.close()
        door = guest_door(folder=tmp_path)
    assert door.answer(letter(Guest.draw, Number(1), ask=1)) == first[1]
    assert door.answer(letter(Guest.draw, Number(1), ask=1, kept="000000000000")) == first[1], "kept may differ when a question is asked again"
    lines = door.ledger.lines()
    assert [line.get("again", False) for line in lines] == [False] * 6 + [True] * 4
    assert door.ledger.again() == 2 * (len(first[1]) + len(letter(Guest.draw, Number(1), ask=1)))
    fresh = guest_door(folder=None)
    expected = [fresh.answer(letter(Guest.draw, Number(1), ask=ask)) for ask in range(4)]
    assert expected[:3] == first
    assert door.answer(letter(Guest.draw, Number(1), ask=3)) == expected[3], "a repeated question changes nothing of the guest"
    door.close()


def test_the_same_number_with_another_question_is_refused(tmp_path: Path) -> None:
    door = guest_door(folder=tmp_path)
    door.answer(letter(Guest.add, Number(1)))
    for other in (letter(Guest.add, Number(2)), letter(Guest.draw, Number(1)), letter(Guest.add, Number(1), ask=1, n="fit/0")):
        assert "number fit/0 was answered already, and this is another question" in refusal(door.answer(other)).sentence
    door.close()


def test_an_exception_in_a_verb_crosses_as_a_sentence_without_the_data(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        answer = guest_door().answer(letter(Guest.quote, Number(1)))
    assert CANARY.encode() not in answer
    assert refusal(answer).sentence == "ValueError in verb 'quote': shop's own log says more"
    assert CANARY in caplog.text, "the party's own log has the trace"


def test_the_canary_does_not_cross_any_wire_of_a_federation() -> None:
    toy = Toy(lambda host, guests: guests.ask(Guest.quote, Number(1)) and None)
    with pytest.raises(MissingReplies, match="quote: 0 of 2 guests answered, 2 needed; shop: ValueError in verb 'quote'") as caught:
        toy.fit()
    assert all(CANARY.encode() not in data for _, data in toy.wire.carried)
    assert CANARY not in str(caught.value)


def test_a_refusal_is_raised_at_the_host_as_what_it_was() -> None:
    for name, kind in (
        ("Refused", Refused),
        ("LetterError", LetterError),
        ("MissingReplies", ReticentError),
        ("GuestGone", ReticentError),
        ("Mapping", ReticentError),
        ("x", ReticentError),
    ):
        answer = guest_door().seal(Refusal(name, "a sentence"), to="bank", verb="add", way="refusal", n="fit/0", ask=0)
        with pytest.raises(kind, match="a sentence") as caught:
            opened(answer, Guest.add)
        assert not isinstance(caught.value, MissingReplies | GuestGone)


def test_an_answer_that_is_not_the_one_asked_for_is_refused_by_the_host() -> None:
    door = guest_door()
    answer = door.answer(letter(Guest.add, Number(1)))
    host = host_door()
    for expected in (
        {"guest": "telco", "verb": verb_of(Guest.add), "n": "fit/0", "ask": 0}, {"guest": "shop", "verb": verb_of(Guest.draw), "n": "fit/0", "ask": 0},
        {"guest": "shop", "verb": verb_of(Guest.add), "n": "fit/1", "ask": 0}, {"guest": "shop", "verb": verb_of(Guest.add), "n": "fit/0", "ask": 1},
    ):  # fmt: skip
        with pytest.raises(LetterError):
            host.open(answer, **expected)  # type: ignore[arg-type]
    with pytest.raises(LetterError, match="in run 'run-1'"):
        host_door(run="run-2").open(answer, guest="shop", verb=verb_of(Guest.add), n="fit/0", ask=0)


def test_a_verb_that_answers_with_another_class_is_an_error() -> None:
    door = guest_door()
    door._verbs["add"] = lambda ask: Meet("x")
    assert "should answer with Number, it gave Meet" in refusal(door.answer(letter(Guest.add, Number(1)))).sentence


def test_a_restarted_guest_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    whole, killed = guest_door(), guest_door(folder=tmp_path)
    for ask in range(8):
        question = letter(Guest.draw if ask % 2 else Guest.add, Number(ask), ask=ask)
        if ask == 4:
            killed.keep(ask - 1)  # a snapshot, then answers after it that are executed again
        if ask in (2, 4, 7):
            killed.close()
            killed = guest_door(folder=tmp_path)
        assert killed.answer(question) == whole.answer(question)
    killed.close()


def test_a_restarted_guest_remembers_what_a_verb_did_before_it_failed(tmp_path: Path) -> None:
    whole, killed = guest_door(), guest_door(folder=tmp_path)
    script = [
        (Guest.add, 1, 0),
        (Guest.quote, 10, 1),
        (Guest.draw, 2, 2),
        (Guest.quote, 100, 3),
        (Guest.quote, 100, 3),
        (Guest.add, 1, 4),
        (Guest.quote, 1000, 5),
    ]
    for asked, value, ask in script:
        question = letter(asked, Number(value), ask=ask)
        assert killed.answer(question) == whole.answer(question)
        if ask == 2:
            killed.keep()
        killed.close()
        killed = guest_door(folder=tmp_path)
    killed.keep()
    killed.close()
    killed = guest_door(folder=tmp_path)
    assert opened(killed.answer(letter(Guest.add, Number(0), ask=6)), Guest.add, ask=6).value == 1212
    killed.close()


def test_a_refused_answer_is_computed_again_after_a_restart_and_still_refused(tmp_path: Path) -> None:
    door = guest_door(folder=tmp_path, policy=Policy(max_bytes=100))
    first = refusal(door.answer(letter(Guest.add, Number(5))))
    door.close()
    door = guest_door(folder=tmp_path, policy=Policy(max_bytes=100_000))
    assert "max_bytes is 100" in first.sentence
    assert opened(door.answer(letter(Guest.add, Number(5))), Guest.add).value == 10, "in one process it would have been 10 too"
    assert [line.get("refused", False) for line in door.ledger.lines()] == [False, True, False, False]
    door.close()


def test_a_restarted_guest_that_gives_other_bits_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    door = guest_door(folder=tmp_path)
    door.answer(letter(Guest.draw, Number(1)))
    door.close()
    usual = Guest.setup

    def other(guest: Guest) -> None:
        usual(guest)
        guest.total = 5

    monkeypatch.setattr(Guest, "setup", other)
    with pytest.raises(JournalError, match=r"verb 'draw' \(number fit/0\) gave other bits"):
        guest_door(folder=tmp_path)


def test_a_number_that_was_answered_is_not_answered_anew_under_another_name_or_after_its_letter_was_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reticent.journal.DROP_FROM", 1)
    door = guest_door(folder=tmp_path)
    door.answer(letter(Guest.add, Number(1), ask=0))
    door.answer(letter(Guest.add, Number(1), ask=1))
    door._clock.last -= 60
    door.answer(letter(Guest.add, Number(1), ask=2, kept="000000000001"))
    for again in (letter(Guest.add, Number(1), ask=0), letter(Guest.add, Number(1), ask=2, n="fit/other")):
        assert "nothing is released twice" in refusal(door.answer(again)).sentence
    door.close()


def test_letters_that_nobody_will_ask_for_again_are_dropped_with_the_guests_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reticent.journal.DROP_FROM", 1)
    door = guest_door(folder=tmp_path)
    for ask in range(5):
        if ask == 4:
            door._clock.last -= 60  # a snapshot is due after this one
        door.answer(letter(Guest.add, Number(1), ask=ask, kept=f"{max(ask - 2, -1):012d}"))
    assert sorted(record.facts["ask"] for record in door.journal.records("answer")) == [3, 4]
    door.close()
    door = guest_door(folder=tmp_path)
    assert opened(door.answer(letter(Guest.add, Number(1), ask=5)), Guest.add, ask=5).value == 6
    assert [line["ask"] for line in door.ledger.lines() if line["way"] == "up"] == [0, 1, 2, 3, 4, 5], "lines stay when letters go"
    door.close()
