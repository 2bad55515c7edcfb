"""Looking for a time where records of that time were deleted, and what a partition is called."""

from collections.abc import Callable
from pathlib import Path

import pytest

import pylog
from pylog.commitlog.read_only_partition import without_files
from pylog.config import TopicConfig
from pylog.errors import CorruptBatch, OffsetOutOfRange
from pylog.files import DiskFiles, MemoryFiles
from pylog.partition import Checkpoint, Partition
from pylog.runtime.signals import WHOLE
from pylog.storage.segment_reader import TimestampAndOffset
from support.partition_log import NOW, InterruptingFiles, Log


def made(*times: int) -> Log:
    """One segment for each time."""
    log = Log(retention_ms=-1)
    for time in times:
        log.append("x", timestamp=NOW + time)
        log.partition.roll(NOW)
    return log


def test_a_time_is_found_behind_the_start_though_older_segments_have_it_too() -> None:
    log = made(5, 1, 1, 5, 0)
    partition = log.partition
    assert partition.offset_for_time(NOW + 3, upto=5) == TimestampAndOffset(NOW + 5, 0, 0)
    partition.delete_records(1)
    # The files of what was deleted are there still, and so are the two segments of older records before the next.
    assert len(partition.segments) == 6
    assert partition.offset_for_time(NOW + 3, upto=5) == TimestampAndOffset(NOW + 5, 3, 0)
    assert partition.offset_for_time(NOW + 3, upto=3) is None
    assert partition.offset_for_time(NOW + 6, upto=5) is None


def test_the_largest_time_is_that_of_the_first_batch_that_has_it() -> None:
    log = made(1, 5, 2, 5)
    assert log.partition.max_timestamp(4) == TimestampAndOffset(NOW + 5, 1, 0)
    assert [segment._largest()[1] for segment, _ in log.partition.segments] == [0, 1, 2, 3, 4]


def test_partitions_and_segments_have_a_readable_repr() -> None:
    log = made(1, 2)
    assert repr(log.partition) == "<Partition t-0 [0, 2)>"
    assert repr(log.partition.segments[1][0]) == "<Segment log/t-0/00000000000000000001.log>"


def test_a_partition_without_files_is_empty_for_a_reader() -> None:
    partition = without_files("log/t-0", "t", 0, TopicConfig())
    assert repr(partition) == "<ReadOnlyPartition t-0 [0, 0)>"
    assert (partition.start_offset, partition.last_stable_offset, partition.high_watermark) == (0, 0, 0)
    assert (partition.segments, partition.size) == ([], 0)
    assert partition.read(0, 1, upto=0) is None and partition.read_stable(0, 1, upto=0) == (None, [])
    assert partition.offset_for_time(NOW, upto=0) is None and partition.max_timestamp(0) is None
    with pytest.raises(OffsetOutOfRange):
        partition.read(1, 1, upto=0)


def test_a_reader_finds_nothing_in_a_topic_that_was_never_written_to(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as owner:
        owner.create_topic("t")
        assert not (tmp_path / "t-0").exists()
        with pylog.open(tmp_path, mode="read") as reader:
            consumer = reader.consumer("t", auto_offset_reset="earliest", isolation_level="read_committed")
            assert consumer.poll(timeout_ms=0) == []
            consumer.close()


def append(log: Log) -> None:
    log.append("y", timestamp=NOW + 50)


def roll(log: Log) -> None:
    append(log)
    log.partition.roll(NOW)
    append(log)


def drop(log: Log) -> None:
    log.partition.delete_records(7)
    log.partition.apply_retention(NOW)
    log.partition.purge(NOW)


def drop_all(log: Log) -> None:
    log.partition.delete_records(-1)
    log.partition.apply_retention(NOW)
    log.partition.purge(NOW)
    append(log)


def cut(log: Log) -> None:
    log.partition.truncate(11, NOW)


def cut_and_append(log: Log) -> None:
    cut(log)
    append(log)


@pytest.mark.parametrize("action", [append, roll, drop, drop_all, cut, cut_and_append])
@pytest.mark.parametrize(
    "look",
    [
        lambda partition: partition.check(),
        lambda partition: partition.offset_for_time(NOW + 9, upto=partition.high_watermark),
        lambda partition: partition.offset_for_time(NOW + 40, upto=partition.high_watermark),
        lambda partition: partition.max_timestamp(partition.high_watermark),
    ],
    ids=["check", "time", "time of none", "largest time"],
)
@pytest.mark.parametrize("names", [("read", "size"), ("stat", "open")], ids=["read", "open"])
def test_a_look_during_an_append_finds_no_damage(
    action: Callable[[Log], None], look: Callable[[Partition], object], names: tuple[str, ...]
) -> None:
    """In the middle of a look something is appended, dropped or cut: it is as if that came before, or after."""
    at = 0
    while True:
        at += 1
        files = InterruptingFiles(MemoryFiles())
        log = Log(files, retention_ms=-1, segment_bytes=300, index_interval_bytes=0)  # type: ignore[arg-type]
        for i in range(14):
            log.append("x" * 20, timestamp=NOW + i)
        partition = log.partition
        partition.close()
        partition = log.reopen(Checkpoint(recovery_point=14, durable_offset=14, high_watermark=14))
        # Where the lock is held nobody else can write.
        files.begin(at, names, lambda: None if WHOLE.depth else action(log))  # noqa: B023
        look(partition)
        if files.calls < at:
            break
    assert at > 1


def test_a_log_opened_during_a_cut_keeps_the_writers_handle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A handle knows the size of its file: what is appended through an older one would begin where that ended."""
    monkeypatch.chdir(tmp_path)
    files = InterruptingFiles(DiskFiles())
    log = Log(files, retention_ms=-1, segment_bytes=600)  # type: ignore[arg-type]
    for i in range(14):
        log.append("x" * 20, timestamp=NOW + i)
    log.partition.close()
    partition = log.reopen(Checkpoint(recovery_point=14, durable_offset=14, high_watermark=14))

    def cut_and_append() -> None:
        partition.truncate(2, NOW)
        log.append("a")

    # The first is that of its index, the second one that of the log that was just opened.
    files.begin(2, ("size",), cut_and_append)
    with pytest.raises(CorruptBatch):
        partition.segments[0][0].reader.read(1, 1000, upto=14)
    log.append("b")
    assert log.values() == ["x" * 20] * 2 + ["a", "b"]
    partition.check()


def test_a_read_of_a_closed_partition_writes_nothing() -> None:
    """The next owner has the files then, perhaps in another process: what it is writing looks damaged."""
    log = Log(retention_ms=-1, index_interval_bytes=0)
    for i in range(3):
        log.append("x", timestamp=NOW + i)
    closed, files = log.partition, log.files
    closed.close()
    path = "log/t-0/00000000000000000000.index"
    file = files.open(path)
    file.truncate(0)
    file.write(0, bytes(20))
    assert closed.read(1, 1, upto=3) is not None
    assert closed.offset_for_time(NOW + 2, upto=3) == TimestampAndOffset(NOW + 2, 2, 0)
    assert files.read_file(path) == bytes(20)
    files.remove(path)
    log.partition = log.make()
    assert closed.max_timestamp(3) == TimestampAndOffset(NOW + 2, 2, 0)
    assert files.stat(path) is None


class SealReading(InterruptingFiles):
    """Files in which something happens once, when a seal was read, before anybody knows what it says."""

    after: Callable[[], object] | None = None

    def read_file(self, path: str, *bytes_max: int) -> bytes:
        data = self.inner.read_file(path, *bytes_max)
        if self.after is not None and path.endswith("0.pylog-seal"):
            after, self.after = self.after, None
            after()
        return data


def test_a_seal_removed_while_it_is_read_is_ignored() -> None:
    files = SealReading(MemoryFiles())
    log = Log(files, retention_ms=-1, segment_bytes=600)  # type: ignore[arg-type]
    for i in range(14):
        log.append("x" * 20, timestamp=NOW + i)
    log.partition.close()
    partition = log.reopen(Checkpoint(recovery_point=14, durable_offset=14, high_watermark=14))

    def cut_and_append() -> None:
        partition.truncate(2, NOW)
        log.append("a")

    files.after = cut_and_append
    partition.read(0, 100, upto=14)
    assert files.after is None and partition.segments[0][0].on_disk.sealed is None
    assert partition.offset_for_time(NOW + 500, upto=3) is None
    partition.check()
