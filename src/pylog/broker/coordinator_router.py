"""The messages of coordinators: which coordinator gets each, and the work around it in the rest of the node.

A partition joins a transaction by being written to. Before the first append its coordinator is told (`enroll`),
while the partition holds a guard that ends with the transaction (KIP-890). A transaction ends by markers in its
partitions, behind the record that decides it; to commit it, its records are made durable first (`transaction_markers`).
"""

import logging
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from pylog.broker.coordinator_host import CoordinatorHost
from pylog.broker.coordinators import GROUPS, SHARE_STATES, TRANSACTIONS, Coordinators
from pylog.broker.describe import unknown_partition
from pylog.broker.hanging_transactions import settle, settle_promoted
from pylog.broker.produce import ProduceHandler
from pylog.broker.replica_manager import ReplicaManager
from pylog.broker.share_lags import with_lags
from pylog.broker.transaction_markers import MarkersHost, TransactionMarkers
from pylog.coordinator.effects import Ask, MarkerErrors
from pylog.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    NotCoordinator,
    OperationNotAttempted,
    ProducerFenced,
    PylogError,
    TransactionAbortable,
)
from pylog.files.processes import has_ended
from pylog.partition import Appended
from pylog.protocol.batch import Batch
from pylog.protocol.messages import Message, OfGroup, ProducedPart, ProduceRequest, Session, TxnMarkers
from pylog.protocol.messages.api import AllNodesRequest, NamesRequest
from pylog.protocol.messages.groups import (
    ConsumerGroupDescribeRequest,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
    group_of,
)
from pylog.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    TxnOffsetCommitRequest,
)
from pylog.protocol.messages.share import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    SharedPartition,
    ShareGroupDescribeRequest,
)
from pylog.protocol.messages.share_state import (
    DeleteShareGroupStateRequest,
    InitializeShareGroupStateRequest,
    ReadShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
    StateRequest,
    WriteShareGroupStateRequest,
    share_partition_name,
)
from pylog.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
    PartitionsAdded,
    PartitionsToAdd,
    ProducersOf,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from pylog.record import TopicPartition
from pylog.replica import Leader
from pylog.runtime.clock import Clock
from pylog.runtime.future import Future, completed, failed, gathered
from pylog.storage.producer_state import Verification
from pylog.transport import PendingAnswer, Route

if TYPE_CHECKING:
    from pylog.coordinator.group import Census, GroupCoordinator
    from pylog.coordinator.share.coordinator import ShareCoordinator
    from pylog.coordinator.transaction import TransactionCoordinator

logger = logging.getLogger("pylog.broker")

R = TypeVar("R")
ANSWER_SECONDS_MAX = 60.0
PROCESS = "process "
LOST_MAX = 1000
"""How many processes that have ended are remembered, as their last messages may come later."""


def _to_add(
    transactional_id: str, producer_id: int, producer_epoch: int, key: TopicPartition, *, verify_only: bool = False
) -> PartitionsToAdd:
    """The message that lets one partition join a transaction."""
    return PartitionsToAdd(
        transactional_id=transactional_id, producer_id=producer_id, producer_epoch=producer_epoch,
        verify_only=verify_only, topics=[AddPartitionsToTxnTopic(name=key.topic, partitions=[key.partition])],
    )  # fmt: skip


def _behind(waiting: list[Future[ProducedPart]], ask: Callable[[], Future[EndTxnResponse]]) -> Future[EndTxnResponse]:
    """Ask when all that is waited for is safe; where it is not, fail with the reason."""
    answer: Future[EndTxnResponse] = Future()

    def told(done: Future[EndTxnResponse]) -> None:
        error = done.exception()
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(done.result())

    def are_safe(done: Future[list[PylogError]]) -> None:
        errors = done.result()
        if errors:
            answer.set_exception(errors[0])
        else:
            ask().add_done_callback(told)

    errors_of = gathered(waiting, lambda every: [part.error for part in every if part.error])
    errors_of.add_done_callback(are_safe)
    return answer


class CoordinatorRouter:
    """Answers the messages of coordinators, for one node. Thread-safe. `wake` is told when something is due."""

    def __init__(
        self, replica_manager: ReplicaManager, produce: ProduceHandler, clock: Clock,
        wake: Callable[[int], object],
    ) -> None:  # fmt: skip
        self._replica_manager = replica_manager
        self._produce = produce
        self._clock = clock
        self._host = f"{PROCESS}{os.getpid()} {uuid.uuid4().hex[:8]}"
        self._lost: dict[str, None] = {}
        """The hosts of members that are gone, the latest last."""
        self._markers = TransactionMarkers(
            replica_manager, produce, clock, append_to_group=self._append_to_group, note_due=self._note_due
        )
        self._coordinators = Coordinators(
            replica_manager, produce, clock, is_lost=self._is_lost, markers=self._markers, wake=wake, ask=self._ask
        )
        self._is_settling = False
        self._routes: dict[type, Route] = {
            OffsetCommitRequest: self._commit_offsets,
            TxnOffsetCommitRequest: self._commit_offsets,
            OffsetFetchRequest: self._fetch_offsets,
            OffsetDeleteRequest: self._delete_offsets,
            ListGroupsRequest: partial(self._by_all, GROUPS),
            DescribeGroupsRequest: partial(self._by_names, GROUPS),
            ConsumerGroupDescribeRequest: partial(self._by_names, GROUPS),
            ShareGroupDescribeRequest: partial(self._by_names, GROUPS),
            DescribeShareGroupOffsetsRequest: self._describe_share_offsets,
            DeleteGroupsRequest: partial(self._by_names, GROUPS),
            InitProducerIdRequest: self._init_producer_id,
            AddPartitionsToTxnRequest: self._add_partitions,
            EndTxnRequest: self._end,
            AddOffsetsToTxnRequest: self._add_offsets,
            WriteTxnMarkersRequest: self._write_txn_markers,
            ListTransactionsRequest: partial(self._by_all, TRANSACTIONS),
            DescribeTransactionsRequest: partial(self._by_names, TRANSACTIONS),
            DescribeProducersRequest: self._describe_producers,
            InitializeShareGroupStateRequest: self._to_share_states,
            ReadShareGroupStateRequest: self._to_share_states,
            WriteShareGroupStateRequest: self._to_share_states,
            DeleteShareGroupStateRequest: self._to_share_states,
            ReadShareGroupStateSummaryRequest: self._to_share_states,
        }

    def settle(self) -> None:
        """End the transactions that hang, after an unclean stop. An error that keeps them from that is logged."""
        if self._replica_manager.has_adopted or not self._replica_manager.was_closed:
            try:
                self._is_settling = settle(self._replica_manager, self._coordinators, self._markers.write_safely)
            except PylogError as error:
                logger.error("transactions that hang cannot be ended: %s", error)
                return
        else:
            self._is_settling = True
        self._note_settled()

    def _note_settled(self) -> None:
        """Note once that no transaction lacks records."""
        hosts = self._coordinators.made(TRANSACTIONS)
        if self._is_settling and all(cast("TransactionCoordinator", host.machine).is_settled for host in hosts):
            self._is_settling = False
            self._replica_manager.note_incarnation()

    def changing_coordinators(self) -> AbstractContextManager[None]:
        """See `Coordinators.changing`."""
        return self._coordinators.changing()

    def settle_promoted(self, promoted: Mapping[TopicPartition, bool]) -> None:
        """End the transactions that another leader of these partitions has left open; True: it has counted this node.

        An error is logged.
        """
        if promoted:
            try:
                settle_promoted(self._replica_manager, self._coordinators, self._markers.write_safely, promoted)
            except PylogError as error:
                logger.error("transactions that hang cannot be ended: %s", error)

    def handle(self, message: Message, session: Session) -> PendingAnswer:
        """Answer a message. Without its coordinator the future fails."""
        if not session.host:
            session = Session(session.client_id, self._host)
        try:
            return self._routes.get(type(message), self._to_group)(message, session)
        except PylogError as error:
            return failed(error)

    def census(self) -> "list[Census]":
        """The counts of the coordinators of groups. A coordinator counts once it was asked since the open."""
        found = []
        for host in self._coordinators.made(GROUPS):
            machine = cast("GroupCoordinator", host.machine)
            with suppress(PylogError):  # it has gone
                found.append(host.ask(machine.census))
        return found

    @property
    def due_ms(self) -> int | None:
        """The time at which `tick` has something to do."""
        return self._coordinators.due_ms

    def tick(self, now_ms: int) -> None:
        """Do what is due."""
        self._coordinators.tick(now_ms)
        if self._is_settling:
            self._note_settled()

    def expire(self, topic: str, after: TopicPartition | None) -> Iterator[TopicPartition]:
        """Let the coordinators of a topic forget what has expired: groups their offsets, or transactional ids.

        Gives each partition that is done with, behind `after`. See `Coordinators.little`.
        """
        for key in self._coordinators.written(topic):
            if after is not None and key <= after:
                continue
            try:
                host = self._coordinators.little(key)
                if host is not None:
                    host.hear_all(host.machine.expire)
                    self._coordinators.note_due(host)
            except NotCoordinator:
                # Its leader does.
                continue
            except PylogError as error:
                logger.error("nothing of %s-%d expires: %s", *key, error, extra=key._asdict())
            yield key

    def forget(self, key: TopicPartition) -> None:
        """Abandon the coordinator of a partition for which this node has another role now."""
        self._coordinators.forget(key)

    def topic_deleted(self, name: str, topic_id: uuid.UUID) -> None:
        """Let groups forget how far they are in a deleted topic."""
        for key in (*self._coordinators.written(GROUPS), *self._coordinators.written(SHARE_STATES)):
            try:
                host = self._coordinators.at(key)
            except PylogError as error:
                # It is not shown, as there is no such topic.
                logger.warning(
                    "%s-%d keeps how far groups are in %r, which was deleted: %s", *key, name, error,
                    extra={"topic": name},
                )  # fmt: skip
                continue
            machine = cast("GroupCoordinator | ShareCoordinator", host.machine)
            host.hear(partial(machine.topic_deleted, name, topic_id))
            self._coordinators.note_due(host)

    def close(self, error: PylogError) -> None:
        """Write down what is ahead of the logs, and fail each message that waits with `error`."""
        self._coordinators.close(error)

    def host_lost(self, name: str) -> None:
        """Let groups lose the members on a host that is gone."""
        self._lost[name] = None
        if len(self._lost) > LOST_MAX:
            del self._lost[next(iter(self._lost))]
        for host in self._coordinators.made(GROUPS):
            self._lose(host, name)

    def _lose(self, host: CoordinatorHost, name: str) -> None:
        machine = cast("GroupCoordinator", host.machine)
        host.hear(partial(machine.host_lost, name))
        self._coordinators.note_due(host)

    def _is_lost(self, host: str) -> bool:
        """True if a member lived in a process that owned this log before, or was attached to it, and is gone."""
        return (host.startswith(PROCESS) and host != self._host) or has_ended(host)

    def _handled(
        self, host: CoordinatorHost, message: object, session: Session, guard: Verification | None = None
    ) -> PendingAnswer:
        answer = host.handle(message, session, guard)
        self._coordinators.note_due(host)
        return answer

    # --- groups ------------------------------------------------------------------------------------------------------

    def _to_group(self, message: OfGroup, session: Session) -> PendingAnswer:
        host = self._coordinators.of(GROUPS, group_of(message))
        answer = self._handled(host, message, session)
        if session.host in self._lost:
            # It was sent before the end of its process.
            self._lose(host, session.host)
        return answer

    def _commit_offsets(self, message: OffsetCommitRequest | TxnOffsetCommitRequest, session: Session) -> PendingAnswer:
        """Commit offsets of partitions that exist (Kafka: KafkaApis.handleOffsetCommitRequest)."""
        keys = message.partitions()
        errors = self._missing(keys)
        if errors.keys() >= {*keys}:
            return completed(message.results(errors))
        kept = message.without(errors)
        try:
            host, guard = self._coordinators.of(GROUPS, message.group_id), None
            if isinstance(message, TxnOffsetCommitRequest):
                guard = self._enroll(host.leader, message, message.producer_id, message.producer_epoch, sequence=-1)
        except PylogError as error:
            if not errors:
                raise
            return completed(message.with_errors(errors, kept.refused(error)))
        answer = self._handled(host, kept, session, guard)
        return gathered([answer], lambda parts: message.with_errors(errors, parts[0])) if errors else answer

    def _fetch_offsets(self, message: OffsetFetchRequest, session: Session) -> Future[OffsetFetchResponse]:
        if len(message.groups) == 1:
            return self._to_group(message, session)
        answers = [self._to_group(replace(message, groups=[one]), session) for one in message.groups]
        return gathered(answers, lambda parts: OffsetFetchResponse(groups=[part.groups[0] for part in parts]))

    def _delete_offsets(self, message: OffsetDeleteRequest, session: Session) -> Future[OffsetDeleteResponse]:
        errors = self._missing(message.partitions())
        answer = self._to_group(message.without(errors), session)
        return gathered([answer], lambda answers: message.with_errors(errors, answers[0]))

    def _missing(self, keys: Iterable[TopicPartition]) -> dict[TopicPartition, PylogError]:
        missing: dict[TopicPartition, PylogError] = {}
        for key in keys:
            topic = self._replica_manager.image.topics.get(key.topic)
            if topic is None or key.partition not in topic.partitions:
                missing[key] = unknown_partition(topic, key)
        return missing

    def _by_all(self, topic: str, message: AllNodesRequest[R], session: Session) -> Future[R]:
        """Ask the coordinators of a topic that are on this node."""
        answers = [self._handled(host, message, session) for host in self._coordinators.kept(topic)]
        return gathered(answers, message.joined)

    def _by_names(self, topic: str, message: NamesRequest[R], session: Session) -> Future[R]:
        """Ask the coordinator of each name. A coordinator that is not here is the error of its names alone."""
        hosts: dict[CoordinatorHost, list[str]] = {}
        answers: list[Future[R]] = []
        for name in dict.fromkeys(message.names):
            try:
                hosts.setdefault(self._coordinators.of(topic, name), []).append(name)
            except PylogError as error:
                answers.append(completed(message.only([name]).refused(error.with_traceback(None))))
        answers += [self._handled(host, message.only(names), session) for host, names in hosts.items()]
        return gathered(answers, message.joined)

    # --- share states ------------------------------------------------------------------------------------------------

    def _to_share_states(self, message: StateRequest[R], session: Session) -> Future[R]:
        """Ask the coordinator of each share partition. One that is not here is the error of its partitions alone."""
        hosts: dict[CoordinatorHost, list[tuple[uuid.UUID, int]]] = {}
        answers: list[Future[R]] = []
        for topic_id, asked in message.keyed():
            try:
                name = share_partition_name(message.group_id, topic_id, asked.partition)
                host = self._coordinators.of(SHARE_STATES, name)
                hosts.setdefault(host, []).append((topic_id, asked.partition))
            except PylogError as error:
                one = message.only([(topic_id, asked.partition)])
                answers.append(completed(one.refused(error.with_traceback(None))))
        if len(hosts) == 1 and not answers:
            return self._handled(host, message, session)
        answers += [self._handled(host, message.only(parts), session) for host, parts in hosts.items()]
        return gathered(answers, message.joined)

    def may_block(self, group_id: str, part: SharedPartition) -> bool:
        """Whether who writes the state of a share partition may have to wait for the disk."""
        name = share_partition_name(group_id, part.topic_id, part.partition)
        host = self._coordinators.ready(SHARE_STATES, name)
        return host is None or host.may_block

    def _describe_share_offsets(
        self, message: DescribeShareGroupOffsetsRequest, session: Session
    ) -> Future[DescribeShareGroupOffsetsResponse]:
        answers = [self._to_group(replace(message, groups=[one]), session) for one in message.groups]
        return gathered(answers, self._with_lags)

    def _with_lags(self, parts: list[DescribeShareGroupOffsetsResponse]) -> DescribeShareGroupOffsetsResponse:
        def end(topic: str, partition: int) -> int:
            return self._replica_manager.roles.leader(topic, partition).partition.state.high_watermark

        return with_lags([group for part in parts for group in part.groups], end)

    def _ask(self, host: CoordinatorHost, ask: Ask, error: PylogError | None) -> None:
        """Ask another coordinator for one, which hears the answer; or the error that kept the question back."""

        def told(done: PendingAnswer) -> None:
            failure = done.exception()
            answer = done.result() if failure is None else failure
            host.hear(lambda now: ask.told(answer, now))
            self._coordinators.note_due(host)

        asked = self.handle(cast(Message, ask.message), Session("", self._host)) if error is None else failed(error)
        asked.add_done_callback(told)

    # --- transactions ------------------------------------------------------------------------------------------------

    def _init_producer_id(self, message: InitProducerIdRequest, session: Session) -> Future[InitProducerIdResponse]:
        if message.transactional_id is not None:
            return self._to_transaction(message, session)
        fault = message.fault()
        if fault is not None:
            return completed(message.refused(fault))
        return completed(InitProducerIdResponse(producer_id=self._coordinators.new_producer_id(), producer_epoch=0))

    def _to_transaction(
        self, message: EndTxnRequest | InitProducerIdRequest | PartitionsToAdd, session: Session
    ) -> PendingAnswer:
        return self._handled(self._coordinators.of(TRANSACTIONS, message.transactional_id or ""), message, session)

    def _end(self, message: EndTxnRequest, session: Session) -> Future[EndTxnResponse]:
        """End a transaction: to commit it, its records are made durable first."""
        host = self._coordinators.of(TRANSACTIONS, message.transactional_id)
        machine = cast("TransactionCoordinator", host.machine)
        if message.committed and self._produce.guarantees.syncs:
            error = self._markers.records_durable(message.producer_id, machine.open_partitions(message))
            if error is not None:
                refused = TransactionAbortable(
                    f"{message.transactional_id}: records of the transaction could not be made durable: abort it "
                    f"({error})"
                )
                refused.__cause__ = error
                return completed(EndTxnResponse(error=refused))
        if self._replica_manager.roles.has_followers:
            waiting = self._markers.records_replicated(message.producer_id, machine.open_partitions(message))
            if waiting:
                return _behind(waiting, lambda: self._handled(host, message, session))
        return self._handled(host, message, session)

    def _add_partitions(
        self, message: AddPartitionsToTxnRequest, session: Session
    ) -> Future[AddPartitionsToTxnResponse]:  # fmt: skip
        added = [self._add(one, session) for one in message.transactions]
        return gathered(added, lambda parts: AddPartitionsToTxnResponse(results_by_transaction=parts))

    def _add(self, message: PartitionsToAdd, session: Session) -> Future[PartitionsAdded]:
        errors = self._missing(message.partitions())
        if not errors:
            return self._to_transaction(message, session)
        untried = OperationNotAttempted("not added: another partition of the same request is not there")
        return completed(message.results({key: errors.get(key, untried) for key in message.partitions()}))

    def _add_offsets(self, message: AddOffsetsToTxnRequest, session: Session) -> Future[AddOffsetsToTxnResponse]:
        key = self._coordinators.partition(GROUPS, message.group_id)
        joins = _to_add(message.transactional_id, message.producer_id, message.producer_epoch, key)
        added = self._to_transaction(joins, session)
        return gathered([added], lambda parts: AddOffsetsToTxnResponse(error=joins.first_error(parts[0])))

    def enroll(self, leader: Leader, batch: Batch, message: ProduceRequest) -> Verification | None:
        """Let a partition join a transaction before a batch of it is appended; gives the guard for that append.

        Raises InvalidTxnState, TransactionAbortable (it has not joined, and does not by this message),
        InvalidProducerEpoch (another producer took over), and what else the coordinator answers.
        """
        return self._enroll(leader, message, batch.producer_id, batch.producer_epoch, sequence=batch.base_sequence)

    def _enroll(
        self, leader: Leader, message: ProduceRequest | TxnOffsetCommitRequest, producer_id: int,
        producer_epoch: int, *, sequence: int,
    ) -> Verification | None:  # fmt: skip
        partition, transactional_id = leader.partition, message.transactional_id
        guard = partition.start_verification(
            producer_id, sequence, producer_epoch, self._clock.wall_ms(), supports_epoch_bump=sequence >= 0
        )
        if guard is None:
            return None
        key = TopicPartition(partition.topic, partition.number)
        if transactional_id is None:
            if not self._replica_manager.configs.current.transaction_partition_verification_enable:
                return None
            raise InvalidTxnState(
                f"producer {producer_id} has no transaction open in {key.topic}-{key.partition}, and does not say "
                "which transactional id it has"
            )
        joins = _to_add(transactional_id, producer_id, producer_epoch, key, verify_only=not message.joins)
        error = self._joined(leader, joins)
        if isinstance(error, ProducerFenced):
            # Here it is an append that is answered (Kafka: AddPartitionsToTxnManager).
            raise InvalidProducerEpoch(str(error)) from error
        if error is not None:
            raise error
        return guard

    def _write_txn_markers(
        self, message: WriteTxnMarkersRequest, session: Session
    ) -> Future[WriteTxnMarkersResponse]:  # fmt: skip
        def response(parts: list[MarkerErrors]) -> WriteTxnMarkersResponse:
            pairs = zip(message.markers, parts, strict=True)
            return WriteTxnMarkersResponse(markers=[one.results(errors) for one, errors in pairs])

        return gathered([self._markers.write_safely(one.markers) for one in message.markers], response)

    def _joined(self, leader: Leader, message: PartitionsToAdd) -> PylogError | None:
        """Let a partition of this node join a transaction; gives the error against that."""
        host = self._coordinators.of(TRANSACTIONS, message.transactional_id)
        machine = cast("TransactionCoordinator", host.machine)
        if message.verify_only or leader.has_followers or host.leader.has_followers:
            # It is not to change; or another node may have to end it.
            answer: PartitionsAdded = self._handled(host, message, Session("", self._host)).result(ANSWER_SECONDS_MAX)
            return message.first_error(answer)
        error = host.ask(lambda now: machine.join(message, now))
        self._coordinators.note_due(host)
        return error

    def _append_to_group(self, key: TopicPartition, markers: TxnMarkers) -> Appended:
        return self._coordinators.at(key).append_marker(markers)

    def _note_due(self, host: MarkersHost) -> None:
        assert isinstance(host, CoordinatorHost), "no other host is here"
        self._coordinators.note_due(host)

    def _describe_producers(
        self, message: DescribeProducersRequest, session: Session
    ) -> Future[DescribeProducersResponse]:  # fmt: skip
        return completed(message.answered(self._producers_of))

    def _producers_of(self, key: TopicPartition, _: int) -> ProducersOf:
        entries = self._replica_manager.roles.leader(*key).partition.producers.entries()
        return ProducersOf(
            partition_index=key.partition,
            active_producers=[
                ProducersOf.ProducerState(
                    producer_id=producer_id, producer_epoch=entry.epoch, last_sequence=entry.last_sequence,
                    last_timestamp=entry.last_timestamp, coordinator_epoch=entry.coordinator_epoch,
                    current_txn_start_offset=(
                        -1 if entry.current_txn_first_offset is None else entry.current_txn_first_offset
                    ),
                )
                for producer_id, entry in sorted(dict(entries).items())
            ],
        )  # fmt: skip
