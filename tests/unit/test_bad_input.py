"""Bad input everywhere, through the public face: each a typed error that says where and what to do; nothing lost, and
nothing half made.
"""

import linecache
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog import Record, TopicPartition, errors
from pylog.protocol.batch import encode
from pylog.runtime.signals import WHOLE
from support.log_copies import copy_log

ROOT = os.geteuid() == 0


def tree(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file() and p.name != ".lock"}


def filled(path: Path, count: int = 6, *, size: int = 10) -> list[bytes]:
    """A closed log with topic t and `count` batches of one record."""
    values = [b"%d " % i + b"x" * size for i in range(count)]
    with pylog.open(path) as log:
        partition = log.create_topic("t", config={"segment.bytes": 1 << 20})[0]
        for value in values:
            partition.append([Record(value, timestamp=i) for i in [len(value)]])
    return values


def values(log: pylog.Log) -> list[bytes | None]:
    return [record.value for record in log.topic("t")[0].records()]


# --- where the log should be ------------------------------------------------------------------------------------------


@contextmanager
def read_only(path: Path) -> Iterator[None]:
    """A directory on a mount that cannot be written to: only root can make one."""
    mount = shutil.which("mount")
    if not ROOT or mount is None or subprocess.run([mount, "--bind", path, path], capture_output=True).returncode:
        pytest.skip("mounting is not allowed: no directory is on a read-only mount")
    try:
        subprocess.run([mount, "-o", "remount,bind,ro", path], check=True, capture_output=True)
        yield
    finally:
        subprocess.run(["umount", path], check=True, capture_output=True)


def test_a_read_only_directory_can_be_read_and_not_owned(tmp_path: Path) -> None:
    wanted = filled(tmp_path)
    before = tree(tmp_path)
    with read_only(tmp_path):
        with pytest.raises(errors.ReadOnly, match="mounted read-only"):
            pylog.open(tmp_path, mode="own")
        with pylog.open(tmp_path) as log:
            assert log.mode == "read" and values(log) == wanted
        with pytest.raises(errors.ReadOnly, match="new"):
            pylog.open(tmp_path / "new")
        with pylog.open(tmp_path, mode="read") as log:
            assert values(log) == wanted
    assert tree(tmp_path) == before
    with pylog.open(tmp_path) as log:
        assert values(log) == wanted


@pytest.mark.parametrize("name", ["t-0", "__cluster_metadata-0", ".pylog-published", "meta.properties", ".lock"])
def test_a_file_in_place_of_a_directory_is_a_typed_error(tmp_path: Path, name: str) -> None:
    filled(tmp_path)
    path = tmp_path / name
    if path.is_dir():
        shutil.rmtree(path)
        path.write_text("x")
    else:
        path.unlink()
        path.mkdir()
    for mode in ("own", "read"):
        try:
            with pylog.open(tmp_path, mode=mode) as log:  # type: ignore[arg-type]
                values(log)
        except errors.StorageError as error:
            assert name in str(error)
        else:
            assert (name, mode) == (".lock", "read"), "nobody noticed"


@pytest.mark.skipif(ROOT, reason="root may read everything")
def test_a_segment_that_may_not_be_read_is_a_typed_error(tmp_path: Path) -> None:
    wanted = filled(tmp_path)
    (segment,) = (tmp_path / "t-0").glob("*.log")
    segment.chmod(0)
    for mode in ("own", "read"):
        with pylog.open(tmp_path, mode=mode) as log, pytest.raises(errors.ReadOnly, match="permissions"):  # type: ignore[arg-type]
            values(log)
    segment.chmod(0o644)
    with pylog.open(tmp_path) as log:
        assert values(log) == wanted


def test_a_directory_in_place_of_a_segment_is_a_typed_error(tmp_path: Path) -> None:
    filled(tmp_path)
    (segment,) = (tmp_path / "t-0").glob("*.log")
    segment.unlink()
    segment.mkdir()
    with pylog.open(tmp_path) as log, pytest.raises(errors.StorageError, match=segment.name):
        values(log)


# --- a full disk ------------------------------------------------------------------------------------------------------


@contextmanager
def file_size_limit(limit: int) -> Iterator[None]:
    """No file may grow beyond `limit` bytes, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_appends_stop_when_there_is_no_room_and_go_on_when_there_is(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as log:
        partition = log.create_topic("t", config={"index.interval.bytes": 0})[0]
        kept = []
        with file_size_limit(20_000), pytest.raises(errors.DiskFull, match="Free some space"):
            for i in range(1000):
                partition.append([Record(b"%d " % i + b"x" * 1000)])
                kept.append(i)
        assert partition.next_offset == partition.high_watermark == partition.durable_offset == len(kept) > 5
        partition.check()
        for i in range(5):
            assert partition.append([Record(b"after %d" % i)]).base_offset == len(kept) + i
        partition.check()
        with log.producer(linger_ms=0) as producer, file_size_limit(20_000):
            assert isinstance(producer.send("t", b"x" * 30_000).exception(), errors.DiskFull)
    with pylog.open(tmp_path) as log:
        assert log.recovered == ()
        assert len(values(log)) == len(kept) + 5


def test_a_topic_that_does_not_fit_is_not_half_made(tmp_path: Path) -> None:
    filled(tmp_path)
    with pylog.open(tmp_path) as log:
        log.create_topic("before")
        with file_size_limit(1), pytest.raises(errors.DiskFull):
            log.create_topic("u")
        assert log.topics() == ["before", "t"]
        assert not (tmp_path / "u-0").exists()
        log.create_topic("u")[0].append([Record(b"x")])
    with pylog.open(tmp_path) as log:
        assert log.topics() == ["before", "t", "u"]


def test_a_partition_that_did_not_fit_is_made_later(tmp_path: Path) -> None:
    """Its folder was made, its first files were not: the topic id still gets there before any data."""
    with pylog.open(tmp_path) as log:
        topic = log.create_topic("t")
        with file_size_limit(1), pytest.raises(errors.DiskFull):
            topic[0].append([Record(b"x")])
        topic[0].append([Record(b"y")])
        assert (tmp_path / "t-0" / "partition.metadata").exists()
    with pylog.open(tmp_path) as log:
        assert values(log) == [b"y"]


def test_a_log_not_opened_for_want_of_room_opens_later(tmp_path: Path) -> None:
    with file_size_limit(1), pytest.raises(errors.DiskFull):
        pylog.open(tmp_path / "log")
    filled(tmp_path / "log")


def test_a_full_disk_at_the_close_loses_nothing(tmp_path: Path) -> None:
    log = pylog.open(tmp_path)
    partition = log.create_topic("t")[0]
    for i in range(3):
        partition.append([Record(b"%d" % i)])
    with file_size_limit(1), pytest.raises(errors.DiskFull):
        log.close()
    with pylog.open(tmp_path) as log:
        assert values(log) == [b"0", b"1", b"2"]


@contextmanager
def small_file_system(path: Path, size: str) -> Iterator[None]:
    """A file system that is soon full, mounted at `path`."""
    mount = shutil.which("mount")
    if not ROOT or mount is None:
        pytest.skip("mounting a small tmpfs needs root")
    path.mkdir(exist_ok=True)
    if subprocess.run([mount, "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path], capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", path], check=True, capture_output=True)


def fill(path: Path) -> None:
    """Leave no byte free."""
    with path.open("wb", buffering=0) as ballast, suppress(OSError):
        while True:
            ballast.write(bytes(4096))


def test_records_are_deleted_with_no_byte_free(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    with small_file_system(disk, "4m"):
        key = TopicPartition("t", 0)
        with pylog.open(disk / "log") as log:
            partition = log.create_topic("t", config={"segment.bytes": 1 << 20, "file.delete.delay.ms": 0})[0]
            for _ in range(200):
                partition.append([Record(bytes(10_000))])
            fill(disk / "ballast")
            with pytest.raises(errors.DiskFull):
                partition.append([Record(bytes(500_000))])
            assert log.delete_records({key: 150}) == {key: 150}
            copy_log(disk / "log", tmp_path / "crashed")
            assert log.apply_retention() == {key: 1}
            log.broker.node.topics.purge(2**62)
            assert partition.start_offset == 150
            assert partition.append([Record(bytes(500_000))]).base_offset == 200
            (disk / "ballast").unlink()
        with pylog.open(tmp_path / "crashed") as log:
            assert log.topic("t")[0].start_offset == 150


def test_a_partition_not_recovered_for_want_of_room_is_recovered_later(tmp_path: Path) -> None:
    before, disk = tmp_path / "before", tmp_path / "disk"
    with pylog.open(before) as origin:
        origin.create_topic("t", config={"segment.bytes": 1 << 20, "preallocate": True})[0].append([Record(b"x")])
        partition = origin.create_topic("u", config={"segment.bytes": 1 << 20, "preallocate": True})[0]
        assert partition.next_offset == 0
        with small_file_system(disk, "3m"):
            copy_log(before, disk / "log")
            # Where a crash came between the folder and its first segment.
            (disk / "log" / "u-0" / "00000000000000000000.log").unlink()
            fill(disk / "ballast")
            with pylog.open(disk / "log") as log:
                assert values(log) == [b"x"]
                for _ in range(2):
                    with pytest.raises(errors.DiskFull):
                        log.topic("u")[0].append([Record(b"y")])
                (disk / "ballast").unlink()
            # As long as it is not recovered, the log was not closed cleanly.
            assert not (disk / "log" / ".kafka_cleanshutdown").exists()
            fill(disk / "ballast")
            with pylog.open(disk / "log") as log:
                (disk / "ballast").unlink()
                assert log.topic("u")[0].append([Record(b"y")]).base_offset == 0
                log.topic("u")[0].check()
            assert (disk / "log" / ".kafka_cleanshutdown").exists()


def test_a_full_file_system_refuses_appends_and_loses_nothing(tmp_path: Path) -> None:
    with small_file_system(tmp_path, "1m"):
        with pylog.open(tmp_path / "log") as log:
            partition = log.create_topic("t", config={"segment.bytes": 1 << 20, "index.interval.bytes": 0})[0]
            spare = tmp_path / "spare"
            spare.write_bytes(b"x" * 200_000)
            with pytest.raises(errors.DiskFull):
                for i in range(10_000):
                    partition.append([Record(b"%d " % i + b"x" * 10_000)])
            end = partition.next_offset
            assert len(values(log)) == end > 50
            with pytest.raises(errors.DiskFull):
                for i in range(1000):
                    log.create_topic(f"u{i}", partitions=100)
            made = log.topics()
            spare.unlink()
            assert partition.append([Record(b"there is room again")]).base_offset == end
            partition.check()
        with pylog.open(tmp_path / "log") as log:
            assert log.topics() == made and len(values(log)) == end + 1


# --- damaged files ----------------------------------------------------------------------------------------------------

CHECKPOINTS = [
    "recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
]  # fmt: skip


@pytest.mark.parametrize("damage", ["0\n1\n", "0\n1\nt zero 5\n", "0\n1\n\xff\n", "nonsense"])
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_damaged_checkpoint_is_written_anew(tmp_path: Path, name: str, damage: str) -> None:
    wanted = filled(tmp_path)
    with pylog.open(tmp_path) as log:
        log.delete_records({TopicPartition("t", 0): 2})
    path = tmp_path / name
    good = path.read_bytes() if path.exists() else b"0\n0\n"
    path.write_text(damage, "latin-1")
    with pylog.open(tmp_path, mode="read") as log:
        assert values(log) == wanted[2:]
    with pylog.open(tmp_path) as log:
        assert values(log) == wanted[2:]
        log.topic("t")[0].append([Record(b"more")])
    # The cleaner's is written when a topic is compacted, and harms nobody before.
    assert name == "cleaner-offset-checkpoint" or path.read_bytes().splitlines()[1] == good.splitlines()[1]
    with pylog.open(tmp_path) as log:
        assert values(log) == [*wanted[2:], b"more"]


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *((name, "9\n0\n") for name in CHECKPOINTS),
        *(("t-0/partition.metadata", damage) for damage in ("9\n0\n", "0\n1\n", "0\n1\n\xff\n", "nonsense")),
    ],
)
def test_files_of_a_newer_version_and_a_damaged_identity_are_untouched(tmp_path: Path, name: str, damage: str) -> None:
    wanted = filled(tmp_path)
    good = (tmp_path / name).read_bytes() if (tmp_path / name).exists() else b"0\n0\n"
    (tmp_path / name).write_text(damage, "latin-1")
    before = tree(tmp_path / "t-0")
    with pytest.raises(errors.StorageError, match=Path(name).name), pylog.open(tmp_path) as log:
        values(log)
    assert tree(tmp_path / "t-0") == before
    (tmp_path / name).write_bytes(good)
    with pylog.open(tmp_path) as log:
        assert values(log) == wanted


@pytest.mark.parametrize("damage", ["0\n1\n", "0\n1\nt zero 5\n", "0\n1\n\xff\n", "nonsense"])
def test_damaged_leader_epochs_are_read_from_the_log_anew(tmp_path: Path, damage: str) -> None:
    wanted = filled(tmp_path)
    path = tmp_path / "t-0" / "leader-epoch-checkpoint"
    good = path.read_bytes()
    path.write_text(damage, "latin-1")
    with pylog.open(tmp_path) as log:
        assert values(log) == wanted
    assert path.read_bytes() == good
    path.write_text("9\n0\n")
    with pytest.raises(errors.UnsupportedFormat, match="leader-epoch-checkpoint"), pylog.open(tmp_path) as log:
        values(log)


@pytest.mark.parametrize(
    ("old", "new"), [("node.id=1", "node.id=one"), ("directory.id=", "directory.id=!!"), ("version=1", "version=7")]
)
def test_a_damaged_identity_is_named(tmp_path: Path, old: str, new: str) -> None:
    filled(tmp_path)
    path = tmp_path / "meta.properties"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(errors.StorageError, match=r"meta\.properties"):
        pylog.open(tmp_path)


def test_a_newer_format_is_refused_by_readers_too(tmp_path: Path) -> None:
    filled(tmp_path)
    path = tmp_path / "meta.properties"
    path.write_text(path.read_text().replace("version=1", "version=7"))
    for mode in ("own", "read"):
        with pytest.raises(errors.UnsupportedFormat, match="version 7"):
            pylog.open(tmp_path, mode=mode)  # type: ignore[arg-type]


@pytest.mark.parametrize("position", [0, 9, 20, 300, 32 + 256])
def test_damage_to_the_published_file_is_harmless_or_named(tmp_path: Path, position: int) -> None:
    wanted = filled(tmp_path)
    path = tmp_path / ".pylog-published"
    data = bytearray(path.read_bytes())
    data[position] ^= 0x55
    path.write_bytes(data)
    for mode in ("read", "own"):
        try:
            with pylog.open(tmp_path, mode=mode) as log:  # type: ignore[arg-type]
                assert values(log) == wanted
        except errors.StorageError as error:
            assert ".pylog-published" in str(error) and "open the log" in str(error)
    path.unlink()
    with pylog.open(tmp_path) as log:
        assert values(log) == wanted


def segment(path: Path) -> Path:
    (found,) = (path / "t-0").glob("*.log")
    return found


@pytest.mark.parametrize("mode", ["own", "read"])
@pytest.mark.parametrize("keep", [0.0, 0.5, 0.7, 0.99])
def test_a_segment_that_was_cut_after_a_clean_close_is_told(tmp_path: Path, mode: str, keep: float) -> None:
    wanted = filled(tmp_path)
    path = segment(tmp_path)
    os.truncate(path, int(path.stat().st_size * keep))
    size = path.stat().st_size
    with pylog.open(tmp_path, mode=mode) as log:  # type: ignore[arg-type]
        found: list[bytes | None] = []
        with pytest.raises(errors.CorruptBatch) as caught:
            found.extend(record.value for record in log.topic("t")[0].records())
    assert found == wanted[: len(found)]
    assert caught.value.path == str(path) and caught.value.position is not None and caught.value.offset is not None
    assert path.stat().st_size == size, "nothing more was cut"


def test_any_flipped_bit_of_a_segment_is_found(tmp_path: Path) -> None:
    wanted = filled(tmp_path, 3)
    path = segment(tmp_path)
    good = path.read_bytes()
    chance = random.Random(5)
    for position in chance.sample(range(len(good)), 60):
        data = bytearray(good)
        data[position] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
        with pylog.open(tmp_path, mode="read") as log:
            try:
                found = values(log)
            except errors.CorruptBatch as error:
                assert error.path == str(path) and error.position is not None
            else:
                # The base offset and the leader epoch are not under the CRC: an epoch harms nobody.
                assert found == wanted and position % (len(good) // 3) in range(12, 16)


def test_hostile_metadata_is_a_typed_error(tmp_path: Path) -> None:
    """Whole batches with the right CRC, and nonsense in them."""
    filled(tmp_path)
    (path,) = (tmp_path / "__cluster_metadata-0").glob("*.log")
    good, chance = path.read_bytes(), random.Random(3)
    from pylog.protocol.batch import split

    batches = list(split(good))
    records = [record.value for batch in batches if not batch.is_control for record in batch.records("", 0)]
    for _ in range(150):
        value = bytearray(chance.choice(records) or b"")
        for _ in range(chance.randrange(1, 4)):
            value[chance.randrange(len(value))] = chance.randrange(256)
        bad = encode([Record(bytes(value))], now_ms=1, base_offset=batches[-1].next_offset, leader_epoch=9)
        path.write_bytes(good + bytes(bad.data))
        shutil.rmtree(tmp_path / "t-0", ignore_errors=True)
        (tmp_path / ".pylog-published").unlink(missing_ok=True)
        for mode in ("read", "own"):
            try:
                pylog.open(tmp_path, mode=mode).close()  # type: ignore[arg-type]
            except errors.StorageError as error:
                assert isinstance(error, errors.UnsupportedFormat) or str(path) in str(error)
        outside = {p.name for p in tmp_path.parent.iterdir()} - {tmp_path.name}
        assert not any("-0" in name for name in outside), "a name became a path"


# --- requests ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def log(tmp_path: Path) -> Iterator[pylog.Log]:
    with pylog.open(tmp_path / "log") as opened:
        opened.create_topic("t", config={"max.message.bytes": 1000})[0].append([Record(b"x")])
        yield opened


@pytest.mark.parametrize("name", ["a/b", "..", ".", "", "x" * 250, "é", "a\0b", "__cluster_metadata"])
def test_impossible_topic_names_are_refused(log: pylog.Log, name: str) -> None:
    before = tree(Path(log.path))
    with pytest.raises(errors.InvalidTopic, match="cannot be the name of a topic"):
        log.create_topic(name)
    absent = errors.UnknownTopicOrPartition if name == "__cluster_metadata" else errors.InvalidTopic
    with pytest.raises(absent):
        log.topic(name)
    with log.producer() as producer, pytest.raises(absent):
        producer.send(name, b"x")
    if absent is errors.InvalidTopic:
        with pytest.raises(absent):
            log.consumer(name)
    assert tree(Path(log.path)) == before


def test_a_topic_name_of_the_greatest_length_is_taken(log: pylog.Log) -> None:
    name = "x" * 249
    log.create_topic(name)[0].append([Record(b"x")])
    log.delete_topic(name)
    assert log.topics() == ["t"]


def send(log: pylog.Log, **where: Any) -> None:
    with log.producer() as producer:
        producer.send("t", b"x", **where)


@pytest.mark.parametrize(
    ("use", "error"),
    [
        (lambda log: log.topic("t")[0].append([Record(b"x" * 2000)]), errors.RecordTooLarge),
        (lambda log: log.topic("t")[0].append([]), ValueError),
        (lambda log: log.topic("t")[0].append([b"x"]), TypeError),
        (lambda log: log.topic("t")[3], IndexError),
        (lambda log: log.topic("t")[-1], IndexError),
        (lambda log: log.topic("t")[0].read(2), errors.OffsetOutOfRange),
        (lambda log: log.topic("t")[0].read(-1), errors.OffsetOutOfRange),
        (lambda log: list(log.topic("t")[0].records(-1)), errors.OffsetOutOfRange),
        (lambda log: log.topic("t")[0].offset_for_time(-1), ValueError),
        (lambda log: log.create_topic("u", partitions=-2), errors.InvalidPartitions),
        (lambda log: log.create_topic("u", partitions=10**9), errors.InvalidPartitions),
        (lambda log: log.create_topic("u", config={"nope": 1}), errors.InvalidConfig),
        (lambda log: log.delete_topic("nope"), errors.UnknownTopicOrPartition),
        (lambda log: log.delete_topic("__cluster_metadata"), errors.UnknownTopicOrPartition),
        (lambda log: log.consumer(auto_offset_reset="sometimes"), errors.InvalidConfig),
        (lambda log: log.producer(acks=7), errors.InvalidConfig),
        (lambda log: log.create_topic("u", config="abc"), TypeError),
        (lambda log: pylog.open(":memory:", config=5), TypeError),
        (lambda log: log.create_partitions("t", True), TypeError),
        (lambda log: log.alter_config("t", delete="retention.ms"), TypeError),
        (lambda log: log.delete_records([TopicPartition("t", 0)]), TypeError),
        (lambda log: log.delete_records({TopicPartition("t", 0): "1"}), TypeError),
        (lambda log: send(log, partition=True), TypeError),
        (lambda log: send(log, timestamp_ms=True), TypeError),
        (lambda log: log.consumer("t").offsets_for_times([TopicPartition("t", 0)]), TypeError),
        (lambda log: log.consumer("t").offsets_for_times({TopicPartition("t", 0): 1.5}), TypeError),
        (lambda log: log.consumer("t").seek(TopicPartition("t", 0), True), TypeError),
        (lambda log: log.consumer().assign([TopicPartition("t", True)]), TypeError),
        (lambda log: log.consumer("t").poll(float("nan")), ValueError),
    ],
)  # fmt: skip
def test_impossible_requests_are_refused(
    log: pylog.Log, use: Callable[[pylog.Log], object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        use(log)
    assert log.topics() == ["t"] and values(log) == [b"x"]


# --- processes --------------------------------------------------------------------------------------------------------


def child(*lines: str) -> subprocess.CompletedProcess[str]:
    code = "\n".join(("import os, sys, pylog", "from pylog import errors", *lines))
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_a_forked_child_cannot_use_the_log(tmp_path: Path) -> None:
    done = child(
        f"log = pylog.open({str(tmp_path)!r})",
        "topic = log.create_topic('t')",
        "producer = log.producer(linger_ms=10_000)",
        "producer.send('t', b'of the parent')",
        "if (pid := os.fork()) == 0:",
        "    for use in (lambda: topic[0].append([pylog.Record(b'x')]), lambda: producer.send('t', b'of the child')):",
        "        try: use()",
        "        except errors.Closed: pass",
        "        else: os._exit(3)",
        "    log.close()",
        "    sys.exit(7)",
        "assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7",
        "producer.flush()",
        "print([r.value for r in topic[0].records()])",
        "if (pid := os.fork()) == 0:",
        "    import time; time.sleep(60)",
        "log.close()",
        f"pylog.open({str(tmp_path)!r}).close()",
        "os.kill(pid, 9)",
    )
    assert (done.returncode, done.stdout) == (0, "[b'of the parent']\n"), done.stderr


def test_the_end_of_a_process_closes_its_logs(tmp_path: Path) -> None:
    done = child(
        f"log = pylog.open({str(tmp_path)!r})",
        "log.create_topic('t')",
        "producer = log.producer(linger_ms=60_000)",
        "producer.send('t', b'not flushed')",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    with pylog.open(tmp_path) as log:
        assert values(log) == [b"not flushed"]


def test_an_interrupt_in_the_middle_of_an_append_is_an_interrupt(tmp_path: Path) -> None:
    """Ctrl-C at any line of an append: it comes out as what it is, and the log opens again with all that was told."""
    acknowledged = 0
    before = sys.gettrace()
    for line in range(0, 120, 3):
        path = tmp_path / str(line)
        log = pylog.open(path)
        partition = log.create_topic("t")[0]
        partition.append([Record(b"0")])
        left = line

        def trace(frame: object, event: str, argument: object) -> object:
            nonlocal left
            where = frame.f_code.co_filename  # type: ignore[attr-defined]
            if event == "line" and "pylog" in where:
                left -= 1
                # No signal strikes at a `try`, or at the end of a `with`, which is seen as its line: both are outside
                # of what lets go of a lock again.
                text = linecache.getline(where, frame.f_lineno).strip()  # type: ignore[attr-defined]
                if left < 0 and not text.startswith(("with ", "try:")):
                    sys.settrace(before)
                    raise KeyboardInterrupt
            return trace

        sys.settrace(trace)  # type: ignore[arg-type]
        try:
            partition.append([Record(b"1")])
            acknowledged += 1
            told = 2
        except KeyboardInterrupt:
            told = 1
        finally:
            sys.settrace(before)
            WHOLE.begin_anew()
        log.close()
        with pylog.open(path) as log:
            assert values(log) in ([b"0", b"1"][:told], [b"0", b"1"])
            log.topic("t")[0].check()
            log.topic("t")[0].append([Record(b"2")])
    assert acknowledged < 40
