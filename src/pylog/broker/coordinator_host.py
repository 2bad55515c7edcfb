"""One coordinator at work: its machine, the partition of an internal topic that it lives by, and the answers it owes.

    message -> lock: machine.handle -> effects; append each Append, replay it -> unlock
            -> made safe, once for all that was appended -> markers of transactions, answers

One event at a time is let in. What stands behind an append waits until that is as safe as the log promises, unless it
is lazy: records of a transaction that is not decided, which its commit makes safe, and its abort. An answer that
appends nothing waits for what it tells of alone (`Append.tells`). The thread that brings the message does the work.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import count
from typing import TypeVar

from pylog.broker.produce import ProduceHandler
from pylog.broker.transaction_markers import TransactionMarkers, append_marker
from pylog.commitlog.partition_reader import ReadablePartition
from pylog.coordinator.effects import (
    Answer,
    Append,
    Ask,
    Coordinator,
    DropBefore,
    Effect,
    LogRecord,
    Now,
    Stamp,
    WriteMarkers,
)
from pylog.errors import CorruptBatch, PylogError, StorageError, UnsupportedFormat
from pylog.partition import Appended
from pylog.protocol.batch import Batch, Origin, encode, split
from pylog.protocol.messages import NO_EPOCH, Session, TxnMarkers
from pylog.replica import Leader
from pylog.runtime.clock import Clock
from pylog.runtime.future import Future, failed
from pylog.runtime.signals import WholeLock
from pylog.storage.producer_state import Verification
from pylog.transport import PendingAnswer

T = TypeVar("T")
logger = logging.getLogger("pylog.broker")

READ_BYTES = 1 << 20

LAZY_MS = 1000
"""After how long an append that no answer waits for is made durable."""


class CoordinatorHost:
    """One coordinator and its partition. Thread-safe.

    `produce` makes appends safe, `markers` ends transactions in their partitions, `writer` lets the leader append, in
    this epoch or a later one, `drop_before` drops what lies below an offset, and `ask` asks another coordinator, or
    tells the machine why not. Raises at construction, which replays the log: CorruptBatch, StorageError.
    """

    def __init__(
        self, leader: Leader, machine: Coordinator, clock: Clock, produce: ProduceHandler,
        markers: TransactionMarkers, writer: Callable[[int], Leader], drop_before: Callable[[int], object],
        ask: Callable[["CoordinatorHost", Ask, PylogError | None], None],
    ) -> None:  # fmt: skip
        self.leader = leader
        self.machine = machine
        self.due_ms: int | None = None
        """When `tick` has something to do."""
        self._clock = clock
        self._produce = produce
        self._markers = markers
        self._writer = writer
        self._drop_before = drop_before
        self._ask = ask
        self._safe_due: int | None = None
        self.gone: PylogError | None = None
        """Why it lets nothing in, once `abandon` was called."""
        self._lock = WholeLock(threading.RLock())
        self._tickets = count()
        self._waiting: dict[int, PendingAnswer] = {}
        partition = leader.partition
        replay_log(partition, machine, partition.start_offset, partition.next_offset)
        self._step(machine.take_over)

    @property
    def may_block(self) -> bool:
        """Whether a thread that brings a message may have to wait for the disk."""
        return self._produce.guarantees.syncs or self.leader.partition.state.rules.may_block

    def handle(self, message: object, session: Session, guard: Verification | None = None) -> PendingAnswer:
        """Let the machine have a message; gives its answer. `guard`: for an append in a transaction."""
        future: PendingAnswer = Future()
        ticket = next(self._tickets)
        self._waiting[ticket] = future
        if self._produce.guarantees.syncs:
            self._secure(message)
        if not self._step(lambda now: self.machine.handle(message, session, ticket, now), guard):
            self._waiting.pop(ticket, None)
            assert self.gone is not None, "only an abandoned coordinator lets nothing in"
            return failed(self.gone)
        return future

    def tick(self) -> None:
        """Let the machine do what is due, and make durable what nothing waits for."""
        self.hear_all(self.machine.tick)
        if self._safe_due is not None and self._safe_due <= self._clock.tick_ms():
            end = self.leader.partition.next_offset
            # Where the disk refuses, the partition is latched, and has said so.
            self._produce.guarantees.make_safe(self.leader, end, end)
            with self._lock:
                self._safe_due = None
                self._note_due()

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

    def hear_all(self, event: Callable[[Now], list[Effect]]) -> None:
        """Let the machine have an event that concerns all it knows: what that may have to wait for is done first."""
        self._secure(None)
        self._step(event)

    def ask(self, question: Callable[[Now], T]) -> T:
        """The answer of the machine to a question that appends nothing. Raises NotCoordinator, Closed."""
        with self._lock:
            if self.gone is not None:
                raise self.gone.with_traceback(None)
            answer = question(self._now())
            self._note_due()
            return answer

    def append_marker(self, markers: TxnMarkers) -> Appended:
        """End a transaction in this partition. Raises what the append does."""
        with self._lock:
            if self.gone is not None:
                raise self.gone.with_traceback(None)
            self._writer(NO_EPOCH)
            appended = append_marker(self._produce, self.leader, markers, self._clock)
            self.machine.replay_marker(Stamp(markers.producer_id, markers.producer_epoch), committed=markers.committed)
            return appended

    def take_up(self, predecessor: "CoordinatorHost") -> None:
        """Go on with what another host of the same partition, which is gone, knew and had not in its log."""
        with self._lock:
            self.machine.take_up(predecessor.machine, self._now())
            self._note_due()

    def close(self, error: PylogError) -> None:
        """Write what only memory has to the log, then coordinate no more. Where the log refuses it, the partition is
        latched: the next open recovers.
        """
        try:
            self._secure(None)
            self._step(self.machine.write_down)
            if self.machine.is_ahead:
                name = f"{self.leader.partition.topic}-{self.leader.partition.number}"
                self.leader.partition.latch(StorageError(f"{name}: open transactions could not be written down"))
        finally:
            self.abandon(error)

    def abandon(self, error: PylogError) -> None:
        """Stop coordinating here: each message that waits fails with `error`."""
        with self._lock:
            self.gone = error
            waiting, self._waiting = self._waiting, {}
            self.due_ms = None
        with ExitStack() as answering:
            for future in reversed(waiting.values()):
                # A callback may raise; the others wait all the same.
                answering.callback(future.set_exception, error)

    def _secure(self, message: object) -> None:
        """Make durable what has to be before the machine can do what this message wants, or (None) what is due."""
        with self._lock:
            ends = dict(self.machine.unsafe(message))
        if ends:
            durable = self._markers.made_durable(ends)
            with self._lock:
                self.machine.note_durable(durable)

    def _step(self, event: Callable[[Now], list[Effect]], guard: Verification | None = None) -> bool:
        """Let an event in; False where this node does not coordinate here any more."""
        with self._lock:
            if self.gone is not None:
                return False
            now, state = self._now(), self.leader.partition.state
            self.machine.safe_end = state.high_watermark
            effects = event(now)
            if not effects:
                self._note_due()
                return True
            start = state.next_offset
            at_once, waiting, waits_for = self._carry_out(effects, guard)
            end = state.next_offset
            if end > start:
                if waits_for >= end:
                    self._safe_due = None
                elif not self._produce.guarantees.note_appended(self.leader) and self._safe_due is None:
                    self._safe_due = now.tick + LAZY_MS
            self._note_due()
        if at_once:
            self._send(at_once, None)
        if waits_for > state.high_watermark:
            safe = self._produce.guarantees.make_safe(self.leader, start, waits_for)
            if not safe.done():
                safe.add_done_callback(lambda done: self._send(waiting, done.result().error))
                return True
            self._send(waiting, safe.result().error)
        elif waiting:
            self._send(waiting, None)
        return True

    def _note_due(self) -> None:
        due, safe_due = self.machine.due_ms, self._safe_due
        self.due_ms = safe_due if due is None or (safe_due is not None and safe_due < due) else due

    def _now(self) -> Now:
        return Now(self._clock.wall_ms(), self._clock.tick_ms())

    def _carry_out(
        self, effects: list[Effect], guard: Verification | None
    ) -> tuple[list[Answer | DropBefore], list[Answer | WriteMarkers | Ask], int]:
        """Append what is to be appended.

        Gives what waits for nothing, what is to be done behind the appends, and up to where the log has to be safe
        before that (0: it need not be).
        """
        at_once: list[Answer | DropBefore] = []
        waiting: list[Answer | WriteMarkers | Ask] = []
        todo = deque(effects)
        state, is_lazy, waits_for = self.leader.partition.state, False, 0
        while todo:
            effect = todo.popleft()
            if isinstance(effect, Append):
                try:
                    self._append(effect, guard)
                except PylogError as error:
                    # Nothing that stands behind it is done.
                    todo = deque(self.machine.append_failed(effect, error, self._now()))
                    continue
                end = state.next_offset
                self.machine.appended(effect, end)
                waiting += effect.answers
                is_lazy, tells = effect.is_lazy, end if effect.records else effect.tells
            elif isinstance(effect, WriteMarkers | Ask):
                waiting.append(effect)
                tells = state.next_offset
            else:
                at_once.append(effect)
                continue
            if waiting and not is_lazy and tells > waits_for:
                waits_for = tells
        return at_once, waiting, waits_for

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
        self._produce.append(self.leader, batch, now, origin=Origin.COORDINATOR, guard=guard)

    def _send(self, outgoing: Sequence[Answer | WriteMarkers | DropBefore | Ask], error: PylogError | None) -> None:
        """Carry out what waited for the log, which is safe now, or refused (`error`)."""
        # The markers first: a commit that is answered can be read.
        for effect in outgoing:
            if isinstance(effect, WriteMarkers):
                # Not before the decision is safe; the machine hears of an error, and tries again.
                self._markers.write(self, effect, error)
        for effect in outgoing:
            if isinstance(effect, WriteMarkers):
                continue
            if isinstance(effect, DropBefore):
                self._drop_before(effect.offset)
                continue
            if isinstance(effect, Ask):
                self._ask(self, effect, error)
                continue
            future = self._waiting.pop(effect.ticket, None)
            if future is None:
                continue
            if error is None:
                future.set_result(effect.message)
            else:
                future.set_exception(error)


def replay_log(partition: ReadablePartition, machine: Coordinator, position: int, upto: int) -> int:
    """Let a machine have the records of its log in [position, upto); gives where it stopped. Raises CorruptBatch."""
    while position < upto and (found := partition.read(position, READ_BYTES, upto=upto)) is not None:
        for batch in split(found.data, check_crc=True):
            _replay_batch(batch, partition, machine, position)
            position = batch.next_offset
    return position


def _replay_batch(batch: Batch, partition: ReadablePartition, machine: Coordinator, position: int) -> None:
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
            # A newer version has written it; the other records of the batch are known.
            where = f"{partition.topic}-{partition.number}, offset {record.offset}"
            place = {"topic": partition.topic, "partition": partition.number, "offset": record.offset}
            logger.error("%s is passed over: %s", where, error, extra=place)
