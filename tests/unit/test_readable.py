"""Looking for a time where records of that time were deleted, and what a partition is called."""

from pathlib import Path

import pytest

import pylog
from bugs.partition_log import NOW, Log
from pylog.errors import OffsetOutOfRange
from pylog.readable import ReadablePartition
from pylog.segment import TimestampAndOffset


def made(*times: int) -> Log:
    """One segment for each time."""
    log = Log(retention_ms=-1)
    for time in times:
        log.append("x", timestamp=NOW + time)
        log.partition.roll(NOW)
    return log


def test_a_time_is_found_behind_the_start_though_older_segments_have_it_too() -> None:
    log = made(5, 1, 1, 5, 0)
    partition = log.partition
    assert partition.offset_for_time(NOW + 3, upto=5) == TimestampAndOffset(NOW + 5, 0, 0)
    partition.delete_records(1)
    # The files of what was deleted are there still, and so are the two segments of older records before the next.
    assert len(partition.segments) == 6
    assert partition.offset_for_time(NOW + 3, upto=5) == TimestampAndOffset(NOW + 5, 3, 0)
    assert partition.offset_for_time(NOW + 3, upto=3) is None
    assert partition.offset_for_time(NOW + 6, upto=5) is None


def test_the_largest_time_is_that_of_the_first_batch_that_has_it() -> None:
    log = made(1, 5, 2, 5)
    assert log.partition.max_timestamp(4) == TimestampAndOffset(NOW + 5, 1, 0)
    assert [segment.largest_timestamp_offset for segment, _ in log.partition.segments] == [0, 1, 2, 3, 4]


def test_partitions_and_segments_say_what_they_are() -> None:
    log = made(1, 2)
    assert repr(log.partition) == "<Partition t-0 [0, 2)>"
    assert repr(log.partition.segments[1][0]) == "<Segment log/t-0/00000000000000000001.log>"


def test_a_partition_without_files_is_empty_for_whoever_reads_it() -> None:
    partition = ReadablePartition("log/t-0", "t", 0)
    assert (partition.start_offset, partition.last_stable_offset, partition.high_watermark) == (0, 0, 0)
    assert (partition.segments, partition.size) == ([], 0)
    assert partition.read(0, 1, upto=0) is None and partition.read_stable(0, 1, upto=0) == (None, [])
    assert partition.offset_for_time(NOW, upto=0) is None and partition.max_timestamp(0) is None
    with pytest.raises(OffsetOutOfRange):
        partition.read(1, 1, upto=0)


def test_a_reader_finds_nothing_in_a_topic_that_was_never_written_to(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as owner:
        owner.create_topic("t")
        assert not (tmp_path / "t-0").exists()
        with pylog.open(tmp_path, mode="read") as reader:
            consumer = reader.consumer("t", auto_offset_reset="earliest", isolation_level="read_committed")
            assert consumer.poll(timeout_ms=0) == []
            consumer.close()
