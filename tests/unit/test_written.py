"""The latch of a partition, and what a sync does when something happens in the middle of it."""

import errno
import logging
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest

import pylog
from bugs.partition_log import DIRECTORY, NOW, InterruptingFiles, Log
from pylog.batch import encode
from pylog.errors import DurabilityUnknown, LogNotFound, NotLeaderOrFollower, PartitionFailed
from pylog.files import DiskFiles, MemoryFiles
from pylog.files.disk_file import DiskFile
from pylog.partition import Partition
from pylog.published import Published
from pylog.testing import FaultFiles


def interrupted() -> None:
    raise KeyboardInterrupt


def fail_next_call(files: FaultFiles) -> None:
    files.faults.fail_at = len(files.sites) + 1


def test_an_interrupt_in_a_write_latches_and_is_an_interrupt() -> None:
    files = InterruptingFiles(MemoryFiles())
    log = Log(files)  # type: ignore[arg-type]
    log.append("a")
    files.begin(1, ("write",), interrupted)
    with pytest.raises(KeyboardInterrupt):
        log.append("b")
    with pytest.raises(PartitionFailed, match="failed earlier"):
        log.append("c")


def test_an_interrupt_in_a_sync_latches_and_is_an_interrupt() -> None:
    files = InterruptingFiles(MemoryFiles())
    log = Log(files)  # type: ignore[arg-type]
    log.append("a")
    files.begin(1, ("sync",), interrupted)
    with pytest.raises(KeyboardInterrupt):
        log.partition.sync()
    assert log.partition.failed and log.partition.durable_offset == 0
    with pytest.raises(PartitionFailed):
        log.partition.sync()


def test_the_first_failure_is_the_one_that_is_told() -> None:
    faults = FaultFiles(MemoryFiles(), once=False)
    files = InterruptingFiles(faults)
    log = Log(files)  # type: ignore[arg-type]
    log.append("a")

    def append_on_a_broken_disk() -> None:
        fail_next_call(faults)
        with pytest.raises(DurabilityUnknown, match="cannot write"):
            log.append("b")

    files.begin(1, ("sync",), append_on_a_broken_disk)
    with pytest.raises(DurabilityUnknown, match="cannot sync"):
        log.partition.sync()
    with pytest.raises(PartitionFailed, match=r"failed earlier .*cannot write"):
        log.append("c")


def test_a_failure_that_cannot_be_published_latches_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    files = FaultFiles(MemoryFiles(), once=False)
    files.make_dir("log")
    entry = Published(files, "log/.pylog-published", writable=True).entry(UUID(int=7), 0)
    log = Log(files)
    log.partition = Partition(files, "log/u-0", "u", 0, log.config, entry)
    log.partition.create(UUID(int=7), NOW)
    log.append("a")
    fail_next_call(files)
    with caplog.at_level(logging.ERROR, "pylog"), pytest.raises(DurabilityUnknown):
        log.append("b")
    assert "u-0: its failure could not be published: cannot write log/.pylog-published" in caplog.text
    with pytest.raises(PartitionFailed):
        log.append("c")


def test_a_refused_sync_of_a_single_append_latches(tmp_path: Path) -> None:
    with pylog.open(tmp_path / "log", flush="sync") as log:
        view = log.create_topic("t")[0]
        for value in (b"a", b"b", b"c"):
            view.append([pylog.Record(value)])
        opened = log.broker.partition("t", 0)._local.active.log.file
        assert isinstance(opened, DiskFile)
        # What takes every write and refuses every sync.
        good, null = os.dup(opened.descriptor), os.open(os.devnull, os.O_RDWR)
        os.dup2(null, opened.descriptor)
        with pytest.raises(DurabilityUnknown, match="cannot sync"):
            view.append([pylog.Record(b"d")])
        os.dup2(good, opened.descriptor)
        os.close(good)
        os.close(null)
        with pytest.raises(PartitionFailed):
            view.append([pylog.Record(b"e")])
        assert [record.value for record in view.records(0)] == [b"a", b"b", b"c"]


def test_what_is_shown_after_a_failure_still_says_that_it_failed(tmp_path: Path) -> None:
    files = DiskFiles()
    entry = Published(files, str(tmp_path / "published"), writable=True).entry(UUID(int=7), 0)
    partition = Partition(files, str(tmp_path / "t-0"), "t", 0, Log().config, entry)
    partition.create(UUID(int=7), NOW)
    for value in (b"a", b"b", b"c"):
        partition.append(encode([(value, None, NOW, ())], now_ms=NOW), epoch=0, now_ms=NOW)
    opened = partition._local.active.log.file
    assert isinstance(opened, DiskFile)
    ends = os.pipe()
    good = os.dup(opened.descriptor)
    os.dup2(ends[0], opened.descriptor)
    with pytest.raises(DurabilityUnknown):
        partition.append(encode([(b"d", None, NOW, ())], now_ms=NOW), epoch=0, now_ms=NOW)
    os.dup2(good, opened.descriptor)
    for descriptor in (good, *ends):
        os.close(descriptor)
    assert partition.advance_high_watermark(3)
    state = entry.read()
    assert state is not None and (state.high_watermark, state.failed) == (3, True)


def test_a_full_disk_latches_nothing() -> None:
    files = FaultFiles(MemoryFiles(), error=errno.ENOSPC, once=False)
    log = Log(files)
    log.append("a")
    fail_next_call(files)
    with pytest.raises(Exception, match="Free some space"):
        log.append("b")
    files.heal()
    log.append("c")
    assert log.values() == ["a", "c"]


# --- files that go in the middle of a sync ----------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DiskFiles:
    """A disk on which a file is looked for by its name each time: there is one descriptor for all."""
    monkeypatch.chdir(tmp_path)
    return DiskFiles(max_open=1)


def begun_anew(log: Log) -> None:
    log.partition.truncate_fully(5, NOW)
    log.partition.purge(NOW)


def deleted(log: Log) -> None:
    """As `Topic.delete` does it."""
    log.partition.close()
    log.files.rename(DIRECTORY, "log/t-0.0a-delete")


@pytest.mark.parametrize(
    ("action", "call"), [(begun_anew, "sync"), (begun_anew, "sync_dir"), (deleted, "sync"), (deleted, "sync_dir")]
)
def test_what_was_removed_meanwhile_needs_no_sync(action: Callable[[Log], None], call: str, disk: DiskFiles) -> None:
    files = InterruptingFiles(disk)
    log = Log(files)  # type: ignore[arg-type]
    log.append("a")
    files.begin(1, (call,), lambda: action(log))
    log.partition.sync()
    assert files.calls > 0 and not log.partition.failed


def test_a_file_that_is_missing_for_good_is_told(disk: DiskFiles) -> None:
    log = Log(disk)
    log.append("a")
    disk.remove(log.partition.segments[0][0].path)
    disk.open("other", create=True)
    with pytest.raises(LogNotFound):
        log.partition.sync()
    assert log.partition.durable_offset == 0


def test_a_full_disk_in_the_middle_of_a_truncation_latches() -> None:
    """An append is taken back and tried again; what was cut off half is for the next open to look at."""
    faults = FaultFiles(MemoryFiles(), error=errno.ENOSPC, once=False)
    files = InterruptingFiles(faults)
    log = Log(files)  # type: ignore[arg-type]
    log.fill(30)
    assert len(log.partition.segments) > 1
    ends = {0, 50} | {end for _, end in log.partition.segments}

    files.begin(2, ("rename",), partial(fail_next_call, faults))
    with pytest.raises(DurabilityUnknown, match="being cut at offset 0"):
        log.partition.truncate_fully(50, NOW)
    faults.heal()
    with pytest.raises(PartitionFailed):
        log.append("b")
    assert log.reopen().next_offset in ends


def test_a_sync_that_fails_as_retention_takes_the_last_segment_latches() -> None:
    """What goes is followed by a new segment, and the old one is synced then."""
    faults = FaultFiles(MemoryFiles())
    files = InterruptingFiles(faults)
    log = Log(files, retention_ms=1)  # type: ignore[arg-type]
    log.append("a")
    files.begin(1, ("sync",), partial(fail_next_call, faults))
    with pytest.raises(DurabilityUnknown, match="cannot sync"):
        log.partition.apply_retention(NOW + 1000)
    with pytest.raises(PartitionFailed):
        log.append("b")


def test_a_sync_asks_what_a_close_that_failed_has_left_undone() -> None:
    files = InterruptingFiles(MemoryFiles())
    log = Log(files)  # type: ignore[arg-type]
    log.append("a")
    files.begin(1, ("sync",), interrupted)
    with pytest.raises(KeyboardInterrupt):
        log.partition.close()
    with pytest.raises(NotLeaderOrFollower, match="was closed here"):
        log.partition.sync()


def test_a_sync_after_a_close_has_nothing_left_to_do() -> None:
    log = Log()
    log.append("a")
    assert log.partition.close()
    assert log.partition.sync() == 1


def test_a_partition_that_is_not_open_has_nothing_to_tell() -> None:
    state = Log().make().state()
    assert (state.next_offset, state.data_end, state.failed) == (0, 0, False)
