import json
import math
import random
import tracemalloc
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load as oracle
from torch import Tensor

from reticent import message
from reticent.algorithms import fedonce, splitnn
from reticent.errors import LetterError
from reticent.message import DTYPES, Letter, Message, Noised, fields_of
from reticent.party import Meet, Present
from tests.letters import EVENT, HEAD, Everything, Plain, everything, examples, halves, joined, read, rewritten, spoiled

Change = Callable[[dict[str, object], dict[str, object]], None]

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
whole = st.integers(-message.WHOLE, message.WHOLE)
share = st.floats(allow_nan=False, allow_infinity=False)


def same_bits(a: Tensor, b: Tensor) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.contiguous().view(torch.uint8).equal(b.contiguous().view(torch.uint8))


def same(a: object, b: object) -> bool:
    """Equal to the bit: NaN is itself, -0.0 is not 0.0."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return same_bits(a.reshape(-1), b.reshape(-1)) and a.shape == b.shape
    if isinstance(a, Noised) and isinstance(b, Noised):
        return same(a.tensor, b.tensor) and a.event == b.event
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, float) and isinstance(b, float):
        return a == b and math.copysign(1, a) == math.copysign(1, b)
    return type(a) is type(b) and a == b


def same_message(a: Message, b: Message) -> bool:
    return type(a) is type(b) and all(same(getattr(a, f.name), getattr(b, f.name)) for f in fields_of(type(a)))


def finite(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@st.composite
def tensors(draw: st.DrawFn, dtypes: tuple[torch.dtype, ...] = FLOATS, rank: int | None = None) -> Tensor:
    dtype = draw(st.sampled_from(dtypes))
    shape = tuple(draw(st.lists(st.integers(0, 4), min_size=rank or 0, max_size=3 if rank is None else rank)))
    if dtype in FLOATS:
        return finite(shape, dtype, draw(st.integers(0, 99)))
    return torch.randint(0, 2 if dtype == torch.bool else 100, shape, generator=torch.Generator().manual_seed(draw(st.integers(0, 99)))).to(dtype)


ANY = tuple(kind for _, kind in DTYPES.values())
messages = st.one_of(
    st.builds(Plain, words), st.builds(Meet, words), st.builds(Present, whole, words), st.builds(fedonce.Learn, tensors((torch.uint8, torch.int64), 1)),
    st.builds(fedonce.Representation, tensors((torch.float32, torch.float16), 2)), st.builds(splitnn.Gradient, tensors((torch.float32,), 2), whole, whole),
    st.builds(
        Everything, z=tensors((torch.float32,), 2), numbers=st.none() | tensors((torch.float16,), 2), rows=tensors((torch.uint8, torch.int64), 1), anything=tensors(ANY),
        wild=tensors(FLOATS[:2]).map(lambda t: t / 0), noised=tensors().map(lambda t: Noised(t, EVENT)), layers=st.dictionaries(words, tensors(ANY), max_size=3),
        truth=st.booleans(), count=whole, share=share, word=words, maybe=st.none() | whole, counts=st.lists(whole, max_size=3).map(tuple),
        shares=st.lists(share, max_size=3).map(tuple), words=st.lists(words, max_size=3).map(tuple), truths=st.none() | st.lists(st.booleans(), max_size=3).map(tuple),
    ),
)  # fmt: skip


def refused(letter: bytes, kind: type[Message] = Everything, match: str | None = None) -> None:
    with pytest.raises(LetterError, match=match):
        read(kind, letter)


def with_value(name: str, value: object) -> bytes:
    def change(layout: dict[str, object], inner: dict[str, object]) -> None:
        inner["values"][name] = value  # type: ignore[index]

    return rewritten(everything().encode(**HEAD), change)


def with_layout(name: str, **facts: object) -> bytes:
    def change(layout: dict[str, object], inner: dict[str, object]) -> None:
        layout[name] = {**layout[name], **facts}  # type: ignore[dict-item]

    return rewritten(everything().encode(**HEAD), change)


def test_a_letter_is_these_bytes() -> None:
    letter = fedonce.Representation(torch.tensor([[1.0, 2.0]])).encode(run="r")
    inner = json.dumps({"format": 1, "run": "r", "values": {}}, separators=(",", ":"))
    text = json.dumps({"__metadata__": {"reticent": inner}, "z": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]}}, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    assert letter == len(text).to_bytes(8, "little") + text + bytes.fromhex("0000803f00000040")


@given(messages)
def test_every_message_comes_back_bit_for_bit(said: Message) -> None:
    letter = said.encode(**HEAD)
    heard = type(said).decode(letter)
    assert same_message(said, heard)
    assert heard.encode(**HEAD) == letter
    assert Letter.parse(letter).head == {"format": 1, **HEAD}


@given(messages)
def test_safetensors_reads_our_bytes_and_weigh_says_their_number(said: Message) -> None:
    letter = said.encode(**HEAD)
    assert said.weigh(**HEAD) == len(letter)
    theirs = oracle(letter)
    ours = {name: tensor for _, name, tensor in said._named()}
    assert theirs.keys() == ours.keys()
    assert all(same(theirs[name], ours[name].detach()) for name in ours)


def test_weigh_needs_shapes_only() -> None:
    assert fedonce.Representation(torch.empty(500, 3, device="meta")).weigh(**HEAD) == len(fedonce.Representation(torch.ones(500, 3)).encode(**HEAD))
    assert 12e9 < fedonce.Representation(torch.empty(1_000_000_000, 3, device="meta")).weigh(**HEAD) < 12e9 + 1000


def test_a_strided_tensor_with_a_graph_and_a_parameter_are_said_as_their_values() -> None:
    base = torch.arange(12.0).reshape(3, 4).requires_grad_()
    heard = fedonce.Representation.decode(fedonce.Representation((base * 2).T[::2]).encode())
    assert torch.equal(heard.z, (base.detach() * 2).T[::2])
    assert torch.equal(fedonce.Representation.decode(fedonce.Representation(torch.nn.Parameter(base.detach())).encode()).z, base.detach())


@pytest.mark.parametrize("said", examples(), ids=lambda said: type(said).__name__)
def test_a_letter_cut_at_any_byte_is_refused(said: Message) -> None:
    letter = said.encode(**HEAD)
    for length in range(len(letter)):
        refused(letter[:length], type(said))
    refused(letter + b"\0", type(said))
    assert same_message(said, read(type(said), letter))


@pytest.mark.parametrize("said", examples(), ids=lambda said: type(said).__name__)
def test_any_changed_byte_gives_a_sentence_or_another_message_of_the_same_class(said: Message) -> None:
    letter = said.encode(**HEAD)
    for at in range(len(letter)):
        spoilt = bytearray(letter)
        spoilt[at] ^= 0x15
        sentence, heard = "", None
        try:
            heard = read(type(said), bytes(spoilt))
        except LetterError as error:
            sentence = str(error)
        assert isinstance(heard, type(said)) or 0 < len(sentence) < 500


def test_thousands_of_spoiled_letters_give_sentences_only() -> None:
    rng, said = random.Random(7), examples()
    letters = [one.encode(**HEAD) for one in said]
    outcomes = [0, 0]
    for _ in range(6000):
        number = rng.randrange(len(said))
        try:
            heard = read(type(said[number]), spoiled(letters[number], rng))
            heard.encode(**HEAD)
            outcomes[0] += 1
        except LetterError as error:
            str(error).encode()
            outcomes[1] += 1
    assert min(outcomes) > 100, "both what is refused and what is not were met"


@pytest.mark.parametrize("name, value", [
    ("truth", 1), ("truth", None), ("count", True), ("count", 1.0), ("count", "1"), ("count", None), ("count", 2**63), ("count", -(2**63)), ("count", [1]), ("share", "0.5"),
    ("share", True), ("share", None), ("share", 10**400), ("word", 3), ("word", None), ("word", ["a"]), ("word", "\ud800"), ("maybe", False), ("maybe", 0.5), ("counts", 1),
    ("counts", [1, True]), ("counts", [1.0]), ("counts", None), ("counts", [[1]]), ("shares", ["x"]), ("words", [1]), ("words", "ab"), ("truths", [1]), ("truths", True),
    ("noised", None), ("noised", []), ("noised", {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {}}}}}}}}}}}}}}}}}}),
    ("layers", 1), ("layers", True), ("layers", 2.0), ("layers", None), ("layers", -2), ("z", 1), ("numbers", {}), ("other", 1),
])  # fmt: skip
def test_a_plain_value_of_another_type_is_refused(name: str, value: object) -> None:
    refused(with_value(name, value))


def test_whole_numbers_do_for_floats_and_become_them() -> None:
    heard = read(Everything, with_value("shares", [1, 0.5]))
    assert isinstance(heard, Everything)
    assert heard.shares == (1.0, 0.5)
    assert [type(item) for item in heard.shares] == [float, float]


@pytest.mark.parametrize("facts, match", [
    ({"dtype": "F64"}, "should take"), ({"dtype": "F99"}, "known type"), ({"dtype": []}, "known type"), ({"dtype": None}, "known type"), ({"dtype": "I32"}, "float32"),
    ({"shape": [4]}, "dimensions"), ({"shape": [1, 2, 2]}, "dimensions"), ({"shape": [-2, -2]}, "impossible"), ({"shape": [True, 4]}, "impossible"),
    ({"shape": [2.0, 2]}, "impossible"), ({"shape": "22"}, "impossible"), ({"shape": [2, 3]}, "should take"), ({"shape": [2**32, 2**32]}, "impossible"),
    ({"shape": [0, 2**33, 2**33, 2**33]}, "impossible"), ({"shape": [1] * 9}, "impossible"), ({"shape": [10**30, 2]}, "impossible"), ({"data_offsets": [0, 15]}, "should take"),
    ({"data_offsets": [16, 0]}, "should take"), ({"data_offsets": [-16, 0]}, "impossible"), ({"data_offsets": [0, 16, 16]}, "impossible"), ({"data_offsets": [False, 16]}, "impossible"),
    ({"data_offsets": [2**62, 2**62 + 16]}, "impossible"), ({"more": 1}, "not described"),
])  # fmt: skip
def test_a_tensor_described_wrongly_is_refused(facts: dict[str, object], match: str) -> None:
    refused(with_layout("z", **facts), match=match)


def test_tensors_that_overlap_or_leave_a_gap_are_refused() -> None:
    said = splitnn.Start(torch.zeros(8, dtype=torch.uint8), 0, 0.1, 0).encode(**HEAD)
    layout = json.loads(halves(said)[0])

    def two(first: list[int], second: list[int], length: int) -> bytes:
        marked = {**layout, "rows": {"dtype": "U8", "shape": [first[1] - first[0]], "data_offsets": first}}
        return joined(json.dumps({**marked, "x": {"dtype": "U8", "shape": [second[1] - second[0]], "data_offsets": second}}).encode(), bytes(length))

    for first, second, length in (([0, 8], [4, 12], 12), ([0, 8], [9, 12], 12), ([1, 8], [8, 12], 12), ([0, 8], [8, 12], 13), ([0, 8], [0, 8], 8)):
        refused(two(first, second, length), splitnn.Start, "overlap|gap|bytes of data")
    refused(two([0, 8], [8, 12], 12), splitnn.Start, "unknown fields 'x'")


def test_missing_and_unknown_fields_are_named() -> None:
    refused(rewritten(everything().encode(), lambda layout, inner: inner["values"].pop("word")), match="'word' is missing")  # type: ignore[attr-defined]
    refused(rewritten(Plain("x").encode(), lambda layout, inner: inner["values"].update(colour=1)), Plain, "unknown fields 'colour'")  # type: ignore[attr-defined]
    refused(Plain("x").encode(), Meet, "'key' is missing")
    refused(fedonce.Representation(torch.ones(1, 1)).encode(), splitnn.Activations, "'h' is missing")


def test_a_key_that_stands_twice_is_refused() -> None:
    letter = Plain("x").encode()
    header, _ = halves(letter)
    refused(joined(header.rstrip()[:-1] + b',"__metadata__":{"reticent":"{}"}}', b""), Plain, "twice")
    refused(
        letter.replace(b'{\\"word\\":\\"x\\"}', b'{\\"word\\":\\"x\\",\\"word\\":\\"y\\"}').replace(letter[:8], (len(header) + 15).to_bytes(8, "little")),
        Plain,
        "twice",
    )


@pytest.mark.parametrize("text", [
    b"", b"[]", b"null", b"{", b"[" * 100_000, b'{"a":' * 100_000, b'{"__metadata__":{}}', b'{"__metadata__":{"reticent":1}}', b'{"__metadata__":{"reticent":"[]"}}',
    b'{"__metadata__":{"reticent":"{}","x":"y"}}', b'{"__metadata__":{"reticent":"{\\"format\\":1}"}}', b'{"__metadata__":{"reticent":"{\\"format\\":1.0,\\"values\\":{}}"}}',
    b'{"__metadata__":{"reticent":"{\\"format\\":true,\\"values\\":{}}"}}', b'{"__metadata__":{"reticent":"{\\"format\\":1,\\"values\\":{\\"word\\":NaN}}"}}',
    b'{"__metadata__":{"reticent":"{\\"format\\":1,\\"values\\":{\\"word\\":1e999}}"}}', b'{"__metadata__":{"reticent":"' + b'{\\"a\\":' * 3000 + b'"}}',
    b'{"__metadata__":{"reticent":"{\\"format\\":1,\\"n\\":' + b"[" * 500 + b"]" * 500 + b',\\"values\\":{\\"word\\":\\"x\\"}}"}}',
    b'{"__metadata__":{"reticent":"{\\"format\\":1,\\"n\\":' + b"9" * 5000 + b',\\"values\\":{\\"word\\":\\"x\\"}}"}}', '{"__metadata__":{"reticent":"{}"}}'.encode("utf-16"),
])  # fmt: skip
def test_a_header_that_is_no_letters_is_refused(text: bytes) -> None:
    refused(joined(text, b""), Plain)


def test_another_format_is_refused_by_name() -> None:
    refused(rewritten(Plain("x").encode(), lambda layout, inner: inner.update(format=2)), Plain, "format 2 came; this version reads format 1")


def test_nan_and_infinity_are_refused_where_they_are_not_declared() -> None:
    for number in (float("nan"), float("inf"), -float("inf")):
        for dtype in (torch.float32, torch.float16):
            z = torch.ones(3, 2, dtype=dtype)
            z[1, 1] = number
            refused(fedonce.Representation(z).encode(), fedonce.Representation, "NaN or infinite")
    heard = Everything.decode(everything().encode())
    assert same(heard.wild, everything().wild)


def test_a_truth_value_other_than_0_and_1_is_refused() -> None:
    letter = everything().encode()
    at = len(letter) - len(halves(letter)[1])  # `anything` is the first tensor: three truth values
    refused(letter[:at] + b"\2" + letter[at + 1 :], match="truth values")


def test_what_cannot_be_said_is_refused_before_it_leaves() -> None:
    for said, match in (
        (fedonce.Representation(torch.ones(2)), "1 dimensions"), (fedonce.Representation(torch.ones(2, 2, dtype=torch.int64)), "int64"), (Plain(word=3), "int came"),  # type: ignore[arg-type]
        (Present(True, "x"), "bool came"), (Present(2**63, "x"), "64 bits"), (splitnn.Start(torch.zeros(1, dtype=torch.uint8), 0, math.nan, 0), "not finite"),
        (Plain("x" * (1 << 20)), "send them as a uint8 tensor"),
    ):  # fmt: skip
        with pytest.raises(LetterError, match=match):
            said.encode()


def test_only_a_mechanism_makes_a_noised_field() -> None:
    said = everything()
    object.__setattr__(said, "noised", torch.ones(2))
    with pytest.raises(LetterError, match="must come from a mechanism"):
        said.encode()


def test_an_oversize_letter_is_refused_by_its_length_alone() -> None:
    with pytest.raises(LetterError, match="1,001 bytes came, 1,000 are allowed"):
        Letter.parse(bytes(1001), limit=1000)
    refused((message.HEADER_LIMIT + 1).to_bytes(8, "little") + bytes(message.HEADER_LIMIT + 1), match="header says it is 1,048,577")


def test_what_is_refused_was_refused_before_memory_was_taken() -> None:
    rows = 4_000_000  # 16 MB
    letter = fedonce.Representation(torch.ones(rows, 1)).encode()
    mixed = rewritten(letter, lambda layout, inner: inner["values"].update(more=1))  # type: ignore[attr-defined]
    torn = letter[:-1]
    tracemalloc.start()
    try:
        refused(mixed, fedonce.Representation, "unknown fields")
        refused(letter, splitnn.Activations, "missing")
        refused(torn, fedonce.Representation, "marked")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_above_a_megabyte_a_letter_is_at_most_half_a_percent_longer_than_its_numbers() -> None:
    assert len(fedonce.Representation(torch.ones(1 << 18, 1)).encode(**HEAD)) <= (1 << 20) * 1.005


def test_a_message_without_a_docstring_is_no_message() -> None:
    with pytest.raises(TypeError, match="say in it what the message reveals"):
        type("Silent", (Message,), {"__annotations__": {"x": int}})
    with pytest.raises(TypeError, match="'encode' has the name"):
        type("Named", (Message,), {"__doc__": "Reveals nothing.", "__annotations__": {"encode": int}})


def test_the_docstring_is_what_a_message_reveals() -> None:
    assert Meet.reveals() == "A key to hash the common ids with; reveals nothing of anybody's data."
    assert (fedonce.Representation.unnoised(), fedonce.Learn.unnoised(), Meet.unnoised()) == (True, False, False)
    assert Plain.unnoised(), "numbers and texts count as somebody's until the message says `plain`"
    assert (fedonce.Representation.speaks(), fedonce.Learn.speaks(), Plain.speaks()) == (True, False, False)


@settings(max_examples=30)
@given(st.binary(max_size=400))
def test_bytes_from_nowhere_are_no_letter(data: bytes) -> None:
    refused(data, Plain)
