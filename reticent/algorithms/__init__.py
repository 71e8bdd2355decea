"""One file an algorithm. Anything with `Config`, `Guest` and `Host` is one: found by name, by dotted path, or handed over."""

import importlib
import pkgutil
from typing import Any

from reticent.errors import StudyError


def names() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def find(name: str) -> Any:  # Any: a module or a class with Config, Guest and Host
    """`fedonce`, or `my_package.my_algorithm`, or `my_package.module:Class`."""
    try:
        if "." not in name and ":" not in name:
            if name not in names():
                raise StudyError(f'algorithm "{name}" is unknown: {", ".join(names())} are there, or give the dotted path of a module of your own')
            found: Any = importlib.import_module(f"reticent.algorithms.{name}")  # Any: as above
        else:
            module, _, inner = name.partition(":")
            found = importlib.import_module(module)
            for part in inner.split(".") if inner else ():
                found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise StudyError(f'algorithm "{name}" cannot be imported: {error}') from error
    missing = [part for part in ("Config", "Guest", "Host") if not hasattr(found, part)]
    if missing:
        raise StudyError(f'algorithm "{name}" has no {", ".join(missing)}: an algorithm is a module or class with Config, Guest and Host')
    return found
