"""One segment: big batches behind each other, bounds, damage in the middle of a file."""

from collections.abc import Iterable
from uuid import UUID

import pytest

from pylog.config import TopicConfig
from pylog.errors import CorruptBatch
from pylog.files import MemoryFiles
from pylog.kernel import Record
from pylog.partition import Partition
from pylog.protocol.batch import encode, split

NOW = 1_700_000_000_000


def made(sizes: Iterable[int], **config: int) -> Partition:
    overrides = {name.replace("_", "."): str(value) for name, value in config.items()}
    topic = TopicConfig.loaded({"max.message.bytes": str(1 << 26)} | overrides)
    partition = Partition(MemoryFiles(), "log/t-0", "t", 0, topic)
    partition.create(UUID(int=7), NOW)
    for size in sizes:
        partition.append(encode([Record(b"x" * size, timestamp=NOW)] * 3, now_ms=NOW), epoch=0, now_ms=NOW)
    return partition


@pytest.mark.parametrize("max_bytes", [1, 1000, 1 << 20])
def test_batches_larger_than_any_window_are_stepped_over(max_bytes: int) -> None:
    partition = made([10, 1_500_000, 10, 900_000, 10], segment_bytes=1 << 30, index_interval_bytes=1 << 30)
    for offset in range(partition.next_offset):
        found = partition.read(offset, max_bytes, upto=partition.next_offset)
        assert found is not None
        first = next(split(found.data))
        assert first.base_offset <= offset < first.next_offset


@pytest.mark.parametrize("interval", [4096, 1 << 30])
def test_a_read_that_goes_on_takes_little_of_the_batch_that_is_too_many(interval: int) -> None:
    partition = made([40_000] * 8, segment_bytes=1 << 30, index_interval_bytes=interval)
    batch = partition.size // 8
    offset, read = 0, []
    for max_bytes in (batch, batch * 5 // 2, batch // 2, batch * 5):
        found = partition.read(offset, max_bytes, upto=partition.next_offset)
        assert found is not None and isinstance(found.data.obj, bytes)
        read.append((len(found.data) // batch, len(found.data.obj)))
        offset = found.next_offset
    assert [batches for batches, _ in read] == [1, 2, 1, 4]
    if interval == 4096:
        assert [size for _, size in read] == [batch + 4096, 2 * batch + 4096, batch, 4 * batch]


def test_a_read_ends_before_upto_whatever_follows() -> None:
    partition = made([100] * 4)
    segment = partition.segments[0][0]
    file = partition.files.open(segment.path)
    batch = file.size() // 4
    file.write(2 * batch, b"\0" * 2 * batch)
    for max_bytes in (1, batch, 10_000):
        found = segment.reader.read(0, max_bytes, upto=6)
        assert found is not None and found.data.nbytes in (batch, 2 * batch)
    with pytest.raises(CorruptBatch) as caught:
        segment.reader.read(6, 1000, upto=12)
    assert (caught.value.path, caught.value.position) == (segment.path, 2 * batch)


def test_a_file_that_ends_inside_a_batch_is_damaged() -> None:
    partition = made([100] * 4, segment_bytes=1000, index_interval_bytes=0)
    sealed = partition.segments[0][0]
    assert len(partition.segments) > 1
    size = sealed.size
    partition.files.open(sealed.path).truncate(size - 10)
    with pytest.raises(CorruptBatch, match="too few for the batch they begin") as caught:
        offset = 0
        while offset < partition.next_offset:
            found = partition.read(offset, 1, upto=partition.next_offset)
            assert found is not None
            offset = list(split(found.data))[-1].next_offset
    assert caught.value.path == sealed.path


def test_a_reader_that_stopped_before_a_cut_does_not_go_on_in_the_middle() -> None:
    """Where the last read ended is remembered; after a truncation there may be something else."""
    partition = made([100, 100, 100])
    assert partition.read(0, 1 << 20, upto=6) is not None
    partition.truncate(3, NOW)
    for size in (10, 300, 10):
        partition.append(encode([Record(b"y" * size)] * 3, now_ms=NOW), epoch=0, now_ms=NOW)
    for offset in range(partition.next_offset):
        found = partition.read(offset, 1, upto=partition.next_offset)
        assert found is not None
        first = next(split(found.data, check_crc=True))
        assert first.base_offset <= offset < first.next_offset


def test_the_largest_offset_and_the_largest_distance_fit() -> None:
    partition = made([])
    partition.truncate_fully(2**62, NOW)
    partition.append(encode([Record(b"x", timestamp=NOW)], now_ms=NOW), epoch=0, now_ms=NOW)
    jump = encode([Record(b"far", timestamp=NOW)], now_ms=NOW, base_offset=2**62 + 2**31, leader_epoch=0)
    partition.append_follower(bytes(jump.data), epoch=0, now_ms=NOW)
    assert [segment.base_offset for segment, _ in partition.segments] == [2**62, 2**62 + 2**31]
    found = partition.read(2**62 + 1, 100, upto=partition.next_offset)
    assert found is not None and next(split(found.data)).base_offset == 2**62 + 2**31
    partition.check()
