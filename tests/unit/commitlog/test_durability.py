"""The latch of a partition, and what a sync does when something happens in the middle of it."""

import errno
import logging
import os
import resource
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest

import pylog
from pylog.errors import Closed, DiskFull, DurabilityUnknown, LogNotFound, PartitionFailed, StorageError
from pylog.files import DiskFiles, MemoryFiles
from pylog.files.disk_file import DiskFile
from pylog.partition import Partition
from pylog.protocol.batch import encode
from pylog.protocol.messages import ProduceRequest, Session
from pylog.protocol.metadata_image import METADATA_TOPIC_ID
from pylog.storage.published import Published
from support.log_copies import copy_log
from support.partition_log import DIRECTORY, NOW, InterruptingFiles, Log
from support.produce import together
from tests.support.faults import FaultFiles


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


def test_a_publish_after_a_failure_still_says_failed(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("call", ["sync", "sync_dir"])
def test_a_file_removed_meanwhile_needs_no_sync(call: str, disk: DiskFiles) -> None:
    files = InterruptingFiles(disk)
    log = Log(files)  # type: ignore[arg-type]
    log.append("a")
    files.begin(1, (call,), lambda: begun_anew(log))
    log.partition.sync()
    assert files.calls > 0 and not log.partition.failed


@pytest.mark.parametrize("call", ["sync", "sync_dir"])
def test_a_close_waits_for_the_sync_that_is_under_way(call: str, disk: DiskFiles) -> None:
    """Else one of them could take for a success what the system has told the other."""
    files = InterruptingFiles(disk)
    log = Log(files)  # type: ignore[arg-type]
    log.append("a")
    other = threading.Thread(target=deleted, args=(log,))
    files.begin(1, (call,), other.start)
    assert log.partition.sync() == 1
    other.join()
    assert log.partition.closed_whole and log.partition.sync() == 1


def test_a_sync_that_succeeds_beside_one_that_fails_is_not_believed() -> None:
    """Of two syncs of one file the system tells a single one that it has failed."""
    faults = FaultFiles(MemoryFiles())
    files = InterruptingFiles(faults)
    log = Log(files)  # type: ignore[arg-type]
    log.append("a")

    def roll_on_a_broken_disk() -> None:
        fail_next_call(faults)
        with pytest.raises(DurabilityUnknown):
            log.partition.roll(NOW)

    files.begin(1, ("sync",), roll_on_a_broken_disk)
    with pytest.raises(DurabilityUnknown):
        log.partition.sync()
    assert log.partition.durable_offset == 0


def test_a_sync_interrupted_by_a_removal_is_made_again(disk: DiskFiles) -> None:
    """One file is gone before its turn; those behind it have not had theirs."""
    faults = FaultFiles(disk)
    files = InterruptingFiles(faults)
    log = Log(files)  # type: ignore[arg-type]
    log.append("a")
    before = len(faults.sites)
    files.begin(1, ("sync",), lambda: begun_anew(log))
    assert log.partition.sync() == 5
    assert [site.endswith(" sync") for site in faults.sites[before:]].count(True) >= 2
    assert not log.partition._local.pending.has_unsynced_names


def test_a_sync_that_a_truncation_overtakes_promises_nothing() -> None:
    """What it has synced is cut off: what comes in its place is not durable."""
    files = InterruptingFiles(MemoryFiles())
    log = Log(files, replicated=False)  # type: ignore[arg-type]
    for value in ("a", "b", "c"):
        log.append(value)
    files.begin(1, ("sync",), lambda: log.partition.truncate(1, NOW))
    log.partition.sync()
    assert (log.partition.next_offset, log.partition.durable_offset) == (1, 0)
    log.append("d")
    assert log.partition.durable_offset == 0
    assert log.partition.sync() == 2


def test_a_sync_that_another_has_done_meanwhile_is_not_done_again() -> None:
    """Commits of transactions in one partition share it, while more is appended."""
    log = Log()
    for value in ("a", "b"):
        log.append(value)
    assert log.partition.sync(1) == 2
    log.append("c")
    assert log.partition.sync(2) == log.partition.durable_offset == 2
    assert log.partition.sync(3) == log.partition.sync() == 3


def test_a_closed_log_is_not_opened_again_for_a_sync() -> None:
    log = Log()
    log.append("a")
    (segment, _), *_ = log.partition.segments
    log.partition.abandon()
    with pytest.raises(Closed):
        list(segment.on_disk.to_sync(whole=True))


def test_after_a_failure_nothing_is_synced_by_any_road() -> None:
    log = Log()
    log.append("a")
    log.partition._local.pending.fail(StorageError("the disk is gone"))
    with pytest.raises(PartitionFailed, match="nothing in log/t-0 is synced any more"):
        log.partition._local.sync(0)
    assert not log.partition._local.pending.owes_nothing


def test_names_for_which_there_is_no_room_are_no_full_disk() -> None:
    """That would say that nothing was written, and that the append can be tried again."""

    class Full(MemoryFiles):
        def sync_dir(self, path: str) -> None:
            raise DiskFull(f"no room in {path}")

    log = Log(Full())
    log.append("a")
    with pytest.raises(DurabilityUnknown, match="cannot sync log/t-0: no room"):
        log.partition.sync()
    assert log.partition.failed


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


def test_a_sync_after_a_close_that_was_interrupted_knows_nothing() -> None:
    """What it was to make durable was appended, so it may not be tried again elsewhere as if it were not."""
    files = InterruptingFiles(MemoryFiles())
    log = Log(files)  # type: ignore[arg-type]
    log.append("a")
    files.begin(1, ("sync",), interrupted)
    with pytest.raises(KeyboardInterrupt):
        log.partition.close()
    assert log.partition.failed and not log.partition.closed_whole
    with pytest.raises(DurabilityUnknown):
        log.partition.sync()


def test_a_sync_after_a_close_has_nothing_left_to_do() -> None:
    log = Log()
    log.append("a")
    assert log.partition.close()
    assert log.partition.sync() == 1


def test_a_partition_that_is_not_open_has_nothing_to_tell() -> None:
    state = Log().make().state
    assert (state.next_offset, state.data_end, state.failure) == (0, 0, None)


# --- what cannot be published -----------------------------------------------------------------------------------------


@pytest.fixture
def large_slots(tmp_path: Path) -> Iterator[Callable[[], None]]:
    """A log whose slots lie behind all else, and a call after which no file takes a write there: as on a full disk that
    copies on write, the slots alone cannot be written.
    """
    pylog.open(tmp_path / "log").close()
    published = Published(DiskFiles(), str(tmp_path / "log" / ".pylog-published"), writable=True)
    for number in range(1, 4096):
        # Of a topic that is there: the places of others are given anew.
        published.entry(METADATA_TOPIC_ID, number)
    published.close()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, limits[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


SESSION = Session()


def by_view(log: pylog.Log) -> object:
    return log.topic("t")[0].append([pylog.Record(b"b")])


def by_producer(log: pylog.Log) -> object:
    with log.producer(retries=0) as producer:
        return producer.send("t", b"b").result()


def by_several(log: pylog.Log) -> object:
    batch = encode([(b"b", None, NOW, ())], now_ms=NOW)
    other = encode([(b"o", None, NOW, ())], now_ms=NOW)
    asked = together(ProduceRequest.of("t", 0, batch, timeout_ms=1000), ProduceRequest.of("other", 0, other))
    produced = log.broker.handle(asked, SESSION).result()
    assert [type(part.error) for part in produced.parts] == [DurabilityUnknown, DurabilityUnknown]
    assert produced.parts[0].error is not None
    raise produced.parts[0].error


@pytest.mark.parametrize("how", [by_view, by_producer, by_several], ids=["view", "producer", "several"])
@pytest.mark.parametrize("flush", ["sync", "interval", "none"])
def test_an_append_that_is_there_and_cannot_be_shown_is_in_doubt_and_latches(
    tmp_path: Path, large_slots: Callable[[], None], flush: str, how: Callable[[pylog.Log], object]
) -> None:
    log = pylog.open(tmp_path / "log", flush=flush)
    for name in ("t", "other"):
        log.create_topic(name)[0].append([pylog.Record(b"a")])
    large_slots()
    with pytest.raises(DurabilityUnknown, match="File too large"):
        how(log)
    with pytest.raises(PartitionFailed, match="failed earlier"):
        log.topic("t")[0].append([pylog.Record(b"c")])
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    killed = tmp_path / "killed"
    copy_log(tmp_path / "log", killed)
    with pylog.open(killed) as again:
        assert [record.value for record in again.topic("t")[0].records()] == [b"a", b"b"]
        again.topic("t")[0].append([pylog.Record(b"c")])
    log.close()


def test_a_start_that_cannot_be_published_is_not_moved(tmp_path: Path, large_slots: Callable[[], None]) -> None:
    with pylog.open(tmp_path / "log") as log:
        view = log.create_topic("t")[0]
        for value in (b"a", b"b"):
            view.append([pylog.Record(value)])
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        large_slots()
        with pytest.raises(DiskFull):
            log.delete_records({pylog.TopicPartition("t", 0): 1})
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert view.start_offset == 0 and view.append([pylog.Record(b"c")]).base_offset == 2
        assert log.delete_records({pylog.TopicPartition("t", 0): 1})
    with pylog.open(tmp_path / "log") as log:
        assert log.topic("t")[0].start_offset == 1
