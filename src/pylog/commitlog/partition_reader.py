"""Reading a partition: the same for its owner, which also writes, and for a reader in another process.

Offsets are half-open: `start_offset` is the first in; `next_offset`, `high_watermark`, `last_stable_offset` and
`durable_offset` are the first not in.
"""

from collections.abc import Callable
from typing import Protocol

from pylog.commitlog.integrity import check_segment
from pylog.commitlog.segments import Segments
from pylog.errors import CorruptBatch, OffsetOutOfRange
from pylog.kernel import read_following
from pylog.kernel.format import NO_TIMESTAMP, OFFSET_MAX
from pylog.segment import Segment
from pylog.storage.file_ranges import Slice
from pylog.storage.segment_reader import TimestampAndOffset
from pylog.storage.transaction_index import AbortedTxn


class VisibleOffsets(Protocol):
    """The offsets that bound a partition for its readers."""

    @property
    def start_offset(self) -> int: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def last_stable_offset(self) -> int: ...
    @property
    def durable_offset(self) -> int: ...


class LogOffsets(VisibleOffsets, Protocol):
    """The offsets that bound a log: those of its owner are an `AppendState`."""

    @property
    def data_end(self) -> int: ...
    @property
    def data_end_max(self) -> int: ...


class ReadablePartition(VisibleOffsets, Protocol):
    """The readable face of a partition: a `Partition`, or a `ReadOnlyPartition`."""

    directory: str
    topic: str
    number: int

    @property
    def segments(self) -> list[tuple[Segment, int]]: ...
    @property
    def size(self) -> int: ...
    def read(self, offset: int, max_bytes: int, *, upto: int, as_extent: bool = False) -> Slice | None: ...
    def read_stable(
        self, offset: int, max_bytes: int, *, upto: int, as_extent: bool = False
    ) -> tuple[Slice | None, list[AbortedTxn]]: ...
    def max_timestamp(self, upto: int) -> TimestampAndOffset | None: ...
    def offset_for_time(self, timestamp: int, *, upto: int) -> TimestampAndOffset | None: ...
    def check(self) -> None: ...


class PartitionReader:
    """Reads the segments of one partition within its offsets. Takes no lock. `name` is for messages.

    Files that change meanwhile look damaged, or are gone: the partition decides whether to look again. An owner has
    seen at its open whether the first segments are there; of the log of another process (`is_foreign`) each read looks.
    """

    def __init__(
        self, directory: str, name: str, offsets: LogOffsets, segments: Segments, *, is_foreign: bool = False
    ) -> None:
        self._directory = directory
        self._name = name
        self._offsets = offsets
        self._segments = segments
        self._is_foreign = is_foreign
        self._followed: Segment | None = None  # which one the last read was in

    @property
    def segments(self) -> list[tuple[Segment, int]]:
        """Each segment with the offset at which it ends."""
        return list(self._segments.with_ends(0, self._offsets.next_offset))

    @property
    def size(self) -> int:
        """Bytes of all `.log` files."""
        return self._segments.size()

    def read(self, offset: int, max_bytes: int, *, upto: int, as_extent: bool = False) -> Slice | None:
        """Whole batches from `offset` up to the offset `upto`, at least one if there is one; None at the end.

        Never crosses a segment; a gap is skipped. `as_extent`: their bytes may stay in the file, and only where they
        begin and end is looked at. Raises: OffsetOutOfRange outside [start_offset, next_offset], CorruptBatch.
        """
        offsets = self._offsets
        start, written = offsets.start_offset, offsets.next_offset
        if not start <= offset <= written:
            raise OffsetOutOfRange(f"offset {offset} of {self._name} is outside [{start}, {written}]")
        upto = min(upto, written)
        if offset >= upto:
            # Nothing is missing where nothing is to be seen: a log may be beginning again.
            return None
        segments = self._segments
        self._check_begun(offset)
        for segment, end in segments.with_ends(offset, offsets.data_end_max):
            written = offsets.next_offset
            found = segment.reader.read(offset, max_bytes, upto=upto, end=end, written=written, as_extent=as_extent)
            if found is not None:
                self._followed = segment
                return found
            self._check_followed(segment, end)
        active = segments.active if len(segments) else None
        behind = offset if active is None else max(offset, active.base_offset)
        data_end = offsets.data_end
        if upto == offsets.next_offset and behind < data_end:
            raise CorruptBatch(
                f"nothing is left of the records from here up to {data_end}, where the log should end: the file "
                "was cut. Run `pylog verify` to see all damage, and restore it from a replica or a backup",
                path=active.path if active is not None else self._directory,
                position=active.size if active is not None else None, offset=offset, next_offset=data_end,
            )  # fmt: skip
        return None

    def read_on(self, offset: int, max_bytes: int, upto: int, *, all_left: bool = False) -> Slice | None:
        """The batches that follow where the last read has ended, if that is at `offset`; None where it takes a search.

        `all_left`: only if that is all that is left of the segment.
        """
        segment, offsets = self._followed, self._offsets
        # A caller that looks for any place is not to pay for those that go on.
        if segment is None or segment.log.following[0] != offset or not offsets.start_offset <= offset < upto:
            return None
        end = self._segments.end_if_there(segment, offsets.data_end_max)
        if end is None:
            return None
        written = offsets.next_offset
        upto, max_bytes = min(upto, written), min(max_bytes, OFFSET_MAX)
        window = None if all_left else segment.reader.window
        found = read_following(segment.log, offset, max_bytes, upto, end, written, window)
        return None if found is None else Slice(*found)

    def _check_begun(self, offset: int) -> None:
        """Raise CorruptBatch where the segments of another process's log begin behind `offset`."""
        segments = self._segments
        if self._is_foreign and len(segments) and offset < (start := segments.start):
            raise CorruptBatch(
                f"the segments from here up to offset {start} are missing. Restore them from a replica or a backup; "
                f"or go on at offset {start}", path=segments[0].path, offset=offset, next_offset=start,
            )  # fmt: skip

    def _check_followed(self, segment: Segment, end: int) -> None:
        """Raise CorruptBatch where another segment followed the one that ends at `end` when that was sealed.

        Below the start of the log a crash may leave any of the segments that were about to go.
        """
        is_inside = self._offsets.start_offset < end < self._offsets.data_end_max
        missing = segment.on_disk.lacks_follower(end) if is_inside else None
        if missing is not None:
            raise CorruptBatch(
                f"the segment that began at offset {missing} is missing: the next one begins at {end}. Restore it "
                f"from a replica or a backup; or go on at offset {end}, or let `pylog repair` give it up",
                path=segment.path, position=segment.size, offset=missing, next_offset=end,
            )  # fmt: skip

    def aborted(self, start: int, upto: int) -> list[AbortedTxn]:
        """The aborted transactions that have records in [start, upto), for readers of committed ones.

        A transaction is noted where its marker lies, which may be some segments further on. (LocalLog.
        collectAbortedTransactions)
        """
        found: list[AbortedTxn] = []
        for segment in self._segments.from_offset(start):
            transactions, complete = segment.aborted.collect(start, upto)
            found += transactions
            if complete:
                break
        return found

    def max_timestamp(
        self, upto: int, largest: Callable[[Segment], int] = lambda segment: segment.largest_timestamp
    ) -> TimestampAndOffset | None:  # fmt: skip
        """The record with the largest timestamp below `upto`, or None. (KIP-734)

        `largest` says what the largest timestamp of a segment is.
        """
        newest, newest_timestamp = None, NO_TIMESTAMP
        for segment in self._segments:
            timestamp = largest(segment)
            if newest is None or timestamp > newest_timestamp:
                newest, newest_timestamp = segment, timestamp
        if newest is None or newest.size == 0:
            return None
        return newest.reader.offset_for_time(newest_timestamp, first=self._offsets.start_offset, upto=upto)

    def offset_for_time(self, timestamp: int, *, upto: int) -> TimestampAndOffset | None:
        """The first record below `upto` whose timestamp is >= `timestamp` (ms), in offset order, or None."""
        offsets = self._offsets
        self._check_begun(offsets.start_offset)
        open_end = offsets.data_end_max
        for segment, end in self._segments.from_time(timestamp, open_end):
            if segment.base_offset >= upto:
                return None
            # The last one may be growing in another process, whose memory knows its largest timestamp.
            if (
                end == open_end
                or segment.log.damages
                or segment.largest_timestamp >= timestamp
                or segment.on_disk.is_cut()
            ):
                found = segment.reader.offset_for_time(
                    timestamp, first=offsets.start_offset, upto=upto, end=end, written=offsets.next_offset
                )
                if found is not None:
                    return found
            self._check_followed(segment, end)
        if upto == offsets.next_offset and offsets.start_offset < offsets.data_end:
            # Where the last record is gone, so may be the one that was looked for.
            self.read(offsets.data_end - 1, 1, upto=upto)
        return None

    def check(self) -> None:
        """Verify every invariant of the partition and its segments.

        Raises CorruptBatch at the first that does not hold.
        """
        offsets = self._offsets
        written = offsets.next_offset
        data_end = seen = min(offsets.data_end, written)
        for segment, end in list(self._segments.with_ends(0, written)):
            if self._segments.end_if_there(segment, written) is not None:
                seen = check_segment(segment, end, written=written)
        if seen < data_end:
            raise CorruptBatch(
                f"nothing is left of the records from offset {seen} up to {data_end}, where the log should end",
                path=self._directory, offset=seen,
            )  # fmt: skip
        if not offsets.start_offset <= offsets.high_watermark <= offsets.next_offset:
            raise CorruptBatch(
                f"the high watermark {offsets.high_watermark} is outside "
                f"[{offsets.start_offset}, {offsets.next_offset}]", path=self._directory,
            )  # fmt: skip
