"""The records that a loop over a consumer has not come to: unread, until the loop comes to them."""

from collections.abc import Iterator

import pytest

from pylog import ConsumerRecord, TopicPartition
from pylog.client.consumer.loop_records import LoopRecords
from pylog.client.consumer.pending_requests import PendingRequests
from pylog.client.consumer.subscription import SubscriptionState
from pylog.config import ConsumerConfig
from pylog.kernel import BatchScope
from pylog.protocol.messages import NO_ID
from pylog.testing import SimClock

T, U = TopicPartition("t", 0), TopicPartition("u", 0)


def record(key: TopicPartition, offset: int, leader_epoch: int = -1) -> ConsumerRecord:
    return ConsumerRecord(offset, 0, None, b"", (), BatchScope(key.topic, key.partition, leader_epoch, 0))


class World:
    """A loop over the lists of a consumer of two partitions."""

    def __init__(self, *lists: list[ConsumerRecord]) -> None:
        self.requests = PendingRequests(SimClock(), lambda: "node 1")
        self.subscription = SubscriptionState()
        self.subscription.assign([(T, NO_ID), (U, NO_ID)])
        self.loop = LoopRecords(self.requests, self.subscription, ConsumerConfig())
        given = iter(lists)
        self.lists: Iterator[Iterator[ConsumerRecord]] = self.loop.lists(lambda _: next(given))

    def positions(self) -> list[int | None]:
        return [self.subscription.states[key].position for key in self.subscription.states]


@pytest.fixture
def world() -> World:
    return World([record(T, 4), record(T, 5), record(U, 7)], [record(T, 6)])


def test_what_a_loop_has_not_come_to_is_unread_and_taken_back(world: World) -> None:
    records = next(world.lists)
    assert next(records).offset == 4
    assert {key: first.offset for key, first in world.loop.first_unseen().items()} == {T: 5, U: 7}
    world.loop.take_back()
    assert world.positions() == [5, 7]
    assert list(records) == [], "the loop ends there, and polls"
    assert [one.offset for one in next(world.lists)] == [6]


def test_a_partition_that_went_in_the_middle_of_a_loop_has_no_position_to_take_back(world: World) -> None:
    next(world.lists)
    world.subscription.remove([U])
    world.loop.take_back()
    assert world.positions() == [4]


def test_a_position_that_is_taken_back_keeps_a_leader_epoch() -> None:
    world = World([record(T, 4, 1), record(T, 5, 2), record(T, 6, 3), record(U, 7, 9)])
    next(next(world.lists))
    world.loop.take_back()
    assert [state.leader_epoch for state in world.subscription.states.values()] == [2, 9]


def test_the_rest_of_a_list_goes_to_the_next_loop(world: World) -> None:
    next(next(world.lists))
    assert [one.offset for one in next(world.loop.lists(lambda _: []))] == [5, 7]


def test_the_lists_end_when_the_consumer_is_closed(world: World) -> None:
    next(world.lists)
    world.requests.end()
    assert list(world.lists) == []
