"""A consumer among damage, pauses and ends."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog import Record, TopicPartition, errors
from pylog.batch import encode
from pylog.validate import Origin

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def log() -> Iterator[pylog.Log]:
    with pylog.open(":memory:") as opened:
        topic = opened.create_topic("t", partitions=2)
        for partition in topic:
            for start in range(0, 30, 10):
                partition.append([Record(b"%d" % i) for i in range(start, start + 10)])
        yield opened


def test_damage_costs_no_record_before_it(tmp_path: Path) -> None:
    """All good records of all partitions come first, then the error, again and again, until someone seeks past it."""
    with pylog.open(tmp_path) as log:
        topic = log.create_topic("t", partitions=2)
        for partition in topic:
            for i in range(4):
                partition.append([Record(b"%d" % i, timestamp=1)])
        path, batch = Path(topic[1].segments[0].path), topic[1].size // 4
    data = bytearray(path.read_bytes())
    data[2 * batch + 65] ^= 1
    path.write_bytes(data)
    with pylog.open(tmp_path) as log, log.consumer("t", auto_offset_reset="earliest") as consumer:
        seen: list[tuple[int, int]] = []
        for _ in range(20):
            try:
                seen += [(record.partition, record.offset) for record in consumer.poll(50)]
            except errors.CorruptBatch as error:
                assert (error.path, error.position, error.offset) == (str(path), 2 * batch, 2)
        assert sorted(seen) == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)]
        assert consumer.position(T1) == 2
        consumer.seek(T1, 3)
        assert [(record.partition, record.offset) for record in consumer.poll(50)] == [(1, 3)]
        view = log.topic("t")[1].records()
        assert [next(view).offset, next(view).offset] == [0, 1]
        with pytest.raises(errors.CorruptBatch) as caught:
            next(view)
        assert caught.value.offset == 2


def test_nothing_is_given_when_everything_is_paused(log: pylog.Log) -> None:
    with log.consumer("t", auto_offset_reset="earliest") as consumer:
        consumer.pause(T0, T1)
        assert consumer.paused() == {T0, T1}
        assert consumer.poll(20) == []
        consumer.resume(T0, T1)
        assert len(consumer.poll(1000)) == 60


def test_a_paused_partition_keeps_what_was_fetched(log: pylog.Log) -> None:
    with log.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([T0])
        assert len(consumer.poll(1000, max_records=5)) == 5
        consumer.pause(T0)
        assert consumer.poll(0) == []
        consumer.resume(T0)
        assert [record.offset for record in consumer.poll(0)] == list(range(5, 30))


def test_seeking_into_a_batch_skips_what_lies_before(log: pylog.Log) -> None:
    with log.consumer() as consumer:
        consumer.assign([T0])
        for offset in (0, 9, 10, 15, 29):
            consumer.seek(T0, offset)
            assert [record.offset for record in consumer.poll(1000)] == list(range(offset, 30))
        consumer.seek(T0, 30)
        assert consumer.poll(0) == [] and consumer.position(T0) == 30


def test_small_fetches_get_there_too(log: pylog.Log) -> None:
    with log.consumer("t", auto_offset_reset="earliest", max_partition_fetch_bytes=1, fetch_max_bytes=1) as consumer:
        seen = [(record.partition, record.offset) for _ in range(20) for record in consumer.poll(0)]
    assert sorted(seen) == [(p, o) for p in (0, 1) for o in range(30)]


def test_control_batches_are_stepped_over(log: pylog.Log) -> None:
    partition = log.broker.partition("t", 0)
    marker = encode([Record(b"\0" * 6, b"\0\0\0\1")], now_ms=1, control=True)
    partition.append(marker, epoch=0, now_ms=1, origin=Origin.RAFT_LEADER)
    partition.advance_high_watermark(partition.next_offset)
    log.topic("t")[0].append([Record(b"behind")])
    with log.consumer() as consumer:
        consumer.assign([T0])
        consumer.seek(T0, 29)
        assert [(record.offset, record.value) for record in consumer.poll(1000)] == [(29, b"29"), (31, b"behind")]
        assert [record.offset for record in log.topic("t")[0].records(29)] == [29, 31]
        consumer.seek(T0, 30)
        assert [record.offset for record in consumer.poll(1000)] == [31]


def test_a_topic_that_goes_is_an_error(log: pylog.Log) -> None:
    with log.consumer("t", auto_offset_reset="earliest") as consumer:
        consumer.poll(0)
        log.delete_topic("t")
        with pytest.raises(errors.UnknownTopicOrPartition, match="'t'"):
            consumer.poll(1000)


def test_subscribing_replaces_and_unsubscribing_ends(log: pylog.Log) -> None:
    log.create_topic("u")[0].append([Record(b"u")])
    with log.consumer("t", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["u"])
        assert consumer.subscription() == {"u"} and consumer.assignment() == {TopicPartition("u", 0)}
        with pytest.raises(errors.UnknownTopicOrPartition):
            consumer.subscribe(["nope"])
        assert [record.value for record in consumer.poll(1000)] == [b"u"]
        consumer.unsubscribe()
        assert consumer.assignment() == set() and consumer.poll(0) == []
        assert "t" in consumer.topics()


def test_misuse_is_told(log: pylog.Log) -> None:
    with log.consumer("t") as consumer:
        with pytest.raises(ValueError, match="negative"):
            consumer.seek(T0, -1)
        with pytest.raises(ValueError, match="max_records=0"):
            consumer.poll(0, max_records=0)
        with pytest.raises(ValueError, match="not assigned"):
            consumer.pause(TopicPartition("t", 7))
        with pytest.raises(ValueError, match="negative"):
            consumer.offsets_for_times({T0: -5})
        with pytest.raises(errors.UnknownTopicOrPartition):
            consumer.assign([TopicPartition("t", 7)])
        assert consumer.assignment() == {T0, T1}
    for use in (lambda: consumer.poll(0), lambda: consumer.seek(T0, 0), lambda: consumer.subscribe("t")):
        with pytest.raises(errors.Closed):
            use()


def test_a_loop_ends_when_its_consumer_is_closed(log: pylog.Log) -> None:
    seen = 0
    with log.consumer("t", auto_offset_reset="earliest") as consumer:
        for _ in consumer:
            seen += 1
            if seen == 5:
                consumer.close()
    assert seen == 5


@pytest.mark.parametrize("offset", [0.5, "1", None])
def test_a_position_is_a_whole_number(log: pylog.Log, offset: Any) -> None:
    with log.consumer("t") as consumer, pytest.raises(TypeError, match="offset is"):
        consumer.seek(T0, offset)
