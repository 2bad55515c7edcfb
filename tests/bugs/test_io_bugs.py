"""Old bugs of devices, locks and processes: reliability 2.1, numbers 7 and 11; 2.7, numbers 87 to 91."""

import errno
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import pylog
from pylog import errors
from pylog.broker.broker import Broker
from pylog.broker.replica_manager import EndedRoles
from pylog.config import NodeConfig
from pylog.files import DiskFiles, MemoryFiles
from pylog.kernel import Record
from pylog.partition import Checkpoint
from pylog.protocol.batch import encode
from pylog.protocol.messages import NewTopic, ProduceRequest, Session
from pylog.testing import SimClock
from support.partition_log import InterruptingFiles, Log
from tests.support.faults import FaultFiles

OWNER = """
import sys, pylog
log = pylog.open(sys.argv[1])
topic = log.topic("t") if "t" in log.topics() else log.create_topic("t")
print("ready", flush=True)
while True:
    topic[0].append([pylog.Record(b"x" * 1000)])
"""


def owner(path: Path) -> "subprocess.Popen[str]":
    """A process that owns the log directory and writes for ever."""
    source = os.pathsep.join(entry for entry in sys.path if entry)
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(path)], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": source},
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def test_kafka_10778_not_one_append_succeeds_after_the_first_that_failed() -> None:
    files = FaultFiles(MemoryFiles())
    log = Log(files)
    log.append("before")
    files.faults.fail_at = len(files.sites) + 20
    outcomes: list[str] = []
    start = threading.Barrier(4)

    def write() -> None:
        start.wait()
        for _ in range(60):
            try:
                batch = encode([Record(b"x", b"k")], now_ms=1)
                log.partition.append(batch, epoch=0, now_ms=1)
                outcomes.append("appended")
            except errors.StorageError as error:
                outcomes.append(type(error).__name__)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made = len(files.sites)
    assert outcomes.count("DurabilityUnknown") == 1
    assert outcomes.count("PartitionFailed") == 240 - 1 - outcomes.count("appended")
    assert made == files.faults.fail_at, "nothing touched the files after the call that failed"
    assert log.partition.next_offset == 1 + outcomes.count("appended")


class Deletion:
    """A node with two topics, one of which is deleted in the middle of a flush."""

    def __init__(self, path: Path) -> None:
        self.files = InterruptingFiles(DiskFiles())
        self.broker = Broker(
            self.files, [str(path)], config=NodeConfig(), clock=SimClock(1), transport=pylog.MemoryTransport(),  # type: ignore[arg-type]
            node_id=None, flush="interval",
        )  # fmt: skip
        for name in ("doomed", "kept"):
            self.broker.node.changes.create_topic(NewTopic(name))
            self.send(name)

    def send(self, topic: str) -> object:
        asked = ProduceRequest.of(topic, 0, encode([Record(b"x")], now_ms=1))
        return self.broker.handle(asked, Session()).result(0).parts[0].error

    def delete(self) -> None:
        """In a thread of its own, as it would be; what it has to wait for ends with the flush."""
        self.thread = threading.Thread(target=lambda: self.broker.node.changes.delete_topic("doomed", EndedRoles()))
        self.thread.start()
        self.thread.join(0.02)


def test_kafka_15391_a_topic_deleted_during_a_flush_fails_no_other(tmp_path: Path) -> None:
    reached = 0
    for at in range(1, 40):
        node = Deletion(tmp_path / str(at))
        node.files.begin(at, ("sync", "sync_dir", "size", "stat", "write"), node.delete)
        node.broker.sync()
        hit = node.files.calls >= at
        node.files.begin(0, (), node.delete)
        if hit:
            node.thread.join()
            assert node.send("kept") is None
            assert isinstance(node.send("doomed"), errors.UnknownTopicOrPartition)
            assert not node.broker.partition("kept", 0).failed
            assert len(list(node.broker.node.directories)) == 1
            node.broker.sync()
        node.broker.close()
        if not hit:
            break
        reached += 1
    assert 3 <= reached < 39, "the deletion came before every call of the flush"


def test_chronicle_a_writer_that_is_stopped_keeps_its_lock(tmp_path: Path) -> None:
    process = owner(tmp_path)
    try:
        process.send_signal(signal.SIGSTOP)
        for _ in range(3):
            with pytest.raises(errors.DirectoryLocked) as caught:
                pylog.open(tmp_path, mode="own")
            assert caught.value.pid == process.pid
        process.send_signal(signal.SIGCONT)
        with pytest.raises(errors.DirectoryLocked):
            pylog.open(tmp_path, mode="own")
    finally:
        process.kill()
        process.communicate()


def test_chronicle_a_writer_that_is_killed_in_a_write_leaves_no_lock(tmp_path: Path) -> None:
    for _ in range(3):
        process = owner(tmp_path)
        process.kill()
        process.communicate()
        with pylog.open(tmp_path) as log:
            view = log.topic("t")[0]
            records = list(view.records())
            assert [record.offset for record in records] == list(range(view.next_offset))
            view.append([Record(b"on")])


def test_lmdb_closing_another_handle_does_not_release_the_lock(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as log:
        log.create_topic("t")
        for _ in range(2):
            # It opens and closes the lock's file, by which a POSIX lock would be gone.
            with pytest.raises(errors.DirectoryLocked):
                pylog.open(tmp_path, mode="own")
            with pylog.open(tmp_path, mode="read") as reader:
                assert reader.topics() == ["t"]
        probe = (
            "import sys, pylog\n"
            "try: pylog.open(sys.argv[1], mode='own')\nexcept pylog.errors.DirectoryLocked: print('locked')"
        )
        source = os.pathsep.join(entry for entry in sys.path if entry)
        done = subprocess.run(
            [sys.executable, "-c", probe, str(tmp_path)], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONPATH": source},
        )  # fmt: skip
        assert done.stdout == "locked\n"


FORKING = """
import os, sys, pylog
log = pylog.open(sys.argv[1])
partition = log.create_topic("t")[0]
partition.append([pylog.Record(b"a")])
child = os.fork()
if child == 0:
    try:
        partition.append([pylog.Record(b"b")])
    except pylog.errors.Closed as error:
        os._exit(0 if "fork" in str(error) or "closed" in str(error) else 2)
    os._exit(1)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert partition.append([pylog.Record(b"c")]).base_offset == 1
log.close()
sys.exit(code)
"""


def test_lmdb_a_log_is_of_no_use_in_a_forked_child(tmp_path: Path) -> None:
    source = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run(
        [sys.executable, "-c", FORKING, str(tmp_path)], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": source},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with pylog.open(tmp_path) as log:
        assert [record.value for record in log.topic("t")[0].records()] == [b"a", b"c"]


FULL = """
import resource, signal, sys, pylog
log = pylog.open(sys.argv[1], flush="none")
partition = log.create_topic("t", config={"index.interval.bytes": 0, "segment.bytes": 1 << 20})[0]
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
appended = 0
try:
    while True:
        partition.append([pylog.Record(b"x" * 100)])
        appended += 1
except pylog.errors.DiskFull:
    pass
records = list(partition.records())
assert [record.offset for record in records] == list(range(appended)), len(records)
print(appended)
"""


def test_a_full_disk_kills_no_process_by_a_map(tmp_path: Path) -> None:
    """What a store through a map into a hole does: SIGBUS. Indexes are maps, and as full as the log here."""
    source = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": source},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100


def test_atc20_a_sync_that_failed_once_is_never_believed_again() -> None:
    files = FaultFiles(MemoryFiles(), error=errno.EIO)
    log = Log(files)
    log.append("a")
    assert log.partition.sync() == 1
    log.append("b")
    files.faults.fail_at = len(files.sites) + 1
    with pytest.raises(errors.DurabilityUnknown):
        log.partition.sync()
    files.heal()
    made = len(files.sites)
    for _ in range(3):
        with pytest.raises(errors.PartitionFailed):
            log.partition.sync()
        with pytest.raises(errors.PartitionFailed):
            log.append("c")
        assert log.partition.durable_offset == 1
    assert not log.partition.close()
    assert not [site for site in files.sites[made:] if site.endswith(" sync")]
    # What is there is read, and only what a sync after that covers is durable.
    log.reopen(Checkpoint(clean=False, recovery_point=1, durable_offset=1))
    assert log.values() == ["a", "b"] and log.partition.durable_offset == 1
    assert log.partition.sync() == 2
