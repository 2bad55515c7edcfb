"""A share partition at work: its machine, what it reads of the log, and its writes to the share coordinator.

    load          ReadShareGroupState -> a machine; without a start, where `share.auto.offset.reset` says
    acquire       read from the first free record on, and let a member have what it may
    acknowledge   a change of the machine -> WriteShareGroupState -> the answer

One write is under way at a time; what members say meanwhile goes with the next one. A write that is refused for good
ends this: another one is loaded then, and what members hold is free. (Kafka: SharePartition, SharePartitionManager.)
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pylog.broker.share_batches import ReadBatches
from pylog.broker.share_configs import ShareConfig
from pylog.config.offset_reset import duration_ms
from pylog.coordinator.share.runs import StateChange
from pylog.coordinator.share.share_partition import (
    Acknowledgement,
    Acquired,
    Limits,
    SharePartition,
    StateWrite,
    Wanted,
)
from pylog.coordinator.share.standing import Standing
from pylog.coordinator.share.states import StoredBatch
from pylog.errors import (
    COORDINATOR_AWAY,
    Closed,
    CoordinatorNotAvailable,
    FencedLeaderEpoch,
    FencedStateEpoch,
    GroupIdNotFound,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    ProtocolError,
    PylogError,
    UnknownServer,
    UnknownTopicOrPartition,
)
from pylog.protocol.isolation import Isolation
from pylog.protocol.messages import CONSUMER, Message, share_state
from pylog.protocol.messages.records import EARLIEST, LATEST, NOTHING, FetchedPart, FetchPart, ListOffsetsPartition
from pylog.protocol.messages.share import SharedPartition
from pylog.protocol.messages.share_state import ReadShareGroupStateRequest, WriteShareGroupStateRequest
from pylog.replica import Leader
from pylog.runtime.clock import Clock
from pylog.runtime.future import Future, completed
from pylog.runtime.signals import WholeLock
from pylog.transport import PendingAnswer

logger = logging.getLogger("pylog.broker")

Ask = Callable[[Message], PendingAnswer]
TRIES_MAX = 10
"""How often it reads on where what was read is for nobody."""
READ_BYTES = 1 << 20
"""How many bytes are read at once at most, unless a member asks for more at least."""
RECORD_BYTES = 1 << 10
"""How many bytes a record is taken for before one was read."""
FEW_BYTES = 16 << 10
"""How many bytes are read at once at least, where there are so many."""


@dataclass(slots=True)
class Portion:
    """The records of a partition that a member got, or the error."""

    acquired: list[Acquired] = field(default_factory=list)
    data: memoryview = NOTHING
    """Whole batches, from the first acquired record to the last."""
    error: PylogError | None = None


class SharePartitionHost:
    """The share partition of one group, while this node leads the partition. Thread-safe.

    `ask` sends a message to a share coordinator. `config` is that of the group. `changed` hears that records are free,
    or were acknowledged. `is_over` is set when it cannot go on.
    """

    machine: SharePartition
    """The machine, when it `is_at_work`."""

    def __init__(
        self, group_id: str, part: SharedPartition, leader: Leader, ask: Ask, clock: Clock,
        config: Callable[[], ShareConfig], changed: Callable[["SharePartitionHost"], None],
    ) -> None:  # fmt: skip
        self.group_id, self.part, self.leader = group_id, part, leader
        self.name = leader.partition.topic, leader.partition.number
        """The topic and the partition."""
        self._ask, self._clock, self._config, self._changed = ask, clock, config, changed
        self.is_over = False
        self.loaded: Future[PylogError | None] = Future()
        """Done when it has a machine, or the error against that."""
        self.version = 0
        """It rises when records become free."""
        self.is_at_work = False
        """Whether it is loaded, without an error."""
        self._read: ReadBatches | None = None
        """What was read last, as long as it is not acquired whole."""
        self._record_bytes = RECORD_BYTES
        """How many bytes a record of the partition takes, about."""
        self.timeouts = 0
        """How many records came free as their locks had ended."""
        self._answers: dict[StateChange, Future[PylogError | None]] = {}
        self._lock = WholeLock()
        # While one member's records are read and acquired, another one waits.
        self._reading = WholeLock()

    # --- loading -----------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Begin to load what was written down."""
        data = ReadShareGroupStateRequest.ReadStateData
        asked = data.PartitionData(partition=self.part.partition, leader_epoch=self.leader.present_epoch)
        topics = [data(topic_id=self.part.topic_id, partitions=[asked])]
        answer = self._ask(ReadShareGroupStateRequest(group_id=self.group_id, topics=topics))
        answer.add_done_callback(self._load)

    def _load(self, done: PendingAnswer) -> None:
        error: PylogError | None = _error_of(done)
        if error is None:
            found = done.result().results[0].partitions[0]
            batches = [
                StoredBatch(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count)
                for one in found.state_batches
            ]
            try:
                start = found.start_offset if found.start_offset >= 0 else self._first_offset()
                self.machine = SharePartition(start, found.state_epoch, batches)
                self.is_at_work = True
            except PylogError as failure:
                error = failure
        self.is_over = error is not None
        self.loaded.set_result(error)

    def _first_offset(self) -> int:
        """Where a group begins that has no start."""
        reset, partition = self._config().auto_offset_reset, self.leader.partition
        time = {"latest": LATEST, "earliest": EARLIEST}.get(reset)
        if time is None:
            time = max(self._clock.wall_ms() - duration_ms(reset), 0)
        asked = ListOffsetsPartition(partition_index=partition.number, timestamp=time)
        found = self.leader.list_offset(asked, Isolation.READ_UNCOMMITTED).offset
        return found if found >= 0 else partition.high_watermark

    # --- reading -----------------------------------------------------------------------------------------------------

    def can_acquire(self) -> bool:
        """Whether a member may get records, if there are any."""
        with self._lock:
            return self.machine.can_acquire(self._config().limits)

    def available(self, max_bytes: int, isolation: Isolation) -> int:
        """About how many bytes a member would get now."""
        with self._lock:
            position = self.machine.next_fetch_offset
        try:
            return self._fetched(position, max_bytes, isolation).size
        except PylogError:
            # Whoever reads them is told.
            return max_bytes

    def acquire(
        self, member: str, wanted: Wanted, max_bytes: int, isolation: Isolation, *, is_first: bool = True
    ) -> Portion:  # fmt: skip
        """Let a member have records. The first batch may have more than `max_bytes`, unless another partition has given
        records before (KIP-74).
        """
        with self._reading:
            limits, machine, size = self._config().limits, self.machine, min(max_bytes, self.read_size(wanted.records))
            for _ in range(TRIES_MAX):
                with self._lock:
                    if not machine.can_acquire(limits):
                        break
                    position = machine.next_fetch_offset
                try:
                    read = self._batches(position, wanted.records, size, max_bytes, isolation)
                except OffsetOutOfRange:
                    if not self._begin_where_the_log_does(position):
                        break
                    continue
                except PylogError as error:
                    return Portion(error=error.with_traceback(None))
                if not is_first and read.first_bytes(position) > max_bytes:
                    break
                portion = self._acquire_of(member, position, read, wanted, limits)
                if portion.acquired or machine.next_fetch_offset == position:
                    return portion
                size = max_bytes
        return Portion()

    def read_size(self, records: int) -> int:
        """The number of bytes to read for so many records."""
        return max(FEW_BYTES, 2 * records * self._record_bytes)

    def _batches(
        self, position: int, records: int, size: int, max_bytes: int, isolation: Isolation
    ) -> ReadBatches:  # fmt: skip
        """Batches from an offset on, of `size` bytes: those that were read before, where these are enough. Raises
        PylogError.
        """
        read, leader = self._read, self.leader
        if (
            read is None
            or not read.has(position, records, max_bytes, isolation)
            or leader.has_ended
            or position < leader.partition.start_offset
        ):
            self._read = None
            read = self._read = ReadBatches(self._fetched(position, size, isolation), isolation)
            self._record_bytes = read.record_bytes or self._record_bytes
        return read

    def _fetched(self, position: int, max_bytes: int, isolation: Isolation) -> FetchedPart:
        if self.leader.has_ended:
            raise NotLeaderOrFollower(f"this node does not lead {self.name[0]}-{self.name[1]} any more")
        asked = FetchPart(*self.name, position, max_bytes)
        return self.leader.fetch(
            asked, replica_id=CONSUMER, max_bytes=max_bytes, isolation=isolation, now_ms=self._clock.tick_ms()
        )

    def _begin_where_the_log_does(self, position: int) -> bool:
        """Pass over records that are not there any more; False where all are there."""
        start = self.leader.partition.start_offset
        with self._lock:
            if position < start:
                self.machine.move_start(start)
        return position < start

    def _acquire_of(
        self, member: str, position: int, read: ReadBatches, wanted: Wanted, limits: Limits
    ) -> Portion:  # fmt: skip
        batches, now_ms = read.batches(position), self._clock.tick_ms()
        with self._lock:
            acquired = self.machine.acquire(member, position, batches, wanted, limits, now_ms, read.aborted)
        if not acquired:
            return Portion()
        last = acquired[-1].last_offset
        if last + 1 >= batches[-1].stop:
            self._read = None
        return Portion(acquired, read.bytes_of(acquired[0].first_offset, last))

    # --- acknowledging -----------------------------------------------------------------------------------------------

    def acknowledge(self, member: str, said: Sequence[Acknowledgement]) -> Future[PylogError | None]:
        """Take what a member says of its records; answered when it is written down, with the error against it."""
        with self._lock:
            try:
                change = self.machine.acknowledge(member, said, self._config().limits, self._clock.tick_ms())
            except ProtocolError as error:
                return completed(error.with_traceback(None))
            if change is None:
                return completed(None)
            answer: Future[PylogError | None] = Future()
            self._answers[change] = answer
        self._write()
        return answer

    def release(self, member: str) -> None:
        """Free what a member has."""
        with self._lock:
            change = self.machine.release(member, self._config().limits)
        if change is not None:
            self._write()

    def expire(self, now_ms: int) -> None:
        """Free what members have held too long."""
        with self._lock:
            change = self.machine.expire(self._config().limits, now_ms)
        if change is not None:
            self.timeouts += sum(one.last_offset + 1 - one.first_offset for one in change.batches)
            self._tell()
            self._write()

    def standing(self) -> Standing:
        """The standing of its records."""
        with self._lock:
            return self.machine.standing(self._config().limits.lock_ms, self._clock.tick_ms())

    @property
    def due_ms(self) -> int | None:
        """When `expire` has something to do."""
        return None if self.is_over or not self.is_at_work else self.machine.due_ms

    @property
    def is_idle(self) -> bool:
        """Whether it may be forgotten: all of its state is written down."""
        with self._lock:
            return self.loaded.done() and (not self.is_at_work or self.machine.is_idle)

    # --- writing -----------------------------------------------------------------------------------------------------

    def _write(self) -> None:
        """Write down what has changed, unless a write is under way: its end does then."""
        machine = self.machine
        while machine.has_changes:
            with self._lock:
                write = machine.take_write()
            if write is None:
                return
            answer = self._ask(self._request(write))
            if not answer.done():
                answer.add_done_callback(self._written_late)
                return
            self._written(answer)

    def _request(self, write: StateWrite) -> WriteShareGroupStateRequest:
        data = WriteShareGroupStateRequest.WriteStateData
        asked = data.PartitionData(
            partition=self.part.partition, state_epoch=self.machine.state_epoch, leader_epoch=self.leader.present_epoch,
            start_offset=write.start_offset, delivery_complete_count=write.delivery_complete_count,
            state_batches=[
                share_state.StateBatch(
                    first_offset=first, last_offset=last, delivery_state=state, delivery_count=deliveries
                )
                for first, last, state, deliveries in write.batches
            ],
        )  # fmt: skip
        topics = [data(topic_id=self.part.topic_id, partitions=[asked])]
        return WriteShareGroupStateRequest(group_id=self.group_id, topics=topics)

    def _written_late(self, answer: PendingAnswer) -> None:
        self._written(answer)
        self._write()

    def _written(self, answer: PendingAnswer) -> None:
        error, machine, limits = _error_of(answer), self.machine, self._config().limits
        with self._lock:
            was_full = not machine.can_acquire(limits)
            done = [self._answers.pop(change, None) for change in machine.written(error)]
            is_news = was_full or machine.next_fetch_offset < machine.end_offset
        if error is not None:
            self.is_over = not isinstance(error, CoordinatorNotAvailable)
            topic, partition = self.name
            place = {"topic": topic, "partition": partition, "group": self.group_id}
            logger.warning("the state of share group %r in %s-%d: %s", self.group_id, *self.name, error, extra=place)
        for future in done:
            if future is not None:
                future.set_result(error)
        if is_news or self.is_over:
            self._tell()

    def _tell(self) -> None:
        self.version += 1
        self._changed(self)


def _error_of(answer: PendingAnswer) -> ProtocolError | None:
    """The error in the answer of a share coordinator, as members are told it. (Kafka: fetchPersisterError)"""
    failure = answer.exception()
    error = failure if failure is not None else answer.result().results[0].partitions[0].error
    if error is None or isinstance(error, GroupIdNotFound | UnknownTopicOrPartition):
        return error
    if isinstance(error, (*COORDINATOR_AWAY, Closed)):
        return CoordinatorNotAvailable(str(error))
    if isinstance(error, FencedLeaderEpoch | FencedStateEpoch):
        return NotLeaderOrFollower(str(error))
    return UnknownServer(str(error))
