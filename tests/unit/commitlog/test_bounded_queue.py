"""A partition with a bound: what an append gets when it is full."""

import threading
from pathlib import Path

import pytest

import pylog
from pylog import Record, TopicPartition, errors
from pylog.kernel import Appended
from pylog.protocol.batch import encode

KEY = TopicPartition("q", 0)
BOUND = 10_000


def opened(policy: str, path: "Path | str" = ":memory:") -> pylog.Log:
    log = pylog.open(path)
    log.create_topic("q", config={"retention.bytes": BOUND, "pylog.full.policy": policy})
    return log


def fill(log: pylog.Log) -> int:
    count = 0
    with pytest.raises(errors.PartitionFull, match="delete records that are done with"):
        while True:
            log.topic("q")[0].append([Record(b"x" * 500)])
            count += 1
    return count


def test_raise_refuses_at_once_and_goes_on_when_records_were_deleted(tmp_path: Path) -> None:
    with opened("raise", tmp_path) as log:
        count = fill(log)
        assert count >= BOUND * 0.8 // 570 and log.topic("q")[0].size <= BOUND
        assert log.apply_retention() == {}
        log.delete_records({KEY: count // 2})
        assert fill(log) >= count // 4
        log.delete_records({KEY: -1})
        assert fill(log) == count
        with log.producer(linger_ms=0) as producer:
            future = producer.send("q", b"y" * 500)
            with pytest.raises(errors.PartitionFull):
                future.result()
            assert errors.PartitionFull("").retriable


def test_nothing_is_dropped_for_its_size_but_by_the_default_policy() -> None:
    with opened("drop-oldest") as log:
        for _ in range(100):
            log.topic("q")[0].append([Record(b"x" * 500)])
            log.broker.partition("q", 0).roll(0)
        assert log.apply_retention()[KEY] > 50
        assert log.topic("q")[0].size <= BOUND + 1000


def test_block_waits_for_room() -> None:
    with opened("block") as log:
        view = log.topic("q")[0]
        sent = []

        def send() -> None:
            for i in range(60):
                view.append([Record(b"%d" % i + b"x" * 500)])
                sent.append(i)

        sender = threading.Thread(target=send)
        sender.start()
        seen: list[bytes] = []
        with log.consumer("q", auto_offset_reset="earliest") as consumer:
            while len(seen) < 60:
                for record in consumer.poll(timeout_ms=10_000, max_records=5):
                    seen.append(bytes(record.value or b"").rstrip(b"x"))
                    assert view.size <= BOUND
                log.delete_records({KEY: consumer.position(KEY)})
        sender.join()
        assert seen == [b"%d" % i for i in range(60)] and sent == list(range(60))


def test_block_gives_up_when_its_time_is_up() -> None:
    with opened("block") as log, log.producer(request_timeout_ms=100, linger_ms=0) as producer:

        def send_too_much() -> None:
            for _ in range(100):
                producer.send("q", b"x" * 500).result()

        with pytest.raises(errors.PartitionFull):
            send_too_much()


def test_a_repetition_is_answered_where_there_is_no_room_for_anything_new() -> None:
    with opened("raise") as log:

        def append(sequence: int) -> Appended:
            batch = encode([Record(b"x" * 500)], now_ms=1, producer_id=5, producer_epoch=0, base_sequence=sequence)
            leader = log.broker.node.roles.writer("q", 0)
            return leader.append(batch, 1)

        sequence = 0
        with pytest.raises(errors.PartitionFull):
            for sequence in range(BOUND):
                last = append(sequence)
        repeated = append(sequence - 1)
        assert repeated.duplicate
        assert (repeated.base_offset, repeated.next_offset) == (last.base_offset, last.next_offset)


def test_a_batch_that_is_refused_is_as_it_was() -> None:
    """A client's batch has no offset: it may be sent again, and to another partition."""
    with opened("raise") as log:
        fill(log)
        partition, batch = log.broker.partition("q", 0), encode([Record(b"x" * 500, timestamp=1)], now_ms=1)
        assert partition.next_offset > 0 and batch.base_offset == 0
        with pytest.raises(errors.PartitionFull):
            partition.append(batch, epoch=0, now_ms=1)
        assert batch.base_offset == 0
