"""The bytes of a producer snapshot: what is known of all producers, with the last batch of each.

    0    version                 i16   1
    2    crc                     u32   CRC-32C of everything from 6 on
    6    count                   i32
    10   count entries of 46 bytes:
         0    producer id        i64
         8    producer epoch     i16
         10   last sequence      i32   -1: no batch is known
         14   last offset        i64   -1: no batch is known
         22   offset delta       i32   last offset - base offset of the last batch
         26   timestamp          i64   of the last batch or marker
         34   coordinator epoch  i32   -1: no marker was seen
         38   first offset       i64   of the open transaction; -1: none is open

After a load the duplicate window is one batch wide, then. Producers stand in the order of Kafka's hash map, so that the
same history gives the same bytes. (ProducerStateManager.writeSnapshot and readSnapshot, ProducerSnapshot.json.)
"""

import struct
from collections.abc import Iterable, Iterator

from pylog.errors import CorruptBatch
from pylog.kernel import crc32c
from pylog.kernel.format import NO_OFFSET
from pylog.storage.producer_state.state import NO_SEQUENCE, BatchMetadata, ProducerEntry, add_sequence

_VERSION = 1
_HEAD = struct.Struct(">hIi")
_CRC_FROM = 6
_ENTRY = struct.Struct(">qhiqiqiq")
_NO_BATCH = BatchMetadata(NO_SEQUENCE, NO_SEQUENCE, NO_OFFSET, NO_OFFSET, -1)


def encode_snapshot(entries: Iterable[tuple[int, ProducerEntry]]) -> bytes:
    """The snapshot that holds the entries (by producer id) in the order given."""
    packed = []
    for producer_id, entry in entries:
        last = entry.batches[-1] if entry.batches else _NO_BATCH
        first = entry.current_txn_first_offset
        packed.append(
            _ENTRY.pack(
                producer_id, entry.epoch, last.last_sequence, last.last_offset, last.last_offset - last.first_offset,
                entry.last_timestamp, entry.coordinator_epoch, NO_OFFSET if first is None else first,
            )
        )  # fmt: skip
    body = len(packed).to_bytes(4, "big") + b"".join(packed)
    return _HEAD.pack(_VERSION, crc32c(body), 0)[:_CRC_FROM] + body


def decode_snapshot(data: bytes) -> Iterator[tuple[int, ProducerEntry]]:
    """The producers in a snapshot. Raises CorruptBatch, before the first one, when any byte of it is wrong."""
    fault = _fault(data)
    if fault is not None:
        raise CorruptBatch(f"a producer snapshot cannot be read: {fault}")
    return map(_entry, _ENTRY.iter_unpack(data[_HEAD.size :]))


def _entry(fields: tuple[int, ...]) -> tuple[int, ProducerEntry]:
    producer_id, epoch, sequence, last_offset, delta, timestamp, coordinator_epoch, first = fields
    batches: tuple[BatchMetadata, ...] = ()
    if last_offset >= 0:
        begun = add_sequence(sequence, -delta) if sequence >= 0 else NO_SEQUENCE
        batches = (BatchMetadata(begun, sequence, last_offset - delta, last_offset, timestamp),)
    return producer_id, ProducerEntry(epoch, coordinator_epoch, timestamp, first if first >= 0 else None, batches)


def _fault(data: bytes) -> str | None:
    if len(data) < _HEAD.size:
        return f"{len(data)} bytes are too few"
    version, crc, count = _HEAD.unpack_from(data)
    if version != _VERSION:
        return f"version {version} is not known"
    actual = crc32c(memoryview(data)[_CRC_FROM:])
    if actual != crc:
        return f"the CRC is {actual:#010x}, not {crc:#010x}: the bytes were damaged"
    if len(data) != _HEAD.size + count * _ENTRY.size:
        return f"{len(data)} bytes do not hold {count} producers"
    return None
