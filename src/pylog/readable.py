"""What can be read of a partition, whoever holds it: the owner, which also writes, or a reader in another process.

Offsets are half-open: `start_offset` is the first in; `next_offset`, `high_watermark`, `last_stable_offset` and
`durable_offset` are the first not in.
"""

from pylog.errors import CorruptBatch, OffsetOutOfRange
from pylog.segment import Segment, Slice, TimestampAndOffset
from pylog.segments import Segments


class ReadablePartition:
    """Segments in order and the offsets that bound them. Reads take no lock."""

    def __init__(self, directory: str, topic: str, number: int) -> None:
        self.directory = directory
        self.topic = topic
        self.number = number
        self.start_offset = 0
        self.next_offset = 0
        self.high_watermark = 0
        self.durable_offset = 0
        self._segments = Segments()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.topic}-{self.number} [{self.start_offset}, {self.next_offset})>"

    @property
    def last_stable_offset(self) -> int:
        """The end of what read_committed sees: the high watermark, as long as there are no transactions."""
        return self.high_watermark

    @property
    def segments(self) -> list[tuple[Segment, int]]:
        """Each segment with the offset at which it ends."""
        return self._segments.spans(self.next_offset)

    @property
    def size(self) -> int:
        """Bytes of all `.log` files."""
        return sum(segment.size for segment in self._segments)

    def read(self, offset: int, max_bytes: int, *, upto: int) -> Slice | None:
        """Whole batches from `offset` up to the offset `upto`, at least one if there is one; None at the end.

        Never crosses a segment; a gap is skipped. Raises: OffsetOutOfRange outside [start_offset, next_offset],
        CorruptBatch.
        """
        if not self.start_offset <= offset <= self.next_offset:
            raise OffsetOutOfRange(
                f"offset {offset} of {self.topic}-{self.number} is outside [{self.start_offset}, {self.next_offset}]"
            )
        upto = min(upto, self.next_offset)
        for segment in self._segments.from_offset(offset):
            if offset >= upto:
                return None
            found = segment.read(offset, max_bytes, upto=upto)
            if found is not None:
                return found
        if upto == self.next_offset and len(self._segments) and self._segments.active.base_offset < upto:
            active = self._segments.active
            raise CorruptBatch(
                f"nothing is left of the records from here up to {upto}, where the log should end: the file was cut. "
                "Run `pylog verify` to see all damage, and restore it from a replica or a backup",
                path=active.path, position=active.size, offset=offset,
            )  # fmt: skip
        return None

    def offset_for_time(self, timestamp: int, *, upto: int) -> TimestampAndOffset | None:
        """The first record below `upto` whose timestamp is >= `timestamp` (ms), in offset order;
        None if there is none.
        """
        segments = list(self._segments)
        for segment in segments:
            if segment.base_offset >= upto:
                return None
            # The last one may be growing in another process, whose memory knows its largest timestamp.
            if segment is segments[-1] or segment.largest_timestamp >= timestamp:
                found = segment.offset_for_time(timestamp, first=self.start_offset, upto=upto)
                if found is not None:
                    return found
        return None

    def check(self) -> None:
        """Verify every invariant of the partition and its segments.

        Raises CorruptBatch at the first that does not hold.
        """
        for segment, end in self._segments.spans(self.next_offset):
            segment.check(end)
        if not self.start_offset <= self.high_watermark <= self.next_offset:
            raise CorruptBatch(
                f"the high watermark {self.high_watermark} is outside [{self.start_offset}, {self.next_offset}]",
                path=self.directory,
            )
