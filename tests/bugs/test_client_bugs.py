"""Bugs that clients of others had, played against ours."""

from pathlib import Path

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
def test_75_a_consumer_behind_a_cut_goes_back_to_it(tmp_path: Path, reset: str, *, with_more: bool) -> None:
    """KIP-320: it went on at its offset, and what was written over the lost records was skipped without a word."""
    cut_log(tmp_path, with_more=with_more)
    with pylog.open(tmp_path) as log, log.consumer(group_id="g", auto_offset_reset=reset) as consumer:
        consumer.subscribe(["t"])
        log.topic("t")[0].append([Record(b"last")])
        given: list[bytes | None] = []
        while b"last" not in given:
            given += [record.value for record in consumer.poll(1000)]
    assert given == [*([b"new %d" % number for number in range(10)] if with_more else []), b"last"]


def test_75_who_wants_to_know_hears_where_the_log_was_cut(tmp_path: Path) -> None:
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
        assert [record.value for record in consumer.poll(1000)] == [b"new %d" % number for number in range(10)]
