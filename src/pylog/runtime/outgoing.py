"""The queue of bytes for one socket: buffers, and regions of files that go from the file to the socket.

    pieces   [ size and header ][ body ... ][ region of a file ][ body ... ] [ size and header ] ...

Buffers that follow each other go by one `sendmsg`; a region goes by sendfile. Nothing is joined, and nothing is copied.
With TLS a region is read in parts, as it has to be encrypted.
"""

import socket
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol


class Region(Protocol):
    """A region of a file (`messages.Extent`)."""

    left: int
    """How many bytes of it are to be sent."""

    def send(self, fd: int) -> int:
        """Send bytes from the file into a socket; gives how many. Raises BlockingIOError, OSError, PylogError."""

    def take(self, size: int) -> bytes:
        """Read the next bytes, `size` at most."""

    def close(self) -> None:
        """Release the file."""


class Target(Protocol):
    """A socket, or what has its methods, as one with TLS."""

    def fileno(self) -> int:
        """Its descriptor."""

    def sendmsg(self, buffers: Sequence[Any], ancillary: Any = (), flags: int = 0, /) -> int:
        """Send buffers; gives how many bytes were taken. Raises BlockingIOError: none."""


BUFFERS = (bytes, bytearray, memoryview)
BUFFERS_MAX = 256
"""How many buffers one `sendmsg` takes; the system allows 1024."""
TURN_BYTES = 4 << 20
"""How much one connection sends in a turn, before others have theirs."""
REGION_BYTES = 64 << 10
"""How much of a region is in memory at once, where it has to be."""
_MORE = getattr(socket, "MSG_MORE", 0)


class Outgoing:
    """The queue of one connection. `size` is how many bytes wait; `has_tls`: what it is sent to encrypts."""

    __slots__ = ("_has_tls", "_pieces", "size")

    def __init__(self, *, has_tls: bool = False) -> None:
        self._has_tls = has_tls
        self._pieces: deque[Any] = deque()
        self.size = 0

    def push(self, pieces: Sequence[Any], size: int) -> None:
        """Queue the pieces of a response, `size` bytes in all."""
        self._pieces.extend([piece for piece in pieces if len(piece)])
        self.size += size

    def send(self, target: Target) -> None:
        """Send as much as the socket takes, up to the share of a turn.

        Raises: OSError of the socket; PylogError, if a region cannot be sent any more: the connection is broken.
        """
        left = TURN_BYTES
        try:
            while self._pieces and left > 0:
                if self._has_tls and _is_region(self._pieces[0]):
                    self._read_region()
                sent = self._send_region(target) if _is_region(self._pieces[0]) else self._send_buffers(target)
                self.size -= sent
                left -= sent
        except BlockingIOError:
            return

    def _send_region(self, target: Target) -> int:
        region: Region = self._pieces[0]
        sent = region.send(target.fileno())
        if region.left == 0:
            self._pieces.popleft()
        return sent

    def _read_region(self) -> None:
        """Put the next bytes of the first region in front of it."""
        region: Region = self._pieces[0]
        data = region.take(REGION_BYTES)
        if region.left == 0:
            self._pieces.popleft()
        self._pieces.appendleft(data)

    def _send_buffers(self, target: Target) -> int:
        buffers: list[Any] = []
        flags = 0
        for piece in self._pieces:
            if not isinstance(piece, BUFFERS):
                flags = _MORE
                break
            buffers.append(piece)
            if len(buffers) == BUFFERS_MAX:
                break
        sent = target.sendmsg(buffers, (), flags)
        if sent == self.size:
            self._pieces.clear()
            return sent
        left = sent
        while left:
            size = len(buffers_first := self._pieces[0])
            if left < size:
                self._pieces[0] = memoryview(buffers_first)[left:]
                break
            self._pieces.popleft()
            left -= size
        return sent

    def close(self) -> None:
        """Drop the queue and release the files."""
        for piece in self._pieces:
            if _is_region(piece):
                piece.close()
        self._pieces.clear()
        self.size = 0


def _is_region(piece: Any) -> bool:
    return not isinstance(piece, BUFFERS)
