"""A log directory that is removed, or replaced by another one, while it is open."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

import pylog
from pylog import TopicPartition
from pylog.broker.housekeeping import PLACES
from pylog.broker.replica_manager import ReplicaManager
from pylog.errors import (
    DirectoryLocked,
    DirectoryReplaced,
    KafkaStorage,
    LogNotFound,
    PartitionFailed,
    PylogError,
    StorageError,
)
from pylog.files import DiskFiles
from pylog.runtime.clock import MovableClock
from pylog.testing import SimClock
from support.log_copies import copy_log

T0 = TopicPartition("t", 0)


def opened(path: Path, *, clock: SimClock | None = None, **config: object) -> pylog.Log:
    """Nobody looks whether the directory is in its place, as time stands still."""
    log = pylog.open(str(path), flush="none", clock=clock or SimClock(1_700_000_000_000))
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


@pytest.mark.parametrize("lose", [removed, moved_away])
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
    removed(path)
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


def without_lock(path: Path) -> None:
    (path / ".lock").unlink()


@pytest.mark.parametrize("lose", [without_lock, emptied])
def test_a_directory_without_its_lock_file_has_no_second_owner(tmp_path: Path, lose: Callable[[Path], None]) -> None:
    """Two owners wrote over each other's acknowledged records."""
    path = tmp_path / "log"
    first = opened(path)
    append(first, 0)
    lose(path)
    for _ in range(2):
        with pytest.raises(DirectoryLocked, match=f"cannot lock {path}: another process owns this log directory"):
            pylog.open(str(path), mode="own")
    with pytest.raises(DirectoryReplaced):
        first.close()
    with opened(path) as second:
        assert append(second, 1) == (1 if lose is without_lock else 0)


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


def restored(path: Path) -> None:
    """A copy takes the place of the directory, as from a backup."""
    shutil.copytree(path, path.with_name("copy"), ignore=shutil.ignore_patterns(".socket"))
    shutil.rmtree(path)
    path.with_name("copy").rename(path)


def without_published(path: Path) -> None:
    (path / ".pylog-published").unlink()


def wait_for(what: Callable[[], bool]) -> None:
    while not what():
        threading.Event().wait(0.005)


def is_refused(log: pylog.Log, number: int, clock: MovableClock) -> bool:
    """Whether a partition is latched, when another second has passed."""
    clock.advance(1000)
    try:
        log.topic("t")[number].append([pylog.Record(b"more")])
    except (PartitionFailed, KafkaStorage):
        return True
    return False


@pytest.mark.parametrize("flush", ["sync", "none"])
@pytest.mark.parametrize("lose", [*LOSSES, restored, without_published])
def test_a_lost_directory_takes_no_appends_after_a_look(
    tmp_path: Path, lose: Callable[[Path], None], flush: Literal["sync", "none"]
) -> None:
    """With flush="sync" as well they were acknowledged until a roll, and lay in files without names."""
    path, clock = tmp_path / "log", MovableClock()
    log = pylog.open(str(path), flush=flush, clock=clock)
    log.create_topic("t")
    assert not is_refused(log, 0, clock)
    lose(path)
    wait_for(lambda: is_refused(log, 0, clock))
    with pytest.raises(PylogError):
        log.create_topic("another")
    with pytest.raises(DirectoryReplaced):
        log.close()


def test_a_lost_folder_of_a_partition_takes_no_appends_after_a_look(tmp_path: Path) -> None:
    clock = MovableClock()
    with pylog.open(str(tmp_path / "log"), clock=clock) as log:
        log.create_topic("t", partitions=2)
        assert not any(is_refused(log, number, clock) for number in (0, 1))
        shutil.rmtree(tmp_path / "log" / "t-0")
        wait_for(lambda: is_refused(log, 0, clock))
        assert not is_refused(log, 1, clock)


def test_a_lost_second_directory_takes_no_appends_after_a_look(tmp_path: Path) -> None:
    clock = MovableClock()
    with pylog.open([str(tmp_path / "a"), str(tmp_path / "b")], clock=clock) as log:
        log.create_topic("t", partitions=2)
        second = next(n for n in (0, 1) if "/b/" in log.broker.partition("t", n).directory)
        assert not any(is_refused(log, number, clock) for number in (0, 1))
        # At once: a look in the middle of a removal finds the folder of the partition gone, and the directory there.
        moved_away(tmp_path / "b")
        wait_for(lambda: is_refused(log, second, clock))
        assert not is_refused(log, 1 - second, clock)


def test_a_lost_second_directory_goes_offline_where_its_partitions_are_latched(tmp_path: Path) -> None:
    """It was lost between the looks at itself and at its partitions. It stayed, and `close` failed for it."""
    with pylog.open([str(tmp_path / "a"), str(tmp_path / "b")]) as log:
        log.create_topic("t", partitions=2)
        node = log.broker.node
        parts = [log.broker.partition("t", number) for number in (0, 1)]
        moved_away(tmp_path / "b")
        for part in parts:
            part.check_in_place()
        node.check_in_place([])
        assert [directory.path for directory in node.directories] == [str(tmp_path / "a")]


def test_a_log_that_nobody_appends_to_is_looked_at_with_the_next_append(tmp_path: Path) -> None:
    path, clock = tmp_path / "log", SimClock(1_700_000_000_000)
    log = opened(path, clock=clock)
    append(log, 0)
    housekeeping = log.broker.housekeeping
    housekeeping._look_at_places()
    assert PLACES in housekeeping._due
    housekeeping._look_at_places()
    assert PLACES not in housekeeping._due
    log.topic("t")[0].append([pylog.Record(b"more", timestamp=1_700_000_000_000)])
    # It is due at once: while the worker looks it is not.
    wait_for(lambda: PLACES in housekeeping._due)
    log.close()


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
        assert [record.value for record in consumer.poll(timeout_ms=60_000)] == [b"0"]
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


def test_a_reader_of_one_of_several_directories_is_refused(tmp_path: Path) -> None:
    """It gave the partitions of the other one as empty ones."""
    paths = [str(tmp_path / "a"), str(tmp_path / "b")]
    with pylog.open(paths) as log:
        log.create_topic("t", partitions=2)
        for part in log.topic("t"):
            part.append([pylog.Record(b"x")])
    with pytest.raises(LogNotFound, match="first directory"):
        pylog.open(paths[1], mode="read")
    with (
        pylog.open(paths[0], mode="read") as reader,
        pytest.raises(KafkaStorage, match="open the log with all of its directories"),
    ):
        [list(part.records()) for part in reader.topic("t")]
    with pylog.open(paths, mode="read") as reader:
        assert [len(list(part.records())) for part in reader.topic("t")] == [1, 1]


def test_a_lock_that_everybody_gets_is_refused(tmp_path: Path) -> None:
    """Two owners lost a third of their records where flock does nothing."""
    source, library = tmp_path / "flock.c", tmp_path / "flock.so"
    source.write_text("int flock(int descriptor, int operation) { return 0; }\n")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    code = "import sys, pylog; pylog.open(sys.argv[1], mode='own')"
    environment = os.environ | {"LD_PRELOAD": "./flock.so", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code, "log"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert "StorageError" in done.stderr and "cannot be locked" in done.stderr
