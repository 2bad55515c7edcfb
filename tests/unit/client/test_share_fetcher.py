"""Share sessions with several leaders: which of them is asked, and which answers are too old."""

import uuid
from typing import Any, cast

import pytest

from pylog.client.cluster import Cluster
from pylog.client.consumer.pending_requests import PendingRequests
from pylog.client.share_consumer.acknowledgements import Acknowledgements, batches
from pylog.client.share_consumer.fetcher import ShareFetcher
from pylog.config.share_consumer import ShareConsumerConfig
from pylog.protocol.batch import encode
from pylog.protocol.messages.share import ACCEPT, AcquiredRecords, ShareFetchResponse
from pylog.record import TopicPartition
from pylog.runtime.future import Future
from pylog.testing import SimClock

TOPIC = uuid.UUID(int=1)
LOCK_MS = 1500
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

    def answer(self, response: ShareFetchResponse | None = None) -> None:
        for future in self._answers:
            if not future.done():
                future.set_result(response or ShareFetchResponse())


def sharing(clock: SimClock, leaders: Leaders, mode: str = "batch_optimized") -> tuple[ShareFetcher, PendingRequests]:
    """A fetcher, and what delivers its answers."""
    requests, config = PendingRequests(clock, str), ShareConsumerConfig(group_id="g", share_acquire_mode=mode)
    acknowledgements = Acknowledgements(is_implicit=False)
    return ShareFetcher(requests, cast("Cluster", leaders), config, clock, "member", acknowledgements), requests


@pytest.mark.parametrize(("mode", "first"), [("batch_optimized", {0, 1, 2}), ("record_limit", {0})])
def test_leaders_are_asked_in_turn_where_records_are_counted(mode: str, first: set[int]) -> None:
    leaders = Leaders()
    fetcher, requests = sharing(SimClock(), leaders, mode)
    assert fetcher.fetch(ASSIGNED, 500) and fetcher.fetch(ASSIGNED, 500)
    assert set(leaders.asked) == first
    leaders.asked.clear()
    for _ in range(4):
        leaders.answer()
        requests.deliver()
        assert fetcher.fetch(ASSIGNED, 500)
    assert leaders.asked == ([1, 2, 0, 1] if len(first) == 1 else [0, 1, 2] * 4)


@pytest.mark.parametrize(("late_ms", "given"), [(LOCK_MS - 1, [b"x"]), (LOCK_MS, [])])
def test_a_record_is_not_given_when_its_lock_may_have_ended_on_the_way(late_ms: int, given: list[bytes]) -> None:
    """A process that was stopped finds an answer in its socket whose records another member has done meanwhile."""
    clock, leaders = SimClock(), Leaders()
    fetcher, requests = sharing(clock, leaders)
    fetcher.fetch(ASSIGNED, 500)
    clock.advance(late_ms)
    topic = ShareFetchResponse.ShareFetchableTopicResponse
    part = topic.PartitionData(
        partition_index=0, records=memoryview(encode([(b"x", None, 0, ())], now_ms=0).data),
        acquired_records=[AcquiredRecords(first_offset=0, last_offset=0, delivery_count=1)],
    )  # fmt: skip
    leaders.answer(
        ShareFetchResponse(acquisition_lock_timeout_ms=LOCK_MS, responses=[topic(topic_id=TOPIC, partitions=[part])])
    )
    requests.deliver()
    assert [record.value for record in fetcher.take(1)] == given


def test_no_offsets_are_no_batches() -> None:
    assert batches({}) == []
    (one,) = batches({3: ACCEPT, 4: ACCEPT})
    assert (one.first_offset, one.last_offset, one.acknowledge_types) == (3, 4, [ACCEPT])
