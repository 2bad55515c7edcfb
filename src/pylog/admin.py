"""Topics, as a client makes and removes them. (Kafka: AdminClient.)"""

from collections.abc import Mapping

from pylog.cluster import Cluster
from pylog.message import CreateTopics, DeleteTopics, NewTopic, TopicMetadata, TopicsChanged
from pylog.transport import Transport


class Admin:
    """Administration of the nodes behind a transport. Thread-safe."""

    def __init__(self, transport: Transport, node: int) -> None:
        self._cluster = Cluster(transport, node, "admin")

    def create_topic(self, name: str, partitions: int, config: Mapping[str, object]) -> None:
        """Raises TopicAlreadyExists, InvalidTopic, InvalidPartitions, InvalidConfig, TypeError; nothing is made."""
        _check_types(name, partitions)
        stored = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in config.items()}
        self._changed(self._cluster.ask(CreateTopics([NewTopic(name, partitions, stored)])))

    def delete_topic(self, name: str) -> None:
        """Remove a topic with all its records. Raises UnknownTopicOrPartition."""
        self._changed(self._cluster.ask(DeleteTopics([name])))

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


def _check_types(name: object, partitions: object) -> None:
    if not isinstance(name, str):
        raise TypeError(f"the name of a topic is str, not {type(name).__name__}")
    if not isinstance(partitions, int):
        raise TypeError(f"the number of partitions is int, not {type(partitions).__name__}")
