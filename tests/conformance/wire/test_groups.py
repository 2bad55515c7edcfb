"""Groups of both protocols: the shares of members that come, go, come back, and change the protocol."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from conformance.wire.conftest import Opened, Topics
from support.clients.values import ClientError, Consumer, Received, Sent, until

PARTITIONS = 6
ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
FENCED = {"FENCED_INSTANCE_ID", "UNRELEASED_INSTANCE_ID", "_FATAL"}
"""The clients' names for the error of a static member whose instance id has a new owner."""


class Members:
    """Consumers of one group, polled side by side as applications do, and the records that came to them."""

    def __init__(self, *consumers: Consumer) -> None:
        self.consumers = list(consumers)
        self.received: list[Received] = []

    def poll(self) -> None:
        with ThreadPoolExecutor(len(self.consumers)) as threads:
            for received in threads.map(lambda consumer: consumer.poll(), self.consumers):
                self.received += received

    def settle(self, *shares: int) -> None:
        """Poll until the members have as many partitions as `shares` says, in this order, and no partition twice."""
        until(lambda: self._have(shares))

    def settle_anyhow(self, *shares: int) -> None:
        """The same in any order."""
        until(lambda: self._have(shares, in_any_order=True))

    def _have(self, shares: tuple[int, ...], *, in_any_order: bool = False) -> bool:
        self.poll()
        found = [consumer.assignment() for consumer in self.consumers]
        counts = [len(assignment) for assignment in found]
        is_right = sorted(counts) == sorted(shares) if in_any_order else counts == list(shares)
        return is_right and len(set.union(*found)) == sum(counts)


def needs(client: Opened, *what: str) -> None:
    for feature in what:
        if feature in client.lacks:
            pytest.skip(f"{client.name} has no {feature}")


@pytest.fixture(params=["classic", "consumer"])
def member(request: pytest.FixtureRequest, client: Opened) -> Callable[..., Consumer]:
    """Opens members of either protocol."""
    if request.param == "consumer":
        needs(client, "consumer")
        return lambda **config: client.consumer(group_protocol="consumer", **config)
    return client.consumer


def subscribed(member: Callable[..., Consumer], topic: str, **config: Any) -> Consumer:
    consumer = member(**config)
    consumer.subscribe(topic)
    return consumer


def shares_are_moved(open_member: Callable[[], Consumer]) -> None:
    """Given one member, when another comes and the first goes, then each has its share."""
    first = open_member()
    Members(first).settle(6)
    second = open_member()
    both = Members(first, second)
    both.settle(3, 3)
    first.close()
    Members(second).settle(6)


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_members_share_partitions_by_each_assignor(client: Opened, topics: Topics, assignor: str) -> None:
    needs(client, assignor)
    topic, group = topics.create(PARTITIONS), topics.name()

    shares_are_moved(lambda: subscribed(client.consumer, topic, group_id=group, assignor=assignor))


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_coordinator_assigns_by_each_assignor(client: Opened, topics: Topics, assignor: str) -> None:
    needs(client, "consumer")
    topic, group = topics.create(PARTITIONS), topics.name()

    shares_are_moved(
        lambda: subscribed(
            client.consumer, topic, group_id=group, group_protocol="consumer", remote_assignor=assignor
        )
    )  # fmt: skip


def test_group_reads_every_record_once_and_goes_on_where_it_was(
    client: Opened, topics: Topics, member: Callable[..., Consumer]
) -> None:
    topic, group = topics.create(PARTITIONS), topics.name()
    producer = client.producer()
    producer.send(topic, [Sent(b"%d" % number, partition=number % PARTITIONS) for number in range(60)])
    members = Members(*(subscribed(member, topic, group_id=group) for _ in range(2)))
    members.settle(3, 3)
    until(lambda: members.poll() or len({(each.partition, each.offset) for each in members.received}) == 60)
    for consumer in members.consumers:
        consumer.commit(dict.fromkeys(consumer.assignment(), 10))
        consumer.close()

    producer.send(topic, [Sent(b"more", partition=2)])

    later = Members(subscribed(member, topic, group_id=group))
    until(lambda: later.poll() or later.received)
    assert [(each.partition, each.offset, each.value) for each in later.received] == [(2, 10, b"more")]


def test_committed_offsets_are_read_by_another_member(
    client: Opened, topics: Topics, member: Callable[..., Consumer]
) -> None:
    topic, group = topics.create(), topics.name()
    client.producer().send(topic, [Sent(b"%d" % number) for number in range(5)])
    consumer = subscribed(member, topic, group_id=group)
    Members(consumer).settle(1)

    assert consumer.committed((topic, 0)) is None
    consumer.commit({(topic, 0): 3})

    assert client.consumer(group_id=group).committed((topic, 0)) == 3


def test_partitions_that_are_added_come_to_the_members(
    client: Opened, topics: Topics, member: Callable[..., Consumer]
) -> None:
    needs(client, "rebalance for new metadata")
    topic, group = topics.create(2), topics.name()
    members = Members(*(subscribed(member, topic, group_id=group) for _ in range(2)))
    members.settle(1, 1)

    topics.grow(topic, 4)

    members.settle(2, 2)


def test_pattern_finds_topics_and_those_that_come_later(
    client: Opened, topics: Topics, member: Callable[..., Consumer]
) -> None:
    needs(client, "rebalance for new metadata")
    first, group = topics.create(), topics.name()
    prefix = first.rsplit("-", 1)[0]
    consumer = member(group_id=group)
    consumer.subscribe_pattern(f"{prefix}-.*")
    Members(consumer).settle(1)

    second = topics.create(2)

    Members(consumer).settle(3)
    assert consumer.assignment() == {(first, 0), (second, 0), (second, 1)}


def test_static_member_comes_back_to_its_partitions(
    client: Opened, topics: Topics, member: Callable[..., Consumer]
) -> None:
    topic, group = topics.create(PARTITIONS), topics.name()
    first, second = (subscribed(member, topic, group_id=group, group_instance_id=name) for name in ("a", "b"))
    Members(first, second).settle(3, 3)
    kept, other = first.assignment(), second.assignment()

    first.close()
    Members(second).poll()
    assert second.assignment() == other, "its partitions wait for the first"
    again = subscribed(member, topic, group_id=group, group_instance_id="a")

    Members(again, second).settle(3, 3)
    assert (again.assignment(), second.assignment()) == (kept, other)


def test_static_member_that_stays_away_loses_its_partitions(
    client: Opened, topics: Topics, member: Callable[..., Consumer]
) -> None:
    topic, group = topics.create(PARTITIONS), topics.name()
    first, second = (subscribed(member, topic, group_id=group, group_instance_id=name) for name in ("a", "b"))
    Members(first, second).settle(3, 3)

    first.close()

    Members(second).settle(6)


def test_classic_static_member_is_fenced_by_another_of_its_name(client: Opened, topics: Topics) -> None:
    needs(client, "fencing of static members")
    topic, group = topics.create(PARTITIONS), topics.name()
    first = subscribed(client.consumer, topic, group_id=group, group_instance_id="a")
    Members(first).settle(6)

    second = subscribed(client.consumer, topic, group_id=group, group_instance_id="a")
    until(lambda: second.poll() or len(second.assignment()) == 6)

    with pytest.raises(ClientError) as raised:
        first.commit({(topic, 0): 0})
    has_noticed = "CommitFailedException" in str(raised.value)  # its heartbeat was fenced before
    assert raised.value.name in FENCED or has_noticed


def test_group_changes_its_protocol_while_it_lives(client: Opened, topics: Topics) -> None:
    needs(client, "consumer")
    topic, group = topics.create(PARTITIONS), topics.name()
    old = subscribed(client.consumer, topic, group_id=group, assignor="range")
    Members(old).settle(6)

    new = subscribed(client.consumer, topic, group_id=group, group_protocol="consumer")
    Members(old, new).settle(3, 3)
    old.commit(dict.fromkeys(old.assignment(), 1))
    old.close()
    Members(new).settle(6)

    again = subscribed(client.consumer, topic, group_id=group, assignor="range")
    Members(again, new).settle(3, 3)
    new.close()
    Members(again).settle(6)
