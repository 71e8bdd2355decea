"""One operating-system process a party, over TCP and TLS 1.3 with a certificate at both ends. Guests dial out, the host listens."""

import contextlib
import itertools
import logging
import queue
import selectors
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from reticent.errors import GuestGone, WireError
from reticent.wires import late, unknown
from reticent.wires.frames import FAILED, LARGEST, SLICE, WELCOME, Incoming, slices, too_large, word
from reticent.wires.tls import context, own_name, peer_name

BUFFERS = 4 << 20  # bytes of the system's buffers on each side
HANDSHAKE = 20.0  # seconds in which the other end must have shown its certificate
FAREWELL = 2.0  # seconds in which a closed connection still delivers what was written
STRANGERS = 64  # connections that may be without a certificate at one time

Answer = tuple[str, bytes | Exception]

log = logging.getLogger(__name__)


def tune(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # a guest may compute for hours without a byte; a machine that went away without a word is noticed within a minute
    for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def widen(connection: socket.socket) -> None:
    """Asks for large buffers; before a connection is made, for TCP agrees on its window then."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFERS)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFERS)


def credentials(name: str, folder: Path, server: bool) -> ssl.SSLContext:
    if (found := own_name(folder)) != name:
        raise WireError(f"the certificate in {folder} names {found!r}, and this party is {name!r}: give it its own folder of certificates")
    return context(folder, server)


def because(error: Exception) -> str:
    """Why a connection failed, in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}; all certificates of a run come from one authority and end on a day"
    if isinstance(error, TimeoutError):
        return f"no answer within {HANDSHAKE:g} s"
    if isinstance(error, ssl.SSLError) and error.reason:
        reason = error.reason.replace("_", " ").lower()
        if "alert" in reason:
            return f"the other end refuses this one: {reason}; all certificates of a run come from one authority and end on a day"
        return f"the other end does not speak TLS 1.3 with a certificate: {reason}"
    return str(error) or type(error).__name__


class Line:
    """The host's end of one guest's connection. One thread both reads and writes it: a guest that is writing a late answer while the host
    writes the next letter must not make both wait for ever, and TLS allows no second thread."""

    def __init__(self, name: str, connection: ssl.SSLSocket, largest: int, post: "Post") -> None:
        self.name = name
        self.connection = connection
        self.incoming = Incoming(largest)
        self.post = post
        self.outbox: deque[tuple[int, bytes]] = deque()
        self.closing = False
        self.bell, self.rope = socket.socketpair()
        for end in (connection, self.bell, self.rope):
            end.setblocking(False)
        self.thread = threading.Thread(target=self.run, name=f"wire to {name}", daemon=True)

    def ring(self) -> None:
        with contextlib.suppress(OSError):  # it rings already, or the line has ended
            self.rope.send(b"!")

    def send(self, number: int, payload: bytes) -> None:
        self.outbox.append((number, payload))
        self.ring()

    def close(self, last_word: bytes) -> None:
        """Waits for nothing: the last word is said when all that stands before it is."""
        self.outbox.append((0, last_word))
        self.closing = True
        self.ring()

    def run(self) -> None:
        try:
            self.carry()
            why = "the host closed the connection"
        except (OSError, WireError) as error:
            why = str(error)
        self.post.ended(self, why)
        with contextlib.suppress(OSError):
            self.farewell()
        for end in (self.connection, self.bell, self.rope):
            end.close()

    def pieces(self) -> Iterator[memoryview | None]:
        while True:
            if self.outbox:
                yield from slices(*self.outbox.popleft())
            else:
                yield None

    def carry(self) -> None:
        """Writes and reads until the line is closed. OSError: the connection broke."""
        pieces = self.pieces()
        piece: memoryview | None = None
        deadline = 0.0
        watched = selectors.EVENT_READ
        with selectors.DefaultSelector() as selector:
            selector.register(self.bell, selectors.EVENT_READ)
            selector.register(self.connection, watched)
            while True:
                moved = self.hear()
                piece = piece or next(pieces)
                if piece:
                    with contextlib.suppress(ssl.SSLWantWriteError, ssl.SSLWantReadError):
                        piece = piece[self.connection.send(piece) :]  # on "want", TLS must be given the very same piece again
                        moved = True
                if self.closing:
                    deadline = deadline or time.monotonic() + FAREWELL
                    if time.monotonic() >= deadline or not (piece or self.outbox or moved):
                        return
                if moved:
                    continue
                wants = selectors.EVENT_READ | (selectors.EVENT_WRITE if piece else 0)
                if wants != watched:
                    watched = wants
                    selector.modify(self.connection, wants)
                for key, _ in selector.select(deadline - time.monotonic() if deadline else None):
                    if key.fileobj is self.bell:
                        self.bell.recv(4096)

    def hear(self) -> bool:
        """Reads what is there, a slice's worth at most; says whether there was anything."""
        for turn in range(SLICE >> 14):
            try:
                frame = self.incoming.read(self.connection, self.post.wanted)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return turn > 0
            except WireError as error:
                self.post.heard(self.name, self.incoming.number & ~FAILED, WireError(f"{self.name}: {error}"))
                raise
            if frame is not None:
                number, payload = frame
                said = GuestGone(payload.decode(errors="replace")) if number & FAILED else payload
                self.post.heard(self.name, number & ~FAILED, said)
        return True

    def farewell(self) -> None:
        """Ends our half and reads on until the guest ends its own: a socket closed over unread bytes takes back what it has sent."""
        deadline = time.monotonic() + FAREWELL
        self.connection.shutdown(socket.SHUT_WR)
        while (left := deadline - time.monotonic()) > 0:
            self.connection.settimeout(left)
            if not self.connection.recv(SLICE):
                return


class Post:
    """Who is connected, and which letters wait for answers: lines say here what they hear, asks wait here."""

    def __init__(self, guests: Sequence[str]) -> None:
        self.changed = threading.Condition()
        self.lines: dict[str, Line] = {}
        self.left: dict[str, tuple[float, str]] = dict.fromkeys(guests, (time.monotonic(), "it has not dialled in"))
        self.open: dict[int, queue.SimpleQueue[Answer | None]] = {}  # None: somebody came or went
        self.numbers = itertools.count(1)

    def wanted(self, number: int) -> bool:
        return (number & ~FAILED) in self.open

    def heard(self, name: str, number: int, answer: bytes | Exception) -> None:
        with self.changed:
            if number in self.open:
                self.open[number].put((name, answer))
            else:
                log.info("%s: the answer to letter %d was thrown away: nobody waits for it any more", name, number)

    def stir(self) -> None:
        self.changed.notify_all()
        for answers in self.open.values():
            answers.put(None)

    def joined(self, line: Line) -> None:
        with self.changed:
            before = self.lines.get(line.name)
            self.lines[line.name] = line
            line.thread.start()  # not before: a line that ends must find itself here
            self.stir()
        if before is not None:
            before.close(f"another connection of the name {line.name} has taken this one's place: run one process a party".encode())

    def ended(self, line: Line, why: str) -> None:
        with self.changed:
            if self.lines.get(line.name) is not line:
                return
            del self.lines[line.name]
            self.left[line.name] = (time.monotonic(), why)
            self.stir()
        log.info("%s: the connection ended: %s", line.name, why)


class Processes:
    """The host's end. A guest whose connection ends has `patience` seconds to dial in again; its letter is then sent again, the same bytes."""

    def __init__(self, host: str, guests: Sequence[str], listen: tuple[str, int], tls: Path, patience: float = 0.0, largest: int = LARGEST) -> None:
        self.host = host
        self.guests = tuple(guests)
        self.patience = patience
        self.largest = largest
        self.context = credentials(host, tls, server=True)
        self.closed = threading.Event()
        self.last_word = b""
        self.resent: tuple[str, ...] = ()  # of the latest exchange: whose letters had to cross again, once for each time
        self.refusals: deque[str] = deque(maxlen=3)
        self.strangers = threading.BoundedSemaphore(STRANGERS)
        self.listener = socket.socket(socket.AF_INET6 if ":" in listen[0] else socket.AF_INET)
        try:
            self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a resumed host takes its old port at once
            widen(self.listener)
            self.listener.bind(listen)
            self.listener.listen(128)
        except OSError as error:
            self.listener.close()
            raise WireError(f"{host} cannot listen on {listen[0]}:{listen[1]}: {error}; choose another address, or port 0 for a free one") from error
        self.address: tuple[str, int] = self.listener.getsockname()[:2]
        self.post = Post(guests)
        threading.Thread(target=self.receive, name="wire", daemon=True).start()

    def receive(self) -> None:
        while True:
            try:
                plain, address = self.listener.accept()
            except OSError as error:
                if self.closed.is_set():
                    return
                log.warning("%s: a connection could not be accepted: %s", self.host, error)
                time.sleep(0.1)  # out of file descriptors, say; the guest dials again
                continue
            self.strangers.acquire()
            threading.Thread(target=self.greet, args=(plain, f"{address[0]}:{address[1]}"), name=f"wire from {address[0]}", daemon=True).start()

    def greet(self, plain: socket.socket, address: str) -> None:
        """A thread a stranger: who connects and says nothing keeps nobody else waiting."""
        try:
            tune(plain)
            connection = self.context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
        except OSError as error:
            log.warning("a connection from %s ended before it began: %s", address, error)
            plain.close()
            self.strangers.release()
            return
        try:
            connection.settimeout(HANDSHAKE)
            connection.do_handshake()
            name = peer_name(connection)
            if name not in self.guests:
                raise WireError(f"{self.host} expects no guest of the name {name!r}: is this the right study, and the right host?")
            connection.sendall(word(WELCOME))
            line = Line(name, connection, self.largest, self.post)
        except (OSError, WireError) as error:
            self.refuse(connection, address, error)
            return
        finally:
            self.strangers.release()
        self.post.joined(line)
        if self.closed.is_set():
            line.close(self.last_word)

    def refuse(self, connection: ssl.SSLSocket, address: str, error: Exception) -> None:
        reason = f"a connection from {address} was refused: {because(error)}"
        log.warning("%s", reason)
        self.refusals.append(reason)
        with contextlib.suppress(OSError), connection:
            connection.settimeout(FAREWELL)
            if isinstance(error, WireError):
                connection.sendall(word(str(error).encode()))
            connection.shutdown(socket.SHUT_WR)
            deadline = time.monotonic() + FAREWELL
            while time.monotonic() < deadline and connection.recv(SLICE):
                pass  # a socket closed over unread bytes takes back the alert that says why

    def wait(self, within: float) -> None:
        """Returns when every guest has dialled in. WireError when the time is over, or the wire is closed meanwhile."""
        deadline = time.monotonic() + within
        with self.post.changed:
            while absent := [name for name in self.guests if name not in self.post.lines]:
                if self.closed.is_set():
                    raise WireError(f"the wire was closed before {', '.join(absent)} dialled in: start a new run")
                left = deadline - time.monotonic()
                if left <= 0:
                    raise WireError(
                        f"{', '.join(absent)} did not dial in to {self.address[0]}:{self.address[1]} within {within:g} s; "
                        + "".join(f"{reason}; " for reason in self.refusals)
                        + "start `reticent join` there"
                    )
                self.post.changed.wait(left)

    def exchange(self, letters: Mapping[str, bytes], within: float | None) -> Iterator[Answer]:
        if self.closed.is_set():
            raise WireError(f"this wire is closed: nothing was sent to {', '.join(letters)}; start a new run")
        start = time.monotonic()
        answers: queue.SimpleQueue[Answer | None] = queue.SimpleQueue()
        impossible: dict[str, Exception] = {}
        for name, letter in letters.items():
            if name not in self.guests:
                impossible[name] = unknown(name, ", ".join(self.guests))
            elif len(letter) > self.largest:
                impossible[name] = too_large(f"{name}: this letter", len(letter), self.largest)
        waiting = {name: letter for name, letter in letters.items() if name not in impossible}
        carriers: dict[str, Line] = {}
        self.resent = ()
        with self.post.changed:
            number = next(self.post.numbers)
            self.post.open[number] = answers
        try:
            self.dispatch(number, waiting, carriers)
            yield from impossible.items()
            while waiting:
                absent = self.dispatch(number, waiting, carriers)
                now = time.monotonic()
                ends = [] if within is None else [start + within]
                ends += [when + self.patience for when, _ in absent.values()]
                soonest = min(ends) - now if ends else None
                while waiting:  # what has been heard comes before who is gone: a guest may answer and go
                    try:
                        heard = answers.get(timeout=None if soonest is None else max(0.0, soonest))
                    except queue.Empty:
                        break
                    if heard is None:  # somebody came or went: look again, after the rest of what was heard
                        soonest = 0.0
                    elif waiting.pop(heard[0], None) is not None:
                        yield heard
                        soonest = 0.0
                if self.closed.is_set():
                    for name in waiting:
                        yield name, GuestGone(f"{name}: the wire was closed before it answered")
                    return
                for name, (when, why) in absent.items():
                    if now >= when + self.patience and waiting.pop(name, None) is not None:
                        again = f", and it did not dial in again within {self.patience:g} s" if self.patience else ""
                        yield name, GuestGone(f"{name}: no connection ({why}){again}; start it again and resume, or go on with a quorum=")
                if within is not None and now >= start + within:
                    for name in waiting:
                        yield name, late(name, within)
                    return
        finally:
            with self.post.changed:
                del self.post.open[number]

    def dispatch(self, number: int, waiting: Mapping[str, bytes], carriers: dict[str, Line]) -> dict[str, tuple[float, str]]:
        """Gives each letter to its guest's present connection, once; returns who has none, since when and why."""
        with self.post.changed:
            for name, letter in waiting.items():
                line = self.post.lines.get(name)
                if line is not None and carriers.get(name) is not line:
                    self.resent += (name,) if name in carriers else ()
                    carriers[name] = line
                    line.send(number, letter)
            return {name: self.post.left[name] for name in waiting if name not in self.post.lines}

    def close(self, last_word: bytes = b"") -> None:
        """Tells the guests that the run is over, or by `STOPPED` that the host stopped before that; whoever waits here waits no more."""
        with self.post.changed:
            if self.closed.is_set():
                return
            self.last_word = last_word
            self.closed.set()
            self.post.stir()
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)  # closing alone does not wake a thread that waits in accept
        self.listener.close()
        with self.post.changed:
            lines = list(self.post.lines.values())
        for line in lines:
            line.close(last_word)
        for line in lines:
            line.thread.join(3 * FAREWELL)
