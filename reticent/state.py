"""What a party may remember, as tensors and JSON: never pickle.

State is made of plain values, tensors, random generators, lists, tuples, dicts, and objects that say themselves what they
are (`to_arrays`, `from_arrays`). A torch module or optimiser is kept too, if its owner builds it in `setup`: its numbers are
filled into the one that stands there. Anything else is refused by name.
"""

import importlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_of
from safetensors.torch import save as safetensors_of
from torch import Tensor

from reticent.errors import FormatError, JournalError

FORMAT = 1

type_names = {"tuple": tuple, "list": list}


@runtime_checkable
class State(Protocol):
    """An object that can be written down: tensors, plain values and further State, by name."""

    def to_arrays(self) -> Mapping[str, object]: ...

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Self: ...  # Any: what to_arrays gave


def pack(value: object, name: str, tensors: dict[str, Tensor], said: str = "") -> object:
    """Returns `value` as JSON; tensors are put aside under names that start with `name`. `said`: where it lies, as its owner knows it."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else {"float": repr(value)}
    if isinstance(value, Tensor):
        tensors[name] = value.detach().cpu().contiguous().clone()
        return {"tensor": name}
    if isinstance(value, bytes):
        tensors[name] = torch.frombuffer(bytearray(value or b"\0"), dtype=torch.uint8)
        return {"bytes": name, "length": len(value)}
    if isinstance(value, torch.Generator):
        tensors[name] = value.get_state()
        return {"generator": name}
    if isinstance(value, list | tuple):
        return {
            type(value).__name__ if type(value) in (list, tuple) else "tuple": [pack(v, f"{name}.{i}", tensors, f"{said}[{i}]") for i, v in enumerate(value)]
        }
    if isinstance(value, dict):
        return {
            "dict": [
                [pack(k, f"{name}.key{i}", tensors, f"a key of {said}"), pack(v, f"{name}.{i}", tensors, f"{said}.{k}" if said else str(k))]
                for i, (k, v) in enumerate(value.items())
            ]
        }
    if isinstance(value, torch.nn.Module | torch.optim.Optimizer) and not isinstance(value, State):
        return {"fill": pack(dict(value.state_dict()), name, tensors, said)}
    if isinstance(value, State):
        kind = type(value)
        return {"state": f"{kind.__module__}:{kind.__qualname__}", "arrays": pack(dict(value.to_arrays()), name, tensors, said)}
    raise JournalError(
        f"{said or 'this value'} is a {type(value).__name__}, which cannot be kept: use tensors, plain values, generators, or give it to_arrays and from_arrays"
    )


def unpack(tree: Any, tensors: Mapping[str, Tensor], into: object = None, allowed: tuple[str, ...] = ("reticent",)) -> Any:  # Any: JSON
    """The inverse of `pack`. A module or an optimiser is filled into `into`; classes are looked for in `allowed` packages only."""
    if not isinstance(tree, dict):
        return tree
    if "float" in tree:
        return float(tree["float"])
    if "tensor" in tree:
        return tensors[tree["tensor"]]
    if "bytes" in tree:
        return bytes(tensors[tree["bytes"]].numpy().tobytes()[: tree["length"]])
    if "generator" in tree:
        generator = into if isinstance(into, torch.Generator) else torch.Generator()
        return generator.set_state(tensors[tree["generator"]])
    for word, kind in type_names.items():
        if word in tree:
            return kind(unpack(item, tensors, None, allowed) for item in tree[word])
    if "dict" in tree:
        standing = into if isinstance(into, dict) else {}
        keys = [unpack(k, tensors, None, allowed) for k, _ in tree["dict"]]
        return {key: unpack(v, tensors, standing.get(key), allowed) for key, (_, v) in zip(keys, tree["dict"], strict=True)}
    if "fill" in tree:
        if not isinstance(into, torch.nn.Module | torch.optim.Optimizer):
            raise JournalError(
                "a module or an optimiser was kept, but setup() makes none of that name: build it in setup(), or give it to_arrays and from_arrays"
            )
        into.load_state_dict(unpack(tree["fill"], tensors, None, allowed))
        return into
    if "state" in tree:
        module, _, name = tree["state"].partition(":")
        if not any(module == home or module.startswith(f"{home}.") for home in allowed):
            raise JournalError(f"a saved object is of class {module}.{name}, which is outside {', '.join(allowed)}: it is not loaded")
        found: Any = importlib.import_module(module)  # Any: a class found by name
        for part in name.split("."):
            found = getattr(found, part)
        if not (isinstance(found, type) and hasattr(found, "from_arrays")):
            raise JournalError(f"{tree['state']} has no from_arrays: it is not loaded")
        return found.from_arrays(unpack(tree["arrays"], tensors, None, allowed))
    raise JournalError(f"unknown saved value {sorted(tree)}")


def to_bytes(value: object) -> bytes:
    """A safetensors file: the tensors, and the JSON beside them."""
    tensors: dict[str, Tensor] = {}
    tree = json.dumps(pack(value, "state", tensors), separators=(",", ":")).encode()
    tensors["json"] = torch.frombuffer(bytearray(tree), dtype=torch.uint8)
    return safetensors_of(tensors, {"reticent": f"state {FORMAT}"})


def from_bytes(data: bytes, into: object = None, allowed: tuple[str, ...] = ("reticent",)) -> Any:  # Any: what was saved
    length = int.from_bytes(data[:8], "little")
    try:
        found = json.loads(data[8 : 8 + length]).get("__metadata__", {}).get("reticent")
        if found != f"state {FORMAT}":
            raise FormatError(f"saved state is of format {found!r}; this version reads 'state {FORMAT}'")
        tensors = tensors_of(data)
    except (ValueError, AttributeError, SafetensorError) as error:
        raise JournalError(f"saved state cannot be read: {error}") from error
    return unpack(json.loads(tensors["json"].numpy().tobytes()), tensors, into, allowed)


def write(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all, readable by its owner only."""
    beside = path.with_name(path.name + ".part")
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)


def save(path: Path, value: object) -> None:
    write(path, to_bytes(value))


def load(path: Path, into: object = None, allowed: tuple[str, ...] = ("reticent",)) -> Any:  # Any: what was saved
    return from_bytes(path.read_bytes(), into, allowed)
