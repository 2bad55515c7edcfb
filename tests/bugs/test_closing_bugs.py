"""What an interrupted close, and a sync that failed, once took from a log: acknowledged records, and their offsets."""

import os
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

import pylog
from crash.engine import CLOCK, NOW
from crash.nodes import append, make_node, read_all
from pylog.broker.replica_manager import EndedRoles, ReplicaManager
from pylog.broker.replica_manager.topics import LocalTopics
from pylog.errors import DurabilityUnknown, PylogError, StorageError
from pylog.files import DiskFiles, File, Files, MemoryFiles
from pylog.files.disk_file import DiskFile
from pylog.kernel import Record
from pylog.logdirs.log_directories import Directories
from pylog.protocol.batch import encode
from pylog.protocol.messages import NewTopic, Replacement, Session
from support.messages import join_group
from tests.support.faults import FaultFiles

MARKER = ".kafka_cleanshutdown"
MARKED = b'{"version":0,"brokerEpoch":0,"pylog":true}'


def append_lazily(node: ReplicaManager, topic: str, number: int, value: bytes) -> int:
    """Acknowledged before it is durable; gives its offset."""
    leader = node.roles.writer(topic, number)
    appended = leader.append(encode([Record(value, timestamp=NOW)], now_ms=NOW), NOW)
    leader.advance()
    return appended.base_offset


def lazy(files: Files, partitions: int = 1, paths: tuple[str, ...] = ("log",)) -> ReplicaManager:
    """A node with a durable record in each partition, and forty that are not."""
    node = make_node(files, paths)
    node.changes.create_topic(NewTopic("t", partitions))
    for number in range(partitions):
        append(node, "t", number, b"durable")
    node.checkpoint()
    for number in range(partitions):
        for count in range(40):
            append_lazily(node, "t", number, b"%d" % count)
    return node


# --- a close ----------------------------------------------------------------------------------------------------------


def test_an_interrupt_between_two_partitions_leaves_no_marker() -> None:
    inner = MemoryFiles(CLOCK)
    files = FaultFiles(inner, interrupt=KeyboardInterrupt)
    node = lazy(files, partitions=3)
    files.faults.fail_at = len(files.sites) + 1
    with pytest.raises(KeyboardInterrupt):
        node.close()
    tree = inner.tree()
    assert f"log/{MARKER}" not in tree
    found = make_node(MemoryFiles(CLOCK, tree), ("log",))
    assert [len(values) for values in read_all(found)["t"]] == [41, 41, 41]
    assert not found.roles.quarantined


def test_the_work_of_a_node_ends_although_a_waiting_caller_raises_in_its_close(tmp_path: Path) -> None:
    others = set(threading.enumerate())
    log = pylog.open(tmp_path, config={"group_initial_rebalance_delay_ms": 60_000})
    log.create_topic("t")
    log.topic("t")[0].append([Record(b"x")])

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    joining = log.broker.handle(join_group("g", protocols=[("range", b"")]), Session())
    joining.add_done_callback(interrupt)
    threads = set(threading.enumerate()) - others
    assert "pylog-housekeeping" in {thread.name for thread in threads}
    with pytest.raises(KeyboardInterrupt):
        log.close()
    assert not [thread for thread in threads if thread.is_alive()]


def test_a_false_clean_marker_costs_no_record() -> None:
    """What goes on behind the durable offset of a log that is said to be clean is recovered, never given up."""
    files = MemoryFiles(CLOCK)
    node = lazy(files)
    node.roles.partition("t", 0).roll(NOW)
    for count in range(5):
        append_lazily(node, "t", 0, b"behind the roll %d" % count)
    tree = files.tree() | {f"log/{MARKER}": MARKED}
    found = make_node(MemoryFiles(CLOCK, tree), ("log",))
    assert len(read_all(found)["t"][0]) == 46 and not found.roles.quarantined
    assert append_lazily(found, "t", 0, b"new") == 46


def test_a_false_clean_marker_adopts_no_foreign_segment() -> None:
    files = MemoryFiles(CLOCK)
    node = lazy(files)
    tree = files.tree() | {f"log/{MARKER}": MARKED, f"log/t-0/{50:020d}.log": b""}
    with pytest.raises(StorageError, match="it is not part of it"):
        make_node(MemoryFiles(CLOCK, tree), ("log",)).roles.partition("t", 0)
    node.close()


def test_a_failed_close_gives_all_back_and_raises_again(tmp_path: Path) -> None:
    log = pylog.open(tmp_path / "log", flush="interval")
    view = log.create_topic("t")[0]
    for count in range(100):
        view.append([pylog.Record(b"%d" % count)])
    opened = log.broker.partition("t", 0)._local.active.log.file
    assert isinstance(opened, DiskFile)
    # What takes every write and refuses every sync.
    good, null = os.dup(opened.descriptor), os.open(os.devnull, os.O_RDWR)
    os.dup2(null, opened.descriptor)
    for descriptor in (good, null):
        os.close(descriptor)
    with pytest.raises(StorageError, match="cannot sync"):
        log.close()
    left = [link for link in map(target, os.listdir("/proc/self/fd")) if link.startswith(str(tmp_path))]
    assert left == []
    with pytest.raises(StorageError, match="cannot sync"):
        log.close()
    assert not (tmp_path / "log" / MARKER).exists()
    with pylog.open(tmp_path / "log") as log:
        assert [record.value for record in log.topic("t")[0].records(0)] == [b"%d" % count for count in range(100)]
    log.close()


@pytest.mark.parametrize(
    "where", [LocalTopics.in_directory, ReplicaManager._give_back, Directories.release], ids=lambda one: one.__name__
)
def test_a_close_struck_before_it_begins_gives_all_back(tmp_path: Path, where: Callable[..., object]) -> None:
    """A second Ctrl-C is handled at once, wherever it comes: the lock stayed as long as the process lived."""
    log = pylog.open(tmp_path / "log")
    log.create_topic("t")[0].append([pylog.Record(b"one")])
    before = sys.gettrace()

    def strike(frame: FrameType, event: str, argument: object) -> None:
        if frame.f_code is where.__code__:
            # Where a trace function raises, the interpreter traces no more.
            raise KeyboardInterrupt

    sys.settrace(strike)
    with pytest.raises(KeyboardInterrupt):
        log.close()
    sys.settrace(before)
    with pytest.raises(DurabilityUnknown, match="interrupted"):
        log.close()
    with pylog.open(tmp_path / "log") as log:
        assert [record.value for record in log.topic("t")[0].records(0)] == [b"one"]


def target(descriptor: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return ""


# --- a move in a living process ---------------------------------------------------------------------------------------


def moving(fail_at: int | None) -> tuple[ReplicaManager, FaultFiles]:
    """A node that was closed cleanly and has taken more since, as a partition of it is moved."""
    files = FaultFiles(MemoryFiles(CLOCK))
    lazy(files, paths=("log", "other")).close()
    node = make_node(files, ("log", "other"))
    for count in range(5):
        assert append_lazily(node, "t", 0, b"more %d" % count) == 41 + count
    if fail_at is not None:
        files.faults.fail_at = fail_at
        with pytest.raises(PylogError):
            node.changes.move(Replacement("t", 0, "other"), EndedRoles())
    return node, files


def test_a_move_whose_close_fails_keeps_every_record_and_offset() -> None:
    node, files = moving(None)
    before = len(files.sites)
    node.changes.move(Replacement("t", 0, "other"), EndedRoles())
    first = next(
        at
        for at, site in enumerate(files.sites[before:], 1)
        if re.match(r"pylog.storage.pending_syncs:\d+ sync$", site)
    )
    node, files = moving(before + first)
    assert len(read_all(node)["t"][0]) == 46 and not node.roles.quarantined
    assert append_lazily(node, "t", 0, b"new") == 46
    node.changes.move(Replacement("t", 0, "other"), EndedRoles())
    assert len(read_all(node)["t"][0]) == 47
    node.close()


# --- a sync that failed -----------------------------------------------------------------------------------------------


class ForgetfulFile:
    """A file whose bytes the system calls written when their sync has failed, as ext4, XFS and btrfs do (ATC'20)."""

    def __init__(self, file: File, files: "ForgetfulFiles") -> None:
        self.file = file
        self.files = files

    def write(self, position: int, *buffers: bytes) -> None:
        self.file.write(position, *buffers)
        self.files.dirty.setdefault(self.file.path, []).append((position, b"".join(map(bytes, buffers))))

    def sync(self) -> None:
        dirty = self.files.dirty.pop(self.file.path, [])
        if self.files.fails:
            self.files.fails = False
            raise StorageError(f"cannot sync {self.file.path}")
        disk = self.files.disk.setdefault(self.file.path, bytearray())
        for position, data in dirty:
            disk.extend(bytes(max(0, position - len(disk))))
            disk[position : position + len(data)] = data

    def __getattr__(self, name: str) -> object:
        return getattr(self.file, name)


class ForgetfulFiles:
    """`disk` is what has reached the disk, file by file."""

    def __init__(self) -> None:
        self.inner = MemoryFiles(CLOCK)
        self.dirty: dict[str, list[tuple[int, bytes]]] = {}
        self.disk: dict[str, bytearray] = {}
        self.fails = False

    def open(self, path: str, *, create: bool = False, kept: bool = False) -> ForgetfulFile:
        return ForgetfulFile(self.inner.open(path, create=create, kept=kept), self)

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


def test_bytes_lost_by_a_failed_sync_are_written_again_before_a_promise() -> None:
    files = ForgetfulFiles()
    node = make_node(files, ("log",))  # type: ignore[arg-type]
    node.changes.create_topic(NewTopic("t"))
    append(node, "t", 0, b"durable")
    node.checkpoint()
    append_lazily(node, "t", 0, b"acknowledged")
    files.fails = True
    with pytest.raises(DurabilityUnknown):
        node.roles.partition("t", 0).sync()
    node.close()
    found = make_node(files, ("log",))  # type: ignore[arg-type]
    assert read_all(found)["t"] == ((b"durable", b"acknowledged"),)
    path = found.roles.partition("t", 0).segments[0][0].path
    assert found.roles.partition("t", 0).durable_offset == 2
    assert bytes(files.disk[path]) == files.inner.read_file(path)


def test_bytes_written_again_are_the_same_bytes(tmp_path: Path) -> None:
    with pylog.open(tmp_path / "log") as log:
        view = log.create_topic("t")[0]
        for count in range(3):
            view.append([pylog.Record(b"%d" % count * 900_000)])
        segment = log.broker.partition("t", 0).segments[0][0]
        before = DiskFiles().read_file(segment.path)
        segment.log.write_again()
        assert DiskFiles().read_file(segment.path) == before
