"""Reads records: topics shared with a group, or partitions chosen by hand; a position in each; `poll`.

    assignment      the topics and partitions to read         subscription        the partitions, and how far each is
    positions       its place, and the ends                   loop_records        records that a loop has yet to come to
    fetcher         records that lie ahead                    offsets             positions that are looked up
    group_member    the group, if there is one                commit              positions that the group keeps

`poll_loop` says in which order a poll goes round. All calls wait at one place (`pending_requests`) for the first of
many events. Between two polls there are heartbeats, and nothing else. (Kafka: KafkaConsumer.)
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Generic, NoReturn, Self

from pylog.client.consumer.assignment import CLOSE_MS
from pylog.client.consumer.client import ConsumerClient
from pylog.client.consumer.commit import OnCommit
from pylog.client.consumer.single_thread import alone
from pylog.config import ConsumerConfig
from pylog.kernel.values import Key, Value
from pylog.protocol.messages import EARLIEST, LATEST
from pylog.record import (
    ConsumerGroupMetadata,
    ConsumerRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)
from pylog.runtime.clock import Clock
from pylog.runtime.closing import Lease
from pylog.runtime.shared_worker import SharedWorker
from pylog.runtime.signals import WHOLE
from pylog.transport import Transport

REPR_MOST = 4
"""How many partitions a repr names."""


class Consumer(Generic[Key, Value]):
    """Reads topics that it subscribes to, or partitions that were assigned by hand.

    With a `group_id` the partitions of the topics are shared among the consumers of the group; without, a consumer has
    all of them. Not thread-safe: two threads in it at once get ConcurrentUse, and only `wakeup` is for all. Close it,
    or use it as a context manager. A consumer with a group that is dropped without `close` leaves the group in the
    background without a commit, and is a ResourceWarning. Made by `Log.consumer`; the configs are Kafka's, in
    `ConsumerConfig`. `pause`, `resume` and the two `seek_to_` take partitions as arguments, `pause(a, b)`, as in
    kafka-python; all other calls that take several take one collection, `assign([a, b])`. `Key` and `Value` are what
    the deserializers give: bytes without deserializers.

    >>> consumer = log.consumer("orders", group_id="billing", auto_offset_reset="earliest")
    >>> [next(consumer).value, next(consumer).value]
    [b'book', b'pen']
    """

    _lease: Lease | None = None

    def __init__(
        self, transport: Transport, node: int, config: ConsumerConfig, clock: Clock, lease: Lease | None = None,
        heartbeats: SharedWorker | None = None,
    ) -> None:  # fmt: skip
        """`heartbeats`: the thread that the log's consumers share for these; None: one of its own."""
        self.config = config
        self._client = client = ConsumerClient(
            transport, node, config, clock, heartbeats or SharedWorker("pylog-heartbeat", clock)
        )
        self._run = client.requests.run
        self._turn = client.turn
        if lease is not None:
            client.join(lease)
        self._lease = lease

    def __del__(self) -> None:
        # Neither the queue of dropped handles nor a kept warning holds the consumer. Without a group it holds nothing.
        lease, self._lease = self._lease, None
        if lease is not None:
            self._client.handle_dropped(self, lease)

    def __repr__(self) -> str:
        group = "" if self._client.group is None else f" of group {self.config.group_id!r}"
        log = "" if self._lease is None else f" of {self._lease.log}"
        if self._client.requests.is_ended:
            return f"<Consumer{group}{log}, closed>"
        keys = sorted(self._client.subscription.states.copy())
        reads = ", ".join(f"{key.topic}-{key.partition}" for key in keys[:REPR_MOST])
        more = f" and {len(keys) - REPR_MOST} more" if len(keys) > REPR_MOST else ""
        return f"<Consumer{group}{log} reads {reads or 'nothing'}{more}>"

    # --- its partitions ----------------------------------------------------------------------------------------------

    @alone
    def subscribe(
        self,
        topics: Iterable[str] | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: object | None = None,
    ) -> None:
        """Read these topics, or those whose whole name matches `pattern`, in place of the ones before.

        With a group the next polls join it and get a share; `listener`, a `RebalanceListener` or any object with some
        of its methods, hears of partitions that come and go. Without one all partitions are read from now on, and there
        is nothing to listen to. New topics that match, and new partitions, are read when they are seen: within a second
        where there is nothing else to do, after `metadata_max_age_ms` at the latest. So is a topic that is not there
        yet, which is logged, as in Kafka. Raises InvalidTopic (no topic can have that name), TypeError (a name that is
        no str); nothing changes then.

        >>> consumer.subscribe(pattern="ord.*")
        >>> next(consumer).value
        b'ink'
        """
        self._run(self._client.subscribe(topics, pattern, listener))

    @alone
    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions; a consumer that has subscribed leaves its group.

        Positions of partitions that stay are kept. Raises UnknownTopicOrPartition; nothing changes then.

        >>> consumer.assign([orders])
        >>> consumer.assignment()
        {TopicPartition(topic='orders', partition=0)}
        """
        self._run(self._client.assign(partitions))

    @alone
    def incremental_assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions besides those that are read; the others stay as they are.

        Raises UnknownTopicOrPartition, ValueError (it has subscribed to topics); nothing changes then.

        >>> reader = log.consumer()
        >>> reader.incremental_assign([orders])
        >>> reader
        <Consumer of <Log :memory: node 1, own> reads orders-0>
        """
        self._run(self._client.assign_more(partitions))

    @alone
    def incremental_unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions no more; the others stay as they are. Raises ValueError (one is not read, or it has
        subscribed to topics).

        >>> reader = log.consumer()
        >>> reader.assign([orders])
        >>> reader.incremental_unassign([orders])
        >>> reader
        <Consumer of <Log :memory: node 1, own> reads nothing>
        """
        self._run(self._client.assign_less(partitions))

    @alone
    def enforce_rebalance(self) -> None:
        """Let the next poll begin a rebalance of the group, as where something has changed that it cannot know of.

        Raises InvalidGroupId (there is no group), ValueError (with group_protocol="consumer" the coordinator assigns).

        >>> consumer.enforce_rebalance()
        >>> records = consumer.poll()
        """
        self._client.need_group().rebalance()

    @alone
    def unsubscribe(self) -> None:
        """Read nothing, and leave the group.

        >>> consumer.unsubscribe()
        >>> consumer.assignment()
        set()
        """
        self.assign([])

    @alone
    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read.

        >>> consumer.assignment()
        {TopicPartition(topic='orders', partition=0)}
        """
        return set(self._client.subscription.states)

    @alone
    def subscription(self) -> set[str]:
        """The topics subscribed to.

        >>> consumer.subscription()
        {'orders'}
        """
        return set(self._client.subscription.topics)

    @alone
    def pause(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Give no records of these partitions until `resume`; fetched records are kept. They are given one by one, or
        as a list. Raises ValueError (one is not assigned), TypeError.

        >>> consumer.pause(orders)
        >>> consumer.paused()
        {TopicPartition(topic='orders', partition=0)}
        """
        self._client.pause(partitions)

    @alone
    def resume(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Undo `pause`. Raises ValueError (a partition is not assigned), TypeError.

        >>> consumer.pause(orders)
        >>> consumer.resume(orders)
        >>> next(consumer).value
        b'ink'
        """
        self._client.resume(partitions)

    @alone
    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused.

        >>> consumer.paused()
        set()
        """
        return self._client.paused()

    # --- its positions -----------------------------------------------------------------------------------------------

    @alone
    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on at `offset`. Outside the log, the next poll does what `auto_offset_reset` says.

        Raises ValueError (the partition is not assigned, the offset is negative), TypeError.

        >>> consumer.seek(orders, 1)
        >>> next(consumer).value
        b'pen'
        """
        self._client.positions.seek(self._client.checked([partition]), offset)

    @alone
    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go on at the first record of these partitions, or of all assigned.

        The offset is looked up when it is needed. Raises ValueError (a partition is not assigned), TypeError.

        >>> consumer.seek_to_beginning(orders)
        >>> next(consumer).value
        b'book'
        """
        self._client.move_to(EARLIEST, partitions)

    @alone
    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go on behind the last record of these partitions, or of all assigned.

        The offset is looked up at the next poll or position. Raises ValueError (a partition is not assigned),
        TypeError.

        >>> consumer.seek_to_end()
        >>> consumer.position(orders)
        3
        """
        self._client.move_to(LATEST, partitions)

    @alone
    def skip(self) -> None:
        """Go past the record or batch that the last poll has raised CorruptBatch or DeserializationError for.

        Damaged records are given up, whole batches of them: this is the one call that does so. Raises ValueError when
        the last poll has not raised one of these, or the position was moved since.

        >>> numbers = log.consumer("orders", auto_offset_reset="earliest", value_deserializer=int)
        >>> try:
        ...     next(numbers)
        ... except pylog.errors.DeserializationError:
        ...     numbers.skip()
        >>> numbers.position(orders)
        1
        """
        self._run(self._client.skip())

    @alone
    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that `poll` gives of a partition.

        Raises: NoOffsetForPartition, RequestTimedOut (after `default_api_timeout_ms`).

        >>> consumer.position(orders)
        2
        """
        return self._run(self._client.position(partition))

    @alone
    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset of the first record of each partition. Raises UnknownTopicOrPartition.

        >>> consumer.beginning_offsets([orders])
        {TopicPartition(topic='orders', partition=0): 0}
        """
        return self._run(self._client.ends(partitions, EARLIEST))

    @alone
    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset behind the last visible record of each partition: the high watermark, or with read_committed the
        last stable offset.

        Raises UnknownTopicOrPartition.

        >>> consumer.end_offsets([orders])
        {TopicPartition(topic='orders', partition=0): 3}
        """
        return self._run(self._client.ends(partitions, LATEST))

    @alone
    def get_watermark_offsets(self, partition: TopicPartition) -> tuple[int, int]:
        """The offset of the first record of a partition, and the one behind the last visible record. The node is asked
        for both, one after the other. Raises UnknownTopicOrPartition.

        >>> consumer.get_watermark_offsets(orders)
        (0, 3)
        """
        return self._run(self._client.watermarks(partition))

    @alone
    def lag(self) -> dict[TopicPartition, int]:
        """The number of offsets that the end of each assigned partition is ahead of the position: 0 when all was read.

        Raises what `position` and `end_offsets` raise.

        >>> consumer.lag()
        {TopicPartition(topic='orders', partition=0): 1}
        """
        return self._run(self._client.lag())

    @alone
    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record of each partition, in offset order, whose timestamp (ms) is at least the one given; or None.

        With timestamps out of order later records may be older than it. Raises UnknownTopicOrPartition, ValueError.

        >>> found = consumer.offsets_for_times({orders: 0})
        >>> found[orders].offset
        0
        """
        return self._run(self._client.offsets_for_times(timestamps))

    @alone
    def partitions_for_topic(self, topic: str) -> set[int]:
        """The partition numbers of a topic. Raises UnknownTopicOrPartition.

        >>> consumer.partitions_for_topic("orders")
        {0}
        """
        return self._run(self._client.partitions_for_topic(topic))

    @alone
    def topics(self) -> list[str]:
        """All topics there are, internal ones too. Raises RequestTimedOut.

        >>> "orders" in consumer.topics()
        True
        """
        return self._run(self._client.topics())

    # --- commits -----------------------------------------------------------------------------------------------------

    @alone
    def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None, *, timeout_ms: int | None = None
    ) -> None:
        """Commit these offsets, each that of the next record to read; None: the positions. Waits until it is done.

        In a loop over the consumer the position is behind the record that the loop was last given. No automatic commit
        goes over given offsets until more is read (Kafka's does). Waits for `default_api_timeout_ms` unless told
        otherwise. Raises: CommitFailed (the group has moved on),
        RebalanceInProgress (poll, then commit again), FencedInstanceId, InvalidGroupId (there is no group),
        RequestTimedOut, and other errors of the coordinator.

        >>> consumer.commit()
        >>> consumer.commit({orders: 1})
        >>> consumer.committed([orders])[orders].offset
        1
        """
        self._run(self._client.commit(offsets, timeout_ms))

    @alone
    def commit_async(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        callback: OnCommit | None = None,
    ) -> None:
        """Commit as `commit` does, without waiting; a later poll, commit or close calls `callback(offsets, error)`,
        with None for an error where all went well. Raises InvalidGroupId (there is no group), TypeError, ValueError;
        other errors are for the callback, and are logged without one.

        >>> consumer.commit_async({orders: 1}, lambda offsets, error: print(offsets[orders].offset, error))
        >>> consumer.commit()
        1 None
        """
        self._client.commit_in_background(offsets, callback)

    @alone
    def store_offsets(self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]) -> None:
        """Have these offsets committed by the next automatic commit, or `commit` without offsets: each that of the next
        record to read. With `enable_auto_offset_store=False` nothing else is. They are forgotten with their partition.

        Raises ValueError (a partition is not assigned, or the positions are committed), TypeError.

        >>> worker = log.consumer(
        ...     "orders", group_id="packing", auto_offset_reset="earliest", enable_auto_offset_store=False
        ... )
        >>> order = next(worker)
        >>> worker.store_offsets({orders: order.offset + 1})
        >>> worker.commit()
        >>> worker.committed([orders])[orders].offset
        1
        """
        self._client.store(offsets)

    @alone
    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The offset that the group has committed for each partition, or None.

        Waits for open transactions that commit offsets for it. Raises InvalidGroupId (there is no group), and errors
        of the coordinator.

        >>> consumer.commit({orders: 2})
        >>> consumer.committed([orders])
        {TopicPartition(topic='orders', partition=0): OffsetAndMetadata(offset=2, metadata='', leader_epoch=-1)}
        """
        return self._run(self._client.committed(partitions))

    @alone
    def group_metadata(self) -> ConsumerGroupMetadata:
        """The identity of this consumer in its group now, for a producer's `send_offsets`. Raises InvalidGroupId.

        >>> consumer.group_metadata().group_id
        'billing'
        """
        return self._client.need_group().identity

    # --- reading ---------------------------------------------------------------------------------------------------

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> list[ConsumerRecord[Key, Value]]:
        """Records from the positions on, and move the positions past them; waits up to `timeout_ms` for the first one.

        At most `max_records` (default `max_poll_records`). Empty when no record came in time. The records of earlier
        polls count as done: an automatic commit may have their positions (`enable_auto_commit`). With deserializers the
        records are `DeserializedRecord`s. Raises: CorruptBatch (names file, position and offset) and
        DeserializationError, again and again until you `skip` or seek; OffsetOutOfRange, LogTruncation and
        NoOffsetForPartition (with auto_offset_reset="none"); Wakeup; what a listener raises; FencedInstanceId,
        InconsistentGroupProtocol, GroupMaxSizeReached and others that make it impossible to be a member; RuntimeError
        (it reads nothing: neither `subscribe` nor `assign` was called); Closed.

        >>> reader = log.consumer("orders", auto_offset_reset="earliest")
        >>> [record.value for record in reader.poll(timeout_ms=60_000, max_records=2)]
        [b'book', b'pen']
        """
        records: list[ConsumerRecord[Key, Value]] = []
        try:
            with WHOLE, self._turn:
                records = self._run(self._client.poll(timeout_ms, max_records))
        except BaseException:
            if records:
                # A signal has waited until here: the caller does not get these.
                self._take_back(records)
            raise
        return records

    @alone
    def _take_back(self, records: list[ConsumerRecord[Key, Value]]) -> None:
        self._client.take_back(records)

    def wakeup(self) -> None:
        """Let the poll in progress, or the next one, raise Wakeup. From any thread, and from a signal handler.

        >>> consumer.wakeup()
        >>> consumer.poll(60_000)
        Traceback (most recent call last):
            ...
        pylog.errors.Wakeup: wakeup was called
        """
        self._client.wakeup()

    def __iter__(self) -> Iterator[ConsumerRecord[Key, Value]]:
        """Records as they come; waits for more for ever, or for `consumer_timeout_ms` where that is set."""
        # The lists are walked in C: a frame of Python for each record would cost as much as decoding it.
        return chain.from_iterable(self._client.loop.lists(self.poll))

    def __next__(self) -> ConsumerRecord[Key, Value]:
        """The next record of a loop: `next(consumer)`. Raises StopIteration after `consumer_timeout_ms`, where that is
        set, and what `poll` raises.
        """
        return next(iter(self))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a consumer belongs to its process, and is not pickled: make one there, by log.consumer(...)")

    # --- the end ---------------------------------------------------------------------------------------------------

    @alone
    def close(self, timeout_ms: int = CLOSE_MS) -> None:
        """Commit the positions of the polls (with auto-commit), leave the group, and end. A second call does nothing.

        A static member (`group_instance_id`) does not leave: it may be back before its session ends. Waits for answers
        up to `timeout_ms`. Later calls raise Closed. Raises what a listener raises.

        >>> consumer.close()
        >>> consumer
        <Consumer of group 'billing' of <Log :memory: node 1, own>, closed>
        """
        self._run(self._client.end("it was closed", timeout_ms))

    def __enter__(self) -> Self:
        return self

    @alone
    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Close; after an exception without a commit, so that the records in work are read again."""
        if error is None:
            self._run(self._client.end("it was closed"))
        else:
            self._run(self._client.end("it was closed after an error", commit=False))
