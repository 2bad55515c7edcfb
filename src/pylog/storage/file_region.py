"""A part of a `.log` file that is sent as it lies there: whole batches that a fetch has found and not read.

    file     [ batch ][ batch ][ batch ][ batch ] ...
                      ^ position ...... size ^          `left` bytes of it are still to go

The kernel hands the bytes from the file to the socket; they pass through no memory of ours. What may happen to the file
between the fetch and the last byte:

- its name changes, or it is removed: from the first byte on it is pinned, and sent to the end; before that, an extent
  holds nothing, so that thousands of them may wait in answers;
- it grows: nobody notices;
- it is cut: the extent raises `Truncated`, though what lay there may be something else by then. What was cut during a
  call is noticed behind it, and bytes that the socket has and nobody has read may have changed with the file: the
  connection must go, and the batch that they are in would fail its CRC.

(Kafka: FileRecords.slice and writeTo, which compares the length of the file alone.)
"""

from collections.abc import Callable

from pylog.errors import Truncated
from pylog.files import File


class FileExtent:
    """`size` bytes of `file` from `position` on. One thread at a time.

    `cuts` tells how often the file has been cut; `made_at` is what it told before the batches were looked at.
    """

    __slots__ = ("_cuts", "_file", "_made_at", "_pinned", "left", "position", "size")

    def __init__(self, file: File, position: int, size: int, *, cuts: Callable[[], int], made_at: int) -> None:
        self.position = position
        self.size = size
        self.left = size
        self._file = file
        self._cuts = cuts
        self._made_at = made_at
        self._pinned = False

    def __len__(self) -> int:
        return self.size

    def send(self, target: int) -> int:
        """Send of what is `left` as much as the socket with the descriptor `target` takes, and give how much that was.

        Who stops before nothing is left has to `close`. Raises: Truncated; Closed, LogNotFound (the file went before
        the first byte was sent); StorageError; what the socket raises: BlockingIOError where it takes nothing now.
        """
        self._check_uncut()
        if not self._pinned:
            self._file.pin()
            self._pinned = True
        sent = self._file.send(target, self.position + self.size - self.left, self.left)
        self._check_uncut()
        if sent == 0 < self.left:
            raise self._truncated()
        self.left -= sent
        if self.left == 0:
            self.close()
        return sent

    def take(self, bytes_max: int) -> bytes:
        """The next bytes of what is left, in memory, `bytes_max` at most; they count as sent. Raises as `read` does."""
        self._check_uncut()
        if not self._pinned:
            self._file.pin()
            self._pinned = True
        data = self._file.read(self.position + self.size - self.left, min(self.left, bytes_max))
        self._check_uncut()
        if not data:
            raise self._truncated()
        self.left -= len(data)
        if self.left == 0:
            self.close()
        return data

    def read(self) -> bytes:
        """The rest of the region, in memory. Raises as `send` does, the socket's errors excepted."""
        data = self._file.read(self.position + self.size - self.left, self.left)
        self._check_uncut()
        if len(data) < self.left:
            raise self._truncated()
        return data

    def close(self) -> None:
        """Let go of the file. Closing twice is fine."""
        if self._pinned:
            self._pinned = False
            self._file.unpin()

    def _check_uncut(self) -> None:
        if self._cuts() != self._made_at:
            raise self._truncated()

    def _truncated(self) -> Truncated:
        return Truncated(
            f"{self._file.path}: the log was cut after bytes {self.position} to {self.position + self.size} of this "
            f"file were found for a fetch; {self.size - self.left} of them were sent. Close the connection, and let "
            "the other side fetch again"
        )
