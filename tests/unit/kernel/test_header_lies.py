"""Where a batch says that it lies is covered by no CRC: it has to follow from its neighbours."""

from pathlib import Path

import pytest

import pylog
from pylog import Record, TopicPartition
from pylog.errors import CorruptBatch
from pylog.partition import Checkpoint
from support.partition_log import NOW, Log


def lying(count: int, which: int, by: int) -> Log:
    """A log of so many batches of one record each, a second apart; one of them says another base offset."""
    log = Log(segment_bytes=4000)
    for number in range(count):
        log.append(f"{number}", timestamp=NOW + 1000 * number)
    log.partition.close()
    segment = log.partition.segments[0][0]
    for window in segment.scan(check_crc=False):
        span = window.spans[which]
        log.files.open(segment.path).write(window.position + span.position, (span.base_offset + by).to_bytes(8, "big"))
    log.reopen(Checkpoint(durable_offset=count, recovery_point=count, high_watermark=count))
    return log


@pytest.mark.parametrize("by", [1, 3])
def test_recovery_gives_up_only_the_batch_that_lies(by: int) -> None:
    log = lying(8, 3, by)
    partition = log.reopen(Checkpoint(durable_offset=8, recovery_point=0, high_watermark=8, clean=False))
    (lost,) = partition.quarantined
    assert (lost.offset, lost.next_offset) == (3, 4)
    assert log.values(4) == ["4", "5", "6", "7"]


def test_a_look_up_by_time_does_not_believe_a_false_header() -> None:
    partition = lying(8, 3, 1).partition
    with pytest.raises(CorruptBatch, match="offset 4"):
        partition.offset_for_time(NOW + 2500, upto=8)
    found = partition.offset_for_time(NOW + 500, upto=8)
    assert found is not None and found.offset == 1


@pytest.mark.parametrize("at", ["read", "time"])
def test_a_reader_does_not_believe_a_last_batch_that_ends_beyond_the_end(tmp_path: Path, at: str) -> None:
    with pylog.open(tmp_path) as log:
        log.create_topic("t")
        for number in range(3):
            log.topic("t")[0].append([Record(b"%d" % number, timestamp=NOW), Record(b"", timestamp=NOW)])
    path = tmp_path / "t-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    position = len(data) // 3 * 2
    data[position : position + 8] = (5).to_bytes(8, "big")
    path.write_bytes(data)
    with pylog.open(tmp_path, mode="read") as log, pytest.raises(CorruptBatch):
        if at == "read":
            list(log.topic("t")[0].records(4))
        else:
            with log.consumer() as consumer:
                consumer.offsets_for_times({TopicPartition("t", 0): NOW + 1})


def test_a_false_last_batch_is_compared_with_the_next_one() -> None:
    partition = lying(4, 1, 2).partition
    with pytest.raises(CorruptBatch, match="offset 2 does not follow 3 in this segment") as caught:
        partition.read(1, 1 << 20, upto=4)
    assert (caught.value.offset, caught.value.next_offset) == (1, 2)
