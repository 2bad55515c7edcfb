"""Groups that change their protocol while they have members, and what members of both kinds do in one (KIP-848)."""

from collections.abc import Sequence

import pytest

from pylog.config import NodeConfig
from pylog.coordinator.group.classic import ClassicGroup
from pylog.coordinator.group.consumer_records import (
    CURRENT,
    EPOCH,
    MEMBER,
    PARTITION_METADATA,
    TARGET,
    TARGET_EPOCH,
    MemberState,
)
from pylog.coordinator.group.records import GROUP_TYPE
from pylog.errors import (
    CoordinatorNotAvailable,
    FencedInstanceId,
    GroupIdNotFound,
    GroupMaxSizeReached,
    IllegalGeneration,
    InconsistentGroupProtocol,
    NotEnoughReplicas,
    PylogError,
    RebalanceInProgress,
    UnknownMemberId,
)
from pylog.protocol.assignor import Subscription as Said
from pylog.protocol.assignor import decode_assignment, encode_assignment, encode_subscription
from pylog.protocol.messages.groups import (
    CLASSIC_MEMBER,
    CONSUMER_MEMBER,
    ConsumerGroupDescribeRequest,
    JoinGroupRequest,
)
from pylog.record import TopicPartition
from support.classic_client import SESSION_MS, ClassicClient
from support.consumer_group_host import Client, ConsumerHost, heartbeat, kinds, member
from support.messages import (
    Offset,
    commit_errors,
    fetched,
    group_heartbeat,
    join_group,
    leave_group,
    leaving,
    offset_commit,
    offset_fetch,
    sync_group,
)

AT = TopicPartition("t", 0)
STRATEGIES = ["range", "cooperative-sticky", "range,cooperative-sticky"]


@pytest.fixture
def host() -> ConsumerHost:
    return ConsumerHost()


def classic(host: ConsumerHost, name: str = "k", strategy: str = "cooperative-sticky", **more: str) -> ClassicClient:
    return ClassicClient(host, name, strategy=strategy, **more)  # type: ignore[arg-type]


def settle(*clients: Client) -> None:
    for _ in range(12):
        for client in clients:
            client.beat()
        host = clients[0].host
        owned = [slot for client in clients for slot in client.owned]
        assert len(owned) == len(set(owned)), "a partition is two members'"
        host.advance(500)


def shares(*clients: Client) -> list[int]:
    return [len(client.owned) for client in clients]


def kind(host: ConsumerHost) -> str:
    return host.coordinator._groups["g"].listed().group_type


# --- up and down -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_classic_and_a_consumer_member_share_in_whatever_order_they_come(host: ConsumerHost, strategy: str) -> None:
    for is_first in (True, False):
        old, new = classic(host, strategy=strategy), member(host)
        for client in (old, new) if is_first else (new, old):
            client.beat()
        settle(old, new)
        assert (kind(host), shares(old, new)) == ("consumer", [4, 4])
        for gone, left, is_now in ((new, old, "classic"), (old, new, "consumer")) if is_first else ((old, new, ""),):
            gone.send_leave()
            settle(left)
            assert shares(left) == [8]
            assert kind(host) == is_now or not is_now
            if left is old:
                new.beat()
                settle(old, new)
                assert (kind(host), shares(old, new)) == ("consumer", [4, 4])
        host.restart(lost=("/h",))


def test_an_upgrade_is_logged_as_kafka_does_it(host: ConsumerHost) -> None:
    old = classic(host).beat()
    place = len(host.log)
    member(host).beat()
    assert kinds(host)[place:] == [
        GROUP_TYPE, MEMBER, EPOCH, TARGET, TARGET_EPOCH, CURRENT,  # what was
        MEMBER, EPOCH, TARGET, TARGET, TARGET_EPOCH, CURRENT,  # the new member
    ]  # fmt: skip
    group = host.group()
    said = group.subscriptions[old.member_id].classic
    assert said is not None
    assert (said.session_timeout_ms, said.first[0]) == (SESSION_MS, "cooperative-sticky")
    assert (group.epoch.epoch, group.currents[old.member_id].epoch) == (2, 1)


def test_a_downgrade_is_logged_as_kafka_does_it(host: ConsumerHost) -> None:
    old, new = classic(host).beat(), member(host).beat()
    settle(old, new)
    place, epoch = len(host.log), host.group().epoch.epoch
    new.leave()
    gone = [CURRENT, CURRENT, TARGET, TARGET, TARGET_EPOCH, MEMBER, MEMBER, PARTITION_METADATA, EPOCH]
    assert kinds(host)[place:] == [*gone, GROUP_TYPE]
    group = host.coordinator._groups["g"]
    assert isinstance(group, ClassicGroup) and group.stored is not None
    assert (group.stored.generation, group.stored.protocol) == (epoch, "cooperative-sticky")
    assert len(decode_assignment(group.stored.members[0].assignment)[0]) == 4


def test_a_classic_member_hears_at_once_that_another_one_has_come(host: ConsumerHost) -> None:
    old = classic(host).beat()
    ticket, _ = old.sent[0]
    assert ticket not in host.answers, "there was nothing to say"
    member(host).beat()
    assert isinstance(host.answers[ticket].error, RebalanceInProgress)


def test_a_classic_member_in_a_mixed_group_hears_of_a_change_at_once(host: ConsumerHost) -> None:
    old, new = classic(host).beat(), member(host).beat()
    settle(old, new)
    ticket, _ = old.beat().sent[0]
    assert ticket not in host.answers, "there was nothing to say"
    member(host, "n").beat()
    host.advance(0)
    assert isinstance(host.answers[ticket].error, RebalanceInProgress)


def test_members_that_wait_for_a_generation_join_the_upgraded_group(host: ConsumerHost) -> None:
    old = classic(host).beat()
    slow = classic(host, "slow")
    for _ in range(3):
        slow.send()
        slow.receive()
    assert host.coordinator._groups["g"].listed().group_state == "PreparingRebalance"
    new = member(host).beat()
    settle(old, slow, new)
    assert sorted(shares(old, slow, new)) == [2, 3, 3]


def test_a_revoked_partition_is_free_after_an_upgrade(host: ConsumerHost) -> None:
    """It is cooperative, and has not heard yet that it has to give something up."""
    message = join_group("g", protocols=[("x", encode_subscription(Said(["t"])))])
    first = host.ask(message).member_id
    host.ask(sync_group("g", 1, first, assignments=[(first, encode_assignment([AT, TopicPartition("t", 1)]))]))
    owning = [("x", encode_subscription(Said(["t"], None, [AT, TopicPartition("t", 1)], 1)))]
    host.ask(join_group("g", first, protocols=owning))
    host.ask(sync_group("g", 2, first, assignments=[(first, encode_assignment([AT]))]))
    new = member(host).beat()
    current = host.group().currents[first]
    assert current.state is MemberState.UNREVOKED
    assert current.revoking.keys() == host.slots(t=[1])
    assert not new.owned & host.slots(t=[0, 1])


def test_a_partition_of_two_members_is_one_members_after_an_upgrade(host: ConsumerHost) -> None:
    said = [("x", encode_subscription(Said(["t"])))]
    tickets = [host.send(join_group("g", protocols=said)) for _ in range(2)]
    host.advance(0)
    ids = [host.answers[ticket].member_id for ticket in tickets if ticket in host.answers]
    for member_id in ids:
        host.send(join_group("g", member_id, protocols=said))
    group = host.coordinator._groups["g"]
    assert isinstance(group, ClassicGroup)
    both = [(one, encode_assignment([AT])) for one in group.roster.members]
    leader = group.roster.leader or ""
    host.send(sync_group("g", group.generation, leader, assignments=both))
    member(host).beat()
    assert host.group().state == "Reconciling"  # and the host's checks hold


# --- what forbids it -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("policy", "goes_up", "goes_down"), [
    ("bidirectional", True, True), ("upgrade", True, False), ("downgrade", False, True), ("disabled", False, False),
])  # fmt: skip
def test_the_policy_says_which_way_a_group_may_go(policy: str, goes_up: bool, goes_down: bool) -> None:
    host = ConsumerHost(NodeConfig(group_consumer_migration_policy=policy))
    old = classic(host).beat()
    error = member(host).beat().error
    assert isinstance(error, type(None) if goes_up else GroupIdNotFound)
    host.restart(lost=("/h",))
    host.advance(SESSION_MS)
    new, old = member(host, "n").beat(), classic(host).beat()
    if policy == "disabled":
        assert isinstance(old.error, InconsistentGroupProtocol) and "migration.policy" in str(old.error)
        return
    settle(new, old)
    assert shares(new, old) == [4, 4]
    new.leave()
    assert kind(host) == ("classic" if goes_down else "consumer")
    settle(old)
    assert shares(old) == [8]


@pytest.mark.parametrize(
    ("message", "assignment", "says"),
    [
        (join_group("g", protocol_type="connect", protocols=[("x", b"")]), b"", "no consumers"),
        (join_group("g", protocols=[("x", b"\0")]), b"", "unreadable subscription"),
        (join_group("g", protocols=[("x", encode_subscription(Said(["t"])))]), b"\0", "unreadable subscription"),
        (
            join_group("g", protocols=[("x", encode_subscription(Said(["t"])))]),
            encode_assignment([AT], b"custom"),
            "more than partitions",
        ),
    ],
)
def test_a_classic_group_that_cannot_be_read_stays_one(
    host: ConsumerHost, message: JoinGroupRequest, assignment: bytes, says: str
) -> None:
    first = host.ask(message).member_id
    host.ask(sync_group("g", 1, first, assignments=[(first, assignment)]))
    error = member(host).beat().error
    assert isinstance(error, GroupIdNotFound) and says in str(error)
    assert host.ask(group_heartbeat("g", 1, first)).error is None


def test_a_classic_group_that_is_too_large_stays_one() -> None:
    host = ConsumerHost(NodeConfig(group_consumer_max_size=1))
    one, two = classic(host, "a").beat(), classic(host, "b").beat()
    assert isinstance(member(host).beat().error, GroupIdNotFound)
    settle(one, two)
    two.send_leave()
    settle(one)
    assert isinstance(member(host).beat().error, GroupMaxSizeReached)
    settle(one)
    assert (kind(host), shares(one)) == ("classic", [8])


def test_a_group_that_is_too_large_for_the_classic_protocol_does_not_go_down() -> None:
    host = ConsumerHost(NodeConfig(group_max_size=1))
    clients = [member(host).beat(), classic(host, "a").beat(), classic(host, "b").beat()]
    clients.pop(0).leave()
    settle(*clients)
    assert (kind(host), shares(*clients)) == ("consumer", [4, 4])
    clients.pop().send_leave()
    settle(*clients)
    assert (kind(host), shares(*clients)) == ("classic", [8])


@pytest.mark.parametrize(
    "message",
    [
        join_group("g", protocol_type="connect", protocols=[("x", b"")]),
        join_group("g", protocols=[]),
        join_group("g", protocols=[("x", b"\0")]),
        join_group("g", protocols=[("unlike", encode_subscription(Said(["t"])))]),
    ],
)
def test_a_classic_member_that_does_not_fit_is_refused(host: ConsumerHost, message: JoinGroupRequest) -> None:
    member(host).beat()
    classic(host).beat()
    assert isinstance(host.ask(message).error, InconsistentGroupProtocol)


def test_a_classic_member_is_refused_where_the_group_is_full() -> None:
    host = ConsumerHost(NodeConfig(group_consumer_max_size=1))
    member(host).beat()
    assert isinstance(host.ask(join_group("g", protocols=[("x", b"")])).error, GroupMaxSizeReached)


# --- what goes wrong -------------------------------------------------------------------------------------------------


def test_an_upgrade_that_cannot_be_logged_has_not_happened(host: ConsumerHost) -> None:
    old = classic(host).beat()
    host.failures.append(NotEnoughReplicas("the test says so"))
    assert member(host).beat().error is not None
    assert kind(host) == "classic"
    host.advance(SESSION_MS)
    assert host.coordinator._groups["g"].is_empty, "the session went on"
    settle(old)
    assert shares(old) == [8]


def test_a_downgrade_that_cannot_be_logged_has_not_happened(host: ConsumerHost) -> None:
    old, new = classic(host).beat(), member(host).beat()
    settle(old, new)
    host.failures.append(NotEnoughReplicas("the test says so"))
    assert isinstance(new.leave().error, PylogError)
    assert kind(host) == "consumer"
    settle(old)
    assert shares(old) == [4]
    host.advance(5_000)
    settle(old)
    for _ in range(10):
        host.advance(5_000)
        settle(old)
    assert (kind(host), shares(old)) == ("classic", [8])


def test_an_empty_group_that_cannot_be_logged_as_classic_stays_consumer(host: ConsumerHost) -> None:
    member(host).beat().leave()
    host.failures.append(NotEnoughReplicas("the test says so"))
    old = classic(host)
    old.send()
    assert kind(host) == "consumer", "as the log says"
    settle(old)
    assert (kind(host), shares(old)) == ("classic", [8])


def test_a_new_classic_group_that_cannot_be_logged_is_one_in_memory(host: ConsumerHost) -> None:
    host.failures.append(NotEnoughReplicas("the test says so"))
    old = classic(host).beat()
    settle(old)
    assert (kind(host), shares(old)) == ("classic", [8])


def test_a_classic_join_that_cannot_be_logged_is_refused_in_a_mixed_group(host: ConsumerHost) -> None:
    clients = [member(host).beat(), classic(host).beat(), member(host, "n").beat()]
    settle(*clients)
    old = clients[1]
    refused = NotEnoughReplicas("the test says so")
    host.failures += [refused, refused]
    leave = host.ask(leave_group("g", [leaving("nobody"), leaving(old.member_id)]))
    assert [type(one.error) for one in leave.members] == [UnknownMemberId, CoordinatorNotAvailable]
    again = [("cooperative-sticky", encode_subscription(Said(["t", "u"])))]
    assert isinstance(host.ask(join_group("g", old.member_id, protocols=again)).error, CoordinatorNotAvailable)
    settle(*clients)
    assert sorted(shares(*clients)) == [2, 3, 3]


def test_a_member_is_fenced_again_where_the_downgrade_could_not_be_logged(host: ConsumerHost) -> None:
    old, new = classic(host).beat(), member(host).beat()
    settle(old, new)
    for _ in range(19):
        settle(old)
        host.advance(500)
        if len(host.failures) == 0 and host.now.tick > 44_000 and kind(host) == "consumer":
            host.failures.append(NotEnoughReplicas("the test says so"))
    settle(old)
    assert (kind(host), shares(old), host.failures) == ("classic", [8], [])


def test_a_classic_member_that_leaves_turns_a_group_that_was_too_large() -> None:
    host = ConsumerHost(NodeConfig(group_max_size=1))
    new, one, two = member(host).beat(), classic(host, "a").beat(), classic(host, "b").beat()
    settle(new, one, two)
    new.leave()
    settle(one, two)
    tickets = [client.beat().sent[0][0] for client in (one, two)]
    assert [one.error for one in host.ask(leave_group("g", [leaving(two.member_id)])).members] == [None]
    assert kind(host) == "classic"
    errors = [host.answers[ticket].error for ticket in tickets]
    assert [type(error) for error in errors] == [RebalanceInProgress, UnknownMemberId]


def test_a_classic_member_that_waits_for_its_assignment_joins_an_upgraded_group(host: ConsumerHost) -> None:
    tickets = [host.send(join_group("g", protocols=[("x", SAID)])) for _ in range(2)]
    first = host.answers[tickets[0]].member_id
    second = host.send(join_group("g", first, protocols=[("x", SAID)]))
    (leader, other) = (host.answers[ticket] for ticket in (second, tickets[1]))
    waits = host.send(sync_group("g", other.generation_id, other.member_id))
    assert leader.leader == first and waits not in host.answers
    member(host).beat()
    assert isinstance(host.answers[waits].error, RebalanceInProgress)


def test_a_classic_member_in_a_mixed_group_joins_before_it_syncs(host: ConsumerHost) -> None:
    member(host).beat()
    joined = host.ask(join_group("g", protocols=[("x", SAID)]))
    assert host.ask(group_heartbeat("g", joined.generation_id, joined.member_id)).error is None
    member(host, "n").beat()
    assert isinstance(host.ask(sync_group("g", joined.generation_id, joined.member_id)).error, RebalanceInProgress)


def test_members_go_on_after_a_restart_in_a_mixed_group(host: ConsumerHost) -> None:
    old, new = classic(host).beat(), member(host).beat()
    old.lose()
    new.lose()
    host.restart()
    settle(old, new)
    assert (kind(host), shares(old, new)) == ("consumer", [4, 4])


def test_a_restart_right_after_a_downgrade_leaves_no_partition_unread(host: ConsumerHost) -> None:
    old, new = classic(host).beat(), member(host).beat()
    settle(old, new)
    new.leave()
    old.lose()
    host.restart()
    settle(old)
    assert (kind(host), shares(old)) == ("classic", [8])


def test_members_that_are_lost_with_their_process_turn_the_group_classic(host: ConsumerHost) -> None:
    old, new = classic(host).beat(), member(host, process="/other").beat()
    settle(old, new)
    old.lose()
    host.restart(lost=("/other",))
    settle(old)
    assert (kind(host), shares(old)) == ("classic", [8])


@pytest.mark.parametrize("ms", [SESSION_MS, 45_000])
def test_silent_members_of_a_mixed_group_are_out(host: ConsumerHost, ms: int) -> None:
    old, new = classic(host).beat(), member(host).beat()
    settle(old, new)
    left: Sequence[Client] = (new,) if ms == SESSION_MS else (old,)
    for _ in range(ms // 2_000 + 1):
        settle(*left)
        host.advance(2_000)
    settle(*left)
    assert shares(*left) == [8]
    assert kind(host) == ("consumer" if ms == SESSION_MS else "classic")


@pytest.mark.parametrize("does_join", [False, True], ids=["it never joins again", "it never asks for its assignment"])
def test_a_classic_member_that_does_not_rebalance_is_out(host: ConsumerHost, does_join: bool) -> None:
    said = [("x", encode_subscription(Said(["t"])))]
    new = member(host).beat()
    joined = host.ask(join_group("g", protocols=said, rebalance_timeout_ms=30_000, session_timeout_ms=10_000))
    if not does_join:
        host.ask(sync_group("g", joined.generation_id, joined.member_id))
    member(host, "n").beat()
    for _ in range(29):
        host.ask(group_heartbeat("g", joined.generation_id, joined.member_id))
        new.beat()
        host.advance(1000)
    assert joined.member_id in host.group().subscriptions
    host.advance(1000)
    assert joined.member_id not in host.group().subscriptions


def test_a_classic_member_that_was_out_and_has_something_is_told_so(host: ConsumerHost) -> None:
    member(host).beat()
    owning = [("x", encode_subscription(Said(["t"], None, [AT], 1)))]
    assert isinstance(host.ask(join_group("g", "k-1", protocols=owning)).error, UnknownMemberId)
    assert host.ask(join_group("g", "k-1", protocols=[("x", SAID)])).error is None


# --- static members --------------------------------------------------------------------------------------------------


def test_a_static_member_changes_its_protocol_and_keeps_what_it_has(host: ConsumerHost) -> None:
    old, other = classic(host, instance_id="i").beat(), classic(host, "other").beat()
    settle(old, other)
    had = set(old.owned)
    new = member(host, "n", instance_id="i").beat()
    assert set(new.owned) == had
    assert old.beat().machine.fatal is not None, "another one has its instance id"
    settle(new, other)
    assert shares(new, other) == [4, 4]
    back = classic(host, "back", instance_id="i").beat()
    settle(back, other)
    assert isinstance(new.beat().error, GroupIdNotFound | FencedInstanceId)
    assert (kind(host), sorted(shares(back, other))) == ("classic", [4, 4])


def test_a_static_member_that_changes_alone_turns_the_group_at_once(host: ConsumerHost) -> None:
    new = member(host, instance_id="i").beat()
    old = classic(host, instance_id="i").beat()
    settle(old)
    assert (kind(host), shares(old)) == ("classic", [8])
    assert isinstance(new.beat().error, GroupIdNotFound)


def test_a_static_member_that_changes_protocols_early_is_given_partitions(host: ConsumerHost) -> None:
    said = encode_subscription(Said(["t"]))
    host.ask(join_group("g", group_instance_id="i", protocols=[("range", said)], session_timeout_ms=SESSION_MS))
    new = member(host, instance_id="i").beat()
    settle(new)
    assert shares(new) == [8]


def test_a_static_classic_member_is_replaced_in_a_mixed_group(host: ConsumerHost) -> None:
    new, old = member(host).beat(), classic(host, instance_id="i").beat()
    settle(new, old)
    had = set(old.owned)
    back = classic(host, "back", instance_id="i").beat()
    assert back.owned == had
    assert old.beat().machine.fatal is not None
    settle(new, back)
    assert shares(new, back) == [4, 4]


# --- what it says ----------------------------------------------------------------------------------------------------


@pytest.fixture
def pair(host: ConsumerHost) -> tuple[ClassicClient, Client]:
    old, new = classic(host).beat(), member(host).beat()
    settle(old, new)
    return old, new


def test_offsets_are_committed_by_members_of_both_kinds(host: ConsumerHost, pair: tuple[ClassicClient, Client]) -> None:
    for offset, client in enumerate(pair):
        commit = offset_commit("g", [Offset("t", 0, offset)], client.epoch, client.member_id)
        assert commit_errors(host.ask(commit)) == {AT: None}
        assert fetched(host.ask(offset_fetch("g", [AT])))[0].offset == offset


def test_a_classic_members_commit_of_another_generation_is_refused(
    host: ConsumerHost, pair: tuple[ClassicClient, Client]
) -> None:
    old, _ = pair
    commit = offset_commit("g", [Offset("t", 0, 1)], old.epoch + 1, old.member_id)
    assert isinstance(commit_errors(host.ask(commit))[AT], IllegalGeneration)


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda old: group_heartbeat("g", old.epoch + 1, old.member_id), IllegalGeneration),
        (lambda old: group_heartbeat("g", old.epoch, "m"), UnknownMemberId),
        (lambda old: group_heartbeat("g", old.epoch, "nobody"), UnknownMemberId),
        (lambda old: group_heartbeat("g", old.epoch, old.member_id, "i"), UnknownMemberId),
        (lambda old: sync_group("g", old.epoch + 1, old.member_id), IllegalGeneration),
        (lambda old: sync_group("g", old.epoch, "m"), UnknownMemberId),
        (lambda old: sync_group("g", old.epoch, old.member_id, protocol_name="x"), InconsistentGroupProtocol),
        (lambda old: join_group("g", "x", "i", protocols=[("cooperative-sticky", SAID)]), UnknownMemberId),
    ],
)
def test_a_join_that_does_not_fit_a_mixed_group_is_refused(
    host: ConsumerHost, pair: tuple[ClassicClient, Client], ask: object, error: type[PylogError]
) -> None:
    assert isinstance(host.ask(ask(pair[0])).error, error)  # type: ignore[operator]


SAID = encode_subscription(Said(["t"]))


def test_each_member_that_leaves_a_mixed_group_has_an_error_of_its_own(
    host: ConsumerHost, pair: tuple[ClassicClient, Client]
) -> None:
    old, _ = pair
    named = [leaving("m"), leaving(old.member_id), leaving(old.member_id), leaving("", "i")]
    errors = [one.error for one in host.ask(leave_group("g", named)).members]
    assert [type(error) for error in errors] == [type(None), type(None), UnknownMemberId, UnknownMemberId]
    assert [type(one.error) for one in host.ask(leave_group("g", named[:1])).members] == [UnknownMemberId]


def test_a_mixed_group_is_described_as_one_of_the_consumer_protocol(
    host: ConsumerHost, pair: tuple[ClassicClient, Client]
) -> None:
    (group,) = host.ask(ConsumerGroupDescribeRequest(group_ids=["g"])).groups
    assert group.group_state == "Stable"
    assert sorted(one.member_type for one in group.members) == [CLASSIC_MEMBER, CONSUMER_MEMBER]
    owned = [one.assignment.topic_partitions for one in group.members]
    assert all(sum(len(topic.partitions) for topic in topics) == 4 for topics in owned)


def test_a_member_may_speak_the_other_protocol_under_its_id(
    host: ConsumerHost, pair: tuple[ClassicClient, Client]
) -> None:
    old, new = pair
    assert heartbeat(host, member_id=old.member_id, member_epoch=old.epoch).error is None
    assert host.group().subscriptions[old.member_id].classic is None
    assert new.leave().error is None
    assert kind(host) == "consumer"
