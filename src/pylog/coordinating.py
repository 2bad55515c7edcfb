"""The coordinators of a node: which of them a message is for, and what they want of the rest of the node.

    groups         one `GroupCoordinator` for each partition of `__consumer_offsets`, by the hash of the group id
    transactions   one `TransactionCoordinator` for each of `__transaction_state`, by that of the transactional id

A coordinator is made of its partition's log at its first use; the topics are made at theirs. Transactions that an
earlier owner has left open are seen to in the background after the open.

A partition joins a transaction by being written to: before the first append, its coordinator writes that down
(`enroll`), while the partition holds a guard that ends with the transaction (KIP-890).
"""

import logging
import os
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pylog.answers import unknown_partition
from pylog.batch import Batch
from pylog.clock import Clock
from pylog.config import NodeConfig
from pylog.effects import Coordinator, TopicInfo, WriteMarkers
from pylog.errors import (
    InvalidTxnState,
    KafkaStorage,
    NotCoordinator,
    NotLeaderOrFollower,
    OperationNotAttempted,
    PylogError,
    TopicAlreadyExists,
)
from pylog.future import Future, completed, failed
from pylog.group import GroupCoordinator
from pylog.message import (
    ActiveProducer,
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    DeleteGroups,
    DescribedGroups,
    DescribedProducers,
    DescribedTransactions,
    DescribeGroups,
    DescribeProducers,
    DescribeTransactions,
    EndTxn,
    GroupsDeleted,
    InitProducerId,
    ListedGroups,
    ListedTransactions,
    ListGroups,
    ListTransactions,
    NewTopic,
    OffsetCommit,
    OffsetsAdded,
    OffsetsCommitted,
    PartitionsAdded,
    ProducerIdGiven,
    Session,
    TxnMarkers,
    TxnMarkersWritten,
    TxnOffsetCommit,
    WriteTxnMarkers,
)
from pylog.node import Node
from pylog.partitioner import partition_for
from pylog.producing import Producing
from pylog.record import TopicPartition
from pylog.replica import Leader
from pylog.sequence import Verification
from pylog.shard import Shard, append_marker
from pylog.transaction import TransactionCoordinator

logger = logging.getLogger("pylog")

GROUPS = "__consumer_offsets"
TRANSACTIONS = "__transaction_state"
ANSWER_SECONDS_MAX = 60.0
PROCESS = "process "


class Coordinating:
    """Answers what is said to coordinators, for one node. Thread-safe. `wake` is called when `due_ms` may have become
    earlier.
    """

    def __init__(
        self, node: Node, producing: Producing, config: NodeConfig, clock: Clock, wake: Callable[[], None]
    ) -> None:  # fmt: skip
        self._node = node
        self._producing = producing
        self._config = config
        self._clock = clock
        self._wake = wake
        self._host = f"{PROCESS}{os.getpid()} {uuid.uuid4().hex[:8]}"
        self._topics = _Topics(node)
        self._shards: dict[TopicPartition, Shard] = {}
        # One that takes over may have markers to write at once, in this thread.
        self._loading = threading.RLock()
        self._producer_ids: range = range(0)
        self._giving_ids = threading.Lock()
        self._is_unsettled = TRANSACTIONS in node.image.topics
        self._routes: dict[type, Callable[[Any, Session], Future[Any]]] = {
            OffsetCommit: self._commit_offsets,
            TxnOffsetCommit: self._commit_offsets,
            ListGroups: self._list_groups,
            DescribeGroups: self._describe_groups,
            DeleteGroups: self._delete_groups,
            InitProducerId: self._init_producer_id,
            AddPartitionsToTxn: self._add_partitions,
            EndTxn: self._to_transaction,
            AddOffsetsToTxn: self._add_offsets,
            WriteTxnMarkers: self._write_txn_markers,
            ListTransactions: self._list_transactions,
            DescribeTransactions: self._describe_transactions,
            DescribeProducers: self._describe_producers,
        }

    def handle(self, message: Any, session: Session) -> Future[Any]:
        """Answer a message. A coordinator that there is not is a failed future."""
        if not session.host:
            session = Session(session.client_id, self._host)
        try:
            return self._routes.get(type(message), self._to_group)(message, session)
        except PylogError as error:
            return failed(error)

    # --- the coordinators --------------------------------------------------------------------------------------------

    def _shard(self, topic: str, number: int) -> Shard:
        key = TopicPartition(topic, number)
        shard = self._shards.get(key)
        if shard is not None and self._node.held(topic, number) is shard.leader:
            return shard
        with self._loading:
            shard = self._shards.get(key)
            if shard is not None and self._node.held(topic, number) is shard.leader:
                return shard
            if shard is not None:
                shard.abandon(NotCoordinator(f"node {self._node.id} has begun anew with {topic}-{number}: try again"))
            try:
                leader = self._node.leader(topic, number)
            except NotLeaderOrFollower as error:
                raise NotCoordinator(str(error)) from error
            shard = self._shards[key] = Shard(
                leader, self._machine(key), self._clock, self._producing, self._write_markers, lambda: self._epoch(key)
            )
        self._note_due(shard)
        return shard

    def _machine(self, key: TopicPartition) -> Coordinator:
        if key.topic == GROUPS:
            return GroupCoordinator(key.partition, self._config, self._topics, is_lost=self._is_lost)
        return TransactionCoordinator(
            key.partition, self._config, new_producer_id=self._new_producer_id, epoch=lambda: self._epoch(key)
        )

    def _epoch(self, key: TopicPartition) -> int:
        """The leader epoch of a coordinator's partition: taken when it first writes, as any leader's."""
        epoch = self._node.writer(*key).epoch
        assert epoch is not None, "a writer has an epoch"
        return epoch

    def _is_lost(self, host: str) -> bool:
        """Whether a member lived in a process that owned this log before: it is gone with it."""
        return host.startswith(PROCESS) and host != self._host

    def _partitions(self, topic: str) -> int:
        """How many partitions an internal topic has; it is made where it is not there."""
        image = self._node.image.topics.get(topic)
        if image is None:
            config = self._config
            made = {
                GROUPS: (config.offsets_topic_num_partitions, config.offsets_topic_segment_bytes),
                TRANSACTIONS: (
                    config.transaction_state_log_num_partitions,
                    config.transaction_state_log_segment_bytes,
                ),
            }
            partitions, segment_bytes = made[topic]
            configs = {"cleanup.policy": "compact", "segment.bytes": str(segment_bytes)}
            with suppress(TopicAlreadyExists):
                self._node.create_topic(NewTopic(topic, partitions, configs))
            image = self._node.image.topics[topic]
        return len(image.partitions)

    def _of(self, topic: str, key: str) -> Shard:
        return self._shard(topic, partition_for(key, self._partitions(topic)))

    def _kept(self, topic: str) -> list[Shard]:
        """Every coordinator that has ever written anything here."""
        if topic not in self._node.image.topics:
            return []
        kept = []
        for number in sorted(self._node.image.topics[topic].partitions):
            key = TopicPartition(topic, number)
            if self._node.directories.has_folder(self._node.home(key), key):
                kept.append(self._shard(topic, number))
        return kept

    def forget(self, key: TopicPartition) -> None:
        """This node has another role for a partition now."""
        with self._loading:
            shard = self._shards.pop(key, None)
        if shard is not None:
            shard.abandon(NotCoordinator(f"node {self._node.id} does not lead {key.topic}-{key.partition} any more"))

    def close(self, error: PylogError) -> None:
        """Answer whoever waits with `error`."""
        for shard in list(self._shards.values()):
            shard.abandon(error)

    # --- time --------------------------------------------------------------------------------------------------------

    @property
    def due_ms(self) -> int | None:
        """When `tick` has something to do."""
        if self._is_unsettled:
            return self._clock.tick_ms()
        return min((shard.due_ms for shard in list(self._shards.values()) if shard.due_ms is not None), default=None)

    def tick(self, now_ms: int) -> None:
        """Do what is due."""
        if self._is_unsettled:
            self._is_unsettled = False
            try:
                self._kept(TRANSACTIONS)
            except PylogError as error:
                logger.error("transactions that were left open cannot be ended: %s", error)
        for shard in list(self._shards.values()):
            if shard.due_ms is not None and shard.due_ms <= now_ms:
                shard.tick()

    def _handled(
        self, shard: Shard, message: object, session: Session, guard: Verification | None = None
    ) -> Future[Any]:
        answer = shard.handle(message, session, guard)
        self._note_due(shard)
        return answer

    def _note_due(self, shard: Shard) -> None:
        if shard.due_ms is not None:
            self._wake()

    # --- groups ------------------------------------------------------------------------------------------------------

    def _to_group(self, message: Any, session: Session) -> Future[Any]:
        return self._handled(self._of(GROUPS, message.group_id), message, session)

    def _commit_offsets(self, message: OffsetCommit | TxnOffsetCommit, session: Session) -> Future[OffsetsCommitted]:
        """Commit where there is something to commit for (Kafka: KafkaApis.handleOffsetCommitRequest)."""
        errors = self._missing(TopicPartition(part.topic, part.partition) for part in message.parts)
        kept = [part for part in message.parts if (part.topic, part.partition) not in errors]
        if not kept:
            return completed(OffsetsCommitted(dict(errors)))
        shard, guard = self._of(GROUPS, message.group_id), None
        if isinstance(message, TxnOffsetCommit):
            guard = self._enroll(
                shard.leader, message.transactional_id, message.producer_id, message.producer_epoch, sequence=-1
            )
        answer = self._handled(shard, replace(message, parts=kept), session, guard)
        return _all([answer], lambda parts: OffsetsCommitted({**errors, **parts[0].errors}, parts[0].error))

    def _missing(self, keys: Iterable[TopicPartition]) -> dict[TopicPartition, PylogError]:
        missing: dict[TopicPartition, PylogError] = {}
        for key in keys:
            topic = self._node.image.topics.get(key.topic)
            if topic is None or key.partition not in topic.partitions:
                missing[key] = unknown_partition(topic, key)
        return missing

    def _list_groups(self, message: ListGroups, session: Session) -> Future[ListedGroups]:
        answers = [self._handled(shard, message, session) for shard in self._kept(GROUPS)]
        return _all(answers, lambda parts: ListedGroups([group for part in parts for group in part.groups]))

    def _describe_groups(self, message: DescribeGroups, session: Session) -> Future[DescribedGroups]:
        answers = [self._handled(self._of(GROUPS, one), DescribeGroups([one]), session) for one in message.group_ids]
        return _all(answers, lambda parts: DescribedGroups([group for part in parts for group in part.groups]))

    def _delete_groups(self, message: DeleteGroups, session: Session) -> Future[GroupsDeleted]:
        answers = [self._handled(self._of(GROUPS, one), DeleteGroups([one]), session) for one in message.group_ids]
        return _all(answers, lambda parts: GroupsDeleted([error for part in parts for error in part.errors]))

    # --- transactions ------------------------------------------------------------------------------------------------

    def _init_producer_id(self, message: InitProducerId, session: Session) -> Future[ProducerIdGiven]:
        if message.transactional_id is not None:
            return self._to_transaction(message, session)
        return completed(ProducerIdGiven(None, self._new_producer_id(), 0))

    def _new_producer_id(self) -> int:
        with self._giving_ids:
            if not self._producer_ids:
                self._producer_ids = self._node.allocate_producer_ids()
            first = self._producer_ids[0]
            self._producer_ids = self._producer_ids[1:]
            return first

    def _to_transaction(self, message: Any, session: Session) -> Future[Any]:
        return self._handled(self._of(TRANSACTIONS, message.transactional_id), message, session)

    def _add_partitions(self, message: AddPartitionsToTxn, session: Session) -> Future[PartitionsAdded]:
        errors = self._missing(message.partitions)
        if not errors:
            return self._to_transaction(message, session)
        untried = OperationNotAttempted("not added: another partition of the same request is not there")
        return completed(PartitionsAdded({key: errors.get(key, untried) for key in message.partitions}))

    def _add_offsets(self, message: AddOffsetsToTxn, session: Session) -> Future[OffsetsAdded]:
        key = TopicPartition(GROUPS, partition_for(message.group_id, self._partitions(GROUPS)))
        added = self._to_transaction(
            AddPartitionsToTxn(message.transactional_id, message.producer_id, message.producer_epoch, [key]), session
        )
        return _all([added], lambda parts: OffsetsAdded(parts[0].errors[key]))

    def enroll(self, leader: Leader, batch: Batch, transactional_id: str | None) -> Verification | None:
        """Let a partition join a transaction before a batch of it is appended; gives the guard for that append.

        Raises InvalidTxnState, InvalidProducerEpoch, ProducerFenced, and what else the coordinator answers.
        """
        return self._enroll(
            leader, transactional_id, batch.producer_id, batch.producer_epoch, sequence=batch.base_sequence
        )

    def _enroll(
        self, leader: Leader, transactional_id: str | None, producer_id: int, producer_epoch: int, *, sequence: int
    ) -> Verification | None:
        partition = leader.partition
        guard = partition.start_verification(producer_id, sequence, producer_epoch, supports_epoch_bump=sequence >= 0)
        if guard is None:
            return None
        key = TopicPartition(partition.topic, partition.number)
        if transactional_id is None:
            if not self._config.transaction_partition_verification_enable:
                return None
            raise InvalidTxnState(
                f"producer {producer_id} has no transaction open in {key.topic}-{key.partition}, and does not say "
                "which transactional id it has"
            )
        message = AddPartitionsToTxn(transactional_id, producer_id, producer_epoch, [key])
        answer: PartitionsAdded = self._to_transaction(message, Session("", self._host)).result(ANSWER_SECONDS_MAX)
        error = answer.errors[key]
        if error is not None:
            raise error
        return guard

    def _write_markers(self, shard: Shard, effect: WriteMarkers, unsafe: BaseException | None) -> None:
        """End a transaction in its partitions, unless what decides that is not safe (`unsafe` says why); its
        coordinator hears how it went.
        """
        machine, markers = shard.machine, effect.markers
        assert isinstance(machine, TransactionCoordinator), "nobody else ends transactions"

        def hear(errors: Mapping[TopicPartition, PylogError | None]) -> None:
            name, epoch = effect.transactional_id, markers.producer_epoch
            shard.hear(lambda now: machine.markers_written(name, epoch, errors, now))

        if unsafe is not None:
            error = KafkaStorage(f"the decision is not durable: {unsafe}")
            hear(dict.fromkeys(markers.partitions, error))
        else:
            self._markers_written(markers).add_done_callback(lambda done: hear(done.result()))

    def _markers_written(self, markers: TxnMarkers) -> Future[Mapping[TopicPartition, PylogError | None]]:
        errors: dict[TopicPartition, PylogError | None] = {}
        safe = []
        for key in markers.partitions:
            try:
                leader, base_offset, next_offset = self._write_marker(key, markers)
                safe.append(self._producing.make_safe(leader, base_offset, next_offset))
            except PylogError as error:
                errors[key] = error

        def gathered(parts: list[Any]) -> Mapping[TopicPartition, PylogError | None]:
            found = {TopicPartition(part.topic, part.partition): part.error for all_ in parts for part in all_.parts}
            return errors | found

        return _all(safe, gathered)

    def _write_marker(self, key: TopicPartition, markers: TxnMarkers) -> tuple[Leader, int, int]:
        with self._loading:
            shard = self._shards.get(key)
            if shard is None:
                leader = self._node.writer(*key)
                appended = append_marker(leader, markers, self._clock.wall_ms())
                return leader, appended.base_offset, appended.next_offset
        appended = shard.append_marker(markers)
        return shard.leader, appended.base_offset, appended.next_offset

    def _write_txn_markers(self, message: WriteTxnMarkers, session: Session) -> Future[TxnMarkersWritten]:
        return _all(
            [self._markers_written(markers) for markers in message.markers],
            lambda parts: TxnMarkersWritten([dict(part) for part in parts]),
        )

    def _list_transactions(self, message: ListTransactions, session: Session) -> Future[ListedTransactions]:
        answers = [self._handled(shard, message, session) for shard in self._kept(TRANSACTIONS)]

        def listed(parts: list[ListedTransactions]) -> ListedTransactions:
            errors = [part.error for part in parts if part.error is not None]
            return ListedTransactions([one for part in parts for one in part.transactions], *errors[:1])

        return _all(answers, listed)

    def _describe_transactions(self, message: DescribeTransactions, session: Session) -> Future[DescribedTransactions]:
        answers = [
            self._handled(self._of(TRANSACTIONS, one), DescribeTransactions([one]), session)
            for one in message.transactional_ids
        ]
        return _all(answers, lambda parts: DescribedTransactions([one for part in parts for one in part.transactions]))

    def _describe_producers(self, message: DescribeProducers, session: Session) -> Future[DescribedProducers]:
        found: dict[TopicPartition, list[ActiveProducer] | PylogError] = {}
        for key in message.partitions:
            try:
                entries = self._node.leader(*key).partition.producers.entries()
            except PylogError as error:
                found[key] = error
                continue
            found[key] = [
                ActiveProducer(
                    producer_id, entry.epoch, entry.last_sequence, entry.last_timestamp, entry.coordinator_epoch,
                    -1 if entry.current_txn_first_offset is None else entry.current_txn_first_offset,
                )
                for producer_id, entry in sorted(dict(entries).items())
            ]  # fmt: skip
        return completed(DescribedProducers(found))


class _Topics:
    """The topics of a node's catalogue, as coordinators see them."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._seen = -1
        self._named: dict[str, TopicInfo] = {}

    def named(self) -> Mapping[str, TopicInfo]:
        image = self._node.image
        if image.changes != self._seen:
            seen = image.changes
            topics = list(image.topics.values())
            self._named = {topic.name: TopicInfo(topic.id, len(topic.partitions)) for topic in topics}
            self._seen = seen
        return self._named


def _all(futures: Iterable[Future[Any]], combine: Callable[[list[Any]], Any]) -> Future[Any]:
    """What `combine` makes of all the answers, when the last one is there; or the first error."""
    waited = list(futures)
    combined: Future[Any] = Future()
    left = len(waited)
    lock = threading.Lock()

    def one(_: Future[Any]) -> None:
        nonlocal left
        with lock:
            left -= 1
            last = left <= 0
        if not last:
            return
        error = next((done.exception() for done in waited if done.exception() is not None), None)
        if error is not None:
            combined.set_exception(error)
        else:
            combined.set_result(combine([done.result() for done in waited]))

    if not waited:
        return completed(combine([]))
    for future in waited:
        future.add_done_callback(one)
    return combined
