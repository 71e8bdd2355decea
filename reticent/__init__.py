"""Reticent: organisations that hold different columns about the same people learn one model, and each speaks once.

    import reticent as rt

    fed = rt.data.default_credit().split(host=13, guests={"shop": 10})
    run = rt.fit("fedonce", fed, encoder="pca", dim=8)
    print(run.metrics["auc"])

Names are resolved when they are used: importing the package imports nothing else, so that `reticent.learn` can be had where only
torch, numpy and scipy are.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reticent import data, errors, learn
    from reticent.api import compare, fit, load, sweep, table
    from reticent.data.simulated import Federation
    from reticent.errors import ReticentError
    from reticent.federation import Guests, Host
    from reticent.message import Array, Matrix, Message, Noised, Numbers, RowSet
    from reticent.party import Guest, answers
    from reticent.run import Run

    __version__: str

homes = {
    "compare": "api", "fit": "api", "load": "api", "sweep": "api", "table": "api", "Run": "run", "Federation": "data.simulated", "ReticentError": "errors",
    "Message": "message", "Array": "message", "Matrix": "message", "Noised": "message", "Numbers": "message", "RowSet": "message", "Guest": "party", "answers": "party", "Guests": "federation", "Host": "federation",
    "data": "", "errors": "", "learn": "",
}  # fmt: skip

__all__ = [
    "Array", "Federation", "Guest", "Guests", "Host", "Matrix", "Message", "Noised", "Numbers", "ReticentError", "RowSet", "Run", "answers", "compare", "data", "errors", "fit", "learn", "load", "sweep", "table",
]  # fmt: skip


def __getattr__(name: str) -> Any:  # Any: a public name's own type, which the imports above tell a type checker
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("reticent")
    if name not in homes:
        raise AttributeError(f"module 'reticent' has no attribute {name!r}: {', '.join(__all__)} are there")
    if not homes[name]:
        return importlib.import_module(f"reticent.{name}")
    found = getattr(importlib.import_module(f"reticent.{homes[name]}"), name)
    globals()[name] = found  # from now on it is an attribute like any other
    return found


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
