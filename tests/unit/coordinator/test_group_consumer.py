"""Groups of the consumer protocol: who is in them, what they are told, what is logged."""

from uuid import UUID

import pytest

from pylog.config import NodeConfig
from pylog.coordinator.group.consumer_group import NEW_MEMBER
from pylog.coordinator.group.consumer_records import (
    CURRENT,
    EPOCH,
    MEMBER,
    REGEX,
    TARGET,
    TARGET_EPOCH,
    GroupEpoch,
    MemberState,
    MemberSubscription,
    ResolvedRegex,
    consumer_record,
    decode_consumer,
)
from pylog.coordinator.patterns import matcher
from pylog.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InvalidRegularExpression,
    InvalidRequest,
    PylogError,
    UnknownMemberId,
    UnreleasedInstanceId,
    UnsupportedAssignor,
)
from pylog.protocol.messages import (
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
)
from support.consumer_group_host import (
    JOIN,
    SESSION_MS,
    Client,
    ConsumerHost,
    heartbeat,
    kinds,
    member,
    settle,
    slots,
    structs,
)


@pytest.fixture
def host() -> ConsumerHost:
    return ConsumerHost()


# --- joining and sharing ---------------------------------------------------------------------------------------------


def test_the_first_member_gets_all_partitions_at_once(host: ConsumerHost) -> None:
    answer = host.ask(JOIN)
    assert (answer.error, answer.member_id, answer.member_epoch) == (None, "m", 1)
    assert answer.heartbeat_interval_ms == 5000
    assert slots(answer.assignment) == host.slots(t=range(8))
    assert kinds(host) == [MEMBER, EPOCH, TARGET, TARGET_EPOCH, CURRENT]
    assert host.group().state == "Stable"


def test_a_member_without_an_id_is_given_one(host: ConsumerHost) -> None:
    answer = heartbeat(
        host, member_id="", member_epoch=0, rebalance_timeout_ms=1, subscribed_topic_names=["t"], topic_partitions=[]
    )
    assert answer.member_id == "c-1"
    assert "c-1" in host.group().subscriptions


def test_a_second_member_gets_its_share_when_the_first_has_let_go(host: ConsumerHost) -> None:
    first = member(host, "a").beat()
    second = member(host, "b").beat()
    assert second.epoch == 2
    assert second.owned == set()
    assert host.group().state == "Reconciling"
    first.beat()
    assert len(first.owned) == 4
    assert first.epoch == 1, "in its epoch it may commit what it gives up"
    second.beat()
    assert second.owned == set(), "nobody has said that it is free"
    first.beat()
    assert first.epoch == 2
    second.beat()
    assert len(second.owned) == 4
    assert not first.owned & second.owned
    assert host.group().state == "Stable"


def test_nothing_is_logged_when_nothing_changes(host: ConsumerHost) -> None:
    client = member(host).beat(2)
    size = len(host.log)
    client.beat(3)
    assert len(host.log) == size
    assert client.error is None


def test_a_member_that_leaves_frees_its_partitions(host: ConsumerHost) -> None:
    clients = [member(host, name) for name in "abc"]
    settle(clients)
    answer = clients[0].leave()
    assert (answer.error, answer.member_epoch) == (None, LEAVE_EPOCH)
    assert host.group().state == "Assigning"
    settle(clients[1:])
    assert sorted(len(client.owned) for client in clients[1:]) == [4, 4]
    assert isinstance(heartbeat(host, member_id="a", member_epoch=-1).error, UnknownMemberId)


def test_a_subscription_that_changes_changes_the_target(host: ConsumerHost) -> None:
    client = member(host).beat()
    client.topics, client.has_new_topics = ["t", "u"], True
    client.beat()
    assert client.owned == host.slots(t=range(8), u=range(8))
    client.topics, client.has_new_topics = ["u"], True
    settle([client])
    assert client.owned == host.slots(u=range(8))


def test_members_with_other_topics_share_their_common_topics(host: ConsumerHost) -> None:
    one, both = member(host, "a", "t"), member(host, "b", "t", "u")
    settle([one, both])
    assert (len(one.owned), len(both.owned)) == (8, 8)
    assert one.owned == host.slots(t=range(8))


def test_the_assignor_that_most_ask_for_assigns(host: ConsumerHost) -> None:
    for name in ("a", "b"):
        heartbeat(
            host, member_id=name, member_epoch=0, rebalance_timeout_ms=1, subscribed_topic_names=["t"],
            topic_partitions=[], server_assignor="range",
        )  # fmt: skip
    assert host.group().targets == {"a": host.slots(t=range(4)), "b": host.slots(t=range(4, 8))}
    assert host.group().described({}).assignor_name == "range"


# --- topics ----------------------------------------------------------------------------------------------------------


def test_new_partitions_are_given_out_at_the_next_heartbeat(host: ConsumerHost) -> None:
    client = member(host).beat()
    host.set_topics(t=10)
    client.beat()
    assert client.owned == host.slots(t=range(10))
    assert client.epoch == 2


def test_unread_topics_change_nothing(host: ConsumerHost) -> None:
    client = member(host).beat()
    host.set_topics(other=3)
    size = len(host.log)
    client.beat(2)
    assert len(host.log) == size
    assert host.group().seen is host.topics.topics


def test_a_topic_that_is_deleted_and_made_again_is_another_one(host: ConsumerHost) -> None:
    client = member(host).beat()
    before = set(client.owned)
    host.set_topics(t=0)
    settle([client])
    assert client.owned == set()
    host.set_topics(t=2)
    settle([client])
    assert client.owned == host.slots(t=range(2))
    assert not client.owned & before


def test_a_regular_expression_reads_the_topics_that_match(host: ConsumerHost) -> None:
    host.set_topics(clicks_a=1, clicks_b=1, unclicks_c=1, clicks__=1, clicks__c=1, __consumer_offsets=3)
    client = Client(host, "m", [], regex="clicks_[a-z]|clicks_|__.*").beat()
    assert client.owned == host.slots(clicks_a=[0], clicks_b=[0])
    assert decode_consumer(host.log[1].record).value.topics == ("clicks_a", "clicks_b")  # type: ignore[union-attr]
    host.set_topics(clicks_d=2)
    client.beat()
    assert client.owned == host.slots(clicks_a=[0], clicks_b=[0], clicks_d=[0, 1])
    client.topics, client.regex, client.has_new_topics = ["t"], "", True
    settle([client])
    assert client.owned == host.slots(t=range(8))
    assert host.group().resolved == {}


@pytest.mark.parametrize("regex", ["(", "a{1001}", r"(a)\1", "(?=a)", "(?<!a)b", "(?>a)", "a++", "(?P<x>a)(?P=x)"])
def test_a_regular_expression_that_kafka_would_not_know_is_refused(host: ConsumerHost, regex: str) -> None:
    client = Client(host, "m", [], regex=regex).beat()
    assert isinstance(client.error, InvalidRegularExpression)
    assert host.log == []


def test_a_regular_expression_that_backtracks_without_end_holds_nobody_up(host: ConsumerHost) -> None:
    host.set_topics(**{"a" * 249: 1})
    client = Client(host, "m", [], regex="(a|aa)+b").beat()
    # RE2 matches it in linear time; where it is absent the pattern is refused.
    assert client.owned == set()


def test_a_stored_expression_that_is_refused_keeps_its_topics_and_its_group(host: ConsumerHost) -> None:
    subscription = MemberSubscription("", None, "c", "/h", (), r"(t)\1", 1000)
    stored = [
        (MEMBER, "old", subscription), (CURRENT, "old", NEW_MEMBER), (EPOCH, "", GroupEpoch(1)),
        (REGEX, r"(t)\1", ResolvedRegex(("t",), 0, 0)),
    ]  # fmt: skip
    for kind, name, value in stored:
        host.append_record(consumer_record(kind, "g", name, value))
    host.restart()

    client = Client(host, "new", ["u"]).beat()

    assert client.error is None and client.owned == host.slots(u=range(8))
    assert host.group().resolved[r"(t)\1"].topics == ("t",)
    old = Client(host, "old", [], regex=r"(t)\1").beat()
    assert isinstance(old.error, InvalidRegularExpression)


def test_many_topics_are_matched_in_several_turns(host: ConsumerHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pylog.coordinator.group.update.WORK_MAX", 1)
    host.set_topics(t=0, u=0, a=1, b=1, c=1, d=1)
    client = Client(host, "m", []).beat()
    client.regex, client.has_new_topics = "[a-c]", True
    client.beat()
    assert len(host.group().matches["[a-c]"].looked) == 1
    # One that was looked at goes, and comes back before all others were.
    (first,) = host.group().matches["[a-c]"].looked
    host.set_topics(**{first: 0})
    client.beat()
    host.set_topics(**{first: 1})
    settle([client])
    for _ in range(4):
        client.beat()
    settle([client])
    assert client.owned == host.slots(a=[0], b=[0], c=[0])
    host.restart()
    # What was matched before stays until all is looked at again.
    client.beat()
    assert len(host.group().matches["[a-c]"].looked) < 4 and client.owned == host.slots(a=[0], b=[0], c=[0])


def test_a_topic_is_matched_once(host: ConsumerHost) -> None:
    host.set_topics(aa=1, ab=1)
    client = Client(host, "m", [], regex="a.*")
    settle([client])
    host.set_topics(abcd=1)
    client.beat()
    assert host.group().matches["a.*"].work == 4 * matcher("a.*").steps
    settle([client])
    assert client.owned == host.slots(aa=[0], ab=[0], abcd=[0])


def test_a_regular_expression_may_escape(host: ConsumerHost) -> None:
    assert Client(host, "m", [], regex=r"t|\w\+\+").beat().owned == host.slots(t=range(8))


# --- epochs ----------------------------------------------------------------------------------------------------------


def test_a_member_in_another_epoch_is_fenced(host: ConsumerHost) -> None:
    settle([member(host, "a"), member(host, "m")])
    epoch = host.group().currents["m"].epoch
    for other in (epoch + 1, epoch - 2, epoch - 1):
        assert isinstance(heartbeat(host, member_epoch=other).error, (FencedMemberEpoch, InvalidRequest))
    assert isinstance(host.ask(JOIN).error, FencedMemberEpoch)


def test_a_member_that_missed_an_answer_is_told_again(host: ConsumerHost) -> None:
    host.ask(JOIN)
    again = host.ask(JOIN)
    assert (again.error, again.member_epoch) == (None, 1)
    assert slots(again.assignment) == host.slots(t=range(8))
    host.set_topics(t=9)
    heartbeat(host)
    owned = structs(host.slots(t=range(8)))
    missed = heartbeat(host, topic_partitions=owned, rebalance_timeout_ms=1, subscribed_topic_names=["t"])
    assert (missed.error, missed.member_epoch) == (None, 2)
    assert slots(missed.assignment) == host.slots(t=range(9))
    assert isinstance(heartbeat(host, topic_partitions=structs(host.slots(u=[0]))).error, FencedMemberEpoch)


def test_a_client_that_is_no_member_has_to_join(host: ConsumerHost) -> None:
    assert isinstance(heartbeat(host).error, GroupIdNotFound)
    host.ask(JOIN)
    assert isinstance(heartbeat(host, member_id="x").error, UnknownMemberId)


def test_a_state_of_a_newer_version_fences_members_with_partitions(host: ConsumerHost) -> None:
    client = member(host).beat()
    current = host.group().currents["m"]
    record = consumer_record(CURRENT, "g", "m", current._replace(state=MemberState.UNKNOWN))
    host.append_record(record)
    assert isinstance(heartbeat(host).error, FencedMemberEpoch)
    assert heartbeat(host, topic_partitions=[]).error is None
    assert host.group().currents["m"].state is MemberState.STABLE
    assert client.error is None


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"group_id": ""}, InvalidRequest),
        ({"member_id": ""}, InvalidRequest),
        ({"instance_id": ""}, InvalidRequest),
        ({"rack_id": ""}, InvalidRequest),
        ({"member_epoch": -3}, InvalidRequest),
        ({"member_epoch": LEAVE_STATIC_EPOCH}, InvalidRequest),
        ({"member_epoch": 0, "subscribed_topic_names": ["t"], "topic_partitions": []}, InvalidRequest),
        ({"member_epoch": 0, "rebalance_timeout_ms": 1, "subscribed_topic_names": ["t"]}, InvalidRequest),
        ({"member_epoch": 0, "rebalance_timeout_ms": 1, "topic_partitions": []}, InvalidRequest),
        (
            {
                "member_epoch": 0, "rebalance_timeout_ms": 1, "subscribed_topic_names": ["t"],
                "topic_partitions": [(UUID(int=1), [0])],
            },
            InvalidRequest,
        ),
        (
            {
                "member_epoch": 0, "rebalance_timeout_ms": 1, "subscribed_topic_names": ["t"],
                "topic_partitions": [(UUID(int=1), [])],
            },
            InvalidRequest,
        ),
        ({"rebalance_timeout_ms": -2}, InvalidRequest),
        ({"rebalance_timeout_ms": 2**31}, InvalidRequest),
        ({"server_assignor": "sticky"}, UnsupportedAssignor),
        ({"subscribed_topic_names": ["\ud800"]}, InvalidRequest),
        ({"rack_id": "x" * 40_000}, InvalidRequest),
    ],
)  # fmt: skip
def test_a_heartbeat_that_makes_no_sense_is_refused(
    host: ConsumerHost, fields: dict[str, object], error: type[PylogError]
) -> None:
    assert isinstance(heartbeat(host, **fields).error, error)
    assert host.log == []


@pytest.mark.parametrize("fields", [{"subscribed_topic_names": []}, {"subscribed_topic_regex": ""}])
def test_a_member_may_join_before_it_has_topics(host: ConsumerHost, fields: dict[str, object]) -> None:
    new = {"member_epoch": 0, "rebalance_timeout_ms": 1000, "topic_partitions": []}
    joined = heartbeat(host, **new, **fields)
    assert joined.error is None and slots(joined.assignment) == set()
    told = heartbeat(host, member_epoch=joined.member_epoch, subscribed_topic_names=["t"])
    assert told.error is None and slots(told.assignment)


def test_a_full_group_refuses_a_new_member(host: ConsumerHost) -> None:
    host = ConsumerHost(NodeConfig(group_consumer_max_size=1))
    first = member(host, "a").beat()
    assert isinstance(member(host, "b").beat().error, GroupMaxSizeReached)
    assert first.beat().error is None


# --- static members --------------------------------------------------------------------------------------------------


def test_a_static_member_that_will_be_back_keeps_its_partitions(host: ConsumerHost) -> None:
    other, static = member(host, "a"), member(host, "b", instance_id="i")
    settle([other, static])
    had = set(static.owned)
    answer = static.leave(for_good=False)
    assert (answer.error, answer.member_epoch) == (None, LEAVE_STATIC_EPOCH)
    other.beat(3)
    assert not other.owned & had
    assert host.group().currents["b"].assigned.keys() == had
    epoch = host.group().epoch
    back = member(host, "c", instance_id="i").beat()
    assert back.error is None
    assert back.owned == had
    assert host.group().epoch == epoch, "nobody else is to do anything"
    assert set(host.group().subscriptions) == {"a", "c"}
    assert isinstance(heartbeat(host, member_id="b", instance_id="i").error, FencedInstanceId)


def test_an_instance_id_in_use_is_not_given_away(host: ConsumerHost) -> None:
    member(host, "a", instance_id="i").beat()
    assert isinstance(member(host, "b", instance_id="i").beat().error, UnreleasedInstanceId)
    assert isinstance(heartbeat(host, member_id="x", instance_id="j").error, UnknownMemberId)


def test_a_static_member_that_does_not_come_back_is_out_after_its_session(host: ConsumerHost) -> None:
    static = member(host, "a", instance_id="i").beat()
    static.leave(for_good=False)
    assert isinstance(heartbeat(host, member_id="a", instance_id="i").error, FencedMemberEpoch)
    host.advance(SESSION_MS)
    assert host.group().is_empty
    assert host.group().static == {}
    assert member(host, "b", instance_id="i").beat().error is None


def test_a_static_member_that_comes_back_may_read_something_else(host: ConsumerHost) -> None:
    member(host, "a", instance_id="i").beat().leave(for_good=False)
    back = member(host, "b", "u", instance_id="i")
    settle([back])
    assert back.owned == host.slots(u=range(8))


def test_a_static_member_may_leave_for_good(host: ConsumerHost) -> None:
    member(host, "a", instance_id="i").beat().leave()
    assert host.group().is_empty
    assert host.group().static == {}
