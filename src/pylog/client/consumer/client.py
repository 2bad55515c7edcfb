"""The part of a consumer that outlives its handle: its parts, and its calls in rounds (`runtime/rounds`).

`Consumer` carries them on in the caller's thread, `pylog.aio` in an event loop. What returns `Rounds` has done nothing
before it is carried on. For one thread at a time, except `wakeup`: `turn` sees to that.
"""

import itertools
import re
import threading
from collections.abc import Iterable, Mapping

from pylog.client.cluster import Cluster, checked_name
from pylog.client.consumer.assignment import CLOSE_MS, Assignment
from pylog.client.consumer.commit import OnCommit
from pylog.client.consumer.group_member import GroupMember
from pylog.client.consumer.loop_records import LoopRecords
from pylog.client.consumer.offsets import OffsetFetcher
from pylog.client.consumer.pending_requests import CLOSED, PendingRequests
from pylog.client.consumer.poll_loop import PollLoop
from pylog.client.consumer.positions import Positions
from pylog.client.consumer.single_thread import SingleThread
from pylog.client.consumer.subscription import PartitionState, Polled, SubscriptionState
from pylog.config import ConsumerConfig
from pylog.errors import ConcurrentUse, InvalidGroupId
from pylog.metrics import table
from pylog.metrics.snapshot import Metrics
from pylog.protocol.messages import EARLIEST, LATEST
from pylog.protocol.messages.topics import MetadataRequest, MetadataResponse
from pylog.record import (
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
    checked_partition,
    checked_positions,
    flat_partitions,
)
from pylog.runtime.clock import Clock
from pylog.runtime.closing import Lease, drop, warn
from pylog.runtime.future import Future
from pylog.runtime.rounds import Rounds
from pylog.runtime.shared_worker import SharedWorker
from pylog.transport import Transport

_numbers = itertools.count(1)  # a member id begins with its client's

ToCommit = Mapping[TopicPartition, int | OffsetAndMetadata]


class ConsumerClient:
    """The part of a consumer that outlives its handle. Its calls are those of `Consumer`."""

    def __init__(
        self, transport: Transport, node: int, config: ConsumerConfig, clock: Clock, heartbeats: SharedWorker
    ) -> None:
        self.config = config
        self.requests = requests = PendingRequests(clock, lambda: transport.name(node))
        self._client_id = config.client_id or f"consumer-{next(_numbers)}"
        creates = config.allow_auto_create_topics
        self._cluster = cluster = Cluster(
            transport, node, self._client_id, requests.answer, creates=creates,
            seconds=config.default_api_timeout_ms / 1000,
        )  # fmt: skip
        self.subscription = subscription = SubscriptionState()
        shared = (requests, cluster, subscription, config, clock)
        self._offsets = OffsetFetcher(*shared)
        self.group = None if config.group_id is None else GroupMember(*shared, heartbeats)
        self.loop = LoopRecords(requests, subscription, config)
        self._assignment = Assignment(*shared, self.group, self.loop)
        self.positions = Positions(*shared, self.loop, self._assignment, self._offsets)
        self._poll_loop = PollLoop(*shared, self.group, self.loop, self._assignment, self._offsets)
        self.turn = SingleThread()

    def checked(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionState]:
        """The states of partitions that are read. Raises ValueError, TypeError, Closed."""
        self.requests.check_open()
        return self.subscription.checked(partitions)

    def need_group(self) -> GroupMember:
        """Raises InvalidGroupId."""
        if self.group is None:
            raise InvalidGroupId("this consumer has no group: make it with a group_id to commit offsets")
        return self.group

    # --- its partitions, and where it is in them --------------------------------------------------------------------

    def subscribe(
        self, topics: Iterable[str] | None, pattern: str | re.Pattern[str] | None, listener: object | None
    ) -> Rounds[None]:
        """See `Consumer.subscribe`."""
        self.requests.check_open()
        return self._assignment.subscribe(topics, pattern, listener)

    def make_topics(self, names: Iterable[str]) -> Future[MetadataResponse]:
        """Ask about topics, so that those that are missing are made. In process this call may wait for the disk."""
        wanted = [checked_name("topics", name) for name in names]
        return self._cluster.send_any(MetadataRequest.of(wanted, creates=True))

    def assign(self, partitions: Iterable[TopicPartition]) -> Rounds[None]:
        """See `Consumer.assign`."""
        self.requests.check_open()
        return self._assignment.assign(partitions)

    def assign_more(self, partitions: Iterable[TopicPartition]) -> Rounds[None]:
        """See `Consumer.incremental_assign`."""
        self._check_by_hand()
        return self._assignment.assign([*self.subscription.states, *partitions])

    def assign_less(self, partitions: Iterable[TopicPartition]) -> Rounds[None]:
        """See `Consumer.incremental_unassign`."""
        self._check_by_hand()
        gone = self.checked(partitions)
        return self._assignment.assign([key for key in self.subscription.states if key not in gone])

    def _check_by_hand(self) -> None:
        self.requests.check_open()
        if self.subscription.is_by_topic:
            raise ValueError("this consumer has subscribed to topics, and reads the partitions that follow from that")

    def pause(self, partitions: Iterable[TopicPartition | Iterable[TopicPartition]]) -> None:
        """See `Consumer.pause`."""
        states = self.checked(flat_partitions(partitions))
        self.loop.take_back()
        for state in states.values():
            state.paused = True

    def resume(self, partitions: Iterable[TopicPartition | Iterable[TopicPartition]]) -> None:
        """See `Consumer.resume`."""
        for state in self.checked(flat_partitions(partitions)).values():
            state.paused = False

    def paused(self) -> set[TopicPartition]:
        """See `Consumer.paused`."""
        return {key for key, state in self.subscription.states.items() if state.paused}

    def move_to(self, end: int, partitions: Iterable[TopicPartition]) -> None:
        """Go on at one end of these partitions, or of all assigned."""
        self.positions.move(self.checked(partitions or self.subscription.states), None, end)

    def skip(self) -> Rounds[None]:
        """See `Consumer.skip`."""
        self.requests.check_open()
        return self.positions.skip()

    def position(self, partition: TopicPartition) -> Rounds[int]:
        """See `Consumer.position`."""
        (key,) = self.checked([partition])
        return self.positions.of(key)

    def ends(self, partitions: Iterable[TopicPartition], which: int) -> Rounds[dict[TopicPartition, int]]:
        """See `Consumer.beginning_offsets` and `Consumer.end_offsets`."""
        self.requests.check_open()
        return self.positions.ends(partitions, which)

    def watermarks(self, partition: TopicPartition) -> Rounds[tuple[int, int]]:
        """See `Consumer.get_watermark_offsets`."""
        self.requests.check_open()
        key = checked_partition(partition)
        start = yield from self.positions.ends([key], EARLIEST)
        end = yield from self.positions.ends([key], LATEST)
        return start[key], end[key]

    def lag(self) -> Rounds[dict[TopicPartition, int]]:
        """See `Consumer.lag`."""
        self.requests.check_open()
        return self.positions.lag()

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> Rounds[dict[TopicPartition, OffsetAndTimestamp | None]]:
        """See `Consumer.offsets_for_times`."""
        self.requests.check_open()
        return self._offsets.for_times(timestamps)

    def partitions_for_topic(self, topic: str) -> Rounds[set[int]]:
        """See `Consumer.partitions_for_topic`."""
        self.requests.check_open()
        return {p.partition_index for p in (yield from self._cluster.rounds.topic(topic)).partitions}

    def topics(self) -> Rounds[list[str]]:
        """See `Consumer.topics`."""
        self.requests.check_open()
        return list((yield from self._cluster.rounds.topics()))

    # --- commits -----------------------------------------------------------------------------------------------------

    def commit(self, offsets: ToCommit | None, timeout_ms: int | None) -> Rounds[None]:
        """See `Consumer.commit`."""
        self.requests.check_open()
        commits = self.need_group().commits
        wanted = self.positions.to_commit(offsets)
        if wanted:
            most_ms = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
            yield from commits.wait(wanted, most_ms)

    def commit_in_background(self, offsets: ToCommit | None, callback: OnCommit | None) -> None:
        """See `Consumer.commit_async`."""
        if callback is not None and not callable(callback):
            raise TypeError(f"callback is {type(callback).__name__}: it cannot be called")
        self.requests.check_open()
        commits = self.need_group().commits
        commits.in_background(self.positions.to_commit(offsets), callback)

    def store(self, offsets: ToCommit) -> None:
        """See `Consumer.store_offsets`."""
        self.requests.check_open()
        if self.config.enable_auto_offset_store:
            raise ValueError("this consumer commits its positions: make it with enable_auto_offset_store=False")
        self.subscription.store(checked_positions(offsets))

    def committed(self, partitions: Iterable[TopicPartition]) -> Rounds[dict[TopicPartition, OffsetAndMetadata | None]]:
        """See `Consumer.committed`."""
        self.requests.check_open()
        return self._offsets.committed(self.need_group().identity.group_id, partitions)

    # --- reading -----------------------------------------------------------------------------------------------------

    def poll(self, timeout_ms: float, max_records: int | None) -> Rounds[list[Polled]]:
        """See `Consumer.poll`."""
        self.requests.check_open()
        return self._poll_loop.poll(timeout_ms, max_records)

    def take_back(self, records: list[Polled]) -> None:
        """Read these again: the caller of a poll did not get them."""
        self.subscription.take_back(records)

    def wakeup(self) -> None:
        """See `Consumer.wakeup`."""
        self._poll_loop.wakeup()

    def measure(self, found: Metrics) -> None:
        """Add the numbers of now; none after the close, as in Kafka. From any thread."""
        if self.requests.is_ended:
            return
        client_id = self._client_id
        self.subscription.measure(found, client_id)
        found.add(table.FETCHES, self._poll_loop.fetches, client_id=client_id)
        if self.group is not None:
            self.group.measure(found, client_id)

    # --- the end -----------------------------------------------------------------------------------------------------

    def end(self, reason: str, timeout_ms: int = CLOSE_MS, *, commit: bool = True) -> Rounds[None]:
        """Leave the group, with a commit of the positions where that is automatic. Raises what a listener raises."""
        if self.requests.is_ended:
            return
        if self.group is not None and self.group.is_calling:
            raise ConcurrentUse("a listener must not close its consumer: let the poll that has called it end first")
        self.loop.take_back()
        try:
            self.requests.deliver()
            yield from self._assignment.leave(reason, timeout_ms, commit=commit)
            if commit and self.group is not None and self.config.commits:
                # Of partitions that were assigned by hand.
                yield from self.group.commits.finish(timeout_ms)
        finally:
            self.requests.end()
            if self.group is not None:
                self.group.close()
            self.subscription.assign([])
            self._cluster.release(CLOSED)

    def log_closes(self) -> None:
        """The log is about to close, in whatever thread: end what goes on in this consumer.

        Where another thread has polled last, or a listener closes the log, nothing is committed: the work on the polled
        records may not be done.
        """
        in_listener = self.group is not None and self.group.is_calling
        if self.turn.user in (0, threading.get_ident()) and not in_listener:
            with self.turn:
                self.requests.run(self.end("it was closed"))
        else:
            self._go("its log was closed")

    def join(self, lease: Lease) -> None:
        """Be closed with the log. Raises Closed where that is closed already: then this has ended, too."""
        try:
            lease.add(self)
        except BaseException:
            self.close_dropped()
            raise

    def handle_dropped(self, handle: object, lease: Lease) -> None:
        """The handle that programs have is gone: end in the background, with a warning where a group is left."""
        lease.discard(self)
        if self.group is not None and not (self.requests.is_ended or lease.log.closed):
            drop(self, lease.log)
            warn(f"a consumer of group {self.config.group_id!r} of {lease.log}", handle)
        else:
            self.release()

    def close_dropped(self) -> None:
        """Leave the group without a commit: the work on the polled records may not have been done."""
        if not self.requests.is_ended:
            self._go("it was dropped")

    def _go(self, reason: str) -> None:
        self.requests.end()
        if self.group is not None:
            self.group.go(reason)
            self.group.close()
        self._cluster.release(CLOSED)

    def release(self) -> None:
        """Send nothing more: the handle of a consumer without a group is gone."""
        if not self.requests.is_ended:
            self._cluster.release(CLOSED)
