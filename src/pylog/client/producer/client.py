"""What of a producer lives until all is delivered: its thread knows this, and not the handle, which may be dropped.

What `record_append` cannot do for a record is done here, under the producer's lock; `sender` has what is done for a
batch. A full buffer (`buffer_memory`) makes `send` wait up to `max_block_ms`.

With `transactional_id` what is sent belongs to a transaction, or is refused: `transaction_manager` says which call is
allowed. Those calls are in `transactions`. (Kafka: KafkaProducer, RecordAccumulator.)
"""

import threading
from collections.abc import Callable, Iterable
from typing import Any

from pylog.client.producer.failures import log_failures
from pylog.client.producer.transactions import TransactionalSender
from pylog.client.record_append import Part, Route
from pylog.client.transaction_manager import TransactionManagerState
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
from pylog.protocol.partitioner import RoundRobinPartitioner, murmur3_partition, partition_for_key
from pylog.record import RecordMetadata, TopicPartition
from pylog.runtime.clock import Clock, condition
from pylog.runtime.future import Future
from pylog.runtime.signals import FIRM, WholeLock, wait_at, whole
from pylog.transport import Transport


class ProducerClient(TransactionalSender):
    """A producer but for its handle. Thread-safe."""

    def __init__(self, transport: Transport, node: int, config: ProducerConfig, clock: Clock) -> None:
        named_one = config.partitioner if isinstance(config.partitioner, str) else None
        by_key = None if config.partitioner_ignore_keys or named_one == "sticky" else partition_for_key
        if by_key is not None and named_one == "murmur3":
            by_key = murmur3_partition
        self._by_key = by_key
        self._choose = RoundRobinPartitioner() if named_one == "round_robin" else config.partitioner
        if named_one is not None and named_one != "round_robin":
            self._choose = None
        self._serializes = config.key_serializer is not None or config.value_serializer is not None
        is_usual = by_key is partition_for_key and self._choose is None
        super().__init__(transport, node, config, clock, direct=is_usual and not self._serializes)
        self._looked_ms: dict[str, int] = {}
        """When each topic was last asked about."""

    def initialise(self) -> None:
        """With a transactional id, take it up. Raises what `Producer()` does."""
        if self._transacting is not None:
            try:
                self._converse(self._transacting, self._deadline(None), "be initialised")
            except TimeoutError as error:
                raise RequestTimedOut(f"{error} (max_block_ms)") from error
            except PylogError as error:
                # There is no producer yet that could be closed.
                raise self._transacting.error or error from None

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
        headers: Iterable[tuple[str, bytes | None]],
    ) -> Future[RecordMetadata]:
        """See `Sender.send`."""
        if self._serializes:
            key = serialized(self.config.key_serializer, key)
            value = serialized(self.config.value_serializer, value)
        try:
            return self._send_bytes(topic, value, key, partition, timestamp_ms, headers)
        except InvalidTxnState:
            # It was in no transaction. Another thread may have begun one since.
            raise
        except PylogError as error:
            if self._transacting is not None and self._transacting.state is TransactionManagerState.IN_TRANSACTION:
                # Committed without it, the transaction would be another one than was meant (KafkaProducer.doSend).
                self._fail_transaction(error)
            raise

    def _send_bytes(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Iterable[tuple[str, bytes | None]],
    ) -> Future[RecordMetadata]:
        check_fields(value, key, timestamp_ms)
        if timestamp_ms is not None and timestamp_ms < 0:
            raise ValueError(f"timestamp_ms is {timestamp_ms}: give a time from 0 on, or None for the time of the call")
        timestamp = self._clock.wall_ms() if timestamp_ms is None else timestamp_ms
        headers = checked_headers(headers) if headers else ()
        size = record_size_bound(value, key, headers)
        if size > self.record_bytes_max:
            raise RecordTooLarge(
                f"a record of about {size} bytes is over the limit of {self.record_bytes_max} (the smaller of "
                "max_request_size and buffer_memory): raise it, and the topic's max.message.bytes"
            )
        count = self._partitions(topic, partition)
        if partition is None and callable(self._choose):
            partition = self._choose(topic, key, value, count)
            count = self._partitions(topic, partition)
        with FIRM:
            with self._lock:
                self._make_room(size)
                if self._transacting is not None:
                    self._transacting.add()
                route = self._accumulator.route(topic, count)
                chosen = TopicPartition(topic, self._partition(route, topic, count, key, partition, size))
                first = self._accumulator.next_due_ms is None
                future, ready = self._accumulator.add(chosen, value, key, timestamp, headers, self._clock.tick_ms())
            if ready:
                self._ship(chosen)
            if first or (ready and self._accumulator.ready(chosen)):
                # What could not go now is given up some day.
                self._worker.wake()
            return future

    def _partitions(self, topic: str, partition: int | None) -> int:
        """How many partitions a topic has; asked anew where it has too few, as it may have got more."""
        if partition is not None and type(partition) is not int:
            raise TypeError(f"partition is {type(partition).__name__}, not int or None")
        seconds = self.config.max_block_ms / 1000
        now = self._clock.tick_ms()
        if now - self._looked_ms.setdefault(topic, now) >= self.config.metadata_max_age_ms:
            self._looked_ms[topic] = now
            self._cluster.renew(topic)
        count = len(self._cluster.topic(topic, seconds=seconds).partitions)
        if partition is None or partition < count:
            return count
        self._cluster.refresh([topic], seconds=seconds)
        return len(self._cluster.topic(topic, seconds=seconds).partitions)

    def _partition(
        self, route: Route, topic: str, count: int, key: bytes | None, partition: int | None, size: int
    ) -> int:
        if partition is not None:
            if not 0 <= partition < count:
                raise UnknownTopicOrPartition(
                    f"topic {topic!r} has no partition {partition}; it has {count}, from 0 on"
                )
            return partition
        if key is not None and self._by_key is not None:
            return self._by_key(key, count)
        chosen = route.sticky.partition(count)
        route.sticky.added(size)
        return chosen

    def _make_room(self, size: int) -> None:
        """Wait, with the lock held, until the buffer can take `size` more bytes."""
        self._check_usable()
        accumulator = self._accumulator
        most = self.config.buffer_memory - size
        if accumulator.bytes_waiting <= most:
            return
        deadline = self._clock.tick_ms() + self.config.max_block_ms
        while accumulator.bytes_waiting > most:
            ready = accumulator.close_due()
            if ready:
                self._lock.release()
                try:
                    for key in ready:
                        self._ship(key)
                finally:
                    self._lock.acquire()
                if accumulator.bytes_waiting <= most:
                    break
            left_ms = deadline - self._clock.tick_ms()
            if left_ms <= 0:
                raise BufferExhausted(
                    f"{accumulator.bytes_waiting} bytes wait to be answered and buffer_memory is "
                    f"{self.config.buffer_memory}: no room came free within max_block_ms={self.config.max_block_ms}"
                )
            wait_at(self._freed, left_ms / 1000)
        if self._closed:
            raise Closed("this producer was closed while it waited for room in its buffer")
        self._check_usable()

    # --- the end ---------------------------------------------------------------------------------------------------

    def flush(self, timeout: float | None = None) -> Undelivered | None:
        """See `Producer.flush`."""
        self.refuse_inside("flush")
        self._flush(None if timeout is None else self._deadline(timeout), "be answered")
        return self.failures.peek()

    def partitions_for(self, topic: str) -> list[int]:
        """See `Producer.partitions_for`."""
        return [p.partition for p in self._cluster.topic(topic).partitions]

    @whole
    def close(self, timeout: float | None = None) -> Undelivered | None:
        """See `Producer.close`; gives what that raises last of all."""
        self.refuse_inside("close")
        deadline = None if timeout is None else self._deadline(timeout)
        with self._lock:
            is_first = not self._closed
            if is_first:
                self._refuse()
                self._closer = threading.get_ident()
        if not is_first:
            self._await_end(deadline)
            return None
        try:
            self._end(timeout, deadline)
        except BaseException:
            log_failures(self.failures.take())
            raise
        return self.failures.take()

    def _await_end(self, deadline: int | None) -> None:
        """Wait until the thread that closes it has done so, unless it is this one: in the handler of a signal."""
        with self._lock:
            while not self._is_over and self._closer not in (None, threading.get_ident()):
                left = None if deadline is None else (deadline - self._clock.tick_ms()) / 1000
                if left is not None and left <= 0:
                    raise TimeoutError("could not close in time: another thread is closing this producer")
                wait_at(self._freed, left)

    def _end(self, timeout: float | None, deadline: int | None) -> None:
        try:
            self._abort_open(timeout)
            self._flush(deadline, "close")
        finally:
            try:
                self._worker.close(None if deadline is None else max(deadline - self._clock.tick_ms(), 0) / 1000)
            finally:
                self._abandon_unanswered()

    @whole
    def _abandon_unanswered(self) -> None:
        error = Closed(
            "this producer was closed before the record was answered: whether the node has it is not known. Close it "
            "without a timeout, or with a longer one"
        )
        with self._lock:
            self._is_over = True
            self._freed.notify_all()
            lost = self._give_up(error, in_flight=True)
        for shipment in lost:
            self._tell(shipment, Part(shipment.load.first, error=error))

    @property
    def closed(self) -> bool:
        """Whether somebody has closed it, or begun to."""
        return self._closed

    @property
    def is_closing_here(self) -> bool:
        """Whether this thread is about to close it: the handler of a signal has interrupted that."""
        return self._closer == threading.get_ident() and not self._is_over

    def close_dropped(self) -> None:
        """Deliver what the handle was given that is gone, and stop."""
        log_failures(self.close())

    def hurry(self) -> None:
        """Send nothing again for which an error comes back from now on: the node is about to close."""
        with self._lock:
            self._dispatch.hurry()

    def abandon(self) -> None:
        """Refuse from now on, and leave what is under way alone: it belongs to the process this one was forked from."""
        # The locks may have been held by threads that do not exist here.
        self._ending = threading.RLock()
        self._lock = WholeLock()
        self._freed = condition(self._clock, self._lock)
        self._refuse()

    def _refuse(self) -> None:
        # Without routes every `send` comes by `_make_room`, which raises.
        self._closed = True
        self._accumulator.hide()


def serialized(serializer: Callable[[Any], bytes] | None, given: Any) -> Any:
    """What a serializer makes of a key or value; None stays None."""
    return given if serializer is None or given is None else serializer(given)
