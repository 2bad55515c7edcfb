"""From batch to batch of a log, by what headers say before the CRC: where the batches begin and end that are wanted."""

from collections.abc import Callable, Sequence
from typing import Protocol

from pylog.errors import PylogError
from pylog.kernel.format import BATCH_LENGTH_MIN, LOG_OVERHEAD, PREFIX


class Readable(Protocol):
    """A file that can be read, of whatever kind."""

    def size(self) -> int: ...
    def read(self, position: int, size: int) -> bytes: ...


class Followed(Protocol):
    """A file of batches that is read: up to where, by offset and position, and after how many cuts."""

    path: str
    cuts: int
    following: tuple[int, int, int]

    @property
    def opened(self) -> Readable | None: ...
    @property
    def damages(self) -> Sequence[object]: ...


class HeaderWalk:
    """The progress of a walk: where the next batch may begin, by position and offset, and the leader epoch of the last
    one; and where the first batch began that is wanted, by position and offset, -1 until it was met.
    """

    __slots__ = ("begin", "epoch", "first", "offset", "position")

    def __init__(self, position: int, offset: int) -> None:
        self.position = position
        self.offset = offset
        self.epoch = self.begin = self.first = -1

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
                self.begin, self.first = position, base
            begin = self.begin
            if begin >= 0 and (following > reach or (position > begin and following - begin > max_bytes)):
                return 0 if position > begin else LOG_OVERHEAD + length
            self.offset, self.epoch, self.position = base + last_delta + 1, epoch, following
            if self.offset >= upto:
                # What follows is not to be looked at: another process may be writing it right now.
                return 0
        return 0 if 0 <= self.begin < self.position and self.position + PREFIX.size > reach else PREFIX.size


def read_following(
    log: Followed,
    offset: int,
    max_bytes: int,
    upto: int,
    end: int,
    written: int,
    window: Callable[[int, int], int] | None = None,
) -> tuple[memoryview, str, int, int] | None:
    """Whole batches of at most `max_bytes` that begin below `upto`, where the last read of a file has ended before
    `offset`: the bytes, the file, where in it they begin, and the offset behind them. `end` and `written`: as for
    `HeaderWalk.go_on`. Where more is left than `max_bytes`, `window(position, max_bytes)` says how much to read.

    None where it takes more than a read, or does not go well: then it is for who looks more closely. So is a gap before
    the first one: the length of the batch before it may be damaged, and lead too far.
    """
    file, (expected, position, valid), cuts = log.opened, log.following, log.cuts
    if expected != offset or valid != cuts or file is None or log.damages:
        return None
    try:
        size = file.size()
        asked = size - position
        if asked > max_bytes:
            if window is None:
                return None
            asked = min(asked, window(position, max_bytes))
        if asked <= 0:
            return None
        data = file.read(position, asked)
    except PylogError:
        return None
    walk = HeaderWalk(position, offset)
    least = walk.go_on(data, position, position + asked, offset, upto, end, max_bytes, written)
    if len(data) < asked or least != 0 or walk.begin != position or walk.first > offset or log.cuts != cuts:
        return None
    if walk.position < size:
        # No CRC covers where the next one says that it is.
        if walk.position + PREFIX.size > position + asked:
            return None
        base, _, epoch, _ = PREFIX.unpack_from(data, walk.position - position)
        if base < walk.offset or epoch < walk.epoch:
            return None
    log.following = (walk.offset, walk.position, cuts)
    return memoryview(data)[: walk.position - position], log.path, position, walk.offset
