"""What can be said, and its bytes: a safetensors file with a JSON header. Never pickle.

A message is a frozen record of tensors and plain values; its docstring says what it reveals, and that text is what the
ledger, the audit and the threat model print. The class is known from the verb, never from the bytes.

    8 bytes    length of the header, little-endian
    header     JSON: {"__metadata__": {"reticent": "<JSON: letter's head and plain values>"}, "z": {"dtype", "shape", "data_offsets"}}
    data       the tensors, one after another, in the order of their names
"""

import dataclasses
import inspect
import json
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self, Union, dataclass_transform

import numpy as np
import torch
from torch import Tensor

from reticent.errors import LetterError

FORMAT = 1
HEADER_LIMIT = 1 << 20
LETTER_LIMIT = 8 << 30
TENSOR_LIMIT = 4096
DEPTH_LIMIT = 16  # of what a privacy event nests
WHOLE = (1 << 63) - 1  # a plain whole number is no larger, either way

# safetensors' names, numpy's types for them, and torch's; bfloat16 has no numpy type and travels as its 16 bits
DTYPES: dict[str, tuple[np.dtype[Any], torch.dtype]] = {  # Any: scalar types differ
    "F64": (np.dtype("<f8"), torch.float64), "F32": (np.dtype("<f4"), torch.float32), "F16": (np.dtype("<f2"), torch.float16),
    "BF16": (np.dtype("<u2"), torch.bfloat16), "I64": (np.dtype("<i8"), torch.int64), "I32": (np.dtype("<i4"), torch.int32),
    "I16": (np.dtype("<i2"), torch.int16), "I8": (np.dtype("i1"), torch.int8), "U8": (np.dtype("u1"), torch.uint8), "BOOL": (np.dtype("?"), torch.bool),
}  # fmt: skip
NAMES = {kind: name for name, (_, kind) in DTYPES.items()}

Event = Mapping[str, object]  # what a mechanism did, as JSON; privacy.accounting reads it as a dp-accounting DpEvent


@dataclass(frozen=True)
class Array:
    """What a tensor field may hold."""

    dtypes: tuple[torch.dtype, ...] = (torch.float32,)
    rank: int | None = None  # None: any
    finite: bool = True  # NaN and infinity are refused
    rows: bool = False  # row numbers or a row mask: no value of anybody's


Matrix = Annotated[Tensor, Array((torch.float32,), 2)]
Numbers = Annotated[Tensor, Array((torch.float32, torch.float16), 2)]
RowSet = Annotated[Tensor, Array((torch.uint8, torch.int64), 1, rows=True)]  # uint8: a bit mask over all rows; int64: row numbers


@dataclass(frozen=True)
class Noised:
    """A tensor that a mechanism has noised, with what it did. Only `privacy.mechanisms` makes one."""

    tensor: Tensor
    event: Event


@dataclass(frozen=True)
class Field:
    name: str
    kind: str  # tensor · tensors · noised · bool · int · float · str
    array: Array
    many: bool  # a tuple of plain values
    optional: bool


def _field(name: str, hint: Any) -> Field:  # Any: a type annotation
    optional = False
    if typing.get_origin(hint) in (Union, types.UnionType):
        kinds = [a for a in typing.get_args(hint) if a is not type(None)]
        if len(kinds) != 1:
            raise TypeError(f"field {name!r} is a union of several types: a message field has one type, or None")
        optional, hint = True, kinds[0]
    array = Array((torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool))
    if typing.get_origin(hint) is Annotated:
        hint, *notes = typing.get_args(hint)
        array = next((note for note in notes if isinstance(note, Array)), array)
    if hint is Tensor:
        return Field(name, "tensor", array, False, optional)
    if hint is Noised:
        return Field(name, "noised", array, False, optional)
    if typing.get_origin(hint) in (dict, Mapping) and typing.get_args(hint) == (str, Tensor):
        return Field(name, "tensors", array, False, optional)
    many = typing.get_origin(hint) is tuple and len(typing.get_args(hint)) == 2 and typing.get_args(hint)[1] is Ellipsis
    plain = typing.get_args(hint)[0] if many else hint
    if plain in (bool, int, float, str):
        return Field(name, plain.__name__, array, many, optional)
    raise TypeError(f"field {name!r} is of type {hint}: a message holds tensors, numbers, truth values and text, no more")


_fields: dict[type, tuple[Field, ...]] = {}


def fields_of(cls: "type[Message]") -> tuple[Field, ...]:
    """A message class's fields, read from its annotations once."""
    if cls in _fields:
        return _fields[cls]
    hints = typing.get_type_hints(cls, include_extras=True)
    _fields[cls] = tuple(_field(f.name, hints[f.name]) for f in dataclasses.fields(typing.cast(Any, cls)))  # Any: every subclass is a dataclass
    return _fields[cls]


@dataclass_transform(frozen_default=True, eq_default=False)
class Message:
    """Base of all that crosses between parties. `plain = True` in a subclass: its numbers and texts say nothing of anybody's data."""

    plain: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        if not (cls.__dict__.get("__doc__") or "").strip():
            raise TypeError(f"message {cls.__name__} has no docstring: say in it what the message reveals, and to whom")
        taken = sorted(set(inspect.get_annotations(cls)) & set(dir(Message)))
        if taken:
            raise TypeError(f"message {cls.__name__}: field {taken[0]!r} has the name of something every message has; choose another")
        dataclass(frozen=True, eq=False)(cls)

    @classmethod
    def reveals(cls) -> str:
        return " ".join((cls.__doc__ or "").split())

    @classmethod
    def unnoised(cls) -> bool:
        """True if instances carry what no mechanism has noised: tensors (row numbers and masks aside), or values not declared `plain`."""
        return any(not f.array.rows if f.kind in ("tensor", "tensors") else f.kind != "noised" and not cls.plain for f in fields_of(cls))

    @classmethod
    def speaks(cls) -> bool:
        """True if instances carry tensors other than row numbers or masks: what the JSON counts as `letters`."""
        return any(f.kind in ("tensor", "tensors", "noised") and not f.array.rows for f in fields_of(cls))

    def spent(self) -> list[Event]:
        return [getattr(self, f.name).event for f in fields_of(type(self)) if f.kind == "noised" and getattr(self, f.name) is not None]

    def height(self) -> int:
        """How many rows it speaks of: the height of its tallest matrix."""
        return max((t.shape[0] for f, t in self._tensors() if t.ndim >= 2 or (f.array.rows and t.dtype == torch.int64)), default=0)

    def _tensors(self) -> list[tuple[Field, Tensor]]:
        return [(f, t) for f, _, t in self._named()]

    def _named(self) -> list[tuple[Field, str, Tensor]]:
        named = []
        for f in fields_of(type(self)):
            value = getattr(self, f.name)
            if value is None:
                continue
            if f.kind == "tensor":
                named.append((f, f.name, value))
            elif f.kind == "noised":
                if not isinstance(value, Noised):
                    raise LetterError(f"{type(self).__name__}.{f.name} must come from a mechanism of privacy.mechanisms; a {type(value).__name__} was given")
                named.append((f, f.name, value.tensor))
            elif f.kind == "tensors":
                named += [(f, f"{f.name}/{key}", tensor) for key, tensor in value.items()]
        return sorted(named, key=lambda item: item[1])

    def _header(self, head: Mapping[str, object], check: bool) -> tuple[bytes, list[Tensor]]:
        values: dict[str, object] = {}
        named = self._named()
        for f in fields_of(type(self)):
            value = getattr(self, f.name)
            if f.kind == "noised" and value is not None:
                values[f.name] = dict(value.event)
            elif f.kind == "tensors" and value is not None:
                values[f.name] = len(value)
            elif f.kind not in ("tensor", "noised", "tensors"):
                _check_plain(type(self), f, value)
                values[f.name] = list(value) if f.many and value is not None else value
        layout: dict[str, object] = {
            "__metadata__": {"reticent": json.dumps({"format": FORMAT, **head, "values": values}, separators=(",", ":"), allow_nan=False)}
        }
        offset, tensors = 0, []
        for f, name, tensor in named:
            if check:
                _check_array(type(self), f, name, tensor.dtype, tensor.ndim)
            size = tensor.numel() * tensor.element_size()
            layout[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, offset + size]}
            offset += size
            tensors.append(tensor)
        text = json.dumps(layout, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        if len(text) > HEADER_LIMIT:
            raise LetterError(f"{type(self).__name__}: its plain values take {len(text):,} bytes, {HEADER_LIMIT:,} are allowed: send them as a uint8 tensor")
        return len(text).to_bytes(8, "little") + text, tensors

    def encode(self, **head: object) -> bytes:
        """A safetensors file; `head` (run, number, names, …) travels in its header."""
        header, tensors = self._header(head, check=True)
        parts: list[bytes | memoryview] = [header]
        for tensor in tensors:
            plain = tensor.detach().to("cpu").contiguous()
            flat = (plain.view(torch.int16) if plain.dtype == torch.bfloat16 else plain).numpy().reshape(-1)
            parts.append(flat.view(np.uint8).data if plain.numel() else b"")
        return b"".join(parts)

    def weigh(self, **head: object) -> int:
        """How many bytes `encode` would give; tensors may be on the `meta` device."""
        header, tensors = self._header(head, check=False)
        return len(header) + sum(t.numel() * t.element_size() for t in tensors)

    @classmethod
    def decode(cls, data: bytes | memoryview) -> Self:
        """Checks size, dtype, shape, fields and finiteness, and only then allocates."""
        return cls.build(Letter.parse(data))

    @classmethod
    def build(cls, letter: "Letter") -> Self:
        fields, found = fields_of(cls), dict(letter.tensors)
        given: dict[str, object] = {}
        values = dict(letter.values)
        for f in fields:
            if f.kind == "tensor" or f.kind == "noised":
                entry = found.pop(f.name, None)
                event = values.pop(f.name, None) if f.kind == "noised" else None
                if entry is None:
                    if not f.optional or event is not None:
                        raise LetterError(f"{cls.__name__}: field {f.name!r} is missing")
                    given[f.name] = None
                    continue
                _check_array(cls, f, f.name, entry.torch, len(entry.shape))
                given[f.name] = entry
                if f.kind == "noised":
                    if not isinstance(event, dict):
                        raise LetterError(f"{cls.__name__}: field {f.name!r} says no privacy event")
                    values[f.name] = event
            elif f.kind == "tensors":
                count = values.pop(f.name, None)
                mine = {name.split("/", 1)[1]: found.pop(name) for name in list(found) if name.startswith(f"{f.name}/")}
                if count is None and f.optional and not mine:
                    given[f.name] = None
                    continue
                if type(count) is not int or count != len(mine):
                    raise LetterError(f"{cls.__name__}: field {f.name!r} should hold {count!r} tensors, {len(mine)} came")
                for name, entry in mine.items():
                    _check_array(cls, f, f"{f.name}/{name}", entry.torch, len(entry.shape))
                given[f.name] = mine
            else:
                if f.name not in values:
                    raise LetterError(f"{cls.__name__}: field {f.name!r} is missing")
                value = values.pop(f.name)
                value = tuple(value) if f.many and isinstance(value, list) else value
                _check_plain(cls, f, value)
                given[f.name] = _as_floats(value) if f.kind == "float" else value
        unknown = sorted(set(found) | (set(values) - {f.name for f in fields if f.kind == "noised"}))
        if unknown:
            raise LetterError(f"{cls.__name__}: unknown fields {', '.join(map(repr, unknown[:5]))}")
        for f in fields:  # all is as declared: now memory is taken
            held = given[f.name]
            if isinstance(held, Entry):
                tensor = letter.tensor(held, f.array.finite, f"{cls.__name__}.{f.name}")
                given[f.name] = Noised(tensor, typing.cast(Event, values[f.name])) if f.kind == "noised" else tensor
            elif f.kind == "tensors" and held is not None:
                given[f.name] = {k: letter.tensor(e, f.array.finite, f"{cls.__name__}.{f.name}/{k}") for k, e in typing.cast(dict[str, Entry], held).items()}
        return cls(**given)


def _check_plain(cls: type, f: Field, value: object) -> None:
    if value is None and f.optional:
        return
    kinds: dict[str, tuple[type, ...]] = {"bool": (bool,), "int": (int,), "float": (float, int), "str": (str,)}
    if isinstance(value, tuple) != f.many:
        raise LetterError(f"{cls.__name__}: field {f.name!r} should be {'a list of ' if f.many else ''}{f.kind}, {type(value).__name__} came")
    for item in value if isinstance(value, tuple) else (value,):
        if not isinstance(item, kinds[f.kind]) or (isinstance(item, bool) and f.kind != "bool"):
            raise LetterError(f"{cls.__name__}: field {f.name!r} should be {'a list of ' if f.many else ''}{f.kind}, {type(item).__name__} came")
        if isinstance(item, int) and not -WHOLE <= item <= WHOLE:
            raise LetterError(f"{cls.__name__}: field {f.name!r} holds a whole number of {item.bit_length()} bits, {WHOLE.bit_length()} are allowed")
        if isinstance(item, float) and not math.isfinite(item):
            raise LetterError(f"{cls.__name__}: field {f.name!r} is {item}, which is not finite")


def _as_floats(value: object) -> object:
    """JSON writes 1.0 as it likes: a whole number where a float is declared is that float."""
    if isinstance(value, tuple):
        return tuple(map(float, value))
    return float(value) if isinstance(value, int) else value


def _check_array(cls: type, f: Field, name: str, dtype: torch.dtype, rank: int) -> None:
    if dtype not in f.array.dtypes:
        raise LetterError(f"{cls.__name__}: field {name!r} is {dtype}, allowed: {', '.join(map(str, f.array.dtypes))}")
    if f.array.rank is not None and rank != f.array.rank:
        raise LetterError(f"{cls.__name__}: field {name!r} has {rank} dimensions, {f.array.rank} are declared")


@dataclass(frozen=True)
class Entry:
    """Where a tensor lies in a letter."""

    numpy: np.dtype[Any]  # Any: its scalar type is known at run time only
    torch: torch.dtype
    shape: tuple[int, ...]
    begin: int
    end: int


def _no_twins(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise LetterError("a key stands twice in a letter's header")
    return dict(pairs)


def _no_constants(word: str) -> None:
    raise LetterError(f"a letter's header holds {word}, which is not JSON")


def _finite(word: str) -> float:
    if not math.isfinite(found := float(word)):
        raise LetterError(f"a letter's header holds {word[:40]}, which no number here can be")
    return found


def _sound(value: object, depth: int = 0) -> None:
    """Whatever is refused here would break what writes it down later: half a character, or brackets without end."""
    if isinstance(value, str):
        if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
            raise LetterError("a letter's header holds half a character (a lone surrogate)")
    elif isinstance(value, list | dict):
        if depth > DEPTH_LIMIT:
            raise LetterError(f"a letter's header nests deeper than {DEPTH_LIMIT} brackets")
        for item in value:
            _sound(item, depth + 1)
        for item in value.values() if isinstance(value, dict) else ():
            _sound(item, depth + 1)


def _json(text: bytes | str) -> dict[str, Any]:  # Any: JSON
    try:
        found = json.loads(
            str(text, "utf-8") if isinstance(text, bytes) else text, object_pairs_hook=_no_twins, parse_constant=_no_constants, parse_float=_finite
        )
    except (ValueError, RecursionError) as error:
        raise LetterError(f"a letter's header is not JSON: {str(error)[:80]}") from error
    if not isinstance(found, dict):
        raise LetterError("a letter's header is not a JSON object")
    return found


def _number(value: object) -> bool:
    return type(value) is int and 0 <= value <= LETTER_LIMIT


@dataclass(frozen=True)
class Letter:
    """A message's bytes with its header read and every size checked; no tensor made yet."""

    data: memoryview
    head: dict[str, Any]  # Any: JSON
    values: dict[str, Any]
    tensors: dict[str, Entry]

    @classmethod
    def parse(cls, data: bytes | memoryview, limit: int = LETTER_LIMIT) -> "Letter":
        view = memoryview(data)
        if len(view) > limit:
            raise LetterError(f"a letter of {len(view):,} bytes came, {limit:,} are allowed")
        if len(view) < 8:
            raise LetterError(f"a letter of {len(view)} bytes is torn")
        length = int.from_bytes(view[:8], "little")
        if length > HEADER_LIMIT or length > len(view) - 8:
            raise LetterError(f"a letter's header says it is {length:,} bytes long; {min(HEADER_LIMIT, len(view) - 8):,} are possible")
        layout = _json(bytes(view[8 : 8 + length]))
        meta = layout.pop("__metadata__", None)
        if not isinstance(meta, dict) or set(meta) != {"reticent"} or not isinstance(meta["reticent"], str):
            raise LetterError("these bytes are no letter of Reticent's: the header has no 'reticent' entry")
        head = _json(meta["reticent"])
        _sound(head)
        if type(head.get("format")) is not int or head["format"] != FORMAT:
            raise LetterError(f"a letter of format {head.get('format')!r} came; this version reads format {FORMAT}")
        values = head.pop("values", None)
        if not isinstance(values, dict):
            raise LetterError("a letter's header has no values")
        if len(layout) > TENSOR_LIMIT:
            raise LetterError(f"a letter with {len(layout):,} tensors came, {TENSOR_LIMIT:,} are allowed")
        payload, tensors = len(view) - 8 - length, {}
        spans = []
        for name, entry in layout.items():
            _sound(name)
            if (
                not isinstance(entry, dict)
                or set(entry) != {"dtype", "shape", "data_offsets"}
                or not isinstance(entry["dtype"], str)
                or entry["dtype"] not in DTYPES
            ):
                raise LetterError(f"tensor {name[:40]!r} is not described as dtype, shape and data_offsets of a known type")
            shape, offsets = entry["shape"], entry["data_offsets"]
            if not (
                isinstance(shape, list)
                and len(shape) <= 8
                and all(map(_number, shape))
                and isinstance(offsets, list)
                and len(offsets) == 2
                and all(map(_number, offsets))
            ):
                raise LetterError(f"tensor {name[:40]!r} has an impossible shape or offsets")
            if math.prod(filter(None, shape)) > LETTER_LIMIT:  # torch computes strides of an empty tensor too
                raise LetterError(f"tensor {name[:40]!r} has an impossible shape {shape}")
            kind, torch_kind = DTYPES[entry["dtype"]]
            begin, end = offsets
            if math.prod(shape) * kind.itemsize != end - begin or end > payload:
                raise LetterError(
                    f"tensor {name[:40]!r} of shape {shape} should take {math.prod(shape) * kind.itemsize:,} bytes, {end - begin:,} are marked and {payload:,} came"
                )
            tensors[name] = Entry(kind, torch_kind, tuple(shape), 8 + length + begin, 8 + length + end)
            spans.append((begin, end))
        position = 0
        for begin, end in sorted(spans):
            if begin != position:
                raise LetterError("a letter's tensors overlap or leave a gap")
            position = end
        if position != payload:
            raise LetterError(f"a letter carries {payload:,} bytes of data, its tensors take {position:,}")
        return cls(view, head, values, tensors)

    def tensor(self, entry: Entry, finite: bool, name: str) -> Tensor:
        flat = np.frombuffer(self.data[entry.begin : entry.end], dtype=entry.numpy)
        if entry.torch == torch.bool and flat.size and int(flat.view(np.uint8).max()) > 1:
            raise LetterError(f"{name} holds truth values other than 0 and 1")
        if finite and flat.size and entry.torch.is_floating_point and not _all_finite(flat, entry.torch):
            raise LetterError(f"{name} holds NaN or infinite numbers")
        tensor = torch.from_numpy(flat.reshape(entry.shape).copy()) if flat.size else torch.empty(entry.shape, dtype=entry.torch)
        return tensor.view(torch.int16).view(torch.bfloat16) if entry.torch == torch.bfloat16 and flat.size else tensor


def _all_finite(flat: np.ndarray[Any, Any], kind: torch.dtype) -> bool:  # Any: its type is known at run time
    """Before anything is copied. The extremes tell without a mask as large as the tensor; a bfloat16 is told by its exponent."""
    if kind == torch.bfloat16:
        return not bool(((flat & 0x7F80) == 0x7F80).any())
    return all(map(math.isfinite, (float(flat.min()), float(flat.max()))))
