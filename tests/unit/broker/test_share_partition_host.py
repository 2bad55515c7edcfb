"""A share partition whose coordinator takes its time, or refuses."""

from collections.abc import Iterator
from typing import Any

import pytest

import pylog
from pylog.broker.share_configs import ShareConfig
from pylog.broker.share_partition_host import SharePartitionHost
from pylog.config import GroupConfig
from pylog.coordinator.share.share_partition import Acknowledgement, Wanted
from pylog.errors import (
    CoordinatorNotAvailable,
    FencedStateEpoch,
    NotCoordinator,
    NotLeaderOrFollower,
    ProtocolError,
    UnknownServer,
)
from pylog.protocol.isolation import Isolation
from pylog.protocol.messages.share import SharedPartition
from pylog.protocol.messages.share_state import PartitionResult, ReadShareGroupStateRequest, StateBatch, StateRequest
from pylog.replica import Leader
from pylog.runtime.future import Future
from pylog.testing import SimClock

PART = SharedPartition(1, 0)
WANTED = Wanted(500, 500)


def config() -> ShareConfig:
    return ShareConfig.of(GroupConfig(), 1 << 20, 100)


class Desk:
    """A host over a real log, whose coordinator is this test."""

    def __init__(self, leader: Leader) -> None:
        self.clock = SimClock()
        self.asked: list[tuple[StateRequest[Any], Future[Any]]] = []
        self.told = 0
        self.host = SharePartitionHost("g", PART, leader, self.ask, self.clock, config, self.changed)

    def ask(self, message: Any) -> Future[Any]:
        answer: Future[Any] = Future()
        self.asked.append((message, answer))
        return answer

    def changed(self, host: SharePartitionHost) -> None:
        self.told += 1

    def answer(self, error: ProtocolError | None = None, start: int = 0, *batches: tuple[int, int, int, int]) -> Any:
        """Answer the oldest request; gives what it says of the partition."""
        message, answer = self.asked.pop(0)
        names = ("first_offset", "last_offset", "delivery_state", "delivery_count")
        if error is not None:
            answer.set_result(message.refused(error))
        elif isinstance(message, ReadShareGroupStateRequest):
            stored = [StateBatch(**dict(zip(names, one, strict=True))) for one in batches]
            result = message.part_result(partition=0, state_epoch=3, start_offset=start, state_batches=stored)
            answer.set_result(message.answered(lambda *_: result))
        else:
            answer.set_result(message.answered(lambda *_: PartitionResult(partition=0)))
        return message.topics[0].partitions[0]

    def acquire(self, member: str = "ann") -> list[tuple[int, int, int]]:
        portion = self.host.acquire(member, WANTED, 1 << 20, Isolation.READ_UNCOMMITTED)
        assert portion.error is None
        return [tuple(one) for one in portion.acquired]

    def say(self, first: int, last: int, kind: int = 1, member: str = "ann") -> Future[Any]:
        return self.host.acknowledge(member, [Acknowledgement(first, last, [kind])])

    def said(self, part: Any) -> list[tuple[int, int, int, int]]:
        return [
            (one.first_offset, one.last_offset, one.delivery_state, one.delivery_count) for one in part.state_batches
        ]


@pytest.fixture
def desk() -> Iterator[Desk]:
    with pylog.open(":memory:") as log:
        log.create_topic("t")
        log.topic("t")[0].append([pylog.Record(b"x") for _ in range(10)])
        made = Desk(log.broker.node.roles.leader("t", 0))
        made.host.load()
        made.answer()
        yield made


def test_what_is_said_during_a_write_goes_with_the_next_one(desk: Desk) -> None:
    assert desk.acquire() == [(0, 9, 1)]
    answers = [desk.say(0, 1), desk.say(2, 2), desk.say(3, 5, 2)]
    assert len(desk.asked) == 1
    first = desk.answer()
    assert (desk.said(first), first.start_offset, first.delivery_complete_count) == ([(0, 1, 2, 1)], 0, 2)
    assert [one.done() for one in answers] == [True, False, False]
    second = desk.answer()
    assert desk.said(second) == [(2, 2, 2, 1), (3, 5, 0, 1)]
    assert (second.start_offset, second.delivery_complete_count, second.state_epoch) == (2, 1, 3)
    assert [one.result() for one in answers] == [None] * 3
    assert not desk.asked


def test_a_refused_write_changes_nothing(desk: Desk) -> None:
    desk.acquire()
    answer = desk.say(0, 9, 2)
    desk.answer(NotCoordinator("elsewhere"))
    assert isinstance(answer.result(), CoordinatorNotAvailable)
    assert not desk.host.is_over
    assert desk.acquire("ben") == []
    answer = desk.say(0, 9)
    desk.answer()
    assert answer.result() is None


def test_a_lock_that_ends_under_a_write_that_is_refused(desk: Desk) -> None:
    desk.acquire()
    desk.say(0, 9)
    desk.clock.advance(30_000)
    desk.host.expire(desk.clock.tick_ms())
    assert desk.acquire("ben") == []
    desk.answer(CoordinatorNotAvailable("soon"))
    assert desk.host.due_ms == 30_000
    desk.host.expire(desk.clock.tick_ms())
    assert desk.acquire("ben") == [(0, 9, 2)]


def test_a_fenced_write_ends_the_share_partition(desk: Desk) -> None:
    desk.acquire()
    answer = desk.say(0, 9)
    desk.answer(FencedStateEpoch("over"))
    assert isinstance(answer.result(), NotLeaderOrFollower)
    assert desk.host.is_over
    assert desk.told == 1


def test_a_coordinator_that_fails(desk: Desk) -> None:
    desk.acquire()
    answer = desk.say(0, 9)
    desk.asked.pop()[1].set_exception(pylog.errors.Closed("this log is closed"))
    assert isinstance(answer.result(), CoordinatorNotAvailable)


def test_a_state_is_loaded_with_what_was_never_delivered_between(desk: Desk) -> None:
    desk.host = SharePartitionHost("g", PART, desk.host.leader, desk.ask, desk.clock, config, desk.changed)
    desk.host.load()
    assert not desk.host.is_at_work
    asked = desk.answer(None, 1, (2, 3, 2, 1), (5, 5, 0, 4), (6, 6, 4, 5))
    assert asked.leader_epoch == desk.host.leader.present_epoch
    assert desk.acquire() == [(1, 1, 1), (4, 4, 1)]
    assert desk.acquire() == [(5, 5, 5)]
    assert desk.acquire() == [(7, 9, 1)]


def test_a_state_that_cannot_be_loaded(desk: Desk) -> None:
    desk.host = SharePartitionHost("g", PART, desk.host.leader, desk.ask, desk.clock, config, desk.changed)
    desk.host.load()
    desk.answer(UnknownServer("broken"))
    assert isinstance(desk.host.loaded.result(), UnknownServer)
    assert desk.host.is_over
    assert not desk.host.is_at_work
