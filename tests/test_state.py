from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reticent import state
from reticent.errors import FormatError, JournalError
from reticent.learn import nets
from reticent.learn.training import Trained
from tests.test_message import same
from tests.toys import Guest, guest_door

plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(exclude_categories=["Cs"])) | st.binary()
values = st.recursive(
    plain, lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.integers() | st.text(st.characters(exclude_categories=["Cs"])), inner), max_leaves=15
)  # fmt: skip


class Point:
    """A State of a test's own."""

    def __init__(self, x: torch.Tensor, name: str) -> None:
        self.x, self.name = x, name

    def to_arrays(self) -> Mapping[str, object]:
        return {"x": self.x, "name": self.name}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Self:
        return cls(arrays["x"], arrays["name"])


class Mute:
    pass


@given(values)
def test_plain_values_come_back_as_they_were(value: object) -> None:
    assert same(state.from_bytes(state.to_bytes(value)), value)


def test_numbers_that_json_lacks_and_tensors_of_every_type_come_back() -> None:
    kinds = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)
    for kind in kinds:
        for shape in ((), (0,), (2, 3)):
            assert same(state.from_bytes(state.to_bytes(torch.ones(shape).to(kind))), torch.ones(shape).to(kind))
    found = state.from_bytes(state.to_bytes([float("inf"), -float("inf"), float("nan"), -0.0]))
    assert str(found) == "[inf, -inf, nan, -0.0]"
    strided = torch.arange(12).reshape(3, 4).T[1:]
    assert same(state.from_bytes(state.to_bytes({"a": strided, "b": strided}))["b"], strided.contiguous())


def test_a_generator_goes_on_where_it_was() -> None:
    rng = torch.Generator().manual_seed(5)
    torch.randn(7, generator=rng)
    kept = state.to_bytes({"rng": rng})
    expected = torch.randn(9, generator=rng)
    assert torch.equal(torch.randn(9, generator=state.from_bytes(kept)["rng"]), expected)
    own = torch.Generator()
    state.from_bytes(kept, {"rng": own})
    assert torch.equal(torch.randn(9, generator=own), expected), "the generator that stands there is the one that goes on"


def test_a_module_and_an_optimiser_are_filled_into_those_that_setup_made() -> None:
    def made() -> dict[str, Any]:
        net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))
        return {"net": net, "optimiser": torch.optim.Adam(net.parameters(), lr=0.1)}

    def step(owner: dict[str, Any], seed: int) -> torch.Tensor:
        x = torch.randn(8, 3, generator=torch.Generator().manual_seed(seed))
        owner["optimiser"].zero_grad()
        loss = owner["net"](x).square().mean()
        loss.backward()
        owner["optimiser"].step()
        detached: torch.Tensor = loss.detach()
        return detached

    first, second = made(), made()
    for seed in range(3):
        step(first, seed)
    filled = state.from_bytes(state.to_bytes(first), second)
    assert filled["net"] is second["net"]
    assert filled["optimiser"] is second["optimiser"]
    assert torch.equal(step(first, 9), step(second, 9))
    assert torch.equal(step(first, 10), step(second, 10)), "the optimiser's moments came too"
    with pytest.raises(JournalError, match="build it in setup"):
        state.from_bytes(state.to_bytes(first))


def test_a_state_object_says_itself_what_it_is() -> None:
    kept = state.to_bytes({"points": [Point(torch.ones(2), "a"), Point(torch.zeros(1), "b")]})
    found = state.from_bytes(kept, None, ("reticent", "tests"))
    assert [(point.name, point.x.tolist()) for point in found["points"]] == [("a", [1, 1]), ("b", [0])]
    with pytest.raises(JournalError, match=r"of class tests.test_state.Point, which is outside reticent: it is not loaded"):
        state.from_bytes(kept)


def test_only_a_class_that_says_from_arrays_is_loaded() -> None:
    kept = state.to_bytes(Point(torch.ones(1), "a"))
    for name in ("os:system", "reticent.state:Path", "reticentx:y", "reticent.state:os.system"):
        wrong = (
            kept.replace(b"tests.test_state:Point", name.encode().ljust(22, b" "))
            if len(name) <= 22
            else kept.replace(b"tests.test_state:Point", name.encode()[:22])
        )
        with pytest.raises((JournalError, AttributeError), match="not loaded|no attribute"):
            state.from_bytes(wrong)


def test_a_net_that_trains_is_kept_between_forward_and_backward() -> None:
    def made() -> Trained:
        return Trained(nets.mlp(4, (5,), 2, torch.Generator().manual_seed(1)), 0.1, 0.0)

    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(2))
    one, other = made(), made()
    for _ in range(2):
        one.backward(one.forward(x))
        other.backward(other.forward(x))
    gradient = one.forward(x)
    other.forward(x)
    other = state.from_bytes(state.to_bytes({"net": other}))["net"]
    one.backward(gradient)
    other.backward(gradient)
    assert torch.equal(one(x), other(x))


@pytest.mark.parametrize("value, name", [
    ({"guest": {"seen": {1, 2}}}, r"guest\.seen is a set"), ({"guest": {"parts": [1, {"a": (0, Mute())}]}}, r"guest\.parts\[1\]\.a\[1\] is a Mute"),
    ({"host": {"x": 1j}}, r"host\.x is a complex"), ({"host": {"f": print}}, r"host\.f is a builtin"), (Mute(), "this value is a Mute"),
])  # fmt: skip
def test_what_cannot_be_kept_is_refused_and_the_attribute_named(value: object, name: str) -> None:
    with pytest.raises(JournalError, match=f"^{name}.*, which cannot be kept: use tensors, plain values, generators, or give it to_arrays and from_arrays$"):
        state.to_bytes(value)


def test_a_guests_attribute_that_cannot_be_kept_is_named_at_the_snapshot(tmp_path: Path) -> None:
    door = guest_door(folder=tmp_path)
    assert isinstance(door.guest, Guest)
    door.guest.found = {torch.ones(1)}  # type: ignore[attr-defined]
    with pytest.raises(JournalError, match=r"^guest\.found is a set"):
        door.keep()
    assert not (tmp_path / "snapshot").exists()
    door.guest._found = door.guest.__dict__.pop("found")  # type: ignore[attr-defined]
    door.keep()
    door.close()


def test_a_file_is_whole_or_not_there(tmp_path: Path) -> None:
    state.save(tmp_path / "a", {"x": torch.ones(3)})
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600
    whole = (tmp_path / "a").read_bytes()
    assert state.load(tmp_path / "a")["x"].tolist() == [1, 1, 1]
    for end in (0, 4, 8, 40, len(whole) - 1):
        with pytest.raises(JournalError):
            state.from_bytes(whole[:end])
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_another_format_is_refused_by_name() -> None:
    with pytest.raises(FormatError, match="saved state is of format 'state 7'; this version reads 'state 1'"):
        state.from_bytes(state.to_bytes(1).replace(b"state 1", b"state 7"))
