"""The step from one segment to the next."""

import errno

import pytest

from pylog.errors import DiskFull, PartitionFailed, StorageError
from pylog.files import MemoryFiles
from pylog.protocol.batch import encode
from pylog.record import Record
from pylog.storage.producer_state import snapshot_offsets
from support.partition_log import DIRECTORY, NOW, Log
from tests.support.faults import FaultFiles


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment, _ in log.partition.segments]


def test_an_empty_segment_stays_the_active_one() -> None:
    log = Log()
    assert [log.partition.roll(NOW), log.partition.roll(NOW)] == [0, 0]
    log.append("a")
    assert [log.partition.roll(NOW), log.partition.roll(NOW)] == [1, 1]
    assert bases(log) == [0, 1] and snapshot_offsets(log.files, DIRECTORY) == [1]


def test_a_roll_makes_what_it_seals_durable() -> None:
    log = Log()
    log.append("a")
    assert log.partition.durable_offset == 0
    log.partition.roll(NOW)
    sealed, active = (segment for segment, _ in log.partition.segments)
    assert not sealed.is_active and sealed.on_disk.sealed_end == 1 and active.is_active


def test_a_follower_begins_a_segment_behind_a_gap_where_the_batch_begins() -> None:
    log = Log(segment_bytes=200)
    log.append("a" * 100)
    batch = encode([Record(b"b" * 100, timestamp=NOW)], now_ms=NOW, base_offset=7, leader_epoch=0)
    log.partition.append_follower(bytes(batch.data), epoch=0, now_ms=NOW)
    assert bases(log) == [0, 7] and snapshot_offsets(log.files, DIRECTORY) == [7]
    log.partition.advance_high_watermark(8)
    assert [batch.base_offset for batch in log.batches(0)] == [0, 7]
    assert log.reopen().next_offset == 8


def test_a_roll_without_room_leaves_the_segment_active() -> None:
    files = FaultFiles(MemoryFiles())
    log = Log(files)
    log.append("a")
    files.faults.error, files.faults.once = errno.ENOSPC, False
    files.faults.fail_at = len(files.sites) + 1
    with pytest.raises(DiskFull):
        log.partition.roll(NOW)
    files.heal()
    assert bases(log) == [0] and snapshot_offsets(files, DIRECTORY) == []
    log.append("b")
    assert log.values() == ["a", "b"] and log.partition.roll(NOW) == 2


def test_a_roll_that_the_disk_refuses_latches() -> None:
    files = FaultFiles(MemoryFiles())
    log = Log(files)
    log.append("a")
    files.faults.error, files.faults.once = errno.EIO, False
    files.faults.fail_at = len(files.sites) + 1
    with pytest.raises(StorageError):
        log.partition.roll(NOW)
    files.heal()
    with pytest.raises(PartitionFailed):
        log.append("b")
