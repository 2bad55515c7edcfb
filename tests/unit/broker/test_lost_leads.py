"""The lead that is lost while a change is on its way: nothing lands in the log any more, and its caller is told."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog import Record, TopicPartition, errors
from pylog.broker.broker import Broker
from pylog.config import NodeConfig
from pylog.files import DiskFiles
from pylog.protocol.batch import Batch, encode
from pylog.protocol.messages import ACKS_ALL, TRANSACTIONS_TOPIC, NewTopic, ProduceRequest, Session, TxnMarkers
from pylog.protocol.messages.records import DeleteRecordsRequest
from pylog.protocol.messages.topics import CreateTopicsRequest
from pylog.testing import SimClock
from support.interleaving import just_before
from support.messages import errors_in, init_producer_id, marked, write_markers
from support.patience import HANG_SECONDS

SESSION = Session()
NOW = 1_700_000_000_000
ALONE, FOLLOWED = (0,), (0, 2)
KEY = TopicPartition("t", 0)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[str], Broker]]:
    made: list[Broker] = []

    def broker(flush: str) -> Broker:
        made.append(
            Broker(
                DiskFiles(),
                [str(tmp_path)],
                config=NodeConfig(),
                clock=SimClock(NOW, 0),
                transport=pylog.MemoryTransport(),
                node_id=0,
                flush=flush,
            )
        )
        ask(made[-1], CreateTopicsRequest.of([NewTopic("t")]))
        return made[-1]

    yield broker
    for one in made:
        one.close()


def ask(broker: Broker, message: Any) -> Any:
    return broker.handle(message, SESSION).result(HANG_SECONDS)


def lead(broker: Broker, replicas: tuple[int, ...]) -> None:
    """Lead the partition, and append two batches, as the first ones of a segment are not plain."""
    broker.apply(pylog.Lead(topic="t", partition=0, leader_epoch=1, replicas=replicas))
    for _ in range(2):
        assert ask(broker, produce(acks=1)).parts[0].error is None


def follow(broker: Broker, key: TopicPartition = KEY) -> None:
    topic = broker.image.topics[key.topic]
    broker.apply(
        pylog.Follow(
            topic=key.topic,
            topic_id=topic.id,
            partition=key.partition,
            partitions=len(topic.partitions),
            leader=2,
            leader_epoch=9,
        )
    )


def delete_records(offset: int) -> DeleteRecordsRequest:
    part = DeleteRecordsRequest.DeleteRecordsTopic.DeleteRecordsPartition(partition_index=0, offset=offset)
    return DeleteRecordsRequest(topics=DeleteRecordsRequest.by_topic([(KEY, part)]))


def batch() -> Batch:
    return encode([Record(b"x")], now_ms=NOW)


def produce(acks: int) -> ProduceRequest:
    return ProduceRequest.of("t", 0, batch(), acks=acks, timeout_ms=9000)


@pytest.mark.parametrize("acks", [1, ACKS_ALL])
@pytest.mark.parametrize(
    ("flush", "replicas", "place"),
    [
        ("none", ALONE, "SimClock.wall_ms"),
        ("none", FOLLOWED, "Partition.append"),
        ("sync", ALONE, "GroupCommit.join"),
        ("sync", FOLLOWED, "GroupCommit.join"),
    ],
)
def test_a_produce_on_its_way_is_refused(
    make: Callable[[str], Broker], flush: str, replicas: tuple[int, ...], place: str, acks: int
) -> None:
    broker = make(flush)
    lead(broker, replicas)
    with just_before(place, lambda: follow(broker)):
        answer = ask(broker, produce(acks))
    assert isinstance(answer.parts[0].error, errors.NotLeaderOrFollower)
    assert broker.partition("t", 0).next_offset == 2


@pytest.mark.parametrize(
    ("flush", "replicas", "place"),
    [
        ("none", ALONE, "ProduceHandler._append_short"),
        ("none", FOLLOWED, "Partition.append"),
        ("sync", ALONE, "GroupCommit.append"),
        ("sync", FOLLOWED, "GroupCommit.append"),
    ],
)
def test_an_append_that_waits_is_refused(
    make: Callable[[str], Broker], flush: str, replicas: tuple[int, ...], place: str
) -> None:
    broker = make(flush)
    lead(broker, replicas)
    with pytest.raises(errors.NotLeaderOrFollower), just_before(place, lambda: follow(broker)):
        broker.append("t", 0, batch(), NOW)
    assert broker.partition("t", 0).next_offset == 2


@pytest.mark.parametrize("flush", ["none", "sync"])
def test_a_marker_on_its_way_is_refused(make: Callable[[str], Broker], flush: str) -> None:
    broker = make(flush)
    lead(broker, ALONE)
    given = ask(broker, init_producer_id("tx"))
    part = encode(
        [Record(b"x")], now_ms=NOW, producer_id=given.producer_id, producer_epoch=given.producer_epoch,
        base_sequence=0, transactional=True,
    )  # fmt: skip
    assert ask(broker, ProduceRequest.of("t", 0, part, transactional_id="tx")).parts[0].error is None
    markers = TxnMarkers(given.producer_id, given.producer_epoch, False, 0, (KEY,))
    with just_before("Partition.append", lambda: follow(broker)):
        told = marked(ask(broker, write_markers(markers)))
    assert isinstance(told[KEY], errors.NotLeaderOrFollower)
    assert broker.partition("t", 0).next_offset == 3


@pytest.mark.parametrize("flush", ["none", "sync"])
def test_an_append_of_a_coordinator_on_its_way_is_refused(make: Callable[[str], Broker], flush: str) -> None:
    broker = make(flush)
    ask(broker, init_producer_id("tx"))
    key = next(
        TopicPartition(role.partition.topic, role.partition.number)
        for role in broker.node.roles.taken
        if role.partition.topic == TRANSACTIONS_TOPIC and role.partition.next_offset > 0
    )
    before = broker.partition(*key).next_offset
    waiting = None
    with just_before("Partition.append", lambda: follow(broker, key)):
        waiting = broker.handle(init_producer_id("tx"), SESSION)
    with pytest.raises(errors.NotCoordinator):
        waiting.result(HANG_SECONDS)
    assert broker.partition(*key).next_offset == before


def test_records_of_a_leader_elsewhere_are_not_deleted(make: Callable[[str], Broker]) -> None:
    broker = make("none")
    lead(broker, ALONE)
    message = delete_records(1)
    with just_before("Partition.delete_records", lambda: follow(broker)):
        answer = ask(broker, message)
    assert isinstance(errors_in(message, answer)[KEY], errors.NotLeaderOrFollower)
    assert broker.partition("t", 0).start_offset == 0


def test_a_leader_deletes_records_before_it_has_an_epoch(make: Callable[[str], Broker]) -> None:
    """Deleting takes no epoch, as nothing is appended."""
    broker = make("none")
    message = delete_records(0)
    assert errors_in(message, ask(broker, message)) == {KEY: None}
