"""A `.log` file: batches one after the other, nothing else, found again by walking from header to header.

    00000000000000001042.log         [ batch ][ batch ][ batch ] ...      (kafka-format: FileRecords)

Bytes are appended whole, in one write, and never changed; only `truncate` makes the file shorter. Where a part of the
file is known to be damaged it is stepped over: reading what was in it raises CorruptBatch, the rest stays readable.

Invariants: offsets rise from batch to batch; a walk never trusts a length that leads behind the end of the file.
"""

from collections.abc import Callable, Generator, Iterator
from typing import Any, Protocol, TypeVar

from pylog.errors import Closed, CorruptBatch, LogNotFound
from pylog.files import File, Files, FileStat, too_large
from pylog.kernel import (
    BATCH_LENGTH_MIN,
    HEADER_BYTES,
    LOG_OVERHEAD,
    LONG_MAX,
    MAX_RELATIVE_OFFSET,
    PREFIX,
    HeaderWalk,
    Spans,
    walk,
)
from pylog.storage.file_ranges import DamagedRange, Fault, Slice, WantedBatches, Window
from pylog.storage.file_region import FileExtent

WINDOW_BYTES = 1 << 20
LOG_BYTES_MAX = 2**31 - 1
"""What no `.log` is larger than: an index has 31 bits for a position (Kafka: FileRecords)."""
RESUMED_MAX = 64
"""How many searches behind faults are remembered: a file may be damaged in any number of places."""
HEAD_BYTES = 1 << 12
"""What is read where batches begin that need not come into memory; little ones lie in it as a whole."""


class Closable(Protocol):
    """An object that holds a descriptor."""

    def close(self) -> None: ...


C = TypeVar("C", bound=Closable)


def first(kept: dict[str, Any], name: str, made: C) -> C:
    """The object that is kept under a name: `made`, unless another thread was quicker, who may have written to its own;
    then `made` is closed. Takes no lock.
    """
    found: C = kept.setdefault(name, made)
    if found is not made:
        made.close()
    return found


class LogFile:
    """The batches of one segment. One writer; reading takes no lock. The file is opened at its first use."""

    def __init__(
        self, files: Files, path: str, base_offset: int, *, create: bool = False, damages: tuple[DamagedRange, ...] = ()
    ) -> None:
        self.files = files
        self.path = path
        self.base_offset = base_offset
        self.damages = damages
        self.sealed_bytes: Callable[[], int] = int
        """How large the file was when it was sealed; 0 where that is not known."""
        self.opened: File | None = None
        self._kept: dict[str, File] = {}
        if create:
            self.opened = first(self._kept, ".log", files.open(path, create=True))
        self._closed_size: int | None = None
        self._closed = False
        self.cuts = 0
        """How often it was made shorter."""
        self.following = (-1, 0, 0)
        """Where the last read ended, by offset and position, and after how many cuts: the next one needs no index."""
        self._resumed: dict[tuple[int, int, int], tuple[int, tuple[int, int] | None]] = {}
        """For faults, by position, offset and cuts: the size of the file by then, and where it goes on behind them."""

    @property
    def file(self) -> File:
        """The open file. Raises LogNotFound when it is gone, StorageError where it cannot be one."""
        found = self.opened
        if found is None:
            kept, found = self._kept, self.files.open(self.path)
            if (size := found.size()) > LOG_BYTES_MAX:
                found.close()
                raise too_large(self.path, size, LOG_BYTES_MAX)
            # Who appends goes by the size that the handle knows.
            self.opened = found = first(kept, ".log", found)
        return found

    def size(self) -> int:
        """Bytes of the file. Raises LogNotFound when it is gone."""
        opened, closed_size = self.opened, self._closed_size  # another thread may close it just now
        if opened is not None:
            return opened.size()
        if closed_size is None or self.files.read_only:
            stat = self._stat()
            if stat is None:
                raise LogNotFound(f"{self.path} is gone: it was deleted, or the log directory was moved")
            return stat.size
        return closed_size

    def modified_ms(self) -> int | None:
        """When the file was last written; None when it is gone. Its size is known by that, too."""
        stat = self._stat()
        return stat.mtime_ms if stat is not None else None

    def _stat(self) -> FileStat | None:
        stat = self.files.stat(self.path)
        if stat is not None:
            self._closed_size = stat.size
        return stat

    def append(self, data: bytes | bytearray | memoryview) -> int:
        """Write whole batches behind what is there; gives where they begin.

        Raises: DiskFull (nothing was written), StorageError (the file is in doubt: the caller latches).
        """
        file = self.opened or self.file
        position = file.size()
        file.write(position, data)
        return position

    @property
    def ends_damaged(self) -> bool:
        """Whether the last thing in the file is a damaged part: nothing should follow it there."""
        return bool(self.damages) and self.damages[-1].end >= self.size()

    def truncate(self, position: int) -> None:
        """Cut the file at `position`, the start of a batch."""
        self.file.truncate(position)
        self.cuts += 1
        self.damages = tuple(damage for damage in self.damages if damage.position < position)

    def to_sync(self) -> File:
        """The file, for a sync: opened if it never was, as after a stop of which the disk may lack something.

        Raises Closed: what was closed is not opened again for that, when the system has forgotten what it has lost.
        """
        file = self.file
        if self._closed:
            raise Closed(f"{self.path} is closed; open the log again")
        return file

    def write_again(self) -> None:
        """Write over everything what can be read of it, so that a sync takes it to the disk."""
        file = self.file
        for position in range(0, file.size(), WINDOW_BYTES):
            file.write(position, file.read(position, WINDOW_BYTES))

    def close(self) -> None:
        """Give the descriptor back; reading opens the file again."""
        # First: who syncs has no lock, and asks when it has the file.
        self._closed = True
        if self.opened is not None:
            self._closed_size = self.opened.size() if not self.files.read_only else None
            self.opened.close()
            self.opened, self._kept = None, {}

    # --- reading ---------------------------------------------------------------------------------------------------

    def after_last(self, offset: int) -> int | None:
        """Where `offset` begins if the last read ended right before it."""
        following, position, valid = self.following
        return position if following == offset and valid == self.cuts else None

    def read(self, wanted: WantedBatches, position: int, *, expected: int, window: int, cuts: int) -> Slice | None:
        """Whole batches from the one that holds `wanted.offset` on, looked for from `position`, where a batch begins
        that has no offset below `expected`.

        At least one even if it is too large; None when there is nothing in [offset, upto) up to the end of the file.
        Raises CorruptBatch, which names the offset behind it where that lies in a part known to be damaged; and without
        one where headers alone do not tell what is there (they make no sense, or leave a gap), or where the file was
        cut since it had been so `cuts` times.
        """
        size = self.size()
        for damage in self.damages:
            if damage.end <= position and damage.next_offset <= wanted.offset:
                continue
            found = self._read(wanted, position, damage.position, cuts, expected, window)
            if found is not None or damage.offset >= wanted.upto:
                return found
            if wanted.offset < damage.next_offset:
                raise self.damaged(damage)
            position, expected = damage.end, damage.next_offset
        found = self._read(wanted, position, size, cuts, expected, window)
        if found is None and size < (sealed := self.sealed_bytes()):
            raise self._nonsense(f"the file was cut: {size} bytes are left of {sealed}", size, wanted.offset)
        return found

    def base_of(self, position: int, last_offset: int) -> int | None:
        """The base offset of the batch at `position` if `last_offset` is its last one, as an index entry says; else
        None.
        """
        head = self.file.read(position, PREFIX.size)
        if len(head) < PREFIX.size:
            return None
        base, _, _, last_delta = PREFIX.unpack(head)
        return int(base) if base + last_delta == last_offset else None

    def damaged(self, damage: DamagedRange) -> CorruptBatch:
        """The error for reading what lies in a damaged part."""
        return CorruptBatch.on_reading(
            f"a part of {damage.end - damage.position} bytes fails its checks",
            path=self.path, position=damage.position, offset=damage.offset, next_offset=damage.next_offset,
        )  # fmt: skip

    def _read(
        self, wanted: WantedBatches, position: int, size: int, cuts: int, expected: int, window: int
    ) -> Slice | None:
        walk = HeaderWalk(position, expected)
        while walk.position < size:
            at = walk.position
            asked = min(window, size - at)
            data = self.file.read(at, asked)
            least = self._walk_on(walk, data, at, at + len(data) if wanted.lookup is None else size, wanted)
            if least == 0:
                return self._slice(walk, data, at, size, cuts, wanted)
            left = size - walk.position
            if len(data) < asked or 0 < left < least:
                few = len(data) if len(data) < asked else left
                raise self._nonsense(f"{few} bytes are too few for the batch they begin", walk.position, wanted.offset)
            if wanted.lookup is None:
                window = max(window, least if walk.begin >= 0 else WINDOW_BYTES)
            elif walk.begin >= 0:
                self._skip(walk, *wanted.lookup(wanted.upto - 1, min(walk.begin + wanted.max_bytes + 1, size)))
        return None

    def _skip(self, walk: HeaderWalk, last_offset: int, position: int) -> None:
        """Let a walk go on at `position`, if it is not there yet and the index is right about what begins there."""
        if position > walk.position:
            base = self.base_of(position, last_offset)
            if base is not None and base >= walk.offset:
                walk.position, walk.offset = position, base

    def _slice(
        self, walk: HeaderWalk, data: bytes, at: int, size: int, cuts: int, wanted: WantedBatches
    ) -> Slice | None:  # fmt: skip
        """The bytes between the beginning of the wanted batches and the end of the walk; `data`, at `at`, was read
        last.
        """
        begin, end = walk.begin, walk.position
        if begin < 0:
            return None
        if cuts != self.cuts:
            raise self._nonsense("the file was cut while it was read", begin, walk.offset)
        if walk.first > max(wanted.offset, self.base_offset):
            raise self._nonsense(f"the first batch begins at offset {walk.first}", begin, wanted.offset)
        if end < size:
            self.check_following(end, walk.offset, walk.epoch, data[end - at : end - at + PREFIX.size])
        self.following = (walk.offset, end, cuts)
        if begin >= at and end <= at + len(data):
            return Slice(memoryview(data)[begin - at : end - at], self.path, begin, walk.offset)
        extent = FileExtent(self.file, begin, end - begin, cuts=lambda: self.cuts, made_at=cuts)
        return Slice(memoryview(b""), self.path, begin, walk.offset, extent)

    def between(self, begin: int, end: int, next_offset: int, cuts: int) -> Slice:
        """The batches in [begin, end), which were found there. Raises CorruptBatch where the file was cut since it had
        been so `cuts` times.
        """
        data = self.file.read(begin, end - begin)
        if cuts != self.cuts:
            raise self._nonsense("the file was cut while it was read", begin, next_offset)
        self.following = (next_offset, end, cuts)
        return Slice(memoryview(data), self.path, begin, next_offset)

    def _nonsense(self, what: str, position: int, offset: int) -> CorruptBatch:
        at = max(offset, self.base_offset)
        return CorruptBatch.on_reading(what, path=self.path, position=position, offset=at, next_offset=None)

    def _walk_on(self, walk: HeaderWalk, data: bytes, at: int, reach: int, wanted: WantedBatches) -> int:
        """Go on over the headers in `data`: see `HeaderWalk.go_on`. Raises CorruptBatch."""
        offset, upto, end, max_bytes, written, _ = wanted
        least = walk.go_on(data, at, reach, offset, upto, end, min(max_bytes, LONG_MAX), written)
        if least < 0:
            raise self._nonsense(_misfit(walk, data[walk.position - at :], end, written), walk.position, offset)
        return least

    def check_following(self, position: int, offset: int, epoch: int, head: bytes = b"") -> None:
        """Whether the batch at `position`, if there is one, can follow one that ends before `offset`: no CRC covers
        where a batch says that it is. `head` is what of it was read already. Raises CorruptBatch.
        """
        if len(head) < PREFIX.size:
            head = self.file.read(position, PREFIX.size)
        if len(head) < PREFIX.size or (self.damages and any(damage.position == position for damage in self.damages)):
            return
        base, length, following, _ = PREFIX.unpack_from(head)
        # No length: reserved space.
        if length != 0 and (base < offset or following < epoch):
            raise self._nonsense(
                f"a batch at offset {base} with leader epoch {following} follows offset {offset - 1} with epoch "
                f"{epoch}", position, offset,
            )  # fmt: skip

    def scan(
        self, position: int = 0, *, check_crc: bool, expected: int | None = None, at_first: int = WINDOW_BYTES
    ) -> Iterator[Window]:
        """Walk the file from `position`, window by window; a Fault ends the walk, damaged parts are stepped over.

        `expected` is the lowest offset that may come first. The first window has `at_first` bytes, the next ones more.
        """
        expected = self.base_offset if expected is None else expected
        for damage in (*self.damages, None):
            stop = self.size() if damage is None else damage.position
            followed = yield from self._scan(position, stop, expected, check_crc, at_first)
            if followed is None:
                return
            expected = followed
            if damage is not None:
                position, expected = max(position, damage.end), max(expected, damage.next_offset)
        size, sealed = self.size(), self.sealed_bytes()
        if size < sealed:
            reason = f"the file was cut: {size} bytes are left of {sealed}"
            yield Window(b"", size, Spans(), Fault(self.path, size, expected, reason))

    def _scan(
        self, position: int, size: int, expected: int, check_crc: bool, length: int
    ) -> Generator[Window, None, int | None]:
        """Gives what offset is to follow in the end, None behind a fault."""
        while position < size:
            asked = min(length, size - position)
            data = self.file.read(position, asked)
            spans, valid, reason = walk(data, check_crc=check_crc)
            good, blamed = spans.rising(expected, self.base_offset + MAX_RELATIVE_OFFSET), None
            if good < len(spans):
                good, blamed, reason = self._out_of_order(spans, good, expected)
                valid = spans[good].position
                spans = spans.part(0, good)
            if reason is None and valid == 0 and len(data) == asked < size - position:
                length = LOG_OVERHEAD + int.from_bytes(data[LOG_OVERHEAD - 4 : LOG_OVERHEAD], "big")
                if length <= size - position:
                    continue
                reason = f"{size - position} bytes are too few for the batch they begin"
            # Fewer than asked for: the file was cut meanwhile.
            if reason is None and (valid < len(data) == size - position or len(data) < asked):
                reason = f"{len(data) - valid} bytes are too few for the batch they begin"
            if reason is not None:
                expected = blamed if blamed is not None else _following(spans, expected)
                yield Window(data, position, spans, Fault(self.path, position + valid, expected, reason))
                return None
            # Whoever has found what was looked for does not come back.
            yield Window(data, position, spans, None)
            expected = _following(spans, expected)
            position += valid
            length = min(4 * length, WINDOW_BYTES)
        return expected

    def _out_of_order(self, spans: Spans, index: int, expected: int) -> tuple[int, int, str]:
        """The batch to blame where the one at `index` does not follow, what was expected there, and the reason."""
        ends = [expected, *(span.last_offset + 1 for span in spans[max(index - 2, 0) : index])]
        base_offset, before = spans[index].base_offset, ends[-2:][0]
        reason = f"offset {base_offset} does not follow {ends[-1] - 1} in this segment"
        if index > 0 and before <= base_offset and before < spans[index - 1].base_offset:
            # Without the last batch, which left a gap, this one would fit.
            return index - 1, before, reason
        return index, ends[-1], reason

    def resume_after(self, fault: Fault) -> tuple[int, int] | None:
        """Where, behind a fault, the next whole batch with a right CRC and a following offset begins, and its offset.

        Looks where the header at the fault leads to first, and else at every byte that could be the magic of a header;
        the bytes in between are what the fault has cost.
        """
        size, place = self.size(), (fault.position, fault.offset, self.cuts)
        known_size, found = self._resumed.get(place, (-1, None))
        # Behind a fault without an end batches may come in.
        if found is None and known_size != size:
            found = self._claimed_end(fault, size) or self._next_batch(fault, size)
            if len(self._resumed) >= RESUMED_MAX:
                self._resumed.clear()
            self._resumed[place] = size, found
        return found

    def _claimed_end(self, fault: Fault, size: int) -> tuple[int, int] | None:
        head = self.file.read(fault.position, PREFIX.size)
        if len(head) < PREFIX.size:
            return None
        base, length, _, last_delta = PREFIX.unpack(head)
        end = fault.position + LOG_OVERHEAD + max(length, 0)
        following = self._batch_at(end, size, fault.offset)
        return (end, following) if following is not None and following == base + last_delta + 1 else None

    def _next_batch(self, fault: Fault, size: int) -> tuple[int, int] | None:
        position = fault.position + 1
        while position + HEADER_BYTES <= size:
            data = self.file.read(position, min(WINDOW_BYTES, size - position))
            at = data.find(b"\x02", 16)
            while at >= 0:
                start = position + at - 16
                base_offset = self._batch_at(start, size, fault.offset)
                if base_offset is not None:
                    return start, base_offset
                at = data.find(b"\x02", at + 1)
            position += max(len(data) - 16, 1)
        return None

    def ends_within_a_write(self, fault: Fault) -> bool:
        """Whether the file ends, from a fault on, in the first part of one batch, or in reserved space without any."""
        left = self.size() - fault.position
        head = self.file.read(fault.position, min(left, HEADER_BYTES))
        length = int.from_bytes(head[LOG_OVERHEAD - 4 : LOG_OVERHEAD], "big", signed=True)
        is_part = left < LOG_OVERHEAD or left < LOG_OVERHEAD + length
        return (is_part or not any(head)) and self.resume_after(fault) is None

    def has_batch(self, damage: DamagedRange) -> bool:
        """Whether a whole batch with a right CRC, and with offsets that were lost, begins where a part was damaged: it
        was put back, or what is wrong with it is said by its neighbours alone.
        """
        return self._batch_at(damage.position, self.size(), damage.offset, damage.next_offset) is not None

    def _batch_at(self, position: int, size: int, expected: int, end: int = LONG_MAX) -> int | None:
        head = self.file.read(position, HEADER_BYTES)
        if len(head) < HEADER_BYTES:
            return None
        base, length, _, last_delta = PREFIX.unpack_from(head)
        if not BATCH_LENGTH_MIN <= length <= size - position - LOG_OVERHEAD or last_delta < 0:
            return None
        last = base + last_delta
        if not expected <= base <= last <= self.base_offset + MAX_RELATIVE_OFFSET or last >= end:
            return None
        spans, _, _ = walk(self.file.read(position, LOG_OVERHEAD + length), check_crc=True)
        return int(base) if len(spans) == 1 else None


def _following(spans: Spans, expected: int) -> int:
    return spans[-1].last_offset + 1 if spans else expected


def _misfit(walk: HeaderWalk, head: bytes, end: int, written: int) -> str:
    """The reason why a batch header is impossible: what the CRC does not cover has to follow from its neighbours."""
    base, length, epoch, last_delta = PREFIX.unpack_from(head)
    last, limit = base + last_delta, min(end, written) if base < written else end
    if length < BATCH_LENGTH_MIN or last_delta < 0:
        return f"a batch header says length {length} and last offset delta {last_delta}"
    if base < walk.offset or last >= limit:
        return f"a batch header says offsets {base} to {last}, which cannot be between {walk.offset} and {limit}"
    return f"a batch header says leader epoch {epoch} after epoch {walk.epoch}"
