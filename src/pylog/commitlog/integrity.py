"""Checks that every invariant of a segment holds: for `check()`, and for tests after every operation."""

from pylog.errors import CorruptBatch
from pylog.kernel.format import OFFSET_MAX
from pylog.segment import Segment


def check_segment(segment: Segment, end: int, *, written: int = OFFSET_MAX) -> int:
    """Verify every invariant of a segment, which must end at or below `end`; gives where it ends.

    What begins at `written` or behind it is left out: it may be being appended. Raises CorruptBatch at the first
    invariant that does not hold.
    """
    starts: dict[int, int] = {}
    timestamps: dict[int, int] = {}
    seen = segment.base_offset
    for _, start, spans, fault in segment.scan(check_crc=True):
        for span in spans:
            if span.base_offset >= written:
                break
            starts[span.last_offset] = start + span.position
            timestamps[span.last_offset] = span.max_timestamp
            seen = span.last_offset + 1
            if span.last_offset >= end:
                raise CorruptBatch(
                    f"offset {span.last_offset} is not below {end}, where the next segment begins",
                    path=segment.path, position=start + span.position, offset=span.base_offset,
                )  # fmt: skip
        if fault is not None and fault.offset < written:
            raise CorruptBatch(fault.reason, path=fault.path, position=fault.position, offset=fault.offset)
    _check_indexes(segment, starts, timestamps, written)
    return seen


def _check_indexes(segment: Segment, starts: dict[int, int], timestamps: dict[int, int], written: int) -> None:
    for index, (offset, position) in enumerate(segment.offsets):
        if offset < written and starts.get(offset) != position:
            raise CorruptBatch(
                "an index entry points beside a batch", path=segment.offsets.path, position=index * 8, offset=offset
            )
    for index, (timestamp, offset) in enumerate(segment.times):
        if offset < written and timestamps.get(offset) != timestamp:
            raise CorruptBatch(
                "a time index entry names a timestamp its batch does not have",
                path=segment.times.path, position=index * 12, offset=offset,
            )  # fmt: skip
    for index, txn in enumerate(segment.aborted):
        if txn.last_offset < written and txn.last_offset not in starts:
            raise CorruptBatch(
                "a transaction index entry names a marker that is not here",
                path=segment.aborted.path, position=index * 34, offset=txn.last_offset,
            )  # fmt: skip
