"""Sends records: `send` gives a future at once, batches go out when they are full or have lingered.

A record is encoded as it is sent, into the open batch of its partition: `sending` does that. Whatever else there is to
do for a record is done here, under the producer's lock; `shipping` has what is done for a batch. A full buffer
(`buffer_memory`) makes `send` wait up to `max_block_ms`.

With `transactional_id` what is sent belongs to a transaction, or is refused: `transacting` says which call is allowed.
Those calls wait, in the caller's thread, until the coordinator has answered. (Kafka: KafkaProducer, RecordAccumulator.)
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from pylog.clock import Clock, condition
from pylog.config import ProducerConfig
from pylog.dispatch import ProducerEpoch
from pylog.errors import (
    BufferExhausted,
    Closed,
    InvalidTxnState,
    PylogError,
    RecordTooLarge,
    RequestTimedOut,
    TransactionAborted,
    UnknownTopicOrPartition,
)
from pylog.future import Future
from pylog.kernel import Record, check_fields, checked_headers, record_size_bound
from pylog.message import OffsetCommitPart, OffsetsCommitted, ProducerIdGiven, TxnEnded, TxnOffsetCommit
from pylog.partitioner import RoundRobin, murmur3_partition, partition_for_key
from pylog.producer.shipping import WAITING_MAX, Shipping, logger
from pylog.record import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    RecordMetadata,
    TopicPartition,
    checked_partition,
    checked_position,
)
from pylog.sending import Part, Route
from pylog.transacting import State, Transacting, named, unusable
from pylog.transport import Transport

__all__ = ["WAITING_MAX", "Producer"]


class Producer(Shipping):
    """Sends records to topics. Thread-safe. Use it as a context manager, or `close` it: both flush.

    Made by `Log.producer`; the configs are Kafka's, in `ProducerConfig`. With `transactional_id` it is ready when it is
    made: whoever had that id before is fenced then.
    """

    def __init__(self, transport: Transport, node: int, config: ProducerConfig, clock: Clock) -> None:
        """Raises with transactions: RequestTimedOut (no coordinator within `max_block_ms`), InvalidTxnTimeout..."""
        named_one = config.partitioner if isinstance(config.partitioner, str) else None
        by_key = None if config.partitioner_ignore_keys or named_one == "sticky" else partition_for_key
        if by_key is not None and named_one == "murmur3":
            by_key = murmur3_partition
        self._by_key = by_key
        self._choose = RoundRobin() if named_one == "round_robin" else config.partitioner
        if named_one is not None and named_one != "round_robin":
            self._choose = None
        self._serializes = config.key_serializer is not None or config.value_serializer is not None
        is_usual = by_key is partition_for_key and self._choose is None
        super().__init__(transport, node, config, clock, direct=is_usual and not self._serializes)
        self._closed = False
        self._ending = threading.Lock()
        """Held by the one call of a transaction that waits for its coordinator."""
        if self._transacting is not None:
            try:
                self._converse(self._transacting, self._deadline(None), "be initialised")
            except TimeoutError as error:
                raise RequestTimedOut(f"{error} (max_block_ms)") from error
            except PylogError as error:
                # There is no producer yet that could be closed.
                raise self._transacting.error or error from None

    # --- sending ---------------------------------------------------------------------------------------------------

    def send_many(self, topic: str, records: Iterable[Any]) -> list[Future[RecordMetadata]]:
        """Send each of `records`: a `Record`, or anything else that is a value. Gives their futures, in order.

        Raises what `send` does; the records before that one are sent.
        """
        send = self.send
        return [
            send(topic, one.value, one.key, timestamp_ms=one.timestamp, headers=one.headers)
            if isinstance(one, Record)
            else send(topic, one)
            for one in records
        ]

    def _send_any(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Iterable[tuple[str, bytes | None]],
    ) -> Future[RecordMetadata]:
        if self._serializes:
            key = serialized(self.config.key_serializer, key)
            value = serialized(self.config.value_serializer, value)
        check_fields(value, key, timestamp_ms)
        timestamp = self._clock.wall_ms() if timestamp_ms is None else timestamp_ms
        headers = checked_headers(headers) if headers else ()
        size = record_size_bound(value, key, headers)
        if size > self._record_bytes_max:
            raise RecordTooLarge(
                f"a record of about {size} bytes is over the limit of {self._record_bytes_max} (the smaller of "
                "max_request_size and buffer_memory): raise it, and the topic's max.message.bytes"
            )
        count = self._partitions(topic, partition)
        if partition is None and callable(self._choose):
            partition = self._choose(topic, key, value, count)
            count = self._partitions(topic, partition)
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
        elif first:
            self._worker.wake()
        return future

    def _partitions(self, topic: str, partition: int | None) -> int:
        """How many partitions a topic has; asked anew where it has too few, as it may have got more."""
        if partition is not None and type(partition) is not int:
            raise TypeError(f"partition is {type(partition).__name__}, not int or None")
        count = len(self._cluster.topic(topic).partitions)
        if partition is None or partition < count:
            return count
        self._cluster.refresh([topic])
        return len(self._cluster.topic(topic).partitions)

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

    def _check_usable(self) -> None:
        if self._closed:
            raise Closed("this producer is closed")
        if self._fatal is not None:
            raise unusable(self._fatal) from self._fatal

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
            if left_ms <= 0 or not self._freed.wait(min(left_ms / 1000, threading.TIMEOUT_MAX)):
                raise BufferExhausted(
                    f"{accumulator.bytes_waiting} bytes wait to be answered and buffer_memory is "
                    f"{self.config.buffer_memory}: no room came free within max_block_ms={self.config.max_block_ms}"
                )
        if self._closed:
            raise Closed("this producer was closed while it waited for room in its buffer")
        self._check_usable()

    # --- transactions ----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin a transaction: what is sent from now on is read by `read_committed` readers when it is committed.

        Raises InvalidTxnState (one is open; this producer has no transactional_id), ProducerFenced, Closed.
        """
        with self._lock:
            self._check_usable()
            self._transactions("begin()").begin()

    def commit(self, timeout: float | None = None) -> None:
        """Send what waits, and end the transaction well: all of it is to be read then, and the offsets sent count.

        Raises TransactionAbortable (something of it was not delivered: `abort` it), ProducerFenced (another producer
        took up the id), InvalidTxnState (there is none, or it was too slow and was aborted: make a new producer),
        TimeoutError after `timeout` seconds (None: `max_block_ms`): how it ends is open then, and `commit` again tells.
        """
        self._end(timeout, is_commit=True)

    def abort(self, timeout: float | None = None) -> None:
        """End the transaction as if it had not been. What was not sent yet fails with TransactionAborted.

        Raises ProducerFenced, InvalidTxnState, TimeoutError as `commit` does; then `abort` again.
        """
        self._end(timeout, is_commit=False)

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """`begin`, and `commit` at the end of the block, or `abort` where it raises, or cannot be committed.

        Raises what they do; a producer that was fenced raises ProducerFenced, whatever the block raised.
        """
        self.begin()
        try:
            yield self
            self.commit()
        except BaseException:
            with self._lock:
                undone = self._transacting is not None and self._transacting.state in (
                    State.IN_TRANSACTION, State.ABORTABLE_ERROR
                )  # fmt: skip
            if undone:
                self.abort()
            raise

    def send_offsets(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], group: ConsumerGroupMetadata | str,
        timeout: float | None = None,
    ) -> None:  # fmt: skip
        """Let these positions of a group be committed with the transaction: the offsets of the next records to read.

        `group` is what the consumer's `group_metadata` gives, so that a member which is none any more is refused; a
        mere group id is not checked. Raises TransactionAbortable (refused: `abort` the transaction), ProducerFenced,
        InvalidTxnState, TimeoutError (`abort` the transaction: some of them may have been taken).
        """
        parts = [as_part(key, position) for key, position in offsets.items()]
        whose = ConsumerGroupMetadata(group) if isinstance(group, str) else group
        self._refuse_in_callback("send_offsets")
        deadline = self._deadline(timeout)
        with self._ending:
            with self._lock:
                self._check_usable()
                transacting = self._transactions("send_offsets()")
                message = transacting.offsets(parts, whose) if parts else None
            try:
                self._send_offsets(transacting, message, deadline)
            except BaseException as error:
                # Some of them may be taken: with these alone the transaction would be another one than was meant.
                with self._lock:
                    transacting.batch_failed(error)
                raise

    def _send_offsets(self, transacting: Transacting, message: TxnOffsetCommit | None, deadline: int) -> None:
        attempts = 0
        while message is not None:
            answer = self._ask("group", message.group_id, message, deadline, "have offsets taken")
            if isinstance(answer, PylogError):
                answer = OffsetsCommitted({TopicPartition(p.topic, p.partition): answer for p in message.parts})
            with self._lock:
                message = transacting.offsets_answered(message, answer)
                transacting.check()
            if message is not None:
                attempts += 1
                self._pause(attempts, deadline, "have offsets taken", next(filter(None, answer.errors.values())))

    def _transactions(self, call: str) -> Transacting:
        if self._transacting is None:
            raise InvalidTxnState(f"{call} needs transactions: make the producer with transactional_id=...")
        return self._transacting

    def _end(self, timeout: float | None, *, is_commit: bool) -> None:
        what = "commit" if is_commit else "abort"
        self._refuse_in_callback(what)
        deadline = self._deadline(timeout)
        with self._ending:
            with self._lock:
                self._check_usable()
                transacting = self._transactions(f"{what}()")
            self._end_begun(transacting, deadline, is_commit=is_commit)

    def _end_begun(self, transacting: Transacting, deadline: int, *, is_commit: bool) -> None:
        with self._lock:
            # Nothing joins an open batch from here on.
            self._accumulator.hide()
            lost = []
            if is_commit:
                transacting.commit()
            else:
                error = transacting.error or TransactionAborted("its transaction was aborted before it was sent")
                transacting.abort()
                lost = self._give_up(error)
        self._tell_failed(lost)
        self._flush(deadline, "end the transaction")
        with self._lock:
            transacting.check()
        self._converse(transacting, deadline, "end the transaction")

    def _converse(self, transacting: Transacting, deadline: int, what: str) -> None:
        """Say to the coordinator what there is to say, until it has answered."""
        attempts = 0
        while True:
            with self._lock:
                message = transacting.request()
                if message is None:
                    self._dispatch.identify(ProducerEpoch(transacting.producer_id, transacting.epoch))
                    return
            answer = self._ask("transaction", transacting.transactional_id, message, deadline, what)
            if isinstance(answer, PylogError):
                answer = TxnEnded(answer) if transacting.state is not State.UNINITIALIZED else ProducerIdGiven(answer)
            with self._lock:
                again = transacting.answered(answer)
                transacting.check()
            if again:
                attempts += 1
                self._pause(attempts, deadline, what, answer.error)

    def _ask(self, kind: Any, key: str, message: Any, deadline: int, what: str) -> Any:
        """The coordinator's answer, or the error that came in its place. Raises TimeoutError."""
        left = (deadline - self._clock.tick_ms()) / 1000
        try:
            return self._cluster.send(self._cluster.coordinator(kind, key), message).result(max(left, 0))
        except TimeoutError:
            raise TimeoutError(f"could not {what} in time: the coordinator of {key!r} has not answered") from None
        except PylogError as error:
            return error

    def _pause(self, attempts: int, deadline: int, what: str, error: BaseException | None) -> None:
        """Wait before something is asked again. Raises TimeoutError."""
        until = self._clock.tick_ms() + self._dispatch.backoff_ms(attempts)
        if until > deadline:
            raise TimeoutError(f"could not {what} in time: {named(error)}") from error
        with self._lock:
            while (left_ms := until - self._clock.tick_ms()) > 0:
                self._freed.wait(left_ms / 1000)

    def _deadline(self, timeout: float | None) -> int:
        return self._clock.tick_ms() + (self.config.max_block_ms if timeout is None else round(timeout * 1000))

    # --- the end ---------------------------------------------------------------------------------------------------

    def flush(self, timeout: float | None = None) -> None:
        """Send everything that was given to `send` before, and wait until it is answered: every future is done then.

        What went wrong with a record is in its future. Raises TimeoutError after `timeout` seconds, RuntimeError in a
        callback of a record, where it would wait for itself.
        """
        self._refuse_in_callback("flush")
        self._flush(None if timeout is None else self._deadline(timeout), "be answered")

    def _flush(self, deadline: int | None, what: str) -> None:
        start = self._clock.tick_ms()
        unanswered = self._accumulator.unanswered
        with self._lock:
            ready = self._accumulator.close_due()
            waiting = set(unanswered)
        for key in ready:
            self._ship(key)
        with self._lock:
            while waiting := waiting & unanswered:
                left = None if deadline is None else (deadline - self._clock.tick_ms()) / 1000
                if deadline is not None and left is not None and left <= 0:
                    raise TimeoutError(
                        f"could not {what} in time: {len(waiting)} batches were not answered within "
                        f"{(deadline - start) / 1000:g} s"
                    )
                self._freed.wait(left)

    def _refuse_in_callback(self, what: str) -> None:
        if getattr(self._answering, "depth", 0):
            raise RuntimeError(f"{what} in a callback of a record would wait for that callback to end: do it outside")

    def partitions_for(self, topic: str) -> list[int]:
        """The partition numbers of a topic. Raises UnknownTopicOrPartition."""
        return [p.partition for p in self._cluster.topic(topic).partitions]

    def close(self, timeout: float | None = None) -> None:
        """Abort an open transaction, flush and stop; later sends raise Closed.

        Raises TimeoutError where not all was answered within `timeout` seconds: the futures of what was not fail with
        Closed, which says whether the node may have it.
        """
        self._refuse_in_callback("close")
        with self._lock:
            if self._closed:
                return
            self._refuse()
        deadline = None if timeout is None else self._deadline(timeout)
        try:
            self._abort_open(timeout)
            self._flush(deadline, "close")
        finally:
            self._worker.close()
            self._abandon_unanswered()

    def _abort_open(self, timeout: float | None) -> None:
        transacting = self._transacting
        if transacting is None or transacting.state not in (State.IN_TRANSACTION, State.ABORTABLE_ERROR):
            return
        try:
            with self._ending:
                self._end_begun(transacting, self._deadline(timeout), is_commit=False)
        except (PylogError, TimeoutError) as error:
            logger.warning(
                "transactional id %r: the open transaction was not aborted, its coordinator will do that (%s)",
                transacting.transactional_id, error,
            )  # fmt: skip

    def _abandon_unanswered(self) -> None:
        error = Closed(
            "this producer was closed before the record was answered: whether the node has it is not known. Close it "
            "without a timeout, or with a longer one"
        )
        with self._lock:
            lost = self._give_up(error, in_flight=True)
        for shipment in lost:
            self._tell(shipment, Part(shipment.load.first, error=error))

    def hurry(self) -> None:
        """Send nothing again for which an error comes back from now on: the node is about to close."""
        with self._lock:
            self._dispatch.hurry()

    def abandon(self) -> None:
        """Refuse from now on, and leave what is under way alone: it belongs to the process this one was forked from."""
        # The locks may have been held by threads that do not exist here.
        self._ending = threading.Lock()
        self._lock = threading.Lock()
        self._freed = condition(self._clock, self._lock)
        self._refuse()

    def _refuse(self) -> None:
        # Without routes every `send` comes by `_make_room`, which raises.
        self._closed = True
        self._accumulator.hide()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def serialized(serializer: Callable[[Any], bytes] | None, given: Any) -> Any:
    """What a serializer makes of a key or value; None stays None."""
    return given if serializer is None or given is None else serializer(given)


def as_part(key: TopicPartition, position: int | OffsetAndMetadata) -> OffsetCommitPart:
    """A position that somebody gave, as it is sent. Raises TypeError, ValueError."""
    key = checked_partition(key)
    offset, metadata, leader_epoch = checked_position(key, position)
    return OffsetCommitPart(key.topic, key.partition, offset, leader_epoch, metadata)
