"""Reads records: topics shared with a group, or partitions chosen by hand; a position in each; `poll`.

    subscription    what is read, and how far                 fetcher, offsets    what is asked of the nodes (leaders)
    group_member    the group, if there is one                commit              positions that the group keeps

`poll` goes round: what the group wants, what was fetched, what there is to ask; and it waits at one place
(`pending_requests`) for whatever comes first. Nothing else happens between two polls, but heartbeats.
(Kafka: KafkaConsumer.)
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from operator import length_hint
from types import TracebackType
from typing import Self

from pylog.client.consumer.assignment import CLOSE_MS
from pylog.client.consumer.commit import OffsetCommitter
from pylog.client.consumer.group_member import GroupMember
from pylog.client.consumer.positions import Positions
from pylog.client.consumer.single_thread import alone, one_at_a_time
from pylog.config import ConsumerConfig
from pylog.errors import (
    CommitFailed,
    ConcurrentUse,
    FencedInstanceId,
    InvalidGroupId,
    PylogError,
    RebalanceInProgress,
    Wakeup,
)
from pylog.record import (
    ConsumerGroupMetadata,
    ConsumerRecord,
    OffsetAndMetadata,
    TopicPartition,
    checked_positions,
)
from pylog.runtime.clock import Clock
from pylog.runtime.closing import Lease, drop, warn
from pylog.runtime.signals import WHOLE
from pylog.transport import Transport

logger = logging.getLogger("pylog")

WAIT_MS_MAX = 500
IDLE_LOOK_MS = 1000
"""How often the topics are looked at while there is nothing else to do."""

OnCommit = Callable[[dict[TopicPartition, OffsetAndMetadata], PylogError | None], object]


class Consumer(Positions):
    """Reads topics that it subscribes to, or partitions that were assigned by hand.

    With a `group_id` the partitions of the topics are shared among the consumers of the group; without, a consumer has
    all of them. Not thread-safe: two threads in it at once get ConcurrentUse, and only `wakeup` is for all. Close it,
    or use it as a context manager. One of a group that is dropped without `close` leaves it in the background without a
    commit, and is a ResourceWarning. Made by `Log.consumer`; the configs are Kafka's, in `ConsumerConfig`.
    """

    _lease: Lease | None = None

    def __init__(
        self, transport: Transport, node: int, config: ConsumerConfig, clock: Clock, lease: Lease | None = None
    ) -> None:
        super().__init__(transport, node, config, clock)
        self._woken = False
        self._lease = lease

    def __del__(self) -> None:
        # Not held by what is to be closed, nor by whoever keeps the warning. Without a group there is nothing to close.
        lease, self._lease = self._lease, None
        if lease is not None and self._group is not None and not (self._closed or lease.log.closed):
            drop(self, lease.log)
            warn(f"a consumer of group {self.config.group_id!r} of {lease.log}", self)

    # --- what the group keeps --------------------------------------------------------------------------------------

    @alone
    def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None, *, timeout_ms: int | None = None
    ) -> None:
        """Commit these offsets, each that of the next record to read; None: the positions. Waits until it is done.

        In a loop over the consumer the position is behind the record that the loop was last given. Waits for
        `default_api_timeout_ms` unless told otherwise. Raises: CommitFailed (the group has moved on),
        RebalanceInProgress (poll, then commit again), FencedInstanceId, InvalidGroupId (there is no group),
        RequestTimedOut, and what else the coordinator answers.
        """
        wanted = self._to_commit(offsets)
        if wanted:
            self._commits.wait(wanted, self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms)

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
        wanted = self._to_commit(offsets)

        def then(error: PylogError | None) -> None:
            if callback is not None:
                callback(wanted, error)
            elif error is not None:
                logger.warning("a commit in the background has failed: %s", error)

        try:
            self._commits.send(wanted, then)
        except (CommitFailed, RebalanceInProgress, FencedInstanceId) as error:
            then(error)

    @alone
    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed for each partition; None where that is nothing.

        Waits for open transactions that commit offsets for it. Raises InvalidGroupId (there is no group), and what the
        coordinator answers.
        """
        self._check_open()
        return self._offsets.committed(self._need_group().identity.group_id, partitions)

    @alone
    def group_metadata(self) -> ConsumerGroupMetadata:
        """As whom this consumer is known to its group now, for a producer's `send_offsets`. Raises InvalidGroupId."""
        return self._need_group().identity

    def _need_group(self) -> GroupMember:
        if self._group is None:
            raise InvalidGroupId("this consumer has no group: make it with a group_id to commit offsets")
        return self._group

    @property
    def _commits(self) -> OffsetCommitter:
        return self._need_group().commits

    def _to_commit(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        self._check_open()
        commits = self._commits
        if offsets is not None:
            return checked_positions(offsets)
        positions = commits.positions()
        for key, offset in self._first_unseen().items():
            if key in positions:
                positions[key] = positions[key]._replace(offset=offset)
        return positions

    # --- reading ---------------------------------------------------------------------------------------------------

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> list[ConsumerRecord]:
        """Records from the positions on, and move the positions past them; waits up to `timeout_ms` for the first one.

        At most `max_records` (default `max_poll_records`). Empty when there was nothing in time. What polls have given
        before counts as done: it may be committed by itself (`enable_auto_commit`). With deserializers the records are
        `DeserializedRecord`s. Raises: CorruptBatch (names file, position and offset) and DeserializationError, again
        and again until you `skip` or seek; OffsetOutOfRange, LogTruncation and NoOffsetForPartition (with
        auto_offset_reset="none"); Wakeup; what a listener raises; FencedInstanceId, InconsistentGroupProtocol,
        GroupMaxSizeReached and others that make it impossible to be a member; RuntimeError (it reads nothing: neither
        `subscribe` nor `assign` was called); Closed.
        """
        records: list[ConsumerRecord] = []
        try:
            with WHOLE:
                records = self._poll_alone(timeout_ms, max_records)
        except BaseException:
            if records:
                # A signal has waited until here: nobody gets these.
                self._take_back(records)
            raise
        return records

    @alone
    def _take_back(self, records: list[ConsumerRecord]) -> None:
        self._subscription.take_back(records)

    @one_at_a_time
    def _poll_alone(self, timeout_ms: float, max_records: int | None) -> list[ConsumerRecord]:
        self._check_open()
        if not (self._subscription.states or self._subscription.is_by_topic):
            raise RuntimeError("this consumer reads nothing: subscribe to topics, or assign partitions, first")
        self._unread()
        count = self.config.max_poll_records if max_records is None else max_records
        if type(count) is not int:
            raise TypeError(f"max_records is {type(count).__name__}, not int or None")
        if count < 1:
            raise ValueError(f"max_records={count}: at least 1")
        if not isinstance(timeout_ms, int | float):
            raise TypeError(f"timeout_ms is {type(timeout_ms).__name__}, not a number of milliseconds")
        if timeout_ms != timeout_ms:
            raise ValueError("timeout_ms is not a number")
        if self._group is not None and self._group.is_calling:
            raise ConcurrentUse("a listener must not poll: what is going on in its consumer is not at an end")
        return self._poll(timeout_ms, count)

    def _poll(self, timeout_ms: float, count: int) -> list[ConsumerRecord]:
        subscription, group = self._subscription, self._group
        subscription.stuck = None
        now = self._clock.tick_ms()
        deadline = now + timeout_ms
        asked = False
        self._look(now, self.config.metadata_max_age_ms)
        while True:
            self._check_woken()
            self._calls.deliver()
            if group is not None and subscription.is_shared:
                group.step(now)
            if group is not None:
                group.commits.auto(now)
            records = subscription.take(count)
            if records or (asked and now >= deadline):
                return records
            self._look(now, max(1, min(IDLE_LOOK_MS, self.config.metadata_max_age_ms)))
            self._begin_made_again()
            self._offsets.ask(now)
            left_ms = max(0, int(min(deadline - now, self.config.fetch_max_wait_ms)))
            asked = self._fetching.ask(left_ms, now, self._offsets.reset) or asked
            if not self._calls.deliver():
                if now >= deadline:
                    return subscription.take(count)  # nothing, but it raises what asking has come to
                self._calls.wait(min(deadline - now, WAIT_MS_MAX, *self._rests_ms(now)))
            now = self._clock.tick_ms()

    def _check_woken(self) -> None:
        self._check_open()
        if self._woken:
            self._woken = False
            raise Wakeup("somebody has called wakeup")

    def wakeup(self) -> None:
        """Let the poll in progress, or the next one, raise Wakeup. From any thread, and from a signal handler."""
        self._woken = True
        self._calls.ring()

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Records as they come; waits for more for ever, or for `consumer_timeout_ms` where that is set."""
        # The lists are walked in C: a frame of Python for each record would cost as much as decoding it.
        return chain.from_iterable(self._polls())

    def _polls(self) -> Iterator[Iterator[ConsumerRecord]]:
        """What a loop goes through: what another one has left, and list after list."""
        limit_ms = self.config.consumer_timeout_ms
        while not self._closed:
            if not length_hint(self._unseen):
                with WHOLE:
                    self._polled = self.poll(self.config.fetch_max_wait_ms if limit_ms is None else limit_ms)
                    self._unseen = iter(self._polled)
                if limit_ms is not None and not self._polled:
                    return
            yield self._unseen

    # --- the end ---------------------------------------------------------------------------------------------------

    @alone
    def close(self, timeout_ms: int = CLOSE_MS) -> None:
        """Commit what polls have given (with auto-commit), leave the group, and let go of everything. Twice is once.

        A static member (`group_instance_id`) does not leave: it may be back before its session ends. Waits for answers
        up to `timeout_ms`. Later calls raise Closed. Raises what a listener raises.
        """
        self._end("it was closed", timeout_ms, commit=True)

    def _end(self, reason: str, timeout_ms: int, *, commit: bool) -> None:
        if self._closed:
            return
        if self._group is not None and self._group.is_calling:
            raise ConcurrentUse("a listener must not close its consumer: let the poll that has called it end first")
        self._unread()
        try:
            self._calls.deliver()
            self._leave(reason, timeout_ms, commit=commit)
            if commit and self._group is not None and self.config.commits:
                # Of partitions that were assigned by hand.
                self._group.commits.finish(timeout_ms)
        finally:
            self._closed = True
            if self._group is not None:
                self._group.close()
            self._subscription.assign([])

    def log_closes(self) -> None:
        """The log is about to close, in whatever thread: end what goes on in this consumer.

        Where another thread has polled last, or a listener closes the log, nothing is committed: what was polled may be
        in the middle of its work.
        """
        in_listener = self._group is not None and self._group.is_calling
        if self._user in (0, threading.get_ident()) and not in_listener:
            self.close()
        else:
            self._go("its log was closed")

    def close_dropped(self) -> None:
        """Leave the group; what was polled may have been in the middle of its work."""
        if not self._closed:
            self._go("it was dropped")

    def _go(self, reason: str) -> None:
        self._closed = True
        self._calls.end()
        if self._group is not None:
            self._group.go(reason, 0)
            self._group.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close; after an exception without a commit: what was being worked on is read again."""
        if error is None:
            self.close()
        else:
            self._end_after_error()

    @alone
    def _end_after_error(self) -> None:
        self._end("it was closed after an error", CLOSE_MS, commit=False)
