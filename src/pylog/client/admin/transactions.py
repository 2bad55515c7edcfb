"""Transactions and producers: what is open, what hangs, and ending it.

A transaction hangs in a partition where it is open without its coordinator knowing of it: it never ends by itself, and
readers of committed records wait for it. (Kafka: kafka-transactions.sh, KIP-664.)
"""

from collections.abc import Iterable
from typing import NamedTuple

from pylog.client.cluster import Cluster, checked_words
from pylog.errors import PylogError, UnknownTopicOrPartition
from pylog.protocol.messages import (
    ANY_TRANSACTION_VERSION,
    NO_EPOCH,
    ActiveProducer,
    DescribedProducers,
    DescribedTransaction,
    DescribedTransactions,
    DescribeProducers,
    DescribeTransactions,
    ListedTransaction,
    ListedTransactions,
    ListTransactions,
    TxnMarkers,
    TxnMarkersWritten,
    WriteTxnMarkers,
)
from pylog.record import TopicPartition, checked_partition

STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")


class HangingTransaction(NamedTuple):
    """A transaction that no coordinator will end, in one partition."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp: int


class TransactionAdmin:
    """Admin calls about transactions."""

    _cluster: Cluster

    def list_transactions(
        self, *, states: Iterable[str] = (), producer_ids: Iterable[int] = (), duration_ms: int = -1,
        pattern: str | None = None,
    ) -> list[ListedTransaction]:  # fmt: skip
        """The transactional ids that are known, by name: all, or those in one of these states, of one of these producer
        ids, open longer than `duration_ms`, or whose whole id matches a regular expression (`pattern`, KIP-1152).

        Raises ValueError (no transaction is ever in such a state), InvalidRegularExpression.
        """
        wanted = checked_words("states", states, STATES)
        message = ListTransactions(wanted, list(producer_ids), duration_ms, pattern)
        answer: ListedTransactions = self._cluster.ask(message)
        if answer.error is not None:
            raise answer.error
        return sorted(answer.transactions)

    def describe_transaction(self, transactional_id: str) -> DescribedTransaction:
        """The transaction of a transactional id. Raises TransactionalIdNotFound."""
        answer: DescribedTransactions = self._cluster.ask(DescribeTransactions([transactional_id]))
        (found,) = answer.transactions
        if found.error is not None:
            raise found.error
        return found

    def describe_producers(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, list[ActiveProducer]]:
        """The producers that are known in partitions. Raises UnknownTopicOrPartition, NotLeaderOrFollower."""
        return self._producers([checked_partition(key) for key in partitions], may_be_gone=False)

    def _producers(
        self, partitions: list[TopicPartition], *, may_be_gone: bool
    ) -> dict[TopicPartition, list[ActiveProducer]]:
        found: dict[TopicPartition, list[ActiveProducer]] = {}
        for node, keys in self._cluster.by_leader(partitions).items():
            answer: DescribedProducers = self._cluster.ask(DescribeProducers(keys), node=node)
            for key, producers in answer.producers.items():
                if may_be_gone and isinstance(producers, UnknownTopicOrPartition):
                    continue
                if isinstance(producers, PylogError):
                    raise producers
                found[key] = producers
        return found

    def find_hanging_transactions(
        self, partitions: Iterable[TopicPartition] | None = None, *, older_than_ms: int = 0
    ) -> list[HangingTransaction]:
        """The transactions that are open in partitions (None: all) without a coordinator that will end them.

        `older_than_ms`: only where the last record of it has a timestamp below that.
        """
        if partitions is not None:
            described = self.describe_producers(partitions)
        else:
            # Topics may be deleted meanwhile.
            keys = [TopicPartition(t.name, p.partition) for t in self._cluster.topics() for p in t.partitions]
            described = self._producers(keys, may_be_gone=True)
        suspects = [
            (key, one)
            for key, producers in described.items()
            for one in producers
            if one.current_txn_start_offset >= 0 and (not older_than_ms or one.last_timestamp < older_than_ms)
        ]
        known = self._known({one.producer_id for _, one in suspects})
        return [
            HangingTransaction(
                *key, one.producer_id, one.producer_epoch, one.coordinator_epoch, one.current_txn_start_offset,
                one.last_timestamp,
            )
            for key, one in suspects
            if known.get((one.producer_id, key), NO_EPOCH) < one.producer_epoch
        ]  # fmt: skip

    def _known(self, producer_ids: set[int]) -> dict[tuple[int, TopicPartition], int]:
        """The partitions in the open transactions of these producers, as coordinators have them, and the epochs in
        which these end at the latest.
        """
        known: dict[tuple[int, TopicPartition], int] = {}
        if producer_ids:
            for listed in self.list_transactions(producer_ids=producer_ids):
                found = self.describe_transaction(listed.transactional_id)
                known |= {(found.producer_id, key): found.producer_epoch for key in found.partitions}
        return known

    def abort_transaction(self, hanging: HangingTransaction) -> None:
        """End a transaction that hangs, in its partition alone: its records are never read as committed.

        Raises what the partition's leader refuses: InvalidProducerEpoch, TransactionCoordinatorFenced.
        """
        key = TopicPartition(hanging.topic, hanging.partition)
        markers = TxnMarkers(
            hanging.producer_id,
            hanging.producer_epoch,
            False,
            max(hanging.coordinator_epoch, 0),
            (key,),
            ANY_TRANSACTION_VERSION,
        )
        node = self._cluster.leader(key)
        answer: TxnMarkersWritten = self._cluster.ask(WriteTxnMarkers([markers]), node=node)
        error = answer.errors[0].get(key)
        if error is not None:
            raise error
