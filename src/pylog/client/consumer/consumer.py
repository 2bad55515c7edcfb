"""Reads records: topics shared with a group, or partitions chosen by hand; a position in each; `poll`.

    assignment      the topics and partitions to read         subscription        the partitions, and how far each is
    positions       its place, and the ends                   loop_records        records that a loop has yet to come to
    fetcher         records that lie ahead                    offsets             positions that are looked up
    group_member    the group, if there is one                commit              positions that the group keeps

`poll_loop` says in which order a poll goes round. All calls wait at one place (`pending_requests`) for the first of
many events. Between two polls there are heartbeats, and nothing else. (Kafka: KafkaConsumer.)
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Generic, Self

from pylog.client.cluster import Cluster
from pylog.client.consumer.assignment import CLOSE_MS, Assignment
from pylog.client.consumer.commit import OnCommit
from pylog.client.consumer.ending import Ending
from pylog.client.consumer.group_member import GroupMember
from pylog.client.consumer.loop_records import LoopRecords
from pylog.client.consumer.offsets import OffsetFetcher
from pylog.client.consumer.pending_requests import PendingRequests
from pylog.client.consumer.poll_loop import PollLoop
from pylog.client.consumer.positions import Positions
from pylog.client.consumer.single_thread import SingleThread, alone
from pylog.client.consumer.subscription import PartitionState, SubscriptionState
from pylog.config import ConsumerConfig
from pylog.errors import InvalidGroupId
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
from pylog.runtime.closing import Lease, drop, warn
from pylog.runtime.signals import WHOLE
from pylog.transport import Transport

REPR_MOST = 4
"""How many partitions a repr names."""
_numbers = itertools.count(1)  # a member id begins with its client's


class Consumer(Generic[Key, Value]):
    """Reads topics that it subscribes to, or partitions that were assigned by hand.

    With a `group_id` the partitions of the topics are shared among the consumers of the group; without, a consumer has
    all of them. Not thread-safe: two threads in it at once get ConcurrentUse, and only `wakeup` is for all. Close it,
    or use it as a context manager. A consumer with a group that is dropped without `close` leaves the group in the
    background without a commit, and is a ResourceWarning. Made by `Log.consumer`; the configs are Kafka's, in
    `ConsumerConfig`. `Key` and `Value` are what the deserializers give: bytes where there are none.
    """

    _lease: Lease | None = None

    def __init__(
        self, transport: Transport, node: int, config: ConsumerConfig, clock: Clock, lease: Lease | None = None
    ) -> None:
        self.config = config
        self._requests = requests = PendingRequests(clock)
        name = config.client_id or f"consumer-{next(_numbers)}"
        self._cluster = cluster = Cluster(transport, node, name, requests.result)
        self._subscription = subscription = SubscriptionState()
        shared = (requests, cluster, subscription, config, clock)
        self._offsets = OffsetFetcher(*shared)
        self._group = None if config.group_id is None else GroupMember(*shared)
        self._loop = LoopRecords(requests, subscription, config)
        self._assignment = Assignment(*shared, self._group, self._loop)
        self._positions = Positions(*shared, self._loop, self._assignment, self._offsets)
        self._poll_loop = PollLoop(*shared, self._group, self._loop, self._assignment, self._offsets)
        self._turn = SingleThread()
        self._ending = Ending(
            requests, cluster, subscription, config, self._group, self._loop, self._assignment, self._turn
        )
        if lease is not None:
            try:
                lease.log.add(self._ending)
            except BaseException:
                self._ending.close_dropped()
                raise
        self._lease = lease

    def __del__(self) -> None:
        # Neither the queue of dropped handles nor a kept warning holds the consumer. Without a group it holds nothing.
        lease, self._lease = self._lease, None
        if lease is not None and self._group is not None and not (self._requests.is_ended or lease.log.closed):
            drop(self._ending, lease.log)
            warn(f"a consumer of group {self.config.group_id!r} of {lease.log}", self)
        elif lease is not None and not self._requests.is_ended:
            self._cluster.release()

    def __repr__(self) -> str:
        group = "" if self._group is None else f" of group {self.config.group_id!r}"
        log = "" if self._lease is None else f" of {self._lease.log}"
        if self._requests.is_ended:
            return f"<Consumer{group}{log}, closed>"
        keys = sorted(self._subscription.states.copy())
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
        """
        self._requests.check_open()
        self._assignment.subscribe(topics, pattern, listener)

    @alone
    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions; a consumer that has subscribed leaves its group.

        Positions of partitions that stay are kept. Raises UnknownTopicOrPartition; nothing changes then.
        """
        self._requests.check_open()
        self._assignment.assign(partitions)

    @alone
    def unsubscribe(self) -> None:
        """Read nothing, and leave the group."""
        self.assign([])

    @alone
    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read."""
        return set(self._subscription.states)

    @alone
    def subscription(self) -> set[str]:
        """The topics subscribed to."""
        return set(self._subscription.topics)

    @alone
    def pause(self, *partitions: TopicPartition) -> None:
        """Give no records of these partitions until `resume`; fetched records are kept."""
        states = self._checked(partitions)
        self._loop.take_back()
        for state in states.values():
            state.paused = True

    @alone
    def resume(self, *partitions: TopicPartition) -> None:
        """Undo `pause`."""
        for state in self._checked(partitions).values():
            state.paused = False

    @alone
    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        return {key for key, state in self._subscription.states.items() if state.paused}

    def _checked(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionState]:
        self._requests.check_open()
        return self._subscription.checked(partitions)

    # --- its positions -----------------------------------------------------------------------------------------------

    @alone
    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on at `offset`. Outside the log, the next poll does what `auto_offset_reset` says."""
        self._positions.seek(self._checked([partition]), offset)

    @alone
    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go on at the first record of these partitions, or of all assigned.

        The offset is looked up when it is needed.
        """
        self._positions.move(self._checked(partitions or self._subscription.states), None, EARLIEST)

    @alone
    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go on behind the last record of these partitions, or of all assigned.

        The offset is looked up at the next poll or position.
        """
        self._positions.move(self._checked(partitions or self._subscription.states), None, LATEST)

    @alone
    def skip(self) -> None:
        """Go past the record or batch that the last poll has raised CorruptBatch or DeserializationError for.

        Damaged records are given up, whole batches of them: this is the one call that does so. Raises ValueError when
        the last poll has not raised one of these, or the position was moved since.
        """
        self._requests.check_open()
        self._positions.skip()

    @alone
    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that `poll` gives of a partition.

        Raises: NoOffsetForPartition, RequestTimedOut (after `default_api_timeout_ms`).
        """
        (key,) = self._checked([partition])
        return self._positions.of(key)

    @alone
    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset of the first record of each partition. Raises UnknownTopicOrPartition."""
        self._requests.check_open()
        return self._positions.ends(partitions, EARLIEST)

    @alone
    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset behind the last visible record of each partition: the high watermark, or with read_committed the
        last stable offset.

        Raises UnknownTopicOrPartition.
        """
        self._requests.check_open()
        return self._positions.ends(partitions, LATEST)

    @alone
    def lag(self) -> dict[TopicPartition, int]:
        """How many offsets the end of each assigned partition is ahead of the position: 0 when all was read.

        Raises what `position` and `end_offsets` raise.
        """
        self._requests.check_open()
        return self._positions.lag()

    @alone
    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record of each partition, in offset order, whose timestamp (ms) is at least the one given; or None.

        With timestamps out of order later records may be older than it. Raises UnknownTopicOrPartition, ValueError.
        """
        self._requests.check_open()
        return self._offsets.for_times(timestamps)

    @alone
    def partitions_for_topic(self, topic: str) -> set[int]:
        """The partition numbers of a topic. Raises UnknownTopicOrPartition."""
        return {p.partition for p in self._cluster.topic(topic).partitions}

    @alone
    def topics(self) -> list[str]:
        """All topics there are, internal ones too."""
        return self._cluster.topic_names()

    # --- commits -----------------------------------------------------------------------------------------------------

    @alone
    def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None, *, timeout_ms: int | None = None
    ) -> None:
        """Commit these offsets, each that of the next record to read; None: the positions. Waits until it is done.

        In a loop over the consumer the position is behind the record that the loop was last given. Waits for
        `default_api_timeout_ms` unless told otherwise. Raises: CommitFailed (the group has moved on),
        RebalanceInProgress (poll, then commit again), FencedInstanceId, InvalidGroupId (there is no group),
        RequestTimedOut, and other errors of the coordinator.
        """
        self._requests.check_open()
        commits = self._need_group().commits
        wanted = self._positions.to_commit(offsets)
        if wanted:
            commits.wait(wanted, self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms)

    @alone
    def commit_async(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        callback: OnCommit | None = None,
    ) -> None:
        """Commit as `commit` does, without waiting; a later poll, commit or close calls `callback(offsets, error)`,
        with None for an error where all went well.
        """
        if callback is not None and not callable(callback):
            raise TypeError(f"callback is {type(callback).__name__}: it cannot be called")
        self._requests.check_open()
        commits = self._need_group().commits
        wanted = self._positions.to_commit(offsets)
        commits.in_background(wanted, callback)

    @alone
    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The offset that the group has committed for each partition; None where there is none.

        Waits for open transactions that commit offsets for it. Raises InvalidGroupId (there is no group), and errors
        of the coordinator.
        """
        self._requests.check_open()
        return self._offsets.committed(self._need_group().identity.group_id, partitions)

    @alone
    def group_metadata(self) -> ConsumerGroupMetadata:
        """This consumer as its group knows it now, for a producer's `send_offsets`. Raises InvalidGroupId."""
        return self._need_group().identity

    def _need_group(self) -> GroupMember:
        if self._group is None:
            raise InvalidGroupId("this consumer has no group: make it with a group_id to commit offsets")
        return self._group

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
        """
        records: list[ConsumerRecord[Key, Value]] = []
        try:
            with WHOLE, self._turn:
                self._requests.check_open()
                records = self._poll_loop.poll(timeout_ms, max_records)
        except BaseException:
            if records:
                # A signal has waited until here: the caller does not get these.
                self._take_back(records)
            raise
        return records

    @alone
    def _take_back(self, records: list[ConsumerRecord[Key, Value]]) -> None:
        self._subscription.take_back(records)

    def wakeup(self) -> None:
        """Let the poll in progress, or the next one, raise Wakeup. From any thread, and from a signal handler."""
        self._poll_loop.wakeup()

    def __iter__(self) -> Iterator[ConsumerRecord[Key, Value]]:
        """Records as they come; waits for more for ever, or for `consumer_timeout_ms` where that is set."""
        # The lists are walked in C: a frame of Python for each record would cost as much as decoding it.
        return chain.from_iterable(self._loop.lists(self.poll))

    # --- the end ---------------------------------------------------------------------------------------------------

    def close(self, timeout_ms: int = CLOSE_MS) -> None:
        """Commit the positions of the polls (with auto-commit), leave the group, and end. A second call does nothing.

        A static member (`group_instance_id`) does not leave: it may be back before its session ends. Waits for answers
        up to `timeout_ms`. Later calls raise Closed. Raises what a listener raises.
        """
        self._ending.end("it was closed", timeout_ms)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Close; after an exception without a commit, so that the records in work are read again."""
        if error is None:
            self._ending.end("it was closed")
        else:
            self._ending.end("it was closed after an error", commit=False)
