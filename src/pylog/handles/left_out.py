"""Damaged records that a reader leaves out: each is a warning in the log."""

import logging

from pylog.errors import CorruptBatch, PylogError
from pylog.protocol.batch import Batch
from pylog.record import TopicPartition
from pylog.runtime.log_fields import partition_fields

__all__ = ["is_whole", "warn_left_out"]

logger = logging.getLogger("pylog.handles")


def warn_left_out(key: TopicPartition, offset: int, next_offset: int, error: PylogError) -> None:
    """The offsets up to `next_offset` are left out, because of an error."""
    logger.warning(
        "%s-%d: offsets %d to %d are left out: %s", *key, offset, next_offset - 1, error,
        extra=partition_fields(f"{key.topic}-{key.partition}", offset=offset),
    )  # fmt: skip


def is_whole(batch: Batch, key: TopicPartition) -> bool:
    """Whether the records of a batch with the right CRC can be decoded; a warning where they cannot."""
    try:
        for _ in batch.groups(*key, batch.base_offset):
            pass
    except CorruptBatch as error:
        warn_left_out(key, batch.base_offset, batch.next_offset, error)
        return False
    return True
