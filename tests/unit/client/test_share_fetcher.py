"""Share sessions with several leaders: which of them is asked."""

import uuid
from typing import Any, cast

import pytest

from pylog.client.cluster import Cluster
from pylog.client.consumer.pending_requests import PendingRequests
from pylog.client.share_consumer.acknowledgements import Acknowledgements
from pylog.client.share_consumer.fetcher import ShareFetcher
from pylog.config.share_consumer import ShareConsumerConfig
from pylog.protocol.messages.share import ShareFetchResponse
from pylog.record import TopicPartition
from pylog.runtime.future import Future
from pylog.testing import SimClock

TOPIC = uuid.UUID(int=1)
ASSIGNED = {TopicPartition("t", number): TOPIC for number in range(3)}


class Leaders:
    """Partition n is led by node n. Requests wait until they are answered."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self._answers: list[Future[Any]] = []

    def known_leader(self, key: TopicPartition) -> int:
        return key.partition

    def send(self, node: int, message: object) -> Future[Any]:
        self.asked.append(node)
        self._answers.append(Future())
        return self._answers[-1]

    def answer(self) -> None:
        for future in self._answers:
            if not future.done():
                future.set_result(ShareFetchResponse())


@pytest.mark.parametrize(("mode", "first"), [("batch_optimized", {0, 1, 2}), ("record_limit", {0})])
def test_leaders_are_asked_in_turn_where_records_are_counted(mode: str, first: set[int]) -> None:
    clock, leaders = SimClock(), Leaders()
    requests = PendingRequests(clock, str)
    config = ShareConsumerConfig(group_id="g", share_acquire_mode=mode)
    fetcher = ShareFetcher(
        requests, cast("Cluster", leaders), config, clock, "member", Acknowledgements(is_implicit=False)
    )
    assert fetcher.fetch(ASSIGNED, 500) and fetcher.fetch(ASSIGNED, 500)
    assert set(leaders.asked) == first
    leaders.asked.clear()
    for _ in range(4):
        leaders.answer()
        requests.deliver()
        assert fetcher.fetch(ASSIGNED, 500)
    assert leaders.asked == ([1, 2, 0, 1] if len(first) == 1 else [0, 1, 2] * 4)
