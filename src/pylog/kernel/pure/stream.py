"""Batches one after the other: found by walking from header to header, and checked on the way."""

from collections.abc import Sequence

from crc32c import crc32c

from pylog.kernel.format import (
    BATCH_LENGTH_MAX,
    CRC_FROM,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    MAX_OFFSET,
    BatchSpan,
    frame_fault,
    header_fault,
)


def walk(
    data: bytes | bytearray | memoryview, position: int = 0, *, check_crc: bool = True
) -> tuple[Sequence[BatchSpan], int, str | None]:
    """The whole batches from `position` on, where the last good one ends, and what is wrong with the one there, if any.

    A batch that the buffer cuts off is not wrong. Never raises for what the bytes are.
    """
    if position < 0:
        raise ValueError(f"position {position} is not in the buffer")
    spans: list[BatchSpan] = []
    append = spans.append
    view = memoryview(data)
    size = len(view)
    unpack = HEADER.unpack_from
    while position + HEADER_BYTES <= size:
        base, length, epoch, magic, crc, attributes, last_delta, *rest = unpack(view, position)
        end = position + LOG_OVERHEAD + length
        if magic != MAGIC or not HEADER_BYTES - LOG_OVERHEAD <= length <= BATCH_LENGTH_MAX:
            break
        if end > size:
            return spans, position, None
        if check_crc and crc32c(view[position + CRC_FROM : end]) != crc:
            return spans, position, "the CRC does not match: the bytes were damaged"
        count = rest[5]
        if base < 0 or last_delta < 0 or not 0 <= count <= last_delta + 1 or base + last_delta > MAX_OFFSET:
            return spans, position, header_fault(base, last_delta, count)
        append(BatchSpan(position, end - position, base, base + last_delta, epoch, attributes, *rest))
        position = end
    return spans, position, frame_fault(view, position)
