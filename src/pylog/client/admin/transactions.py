"""Transactions and producers: what is open, what hangs, and ending it.

A transaction hangs in a partition where it is open without its coordinator knowing of it: it never ends by itself, and
readers of committed records wait for it. (Kafka: kafka-transactions.sh, KIP-664.)
"""

from collections.abc import Iterable
from typing import NamedTuple

from pylog.client.cluster import Cluster, about, checked_words, raise_first, sole
from pylog.errors import UnknownTopicOrPartition
from pylog.protocol.messages import NO_EPOCH
from pylog.protocol.messages.transactions import (
    STATES,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
    WriteTxnMarkersRequest,
)
from pylog.record import TopicPartition, checked_partition

ActiveProducer = DescribeProducersResponse.TopicResponse.PartitionResponse.ProducerState


class ListedTransaction(NamedTuple):
    """A transactional id that is known, and the state of its transaction."""

    transactional_id: str
    producer_id: int
    state: str


class DescribedTransaction(NamedTuple):
    """The transaction of a transactional id."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int
    """The time when the open transaction began, -1 where there is no open one."""
    partitions: list[TopicPartition]


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

        >>> teller = log.producer(transactional_id="teller")
        >>> teller.begin()
        >>> sent = teller.send("orders", b"cup").result()
        >>> [(one.transactional_id, one.state) for one in admin.list_transactions()]
        [('teller', 'Ongoing')]
        """
        wanted = checked_words("states", states, STATES)
        request = ListTransactionsRequest(
            state_filters=wanted, producer_id_filters=list(producer_ids), duration_filter=duration_ms,
            transactional_id_pattern=pattern,
        )  # fmt: skip
        return sorted(
            ListedTransaction(one.transactional_id, one.producer_id, one.transaction_state)
            for one in self._cluster.ask(request).transaction_states
        )

    def describe_transaction(self, transactional_id: str) -> DescribedTransaction:
        """The transaction of a transactional id. Raises TransactionalIdNotFound.

        >>> teller = log.producer(transactional_id="teller")
        >>> teller.begin()
        >>> sent = teller.send("orders", b"cup").result()
        >>> admin.describe_transaction("teller").partitions
        [TopicPartition(topic='orders', partition=0)]
        """
        answer = self._cluster.ask(DescribeTransactionsRequest(transactional_ids=[transactional_id]))
        found = sole(answer.transaction_states, "one transactional id")
        if found.error is not None:
            raise about("transactional id", transactional_id, found.error)
        return DescribedTransaction(
            found.transactional_id, found.transaction_state, found.producer_id, found.producer_epoch,
            found.transaction_timeout_ms, found.transaction_start_time_ms,
            [TopicPartition(one.topic, number) for one in found.topics for number in one.partitions],
        )  # fmt: skip

    def describe_producers(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, list[ActiveProducer]]:
        """The producers that are known in partitions. Raises UnknownTopicOrPartition, NotLeaderOrFollower.

        >>> with log.producer() as producer:
        ...     sent = producer.send("orders", b"cup")
        >>> [producer.last_sequence for producer in admin.describe_producers([orders])[orders]]
        [0]
        """
        return self._producers([checked_partition(key) for key in partitions], may_be_gone=False)

    def _producers(
        self, partitions: list[TopicPartition], *, may_be_gone: bool
    ) -> dict[TopicPartition, list[ActiveProducer]]:
        found: dict[TopicPartition, list[ActiveProducer]] = {}
        for node, keys in self._cluster.by_leader(partitions).items():
            message = DescribeProducersRequest(
                topics=DescribeProducersRequest.by_topic((key, key.partition) for key in keys)
            )
            for key, part in message.found(self._cluster.ask(message, node=node)).items():
                if may_be_gone and isinstance(part.error, UnknownTopicOrPartition):
                    continue
                if part.error is not None:
                    raise part.error
                found[key] = part.active_producers
        return found

    def find_hanging_transactions(
        self, partitions: Iterable[TopicPartition] | None = None, *, older_than_ms: int = 0
    ) -> list[HangingTransaction]:
        """The transactions that are open in partitions (None: all) without a coordinator that will end them.

        `older_than_ms`: only where the last record of it has a timestamp below that. Raises UnknownTopicOrPartition
        (one of `partitions`), NotLeaderOrFollower.

        >>> admin.find_hanging_transactions()
        []
        """
        if partitions is not None:
            described = self.describe_producers(partitions)
        else:
            # Topics may be deleted meanwhile.
            topics = self._cluster.topics()
            keys = [TopicPartition(name, p.partition_index) for name, t in topics.items() for p in t.partitions]
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

        >>> for hanging in admin.find_hanging_transactions([orders]):
        ...     admin.abort_transaction(hanging)
        """
        key = TopicPartition(hanging.topic, hanging.partition)
        marker = WriteTxnMarkersRequest.WritableTxnMarker
        one = marker(
            producer_id=hanging.producer_id, producer_epoch=hanging.producer_epoch, transaction_result=False,
            topics=marker.by_topic([(key, key.partition)]), coordinator_epoch=max(hanging.coordinator_epoch, 0),
        )  # fmt: skip
        message = WriteTxnMarkersRequest(markers=[one])
        raise_first([message.first_error(self._cluster.ask(message, node=self._cluster.leader(key)))])
