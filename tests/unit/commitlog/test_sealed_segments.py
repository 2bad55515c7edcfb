"""The segments that are not written any more: which they are, what is noted of them, and how some are replaced."""

import errno
from random import Random
from uuid import UUID

import pytest

from pylog.errors import CorruptBatch, DiskFull, NotLeaderOrFollower
from pylog.files import Files
from pylog.partition import Partition
from pylog.segment import Segment
from pylog.storage.published import Published
from pylog.storage.segment_checksum import Mark
from support.partition_log import DIRECTORY, NOW, Log
from tests.support.crash import CrashFiles
from tests.support.faults import FaultFiles


class PublishedLog(Log):
    """One that readers in other processes are told of."""

    def make(self) -> Partition:
        self.files.make_dir("log")
        entry = Published(self.files, "log/.pylog-published", writable=True).entry(UUID(int=7), 0)
        return Partition(self.files, DIRECTORY, "t", 0, self.config, entry)


def sealed_log(count: int = 3, files: Files | None = None) -> Log:
    """A log of so many sealed segments of one record each, and an empty active one."""
    log = Log() if files is None else PublishedLog(files)
    for number in range(count):
        log.append(str(number))
        log.partition.roll(NOW)
    return log


def segments(log: Log) -> list[Segment]:
    return [segment for segment, _ in log.partition.segments]


def copy_of(log: Log, old: Segment) -> Segment:
    """The same records, written beside the log as compaction does."""
    new = Segment(
        log.files, old.directory, old.base_offset, log.config, active=True, create=True, suffix=".cleaned",
        identity=old.on_disk.identity,
    )  # fmt: skip
    for window in old.scan(check_crc=True):
        new.append(window.data, window.spans)
    new.seal(old.base_offset + 1)
    return new


def test_the_active_segment_is_not_among_them() -> None:
    log = sealed_log()
    sealed = log.partition.sealed
    *rest, active = segments(log)
    assert [sealed.has(segment) for segment in rest] == [True] * 3 and not sealed.has(active)
    assert [sealed.end_of(segment) for segment in (*rest, active)] == [1, 2, 3, 3]
    assert not any(name.startswith(f"{active.base_offset:020d}") for name in sealed.file_names())


def test_a_segment_that_was_dropped_is_none_of_them() -> None:
    log = sealed_log()
    first = segments(log)[0]
    log.partition.delete_records(1)
    log.partition.apply_retention(NOW)
    assert not log.partition.sealed.has(first) and log.partition.sealed.end_of(first) is None


def test_a_closed_partition_has_none() -> None:
    log = sealed_log()
    first = segments(log)[0]
    log.partition.close()
    assert not log.partition.sealed.has(first)


def test_a_replacement_takes_the_place_of_a_segment() -> None:
    log = sealed_log()
    old, until, *_ = segments(log)
    new = copy_of(log, old)
    assert log.partition.sealed.replace([old], new, NOW, until=until)
    assert segments(log)[0] is new and log.values() == ["0", "1", "2"]
    assert not any(".cleaned" in name or ".swap" in name for name in log.files.list_dir(old.directory))


@pytest.mark.parametrize("what", ["old", "until"])
def test_a_replacement_of_what_is_gone_is_removed(what: str) -> None:
    log = sealed_log()
    one, another, *_ = segments(log)
    old, until = (one, another) if what == "old" else (another, one)
    new = copy_of(log, old)
    log.partition.delete_records(1)
    log.partition.apply_retention(NOW)
    assert not log.partition.sealed.replace([old], new, NOW, until=until)
    assert log.values(1) == ["1", "2"]
    assert not any(".cleaned" in name for name in log.files.list_dir(old.directory))


@pytest.mark.parametrize("at", [1, 2, 3, 4, 5])
def test_a_replacement_given_up_for_a_full_disk_never_comes_back(at: int) -> None:
    """What was cut off since would be back after a crash, in the place of what was written instead."""
    tree = CrashFiles()
    files = FaultFiles(tree, error=errno.ENOSPC)
    log = sealed_log(files=files)
    old, until, *_ = segments(log)
    new = copy_of(log, old)
    files.faults.fail_at = len(files.sites) + at
    with pytest.raises(DiskFull):
        log.partition.sealed.replace([old], new, NOW, until=until)
    assert not any(".cleaned" in name or ".swap" in name for name in files.list_dir(DIRECTORY))
    for seed in range(200):
        # What a power cut lets come back is not believed.
        left = [path for path in tree.power_cut(Random(seed)) if path.startswith(DIRECTORY)]
        assert any(".cleaned" in path for path in left) or not any(".swap" in path for path in left)
    assert segments(log)[0] is old and log.partition.state.generation % 2 == 0
    log.partition.truncate(0, NOW)
    log.append("another")
    log.partition.sync()
    log.reopen()
    assert log.values() == ["another"]


def test_the_active_segment_is_not_replaced() -> None:
    log = sealed_log()
    log.append("3")
    active = segments(log)[-1]
    assert not log.partition.sealed.replace([active], copy_of(log, active), NOW, until=active)
    assert log.values() == ["0", "1", "2", "3"]


def test_what_was_read_is_noted_only_of_a_sealed_segment_of_that_size() -> None:
    log = sealed_log()
    first, *_, active = segments(log)
    for segment, size in ((first, first.size + 1), (active, active.size)):
        before = segment.on_disk.sealed
        log.partition.sealed.note_read(segment, Mark(size, 7), NOW)
        assert segment.on_disk.sealed == before
    log.partition.sealed.note_read(first, Mark(first.size, 7), NOW)
    noted = first.on_disk.sealed
    assert noted is not None and noted.log == Mark(first.size, 7)
    log.partition.close()
    with pytest.raises(NotLeaderOrFollower):
        log.partition.sealed.note_read(first, Mark(first.size, 7), NOW)


def test_what_looks_damaged_is_looked_at_again_while_nothing_changes() -> None:
    log = sealed_log()
    looks = iter([CorruptBatch("cut meanwhile"), 5, 6, 7])

    def look() -> int:
        found = next(looks)
        if isinstance(found, CorruptBatch):
            raise found
        assert isinstance(found, int)
        return found

    assert log.partition.sealed.looked(look, lambda found: True) == 5
    assert log.partition.sealed.looked(look, lambda found: found > 6) == 7
