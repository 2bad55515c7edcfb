"""The part of a producer that outlives its handle: it lives until all is delivered, also where the handle is dropped
before.

It does for a record what `record_append` cannot do, and it ends the producer. A full buffer (`buffer_memory`) makes
`send` wait up to `max_block_ms`. With `transactional_id` each record belongs to a transaction, or is refused.

    partitioning    which partition a record goes to
    lifetime        the lock, the threads that wait, the end
    sender          batches, from their queue to an answer
    answers         what follows from it
    transactions    the calls that wait for a coordinator

(Kafka: KafkaProducer, RecordAccumulator.)
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pylog.client.accumulator import Accumulator
from pylog.client.cluster import Cluster, raise_first
from pylog.client.producer.failures import log_failures
from pylog.client.producer.foreign import foreign_batch, make_transactional
from pylog.client.producer.lifetime import CLOSED, Lifetime
from pylog.client.producer.partitioning import Partitioning
from pylog.client.producer.sender import Sender
from pylog.client.producer.transactions import Transactions, refuse_inside
from pylog.client.transaction_manager import TransactionManager
from pylog.config import ProducerConfig
from pylog.errors import (
    BufferExhausted,
    Closed,
    InvalidTxnState,
    PylogError,
    RecordTooLarge,
    RequestTimedOut,
    Undelivered,
    UnknownTopicOrPartition,
)
from pylog.kernel import check_fields, checked_headers, record_size_bound
from pylog.kernel.values import BytesLike, Headers, as_bytes
from pylog.metrics.snapshot import Metrics
from pylog.protocol.batch import Batch
from pylog.protocol.messages.topics import MetadataResponse
from pylog.record import RecordMetadata, TopicPartition
from pylog.runtime.clock import Clock
from pylog.runtime.closing import Lease, drop, warn
from pylog.runtime.future import Future
from pylog.runtime.signals import FIRM, whole
from pylog.transport import Transport


class NoRoom(Exception):  # noqa: N818 - it is no error
    """The buffer is full, and the caller waits for room in its own way. The record was not taken."""


class ProducerClient:
    """The part of a producer that outlives its handle. Thread-safe."""

    def __init__(
        self, transport: Transport, node: int, config: ProducerConfig, clock: Clock, *, waits: bool = True
    ) -> None:
        """Without `waits` a send raises NoRoom where it would wait for room in the buffer, and waits for no other
        thread; `look` tells of what it would wait for besides.
        """
        self.config = config
        self._waits = waits
        self._is_stranded = False
        """True where the log was closed without it."""
        self._partitioning = Partitioning(config)
        self._serializes = config.key_serializer is not None or config.value_serializer is not None
        self._clock = clock
        self.lifetime = self._lifetime = Lifetime(config, clock)
        self._cluster = Cluster(transport, node, config.client_id, creates=config.allow_auto_create_topics)
        self.batches = self._accumulator = Accumulator(
            batch_size=config.batch_size,
            linger_ms=config.linger_ms,
            direct=self._partitioning.is_usual and not self._serializes,
        )
        self.record_bytes_max = min(config.max_request_size, config.buffer_memory)
        name = config.transactional_id
        manager = TransactionManager(name, config.transaction_timeout_ms) if name is not None else None
        self._transaction_manager = manager
        self.sender = Sender(self._cluster, self._accumulator, config, self._lifetime, manager, waits=waits)
        self.transactions = Transactions(manager, self._cluster, self._lifetime, self._accumulator, self.sender)
        self.failures = self.sender.answers.failures
        self._lingers = config.linger_ms > 0
        self._looked_ms: dict[str, int] = {}
        """When each topic was last asked about."""

    def initialise(self) -> None:
        """With a transactional id, take it up. Raises what `Producer()` does."""
        try:
            self.transactions.initialise()
        except TimeoutError as error:
            raise RequestTimedOut(f"{error} (max_block_ms)") from error

    def __repr__(self) -> str:
        return f"<Producer {self.config.transactional_id or self.config.client_id!r}>"

    # --- sending ---------------------------------------------------------------------------------------------------

    def send_any(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Headers,
    ) -> Future[RecordMetadata]:
        """See `RecordAppender.send`."""
        if self._serializes:
            key = serialized(self.config.key_serializer, key)
            value = serialized(self.config.value_serializer, value)
        try:
            return self._send_bytes(topic, value, key, partition, timestamp_ms, headers)
        except PylogError as error:
            self._refused(error)
            raise

    def _refused(self, error: PylogError) -> None:
        # InvalidTxnState: it was in no transaction. Another thread may have begun one since.
        if self._transaction_manager is not None and not isinstance(error, InvalidTxnState):
            # Committed without it, the transaction would be another one than was meant (KafkaProducer.doSend).
            self.transactions.fail_open(error)

    def send_batch(self, topic: str, partition: int, data: bytes | bytearray | memoryview) -> Future[RecordMetadata]:
        """See `Producer.send_batch`."""
        try:
            return self._send_sealed(topic, partition, foreign_batch(data, self.record_bytes_max))
        except PylogError as error:
            self._refused(error)
            raise

    def _send_sealed(self, topic: str, partition: int, batch: Batch) -> Future[RecordMetadata]:
        make_transactional(batch, is_transactional=self._transaction_manager is not None)
        tick_ms = self._clock.tick_ms()
        count = self._partitions(topic, partition, tick_ms)
        key = TopicPartition(topic, self._partition(topic, count, None, partition, batch.size))
        lifetime, accumulator = self._lifetime, self._accumulator
        if not self.sender.has_thread:
            self.sender.begin_thread()
        with FIRM:
            with lifetime.lock.inner:
                self._make_room(batch.size)
                if self._transaction_manager is not None:
                    self._transaction_manager.add()
                future = accumulator.add_sealed(key, batch, tick_ms, self.sender.bring)
            self.sender.ship(key)
            if key in accumulator.queues:
                self.sender.note_waiting()
            return future

    def _send_bytes(
        self, topic: str, value: bytes | None, key: bytes | None, partition: int | None, timestamp_ms: int | None,
        headers: Headers,
    ) -> Future[RecordMetadata]:  # fmt: skip
        if type(value) is not bytes or key is not None:
            value, key = as_bytes(value), as_bytes(key)
        check_fields(value, key, timestamp_ms)
        timestamp = self._clock.wall_ms() if timestamp_ms is None else timestamp_ms
        headers = checked_headers(headers) if headers else ()
        size = record_size_bound(value, key, headers)
        if timestamp < 0 or size > self.record_bytes_max:
            raise self._refusal(timestamp, size)
        tick_ms = self._clock.tick_ms()
        count = self._partitions(topic, partition, tick_ms)
        if partition is None and self._partitioning.choose is not None:
            partition = self._partitioning.choose(topic, key, value, count)
            count = self._partitions(topic, partition, tick_ms)
        lifetime, sender, accumulator, batch = self._lifetime, self.sender, self._accumulator, None
        if not sender.has_thread:
            sender.begin_thread()
        with FIRM:
            with lifetime.lock.inner:
                has_room = accumulator.bytes_waiting + size <= self.config.buffer_memory
                if lifetime.closed or lifetime.fatal is not None or not has_room:
                    self._make_room(size)
                if self._transaction_manager is not None:
                    self._transaction_manager.add()
                chosen = TopicPartition(topic, self._partition(topic, count, key, partition, size))
                is_ready = is_first = False
                if not self._lingers and sender.is_idle(chosen):
                    future, alone = accumulator.alone(chosen, value, key, timestamp, headers, tick_ms, sender.bring)
                    batch = sender.begin_alone(alone)
                else:
                    is_first = self._lingers and accumulator.next_due_ms is None
                    accumulator.route(topic, count)
                    future, is_ready = accumulator.add(chosen, value, key, timestamp, headers, tick_ms, sender.bring)
                    if is_ready:
                        batch = sender.begin(chosen)
            if batch is not None:
                sender.carry_on(batch)
            elif is_ready:
                sender.ship(chosen)
            if is_first and not is_ready:
                sender.note_lingering(tick_ms + self.config.linger_ms)
            elif is_ready and chosen in accumulator.queues:
                sender.note_waiting()
            return future

    def _refusal(self, timestamp: int, size: int) -> Exception:
        if timestamp < 0:
            return ValueError(f"timestamp_ms is {timestamp}: give a time from 0 on, or None for the time of the call")
        return RecordTooLarge(
            f"a record of about {size} bytes is over the limit of {self.record_bytes_max} (the smaller of "
            "max_request_size and buffer_memory): raise it, and the topic's max.message.bytes"
        )

    def _partitions(self, topic: str, partition: int | None, tick_ms: int) -> int:
        """The number of partitions of a topic; asked again where it has too few, as it may have got more."""
        if partition is not None and type(partition) is not int:
            raise TypeError(f"partition is {type(partition).__name__}, not int or None")
        seconds = self.config.max_block_ms / 1000
        if tick_ms - self._looked_ms.setdefault(topic, tick_ms) >= self.config.metadata_max_age_ms:
            self._looked_ms[topic] = tick_ms
            self._cluster.renew(topic)
        count = len(self._cluster.topic(topic, seconds=seconds).partitions)
        if partition is None or partition < count:
            return count
        self._cluster.refresh([topic], seconds=seconds)
        return len(self._cluster.topic(topic, seconds=seconds).partitions)

    def _partition(self, topic: str, count: int, key: bytes | None, partition: int | None, size: int) -> int:
        if partition is not None:
            if not 0 <= partition < count:
                raise UnknownTopicOrPartition(
                    f"topic {topic!r} has no partition {partition}; it has {count}, from 0 on"
                )
            return partition
        if not count:
            raise UnknownTopicOrPartition(f"topic {topic!r} has no partitions")
        named = self._partitioning.by_key(key, count)
        if named is not None:
            return named
        sticky = self._accumulator.sticky(topic)
        chosen = sticky.partition(count)
        sticky.added(size)
        return chosen

    def _make_room(self, size: int) -> None:
        """Wait, with the lock held, until the buffer can take `size` more bytes."""
        lifetime, accumulator = self._lifetime, self._accumulator
        lifetime.check_usable()
        most = self.config.buffer_memory - size
        if accumulator.bytes_waiting <= most:
            return
        deadline = self._clock.tick_ms() + self.config.max_block_ms
        while accumulator.bytes_waiting > most:
            ready = accumulator.close_due()
            if ready:
                lifetime.lock.release()
                try:
                    for key in ready:
                        self.sender.ship(key)
                finally:
                    lifetime.lock.acquire()
                if accumulator.bytes_waiting <= most:
                    break
            left_ms = deadline - self._clock.tick_ms()
            if not self._waits:
                raise NoRoom
            if left_ms <= 0:
                raise self.no_room_in_time()
            lifetime.wait(left_ms / 1000)
        if lifetime.closed:
            raise Closed("this producer was closed while it waited for room in its buffer")
        lifetime.check_usable()

    def no_room_in_time(self) -> BufferExhausted:
        """The error that a send raises in the end where the buffer stays full."""
        return BufferExhausted(
            f"{self._accumulator.bytes_waiting} bytes wait for an answer of {self._cluster.who} and buffer_memory "
            f"is {self.config.buffer_memory}: no room came free within max_block_ms={self.config.max_block_ms}"
        )

    def look(self, topic: str, partition: int | None) -> Future[MetadataResponse] | None:
        """The look-up that a send to a topic waits for first: the answer for `learn`; None where the partitions are
        known.
        """
        known = self._cluster.known([topic]).get(topic)
        if known is not None and (type(partition) is not int or partition < len(known.partitions)):
            return None
        return self._cluster.send_any(self._cluster.question([topic]))

    def learn(self, topic: str, answer: MetadataResponse) -> None:
        """Take over a node's answer about a topic. Raises its error."""
        raise_first(told.error for told in self._cluster.learn(answer, [topic]))

    def measure(self, found: Metrics) -> None:
        """Add the numbers of now; none after the close, as in Kafka."""
        if not self._lifetime.closed:
            self.sender.measure(found)

    # --- the end ---------------------------------------------------------------------------------------------------

    def flush(self, timeout: float | None = None) -> Undelivered | None:
        """See `Producer.flush`."""
        self.refuse_inside("flush")
        self.sender.flush(None if timeout is None else self._lifetime.deadline(timeout), "be answered")
        return self.failures.peek()

    def refuse_inside(self, what: str) -> None:
        """Raise RuntimeError where a call that waits would wait for its own thread: in a callback of a record, and in
        the handler of a signal that has interrupted a send.
        """
        refuse_inside(self.sender, what)

    def partitions_for(self, topic: str) -> list[int]:
        """See `Producer.partitions_for`."""
        self._lifetime.check_open()
        return [p.partition_index for p in self._cluster.topic(topic).partitions]

    @whole
    def close(self, timeout: float | None = None) -> Undelivered | None:
        """See `Producer.close`; gives what that raises last of all."""
        self.refuse_inside("close")
        lifetime = self._lifetime
        deadline = None if timeout is None else lifetime.deadline(timeout)
        closes = False
        try:
            with lifetime.lock:
                # One that a second signal has ended is done by the next.
                closes = lifetime.closer is None and not lifetime.is_over and not lifetime.is_abandoned
                if closes:
                    self._refuse()
                    lifetime.closer = threading.get_ident()
            if not closes:
                self._await_end(deadline)
                return None
            self._end(timeout, deadline)
        except BaseException:
            if closes:
                log_failures(self.failures.take())
            raise
        finally:
            if closes:
                self._note_end()
        return self.failures.take()

    def _note_end(self) -> None:
        with self._lifetime.lock:
            self._lifetime.closer = None
            self._lifetime.note_change()

    def _await_end(self, deadline: int | None) -> None:
        """Wait until the thread that closes it has done so, unless it is this one: in the handler of a signal."""
        lifetime = self._lifetime
        with lifetime.lock:
            while not lifetime.is_over and lifetime.closer not in (None, threading.get_ident()):
                left = None if deadline is None else (deadline - self._clock.tick_ms()) / 1000
                if left is not None and left <= 0:
                    raise TimeoutError("could not close in time: another thread is closing this producer")
                lifetime.wait(left)

    def _end(self, timeout: float | None, deadline: int | None) -> None:
        try:
            self.transactions.abort_open(timeout)
            self.sender.flush(deadline, "close")
        finally:
            try:
                self.sender.close(None if deadline is None else max(deadline - self._clock.tick_ms(), 0) / 1000)
            finally:
                self._abandon_unanswered()
                self._cluster.release(CLOSED)

    @whole
    def _abandon_unanswered(self) -> None:
        error = Closed(
            "this producer was closed before the record was answered: whether the node has it is not known. Close it "
            "without a timeout, or with a longer one"
        )
        with self._lifetime.lock:
            self._lifetime.is_over = True
            self._lifetime.note_change()
            lost = self.sender.answers.give_up(error, in_flight=True)
        self.sender.answers.fail(lost)

    @property
    def closed(self) -> bool:
        """True once a close has begun."""
        return self._lifetime.closed

    @property
    def is_closing_here(self) -> bool:
        """True in the handler of a signal that has interrupted a close in this thread."""
        return self._lifetime.closer == threading.get_ident() and not self._lifetime.is_over

    def close_dropped(self) -> None:
        """Deliver the records of a handle that is gone, and stop. Without a log their futures fail."""
        if self._is_stranded:
            with suppress(TimeoutError):  # the futures say so
                self.close(0)
        else:
            log_failures(self.close())

    def handle_dropped(self, handle: object, lease: Lease) -> None:
        """The handle that programs have is gone: deliver in the background, with a warning. Where the log is closed
        already, the futures fail.
        """
        lease.discard(self)
        if not self.closed:
            self._is_stranded = lease.log.closed
            drop(self, lease.log)
            if not lease.log.closed:
                warn(f"{self} of {lease.log}", handle)

    def hurry(self) -> None:
        """Send nothing again for which an error comes back from now on: the node is about to close."""
        self.sender.hurry()

    def abandon(self) -> None:
        """Refuse from now on, and leave what is under way alone: it belongs to the process this one was forked from."""
        self._lifetime.abandon()
        self.transactions.abandon()
        self._refuse()

    def _refuse(self) -> None:
        # Without routes every `send` comes by `_make_room`, which raises.
        self._lifetime.closed = True
        self._accumulator.hide()


def serialized(serializer: Callable[[Any], BytesLike] | None, given: object) -> Any:
    """The bytes of a key or value; None stays None."""
    return given if serializer is None or given is None else serializer(given)
