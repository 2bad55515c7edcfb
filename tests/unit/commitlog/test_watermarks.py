"""The offsets that bound what is seen of a partition, and what is published of them."""

import errno
from uuid import UUID

import pytest

from pylog.config import TopicConfig
from pylog.errors import DiskFull, DurabilityUnknown, OffsetOutOfRange, PartitionFailed, StorageError
from pylog.files import Files, MemoryFiles
from pylog.kernel.format import SLOT_BYTES
from pylog.logdirs.log_directory import LogDirectory
from pylog.partition import Checkpoint, Partition
from pylog.protocol.batch import encode
from pylog.record import Record, TopicPartition
from pylog.storage.checkpoints import HIGH_WATERMARKS, RECOVERY_POINTS, START_OFFSETS, Checkpoints
from pylog.storage.published import ENTRY_BYTES, Published, PublishedState
from support.partition_log import NOW
from tests.support.crash import CrashFiles
from tests.support.faults import FaultFiles

KEY = TopicPartition("t", 0)
TOPIC_ID = UUID(int=7)
PUBLISHED = "log/.pylog-published"
SLOTS_AT = 32
"""Where the slots of an entry begin: behind its key."""


class Shown:
    """A partition whose offsets are published and checkpointed, in segments of 200 bytes."""

    def __init__(self, count: int = 10, files: Files | None = None) -> None:
        self.files = FaultFiles(files or MemoryFiles())
        self.directory = LogDirectory(self.files, "log", 1)
        self.entry = self.directory.entry(TOPIC_ID, 0)
        self.checkpoints = self.directory.checkpoints
        self.partition = self.made()
        self.partition.create(TOPIC_ID, NOW)
        for number in range(count):
            batch = encode([Record(b"%d" % number, timestamp=NOW)], now_ms=NOW)
            self.partition.append(batch, epoch=0, now_ms=NOW)

    def made(self) -> Partition:
        config = TopicConfig.loaded({"segment.bytes": "200", "file.delete.delay.ms": "0"})
        return Partition(self.files, "log/t-0", "t", 0, config, self.entry, checkpoints=self.checkpoints)

    def state(self) -> PublishedState:
        found = self.entry.read()
        assert found is not None
        return found

    def fail_from_now_on(self, error: int) -> None:
        self.files.faults.error, self.files.faults.once = error, False
        self.files.faults.fail_at = len(self.files.sites) + 1


def test_the_high_watermark_rises_up_to_the_end_and_is_published() -> None:
    log = Shown()
    partition = log.partition
    moves = [(4, True, 4), (4, False, 4), (2, False, 4), (99, True, 10), (99, False, 10)]
    for offset, moved, reached in moves:
        assert partition.advance_high_watermark(offset) is moved
        assert (partition.high_watermark, log.state().high_watermark) == (reached, reached)


@pytest.mark.parametrize("offset", [-2, 5, 11])
def test_a_log_does_not_start_above_its_high_watermark(offset: int) -> None:
    log = Shown()
    log.partition.advance_high_watermark(4)
    with pytest.raises(OffsetOutOfRange, match=f"offset {offset}: only what is below the high watermark, 4"):
        log.partition.delete_records(offset)
    assert log.partition.start_offset == 0


def test_deleted_records_stay_deleted_after_a_crash() -> None:
    log = Shown()
    log.partition.advance_high_watermark(8)
    assert log.partition.delete_records(3) == 3
    assert log.partition.delete_records(2) == 3  # It never goes down.
    log.directory.keep_starts([log.partition])
    assert (log.state().start_offset, log.checkpoints.get(START_OFFSETS, KEY)) == (3, 3)
    assert Checkpoints(log.files, "log").get(START_OFFSETS, KEY) == 3
    assert log.partition.delete_records(-1) == 8


def test_records_deleted_on_a_full_disk_stay_deleted_after_a_power_cut() -> None:
    """The checkpoint finds no room, so what was published has to be durable."""

    class NoRoom(CrashFiles):
        is_full = False

        def replace_file(self, path: str, data: bytes) -> None:
            if self.is_full:
                raise DiskFull(f"no room for {path}")
            super().replace_file(path, data)

    files = NoRoom()
    log = Shown(files=files)
    log.partition.advance_high_watermark(8)
    files.is_full = True
    assert log.partition.delete_records(3) == 3
    log.directory.keep_starts([log.partition])
    files.note("deleted")
    files.open("log/else", create=True).close()
    starts = set()
    for state in files.power_cuts():
        if "deleted" in state.notes:
            entry = Published(MemoryFiles(tree=state.tree), PUBLISHED, writable=False).entry(TOPIC_ID, 0)
            starts.add(found.start_offset if (found := entry.read()) is not None else None)
    assert starts == {3}


@pytest.mark.parametrize("slot", [0, 1])
def test_what_a_close_publishes_does_not_hang_on_one_slot(slot: int) -> None:
    log = Shown()
    log.partition.advance_high_watermark(10)
    assert log.partition.close()
    file = log.files.open(PUBLISHED)
    file.write(ENTRY_BYTES + SLOTS_AT + slot * SLOT_BYTES, b"\xff" * SLOT_BYTES)
    file.close()
    found = Published(log.files, PUBLISHED, writable=False).entry(TOPIC_ID, 0).read()
    assert found is not None and (found.next_offset, found.durable_offset) == (10, 10)


def test_a_start_that_finds_no_room_is_taken_back() -> None:
    log = Shown()
    log.partition.advance_high_watermark(8)
    log.fail_from_now_on(errno.ENOSPC)
    with pytest.raises(DiskFull):
        log.partition.advance_start(3)
    log.files.heal()
    assert (log.partition.start_offset, log.state().start_offset) == (0, 0)
    assert log.partition.advance_start(3) and log.state().start_offset == 3


def test_a_high_watermark_that_cannot_be_published_latches_whatever_the_reason() -> None:
    for error in (errno.ENOSPC, errno.EIO):
        log = Shown()
        log.fail_from_now_on(error)
        with pytest.raises(DurabilityUnknown):
            log.partition.advance_high_watermark(4)
        log.files.heal()
        with pytest.raises(PartitionFailed):
            log.partition.advance_start(1)


def test_a_change_of_files_gives_a_new_even_generation() -> None:
    log = Shown()
    log.partition.advance_high_watermark(10)
    before = log.state().generation
    log.partition.advance_start(5)
    assert log.state().generation == before
    assert log.partition.apply_retention(NOW) > 0
    assert log.state().generation == before + 2
    log.partition.truncate(7, NOW)
    assert (log.state().generation, log.state().next_offset) == (before + 4, 7)


def test_a_change_that_breaks_off_leaves_an_odd_generation_for_readers() -> None:
    log = Shown()
    before = log.state().generation
    for call in range(1, 100):
        log.fail_from_now_on(errno.EIO)
        log.files.faults.fail_at = len(log.files.sites) + call
        with pytest.raises(StorageError):
            log.partition.truncate(5, NOW)
        log.files.heal()
        if log.partition.failed:
            break
    assert log.state().generation in (before, before + 1)
    again = log.made()
    again.open(Checkpoint(clean=False, published=True), NOW)
    assert log.state().generation % 2 == 0 and log.state().generation > before


@pytest.mark.parametrize(("known", "opened"), [(0, 3), (6, 6), (99, 10)])
def test_an_open_keeps_the_high_watermark_within_the_log(known: int, opened: int) -> None:
    log = Shown()
    log.partition.close()
    again = log.made()
    again.open(Checkpoint(start_offset=3, durable_offset=10, recovery_point=10, high_watermark=known), NOW)
    assert (again.start_offset, again.high_watermark, log.state().high_watermark) == (3, opened, opened)


def test_a_checkpoint_notes_a_start_only_where_the_first_segment_does_not_say_it() -> None:
    log = Shown()
    log.partition.advance_high_watermark(10)
    log.partition.sync()
    log.partition.checkpoint()
    noted = [log.checkpoints.get(name, KEY) for name in (RECOVERY_POINTS, HIGH_WATERMARKS, START_OFFSETS)]
    assert noted == [10, 10, None]
    log.partition.advance_start(log.partition.segments[1][0].base_offset + 1)
    log.partition.apply_retention(NOW)
    log.partition.checkpoint()
    assert log.checkpoints.get(START_OFFSETS, KEY) == log.partition.start_offset
    log.partition.advance_start(log.partition.segments[1][0].base_offset)
    log.partition.apply_retention(NOW)
    log.partition.checkpoint()
    assert log.checkpoints.get(START_OFFSETS, KEY) is None
