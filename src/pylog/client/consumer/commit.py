"""Commits the positions of a consumer for its group: when it is asked to, and every now and then by itself.

A position is the offset of the next record to read. An automatic commit has the positions at which the polls before
this one ended; a position that was committed already is not committed again. (Kafka: ConsumerCoordinator.)
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from pylog.client.cluster import Cluster
from pylog.client.consumer.pending_requests import PendingRequest, PendingRequests
from pylog.client.consumer.subscription import SubscriptionState
from pylog.config import ConsumerConfig
from pylog.errors import (
    COORDINATOR_AWAY,
    CommitFailed,
    FencedInstanceId,
    FencedMemberEpoch,
    IllegalGeneration,
    PylogError,
    RebalanceInProgress,
    RequestTimedOut,
    StaleMemberEpoch,
    UnknownMemberId,
)
from pylog.protocol.messages.offsets import OffsetCommitRequest, OffsetCommitResponse
from pylog.record import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from pylog.runtime.clock import Clock
from pylog.runtime.rounds import Rounds

logger = logging.getLogger("pylog.client")

ToCommit = Mapping[TopicPartition, OffsetAndMetadata]
Committed = Callable[[PylogError | None], object]
OnCommit = Callable[[dict[TopicPartition, OffsetAndMetadata], PylogError | None], object]


class OffsetCommitter:
    """The commits of one consumer.

    `committer` gives the member that commits, or raises CommitFailed or RebalanceInProgress. `refused` is called with
    an error that the coordinator has answered.
    """

    def __init__(
        self,
        requests: PendingRequests,
        cluster: Cluster,
        subscription: SubscriptionState,
        config: ConsumerConfig,
        clock: Clock,
        *,
        committer: Callable[[], ConsumerGroupMetadata],
        refused: Callable[[ConsumerGroupMetadata, PylogError], object],
    ) -> None:
        self._requests = requests
        self._cluster = cluster
        self._subscription = subscription
        self._config = config
        self._clock = clock
        self._committer = committer
        self._refused = refused
        self.commits = 0
        """How many were sent."""
        self._due_ms = clock.tick_ms() + config.auto_commit_interval_ms

    def news(self, partitions: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, OffsetAndMetadata]:
        """The positions of these partitions, or of all, that are not committed yet, nor settled by the program; where
        offsets are stored by the program, these.
        """
        states, subscription = self._subscription.states, self._subscription
        found = subscription.positions() if self._config.enable_auto_offset_store else subscription.stored()
        wanted = states if partitions is None else set(partitions)
        return {
            key: at
            for key, at in found.items()
            if key in wanted and at.offset not in (states[key].committed, states[key].settled)
        }

    def send(self, offsets: ToCommit, then: Committed) -> PendingRequest:
        """Commit; the delivered answer calls `then(error or None)`. Raises CommitFailed, RebalanceInProgress."""
        member = self._committer()
        message = OffsetCommitRequest(
            group_id=member.group_id, generation_id_or_member_epoch=member.generation_id, member_id=member.member_id,
            group_instance_id=member.group_instance_id, topics=OffsetCommitRequest.offsets(offsets),
        )  # fmt: skip
        node = self._cluster.coordinator("group", member.group_id)
        self.commits += 1
        return self._requests.add(
            self._cluster.send(node, message), partial(self._answered, message, dict(offsets), member, then)
        )

    def _answered(
        self,
        message: OffsetCommitRequest,
        offsets: dict[TopicPartition, OffsetAndMetadata],
        member: ConsumerGroupMetadata,
        then: Committed,
        request: PendingRequest,
        answer: OffsetCommitResponse | PylogError,
    ) -> None:
        if isinstance(answer, PylogError):
            error: PylogError | None = answer
        else:
            error = None
            states = self._subscription.states
            for key, part in message.found(answer).items():
                if part.error is not None:
                    error = error or part.error
                elif key in states and key in offsets:
                    states[key].committed = offsets[key].offset
        if error is None:
            then(None)
            return
        self._refused(member, error)
        then(_explained(error))

    def wait(self, offsets: ToCommit, timeout_ms: int) -> Rounds[None]:
        """Commit, and wait until that is done.

        Raises: CommitFailed, RebalanceInProgress, FencedInstanceId, RequestTimedOut, and others of the coordinator.
        """
        deadline = self._clock.tick_ms() + timeout_ms
        while True:
            outcome: list[PylogError | None] = []
            request = self.send(offsets, outcome.append)
            while not outcome:
                left_ms = deadline - self._clock.tick_ms()
                if not self._requests.deliver():
                    if left_ms <= 0:
                        self._requests.forget(request)
                        raise RequestTimedOut(
                            f"{self._requests.who()} has not answered the commit within {timeout_ms} ms; it may have "
                            "worked"
                        )
                    yield left_ms
            error = outcome[0]
            if error is None:
                return
            # An epoch that is stale has a newer one on its way here.
            if not isinstance(error, (*COORDINATOR_AWAY, StaleMemberEpoch)) or self._clock.tick_ms() >= deadline:
                raise error
            yield self._config.retry_backoff_ms

    def in_background(self, offsets: dict[TopicPartition, OffsetAndMetadata], callback: OnCommit | None) -> None:
        """Commit without waiting; `callback`, or that of the config, hears of it. Without one an error is logged."""
        callback = callback or self._config.default_offset_commit_callback

        def then(error: PylogError | None) -> None:
            if callback is not None:
                callback(offsets, error)
            elif error is not None:
                logger.warning("a commit in the background has failed: %s", error, extra=self._fields)

        try:
            self.send(offsets, then)
        except (CommitFailed, RebalanceInProgress, FencedInstanceId) as error:
            then(error)

    # --- by itself ---------------------------------------------------------------------------------------------------

    def auto(self, now_ms: int) -> None:
        """Commit the positions that are due in the background, for a consumer with auto-commit."""
        if now_ms < self._due_ms or not self._config.commits:
            return
        self._due_ms = now_ms + self._config.auto_commit_interval_ms
        offsets = self.news()
        if not offsets:
            return
        try:
            self.send(offsets, partial(self._auto_done, offsets))
        except (CommitFailed, RebalanceInProgress) as error:
            self._auto_done(offsets, error)

    def finish(self, timeout_ms: int) -> Rounds[None]:
        """Commit for the last time, and wait until that is done."""
        offsets = self.news()
        if offsets:
            try:
                yield from self.wait(offsets, timeout_ms)
            except PylogError as error:
                logger.warning("the last positions were not committed: %s", error, extra=self._fields)

    @property
    def _fields(self) -> dict[str, object]:
        """The fields of a log record."""
        return {"group_id": self._config.group_id}

    def _auto_done(self, offsets: dict[TopicPartition, OffsetAndMetadata], error: PylogError | None) -> None:
        if self._config.default_offset_commit_callback is not None:
            self._config.default_offset_commit_callback(offsets, error)
        if isinstance(error, (*COORDINATOR_AWAY, RebalanceInProgress, StaleMemberEpoch)):
            self._due_ms = min(self._due_ms, self._clock.tick_ms() + self._config.retry_backoff_ms)
        elif error is not None and self._config.default_offset_commit_callback is None:
            logger.warning("positions were not committed by themselves: %s", error, extra=self._fields)


def _explained(error: PylogError) -> PylogError:
    """The error as the caller of a commit sees it."""
    if not isinstance(error, IllegalGeneration | UnknownMemberId | FencedMemberEpoch):
        return error
    failed = CommitFailed(
        f"the group has moved on without this member ({error}): nothing was committed, and others may read its "
        "partitions by now. Poll to join again, and begin again with what it gives. Where the work between two polls "
        "takes long, raise max_poll_interval_ms, or lower max_poll_records"
    )
    failed.__cause__ = error
    return failed
