"""How batches leave a producer, and what is done when they are answered, or when nobody answers.

The thread that fills a batch ships it; a thread of the producer's own exists for `linger_ms`, for what is sent again
after a while, and for what is given up after `delivery_timeout_ms`. Without linger the first record of a batch ships
it, and others may follow until it is asked for. Shipping a partition's batches happens under that partition's ship
lock, so they keep their order. While one thread ships, the others go on, until so many batches wait that they have to
wait too.

What may go, what number it bears and what an answer means is for `in_flight`, which is asked under the producer's lock.
Whoever brings an answer ships what may go because of it. Futures are answered, and callbacks run, without that lock.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from pylog.client.accumulator import Accumulator
from pylog.client.cluster import Cluster
from pylog.client.in_flight import InFlight, overdue
from pylog.client.in_flight_batch import BatchOutcome, InFlightBatch, ProducerEpoch
from pylog.client.producer.failures import UnseenFailures
from pylog.client.record_append import Part, ProducerBatch
from pylog.client.transaction_manager import TransactionManager
from pylog.config import ProducerConfig
from pylog.errors import BatchRefused, InvalidRecord, PylogError, RefusedWithBatch, UnknownTopicOrPartition
from pylog.protocol.batch import Batch, encode, seal
from pylog.protocol.compression import Codec
from pylog.protocol.messages import InitProducerId, Produce, Produced, ProducedPart, ProducePart, ProducerIdGiven
from pylog.record import TopicPartition
from pylog.runtime.clock import Clock, condition
from pylog.runtime.future import Future, failed
from pylog.runtime.signals import FIRM, WholeLock
from pylog.runtime.worker import Worker
from pylog.transport import Transport

logger = logging.getLogger("pylog")

_answering = threading.local()
"""How many callbacks of records a thread is in, of whatever producers: these share the threads that bring answers."""

WAITING_MAX = 4
"""When so many batches of a partition wait for the thread that ships them, whoever filled the last one waits too."""


def in_callback() -> bool:
    """Whether this thread is in a callback of a record."""
    return getattr(_answering, "depth", 0) > 0


class Load:
    """What a shipment has: a batch, or the records of it from number `first` on."""

    sealed: Batch | None = None
    first = 0
    parts: "Parts | None" = None

    def __init__(self, batch: ProducerBatch) -> None:
        self.batch = batch


class Parts:
    """The answers to the parts of a batch that was too large, until all are there."""

    __slots__ = ("answers", "records_left")

    def __init__(self, records: int) -> None:
        self.records_left = records
        self.answers: list[Part] = []

    def is_last(self, records: int, answers: list[Part]) -> bool:
        """Add the answers for so many records; gives whether there is one for all of them."""
        self.answers += answers
        self.records_left -= records
        return not self.records_left


def by_record(answer: Part, count: int) -> list[Part]:
    """The answer for `count` records, in parts where their batch was refused for some of them: these get the error, and
    the others one that says so (KIP-467; Kafka: Sender.completeBatch).
    """
    error = answer.error
    if not isinstance(error, BatchRefused):
        return [answer]
    reasons = {one.index: one for one in error.record_errors if 0 <= one.index < count}
    if not reasons:
        return [answer]
    kind = type(error) if len(error.record_errors) == 1 else InvalidRecord
    good = RefusedWithBatch(f"the record is good, and others of its batch are refused: send it again ({error})")
    parts: list[Part] = []
    for index in range(count):
        reason = reasons.get(index)
        if reason is not None:
            parts.append(Part(answer.first + index, error=kind(reason.message, [reason])))
        elif index == 0 or index - 1 in reasons:
            parts.append(Part(answer.first + index, error=good))
    return parts


class BatchSender:
    """The half of a producer that begins where a record is in a batch."""

    def __init__(self, transport: Transport, node: int, config: ProducerConfig, clock: Clock, *, direct: bool) -> None:
        self.config = config
        self._clock = clock
        self._cluster = Cluster(transport, node, config.client_id)
        self._codec = Codec.parse(config.compression_type)
        levels = {
            Codec.GZIP: config.compression_gzip_level,
            Codec.LZ4: config.compression_lz4_level,
            Codec.ZSTD: config.compression_zstd_level,
        }
        self._level = levels.get(self._codec)
        self.batches = self._accumulator = Accumulator(
            batch_size=config.batch_size, linger_ms=config.linger_ms, direct=direct
        )
        self.record_bytes_max = min(config.max_request_size, config.buffer_memory)
        name = config.transactional_id
        self._transacting = TransactionManager(name, config.transaction_timeout_ms) if name is not None else None
        self._dispatch = InFlight(
            idempotent=config.enable_idempotence,
            transactional=self._transacting is not None,
            in_flight_max=config.max_in_flight_requests_per_connection,
            retries=config.retries,
            backoff_ms=config.retry_backoff_ms,
            backoff_max_ms=config.retry_backoff_max_ms,
        )
        self._lock = WholeLock()
        self._freed = condition(clock, self._lock)
        self._ship_locks: dict[TopicPartition, threading.Lock] = {}
        self._shippers: dict[TopicPartition, int] = {}
        self._worker = Worker("pylog-producer", clock, self._next_due, self._do_due)
        self._fatal: BaseException | None = None
        self._is_over = False
        """Whether it was closed, and the close has come to its end."""
        self.failures = UnseenFailures()

    # --- leaving ---------------------------------------------------------------------------------------------------

    def _ship(self, key: TopicPartition, *, patient: bool | None = None) -> None:
        """Send what may go of a partition, in order, unless another thread is at it: wait for that one if `patient`
        (None: if many wait).
        """
        with FIRM:
            if self._dispatch.lacks_id:
                self._ask_id()
            # Whoever has the lock looks again after letting go of it: what came meanwhile is not forgotten.
            while waiting := self._sendable(key):
                if self._shippers.get(key) == threading.get_ident():
                    # A callback of a batch that is being shipped has sent more: the loop that it was called from goes
                    # on with that.
                    return
                if patient is None:
                    patient = waiting >= WAITING_MAX and not self._is_in_the_way()
                if not self._ship_waiting(key, patient=patient):
                    return

    def _is_in_the_way(self) -> bool:
        """Whether others may wait for this thread: it ships another partition, or brings answers, and is in a callback
        now. Two such threads would wait for each other.
        """
        return in_callback() or threading.get_ident() in list(self._shippers.values())

    def _ship_waiting(self, key: TopicPartition, *, patient: bool) -> bool:
        """Send what waits; gives whether this was the thread to do it."""
        lock = self._ship_locks.get(key)
        if lock is None:
            lock = self._ship_locks.setdefault(key, threading.Lock())
        if not lock.acquire(blocking=patient):
            return False
        self._shippers[key] = threading.get_ident()
        try:
            while (shipment := self._take(key)) is not None:
                self._send(shipment)
        finally:
            del self._shippers[key]
            lock.release()
        return True

    def _sendable(self, key: TopicPartition) -> int:
        """How many batches of a partition wait, if one of them may go now. Without the lock, as whoever changes that
        looks, too, and does so after the change.
        """
        may_take = self._dispatch.may_take(key)
        if may_take is None:
            with self._lock:
                return self._dispatch.next_again(key, self._clock.tick_ms(), peek=True) is not None
        return self._accumulator.ready(key) if may_take else 0

    def _take(self, key: TopicPartition) -> InFlightBatch | None:
        with self._lock:
            may_take = self._dispatch.may_take(key)
            if may_take is None:
                return self._dispatch.next_again(key, self._clock.tick_ms())
            batch = self._accumulator.take(key) if may_take else None
            if batch is None:
                return None
            shipment = self._shipment(batch)
            self._dispatch.take(shipment)
            return shipment

    def _shipment(self, batch: ProducerBatch) -> InFlightBatch:
        deadline = self._accumulator.created_ms(batch) + self.config.delivery_timeout_ms
        return InFlightBatch(batch.key, Load(batch), deadline)

    def _ship_all(self) -> None:
        with self._lock:
            keys = {*self._accumulator.ready_keys(), *self._dispatch.due(self._clock.tick_ms())}
        for key in keys:
            self._ship(key, patient=False)

    def _send(self, shipment: InFlightBatch) -> None:
        key, load = shipment.key, shipment.load
        try:
            topic_id = self._cluster.topic(key.topic).id
            leader = self._cluster.leader(key)
            part = ProducePart(key.topic, key.partition, self._sealed(shipment), topic_id)
            message = Produce([part], self.config.acks, self.config.request_timeout_ms, self.config.transactional_id)
            answer: Future[Produced] = self._cluster.send(leader, message)
        except BaseException as error:
            self._conclude(shipment, error, None)
            if not isinstance(error, Exception):
                raise
            # An error is for the futures: this thread may be the producer's, or another sender's.
            return
        if load.parts is None and type(answer) is not Future:
            # It comes by being waited for. A plain one comes by itself, or never: then the delivery has its own end.
            load.batch.delivery.carrier = answer
        answer.add_done_callback(lambda done: self._answered(shipment, done))
        if not answer.done():
            self._worker.wake_by(shipment.deadline_ms)

    def _sealed(self, shipment: InFlightBatch) -> Batch | Callable[[], Batch]:
        """The bytes; a batch that is open is closed when it leaves, by whoever carries it."""
        sealed: Batch | None = shipment.load.sealed
        if sealed is None:
            late = self._accumulator.is_open(shipment.load.batch)
            return (lambda: self._seal(shipment)) if late else self._seal(shipment)
        numbers = (*shipment.producer, shipment.sequence)
        if (sealed.producer_id, sealed.producer_epoch, sealed.base_sequence) != numbers:
            sealed.stamp_producer(*numbers)
        return sealed

    def _seal(self, shipment: InFlightBatch) -> Batch:
        load: Load = shipment.load
        with self._lock:
            self._dispatch.number(shipment, self._close)
        if load.sealed is None:
            load.sealed = seal(
                load.batch.close(), codec=self._codec, level=self._level, producer_id=shipment.producer.producer_id,
                producer_epoch=shipment.producer.epoch, base_sequence=shipment.sequence,
                transactional=self._transacting is not None,
            )  # fmt: skip
        return load.sealed

    def _close(self, shipment: InFlightBatch) -> int:
        batch: ProducerBatch = shipment.load.batch
        self._accumulator.close(batch)
        return batch.count

    # --- coming back -----------------------------------------------------------------------------------------------

    def _answered(self, shipment: InFlightBatch, answer: Future[Produced]) -> None:
        error = answer.exception()
        part = answer.result().parts[0] if error is None else None
        self._conclude(shipment, error if part is None else part.error, part)

    def _conclude(self, shipment: InFlightBatch, error: BaseException | None, part: ProducedPart | None) -> None:
        """An answer has come, or what kept a batch from leaving."""
        key, batch = shipment.key, shipment.load.batch
        if isinstance(error, PylogError):
            self._cluster.heard(key, error)
        # The list of topics says itself that there is none such: that is no passing trouble of a node.
        final = part is None and isinstance(error, UnknownTopicOrPartition)
        now = self._clock.tick_ms() if error is not None else 0
        with self._lock:
            if error is not None:
                # What refused it may not have looked at it.
                self._accumulator.close(batch)
            verdict = self._dispatch.answered(shipment, error, now, final=final)
        if verdict is BatchOutcome.DELIVERED:
            if part is None or error is not None:
                self._tell(shipment, Part(shipment.load.first))
            else:
                self._tell(shipment, Part(shipment.load.first, part.base_offset, part.log_append_time))
        elif verdict is BatchOutcome.SPLIT:
            self._split(shipment)
        elif verdict is BatchOutcome.AGAIN:
            batch.delivery.carrier = None
        if self._dispatch.has_failed:
            self._tell_failed()
        if self._shippers.get(key) != threading.get_ident():
            self._ship(key, patient=False)
        if verdict is BatchOutcome.AGAIN or self._dispatch.may_take(key) is None:
            # What comes next may have to wait still, when the one before it is there.
            self._worker.wake()

    def _split(self, shipment: InFlightBatch) -> None:
        """Make two of a batch that is too large for its topic."""
        load: Load = shipment.load
        assert load.sealed is not None, "a node has seen it"
        records = load.sealed.records(*shipment.key)
        half = len(records) // 2
        parts = load.parts or Parts(len(records))
        loads = []
        for first, some in ((0, records[:half]), (half, records[half:])):
            one = Load(load.batch)
            one.first, one.parts = load.first + first, parts
            one.sealed = encode(
                some, now_ms=-1, codec=self._codec, level=self._level, transactional=self._transacting is not None
            )
            loads.append(one)
        load.batch.delivery.carrier = None
        with self._lock:
            self._dispatch.split(shipment, half, (loads[0], loads[1]))

    def _tell_failed(self, also: Sequence[InFlightBatch] = ()) -> None:
        """Answer the futures of what has failed; a transaction it belonged to has failed, and all that waits for it."""
        with self._lock:
            lost = [*self._dispatch.failed(), *also]
            if lost and self._transacting is not None:
                self._transacting.batch_failed(lost[0].error or PylogError("a batch failed"))
                if self._transacting.error is not None:
                    lost += self._give_up(self._transacting.error)
        for shipment in lost:
            self._tell(shipment, Part(shipment.load.first, error=shipment.error))

    def _give_up(self, error: BaseException, *, in_flight: bool = False) -> list[InFlightBatch]:
        """With the lock held: take back what was not sent, and what is `in_flight`, if so wanted: it fails."""
        self._accumulator.hide()
        queued = [self._shipment(batch) for batch in self._accumulator.drop()]
        for shipment in queued:
            shipment.error = error
        self._dispatch.give_up(error, in_flight=in_flight)
        return self._dispatch.failed() + queued

    def _tell(self, shipment: InFlightBatch, answer: Part) -> None:
        """Answer the futures of a shipment; those of a batch in parts when it is the last of them."""
        batch, parts = shipment.load.batch, shipment.load.parts
        answers = [answer] if answer.error is None else by_record(answer, shipment.count)
        if answer.error is not None or parts is not None:
            with self._lock:
                # Nothing is added to what has failed.
                self._accumulator.close(batch)
                if parts is not None and not parts.is_last(shipment.count, answers):
                    return
        if parts is not None:
            answers = sorted(parts.answers, key=lambda one: one.first)
        self._note_failures(batch, answers)
        outer = getattr(_answering, "depth", 0)
        _answering.depth = outer + 1
        try:
            if parts is not None or len(answers) > 1:
                batch.delivery.complete_parts(answers)
            elif answer.error is not None:
                batch.delivery.fail(answer.error)
            else:
                batch.delivery.complete(answer.base_offset, answer.log_append_time)
        except (Exception, SystemExit):
            # A callback of the user's. It runs in whatever thread brought the answer, which has others to bring
            # (Kafka logs it too).
            logger.exception("a callback of a record of %s-%d raised", *batch.key)
        finally:
            _answering.depth = outer
            with self._lock:
                self._accumulator.release(batch)
                self._freed.notify_all()

    def _note_failures(self, batch: ProducerBatch, answers: list[Part]) -> None:
        """Before anybody can look at them. What fails in a transaction is told by its end."""
        if self._transacting is not None:
            return
        for answer, end in zip(answers, [*(one.first for one in answers[1:]), batch.count], strict=True):
            if answer.error is not None:
                batch.delivery.failures = self.failures
                self.failures.add(answer.error, end - answer.first)

    # --- the producer id -------------------------------------------------------------------------------------------

    def _ask_id(self) -> None:
        """Ask for a producer id, unless that was done: what waits is sent when it is there."""
        with self._lock:
            if not self._dispatch.ask_id(self._clock.tick_ms()):
                return
        answer: Future[Any]
        try:
            answer = self._cluster.send_any(InitProducerId())
        except Exception as error:  # noqa: BLE001
            answer = failed(error)
        answer.add_done_callback(self._identified)

    def _identified(self, answer: Future[ProducerIdGiven]) -> None:
        error = answer.exception()
        given = answer.result() if error is None else None
        lost: list[InFlightBatch] = []
        with self._lock:
            if given is not None and given.error is None:
                self._dispatch.identify(ProducerEpoch(given.producer_id, given.producer_epoch))
            else:
                refused = error or (given.error if given is not None else None) or PylogError("no answer")
                if not self._dispatch.id_refused(refused, self._clock.tick_ms()):
                    self._fatal = refused
                    lost = self._give_up(refused)
        self._tell_failed(lost)
        self._ship_all()
        self._worker.wake()

    # --- time ------------------------------------------------------------------------------------------------------

    def _next_due(self) -> int | None:
        with self._lock:
            oldest = self._accumulator.oldest_ms
            expiry = None if oldest is None else oldest + self.config.delivery_timeout_ms
            times = (self._accumulator.next_due_ms, self._dispatch.due_ms, expiry)
            return min((time for time in times if time is not None), default=None)

    def _do_due(self) -> None:
        now = self._clock.tick_ms()
        with self._lock:
            ready = self._accumulator.close_due(now)
            self._dispatch.expire(now)
            late = [self._shipment(batch) for batch in self._accumulator.drop(now - self.config.delivery_timeout_ms)]
            again = self._dispatch.due(now)
        for shipment in late:
            shipment.error = overdue(shipment.key, in_flight=False)
        self._tell_failed(late)
        if self._dispatch.lacks_id:
            self._ask_id()
        for key in ready:
            self._ship(key)
        for key in again:
            self._ship(key, patient=True)
