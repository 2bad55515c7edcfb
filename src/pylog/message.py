"""What nodes and clients say to each other: values that mirror Kafka's requests and answers.

A message names many topic-partitions; its answer has one part for each, in the same order. A part that failed carries
the error as a value: one partition's trouble is no reason to fail the others. Record bytes are opaque here: a `Produce`
carries encoded batches, a `Fetched` carries the bytes that lie in the log, or says where they lie.

The values are slotted and by convention never changed after they were sent.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from pylog.batch import Batch
from pylog.errors import PylogError
from pylog.isolation import Isolation

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
ACKS_ALL = -1
CONSUMER = -1
NO_EPOCH = -1
NO_ID = uuid.UUID(int=0)


@dataclass(slots=True)
class Session:
    """Who sent a message. Nodes do nothing with it yet; a transport may."""

    client_id: str = ""


# --- produce ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class ProducePart:
    topic: str
    partition: int
    given: Batch | Callable[[], Batch]
    """The records, or what gives them when they are needed: until then a producer may add to them."""
    topic_id: uuid.UUID = NO_ID
    """Which topic of that name is meant: another one made since answers UnknownTopicId (KIP-516)."""

    @property
    def batch(self) -> Batch:
        """The records: from now on they are what they are."""
        if not isinstance(self.given, Batch):
            self.given = self.given()
        return self.given


@dataclass(slots=True)
class Produce:
    parts: list[ProducePart]
    acks: int = ACKS_ALL
    timeout_ms: int = 30_000


@dataclass(slots=True)
class ProducedPart:
    topic: str
    partition: int
    error: PylogError | None = None
    base_offset: int = -1
    next_offset: int = -1
    log_append_time: int | None = None
    log_start_offset: int = -1


@dataclass(slots=True)
class Produced:
    parts: list[ProducedPart]


# --- fetch -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class FetchPart:
    topic: str
    partition: int
    offset: int
    max_bytes: int = 1 << 20
    current_leader_epoch: int = NO_EPOCH
    last_fetched_epoch: int = NO_EPOCH
    """The epoch of the last batch a follower has: the leader finds by it whether their logs have parted (KIP-595)."""
    high_watermark: int = -1
    """The high watermark a follower knows: the leader answers at once when it has a newer one (KIP-1166)."""
    topic_id: uuid.UUID = NO_ID
    """As in `ProducePart`."""


class Extent(Protocol):
    """Whole batches that lie in a file of the node, for who sends them on: see `extent.FileExtent`."""

    @property
    def size(self) -> int:
        """How many bytes there are in all."""

    @property
    def left(self) -> int:
        """How many of them were not sent yet."""

    def send(self, target: int) -> int:
        """Send of what is left as much as the socket with this descriptor takes; gives how much.

        Raises: BlockingIOError and other OSErrors of the socket; Truncated and other PylogErrors, when what is left
        cannot be sent any more.
        """

    def read(self) -> bytes:
        """What is left, in memory: for who has to do something with it (TLS), or has no descriptor."""

    def close(self) -> None:
        """Owed by who stops sending before nothing is left."""


@dataclass(slots=True)
class Fetch:
    parts: list[FetchPart]
    replica_id: int = CONSUMER
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 50 << 20
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    as_extents: bool = False
    """The asker sends the bytes on: where they are many, a part may have an `extent` instead of `data`."""


@dataclass(slots=True)
class FetchedPart:
    topic: str
    partition: int
    error: PylogError | None = None
    data: memoryview = field(default_factory=lambda: memoryview(b""))
    extent: Extent | None = None
    """Where the bytes lie that `data` would have: never for an asker who did not ask for it."""
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: list[tuple[int, int]] = field(default_factory=list)
    """(producer id, first offset) of the aborted transactions with records in `data`, if committed ones were asked."""
    diverging: tuple[int, int] | None = None
    """(epoch, end offset): the follower's log parts from the leader's there and must be cut."""
    path: str | None = None
    """Where the data was read, for error messages: the file, and the position in it."""
    position: int = 0

    @property
    def size(self) -> int:
        """How many bytes of batches it has."""
        return len(self.data) if self.extent is None else self.extent.size


@dataclass(slots=True)
class Fetched:
    parts: list[FetchedPart]


# --- offsets ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class ListOffsetsPart:
    topic: str
    partition: int
    timestamp: int
    """Milliseconds, or EARLIEST, LATEST, MAX_TIMESTAMP."""


@dataclass(slots=True)
class ListOffsets:
    parts: list[ListOffsetsPart]
    isolation: Isolation = Isolation.READ_UNCOMMITTED


@dataclass(slots=True)
class ListedPart:
    topic: str
    partition: int
    error: PylogError | None = None
    timestamp: int = -1
    offset: int = -1
    """-1: no record has a timestamp that large."""
    leader_epoch: int = NO_EPOCH


@dataclass(slots=True)
class ListedOffsets:
    parts: list[ListedPart]


# --- topics ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Metadata:
    topics: list[str] | None = None
    """None: all of them."""


@dataclass(slots=True)
class PartitionMetadata:
    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]


@dataclass(slots=True)
class TopicMetadata:
    name: str
    error: PylogError | None = None
    id: uuid.UUID = NO_ID
    partitions: list[PartitionMetadata] = field(default_factory=list)
    config: dict[str, str] = field(default_factory=dict)
    """The configs set on the topic itself, as stored."""


@dataclass(slots=True)
class ClusterMetadata:
    topics: list[TopicMetadata]


@dataclass(slots=True)
class NewTopic:
    name: str
    partitions: int = 1
    config: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class CreateTopics:
    topics: list[NewTopic]


@dataclass(slots=True)
class DeleteTopics:
    names: list[str]


@dataclass(slots=True)
class NewPartitions:
    """A topic is to have so many partitions in all."""

    topic: str
    total: int


@dataclass(slots=True)
class CreatePartitions:
    topics: list[NewPartitions]


@dataclass(slots=True)
class ConfigChange:
    """A change of one config: "set" it, "delete" it (back to its default), "append" to or "subtract" from a list."""

    name: str
    value: str | None = None
    operation: str = "set"


@dataclass(slots=True)
class TopicChange:
    topic: str
    changes: list[ConfigChange]


@dataclass(slots=True)
class AlterConfigs:
    """Kafka's IncrementalAlterConfigs, for topics."""

    topics: list[TopicChange]


@dataclass(slots=True)
class Replacement:
    """A partition is to lie in the log directory `path`."""

    topic: str
    partition: int
    path: str


@dataclass(slots=True)
class AlterReplicaLogDirs:
    parts: list[Replacement]


@dataclass(slots=True)
class TopicsChanged:
    """The answer to what changes topics: one error or None for each, in the order asked."""

    errors: list[PylogError | None]


# --- records ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class DeleteRecordsPart:
    topic: str
    partition: int
    offset: int
    """The log is to start here; -1: at its high watermark."""


@dataclass(slots=True)
class DeleteRecords:
    parts: list[DeleteRecordsPart]


@dataclass(slots=True)
class DeletedPart:
    topic: str
    partition: int
    error: PylogError | None = None
    low_watermark: int = -1
    """Where the log starts now."""


@dataclass(slots=True)
class RecordsDeleted:
    parts: list[DeletedPart]


Message = (
    Produce
    | Fetch
    | ListOffsets
    | Metadata
    | CreateTopics
    | DeleteTopics
    | CreatePartitions
    | AlterConfigs
    | AlterReplicaLogDirs
    | DeleteRecords
)
