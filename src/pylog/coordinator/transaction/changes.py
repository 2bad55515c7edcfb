"""What a transaction coordinator has on its way: changes to its log, endings, and what it answers about both."""

from dataclasses import dataclass
from typing import Any

from pylog.coordinator.effects import LogRecord
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
from pylog.protocol.messages import PartitionsAdded, TxnEnded
from pylog.record import TopicPartition


@dataclass(frozen=True, slots=True)
class Change:
    """A step on its way to the log."""

    transactional_id: str
    records: tuple[LogRecord, ...]
    decided: Transaction | None = None
    """What the markers are to say, where it decides how a transaction ends."""
    last_epoch: int | None = None
    settles: bool = False
    """Whether it aborts what was sighted in partitions."""

    @property
    def size(self) -> int:
        """Its bytes, about."""
        return sum(len(record.key) + len(record.value or b"") for record in self.records)


@dataclass(slots=True)
class Ending:
    """A transaction that is decided and not complete."""

    left: set[TopicPartition]
    """The partitions that are not known to have their marker."""
    failures: int = 0
    error: PylogError | None = None
    """What one of them has answered last."""


def ended(after: Transaction) -> TxnEnded:
    """The answer to what has ended a transaction."""
    return TxnEnded(None, after.producer_id, after.producer_epoch)


def refusal(message: Any, error: PylogError) -> Any:
    """The answer of the same kind that says that it was not done."""
    if isinstance(message, PartitionsAdded):
        return PartitionsAdded(dict.fromkeys(message.errors, error))
    return type(message)(error)


def unavailable(error: PylogError) -> PylogError:
    """What a client is told of a failure of the coordinator's own (Kafka: appendTransactionToLog)."""
    text = f"the transaction's state could not be written: {error}"
    if isinstance(error, NotLeaderOrFollower | KafkaStorage):
        return NotCoordinator(text)
    if isinstance(error, RecordTooLarge | RecordBatchTooLarge):
        return UnknownServer(f"{text}: let fewer partitions join one transaction")
    return CoordinatorNotAvailable(text)
