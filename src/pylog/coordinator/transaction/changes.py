"""Changes of a transaction coordinator's log that are under way, and the answers that come of them."""

from dataclasses import dataclass
from itertools import repeat
from typing import Self

from pylog.coordinator.effects import LogRecord
from pylog.coordinator.transaction.records import record_of
from pylog.coordinator.transaction.rules import TransactionUpdate
from pylog.coordinator.transaction.state import Transaction
from pylog.errors import (
    CoordinatorNotAvailable,
    KafkaStorage,
    NotCoordinator,
    NotLeaderOrFollower,
    PylogError,
    RecordBatchTooLarge,
    RecordTooLarge,
    UnknownServer,
)
from pylog.protocol.messages import NO_EPOCH
from pylog.protocol.messages.transactions import EndTxnResponse, InitProducerIdResponse, PartitionsAdded


@dataclass(frozen=True, slots=True)
class Change:
    """A step on its way to the log: records, and the state that the last of them says; None forgets the id."""

    transactional_id: str
    records: tuple[LogRecord, ...]
    after: Transaction | None
    last_epoch: int | None = None
    settles: bool = False
    """True where it aborts what was sighted in partitions."""

    @classmethod
    def of(cls, name: str, step: TransactionUpdate, *, settles: bool = False) -> Self:
        """A step of `rules` as a change."""
        return cls(name, tuple(map(record_of, repeat(name), step.states)), step.states[-1], step.last_epoch, settles)

    @property
    def decided(self) -> Transaction | None:
        """The state that the markers are made of, where this step decides how a transaction ends."""
        return self.after if self.after is not None and self.after.state.is_prepared else None

    @property
    def size(self) -> int:
        """Its bytes, about."""
        return sum(len(record.key) + len(record.value or b"") for record in self.records)


def ended(decided: Transaction) -> EndTxnResponse:
    """The answer to an EndTxn that has ended a transaction."""
    producer_id, producer_epoch = decided.next_producer
    return EndTxnResponse(producer_id=producer_id, producer_epoch=producer_epoch)


def refusal(message: object, error: PylogError) -> object:
    """The answer of the same kind, with an error."""
    if isinstance(message, PartitionsAdded):
        for topic in message.topic_results:
            for part in topic.results_by_partition:
                part.error = error
        return message
    if isinstance(message, InitProducerIdResponse):
        return InitProducerIdResponse(error=error, producer_epoch=NO_EPOCH)
    return EndTxnResponse(error=error)


def unavailable(error: PylogError) -> PylogError:
    """The error for a client, from a failure of the coordinator's own (Kafka: appendTransactionToLog)."""
    text = f"the transaction's state could not be written: {error}"
    if isinstance(error, NotLeaderOrFollower | KafkaStorage):
        return NotCoordinator(text)
    if isinstance(error, RecordTooLarge | RecordBatchTooLarge):
        return UnknownServer(f"{text}: let fewer partitions join one transaction")
    return CoordinatorNotAvailable(text)
