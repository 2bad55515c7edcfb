"""Groups of the consumer protocol: who is in them, what they are told, what is logged."""

from uuid import UUID

import pytest

from consumer_group_host import Client, ConsumerHost, settle, slots, structs
from pylog.config import NodeConfig
from pylog.effects import LogRecord
from pylog.errors import (
    CoordinatorNotAvailable,
    FencedInstanceId,
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    InvalidRegularExpression,
    InvalidRequest,
    NotEnoughReplicas,
    PylogError,
    StaleMemberEpoch,
    UnknownMemberId,
    UnreleasedInstanceId,
    UnsupportedAssignor,
)
from pylog.group.consumer_records import (
    CURRENT,
    EPOCH,
    MEMBER,
    PARTITION_METADATA,
    TARGET,
    TARGET_EPOCH,
    Current,
    MemberState,
    consumer_record,
    decode_consumer,
)
from pylog.group.records import record_type
from pylog.message import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeaten,
    DeleteGroups,
    DescribeGroups,
    JoinGroup,
    ListGroups,
    OffsetCommit,
    OffsetCommitPart,
    OffsetDelete,
    OffsetFetch,
    TxnOffsetCommit,
)
from pylog.record import TopicPartition

SESSION_MS = 45_000
JOIN = ConsumerGroupHeartbeat(
    "g", "m", JOIN_EPOCH, rebalance_timeout_ms=1000, subscribed_topic_names=["t"], topic_partitions=[]
)


@pytest.fixture
def host() -> ConsumerHost:
    return ConsumerHost()


def member(host: ConsumerHost, name: str = "m", *topics: str, **kwargs: str) -> Client:
    return Client(host, name, topics or ("t",), **kwargs)


def kinds(host: ConsumerHost, since: int) -> list[int]:
    return [record_type(entry.record) for entry in host.log[since:]]  # type: ignore[union-attr]


def heartbeat(host: ConsumerHost, **fields: object) -> ConsumerGroupHeartbeaten:
    values = {"group_id": "g", "member_id": "m", "member_epoch": 1, **fields}
    found: ConsumerGroupHeartbeaten = host.ask(ConsumerGroupHeartbeat(**values))  # type: ignore[arg-type]
    return found


# --- joining and sharing ---------------------------------------------------------------------------------------------


def test_the_first_member_gets_all_partitions_at_once(host: ConsumerHost) -> None:
    answer = host.ask(JOIN)
    assert (answer.error, answer.member_id, answer.member_epoch) == (None, "m", 1)
    assert answer.heartbeat_interval_ms == 5000
    assert slots(answer.assignment) == host.slots(t=range(8))
    assert kinds(host, 0) == [MEMBER, EPOCH, TARGET, TARGET_EPOCH, CURRENT]
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


def test_a_member_that_leaves_frees_what_it_had(host: ConsumerHost) -> None:
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
    client.topics, client.is_full = ["t", "u"], True
    client.beat()
    assert client.owned == host.slots(t=range(8), u=range(8))
    client.topics, client.is_full = ["u"], True
    settle([client])
    assert client.owned == host.slots(u=range(8))


def test_members_with_other_topics_share_what_they_have_in_common(host: ConsumerHost) -> None:
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
    assert host.group().described().protocol == "range"


# --- topics ----------------------------------------------------------------------------------------------------------


def test_new_partitions_are_given_out_at_the_next_heartbeat(host: ConsumerHost) -> None:
    client = member(host).beat()
    host.set_topics(t=10)
    client.beat()
    assert client.owned == host.slots(t=range(10))
    assert client.epoch == 2


def test_topics_that_nobody_reads_change_nothing(host: ConsumerHost) -> None:
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
    host.set_topics(clicks_a=1, clicks_b=1, unclicks_c=1, __consumer_offsets=3)
    client = Client(host, "m", [], regex="clicks_.*|__.*").beat()
    assert client.owned == host.slots(clicks_a=[0], clicks_b=[0])
    assert decode_consumer(host.log[1].record).value.topics == ("clicks_a", "clicks_b")  # type: ignore[union-attr]
    host.set_topics(clicks_d=2)
    client.beat()
    assert client.owned == host.slots(clicks_a=[0], clicks_b=[0], clicks_d=[0, 1])
    client.topics, client.regex, client.is_full = ["t"], "", True
    settle([client])
    assert client.owned == host.slots(t=range(8))
    assert host.group().resolved == {}


@pytest.mark.parametrize(
    "regex", ["(", "a{99999999999}", r"(a)\1", "(?=a)", "(?<!a)b", "(?>a)", "a++", "(?P<x>a)(?P=x)"]
)
def test_a_regular_expression_that_kafka_would_not_know_is_refused(host: ConsumerHost, regex: str) -> None:
    client = Client(host, "m", [], regex=regex).beat()
    assert isinstance(client.error, InvalidRegularExpression)
    assert host.log == []


def test_a_regular_expression_may_escape(host: ConsumerHost) -> None:
    assert Client(host, "m", [], regex=r"\Qt").beat().error is not None, "a quotation of Java's"
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


def test_one_that_is_no_member_has_to_join(host: ConsumerHost) -> None:
    assert isinstance(heartbeat(host).error, GroupIdNotFound)
    host.ask(JOIN)
    assert isinstance(heartbeat(host, member_id="x").error, UnknownMemberId)


def test_a_state_of_a_newer_version_fences_who_has_partitions(host: ConsumerHost) -> None:
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


def test_a_full_group_takes_nobody(host: ConsumerHost) -> None:
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


# --- time ------------------------------------------------------------------------------------------------------------


def test_a_member_that_is_not_heard_of_is_fenced(host: ConsumerHost) -> None:
    quiet, loud = member(host, "a"), member(host, "b")
    settle([quiet, loud])
    host.advance(SESSION_MS - 1)
    loud.beat()
    host.advance(1)
    settle([loud])
    assert loud.owned == host.slots(t=range(8))
    quiet.beat()
    assert isinstance(quiet.error, UnknownMemberId)
    settle([quiet, loud])
    assert (len(quiet.owned), len(loud.owned)) == (4, 4)


def test_a_member_that_does_not_let_go_in_time_is_fenced(host: ConsumerHost) -> None:
    stubborn = member(host, "a").beat()
    member(host, "b").beat()
    heartbeat(host, member_id="a")
    for _ in range(2):
        host.advance(29_000)
        assert heartbeat(host, member_id="a").error is None
        assert heartbeat(host, member_id="b", member_epoch=2).error is None
    host.advance(2_000)
    assert set(host.group().subscriptions) == {"b"}
    assert stubborn.error is None


def test_a_member_that_lets_go_in_time_is_not(host: ConsumerHost) -> None:
    clients = [member(host, "a").beat(), member(host, "b")]
    settle(clients)
    for _ in range(3):
        host.advance(30_000)
        settle(clients)
    assert len(host.group().subscriptions) == 2


def test_a_fence_that_could_not_be_logged_is_tried_again(host: ConsumerHost) -> None:
    member(host).beat()
    host.failures.append(NotEnoughReplicas("no"))
    host.advance(SESSION_MS)
    assert not host.group().is_empty
    host.advance(1000)
    assert host.group().is_empty


def test_a_join_that_could_not_be_logged_has_not_happened(host: ConsumerHost) -> None:
    host.failures.append(NotEnoughReplicas("no"))
    answer = host.ask(JOIN)
    assert isinstance(answer.error, CoordinatorNotAvailable)
    assert answer.member_id == "m"
    assert host.coordinator._groups == {}
    host.advance(SESSION_MS)
    assert host.ask(JOIN).error is None


# --- answers that are kept back --------------------------------------------------------------------------------------


def test_a_heartbeat_is_kept_back_while_there_is_nothing_to_say(host: ConsumerHost) -> None:
    client = member(host).beat(2)
    client.send(max_wait_ms=10_000)
    host.advance(9_999)
    assert host.answers == {}
    host.advance(1)
    client.receive()
    assert client.error is None
    assert host.group().held == {}


def test_no_heartbeat_is_kept_back_for_longer_than_half_a_session(host: ConsumerHost) -> None:
    client = member(host).beat(2)
    client.send(max_wait_ms=1_000_000)
    host.advance(SESSION_MS // 2)
    assert len(host.answers) == 1


def test_another_heartbeat_has_the_one_before_it_answered(host: ConsumerHost) -> None:
    client = member(host).beat(2)
    client.send(max_wait_ms=10_000)
    client.send(max_wait_ms=10_000)
    assert len(host.answers) == 1
    assert len(host.group().held) == 1


def test_who_waits_hears_at_once_what_it_is_to_have(host: ConsumerHost) -> None:
    first = member(host, "a").beat(2)
    first.send(max_wait_ms=20_000)
    second = member(host, "b").beat()
    host.advance(0)
    first.receive()
    assert len(first.owned) == 4
    second.send(max_wait_ms=20_000)
    assert second.tickets
    first.send(max_wait_ms=20_000)
    host.advance(0)
    second.receive()
    assert len(second.owned) == 4
    first.receive()
    assert first.epoch == 2
    assert host.now.tick == 0, "all of that took no time"


def test_who_waits_hears_when_another_one_goes(host: ConsumerHost) -> None:
    clients = [member(host, name) for name in "abc"]
    settle(clients)
    clients[0].send(max_wait_ms=20_000)
    clients[1].leave()
    host.advance(0)
    clients[2].beat(2)
    host.advance(0)
    clients[0].receive()
    assert len(clients[0].owned) == 4
    assert host.now.tick == 0


def test_who_waits_hears_that_it_is_out(host: ConsumerHost) -> None:
    client = member(host, "a").beat(2)
    client.send(max_wait_ms=20_000)
    client.leave()
    (ticket,) = client.tickets
    assert isinstance(host.answers[ticket].error, UnknownMemberId)


def test_who_waits_does_not_outlive_its_revocation_time(host: ConsumerHost) -> None:
    """What is told to one who waits has to be given up in time, too."""
    first = member(host, "a").beat(2)
    first.send(max_wait_ms=20_000)
    second = member(host, "b").beat()
    host.advance(0)
    assert host.group().currents["a"].state is MemberState.UNREVOKED
    for _ in range(2):
        host.advance(30_000)
        heartbeat(host, member_id="b", member_epoch=second.epoch)
        heartbeat(host, member_id="a", member_epoch=1)
    assert set(host.group().subscriptions) == {"b"}


def test_new_topics_are_found_when_the_wait_is_over(host: ConsumerHost) -> None:
    client = member(host).beat(2)
    client.send(max_wait_ms=10_000)
    host.set_topics(t=9)
    host.advance(10_000)
    client.receive()
    assert client.owned == host.slots(t=range(9))


def test_who_waits_is_told_when_its_news_could_not_be_logged(host: ConsumerHost) -> None:
    first = member(host, "a").beat(2)
    first.send(max_wait_ms=20_000)
    member(host, "b").beat()
    host.failures.append(NotEnoughReplicas("no"))
    host.advance(0)
    first.receive()
    assert isinstance(first.error, CoordinatorNotAvailable)
    first.beat()
    assert len(first.owned) == 4


# --- take-over -------------------------------------------------------------------------------------------------------


def test_a_successor_goes_on_where_the_log_ends(host: ConsumerHost) -> None:
    clients = [member(host, "a"), member(host, "b", instance_id="i")]
    settle(clients)
    had = [set(client.owned) for client in clients]
    host.restart()
    settle(clients)
    assert [client.owned for client in clients] == had
    host.advance(SESSION_MS)
    assert host.group().is_empty


def test_members_of_a_lost_process_are_out_at_once(host: ConsumerHost) -> None:
    lost, static, other = (
        member(host, "a", process="/dead"),
        member(host, "b", process="/dead", instance_id="i"),
        member(host, "c"),
    )
    settle([lost, static, other])
    host.restart(lost=("/dead",))
    assert set(host.group().subscriptions) == {"b", "c"}
    settle([other])
    assert len(other.owned) > 2


def test_a_successor_fences_who_does_not_let_go(host: ConsumerHost) -> None:
    member(host, "a").beat()
    member(host, "b").beat()
    heartbeat(host, member_id="a")
    host.restart()
    for _ in range(2):
        host.advance(30_000)
        heartbeat(host, member_id="a")
        heartbeat(host, member_id="b", member_epoch=2)
    assert set(host.group().subscriptions) == {"b"}


def test_a_log_of_an_older_kafka_is_read_and_mended(host: ConsumerHost) -> None:
    """Kafka before 4.1 wrote what topics it had seen, and no epochs of partitions."""
    member(host).beat()
    record = consumer_record(PARTITION_METADATA, "g", "", None)._replace(value=b"\x00\x00\x01\x00")
    host.append_record(record)
    assert host.group().has_partition_metadata
    host.set_topics(t=9)
    member(host, "n").beat()
    assert not host.group().has_partition_metadata


# --- both protocols --------------------------------------------------------------------------------------------------


def test_an_empty_classic_group_becomes_one_of_the_consumer_protocol(host: ConsumerHost) -> None:
    commit = OffsetCommit("g", [OffsetCommitPart("t", 0, 5)])
    assert host.ask(commit).errors == {TopicPartition("t", 0): None}
    client = member(host).beat()
    assert client.error is None
    assert host.group().state == "Stable"
    assert host.ask(OffsetFetch("g", [TopicPartition("t", 0)])).parts[0].offset == 5
    host.restart()
    assert host.group().state == "Stable"


def test_a_classic_group_with_members_stays_one(host: ConsumerHost) -> None:
    host.send(JoinGroup("g", protocols=[("range", b"")]))
    assert isinstance(member(host).beat().error, GroupIdNotFound)
    assert isinstance(heartbeat(host).error, GroupIdNotFound)


def test_a_consumer_group_with_members_stays_one(host: ConsumerHost) -> None:
    client = member(host).beat()
    answer = host.ask(JoinGroup("g", protocols=[("range", b"")]))
    assert isinstance(answer.error, InconsistentGroupProtocol)
    client.leave()
    joined = host.ask(JoinGroup("g", protocols=[("range", b"")]))
    assert joined.error is None
    assert host.coordinator._groups["g"].listed().type == "Classic"
    host.restart()
    assert host.coordinator._groups["g"].listed().type == "Classic"


def test_tombstones_of_the_other_protocol_delete_nothing(host: ConsumerHost) -> None:
    member(host).beat()
    host.append_record(LogRecord(b"\x00\x02\x00\x01g", None))
    assert host.group().state == "Stable"
    host.append_record(consumer_record(EPOCH, "h", "", None))
    assert set(host.coordinator._groups) == {"g"}


# --- offsets and administration --------------------------------------------------------------------------------------


def commit(host: ConsumerHost, epoch: int, member_id: str = "m", instance: str | None = None) -> PylogError | None:
    message = OffsetCommit("g", [OffsetCommitPart("t", 0, 5)], epoch, member_id, instance)
    (error,) = host.ask(message).errors.values()
    assert error is None or isinstance(error, PylogError)
    return error


def test_members_commit_in_their_epoch(host: ConsumerHost) -> None:
    client = member(host).beat()
    assert commit(host, client.epoch) is None
    assert isinstance(commit(host, client.epoch + 1), StaleMemberEpoch)
    assert isinstance(commit(host, client.epoch, "x"), UnknownMemberId)
    assert isinstance(commit(host, -1, ""), UnknownMemberId)
    client.leave()
    assert commit(host, -1, "") is None


def test_what_a_member_has_had_since_an_earlier_epoch_it_commits_in_that(host: ConsumerHost) -> None:
    client = member(host).beat()
    host.set_topics(t=9)
    client.beat()
    assert commit(host, 1) is None
    assert isinstance(commit(host, 0), StaleMemberEpoch)
    message = OffsetCommit("g", [OffsetCommitPart("t", 8, 5), OffsetCommitPart("x", 8, 5)], 1, "m")
    assert all(isinstance(error, StaleMemberEpoch) for error in host.ask(message).errors.values())


def test_a_static_member_commits_as_who_it_is(host: ConsumerHost) -> None:
    settle([member(host, "a", instance_id="i"), member(host, "m", instance_id="j")])
    epoch = host.group().currents["m"].epoch
    assert commit(host, epoch, "m", "j") is None
    assert isinstance(commit(host, epoch, "m", "i"), FencedInstanceId)
    assert isinstance(commit(host, epoch, "m", "x"), UnknownMemberId)


def test_members_commit_in_transactions(host: ConsumerHost) -> None:
    client = member(host).beat()
    parts = [OffsetCommitPart("t", 0, 5)]
    assert host.ask(TxnOffsetCommit("x", "g", 1, 0, parts, client.epoch, "m")).errors == {TopicPartition("t", 0): None}


def test_members_fetch_in_their_epoch(host: ConsumerHost) -> None:
    client = member(host).beat()
    assert host.ask(OffsetFetch("g")).error is None
    assert host.ask(OffsetFetch("g", None, "m", client.epoch)).error is None
    assert isinstance(host.ask(OffsetFetch("g", None, "m", 7)).error, StaleMemberEpoch)
    assert isinstance(host.ask(OffsetFetch("g", None, "x", 1)).error, UnknownMemberId)


def test_offsets_of_what_is_read_are_kept(host: ConsumerHost) -> None:
    client = member(host).beat()
    commit(host, client.epoch)
    message = OffsetDelete("g", [TopicPartition("t", 0)])
    assert host.ask(message).errors[TopicPartition("t", 0)] is not None
    client.topics, client.is_full = ["u"], True
    client.beat()
    assert host.ask(message).errors == {TopicPartition("t", 0): None}


def test_an_empty_group_expires_with_its_offsets(host: ConsumerHost) -> None:
    client = Client(host, "m", [], regex="t").beat()
    commit(host, client.epoch)
    client.leave()
    host.restart()
    host.advance(8 * 24 * 60 * 60 * 1000)
    assert host.coordinator._groups == {}
    host.restart()
    assert host.coordinator._groups == {}


def test_a_group_is_listed_described_and_deleted(host: ConsumerHost) -> None:
    clients = [member(host, "a", "t", "u"), Client(host, "b", ["t"], regex="u", instance_id="i")]
    settle(clients)
    assert host.ask(ListGroups(types=["consumer"])).groups == [("g", "consumer", "Stable", "Consumer")]
    (group,) = host.ask(DescribeGroups(["g"])).groups
    assert (group.state, group.type, group.protocol_type, group.protocol) == (
        "Stable",
        "Consumer",
        "consumer",
        "uniform",
    )
    assert group.generation == group.assignment_epoch == 2
    second = group.members[1]
    assert (second.member_id, second.group_instance_id, second.client_host, second.member_epoch) == ("b", "i", "/h", 2)
    assert (second.subscribed_topic_names, second.subscribed_topic_regex) == (["t"], "u")
    assert slots(second.owned) == slots(second.target) == clients[1].owned
    assert host.ask(DeleteGroups(["g"])).errors[0] is not None
    for client in clients:
        client.leave()
    assert host.ask(DescribeGroups(["g"])).groups[0].state == "Empty"
    host.append_record(consumer_record(PARTITION_METADATA, "g", "", None)._replace(value=b"\x00\x00\x01\x00"))
    assert host.ask(DeleteGroups(["g"])).errors == [None]
    assert host.coordinator._groups == {}


def test_a_deadline_of_a_group_that_is_gone_does_nothing(host: ConsumerHost) -> None:
    client = member(host).beat()
    client.leave()
    assert host.ask(DeleteGroups(["g"])).errors == [None]
    host.advance(SESSION_MS)
    assert host.log[-1].record == consumer_record(EPOCH, "g", "", None)  # type: ignore[union-attr]


def test_a_member_of_which_the_log_has_only_the_subscription_has_nothing(host: ConsumerHost) -> None:
    """A log may have lost the rest: the member is fenced like any other, or joins anew."""
    client = member(host).beat()
    host.append_record(consumer_record(CURRENT, "g", "m", None))
    assert host.group().described().members[0].owned == []
    assert Current() == host.group().current("m", None)
    assert client.error is None
