"""Sending records: `send` gives a future at once, and batches go out when they are full or have lingered.

    Producer                the handle of a user, which may be dropped
    client                  the producer behind it: records, from `send` to a batch, and the end
    lifetime                its lock, the threads that wait in it, and its end
    sender                  batches, from their queue to an answer
    load                    the bytes of a batch, and its parts where it is too large
    foreign                 the batches that someone else has encoded
    answers                 what follows from an answer
    completion              the futures of a batch, and the callbacks of its records
    failures                the records that failed and were not looked at
    transactions            the calls that wait for a coordinator

What a `send` may wait for, and where:

    client      the topic's partitions, up to `max_block_ms`; room in the buffer (`buffer_memory`)
    sender      the batches of its partition, where another thread ships them and `WAITING_MAX` are left behind; the
                thread that fills a batch ships it, so an append or a sync of the node may be in the way (broker/produce
                has what waits there)

A future waits for `linger_ms` besides, and for a batch ahead of its own.

A record is encoded as it is sent, into the open batch of its partition (`record_append`). (Kafka: KafkaProducer.)
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Generic, NoReturn, Self

from pylog.client.producer.client import ProducerClient
from pylog.client.producer.failures import tell_failures
from pylog.client.producer.sender import WAITING_MAX
from pylog.client.record_append import RecordAppender
from pylog.config import ProducerConfig
from pylog.errors import Undelivered
from pylog.kernel import Record
from pylog.kernel.values import SentKey, SentValue
from pylog.record import ConsumerGroupMetadata, OffsetAndMetadata, RecordMetadata, TopicPartition
from pylog.runtime.clock import Clock
from pylog.runtime.closing import Lease
from pylog.runtime.future import Future
from pylog.runtime.signals import WHOLE
from pylog.transport import Transport

__all__ = ["WAITING_MAX", "Producer"]


class Producer(RecordAppender[SentKey, SentValue], Generic[SentKey, SentValue]):
    """Sends records to topics. Thread-safe. Use it as a context manager, or `close` it: both flush.

    Made by `Log.producer`; the configs are Kafka's, in `ProducerConfig`. With `transactional_id` it is ready when it is
    made: an earlier producer with that id is fenced then. A producer that is dropped without `close` delivers its
    records in the background, or when the process ends, and is a ResourceWarning.

    >>> producer = log.producer()
    >>> producer.send("orders", b"cup", key=b"bob").result().offset
    3
    """

    _lease: Lease | None = None

    def __init__(
        self, transport: Transport, node: int, config: ProducerConfig, clock: Clock, lease: Lease | None = None
    ) -> None:
        """Raises with transactions: RequestTimedOut (no coordinator within `max_block_ms`), InvalidTxnTimeout, Closed
        (the log was closed meanwhile)...
        """
        self.config = config
        self._client = client = ProducerClient(transport, node, config, clock)
        if lease is not None:
            # Before it waits for anything: a close of the log is to end that.
            lease.add(client)
        try:
            client.initialise()
        except BaseException:
            if lease is not None:
                lease.discard(client)
            raise
        super().__init__(client.batches, clock, client.record_bytes_max, config.buffer_memory, client.send_any)
        self._lease = lease

    def __del__(self) -> None:
        # A handler that keeps the warning must not keep the log.
        lease, self._lease = self._lease, None
        if lease is not None:
            self._client.handle_dropped(self, lease)

    def __repr__(self) -> str:
        name = self.config.transactional_id or self.config.client_id
        log = "" if self._lease is None else f" of {self._lease.log}"
        return f"<Producer{f' {name!r}' if name else ''}{log}{', closed' if self._client.closed else ''}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a producer belongs to its process, and is not pickled: make one there, by log.producer(...)")

    def send_many(self, topic: str, records: Iterable[Record | SentValue | None]) -> list[Future[RecordMetadata]]:
        """Send each of `records`: a `Record`, or anything else that is a value. Gives their futures, in order.

        Raises what `send` does; the records before that one are sent.

        >>> sent = producer.send_many("orders", [b"hat", pylog.Record(b"tea", b"eve")])
        >>> [future.result().offset for future in sent]
        [4, 5]
        """
        send: Any = self.send
        return [
            send(topic, one.value, one.key, timestamp_ms=one.timestamp, headers=one.headers)
            if isinstance(one, Record)
            else send(topic, one)
            for one in records
        ]

    def send_batch(self, topic: str, partition: int, batch: bytes | bytearray | memoryview) -> Future[RecordMetadata]:
        """Send a record batch that is encoded already (format v2, whole, with its CRC), and nothing of it is decoded.

        It goes behind the records that were sent before. Its producer id, epoch and sequence, and whether it belongs to
        a transaction, become this producer's; its codec and timestamps stay. The future is that of its first record: a
        node has all of them or none. Do not change the bytes before the future is done.
        Raises: CorruptBatch, UnsupportedFormat, ValueError (control records, none, or gaps), RecordTooLarge (the batch
        is over `max_request_size` or `buffer_memory`), and what `send` does.

        >>> topic = log.create_topic("copies", partitions=2)
        >>> appended = topic[0].append([pylog.Record(b"hat"), pylog.Record(b"tea")])
        >>> producer.send_batch("copies", 1, topic[0].read(0)).result().offset
        0
        """
        return self._client.send_batch(topic, partition, batch)

    def partitions_for(self, topic: str) -> list[int]:
        """The partition numbers of a topic. Raises UnknownTopicOrPartition.

        >>> producer.partitions_for("orders")
        [0]
        """
        return self._client.partitions_for(topic)

    # --- transactions ----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin a transaction: what is sent from now on is read by `read_committed` readers when it is committed.

        In a transaction, the result of `send` says that the node has the record, and where: it is durable with the
        commit or about a second later, or when a `read_uncommitted` reader wants it. A power cut before the commit
        aborts it; a killed process of the log does not.

        Raises InvalidTxnState (one is open; this producer has no transactional_id), ProducerFenced, Closed.

        >>> teller = log.producer(transactional_id="teller")
        >>> teller.begin()
        >>> sent = teller.send("orders", b"hat")
        >>> teller.commit()
        """
        self._client.transactions.begin()

    def commit(self, timeout: float | None = None) -> None:
        """Send what waits, and end the transaction well: when this returns, all of it is as durable as `flush` says,
        `read_committed` readers find it, and the offsets sent count.

        Raises TransactionAbortable (something of it was not delivered: `abort` it), ProducerFenced (another producer
        took up the id), InvalidTxnState (no transaction is open, or it was too slow and was aborted: make a new
        producer),
        TimeoutError after `timeout` seconds (None: `max_block_ms`): how it ends is open then, and `commit` again tells.

        >>> with log.producer(transactional_id="teller") as teller:
        ...     teller.begin()
        ...     sent = teller.send("orders", b"hat")
        ...     teller.commit()
        >>> sent.result().offset
        4
        """
        self._client.transactions.end_transaction(timeout, is_commit=True)

    def abort(self, timeout: float | None = None) -> None:
        """End the transaction as if it had not been. What was not sent yet fails with TransactionAborted.

        Raises ProducerFenced, InvalidTxnState, TimeoutError as `commit` does; then `abort` again.

        >>> with log.producer(transactional_id="teller") as teller:
        ...     teller.begin()
        ...     sent = teller.send("orders", b"hat")
        ...     teller.abort()
        >>> [record.value for record in log.topic("orders").records(isolation_level="read_committed")]
        [b'book', b'pen', b'ink', b'cup']
        """
        self._client.transactions.end_transaction(timeout, is_commit=False)

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """`begin`, and `commit` at the end of the block, or `abort` where it raises, or cannot be committed.

        Raises what they do; a producer that was fenced raises ProducerFenced, whatever the block raised.

        >>> teller = log.producer(transactional_id="teller")
        >>> with teller.transaction():
        ...     sent = teller.send_many("orders", [b"hat", b"tea"])
        >>> [future.result().offset for future in sent]
        [4, 5]
        """
        has_begun = False
        try:
            with WHOLE:
                self.begin()
                has_begun = True
            yield self
            self.commit()
        except BaseException:
            if has_begun and self._client.transactions.is_undone:
                self.abort()
            raise

    def send_offsets(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], group: ConsumerGroupMetadata | str,
        timeout: float | None = None,
    ) -> None:  # fmt: skip
        """Let these positions of a group be committed with the transaction: the offsets of the next records to read.

        `group` is what the consumer's `group_metadata` gives, so that a former member is refused; a
        mere group id is not checked. Raises TransactionAbortable (refused: `abort` the transaction), ProducerFenced,
        InvalidTxnState, TimeoutError (`abort` the transaction: some of them may have been taken).

        >>> consumer = log.consumer(
        ...     "orders", group_id="billing", auto_offset_reset="earliest", enable_auto_commit=False
        ... )
        >>> order, teller = next(consumer), log.producer(transactional_id="teller")
        >>> with teller.transaction():
        ...     teller.send_offsets({orders: order.offset + 1}, consumer.group_metadata())
        >>> log.admin.committed("billing")[orders].offset
        1
        """
        self._client.transactions.send_offsets(offsets, group, timeout)

    # --- the end ---------------------------------------------------------------------------------------------------

    def flush(self, timeout: float | None = None) -> Undelivered | None:
        """Send everything that was given to `send` before, and wait until it is answered: every future is done then.

        What went wrong with a record is in its future. Gives what `close` would raise now: how many records have failed
        and were not looked at, or None. Raises TimeoutError after `timeout` seconds, which a queue
        that is full and makes its senders wait (`pylog.full.policy`) may turn into `request_timeout_ms`. Raises
        RuntimeError in a callback of a record of any producer, and in the handler of a signal that has interrupted a
        send, where it would wait for itself.

        >>> future = producer.send("orders", b"hat")
        >>> producer.flush()
        >>> future.done()
        True
        """
        return self._client.flush(timeout)

    def close(self, timeout: float | None = None) -> None:
        """Abort an open transaction, flush and stop; later sends raise Closed. Where another thread is at that already,
        wait for it.

        Raises TimeoutError where not all was answered within `timeout` seconds, and what the handler of a signal does
        that comes while it waits: the futures of what was not answered fail with Closed, which says whether the node
        may have it. Raises Undelivered, when all is closed, where records have failed that were not looked at: by
        `result` or `exception` of the future, or with a callback. Where another error ends the block, it is logged.
        Records of a transaction that is aborted do not count.

        >>> producer.close()
        >>> producer
        <Producer of <Log :memory: node 1, own>, closed>
        """
        tell_failures(self._client.close(timeout))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        tell_failures(self._client.close(), error)
