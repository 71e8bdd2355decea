"""Letters on a connection. A frame is the length of its payload and a number, eight bytes each, big-endian, then the payload.

The host numbers its letters 1, 2, …; an answer carries the number of its letter, with the top bit set where the payload is the
sentence of an error instead. Number 0 is the host's own word: "welcome" when the guest's certificate fits; nothing at all when the run
is over; `STOPPED` when the host stops before that; else the sentence of a refusal.
"""

import ctypes
import io
import mmap
import ssl
import struct
from collections.abc import Callable, Iterator

from reticent.errors import WireError

LARGEST = 8 << 30  # bytes of one letter
SLICE = 1 << 18  # bytes handed to TLS at once: sixteen of its records
FAILED = 1 << 63
WELCOME = b"welcome"
LARGE = 16 << 20  # bytes from which a letter is worth large pages
HEAD = struct.Struct(">QQ")


libc = ctypes.CDLL(None) if hasattr(mmap, "MADV_HUGEPAGE") else None


def every(number: int) -> bool:
    return True


def slices(number: int, payload: bytes) -> Iterator[memoryview]:
    """A frame in pieces that are sent one after the other, none of them empty."""
    head = HEAD.pack(len(payload), number)
    if len(payload) <= SLICE:  # one packet for a small letter
        yield memoryview(head + payload)
        return
    yield memoryview(head)
    view = memoryview(payload)
    for start in range(0, len(view), SLICE):
        yield view[start : start + SLICE]


def word(text: bytes) -> bytes:
    return HEAD.pack(len(text), 0) + text


def too_large(what: str, size: int, largest: int) -> WireError:
    return WireError(f"{what} has {size:,} bytes, and the largest allowed is {largest:,}: send less at a time")


def enlarge_pages(view: memoryview) -> None:
    """Asks Linux for pages of 2 MB under a large buffer that nobody has touched yet. First touches by 4 KB cost 84 of the 205 ms of 200 MB."""
    if libc is None or len(view) < LARGE:
        return
    address = ctypes.addressof(ctypes.c_char.from_buffer(view))
    start = -(-address // mmap.PAGESIZE) * mmap.PAGESIZE
    pages = (address + len(view) - start) // mmap.PAGESIZE
    libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(pages * mmap.PAGESIZE), mmap.MADV_HUGEPAGE)  # advice: a refusal changes nothing


class Incoming:
    """The frames that are being read. A payload is allocated once, after its length was found good, and given away as bytes without a copy."""

    def __init__(self, largest: int) -> None:
        self.largest = largest
        self.begin()

    def begin(self) -> None:
        head = bytearray(HEAD.size)
        self.head: bytearray | None = head
        self.number = 0
        self.payload: io.BytesIO | None = None
        self.view = memoryview(head)
        self.left = HEAD.size

    def read(self, connection: ssl.SSLSocket, wanted: Callable[[int], bool] = every) -> tuple[int, bytes] | None:
        """Reads once; returns the frame that this ends. An unwanted number's payload is read past and not kept."""
        got = connection.recv_into(self.view)
        if got == 0:
            raise ConnectionResetError("the other end closed the connection")
        self.left -= got
        # a payload that nobody wants goes into the same few bytes again and again
        self.view = self.view[got:] if self.head is not None or self.payload is not None else self.view[: min(len(self.view), self.left)]
        if self.left:
            return None
        if self.head is not None:
            self.left, self.number = HEAD.unpack(self.head)
            if self.left > self.largest:
                raise too_large("the letter that is announced", self.left, self.largest)
            self.head = None
            self.allocate(wanted(self.number))
            if self.left:
                return None
        self.view.release()
        frame = (self.number, b"" if self.payload is None else self.payload.getvalue())
        self.begin()
        return frame

    def allocate(self, kept: bool) -> None:
        if not kept:
            self.view = memoryview(bytearray(min(SLICE, self.left)))
            return
        try:
            self.payload = io.BytesIO(bytes(self.left))  # its buffer is written in place, and is the bytes that getvalue gives
        except MemoryError as error:
            raise WireError(f"the letter that is announced has {self.left:,} bytes, more than this machine has free: send less at a time") from error
        self.view = self.payload.getbuffer()
        enlarge_pages(self.view)
