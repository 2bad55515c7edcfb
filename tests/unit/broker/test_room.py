"""Produces that wait for room in a bounded queue hold no thread, and go on in their order."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog import Record
from pylog.broker.room import Room
from pylog.errors import NotLeaderOrFollower, PartitionFull, UnknownTopicOrPartition
from pylog.protocol.batch import Batch, encode
from pylog.protocol.messages import ACKS_ALL, ProducedPart, ProduceRequest, ProduceResponse, Session
from pylog.runtime.future import Future, completed
from pylog.testing import SimClock, StandIn
from support.produce import together

BOUND = {"retention.bytes": 1000, "pylog.full.policy": "block"}


@pytest.fixture
def log() -> Iterator[pylog.Log]:
    with pylog.open(":memory:", flush="none") as made:
        made.create_topic("full", config=BOUND)
        made.create_topic("other")
        yield made


def produce(log: pylog.Log, *topics: str, timeout_ms: int = 60_000) -> Future[ProduceResponse]:
    asked = [ProduceRequest.of(topic, 0, batch(), timeout_ms=timeout_ms) for topic in topics]
    answer: Future[Any] = log.broker.handle(together(*asked), Session())
    return answer


def batch(size: int = 900) -> Batch:
    return Batch.parse(bytes(encode([(bytes(size), None, 5, ())], now_ms=5).data))


def fill(log: pylog.Log) -> None:
    while (answer := produce(log, "full", timeout_ms=0)).result(240).parts[0].error is None:
        pass
    assert isinstance(answer.result().parts[0].error, PartitionFull)


class LookUps(dict[Any, Any]):
    """Roles that count how often each is looked up."""

    def __init__(self, roles: dict[Any, Any]) -> None:
        super().__init__(roles)
        self.asked: list[Any] = []

    def get(self, key: Any, default: Any = None) -> Any:
        self.asked.append(key)
        return super().get(key, default)


@pytest.mark.parametrize("topics", [["full"], ["full", "other"]])
@pytest.mark.parametrize("may_block", [True, False])
def test_the_leader_is_looked_up_once_an_append(log: pylog.Log, topics: list[str], may_block: bool) -> None:
    for topic in topics:
        log.topic(topic)[0].append([Record(b"the first takes an epoch")])
    log.broker.node.roles._roles = roles = LookUps(log.broker.node.roles._roles)
    asked = [ProduceRequest.of(topic, 0, batch(100), may_block=may_block) for topic in topics]
    answer = log.broker.handle(together(*asked), Session())
    # A bounded queue may block: where the message may not, nothing is done.
    assert len(answer.result(0).parts) == (len(topics) if may_block else 0)
    assert roles.asked == [(topic, 0) for topic in topics]


class EndsBehindALookUp(dict[Any, Any]):
    """Roles of which one ends just after it was looked up."""

    def __init__(self, roles: dict[Any, Any], end: Callable[[], object]) -> None:
        super().__init__(roles)
        self._ends = [end]

    def get(self, key: Any, default: Any = None) -> Any:
        found = super().get(key, default)
        if self._ends:
            self._ends.pop()()
        return found


def produce_as_its_role_ends(log: pylog.Log, end: Callable[[], object], acks: int = ACKS_ALL) -> ProducedPart:
    """Send a Produce the general way, whose role ends between the look-up and the append."""
    roles: Any = log.broker.node.roles
    roles._roles = EndsBehindALookUp(roles._roles, end)
    answer = log.broker.handle(ProduceRequest.of("full", 0, batch(100), acks=acks), Session())
    return answer.result(0).parts[0]


def test_an_append_whose_partition_was_moved_just_now_goes_to_its_place(tmp_path: Path) -> None:
    places = [tmp_path / "a", tmp_path / "b"]
    with pylog.open(places, flush="none") as log:
        view = log.create_topic("full", config=BOUND)[0]
        view.append([Record(b"the first takes an epoch")])
        here = log.broker.node.roles.partition("full", 0).directory
        target = next(str(place) for place in places if not here.startswith(str(place)))
        part = produce_as_its_role_ends(log, lambda: log.move_partition("full", 0, target))
        assert (part.error, part.base_offset) == (None, 1)
        partition = log.broker.node.roles.partition("full", 0)
        assert partition.directory.startswith(target) and partition.next_offset == 2


def test_an_append_whose_topic_was_made_anew_just_now_goes_to_the_new_one(log: pylog.Log) -> None:
    log.topic("full")[0].append([Record(b"the first takes an epoch")])

    def made_anew() -> None:
        log.delete_topic("full")
        log.create_topic("full", config=BOUND)

    part = produce_as_its_role_ends(log, made_anew)
    assert (part.error, part.base_offset) == (None, 0)
    assert log.broker.node.roles.partition("full", 0).next_offset == 1


def test_an_append_whose_topic_was_deleted_just_now_is_refused(log: pylog.Log) -> None:
    log.topic("full")[0].append([Record(b"the first takes an epoch")])
    part = produce_as_its_role_ends(log, lambda: log.delete_topic("full"))
    assert isinstance(part.error, UnknownTopicOrPartition)


@pytest.mark.parametrize("acks", [1, ACKS_ALL])
def test_an_append_behind_the_loss_of_the_lead_is_refused(log: pylog.Log, acks: int) -> None:
    log.topic("full")[0].append([Record(b"the first takes an epoch")])
    follow = pylog.Follow(
        topic="full", topic_id=log.topic("full").id, partition=0, partitions=1, leader=9, leader_epoch=9
    )
    part = produce_as_its_role_ends(log, lambda: log.broker.apply(follow), acks)
    assert isinstance(part.error, NotLeaderOrFollower)
    assert log.broker.node.roles.partition("full", 0).next_offset == 1


def test_produces_that_wait_go_on_in_their_order_when_records_are_deleted(log: pylog.Log) -> None:
    fill(log)
    end = log.topic("full")[0].next_offset
    before = threading.active_count()
    waiting = [produce(log, "full") for _ in range(30)]
    assert not any(one.done() for one in waiting) and threading.active_count() <= before + 1

    offsets = []
    for one in waiting:
        log.delete_records({("full", 0): log.topic("full")[0].next_offset})
        offsets.append(one.result(240).parts[0].base_offset)

    assert offsets == list(range(end, end + 30))


def test_the_parts_of_other_partitions_are_appended_at_once(log: pylog.Log) -> None:
    fill(log)

    answer = produce(log, "other", "full", "other")

    assert log.topic("other")[0].next_offset == 2 and not answer.done()
    log.delete_records({("full", 0): log.topic("full")[0].next_offset})
    assert [topic.name for topic in answer.result(240).responses] == ["other", "full", "other"]
    assert [part.error for part in answer.result().parts] == [None] * 3


def test_a_produce_whose_time_is_up_is_refused_and_counted_once(log: pylog.Log) -> None:
    fill(log)
    before = log.metrics().total("FailedProduceRequestsPerSec", topic="full")

    answer = produce(log, "full", timeout_ms=1)

    assert isinstance(answer.result(240).parts[0].error, PartitionFull)
    assert log.metrics().total("FailedProduceRequestsPerSec", topic="full") == before + 1


def test_a_produce_that_waits_is_refused_by_what_it_finds_later(log: pylog.Log) -> None:
    fill(log)
    answers = [produce(log, "full"), produce(log, "full")]

    log.alter_config("full", {"pylog.full.policy": "raise"})
    assert all(isinstance(answer.result(240).parts[0].error, PartitionFull) for answer in answers)

    log.alter_config("full", {"pylog.full.policy": "block"})
    answer = produce(log, "full")
    log.delete_topic("full")
    assert "full" in str(answer.result(240).parts[0].error)


def test_an_abandoned_produce_is_not_appended(log: pylog.Log) -> None:
    fill(log)
    end = log.topic("full")[0].next_offset
    left, stayed = produce(log, "full"), produce(log, "full")

    left.abandon()
    log.delete_records({("full", 0): end})

    assert stayed.result(240).parts[0].base_offset == end
    assert not left.done()


def test_a_close_refuses_what_waits() -> None:
    with pylog.open(":memory:", config={"replica.fetch.backoff.ms": 1}) as log:
        log.create_topic("full", config=BOUND)
        fill(log)
        answer = produce(log, "full")

    assert isinstance(answer.result(240).parts[0].error, PartitionFull)


def test_clients_that_wait_for_room_hold_no_other_up() -> None:
    """Sixteen held all threads for appends: the first append to any other topic waited for them."""
    with StandIn() as stand_in:
        stand_in.log.create_topic("full", config=BOUND)
        stand_in.log.create_topic("other")
        fill(stand_in.log)
        with pylog.connect(stand_in.bootstrap_servers) as log:
            producers = [log.producer() for _ in range(17)]
            waiting = [producer.send("full", bytes(900)) for producer in producers]
            with log.producer() as other:
                assert other.send("other", b"x").result(240).offset == 0
            stand_in.log.alter_config("full", {"pylog.full.policy": "raise"})
            for one, producer in zip(waiting, producers, strict=True):
                with pytest.raises(PartitionFull):
                    one.result(240)
                producer.close()


def test_an_append_that_fails_as_it_never_should_is_told_and_stops_no_other() -> None:
    full, clock, answered = PartitionFull("full"), SimClock(0), completed(ProduceResponse())
    outcomes: list[Any] = [RuntimeError("odd"), answered]

    def again(message: ProduceRequest) -> Any:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    room = Room(clock, again, lambda message, error: ProduceResponse(), lambda: None)
    first, second = (room.park(ProduceRequest.of(topic, 0, batch()), full) for topic in "ab")
    room.note()
    room.work(clock.tick_ms())

    assert isinstance(first.exception(0), RuntimeError)
    assert second.result(0).parts == [] and room.due_ms is None


def test_a_room_that_closes_refuses_what_waits() -> None:
    refused = ProduceResponse()
    room = Room(SimClock(0), lambda message: completed(ProduceResponse()), lambda message, error: refused, lambda: None)
    waiting = room.park(ProduceRequest.of("full", 0, batch()), PartitionFull("full"))

    room.close()

    assert waiting.result(0) is refused


@pytest.mark.parametrize("topics", [("full",), ("full", "other")])
def test_a_small_batch_does_not_overtake_one_that_waits(log: pylog.Log, topics: tuple[str, ...]) -> None:
    log.alter_config("full", {"retention.bytes": "2000"})
    fill(log)
    end = log.topic("full")[0].next_offset
    log.alter_config("full", {"retention.bytes": "2200"})
    large = produce(log, "full")
    small = log.broker.handle(together(*(ProduceRequest.of(topic, 0, batch(10)) for topic in topics)), Session())
    refused = log.broker.handle(ProduceRequest.of("full", 0, batch(10), timeout_ms=0), Session())
    assert isinstance(refused.result(240).parts[0].error, PartitionFull)
    assert not large.done() and not small.done()

    log.delete_records({("full", 0): end})

    assert (large.result(240).parts[0].base_offset, small.result(240).parts[0].base_offset) == (end, end + 1)


def test_one_whose_time_is_up_leaves_from_behind_one_that_waits_on(log: pylog.Log) -> None:
    fill(log)
    first, second = produce(log, "full"), produce(log, "full", timeout_ms=1)

    assert isinstance(second.result(240).parts[0].error, PartitionFull)
    assert not first.done()


@pytest.mark.parametrize("is_full", [True, False])
def test_one_that_is_being_tried_when_the_node_closes_is_answered_once(is_full: bool) -> None:
    """The close answered it, too: RuntimeError, this future is answered already."""
    clock, full, appended = SimClock(), PartitionFull("full"), ProduceResponse()
    refused: list[ProduceRequest] = []

    def again(message: ProduceRequest) -> Future[ProduceResponse] | PartitionFull:
        room.close()
        return full if is_full else completed(appended)

    def refuse(message: ProduceRequest, error: PartitionFull) -> ProduceResponse:
        refused.append(message)
        return ProduceResponse()

    room = Room(clock, again, refuse, lambda: None)
    first, second = (room.park(ProduceRequest.of("full", 0, batch(), timeout_ms=1000), full) for _ in range(2))
    room.note()
    room.work(clock.tick_ms())

    assert first.done() and second.done() and len(refused) == (2 if is_full else 1)
    assert (first.result() is appended) != is_full
    assert room.park(first.message, full).done() and room.due_ms is None  # type: ignore[attr-defined]
