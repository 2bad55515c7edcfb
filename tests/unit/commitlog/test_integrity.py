"""`check()`: each invariant that can be broken is told, with the file and the place."""

import pytest

from pylog.commitlog.integrity import check_segment
from pylog.errors import CorruptBatch
from pylog.storage.transaction_index import AbortedTxn
from support.partition_log import NOW, Log


def made() -> Log:
    log = Log(segment_bytes=100_000, index_interval_bytes=0)
    log.fill(10)
    log.partition.check()
    return log


def test_a_batch_beyond_the_end_of_its_segment() -> None:
    log = made()
    segment, end = log.partition.segments[0]
    with pytest.raises(CorruptBatch, match="offset 6 is not below 6, where the next segment begins") as caught:
        check_segment(segment, 6)
    assert (caught.value.path, caught.value.offset) == (segment.path, 6)
    check_segment(segment, end)


def test_a_batch_that_fails_its_crc() -> None:
    log = made()
    segment, end = log.partition.segments[0]
    log.files.open(segment.path).write(segment.size - 1, b"\xff")
    with pytest.raises(CorruptBatch) as caught:
        check_segment(segment, end)
    assert (caught.value.path, caught.value.offset) == (segment.path, 9)


def test_an_index_entry_beside_a_batch() -> None:
    log = made()
    segment, end = log.partition.segments[0]
    segment.offsets.add(10, segment.size - 5)
    with pytest.raises(CorruptBatch, match="points beside a batch") as caught:
        check_segment(segment, end)
    assert (caught.value.path, caught.value.offset) == (segment.offsets.path, 10)
    assert caught.value.position == (segment.offsets.entries - 1) * 8


def test_a_time_index_entry_of_another_time() -> None:
    log = made()
    segment, end = log.partition.segments[0]
    segment.times.maybe_add(NOW + 5, 9)
    with pytest.raises(CorruptBatch, match="a timestamp its batch does not have") as caught:
        check_segment(segment, end)
    assert (caught.value.path, caught.value.offset) == (segment.times.path, 9)


def test_a_transaction_that_was_aborted_by_no_marker() -> None:
    log = made()
    segment, end = log.partition.segments[0]
    segment.aborted.append(AbortedTxn(7, 3, 12, 3))
    with pytest.raises(CorruptBatch, match="names a marker that is not here") as caught:
        check_segment(segment, end)
    assert (caught.value.path, caught.value.position) == (segment.aborted.path, 0)


def test_a_high_watermark_outside_the_log() -> None:
    log = made()
    log.partition.state.high_watermark = 11
    with pytest.raises(CorruptBatch, match=r"the high watermark 11 is outside \[0, 10\]"):
        log.partition.check()
