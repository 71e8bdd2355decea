"""Tables, their encoding, the sets of the papers, and how one set is dealt out to simulated parties.

Every set is a function here: `reticent.data.default_credit()`, `reticent.data.covtype(label="Cover_Type", folder="/data")`. What it
gives is a Set, and `Set.split` or `Set.deal` makes parties of it.
"""

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from reticent.data.sets import Set

SETS = Path(__file__).parent / "sets"


def load(
    name: str,
    label: str | None = None,
    folder: str | Path | Sequence[str | Path] = (),
    task: Literal["classification", "regression", "auto"] = "auto",
) -> "Set":
    """A set by name, or a path to a .parquet or .csv with its label. `folder`: where sets lie, each under its name; then the user's cache is looked in."""
    from reticent.data import sets, tables

    folders = [Path(folder)] if isinstance(folder, str | Path) else [Path(one) for one in folder]
    if "/" in name or Path(name).suffix in tables.suffixes:
        name = str(Path(name).absolute())
    found = sets.load(name, label, folders, task)
    found.asked = (label, tuple(str(one.absolute()) for one in folders))
    return found


def names() -> list[str]:
    """The sets that can be had by name."""
    return sorted(module.name for module in pkgutil.iter_modules([str(SETS)]) if not module.name.startswith("_"))


def __getattr__(name: str) -> Any:  # Any: a set's function, `(label=None, folder=()) -> Set`, or a module of this folder
    if name.startswith("__"):
        raise AttributeError(f"module 'reticent.data' has no attribute {name!r}")
    if name in names():
        made: Callable[..., Set] = partial(load, name)
        return made
    try:
        return importlib.import_module(f"reticent.data.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"reticent.data.{name}":
            raise
    raise AttributeError(f"module 'reticent.data' has no {name!r}: the sets are {', '.join(names())}")


def __dir__() -> list[str]:
    return sorted([*names(), "load", "names"])
