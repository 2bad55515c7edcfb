"""What can be read of a partition, whoever holds it: the owner, which also writes, or a reader in another process.

Offsets are half-open: `start_offset` is the first in; `next_offset`, `high_watermark`, `last_stable_offset` and
`durable_offset` are the first not in.
"""

from collections.abc import Callable
from typing import TypeVar

from pylog.commitlog.integrity import check_segment
from pylog.commitlog.segments import Segments
from pylog.errors import CorruptBatch, OffsetOutOfRange
from pylog.kernel import read_following
from pylog.segment import NO_TIMESTAMP, Segment
from pylog.storage.file_ranges import Slice
from pylog.storage.segment_reader import OFFSET_MAX, TimestampAndOffset
from pylog.storage.transaction_index import AbortedTxn

T = TypeVar("T")


class PartitionReader:
    """Segments in order and the offsets that bound them. Reads take no lock."""

    def __init__(self, directory: str, topic: str, number: int) -> None:
        self.directory = directory
        self.topic = topic
        self.number = number
        self.start_offset = 0
        self.next_offset = 0
        self.high_watermark = 0
        self.durable_offset = 0
        self._data_end = 0
        self._segments = Segments(dict[int, Segment]().__getitem__)  # none: it is not open
        self._followed: Segment | None = None  # which one the last read was in

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.topic}-{self.number} [{self.start_offset}, {self.next_offset})>"

    @property
    def last_stable_offset(self) -> int:
        """The end of what read_committed sees: the high watermark, as long as there are no transactions."""
        return self.high_watermark

    @property
    def segments(self) -> list[tuple[Segment, int]]:
        """Each segment with the offset at which it ends."""
        return list(self._segments.with_ends(0, self.next_offset))

    @property
    def first_base_offset(self) -> int:
        """Where the first segment begins: at `start_offset` or below it."""
        return self._segments.start

    @property
    def size(self) -> int:
        """Bytes of all `.log` files."""
        return self._segments.size()

    def read(self, offset: int, max_bytes: int, *, upto: int, as_extent: bool = False) -> Slice | None:
        """Whole batches from `offset` up to the offset `upto`, at least one if there is one; None at the end.

        Never crosses a segment; a gap is skipped. `as_extent`: their bytes may stay in the file, and only where they
        begin and end is looked at. Raises: OffsetOutOfRange outside [start_offset, next_offset], CorruptBatch.
        """
        if not self.start_offset <= offset <= self.next_offset:
            raise OffsetOutOfRange(
                f"offset {offset} of {self.topic}-{self.number} is outside [{self.start_offset}, {self.next_offset}]"
            )
        upto = min(upto, self.next_offset)
        if offset >= upto:
            # Nothing is missing where nothing is to be seen: a log may be beginning anew.
            return None
        segments = self._segments
        self._check_begun(offset)
        for segment, end in segments.with_ends(offset, self.data_end_max):
            found = segment.read(offset, max_bytes, upto=upto, end=end, written=self.next_offset, as_extent=as_extent)
            if found is not None:
                self._followed = segment
                return found
            self._check_followed(segment, end)
        active = segments.active if len(segments) else None
        behind = offset if active is None else max(offset, active.base_offset)
        if upto == self.next_offset and behind < self.data_end:
            raise CorruptBatch(
                f"nothing is left of the records from here up to {self.data_end}, where the log should end: the file "
                "was cut. Run `pylog verify` to see all damage, and restore it from a replica or a backup",
                path=active.path if active is not None else self.directory,
                position=active.size if active is not None else None, offset=offset,
            )  # fmt: skip
        return None

    def _read_on(self, offset: int, max_bytes: int, upto: int, *, all_left: bool = False) -> Slice | None:
        """What comes next, for who goes on where the last read has ended; None where it has to be searched for.

        `all_left`: only if that is all that is left of the segment.
        """
        segment, written = self._followed, self.next_offset
        # Who looks for any place is not to pay for those who go on.
        if segment is None or segment.log.following[0] != offset or not self.start_offset <= offset < upto:
            return None
        end = self._segments.end_if_there(segment, self.data_end_max)
        if end is None:
            return None
        upto, max_bytes, window = min(upto, written), min(max_bytes, OFFSET_MAX), None if all_left else segment.window
        found = read_following(segment.log, offset, max_bytes, upto, end, written, window)
        return None if found is None else Slice(*found)

    def _check_begun(self, offset: int) -> None:
        """Whether the segments begin where `offset` is, or before. An owner has seen to that when it opened the log."""

    def _check_followed(self, segment: Segment, end: int) -> None:
        """Whether what ends at `end` is followed by what followed it when it was sealed. Raises CorruptBatch.

        Below the start of the log a crash may leave any of the segments that were about to go.
        """
        missing = segment.lacks_follower(end) if self.start_offset < end < self.data_end_max else None
        if missing is not None:
            raise CorruptBatch(
                f"the segment that began at offset {missing} is missing: the next one begins at {end}. Restore it "
                f"from a replica or a backup; or go on at offset {end}, or let `pylog repair` give it up",
                path=segment.path, position=segment.size, offset=missing, next_offset=end,
            )  # fmt: skip

    def read_stable(
        self, offset: int, max_bytes: int, *, upto: int, as_extent: bool = False
    ) -> tuple[Slice | None, list[AbortedTxn]]:
        """The same up to `upto`, at most the last stable offset, and the aborted transactions with records in just
        what is given. Both from one moment: compaction takes records and the word of their abort away together.
        """
        found = self.read(offset, max_bytes, upto=upto, as_extent=as_extent)
        return found, self.aborted(offset, found.next_offset) if found is not None else []

    @property
    def data_end(self) -> int:
        """Behind the last record that is in the files. Below `next_offset` after a truncation inside a batch."""
        return self._data_end

    @property
    def data_end_max(self) -> int:
        """Above every offset that the active segment can hold now."""
        return OFFSET_MAX

    def aborted(self, start: int, upto: int) -> list[AbortedTxn]:
        """The aborted transactions that have records in [start, upto), for who reads committed ones only.

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

    def _steadily(self, look: Callable[[], T]) -> T:
        """What `look` finds in files that nobody changes meanwhile."""
        return look()

    def max_timestamp(self, upto: int) -> TimestampAndOffset | None:
        """The record with the largest timestamp below `upto`; None when there is none. (KIP-734)"""
        return self._steadily(lambda: self._find_max_timestamp(upto))

    def _find_max_timestamp(self, upto: int) -> TimestampAndOffset | None:
        newest, largest = None, NO_TIMESTAMP
        for segment in self._segments:
            timestamp = self._largest_timestamp(segment)
            if newest is None or timestamp > largest:
                newest, largest = segment, timestamp
        if newest is None or newest.size == 0:
            return None
        return newest.offset_for_time(largest, first=self.start_offset, upto=upto)

    def _largest_timestamp(self, segment: Segment) -> int:
        return segment.largest_timestamp

    def offset_for_time(self, timestamp: int, *, upto: int) -> TimestampAndOffset | None:
        """The first record below `upto` whose timestamp is >= `timestamp` (ms), in offset order;
        None if there is none.
        """
        return self._steadily(lambda: self._find_time(timestamp, upto))

    def _find_time(self, timestamp: int, upto: int) -> TimestampAndOffset | None:
        self._check_begun(self.start_offset)
        open_end = self.data_end_max
        for segment, end in self._segments.from_time(timestamp, open_end):
            if segment.base_offset >= upto:
                return None
            # The last one may be growing in another process, whose memory knows its largest timestamp.
            if end == open_end or segment.log.damages or segment.largest_timestamp >= timestamp or segment.is_cut():
                found = segment.offset_for_time(
                    timestamp, first=self.start_offset, upto=upto, end=end, written=self.next_offset
                )
                if found is not None:
                    return found
            self._check_followed(segment, end)
        if upto == self.next_offset and self.start_offset < self.data_end:
            # Where the last record is gone, so may be the one that was looked for.
            PartitionReader.read(self, self.data_end - 1, 1, upto=upto)
        return None

    def check(self) -> None:
        """Verify every invariant of the partition and its segments.

        Raises CorruptBatch at the first that does not hold.
        """
        written = self.next_offset
        data_end = seen = min(self.data_end, written)
        for segment, end in list(self._segments.with_ends(0, written)):
            if self._has(segment):
                seen = check_segment(segment, end, written=written)
        if seen < data_end:
            raise CorruptBatch(
                f"nothing is left of the records from offset {seen} up to {data_end}, where the log should end",
                path=self.directory, offset=seen,
            )  # fmt: skip
        if not self.start_offset <= self.high_watermark <= self.next_offset:
            raise CorruptBatch(
                f"the high watermark {self.high_watermark} is outside [{self.start_offset}, {self.next_offset}]",
                path=self.directory,
            )

    def _has(self, segment: Segment) -> bool:
        """Whether a segment is part of the log still, as far as that can be known."""
        return True
