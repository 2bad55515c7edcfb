"""A log directory as a whole: what survives crashes between its files, deletion, and strange neighbours."""

import shutil
from pathlib import Path
from uuid import UUID

import pytest

import pylog
from pylog import Record, errors
from pylog.checkpoint import read_offsets, write_offsets
from pylog.directory import LogDirectory, kafka_uuid, parse_uuid, partition_folders
from pylog.files import DiskFiles, MemoryFiles
from pylog.record import TopicPartition

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
START_OFFSETS = "log-start-offset-checkpoint"


def values(log: pylog.Log, topic: str = "t") -> list[bytes | None]:
    return [record.value for record in log.topic(topic)[0].records()]


def unclean(path: Path) -> None:
    (path / ".kafka_cleanshutdown").unlink()


def test_uuids_are_written_as_kafka_does() -> None:
    value = UUID(int=2**128 - 2)
    assert kafka_uuid(value) == "_____________________g" and parse_uuid(kafka_uuid(value)) == value
    with pytest.raises(ValueError, match=r"."):
        parse_uuid("!!" + kafka_uuid(value))


def test_only_folders_of_partitions_are_partitions() -> None:
    files = MemoryFiles()
    for name in (
        "a-0",
        "b-c-12",
        "__cluster_metadata-0",
        "a-01",
        "a-x",
        "-3",
        "x y-0",
        "a-²",
        "t-0.0a-stray",
        "a-999999",
    ):
        files.make_dir(f"log/{name}")
    files.replace_file("log/file-0", b"")
    assert partition_folders(files, "log") == [("a", 0), ("b-c", 12)]


def test_a_directory_belongs_to_one_owner_and_is_released_when_opening_fails() -> None:
    files = MemoryFiles()
    first = LogDirectory(files, "log", 4)
    with pytest.raises(errors.DirectoryLocked):
        LogDirectory(files, "log", None)
    first.close(clean=True)
    with pytest.raises(errors.StorageError, match="node 4"):
        LogDirectory(files, "log", 5)
    second = LogDirectory(files, "log", None)
    assert (second.node_id, second.clean, second.directory_id) == (4, True, first.directory_id)
    second.close(clean=False)
    assert LogDirectory(files, "log", None).clean, "nothing lies in it"


def test_a_crash_while_a_topic_is_deleted_brings_nothing_back(tmp_path: Path) -> None:
    """The catalogue has forgotten the topic, its folder is still there: a new topic of that name is empty."""
    with pylog.open(tmp_path) as log:
        log.create_topic("t")[0].append([Record(b"old")])
        shutil.copytree(tmp_path / "t-0", tmp_path / "kept")
        log.delete_topic("t")
    (tmp_path / "kept").rename(tmp_path / "t-0")
    with pylog.open(tmp_path) as log:
        assert log.topics() == []
        assert values_of_new_topic(log) == [b"new"]
        (stray,) = [path for path in tmp_path.iterdir() if path.name.endswith("-stray")]
        assert list(stray.glob("*.log")), "nobody has asked to remove it"
    with pylog.open(tmp_path) as log:
        assert values(log) == [b"new"]


def values_of_new_topic(log: pylog.Log) -> list[bytes | None]:
    log.create_topic("t")[0].append([Record(b"new")])
    return values(log)


def test_checkpoints_of_a_deleted_topic_do_not_speak_of_its_successor(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as log:
        log.create_topic("t")[0].append([Record(b"old %d" % i) for i in range(100)])
    key = TopicPartition("t", 0)
    files = DiskFiles()
    write_offsets(files, str(tmp_path / START_OFFSETS), {key: 50})
    with pylog.open(tmp_path) as log:
        assert log.topic("t")[0].start_offset == 50
        log.delete_topic("t")
        for name in (RECOVERY_POINTS, START_OFFSETS):
            assert key not in read_offsets(files, str(tmp_path / name))
        assert values_of_new_topic(log) == [b"new"]
    unclean(tmp_path)
    with pylog.open(tmp_path) as log:
        assert values(log) == [b"new"]


def test_what_was_truncated_on_purpose_is_not_missed(tmp_path: Path) -> None:
    """The checkpoint was written before the truncation, and there was a crash after it."""
    with pylog.open(tmp_path) as log:
        log.create_topic("t")
        for i in range(10):
            log.topic("t")[0].append([Record(b"%d" % i)])
        log.broker.node.checkpoint()
        stale = (tmp_path / RECOVERY_POINTS).read_bytes()
        log.broker.partition("t", 0).truncate(4, 0)
    (tmp_path / RECOVERY_POINTS).write_bytes(stale)
    unclean(tmp_path)
    with pylog.open(tmp_path) as log:
        assert values(log) == [b"0", b"1", b"2", b"3"]


def test_a_start_offset_is_remembered_and_forgotten(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as log:
        log.create_topic("t")[0].append([Record(b"%d" % i) for i in range(10)])
        log.broker.partition("t", 0).start_offset = 5
    with pylog.open(tmp_path) as log:
        assert log.topic("t")[0].start_offset == 5
        with pytest.raises(errors.OffsetOutOfRange, match=r"outside \[5, 10\]"):
            log.topic("t")[0].read(4)
        log.broker.partition("t", 0).truncate_fully(2, 0)
        log.topic("t")[0].append([Record(b"again")])
    with pylog.open(tmp_path) as log:
        assert (log.topic("t")[0].start_offset, values(log)) == (2, [b"again"])


def test_a_log_that_comes_from_elsewhere_goes_on_in_a_later_epoch(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as log:
        log.create_topic("t")[0].append([Record(b"0")])
        log.broker.apply(pylog.Lead(topic="t", partition=0, leader_epoch=41, replicas=(log.node_id,)))
        log.topic("t")[0].append([Record(b"1")])
    for epoch in (42, 43):
        with pylog.open(tmp_path) as log:
            log.topic("t")[0].append([Record(b"x")])
            assert log.topic("t")[0].leader_epoch == epoch


def test_neighbours_that_are_no_partitions_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "backup-of-2024").mkdir()
    (tmp_path / "my files-1").mkdir()
    (tmp_path / "t-²").mkdir()
    with pylog.open(tmp_path) as log:
        assert log.topics() == []
        log.create_topic("u")[0].append([Record(b"x")])
    with pylog.open(tmp_path) as log:
        assert values(log, "u") == [b"x"]
    assert (tmp_path / "my files-1").is_dir()


def test_one_damaged_partition_does_not_keep_the_others(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as log:
        for name in ("bad", "good"):
            log.create_topic(name)[0].append([Record(b"x" * 100)])
        path = Path(log.topic("bad")[0].segments[0].path)
    data = bytearray(path.read_bytes())
    data[80] ^= 1
    path.write_bytes(data)
    unclean(tmp_path)
    for _ in range(2):
        with pylog.open(tmp_path) as log:
            assert values(log, "good")[0] == b"x" * 100
            log.topic("good")[0].append([Record(b"y")])
            log.topic("bad")[0].append([Record(b"z")])
            with pytest.raises(errors.CorruptBatch, match="offsets 0 to 0 are damaged"):
                values(log, "bad")
            assert next(log.topic("bad")[0].records(1)).value == b"z"
        assert path.read_bytes() == data
