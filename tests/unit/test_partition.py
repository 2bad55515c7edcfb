"""The log of one partition, on disk and in memory: offsets, rolling, reading, recovery, truncation."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest

from pylog.config import TopicConfig
from pylog.errors import (
    CorruptBatch,
    DurabilityUnknown,
    OffsetOutOfRange,
    PartitionFailed,
    RecordTooLarge,
    StorageError,
)
from pylog.files import DiskFiles, File, Files, MemoryFiles
from pylog.kernel import Record
from pylog.partition import Checkpoint, Partition
from pylog.protocol.batch import Batch, encode, split

NOW = 1_700_000_000_000
SMALL = TopicConfig.loaded({"segment.bytes": "2000", "index.interval.bytes": "200"})
UNCLEAN = Checkpoint(clean=False)


class Disk:
    """A partition that can be closed, damaged and opened again."""

    def __init__(self, files: Files, root: str, config: TopicConfig) -> None:
        self.files = files
        self.path = f"{root}/t-0"
        self.config = config
        self.partition = self.make()
        self.partition.create(UUID(int=7), NOW)

    def make(self) -> Partition:
        return Partition(self.files, self.path, "t", 0, self.config)

    def append(self, *values: str, timestamp: int = NOW, epoch: int = 0) -> int:
        records = [Record(value.encode(), timestamp=timestamp) for value in values]
        return self.partition.append(encode(records, now_ms=NOW), epoch=epoch, now_ms=NOW).base_offset

    def reopen(self, checkpoint: Checkpoint) -> Partition:
        for segment, _ in self.partition.segments:
            segment.close()
        self.partition = self.make()
        self.partition.open(checkpoint, NOW)
        return self.partition

    def values(self, start: int = 0) -> list[str]:
        partition, found = self.partition, []
        while start < partition.next_offset:
            piece = partition.read(start, 500, upto=partition.next_offset)
            if piece is None:
                break
            for batch in split(piece.data, check_crc=True):
                found += [
                    str(record.value, "utf-8") for record in batch.records("t", 0, start) if record.value is not None
                ]
                start = batch.next_offset
        return found


@pytest.fixture(params=["disk", "memory"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    files: Files = DiskFiles() if request.param == "disk" else MemoryFiles()
    root = str(tmp_path) if request.param == "disk" else "root"
    files.make_dir(root)
    return Disk(files, root, SMALL)


def test_offsets_follow_each_other_and_epochs_are_remembered(disk: Disk) -> None:
    assert [disk.append("a", "b"), disk.append("c"), disk.append("d", "e", epoch=3)] == [0, 2, 3]
    assert disk.values() == ["a", "b", "c", "d", "e"]
    assert disk.values(1) == ["b", "c", "d", "e"]
    assert disk.partition.epochs.entries == [(0, 0), (3, 3)]


def test_a_clients_batch_is_looked_at_where_its_header_can_prove_enough(disk: Disk) -> None:
    for policy, is_proven in (("delete", True), ("compact", False)):
        disk.partition.reconfigure(TopicConfig.loaded({"cleanup.policy": policy}))
        batch = Batch.parse(bytearray(encode([Record(b"x", b"k", NOW)], now_ms=NOW).data))
        disk.partition.look_at(batch, NOW)
        assert batch.trusted is is_proven


def test_a_read_stops_at_its_bound_and_refuses_offsets_outside(disk: Disk) -> None:
    disk.append("a", "b")
    disk.append("c")
    piece = disk.partition.read(0, 1 << 20, upto=2)
    assert piece is not None and [b.next_offset for b in split(piece.data)] == [2]
    assert disk.partition.read(3, 100, upto=3) is None
    for offset in (-1, 4):
        with pytest.raises(OffsetOutOfRange, match=r"outside \[0, 3\]"):
            disk.partition.read(offset, 100, upto=3)


def test_a_batch_larger_than_max_bytes_is_given_whole(disk: Disk) -> None:
    disk.append("x" * 900)
    piece = disk.partition.read(0, 10, upto=1)
    assert piece is not None and len(list(split(piece.data))) == 1


def test_segments_roll_by_size_and_every_record_is_found_by_offset(disk: Disk) -> None:
    wanted = [f"value {i} {'x' * 60}" for i in range(100)]
    for value in wanted:
        disk.append(value)
    assert len(disk.partition.segments) > 3
    assert all(segment.size <= 2000 for segment, _ in disk.partition.segments)
    for offset in range(100):
        assert disk.values(offset)[0] == wanted[offset]
    disk.partition.check()


def test_a_reader_that_goes_on_sees_the_present_records(disk: Disk) -> None:
    partition = disk.partition

    def read_on(offset: int, upto: int | None = None, max_bytes: int = 1 << 20) -> list[str] | None:
        found = partition.read(offset, max_bytes, upto=partition.next_offset if upto is None else upto)
        if found is None:
            return None
        return [str(record.value, "utf-8") for batch in split(found.data) for record in batch.records("t", 0)]

    disk.append("a", "b")
    assert read_on(0) == ["a", "b"]
    disk.append("c")
    disk.append("d")
    assert read_on(2, upto=3) == ["c"] and read_on(2, max_bytes=1) == ["c"]
    assert read_on(2) == ["c", "d"] and read_on(4) is None
    # What is cut, and comes again at the same offset and place, is what came last.
    partition.truncate(2, NOW)
    disk.append("e")
    assert read_on(2) == ["e"]
    disk.append("f")
    assert read_on(3) == ["f"]
    partition.truncate_fully(3, NOW)
    disk.append("g")
    assert read_on(3) == ["g"]
    disk.append("h" * 1900)
    disk.append("i")
    assert len(partition.segments) == 3
    assert read_on(4) == ["h" * 1900] and read_on(5) == ["i"] and read_on(6) is None
    # What is being appended is nobody's yet, whatever he asks for.
    partition._local.active.log.append(encode([Record(b"j")], now_ms=NOW, base_offset=6).data)
    assert read_on(6, upto=1000) is None
    with pytest.raises(OffsetOutOfRange):
        read_on(7)


class Meddled:
    """A file at whose call number `at` somebody does something else first."""

    def __init__(self, file: File, meddle: Callable[[], None], at: int) -> None:
        self.file, self.meddle, self.at, self.calls = file, meddle, at, 0

    def __getattr__(self, name: str) -> Any:
        if name in ("size", "read"):
            self.calls += 1
            if self.calls == self.at:
                self.meddle()
        return getattr(self.file, name)


@pytest.mark.parametrize("goes_on", [True, False])
@pytest.mark.parametrize("at", range(1, 5))
def test_a_log_that_is_cut_and_written_again_while_it_is_read_is_read_again(at: int, *, goes_on: bool) -> None:
    files = MemoryFiles()
    files.make_dir("root")
    disk = Disk(files, "root", TopicConfig())
    partition, log = disk.partition, disk.partition.segments[0][0].log

    def batch(count: int, size: int) -> Batch:
        """So many records in so many bytes."""
        values = [b"n" * (size - encode([Record(b"")] * count, now_ms=NOW).size)] + [b""] * (count - 1)
        while (made := encode([Record(value, timestamp=NOW) for value in values], now_ms=NOW)).size > size:
            values[0] = values[0][:-1]
        assert made.size == size
        return made

    for _ in range(10):
        partition.append(batch(1, 100), epoch=0, now_ms=NOW)
    assert partition.read(0, 1 << 20, upto=10) is not None
    position = log.size()
    for _ in range(90):
        partition.append(batch(1, 100), epoch=0, now_ms=NOW)
    before = log.opened

    def meddle() -> None:
        log.opened = before
        # What comes in place of the 10 records that were read are 40, in just as many bytes.
        partition.truncate(0, NOW)
        partition.append(batch(40, position), epoch=1, now_ms=NOW)
        for _ in range(90):
            partition.append(batch(1, 100), epoch=1, now_ms=NOW)

    assert before is not None
    log.opened = cast("Any", Meddled(before, meddle, at))
    if not goes_on:
        partition._reader._followed = None
    found = partition.read(10, 1 << 20, upto=100)
    assert found is not None
    first = next(split(found.data))
    assert first.base_offset <= 10 < first.next_offset


@pytest.mark.parametrize("max_bytes", [0, 2**63, 2**64])
def test_any_number_of_bytes_may_be_asked_for(disk: Disk, max_bytes: int) -> None:
    for offset in range(3):
        disk.append("a")
        found = disk.partition.read(offset, max_bytes, upto=offset + 1)
        assert found is not None and found.next_offset == offset + 1


def test_a_snapshot_that_is_gone_needs_no_sync(tmp_path: Path) -> None:
    files = DiskFiles(max_open=2)
    disk = Disk(files, str(tmp_path), TopicConfig())
    for _ in range(3):
        disk.append("a")
    disk.partition.truncate(2, NOW)
    for number in range(3):  # who needs a descriptor takes that of the snapshot
        files.open(str(tmp_path / f"{number}"), create=True).read(0, 1)
    disk.partition.truncate_fully(5, NOW)
    assert (disk.append("b"), disk.partition.failed) == (5, False)


def test_segments_roll_by_record_time(tmp_path: Path) -> None:
    disk = Disk(DiskFiles(), str(tmp_path), TopicConfig.loaded({"segment.ms": "1000"}))
    disk.append("a", timestamp=5000)
    disk.append("b", timestamp=6000)
    disk.append("c", timestamp=6001)
    assert [segment.base_offset for segment, _ in disk.partition.segments] == [0, 2]


def test_the_first_record_at_or_after_a_time(disk: Disk) -> None:
    times = [1000, 3000, 2000, 5000, 4000, 6000] * 10
    for i, time in enumerate(times):
        disk.append(f"{i} {'x' * 100}", timestamp=time)
    for target in (0, 1000, 1001, 2500, 3001, 5001, 6000):
        expected = next(i for i, time in enumerate(times) if time >= target)
        found = disk.partition.offset_for_time(target, upto=60)
        assert found is not None and (found.offset, found.timestamp) == (expected, times[expected])
    assert disk.partition.offset_for_time(6001, upto=60) is None
    assert disk.partition.offset_for_time(3000, upto=1) is None


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_that_ends_below_its_durable_offset_goes_on_behind_that(disk: Disk, clean: bool) -> None:
    disk.append("a")
    whole = disk.partition.size
    disk.append("b")
    disk.partition.close()
    disk.files.open(log_file(disk)).truncate(whole)
    disk.reopen(Checkpoint(clean=clean, recovery_point=2, durable_offset=2))
    (lost,) = disk.partition.quarantined
    assert (lost.position, lost.bytes_lost, lost.offset, lost.next_offset) == (whole, 0, 1, 2)
    for _ in range(2):
        with pytest.raises(CorruptBatch, match="offsets 1 to 1 are damaged") as caught:
            disk.partition.read(1, 100, upto=2)
        assert (caught.value.position, caught.value.offset) == (whole, 1)
        if disk.partition.next_offset == 2:
            assert disk.append("c") == 2
        assert disk.values(2) == ["c"]
        disk.reopen(Checkpoint())


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_open_builds_a_missing_index_anew(disk: Disk, suffix: str, clean: bool) -> None:
    wanted = [f"{i} {'x' * 100}" for i in range(60)]
    for i, value in enumerate(wanted):
        disk.append(value, timestamp=NOW + i)
    first = disk.partition.segments[0][0].path
    disk.partition.close()
    disk.files.remove(first.removesuffix(".log") + suffix)
    disk.reopen(Checkpoint(durable_offset=60, clean=clean))
    disk.partition.check()
    found = disk.partition.offset_for_time(NOW + 3, upto=60)
    assert found is not None and found.offset == 3
    assert disk.values() == wanted


def test_a_clean_open_finds_everything_again(disk: Disk) -> None:
    wanted = [f"{i} {'x' * 100}" for i in range(40)]
    for value in wanted:
        disk.append(value)
    assert disk.partition.close()
    disk.reopen(Checkpoint())
    assert disk.values() == wanted
    assert disk.partition.durable_offset == 40
    disk.partition.check()
    assert disk.append("more") == 40


def log_file(disk: Disk) -> str:
    return disk.partition.segments[-1][0].path


def test_a_torn_tail_is_cut_and_told(disk: Disk) -> None:
    for i in range(5):
        disk.append(f"value {i}")
    path = log_file(disk)
    handle = disk.files.open(path)
    handle.truncate(handle.size() - 3)
    partition = disk.reopen(UNCLEAN)
    assert disk.values() == [f"value {i}" for i in range(4)]
    assert partition.recovered is not None
    assert (partition.recovered.path, partition.recovered.offset) == (path, 4)
    assert disk.append("again") == 4
    partition.check()


def test_an_unclean_open_rebuilds_the_indexes(disk: Disk) -> None:
    wanted = [f"{i} {'x' * 100}" for i in range(60)]
    for value in wanted:
        disk.append(value)
    for segment, _ in disk.partition.segments:
        for suffix in (".index", ".timeindex"):
            disk.files.remove(segment.path.removesuffix(".log") + suffix)
    disk.reopen(UNCLEAN)
    assert disk.values(33) == wanted[33:]
    disk.partition.check()


def flip(disk: Disk, path: str, position: int) -> None:
    handle = disk.files.open(path)
    data = bytearray(handle.read(0, handle.size()))
    data[position] ^= 1
    handle.truncate(0)
    handle.write(0, data)
    handle.close()


@pytest.mark.parametrize("at", [0, 8, 30, 65])
def test_damage_below_the_durable_offset_is_kept_and_stepped_over(disk: Disk, at: int) -> None:
    for i in range(5):
        disk.append(f"value {i}")
    path = log_file(disk)
    size = disk.files.open(path).size()
    flip(disk, path, 2 * size // 5 + at)
    disk.reopen(Checkpoint(clean=False, durable_offset=5))
    (lost,) = disk.partition.quarantined
    assert (lost.path, lost.position, lost.bytes_lost) == (path, 2 * size // 5, size // 5)
    assert (lost.offset, lost.next_offset) == (2, 3)
    for _ in range(2):
        assert disk.files.open(path).size() == size
        with pytest.raises(CorruptBatch, match="offsets 2 to 2 are damaged") as caught:
            disk.values(2)
        assert (caught.value.path, caught.value.position, caught.value.offset) == (path, 2 * size // 5, 2)
        assert disk.values(3) == ["value 3", "value 4"]
        piece = disk.partition.read(0, 1 << 20, upto=5)
        assert piece is not None and [b.base_offset for b in split(piece.data)] == [0, 1]
        disk.partition.check()
        # It is remembered: a clean open reads nothing, and knows.
        disk.reopen(Checkpoint())
    assert disk.append("after") == 5
    assert disk.values(3) == ["value 3", "value 4", "after"]


def test_damage_is_found_when_it_is_read(disk: Disk) -> None:
    disk.append("a")
    disk.append("b")
    flip(disk, log_file(disk), disk.files.open(log_file(disk)).size() - 2)
    piece = disk.partition.read(0, 1000, upto=2)
    assert piece is not None
    with pytest.raises(CorruptBatch, match="CRC"):
        list(split(piece.data, check_crc=True))
    with pytest.raises(CorruptBatch) as caught:
        disk.partition.check()
    assert caught.value.position == disk.files.open(log_file(disk)).size() // 2


@pytest.mark.parametrize("target", [0, 1, 25, 26, 49, 50])
def test_a_truncation_leaves_the_records_below(disk: Disk, target: int) -> None:
    wanted = [f"{i} {'x' * 100}" for i in range(50)]
    for value in wanted:
        disk.append(value)
    assert disk.partition.truncate(target, NOW) is (target < 50)
    assert disk.partition.next_offset == target
    assert disk.values() == wanted[:target]
    disk.partition.check()
    assert disk.append("new") == target
    disk.reopen(UNCLEAN)
    assert disk.values() == [*wanted[:target], "new"]


def test_truncation_inside_a_batch_takes_all_of_it_and_leaves_a_gap(disk: Disk) -> None:
    disk.append("a")
    disk.append("b", "c", "d")
    assert disk.partition.truncate(3, NOW)
    assert (disk.partition.next_offset, disk.partition.durable_offset) == (3, 0)
    assert disk.values() == ["a"]
    assert disk.partition.read(1, 100, upto=3) is None
    assert disk.append("e") == 3
    assert disk.values() == ["a", "e"]
    disk.reopen(UNCLEAN)
    assert disk.values() == ["a", "e"]


def test_a_follower_takes_the_bytes_as_they_are(disk: Disk, tmp_path: Path) -> None:
    for i in range(60):
        disk.append(f"{i} {'x' * 100}", epoch=i // 20)
    copy = Disk(DiskFiles(), str(tmp_path / "copy"), SMALL)
    while copy.partition.next_offset < 60:
        piece = disk.partition.read(copy.partition.next_offset, 700, upto=60)
        assert piece is not None
        copy.partition.append_follower(piece.data, epoch=2, now_ms=NOW)
    assert copy.values() == disk.values()
    assert copy.partition.epochs.entries == disk.partition.epochs.entries
    for (ours, _), (theirs, _) in zip(copy.partition.segments, disk.partition.segments, strict=True):
        assert ours.base_offset == theirs.base_offset
        assert copy.files.read_file(ours.path) == disk.files.read_file(theirs.path)
    with pytest.raises(OffsetOutOfRange, match="below the end"):
        copy.partition.append_follower(piece.data, epoch=2, now_ms=NOW)


def test_a_follower_refuses_damaged_bytes(disk: Disk) -> None:
    disk.append("a")
    piece = disk.partition.read(0, 1000, upto=1)
    assert piece is not None
    damaged = bytearray(piece.data)
    damaged[-1] ^= 1
    with pytest.raises(CorruptBatch, match="CRC"):
        disk.partition.append_follower(bytes(damaged), epoch=0, now_ms=NOW)


def test_a_record_over_the_limit_is_refused_and_nothing_is_written(disk: Disk) -> None:
    disk.partition.reconfigure(TopicConfig.loaded({"max.message.bytes": "500"}))
    with pytest.raises(RecordTooLarge, match=r"max\.message\.bytes=500"):
        disk.append("x" * 600)
    assert disk.partition.next_offset == 0 and disk.partition.size == 0


class FailingFiles(DiskFiles):
    """A disk whose syncs fail from some moment on: what a dying device does."""

    failing = False

    def sync_dir(self, path: str) -> None:
        if self.failing:
            raise StorageError(f"cannot sync {path}: the device is gone")
        super().sync_dir(path)


def test_a_failed_sync_latches_the_partition_until_it_is_opened_again(tmp_path: Path) -> None:
    files = FailingFiles()
    disk = Disk(files, str(tmp_path), SMALL)
    disk.append("a")
    files.failing = True
    with pytest.raises(DurabilityUnknown, match="open it again"):
        disk.partition.sync()
    files.failing = False
    with pytest.raises(PartitionFailed):
        disk.append("b")
    with pytest.raises(PartitionFailed):
        disk.partition.sync()
    disk.reopen(UNCLEAN)
    assert disk.values() == ["a"]
    assert disk.append("b") == 1


def test_parsed_batches_are_views(disk: Disk) -> None:
    disk.append("a")
    piece = disk.partition.read(0, 1000, upto=1)
    assert piece is not None
    assert isinstance(Batch.parse(piece.data).data, memoryview)
