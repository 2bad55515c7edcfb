"""The end of a log: which batches get there as they are, and what each of them changes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pylog.kernel.format import CODEC_MASK, MAX_RELATIVE_OFFSET, NO_TIMESTAMP, TRANSACTIONAL_BIT, UNKNOWN_TIMESTAMP
from pylog.kernel.pure.header import BatchHeader
from pylog.kernel.pure.open_file import Writable


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainRules:
    """The rules by which an append to a partition goes the short way. Never changed: another value takes its place."""

    bytes_max: int = -1
    """The largest batch whose header proves all that the topic asks of it; -1: no header does."""
    after_max_ms: int = 0
    """How much newer than now a record may be."""
    makes_room: bool = False
    """Whether a client's append may have to make room first, or to wait for it."""
    is_led: bool = True
    """Whether this node may lead: where it follows, no leader's append is let in."""
    is_short: bool = False
    """Whether an append goes the short way: alone where it is shown at once, else in a group that shares a sync."""
    has_followers: bool = False
    """Whether followers have to have an append before it is shown: they are told of it before it is synced."""
    is_shown: bool = False
    """Whether the step that appends a batch shows it, too."""
    is_noted: bool = False
    """Whether the node has to hear of each append."""
    may_block: bool = True
    """Whether an append may wait, in the thread that appends, for a sync, for room or for a leader epoch."""

    def admits(self, batch: BatchHeader, now_ms: int) -> bool:
        """Whether a batch is appended as it is: one that was made here, whose header proves all that the topic asks.

        Any other batch has to be looked at, and may be good.
        """
        return (
            batch.trusted
            and batch.attributes & ~TRANSACTIONAL_BIT <= CODEC_MASK
            and (batch.producer_id < 0 or batch.base_sequence >= 0)
            and batch.size <= self.bytes_max
            and batch.max_timestamp - max(now_ms, 0) <= self.after_max_ms
        )


@dataclass(slots=True)
class Appended:
    """The result of an append: records have offsets [base_offset, next_offset). Never changed."""

    base_offset: int
    next_offset: int
    log_append_time: int | None = None
    """The broker's clock, where the topic stamps LogAppendTime; None where records keep their own timestamps."""
    duplicate: bool = False
    """The producer has sent the batch before: nothing was written, the offsets are those it got then."""


class Rows(Protocol):
    """The two columns of an index. The compiled kernel appends to both, the second one first."""

    @property
    def firsts(self) -> Sequence[int]: ...
    @property
    def seconds(self) -> Sequence[int]: ...


class Index(Protocol):
    """The index of a segment, as far as an append looks at it."""

    capacity: int
    """How many entries there may be."""
    written: int
    """How many the file has."""

    @property
    def rows(self) -> Rows: ...
    @property
    def is_full(self) -> bool: ...


class OffsetEntries(Index, Protocol):
    def add(self, offset: int, position: int) -> bool: ...


class TimeEntries(Index, Protocol):
    def maybe_add(self, timestamp: int, offset: int) -> bool: ...


class SegmentLog(Protocol):
    """The `.log` file of a segment."""

    @property
    def opened(self) -> Writable | None: ...


class Tail:
    """The end of a segment that is written: what an append is measured against, and what it changes."""

    base_offset: int
    """Where the segment begins."""
    next_offset: int
    """Behind its last record."""
    max_timestamp: int
    """The largest timestamp of its records, and the last offset of the first batch that has it."""
    max_timestamp_offset: int
    first_max_timestamp: int
    """The largest timestamp of its first batch; -2 where that is not known, or without a batch."""
    index_interval_bytes: int
    """Behind so many bytes a batch gets an index entry."""
    unindexed_bytes: int
    """How many there are since the last one."""
    room: int
    """So many bytes can follow, for certain, if they are not newer than `newest_in_room`."""
    newest_in_room: int
    log: SegmentLog
    offset_index: OffsetEntries | None
    """None while it is not open. It is open while the segment can be written to."""
    time_index: TimeEntries | None

    def __init__(self, base_offset: int, index_interval_bytes: int) -> None:
        self.base_offset = self.next_offset = self.max_timestamp_offset = base_offset
        self.max_timestamp = self.newest_in_room = NO_TIMESTAMP
        self.first_max_timestamp = UNKNOWN_TIMESTAMP
        self.index_interval_bytes = index_interval_bytes
        self.unindexed_bytes = self.room = 0
        self.offset_index = self.time_index = None

    def takes(self, size: int, last_offset: int, max_timestamp: int) -> bool:
        """Whether an append of `size` bytes fits for certain: nothing has to be asked, or done before."""
        return (
            size <= self.room
            and max_timestamp <= self.newest_in_room
            and last_offset - self.base_offset <= MAX_RELATIVE_OFFSET
        )

    def takes_batch(self, batch: BatchHeader) -> bool:
        """The same for a batch that has its offsets."""
        return self.takes(batch.size, batch.last_offset, batch.max_timestamp)

    def put(self, file: Writable, batch: BatchHeader) -> None:
        """Write a batch that has its offsets behind what is in the file, and note it. Raises what the file does."""
        position = file.size()
        file.write(position, batch.data)
        self.room -= batch.size
        if position == 0:
            self.first_max_timestamp = batch.max_timestamp
        if batch.max_timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = batch.max_timestamp, batch.last_offset
        has_entry = self.unindexed_bytes > self.index_interval_bytes
        self.unindexed_bytes = batch.size if has_entry else self.unindexed_bytes + batch.size
        self.next_offset = batch.last_offset + 1
        if has_entry:
            self._add_entry(batch.last_offset, position)

    def _add_entry(self, last_offset: int, position: int) -> None:
        offsets, times = self.offset_index, self.time_index
        assert offsets is not None and times is not None, "the indexes of a segment that is written are open"
        offsets.add(last_offset, position)
        times.maybe_add(self.max_timestamp, self.max_timestamp_offset)
        if offsets.is_full or times.is_full:
            self.room = 0
