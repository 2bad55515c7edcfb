"""The files of a partition where there is no room for the next segment, or something lies in its place."""

import errno

from bugs.partition_log import DIRECTORY, NOW, Log
from pylog.errors import DiskFull
from pylog.files import MemoryFiles
from pylog.partition import Checkpoint
from pylog.segment_files import file_name
from pylog.testing import FaultFiles


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


def test_what_lies_in_the_place_of_a_new_segment_is_none_of_it() -> None:
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
