"""The queue of bytes for one socket: buffers, and regions of files that go from the file to the socket.

    pieces   [ size and header ][ body ... ][ region of a file ][ body ... ] [ size and header ] ...

Buffers that follow each other go by one `sendmsg`; a region goes by sendfile. Nothing is joined, and nothing is copied.
"""

import socket
from collections import deque
from collections.abc import Sequence
from typing import Any

from pylog.protocol.messages import Extent

BUFFERS_MAX = 256
"""How many buffers one `sendmsg` takes; the system allows 1024."""
TURN_BYTES = 4 << 20
"""How much one connection sends in a turn, before others have theirs."""
_MORE = getattr(socket, "MSG_MORE", 0)


class Outgoing:
    """The queue of one connection. `size` is how many bytes wait."""

    __slots__ = ("_pieces", "size")

    def __init__(self) -> None:
        self._pieces: deque[Any] = deque()
        self.size = 0

    def push(self, pieces: Sequence[Any], size: int) -> None:
        """Queue the pieces of a response, `size` bytes in all."""
        self._pieces.extend(piece for piece in pieces if len(piece))
        self.size += size

    def send(self, target: socket.socket) -> None:
        """Send as much as the socket takes, up to the share of a turn.

        Raises: OSError of the socket; PylogError, if a region cannot be sent any more: the connection is broken.
        """
        left = TURN_BYTES
        try:
            while self._pieces and left > 0:
                sent = self._send_region(target) if _is_region(self._pieces[0]) else self._send_buffers(target)
                self.size -= sent
                left -= sent
        except BlockingIOError:
            return

    def _send_region(self, target: socket.socket) -> int:
        region: Extent = self._pieces[0]
        sent = region.send(target.fileno())
        if region.left == 0:
            self._pieces.popleft()
        return sent

    def _send_buffers(self, target: socket.socket) -> int:
        buffers: list[Any] = []
        flags = 0
        for piece in self._pieces:
            if _is_region(piece):
                flags = _MORE
                break
            buffers.append(piece)
            if len(buffers) == BUFFERS_MAX:
                break
        sent = target.sendmsg(buffers, (), flags)
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
    return not isinstance(piece, bytes | memoryview | bytearray)
