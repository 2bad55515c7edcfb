"""What goes at the end of a log, and what is left of its offsets, epochs and producers."""

import errno

import pytest

from pylog.errors import PartitionFailed, StorageError
from pylog.files import MemoryFiles
from pylog.storage.producer_state import Producers, snapshot_name, snapshot_offsets
from support.partition_log import DAY, DIRECTORY, NOW, UNCLEAN, Log
from tests.support.faults import FaultFiles


def numbered(count: int, **config: object) -> Log:
    """A log of so many batches of producer 5, each a second newer than the one before; all but the first are plain."""
    log = Log(**config)  # type: ignore[arg-type]
    for number in range(count):
        at = NOW + 1000 * number
        log.append(str(number), timestamp=at, producer_id=5, producer_epoch=0, base_sequence=number)
    return log


def last_batch(log: Log) -> tuple[int, ...]:
    return log.partition.producers.entries()[5].batches[-1]


@pytest.mark.parametrize("end", [1, 2, 3])
def test_after_a_truncation_producers_are_what_the_log_says(end: int) -> None:
    log = numbered(4)
    assert log.partition.truncate(end, NOW)
    assert last_batch(log) == (end - 1, end - 1, end - 1, end - 1, NOW + 1000 * (end - 1))
    log.append("again", producer_id=5, producer_epoch=0, base_sequence=end)
    assert log.partition.producers.entries()[5][:3] == log.replayed().entries()[5][:3]


@pytest.mark.parametrize("how", ["roll", "close"])
def test_a_snapshot_says_what_lies_below_its_offset(how: str) -> None:
    log = numbered(3)
    log.partition.roll(NOW) if how == "roll" else log.partition.close()
    assert snapshot_offsets(log.files, DIRECTORY) == [3]
    loaded = Producers("t-0")
    loaded.load(log.files.read_file(f"{DIRECTORY}/{snapshot_name(3)}"), 3, NOW)
    assert loaded.entries()[5].batches == (last_batch(log),) and last_batch(log)[3] == 2


def test_a_log_without_producers_is_not_read_for_them() -> None:
    """UnifiedLog.rebuildProducerState: those that have expired stay unknown."""
    log = numbered(4)
    assert log.partition.expire_producers(NOW + 2 * DAY) == [5]
    log.partition.truncate(2, NOW + 2 * DAY)
    assert log.partition.producers.entries() == {}
    assert log.append("any", producer_id=5, producer_epoch=0, base_sequence=40).base_offset == 2


def test_a_truncation_at_the_end_or_behind_it_drops_nothing() -> None:
    log = numbered(2)
    for offset in (2, 7):
        assert not log.partition.truncate(offset, NOW)
    assert log.values() == ["0", "1"] and not log.partition.is_cut


def test_after_a_truncation_inside_a_batch_the_whole_batches_are_durable() -> None:
    log = Log()
    log.append("a")
    log.append("b", "c", "d")
    log.partition.sync()
    assert log.partition.truncate(3, NOW)
    assert (log.values(), log.partition.next_offset, log.partition.durable_offset) == (["a"], 3, 1)
    log.append("e")
    assert [batch.base_offset for batch in log.batches()] == [0, 3]


def test_a_truncation_below_the_first_segment_begins_the_log_anew() -> None:
    log = Log()
    log.fill(60)
    log.partition.delete_records(50)
    log.partition.apply_retention(NOW)
    assert log.partition.segments[0][0].base_offset > 10
    assert log.partition.truncate(10, NOW)
    partition = log.partition
    assert (partition.start_offset, partition.high_watermark, partition.next_offset) == (10, 10, 10)
    assert log.append("a").base_offset == 10 and log.reopen(UNCLEAN).next_offset == 11


def test_a_truncation_takes_back_leader_epochs_and_the_high_watermark() -> None:
    log = Log()
    log.append("a", epoch=1)
    log.append("b", epoch=4)
    log.partition.truncate(1, NOW)
    assert log.partition.epochs.entries == [(1, 0)] and log.partition.high_watermark == 1
    log.append("c", epoch=2)
    assert log.partition.epochs.entries == [(1, 0), (2, 1)]


def test_an_empty_last_segment_is_dropped_where_it_follows_the_one_before() -> None:
    log = Log()
    log.append("a")
    assert log.partition.roll(NOW) == 1
    log.partition.drop_empty_tail()
    assert [(segment.base_offset, end) for segment, end in log.partition.segments] == [(0, 1)]
    log.append("b")
    assert log.values() == ["a", "b"]


def test_a_truncation_needs_no_room_on_the_disk() -> None:
    files = FaultFiles(MemoryFiles())
    log = Log(files)
    values = log.fill(40)
    files.faults.error, files.faults.once, files.faults.fail_at = errno.ENOSPC, False, len(files.sites) + 1
    assert log.partition.truncate(20, NOW)
    files.heal()
    assert log.values() == values[:20] and log.append("a").base_offset == 20


def test_a_truncation_that_the_disk_refuses_latches_or_has_changed_nothing() -> None:
    latched = 0
    for call in range(1, 100):
        files = FaultFiles(MemoryFiles())
        log = Log(files)
        values = log.fill(40)
        files.faults.error, files.faults.once, files.faults.fail_at = errno.EIO, False, len(files.sites) + call
        try:
            log.partition.truncate(20, NOW)
            break
        except StorageError:
            files.heal()
        if not log.partition.failed:
            assert log.values() == values and not log.partition.is_cut
            continue
        latched += 1
        with pytest.raises(PartitionFailed):
            log.append("a")
    assert 1 < latched < 98
