"""Records and offsets: Produce, Fetch, ListOffsets, DeleteRecords, and the session of their sender."""

import uuid
from dataclasses import dataclass, field
from typing import Protocol

from pylog.errors import PylogError
from pylog.protocol.batch import Batch
from pylog.protocol.isolation import Isolation

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
ACKS_ALL = -1
CONSUMER = -1
NO_EPOCH = -1
NO_ID = uuid.UUID(int=0)
NOTHING = memoryview(b"")


@dataclass(slots=True)
class Session:
    """Who sent a message."""

    client_id: str = ""
    host: str = ""
    """Where it runs; the node fills in its own process where a message did not come by a network."""


# --- produce ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class ProducePart:
    topic: str
    partition: int
    batch: Batch
    topic_id: uuid.UUID = NO_ID
    """The id of the topic that the sender means: a node answers UnknownTopicId for a later one of that name (KIP-516).
    """


@dataclass(slots=True)
class Produce:
    parts: list[ProducePart]
    acks: int = ACKS_ALL
    timeout_ms: int = 30_000
    transactional_id: str | None = None


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
    """The epoch of the last batch that the asker has: the leader finds by it whether the log was cut below `offset`,
    and has other records now (KIP-595; for consumers KIP-320).
    """
    high_watermark: int = -1
    """The high watermark a follower knows: the leader answers at once when it has a newer one (KIP-1166)."""
    topic_id: uuid.UUID = NO_ID
    """As in `ProducePart`."""


class Extent(Protocol):
    """Whole batches that lie in a file of the node, for who sends them on: see `file_region.FileExtent`."""

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
    data: memoryview = NOTHING
    extent: Extent | None = None
    """Where the bytes lie that `data` would have: never for an asker who did not ask for it."""
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: list[tuple[int, int]] = field(default_factory=list)
    """(producer id, first offset) of the aborted transactions with records in `data`, if committed ones were asked."""
    diverging: tuple[int, int] | None = None
    """(epoch, end offset): what the asker has parts from the leader's log there. A follower has to be cut."""
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

    @property
    def size(self) -> int:
        """How many bytes of batches its parts have."""
        return sum([part.size for part in self.parts])


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


# --- deleting ---------------------------------------------------------------------------------------------------------


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
