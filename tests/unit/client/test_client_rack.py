"""`client.rack`: a consumer says where it is, and reads from the replica that the leader names (KIP-392)."""

from collections.abc import Iterator
from typing import Any

import pytest

import pylog
from pylog import TopicPartition
from pylog.errors import NetworkError, OffsetOutOfRange
from pylog.protocol.assignor.subscription import decode_subscription
from pylog.protocol.messages import (
    Fetch,
    Fetched,
    FetchedPart,
    Message,
    Session,
)
from pylog.protocol.messages.groups import ConsumerGroupHeartbeatRequest, JoinGroupRequest
from pylog.runtime.future import Future, completed, failed
from pylog.testing import SimClock
from pylog.transport import MemoryTransport

LEADER, REPLICA = 1, 7
T0 = TopicPartition("t", 0)


class Cluster(MemoryTransport):
    """One node, and in name a replica, which has the same records. The leader names it to consumers of rack "b"."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []
        self.said: list[Message] = []
        self.refusal: Future[Any] | None = None
        """The answer of the replica, where it has none of its leader's."""

    def send(self, node: int, message: Message, session: Session) -> Future[Any]:
        if isinstance(message, JoinGroupRequest | ConsumerGroupHeartbeatRequest):
            self.said.append(message)
        if not isinstance(message, Fetch):
            return super().send(node, message, session)
        self.asked.append(node)
        if node == LEADER and message.rack_id == "b":
            parts = [FetchedPart(one.topic, one.partition, preferred_read_replica=REPLICA) for one in message.parts]
            return completed(Fetched(parts))
        if node == LEADER:
            return super().send(node, message, session)
        return self.refusal or super().send(LEADER, message, session)


@pytest.fixture
def clock() -> SimClock:
    return SimClock(wall_ms=1_700_000_000_000)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def log(cluster: Cluster, clock: SimClock) -> Iterator[pylog.Log]:
    with pylog.open(":memory:", transport=cluster, clock=clock) as log:
        log.create_topic("t")
        log.topic("t")[0].append([pylog.Record(b"a"), pylog.Record(b"b")])
        yield log


def consumer(log: pylog.Log, **config: Any) -> pylog.Consumer:
    made = log.consumer(auto_offset_reset="earliest", max_poll_records=1, **config)
    made.assign([T0])
    return made


def test_a_consumer_reads_from_the_replica_that_the_leader_names(cluster: Cluster, log: pylog.Log) -> None:
    with consumer(log, client_rack="b") as reader:
        assert [record.value for record in reader.poll(timeout_ms=60_000)] == [b"a"]
        assert cluster.asked == [LEADER, REPLICA]
        reader.seek(T0, 0)
        assert [record.value for record in reader.poll(timeout_ms=60_000)] == [b"a"]
        assert cluster.asked == [LEADER, REPLICA, REPLICA]


def test_a_consumer_of_another_rack_or_of_none_reads_from_the_leader(cluster: Cluster, log: pylog.Log) -> None:
    for config in ({}, {"client_rack": "a"}):
        with consumer(log, **config) as reader:
            assert len(reader.poll(timeout_ms=60_000)) == 1
    assert set(cluster.asked) == {LEADER}


def test_the_leader_is_asked_again_when_the_metadata_are_old(cluster: Cluster, log: pylog.Log, clock: SimClock) -> None:
    with consumer(log, client_rack="b", metadata_max_age_ms=1000) as reader:
        assert len(reader.poll(timeout_ms=60_000)) == 1
        clock.advance(1000)
        reader.seek(T0, 0)
        assert len(reader.poll(timeout_ms=60_000)) == 1
    assert cluster.asked == [LEADER, REPLICA, LEADER, REPLICA]


@pytest.mark.parametrize(
    "answer",
    [failed(NetworkError("gone")), completed(Fetched([FetchedPart("t", 0, OffsetOutOfRange("behind"))]))],
    ids=["unreachable", "behind"],
)
def test_what_a_replica_cannot_give_is_asked_of_the_leader(
    cluster: Cluster, log: pylog.Log, clock: SimClock, answer: Future[Any]
) -> None:
    cluster.refusal = answer
    with consumer(log, client_rack="b", retry_backoff_ms=100) as reader:
        while REPLICA not in cluster.asked:
            assert reader.poll() == []
        cluster.refusal = None
        clock.advance(100)
        assert [record.value for record in reader.poll(timeout_ms=60_000)] == [b"a"]
    assert cluster.asked == [LEADER, REPLICA, LEADER, REPLICA]


def test_members_tell_their_group_their_rack(cluster: Cluster, log: pylog.Log) -> None:
    with log.consumer("t", group_id="old", client_rack="b") as old:
        old.poll()
    (joining,) = [one for one in cluster.said if isinstance(one, JoinGroupRequest) and one.member_id]
    assert {decode_subscription(one.metadata).rack_id for one in joining.protocols} == {"b"}
    with log.consumer("t", group_id="new", group_protocol="consumer", client_rack="b") as new:
        new.poll()
    assert next(one.rack_id for one in cluster.said if isinstance(one, ConsumerGroupHeartbeatRequest)) == "b"
