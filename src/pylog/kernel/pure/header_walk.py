"""From batch to batch of a log, by what headers say before the CRC: where the batches begin and end that are wanted."""

from collections.abc import Sequence
from typing import Protocol

from pylog.errors import PylogError
from pylog.kernel.format import BATCH_LENGTH_MIN, LOG_OVERHEAD, MAX_OFFSET, PREFIX


class Readable(Protocol):
    """What somebody needs who reads a file, whatever it is."""

    def size(self) -> int: ...
    def read(self, position: int, size: int) -> bytes: ...


class Followed(Protocol):
    """A file of batches that somebody reads: up to where, by offset and position, and after how many cuts."""

    path: str
    cuts: int
    following: tuple[int, int, int]

    @property
    def opened(self) -> Readable | None: ...
    @property
    def damages(self) -> Sequence[object]: ...


class HeaderWalk:
    """How far a walk has come: where the next batch may begin, by position and offset, and the leader epoch of the last
    one; and where the first batch began that is wanted, -1 until it was met.
    """

    __slots__ = ("begin", "epoch", "offset", "position")

    def __init__(self, position: int, offset: int) -> None:
        self.position = position
        self.offset = offset
        self.epoch = self.begin = -1

    def go_on(
        self, data: bytes, at: int, reach: int, offset: int, upto: int, end: int, max_bytes: int, written: int
    ) -> int:
        """Go on over the headers in `data`, which lies at `at` in the file; batches may reach up to `reach`.

        Wanted is what ends at `offset` or behind and begins below `upto`, a batch at least, and `max_bytes` at most.
        All end below `end`, and what begins below `written` does so below that. Gives 0 when the wanted ones were
        passed, -1 where the header at `position` cannot be, else how many bytes there have to be from `position` on.
        """
        written_end = min(end, written)
        last = at + len(data) - PREFIX.size
        while self.position <= last:
            position = self.position
            base, length, epoch, last_delta = PREFIX.unpack_from(data, position - at)
            if upto <= base < end:
                return 0
            limit = written_end if base < written else end
            if (
                length < BATCH_LENGTH_MIN
                or last_delta < 0
                or base < self.offset
                or base + last_delta >= limit
                or epoch < self.epoch
            ):
                return -1
            following = position + LOG_OVERHEAD + length
            if self.begin < 0 and base + last_delta >= offset:
                self.begin = position
            begin = self.begin
            if begin >= 0 and (following > reach or (position > begin and following - begin > max_bytes)):
                return 0 if position > begin else LOG_OVERHEAD + length
            self.offset, self.epoch, self.position = base + last_delta + 1, epoch, following
            if self.offset >= upto:
                # What follows is nobody's business yet, and another process may be writing it right now.
                return 0
        return 0 if 0 <= self.begin < self.position and self.position + PREFIX.size > reach else PREFIX.size


def read_following(
    log: Followed, offset: int, max_bytes: int, upto: int, written: int
) -> tuple[memoryview, str, int, int] | None:
    """All that follows in a file on what was read last, if that has ended before `offset`, and this is no more than
    `max_bytes` and begins below `upto`, batch by batch: the bytes, the file, where in it they begin, and the offset
    behind them. `written` is where the log ends.

    None where it takes more than that, or does not go well: then it is for who looks more closely.
    """
    file, (expected, position, valid), cuts = log.opened, log.following, log.cuts
    if expected != offset or valid != cuts or file is None or log.damages:
        return None
    try:
        size = file.size()
        if not 0 < size - position <= max_bytes:
            return None
        data = file.read(position, size - position)
    except PylogError:
        return None
    walk = HeaderWalk(position, offset)
    least = walk.go_on(data, position, size, offset, upto, MAX_OFFSET, max_bytes, written)
    if len(data) < size - position or least != 0 or walk.begin != position or walk.position != size:
        return None
    log.following = (walk.offset, size, cuts)
    return memoryview(data), log.path, position, walk.offset
