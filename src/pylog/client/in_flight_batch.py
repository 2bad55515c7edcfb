"""A batch on its way from its queue to an answer, and the producer that numbers it: the values of `in_flight`."""

import enum
from typing import Any, NamedTuple

from pylog.protocol.messages import ProduceResponse
from pylog.record import TopicPartition
from pylog.runtime.future import Future

SEQUENCE_MASK = (1 << 31) - 1


class ProducerEpoch(NamedTuple):
    """The producer id and epoch that batches are numbered under."""

    producer_id: int
    epoch: int


NO_PRODUCER = ProducerEpoch(-1, -1)


class BatchOutcome(enum.Enum):
    """The meaning of an answer for its batch."""

    DELIVERED = "delivered"
    FAILED = "failed"
    AGAIN = "again"
    SPLIT = "split"
    """It counts as in flight until that is done: `split` is owed."""
    LATE = "late"
    """It had failed before: nothing waits for this answer."""


class SendCounts:
    """The counts of a producer's sends to one partition. One thread at a time sends, so nothing is lost."""

    __slots__ = ("batches", "bytes", "errors", "records", "retries")

    def __init__(self) -> None:
        self.batches = self.records = self.bytes = 0
        self.retries = self.errors = 0
        """Records that were to be sent again, and that failed."""


class InFlightBatch:
    """A batch, or a part of one that was too large, from when it leaves its queue. `load` is the producer's own."""

    # Defaults of the class: most batches never need another value, and one is made for each of them.
    producer = NO_PRODUCER
    position = -1
    """How many records its lane had before it since it began."""
    attempts = 0
    not_before_ms = 0
    in_flight = False
    was_first = False
    """True where all before it were answered when it was sent last."""
    untold = False
    """True where the node may have it, for all that its last answer said."""
    doubtful = False
    """True where that holds for any of its answers."""
    refusal: BaseException | None = None
    """Why it is to be sent again, or was."""
    error: BaseException | None = None
    """Why it failed."""

    counts: SendCounts
    """Those of its partition, from when it leaves its queue."""
    answer: Future[ProduceResponse] | None = None
    """The answer of the node, while it is awaited."""

    def __init__(self, key: TopicPartition, load: Any, count: int, deadline_ms: int) -> None:
        self.key = key
        self.load = load
        self.count = count
        """How many records it has."""
        self.deadline_ms = deadline_ms

    @property
    def sequence(self) -> int:
        """The number of its first record; -1 where batches are not numbered."""
        return self.position & SEQUENCE_MASK if self.position >= 0 else -1
