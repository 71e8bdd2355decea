"""The guest's end: it dials out, answers letters one by one, and dials again when the connection breaks."""

import logging
import selectors
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from reticent.errors import WireError
from reticent.wires import STOPPED, failed
from reticent.wires.frames import FAILED, LARGEST, SLICE, WELCOME, Incoming, slices, too_large
from reticent.wires.processes import HANDSHAKE, because, credentials, tune, widen
from reticent.wires.tls import peer_name

log = logging.getLogger(__name__)


def reach(address: tuple[str, int]) -> socket.socket:
    """A plain connection to the first of this name's addresses that takes one."""
    refused: list[OSError] = []
    for family, kind, protocol, _, place in socket.getaddrinfo(*address, type=socket.SOCK_STREAM):
        plain = socket.socket(family, kind, protocol)
        try:
            widen(plain)
            tune(plain)
            plain.settimeout(HANDSHAKE)
            plain.connect(place)
            return plain
        except OSError as error:
            plain.close()
            refused.append(error)
        except BaseException:
            plain.close()
            raise
    raise refused[0]  # a name without any address raised before


def connect(name: str, host: str, address: tuple[str, int], demand: ssl.SSLContext) -> ssl.SSLSocket:
    """A connection on which the host has said welcome. OSError: dial again. WireError: dialling again is of no use."""
    plain = reach(address)
    try:
        connection = demand.wrap_socket(plain, do_handshake_on_connect=False)
    except BaseException:
        plain.close()
        raise
    try:
        connection.do_handshake()
        shown = peer_name(connection)
        if shown != host:
            raise WireError(
                f"{address[0]}:{address[1]} shows the certificate of {shown!r}, and this study's host is {host!r}: nothing was said; check --connect"
            )
        number, said = whole(connection, Incoming(SLICE))
        if number != 0 or said != WELCOME:
            raise WireError(f"{name} was refused by {host}: {said.decode(errors='replace')}")
        connection.settimeout(None)
        return connection
    except BaseException as error:
        connection.close()
        if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError):
            raise WireError(f"{name} cannot join {host} at {address[0]}:{address[1]}: {because(error)}") from error
        raise


def whole(connection: ssl.SSLSocket, incoming: Incoming) -> tuple[int, bytes]:
    while (frame := incoming.read(connection)) is None:
        pass
    return frame


def there(connection: ssl.SSLSocket, seconds: float) -> bool:
    """Whether a frame, or the connection's end, can be read within so many seconds."""
    if connection.pending():
        return True
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        return bool(selector.select(seconds))


def answered(name: str, letter: bytes, answer: Callable[[bytes], bytes], largest: int) -> tuple[int, bytes]:
    """The flag of an error or none, and what to send."""
    try:
        payload = answer(letter)
        if len(payload) > largest:
            raise too_large("this answer", len(payload), largest)
        return 0, payload
    except Exception as error:
        log.exception("%s: an error in answering", name)
        return FAILED, failed(name, error).encode()


def hear(name: str, connection: ssl.SSLSocket, incoming: Incoming, letters: deque[tuple[int, bytes]], seconds: float) -> bool:
    """Takes in every letter that has come, waiting so many seconds for the first; says whether the run is over."""
    while there(connection, seconds):
        number, payload = whole(connection, incoming)
        if number == 0 and payload == STOPPED:
            raise HostStopped(payload.decode())
        if number == 0 and payload:
            raise WireError(f"{name} was sent away: {payload.decode(errors='replace')}")
        if number == 0:
            return True
        letters.append((number, payload))
        seconds = 0.0
    return False


def serve(name: str, connection: ssl.SSLSocket, answer: Callable[[bytes], bytes], stop: Callable[[], bool], largest: int) -> None:
    """Answers letters until the host says that the run is over, or `stop` does. OSError: the connection broke."""
    incoming = Incoming(largest)
    letters: deque[tuple[int, bytes]] = deque()
    while not hear(name, connection, incoming, letters, 0.0 if letters else 0.25) and not stop():
        if not letters:
            continue
        number, letter = letters.popleft()
        flag, payload = answered(name, letter, answer, largest)
        del letter
        if hear(name, connection, incoming, letters, 0.0):  # the run may have ended while we were at work, or the connection
            return
        for piece in slices(number | flag, payload):
            connection.sendall(piece)


def dial(
    name: str,
    host: str,
    address: tuple[str, int],
    tls: Path,
    answer: Callable[[bytes], bytes],
    patience: float = 60.0,
    stop: Callable[[], bool] | None = None,
    largest: int = LARGEST,
) -> None:
    """The guest's end: answers the host's letters one by one, and returns when the run is over. A connection that broke is dialled again,
    and so is a host that stopped before the end: started again, it finds its guests.

    `patience` seconds without a connection, or a certificate that does not fit, raise WireError. `stop` is asked between letters, and four
    times a second while none comes.
    """
    demand = credentials(name, tls, server=False)
    stopped = stop or (lambda: False)
    last, delay = time.monotonic(), 0.05
    why, next_step = "", "is the host running there?"
    while not stopped():
        try:
            with connect(name, host, address, demand) as connection:
                try:
                    serve(name, connection, answer, stopped, largest)
                    return
                finally:
                    last, delay = time.monotonic(), 0.05
        except OSError as error:
            if isinstance(error, HostStopped):
                next_step = "the host stopped before the end: start `reticent join` again with the same --out when it runs again"
            if time.monotonic() - last >= patience:
                raise WireError(
                    f"{name} has had no connection to {host} at {address[0]}:{address[1]} for {patience:g} s ({because(error)}): {next_step}"
                ) from error
            if because(error) != why:  # said once, not every second
                why = because(error)
                log.info("%s: no connection to %s (%s); it is dialled again for %g s", name, host, why, patience)
        time.sleep(delay)
        delay = min(2 * delay, 1.0)


class HostStopped(ConnectionError):
    """The host's last word in a run that has not ended: to a guest a connection that broke, since the host may be started again."""
