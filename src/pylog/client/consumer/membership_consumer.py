"""A member of a group, by the consumer protocol (KIP-848): the coordinator assigns, and one message says everything.

    UNJOINED --poll: epoch 0--> JOINING --> STABLE <--> REVOKING          target    what the member is to have
                                                                          owned     what it has

Unlike in the classic protocol, the answer to any heartbeat may bring a target. The next `poll` gives back the
partitions that are not in it, takes the new ones, and reports both at once. No member waits for another: a partition
that another member has yet to give back comes with a later answer. The generation is the member's epoch. (Kafka:
ConsumerMembershipManager, AbstractHeartbeatRequestManager.)

A message says all there is whenever something has changed or an answer may be lost, and is told all then; otherwise it
says that the member lives, and the coordinator keeps the answer back while there is nothing to say.
"""

import uuid
from collections.abc import Callable, Mapping

from pylog.client.consumer.membership import (
    ANSWER_MS_SPARE,
    AssignPartitions,
    Effect,
    Fail,
    MemberAnswer,
    Membership,
    MembershipState,
    Revoke,
    Send,
)
from pylog.config import ConsumerConfig
from pylog.errors import (
    COORDINATOR_AWAY,
    FencedInstanceId,
    FencedMemberEpoch,
    GroupIdNotFound,
    IllegalGeneration,
    PylogError,
    StaleMemberEpoch,
    UnknownMemberId,
)
from pylog.protocol.assignor.member import NO_GENERATION
from pylog.protocol.messages import JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH
from pylog.protocol.messages.groups import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from pylog.record import ConsumerGroupMetadata, TopicPartition

_BEGIN_ANEW = (FencedMemberEpoch, UnknownMemberId, IllegalGeneration)
Slots = list[tuple[uuid.UUID, list[int]]]


class ConsumerMembership(Membership):
    """One member. Not thread-safe: its host lets one in at a time.

    `names` gives the topics that are known, by id; `lacks_names` says when one that it needs is not among them.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        now_ms: int,
        names: Callable[[], Mapping[uuid.UUID, str]],
        new_id: Callable[[], uuid.UUID] = uuid.uuid4,
    ) -> None:
        super().__init__(config, now_ms, str(new_id()))
        self._new_id = new_id
        self._names = names
        self.lacks_names = False
        self._failure: PylogError | None = None
        self._said_topics: frozenset[str] = frozenset()
        self._target: Slots | None = None
        """The last assignment that the coordinator has sent; None: nothing new."""
        self._was_replaced = False
        """Whether it has said something else before, which was never followed."""
        self._ids: dict[TopicPartition, uuid.UUID] = {}
        """The topic of each partition that it has. Names are looked up when it gets one: they may be forgotten then."""
        self._following: dict[TopicPartition, uuid.UUID] = {}
        self._has_news = False
        """Whether the next message has to say all."""
        self._beating: ConsumerGroupHeartbeatRequest | None = None
        self._interval_ms = config.heartbeat_interval_ms
        self._beat_ms = now_ms
        self._retry_ms = now_ms
        """Until then all is not said again: the coordinator has just refused something."""
        self._given_up_ms = now_ms
        self._former_id: str | None = None
        """The member id under which it has yet to leave."""

    # --- its state ---------------------------------------------------------------------------------------------------

    @property
    def needs_poll(self) -> bool:
        return self._failure is not None or self._target is not None or self.state is MembershipState.UNJOINED

    @property
    def _is_in(self) -> bool:
        return self.generation != NO_GENERATION and self.state is not MembershipState.LEFT and self.fatal is None

    @property
    def due_ms(self) -> int | None:
        if not self._is_in:
            return None
        beat = self._beat_ms if self._beating is None else self._given_up_ms
        return min(beat, self._polled_ms + self._config.max_poll_interval_ms)

    # --- events ------------------------------------------------------------------------------------------------------

    def join_again(self) -> None:
        self._has_news = True

    def _poll(self, now_ms: int) -> list[Effect]:
        failure, self._failure = self._failure, None
        if failure is not None:
            return [Fail(failure)]
        if self.state is MembershipState.UNJOINED:
            return [*self._lose(), *self._join(now_ms)]
        if self.state is MembershipState.JOINING and now_ms >= self._given_up_ms:
            return self._say_all(now_ms)
        if self.state is MembershipState.STABLE:
            effects = self._reconcile()
            if effects:
                return effects
            if (self._has_news or self.topics != self._said_topics) and self._may_say_all(now_ms):
                return self._say_all(now_ms)
        return self.tick(now_ms)

    def tick(self, now_ms: int) -> list[Effect]:
        due = self.due_ms
        if due is None or now_ms < due:
            return []
        if now_ms >= self._polled_ms + self._config.max_poll_interval_ms:
            return self._go("no poll")
        if self._beating is not None:
            # Its answer is lost, and with it perhaps a target.
            return self._say_all(now_ms)
        return self._say(
            ConsumerGroupHeartbeatRequest(
                group_id=self._group_id, member_id=self.member_id, member_epoch=self.generation
            ),
            now_ms,
        )

    def refused(self, member: ConsumerGroupMetadata, error: PylogError, now_ms: int) -> None:
        if self._is_now(member) and not isinstance(error, StaleMemberEpoch):
            self._heard(error, now_ms, of_commit=True)

    def answered(self, message: object, answer: MemberAnswer, now_ms: int) -> list[Effect]:
        if isinstance(answer, PylogError):
            answer = ConsumerGroupHeartbeatResponse(error=answer)
        assert isinstance(answer, ConsumerGroupHeartbeatResponse), "it says nothing else"
        error = answer.error
        if message is not self._beating or self._beating is None:
            # It may have come behind the message that has overtaken it: a target that it was told counts as known.
            self._has_news |= error is not None or answer.assignment is not None
            return []
        was_full = self._beating.topic_partitions is not None
        self._beating = None
        if error is not None:
            # What was said may not have been heard, and the answer that is lost may have had a target (Kafka:
            # HeartbeatState.reset).
            self._has_news = True
            self._heard(error, now_ms)
            return []
        is_news = was_full or answer.member_epoch != self.generation or answer.assignment is not None
        self.member_id = answer.member_id or self.member_id
        self.generation = answer.member_epoch
        self._interval_ms = answer.heartbeat_interval_ms
        # The next message waits for news. A coordinator that keeps nothing back is not to be pressed.
        self._beat_ms = now_ms if is_news else max(now_ms, self._beat_ms + self._interval_ms)
        if self.state is MembershipState.JOINING:
            self.state = MembershipState.STABLE
        if answer.assignment is not None:
            self._was_replaced |= self._target is not None
            self._target = [(one.topic_id, one.partitions) for one in answer.assignment.topic_partitions]
        return []

    # --- what it says ------------------------------------------------------------------------------------------------

    def _join(self, now_ms: int) -> list[Effect]:
        if not self.topics or now_ms < self._beat_ms:
            return []
        former, self._former_id = self._former_id, None
        self.state = MembershipState.JOINING
        return [*([] if former is None else [self._leaving(former)]), *self._say_all(now_ms)]

    def _may_say_all(self, now_ms: int) -> bool:
        """Whether no such message is in flight: its overtaken answer would count as a target that was never heard."""
        is_under_way = self._beating is not None and self._beating.topic_partitions is not None
        return not is_under_way and now_ms >= self._retry_ms

    def _say_all(self, now_ms: int) -> list[Effect]:
        joins = self.state is MembershipState.JOINING
        self._said_topics = self.topics
        self._has_news = self._was_replaced = False
        # A target that it was told and has not followed yet counts no more: the coordinator hears that it has it not.
        self._target = None
        owned: dict[uuid.UUID, list[int]] = {}
        for key in self.owned:
            owned.setdefault(self._ids[key], []).append(key.partition)
        message = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self.member_id,
            member_epoch=JOIN_EPOCH if joins else self.generation,
            instance_id=self._config.group_instance_id,
            rack_id=self._config.client_rack or None,
            rebalance_timeout_ms=self._config.max_poll_interval_ms,
            subscribed_topic_names=sorted(self.topics),
            server_assignor=self._config.group_remote_assignor,
            topic_partitions=[
                ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=topic_id, partitions=numbers)
                for topic_id, numbers in owned.items()
            ],
        )
        return self._say(message, now_ms)

    def _say(self, message: ConsumerGroupHeartbeatRequest, now_ms: int) -> list[Effect]:
        message.max_wait_ms = self._interval_ms
        self._beating = message
        self._beat_ms = now_ms
        self._given_up_ms = now_ms + message.max_wait_ms + ANSWER_MS_SPARE
        return [Send(message)]

    # --- what it has -------------------------------------------------------------------------------------------------

    def _reconcile(self) -> list[Effect]:
        if self._target is None:
            return []
        names = self._names()
        self.lacks_names = any(topic_id not in names for topic_id, _ in self._target)
        if self.lacks_names:
            return []
        assigned = {
            TopicPartition(names[topic_id], partition): topic_id
            for topic_id, numbers in self._target
            for partition in numbers
        }
        self._target = None
        held = {key: self._ids[key] for key in self.owned}
        if assigned == held:
            # The coordinator may wait to have back what it gave in between: it has to hear that this was never taken.
            self._has_news |= self._was_replaced
            return []
        going = sorted(key for key, topic_id in held.items() if assigned.get(key) != topic_id)
        if not going:
            return self._settle(assigned)
        self.state = MembershipState.REVOKING
        self._following = assigned
        return [Revoke(going)]

    def _go_on(self) -> list[Effect]:
        return self._settle(self._following)

    def _settle(self, assigned: dict[TopicPartition, uuid.UUID]) -> list[Effect]:
        added = sorted(assigned.keys() - set(self.owned))
        self.owned, self._ids = sorted(assigned), assigned
        self.state = MembershipState.STABLE
        self._has_news = True
        return [AssignPartitions(self.owned, added)]

    # --- errors and ends ---------------------------------------------------------------------------------------------

    def _heard(self, error: PylogError, now_ms: int, *, of_commit: bool = False) -> None:
        has_turned = isinstance(error, GroupIdNotFound) and self.state is not MembershipState.JOINING
        if isinstance(error, _BEGIN_ANEW) or has_turned:  # the group is a classic one now, until it is joined again
            if self.state is MembershipState.JOINING:
                self._beat_ms = now_ms + self._config.retry_backoff_ms
                if isinstance(error, FencedMemberEpoch):
                    # The coordinator still knows it from before, and would until that session ends. Under another id
                    # it may join at once, and may leave under the old one whenever that gets there.
                    self._former_id = self.member_id
                    self.member_id = str(self._new_id())
            self._forget()
        elif isinstance(error, FencedInstanceId):
            self._forget()
            self.fatal = self._replaced(error)
        elif not of_commit:
            self._retry_ms = self._beat_ms = now_ms + self._config.retry_backoff_ms
            if self.state is MembershipState.JOINING:
                self.state = MembershipState.UNJOINED
            if not isinstance(error, COORDINATOR_AWAY):
                self._failure = error

    def _forget(self) -> None:
        self.generation = NO_GENERATION
        self._target = self._beating = None
        if self.state in (MembershipState.STABLE, MembershipState.JOINING):
            self.state = MembershipState.UNJOINED

    def _go(self, reason: str) -> list[Effect]:
        # There is no room for a reason in what it says.
        was_in = self._is_in or self.state is MembershipState.JOINING
        self._forget()
        return [self._leaving(self.member_id)] if was_in else []

    def _leaving(self, member_id: str) -> Send:
        """That a member goes; a static one says that it will be back."""
        instance_id = self._config.group_instance_id
        epoch = LEAVE_EPOCH if instance_id is None else LEAVE_STATIC_EPOCH
        return Send(
            ConsumerGroupHeartbeatRequest(
                group_id=self._group_id, member_id=member_id, member_epoch=epoch, instance_id=instance_id
            )
        )
