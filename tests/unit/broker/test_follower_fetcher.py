"""The fetches of a node for several partitions of one leader."""

from typing import Any

import pytest

import pylog
from pylog import Record
from pylog.broker.follower_fetcher import FollowerFetcher, LeaderEndPoint
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
            LeaderEndPoint(REACHED, transport, is_replica=is_replica), 2, clock, copy.broker.config, lambda _: None
        )
        try:
            for number in range(COUNT):
                effect = pylog.Follow(
                    topic="t", topic_id=topic.id, partition=number, partitions=COUNT, leader=1, leader_epoch=0
                )
                fetcher.follow(pylog.TopicPartition("t", number), node.roles.follow(effect))
            # Only now does the leader answer: all of them are in the first Fetch.
            transport.attach(REACHED, leader.broker.handle)
            until(lambda: all(view.next_offset == 5 for view in copy.topic("t")))
        finally:
            fetcher.close()
    firsts = [fetch.parts[0].partition for fetch in transport.fetches]
    assert sorted(firsts[:COUNT]) == list(range(COUNT))
