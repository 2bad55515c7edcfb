"""The files of a partition where there is no room for the next segment, or something lies in its place."""

import errno
from collections.abc import Iterator
from itertools import count

import pytest

from pylog.broker.log_cleaner import clean
from pylog.commitlog.deleted_segments import RETRY_MS
from pylog.errors import DiskFull, DurabilityUnknown, StorageError
from pylog.files import MemoryFiles
from pylog.partition import Checkpoint
from pylog.storage.segment_files import file_name
from support.partition_log import DIRECTORY, NOW, Log
from tests.support.faults import FaultFiles


def test_a_segment_that_has_no_room_leaves_nothing_behind_and_the_log_goes_on() -> None:
    refused = 0
    while True:
        files = FaultFiles(MemoryFiles(), error=errno.ENOSPC, once=False)
        log = Log(files, segment_bytes=100_000)
        log.fill(3)
        before = files.list_dir(DIRECTORY)
        # The disk gets full before one of the calls of the roll that need room.
        files.faults.fail_at = len(files.sites) + 1 + refused
        try:
            log.partition.roll(NOW)
        except DiskFull:
            refused += 1
        else:
            break
        new = [name for name in files.list_dir(DIRECTORY) if name not in before and name.startswith(file_name(3, ""))]
        assert not [name for name in new if not name.endswith(".snapshot")]
        files.heal()
        log.append("goes on")
        assert log.values()[3:] == ["goes on"]
        log.partition.check()
    assert refused >= 3
    assert [segment.base_offset for segment, _ in log.partition.segments] == [0, 3]


def test_indexes_left_in_the_place_of_a_new_segment_are_replaced() -> None:
    log = Log(segment_bytes=100_000)
    log.fill(3)
    for kind in (".index", ".timeindex"):
        log.files.open(f"{DIRECTORY}/{file_name(3, kind)}", create=True).write(0, b"left by a crash")
    log.partition.roll(NOW)
    log.append("x")
    log.partition.check()
    log.reopen(Checkpoint(clean=False, durable_offset=4))
    assert len(log.values()) == 4


def test_an_empty_tail_stays_where_the_segment_before_it_ends_earlier() -> None:
    log = Log(segment_bytes=100_000)
    log.fill(5)
    # Inside a batch of three: all of it goes, and the log goes on behind the gap.
    log.append("a", "b", "c")
    log.partition.truncate(7, NOW)
    log.partition.roll(NOW)
    assert [segment.base_offset for segment, _ in log.partition.segments] == [0, 7]
    log.partition.drop_empty_tail()
    assert [segment.base_offset for segment, _ in log.partition.segments] == [0, 7]
    assert log.append("next").base_offset == 7


def test_an_empty_tail_goes_where_nothing_is_missing_before_it() -> None:
    log = Log(segment_bytes=100_000)
    log.fill(5)
    log.partition.roll(NOW)
    log.partition.drop_empty_tail()
    assert [segment.base_offset for segment, _ in log.partition.segments] == [0]
    log.append("next")
    log.partition.drop_empty_tail()
    assert len(log.values()) == 6
    log.partition.check()


def test_a_roll_costs_the_same_however_many_came_before_it_without_a_sync() -> None:
    files = FaultFiles(MemoryFiles())
    log = Log(files)
    calls = []
    for _ in range(40):
        log.append("x")
        before = len(files.sites)
        log.partition.roll(NOW)
        calls.append(len(files.sites) - before)
    assert calls[-1] == calls[2]


# --- what goes from a full disk ---------------------------------------------------------------------------------------


class RoomByRemoval(FaultFiles):
    """A full disk on which a removed file makes room, as it does in life."""

    def remove(self, path: str) -> None:
        super().remove(path)
        self.faults.fail_at = None


def full_disks(kind: type[FaultFiles] = FaultFiles, **config: object) -> Iterator[tuple[Log, FaultFiles]]:
    """A log on a disk that gets full at the n-th call that needs room after it was filled, for each n. The last
    one has had room for all.
    """
    for room in count():
        files = kind(MemoryFiles(), error=errno.ENOSPC, once=False)
        log = Log(files, **config)
        log.fill(60)
        assert len(log.partition.segments) >= 4
        files.faults.fail_at = len(files.sites) + 1 + room
        yield log, files
        if not files.failed:
            assert room > 3
            return


def logs_on_disk(log: Log) -> dict[str, int]:
    """The sizes of the `.log` files, whatever they are called now."""
    sizes = {}
    for name in log.files.list_dir(DIRECTORY):
        stat = log.files.stat(f"{DIRECTORY}/{name}")
        if ".log" in name and stat is not None:
            sizes[name] = stat.size
    return sizes


def assert_lists_what_is_there(log: Log) -> None:
    names = [file_name(segment.base_offset, ".log") for segment, _ in log.partition.segments]
    assert [name for name in logs_on_disk(log) if name.endswith(".log")] == names
    log.partition.check()


def goes_on(log: Log, files: FaultFiles) -> None:
    """With room again, appends go on, and what is there after a crash is what was there."""
    files.heal()
    log.append("there is room again")
    end, start = log.partition.next_offset, log.partition.start_offset
    values = log.values()
    log.reopen(Checkpoint(start, start, end, end, clean=False))
    assert log.values() == values and values[-1] == "there is room again"


def test_retention_on_a_full_disk_gives_its_room_back_at_once_or_later() -> None:
    for log, files in full_disks(retention_bytes=4000):
        dropped = log.partition.apply_retention(NOW)
        assert dropped and not log.partition.failed
        assert_lists_what_is_there(log)
        log.partition.purge(NOW)
        assert sum(logs_on_disk(log).values()) == log.partition.size
        goes_on(log, files)


def test_retention_on_a_full_disk_leaves_the_last_segment() -> None:
    for log, files in full_disks(retention_ms=1):
        try:
            log.partition.apply_retention(NOW + 10**9)
        except DiskFull:
            # All are due, and there is no room for the segment that a log has at least.
            assert len(log.partition.segments) == 1
        assert_lists_what_is_there(log)
        log.partition.purge(NOW + 10**9)
        assert sum(logs_on_disk(log).values()) == log.partition.size < 3000
        goes_on(log, files)


def test_compaction_on_a_full_disk_is_whole_or_has_changed_nothing() -> None:
    done = refused = 0
    for log, files in full_disks(RoomByRemoval, cleanup_policy="compact"):
        before = log.values()
        try:
            clean(log.partition, checkpoint=None, now_ms=NOW, buffer_bytes=1 << 20)
            done += 1
        except DiskFull:
            refused += 1
            assert not log.partition.failed and set(before) >= set(log.values())
        except DurabilityUnknown:
            # At the last name of all, where nothing had to be removed before: that cannot be taken back.
            assert log.partition.failed
            files.heal()
            log.reopen(Checkpoint(0, 60, 60, 60, clean=False))
        assert_lists_what_is_there(log)
        log.partition.purge(NOW)
        assert not [name for name in log.files.list_dir(DIRECTORY) if name.endswith((".cleaned", ".swap", ".deleted"))]
        goes_on(log, files)
    assert done > 1 and refused > 1


def test_a_failed_removal_is_tried_again_and_stops_no_other() -> None:
    class Stuck(MemoryFiles):
        """One file cannot be removed."""

        stuck = ""

        def remove(self, path: str) -> None:
            if self.stuck and path.startswith(self.stuck):
                raise StorageError(f"cannot remove {path}")
            super().remove(path)

    files = Stuck()
    log = Log(files, retention_bytes=4000)
    log.fill(60)
    log.partition.apply_retention(NOW)
    waiting = [name for name in logs_on_disk(log) if name.endswith(".deleted")]
    files.stuck = f"{DIRECTORY}/{waiting[0]}"
    with pytest.raises(StorageError, match="cannot remove"):
        log.partition.purge(NOW)
    assert [name for name in logs_on_disk(log) if name.endswith(".deleted")] == waiting[:1]
    assert log.partition.purge_due_ms == NOW + RETRY_MS
    files.stuck = ""
    log.partition.purge(NOW + RETRY_MS)
    assert log.partition.purge_due_ms is None
    assert not [name for name in files.list_dir(DIRECTORY) if name.endswith(".deleted")]


def test_a_partition_without_a_log_directory_keeps_no_checkpoint() -> None:
    log = Log()
    log.append("a")
    log.partition.checkpoint()
    assert sorted(log.files.list_dir(".")) == ["log"] and log.partition.next_offset == 1
