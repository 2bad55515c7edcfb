"""A classic group: who joins, who leads, what a rebalance waits for, and what everybody is told."""

from typing import Any

import pytest

from pylog.config import NodeConfig
from pylog.coordinator.group.classic import NEW_MEMBER_JOIN_MS
from pylog.errors import (
    CoordinatorNotAvailable,
    DiskFull,
    FencedInstanceId,
    GroupMaxSizeReached,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidGroupId,
    InvalidRequest,
    InvalidSessionTimeout,
    MemberIdRequired,
    NotCoordinator,
    NotEnoughReplicas,
    PylogError,
    RebalanceInProgress,
    RecordTooLarge,
    UnknownMemberId,
    UnknownServer,
)
from pylog.protocol.assignor import Subscription, encode_assignment, encode_subscription
from pylog.protocol.messages.groups import (
    DescribeGroupsRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
)
from pylog.record import TopicPartition
from support.group_host import GroupHost
from support.messages import group_heartbeat, join_group, joined_group, leave_group, leaving, sync_group, synced_group

SESSION_MS = 10_000
REBALANCE_MS = 20_000


class Group:
    """The members of group "g", as a test lets them speak."""

    def __init__(self, **config: Any) -> None:
        self.host = GroupHost(NodeConfig(**config))

    def join(self, member_id: str = "", *, names: tuple[str, ...] = ("range",), **said: Any) -> int:
        return self.join_with([(name, name.encode()) for name in names], member_id=member_id, **said)

    def join_with(self, protocols: list[tuple[str, bytes]], **said: Any) -> int:
        """Join with what a real member says of itself."""
        said = {"session_timeout_ms": SESSION_MS, "rebalance_timeout_ms": REBALANCE_MS, **said}
        return self.host.send(join_group("g", protocols=protocols, **said))

    def sync(self, joined: JoinGroupResponse, *assignments: tuple[str, bytes], instance: str | None = None) -> int:
        return self.host.send(
            sync_group("g", joined.generation_id, joined.member_id, instance, assignments=list(assignments))
        )

    def beat(self, joined: JoinGroupResponse, wait_ms: int = 0) -> int:
        return self.host.send(group_heartbeat("g", joined.generation_id, joined.member_id, max_wait_ms=wait_ms))

    def leave(self, *members: LeaveGroupRequest.MemberIdentity) -> list[PylogError | None]:
        answer = self.host.ask(leave_group("g", list(members)))
        assert answer.error is None
        errors: list[PylogError | None] = [one.error for one in answer.members]
        return errors

    def said(self, ticket: int) -> Any:
        """The answer that there is by now."""
        return self.host.answers.pop(ticket)

    def waits(self, ticket: int) -> bool:
        return ticket not in self.host.answers

    @property
    def state(self) -> str:
        described = self.host.ask(DescribeGroupsRequest(groups=["g"])).groups[0]
        return str(described.group_state)

    def alone(self, **said: Any) -> JoinGroupResponse:
        """One member, in a Stable group."""
        joined: JoinGroupResponse = self.said(self.join(**said))
        assert joined.error is None
        ticket = self.sync(joined, (joined.member_id, b"all"), instance=said.get("group_instance_id"))
        assert self.said(ticket) == synced_group(None, "consumer", joined.protocol_name, b"all")
        assert self.state == "Stable"
        return joined

    def pair(self) -> tuple[JoinGroupResponse, JoinGroupResponse]:
        """A leader and a follower, in a Stable group of generation 2."""
        first = self.alone()
        second = self.join()
        again = self.join(first.member_id)
        leader, follower = self.said(again), self.said(second)
        waiting = self.sync(follower)
        assert self.waits(waiting)
        done = self.sync(leader, (leader.member_id, b"1"), (follower.member_id, b"2"))
        assert (self.said(done).assignment, self.said(waiting).assignment) == (b"1", b"2")
        return leader, follower


def is_error(answer: Any, error: type[PylogError]) -> bool:
    return isinstance(answer.error, error)


# --- joining ---------------------------------------------------------------------------------------------------------


def test_the_first_member_leads_and_an_empty_group_is_logged() -> None:
    group = Group()
    joined = group.said(group.join())
    assert (joined.generation_id, joined.leader, joined.member_id) == (1, "c-1", "c-1")
    assert [member.metadata for member in joined.members] == [b"range"]
    assert group.state == "CompletingRebalance"
    assert len(group.host.log) == 1


def test_an_empty_group_waits_for_more_members_as_long_as_they_come() -> None:
    group = Group(group_initial_rebalance_delay_ms=3000)
    first = group.join()
    group.host.advance(2000)
    second = group.join()
    group.host.advance(2000)
    assert group.waits(first)
    assert group.waits(second)
    group.host.advance(2000)
    assert group.said(first).generation_id == 1
    assert {m.member_id for m in group.host.coordinator._groups["g"].roster.members.values()} == {"c-1", "c-2"}  # type: ignore[attr-defined]
    assert group.said(second).members == []


def test_the_wait_for_more_members_ends_with_the_rebalance_timeout() -> None:
    group = Group(group_initial_rebalance_delay_ms=3000)
    first = group.join(rebalance_timeout_ms=4000)
    for _ in range(3):
        group.host.advance(1500)
        group.join(rebalance_timeout_ms=4000)
    assert not group.waits(first)


def test_a_member_that_leaves_while_an_empty_group_waits_is_not_awaited() -> None:
    group = Group(group_initial_rebalance_delay_ms=3000)
    first = group.join()
    assert group.leave(leaving("c-1")) == [None]
    assert is_error(group.said(first), UnknownMemberId)
    group.host.advance(3000)
    assert group.state == "Empty"


def test_a_member_that_has_to_know_its_id_gets_one_first() -> None:
    group = Group()
    given = group.said(group.join(requires_known_member_id=True))
    assert is_error(given, MemberIdRequired)
    assert group.state == "Empty"
    joined = group.said(group.join(given.member_id))
    assert (joined.error, joined.member_id) == (None, given.member_id)


def test_an_unused_member_id_is_forgotten_after_a_session() -> None:
    group = Group()
    first = group.alone()
    given = group.said(group.join(requires_known_member_id=True))
    again = group.join(first.member_id)
    assert group.waits(again)  # for the one that is on its way
    group.host.advance(SESSION_MS)
    assert group.said(again).generation_id == 2
    assert is_error(group.said(group.join(given.member_id)), UnknownMemberId)


def test_an_id_that_is_given_back_is_not_waited_for() -> None:
    group = Group()
    first = group.alone()
    given = group.said(group.join(requires_known_member_id=True))
    again = group.join(first.member_id)
    assert group.leave(leaving(given.member_id)) == [None]
    assert group.said(again).generation_id == 2


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (join_group(""), InvalidGroupId),
        (join_group("g", session_timeout_ms=1), InvalidSessionTimeout),
        (join_group("g", session_timeout_ms=10**9), InvalidSessionTimeout),
        (join_group("g", rebalance_timeout_ms=-1), InvalidRequest),
        (join_group("g", rebalance_timeout_ms=2**31), InvalidRequest),
        (join_group("g", protocols=[("x" * 40_000, b"")]), InvalidRequest),
        (join_group("g", protocols=[("\ud800", b"")]), InvalidRequest),
        (join_group("g", protocols=[]), InconsistentGroupProtocol),
        (join_group("g", protocol_type="", protocols=[("range", b"")]), InconsistentGroupProtocol),
        (join_group("g", "nobody", protocols=[("range", b"")]), UnknownMemberId),
    ],
)
def test_a_senseless_join_is_refused_and_makes_no_group(message: JoinGroupRequest, error: type[PylogError]) -> None:
    group = Group()
    answer = group.host.ask(message)
    assert is_error(answer, error)
    assert answer.member_id == message.member_id
    assert group.state == "Dead"
    assert group.host.log == []


def test_the_protocol_of_most_votes_among_the_common_ones_is_chosen() -> None:
    group = Group(group_initial_rebalance_delay_ms=10)
    tickets = [group.join(names=names) for names in (("a", "b", "c"), ("c", "b"), ("b", "d", "c"), ("c", "b", "a"))]
    group.host.advance(10)
    group.host.advance(10)
    assert {group.said(ticket).protocol_name for ticket in tickets} <= {"b", "c"}


def test_a_member_without_a_common_protocol_is_refused() -> None:
    group = Group()
    group.alone(names=("range", "sticky"))
    assert is_error(group.said(group.join(names=("roundrobin",))), InconsistentGroupProtocol)
    assert is_error(group.said(group.join(protocol_type="connect")), InconsistentGroupProtocol)
    assert group.state == "Stable"


def test_a_full_group_takes_nobody_in() -> None:
    group = Group(group_max_size=1)
    first = group.alone()
    assert is_error(group.said(group.join()), GroupMaxSizeReached)
    ticket = group.join(first.member_id)
    assert group.said(ticket).error is None


def test_a_group_taken_over_with_too_many_members_drops_the_last_to_join() -> None:
    group = Group()
    leader, follower = group.pair()
    group.host.config = NodeConfig(group_max_size=1)
    group.host.restart()
    assert group.state == "PreparingRebalance"
    ticket = group.join(follower.member_id)
    assert is_error(group.said(group.join(leader.member_id)), GroupMaxSizeReached)
    assert group.said(ticket).leader == follower.member_id


def test_a_follower_that_joins_again_gets_the_present_generation() -> None:
    group = Group()
    _, follower = group.pair()
    assert group.said(group.join(follower.member_id)) == joined_group(
        None, 2, "consumer", "range", "c-1", member_id=follower.member_id
    )
    assert group.state == "Stable"


def test_a_member_that_missed_the_answer_is_told_again() -> None:
    group = Group()
    joined = group.said(group.join())
    assert group.said(group.join(joined.member_id)) == joined


@pytest.mark.parametrize("who", [0, 1])
def test_a_change_of_mind_and_a_leader_that_joins_again_begin_a_rebalance(who: int) -> None:
    group = Group()
    pair = group.pair()
    names = ("range",) if who == 0 else ("range", "more")
    ticket = group.join(pair[who].member_id, names=names)
    assert group.waits(ticket)
    assert group.state == "PreparingRebalance"
    assert is_error(group.said(group.beat(pair[1 - who])), RebalanceInProgress)
    assert is_error(group.said(group.sync(pair[1 - who])), RebalanceInProgress)


def test_a_change_of_mind_before_the_assignment_begins_again() -> None:
    group = Group()
    joined = group.said(group.join())
    assert group.said(group.join(joined.member_id, names=("range", "sticky"))).generation_id == 2


def test_a_join_that_is_said_twice_is_answered_by_the_later_one() -> None:
    group = Group()
    leader, follower = group.pair()
    first = group.join(follower.member_id, names=("range", "more"))
    second = group.join(follower.member_id, names=("range", "more"))
    assert is_error(group.said(first), RebalanceInProgress)
    group.join(leader.member_id)
    assert group.said(second).generation_id == 3


def test_a_member_that_does_not_join_in_time_is_out() -> None:
    group = Group()
    leader, follower = group.pair()
    ticket = group.join(follower.member_id, names=("range", "more"))
    for _ in range(4):
        group.host.advance(REBALANCE_MS // 4)
        group.beat(leader)
    joined = group.said(ticket)
    assert (joined.generation_id, joined.leader) == (3, follower.member_id)
    assert is_error(group.said(group.beat(leader)), UnknownMemberId)


def test_a_new_member_whose_rebalance_never_ends_is_kept_for_five_minutes() -> None:
    group = Group()
    first = group.alone(rebalance_timeout_ms=10**7)
    ticket = group.join()
    for _ in range(NEW_MEMBER_JOIN_MS // 5000 - 1):
        group.host.advance(5000)
        group.host.answers.pop(group.beat(first))
    assert group.waits(ticket)
    group.host.advance(5000)
    assert is_error(group.said(ticket), UnknownMemberId)


# --- syncing ---------------------------------------------------------------------------------------------------------


def test_members_without_an_assignment_get_an_empty_one() -> None:
    group = Group()
    joined = group.said(group.join())
    assert group.said(group.sync(joined)).assignment == b""
    assert group.state == "Stable"


def test_a_late_sync_gets_the_present_assignment() -> None:
    group = Group()
    leader, follower = group.pair()
    assert group.said(group.sync(follower)).assignment == b"2"
    assert group.said(group.sync(leader, (leader.member_id, b"other"))).assignment == b"1"


def test_late_assignments_wait_until_the_log_is_safe() -> None:
    group = Group()
    leader, follower = group.pair()
    group.host.sync_always = False
    assert group.said(group.sync(follower)).assignment == b"2", "what it tells of is safe"
    ticket = group.join(leader.member_id)
    again = group.join(follower.member_id)
    leader, follower = group.said(ticket), group.said(again)
    group.sync(leader, (leader.member_id, b"3"), (follower.member_id, b"4"))
    late = group.sync(follower)
    assert group.waits(late)
    group.host.sync()
    assert group.said(late).assignment == b"4"
    group.host.failures = [DiskFull("full")]
    assert is_error(group.said(group.sync(follower)), NotCoordinator)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"group_id": ""}, InvalidGroupId),
        ({"group_id": "other"}, UnknownMemberId),
        ({"member_id": "other"}, UnknownMemberId),
        ({"generation_id": 9}, IllegalGeneration),
        ({"group_instance_id": "i"}, UnknownMemberId),
        ({"protocol_type": "connect"}, InconsistentGroupProtocol),
        ({"protocol_name": "sticky"}, InconsistentGroupProtocol),
    ],
)
def test_a_sync_that_does_not_fit_is_refused(change: dict[str, Any], error: type[PylogError]) -> None:
    group = Group()
    joined = group.alone()
    said: dict[str, Any] = {"group_id": "g", "generation_id": 1, "member_id": joined.member_id}
    assert is_error(group.host.ask(sync_group(**{**said, **change})), error)
    same = sync_group(**said, protocol_type="consumer", protocol_name="range")
    assert group.host.ask(same).error is None


def test_a_sync_that_is_said_twice_is_answered_by_the_later_one() -> None:
    group = Group()
    first = group.alone()
    second = group.join()
    leader, follower = group.said(group.join(first.member_id)), group.said(second)
    once, twice = group.sync(follower), group.sync(follower)
    assert is_error(group.said(once), RebalanceInProgress)
    group.sync(leader, (follower.member_id, b"x"))
    assert group.said(twice).assignment == b"x"


def test_members_that_never_sync_are_out_after_the_rebalance_timeout() -> None:
    group = Group()
    leader, follower = group.pair()
    second = group.join(follower.member_id, names=("range", "more"))
    leader, follower = group.said(group.join(leader.member_id)), group.said(second)
    group.said(group.sync(leader))
    for _ in range(5):
        group.host.advance(REBALANCE_MS // 4)
        group.beat(leader)
        group.beat(follower)
    assert group.state == "PreparingRebalance"
    assert group.said(group.join(leader.member_id)).generation_id == 4


@pytest.mark.parametrize(
    ("refusal", "error"),
    [
        (NotEnoughReplicas("few"), CoordinatorNotAvailable),
        (DiskFull("full"), NotCoordinator),
        (RecordTooLarge("large"), UnknownServer),
        (InvalidRequest("odd"), InvalidRequest),
    ],
)
def test_an_assignment_that_cannot_be_logged_begins_again(refusal: PylogError, error: type[PylogError]) -> None:
    group = Group()
    leader, follower = group.pair()
    second = group.join(follower.member_id, names=("range", "more"))
    leader, follower = group.said(group.join(leader.member_id)), group.said(second)
    waiting = group.sync(follower)
    group.host.failures = [refusal]
    done = group.sync(leader, (leader.member_id, b"x"))
    assert is_error(group.said(done), error)
    assert is_error(group.said(waiting), error)
    assert group.state == "PreparingRebalance"


def test_a_member_that_goes_while_others_wait_for_the_assignment_begins_again() -> None:
    group = Group()
    leader, follower = group.pair()
    second = group.join(follower.member_id, names=("range", "more"))
    leader, follower = group.said(group.join(leader.member_id)), group.said(second)
    waiting = group.sync(follower)
    assert group.leave(leaving(leader.member_id)) == [None]
    assert is_error(group.said(waiting), RebalanceInProgress)
    assert group.said(group.join(follower.member_id)).leader == follower.member_id


# --- heartbeats and leaving ------------------------------------------------------------------------------------------


def test_heartbeats_keep_a_session_alive() -> None:
    group = Group()
    joined = group.alone()
    for _ in range(5):
        group.host.advance(SESSION_MS - 1)
        assert group.said(group.beat(joined)).error is None
    group.host.advance(SESSION_MS)
    assert group.state == "Empty"
    assert is_error(group.said(group.beat(joined)), UnknownMemberId)


def test_a_heartbeat_of_another_generation_is_refused() -> None:
    group = Group()
    joined = group.alone()
    joined.generation_id = 7
    assert is_error(group.said(group.beat(joined)), IllegalGeneration)
    assert is_error(group.host.ask(group_heartbeat("", 1, "m")), InvalidGroupId)


def test_a_heartbeat_waits_until_there_is_something_to_say() -> None:
    group = Group()
    joined = group.alone()
    ticket = group.beat(joined, 3000)
    group.host.advance(2999)
    assert group.waits(ticket)
    group.host.advance(1)
    assert group.said(ticket).error is None
    ticket = group.beat(joined, 3000)
    group.join()
    assert is_error(group.said(ticket), RebalanceInProgress)


def test_a_heartbeat_is_not_kept_longer_than_half_the_session() -> None:
    group = Group()
    joined = group.alone()
    for _ in range(5):
        ticket = group.beat(joined, 10**9)
        group.host.advance(SESSION_MS // 2)
        assert group.said(ticket).error is None


def test_of_two_heartbeats_that_wait_the_first_is_answered() -> None:
    group = Group()
    joined = group.alone()
    first, second = group.beat(joined, 3000), group.beat(joined, 3000)
    assert group.said(first).error is None
    assert group.leave(leaving(joined.member_id)) == [None]
    assert is_error(group.said(second), UnknownMemberId)


def test_a_leaving_member_begins_a_rebalance_and_the_last_empties_it() -> None:
    group = Group()
    leader, follower = group.pair()
    assert group.leave(leaving(leader.member_id)) == [None]
    assert group.state == "PreparingRebalance"
    assert group.said(group.join(follower.member_id)).generation_id == 3
    assert group.leave(leaving(follower.member_id)) == [None]
    assert group.state == "Empty"
    group.host.restart()
    assert group.state == "Empty"


def test_each_member_that_leaves_has_an_error_of_its_own() -> None:
    group = Group()
    joined = group.alone(group_instance_id="i")
    errors = group.leave(
        leaving("nobody"),
        leaving(),
        leaving("", "j"),
        leaving("x", "i"),
        leaving("", "i"),
    )
    assert [type(error) for error in group.leave(leaving("nobody"))] == [UnknownMemberId]
    kinds = [type(error) for error in errors]
    assert kinds == [UnknownMemberId, UnknownMemberId, UnknownMemberId, FencedInstanceId, type(None)]
    assert joined.member_id == "i-1"
    assert [type(one.error) for one in group.host.ask(leave_group("x", [leaving("a"), leaving("b")])).members] == [
        UnknownMemberId
    ] * 2
    assert is_error(group.host.ask(leave_group("", [])), InvalidGroupId)


def test_an_empty_group_that_could_not_be_logged_is_logged_again() -> None:
    group = Group()
    joined = group.alone()
    group.host.failures = [DiskFull("full"), DiskFull("full")]
    group.leave(leaving(joined.member_id))
    length = len(group.host.log)
    group.host.advance(999)
    assert len(group.host.log) == length
    group.host.advance(1001)
    assert len(group.host.log) == length + 1
    group.host.restart()
    assert group.state == "Empty"


def test_a_group_not_logged_as_empty_need_not_be_when_a_member_comes() -> None:
    group = Group()
    joined = group.alone()
    group.host.failures = [DiskFull("full")]
    group.leave(leaving(joined.member_id))
    length = len(group.host.log)
    group.join()
    group.host.advance(2000)
    assert len(group.host.log) == length


# --- static members --------------------------------------------------------------------------------------------------


def test_a_static_member_comes_back_to_its_assignment_without_a_rebalance() -> None:
    group = Group()
    old = group.alone(group_instance_id="i")
    held = group.beat(old, 3000)
    joined = group.said(group.join(group_instance_id="i"))
    assert is_error(group.said(held), FencedInstanceId)
    assert (joined.generation_id, joined.member_id, joined.leader, joined.skip_assignment) == (1, "i-2", "i-2", True)
    assert [member.member_id for member in joined.members] == ["i-2"]
    assert group.said(group.sync(joined, instance="i")).assignment == b"all"
    fenced = group.host.ask(group_heartbeat("g", 1, old.member_id, "i"))
    assert is_error(fenced, FencedInstanceId)


def test_a_static_member_that_could_not_be_logged_is_as_it_was() -> None:
    group = Group()
    old = group.alone(group_instance_id="i")
    group.host.failures = [DiskFull("full")]
    refused = group.said(group.join(group_instance_id="i"))
    assert is_error(refused, NotCoordinator)
    assert group.host.ask(group_heartbeat("g", 1, old.member_id, "i")).error is None


def test_a_static_member_that_speaks_another_protocol_begins_a_rebalance() -> None:
    group = Group()
    group.alone(group_instance_id="i", names=("range", "sticky"))
    joined = group.said(group.join(group_instance_id="i", names=("sticky",)))
    assert (joined.generation_id, joined.protocol_name) == (2, "sticky")


def test_a_static_member_that_comes_back_before_the_assignment_begins_again() -> None:
    group = Group()
    group.said(group.join(group_instance_id="i"))
    assert group.said(group.join(group_instance_id="i")).generation_id == 2


def test_a_static_member_in_the_place_of_a_revoking_one_begins_a_rebalance() -> None:
    """What that one had stayed nobody's: who came in its place had nothing to give back, and did not join again."""
    keys = [TopicPartition("t", number) for number in range(2)]
    for had, given, is_quiet in (([], keys, True), (keys, keys, True), (keys, keys[:1], False), (keys, None, True)):
        group = Group()
        said = encode_subscription(Subscription(["t"], owned=had))
        protocols = [("cooperative-sticky", said)]
        joined = group.said(group.join_with(protocols, group_instance_id="i"))
        assigned = b"" if given is None else encode_assignment(given)
        group.said(group.sync(joined, (joined.member_id, assigned), instance="i"))
        fresh = [("cooperative-sticky", encode_subscription(Subscription(["t"])))]
        again = group.said(group.join_with(fresh, group_instance_id="i"))
        assert (again.generation_id == 1, again.skip_assignment) == (is_quiet, is_quiet)


def test_a_static_member_that_comes_back_while_others_join_takes_its_place() -> None:
    group = Group()
    old = group.alone(group_instance_id="i")
    other = group.join()
    first = group.join(old.member_id, group_instance_id="i")
    assert group.said(first).generation_id == 2
    group.said(other)
    third = group.join()
    again = group.join(group_instance_id="i")
    assert group.waits(again)
    members = group.said(group.host.send(DescribeGroupsRequest(groups=["g"]))).groups[0].members
    assert sorted(m.member_id for m in members) == ["c-2", "c-3", "i-4"]
    assert group.waits(third)


def test_a_static_member_is_waited_for_a_session_and_stays_through_a_rebalance() -> None:
    group = Group()
    old = group.alone(group_instance_id="i", session_timeout_ms=60_000)
    other = group.join()
    group.host.advance(REBALANCE_MS)
    joined = group.said(other)
    assert (joined.generation_id, joined.leader) == (2, joined.member_id)
    assert {m.member_id for m in joined.members} == {old.member_id, joined.member_id}


def test_a_rebalance_for_which_only_static_members_are_left_waits_on() -> None:
    group = Group()
    group.alone(group_instance_id="i", session_timeout_ms=60_000)
    group.join()
    group.leave(leaving("c-2"))
    group.host.advance(REBALANCE_MS)
    assert group.state == "PreparingRebalance"
    group.host.advance(60_000)
    assert group.state == "Empty"


def test_an_instance_id_with_a_given_member_id_is_no_new_member() -> None:
    group = Group()
    group.alone(group_instance_id="i")
    given = group.said(group.join(requires_known_member_id=True))
    assert is_error(group.said(group.join(given.member_id, group_instance_id="i")), FencedInstanceId)


def test_a_static_follower_comes_back_as_a_follower() -> None:
    group = Group()
    first = group.alone()
    second = group.join(group_instance_id="i")
    leader, follower = group.said(group.join(first.member_id)), group.said(second)
    waiting = group.sync(follower, instance="i")
    again = group.join(group_instance_id="i")
    assert is_error(group.said(waiting), FencedInstanceId)
    leader, follower = group.said(group.join(leader.member_id)), group.said(again)
    assert (leader.leader, follower.members) == (leader.member_id, [])
    group.said(group.sync(leader, (follower.member_id, b"x")))
    kept = group.said(group.join(group_instance_id="i"))
    assert (kept.leader, kept.skip_assignment, kept.members) == (leader.member_id, False, [])
    for _ in range(5):
        group.host.advance(REBALANCE_MS // 4)
        group.beat(leader)
        group.host.ask(group_heartbeat("g", kept.generation_id, kept.member_id, "i"))
    assert group.state == "Stable"


def test_after_the_last_generation_that_there_is_a_number_for_comes_the_first() -> None:
    group = Group()
    joined = group.alone()
    group.host.coordinator._groups["g"].generation = 2**31 - 1  # type: ignore[attr-defined]
    assert group.said(group.join(joined.member_id)).generation_id == 1


# --- taking over -----------------------------------------------------------------------------------------------------


def test_members_have_a_session_to_be_heard_of_after_a_take_over() -> None:
    group = Group()
    leader, follower = group.pair()
    group.host.advance(SESSION_MS - 1)
    group.host.restart()
    group.host.advance(SESSION_MS - 1)
    assert group.said(group.beat(leader)).error is None
    assert group.said(group.sync(follower)).assignment == b"2"
    group.host.advance(1)
    assert group.state == "PreparingRebalance"


def test_members_of_the_dead_owners_process_are_gone_at_once() -> None:
    group = Group()
    group.pair()
    other = group.host.ask(join_group("other", protocols=[("range", b"")]))
    group.host.ask(sync_group("other", 1, other.member_id))
    group.host.restart(lost=("/h",))
    assert group.state == "Empty"
    assert group.host.ask(DescribeGroupsRequest(groups=["other"])).groups[0].group_state == "Empty"
    assert group.said(group.join()).generation_id == 4


def test_members_that_live_on_share_what_the_lost_ones_had() -> None:
    group = Group()
    joined = group.alone()
    protocols = [("range", b"")]
    other = group.host.send(join_group("g", protocols=protocols), host="/other")
    group.said(group.sync(group.said(group.join(joined.member_id))))
    kept = group.said(other)
    group.said(group.sync(kept))
    group.host.restart(lost=("/h",))
    assert group.state == "PreparingRebalance"
    assert group.said(group.join(kept.member_id)).members[0].member_id == kept.member_id


def test_a_static_member_of_the_dead_owners_process_may_come_back() -> None:
    group = Group()
    group.alone(group_instance_id="i")
    group.host.restart(lost=("/h",))
    assert group.state == "Stable"
    assert group.said(group.join(group_instance_id="i")).generation_id == 1


def test_members_of_a_process_that_ends_are_gone_at_once() -> None:
    group = Group()
    joined = group.alone()
    other = group.host.send(join_group("g", protocols=[("range", b"")]), host="/other")
    group.said(group.sync(group.said(group.join(joined.member_id))))
    kept = group.said(other)
    group.said(group.sync(kept))
    group.host.lose("/nobody")
    assert group.state == "Stable"
    group.host.lose("/h")
    assert group.state == "PreparingRebalance"
    assert [one.member_id for one in group.said(group.join(kept.member_id)).members] == [kept.member_id]
    group.host.lose("/other")
    assert group.state == "Empty"


def test_a_member_that_waits_to_join_is_gone_with_its_process() -> None:
    group = Group()
    joined = group.alone()
    waiting = group.host.send(join_group("g", protocols=[("range", b"")]), host="/other")
    group.host.lose("/other")
    assert isinstance(group.host.answers.pop(waiting).error, UnknownMemberId)
    assert [one.member_id for one in group.said(group.join(joined.member_id)).members] == [joined.member_id]


def test_a_client_that_was_announced_is_not_waited_for_when_its_process_ends() -> None:
    group = Group()
    joined = group.alone()
    announced = join_group("g", protocols=[("range", b"")], requires_known_member_id=True)
    assert isinstance(group.host.ask(announced, host="/other").error, MemberIdRequired)
    again = group.join_with([("range", b"new")], member_id=joined.member_id)
    assert again not in group.host.answers
    group.host.lose("/other")
    assert group.said(again).error is None


def test_a_static_member_of_a_process_that_ends_has_its_session_to_come_back() -> None:
    group = Group()
    group.alone(group_instance_id="i")
    group.host.lose("/h")
    assert group.state == "Stable"
    assert group.said(group.join(group_instance_id="i")).generation_id == 1
    group.host.lose("/h")
    group.host.advance(SESSION_MS)
    assert group.state == "Empty"
