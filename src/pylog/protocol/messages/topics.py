"""Topics: the messages that describe them, and those that change them."""

import uuid
from dataclasses import field

from pylog.errors import PylogError
from pylog.protocol.messages.message import message
from pylog.protocol.messages.records import NO_ID
from pylog.record import TopicPartition

GROUPS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
INTERNAL_TOPICS = frozenset({GROUPS_TOPIC, TRANSACTIONS_TOPIC, "__share_group_state"})
"""The logs of coordinators: clients read them, and only coordinators write them (Kafka: Topic.isInternal)."""


@message
class Metadata:
    topics: list[str] | None = None
    """None: all of them."""
    topic_ids: list[uuid.UUID] = field(default_factory=list)
    """Topics that are asked for by id, behind those of `topics`. The answer to an unknown one has no name."""
    creates: bool = False
    """Whether a topic that is missing is to be made, where the node makes topics (`auto.create.topics.enable`)."""
    partitions_max: int | None = None
    """The most partitions that a node of this process puts into its answer; None: all of them.

    Where the topics have more in all, the answer has no partitions. Where all topics are asked for, and there are more
    topics than this, it has no topics either. With 0 the topics come without partitions.
    """


@message
class PartitionMetadata:
    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]


@message
class TopicMetadata:
    name: str
    error: PylogError | None = None
    id: uuid.UUID = NO_ID
    partitions: list[PartitionMetadata] = field(default_factory=list)
    config: dict[str, str] = field(default_factory=dict)
    """The configs set on the topic itself, as stored."""


@message
class ClusterMetadata:
    topics: list[TopicMetadata]
    cluster_id: str = ""
    """The id of the cluster; empty: a reader's answer, or that of a node that is older than the field."""
    nodes: dict[int, tuple[str, int]] = field(default_factory=dict)
    """Host and port of nodes by their ids; in an answer within a process those of leaders elsewhere alone."""
    lacks_partitions: bool = False
    """True if the answer has no partitions, because there are more than `partitions_max`."""


NODE_DEFAULT = -1
"""As a number of partitions: the one of the node's `num.partitions`."""


@message
class NewTopic:
    name: str
    partitions: int = 1
    config: dict[str, str] = field(default_factory=dict)


@message
class CreateTopics:
    topics: list[NewTopic]
    validate_only: bool = False
    """Say what would be wrong, and make nothing."""


@message
class DeleteTopics:
    names: list[str]


@message
class NewPartitions:
    """A new total number of partitions for a topic."""

    topic: str
    total: int


@message
class CreatePartitions:
    topics: list[NewPartitions]
    validate_only: bool = False


@message
class Replacement:
    """A new log directory, `path`, for a partition."""

    topic: str
    partition: int
    path: str


@message
class AlterReplicaLogDirs:
    parts: list[Replacement]


@message
class TopicsChanged:
    """The answer to a change of topics: one error or None for each, in the order asked."""

    errors: list[PylogError | None]


# --- the node ---------------------------------------------------------------------------------------------------------


@message
class DescribeLogDirs:
    """A request for the log directories of the node that is asked."""


@message
class DescribedLogDir:
    path: str
    error: PylogError | None = None
    """The reason why it is offline."""
    partitions: dict[TopicPartition, int] = field(default_factory=dict)
    """The bytes of each, in its `.log` files."""


@message
class DescribedLogDirs:
    directories: list[DescribedLogDir]


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
