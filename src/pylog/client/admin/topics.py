"""Topics, their records and where they lie."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pylog.client.cluster import Cluster, checked_names
from pylog.errors import PylogError
from pylog.protocol.isolation import Isolation, IsolationLevel
from pylog.protocol.messages import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    AlterConfigs,
    AlterReplicaLogDirs,
    ConfigChange,
    ConfigSource,
    CreatePartitions,
    CreateTopics,
    DeleteRecords,
    DeleteRecordsPart,
    DeleteTopics,
    DescribedLogDir,
    DescribedLogDirs,
    DescribedNodeConfig,
    DescribedTopicConfigs,
    DescribeLogDirs,
    DescribeNodeConfig,
    DescribeTopicConfigs,
    ListedPart,
    NewPartitions,
    NewTopic,
    RecordsDeleted,
    Replacement,
    TopicChange,
    TopicMetadata,
    TopicsChanged,
)
from pylog.record import TopicPartition, checked_partition

SPECS = {"earliest": EARLIEST, "latest": LATEST, "max_timestamp": MAX_TIMESTAMP}


class TopicConfigValue(NamedTuple):
    """A config of a topic, and where it comes from."""

    value: str
    source: ConfigSource

    @property
    def is_set(self) -> bool:
        """True for a config that the topic itself has; False for a default."""
        return self.source is ConfigSource.DYNAMIC_TOPIC_CONFIG


class NodeConfigValue(NamedTuple):
    """A config of a node, and where it comes from: it was given when the node was opened, or is the default. Nodes of
    Kafka's have more sources.
    """

    value: str
    source: ConfigSource


class TopicAdmin:
    """What is asked of topics."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, object] | None = None, *, validate_only: bool = False
    ) -> None:
        """Make a topic, or only say what would be wrong with it (`validate_only`). Raises TopicAlreadyExists,
        InvalidTopic, InvalidPartitions, InvalidConfig, TypeError; nothing is made then.
        """
        _raise_first(self.create_topics({name: partitions}, config, validate_only=validate_only))

    def create_topics(
        self, topics: Mapping[str, int], config: Mapping[str, object] | None = None, *, validate_only: bool = False
    ) -> dict[str, PylogError | None]:
        """Make topics with so many partitions each, by one request, and give the error of each, or None. Raises
        TypeError; nothing is made then.
        """
        for name, partitions in topics.items():
            _check_types(name, partitions)
        wanted = [NewTopic(name, partitions, _texts(config or {})) for name, partitions in topics.items()]
        answer: TopicsChanged = self._cluster.ask(CreateTopics(wanted, validate_only))
        return dict(zip(topics, answer.errors, strict=True))

    def delete_topic(self, name: str) -> None:
        """Remove a topic with all its records. Raises UnknownTopicOrPartition, InvalidTopic (an internal one)."""
        _raise_first(self.delete_topics([name]))

    def delete_topics(self, names: Iterable[str]) -> dict[str, PylogError | None]:
        """Remove topics by one request, and give the error of each, or None."""
        wanted = list(dict.fromkeys(checked_names("names", names)))
        answer: TopicsChanged = self._cluster.ask(DeleteTopics(wanted))
        return dict(zip(wanted, answer.errors, strict=True))

    def create_partitions(self, name: str, total: int, *, validate_only: bool = False) -> None:
        """Let a topic have `total` partitions, or only say what would be wrong with that (`validate_only`). Raises
        UnknownTopicOrPartition, InvalidPartitions, InvalidTopic (an internal one), TypeError.
        """
        _check_types(name, total)
        self._changed(self._cluster.ask(CreatePartitions([NewPartitions(name, total)], validate_only)))
        self._cluster.refresh([name])

    def alter_config(
        self, name: str, config: Mapping[str, object] | None = None, delete: Iterable[str] = (), *,
        append: Mapping[str, object] | None = None, subtract: Mapping[str, object] | None = None,
        validate_only: bool = False,
    ) -> None:  # fmt: skip
        """Set configs, take others back to their defaults, and add words to those that are lists or take them away
        (`append`, `subtract`); or only say what would be wrong with that (`validate_only`).

        Raises UnknownTopicOrPartition, InvalidConfig, TypeError; nothing is changed then.
        """
        changes = [ConfigChange(_dotted(key), operation="delete") for key in checked_names("delete", delete)]
        for operation, given in {"set": config, "append": append, "subtract": subtract}.items():
            changes += [ConfigChange(_dotted(key), text, operation) for key, text in _texts(given or {}).items()]
        self._changed(self._cluster.ask(AlterConfigs([TopicChange(name, changes)], validate_only)))

    def move_partition(self, topic: str, partition: int, path: str) -> None:
        """Let a partition lie in another log directory. Raises LogDirNotFound, UnknownTopicOrPartition, DiskFull."""
        self._changed(self._cluster.ask(AlterReplicaLogDirs([Replacement(topic, partition, path)])))

    def delete_records(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Let partitions start at these offsets, -1 for the high watermark; gives where they start now.

        Raises the first partition's error, after all were tried: OffsetOutOfRange, PolicyViolation, InvalidTopic (an
        internal one)... TypeError.
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
            parts = [DeleteRecordsPart(*key, offsets[key]) for key in keys]
            answer: RecordsDeleted = self._cluster.ask(DeleteRecords(parts), node=node)
            for part in answer.parts:
                if part.error is not None:
                    failed.append(part.error)
                started[TopicPartition(part.topic, part.partition)] = part.low_watermark
        if failed:
            raise failed[0]
        return started

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int | str], *, isolation_level: IsolationLevel = "read_uncommitted"
    ) -> dict[TopicPartition, ListedPart]:
        """An offset of each partition: "earliest", "latest" (with read_committed: the last stable one), "max_timestamp"
        or the first record, in offset order, that is not older than a time in ms; -1 where there is none.

        Raises UnknownTopicOrPartition, ValueError.
        """
        times = {checked_partition(key): _timestamp(spec) for key, spec in wanted.items()}
        found = self._cluster.list_offsets(times, Isolation.named(isolation_level))
        for part in found.values():
            if part.error is not None:
                raise part.error
        return found

    def describe_log_dirs(self) -> list[DescribedLogDir]:
        """The log directories of the node, and how many bytes each partition takes there."""
        answer: DescribedLogDirs = self._cluster.ask(DescribeLogDirs())
        return answer.directories

    def describe_node_config(self) -> dict[str, NodeConfigValue]:
        """Every config that the node goes by, by Kafka's names. At a cluster it is the node with the lowest id."""
        answer: DescribedNodeConfig = self._cluster.ask(DescribeNodeConfig())
        return {key: NodeConfigValue(value, source) for key, (value, source) in sorted(answer.config.items())}

    def describe_topic_config(self, name: str) -> dict[str, TopicConfigValue]:
        """Every config that a topic goes by, by Kafka's names. Raises UnknownTopicOrPartition, InvalidTopic."""
        answer: DescribedTopicConfigs = self._cluster.ask(DescribeTopicConfigs([name]))
        found = answer.configs[name]
        if isinstance(found, PylogError):
            raise found
        return {key: TopicConfigValue(value, source) for key, (value, source) in sorted(found.items())}

    def topics(self) -> list[TopicMetadata]:
        """All topics there are, sorted by name."""
        return [self._cluster.topic(name) for name in self._cluster.topic_names()]

    def topic(self, name: str) -> TopicMetadata:
        """One topic as it is now. Raises UnknownTopicOrPartition."""
        self._cluster.refresh([name])
        return self._cluster.topic(name)

    @staticmethod
    def _changed(answer: TopicsChanged) -> None:
        for error in answer.errors:
            if error is not None:
                raise error


def _raise_first(errors: Mapping[str, PylogError | None]) -> None:
    for error in errors.values():
        if error is not None:
            raise error


def _dotted(key: str) -> str:
    return key.replace("_", ".")


def _timestamp(spec: int | str) -> int:
    if isinstance(spec, str):
        if spec not in SPECS:
            raise ValueError(f"{spec!r} is none of {', '.join(SPECS)}, nor a time in ms")
        return SPECS[spec]
    if type(spec) is not int or spec < 0:
        raise ValueError(f"{spec!r} is no time in ms")
    return spec


def _texts(config: Mapping[str, object]) -> dict[str, str]:
    if not isinstance(config, Mapping):
        raise TypeError(f"a config is a dict of names and values, not {type(config).__name__}")
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in config.items()}


def _check_types(name: object, partitions: object) -> None:
    if not isinstance(name, str):
        raise TypeError(f"the name of a topic is str, not {type(name).__name__}")
    if not isinstance(partitions, int) or isinstance(partitions, bool):
        raise TypeError(f"the number of partitions is int, not {type(partitions).__name__}")
