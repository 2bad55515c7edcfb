"""One segment of a partition: a `.log` file and the two indexes that lead into it.

    00000000000000001042.log         batches, one after the other, nothing else (kafka-format: FileRecords)
    00000000000000001042.index       last offset of a batch -> position of its first byte   (index.OffsetIndex)
    00000000000000001042.timeindex   largest timestamp so far -> offset of the batch that has it  (index.TimeIndex)

The number is the base offset: no batch in the file starts below it. Batches are appended whole, in one write, and
never changed; only `truncate` and `cut` make the file shorter. An index entry is added before a batch when more
than `index.interval.bytes` were written since the last entry, so the first batch never has one (Kafka's
LogSegment.append, per batch).

Invariants, held by `check`:
- offsets rise from batch to batch and stay within [base_offset, base_offset + 2**31 - 1];
- every index entry points at the start of the batch whose last offset it names;
- the indexes can be thrown away and rebuilt from the `.log`: they are never the truth.

A sealed segment never changes; its indexes are read from their files. The active one is the last of its partition.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from pylog.batch import Batch
from pylog.config import TopicConfig
from pylog.errors import CorruptBatch
from pylog.files import File, Files, join
from pylog.index import OffsetIndex, TimeIndex
from pylog.kernel import HEADER_BYTES, LOG_OVERHEAD, BatchSpan, walk

WINDOW_BYTES = 1 << 20
MAX_RELATIVE_OFFSET = 2**31 - 1
NO_TIMESTAMP = -1

_PREFIX = struct.Struct(">qi11xi")  # base offset, batch length, (epoch, magic, crc, attributes), last offset delta
_MIN_LENGTH = HEADER_BYTES - LOG_OVERHEAD
_MAX_TIMESTAMP_AT = 35


class Written(Protocol):
    """What `Segment.append` needs to know of a batch; `Batch` and the kernel's `BatchSpan` both say it."""

    @property
    def size(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...


class Slice(NamedTuple):
    """Whole batches read from one segment."""

    data: memoryview
    path: str
    position: int
    """Where in the file `data` begins."""


class Fault(NamedTuple):
    """Where a segment stops making sense: everything before `position` is good."""

    path: str
    position: int
    offset: int
    """The offset the bad batch should have begun with, or a later one."""
    reason: str


class TimestampAndOffset(NamedTuple):
    timestamp: int
    offset: int


def file_name(base_offset: int, suffix: str) -> str:
    """The name of a segment file: Kafka pads the base offset to 20 digits (LogFileUtils)."""
    return f"{base_offset:020d}{suffix}"


class Segment:
    """A `.log` file with its indexes. Not thread-safe for writing: the partition's lock is held by whoever appends.

    `active=False` opens the indexes as files of a sealed segment. `next_offset` of a sealed segment is the base offset
    of the one after it, which the partition knows without opening the file.
    """

    def __init__(
        self, files: Files, directory: str, base_offset: int, config: TopicConfig, *, active: bool, create: bool = False
    ) -> None:
        self.files = files
        self.directory = directory
        self.base_offset = base_offset
        self.config = config
        self.path = join(directory, file_name(base_offset, ".log"))
        self.next_offset = base_offset
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self.created_ms = 0
        self._active = active
        self._log: File = files.open(self.path, create=create)
        self._offsets: OffsetIndex | None = None
        self._times: TimeIndex | None = None
        self._unindexed_bytes = 0
        self._cuts = 0
        self._following = (-1, 0, 0)  # where the last read ended, and after how many cuts: the next one needs no index
        self._first_timestamp: int | None = None
        self._loaded_timestamps = active and not files.read_only
        if self._loaded_timestamps:
            self._open_indexes()

    def _open_indexes(self) -> None:
        """Open what is being written at once: two threads that each did so at its first use would have two of them
        (KAFKA-9156).
        """
        self._offsets, self._times = self.offsets, self.times

    # --- what it holds ---------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Bytes of the `.log` file."""
        return self._log.size()

    @property
    def offsets(self) -> OffsetIndex:
        if self._offsets is None:
            path = join(self.directory, file_name(self.base_offset, ".index"))
            limit = self.config.segment_index_bytes
            self._offsets = OffsetIndex(self.files, path, self.base_offset, limit, active=self._active)
        return self._offsets

    @property
    def times(self) -> TimeIndex:
        if self._times is None:
            path = join(self.directory, file_name(self.base_offset, ".timeindex"))
            limit = self.config.segment_index_bytes
            self._times = TimeIndex(self.files, path, self.base_offset, limit, active=self._active)
        return self._times

    @property
    def largest_timestamp(self) -> int:
        """The largest record timestamp, or -1 when no record has one."""
        if not self._loaded_timestamps:
            last = self.times.last
            if last is not None:
                self.max_timestamp, self.max_timestamp_offset = last
            # A reader looks again each time: the owner may be about to write the closing entry.
            self._loaded_timestamps = not self.files.read_only
        return self.max_timestamp

    def should_roll(self, batch: Written, now_ms: int) -> bool:
        """Whether `batch` has to go into a new segment (LogSegment.shouldRoll): the size, time, index and offset
        limits.
        """
        size = self.size
        if size > self.config.segment_bytes - batch.size:
            return True
        if size > 0 and self._waited_ms(batch.max_timestamp, now_ms) > self.config.segment_ms:
            return True
        if batch.last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            return True
        return self.offsets.is_full or self.times.is_full

    def _waited_ms(self, max_timestamp: int, now_ms: int) -> int:
        if self._first_timestamp is None:
            self._first_timestamp = int.from_bytes(self._log.read(_MAX_TIMESTAMP_AT, 8), "big", signed=True)
        if self._first_timestamp >= 0:
            return max_timestamp - self._first_timestamp
        return now_ms - self.created_ms

    # --- writing ---------------------------------------------------------------------------------------------------

    def append(self, data: bytes | bytearray | memoryview, batch: Written) -> None:
        """Write `data`, the bytes of `batch`, behind what is there.

        Raises: DiskFull (nothing was written), StorageError (the file is in doubt: the caller latches).
        """
        position = self.size
        self._log.write(position, data)
        self._note(batch, position)

    def _note(self, batch: Written, position: int) -> None:
        """Bookkeeping for one batch at `position`: the same when it is appended and when it is recovered."""
        last_offset = batch.last_offset
        if batch.max_timestamp > self.max_timestamp:
            self.max_timestamp = batch.max_timestamp
            self.max_timestamp_offset = last_offset
        if position == 0:
            self._first_timestamp = batch.max_timestamp
        if self._unindexed_bytes > self.config.index_interval_bytes:
            self.offsets.add(last_offset, position)
            self.times.maybe_add(self.max_timestamp, self.max_timestamp_offset)
            self._unindexed_bytes = 0
        self._unindexed_bytes += batch.size
        self.next_offset = last_offset + 1

    def activate(self) -> None:
        """Make a sealed segment the active one again, after a truncation removed those behind it."""
        if not self._active:
            self.forget_indexes()
            self._active = True
            self._open_indexes()

    def forget_indexes(self) -> None:
        """Close the index files; the next look-up opens them as they are then."""
        for index in (self._offsets, self._times):
            if index is not None:
                index.close()
        self._offsets = self._times = None

    def seal(self) -> None:
        """End of the segment's life as the active one; from now on it never changes."""
        self.finish()
        self.offsets.seal()
        self.times.seal()
        self._active = False

    def finish(self) -> None:
        """Add the closing time index entry, as Kafka does when it rolls or closes a log."""
        if self.max_timestamp >= 0:
            self.times.maybe_add(self.max_timestamp, self.max_timestamp_offset, force=True)

    def sync(self) -> None:
        """Make the segment durable: the log before the indexes that point into it."""
        self._log.sync()
        self.offsets.sync()
        self.times.sync()

    def close(self) -> None:
        """Give the descriptors back."""
        self._log.close()
        self.forget_indexes()

    def remove(self) -> None:
        """Delete the three files, the log last: an index without a log is an orphan that the next open removes."""
        self.close()
        for suffix in (".index", ".timeindex", ".log"):
            path = join(self.directory, file_name(self.base_offset, suffix))
            if self.files.stat(path) is not None:
                self.files.remove(path)

    # --- reading ---------------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, *, upto: int) -> Slice | None:
        """Whole batches from the one that holds `offset` on, none that starts at or above `upto`.

        At least one batch even if it is larger than `max_bytes` (KIP-74); None when this segment has nothing in
        [offset, upto). The first batch may begin below `offset`: the reader drops those records.
        Raises: CorruptBatch when the headers on the way make no sense.
        """
        size, cuts = self.size, self._cuts
        following, position, valid = self._following
        if following != offset or valid != cuts:
            position = self.offsets.lookup(offset, log_size=size)[1]
        window = max_bytes + self.config.index_interval_bytes
        while position < size:
            data = self._log.read(position, min(window, size - position))
            begin, end, wanted, last = self._cut(data, position, offset, upto, max_bytes)
            if end > begin:
                self._following = (last + 1, position + end, cuts)
                return Slice(memoryview(data)[begin:end], self.path, position + begin)
            if wanted == 0:
                return None
            if begin == 0 and len(data) == size - position:
                raise CorruptBatch(
                    f"{len(data)} bytes are too few for the batch they begin; run `pylog verify` to see all damage",
                    path=self.path, position=position, offset=max(offset, self.base_offset),
                )  # fmt: skip
            position += begin
            window = max(window, wanted)
        return None

    def _cut(self, data: bytes, at: int, offset: int, upto: int, max_bytes: int) -> tuple[int, int, int, int]:
        """Find whole batches [begin, end) in `data` and the last offset in them.

        An empty range with `wanted` > 0 says: read on from begin, at least so many bytes.
        """
        position, size, begin, last = 0, len(data), -1, -1
        while position + _PREFIX.size <= size:
            base, length, last_delta = _PREFIX.unpack_from(data, position)
            if length < _MIN_LENGTH or last_delta < 0:
                raise CorruptBatch(
                    f"a batch header says length {length} and last offset delta {last_delta}; "
                    "run `pylog verify` to see all damage",
                    path=self.path, position=at + position, offset=max(offset, self.base_offset),
                )  # fmt: skip
            following = position + LOG_OVERHEAD + length
            if base >= upto:
                return max(begin, 0), position if begin >= 0 else 0, 0, last
            if begin < 0 and base + last_delta >= offset:
                begin = position
            if begin >= 0:
                if following > size or (position > begin and following - begin > max_bytes):
                    break
                last = base + last_delta
            position = following
            if base + last_delta >= upto - 1:
                # What follows is nobody's business yet, and another process may be writing it right now.
                return max(begin, 0), position if begin >= 0 else 0, 0, last
        if begin < 0:
            return position, position, WINDOW_BYTES, last
        if position == begin:
            return begin, begin, LOG_OVERHEAD + int(_PREFIX.unpack_from(data, begin)[1]), last
        return begin, position, 0, last

    def scan(self, position: int = 0, *, check_crc: bool) -> Iterator[tuple[bytes, int, list[BatchSpan], Fault | None]]:
        """Walk the file from `position`: windows of bytes, where each begins, the batches in it;
        a Fault ends the walk.
        """
        size = self.size
        expected = self.base_offset
        window = WINDOW_BYTES
        while position < size:
            data = self._log.read(position, min(window, size - position))
            spans, valid, reason = walk(data, check_crc=check_crc)
            fault = None
            for span in spans:
                if span.base_offset < expected or span.last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
                    reason = f"offset {span.base_offset} does not follow {expected - 1} in this segment"
                    valid = span.position
                    spans = spans[: spans.index(span)]
                    break
                expected = span.last_offset + 1
            if reason is None and valid == 0 and len(data) < size - position:
                window *= 4
                continue
            if reason is None and valid < len(data) == size - position:
                reason = f"{len(data) - valid} bytes are too few for the batch they begin"
            if reason is not None:
                at = position + valid
                fault = Fault(self.path, at, expected, reason)
            yield data, position, spans, fault
            if fault is not None:
                return
            position += valid
            window = WINDOW_BYTES

    def offset_for_time(self, timestamp: int, *, first: int, upto: int) -> TimestampAndOffset | None:
        """The first record in [first, upto) whose timestamp is at least `timestamp`
        (FileRecords.searchForTimestamp).
        """
        indexed = self.times.lookup(timestamp)[1]
        position = self.offsets.lookup(max(indexed, first), log_size=self.size)[1]
        for data, _, spans, fault in self.scan(position, check_crc=False):
            for span in spans:
                if span.base_offset >= upto:
                    return None
                if span.max_timestamp < timestamp or span.last_offset < first:
                    continue
                found = self._first_at_or_after(Batch.parse(data, span.position), timestamp, first, upto)
                if found is not None:
                    return found
            if fault is not None and fault.offset < upto:
                raise CorruptBatch(fault.reason, path=fault.path, position=fault.position, offset=fault.offset)
        return None

    @staticmethod
    def _first_at_or_after(batch: Batch, timestamp: int, first: int, upto: int) -> TimestampAndOffset | None:
        for record in batch.records("", -1, first):
            if record.timestamp >= timestamp:
                return TimestampAndOffset(record.timestamp, record.offset) if record.offset < upto else None
        return None

    # --- opening, recovering, cutting ------------------------------------------------------------------------------

    def load(self) -> Fault | None:
        """Find the end of an active segment that was closed cleanly: only what lies behind the last index entry is
        read.
        """
        last = self.offsets.last
        position = last[1] if last is not None and last[1] < self.size else 0
        if (newest := self.times.last) is not None:
            self.max_timestamp, self.max_timestamp_offset = newest
        for _, _, spans, fault in self.scan(position, check_crc=False):
            for span in spans:
                if span.max_timestamp > self.max_timestamp:
                    self.max_timestamp, self.max_timestamp_offset = span.max_timestamp, span.last_offset
                self.next_offset = span.last_offset + 1
            if fault is not None:
                return fault
        return None

    def recover(self) -> tuple[list[tuple[int, int]], Fault | None]:
        """Read the whole file, check every CRC and build both indexes anew (LogSegment.recover).

        Gives the leader epochs met as (epoch, start offset), and the fault that stopped it. Nothing is cut here: the
        partition decides whether the fault is a torn tail or corruption.
        """
        self.offsets.reset()
        self.times.reset()
        self.max_timestamp, self.max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        self.next_offset = self.base_offset
        self._unindexed_bytes = 0
        epochs: list[tuple[int, int]] = []
        for _, start, spans, fault in self.scan(check_crc=True):
            for span in spans:
                self._note(span, start + span.position)
                if span.leader_epoch >= 0 and (not epochs or span.leader_epoch > epochs[-1][0]):
                    epochs.append((span.leader_epoch, span.base_offset))
            if fault is not None:
                return epochs, fault
        return epochs, None

    def cut(self, position: int) -> int:
        """Cut the file at `position`, where `recover` stopped, so no index entry lies beyond. Gives the bytes cut."""
        removed = self.size - position
        self._log.truncate(position)
        self._cuts += 1
        return removed

    def truncate(self, offset: int) -> None:
        """Drop every batch that reaches `offset` or beyond; the segment ends at the batch boundary at or below it."""
        kept = self.base_offset
        position = self.offsets.lookup(offset, log_size=self.size)[1]
        cut_at = self.size
        for _, start, spans, _ in self.scan(position, check_crc=False):
            beyond = next((span for span in spans if span.last_offset >= offset), None)
            if beyond is not None:
                kept, cut_at = min(offset, beyond.base_offset), start + beyond.position
                break
            kept = spans[-1].last_offset + 1 if spans else kept
        self.offsets.truncate(offset)
        self.times.truncate(offset)
        self._log.truncate(cut_at)
        self._cuts += 1
        self.next_offset = kept
        self._unindexed_bytes = 0
        self._first_timestamp = None
        self._reload_max_timestamp()

    def _reload_max_timestamp(self) -> None:
        self.max_timestamp, self.max_timestamp_offset = self.times.last or (NO_TIMESTAMP, self.base_offset)
        last = self.offsets.last
        for _, _, spans, _ in self.scan(last[1] if last is not None else 0, check_crc=False):
            for span in spans:
                if span.max_timestamp > self.max_timestamp:
                    self.max_timestamp, self.max_timestamp_offset = span.max_timestamp, span.last_offset

    def check(self, end: int) -> None:
        """Verify every invariant of this segment, which must end at or below `end`.

        Raises CorruptBatch at the first that does not hold.
        """
        starts: dict[int, int] = {}
        timestamps: dict[int, int] = {}
        for _, start, spans, fault in self.scan(check_crc=True):
            for span in spans:
                starts[span.last_offset] = start + span.position
                timestamps[span.last_offset] = span.max_timestamp
                if span.last_offset >= end:
                    raise CorruptBatch(
                        f"offset {span.last_offset} is not below {end}, where the next segment begins",
                        path=self.path, position=start + span.position, offset=span.base_offset,
                    )  # fmt: skip
            if fault is not None:
                raise CorruptBatch(fault.reason, path=fault.path, position=fault.position, offset=fault.offset)
        for i in range(self.offsets.entries):
            offset, position = self.offsets.entry(i)
            if starts.get(offset) != position:
                raise CorruptBatch(
                    "an index entry points beside a batch", path=self.offsets.path, position=i * 8, offset=offset
                )
        for i in range(self.times.entries):
            timestamp, offset = self.times.entry(i)
            if timestamps.get(offset) != timestamp:
                raise CorruptBatch("a time index entry names a timestamp its batch does not have",
                                   path=self.times.path, position=i * 12, offset=offset)  # fmt: skip
