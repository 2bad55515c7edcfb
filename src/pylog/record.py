"""What a user holds: the names of topics' partitions, what a send gives back, and the kernel's record classes."""

from typing import NamedTuple

from pylog.kernel import ConsumerRecord, Header, Record

__all__ = ["ConsumerRecord", "Header", "OffsetAndTimestamp", "Record", "RecordMetadata", "TopicPartition"]


class TopicPartition(NamedTuple):
    """One partition of a topic, by name and number (from 0 on)."""

    topic: str
    partition: int


class RecordMetadata(NamedTuple):
    """Where a record landed. `timestamp` is its own, or the broker's where the topic says LogAppendTime."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class OffsetAndTimestamp(NamedTuple):
    """The first record at or after a time."""

    offset: int
    timestamp: int
    leader_epoch: int
