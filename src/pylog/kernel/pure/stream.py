"""Batches one after the other: found by walking from header to header, and checked on the way."""

from array import array

from pylog.kernel.format import (
    BATCH_LENGTH_MAX,
    BATCH_LENGTH_MIN,
    CODEC_MASK,
    CRC_FROM,
    HEADER,
    HEADER_BYTES,
    LAST_OFFSET,
    LOG_OVERHEAD,
    MAGIC,
    BatchSpan,
    Marks,
    Summary,
    frame_fault,
    header_fault,
)
from pylog.kernel.pure.crc import crc32c


class Spans(list[BatchSpan]):
    """The batches in a buffer, and the questions about all of them at once."""

    def part(self, start: int, stop: int) -> "Spans":
        """The batches from number `start` on, up to number `stop`."""
        return Spans(self[start:stop])

    def summary(self) -> Summary:
        """The summary of all of them."""
        if not self:
            return Summary(0, -1, -1, -1, -1, -1, -1)
        first, last = self[0], self[-1]
        epochs = [span.leader_epoch for span in self]
        return Summary(
            last.position + last.size - first.position, last.last_offset,
            max(span.max_timestamp for span in self), min(epochs), max(epochs), max(span.producer_id for span in self),
            max(span.attributes & CODEC_MASK for span in self),
        )  # fmt: skip

    def rising(self, expected: int, most: int) -> int:
        """The number of batches in order, counted from the first.

        Each begins at or behind the end of the one before, the first at or behind `expected`, and ends at `most` or
        before.
        """
        for index, span in enumerate(self):
            if span.base_offset < expected or span.last_offset > most:
                return index
            expected = span.last_offset + 1
        return len(self)

    def epochs(self, above: int) -> list[tuple[int, int]]:
        """The leader epochs that are larger than all before them and than `above`, with the offset each begins at."""
        found = []
        for span in self:
            if span.leader_epoch > above:
                above = span.leader_epoch
                found.append((above, span.base_offset))
        return found

    def of_producers(self) -> list[BatchSpan]:
        """The batches that have a producer id."""
        return [span for span in self if span.producer_id >= 0]

    def marks(
        self, base_offset: int, position: int, interval: int, passed: int, newest: int, newest_offset: int
    ) -> Marks:
        """Every batch before which more than `interval` bytes have `passed` since the last such one.

        The buffer begins at `position` of the file. `newest` is the largest timestamp before these batches, with the
        last offset of the first batch that had it.
        """
        offsets, positions, timestamps, timestamp_offsets = array("q"), array("q"), array("q"), array("q")
        noted = None
        for span in self:
            if span.max_timestamp > newest:
                newest, newest_offset = span.max_timestamp, span.last_offset
            if passed > interval:
                offsets.append(span.last_offset - base_offset)
                positions.append(position + span.position)
                if newest != noted:
                    timestamps.append(newest)
                    timestamp_offsets.append(newest_offset - base_offset)
                    noted = newest
                passed = 0
            passed += span.size
        return Marks(offsets, positions, timestamps, timestamp_offsets, passed, newest, newest_offset)


def walk(
    data: bytes | bytearray | memoryview, position: int = 0, *, check_crc: bool = True
) -> tuple[Spans, int, str | None]:
    """The whole batches from `position` on, the end of the last good one, and the fault of the next one, if any.

    A batch that the buffer cuts off is no fault. Never raises for the content of the bytes.
    """
    if position < 0:
        raise ValueError(f"position {position} is not in the buffer")
    spans = Spans()
    append = spans.append
    view = memoryview(data)
    size = len(view)
    unpack = HEADER.unpack_from
    while position + HEADER_BYTES <= size:
        base, length, epoch, magic, crc, attributes, last_delta, *rest = unpack(view, position)
        end = position + LOG_OVERHEAD + length
        if magic != MAGIC or not BATCH_LENGTH_MIN <= length <= BATCH_LENGTH_MAX:
            break
        if end > size:
            return spans, position, None
        if check_crc and crc32c(view[position + CRC_FROM : end]) != crc:
            return spans, position, "the CRC does not match: the bytes were damaged"
        count = rest[5]
        if base < 0 or last_delta < 0 or not 0 <= count <= last_delta + 1 or base + last_delta > LAST_OFFSET:
            return spans, position, header_fault(base, last_delta, count)
        append(BatchSpan(position, end - position, base, base + last_delta, epoch, attributes, *rest))
        position = end
    return spans, position, frame_fault(view, position)
