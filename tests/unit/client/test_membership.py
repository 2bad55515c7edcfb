"""A member of a group as a machine: answers and time in, messages and partitions out."""

from typing import Any

import pytest

from pylog.client.consumer.membership import AssignPartitions, Effect, Elect, Fail, Lose, MembershipState, Revoke, Send
from pylog.client.consumer.membership_classic import ClassicMembership
from pylog.config import ConsumerConfig
from pylog.errors import (
    CommitFailed,
    CoordinatorLoadInProgress,
    CorruptBatch,
    FencedInstanceId,
    GroupMaxSizeReached,
    IllegalGeneration,
    InconsistentGroupProtocol,
    MemberIdRequired,
    NetworkError,
    PylogError,
    RebalanceInProgress,
    UnknownMemberId,
)
from pylog.protocol.assignor import (
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from pylog.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from pylog.record import ConsumerGroupMetadata, TopicPartition
from support.messages import heartbeaten, joined_group, synced_group

Member = JoinGroupResponse.JoinGroupResponseMember

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
U0 = TopicPartition("u", 0)
EAGER = "range"
COOPERATIVE = "cooperative-sticky"


class Play:
    """A machine, what it has sent and not heard an answer to, and the time."""

    def __init__(self, strategy: str = EAGER, **config: Any) -> None:
        config = {"group_id": "g", "partition_assignment_strategy": strategy} | config
        self.config = ConsumerConfig(**config)
        self.now = 1000
        self.machine = ClassicMembership(self.config, self.now)
        self.machine.subscribe(frozenset({"t"}))
        self.sent: list[Any] = []

    def note(self, effects: list[Effect]) -> list[Effect]:
        """Keep what is sent; give the rest."""
        self.sent += [effect.message for effect in effects if isinstance(effect, Send)]
        return [effect for effect in effects if not isinstance(effect, Send)]

    def poll(self) -> list[Effect]:
        return self.note(self.machine.poll(self.now))

    def take(self, kind: type) -> Any:
        (message,) = self.sent
        assert isinstance(message, kind), message
        self.sent.clear()
        return message

    def answer(self, kind: type, answer: Any) -> list[Effect]:
        return self.note(self.machine.answered(self.take(kind), answer, self.now))

    def join(self, generation: int, *assigned: TopicPartition, member_id: str = "m") -> list[Effect]:
        """Follow somebody else into a generation."""
        joined = joined_group(
            None, generation, "consumer", next(iter(self.machine._assignors)), "boss", False, member_id
        )
        assert self.answer(JoinGroupRequest, joined) == []
        return self.answer(SyncGroupRequest, synced_group(None, "consumer", None, encode_assignment(assigned)))

    def stable(self, *assigned: TopicPartition) -> "Play":
        assert self.poll() == []
        assert self.join(1, *assigned) == [AssignPartitions(list(assigned), sorted(assigned))]
        assert self.machine.state is MembershipState.STABLE
        assert self.poll() == []
        return self


def hear(play: Play, error: PylogError) -> list[Effect]:
    """An answer to the heartbeat that is under way."""
    return play.answer(HeartbeatRequest, heartbeaten(error))


# --- joining ---------------------------------------------------------------------------------------------------------


def test_a_member_joins_with_the_id_that_it_is_given() -> None:
    play = Play(session_timeout_ms=20_000, max_poll_interval_ms=70_000)
    assert play.machine.state is MembershipState.UNJOINED and play.machine.needs_poll
    assert play.poll() == []
    (join,) = play.sent
    assert (join.group_id, join.member_id, join.session_timeout_ms, join.rebalance_timeout_ms) == (
        "g",
        "",
        20_000,
        70_000,
    )
    assert join.requires_known_member_id
    assert [one.name for one in join.protocols] == ["range"]
    assert decode_subscription(join.protocols[0].metadata).topics == ["t"]
    assert play.answer(JoinGroupRequest, joined_group(MemberIdRequired("say it"), member_id="m")) == []
    assert play.sent[0].member_id == "m"
    assert play.join(3, T1, T2) == [AssignPartitions([T1, T2], [T1, T2])]
    assert play.machine.identity == ConsumerGroupMetadata("g", 3, "m", None) == play.machine.committer()


def test_a_poll_in_the_middle_of_joining_changes_nothing() -> None:
    play = Play()
    play.poll()
    assert play.poll() == [] and len(play.sent) == 1
    play.answer(JoinGroupRequest, joined_group(None, 1, "consumer", "range", "boss", False, "m"))
    assert play.machine.state is MembershipState.SYNCING
    assert play.poll() == [] and len(play.sent) == 1
    with pytest.raises(RebalanceInProgress, match="poll until that is done"):
        play.machine.committer()


def member(name: str, *topics: str, owned: tuple[TopicPartition, ...] = (), generation: int = -1) -> Member:
    said = encode_subscription(Subscription(list(topics), None, list(owned), generation))
    return Member(member_id=name, metadata=said)


def test_the_leader_assigns() -> None:
    play = Play()
    play.poll()
    members = [member("m", "t"), member("n", "t", "u", owned=(T0,), generation=4)]
    (elect,) = play.answer(JoinGroupRequest, joined_group(None, 5, "consumer", "range", "m", False, "m", members))
    assert isinstance(elect, Elect) and elect.assignor.name == "range" and not elect.is_settled
    assert [(one.member_id, list(one.topics), list(one.owned), one.generation) for one in elect.members] == [
        ("m", ["t"], [], -1), ("n", ["t", "u"], [T0], 4),
    ]  # fmt: skip
    assert play.machine.is_leader
    assert play.note(play.machine.elected(elect, {"m": [T0], "n": [T1, U0]})) == []
    (sync,) = play.sent
    assert (sync.generation_id, sync.member_id, sync.protocol_type, sync.protocol_name) == (5, "m", "consumer", "range")
    assert [(one.member_id, decode_assignment(one.assignment)[0]) for one in sync.assignments] == [
        ("m", [T0]),
        ("n", [T1, U0]),
    ]
    assert play.machine.elected(elect, {"m": []}) == [], "once is enough"


def test_only_the_last_election_counts() -> None:
    # The topics of the first were asked about for so long that there has been another one, of other members.
    play = Play()
    elections = []
    for name in ("m", "n"):
        play.poll()
        answer = joined_group(None, 5, "consumer", "range", name, False, name, [member(name, "t")])
        elections += play.answer(JoinGroupRequest, answer)
        if name == "m":
            play.machine.leave("for a moment")
            play.machine.rejoin()
            play.sent.clear()
    assert play.machine.elected(elections[0], {"m": [T0]}) == [] and play.sent == []
    assert play.note(play.machine.elected(elections[1], {"n": [T0]})) == []
    assert [one.member_id for one in play.sent[0].assignments] == ["n"]


def test_a_leader_of_a_settled_group_watches_and_does_not_assign() -> None:
    """A static leader that comes back (KIP-814)."""
    play = Play(group_instance_id="one")
    play.poll()
    assert play.sent[0].group_instance_id == "one"
    answer = joined_group(None, 5, "consumer", "range", "m", True, "m", [member("m", "t")])
    (elect,) = play.answer(JoinGroupRequest, answer)
    assert isinstance(elect, Elect) and elect.is_settled
    assert play.take(SyncGroupRequest).assignments == []


def test_a_member_without_topics_does_not_join() -> None:
    play = Play()
    play.machine.subscribe(frozenset())
    assert not play.machine.needs_poll
    assert play.poll() == [] and play.sent == []
    assert play.machine.due_ms is None


def test_assignors_have_to_agree_on_how_partitions_change_hands() -> None:
    assert not Play("range,cooperative-sticky").machine.is_cooperative
    assert Play("cooperative-sticky").machine.is_cooperative
    assert not Play("sticky,roundrobin").machine.is_cooperative


# --- eager -----------------------------------------------------------------------------------------------------------


def test_an_eager_member_gives_everything_back_before_it_joins_again() -> None:
    play = Play().stable(T0, T1)
    assert hear(play, RebalanceInProgress("come")) == []
    assert play.machine.needs_poll
    assert play.machine.committer().generation_id == 1, "it may commit what it gives back"
    assert play.poll() == [Revoke([T0, T1])]
    assert play.machine.committer().generation_id == 1
    assert play.poll() == [] and play.machine.state is MembershipState.REVOKING
    play.sent.clear()
    assert play.note(play.machine.revoked([T0, T1])) == []
    (join,) = play.sent
    said = decode_subscription(join.protocols[0].metadata)
    assert (join.member_id, said.owned, said.generation) == ("m", [], 1)
    assert play.join(2, T1, T2) == [AssignPartitions([T1, T2], [T1, T2])]


def test_a_sticky_member_tells_its_last_partitions() -> None:
    play = Play("sticky").stable(T0, T1)
    hear(play, RebalanceInProgress("come"))
    play.poll()
    play.sent.clear()
    play.note(play.machine.revoked([T0, T1]))
    assert decode_subscription(play.sent[0].protocols[0].metadata).user_data is not None


def test_a_new_subscription_joins_again() -> None:
    play = Play().stable(T0)
    play.machine.subscribe(frozenset({"t", "u"}))
    assert play.poll() == [Revoke([T0])]
    play.sent.clear()
    play.note(play.machine.revoked([T0]))
    assert decode_subscription(play.sent[0].protocols[0].metadata).topics == ["t", "u"]
    play.machine.subscribe(frozenset({"u"}))
    play.join(2, U0)
    assert play.machine.needs_poll, "the subscription has changed while it joined"


def test_a_member_that_assigns_anew_makes_the_group_join_again() -> None:
    play = Play().stable()
    play.machine.join_again()
    play.sent.clear()
    assert play.poll() == []
    play.take(JoinGroupRequest)


# --- cooperative -----------------------------------------------------------------------------------------------------


def test_a_cooperative_member_gives_back_moved_partitions_and_rejoins() -> None:
    play = Play(COOPERATIVE).stable(T0, T1)
    hear(play, RebalanceInProgress("come"))
    assert play.poll() == []
    assert decode_subscription(play.sent[0].protocols[0].metadata).owned == [T0, T1]
    assert play.join(2, T1, T2) == [Revoke([T0])]
    assert play.machine.committer().generation_id == 2
    assert play.note(play.machine.revoked([T0])) == [AssignPartitions([T1, T2], [T2])]
    assert play.machine.owned == [T1, T2]
    assert play.poll() == []
    join = play.take(JoinGroupRequest)
    said = decode_subscription(join.protocols[0].metadata)
    assert (said.owned, said.generation) == ([T1, T2], 2)


def test_a_cooperative_member_that_keeps_everything_is_stable_at_once() -> None:
    play = Play(COOPERATIVE).stable(T0)
    hear(play, RebalanceInProgress("come"))
    play.poll()
    assert play.join(2, T0, T1) == [AssignPartitions([T0, T1], [T1])]
    assert not play.machine.needs_poll


def test_a_cooperative_member_gives_back_topics_that_it_does_not_want_any_more() -> None:
    play = Play(COOPERATIVE)
    play.machine.subscribe(frozenset({"t", "u"}))
    play.stable(T0, U0)
    play.machine.subscribe(frozenset({"t"}))
    assert play.poll() == [Revoke([U0])]
    play.sent.clear()
    play.note(play.machine.revoked([U0]))
    assert decode_subscription(play.take(JoinGroupRequest).protocols[0].metadata).owned == [T0]


@pytest.mark.parametrize("strategy", [EAGER, COOPERATIVE])
def test_partitions_taken_during_a_revocation_are_lost(strategy: str) -> None:
    play = Play(strategy)
    play.machine.subscribe(frozenset({"t", "u"}))
    play.stable(T0, U0)
    play.machine.subscribe(frozenset({"t"}))
    assert len(play.poll()) == 1
    assert hear(play, UnknownMemberId("who?")) == []
    assert play.machine.state is MembershipState.REVOKING
    gone = [U0] if strategy == COOPERATIVE else [T0, U0]
    assert play.machine.revoked(gone) == [] and play.machine.state is MembershipState.UNJOINED
    assert play.poll() == ([Lose([T0])] if strategy == COOPERATIVE else [])
    assert play.take(JoinGroupRequest).member_id == ""


# --- the group goes on without it ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("error", "member_id"), [(IllegalGeneration("old"), "m"), (UnknownMemberId("who?"), "")])
def test_a_member_that_the_group_has_left_behind_loses_its_partitions(error: PylogError, member_id: str) -> None:
    play = Play().stable(T0, T1)
    assert hear(play, error) == []
    with pytest.raises(CommitFailed, match="max_poll_interval_ms"):
        play.machine.committer()
    assert play.poll() == [Lose([T0, T1])]
    assert play.take(JoinGroupRequest).member_id == member_id
    assert play.machine.owned == []


@pytest.mark.parametrize("kind", [JoinGroupRequest, SyncGroupRequest])
@pytest.mark.parametrize("error", [IllegalGeneration("old"), UnknownMemberId("who?"), RebalanceInProgress("again")])
def test_joining_begins_anew_where_the_group_has_gone_on(kind: type, error: PylogError) -> None:
    play = Play()
    play.poll()
    if kind is SyncGroupRequest:
        play.answer(JoinGroupRequest, joined_group(None, 1, "consumer", "range", "boss", False, "m"))
        assert play.answer(SyncGroupRequest, synced_group(error)) == []
    else:
        assert play.answer(JoinGroupRequest, joined_group(error)) == []
    assert play.machine.state is MembershipState.UNJOINED and play.poll() == []
    kept = kind is SyncGroupRequest and not isinstance(error, UnknownMemberId)
    assert play.take(JoinGroupRequest).member_id == ("m" if kept else "")


def test_a_commit_tells_as_much_as_a_heartbeat() -> None:
    play = Play().stable(T0)
    who = play.machine.committer()
    play.machine.refused(who._replace(generation_id=0), IllegalGeneration("old"), play.now)
    assert play.machine.generation == 1, "what was said of an earlier generation says nothing of this one"
    play.machine.refused(who, RebalanceInProgress("come"), play.now)
    assert play.machine.needs_poll and play.machine.generation == 1
    play.machine.refused(who, IllegalGeneration("old"), play.now)
    assert play.machine.generation == -1


def test_a_member_that_was_replaced_says_so_for_ever() -> None:
    play = Play(group_instance_id="one").stable(T0)
    hear(play, FencedInstanceId("another"))
    lost, failed = play.poll()
    assert lost == Lose([T0]) and isinstance(failed, Fail)
    for _ in range(2):
        (failed,) = play.poll()
        assert isinstance(failed, Fail) and "group_instance_id='one'" in str(failed.error)
    with pytest.raises(FencedInstanceId, match="close this one"):
        play.machine.committer()
    assert play.machine.due_ms is None and play.sent == []
    play = Play(group_instance_id="one")
    play.poll()
    assert play.answer(JoinGroupRequest, joined_group(FencedInstanceId("another"))) == []
    assert isinstance(play.poll()[0], Fail)


def test_a_refused_join_is_raised_and_tried_again_later() -> None:
    play = Play(retry_backoff_ms=100)
    play.poll()
    full = GroupMaxSizeReached("full")
    assert play.answer(JoinGroupRequest, joined_group(full)) == [Fail(full)]
    assert play.poll() == [] and play.sent == []
    play.now += 100
    assert play.poll() == []
    play.take(JoinGroupRequest)


@pytest.mark.parametrize("error", [CoordinatorLoadInProgress("loading"), NetworkError("gone")])
def test_a_coordinator_that_is_away_is_asked_again(error: PylogError) -> None:
    play = Play(retry_backoff_ms=100)
    play.poll()
    assert play.answer(JoinGroupRequest, error) == []
    assert play.poll() == [] and play.sent == []
    play.now += 100
    play.poll()
    assert play.join(1, T0) == [AssignPartitions([T0], [T0])]


def test_nonsense_is_an_error() -> None:
    play = Play(retry_backoff_ms=0)
    play.poll()
    (failed,) = play.answer(JoinGroupRequest, joined_group(None, 1, "consumer", "other", "boss", False, "m"))
    assert isinstance(failed, Fail) and isinstance(failed.error, InconsistentGroupProtocol)
    play.poll()
    broken = Member(member_id="n", metadata=b"\0")
    (failed,) = play.answer(JoinGroupRequest, joined_group(None, 1, "consumer", "range", "m", False, "m", [broken]))
    assert isinstance(failed, Fail) and isinstance(failed.error, CorruptBatch)
    play.poll()
    play.answer(JoinGroupRequest, joined_group(None, 1, "consumer", "range", "boss", False, "m"))
    (failed,) = play.answer(SyncGroupRequest, synced_group(None, "consumer", "range", b"\0"))
    assert isinstance(failed, Fail) and isinstance(failed.error, CorruptBatch)


def test_an_assignment_of_topics_that_were_not_asked_for_is_not_taken() -> None:
    play = Play()
    play.poll()
    assert play.join(1, T0, U0) == []
    assert play.machine.owned == [] and play.machine.needs_poll


def test_answers_that_come_too_late_change_nothing() -> None:
    play = Play().stable(T0)
    beat = play.take(HeartbeatRequest)
    play.machine.join_again()
    play.poll()
    play.note(play.machine.revoked([T0]))
    first = play.take(JoinGroupRequest)
    assert play.machine.answered(beat, heartbeaten(UnknownMemberId("who?")), play.now) == []
    assert play.machine.member_id == "m"
    play.machine.leave("bye")
    assert play.machine.answered(first, joined_group(None, 9, "consumer", "range", "boss", False, "m"), play.now) == []
    assert play.machine.generation == -1
    assert play.machine.elected(Elect(play.machine._assignors["range"], []), {}) == []


# --- time ------------------------------------------------------------------------------------------------------------


def test_one_heartbeat_is_under_way_at_all_times() -> None:
    play = Play(heartbeat_interval_ms=3000).stable(T0)
    (beat,) = play.sent
    assert (beat.generation_id, beat.member_id, beat.max_wait_ms) == (1, "m", 3000)
    assert play.poll() == [] and len(play.sent) == 1
    play.now += 3000
    assert play.answer(HeartbeatRequest, heartbeaten()) == []
    assert play.machine.due_ms == play.now, "the coordinator has kept it for as long as it may"
    assert play.note(play.machine.tick(play.now)) == [] and len(play.sent) == 1
    assert play.answer(HeartbeatRequest, heartbeaten()) == []
    assert play.machine.due_ms == play.now + 3000, "this one has kept nothing back: there is no hurry"
    assert play.machine.tick(play.now + 2999) == []


def test_a_heartbeat_whose_answer_is_lost_is_followed_by_another() -> None:
    play = Play(heartbeat_interval_ms=3000, max_poll_interval_ms=600_000).stable(T0)
    first = play.take(HeartbeatRequest)
    play.now += 33_000
    assert play.note(play.machine.tick(play.now)) == []
    second = play.sent[0]
    assert second is not first
    assert play.machine.answered(first, heartbeaten(UnknownMemberId("who?")), play.now) == []
    assert play.machine.generation == 1


def test_a_coordinator_that_is_away_hears_of_the_member_soon() -> None:
    play = Play(retry_backoff_ms=100).stable(T0)
    assert hear(play, NetworkError("gone")) == []
    assert play.machine.due_ms == play.now + 100 and not play.machine.needs_poll
    play.now += 100
    play.note(play.machine.tick(play.now))
    assert play.machine.answered(play.take(HeartbeatRequest), NetworkError("gone"), play.now) == []
    assert play.machine.generation == 1


def test_a_member_that_does_not_poll_leaves() -> None:
    play = Play(max_poll_interval_ms=10_000, heartbeat_interval_ms=3000).stable(T0)
    beat = play.take(HeartbeatRequest)
    play.machine.answered(beat, heartbeaten(), play.now)
    play.now += 9_000
    play.note(play.machine.tick(play.now))
    play.take(HeartbeatRequest)
    play.now += 1_000
    assert play.note(play.machine.tick(play.now)) == []
    leave = play.take(LeaveGroupRequest)
    assert [one.member_id for one in leave.members] == ["m"] and "max_poll_interval_ms" in leave.members[0].reason
    assert play.machine.due_ms is None and play.machine.tick(play.now + 99_999) == []
    with pytest.raises(CommitFailed):
        play.machine.committer()
    assert play.poll() == [Lose([T0])]
    assert play.take(JoinGroupRequest).member_id == ""


# --- leaving ---------------------------------------------------------------------------------------------------------


def test_a_member_says_goodbye_and_a_static_one_does_not() -> None:
    play = Play().stable(T0)
    play.sent.clear()
    assert play.note(play.machine.leave("bye")) == []
    assert play.take(LeaveGroupRequest).members[0].reason == "bye"
    assert play.machine.state is MembershipState.LEFT and not play.machine.needs_poll and play.machine.due_ms is None
    play.machine.rejoin()
    assert play.poll() == []
    play.take(JoinGroupRequest)
    static = Play(group_instance_id="one").stable(T0)
    static.sent.clear()
    assert static.note(static.machine.leave("bye")) == [] and static.sent == []
    never = Play()
    assert never.machine.leave("bye") == []


def test_a_revocation_after_the_end_changes_nothing() -> None:
    play = Play().stable(T0)
    play.machine.leave("bye")
    assert play.machine.revoked([T0]) == [] and play.machine.owned == []
    play.machine.rejoin()
    play.machine.rejoin()
    assert play.machine.state is MembershipState.UNJOINED


def test_a_member_without_subscription_does_not_join_again() -> None:
    play = Play().stable(T0)
    play.machine.subscribe(frozenset())
    assert play.poll() == [Revoke([T0])]
    assert play.machine.revoked([T0]) == [] and play.machine.state is MembershipState.UNJOINED
