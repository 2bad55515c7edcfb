"""The state of one transactional id, and its transitions.

    InitProducerId                        Empty
    a partition joins                     Ongoing
    EndTxn, a timeout, a new producer     PrepareCommit or PrepareAbort: decided, which is the commit point
    every partition has its marker        CompleteCommit or CompleteAbort

A `Transaction` is a value: a transition gives another one, and nothing is changed in place.

Invariants (transaction version 2, KIP-890): an end raises the epoch, so that whatever belongs to the ended transaction
and comes late has an epoch that is too low, and its markers have the raised one. No producer is ever given the highest
epoch: where the raised one is the highest, the end also gives the producer another id, with epoch 0.

Sources: Kafka's TransactionMetadata and TransactionState.
"""

from collections.abc import Iterable
from enum import IntEnum
from itertools import chain
from typing import NamedTuple, Self

from pylog.record import TopicPartition

NO_PRODUCER_ID = -1
NO_TIME = -1
EPOCH_MAX = 2**15 - 1
EPOCH_LAST = EPOCH_MAX - 1
"""The highest epoch that a producer is given."""
CLIENT_VERSION = 2


class TransactionState(IntEnum):
    """The numbers are those of the log. The last two are Kafka's too, but never in a log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """Its name where a user sees it, as Kafka writes it: PrepareCommit."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def is_prepared(self) -> bool:
        """True if it is decided how the transaction ends, and its markers are being written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_open(self) -> bool:
        """True if partitions may lack a marker."""
        return self is TransactionState.ONGOING or self.is_prepared


class Transaction(NamedTuple):
    """The state of one transactional id, as its log has it. The fields are given by name."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    last_update_ms: int
    partitions: tuple[TopicPartition, ...] = ()
    """Those that get a marker."""
    start_ms: int = NO_TIME
    """When the latest transaction began; it stays when that has ended."""
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id of the state before this one."""
    next_producer_id: int = NO_PRODUCER_ID
    """While prepared: what the producer has afterwards, where its epochs are used up."""
    client_version: int = 0
    """The transaction version of its writer: from 2 on, markers have a higher epoch than the records."""

    @classmethod
    def new(cls, producer_id: int, timeout_ms: int, wall_ms: int) -> Self:
        """The state of a transactional id that is new: empty, in epoch 0."""
        return cls(
            producer_id=producer_id,
            producer_epoch=0,
            timeout_ms=timeout_ms,
            state=TransactionState.EMPTY,
            last_update_ms=wall_ms,
            previous_producer_id=producer_id,
        )

    @property
    def is_exhausted(self) -> bool:
        """True if no producer can be given a higher epoch."""
        return self.producer_epoch >= EPOCH_LAST

    def initialised(self, producer_id: int, producer_epoch: int, timeout_ms: int, wall_ms: int) -> Self:
        """For a producer that starts, with these."""
        return self._replace(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            timeout_ms=timeout_ms,
            state=TransactionState.EMPTY,
            partitions=(),
            last_update_ms=wall_ms,
            start_ms=NO_TIME,
            previous_producer_id=self.producer_id,
        )

    def joined(self, partitions: tuple[TopicPartition, ...], wall_ms: int) -> Self:
        """With these partitions, too; this begins a transaction where none is open."""
        return self._replace(
            state=TransactionState.ONGOING,
            partitions=_by_topic(dict.fromkeys(self.partitions + partitions)),
            last_update_ms=wall_ms,
            start_ms=self.start_ms if self.state is TransactionState.ONGOING else wall_ms,
            previous_producer_id=self.producer_id,
            client_version=CLIENT_VERSION,
        )

    def prepared(
        self, *, committed: bool, next_producer_id: int, wall_ms: int, version: int = CLIENT_VERSION
    ) -> Self:  # fmt: skip
        """Decided. Where no transaction is open, one without partitions is ended (Kafka: noPartitionAdded).

        The epoch rises, unless the producer's version is below 2: then it goes on in the same one.
        """
        raised = 1 if version >= CLIENT_VERSION else 0
        return self._replace(
            producer_epoch=min(self.producer_epoch + raised, EPOCH_MAX),
            state=TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT,
            last_update_ms=wall_ms,
            start_ms=self.start_ms if self.state is TransactionState.ONGOING else wall_ms,
            previous_producer_id=self.producer_id,
            next_producer_id=next_producer_id,
            client_version=version,
        )

    @property
    def next_producer(self) -> tuple[int, int]:
        """The producer id and epoch of the next transaction, once this one is decided."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return self.next_producer_id, 0
        return self.producer_id, self.producer_epoch

    def completed(self, wall_ms: int) -> Self:
        """Every partition has its marker."""
        producer_id, producer_epoch = self.next_producer
        return self._replace(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            state=TransactionState.COMPLETE_COMMIT
            if self.state is TransactionState.PREPARE_COMMIT
            else TransactionState.COMPLETE_ABORT,
            partitions=(),
            last_update_ms=wall_ms,
            previous_producer_id=self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
        )


def _by_topic(partitions: Iterable[TopicPartition]) -> tuple[TopicPartition, ...]:
    """The same, in the order that a record of the log has: topic by topic."""
    topics: dict[str, list[TopicPartition]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition)
    return tuple(chain.from_iterable(topics.values()))
