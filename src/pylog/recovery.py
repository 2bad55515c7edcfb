"""What becomes of a partition's files after an unclean stop: read on from where they are known to be good.

    [ below the durable offset         )[ at or beyond it                        ]
      damage: CorruptBatch, nothing cut   whole batches stay, a torn tail is cut

Indexes are rebuilt from the segment that holds the recovery point on; leader epochs that the checkpoint has missed are
noted. Works on a partition that nobody else sees yet, so it takes no lock. (Kafka: LogLoader.)
"""

import logging
from dataclasses import dataclass

from pylog.epoch import LeaderEpochs
from pylog.errors import CorruptBatch
from pylog.record import TopicPartition
from pylog.segment import Fault
from pylog.segments import Segments

logger = logging.getLogger("pylog")


@dataclass(frozen=True, slots=True)
class Recovered:
    """A torn tail that opening a partition cut off: nothing in it was known to be durable."""

    topic: str
    partition: int
    path: str
    position: int
    offset: int
    bytes_cut: int
    reason: str


def recover(
    segments: Segments, epochs: LeaderEpochs, key: TopicPartition, *, start: int, promised: int
) -> Recovered | None:
    """Read and index everything from the segment that holds offset `start` on; gives the torn tail, if one was cut.

    `promised` is the durable offset: a bad batch below it raises CorruptBatch, and no log is cut.
    """
    for index in range(segments.index_of(start), len(segments)):
        segment = segments[index]
        segment.activate()
        found, fault = segment.recover()
        for epoch, first in found:
            if epoch > epochs.latest:
                epochs.assign(epoch, first)
        if fault is not None:
            return _cut(segments, index, fault, key, promised)
        if index < len(segments) - 1:
            segment.seal()
    return None


def _cut(segments: Segments, index: int, fault: Fault, key: TopicPartition, promised: int) -> Recovered:
    if fault.offset < promised:
        raise CorruptBatch(
            f"{fault.reason}; it lies below offset {promised}, which was durable, so nothing was cut. "
            "Run `pylog verify` to see all damage, and restore the file from a replica or a backup",
            path=fault.path, position=fault.position, offset=fault.offset,
        )  # fmt: skip
    removed = segments[index].cut(fault.position)
    for segment in reversed(segments.keep(index + 1)):
        removed += segment.size
        segment.remove()
    segments.active.activate()
    logger.warning(
        "%s-%d: cut a torn tail of %d bytes at %s, position %d, offset %d: %s",
        *key, removed, fault.path, fault.position, fault.offset, fault.reason,
    )  # fmt: skip
    return Recovered(*key, fault.path, fault.position, fault.offset, removed, fault.reason)


def drop_empty_tail(segments: Segments) -> bool:
    """Remove an empty last segment that begins where the one before it ends; gives whether there was one.

    A crash or a truncation leaves it; whether the next batch starts a segment is for the roll rules to say, which are
    the same on every replica.
    """
    if len(segments) < 2 or segments.active.size > 0:
        return False
    before, empty = segments[-2], segments.active
    if before.load() is not None or before.next_offset != empty.base_offset:
        return False
    segments.keep(len(segments) - 1)
    empty.remove()
    before.activate()
    return True
