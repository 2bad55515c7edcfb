"""What is said to coordinators: which of them it is for, and what that wants of the rest of the node.

A partition joins a transaction by being written to: before the first append, its coordinator writes that down
(`enroll`), while the partition holds a guard that ends with the transaction (KIP-890). A transaction ends by markers in
its partitions, behind the record that decides it; that it is complete is written when all of them are safe.
"""

import logging
import os
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from pylog.broker.coordinator_host import CoordinatorHost, append_marker
from pylog.broker.coordinators import GROUPS, TRANSACTIONS, Coordinators
from pylog.broker.describe import unknown_partition
from pylog.broker.hanging_transactions import abort_of, is_older, settle
from pylog.broker.produce import ProduceHandler
from pylog.broker.replica_manager import ReplicaManager
from pylog.config import NodeConfig
from pylog.coordinator.effects import WriteMarkers
from pylog.coordinator.group import GroupCoordinator
from pylog.coordinator.transaction import TransactionCoordinator
from pylog.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    KafkaStorage,
    OperationNotAttempted,
    ProducerFenced,
    PylogError,
)
from pylog.partition import Appended
from pylog.protocol.batch import Batch
from pylog.protocol.messages import (
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
    OffsetCommit,
    OffsetDelete,
    OffsetsAdded,
    OffsetsCommitted,
    PartitionsAdded,
    Produced,
    ProducerIdGiven,
    Session,
    TxnMarkers,
    TxnMarkersWritten,
    TxnOffsetCommit,
    WriteTxnMarkers,
)
from pylog.record import TopicPartition
from pylog.replica import Leader
from pylog.runtime.clock import Clock
from pylog.runtime.future import Future, completed, failed, gathered
from pylog.storage.producer_state import Verification

logger = logging.getLogger("pylog")

ANSWER_SECONDS_MAX = 60.0
PROCESS = "process "


class CoordinatorRouter:
    """Answers what is said to coordinators, for one node. Thread-safe. `wake` is told when something is due."""

    def __init__(
        self, node: ReplicaManager, producing: ProduceHandler, config: NodeConfig, clock: Clock,
        wake: Callable[[int], None],
    ) -> None:  # fmt: skip
        self._node = node
        self._producing = producing
        self._config = config
        self._clock = clock
        self._host = f"{PROCESS}{os.getpid()} {uuid.uuid4().hex[:8]}"
        self._shards = Coordinators(
            node, producing, config, clock, is_lost=self._is_lost, write_markers=self._write_markers, wake=wake
        )
        self._routes: dict[type, Callable[[Any, Session], Future[Any]]] = {
            OffsetCommit: self._commit_offsets,
            TxnOffsetCommit: self._commit_offsets,
            OffsetDelete: self._delete_offsets,
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

    def settle(self) -> None:
        """After an unclean stop, end the transactions that hang. What keeps them from being ended is logged."""
        if self._node.has_adopted or not self._node.was_closed:
            try:
                settle(self._node, self._shards, self._markers_written)
            except PylogError as error:
                logger.error("transactions that hang cannot be ended: %s", error)

    def handle(self, message: Any, session: Session) -> Future[Any]:
        """Answer a message. A coordinator that there is not is a failed future."""
        if not session.host:
            session = Session(session.client_id, self._host)
        try:
            return self._routes.get(type(message), self._to_group)(message, session)
        except PylogError as error:
            return failed(error)

    @property
    def due_ms(self) -> int | None:
        """When `tick` has something to do."""
        return self._shards.due_ms

    def tick(self, now_ms: int) -> None:
        """Do what is due."""
        self._shards.tick(now_ms)

    def forget(self, key: TopicPartition) -> None:
        """This node has another role for a partition now."""
        self._shards.forget(key)

    def topic_deleted(self, name: str, topic_id: uuid.UUID) -> None:
        """A topic is gone: groups forget what they have committed for it."""
        for key in self._shards.written(GROUPS):
            try:
                shard = self._shards.at(key)
            except PylogError as error:
                # They are not shown, as there is no such topic, and expire with their group.
                logger.warning("offsets that groups have committed for %r cannot be deleted: %s", name, error)
                continue
            machine = shard.machine
            assert isinstance(machine, GroupCoordinator), "only these keep offsets"
            shard.hear(partial(machine.topic_deleted, name, topic_id))
            self._shards.note_due(shard)

    def close(self, error: PylogError) -> None:
        """Answer whoever waits with `error`."""
        self._shards.close(error)

    def _is_lost(self, host: str) -> bool:
        """Whether a member lived in a process that owned this log before: it is gone with it."""
        return host.startswith(PROCESS) and host != self._host

    def _handled(
        self, shard: CoordinatorHost, message: object, session: Session, guard: Verification | None = None
    ) -> Future[Any]:
        answer = shard.handle(message, session, guard)
        self._shards.note_due(shard)
        return answer

    # --- groups ------------------------------------------------------------------------------------------------------

    def _to_group(self, message: Any, session: Session) -> Future[Any]:
        return self._handled(self._shards.of(GROUPS, message.group_id), message, session)

    def _commit_offsets(self, message: OffsetCommit | TxnOffsetCommit, session: Session) -> Future[OffsetsCommitted]:
        """Commit where there is something to commit for (Kafka: KafkaApis.handleOffsetCommitRequest)."""
        errors = self._missing(TopicPartition(part.topic, part.partition) for part in message.parts)
        kept = [part for part in message.parts if (part.topic, part.partition) not in errors]
        if not kept:
            return completed(OffsetsCommitted(dict(errors)))
        shard, guard = self._shards.of(GROUPS, message.group_id), None
        if isinstance(message, TxnOffsetCommit):
            guard = self._enroll(
                shard.leader, message.transactional_id, message.producer_id, message.producer_epoch, sequence=-1
            )
        answer = self._handled(shard, replace(message, parts=kept), session, guard)
        return gathered([answer], lambda parts: OffsetsCommitted({**errors, **parts[0].errors}, parts[0].error))

    def _delete_offsets(self, message: OffsetDelete, session: Session) -> Future[OffsetsCommitted]:
        errors = self._missing(message.partitions)
        kept = [key for key in message.partitions if key not in errors]
        if not kept:
            return completed(OffsetsCommitted(dict(errors)))
        answer = self._to_group(replace(message, partitions=kept), session)
        return gathered([answer], lambda parts: OffsetsCommitted({**errors, **parts[0].errors}, parts[0].error))

    def _missing(self, keys: Iterable[TopicPartition]) -> dict[TopicPartition, PylogError]:
        missing: dict[TopicPartition, PylogError] = {}
        for key in keys:
            topic = self._node.image.topics.get(key.topic)
            if topic is None or key.partition not in topic.partitions:
                missing[key] = unknown_partition(topic, key)
        return missing

    def _list_groups(self, message: ListGroups, session: Session) -> Future[ListedGroups]:
        answers = [self._handled(shard, message, session) for shard in self._shards.kept(GROUPS)]
        return gathered(answers, lambda parts: ListedGroups([group for part in parts for group in part.groups]))

    def _describe_groups(self, message: DescribeGroups, session: Session) -> Future[DescribedGroups]:
        answers = [
            self._handled(self._shards.of(GROUPS, one), DescribeGroups([one]), session) for one in message.group_ids
        ]
        return gathered(answers, lambda parts: DescribedGroups([group for part in parts for group in part.groups]))

    def _delete_groups(self, message: DeleteGroups, session: Session) -> Future[GroupsDeleted]:
        answers = [
            self._handled(self._shards.of(GROUPS, one), DeleteGroups([one]), session) for one in message.group_ids
        ]
        return gathered(answers, lambda parts: GroupsDeleted([error for part in parts for error in part.errors]))

    # --- transactions ------------------------------------------------------------------------------------------------

    def _init_producer_id(self, message: InitProducerId, session: Session) -> Future[ProducerIdGiven]:
        if message.transactional_id is not None:
            return self._to_transaction(message, session)
        return completed(ProducerIdGiven(None, self._shards.new_producer_id(), 0))

    def _to_transaction(self, message: Any, session: Session) -> Future[Any]:
        return self._handled(self._shards.of(TRANSACTIONS, message.transactional_id), message, session)

    def _add_partitions(self, message: AddPartitionsToTxn, session: Session) -> Future[PartitionsAdded]:
        errors = self._missing(message.partitions)
        if not errors:
            return self._to_transaction(message, session)
        untried = OperationNotAttempted("not added: another partition of the same request is not there")
        return completed(PartitionsAdded({key: errors.get(key, untried) for key in message.partitions}))

    def _add_offsets(self, message: AddOffsetsToTxn, session: Session) -> Future[OffsetsAdded]:
        key = self._shards.partition(GROUPS, message.group_id)
        added = self._to_transaction(
            AddPartitionsToTxn(message.transactional_id, message.producer_id, message.producer_epoch, [key]), session
        )
        return gathered([added], lambda parts: OffsetsAdded(parts[0].errors[key]))

    def enroll(self, leader: Leader, batch: Batch, transactional_id: str | None) -> Verification | None:
        """Let a partition join a transaction before a batch of it is appended; gives the guard for that append.

        Raises InvalidTxnState, InvalidProducerEpoch (another producer took over), and what else the coordinator
        answers.
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
        if isinstance(error, ProducerFenced):
            # Here it is an append that is answered (Kafka: AddPartitionsToTxnManager).
            raise InvalidProducerEpoch(str(error)) from error
        if error is not None:
            raise error
        return guard

    def _write_markers(self, shard: CoordinatorHost, effect: WriteMarkers, unsafe: BaseException | None) -> None:
        """End a transaction in its partitions, unless what decides that is not safe (`unsafe` says why); its
        coordinator hears how it went.
        """
        machine, markers = shard.machine, effect.markers
        assert isinstance(machine, TransactionCoordinator), "nobody else ends transactions"

        def hear(errors: Mapping[TopicPartition, PylogError | None]) -> None:
            name, epoch = effect.transactional_id, markers.producer_epoch
            shard.hear(lambda now: machine.markers_written(name, epoch, errors, now))
            self._shards.note_due(shard)

        try:
            if unsafe is not None:
                raise KafkaStorage(f"the decision is not durable: {unsafe}")
            written = self._markers_written(markers._replace(coordinator_epoch=shard.epoch()))
        except PylogError as error:
            hear(dict.fromkeys(markers.partitions, error))
        else:
            written.add_done_callback(lambda done: hear(done.result()))

    def _markers_written(self, markers: TxnMarkers) -> Future[Mapping[TopicPartition, PylogError | None]]:
        errors: dict[TopicPartition, PylogError | None] = {}
        safe = []
        for key in markers.partitions:
            try:
                leader, appended = self._write_marker(key, markers)
                safe.append(self._producing.make_safe(leader, appended.base_offset, appended.next_offset))
            except PylogError as error:
                errors[key] = error

        def told(produced: list[Produced]) -> Mapping[TopicPartition, PylogError | None]:
            parts = [part for one in produced for part in one.parts]
            return errors | {TopicPartition(part.topic, part.partition): part.error for part in parts}

        return gathered(safe, told)

    def _write_marker(self, key: TopicPartition, markers: TxnMarkers) -> tuple[Leader, Appended]:
        leader = self._node.roles.writer(*key)
        entry = leader.partition.producers.entries().get(markers.producer_id)
        if markers.committed and entry is not None and is_older(entry, markers):
            self._append_marker(leader, key, abort_of(markers.producer_id, entry, key))
        return leader, self._append_marker(leader, key, markers)

    def _append_marker(self, leader: Leader, key: TopicPartition, markers: TxnMarkers) -> Appended:
        if key.topic == GROUPS:
            # The offsets of the transaction count from now on, or never did.
            return self._shards.at(key).append_marker(markers)
        return append_marker(self._producing, leader, markers, self._clock)

    def _write_txn_markers(self, message: WriteTxnMarkers, session: Session) -> Future[TxnMarkersWritten]:
        return gathered(
            [self._markers_written(markers) for markers in message.markers],
            lambda parts: TxnMarkersWritten([dict(part) for part in parts]),
        )

    def _list_transactions(self, message: ListTransactions, session: Session) -> Future[ListedTransactions]:
        answers = [self._handled(shard, message, session) for shard in self._shards.kept(TRANSACTIONS)]

        def listed(parts: list[ListedTransactions]) -> ListedTransactions:
            errors = [part.error for part in parts if part.error is not None]
            return ListedTransactions([one for part in parts for one in part.transactions], *errors[:1])

        return gathered(answers, listed)

    def _describe_transactions(self, message: DescribeTransactions, session: Session) -> Future[DescribedTransactions]:
        answers = [
            self._handled(self._shards.of(TRANSACTIONS, one), DescribeTransactions([one]), session)
            for one in message.transactional_ids
        ]
        return gathered(
            answers, lambda parts: DescribedTransactions([one for part in parts for one in part.transactions])
        )

    def _describe_producers(self, message: DescribeProducers, session: Session) -> Future[DescribedProducers]:
        found: dict[TopicPartition, list[ActiveProducer] | PylogError] = {}
        for key in message.partitions:
            try:
                entries = self._node.roles.leader(*key).partition.producers.entries()
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
