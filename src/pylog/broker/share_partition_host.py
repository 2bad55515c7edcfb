"""A share partition at work: its machine, what it reads of the log, and its writes to the share coordinator.

    load          ReadShareGroupState -> a machine; without a start, where `share.auto.offset.reset` says
    acquire       read from the first free record on, and let a member have what it may
    acknowledge   a change of the machine -> WriteShareGroupState -> the answer

One write is under way at a time; what members say meanwhile goes with the next one. A write that is refused for good
ends this: another one is loaded then, and what members hold is free. (Kafka: SharePartition, SharePartitionManager.)
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from pylog.broker.share_sessions import SharedPartition
from pylog.config import GroupConfig
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
from pylog.coordinator.share.states import StoredBatch
from pylog.errors import (
    COORDINATOR_AWAY,
    Closed,
    CoordinatorNotAvailable,
    CorruptBatch,
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
from pylog.kernel import CONTROL_BIT, TRANSACTIONAL_BIT, BatchSpan, walk
from pylog.protocol.batch import Batch
from pylog.protocol.isolation import Isolation, VisibleBatches
from pylog.protocol.messages import CONSUMER, Message, share_state
from pylog.protocol.messages.records import EARLIEST, LATEST, NOTHING, FetchedPart, FetchPart, ListOffsetsPartition
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

    def __init__(
        self, group_id: str, part: SharedPartition, leader: Leader, ask: Ask, clock: Clock,
        config: Callable[[], GroupConfig], changed: Callable[["SharePartitionHost"], None],
    ) -> None:  # fmt: skip
        self.group_id, self.part, self.leader = group_id, part, leader
        self._ask, self._clock, self._config, self._changed = ask, clock, config, changed
        self.is_over = False
        self.loaded: Future[PylogError | None] = Future()
        """Done when it has a machine, or the error against that."""
        self.version = 0
        """It rises when records become free."""
        self._machine: SharePartition | None = None
        self._limits: tuple[GroupConfig | None, Limits] = None, Limits(0, 0, 0)
        self._answers: dict[StateChange, Future[PylogError | None]] = {}
        self._lock = WholeLock()
        # While one member's records are read and acquired, another one waits.
        self._reading = WholeLock()

    @property
    def name(self) -> tuple[str, int]:
        """The topic and the partition."""
        partition = self.leader.partition
        return partition.topic, partition.number

    @property
    def is_at_work(self) -> bool:
        """Whether it is loaded, without an error."""
        return self._machine is not None

    @property
    def limits(self) -> Limits:
        """The configs that the group goes by now."""
        config, (known, limits) = self._config(), self._limits
        if config is not known:
            limits = Limits(
                config.share_delivery_count_limit, config.share_partition_max_record_locks,
                config.share_record_lock_duration_ms, config.share_renew_acknowledge_enable,
            )  # fmt: skip
            self._limits = config, limits
        return limits

    @property
    def machine(self) -> SharePartition:
        """The machine of a share partition that is loaded."""
        assert self._machine is not None, "it is loaded before it is used"
        return self._machine

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
                self._machine = SharePartition(start, found.state_epoch, batches)
            except PylogError as failure:
                error = failure
        self.is_over = error is not None
        self.loaded.set_result(error)

    def _first_offset(self) -> int:
        """Where a group begins that has no start."""
        reset, partition = self._config().share_auto_offset_reset, self.leader.partition
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
            return self.machine.can_acquire(self.limits)

    def available(self, max_bytes: int, isolation: Isolation) -> int:
        """About how many bytes a member would get now."""
        with self._lock:
            position = self.machine.next_fetch_offset
        try:
            return self._read(position, max_bytes, isolation).size
        except PylogError:
            # Whoever reads them is told.
            return max_bytes

    def acquire(self, member: str, wanted: Wanted, max_bytes: int, isolation: Isolation) -> Portion:
        """Let a member have records."""
        with self._reading:
            limits = self.limits
            for _ in range(TRIES_MAX):
                with self._lock:
                    if not self.machine.can_acquire(limits):
                        break
                    position = self.machine.next_fetch_offset
                try:
                    found = self._read(position, max_bytes, isolation)
                except OffsetOutOfRange:
                    if not self._begin_where_the_log_does(position):
                        break
                    continue
                except PylogError as error:
                    return Portion(error=error.with_traceback(None))
                portion = self._acquire_of(member, position, found, wanted, limits)
                if portion.acquired or portion.error or self.machine.next_fetch_offset == position:
                    return portion
        return Portion()

    def _read(self, position: int, max_bytes: int, isolation: Isolation) -> FetchedPart:
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
        self, member: str, position: int, found: FetchedPart, wanted: Wanted, limits: Limits
    ) -> Portion:  # fmt: skip
        spans, _, reason = walk(found.data, check_crc=False)
        if reason is not None and not spans:
            return Portion(error=CorruptBatch(reason, path=found.path, position=found.position))
        batches = [range(span.base_offset, span.last_offset + 1) for span in spans]
        aborted = _aborted(found, spans) if found.aborted else ()
        with self._lock:
            acquired = self.machine.acquire(member, position, batches, wanted, limits, self._clock.tick_ms(), aborted)
        if not acquired:
            return Portion()
        first, last = acquired[0].first_offset, acquired[-1].last_offset
        kept = [span for span in spans if span.last_offset >= first and span.base_offset <= last]
        return Portion(acquired, found.data[kept[0].position : kept[-1].position + kept[-1].size])

    # --- acknowledging -----------------------------------------------------------------------------------------------

    def acknowledge(self, member: str, said: Sequence[Acknowledgement]) -> Future[PylogError | None]:
        """Take what a member says of its records; answered when it is written down, with the error against it."""
        with self._lock:
            try:
                change = self.machine.acknowledge(member, said, self.limits, self._clock.tick_ms())
            except ProtocolError as error:
                return completed(error.with_traceback(None))
            if change is None:
                return completed(None)
            answer = self._answers[change] = Future[PylogError | None]()
        self._write()
        return answer

    def release(self, member: str) -> None:
        """Free what a member has."""
        with self._lock:
            change = self.machine.release(member, self.limits)
        if change is not None:
            self._write()

    def expire(self, now_ms: int) -> None:
        """Free what members have held too long."""
        with self._lock:
            change = self.machine.expire(self.limits, now_ms)
        if change is not None:
            self._tell()
            self._write()

    @property
    def due_ms(self) -> int | None:
        """When `expire` has something to do."""
        return None if self._machine is None or self.is_over else self._machine.due_ms

    @property
    def is_idle(self) -> bool:
        """Whether it may be forgotten: all of its state is written down."""
        with self._lock:
            return self.loaded.done() and (self._machine is None or self._machine.is_idle)

    # --- writing -----------------------------------------------------------------------------------------------------

    def _write(self) -> None:
        """Write down what has changed, unless a write is under way: its end does then."""
        while True:
            with self._lock:
                write = self.machine.take_write()
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
            state_batches=[share_state.StateBatch(**batch._asdict()) for batch in write.batches],
        )  # fmt: skip
        topics = [data(topic_id=self.part.topic_id, partitions=[asked])]
        return WriteShareGroupStateRequest(group_id=self.group_id, topics=topics)

    def _written_late(self, answer: PendingAnswer) -> None:
        self._written(answer)
        self._write()

    def _written(self, answer: PendingAnswer) -> None:
        error = _error_of(answer)
        with self._lock:
            was_full = not self.machine.can_acquire(self._limits[1])
            done = [self._answers.pop(change, None) for change in self.machine.written(error)]
            is_news = was_full or self.machine.next_fetch_offset < self.machine.end_offset
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


def _aborted(found: FetchedPart, spans: Iterable[BatchSpan]) -> list[range]:
    """The batches of aborted transactions."""
    visible = VisibleBatches(found.aborted)
    aborted = []
    for span in spans:
        if span.attributes & (CONTROL_BIT | TRANSACTIONAL_BIT):
            batch = Batch(found.data[span.position : span.position + span.size])
            if not visible.gives(batch) and not batch.is_control:
                aborted.append(range(span.base_offset, span.last_offset + 1))
    return aborted
