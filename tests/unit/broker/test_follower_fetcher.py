"""The fetches of a node for several partitions of one leader."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import pylog
from pylog import Record
from pylog.broker.follower_fetcher import FollowerFetcher, LeaderEndPoint
from pylog.broker.replica_manager import EndedRoles
from pylog.errors import StorageError
from pylog.protocol.messages import Fetch, Message, Session
from pylog.runtime.clock import SystemClock
from pylog.runtime.future import Future
from support.clients.values import until

COUNT = 3
REACHED = 9


class Recording(pylog.MemoryTransport):
    """A transport that remembers the fetches that were answered."""

    def __init__(self) -> None:
        super().__init__()
        self.fetches: list[Fetch] = []

    def send(self, node: int, message: Message, session: Session) -> Future[Any]:
        if isinstance(message, Fetch) and node in self._handles:
            self.fetches.append(message)
        return super().send(node, message, session)


@pytest.mark.parametrize("is_replica", [True, False])
def test_a_partition_with_much_to_copy_lets_the_others_come_first(is_replica: bool) -> None:
    transport = Recording()
    config = {
        "replica.fetch.max.bytes": 10_000, "replica.fetch.response.max.bytes": 10_000, "replica.fetch.backoff.ms": 10
    }  # fmt: skip
    with (
        pylog.open(":memory:", node_id=1, transport=transport) as leader,
        pylog.open(":memory:", node_id=2, transport=transport, config=config) as copy,
    ):
        topic = leader.create_topic("t", COUNT)
        for view in topic:
            for _ in range(5):
                view.append([Record(b"x" * 9000)])
        clock, node = SystemClock(), copy.broker.node
        fetcher = FollowerFetcher(
            LeaderEndPoint(REACHED, transport, is_replica=is_replica),
            2,
            copy.broker.directory_id,
            clock,
            copy.broker.config,
            lambda _: None,
        )
        try:
            for number in range(COUNT):
                effect = pylog.Follow(
                    topic="t", topic_id=topic.id, partition=number, partitions=COUNT, leader=1, leader_epoch=0
                )
                fetcher.follow(pylog.TopicPartition("t", number), node.roles.follow(effect, EndedRoles()))
            # Only now does the leader answer: all of them are in the first Fetch.
            transport.attach(REACHED, leader.broker.handle)
            until(lambda: all(view.next_offset == 5 for view in copy.topic("t")))
        finally:
            fetcher.close()
    firsts = [fetch.parts[0].partition for fetch in transport.fetches]
    assert sorted(firsts[:COUNT]) == list(range(COUNT))


class Copying:
    """A copy of the partitions of a topic, in one fetcher."""

    def __init__(self, leader: pylog.Log, copy: pylog.Log, transport: Recording) -> None:
        self.leader, self.copy, self.transport = leader, copy, transport
        self.topic = leader.create_topic("t", 2)
        self.fetcher = FollowerFetcher(
            LeaderEndPoint(REACHED, transport),
            2,
            copy.broker.directory_id,
            SystemClock(),
            copy.broker.config,
            lambda _: None,
        )
        transport.attach(REACHED, leader.broker.handle)

    def follow(self, number: int, *, epoch: int) -> None:
        effect = pylog.Follow(
            topic="t", topic_id=self.topic.id, partition=number, partitions=2, leader=1, leader_epoch=epoch
        )
        self.fetcher.follow(pylog.TopicPartition("t", number), self.copy.broker.node.roles.follow(effect, EndedRoles()))

    def copied(self, number: int) -> None:
        """Append to a partition, and wait until it is copied and acknowledged."""
        self.topic[number].append([Record(b"x")])
        end, asked = self.topic[number].next_offset, self.transport.fetches
        until(lambda: any(part.partition == number and part.offset == end for one in asked for part in one.parts))

    def asked(self, number: int, since: int = 0) -> list[int]:
        """The offsets that were asked for of a partition."""
        parts = [part for fetch in self.transport.fetches[since:] for part in fetch.parts]
        return [part.offset for part in parts if part.partition == number]


@contextmanager
def copying(backoff_ms: int) -> Iterator[Copying]:
    transport, config = Recording(), {"replica.fetch.backoff.ms": backoff_ms, "replica.fetch.wait.max.ms": 10}
    with (
        pylog.open(":memory:", node_id=1, transport=transport) as leader,
        pylog.open(":memory:", node_id=2, transport=transport, config=config) as copy,
    ):
        made = Copying(leader, copy, transport)
        try:
            yield made
        finally:
            made.fetcher.close()


def test_a_partition_that_has_failed_is_fetched_no_more_and_acknowledges_nothing() -> None:
    with copying(backoff_ms=0) as world:
        world.follow(0, epoch=0)
        world.follow(1, epoch=0)
        world.copied(0)
        world.copy.broker.partition("t", 0).latch(StorageError("its disk is gone"))
        # A Fetch may be under way.
        world.copied(1)
        since = len(world.transport.fetches)
        world.copied(1)
        world.copied(1)
        assert world.asked(1, since) and world.asked(0, since) == []


def test_a_partition_that_is_refused_rests_and_does_not_keep_the_others() -> None:
    with copying(backoff_ms=1_000_000) as world:
        world.follow(1, epoch=0)
        world.copied(1)
        world.follow(0, epoch=9)
        for _ in range(5):
            world.copied(1)
        assert world.asked(0) == [0]
