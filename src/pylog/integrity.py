"""Checks that every invariant of a segment holds: for `check()`, and for tests after every operation."""

from pylog.errors import CorruptBatch
from pylog.segment import Segment


def check_segment(segment: Segment, end: int) -> None:
    """Verify every invariant of a segment, which must end at or below `end`.

    Raises CorruptBatch at the first that does not hold.
    """
    starts: dict[int, int] = {}
    timestamps: dict[int, int] = {}
    for _, start, spans, fault in segment.scan(check_crc=True):
        for span in spans:
            starts[span.last_offset] = start + span.position
            timestamps[span.last_offset] = span.max_timestamp
            if span.last_offset >= end:
                raise CorruptBatch(
                    f"offset {span.last_offset} is not below {end}, where the next segment begins",
                    path=segment.path, position=start + span.position, offset=span.base_offset,
                )  # fmt: skip
        if fault is not None:
            raise CorruptBatch(fault.reason, path=fault.path, position=fault.position, offset=fault.offset)
    for index, (offset, position) in enumerate(segment.offsets):
        if starts.get(offset) != position:
            raise CorruptBatch(
                "an index entry points beside a batch", path=segment.offsets.path, position=index * 8, offset=offset
            )
    for index, (timestamp, offset) in enumerate(segment.times):
        if timestamps.get(offset) != timestamp:
            raise CorruptBatch(
                "a time index entry names a timestamp its batch does not have",
                path=segment.times.path, position=index * 12, offset=offset,
            )  # fmt: skip
    for index, txn in enumerate(segment.aborted):
        if txn.last_offset not in starts:
            raise CorruptBatch(
                "a transaction index entry names a marker that is not here",
                path=segment.aborted.path, position=index * 34, offset=txn.last_offset,
            )  # fmt: skip
