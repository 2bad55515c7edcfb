"""The header of a batch, drawn in `pylog.protocol.batch`: its fields as attributes, and how they get into the bytes."""

import struct
from collections.abc import Iterable
from typing import Self

from pylog.errors import OffsetOutOfRange
from pylog.kernel.format import (
    CRC_AT,
    CRC_FROM,
    HEADER,
    HEADER_BYTES,
    LAST_OFFSET,
    LOG_OVERHEAD,
    MAGIC,
    TIMESTAMP_TYPE_BIT,
)
from pylog.kernel.pure.crc import crc32c
from pylog.kernel.pure.encode import Row, encode_records
from pylog.kernel.pure.records import ConsumerRecord, Record
from pylog.kernel.values import check_stream

_STAMP = struct.Struct(">qii")  # base offset, batch length, leader epoch
_CRC = struct.Struct(">I")


class BatchHeader:
    """One batch: what its header says, and its bytes, `data`, of which there are `size`.

    `data` is exactly one batch, whose header makes sense. Raises struct.error where there are too few bytes for one.
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "count",
        "crc",
        "data",
        "last_offset",
        "last_offset_delta",
        "leader_epoch",
        "max_timestamp",
        "producer_epoch",
        "producer_id",
        "size",
        "trusted",
    )

    data: bytes | bytearray | memoryview
    size: int
    base_offset: int
    leader_epoch: int
    crc: int
    attributes: int
    last_offset: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int
    trusted: bool
    """Whether CRC, counts, offset deltas and max timestamp are known to be right, and every record to parse: `begun`
    made it here, or a leader has looked at it (`validator.leader_batch`).
    """

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self.data = data
        self.size = len(data)
        self.trusted = False
        (
            self.base_offset, _, self.leader_epoch, _, self.crc, self.attributes, self.last_offset_delta,
            self.base_timestamp, self.max_timestamp, self.producer_id, self.producer_epoch, self.base_sequence,
            self.count,
        ) = HEADER.unpack_from(data)  # fmt: skip
        self.last_offset = self.base_offset + self.last_offset_delta

    @classmethod
    def begun(
        cls, data: bytearray, count: int, base_timestamp: int, max_timestamp: int, attributes: int,
        producer_id: int = -1, producer_epoch: int = -1, base_sequence: int = -1, base_offset: int = 0,
        leader_epoch: int = -1,
    ) -> Self:  # fmt: skip
        """The batch of `count` records that lie in `data` behind room for a header, which is written, CRC and all."""
        batch = cls.__new__(cls)
        batch.data, batch.size, batch.trusted = data, len(data), True
        batch.base_offset, batch.leader_epoch, batch.attributes = base_offset, leader_epoch, attributes
        batch.count, batch.last_offset_delta, batch.last_offset = count, count - 1, base_offset + count - 1
        batch.base_timestamp, batch.max_timestamp = base_timestamp, max_timestamp
        batch.producer_id, batch.producer_epoch, batch.base_sequence = producer_id, producer_epoch, base_sequence
        batch.write()
        return batch

    @classmethod
    def of(
        cls, rows: Iterable[Row | Record | ConsumerRecord], now_ms: int, records_only: bool = False
    ) -> Self:  # fmt: skip
        """The batch of some rows: uncompressed, and of no producer. Raises what `encode_records` does, and ValueError
        without rows, RecordTooLarge where they are too many bytes.
        """
        data, count, base_timestamp, max_timestamp = encode_records(rows, now_ms, HEADER_BYTES, records_only)
        check_stream(count, len(data))
        return cls.begun(data, count, base_timestamp, max_timestamp, 0)

    @property
    def append_timestamp(self) -> int | None:
        """The timestamp that every record reports under LogAppendTime; None under CreateTime."""
        return self.max_timestamp if self.attributes & TIMESTAMP_TYPE_BIT else None

    def write(self) -> None:
        """Write the attributes into the bytes, with a new CRC. Bytes that were read are copied first."""
        data = self._own()
        HEADER.pack_into(
            data, 0, self.base_offset, self.size - LOG_OVERHEAD, self.leader_epoch, MAGIC, 0, self.attributes,
            self.last_offset_delta, self.base_timestamp, self.max_timestamp, self.producer_id, self.producer_epoch,
            self.base_sequence, self.count,
        )  # fmt: skip
        self.crc = crc32c(memoryview(data)[CRC_FROM:])
        _CRC.pack_into(data, CRC_AT, self.crc)

    def stamp(self, base_offset: int, leader_epoch: int) -> None:
        """Write the offset and the epoch that the leader gives into the batch; the CRC does not cover them.

        In place where the batch lies in a bytearray. Bytes that were read are not changed: they are copied first.
        Raises OffsetOutOfRange where offsets end.
        """
        if base_offset > LAST_OFFSET - max(self.last_offset_delta, 0):
            raise OffsetOutOfRange(
                f"offsets end at {LAST_OFFSET}: no batch of {self.last_offset_delta + 1} begins at {base_offset}"
            )
        _STAMP.pack_into(self._own(), 0, base_offset, self.size - LOG_OVERHEAD, leader_epoch)
        self.base_offset = base_offset
        self.last_offset = base_offset + self.last_offset_delta
        self.leader_epoch = leader_epoch

    def _own(self) -> bytearray:
        if not isinstance(self.data, bytearray):
            self.data = bytearray(self.data)
        return self.data
