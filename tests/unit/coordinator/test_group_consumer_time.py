"""Groups of the consumer protocol: sessions, answers that are kept back, and who takes over."""

import pytest

from pylog.coordinator.group.consumer_records import (
    PARTITION_METADATA,
    MemberState,
    consumer_record,
)
from pylog.errors import (
    CoordinatorNotAvailable,
    DiskFull,
    NotEnoughReplicas,
    UnknownMemberId,
    UnreleasedInstanceId,
)
from support.consumer_group_host import JOIN, SESSION_MS, Client, ConsumerHost, heartbeat, member, settle


@pytest.fixture
def host() -> ConsumerHost:
    return ConsumerHost()


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


def test_a_group_goes_by_its_own_interval_and_session_from_its_next_heartbeat_on(host: ConsumerHost) -> None:
    first = member(host, "a").beat()
    host.group_overrides["g"] = {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "7000"}
    host.group_overrides["other"] = {"consumer.heartbeat.interval.ms": "9000"}
    assert heartbeat(host, member_id="a", member_epoch=1).heartbeat_interval_ms == 7000
    host.advance(SESSION_MS)
    assert not host.group().is_empty
    del host.group_overrides["g"]
    assert heartbeat(host, member_id="a", member_epoch=1).heartbeat_interval_ms == 5000
    host.advance(SESSION_MS)
    assert host.group().is_empty
    assert first.error is None


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


def test_no_heartbeat_is_kept_back_while_topics_are_to_be_matched(
    host: ConsumerHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(host, "m", [], regex="none")
    settle([client])
    host.set_topics(a=1, b=1, c=1, d=1)
    monkeypatch.setattr("pylog.coordinator.group.update.WORK_MAX", 1)
    # Each looks at one topic, until all were looked at.
    for count in range(1, 5):
        client.send(max_wait_ms=10_000)
        assert len(host.group().held) == (count == 4), count
        if count < 4:
            client.receive()


def test_another_heartbeat_has_the_one_before_it_answered(host: ConsumerHost) -> None:
    client = member(host).beat(2)
    client.send(max_wait_ms=10_000)
    client.send(max_wait_ms=10_000)
    assert len(host.answers) == 1
    assert len(host.group().held) == 1


def test_a_waiting_member_hears_its_new_target_at_once(host: ConsumerHost) -> None:
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


def test_a_waiting_member_hears_of_a_leaving_one(host: ConsumerHost) -> None:
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


def test_a_waiting_member_hears_that_it_is_out(host: ConsumerHost) -> None:
    client = member(host, "a").beat(2)
    client.send(max_wait_ms=20_000)
    client.leave()
    (ticket,) = client.tickets
    assert isinstance(host.answers[ticket].error, UnknownMemberId)


def test_a_waiting_member_does_not_outlive_its_revocation_time(host: ConsumerHost) -> None:
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


def test_a_waiting_member_hears_that_its_news_could_not_be_logged(host: ConsumerHost) -> None:
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


def test_a_static_member_of_a_lost_process_may_come_back_at_once(host: ConsumerHost) -> None:
    """Nobody is there who could still have its instance id: it is as if it had left to come back."""
    static, living = member(host, "a", process="/dead", instance_id="i"), member(host, "b", instance_id="j")
    settle([static, living])
    had = set(static.owned)
    host.restart(lost=("/dead",))
    back = member(host, "n", instance_id="i").beat()
    assert back.owned == had
    assert isinstance(member(host, "m", instance_id="j").beat().error, UnreleasedInstanceId)


def test_a_static_member_of_a_lost_process_is_out_after_a_session(host: ConsumerHost) -> None:
    settle([member(host, "a", process="/dead", instance_id="i")])
    host.restart(lost=("/dead",))
    host.restart(lost=("/dead",))
    assert set(host.group().subscriptions) == {"a"}
    host.advance(SESSION_MS)
    assert host.group().is_empty


def test_members_of_a_process_that_ends_are_out_at_once(host: ConsumerHost) -> None:
    lost, other = member(host, "a", process="/dead"), member(host, "c")
    settle([lost, other])
    host.lose("/dead")
    assert set(host.group().subscriptions) == {"c"}
    settle([other])
    assert len(other.owned) == 8


def test_a_static_member_of_a_process_that_ends_may_come_back_for_a_session(host: ConsumerHost) -> None:
    static, other = member(host, "a", process="/dead", instance_id="i"), member(host, "c")
    settle([static, other])
    had = set(static.owned)
    host.lose("/dead")
    host.lose("/dead")
    assert set(host.group().subscriptions) == {"a", "c"}
    back = member(host, "n", process="/new", instance_id="i")
    assert back.beat().owned == had
    host.lose("/new")
    host.advance(SESSION_MS - 1)
    assert set(host.group().subscriptions) == {"n", "c"}
    heartbeat(host, member_id="c", member_epoch=other.epoch)
    host.advance(1)
    assert set(host.group().subscriptions) == {"c"}


def test_the_loss_of_a_member_that_cannot_be_logged_is_tried_again(host: ConsumerHost) -> None:
    settle([member(host, "a", process="/dead"), member(host, "c")])
    host.failures.append(DiskFull("no room"))
    host.lose("/dead")
    assert set(host.group().subscriptions) == {"a", "c"}
    host.advance(1000)
    assert set(host.group().subscriptions) == {"c"}


def test_a_successor_fences_members_that_do_not_let_go(host: ConsumerHost) -> None:
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


# --- what is over by then --------------------------------------------------------------------------------------------


def test_a_waiting_member_without_news_goes_on_waiting(host: ConsumerHost) -> None:
    first = member(host, "a").beat(2)
    first.send(max_wait_ms=20_000)
    member(host, "b", "u").beat()
    host.advance(0)
    assert list(host.group().held) == ["a"]
    host.advance(99)
    first.receive()
    assert first.epoch == 1
    host.advance(1)
    first.receive()
    assert first.epoch == 2, "it has the same, and the group has settled"
    assert host.group().state == "Stable"


def test_a_member_in_the_present_epoch_is_told_nothing(host: ConsumerHost) -> None:
    clients = [member(host, "a"), member(host, "b")]
    settle(clients)
    clients[1].send(max_wait_ms=20_000)
    member(host, "c", "u").beat()
    clients[0].beat().send(max_wait_ms=20_000)
    host.advance(100)
    assert list(host.group().held) == ["a"]
    clients[1].receive()
    assert clients[1].epoch == clients[0].epoch == 3


def test_the_session_of_a_member_that_left_fences_no_other(host: ConsumerHost) -> None:
    clients = [member(host, "a"), member(host, "b")]
    settle(clients)
    host.advance(30_000)
    clients[0].beat()
    clients[1].leave()
    epoch = host.group().epoch
    host.advance(20_000)
    assert host.group().epoch == epoch
    assert list(host.group().subscriptions) == ["a"]


def test_a_static_member_that_left_to_come_back_has_let_go(host: ConsumerHost) -> None:
    static = member(host, "a", instance_id="i").beat()
    member(host, "b").beat()
    heartbeat(host, member_id="a", instance_id="i", rebalance_timeout_ms=1000)
    assert host.group().currents["a"].state is MemberState.UNREVOKED
    static.leave(for_good=False)
    host.advance(1000)
    assert list(host.group().subscriptions) == ["a", "b"]
    assert host.group().currents["a"].revoking == {}


def test_a_waiting_member_gets_the_partitions_of_a_fenced_one(host: ConsumerHost) -> None:
    clients = [member(host, "a"), member(host, "b")]
    settle(clients)
    host.advance(30_000)
    clients[0].beat()
    clients[0].send(max_wait_ms=20_000)
    host.advance(15_000)
    clients[0].receive()
    assert clients[0].owned == host.slots(t=range(8))
