"""Producer ids and transactions. A transaction is known by its transactional id, its producer id and its epoch.

Transactions are of version 2 (KIP-890): every end of one raises the epoch, and a partition joins by being written to.
"""

from dataclasses import field
from typing import NamedTuple

from pylog.errors import InvalidRequest, PylogError
from pylog.protocol.messages.message import message
from pylog.record import TopicPartition


@message
class InitProducerId:
    transactional_id: str | None = None
    """None: a producer id without transactions."""
    transaction_timeout_ms: int = 60_000
    producer_id: int = -1
    """The producer's present id, where it asks for a higher epoch after an error (KIP-360)."""
    producer_epoch: int = -1

    def fault(self) -> InvalidRequest | None:
        """The error of a producer id without an epoch, or an epoch without an id."""
        if (self.producer_id == -1) == (self.producer_epoch == -1):
            return None
        return InvalidRequest("a producer that has a producer id has an epoch, too: give both or none")


@message
class ProducerIdGiven:
    error: PylogError | None = None
    producer_id: int = -1
    producer_epoch: int = -1


@message
class AddPartitionsToTxn:
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: list[TopicPartition]
    verify_only: bool = False


@message
class PartitionsAdded:
    errors: dict[TopicPartition, PylogError | None] = field(default_factory=dict)


@message
class AddOffsetsToTxn:
    """A request to join the partition of `__consumer_offsets` with the group's offsets. Of version 1 alone."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str


@message
class OffsetsAdded:
    error: PylogError | None = None


@message
class EndTxn:
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    transaction_version: int = 2
    """Below 2 the producer keeps its epoch, as clients do that know nothing of KIP-890."""


@message
class TxnEnded:
    error: PylogError | None = None
    producer_id: int = -1
    producer_epoch: int = -1
    """The epoch of the next transaction."""


ANY_TRANSACTION_VERSION = -1
"""A marker that ends a transaction of whatever version."""


class TxnMarkers(NamedTuple):
    """The end of one transaction in its partitions."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    partitions: tuple[TopicPartition, ...]
    transaction_version: int = 2


@message
class WriteTxnMarkers:
    markers: list[TxnMarkers]


@message
class TxnMarkersWritten:
    errors: list[dict[TopicPartition, PylogError | None]]
    """One dict for each of the markers asked."""


@message
class ListTransactions:
    states: list[str] = field(default_factory=list)
    """Empty: all; else those in one of these states (Kafka's names: Ongoing, PrepareCommit...)."""
    producer_ids: list[int] = field(default_factory=list)
    duration_ms: int = -1
    """Only transactions that have run longer."""
    transactional_id_pattern: str | None = None


class ListedTransaction(NamedTuple):
    transactional_id: str
    producer_id: int
    state: str


@message
class ListedTransactions:
    transactions: list[ListedTransaction] = field(default_factory=list)
    error: PylogError | None = None
    """InvalidRegularExpression, where the pattern is invalid."""


@message
class DescribeTransactions:
    transactional_ids: list[str]


@message
class DescribedTransaction:
    transactional_id: str
    error: PylogError | None = None
    state: str = ""
    producer_id: int = -1
    producer_epoch: int = -1
    timeout_ms: int = -1
    start_time_ms: int = -1
    """The time when the open transaction began, -1 where there is no open one."""
    partitions: list[TopicPartition] = field(default_factory=list)


@message
class DescribedTransactions:
    transactions: list[DescribedTransaction]


@message
class DescribeProducers:
    partitions: list[TopicPartition]


class ActiveProducer(NamedTuple):
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int
    """-1: it has no open transaction there."""


@message
class DescribedProducers:
    producers: dict[TopicPartition, list[ActiveProducer] | PylogError]


OfTransaction = InitProducerId | AddPartitionsToTxn | AddOffsetsToTxn | EndTxn
"""The messages that the coordinator of one transactional id answers."""
