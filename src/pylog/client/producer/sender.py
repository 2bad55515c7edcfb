"""The sending of batches from a producer.

The thread that fills a batch ships it. A thread of the producer's own is for `linger_ms`, for what is sent again after
a while, and for what is given up after `delivery_timeout_ms`; it begins before the first record is taken. One thread at
a time ships the batches of a partition, so they keep their order. While it does so the others go on, until so many
batches wait that they have to wait too.

A batch is closed and sealed before it is sent. Without linger the first record of a partition ships its batch at once
where no earlier batch is unanswered. Where one is, the batch stays open and takes what is sent meanwhile, until the
answer comes, it is full, or a caller waits for it (`bring`, `flush`).

`in_flight` says which batch may go, and its number, under the producer's lock. The thread that brings an answer does
what follows from it (`answers`), and ships what may go because of it.
"""

from functools import partial
from threading import get_ident
from time import monotonic

from pylog.client.accumulator import Accumulator
from pylog.client.cluster import Cluster
from pylog.client.in_flight import InFlight, overdue
from pylog.client.in_flight_batch import BatchOutcome, InFlightBatch, ProducerEpoch
from pylog.client.producer.answers import Answers, unsent
from pylog.client.producer.completion import in_callback
from pylog.client.producer.lifetime import Lifetime
from pylog.client.producer.load import Load, Sealer
from pylog.client.record_append import Delivery, ProducerBatch
from pylog.client.transaction_manager import TransactionManager
from pylog.config import ProducerConfig
from pylog.config.options import INT_MAX
from pylog.errors import PylogError
from pylog.metrics import table
from pylog.metrics.snapshot import Metrics
from pylog.protocol.messages import ProduceRequest, ProduceResponse
from pylog.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from pylog.record import TopicPartition
from pylog.runtime.future import Future, failed
from pylog.runtime.signals import FIRM, SLICE, whole
from pylog.runtime.worker import Worker

WAITING_MAX = 4
"""When so many batches of a partition wait for its shipper, the thread that filled the last one waits, too."""


class Sender:
    """Ships the batches of one producer. Thread-safe."""

    def __init__(
        self, cluster: Cluster, accumulator: Accumulator, config: ProducerConfig, lifetime: Lifetime,
        transaction_manager: TransactionManager | None, *, waits: bool = True,
    ) -> None:  # fmt: skip
        """`waits`: a thread that fills a batch may wait until others are shipped."""
        self._waits = waits
        self._cluster = cluster
        self._accumulator = accumulator
        self._config = config
        self._lifetime = lifetime
        self._clock = lifetime.clock
        sealer = Sealer(config)
        self._seal = sealer.seal
        self._in_flight = InFlight(
            idempotent=config.enable_idempotence,
            transactional=transaction_manager is not None,
            in_flight_max=config.max_in_flight_requests_per_connection,
            retries=config.retries,
            backoff_ms=config.retry_backoff_ms,
            backoff_max_ms=config.retry_backoff_max_ms,
        )
        self.answers = Answers(cluster, accumulator, self._in_flight, sealer, lifetime, transaction_manager)
        self._due_to_deadline_ms = config.delivery_timeout_ms - config.linger_ms
        self._shippers: dict[TopicPartition, int] = {}
        """The thread that ships the batches of a partition."""
        self._worker = Worker("pylog-producer", self._clock, self._next_due, self.do_due)
        self.has_thread = False
        """True once it has begun."""
        self.bring = self._bring
        """`_bring`, bound once: each batch has it."""

    def measure(self, found: Metrics) -> None:
        """Add the numbers of now."""
        client_id = self._config.client_id
        for key, counts in list(self._in_flight.counts.items()):
            tags = {"client_id": client_id, "topic": key.topic}
            found.add(table.RECORDS_SENT, counts.records, **tags)
            found.add(table.BYTES_SENT, counts.bytes, **tags)
            found.add(table.BATCHES_SENT, counts.batches, **tags)
            found.add(table.RECORD_ERRORS, counts.errors, **tags)
            found.add(table.RECORD_RETRIES, counts.retries, **tags)
        busy = list(self._in_flight.busy.values())
        found.add(table.REQUESTS_IN_FLIGHT, sum(len(lane.unanswered) for lane in busy), client_id=client_id)
        most, waiting = self._config.buffer_memory, self._accumulator.bytes_waiting
        found.add(table.BUFFER_TOTAL, most, client_id=client_id)
        found.add(table.BUFFER_AVAILABLE, most - waiting, client_id=client_id)

    # --- leaving ---------------------------------------------------------------------------------------------------

    def ship(self, key: TopicPartition, *, patient: bool | None = None, is_urgent: bool = False) -> None:
        """Send what may go of a partition, in order.

        Where another thread ships it, that thread sends it: wait for that if `patient` (None: if many wait).
        `is_urgent`: a caller waits, so an open batch goes too.
        """
        with FIRM:
            if self._in_flight.lacks_id:
                self._ask_id()
            with self._lifetime.lock.inner:
                batch = self.begin(key, is_urgent=is_urgent)
                while batch is None and self._has_to_wait(key, patient=patient):
                    self._lifetime.wait_firmly(SLICE)
                    batch = self.begin(key, is_urgent=is_urgent)
            if batch is not None:
                self.carry_on(batch)

    def begin(self, key: TopicPartition, *, is_urgent: bool = False) -> InFlightBatch | None:
        """With the lock held: take the next batch of a partition; this thread owes `carry_on` then.

        None where nothing may go, or where another thread ships it, which looks again before it stops.
        """
        if key in self._shippers:
            return None
        batch = self._take(key, is_urgent=is_urgent)
        if batch is not None:
            self._shippers[key] = get_ident()
        return batch

    def is_idle(self, key: TopicPartition) -> bool:
        """With the lock held: True where nothing of a partition waits or is on its way, and a new batch may go."""
        in_flight = self._in_flight
        return not (key in in_flight.busy or key in self._accumulator.queues or key in self._shippers) and (
            in_flight.may_take(key) is True
        )

    def begin_alone(self, batch: ProducerBatch) -> InFlightBatch:
        """With the lock held: take a batch of a partition that is idle; this thread owes `carry_on`."""
        taken = InFlightBatch(batch.key, Load(batch), batch.count, batch.due_ms + self._due_to_deadline_ms)
        self._in_flight.take(taken)
        self._shippers[batch.key] = get_ident()
        return taken

    def carry_on(self, batch: InFlightBatch) -> None:
        """Send a batch, and those of its partition that may go after it. The caller is in a FIRM block."""
        key = batch.key
        following: InFlightBatch | None = batch
        lifetime, queues, busy = self._lifetime, self._accumulator.queues, self._in_flight.busy
        lock = lifetime.lock.inner
        try:
            while following is not None:
                self._send(following)
                with lock:
                    # While a batch waits for its answer, none of its partition is to be sent again.
                    may_follow = key in queues or (following.answer is None and key in busy)
                    following = self._take(key) if may_follow else None
                    if following is None:
                        self._leave(key)
        except BaseException:
            with lock:
                self._leave(key)
            raise

    def _leave(self, key: TopicPartition) -> None:
        self._shippers.pop(key, None)
        if self._lifetime.waiting:
            self._lifetime.note_change()

    def _has_to_wait(self, key: TopicPartition, *, patient: bool | None) -> bool:
        shipper = self._shippers.get(key)
        if shipper is None or shipper == get_ident():
            # In a callback of a batch that this thread ships: the loop that it was called from goes on.
            return False
        if patient is None:
            patient = self._waits and self._accumulator.ready(key) >= WAITING_MAX and not self._is_in_the_way()
        return patient and self._sendable(key)

    def _is_in_the_way(self) -> bool:
        """True where others may wait for this thread: it is in a callback, or it ships another partition. Two such
        threads would wait for each other.
        """
        return in_callback() or self.is_shipping_here

    @property
    def is_shipping_here(self) -> bool:
        """True where a callback, or the handler of a signal, has interrupted this thread as it ships."""
        return get_ident() in list(self._shippers.values())

    def _sendable(self, key: TopicPartition) -> bool:
        may_take = self._in_flight.may_take(key)
        if may_take is None:
            return self._in_flight.next_again(key, self._clock.tick_ms(), peek=True) is not None
        return may_take and self._accumulator.ready(key) > 0

    def _take(self, key: TopicPartition, *, is_urgent: bool = False) -> InFlightBatch | None:
        in_flight = self._in_flight
        may_take = in_flight.may_take(key)
        if may_take is None:
            return in_flight.next_again(key, self._clock.tick_ms())
        if not may_take:
            return None
        found = self._accumulator.take(key, closed=not is_urgent and key in in_flight.busy)
        if found is None:
            return None
        batch = InFlightBatch(key, Load(found), found.count, found.due_ms + self._due_to_deadline_ms)
        in_flight.take(batch)
        return batch

    def _ship_all(self) -> None:
        with self._lifetime.lock:
            keys = {*self._accumulator.ready_keys(), *self._in_flight.due(self._clock.tick_ms())}
        for key in keys:
            self.ship(key, patient=False)

    def _send(self, batch: InFlightBatch) -> None:
        key, config = batch.key, self._config
        try:
            topic_id, leader = self._cluster.destination(key)
            sealed, counts = self._seal(batch), batch.counts
            counts.batches += 1
            counts.records += batch.count
            counts.bytes += sealed.size
            message = ProduceRequest.of(
                key.topic, key.partition, sealed, topic_id, config.transactional_id, acks=config.acks,
                timeout_ms=config.request_timeout_ms,
            )  # fmt: skip
            answer: Future[ProduceResponse] = self._cluster.send(leader, message)
        except BaseException as error:
            self._conclude(batch, failed(error))
            if not isinstance(error, Exception):
                raise
            # An error is for the futures: this thread may be the producer's, or another sender's.
            return
        if answer.done():
            if not self.answers.deliver(batch, answer):
                self._conclude(batch, answer)
            return
        batch.answer = answer
        answer.add_done_callback(partial(self._hear, batch))
        self._worker.wake_by(batch.deadline_ms)

    # --- waiting ---------------------------------------------------------------------------------------------------

    def _bring(self, delivery: Delivery, timeout: float | None) -> None:
        """Do what the answer of a batch waits for, up to `timeout` seconds: ship it, and drive the node's appends.

        A thread that waits for a record calls this first. A batch that lingers goes on lingering.
        """
        key = TopicPartition(delivery.topic, delivery.partition)
        deadline = None if timeout is None else monotonic() + timeout
        while delivery.bring is not None and not self._lifetime.is_abandoned:
            if key in self._accumulator.queues:
                self.ship(key, patient=False, is_urgent=True)
            answer = self._in_flight.oldest_answer(key)
            if answer is None or answer.done():
                return
            left = None if deadline is None else deadline - monotonic()
            if left is not None and left <= 0:
                return
            answer.drive(left)
            if not answer.done():
                return

    def sole_answer(self) -> Future[ProduceResponse] | None:
        """The answer that this producer waits for, if there is only one."""
        busy = list(self._in_flight.busy)
        return self._in_flight.oldest_answer(busy[0]) if len(busy) == 1 else None

    def push(self) -> set[ProducerBatch]:
        """Let everything that was given to `send` before go as soon as it may; gives the batches that it is in."""
        with self._lifetime.lock:
            ready = self._accumulator.close_due()
            waiting = set(self._accumulator.unanswered)
        for key in ready:
            self.ship(key)
        return waiting

    @whole
    def flush(self, deadline: int | None, what: str) -> None:
        """Send everything that was given to `send` before, and wait until it is answered. Raises TimeoutError."""
        start = self._clock.tick_ms()
        lifetime, unanswered = self._lifetime, self._accumulator.unanswered
        waiting = self.push()
        for batch in waiting:
            left = None if deadline is None else max(deadline - self._clock.tick_ms(), 0) / 1000
            self._bring(batch.delivery, left)
        if waiting.isdisjoint(unanswered):
            return
        with lifetime.lock:
            while waiting := waiting & unanswered:
                now = self._clock.tick_ms()
                left = None if deadline is None else (deadline - now) / 1000
                if left is not None and left <= 0:
                    waited = (now - start) / 1000
                    raise TimeoutError(
                        f"could not {what} in time: {len(waiting)} batches are not answered after {waited:g} s "
                        f"({self._cluster.who} was asked)"
                    )
                lifetime.wait(left)

    # --- coming back -----------------------------------------------------------------------------------------------

    def _hear(self, batch: InFlightBatch, answer: Future[ProduceResponse]) -> None:
        with FIRM:
            batch.answer = None
            if not self.answers.deliver(batch, answer):
                self._conclude(batch, answer)
            elif batch.key in self._accumulator.queues or batch.key in self._in_flight.busy:
                self.ship(batch.key, patient=False)
                self._note_again(batch.key)

    def _conclude(self, batch: InFlightBatch, answer: Future[ProduceResponse]) -> None:
        """In a FIRM block: do what follows from an answer, or from what kept a batch from leaving."""
        key = batch.key
        outcome = self.answers.conclude(batch, answer)
        if self._shippers.get(key) != get_ident():
            self.ship(key, patient=False)
        if outcome is BatchOutcome.AGAIN:
            self._worker.wake()
        else:
            self._note_again(key)

    def _note_again(self, key: TopicPartition) -> None:
        """Wake the thread where the next batch of a partition is to be sent again after a while."""
        if key in self._in_flight.busy and self._in_flight.may_take(key) is None:
            self._worker.wake()

    # --- the producer id -------------------------------------------------------------------------------------------

    def identify(self, producer: ProducerEpoch) -> None:
        """With the lock held: number what begins from now on by `producer`."""
        self._in_flight.identify(producer)

    def _ask_id(self) -> None:
        """Ask for a producer id, unless that was done: what waits is sent when it is there."""
        with self._lifetime.lock:
            if not self._in_flight.ask_id(self._clock.tick_ms()):
                return
        answer: Future[InitProducerIdResponse]
        try:
            # Without transactions their timeout means nothing. (Kafka: TransactionManager)
            answer = self._cluster.send_any(
                InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=INT_MAX)
            )
        except Exception as error:  # noqa: BLE001
            answer = failed(error)
        answer.add_done_callback(self._identified)

    def _identified(self, answer: Future[InitProducerIdResponse]) -> None:
        error = answer.exception()
        given = answer.result() if error is None else None
        lost: list[InFlightBatch] = []
        with self._lifetime.lock:
            if given is not None and given.error is None:
                self._in_flight.identify(ProducerEpoch(given.producer_id, given.producer_epoch))
            else:
                refused = error or (given.error if given is not None else None) or PylogError("no answer")
                if not self._in_flight.id_refused(refused, self._clock.tick_ms()):
                    self._lifetime.fatal = refused
                    lost = self.answers.give_up(refused)
        self.answers.fail(lost)
        self._ship_all()
        self._worker.wake()

    # --- time, and the end -----------------------------------------------------------------------------------------

    def begin_thread(self) -> None:
        """Have the thread, before a record is taken that only it may send, or give up. Raises ThreadsExhausted."""
        self._worker.begin()
        self.has_thread = True

    def note_waiting(self) -> None:
        """Have the thread give up some day what cannot go now."""
        self._worker.wake()

    def note_lingering(self, due_ms: int) -> None:
        """Have the thread ship at that tick what lingers until then."""
        self._worker.wake_by(due_ms)

    def backoff_ms(self, attempts: int) -> int:
        """The time to wait after so many attempts."""
        return self._in_flight.backoff_ms(attempts)

    def hurry(self) -> None:
        """Send nothing again for which an error comes back from now on."""
        with self._lifetime.lock:
            self._in_flight.hurry()

    def close(self, timeout: float | None) -> None:
        """Stop the thread, and wait for it for so many seconds."""
        self._worker.close(timeout)

    def _next_due(self) -> int | None:
        with self._lifetime.lock:
            oldest = self._accumulator.oldest_ms
            expiry = None if oldest is None else oldest + self._config.delivery_timeout_ms
            times = (self._accumulator.next_due_ms, self._in_flight.due_ms, expiry)
            return min((time for time in times if time is not None), default=None)

    def do_due(self) -> None:
        """Do what is due: the thread does, or a simulation of time."""
        now = self._clock.tick_ms()
        with self._lifetime.lock:
            ready = self._accumulator.close_due(now)
            who, refusals = self._cluster.who, self._in_flight.refusals()
            self._in_flight.expire(now, who)
            late = [
                unsent(batch, overdue(batch.key, who, in_flight=False, refusal=refusals.get(batch.key)))
                for batch in self._accumulator.drop(now - self._config.delivery_timeout_ms)
            ]
            again = self._in_flight.due(now)
        self.answers.fail(late)
        if self._in_flight.lacks_id:
            self._ask_id()
        for key in ready:
            self.ship(key)
        for key in again:
            self.ship(key, patient=True)
