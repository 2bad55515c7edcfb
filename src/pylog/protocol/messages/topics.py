"""Topics: the messages that describe them, and those that change them."""

import uuid
from collections.abc import Iterable
from dataclasses import field

from pylog.errors import PylogError, UnsupportedFormat
from pylog.kernel.format import NO_EPOCH
from pylog.protocol.error_codes import untold
from pylog.protocol.messages.api import AllNodesRequest, ApiRequest, ApiResponse, api_message
from pylog.protocol.messages.message import OURS, message
from pylog.protocol.messages.records import NO_ID
from pylog.protocol.operations import UNTOLD
from pylog.record import TopicPartition, by_topic

GROUPS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_STATES_TOPIC = "__share_group_state"
INTERNAL_TOPICS = frozenset({GROUPS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATES_TOPIC})
"""The logs of coordinators: clients read them, and only coordinators write them (Kafka: Topic.isInternal)."""


METADATA_BY_ID_FROM = 12
"""The version of Metadata from which on topics are asked for by their ids."""


@api_message
class MetadataResponse(ApiResponse):
    @api_message
    class MetadataResponseBroker:
        node_id: int
        host: str
        port: int
        rack: str | None = None

    @api_message
    class MetadataResponseTopic:
        @api_message
        class MetadataResponsePartition:
            error: PylogError | None = None
            partition_index: int
            leader_id: int
            """-1: it has no leader for the moment."""
            leader_epoch: int = NO_EPOCH
            replica_nodes: list[int]
            isr_nodes: list[int]
            offline_replicas: list[int] = field(default_factory=list)

        error: PylogError | None = None
        name: str | None
        """None: no topic has the id."""
        topic_id: uuid.UUID = NO_ID
        is_internal: bool = False
        partitions: list[MetadataResponsePartition] = field(default_factory=list)
        topic_authorized_operations: int = UNTOLD

    throttle_time_ms: int = 0
    brokers: list[MetadataResponseBroker] = field(default_factory=list)
    """The nodes; in an answer within a process the leaders elsewhere alone."""
    cluster_id: str | None = None
    """The id of the cluster; None: a reader's answer, or that of a node that is older than the field."""
    controller_id: int = -1
    topics: list[MetadataResponseTopic] = field(default_factory=list)
    cluster_authorized_operations: int = UNTOLD
    error: PylogError | None = None
    lacks_partitions: bool = field(default=False, metadata=OURS)
    """True if the answer has no partitions, because there are more than `partitions_max`."""

    @property
    def nodes(self) -> dict[int, tuple[str, int]]:
        """Host and port of the nodes by their ids."""
        return {one.node_id: (one.host, one.port) for one in self.brokers}

    def named(self, names: list[str] | None) -> list[MetadataResponseTopic]:
        """The topics of these names, with an error where the response lacks one; None: all topics that it has."""
        if names is None:
            return self.topics
        found = {topic.name: topic for topic in self.topics}
        return [found.get(name) or MetadataTopic(name=name, error=untold(f"topic {name!r}")) for name in names]


MetadataTopic = MetadataResponse.MetadataResponseTopic
MetadataPartition = MetadataTopic.MetadataResponsePartition


@api_message
class MetadataRequest(ApiRequest[MetadataResponse]):
    """A request for the nodes of a cluster, and for topics."""

    @api_message
    class MetadataRequestTopic:
        topic_id: uuid.UUID = NO_ID
        name: str | None
        """None: the topic is asked for by its id. The answer to an unknown one has no name."""

    lowest = 4
    topics: list[MetadataRequestTopic] | None
    """None: all of them."""
    allow_auto_topic_creation: bool = True
    """Whether a topic that is missing is to be made, where the node makes topics (`auto.create.topics.enable`)."""
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool = False
    partitions_max: int | None = field(default=None, metadata=OURS)
    """The most partitions that a node of this process puts into its answer; None: all of them.

    Where the topics have more in all, the answer has no partitions. Where all topics are asked for, and there are more
    topics than this, it has no topics either. With 0 the topics come without partitions.
    """

    @classmethod
    def of(
        cls, names: Iterable[str] | None = None, topic_ids: Iterable[uuid.UUID] = (), *, creates: bool = False,
        partitions_max: int | None = None,
    ) -> "MetadataRequest":  # fmt: skip
        """A request for topics by their names, and behind these by their ids; without names for all."""
        one = cls.MetadataRequestTopic
        topics = None if names is None else [one(name=name) for name in names]
        if topics is not None:
            topics += [one(name=None, topic_id=topic_id) for topic_id in topic_ids]
        return cls(topics=topics, allow_auto_topic_creation=creates, partitions_max=partitions_max)

    @property
    def is_by_id(self) -> bool:
        """Whether it asks for a topic by its id."""
        return any(one.name is None or one.topic_id != NO_ID for one in self.topics or ())

    def said_in(self, version: int) -> "MetadataRequest":
        if version < METADATA_BY_ID_FROM and self.is_by_id:
            raise UnsupportedFormat(f"version {version} asks for no topic by its id")
        return self


NODE_DEFAULT = -1
"""As a number of partitions: the one of the node's `num.partitions`."""


@message
class NewTopic:
    name: str
    partitions: int = 1
    config: dict[str, str] = field(default_factory=dict)


@api_message
class CreateTopicsResponse(ApiResponse):
    @api_message
    class CreatableTopicResult:
        @api_message
        class CreatableTopicConfigs:
            name: str
            value: str | None
            read_only: bool = False
            config_source: int = -1
            is_sensitive: bool = False

        name: str
        topic_id: uuid.UUID = NO_ID
        error: PylogError | None = None
        topic_config_error_code: int = 0
        num_partitions: int = -1
        replication_factor: int = -1
        configs: list[CreatableTopicConfigs] | None = field(default_factory=list)

    throttle_time_ms: int = 0
    topics: list[CreatableTopicResult] = field(default_factory=list)


@api_message
class CreateTopicsRequest(ApiRequest[CreateTopicsResponse]):
    @api_message
    class CreatableTopic:
        @api_message
        class CreatableReplicaAssignment:
            partition_index: int
            broker_ids: list[int]

        @api_message
        class CreatableTopicConfig:
            name: str
            value: str | None

        name: str
        num_partitions: int
        """-1: the default of the node."""
        replication_factor: int
        """-1: the default of the node."""
        assignments: list[CreatableReplicaAssignment] = field(default_factory=list)
        configs: list[CreatableTopicConfig] = field(default_factory=list)

    lowest = 4
    topics: list[CreatableTopic] = field(default_factory=list)
    timeout_ms: int = 60_000
    validate_only: bool = False
    """Say what would be wrong, and make nothing."""
    wants_details: bool = field(default=True, metadata=OURS)
    """Whether the partitions and configs of each topic are told, as to a client elsewhere (KIP-525)."""

    @classmethod
    def of(
        cls, topics: Iterable[NewTopic], timeout_ms: int = 0, *, validate_only: bool = False
    ) -> "CreateTopicsRequest":  # fmt: skip
        """A request for topics whose replicas are the node's default, which wants no details."""
        topic, config = cls.CreatableTopic, cls.CreatableTopic.CreatableTopicConfig
        return cls(
            topics=[
                topic(
                    name=one.name, num_partitions=one.partitions, replication_factor=NODE_DEFAULT,
                    configs=[config(name=name, value=value) for name, value in one.config.items()],
                )
                for one in topics
            ],
            timeout_ms=timeout_ms, validate_only=validate_only, wants_details=False,
        )  # fmt: skip

    def refused(self, error: PylogError) -> CreateTopicsResponse:
        result = CreateTopicsResponse.CreatableTopicResult
        return CreateTopicsResponse(topics=[result(name=one.name, error=error) for one in self.topics])


@api_message
class DeleteTopicsResponse(ApiResponse):
    @api_message
    class DeletableTopicResult:
        name: str | None
        """None: no topic has the id."""
        topic_id: uuid.UUID = NO_ID
        error: PylogError | None = None

    throttle_time_ms: int = 0
    responses: list[DeletableTopicResult] = field(default_factory=list)


@api_message
class DeleteTopicsRequest(ApiRequest[DeleteTopicsResponse]):
    @api_message
    class DeleteTopicState:
        name: str | None = None
        topic_id: uuid.UUID = NO_ID

    topics: list[DeleteTopicState] = field(default_factory=list)
    topic_names: list[str] = field(default_factory=list)
    """The names of the topics, up to version 5."""
    timeout_ms: int = 0

    @classmethod
    def of(cls, names: Iterable[str], timeout_ms: int = 0) -> "DeleteTopicsRequest":
        """A request for topics by their names."""
        return cls(topics=[cls.DeleteTopicState(name=name) for name in names], timeout_ms=timeout_ms)

    def said_in(self, version: int) -> "DeleteTopicsRequest":
        names = [one.name for one in self.topics if one.name is not None]
        is_older = version < STATES_FROM and len(names) == len(self.topics)
        return DeleteTopicsRequest(topic_names=names, timeout_ms=self.timeout_ms) if is_older else self

    @property
    def states(self) -> list[DeleteTopicState]:
        """The topics, whatever the version."""
        return self.topics or [self.DeleteTopicState(name=name) for name in self.topic_names]

    def refused(self, error: PylogError) -> DeleteTopicsResponse:
        result = DeleteTopicsResponse.DeletableTopicResult
        return DeleteTopicsResponse(
            responses=[result(name=one.name, topic_id=one.topic_id, error=error) for one in self.states]
        )


STATES_FROM = 6
"""The version of DeleteTopics from which on topics may be named by their ids."""


@message
class NewPartitions:
    """A new total number of partitions for a topic."""

    topic: str
    total: int


@api_message
class CreatePartitionsResponse(ApiResponse):
    @api_message
    class CreatePartitionsTopicResult:
        name: str
        error: PylogError | None = None

    throttle_time_ms: int = 0
    results: list[CreatePartitionsTopicResult] = field(default_factory=list)


@api_message
class CreatePartitionsRequest(ApiRequest[CreatePartitionsResponse]):
    @api_message
    class CreatePartitionsTopic:
        @api_message
        class CreatePartitionsAssignment:
            broker_ids: list[int]

        name: str
        count: int
        """The new total number of partitions."""
        assignments: list[CreatePartitionsAssignment] | None
        """The nodes of the new partitions; None: the node decides."""

    topics: list[CreatePartitionsTopic] = field(default_factory=list)
    timeout_ms: int = 0
    validate_only: bool = False

    def refused(self, error: PylogError) -> CreatePartitionsResponse:
        result = CreatePartitionsResponse.CreatePartitionsTopicResult
        return CreatePartitionsResponse(results=[result(name=one.name, error=error) for one in self.topics])


@message
class Replacement:
    """A new log directory, `path`, for a partition."""

    topic: str
    partition: int
    path: str


@api_message
class AlterReplicaLogDirsResponse(ApiResponse):
    @api_message
    class AlterReplicaLogDirTopicResult:
        @api_message
        class AlterReplicaLogDirPartitionResult:
            partition_index: int
            error: PylogError | None = None

        topic_name: str
        partitions: list[AlterReplicaLogDirPartitionResult] = field(default_factory=list)

    throttle_time_ms: int = 0
    results: list[AlterReplicaLogDirTopicResult] = field(default_factory=list)


@api_message
class AlterReplicaLogDirsRequest(ApiRequest[AlterReplicaLogDirsResponse]):
    @api_message
    class AlterReplicaLogDir:
        @api_message
        class AlterReplicaLogDirTopic:
            name: str
            partitions: list[int]

        path: str
        topics: list[AlterReplicaLogDirTopic] = field(default_factory=list)

    dirs: list[AlterReplicaLogDir] = field(default_factory=list)

    @property
    def replacements(self) -> list[Replacement]:
        """The moves that it asks for."""
        return [
            Replacement(topic.name, number, one.path)
            for one in self.dirs
            for topic in one.topics
            for number in topic.partitions
        ]

    def refused(self, error: PylogError) -> AlterReplicaLogDirsResponse:
        return self.answered([error for _ in self.replacements])

    def answered(self, errors: Iterable[PylogError | None]) -> AlterReplicaLogDirsResponse:
        """The response with these errors of the replacements, in their order."""
        pairs = zip(self.replacements, errors, strict=True)
        found = {TopicPartition(one.topic, one.partition): error for one, error in pairs}
        topic_result = AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult
        part = topic_result.AlterReplicaLogDirPartitionResult
        return AlterReplicaLogDirsResponse(
            results=[
                topic_result(
                    topic_name=topic,
                    partitions=[
                        part(partition_index=number, error=found[TopicPartition(topic, number)]) for number in numbers
                    ],
                )
                for topic, numbers in by_topic(found).items()
            ]
        )


# --- the node ---------------------------------------------------------------------------------------------------------


@api_message
class DescribeLogDirsResponse(ApiResponse):
    @api_message
    class DescribeLogDirsResult:
        @api_message
        class DescribeLogDirsTopic:
            @api_message
            class DescribeLogDirsPartition:
                partition_index: int
                partition_size: int
                """Its bytes, in its `.log` files."""
                offset_lag: int = 0
                is_future_key: bool = False

            name: str
            partitions: list[DescribeLogDirsPartition] = field(default_factory=list)

        error: PylogError | None = None
        """The reason why it is offline."""
        log_dir: str
        topics: list[DescribeLogDirsTopic] = field(default_factory=list)
        total_bytes: int = -1
        usable_bytes: int = -1
        is_cordoned: bool = False

    throttle_time_ms: int = 0
    error: PylogError | None = None
    results: list[DescribeLogDirsResult] = field(default_factory=list)


@api_message
class DescribeLogDirsRequest(AllNodesRequest[DescribeLogDirsResponse]):
    """A request for the log directories of the node that is asked."""

    parts = "results"

    @api_message
    class DescribableLogDirTopic:
        topic: str
        partitions: list[int]

    topics: list[DescribableLogDirTopic] | None
    """The partitions to tell of; None: all of them."""


@message
class DescribeQuorum:
    """A request for the state of the metadata log. The node that is asked is the only voter."""


@message
class DescribedQuorum:
    """The offsets of the metadata log, and the directory that it is in."""

    leader_epoch: int
    high_watermark: int
    next_offset: int
    directory_id: uuid.UUID
