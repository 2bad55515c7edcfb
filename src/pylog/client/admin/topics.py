"""Topics, their records and where they lie."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from pylog.client.admin.configs import config_texts
from pylog.client.cluster import Cluster, checked_names, raise_first, sole
from pylog.errors import PylogError
from pylog.protocol.error_codes import untold
from pylog.protocol.isolation import Isolation, IsolationLevel
from pylog.protocol.messages import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    NewTopic,
)
from pylog.protocol.messages.api import TopicResult
from pylog.protocol.messages.records import DeleteRecordsRequest, ListedOffset
from pylog.protocol.messages.topics import (
    AlterReplicaLogDirsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeLogDirsRequest,
    MetadataTopic,
)
from pylog.record import TopicPartition, checked_partition

SPECS = {"earliest": EARLIEST, "latest": LATEST, "max_timestamp": MAX_TIMESTAMP}
MoveTo = AlterReplicaLogDirsRequest.AlterReplicaLogDir
TIMEOUT_MS = 30_000
"""How long a node of Kafka's may wait for other replicas."""


class DescribedLogDir(NamedTuple):
    """A log directory: why it is offline, or the bytes of each partition in it, in its `.log` files."""

    path: str
    error: PylogError | None
    partitions: dict[TopicPartition, int]


class DescribedPartition(NamedTuple):
    """A partition of a topic, as a node tells of it."""

    partition: int
    leader: int
    """The node that leads it; -1: none for the moment."""
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    """The replicas that are in sync with the leader."""


class DescribedTopic(NamedTuple):
    """A topic, as a node tells of it, with its partitions by number."""

    name: str
    id: UUID
    partitions: list[DescribedPartition]


class TopicAdmin:
    """Admin calls about topics."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, object] | None = None, *, validate_only: bool = False
    ) -> None:
        """Make a topic, or only say what would be wrong with it (`validate_only`). Raises TopicAlreadyExists,
        InvalidTopic, InvalidPartitions, InvalidConfig, TypeError; nothing is made then.

        >>> admin.create_topic("clicks", 3, {"retention.ms": 86_400_000})
        >>> log.topic("clicks")
        <TopicView clicks with 3 partitions>
        """
        raise_first(self.create_topics({name: partitions}, config, validate_only=validate_only).values())

    def create_topics(
        self, topics: Mapping[str, int], config: Mapping[str, object] | None = None, *, validate_only: bool = False
    ) -> dict[str, PylogError | None]:
        """Make topics with so many partitions each, by one request, and give the error of each, or None. Raises
        TypeError; nothing is made then.

        >>> admin.create_topics({"clicks": 3, "orders": 1})
        {'clicks': None, 'orders': TopicAlreadyExists("topic 'orders' exists already")}
        """
        for name, partitions in topics.items():
            _check_types(name, partitions)
        wanted = [NewTopic(name, partitions, config_texts(config or {})) for name, partitions in topics.items()]
        answer = self._cluster.ask(CreateTopicsRequest.of(wanted, TIMEOUT_MS, validate_only=validate_only))
        return _errors(topics, answer.topics)

    def delete_topic(self, name: str) -> None:
        """Remove a topic with all its records. Raises UnknownTopicOrPartition, InvalidTopic (an internal one).

        >>> admin.delete_topic("orders")
        >>> log.topics()
        []
        """
        raise_first(self.delete_topics([name]).values())

    def delete_topics(self, names: Iterable[str]) -> dict[str, PylogError | None]:
        """Remove topics by one request, and give the error of each, or None.

        Raises TypeError; nothing is removed then.

        >>> admin.delete_topics(["orders"])
        {'orders': None}
        """
        wanted = list(dict.fromkeys(checked_names("names", names)))
        answer = self._cluster.ask(DeleteTopicsRequest.of(wanted, TIMEOUT_MS))
        return _errors(wanted, answer.responses)

    def create_partitions(self, name: str, total: int, *, validate_only: bool = False) -> None:
        """Let a topic have `total` partitions, or only say what would be wrong with that (`validate_only`). Raises
        UnknownTopicOrPartition, InvalidPartitions, InvalidTopic (an internal one), TypeError.

        >>> admin.create_partitions("orders", 4)
        >>> log.topic("orders")
        <TopicView orders with 4 partitions>
        """
        _check_types(name, total)
        wanted = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=total, assignments=None)
        request = CreatePartitionsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS, validate_only=validate_only)
        raise_first([sole(self._cluster.ask(request).results, "one topic").error])
        self._cluster.refresh([name])

    def move_partition(self, topic: str, partition: int, path: str) -> None:
        """Let a partition lie in another log directory. Raises LogDirNotFound, UnknownTopicOrPartition, DiskFull.

        >>> from pathlib import Path
        >>> with pylog.open(["fast", "large"]) as disks:
        ...     topic = disks.create_topic("clicks")
        ...     disks.admin.move_partition("clicks", 0, str(Path("large").absolute()))
        ...     topic[0].path
        '.../large/clicks-0'
        """
        moved = MoveTo.AlterReplicaLogDirTopic(name=topic, partitions=[partition])
        target = MoveTo(path=path, topics=[moved])
        results = self._cluster.ask(AlterReplicaLogDirsRequest(dirs=[target])).results
        raise_first([sole([part for one in results for part in one.partitions], "one partition").error])

    def delete_records(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Let partitions start at these offsets, -1 for the high watermark; gives where they start now.

        Raises the first partition's error, after all were tried: OffsetOutOfRange, PolicyViolation, InvalidTopic (an
        internal one)... TypeError.

        >>> admin.delete_records({orders: 2})
        {TopicPartition(topic='orders', partition=0): 2}
        """
        if not isinstance(offsets, Mapping):
            raise TypeError(f"offsets is a dict of partitions and offsets, not {type(offsets).__name__}")
        offsets = {checked_partition(key): offset for key, offset in offsets.items()}
        for key, offset in offsets.items():
            if type(offset) is not int:
                raise TypeError(f"the offset for {key} is {type(offset).__name__}, not int")
        started: dict[TopicPartition, int] = {}
        failed: list[PylogError] = []
        for node, keys in self._cluster.by_leader(list(offsets)).items():
            part = DeleteRecordsRequest.DeleteRecordsTopic.DeleteRecordsPartition
            topics = DeleteRecordsRequest.by_topic(
                (key, part(partition_index=key.partition, offset=offsets[key])) for key in keys
            )
            message = DeleteRecordsRequest(topics=topics, timeout_ms=TIMEOUT_MS)
            for key, found in message.found(self._cluster.ask(message, node=node)).items():
                if found.error is not None:
                    failed.append(found.error)
                else:
                    started[key] = found.low_watermark
        raise_first(failed)
        return started

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int | str], *, isolation_level: IsolationLevel = "read_uncommitted"
    ) -> dict[TopicPartition, ListedOffset]:
        """An offset of each partition: "earliest", "latest" (with read_committed: the last stable one), "max_timestamp"
        or the first record, in offset order, that is not older than a time in ms, or -1.

        Raises UnknownTopicOrPartition, ValueError.

        >>> admin.list_offsets({orders: "latest"})[orders].offset
        3
        """
        times = {checked_partition(key): _timestamp(spec) for key, spec in wanted.items()}
        found = self._cluster.list_offsets(times, Isolation.named(isolation_level))
        raise_first(part.error for part in found.values())
        return found

    def describe_log_dirs(self) -> list[DescribedLogDir]:
        """The log directories of the node, and how many bytes each partition takes there.

        >>> [(found.path, sorted(found.partitions)) for found in admin.describe_log_dirs()]
        [('log', [TopicPartition(topic='orders', partition=0)])]
        """
        return [
            DescribedLogDir(
                one.log_dir, one.error,
                {
                    TopicPartition(topic.name, part.partition_index): part.partition_size
                    for topic in one.topics
                    for part in topic.partitions
                    if not part.is_future_key
                },
            )
            for one in self._cluster.ask(DescribeLogDirsRequest(topics=None)).results
        ]  # fmt: skip

    def topics(self) -> list[DescribedTopic]:
        """All topics there are, sorted by name.

        >>> [(topic.name, len(topic.partitions)) for topic in admin.topics()]
        [('orders', 1)]
        """
        return [_described(name, topic) for name, topic in self._cluster.topics().items()]

    def topic(self, name: str) -> DescribedTopic:
        """One topic as it is now. Raises UnknownTopicOrPartition.

        >>> [part.leader for part in admin.topic("orders").partitions]
        [1]
        """
        self._cluster.refresh([name])
        return _described(name, self._cluster.topic(name))


def _described(name: str, topic: MetadataTopic) -> DescribedTopic:
    parts = [
        DescribedPartition(one.partition_index, one.leader_id, one.leader_epoch, one.replica_nodes, one.isr_nodes)
        for one in topic.partitions
    ]
    return DescribedTopic(name, topic.topic_id, parts)


def _errors(
    names: Iterable[str], results: Iterable[TopicResult | DeleteTopicsResponse.DeletableTopicResult]
) -> dict[str, PylogError | None]:
    """The error of each topic in an answer."""
    found = {one.name: one.error for one in results}
    return {name: found[name] if name in found else untold(f"topic {name!r}") for name in names}


def _timestamp(spec: int | str) -> int:
    if isinstance(spec, str):
        if spec not in SPECS:
            raise ValueError(f"{spec!r} is none of {', '.join(SPECS)}, nor a time in ms")
        return SPECS[spec]
    if type(spec) is not int or spec < 0:
        raise ValueError(f"{spec!r} is no time in ms")
    return spec


def _check_types(name: object, partitions: object) -> None:
    if not isinstance(name, str):
        raise TypeError(f"the name of a topic is str, not {type(name).__name__}")
    if not isinstance(partitions, int) or isinstance(partitions, bool):
        raise TypeError(f"the number of partitions is int, not {type(partitions).__name__}")
