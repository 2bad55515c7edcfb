"""A member of a group of the newer protocol as a machine: answers and time in, messages and partitions out."""

import uuid
from typing import Any

import pytest

from pylog.client.consumer.membership import AssignPartitions, Effect, Fail, Lose, MembershipState, Revoke, Send
from pylog.client.consumer.membership_consumer import ConsumerMembership
from pylog.config import ConsumerConfig
from pylog.errors import (
    CommitFailed,
    CoordinatorLoadInProgress,
    FencedInstanceId,
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    NetworkError,
    PylogError,
    StaleMemberEpoch,
    UnknownMemberId,
)
from pylog.protocol.messages.groups import ConsumerGroupHeartbeatRequest
from pylog.record import ConsumerGroupMetadata, TopicPartition
from support.messages import member_heartbeat, member_heartbeaten

T, U = uuid.UUID(int=7), uuid.UUID(int=8)
T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
ME = str(uuid.UUID(int=1))


def owned(message: ConsumerGroupHeartbeatRequest) -> list[tuple[uuid.UUID, list[int]]] | None:
    """The partitions that a heartbeat tells of."""
    parts = message.topic_partitions
    return None if parts is None else [(one.topic_id, one.partitions) for one in parts]


class Play:
    """A machine, what it has sent last, and the time."""

    def __init__(self, **config: Any) -> None:
        self.config = ConsumerConfig(group_id="g", group_protocol="consumer", **config)
        self.now = 1000
        self.names = {T: "t"}
        self.machine = ConsumerMembership(self.config, self.now, lambda: self.names, lambda: uuid.UUID(int=1))
        self.machine.subscribe(frozenset({"t"}))
        self.sent: list[ConsumerGroupHeartbeatRequest] = []

    def note(self, effects: list[Effect]) -> list[Effect]:
        for effect in effects:
            if isinstance(effect, Send):
                assert isinstance(effect.message, ConsumerGroupHeartbeatRequest)
                self.sent.append(effect.message)
        return [effect for effect in effects if not isinstance(effect, Send)]

    def poll(self) -> list[Effect]:
        return self.note(self.machine.poll(self.now))

    def tick(self) -> None:
        assert self.note(self.machine.tick(self.now)) == []

    def take(self) -> ConsumerGroupHeartbeatRequest:
        (message,) = self.sent
        self.sent.clear()
        return message

    def answer(self, epoch: int, *assigned: int, none: bool = False) -> None:
        assignment = None if none else [(T, list(assigned))]
        answer = member_heartbeaten(None, None, epoch, 5000, assignment)
        assert self.machine.answered(self.take(), answer, self.now) == []

    def fail(self, error: PylogError) -> None:
        assert self.machine.answered(self.take(), member_heartbeaten(error), self.now) == []

    def stable(self, *assigned: int) -> "Play":
        """With a heartbeat under way that waits."""
        assert self.poll() == []
        self.answer(1, *assigned)
        keys = [TopicPartition("t", number) for number in assigned]
        assert self.poll() == [AssignPartitions(keys, keys)]
        assert self.poll() == []
        self.answer(1, *assigned)
        assert self.poll() == []
        return self


def test_a_member_says_all_when_it_joins_and_when_it_is_done() -> None:
    play = Play(group_remote_assignor="range", max_poll_interval_ms=70_000)
    assert play.machine.needs_poll and play.machine.due_ms is None
    assert play.poll() == [] and play.poll() == []
    assert play.take() == member_heartbeat(
        "g", ME, 0, rebalance_timeout_ms=70_000, subscribed_topic_names=["t"], server_assignor="range",
        topic_partitions=[], max_wait_ms=3000,
    )  # fmt: skip
    assert play.machine.state is MembershipState.JOINING
    with pytest.raises(CommitFailed):
        play.machine.committer()
    play = Play().stable(0, 2)
    assert play.machine.identity == ConsumerGroupMetadata("g", 1, ME, None) == play.machine.committer()
    assert play.take() == member_heartbeat("g", ME, 1, max_wait_ms=5000), "it says that it lives, and waits"
    assert not play.machine.needs_poll


def test_partitions_never_taken_are_given_back_at_once() -> None:
    """The coordinator waited for it, and so did everybody else, until the rebalance time-out (Kafka's LocalAssignment
    has an epoch for this).
    """
    play = Play().stable(0)
    message = play.take()
    play.machine.answered(message, member_heartbeaten(None, ME, 2, 5000, [(T, [0]), (U, [0])]), play.now)
    assert play.poll() == [] and play.machine.lacks_names
    play.answer(3, 0)
    assert play.poll() == []
    assert owned(play.take()) == [(T, [0])], "this is what it has, and all"


def test_a_member_tells_its_partitions_when_they_change() -> None:
    play = Play().stable(0, 1)
    play.answer(2, 1, 2)
    assert play.machine.needs_poll
    assert play.poll() == [Revoke([T0])]
    assert play.poll() == [] and play.machine.state is MembershipState.REVOKING
    assert play.note(play.machine.revoked([T0])) == [AssignPartitions([T1, T2], [T2])]
    play.sent.clear()
    assert play.poll() == []
    message = play.take()
    assert (message.member_epoch, owned(message)) == (2, [(T, [1, 2])])
    assert message.subscribed_topic_names == ["t"]
    assert play.machine.revoked([T2]) == [], "nobody has asked"


def test_an_epoch_alone_is_news_and_an_empty_answer_is_not() -> None:
    play = Play().stable(0)
    play.answer(2, none=True)
    assert play.machine.generation == 2 and play.machine.due_ms == play.now
    play.tick()
    play.answer(2, none=True)
    assert play.machine.due_ms == play.now + 5000, "a coordinator that keeps nothing back is not pressed"
    play.now += 5000
    play.tick()
    play.now += 5000
    play.answer(2, none=True)
    assert play.machine.due_ms == play.now, "this one was kept back: the next one waits at once"


def test_topics_that_are_not_known_are_waited_for() -> None:
    play = Play().stable(0)
    message = play.take()
    play.machine.answered(message, member_heartbeaten(None, ME, 2, 5000, [(U, [0])]), play.now)
    assert play.poll() == [] and play.machine.lacks_names
    play.names[U] = "u"
    assert play.poll() == [Revoke([T0])] and not play.machine.lacks_names
    del play.names[U]
    assert play.note(play.machine.revoked([T0])) == [
        AssignPartitions([TopicPartition("u", 0)], [TopicPartition("u", 0)])
    ]
    play.sent.clear()
    play.poll()
    assert owned(play.take()) == [(U, [0])], "what it has, it says, whatever it knows of topics by now"


def test_a_new_subscription_is_said_at_once() -> None:
    play = Play().stable(0)
    play.sent.clear()
    play.machine.subscribe(frozenset({"t", "u"}))
    play.poll()
    assert play.sent[0].subscribed_topic_names == ["t", "u"]
    play.machine.join_again()
    assert play.poll() == [] and len(play.sent) == 1
    play.answer(1, 0)
    assert play.poll() == []
    assert owned(play.take()) == [(T, [0])]


@pytest.mark.parametrize("error", [GroupIdNotFound("no more"), UnknownMemberId("who?"), FencedMemberEpoch("old")])
def test_a_member_that_is_fenced_loses_everything_and_joins_again(error: PylogError) -> None:
    play = Play().stable(0, 1)
    play.fail(error)
    with pytest.raises(CommitFailed):
        play.machine.committer()
    assert play.poll() == [Lose([T0, T1])]
    message = play.take()
    assert (message.member_epoch, owned(message)) == (0, [])


def test_a_member_that_is_fenced_while_it_gives_back_loses_the_rest() -> None:
    play = Play().stable(0, 1)
    play.answer(2, 1)
    assert play.poll() == [Revoke([T0])]
    play.tick()
    play.fail(FencedMemberEpoch("old"))
    assert play.machine.state is MembershipState.REVOKING
    assert play.machine.revoked([T0]) == [] and play.machine.state is MembershipState.UNJOINED
    assert play.poll() == [Lose([T1])]


def test_a_member_that_was_replaced_says_so_for_ever() -> None:
    play = Play(group_instance_id="one").stable(0)
    play.fail(FencedInstanceId("another"))
    lost, failed = play.poll()
    assert lost == Lose([T0]) and isinstance(failed, Fail)
    (failed,) = play.poll()
    assert isinstance(failed, Fail) and "group_instance_id='one'" in str(failed.error)
    with pytest.raises(FencedInstanceId):
        play.machine.committer()
    assert play.machine.due_ms is None


def test_a_refused_join_is_raised_and_tried_again_later() -> None:
    play = Play(retry_backoff_ms=100)
    play.poll()
    full = GroupMaxSizeReached("full")
    play.fail(full)
    assert play.poll() == [Fail(full)]
    assert play.poll() == [] and play.sent == []
    play.now += 100
    play.poll()
    assert play.take().member_epoch == 0


def test_a_coordinator_that_is_away_is_asked_again_and_told_all() -> None:
    play = Play(retry_backoff_ms=100)
    play.poll()
    play.fail(CoordinatorLoadInProgress("soon"))
    assert play.poll() == [] and play.sent == []
    play.now += 100
    play.poll()
    play.answer(1, 0)
    play.poll()
    play.poll()
    message = play.take()
    assert owned(message) == [(T, [0])]
    assert play.machine.answered(message, NetworkError("gone"), play.now) == []
    assert play.machine.due_ms == play.now + 100
    assert play.poll() == [] and play.sent == [], "an answer that comes at once is no reason to ask at once"
    play.now += 100
    play.poll()
    assert owned(play.take()) == [(T, [0])], "it may not have got there"


def test_an_answer_that_is_lost_is_asked_for_by_saying_all() -> None:
    play = Play(max_poll_interval_ms=600_000).stable(0)
    lost = play.take()
    play.now += 35_000
    play.tick()
    assert owned(play.take()) == [(T, [0])]
    assert play.machine.answered(lost, member_heartbeaten(UnknownMemberId("who?")), play.now) == []
    assert play.machine.generation == 1, "and when it comes after all, it is too late"


def test_a_target_may_be_lost_with_any_answer() -> None:
    """The coordinator has said it, and would not say it again to a member that does not say what it has."""
    play = Play().stable(0)
    message = play.take()
    assert message.topic_partitions is None
    assert play.machine.answered(message, NetworkError("no answer has come"), play.now) == []
    play.now += play.config.retry_backoff_ms
    assert play.poll() == []
    assert owned(play.take()) == [(T, [0])]


@pytest.mark.parametrize(
    ("answer", "is_lost"),
    [
        (member_heartbeaten(None, None, 1, 5000, [(T, [0, 1])]), True),
        (NetworkError("lost"), True),
        (member_heartbeaten(FencedMemberEpoch("of an older life")), True),
        (member_heartbeaten(None, None, 1, 5000, None), False),
    ],
)
def test_the_answer_of_an_overtaken_heartbeat_is_asked_for_again(answer: object, is_lost: bool) -> None:
    # It may have come after the one that has overtaken it: then the coordinator believes that the target is known.
    play = Play().stable(0)
    overtaken = play.take()
    play.machine.subscribe(frozenset({"t", "u"}))
    assert play.poll() == []
    assert play.machine.answered(overtaken, answer, play.now) == []
    assert play.machine.identity.generation_id == 1 and play.machine.state is MembershipState.STABLE
    play.answer(1, 0)
    assert play.poll() == []
    assert (play.take().topic_partitions is not None) == is_lost


def test_a_full_heartbeat_is_not_overtaken() -> None:
    # Its answer says all, too, and would be asked for again, and again.
    play = Play().stable(0)
    overtaken = play.take()
    play.machine.subscribe(frozenset({"t", "u"}))
    play.poll()
    said = play.take()
    told = member_heartbeaten(None, None, 1, 5000, [(T, [0, 1])])
    play.machine.join_again()
    assert play.machine.answered(overtaken, told, play.now) == []
    assert play.poll() == [] and play.sent == []
    play.sent.append(said)
    play.answer(1, 0)
    assert play.poll() == []
    assert play.take().subscribed_topic_names == ["t", "u"]


def test_a_member_fenced_as_it_joins_joins_under_a_new_id() -> None:
    # The coordinator still knows it, in a later epoch; as Kafka's would, until that session has ended.
    play = Play(retry_backoff_ms=100).stable(0)
    play.machine._new_id = lambda: uuid.UUID(int=2)
    play.fail(FencedMemberEpoch("in epoch 4, not 2"))
    assert play.poll() == [Lose([T0])]
    play.fail(FencedMemberEpoch("in epoch 4, not 0"))
    assert play.poll() == [] and play.sent == []
    play.now += 100
    assert play.poll() == []
    leaving, joining = play.sent
    assert (leaving.member_id, leaving.member_epoch) == (ME, -1)
    assert (joining.member_id, joining.member_epoch) == (str(uuid.UUID(int=2)), 0)
    play.sent.remove(leaving)
    play.answer(5, 0)
    assert play.machine.identity == ConsumerGroupMetadata("g", 5, str(uuid.UUID(int=2)), None)


def test_a_member_unknown_as_it_joins_tries_again_after_a_while() -> None:
    play = Play(retry_backoff_ms=100)
    play.poll()
    play.fail(UnknownMemberId("who?"))
    assert play.poll() == [] and play.sent == []
    play.now += 100
    play.poll()
    assert (play.take().member_id, play.machine.state) == (ME, MembershipState.JOINING)


def test_a_member_that_does_not_poll_leaves() -> None:
    for instance_id, epoch in ((None, -1), ("one", -2)):
        play = Play(max_poll_interval_ms=10_000, group_instance_id=instance_id).stable(0)
        play.sent.clear()
        play.now += 10_000
        play.tick()
        message = play.take()
        assert (message.member_epoch, message.instance_id) == (epoch, instance_id)
        assert play.machine.due_ms is None
        play.tick()
        assert play.poll() == [Lose([T0])]
        assert play.take().member_epoch == 0


def test_leaving_and_coming_back() -> None:
    play = Play().stable(0)
    play.sent.clear()
    assert play.note(play.machine.leave("bye")) == []
    assert play.take().member_epoch == -1
    assert play.machine.state is MembershipState.LEFT and play.machine.owned == [] and play.machine.due_ms is None
    assert play.poll() == [] and play.sent == []
    play.machine.rejoin()
    play.machine.rejoin()
    play.machine.subscribe(frozenset())
    assert play.poll() == [] and play.sent == []
    play.machine.subscribe(frozenset({"t"}))
    play.poll()
    assert play.take().member_epoch == 0
    assert Play().machine.leave("bye") == []


def test_an_unknown_member_error_of_a_commit_ends_the_membership() -> None:
    play = Play().stable(0)
    who = play.machine.committer()
    play.machine.refused(who, StaleMemberEpoch("the new one is on its way"), play.now)
    play.machine.refused(who, CoordinatorLoadInProgress("soon"), play.now)
    play.machine.refused(who._replace(generation_id=0), UnknownMemberId("who?"), play.now)
    assert play.machine.generation == 1 and not play.machine.needs_poll
    play.machine.refused(who, UnknownMemberId("who?"), play.now)
    assert play.machine.generation == -1


def test_an_answer_from_before_a_full_heartbeat_does_not_count() -> None:
    """The coordinator has heard that it has none of that, and may have given it to others: it tells all again."""
    play = Play().stable(0)
    message = play.take()
    play.machine.answered(message, member_heartbeaten(None, ME, 2, 5000, [(U, [0])]), play.now)
    assert play.poll() == [] and play.machine.lacks_names
    play.machine.subscribe(frozenset({"t", "u"}))
    play.sent.clear()
    assert play.poll() == []
    assert owned(play.take()) == [(T, [0])]
    play.names[U] = "u"
    assert play.poll() == []


def test_a_topic_that_was_made_again_is_another_one() -> None:
    play = Play().stable(0)
    message = play.take()
    play.names = {U: "t"}
    play.machine.answered(message, member_heartbeaten(None, ME, 2, 5000, [(U, [0])]), play.now)
    assert play.poll() == [Revoke([T0])]
    assert play.note(play.machine.revoked([T0])) == [AssignPartitions([T0], [T0])]
    play.sent.clear()
    play.poll()
    assert owned(play.take()) == [(U, [0])]


def test_a_join_without_an_answer_is_repeated() -> None:
    play = Play()
    assert play.poll() == []
    late = play.take()
    play.now += 60_000
    assert play.poll() == []
    play.machine.answered(late, member_heartbeaten(None, ME, 1, 5000, [(T, [0])]), play.now)
    assert play.machine.state is MembershipState.JOINING, "it comes too late"
    play.answer(1, 0)
    assert play.poll() == [AssignPartitions([T0], [T0])]
