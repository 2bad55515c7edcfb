"""Bugs that clients of others had, played against ours."""

from pathlib import Path
from typing import Literal

import pytest

import pylog
from pylog import Record, TopicPartition, errors

T0 = TopicPartition("t", 0)


def cut_log(path: Path, *, with_more: bool) -> None:
    """A log whose records from 5 on were read and committed to 10, and are lost then, as in a power cut."""
    with pylog.open(path, flush="none") as log:
        view = log.create_topic("t")[0]
        for number in range(10):
            view.append([Record(b"old %d" % number)])
        with log.consumer(group_id="g", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["t"])
            while consumer.lag() != {T0: 0}:
                consumer.poll(1000)
            consumer.commit()
    with pylog.open(path, flush="none") as log:
        log.broker.partition("t", 0).truncate(5, 0)
        if with_more:
            log.topic("t")[0].append([Record(b"new %d" % number) for number in range(10)])


@pytest.mark.parametrize("reset", ["latest", "earliest"])
@pytest.mark.parametrize("with_more", [True, False])
def test_75_a_consumer_behind_a_cut_goes_back_to_the_cut(tmp_path: Path, reset: str, *, with_more: bool) -> None:
    """KIP-320: it went on at its offset, and what was written over the lost records was skipped without a word."""
    cut_log(tmp_path, with_more=with_more)
    with pylog.open(tmp_path) as log, log.consumer(group_id="g", auto_offset_reset=reset) as consumer:
        consumer.subscribe(["t"])
        log.topic("t")[0].append([Record(b"last")])
        given: list[bytes | None] = []
        while b"last" not in given:
            given += [record.value for record in consumer.poll(1000)]
    assert given == [*([b"new %d" % number for number in range(10)] if with_more else []), b"last"]


def test_75_a_consumer_without_reset_hears_where_the_log_was_cut(tmp_path: Path) -> None:
    cut_log(tmp_path, with_more=True)
    with pylog.open(tmp_path) as log, log.consumer(group_id="g", auto_offset_reset="none") as consumer:
        consumer.subscribe(["t"])
        for _ in range(2):
            with pytest.raises(
                errors.LogTruncation, match="t-0 was cut at offset 5, and the position was 10"
            ) as caught:
                while True:
                    assert consumer.poll(1000) == []
        consumer.seek(T0, caught.value.offset)
        assert [record.value for record in consumer.poll(60_000)] == [b"new %d" % number for number in range(10)]


@pytest.mark.parametrize("linger_ms", [0, 5])
def test_a_callback_that_ends_the_program_ends_no_thread_of_the_log(tmp_path: Path, linger_ms: int) -> None:
    """sys.exit() in on_delivery ended the thread that answers for everybody: nothing was ever answered again."""

    def give_up(where: object, error: object) -> None:
        raise SystemExit

    with pylog.open(tmp_path) as log:
        log.create_topic("t")
        with log.producer(linger_ms=linger_ms) as first, log.producer() as second:
            for _ in range(3):
                future = first.send("t", b"1", on_delivery=give_up)
                assert future.result().partition == 0
                assert second.send("t", b"2", on_delivery=lambda *_: None).result().partition == 0


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_topic_that_grows_is_read_on_by_its_readers(protocol: Literal["classic", "consumer"]) -> None:
    """Whoever was given a partition that it had not heard of yet raised UnknownTopicOrPartition in each poll."""
    with pylog.open(":memory:") as log:
        log.create_topic("t", partitions=3)
        one, other = (
            log.consumer("t", group_id="g", group_protocol=protocol, auto_offset_reset="earliest", client_id=name)
            for name in ("one", "other")
        )
        with one, other:
            for partitions in (3, 6, 9):
                if partitions > 3:
                    log.admin.create_partitions("t", partitions)
                    log.topic("t")[partitions - 1].append([Record(b"v")])
                while len({*one.assignment(), *other.assignment()}) < partitions:
                    one.poll(20)
                    other.poll(20)
