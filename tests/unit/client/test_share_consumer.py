"""Consumers that share topics record by record: what they are given, what becomes of it, and how they go."""

import pickle
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import pylog
from pylog import errors
from pylog.client.share_consumer.acquired import AcquiredBatches
from pylog.client.share_consumer.share_consumer import ShareConsumer
from pylog.config.share_consumer import ShareConsumerConfig
from pylog.protocol.batch import encode
from pylog.protocol.messages.share import GAP, REJECT, AcquiredRecords, DescribeShareGroupOffsetsRequest
from pylog.record import ShareRecord, TopicPartition
from pylog.runtime.closing import settle
from pylog.testing import SimClock

T0 = TopicPartition("t", 0)
LOCK_MS = 15_000
WAIT_MS = 60_000


@pytest.fixture
def clock() -> SimClock:
    return SimClock()


@pytest.fixture
def log(clock: SimClock) -> Iterator[pylog.Log]:
    config: Any = {"group.share.record.lock.duration.ms": LOCK_MS}
    with pylog.open(":memory:", clock=clock, config=config) as opened:
        opened.create_topic("t")
        opened.admin.alter_group_config("g", {"share.auto.offset.reset": "earliest"})
        fill(opened, 6)
        yield opened


def fill(log: pylog.Log, count: int, topic: str = "t") -> None:
    with log.producer() as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number)


def member(log: Any, **config: Any) -> ShareConsumer:
    return log.share_consumer("t", group_id="g", **config)  # type: ignore[no-any-return]


def found(records: list[ShareRecord[Any, Any]]) -> list[tuple[Any, int]]:
    """The values of records, and how often each was delivered."""
    return [(record.value, record.delivery_count) for record in records]


def in_time(consumer: ShareConsumer, clock: SimClock) -> list[ShareRecord[Any, Any]]:
    """The records of a poll that come as time goes by."""
    while not (records := consumer.poll(0)):
        clock.advance(100)
    return records


def pass_time(log: pylog.Log, clock: SimClock, ms: int) -> None:
    clock.advance(ms)
    log.broker.work()


def left(log: pylog.Log) -> int:
    """How many records the group has yet to do."""
    asked = DescribeShareGroupOffsetsRequest.of("g")
    return asked.found(log._cluster.ask(asked))[T0].lag


# --- what becomes of records ------------------------------------------------------------------------------------------


def test_what_was_polled_is_accepted_by_the_next_poll(log: pylog.Log) -> None:
    with member(log) as consumer:
        records = consumer.poll(WAIT_MS)
        assert found(records) == [(b"%d" % number, 1) for number in range(6)]
        assert (records[0].topic, records[0].partition, records[0].offset, records[0].key) == ("t", 0, 0, None)
        assert consumer.poll(0) == []
        assert consumer.commit_sync() == {}
        assert left(log) == 0


def test_a_record_is_released_or_rejected_or_accepted(log: pylog.Log) -> None:
    with member(log, acknowledgement="explicit") as consumer:
        records = consumer.poll(WAIT_MS)
        for record, word in zip(records, ["accept", "release", "reject", "accept", "release", "accept"], strict=True):
            consumer.acknowledge(record, word)
        assert consumer.commit_sync() == {T0: None}
        again = consumer.poll(WAIT_MS)
        assert found(again) == [(b"1", 2), (b"4", 2)]
        for record in again:
            consumer.acknowledge(record)
    assert left(log) == 0


def test_a_commit_in_the_background_tells_the_callback(log: pylog.Log) -> None:
    told: list[Any] = []
    with member(log) as consumer:
        consumer.set_acknowledgement_commit_callback(lambda offsets, error: told.append((offsets, error)))
        consumer.poll(WAIT_MS)
        consumer.commit_async()
        consumer.poll(0)
        assert told == [({T0: set(range(6))}, None)]


def test_a_callback_may_call_its_consumer(log: pylog.Log) -> None:
    with member(log, max_poll_records=1, share_acquire_mode="record_limit") as consumer:
        inner: list[Any] = []
        consumer.set_acknowledgement_commit_callback(lambda offsets, error: inner.extend(consumer.poll(0)))
        outer = [record for _ in range(2) for record in consumer.poll(WAIT_MS)]
        assert [record.offset for record in (*outer[:1], *inner, *outer[1:])] == [0, 1, 2]

        def complain(offsets: Any, error: Any) -> None:
            raise ValueError(offsets)

        consumer.set_acknowledgement_commit_callback(complain)
        with pytest.raises(ValueError, match="TopicPartition"):
            consumer.commit_sync()
        consumer.set_acknowledgement_commit_callback(None)


def test_a_loop_accepts_a_record_when_it_takes_the_next_one(log: pylog.Log) -> None:
    seen = []
    with member(log) as consumer:
        for record in consumer:
            seen.append((record.value, record.delivery_count))
            if seen[-1] == (b"2", 1):
                consumer.acknowledge(record, "release")
            elif record.value == b"3":
                consumer.acknowledge(record, "reject")
            elif record.delivery_count == 2:
                break
    assert seen == [*((b"%d" % number, 1) for number in range(6)), (b"2", 2)]
    assert left(log) == 0


def test_what_a_loop_fails_at_is_delivered_again(log: pylog.Log) -> None:
    with pytest.raises(ZeroDivisionError), member(log) as consumer:
        for record in consumer:
            if record.value == b"2":
                raise ZeroDivisionError
    with member(log) as consumer:
        assert found(consumer.poll(WAIT_MS)) == [(b"%d" % number, 2) for number in range(2, 6)]


def test_explicit_mode_wants_a_word_on_every_record(log: pylog.Log) -> None:
    with member(log, acknowledgement="explicit") as consumer:
        records = consumer.poll(WAIT_MS)
        with pytest.raises(errors.InvalidRecordState, match="offset 0 was not acknowledged"):
            consumer.poll(0)
        for record in records:
            consumer.acknowledge(record, "reject")
        consumer.acknowledge(records[0], "release")
        assert found(consumer.poll(WAIT_MS)) == [(b"0", 2)]
        with pytest.raises(errors.InvalidRecordState, match="not among the records"):
            consumer.acknowledge(records[1])
        with pytest.raises(ValueError, match="none of accept, release, reject, renew"):
            consumer.acknowledge(records[0], "keep")


def test_a_record_that_is_given_up_too_often_is_gone(log: pylog.Log) -> None:
    log.admin.alter_group_config("g", {"share.delivery.count.limit": 2})
    with member(log) as consumer:
        for count in (1, 2):
            for record in consumer.poll(WAIT_MS):
                assert record.delivery_count == count
                consumer.acknowledge(record, "release")
        assert consumer.poll(0) == []
    assert left(log) == 0


# --- locks ------------------------------------------------------------------------------------------------------------


def test_a_lock_that_ends_lets_another_member_have_the_record(log: pylog.Log, clock: SimClock) -> None:
    with member(log) as slow, member(log) as other:
        records = slow.poll(WAIT_MS)
        assert other.poll(0) == []
        pass_time(log, clock, LOCK_MS)
        assert found(other.poll(WAIT_MS)) == [(b"%d" % number, 2) for number in range(6)]
        told: list[Any] = []
        slow.set_acknowledgement_commit_callback(lambda offsets, error: told.append((offsets, error)))
        for record in records:
            slow.acknowledge(record)
        (error,) = slow.commit_sync().values()
        assert isinstance(error, errors.InvalidRecordState)
        assert told == [({T0: set(range(6))}, error)]


def test_a_lock_is_renewed(log: pylog.Log, clock: SimClock) -> None:
    with member(log) as slow, member(log) as other:
        record, *_ = slow.poll(WAIT_MS)
        for _ in range(3):
            pass_time(log, clock, LOCK_MS // 2)
            slow.acknowledge(record, "renew")
            other.poll(0)
        assert b"0" not in [one.value for one in other.poll(0)]
        slow.acknowledge(record, "accept")
        assert slow.commit_sync()


def test_a_record_that_waits_longer_than_its_lock_is_not_given(log: pylog.Log, clock: SimClock) -> None:
    with member(log) as consumer:
        assert next(consumer).offset == 0
        consumer.commit_sync()
        pass_time(log, clock, LOCK_MS)
        again = next(consumer)
        assert (again.offset, again.delivery_count) == (1, 2)


# --- members ----------------------------------------------------------------------------------------------------------


def test_two_members_share_one_partition(log: pylog.Log) -> None:
    one = member(log, max_poll_records=2, share_acquire_mode="record_limit")
    with one, member(log) as other:
        mine, yours = one.poll(WAIT_MS), other.poll(WAIT_MS)
        assert (found(mine), found(yours)) == (
            [(b"0", 1), (b"1", 1)], [(b"%d" % number, 1) for number in range(2, 6)]
        )  # fmt: skip


def test_what_a_member_has_is_free_when_it_closes_or_is_dropped(log: pylog.Log) -> None:
    with member(log, acknowledgement="explicit") as consumer:
        consumer.poll(WAIT_MS)
    dropped = member(log, acknowledgement="explicit")
    assert found(dropped.poll(WAIT_MS)) == [(b"%d" % number, 2) for number in range(6)]
    with pytest.warns(ResourceWarning, match="a share consumer of group 'g'"):
        del dropped
    settle()
    assert log.admin.list_groups()[0].state == "Empty"
    with member(log) as consumer:
        assert len(consumer.poll(WAIT_MS)) == 6


def test_a_close_accepts_what_was_given(log: pylog.Log) -> None:
    consumer = member(log)
    consumer.poll(WAIT_MS)
    consumer.close()
    consumer.close()
    assert left(log) == 0
    with pytest.raises(errors.Closed):
        consumer.poll(0)
    assert repr(consumer).endswith(", closed>")


def test_a_log_that_closes_closes_its_consumers() -> None:
    with pylog.open(":memory:") as log:
        log.create_topic("t")
        consumer = member(log)
        consumer.poll(0)
    with pytest.raises(errors.Closed):
        consumer.poll(0)


def test_new_topics_are_read_and_topics_can_be_left(log: pylog.Log, clock: SimClock) -> None:
    with log.share_consumer("t", "later", group_id="g") as consumer:
        assert consumer.subscription() == {"t", "later"}
        assert len(consumer.poll(WAIT_MS)) == 6
        log.create_topic("later")
        fill(log, 2, "later")
        assert found(in_time(consumer, clock)) == [(b"0", 1), (b"1", 1)]
        consumer.unsubscribe()
        assert consumer.subscription() == set() and log.admin.list_groups()[0].state == "Empty"
        with pytest.raises(RuntimeError, match="reads nothing"):
            consumer.poll(0)
        fill(log, 1)
        consumer.subscribe(["t"])
        assert found(consumer.poll(WAIT_MS)) == [(b"0", 1)]


def test_a_group_of_another_protocol_takes_no_share_consumer(log: pylog.Log) -> None:
    with log.consumer("t", group_id="g", group_protocol="consumer") as other, member(log) as consumer:
        other.poll(0)
        with pytest.raises(errors.GroupIdNotFound):
            consumer.poll(WAIT_MS)


def test_wrong_calls_are_refused(log: pylog.Log) -> None:
    with pytest.raises(errors.InvalidConfig, match=r"group\.id"):
        log.share_consumer("t", group_id="")
    with pytest.raises(errors.InvalidConfig, match="implicit, explicit"):
        log.share_consumer("t", group_id="g", acknowledgement="later")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="one by one"):
        log.share_consumer(["t"], group_id="g")  # type: ignore[call-overload]
    with pytest.raises(errors.InvalidConfig, match="known to Kafka"):
        log.share_consumer("t", group_id="g", auto_offset_reset="earliest")  # type: ignore[call-overload]
    with pytest.raises(errors.InvalidTopic):
        log.share_consumer("no topic", group_id="g")
    with pytest.raises(errors.InvalidConfig, match="needs a group_id"):
        ShareConsumerConfig()
    with member(log) as consumer:
        with pytest.raises(TypeError, match="not pickled"):
            pickle.dumps(consumer)
        with pytest.raises(TypeError, match="not a number"):
            consumer.poll(float("nan"))
        with pytest.raises(ValueError, match="unsubscribe"):
            consumer.subscribe([])
        with pytest.raises(TypeError, match="cannot be called"):
            consumer.set_acknowledgement_commit_callback(3)  # type: ignore[arg-type]


# --- deserializers ----------------------------------------------------------------------------------------------------


def test_deserializers_make_values(log: pylog.Log) -> None:
    with log.share_consumer("t", group_id="g", value_deserializer=int) as consumer:
        assert [record.value for record in consumer.poll(WAIT_MS)] == [*range(6)]


def test_a_poison_record_is_named_and_can_be_rejected(log: pylog.Log) -> None:
    with log.producer() as producer:
        producer.send("t", b"poison")
        producer.send("t", b"7")
    with log.share_consumer("t", group_id="g", value_deserializer=int) as consumer:
        assert [record.value for record in consumer.poll(WAIT_MS)] == [*range(6)]
        with pytest.raises(errors.DeserializationError) as caught:
            consumer.poll(WAIT_MS)
        assert (caught.value.offset, caught.value.record.value) == (6, b"poison")
        consumer.acknowledge(caught.value.record, "reject")
        assert [record.value for record in consumer.poll(WAIT_MS)] == [7]
        assert consumer.poll(0) == []
    assert left(log) == 0


def test_a_poison_record_that_is_not_rejected_comes_again(log: pylog.Log) -> None:
    def strict(value: bytes) -> int:
        if value == b"0" and not forgiving:
            raise ValueError(value)
        return int(value)

    forgiving: list[bool] = []
    with log.share_consumer("t", group_id="g", value_deserializer=strict) as consumer:
        with pytest.raises(errors.DeserializationError):
            next(consumer)
        assert next(consumer).value == 1
        forgiving.append(True)
        consumer.poll(0)
        assert found(consumer.poll(WAIT_MS)) == [(0, 2)]


# --- signals, threads, time -------------------------------------------------------------------------------------------


def test_a_poll_can_be_woken() -> None:
    with pylog.open(":memory:") as log:
        log.create_topic("t")
        with member(log) as consumer:
            threading.Timer(0.01, consumer.wakeup).start()
            with pytest.raises(errors.Wakeup):
                consumer.poll(WAIT_MS)
            consumer.wakeup()
            with pytest.raises(errors.Wakeup):
                consumer.poll(0)


def test_a_deserializer_that_is_interrupted_loses_nothing(log: pylog.Log) -> None:
    def interrupted(value: bytes) -> bytes:
        if value == b"3" and not was:
            was.append(True)
            signal.raise_signal(signal.SIGINT)
        return value

    was: list[bool] = []
    with log.share_consumer("t", group_id="g", value_deserializer=interrupted) as consumer:
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(WAIT_MS)
        assert found(consumer.poll(WAIT_MS)) == [(b"%d" % number, 1) for number in range(6)]


def test_one_thread_at_a_time(log: pylog.Log) -> None:
    with member(log) as consumer, consumer._turn:
        caught: list[BaseException] = []

        def use() -> None:
            try:
                consumer.subscription()
            except errors.ConcurrentUse as error:
                caught.append(error)

        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
        assert caught


# --- by a network -----------------------------------------------------------------------------------------------------


def test_a_share_consumer_by_a_network() -> None:
    with pylog.serve(":memory:") as server, pylog.connect(server.bootstrap_servers) as log:
        log.create_topic("t")
        log.admin.alter_group_config("g", {"share.auto.offset.reset": "earliest"})
        with log.producer() as producer:
            for number in range(3):
                producer.send("t", b"%d" % number)
        with member(log) as consumer:
            records = consumer.poll(WAIT_MS)
            assert found(records) == [(b"%d" % number, 1) for number in range(3)]
            consumer.acknowledge(records[0], "release")
            assert consumer.commit_sync() == {T0: None}
            assert found(consumer.poll(WAIT_MS)) == [(b"0", 2)]
        with member(log) as other:
            assert other.poll(0) == []


def test_a_batch_that_is_acquired_little_by_little_is_decoded_once(log: pylog.Log) -> None:
    log.topic("t")[0].append([pylog.Record(b"%d" % number) for number in range(6, 12)])
    with member(log, max_poll_records=1, share_acquire_mode="record_limit") as consumer:
        values = [next(consumer).value for _ in range(6)]
        raw = []
        for _ in range(6):
            record = next(consumer)
            values.append(record.value)
            raw.append(record.value)
            if record.value == b"8" and record.delivery_count == 1:
                consumer.acknowledge(record, "release")
        assert values[:8] == [b"%d" % number for number in range(8)]
        assert raw.count(b"8") == 2
    assert left(log) <= 1


def test_a_node_that_claims_too_much_is_not_believed() -> None:
    acquired = [AcquiredRecords(first_offset=0, last_offset=1 << 62, delivery_count=1)]
    found = AcquiredBatches(T0, ShareConsumerConfig(group_id="g")).found(memoryview(b""), acquired)
    assert found[:2] == ([], {}) and isinstance(found[2], errors.UnknownServer)


def test_damaged_records_are_rejected(log: pylog.Log) -> None:
    data = bytearray(encode([(b"a", None, 0, ()), (b"b", None, 0, ())], now_ms=0).data)
    data[-1] ^= 1
    config = ShareConsumerConfig(group_id="g")
    acquired = [AcquiredRecords(first_offset=0, last_offset=1, delivery_count=1)]
    records, types, error = AcquiredBatches(T0, config).found(memoryview(data), acquired)
    assert (records, types) == ([], {0: REJECT, 1: REJECT}) and isinstance(error, errors.CorruptBatch)


def test_what_compaction_has_taken_before_damage_is_a_gap(log: pylog.Log) -> None:
    whole, damaged = (bytearray(encode([(b"a", None, 0, ())], now_ms=0).data) for _ in range(2))
    whole[7], damaged[7] = 1, 2
    damaged[-1] ^= 1
    acquired = [AcquiredRecords(first_offset=0, last_offset=2, delivery_count=1)]
    batches = AcquiredBatches(T0, ShareConsumerConfig(group_id="g"))
    records, types, error = batches.found(memoryview(whole + damaged), acquired)
    assert [record.offset for record, _ in records] == [1] and types == {0: GAP, 2: REJECT}
    assert isinstance(error, errors.CorruptBatch)


def test_a_record_shows_itself_in_a_notebook(log: pylog.Log) -> None:
    with member(log) as consumer:
        assert "<table" in consumer.poll(WAIT_MS)[0]._repr_html_()
