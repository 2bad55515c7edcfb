"""Markers: how a decided transaction ends in its partitions, and what has to be durable before and behind that.

    EndTxn   the records of the transaction are made durable (`records_durable`), and followers have them
             the decision is appended, and made durable                                  coordinator_host
             markers are appended, and shown at once (`write`)
    later    the markers are made durable: by any sync of their partition, or a second later (`made_durable`)

A marker of a durable decision is shown before it is durable itself: after a crash it is written again, before anything
else is appended. The next record of the transactional id waits until it is durable. A marker that aborts is shown when
it is durable. In a partition with followers every marker is made safe first. (Kafka: TransactionMarkerChannelManager.)
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol, cast

from pylog.broker.produce import ProduceHandler
from pylog.broker.replica_manager import ReplicaManager
from pylog.coordinator.effects import Coordinator, Effect, MarkerErrors, Now, WriteMarkers
from pylog.errors import InvalidProducerEpoch, KafkaStorage, PylogError
from pylog.partition import Appended, Partition
from pylog.protocol.batch import Origin, encode_marker
from pylog.protocol.messages import ANY_TRANSACTION_VERSION, GROUPS_TOPIC, ProducedPart, TxnMarkers
from pylog.record import TopicPartition
from pylog.replica import Leader
from pylog.runtime.clock import Clock
from pylog.runtime.future import Future, gathered
from pylog.storage.producer_state import ProducerEntry

if TYPE_CHECKING:
    from pylog.coordinator.transaction import TransactionCoordinator

EPOCH_RAISED = 2
"""From this transaction version on, markers bear the epoch after that of the transaction."""


class MarkersHost(Protocol):
    """The coordinator that has decided."""

    machine: Coordinator

    def epoch(self) -> int:
        """The epoch in which it writes."""

    def hear(self, event: Callable[[Now], list[Effect]]) -> None:
        """Let the machine have an event."""


class TransactionMarkers:
    """Writes markers into the partitions of one node. Thread-safe.

    `append_to_group` appends a marker to a partition of `__consumer_offsets`; `note_due` is told of a coordinator that
    may have something to do.
    """

    def __init__(
        self, replica_manager: ReplicaManager, produce: ProduceHandler, clock: Clock, *,
        append_to_group: Callable[[TopicPartition, TxnMarkers], Appended], note_due: Callable[[MarkersHost], None],
    ) -> None:  # fmt: skip
        self._roles = replica_manager.roles
        self._produce = produce
        self._clock = clock
        self._append_to_group = append_to_group
        self._note_due = note_due

    # --- before the decision -----------------------------------------------------------------------------------------

    def records_durable(self, producer_id: int, partitions: Iterable[TopicPartition]) -> PylogError | None:
        """Make durable what a producer has in these partitions; gives the error that kept it from that. A partition
        that is not there any more has nothing to lose.
        """
        for key in partitions:
            role = self._roles.held(*key)
            if not isinstance(role, Leader):
                continue
            error = self._made_durable(role, _end_of(role.partition, producer_id))
            if error is not None:
                return error
        return None

    def records_replicated(self, producer_id: int, partitions: Iterable[TopicPartition]) -> list[Future[ProducedPart]]:
        """Futures to wait for until the followers that count have the records of a producer in these partitions.

        Each append has waited for the followers that counted then; some may count since.
        """
        waiting = []
        for key in partitions:
            role = self._roles.held(*key)
            if not isinstance(role, Leader) or not role.has_followers:
                continue
            end = _end_of(role.partition, producer_id)
            if role.partition.high_watermark < end:
                waiting.append(self._produce.guarantees.make_safe(role, end, end))
        return waiting

    def made_durable(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Make these partitions durable up to these offsets; gives how far they are. One that is gone is done with."""
        durable: dict[TopicPartition, int] = {}
        for key, end in ends.items():
            role = self._roles.held(*key)
            if role is not None and (not isinstance(role, Leader) or self._made_durable(role, end) is not None):
                durable[key] = role.partition.durable_offset
            else:
                durable[key] = end
        return durable

    def _made_durable(self, leader: Leader, end: int) -> PylogError | None:
        return None if leader.partition.durable_offset >= end else self._produce.guarantees.make_durable(leader, end)

    # --- behind the decision -----------------------------------------------------------------------------------------

    def write(self, host: MarkersHost, effect: WriteMarkers, undecided: PylogError | None) -> None:
        """End a transaction in its partitions, unless the decision is not safe (`undecided` says why); `host` hears how
        it went.
        """
        markers = effect.markers
        errors: dict[TopicPartition, PylogError | None] = {}
        ends: dict[TopicPartition, int] = {}
        waiting: dict[TopicPartition, Future[ProducedPart]] = {}
        try:
            if undecided is not None:
                raise KafkaStorage(f"the decision is not durable: {undecided}")
            markers = markers._replace(coordinator_epoch=host.epoch())
        except PylogError as error:
            errors = dict.fromkeys(markers.partitions, error.with_traceback(None))
        else:
            for key in markers.partitions:
                self._write_one(key, markers, errors, ends, waiting)
        if not waiting:
            self._tell(host, effect, errors, ends)
            return
        _with_errors(errors, waiting).add_done_callback(lambda done: self._tell(host, effect, done.result(), ends))

    def _write_one(
        self, key: TopicPartition, markers: TxnMarkers, errors: dict[TopicPartition, PylogError | None],
        ends: dict[TopicPartition, int], waiting: dict[TopicPartition, Future[ProducedPart]],
    ) -> None:  # fmt: skip
        """End a transaction in one partition: note an error, or where the marker ends, or the answer that comes."""
        try:
            leader, appended = self._append(key, markers)
        except InvalidProducerEpoch as error:
            # Its marker, or a later one, is there already, and may not be durable.
            errors[key] = error.with_traceback(None)
            role = self._roles.held(*key)
            if role is not None:
                ends[key] = role.partition.next_offset
            return
        except PylogError as error:
            errors[key] = error.with_traceback(None)
            return
        if leader.has_followers:
            waiting[key] = self._produce.guarantees.make_safe(leader, appended.base_offset, appended.next_offset)
            return
        errors[key] = self._produce.guarantees.show_marker(leader, appended, committed=markers.committed)
        if errors[key] is None:
            ends[key] = appended.next_offset

    def _tell(
        self, host: MarkersHost, effect: WriteMarkers, errors: MarkerErrors, ends: Mapping[TopicPartition, int]
    ) -> None:
        machine = cast("TransactionCoordinator", host.machine)
        name, epoch = effect.transactional_id, effect.markers.producer_epoch
        unsafe = ends if self._produce.guarantees.syncs else {}
        host.hear(lambda now: machine.markers_written(name, epoch, errors, now, unsafe))
        self._note_due(host)

    def write_safely(self, markers: TxnMarkers) -> Future[MarkerErrors]:
        """End a transaction in its partitions, for a coordinator elsewhere or for none; gives the error of each when
        its marker is as safe as an acknowledged append.
        """
        errors: dict[TopicPartition, PylogError | None] = {}
        safe = {}
        for key in markers.partitions:
            try:
                leader, appended = self._append(key, markers)
                safe[key] = self._produce.guarantees.make_safe(leader, appended.base_offset, appended.next_offset)
            except PylogError as error:
                errors[key] = error.with_traceback(None)
        return _with_errors(errors, safe)

    def _append(self, key: TopicPartition, markers: TxnMarkers) -> tuple[Leader, Appended]:
        leader = self._roles.writer(*key)
        entry = leader.partition.producers.entries().get(markers.producer_id)
        if markers.committed and entry is not None and is_older(entry, markers):
            self._append_one(leader, key, abort_of(markers.producer_id, entry, key))
        return leader, self._append_one(leader, key, markers)

    def _append_one(self, leader: Leader, key: TopicPartition, markers: TxnMarkers) -> Appended:
        if key.topic == GROUPS_TOPIC:
            # The offsets of the transaction count from now on, or never did.
            return self._append_to_group(key, markers)
        return append_marker(self._produce, leader, markers, self._clock)


def _end_of(partition: Partition, producer_id: int) -> int:
    """The offset behind the last batch of a producer in a partition; 0 where it has none."""
    entry = partition.producers.entries().get(producer_id)
    return entry.batches[-1].last_offset + 1 if entry is not None and entry.batches else 0


def _with_errors(
    errors: dict[TopicPartition, PylogError | None], waiting: Mapping[TopicPartition, Future[ProducedPart]]
) -> Future[MarkerErrors]:
    """These errors, and those of what waits, when all of it is answered."""
    return gathered(
        [*waiting.values()],
        lambda parts: errors | {key: part.error for key, part in zip(waiting, parts, strict=True)},
    )


def append_marker(produce: ProduceHandler, leader: Leader, markers: TxnMarkers, clock: Clock) -> Appended:
    """Append the marker of a transaction to one partition. Raises what the append does."""
    now_ms = clock.wall_ms()
    batch = encode_marker(
        markers.producer_id, markers.producer_epoch, is_abort=not markers.committed,
        coordinator_epoch=markers.coordinator_epoch, now_ms=now_ms,
    )  # fmt: skip
    return produce.append(
        leader, batch, now_ms, origin=Origin.COORDINATOR, transaction_version=markers.transaction_version
    )


def abort_of(producer_id: int, entry: ProducerEntry, key: TopicPartition) -> TxnMarkers:
    """The markers that abort the open transaction of a producer in a partition, whether a coordinator has it or not."""
    return TxnMarkers(producer_id, entry.epoch, False, max(entry.coordinator_epoch, 0), (key,), ANY_TRANSACTION_VERSION)


def is_older(entry: ProducerEntry, markers: TxnMarkers) -> bool:
    """True if a producer has another transaction open than the one that these markers end, whose epoch is the one
    before theirs: its own marker is gone, as after a power cut.
    """
    is_open = entry.current_txn_first_offset is not None
    return is_open and markers.transaction_version >= EPOCH_RAISED and entry.epoch < markers.producer_epoch - 1
