"""Topics and their records, as a client makes, changes and removes them. (Kafka: AdminClient.)"""

from collections.abc import Iterable, Mapping

from pylog.cluster import ANSWER_SECONDS_MAX, Cluster
from pylog.errors import PylogError
from pylog.message import (
    AlterConfigs,
    AlterReplicaLogDirs,
    ConfigChange,
    CreatePartitions,
    CreateTopics,
    DeleteRecords,
    DeleteRecordsPart,
    DeleteTopics,
    NewPartitions,
    NewTopic,
    RecordsDeleted,
    Replacement,
    TopicChange,
    TopicMetadata,
    TopicsChanged,
)
from pylog.record import TopicPartition
from pylog.transport import Transport


class Admin:
    """Administration of the nodes behind a transport. Thread-safe."""

    def __init__(self, transport: Transport, node: int) -> None:
        self._cluster = Cluster(transport, node, "admin")

    def create_topic(self, name: str, partitions: int, config: Mapping[str, object]) -> None:
        """Raises TopicAlreadyExists, InvalidTopic, InvalidPartitions, InvalidConfig, TypeError; nothing is made."""
        _check_types(name, partitions)
        self._changed(self._cluster.ask(CreateTopics([NewTopic(name, partitions, _texts(config))])))

    def delete_topic(self, name: str) -> None:
        """Remove a topic with all its records. Raises UnknownTopicOrPartition."""
        self._changed(self._cluster.ask(DeleteTopics([name])))

    def create_partitions(self, name: str, total: int) -> None:
        """Let a topic have `total` partitions. Raises UnknownTopicOrPartition, InvalidPartitions, TypeError."""
        _check_types(name, total)
        self._changed(self._cluster.ask(CreatePartitions([NewPartitions(name, total)])))
        self._cluster.refresh([name])

    def alter_config(self, name: str, config: Mapping[str, object], delete: Iterable[str] = ()) -> None:
        """Set configs and take others back to their defaults.

        Raises UnknownTopicOrPartition, InvalidConfig, TypeError; nothing is changed then.
        """
        if isinstance(delete, str):
            raise TypeError("delete is a list of names, not a str")
        changes = [ConfigChange(key.replace("_", "."), text) for key, text in _texts(config).items()]
        changes += [ConfigChange(key.replace("_", "."), operation="delete") for key in delete]
        self._changed(self._cluster.ask(AlterConfigs([TopicChange(name, changes)])))

    def move_partition(self, topic: str, partition: int, path: str) -> None:
        """Let a partition lie in another log directory. Raises LogDirNotFound, UnknownTopicOrPartition, DiskFull."""
        self._changed(self._cluster.ask(AlterReplicaLogDirs([Replacement(topic, partition, path)])))

    def delete_records(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Let partitions start at these offsets, -1 for the high watermark; gives where they start now.

        Raises the first partition's error, after all were tried: OffsetOutOfRange, PolicyViolation... TypeError.
        """
        if not isinstance(offsets, Mapping):
            raise TypeError(f"offsets is a dict of partitions and offsets, not {type(offsets).__name__}")
        offsets = {TopicPartition(*key): offset for key, offset in offsets.items()}
        for key, offset in offsets.items():
            if type(offset) is not int:
                raise TypeError(f"the offset for {key} is {type(offset).__name__}, not int")
        started: dict[TopicPartition, int] = {}
        failed: list[PylogError] = []
        for node, keys in self._cluster.by_leader(list(offsets)).items():
            parts = [DeleteRecordsPart(*key, offsets[key]) for key in keys]
            answer: RecordsDeleted = self._cluster.send(node, DeleteRecords(parts)).result(ANSWER_SECONDS_MAX)
            for part in answer.parts:
                if part.error is not None:
                    failed.append(part.error)
                started[TopicPartition(part.topic, part.partition)] = part.low_watermark
        if failed:
            raise failed[0]
        return started

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


def _texts(config: Mapping[str, object]) -> dict[str, str]:
    if not isinstance(config, Mapping):
        raise TypeError(f"a config is a dict of names and values, not {type(config).__name__}")
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in config.items()}


def _check_types(name: object, partitions: object) -> None:
    if not isinstance(name, str):
        raise TypeError(f"the name of a topic is str, not {type(name).__name__}")
    if not isinstance(partitions, int) or isinstance(partitions, bool):
        raise TypeError(f"the number of partitions is int, not {type(partitions).__name__}")
