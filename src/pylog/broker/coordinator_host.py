"""A coordinator at work: the machine, the partition of an internal topic that it lives by, and who waits for it.

    message -> lock: machine.handle -> effects; append each Append, replay it -> unlock
            -> made safe, once for all that was appended -> answers, markers of transactions

One event at a time is let in. What a machine answers may rest on anything that was appended before, so nothing is
answered before the whole log is as safe as it promises. Whoever sent the message does the work, in his own thread.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from pylog.broker.produce import ProduceHandler
from pylog.commitlog.partition_reader import PartitionReader
from pylog.coordinator.effects import Answer, Append, Coordinator, Effect, LogRecord, Now, Stamp, WriteMarkers
from pylog.errors import CorruptBatch, PylogError, UnsupportedFormat
from pylog.partition import Appended
from pylog.protocol.batch import Batch, Origin, encode, encode_marker, split
from pylog.protocol.messages import NO_EPOCH, Produced, Session, TxnMarkers
from pylog.replica import Leader
from pylog.runtime.clock import Clock
from pylog.runtime.future import Future, failed
from pylog.runtime.signals import WholeLock
from pylog.storage.producer_state import Verification

logger = logging.getLogger("pylog")

READ_BYTES = 1 << 20

LAZY_MS = 1000
"""How long what nobody waits for may not be durable."""


class CoordinatorHost:
    """One coordinator and its partition. Thread-safe.

    `produce` makes appends safe, `write_markers` ends transactions in their partitions, `writer` lets the leader
    append, in this epoch or a later one. Raises at construction, which replays the log: CorruptBatch, StorageError.
    """

    def __init__(
        self, leader: Leader, machine: Coordinator, clock: Clock, producing: ProduceHandler,
        write_markers: Callable[["CoordinatorHost", WriteMarkers, BaseException | None], None],
        writer: Callable[[int], Leader],
    ) -> None:  # fmt: skip
        self.leader = leader
        self.machine = machine
        self.due_ms: int | None = None
        """When `tick` has something to do."""
        self._clock = clock
        self._producing = producing
        self._write_markers = write_markers
        self._writer = writer
        self._safe_due: int | None = None
        self._gone: PylogError | None = None
        self._lock = WholeLock(threading.RLock())
        self._tickets = count()
        self._waiting: dict[int, Future[Any]] = {}
        partition = leader.partition
        replay_log(partition, machine, partition.start_offset, partition.next_offset)
        self._step(machine.take_over)

    def handle(self, message: object, session: Session, guard: Verification | None = None) -> Future[Any]:
        """Let the machine have a message; gives its answer. `guard`: for what is appended in a transaction."""
        future: Future[Any] = Future()
        ticket = next(self._tickets)
        self._waiting[ticket] = future
        if not self._step(lambda now: self.machine.handle(message, session, ticket, now), guard):
            self._waiting.pop(ticket, None)
            assert self._gone is not None, "only who is gone lets nothing in"
            return failed(self._gone)
        return future

    def tick(self) -> None:
        """Let the machine do what is due, and make durable what nobody waits for."""
        if self._safe_due is not None and self._safe_due <= self._clock.tick_ms():
            self._safe_due = None
            end = self.leader.partition.next_offset
            # Where the disk refuses, the partition is latched, and has said so.
            self._producing.make_safe(self.leader, end, end)
        self._step(self.machine.tick)

    def epoch(self) -> int:
        """The epoch in which this coordinator writes. Raises what taking one does: DiskFull, NotLeaderOrFollower..."""
        epoch = self._writer(NO_EPOCH).epoch
        assert epoch is not None, "a writer has an epoch"
        return epoch

    def lead_from(self, epoch: int) -> None:
        """Write in this epoch or a later one: markers of an earlier one are refused somewhere. Raises as `epoch`."""
        self._writer(epoch)

    def hear(self, event: Callable[[Now], list[Effect]]) -> None:
        """Let the machine have another event."""
        self._step(event)

    def append_marker(self, markers: TxnMarkers) -> Appended:
        """End a transaction in this partition. Raises what the append does."""
        with self._lock:
            if self._gone is not None:
                raise self._gone.with_traceback(None)
            self._writer(NO_EPOCH)
            appended = append_marker(self._producing, self.leader, markers, self._clock)
            self.machine.replay_marker(Stamp(markers.producer_id, markers.producer_epoch), committed=markers.committed)
            return appended

    def abandon(self, error: PylogError) -> None:
        """This node does not coordinate here any more: whoever waits hears of it."""
        with self._lock:
            self._gone = error
            waiting, self._waiting = self._waiting, {}
            self.due_ms = None
        for future in waiting.values():
            future.set_exception(error)

    def _step(self, event: Callable[[Now], list[Effect]], guard: Verification | None = None) -> bool:
        """Let an event in; False where this node does not coordinate here any more."""
        with self._lock:
            if self._gone is not None:
                return False
            start = self.leader.partition.next_offset
            now = self._now()
            outgoing = self._carry_out(event(now), guard)
            end = self.leader.partition.next_offset
            if outgoing:
                self._safe_due = None
            elif end > start and not self._producing.note_appended(self.leader) and self._safe_due is None:
                self._safe_due = now.tick + LAZY_MS
            self.due_ms = min((due for due in (self.machine.due_ms, self._safe_due) if due is not None), default=None)
        if outgoing:
            safe = self._producing.make_safe(self.leader, start, end)
            safe.add_done_callback(lambda done: self._send(outgoing, done))
        return True

    def _now(self) -> Now:
        return Now(self._clock.wall_ms(), self._clock.tick_ms())

    def _carry_out(self, effects: list[Effect], guard: Verification | None) -> list[Answer | WriteMarkers]:
        """Append what is to be appended; gives what may be done when that is safe."""
        outgoing: list[Answer | WriteMarkers] = []
        todo = deque(effects)
        while todo:
            effect = todo.popleft()
            if not isinstance(effect, Append):
                outgoing.append(effect)
                continue
            try:
                self._append(effect, guard)
            except PylogError as error:
                # Nothing that stands behind it is done.
                todo = deque(self.machine.append_failed(effect, error, self._now()))
            else:
                for record in effect.records:
                    self.machine.replay(record, effect.stamp)
                outgoing += effect.answers
        return outgoing

    def _append(self, append: Append, guard: Verification | None) -> None:
        if not append.records:
            return
        now = self._clock.wall_ms()
        rows = [(record.value, record.key, now, ()) for record in append.records]
        stamp = append.stamp
        if stamp is None:
            batch = encode(rows, now_ms=now)
        else:
            batch = encode(rows, now_ms=now, producer_id=stamp.producer_id, producer_epoch=stamp.producer_epoch,
                           transactional=True)  # fmt: skip
        self._writer(NO_EPOCH)
        self._producing.append(self.leader, batch, now, origin=Origin.COORDINATOR, guard=guard)

    def _send(self, outgoing: Sequence[Answer | WriteMarkers], safe: Future[Produced]) -> None:
        error = safe.result().parts[0].error
        for effect in outgoing:
            if isinstance(effect, WriteMarkers):
                # Not before what decides it is safe; the machine hears that, and tries again.
                self._write_markers(self, effect, error)
                continue
            future = self._waiting.pop(effect.ticket, None)
            if future is None:
                continue
            if error is None:
                future.set_result(effect.message)
            else:
                future.set_exception(error)


def append_marker(producing: ProduceHandler, leader: Leader, markers: TxnMarkers, clock: Clock) -> Appended:
    """Append what ends a transaction to one partition. Raises what the append does."""
    now_ms = clock.wall_ms()
    batch = encode_marker(
        markers.producer_id, markers.producer_epoch, is_abort=not markers.committed,
        coordinator_epoch=markers.coordinator_epoch, now_ms=now_ms,
    )  # fmt: skip
    return producing.append(
        leader, batch, now_ms, origin=Origin.COORDINATOR, transaction_version=markers.transaction_version
    )


def replay_log(partition: PartitionReader, machine: Coordinator, position: int, upto: int) -> int:
    """Let a machine have what its log says in [position, upto); gives where it stopped. Raises CorruptBatch."""
    while position < upto and (found := partition.read(position, READ_BYTES, upto=upto)) is not None:
        for batch in split(found.data, check_crc=True):
            _replay_batch(batch, partition, machine, position)
            position = batch.next_offset
    return position


def _replay_batch(batch: Batch, partition: PartitionReader, machine: Coordinator, position: int) -> None:
    stamp = Stamp(batch.producer_id, batch.producer_epoch)
    if batch.is_control:
        marker = batch.marker()
        if marker is not None:
            machine.replay_marker(stamp, committed=not marker.is_abort)
        return
    for record in batch.records(partition.topic, partition.number, position):
        try:
            machine.replay(LogRecord(record.key or b"", record.value), stamp if batch.is_transactional else None)
        except (CorruptBatch, UnsupportedFormat) as error:
            # Whoever is newer has written it; the others in there are still known.
            where = f"{partition.topic}-{partition.number}, offset {record.offset}"
            logger.error("%s is passed over: %s", where, error)
