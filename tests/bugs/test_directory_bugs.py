"""A log directory that is removed, or replaced by another one, while it is open."""

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import pylog
from pylog import TopicPartition
from pylog.broker.replica_manager import ReplicaManager
from pylog.errors import DirectoryReplaced, PartitionFailed, StorageError
from pylog.files import DiskFiles
from support.log_copies import copy_log

T0 = TopicPartition("t", 0)


def opened(path: Path, **config: object) -> pylog.Log:
    log = pylog.open(str(path), flush="none")
    log.create_topic("t", config={"segment.ms": 60_000, **config}, exist_ok=True)
    return log


def append(log: pylog.Log, number: int) -> int:
    """One record, a segment later than the one before."""
    record = pylog.Record(b"%d" % number, timestamp=1_700_000_000_000 + number * 100_000)
    return log.topic("t")[0].append([record]).base_offset


def values(log: pylog.Log) -> list[bytes | None]:
    return [record.value for record in log.topic("t")[0].records(0)]


def tree(path: Path) -> dict[str, bytes]:
    return {str(one): one.read_bytes() for one in path.rglob("*") if one.is_file()}


def removed(path: Path) -> None:
    shutil.rmtree(path)


def moved_away(path: Path) -> None:
    path.rename(path.with_name("before"))


def emptied(path: Path) -> None:
    for one in path.iterdir():
        shutil.rmtree(one) if one.is_dir() else one.unlink()


LOSSES = [removed, moved_away, emptied]


@pytest.mark.parametrize("lose", LOSSES)
def test_an_owner_of_a_replaced_directory_refuses_the_next_roll(tmp_path: Path, lose: Callable[[Path], None]) -> None:
    path = tmp_path / "log"
    first = opened(path)
    append(first, 0)
    lose(path)
    with opened(path) as second:
        append(second, 0)
        before = tree(path)
        with pytest.raises(StorageError, match=r"is not the file any more that this log has opened.*Close this log"):
            append(first, 1)
        with pytest.raises(PartitionFailed, match="close the log and open it again"):
            append(first, 2)
        with pytest.raises(DirectoryReplaced):
            first.close()
        assert tree(path) == before
        append(second, 1)
        assert values(second) == [b"0", b"1"]
    with opened(path) as again:
        assert values(again) == [b"0", b"1"] and not again.recovered and not again.quarantined


def test_an_owner_of_a_replaced_directory_takes_no_appends_after_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "log"
    first = opened(path)
    append(first, 0)
    emptied(path)
    with opened(path) as second:
        append(second, 0)
        before = tree(path)
        with pytest.raises(DirectoryReplaced, match=r"\.lock is not the file any more"):
            node_of(first).checkpoint()
        with pytest.raises(PartitionFailed):
            append(first, 0)
        with pytest.raises(DirectoryReplaced):
            first.close()
        assert tree(path) == before


def node_of(log: pylog.Log) -> ReplicaManager:
    node = log._node.node  # type: ignore[union-attr]
    assert isinstance(node, ReplicaManager)
    return node


def test_an_owner_of_a_replaced_directory_opens_no_partition_of_the_other(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with opened(path) as log:
        append(log, 0)
    first = opened(path)
    removed(path)
    with opened(path) as second:
        append(second, 7)
        before = tree(path)
        with pytest.raises(DirectoryReplaced):
            append(first, 1)
        with pytest.raises(DirectoryReplaced):
            first.close()
        assert tree(path) == before


def test_a_removed_directory_is_told_at_the_next_roll_and_not_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = opened(path)
    append(log, 0)
    removed(path)
    with pytest.raises(StorageError, match="its directory was removed"):
        append(log, 1)
    with pytest.raises(DirectoryReplaced):
        log.close()
    assert not path.exists()


def test_a_partition_whose_folder_alone_was_replaced_refuses_the_next_roll(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = opened(path)
    append(log, 0)
    shutil.copytree(path / "t-0", tmp_path / "backup")
    shutil.rmtree(path / "t-0")
    (tmp_path / "backup").rename(path / "t-0")
    before = tree(path / "t-0")
    with pytest.raises(StorageError, match=r"0\.log is not the file any more"):
        append(log, 1)
    assert tree(path / "t-0") == before
    log.close()
    with opened(path) as again:
        assert values(again) == [b"0"]


@pytest.mark.parametrize("lose", [moved_away, emptied])
def test_a_reader_of_a_replaced_directory_is_told_when_it_waits(tmp_path: Path, lose: Callable[[Path], None]) -> None:
    path = tmp_path / "log"
    with opened(path) as log:
        append(log, 0)
    copy_log(path, tmp_path / "backup")
    with pylog.open(str(path), mode="read") as reader, reader.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([T0])
        assert [record.value for record in consumer.poll(timeout_ms=1000)] == [b"0"]
        lose(path)
        shutil.copytree(tmp_path / "backup", path, dirs_exist_ok=True)
        with opened(path) as other:
            append(other, 1)
        for ask in (lambda: consumer.poll(timeout_ms=10), lambda: reader.topic("t")[0].next_offset):
            with pytest.raises(DirectoryReplaced, match="open it again to go on with the files that are there now"):
                ask()
    with pylog.open(str(path), mode="read") as reader:
        assert values(reader) == [b"0", b"1"]


def test_a_reader_is_told_of_an_older_copy_that_was_written_over_the_same_files(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = opened(path)
    append(log, 0)
    older = tree(path)
    append(log, 1)
    with pylog.open(str(path), mode="read") as reader:
        assert reader.topic("t")[0].next_offset == 2
        for name, data in older.items():
            Path(name).write_bytes(data)
        with pytest.raises(DirectoryReplaced):
            _ = reader.topic("t")[0].next_offset
    shutil.rmtree(path)
    with pytest.raises(DirectoryReplaced):
        log.close()


def test_a_reader_goes_on_where_an_owner_comes_and_goes(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with opened(path) as log:
        append(log, 0)
    (path / ".lock").unlink()
    with pylog.open(str(path), mode="read") as reader:
        for number in (1, 2):
            with opened(path) as log:
                append(log, number)
            assert reader.topic("t")[0].next_offset == number + 1


def test_a_file_without_a_descriptor_is_not_reopened_as_another_file(tmp_path: Path) -> None:
    files = DiskFiles(max_open=1)
    file = files.open(str(tmp_path / "f"), create=True)
    file.write(0, b"first")
    files.open(str(tmp_path / "other"), create=True).write(0, b"pushes the descriptor out")
    os.replace(tmp_path / "other", tmp_path / "f")
    assert not file.is_in_place()
    with pytest.raises(StorageError, match="another file is in its place"):
        file.read(0, 5)
    with pytest.raises(StorageError, match="another file is in its place"):
        file.write(5, b"second")


class YieldingLock:
    """A lock that lets something happen once, as soon as it is free again."""

    def __init__(self, action: Callable[[], object]) -> None:
        self._lock = threading.Lock()
        self._actions = [action]

    def acquire(self) -> None:
        self._lock.acquire()

    def release(self) -> None:
        self._lock.release()
        if self._actions:
            self._actions.pop()()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def test_a_topic_made_while_its_predecessor_is_trimmed_keeps_its_records(tmp_path: Path) -> None:
    """The checkpoint goes by names: an older one, written late, would give the new one its start after a kill."""
    log = pylog.open(str(tmp_path / "log"), flush="sync")
    log.create_topic("t")
    for number in range(5):
        append(log, number)

    def replace() -> None:
        log.delete_topic("t")
        log.create_topic("t")
        append(log, 7)

    partition = log.broker.node.roles.partition("t", 0)
    partition._durability.lock = YieldingLock(replace)  # type: ignore[assignment]
    log.delete_records({T0: 4})
    copy = copy_log(tmp_path / "log", tmp_path / "killed")
    log.close()
    with pylog.open(str(copy)) as again:
        assert values(again) == [b"7"]
