"""Looking for a time, and for the end of a cut, in segments that are damaged, large, or begin inside a batch."""

import random
import tracemalloc

import pytest

from pylog.errors import CorruptBatch
from pylog.kernel import Record
from pylog.protocol.batch import encode
from pylog.segment import Segment
from pylog.storage.file_ranges import DamagedRange
from pylog.storage.segment_reader import TimestampAndOffset
from support.partition_log import DIRECTORY, NOW, Log


def made(*batches: tuple[int, ...]) -> Log:
    """A batch of records for each tuple of times, and no index entry for any."""
    log = Log(segment_bytes=100 << 20, index_interval_bytes=50 << 20)
    for times in batches:
        log.put(encode([Record(b"x", b"k", NOW + time) for time in times], now_ms=NOW))
    return log


def first_batch_end(segment: Segment) -> int:
    (window,) = segment.scan(check_crc=True)
    return window.spans[0].size


def found(offset: int, time: int) -> TimestampAndOffset:
    return TimestampAndOffset(NOW + time, offset, 0)


def test_records_of_a_batch_outside_the_bounds_are_not_found() -> None:
    partition = made((5, 0), (0, 5), (5,)).partition
    segment = partition.segments[0][0]
    assert segment.reader.offset_for_time(NOW + 5, first=0, upto=5) == found(0, 5)
    assert segment.reader.offset_for_time(NOW + 5, first=1, upto=5) == found(3, 5)
    assert segment.reader.offset_for_time(NOW + 5, first=1, upto=3) is None
    assert segment.reader.offset_for_time(NOW + 5, first=4, upto=5) == found(4, 5)
    assert segment.reader.offset_for_time(NOW + 6, first=0, upto=5) is None


def test_a_time_behind_damage_is_not_told() -> None:
    log = made((1,), (2,), (3,))
    segment = log.partition.segments[0][0]
    end = first_batch_end(segment)
    log.files.open(segment.path).write(2 * end - 1, b"\xff")
    assert segment.reader.offset_for_time(NOW + 1, first=0, upto=3) == found(0, 1)
    with pytest.raises(CorruptBatch) as caught:
        segment.reader.offset_for_time(NOW + 3, first=0, upto=3)
    assert (caught.value.path, caught.value.position, caught.value.offset) == (segment.path, end, 1)


def test_a_time_may_have_been_in_a_part_that_is_known_to_be_damaged() -> None:
    log = made((1,), (2,), (3,))
    segment = log.partition.segments[0][0]
    end = first_batch_end(segment)
    segment.log.damages = (DamagedRange(end, 2 * end, 1, 2),)
    assert segment.reader.offset_for_time(NOW + 1, first=0, upto=3) == found(0, 1)
    assert segment.reader.offset_for_time(NOW + 3, first=2, upto=3) == found(2, 3)
    for time, upto in ((3, 3), (9, 3), (9, 2)):
        with pytest.raises(CorruptBatch, match="offsets 1 to 1 are damaged"):
            segment.reader.offset_for_time(NOW + time, first=0, upto=upto)
    assert segment.reader.offset_for_time(NOW + 9, first=0, upto=1) is None


def test_a_batch_that_says_it_reaches_into_the_next_segment_ends_the_search() -> None:
    log = made((1,), (2,))
    log.partition.roll(NOW)
    log.append("x", timestamp=NOW + 9)
    segment = log.partition.segments[0][0]
    log.files.open(segment.path).write(first_batch_end(segment), (7).to_bytes(8, "big"))
    with pytest.raises(CorruptBatch, match="ends at offset 7, and the segment ends before 2") as caught:
        log.partition.offset_for_time(NOW + 2, upto=3)
    assert (caught.value.path, caught.value.offset) == (segment.path, 7)


def test_the_largest_time_is_read_from_the_log_without_a_good_index() -> None:
    log = made((5, 7), (3,))
    assert log.partition.close()
    path = f"{DIRECTORY}/{0:020d}.timeindex"
    assert len(log.files.read_file(path)) > 0
    log.files.replace_file(path, b"")
    segment = Segment(log.files, DIRECTORY, 0, log.config, active=False)
    assert (segment.largest_timestamp, segment._largest()[1]) == (NOW + 7, 1)


def test_a_cut_is_found_behind_more_than_one_window() -> None:
    log = Log(segment_bytes=100 << 20, index_interval_bytes=50 << 20)
    values = log.fill(8, size=400_000)
    assert log.partition.segments[0][0].offsets.entries == 0
    log.partition.truncate(6, NOW)
    assert (log.values(), log.partition.next_offset) == (values[:6], 6)
    log.partition.check()


def test_a_changed_transaction_index_is_not_believed() -> None:
    log = Log()
    log.in_transaction("a", producer_id=5, sequence=0)
    log.end(5, commit=False)
    log.fill(40)
    log.partition.close()
    path = f"{DIRECTORY}/{0:020d}.txnindex"
    entry = bytearray(log.files.read_file(path))
    assert Segment(log.files, DIRECTORY, 0, log.config, active=False).aborted.collect(0, 42)[0][0].producer_id == 5
    entry[9] ^= 1
    log.files.replace_file(path, bytes(entry))
    with pytest.raises(CorruptBatch, match="not what it was when its segment was sealed") as caught:
        _ = Segment(log.files, DIRECTORY, 0, log.config, active=False).aborted
    assert caught.value.path == path


def test_a_time_is_found_however_large_the_batches_are() -> None:
    """Behind an index entry little is read at first, and more where that is not enough."""
    log = Log(segment_bytes=1 << 24, index_interval_bytes=4096)
    draw = random.Random(3)
    for number in range(60):
        log.append("x" * draw.choice((10, 3_000, 20_000, 70_000, 300_000)), timestamp=NOW + 10 * number)
    for number in range(60):
        found = log.partition.offset_for_time(NOW + 10 * number - 5, upto=60)
        assert found == TimestampAndOffset(NOW + 10 * number, number, 0)
    assert log.partition.offset_for_time(NOW + 591, upto=60) is None
    for number in (59, 40, 17, 1):
        log.partition.truncate(number, NOW)
        assert (log.partition.next_offset, log.partition.state.data_end) == (number, number)


def test_looking_for_a_time_reads_little_of_a_large_segment() -> None:
    log = Log(segment_bytes=1 << 24, index_interval_bytes=4096)
    for number in range(2_000):
        log.append("x" * 1_000, timestamp=NOW + number)
    tracemalloc.start()
    try:
        assert log.partition.offset_for_time(NOW + 700, upto=2_000) == TimestampAndOffset(NOW + 700, 700, 0)
        assert tracemalloc.get_traced_memory()[1] < 100_000, "at most a few batches behind the index entry"
    finally:
        tracemalloc.stop()
