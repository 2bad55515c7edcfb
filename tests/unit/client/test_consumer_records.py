"""What a consumer does about records it cannot read, about time, topics that come, and answers that come late."""

import json
import pickle
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog import ConsumerRecord, DeserializedRecord, Record, TopicPartition, errors
from pylog.client.consumer import skip
from pylog.client.consumer.fetcher import FetchedRecords
from pylog.kernel import HEADER_BYTES, encode_records
from pylog.protocol.batch import Batch, encode, seal
from pylog.protocol.compression import Codec
from pylog.protocol.messages import Fetch, FetchedPart, Session
from pylog.protocol.messages.groups import (
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from pylog.protocol.messages.offsets import OffsetCommitRequest, OffsetFetchRequest
from pylog.protocol.messages.records import ListOffsetsRequest
from pylog.protocol.messages.topics import MetadataRequest
from pylog.runtime.future import Future, completed, failed
from pylog.testing import SimClock
from pylog.transport import MemoryTransport
from support.copies import QUICK, same
from support.messages import (
    Offset,
    offset_commit,
    offset_fetch,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def log() -> Iterator[pylog.Log]:
    with pylog.open(":memory:") as opened:
        opened.create_topic("t", partitions=2)
        yield opened


def append(log: pylog.Log, *values: bytes | None, partition: int = 0, **fields: Any) -> None:
    log.topic("t")[partition].append([Record(value, **fields) for value in values])


def read(consumer: pylog.Consumer, rounds: int = 6) -> list[Any]:
    return [record for _ in range(rounds) for record in consumer.poll(0)]


# --- deserializers ---------------------------------------------------------------------------------------------------


def test_deserializers_make_keys_and_values(log: pylog.Log) -> None:
    append(log, b'{"a": 1}', b"[2]", key=b"7", timestamp=5, headers=[("h", b"x")])
    append(log, None, b"3", timestamp=6)
    with log.consumer(
        "t", auto_offset_reset="earliest", key_deserializer=int, value_deserializer=json.loads
    ) as consumer:
        records = read(consumer)
        assert [(record.key, record.value) for record in records] == [(7, {"a": 1}), (7, [2]), (None, None), (None, 3)]
        assert isinstance(records[0], DeserializedRecord)
        assert records[0][:5] == ("t", 0, 0, 5, 0) and records[0].headers == (("h", b"x"),)
        assert (records[0].leader_epoch, consumer.position(T0)) == (0, 4)
        consumer.seek(T0, 0)
        assert [record.offset for record in consumer.poll(0, max_records=3)] == [0, 1, 2] and consumer.position(T0) == 3


def test_a_deserializer_must_not_poll(log: pylog.Log) -> None:
    append(log, b"0")

    def polling(data: bytes) -> object:
        return consumer.poll(0)

    with log.consumer("t", auto_offset_reset="earliest", value_deserializer=polling) as consumer:
        for _ in range(2):
            with pytest.raises(errors.DeserializationError, match="a deserializer must not poll its consumer"):
                consumer.poll(1000)


def test_records_of_an_interrupted_poll_are_read_again(log: pylog.Log) -> None:
    append(log, b"0", b"1")
    append(log, b"2", b"3", partition=1)
    interrupts = [b"1", b"3"]

    def interrupted(data: bytes) -> int:
        if data in interrupts:
            interrupts.remove(data)
            raise KeyboardInterrupt
        return int(data)

    with log.consumer("t", group_id="g", auto_offset_reset="earliest", value_deserializer=interrupted) as consumer:
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                consumer.poll(1000)
            consumer.commit()
            assert {at.offset for at in log.admin.committed("g").values()} == {0}
        assert sorted(record.value for record in read(consumer)) == [0, 1, 2, 3]


def test_a_record_that_cannot_be_deserialized_is_raised_until_it_is_skipped(log: pylog.Log) -> None:
    """Everything before it and beside it is given; nothing is skipped silently, and nothing is stuck."""
    append(log, b"0", b"1", b"two", b"3", b"four")
    append(log, b"10", partition=1)
    with log.consumer("t", auto_offset_reset="earliest", value_deserializer=int) as consumer:
        with pytest.raises(ValueError, match="nothing to skip"):
            consumer.skip()
        given, raised = [], []
        for _ in range(12):
            try:
                given += [record.value for record in consumer.poll(0)]
            except errors.DeserializationError as error:
                raised.append(error)
        assert sorted(given) == [0, 1, 10] and len(raised) > 3
        error = raised[-1]
        assert (error.topic, error.partition, error.offset, error.record.value) == ("t", 0, 2, b"two")
        assert isinstance(error.record, ConsumerRecord) and isinstance(error.__cause__, ValueError)
        assert "t-0, offset 2" in str(error) and "skip()" in str(error)
        assert str(pickle.loads(pickle.dumps(error))) == str(error)
        assert consumer.position(T0) == 2
        consumer.skip()
        assert [record.value for record in consumer.poll(0)] == [3]
        with pytest.raises(errors.DeserializationError, match="the value cannot"):
            read(consumer)
        consumer.skip()
        assert read(consumer) == [] and consumer.position(T0) == 5
        with pytest.raises(ValueError, match="nothing to skip"):
            consumer.skip()


def test_the_position_behind_a_skipped_record_keeps_the_leader_epoch(log: pylog.Log) -> None:
    append(log, b"0", b"one", b"2")
    with log.consumer("t", group_id="g", auto_offset_reset="earliest", value_deserializer=int) as consumer:
        assert [record.value for record in consumer.poll(60_000)] == [0]
        with pytest.raises(errors.DeserializationError):
            consumer.poll(1000)
        consumer.skip()
        consumer.commit()
        at = log.admin.committed("g")[T0]
        assert (at.offset, at.leader_epoch) == (2, 0)


def test_a_bad_key_is_reported_as_one(log: pylog.Log) -> None:
    append(log, b"1", key=b"x")
    with (
        log.consumer("t", auto_offset_reset="earliest", key_deserializer=int) as consumer,
        pytest.raises(errors.DeserializationError, match="the key cannot"),
    ):
        read(consumer)


def test_a_consumer_that_has_moved_skips_nothing(log: pylog.Log) -> None:
    append(log, b"x", b"1")
    with log.consumer("t", auto_offset_reset="earliest", value_deserializer=int) as consumer:
        with pytest.raises(errors.DeserializationError):
            read(consumer)
        consumer.assign([T1])
        with pytest.raises(ValueError, match="nothing to skip"):
            consumer.skip()


# --- damage ----------------------------------------------------------------------------------------------------------


def damaged(tmp_path: Path, change: Callable[[bytearray, int], None]) -> tuple[Path, int]:
    """A log of one partition and six batches of three records, with a change to the third of them."""
    with pylog.open(tmp_path) as log:
        log.create_topic("t")
        for batch in range(6):
            append(log, *(b"%d" % (3 * batch + i) for i in range(3)), timestamp=1)
        path = Path(log.topic("t")[0].segments[0].path)
        size = log.topic("t")[0].size // 6
    data = bytearray(path.read_bytes())
    change(data, 2 * size)
    path.write_bytes(data)
    return path, 2 * size


def in_payload(data: bytearray, at: int) -> None:
    data[at + 65] ^= 1


def in_last_offset(data: bytearray, at: int) -> None:
    data[at + 26] = 1


def in_magic(data: bytearray, at: int) -> None:
    data[at + 16] = 9


@pytest.mark.parametrize("change", [in_payload, in_last_offset])
def test_one_call_skips_a_damaged_batch(tmp_path: Path, change: Callable[[bytearray, int], None]) -> None:
    damaged(tmp_path, change)
    with pylog.open(tmp_path) as log, log.consumer("t", auto_offset_reset="earliest") as consumer:
        given: list[int] = []
        skipped = 0
        while not given or given[-1] < 17:
            try:
                given += [record.offset for record in consumer.poll(0)]
            except errors.CorruptBatch as error:
                assert error.offset == consumer.position(T0)
                consumer.skip()
                skipped += 1
                assert skipped < 4
    assert [offset for offset in given if not 6 <= offset < 9] == [*range(6), *range(9, 18)]
    assert skipped == 1


def test_a_header_that_cannot_be_followed_is_passed_record_by_record(tmp_path: Path) -> None:
    """No good record is lost for that."""
    damaged(tmp_path, in_magic)
    with pylog.open(tmp_path) as log, log.consumer("t", auto_offset_reset="earliest") as consumer:
        given: list[int] = []
        for _ in range(60):
            try:
                given += [record.offset for record in consumer.poll(0)]
            except errors.CorruptBatch:
                consumer.skip()
    assert given == [*range(6), *range(9, 18)]


def in_length(data: bytearray, at: int) -> None:
    data[at + 8 : at + 12] = (1 << 20).to_bytes(4, "big")


def over_the_next(data: bytearray, at: int) -> None:
    """The length leads to the batch after the next one."""
    data[at + 8 : at + 12] = (2 * int.from_bytes(data[at + 8 : at + 12], "big") + 12).to_bytes(4, "big")


@pytest.mark.parametrize("change", [in_length, over_the_next])
@pytest.mark.parametrize("way", ["own", "read", "attach", "connect", "follow"])
@pytest.mark.parametrize("interval", [0, 4096])
def test_a_length_that_is_damaged_costs_its_own_batch(
    tmp_path: Path, interval: int, way: str, change: Callable[[bytearray, int], None]
) -> None:
    with ExitStack() as stack:
        log = stack.enter_context(pylog.open(tmp_path / "log", node_id=1))
        log.create_topic("t", config={"index.interval.bytes": interval})
        for batch in range(6):
            append(log, *(b"%d" % (3 * batch + i) for i in range(3)), timestamp=1)
        if way == "follow":
            leader, log = log, stack.enter_context(pylog.open(tmp_path / "copy", node_id=2, config=QUICK))
            log.follow(leader.serve().bootstrap_servers, ["t"])
            same(leader, log)
        path = Path(log.topic("t")[0].segments[0].path)
        data = bytearray(path.read_bytes())
        change(data, 2 * len(data) // 6)
        path.write_bytes(data)
        if way == "connect":
            log = stack.enter_context(pylog.connect(log.serve().bootstrap_servers))
        elif way == "follow":
            log = stack.enter_context(pylog.open(tmp_path / "copy", mode="read"))
        elif way != "own":
            log = stack.enter_context(pylog.open(tmp_path / "log", mode=way))  # type: ignore[call-overload]
        consumer = stack.enter_context(log.consumer("t", auto_offset_reset="earliest"))
        given: list[int] = []
        losses = []
        for _ in range(100):
            try:
                given += [record.offset for record in consumer.poll(100)]
                if given[-1:] == [17]:
                    break
            except (errors.CorruptBatch, errors.CorruptRecord):
                before = consumer.position(T0)
                consumer.skip()
                losses.append((before, consumer.position(T0)))
    assert given == [*range(6), *range(9, 18)]
    assert losses == [(6, 9)]


class Broken(MemoryTransport):
    """A node that cannot read the offsets from 6 to 8, and cannot say where one could go on."""

    error: errors.PylogError | None = None

    def send(self, node: int, message: Any, session: Session) -> Future[Any]:
        answer = super().send(node, message, session)
        if isinstance(message, Fetch) and message.parts[0].offset < 9:
            offset, part = message.parts[0].offset, answer.result().parts[0]
            if offset >= 6 and self.error is not None:
                part.error, part.data = self.error, memoryview(b"")
            elif offset >= 6:
                part.data = memoryview(bytes(16) + b"\7" + bytes(60))
            else:
                part.data = part.data[: len(part.data) // 6 * 2]
        return answer


@pytest.mark.parametrize("error", [errors.CorruptBatch("odd"), errors.CorruptRecord("odd"), None])
def test_where_nothing_says_how_to_go_on_one_offset_after_the_other_is_tried(
    monkeypatch: pytest.MonkeyPatch, error: errors.PylogError | None
) -> None:
    way = Broken()
    way.error = error
    with pylog.open(":memory:", transport=way) as log:
        log.create_topic("t")
        for batch in range(6):
            append(log, *(b"%d" % (3 * batch + i) for i in range(3)), timestamp=1)
        for probes, stops in ((10_000, [9]), (2, [8, 9])):
            monkeypatch.setattr(skip, "PROBES_MAX", probes)
            with log.consumer("t", auto_offset_reset="earliest") as consumer:
                assert [record.offset for record in consumer.poll(0)] == [*range(6)]
                for stop in stops:
                    with pytest.raises((errors.CorruptBatch, errors.CorruptRecord)):
                        read(consumer)
                    assert consumer.position(T0) >= 6
                    consumer.skip()
                    assert consumer.position(T0) == stop
                assert [record.offset for record in read(consumer)] == [*range(9, 18)]


def test_records_that_are_none_are_located() -> None:
    """A batch with the right CRC whose records do not parse names its own end."""
    with pylog.open(":memory:") as log:
        log.create_topic("t")
        append(log, b"a", b"b")
        append(log, b"c")
        data = bytearray(log.topic("t")[0].read(0))
    data[61] = 0xFF
    part = FetchedPart("t", 0, data=memoryview(data), path="file", position=100)
    fetched = FetchedRecords(part, 0, check_crc=False)
    for _ in range(2):
        with pytest.raises(errors.CorruptBatch) as caught:
            fetched.take(10)
        assert (caught.value.offset, caught.value.next_offset, caught.value.position) == (0, 2, 100)


# --- time and topics -------------------------------------------------------------------------------------------------


def test_reading_may_begin_a_while_ago() -> None:
    clock = SimClock(wall_ms=1_700_000_000_000)
    with pylog.open(":memory:", clock=clock) as log:
        log.create_topic("t", partitions=2)
        for hours in range(10):
            append(log, b"%d" % hours, timestamp=clock.wall_ms())
            clock.advance(3_600_000)
        append(log, b"old", partition=1, timestamp=5)
        with log.consumer("t", auto_offset_reset="by_duration:PT3H") as consumer:
            assert [record.value for record in read(consumer)] == [b"7", b"8", b"9"]
            assert consumer.position(T1) == 1, "where nothing is that young, at the end"


def test_lag_counts_the_records_left_to_read(log: pylog.Log) -> None:
    append(log, *[b"x"] * 10)
    with log.consumer(auto_offset_reset="earliest", max_poll_records=4) as consumer:
        assert consumer.lag() == {}
        consumer.assign([T0, T1])
        assert consumer.lag() == {T0: 10, T1: 0}
        assert len(consumer.poll(0)) == 4
        assert consumer.lag() == {T0: 6, T1: 0}
        for record in consumer:
            assert consumer.lag()[T0] == 9 - record.offset
            if record.offset == 6:
                break


def test_a_pattern_and_new_partitions_without_a_group() -> None:
    clock = SimClock(wall_ms=1_700_000_000_000)
    with pylog.open(":memory:", clock=clock) as log:
        log.create_topic("t", partitions=1)
        with log.consumer(auto_offset_reset="earliest", metadata_max_age_ms=5000) as consumer:
            consumer.subscribe(pattern=r"t|a-\d")
            append(log, b"0")
            assert [record.value for record in read(consumer)] == [b"0"]
            log.create_topic("a-1")
            log.create_topic("a-x")
            log.create_topic("ba-1")
            log.create_partitions("t", 2)
            assert read(consumer) == [] and consumer.assignment() == {T0}
            clock.advance(5000)
            read(consumer)
            assert consumer.assignment() == {T0, T1, TopicPartition("a-1", 0)}
            assert consumer.subscription() == {"t", "a-1"} and consumer.position(T0) == 1
            append(log, b"1", partition=1)
            assert [record.value for record in read(consumer)] == [b"1"]
            consumer.subscribe(["t"])
            assert consumer.assignment() == {T0, T1} and consumer.position(T0) == 1


def test_a_waiting_poll_sees_a_new_topic(log: pylog.Log) -> None:
    """Within a second, as there is nothing else to do."""
    with log.consumer(auto_offset_reset="earliest") as consumer:
        consumer.subscribe(pattern="new")
        timer = threading.Thread(target=lambda: log.create_topic("new")[0].append([Record(b"here")]))
        timer.start()
        assert [record.value for record in consumer.poll(60_000)] == [b"here"]
        timer.join()


def test_subscribing_takes_one_of_topics_and_pattern(log: pylog.Log) -> None:
    with log.consumer() as consumer:
        for wrong in ({}, {"topics": ["t"], "pattern": "t"}):
            with pytest.raises(ValueError, match="either topics or a pattern"):
                consumer.subscribe(**wrong)  # type: ignore[arg-type]
        consumer.subscribe(pattern="nothing")
        assert consumer.poll(0) == [] and consumer.assignment() == set()


# --- from other threads ----------------------------------------------------------------------------------------------


def test_wakeup_ends_a_poll_and_costs_no_record(log: pylog.Log) -> None:
    append(log, b"x")
    with log.consumer("t", auto_offset_reset="earliest") as consumer:
        consumer.wakeup()
        with pytest.raises(errors.Wakeup):
            consumer.poll(0)
        assert len(read(consumer)) == 1
        caught: list[BaseException] = []

        def wait() -> None:
            try:
                consumer.poll(60_000)
            except errors.Wakeup as error:
                caught.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        consumer.wakeup()
        thread.join()
        assert len(caught) == 1
        append(log, b"y")
        assert [record.value for record in read(consumer)] == [b"y"]


def test_a_second_thread_is_told(log: pylog.Log) -> None:
    with log.consumer("t") as consumer:
        inside, go = threading.Event(), threading.Event()

        def slow(_: bytes) -> None:
            inside.set()
            go.wait(240)

        append(log, b"x")
        other = log.consumer("t", auto_offset_reset="earliest", value_deserializer=slow)
        thread = threading.Thread(target=read, args=(other,))
        thread.start()
        assert inside.wait(240)
        for use in (other.close, other.assignment, lambda: other.poll(0), lambda: other.seek(T0, 0)):
            with pytest.raises(errors.ConcurrentUse, match="not thread-safe"):
                use()
        consumer.poll(0)
        go.set()
        thread.join()
        other.close()


# --- answers that come late, or never --------------------------------------------------------------------------------


class Held(MemoryTransport):
    """Keeps answers of some kinds back until they are let go, or gives others in their place."""

    def __init__(self) -> None:
        super().__init__()
        self.holds: set[type] = set()
        self.held: list[tuple[Future[Any], Future[Any]]] = []
        self.answers: dict[type, list[Any]] = {}
        self.sent: list[Any] = []

    def send(self, node: int, message: Any, session: Session) -> Future[Any]:
        self.sent.append(message)
        if queue := self.answers.get(type(message)):
            answer = queue.pop(0)
            return failed(answer) if isinstance(answer, errors.PylogError) else completed(answer)
        real = super().send(node, message, session)
        if type(message) not in self.holds:
            return real
        self.held.append((Future(), real))
        return self.held[-1][0]

    def let_go(self) -> None:
        self.holds.clear()
        held, self.held = self.held, []
        for future, real in held:
            future.set_result(real.result())

    def count(self, kind: type) -> int:
        return sum(isinstance(message, kind) for message in self.sent)


@pytest.fixture
def way() -> Held:
    return Held()


@pytest.fixture
def clock() -> SimClock:
    return SimClock(wall_ms=1_700_000_000_000)


@pytest.fixture
def far(way: Held, clock: SimClock) -> Iterator[pylog.Log]:
    with pylog.open(":memory:", transport=way, clock=clock) as opened:
        opened.create_topic("t", partitions=2)
        append(opened, *(b"%d" % i for i in range(10)))
        yield opened
        way.let_go()


def at_zero(log: pylog.Log, **config: Any) -> pylog.Consumer:
    consumer = log.consumer(auto_offset_reset="earliest", **config)
    consumer.assign([T0])
    assert consumer.position(T0) == 0
    return consumer


def test_a_poll_without_time_does_not_wait_and_asks_once(far: pylog.Log, way: Held) -> None:
    consumer = at_zero(far)
    way.holds = {Fetch}
    for _ in range(3):
        assert consumer.poll(0) == []
    assert way.count(Fetch) == 1
    way.let_go()
    assert len(consumer.poll(0)) == 10 and way.count(Fetch) == 1


@pytest.mark.parametrize("move", ["seek", "seek_to_end", "assign", "away and back"])
def test_an_answer_to_a_request_before_a_move_changes_nothing(far: pylog.Log, way: Held, move: str) -> None:
    """librdkafka 2.1.1 (#4261), 2.4.0 (#4636)."""
    consumer = at_zero(far)
    way.holds = {Fetch}
    consumer.poll(0)
    if move == "seek":
        consumer.seek(T0, 7)
    elif move == "seek_to_end":
        consumer.seek_to_end(T0)
    elif move == "assign":
        consumer.assign([T1])
    else:
        consumer.assign([])
        consumer.assign([T0])
        consumer.seek(T0, 7)
    way.let_go()
    given = [record.offset for record in read(consumer)]
    assert given == ([7, 8, 9] if move in ("seek", "away and back") else [])


def test_a_move_while_a_position_is_looked_up_counts(far: pylog.Log, way: Held) -> None:
    consumer = far.consumer(auto_offset_reset="earliest", group_id="g")
    consumer.assign([T0])
    way.holds = {OffsetFetchRequest}
    assert consumer.poll(0) == []
    consumer.seek(T0, 8)
    way.let_go()
    assert [record.offset for record in read(consumer)] == [8, 9]
    consumer.seek_to_beginning(T0)
    way.holds = {ListOffsetsRequest}
    assert consumer.poll(0) == []
    consumer.seek(T0, 9)
    way.let_go()
    assert [record.offset for record in read(consumer)] == [9]
    consumer.close()


def test_an_answer_that_is_lost_is_asked_for_again(far: pylog.Log, way: Held, clock: SimClock) -> None:
    consumer = at_zero(far)
    way.holds = {Fetch}
    consumer.poll(0)
    way.holds.clear()
    clock.advance(29_999)
    assert consumer.poll(0) == [] and way.count(Fetch) == 1
    clock.advance(1)
    assert consumer.poll(0) == []
    clock.advance(100)
    assert len(consumer.poll(0)) == 10 and way.count(Fetch) == 2


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        (Fetch, errors.NetworkError("gone")),
        (Fetch, errors.NotLeaderOrFollower("elsewhere")),
        (ListOffsetsRequest, errors.NetworkError("gone")),
        (OffsetFetchRequest, errors.NotCoordinator("elsewhere")),
        (OffsetFetchRequest, offset_fetch("g").refused(errors.CoordinatorLoadInProgress("soon"))),
    ],
)
def test_a_retriable_error_is_tried_again_after_a_while(
    far: pylog.Log, way: Held, clock: SimClock, kind: type, error: Any
) -> None:
    consumer = far.consumer(auto_offset_reset="earliest", group_id="g", retry_backoff_ms=100)
    consumer.assign([T0])
    way.answers[kind] = [error]
    assert consumer.poll(0) == [] and consumer.poll(0) == []
    assert way.count(kind) == 1
    clock.advance(100)
    assert len(read(consumer)) == 10
    consumer.close()


@pytest.mark.parametrize("kind", [Fetch, ListOffsetsRequest, OffsetFetchRequest])
def test_an_error_that_is_not_retriable_is_raised(far: pylog.Log, way: Held, kind: type) -> None:
    consumer = far.consumer(auto_offset_reset="earliest", group_id="g")
    consumer.assign([T0])
    way.answers[kind] = [errors.TopicAuthorization("no"), errors.TopicAuthorization("no")]
    for _ in range(2):
        with pytest.raises(errors.TopicAuthorization):
            consumer.poll(0)
    assert len(read(consumer)) == 10
    way.answers[OffsetFetchRequest] = [errors.GroupAuthorization("no")]
    with pytest.raises(errors.GroupAuthorization):
        consumer.committed([T0])
    way.answers[ListOffsetsRequest] = [errors.TopicAuthorization("no")]
    consumer.seek_to_end(T0)
    with pytest.raises(errors.TopicAuthorization):
        consumer.position(T0)
    assert consumer.position(T0) == 10
    consumer.close()


def test_a_position_is_waited_for_and_not_for_ever(far: pylog.Log, way: Held) -> None:
    consumer = far.consumer(auto_offset_reset="earliest", default_api_timeout_ms=0)
    consumer.assign([T0])
    way.holds = {ListOffsetsRequest}
    with pytest.raises(errors.RequestTimedOut, match="t-0"):
        consumer.position(T0)
    way.let_go()
    assert consumer.position(T0) == 0


def test_a_commit_is_tried_again_where_that_helps(far: pylog.Log, way: Held) -> None:
    consumer = far.consumer(group_id="g", retry_backoff_ms=0)
    consumer.assign([T0])
    way.answers[OffsetCommitRequest] = [errors.NotCoordinator("elsewhere"), errors.CoordinatorLoadInProgress("soon")]
    consumer.commit({T0: 3})
    assert way.count(OffsetCommitRequest) == 3
    way.answers[OffsetFetchRequest] = [errors.NotCoordinator("elsewhere")]
    assert consumer.committed([T0]) == {T0: pylog.OffsetAndMetadata(3)}
    way.answers[OffsetCommitRequest] = [errors.NotCoordinator("elsewhere")]
    with pytest.raises(errors.NotCoordinator):
        consumer.commit({T0: 4}, timeout_ms=0)
    way.answers[OffsetFetchRequest] = [errors.NotCoordinator("elsewhere")]
    impatient = far.consumer(group_id="g", default_api_timeout_ms=0)
    with pytest.raises(errors.NotCoordinator):
        impatient.committed([T0])
    way.holds = {OffsetCommitRequest}
    with pytest.raises(errors.RequestTimedOut, match="may have worked"):
        consumer.commit({T0: 5}, timeout_ms=0)
    way.let_go()
    for one in (consumer, impatient):
        one.close()


def test_a_failed_auto_commit_is_tried_again_with_a_warning(
    far: pylog.Log, way: Held, clock: SimClock, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = far.consumer(group_id="g", auto_offset_reset="earliest", retry_backoff_ms=100, max_poll_records=4)
    consumer.assign([T0])
    read(consumer, 2)
    way.answers[OffsetCommitRequest] = [errors.NotCoordinator("elsewhere"), errors.GroupAuthorization("no")]
    clock.advance(5000)
    read(consumer, 2)
    assert way.count(OffsetCommitRequest) == 1 and not caplog.text
    clock.advance(100)
    read(consumer, 2)
    assert way.count(OffsetCommitRequest) == 2 and "not committed by themselves" in caplog.text
    way.answers[OffsetCommitRequest] = [errors.GroupAuthorization("no")]
    consumer.close()
    assert "the last positions were not committed" in caplog.text


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (errors.IllegalGeneration("old"), errors.CommitFailed),
        (errors.UnknownMemberId("who?"), errors.CommitFailed),
        (errors.RebalanceInProgress("come"), errors.RebalanceInProgress),
        (errors.FencedInstanceId("another"), errors.FencedInstanceId),
    ],
)
def test_a_commit_that_the_group_refuses_says_what_to_do(
    far: pylog.Log, way: Held, error: errors.PylogError, raised: type[errors.PylogError]
) -> None:
    with far.consumer("t", group_id="g", auto_offset_reset="earliest", enable_auto_commit=False) as consumer:
        read(consumer)
        way.answers[OffsetCommitRequest] = [offset_commit("g", [Offset(*T0), Offset(*T1)]).refused(error)]
        with pytest.raises(raised) as caught:
            consumer.commit()
        if raised is errors.CommitFailed:
            assert "Poll to join again" in str(caught.value) and caught.value.__cause__ is error
        if isinstance(error, errors.IllegalGeneration | errors.RebalanceInProgress):
            assert len(read(consumer)) == 10, "it has joined again, and nothing was committed"


def test_members_hear_of_a_topic_that_was_made_again(far: pylog.Log, clock: SimClock) -> None:
    with far.consumer("t", group_id="g", auto_offset_reset="earliest") as consumer:
        assert len(read(consumer)) == 10
        consumer.pause(T0)
        consumer.commit()
        far.delete_topic("t")
        assert read(consumer) == []
        far.create_topic("t", partitions=2)
        append(far, b"new", partition=1)
        given = []
        for _ in range(5):
            clock.advance(500)
            given += read(consumer)
        assert [record.value for record in given] == [b"new"]


def test_a_partition_by_hand_that_is_made_again_begins_anew(far: pylog.Log) -> None:
    with far.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([T0, T1])
        assert len(read(consumer)) == 10
        consumer.pause(T1)
        far.delete_topic("t")
        far.create_topic("t", partitions=2)
        append(far, b"new")
        append(far, b"paused", partition=1)
        assert [record.value for record in read(consumer)] == [b"new"] and consumer.paused() == {T1}


def test_a_revocation_waits_for_its_commit_within_limits(far: pylog.Log, way: Held, clock: SimClock) -> None:
    consumer = far.consumer("t", group_id="g", auto_offset_reset="earliest", default_api_timeout_ms=1000)
    assert len(read(consumer)) == 10
    far.create_topic("u")
    consumer.subscribe(["t", "u"])
    way.holds = {OffsetCommitRequest}
    assert read(consumer) == [] and consumer.assignment() == {T0, T1}
    append(far, b"not given any more")
    assert read(consumer) == []
    clock.advance(1000)
    way.holds.clear()
    assert [record.value for record in read(consumer)][-1] == b"not given any more"
    assert len(consumer.assignment()) == 3
    consumer.subscribe(["t"])
    way.answers[OffsetCommitRequest] = [errors.GroupAuthorization("no")]
    append(far, b"read again")
    assert b"read again" in [record.value for record in read(consumer)] and consumer.assignment() == {T0, T1}
    consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_coordinator_that_is_away_costs_a_member_nothing(
    far: pylog.Log, way: Held, clock: SimClock, protocol: str
) -> None:
    with far.consumer("t", group_id="g", auto_offset_reset="earliest", group_protocol=protocol) as consumer:
        for kind in (JoinGroupRequest, SyncGroupRequest, ConsumerGroupHeartbeatRequest):
            way.answers[kind] = [errors.NotCoordinator("elsewhere")]
        given = []
        for _ in range(10):
            given += read(consumer)
            clock.advance(100)
        assert len(given) == 10
        way.answers[HeartbeatRequest] = [errors.NotCoordinator("elsewhere")]
        generation = consumer.group_metadata().generation_id
        for _ in range(10):
            read(consumer)
            clock.advance(1000)
        assert consumer.group_metadata().generation_id == generation
        consumer.commit()


def test_a_leader_without_new_metadata_assigns_known_topics(far: pylog.Log, way: Held) -> None:
    with far.consumer("t", group_id="g", auto_offset_reset="earliest") as consumer:
        way.answers[MetadataRequest] = [errors.NetworkError("gone")]
        assert len(read(consumer)) == 10


def test_a_group_that_cannot_be_joined_is_an_error_of_poll(far: pylog.Log, way: Held) -> None:
    consumer = far.consumer("t", group_id="g")
    way.answers[JoinGroupRequest] = [errors.GroupAuthorization("no")]
    with pytest.raises(errors.GroupAuthorization):
        consumer.poll(0)
    assert consumer.poll(0) == []
    way.holds = {LeaveGroupRequest}
    consumer.close(timeout_ms=0)


def test_a_look_at_the_topics_that_fails_changes_nothing(far: pylog.Log, way: Held) -> None:
    with far.consumer("t", auto_offset_reset="earliest", metadata_max_age_ms=0) as consumer:
        way.answers[MetadataRequest] = [errors.NetworkError("gone")]
        assert len(read(consumer)) == 10 and consumer.assignment() == {T0, T1}


def test_other_errors_than_ours_are_not_hidden(far: pylog.Log, way: Held) -> None:
    consumer = at_zero(far)
    way.holds = {Fetch}
    consumer.poll(0)
    way.held[0][0].set_exception(ZeroDivisionError())
    way.held.clear()
    with pytest.raises(ZeroDivisionError):
        consumer.poll(0)


def test_any_number_may_be_asked_for(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as log:
        partition = log.create_topic("t")[0]
        partition.append([Record(b"a")])
        partition.append([Record(b"b"), Record(b"c")])
        most = 10**30
        assert len(partition.read(0, most)) == partition.size
        with log.consumer("t", auto_offset_reset="earliest") as consumer:
            assert [r.value for r in consumer.poll(timeout_ms=60_000, max_records=most)] == [b"a", b"b", b"c"]


# --- large records ----------------------------------------------------------------------------------------------------

MIB = 1 << 20


def fetched(codec: str, *batches: list[bytes], **config: Any) -> FetchedRecords:
    """What was fetched: these batches, each compressed."""
    data, offset = b"", 0
    for values in batches:
        made = encode([Record(value) for value in values], now_ms=1, codec=Codec.parse(codec), base_offset=offset)
        data, offset = data + bytes(made.data), offset + len(values)
    part = FetchedPart("t", 0, data=data, path="0.log")
    return FetchedRecords(part, 0, check_crc=True, **config)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_record_that_grows_too_large_is_an_error_of_its_own(codec: str) -> None:
    part = fetched(codec, [b"before"], [b"first", bytes(60 * MIB), b"last"], [b"behind"], record_bytes_max=2 * MIB)
    assert [record.value for _ in range(2) for record in part.take(10)] == [b"before", b"first"]
    for _ in range(2):
        with pytest.raises(errors.CorruptBatch, match="pylog_max_record_bytes; `skip") as refused:
            part.take(10)
    assert (refused.value.offset, refused.value.next_offset) == (2, 4)


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_records_that_are_large_together_take_the_memory_of_one(codec: str) -> None:
    part = fetched(codec, [bytes(2 * MIB)] * 20, [b"behind"], record_bytes_max=3 * MIB)
    offsets = []
    tracemalloc.start()
    try:
        while taken := part.take(10):
            offsets += [record.offset for record in taken]
            del taken
        assert tracemalloc.get_traced_memory()[1] < 12 * MIB
    finally:
        tracemalloc.stop()
    assert (offsets, part.next_offset) == (list(range(21)), 21)


def test_a_batch_in_groups_begins_where_it_was_asked_for_and_ends_where_it_says() -> None:
    part = fetched("gzip", [bytes(MIB)] * 5, record_bytes_max=2 * MIB)
    batch = Batch.parse(part._part.data)
    groups = list(batch.groups("t", 0, 3, 2 * MIB))
    assert [(record.offset, after) for group, after in groups for record in group] == [(3, 4), (4, 5)]
    assert [record.offset for record in batch.records("t", 0)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("count", "why"), [(4, "more than 4 records"), (6, "5 records, and 6 were announced")])
def test_a_batch_in_groups_has_as_many_records_as_it_says(count: int, why: str) -> None:
    stream, _, *times = encode_records([(bytes(MIB), None, 1, ())] * 5, 1)
    batch = seal((stream, count, *times), codec=Codec.GZIP)
    with pytest.raises(errors.CorruptBatch, match=why):
        list(batch.groups("t", 0, 0, 2 * MIB))


def test_offsets_rise_from_group_to_group() -> None:
    stream, _, *times = encode_records([(bytes(MIB), None, 1, ())] * 2, 1)
    again = stream + stream[HEADER_BYTES:]
    batch = seal((again, 4, *times), codec=Codec.GZIP)
    with pytest.raises(errors.CorruptBatch, match="the offsets do not rise"):
        list(batch.groups("t", 0, 0, MIB + 100))
