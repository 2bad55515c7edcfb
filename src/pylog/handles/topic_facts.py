"""The facts of topics for people, from the files of a log or by asking a server.

A server tells less: neither how far records are durable, nor segments, nor how cleaning goes.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from pylog.client.admin.groups import MemberDescription
from pylog.client.admin.offsets import PartitionLag
from pylog.errors import GroupIdNotFound, PylogError, UnknownTopicOrPartition
from pylog.handles.any_log import AnyLog
from pylog.handles.views import SegmentInfo, TopicView
from pylog.logdirs.log_directory import CleaningFacts
from pylog.record import TopicPartition

__all__ = [
    "Ends",
    "PartitionFacts",
    "TopicFacts",
    "TopicReader",
    "TopicSize",
    "bytes_of",
    "ends_of",
    "ends_of_partitions",
    "facts_of",
    "readers_of",
    "readers_of_topic",
    "sizes_of",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """A partition. None: a server does not tell."""

    partition: int
    start: int
    end: int
    high_watermark: int
    size: int
    replicas: Sequence[int]
    isr: Sequence[int]
    durable: int | None = None
    segments: list[SegmentInfo] | None = None
    cleaning: CleaningFacts | None = None


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic, its configs, and those of them that are set on it."""

    name: str
    id: str
    configs: dict[str, str]
    overrides: dict[str, str]
    partitions: list[PartitionFacts]


def facts_of(log: AnyLog, name: str) -> TopicFacts:
    """The facts of a topic. Raises UnknownTopicOrPartition."""
    topic = log.topic(name)
    return _here(topic) if isinstance(topic, TopicView) else _there(log, name)


class TopicSize(NamedTuple):
    """The size of a topic; offsets that compaction has emptied count as records. `appended`: in its whole life."""

    name: str
    partitions: int
    records: int
    bytes: int
    appended: int


def sizes_of(log: AnyLog, names: Iterable[str]) -> list[TopicSize]:
    """The size of each of these topics. A topic that is deleted meanwhile is left out."""
    topics: dict[str, list[Ends]] = {}
    for key, ends in ends_of(log, names).items():
        topics.setdefault(key.topic, []).append(ends)
    return [
        TopicSize(
            name, len(parts), sum(one.count for one in parts), sum(one.size for one in parts),
            sum(one.end for one in parts),
        )
        for name, parts in topics.items()
    ]  # fmt: skip


class TopicReader(NamedTuple):
    """A group that reads a topic: it has committed there, or a member has a partition. `lag`: the sum of those that are
    known; None where none is.
    """

    group: str
    state: str
    members: int
    lag: int | None


def readers_of(log: AnyLog) -> dict[str, list[TopicReader]]:
    """The groups that read each topic, by their names: a few questions for each group."""
    found: dict[str, list[TopicReader]] = {}
    for listed in sorted(log.admin.list_groups(), key=lambda one: one.group_id):
        # A group may be deleted between two questions.
        with suppress(GroupIdNotFound):
            members = log.admin.describe_group(listed.group_id).members
            topics: dict[str, list[PartitionLag]] = {}
            for key, lag in log.admin.lag(listed.group_id).items():
                topics.setdefault(key.topic, []).append(lag)
            for name, lags in topics.items():
                known = [one.lag for one in lags if one.lag is not None]
                count = _members_of(name, members)
                reader = TopicReader(listed.group_id, listed.state, count, sum(known) if known else None)
                found.setdefault(name, []).append(reader)
    return found


def _members_of(name: str, members: Iterable[MemberDescription]) -> int:
    return sum(any(key.topic == name for key in one.assignment) for one in members)


def readers_of_topic(log: AnyLog, name: str, ends: Mapping[int, int], groups: Sequence[str]) -> list[TopicReader]:
    """Those of these groups that read a topic, which ends there: one question for each group, and one for all."""
    found, keys = [], [TopicPartition(name, partition) for partition in ends]
    for group, described in (log.admin.describe_groups(groups) if groups else {}).items():
        if isinstance(described, PylogError):
            # It was deleted meanwhile.
            continue
        if described.type == "Share":
            behind = {key: one.lag for key, one in log.admin.lag(group).items() if key.topic == name}
        else:
            committed = log.admin.committed(group, keys)
            behind = {key: max(0, ends[key.partition] - one.offset) for key, one in committed.items()}
        members = _members_of(name, described.members)
        if behind or members:
            lags = [lag for lag in behind.values() if lag is not None]
            found.append(TopicReader(group, described.state, members, sum(lags) if lags else None))
    return found


@dataclass(frozen=True, slots=True)
class Ends:
    """The extent of a partition: half-open offsets, and the bytes of its `.log` files, 0 where no node tells them."""

    start: int
    end: int
    size: int

    @property
    def count(self) -> int:
        """The number of offsets; where records were compacted away, there are fewer of them."""
        return self.end - self.start


def ends_of(log: AnyLog, names: Iterable[str]) -> dict[TopicPartition, Ends]:
    """The extents of all partitions of these topics: three questions, however many they are. A topic that is deleted
    meanwhile is left out.
    """
    sizes, names = bytes_of(log), list(names)
    try:
        return _ends(log, names, sizes)
    except UnknownTopicOrPartition:
        found: dict[TopicPartition, Ends] = {}
    for name in names:
        with suppress(UnknownTopicOrPartition):
            found |= _ends(log, [name], sizes)
    return found


def _ends(log: AnyLog, names: Iterable[str], sizes: Mapping[TopicPartition, int]) -> dict[TopicPartition, Ends]:
    return ends_of_partitions(
        log, [TopicPartition(name, view.partition) for name in names for view in log.topic(name)], sizes
    )


def ends_of_partitions(
    log: AnyLog, keys: Iterable[TopicPartition], sizes: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Ends]:
    """The extents of partitions: two questions, however many they are. Raises UnknownTopicOrPartition."""
    keys = list(keys)
    starts = log.admin.list_offsets(dict.fromkeys(keys, "earliest"))
    ends = log.admin.list_offsets(dict.fromkeys(keys, "latest"))
    return {key: Ends(starts[key].offset, ends[key].offset, sizes.get(key, 0)) for key in keys}


def bytes_of(log: AnyLog) -> dict[TopicPartition, int]:
    """The bytes of the `.log` files of each partition, where a node tells them."""
    sizes: dict[TopicPartition, int] = {}
    for directory in log.admin.describe_log_dirs():
        for key, size in directory.partitions.items():
            # A replica that is behind is smaller.
            sizes[key] = max(size, sizes.get(key, 0))
    return sizes


def _here(topic: TopicView) -> TopicFacts:
    partitions = [
        PartitionFacts(
            one.partition, one.start_offset, one.next_offset, one.high_watermark, one.size, one.replicas, one.isr,
            one.durable_offset, one.segments, one.cleaning,
        )
        for one in topic
    ]  # fmt: skip
    return TopicFacts(topic.name, str(topic.id), topic.config.to_kafka(), dict(topic.overrides), partitions)


def _there(log: AnyLog, name: str) -> TopicFacts:
    admin = log.admin
    found = admin.topic(name)
    keys = [TopicPartition(name, part.partition) for part in found.partitions]
    starts = admin.list_offsets(dict.fromkeys(keys, "earliest"))
    ends = admin.list_offsets(dict.fromkeys(keys, "latest"))
    sizes = bytes_of(log)
    configs = admin.describe_topic_config(name)
    partitions = [
        PartitionFacts(
            key.partition, starts[key].offset, ends[key].offset, ends[key].offset, sizes.get(key, 0), part.replicas,
            part.isr,
        )
        for key, part in zip(keys, found.partitions, strict=True)
    ]  # fmt: skip
    return TopicFacts(
        name, str(found.id), {key: one.value for key, one in configs.items()},
        {key: one.value for key, one in configs.items() if one.is_set}, partitions,
    )  # fmt: skip
