"""The facts of topics for people, from the files of a log or by asking a server.

A server tells less: neither how far records are durable, nor segments, nor how cleaning goes.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from pylog.client_half import ClientHalf
from pylog.record import TopicPartition
from pylog.views import SegmentInfo, TopicView

__all__ = ["PartitionFacts", "TopicFacts", "TopicSize", "facts_of", "sizes_of"]


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """A partition. None: a server does not tell."""

    partition: int
    start: int
    end: int
    high_watermark: int
    size: int
    durable: int | None = None
    segments: list[SegmentInfo] | None = None
    cleaning: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic, its configs, and those of them that are set on it."""

    name: str
    id: str
    configs: dict[str, str]
    overrides: dict[str, str]
    partitions: list[PartitionFacts]


def facts_of(log: ClientHalf[Any], name: str) -> TopicFacts:
    """The facts of a topic. Raises UnknownTopicOrPartition."""
    topic = log.topic(name)
    return _here(topic) if isinstance(topic, TopicView) else _there(log, name)


class TopicSize(NamedTuple):
    """How much is in a topic; offsets that compaction has emptied count as records. `appended`: in its whole life."""

    name: str
    partitions: int
    records: int
    bytes: int
    appended: int


def sizes_of(log: ClientHalf[Any], names: Iterable[str]) -> list[TopicSize]:
    """How much is in each of these topics: three questions, however many they are."""
    keys = {name: [TopicPartition(name, view.partition) for view in log.topic(name)] for name in names}
    every = [key for some in keys.values() for key in some]
    starts = log.admin.list_offsets(dict.fromkeys(every, "earliest"))
    ends = log.admin.list_offsets(dict.fromkeys(every, "latest"))
    sizes = _bytes(log)
    return [
        TopicSize(
            name, len(some), sum(ends[key].offset - starts[key].offset for key in some),
            sum(sizes.get(key, 0) for key in some), sum(ends[key].offset for key in some),
        )
        for name, some in keys.items()
    ]  # fmt: skip


def _bytes(log: ClientHalf[Any]) -> dict[TopicPartition, int]:
    sizes: dict[TopicPartition, int] = {}
    for directory in log.admin.describe_log_dirs():
        for key, size in directory.partitions.items():
            # A replica that is behind is smaller.
            sizes[key] = max(size, sizes.get(key, 0))
    return sizes


def _here(topic: TopicView) -> TopicFacts:
    partitions = [
        PartitionFacts(
            one.partition, one.start_offset, one.next_offset, one.high_watermark, one.size, one.durable_offset,
            one.segments, one.cleaning,
        )
        for one in topic
    ]  # fmt: skip
    return TopicFacts(topic.name, str(topic.id), topic.config.to_kafka(), dict(topic.overrides), partitions)


def _there(log: ClientHalf[Any], name: str) -> TopicFacts:
    admin = log.admin
    found = admin.topic(name)
    keys = [TopicPartition(name, part.partition) for part in found.partitions]
    starts = admin.list_offsets(dict.fromkeys(keys, "earliest"))
    ends = admin.list_offsets(dict.fromkeys(keys, "latest"))
    sizes = _bytes(log)
    configs = admin.describe_topic_config(name)
    partitions = [
        PartitionFacts(key.partition, starts[key].offset, ends[key].offset, ends[key].offset, sizes.get(key, 0))
        for key in keys
    ]
    return TopicFacts(
        name, str(found.id), {key: one.value for key, one in configs.items()},
        {key: one.value for key, one in configs.items() if one.is_set}, partitions,
    )  # fmt: skip
