"""A member of a share group, as a machine: heartbeats out, assignments in (KIP-932).

    epoch 0 --poll: joins--> epoch of the last answer --heartbeats--> ... --leave--> gone

It gives nothing back: other members may read the same partitions. So an assignment counts as it comes. (Kafka:
ShareMembershipManager, ShareHeartbeatRequestManager.)
"""

import uuid

from pylog.errors import COORDINATOR_AWAY, FencedMemberEpoch, GroupIdNotFound, PylogError, UnknownMemberId
from pylog.protocol.messages import JOIN_EPOCH, LEAVE_EPOCH
from pylog.protocol.messages.share import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

ANSWER_MS_SPARE = 30_000
INTERVAL_MS = 5000
"""How often a member is heard of before its coordinator has told."""

Slots = dict[uuid.UUID, list[int]]


class ShareMembership:
    """One member. Not thread-safe: its host lets one in at a time."""

    def __init__(self, group_id: str, rack_id: str, retry_ms: int, now_ms: int) -> None:
        self.member_id = str(uuid.uuid4())
        self.epoch = JOIN_EPOCH
        self.topics: frozenset[str] = frozenset()
        self.assigned: Slots = {}
        self.rebalances = 0
        """How many assignments the group has given."""
        self.failure: PylogError | None = None
        """The error for the next poll."""
        self._group_id = group_id
        self._rack_id = rack_id or None
        self._retry_ms = retry_ms
        self._said_topics: frozenset[str] = frozenset()
        self._is_gone = False
        self._beating: ShareGroupHeartbeatRequest | None = None
        self._beat_ms = self._given_up_ms = now_ms
        self._retry_at_ms = now_ms
        """Until then nothing is said again: the coordinator has just refused something."""
        self._interval_ms = INTERVAL_MS
        self._look_in_ms = retry_ms
        """After how long to ask for partitions again, while there are not any."""

    @property
    def due_ms(self) -> int | None:
        """When the next heartbeat between polls is due; None while there is no membership to keep."""
        if self._is_gone or self.epoch == JOIN_EPOCH:
            return None
        return self._beat_ms if self._beating is None else self._given_up_ms

    def subscribe(self, topics: frozenset[str]) -> None:
        """Want these topics from the next heartbeat on. Without any it leaves by `leave`."""
        self.topics = topics
        self._is_gone = False

    def say_again(self) -> None:
        """Something has changed that the next assignment has to know: let the next heartbeat say all."""
        self._said_topics = frozenset()

    def message(self, now_ms: int, *, polls: bool) -> ShareGroupHeartbeatRequest | None:
        """The heartbeat that is due. Only a poll joins."""
        joins, has_news = self.epoch == JOIN_EPOCH, self.topics != self._said_topics
        if self._is_gone or not self.topics or (joins and not polls):
            return None
        if self._beating is not None and now_ms < self._given_up_ms and not (has_news and self._is_plain):
            return None
        if self._beating is None and now_ms < (self._retry_at_ms if has_news else self._beat_ms):
            return None
        says_all = joins or has_news or self._beating is not None
        self._said_topics = self.topics if says_all else self._said_topics
        message = ShareGroupHeartbeatRequest(
            group_id=self._group_id, member_id=self.member_id, member_epoch=self.epoch,
            rack_id=self._rack_id if says_all else None,
            subscribed_topic_names=sorted(self.topics) if says_all else None,
            max_wait_ms=self._interval_ms,
        )  # fmt: skip
        self._beating, self._beat_ms = message, now_ms
        self._given_up_ms = now_ms + self._interval_ms + ANSWER_MS_SPARE
        return message

    @property
    def _is_plain(self) -> bool:
        """Whether the heartbeat in flight says nothing new: then another one may overtake it."""
        return self._beating is not None and self._beating.subscribed_topic_names is None

    def answered(self, message: object, answer: ShareGroupHeartbeatResponse | PylogError, now_ms: int) -> None:
        """Take over an answer. A late one changes nothing."""
        if message is not self._beating or self._beating is None:
            return
        self._beating = None
        error = answer if isinstance(answer, PylogError) else answer.error
        if error is not None:
            self._refused(error, now_ms)
            return
        assert isinstance(answer, ShareGroupHeartbeatResponse), "it is no error"
        is_news = answer.assignment is not None or answer.member_epoch != self.epoch
        self.epoch, self._interval_ms = answer.member_epoch, answer.heartbeat_interval_ms
        # The next one waits for news. A coordinator that keeps nothing back is not to be pressed.
        if answer.assignment is not None:
            self.rebalances += 1
            self.assigned = {one.topic_id: one.partitions for one in answer.assignment.topic_partitions}
        if self.assigned:
            self._look_in_ms = self._retry_ms
        self._beat_ms = now_ms if is_news else max(now_ms, self._beat_ms + self._pace())

    def _pace(self) -> int:
        """The time between two heartbeats; short at first for a member without partitions. The first ones of a group
        come once its coordinator has written down where it begins, which takes a moment, not an interval.
        """
        if self.assigned:
            return self._interval_ms
        pace, self._look_in_ms = self._look_in_ms, min(2 * self._look_in_ms, self._interval_ms)
        return min(pace, self._interval_ms)

    def _refused(self, error: PylogError, now_ms: int) -> None:
        was_in = self.epoch != JOIN_EPOCH
        self._said_topics = frozenset()
        self._beat_ms = self._retry_at_ms = now_ms + self._retry_ms
        if isinstance(error, FencedMemberEpoch | UnknownMemberId) or (was_in and isinstance(error, GroupIdNotFound)):
            self.epoch, self.assigned = JOIN_EPOCH, {}
        elif not isinstance(error, COORDINATOR_AWAY):
            self.failure = error

    def leave(self) -> ShareGroupHeartbeatRequest | None:
        """The message that it goes; None where the group does not know it."""
        was_in = not self._is_gone and (self.epoch != JOIN_EPOCH or self._beating is not None)
        self._is_gone = True
        self.epoch, self.assigned, self._beating = JOIN_EPOCH, {}, None
        self._said_topics = frozenset()
        if not was_in:
            return None
        return ShareGroupHeartbeatRequest(
            group_id=self._group_id, member_id=self.member_id, member_epoch=LEAVE_EPOCH
        )  # fmt: skip
