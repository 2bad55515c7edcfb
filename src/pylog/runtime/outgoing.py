"""The queue of bytes for one socket: buffers, and regions of files that go from the file to the socket.

    pieces   [ size and header ][ body ... ][ region of a file ][ body ... ] [ size and header ] ...

Buffers that follow each other go by one `sendmsg`; a region goes by sendfile. Nothing is joined, and nothing is copied.
With TLS a region is read in parts, as it has to be encrypted.
"""

import socket
from collections import deque
from collections.abc import Sequence
from typing import Protocol, TypeAlias


class Region(Protocol):
    """A region of a file (`messages.Extent`)."""

    @property
    def left(self) -> int:
        """The number of bytes that are to be sent."""

    def __len__(self) -> int:
        """The number of bytes in all."""

    def send(self, target: int, /) -> int:
        """Send bytes from the file into a socket; gives how many. Raises BlockingIOError, OSError, PylogError."""

    def take(self, size: int) -> bytes:
        """Read the next bytes, `size` at most."""

    def close(self) -> None:
        """Release the file."""


Buffer: TypeAlias = bytes | bytearray | memoryview


class Target(Protocol):
    """A socket, or what has its methods, as one with TLS."""

    def fileno(self) -> int:
        """Its descriptor."""

    def sendmsg(self, buffers: Sequence[Buffer], ancillary: tuple[()] = (), flags: int = 0, /) -> int:
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
        self._pieces: deque[Buffer | Region] = deque()
        self.size = 0

    def push(self, pieces: Sequence[Buffer | Region], size: int) -> None:
        """Queue the pieces of a response, `size` bytes in all."""
        self._pieces.extend(filter(len, pieces))
        self.size += size

    def send(self, target: Target) -> None:
        """Send as much as the socket takes, up to the share of a turn.

        Raises: OSError of the socket; PylogError, if a region cannot be sent any more: the connection is broken.
        """
        left = TURN_BYTES
        try:
            while self._pieces and left > 0:
                first = self._pieces[0]
                if isinstance(first, BUFFERS):
                    sent = self._send_buffers(target)
                elif self._has_tls:
                    self._read(first)
                    sent = self._send_buffers(target)
                else:
                    sent = self._send_region(first, target)
                self.size -= sent
                left -= sent
        except BlockingIOError:
            return

    def _send_region(self, region: Region, target: Target) -> int:
        sent = region.send(target.fileno())
        if region.left == 0:
            self._pieces.popleft()
        return sent

    def _read(self, region: Region) -> None:
        """Put the next bytes of the first region in front of it."""
        data = region.take(REGION_BYTES)
        if region.left == 0:
            self._pieces.popleft()
        self._pieces.appendleft(data)

    def _send_buffers(self, target: Target) -> int:
        buffers: list[Buffer] = []
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
        for buffer in buffers:
            if left < len(buffer):
                self._pieces[0] = memoryview(buffer)[left:]
                break
            self._pieces.popleft()
            left -= len(buffer)
        return sent

    def close(self) -> None:
        """Drop the queue and release the files."""
        for piece in self._pieces:
            if not isinstance(piece, BUFFERS):
                piece.close()
        self._pieces.clear()
        self.size = 0
