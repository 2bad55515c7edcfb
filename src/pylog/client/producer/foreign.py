"""Batches that someone else has encoded: a producer of another process, whose batches are sent on."""

from pylog.errors import CorruptBatch, RecordTooLarge
from pylog.kernel import TRANSACTIONAL_BIT
from pylog.protocol.batch import Batch


def foreign_batch(data: bytes | bytearray | memoryview, bytes_max: int) -> Batch:
    """The batch of records that `data` is. Its records are for the node to look at.

    Raises CorruptBatch (no whole batch, other bytes behind it, a wrong CRC), UnsupportedFormat (v0, v1), ValueError (a
    batch that no producer makes: control records, none at all, or some missing), RecordTooLarge (over `bytes_max`).
    """
    batch = Batch.parse(data)
    if batch.size != len(data):
        raise CorruptBatch(f"{len(data) - batch.size} bytes follow a batch of {batch.size}", position=batch.size)
    batch.check()
    if batch.is_control or batch.has_delete_horizon or batch.count < 1 or batch.last_offset_delta != batch.count - 1:
        raise ValueError(f"{batch!r} is not a batch of a producer: it takes records alone, and all of them")
    if batch.size > bytes_max:
        raise RecordTooLarge(
            f"a batch of {batch.size} bytes is over the limit of {bytes_max} (the smaller of max_request_size and "
            "buffer_memory): raise it, and the topic's max.message.bytes"
        )
    return batch


def make_transactional(batch: Batch, *, is_transactional: bool) -> None:
    """Let a batch be one of a transaction, or of none. Bytes that belong to others are copied before."""
    if batch.is_transactional != is_transactional:
        batch.attributes ^= TRANSACTIONAL_BIT
        batch.write()
