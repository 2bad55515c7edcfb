"""CreateTopics and CreatePartitions: this node keeps every partition of a topic.

-1 partitions and -1 replicas are the defaults. More than one replica is InvalidReplicationFactor, and an assignment to
another node is InvalidReplicaAssignment. The error of a name, a config or a number of partitions comes before these. A
topic that is named twice is InvalidRequest, for each of its places. (Kafka: ReplicationControlManager)
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import itemgetter

from pylog.config import DynamicBrokerConfig
from pylog.errors import (
    InvalidConfig,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    PylogError,
)
from pylog.protocol.described_configs import NodeEntries, topic_entries
from pylog.protocol.messages.topics import (
    NODE_DEFAULT,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    NewPartitions,
    NewTopic,
)
from pylog.protocol.metadata_image import MetadataImage

__all__ = ["Creation"]

Attempt = Callable[..., PylogError | None]
"""Makes a topic, or partitions, and gives the error; with `validate_only` it makes nothing."""
Result = CreateTopicsResponse.CreatableTopicResult


class Creation:
    """Answers the requests that make topics and partitions. `create` and `grow` make one."""

    def __init__(
        self, node_id: int, configs: DynamicBrokerConfig, image: Callable[[], MetadataImage], create: Attempt,
        grow: Attempt,
    ) -> None:  # fmt: skip
        self._node_id = node_id
        self._configs = configs
        self._image = image
        self._create = create
        self._grow = grow

    # --- topics ------------------------------------------------------------------------------------------------------

    def topics(self, asked: CreateTopicsRequest) -> CreateTopicsResponse:
        """Make the topics, and describe them where that is wanted."""
        times_named = Counter(topic.name for topic in asked.topics)
        results = []
        for topic in asked.topics:
            new = _new_topic(topic)
            error = _twice(topic.name, times_named) or self._refusal(topic, new)
            if error is None:
                error = self._create(new, validate_only=asked.validate_only)
            is_told = error is None and asked.wants_details
            results.append(self._details(new) if is_told else Result(name=topic.name, error=error))
        return CreateTopicsResponse(topics=results)

    def _refusal(self, topic: CreateTopicsRequest.CreatableTopic, new: NewTopic) -> PylogError | None:
        """The error of what the controller does not check. The controller's own errors come first."""
        fault = self._fault(topic)
        if fault is None:
            return None
        return self._create(replace(new, partitions=NODE_DEFAULT), validate_only=True) or fault

    def _fault(self, topic: CreateTopicsRequest.CreatableTopic) -> PylogError | None:
        without = next((config.name for config in topic.configs if config.value is None), None)
        if without is not None:
            return InvalidConfig(f"topic {topic.name!r}: {without} has no value")
        if topic.assignments:
            if topic.num_partitions != NODE_DEFAULT or topic.replication_factor != NODE_DEFAULT:
                return InvalidRequest(
                    f"topic {topic.name!r}: give an assignment, or numbers of partitions and replicas, not both"
                )
            numbers = sorted(one.partition_index for one in topic.assignments)
            if numbers != list(range(len(topic.assignments))):
                told = f"topic {topic.name!r}: partitions are numbered from 0 on, without gaps"
                return InvalidReplicaAssignment(told)
            return self._misplaced(topic.name, [one.broker_ids for one in topic.assignments])
        if topic.replication_factor not in (NODE_DEFAULT, 1):
            return InvalidReplicationFactor(
                f"topic {topic.name!r}: {topic.replication_factor} replicas are asked for, and there is one node"
            )
        return None

    def _misplaced(self, name: str, brokers: Sequence[list[int]]) -> PylogError | None:
        if any(one != [self._node_id] for one in brokers):
            told = f"topic {name!r}: node {self._node_id} is the only one, and has one replica"
            return InvalidReplicaAssignment(told)
        return None

    def _details(self, new: NewTopic) -> Result:
        there = self._image().topics.get(new.name)
        count = new.partitions if there is None else len(there.partitions)
        entries = sorted(topic_entries(new.config, NodeEntries(self._configs)).items(), key=itemgetter(0))
        result = Result(
            name=new.name, replication_factor=1,
            num_partitions=self._configs.current.num_partitions if count == NODE_DEFAULT else count,
            configs=[
                Result.CreatableTopicConfigs(
                    name=name, value=entry.value, read_only=entry.read_only, config_source=entry.config_source
                )
                for name, entry in entries
            ],
        )  # fmt: skip
        if there is not None:
            result.topic_id = there.id
        return result

    # --- partitions --------------------------------------------------------------------------------------------------

    def partitions(self, asked: CreatePartitionsRequest) -> CreatePartitionsResponse:
        """Add the partitions."""
        times_named = Counter(topic.name for topic in asked.topics)
        results = []
        for topic in asked.topics:
            new = NewPartitions(topic.name, topic.count)
            error = _twice(topic.name, times_named) or self._assignment_fault(topic, new)
            if error is None:
                error = self._grow(new, validate_only=asked.validate_only)
            results.append(CreatePartitionsResponse.CreatePartitionsTopicResult(name=topic.name, error=error))
        return CreatePartitionsResponse(results=results)

    def _assignment_fault(
        self, topic: CreatePartitionsRequest.CreatePartitionsTopic, new: NewPartitions
    ) -> PylogError | None:  # fmt: skip
        if topic.assignments is None:
            return None
        error = self._grow(new, validate_only=True)
        if error is not None:
            return error
        more = topic.count - len(self._image().topics[topic.name].partitions)
        if more != len(topic.assignments):
            told = f"topic {topic.name!r}: {more} partitions are new, {len(topic.assignments)} are assigned"
            return InvalidReplicaAssignment(told)
        return self._misplaced(topic.name, [one.broker_ids for one in topic.assignments])


def _new_topic(topic: CreateTopicsRequest.CreatableTopic) -> NewTopic:
    config = {one.name: one.value for one in topic.configs if one.value is not None}
    return NewTopic(topic.name, len(topic.assignments) or topic.num_partitions, config)


def _twice(name: str, times_named: Counter[str]) -> PylogError | None:
    return InvalidRequest(f"topic {name!r} is named more than once in one request") if times_named[name] > 1 else None
