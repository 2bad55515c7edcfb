"""One segment of a partition: a `.log` file and the indexes that lead into it.

    00000000000000001042.log         batches, one after the other                                 (storage.LogFile)
    00000000000000001042.index       last offset of a batch -> position of its first byte         (index.OffsetIndex)
    00000000000000001042.timeindex   largest timestamp so far -> offset of the batch that has it  (index.TimeIndex)
    00000000000000001042.txnindex    aborted transactions: their markers are here           (storage.TransactionIndex)
    00000000000000001042.pylog-seal  what the others were when it was sealed         (ours: storage.segment_checksum)

The number is the base offset: no batch in the file starts below it. An index entry is added before a batch when more
than `index.interval.bytes` were written since the last entry, so the first batch never has one (Kafka's
LogSegment.append, per batch). `.cleaned`, `.swap` and `.deleted` behind a name: being written, about to take its place,
about to go (LogFileUtils).

Invariants, held by `integrity.check_segment`:
- offsets rise from batch to batch and stay within [base_offset, base_offset + 2**31 - 1];
- every index entry points at the start of the batch whose last offset it names;
- the indexes can be thrown away and rebuilt from the `.log`: they are never the truth.

A sealed segment never changes; its indexes are read from their files. The active one is the last of its partition;
after a clean stop it is sealed as well, until the next append (`activate`).

`Segment` has four parts: `tail` (the kernel's: what an append is measured against), `on_disk` (its files), and a
`reader` and an `end_finder` of these.
"""

import random
from collections.abc import Iterator

from pylog.config import TopicConfig
from pylog.errors import DiskFull
from pylog.files import Files
from pylog.index import OffsetIndex, TimeIndex
from pylog.kernel import MAX_TIMESTAMP, Spans, Tail
from pylog.kernel.format import NO_TIMESTAMP, UNKNOWN_TIMESTAMP
from pylog.storage.file_ranges import DamagedRange, Fault, Window
from pylog.storage.log_file import LogFile
from pylog.storage.segment_checksum import NOBODY, Identity
from pylog.storage.segment_end import EndFinder
from pylog.storage.segment_files import SegmentFiles, SegmentPaths
from pylog.storage.segment_reader import SegmentReader
from pylog.storage.transaction_index import TransactionIndex

UNINDEXED_BYTES_MAX = 1 << 16
"""How much may lie behind the last index entry where a segment is written to again."""

_MAX_TIMESTAMP_AT = 35


class Segment:
    """A `.log` file with its indexes. Not thread-safe for writing: an append holds the partition's lock.

    `active=False` opens the indexes as files of a sealed segment. `next_offset` is known of an active segment alone;
    a sealed one ends where the next one begins. No file is opened before it is needed.
    """

    def __init__(
        self, files: Files, directory: str, base_offset: int, config: TopicConfig, *, active: bool,
        create: bool = False, suffix: str = "", damages: tuple[DamagedRange, ...] = (), identity: Identity = NOBODY,
        paths: type[SegmentPaths] = SegmentPaths,
    ) -> None:  # fmt: skip
        self.files = files
        self.directory = directory
        self.base_offset = base_offset
        self.tail = tail = Tail(base_offset, config.index_interval_bytes)
        self.on_disk = on_disk = SegmentFiles(
            paths(files, directory, base_offset, suffix), config, tail, active=active, create=create, damages=damages,
            identity=identity,
        )  # fmt: skip
        self.log: LogFile = on_disk.log
        self.reader = SegmentReader(on_disk)
        self.end_finder = EndFinder(on_disk)
        self.created_ms = 0
        self._roll_after_ms = _roll_after_ms(config)
        self._loaded_timestamps = active and not files.read_only
        self._known: tuple[int, int] | None = None
        if self._loaded_timestamps:
            on_disk.open_indexes()
        if create and config.preallocate:
            self.log.file.allocate(config.segment_bytes)

    def __repr__(self) -> str:
        return f"<Segment {self.path}>"

    # --- its parts -------------------------------------------------------------------------------------------------

    @property
    def config(self) -> TopicConfig:
        return self.on_disk.config

    @property
    def path(self) -> str:
        """The `.log` file."""
        return self.log.path

    @property
    def size(self) -> int:
        """Bytes of the `.log` file."""
        return self.log.size()

    @property
    def offsets(self) -> OffsetIndex:
        return self.on_disk.offsets

    @property
    def times(self) -> TimeIndex:
        return self.on_disk.times

    @property
    def aborted(self) -> TransactionIndex:
        """See `SegmentFiles.aborted`."""
        return self.on_disk.aborted

    @property
    def next_offset(self) -> int:
        """The offset behind the last record. Only an active segment knows it."""
        return self.tail.next_offset

    @property
    def is_active(self) -> bool:
        """Whether it can be written to: see `activate`."""
        return self.on_disk.is_active

    def close(self) -> None:
        """See `SegmentFiles.close`."""
        self.on_disk.close()

    def remove(self) -> None:
        """See `SegmentFiles.remove`."""
        self.on_disk.remove()

    # --- what it holds ---------------------------------------------------------------------------------------------

    def scan(self, position: int = 0, *, check_crc: bool) -> Iterator[Window]:
        """Walk the log from `position` on: see `LogFile.scan`."""
        return self.log.scan(position, check_crc=check_crc)

    @property
    def largest_timestamp(self) -> int:
        """The largest record timestamp, or -1 when no record has one."""
        return self._largest()[0]

    def _largest(self) -> tuple[int, int]:
        """The largest timestamp with its offset. Readers take no lock: what a writer goes by does not change."""
        if self._loaded_timestamps:
            return self.tail.max_timestamp, self.tail.max_timestamp_offset
        if self._known is not None:
            return self._known
        found = self.end_finder.largest_timestamp()
        if not self.files.read_only:
            # A reader looks again each time: the owner may be about to write the closing entry.
            self._known = found
        return found

    def modified_ms(self) -> int:
        """When the `.log` file was last written."""
        return self.log.modified_ms() or self.created_ms

    def age_timestamp(self) -> int:
        """The timestamp that retention and compaction lag use: the largest record timestamp, else when the file was
        written.
        """
        largest = self.largest_timestamp
        return largest if largest >= 0 else self.modified_ms()

    def takes_entries(self, count: int) -> bool:
        """Whether so many batches fit into the indexes, whatever they are."""
        return min(self.offsets.room, self.times.room) >= count

    def takes(self, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> bool:
        """Whether an append of `size` bytes goes into this segment: by its limits of size, time, indexes and offsets.
        Else a new one begins. (LogSegment.shouldRoll)

        The limits are those of the tail, which is asked first: appends do not come here as long as it takes them.
        """
        tail, used = self.tail, self.size
        first = self.first_timestamp() if used > 0 else NO_TIMESTAMP
        is_over = used > 0 and first < 0 and now_ms - self.created_ms > self._roll_after_ms
        tail.room = 0 if is_over or self.offsets.is_full or self.times.is_full else self.config.segment_bytes - used
        tail.newest_in_room = MAX_TIMESTAMP if first < 0 else min(first + self._roll_after_ms, MAX_TIMESTAMP)
        takes = tail.takes(size, last_offset, max_timestamp)
        if first < 0 or not self.is_active:
            # The clock may have a say in the next append, or there is a seal that goes before it.
            tail.room = 0
        return takes

    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch; -1 where it has none, or there is no batch."""
        if self.tail.first_max_timestamp == UNKNOWN_TIMESTAMP:
            head = self.log.file.read(_MAX_TIMESTAMP_AT, 8)
            if len(head) < 8:
                return NO_TIMESTAMP
            self.tail.first_max_timestamp = max(int.from_bytes(head, "big", signed=True), NO_TIMESTAMP)
        return self.tail.first_max_timestamp

    # --- writing ---------------------------------------------------------------------------------------------------

    def append(self, data: bytes | bytearray | memoryview, batches: Spans) -> None:
        """Write `data`, the bytes of one batch or several, behind what is there; `tail.put` writes one that is known.

        Raises: DiskFull (nothing was written), StorageError (the file is in doubt: the caller latches).
        """
        position = self.log.append(data)
        self.tail.room -= len(data)
        self._note_all(batches, position - batches[0].position)
        self.offsets.write_some()
        self.times.write_some()
        self._roll_if_full()

    def _roll_if_full(self) -> None:
        if self.offsets.is_full or self.times.is_full:
            self.tail.room = 0

    def _note_all(self, batches: Spans, start: int) -> None:
        """Put down batches that lie in the file from `start` on."""
        tail = self.tail
        if start + batches[0].position == 0:
            tail.first_max_timestamp = batches[0].max_timestamp
        marks = batches.marks(
            self.base_offset, start, tail.index_interval_bytes, tail.unindexed_bytes, tail.max_timestamp,
            tail.max_timestamp_offset,
        )  # fmt: skip
        self.offsets.extend(marks.offsets, marks.positions)
        self.times.extend(marks.timestamps, marks.timestamp_offsets)
        tail.unindexed_bytes = marks.passed
        tail.max_timestamp, tail.max_timestamp_offset = marks.newest, marks.newest_offset
        tail.next_offset = batches[-1].last_offset + 1

    def reconfigure(self, config: TopicConfig) -> None:
        """Go by `config` from now on; what was written stays as it is."""
        self.on_disk.config = config
        self.tail.index_interval_bytes = config.index_interval_bytes
        self._roll_after_ms = _roll_after_ms(config)
        self.tail.room = 0

    def activate(self, *, rebuilding: bool = False) -> None:
        """Make a sealed segment the active one again: before the first append after a clean stop, or after a truncation
        removed those behind it. Nothing is written to a file before its seal is gone.

        `rebuilding`: for `recover`, so the offset and time index go without being read.
        """
        if self.on_disk.is_active:
            return
        self.on_disk.refuse_anothers()
        if rebuilding:
            self._loaded_timestamps = True
            self.on_disk.remove_seal()
            self.on_disk.forget_indexes()
            self.on_disk.remove_indexes()
        else:
            self.tail.max_timestamp, self.tail.max_timestamp_offset = self._largest()
            self._loaded_timestamps = True
            offsets, times = self.offsets, self.times
            self.on_disk.remove_seal()
            offsets.unseal()
            times.unseal()
        self.on_disk.is_active = True
        self.tail.room = 0
        self.on_disk.open_indexes()
        # Kafka counts again. After many short runs all of it would lie behind the last entry, and be read at every
        # open.
        last = self.offsets.last
        behind = self.size - (last[1] if last is not None else 0)
        self.tail.unindexed_bytes = behind if behind > UNINDEXED_BYTES_MAX else 0
        # Last: a sync takes no lock, and would open a second transaction index.
        self.on_disk.is_touched = True

    def seal(self, next_offset: int) -> None:
        """End of the segment's life as the active one; from now on it never changes. The next one begins at
        `next_offset`.
        """
        if not self.on_disk.is_active:
            return
        self.finish()
        self.offsets.seal()
        try:
            self.times.seal()
        except DiskFull:
            self.offsets.unseal()
            raise
        self.log.file.trim()
        # It may be the last one still: no append goes into it before `activate`.
        self.tail.room = 0
        self.on_disk.is_active = False
        self.on_disk.write_seal(next_offset)

    def finish(self) -> None:
        """Add the closing time index entry, as Kafka does when it rolls or closes a log. A sealed segment has it."""
        if self.on_disk.is_active and self.tail.max_timestamp >= 0:
            self.times.maybe_add(self.tail.max_timestamp, self.tail.max_timestamp_offset, force=True)

    # --- opening, recovering, cutting ------------------------------------------------------------------------------

    def load(self) -> Fault | None:
        """Find the end of an active segment that was closed cleanly: see `EndFinder.find`."""
        self.tail.next_offset, self.tail.max_timestamp, self.tail.max_timestamp_offset, fault = self.end_finder.find()
        self._loaded_timestamps = not self.files.read_only
        return fault

    def recover(self, *, with_transactions: bool = True) -> Iterator[Window]:
        """Read the whole file, check every CRC and build the offset and time index again (LogSegment.recover).

        Gives what was read as it is noted; the transaction index is emptied, for the caller to fill it.
        A fault ends it. Nothing is cut here: the partition decides whether it is a torn tail or corruption.
        """
        self.offsets.reset()
        self.times.reset()
        if with_transactions:
            self.aborted.reset()
        self.tail.max_timestamp, self.tail.max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        self.tail.next_offset = self.base_offset
        self.tail.unindexed_bytes = 0
        for window in self.scan(check_crc=True):
            if window.spans:
                self._note_all(window.spans, window.position)
            yield window
        self.finish()
        # What was recovered counts for an index entry no more (as in Kafka, where the counter begins again).
        self.tail.unindexed_bytes = 0

    def lacks(self, offset: int) -> bool:
        """Whether an offset of the segment lies in a damaged part, or behind what is left of it."""
        damaged = any(damage.offset <= offset < damage.next_offset for damage in self.log.damages)
        return damaged or offset >= self.tail.next_offset

    def truncate(self, offset: int) -> None:
        """Drop every batch that reaches `offset` or beyond; the segment ends at the batch boundary at or below it."""
        position, _ = self.reader.boundary(offset)
        self.offsets.truncate(offset)
        self.times.truncate(offset)
        self.aborted.truncate(offset)
        self.log.truncate(position)
        self.tail.unindexed_bytes = self.tail.room = 0
        if position == 0:
            self.tail.first_max_timestamp = UNKNOWN_TIMESTAMP
        self.load()


def _roll_after_ms(config: TopicConfig) -> int:
    """The age at which a segment is rolled: `segment.ms`, or `max.compaction.lag.ms` if that is less, minus a random
    jitter.
    """
    limit = config.segment_ms
    if "compact" in config.cleanup_policy:
        limit = min(limit, config.max_compaction_lag_ms)
    jitter = min(config.segment_jitter_ms, config.segment_ms)
    return limit - (random.randrange(jitter) if jitter else 0)
