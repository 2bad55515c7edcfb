"""The header of a record batch, field by field, as it lies in the file (Kafka: DefaultRecordBatch, magic 2)."""

from dataclasses import dataclass

from pylog.kernel.format import LOG_OVERHEAD

__all__ = ["BATCH_BYTES_MAX", "BatchField", "batch_bytes_max", "header_fields"]

BATCH_BYTES_MAX = 16 << 20
"""How much of a batch is read for a page."""
LAYOUT = (
    ("baseOffset", 8, True), ("batchLength", 4, True), ("partitionLeaderEpoch", 4, True), ("magic", 1, True),
    ("crc", 4, False), ("attributes", 2, True), ("lastOffsetDelta", 4, True), ("baseTimestamp", 8, True),
    ("maxTimestamp", 8, True), ("producerId", 8, True), ("producerEpoch", 2, True), ("baseSequence", 4, True),
    ("recordsCount", 4, True),
)  # fmt: skip
"""Name, bytes, whether it has a sign: 61 bytes together, big-endian."""
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
BITS = ((0x20, "control"), (0x10, "transactional"), (0x08, "LogAppendTime"), (0x40, "delete horizon"))


@dataclass(frozen=True, slots=True)
class BatchField:
    """A field: its first byte in the batch, its digits, its value, and what that means."""

    name: str
    position: int
    digits: str
    value: int
    meaning: str


def batch_bytes_max(prefix: bytes) -> int:
    """The size that a batch's first 12 bytes claim; those that are there where it has no such header."""
    if len(prefix) < LOG_OVERHEAD:
        return len(prefix)
    return max(LOG_OVERHEAD, LOG_OVERHEAD + int.from_bytes(prefix[8:12], "big", signed=True))


def header_fields(data: bytes) -> list[BatchField]:
    """The fields of a header, as many as there are bytes for. The bytes may be anything."""
    found, position = [], 0
    for name, size, is_signed in LAYOUT:
        part = data[position : position + size]
        if len(part) < size:
            break
        value = int.from_bytes(part, "big", signed=is_signed)
        found.append(BatchField(name, position, part.hex(" "), value, _meaning(name, value)))
        position += size
    return found


def _meaning(name: str, value: int) -> str:
    if name == "attributes":
        codec = CODECS[value & 7] if value & 7 < len(CODECS) else f"{value & 7}, which is not known"
        return ", ".join([f"codec {codec}", *(word for bit, word in BITS if value & bit)])
    if name == "crc":
        return f"0x{value:08x}, of all behind it"
    if name == "batchLength":
        return "of all behind it"
    return "none" if value == -1 and name.startswith(("producer", "baseSequence", "partitionLeader")) else ""
