"""Wires carry sealed letters between doors. They know bytes and names, and nothing of what is said.

A wire has two methods. `exchange(letters, within)` gives each guest its letter and yields, as they come and in any order,
exactly one item a guest: its answer, or why there is none (`GuestGone`, `Late`, `WireError`). Nothing leaves, and the clock of
`within` (seconds) does not start, before the first item is asked for; an answer that lies there when it is asked for is not late;
who stops early throws the other answers away; once the wire is closed every answer still awaited is `GuestGone`.

`close()` tells the guests that the run is over, and they go home. `close(STOPPED)` tells them that the host stopped before the end: a guest
then dials on while its patience lasts, so that a host started again finds it there.
"""

from reticent.errors import GuestGone, Late, ReticentError

STOPPED = b"the host stopped before the end"  # the last word of a run that can be gone on with


def failed(name: str, error: BaseException) -> str:
    """What the host may read of an error in a guest's own code: our own sentences whole, of any other the class alone, for its text may quote data."""
    if isinstance(error, ReticentError):
        return f"{name}: {type(error).__name__}: {error}"
    return f"{name}: {type(error).__name__} in its own code; the log at {name} says where"


def unknown(name: str, guests: object) -> GuestGone:
    return GuestGone(f"{name}: no guest of this name here; the guests are {guests}")


def late(name: str, within: float) -> Late:
    return Late(f"{name}: no answer within {within:g} s; ask again with a larger within=, or go on with a quorum=")
