"""A log directory as a whole: what survives crashes between its files, deletion, and strange neighbours."""

import errno
import json
import shutil
from pathlib import Path
from uuid import UUID

import pytest

import pylog
from pylog import Record, errors
from pylog.broker.replica_manager import EndedRoles, ReplicaManager
from pylog.commitlog.deleted_segments import RETRY_MS
from pylog.config import NodeConfig
from pylog.errors import CorruptBatch, StorageError
from pylog.files import DiskFiles, Files, MemoryFiles
from pylog.logdirs.log_directory import LogDirectory, kafka_uuid, parse_uuid, read_cleanings
from pylog.protocol.batch import encode
from pylog.protocol.messages import NewTopic, Replacement
from pylog.record import TopicPartition
from pylog.storage.checkpoint import read_offsets
from pylog.storage.checkpoints import NAMES as CHECKPOINTS
from pylog.storage.checkpoints import RECOVERY_POINTS, START_OFFSETS, Checkpoints
from pylog.storage.partition_dirs import is_set_aside, partition_folders, set_aside
from pylog.storage.published import PublishedState
from pylog.testing import SimClock
from tests.support.faults import FaultFiles

NOW = 1_700_000_000_000


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
    assert partition_folders(files, "log", internal=True) == [("__cluster_metadata", 0), ("a", 0), ("b-c", 12)]


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("t-0." + "0a" * 16 + "-delete", TopicPartition("t", 0)),
        ("a.b-c.d-12." + "0a" * 16 + "-delete", TopicPartition("a.b-c.d", 12)),
        ("a-1.b-2." + "0a" * 16 + "-delete", TopicPartition("a-1.b", 2)),
        ("x" * 212 + "-99." + "0a" * 16 + "-delete", TopicPartition("x" * 249, 99)),
    ],
    ids=lambda value: str(value)[:20],
)
def test_folders_set_aside_are_known_by_kafkas_names(name: str, key: TopicPartition) -> None:
    assert set_aside(*key, UUID(hex="0a" * 16), "-delete") == name
    assert is_set_aside(name, "-delete") and is_set_aside(name, "-delete", key)
    assert not is_set_aside(name, "-future") and not is_set_aside(name, "-delete", TopicPartition("t", 1))


@pytest.mark.parametrize(
    "name", ["to-delete", "a.b-delete", "a-1." + "0a" * 15 + "-delete", "a-01." + "0a" * 16 + "-delete"]
)
def test_a_foreign_folder_was_not_set_aside(name: str) -> None:
    assert not is_set_aside(name, "-delete")


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
    """The metadata log has forgotten the topic, its folder is still there: a new topic of that name is empty."""
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
    with pylog.open(tmp_path) as log:
        log.delete_records({key: 50})
    with pylog.open(tmp_path) as log:
        assert log.topic("t")[0].start_offset == 50
        log.delete_topic("t")
        for name in (RECOVERY_POINTS, START_OFFSETS):
            assert key not in read_offsets(files, str(tmp_path / name))
        assert values_of_new_topic(log) == [b"new"]
    unclean(tmp_path)
    with pylog.open(tmp_path) as log:
        assert values(log) == [b"new"]


def test_records_truncated_on_purpose_are_not_missed(tmp_path: Path) -> None:
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


def filled(path: Path, topic: str = "t") -> None:
    """Thirty records in segments of ten."""
    with pylog.open(path) as log:
        view = log.create_topic(topic)[0]
        for number in range(30):
            view.append([Record(b"%d" % number)])
            if number in {9, 19}:
                log.broker.partition(topic, 0).roll(number)


def lost(log: pylog.Log) -> list[tuple[int, int]]:
    return [(one.offset, one.next_offset) for one in log.quarantined]


def test_an_older_copy_of_the_published_file_hides_nothing(tmp_path: Path) -> None:
    filled(tmp_path)
    older = (tmp_path / ".pylog-published").read_bytes()
    with pylog.open(tmp_path) as log:
        for number in range(30, 40):
            log.topic("t")[0].append([Record(b"%d" % number)])
        log.delete_records({TopicPartition("t", 0): 3})
    (tmp_path / ".pylog-published").write_bytes(older)
    with pylog.open(tmp_path) as log:
        view = log.topic("t")[0]
        assert (view.start_offset, view.high_watermark, view.next_offset, lost(log)) == (3, 40, 40, [])
        assert [record.value for record in view.records(38)] == [b"38", b"39"]


@pytest.mark.parametrize("clean", [True, False])
def test_a_lost_partition_folder_is_missed(tmp_path: Path, clean: bool) -> None:
    filled(tmp_path)
    if not clean:
        unclean(tmp_path)
    shutil.rmtree(tmp_path / "t-0")
    with pylog.open(tmp_path) as log:
        view = log.topic("t")[0]
        assert (view.start_offset, view.next_offset, lost(log)) == (0, 30, [(0, 30)])
        assert view.append([Record(b"new")]).base_offset == 30
        with pytest.raises(CorruptBatch, match="offsets 0 to 29 are damaged"):
            list(view.records(0))
        assert [record.value for record in view.records(30)] == [b"new"]


@pytest.mark.parametrize("clean", [True, False])
def test_lost_first_segments_are_missed(tmp_path: Path, clean: bool) -> None:
    filled(tmp_path)
    if not clean:
        unclean(tmp_path)
    for path in (tmp_path / "t-0").glob(f"{0:020d}.*"):
        path.unlink()
    with pylog.open(tmp_path) as log:
        view = log.topic("t")[0]
        assert (view.start_offset, view.next_offset, lost(log)) == (0, 30, [(0, 10)])
        assert [record.offset for record in view.records(10)] == list(range(10, 30))


def test_a_file_name_without_an_offset_is_no_segment(tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / "t-0" / f"{10**20 - 1}.log").touch()
    with pylog.open(tmp_path) as log:
        assert log.topic("t")[0].append([Record(b"new")]).base_offset == 30


def test_a_segment_behind_the_end_is_refused(tmp_path: Path) -> None:
    filled(tmp_path)
    stranger = tmp_path / "t-0" / f"{200:020d}.log"
    stranger.touch()
    with (
        pylog.open(tmp_path) as log,
        pytest.raises(StorageError, match="which was closed at offset 30"),
    ):
        log.topic("t")[0].append([Record(b"new")])
    stranger.unlink()
    with pylog.open(tmp_path) as log:
        assert log.topic("t")[0].append([Record(b"new")]).base_offset == 30


def test_a_start_offset_is_kept_for_a_topic_and_dropped_with_it(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as log:
        log.create_topic("t")[0].append([Record(b"%d" % i) for i in range(10)])
        log.broker.partition("t", 0).state.start_offset = 5
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
    shutil.rmtree(tmp_path / "__cluster_metadata-0")
    for _ in range(2):
        with pylog.open(tmp_path) as log:
            log.topic("t")[0].append([Record(b"x")])
            assert log.topic("t")[0].leader_epoch == 42


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


def test_published_offsets_are_dropped_after_a_close_by_kafka(tmp_path: Path) -> None:
    published = tmp_path / ".pylog-published"
    for marker, kept in (
        ('{"version":0,"brokerEpoch":7,"pylog":true}', True),
        ('{"version":0,"brokerEpoch":7}', False),
        ('{"version":0,"brokerEpoch":-1}', False),  # a broker that was stopped before it was registered
        ("?", False),
    ):
        with pylog.open(tmp_path) as log:
            log.create_topic(f"t{len(marker)}")[0].append([Record(b"x")])
        (tmp_path / ".kafka_cleanshutdown").write_text(marker)
        before = published.read_bytes()
        directory = LogDirectory(DiskFiles(), str(tmp_path), None)
        directory.close(clean=True)
        assert (published.read_bytes() == before) is kept


def test_the_mark_of_a_clean_stop_has_the_epoch_of_the_node(tmp_path: Path) -> None:
    marker = tmp_path / ".kafka_cleanshutdown"
    with pylog.open(tmp_path):
        pass
    assert json.loads(marker.read_text()) == {"version": 0, "brokerEpoch": -1, "pylog": True}, "it is not registered"
    with pylog.open(tmp_path) as log:
        log.create_topic("t")
        (node,) = log.broker.image.nodes.values()
    assert json.loads(marker.read_text()) == {"version": 0, "brokerEpoch": node.epoch, "pylog": True}


def test_a_partition_that_was_truncated_is_clean_no_further_than_its_end(tmp_path: Path) -> None:
    key = TopicPartition("t", 0)
    with pylog.open(tmp_path) as log:
        log.create_topic("t")[0].append([Record(b"%d" % i) for i in range(10)])
        partition = log.broker.partition("t", 0)
        home = log.broker.node.directories.first
        home.write_cleaner_offset(key, 8)
        home.write_checkpoints([partition])
        assert home.cleaner_offset(key) == 8
        partition.truncate_fully(3, 0)
        home.write_checkpoints([partition])
        assert home.cleaner_offset(key) == 3


def test_the_checkpoints_of_a_partition_move_with_it() -> None:
    files, key = MemoryFiles(), TopicPartition("t", 0)
    source, target = (LogDirectory(files, name, 1) for name in ("a", "b"))
    target.take_over(key, source, UUID(int=7))
    assert (target.cleaner_offset(key), target.entry(UUID(int=7), 0).read()) == (None, None)
    source.write_cleaner_offset(key, 5)
    source.entry(UUID(int=7), 0).publish(PublishedState(next_offset=9))
    target.take_over(key, source, UUID(int=7))
    assert target.cleaner_offset(key) == read_offsets(files, "b/cleaner-offset-checkpoint")[key] == 5
    assert target.entry(UUID(int=7), 0).read() == PublishedState(next_offset=9)


def test_a_partition_that_comes_back_is_published_in_both_slots() -> None:
    files, key, topic_id = MemoryFiles(), TopicPartition("t", 0), UUID(int=7)
    first, second = (LogDirectory(files, name, 1) for name in ("a", "b"))
    first.entry(topic_id, 0).publish(PublishedState(start_offset=1, next_offset=5, durable_offset=5))
    first.checkpoints.note(START_OFFSETS, key, 1)
    second.take_over(key, first, topic_id)
    second.entry(topic_id, 0).publish(PublishedState(start_offset=3, next_offset=9, durable_offset=9))
    second.checkpoints.note(START_OFFSETS, key, None)
    first.take_over(key, second, topic_id)
    assert (first.checkpoints.get(START_OFFSETS, key), read_offsets(files, f"a/{START_OFFSETS}")) == (None, {})
    assert read_offsets(files, f"a/{RECOVERY_POINTS}") == {key: 9}
    # The slot that was written last is torn.
    data = bytearray(files.read_file("a/.pylog-published"))
    for slot in (256 + 32, 256 + 128):
        torn = data[:slot] + bytes([data[slot] ^ 1]) + data[slot + 1 :]
        killed = MemoryFiles(tree=files.tree() | {"a/.pylog-published": bytes(torn)})
        state = LogDirectory(killed, "a", 1).entry(topic_id, 0).read()
        assert state is not None and (state.start_offset, state.durable_offset) == (3, 9)


@pytest.mark.parametrize(
    ("published", "checkpoint", "clean", "taken"),
    [(2, 5, True, 2), (2, 5, False, 5), (5, 2, True, 5), (5, 2, False, 5), (5, None, True, 5), (5, None, False, 5)],
)
def test_the_start_is_as_a_close_published_it_and_the_larger_of_two_after_a_kill(
    published: int, checkpoint: int | None, clean: bool, taken: int, caplog: pytest.LogCaptureFixture
) -> None:
    files, key = MemoryFiles(), TopicPartition("t", 0)
    directory = LogDirectory(files, "log", None)
    entry = directory.entry(UUID(int=7), 0)
    for _ in range(2):
        entry.publish(PublishedState(start_offset=published, next_offset=9, durable_offset=9))
    directory.checkpoints.note(RECOVERY_POINTS, key, 9)
    directory.checkpoints.note(START_OFFSETS, key, checkpoint)
    directory.checkpoints.write_late()
    files.make_dir("log/t-0")
    directory.close(clean=clean)
    again = LogDirectory(files, "log", None)
    found = again.checkpoint("t", 0, again.entry(UUID(int=7), 0))
    assert (found.start_offset, found.durable_offset, found.clean) == (taken, 9, clean)
    told = f"offset 5 by this file, which has no checksum, and at 2 by .pylog-published, which has one: {taken}"
    assert (told in caplog.text) == (published < 5)


def test_a_log_is_published_as_shorter_before_it_is_cut(tmp_path: Path) -> None:
    key, files = TopicPartition("t", 0), DiskFiles()
    with pylog.open(tmp_path) as log:
        for number in range(8):
            (log.topic("t") if number else log.create_topic("t"))[0].append([Record(b"%d" % number)])
        node = log.broker.node
        log.delete_records({key: 6})
        node.directories.first.write_cleaner_offset(key, 7)
        node.checkpoint()
        node.roles.partition("t", 0).truncate(5, 0)
        said = {name: read_offsets(files, str(tmp_path / name))[key] for name in CHECKPOINTS}
        assert said == dict.fromkeys(CHECKPOINTS, 5)


def test_checkpoints_are_late_on_a_full_disk_and_right_afterwards() -> None:
    files, key, other = OneFullDisk(), TopicPartition("t", 0), TopicPartition("u", 0)
    checkpoints = Checkpoints(files, "log")
    files.make_dir("log")
    for name in CHECKPOINTS:
        checkpoints.note(name, key, 5)
    checkpoints.write_late()
    files.full = "log/"
    checkpoints.note(START_OFFSETS, key, 7)
    checkpoints.write_starts()
    assert checkpoints.get(START_OFFSETS, key) == 7 and read_offsets(files, f"log/{START_OFFSETS}") == {key: 5}
    # What the file says of another one may lead, so it has to be written.
    with pytest.raises(errors.DiskFull):
        checkpoints.lower(other, 1, 1)
    files.full = f"log/{RECOVERY_POINTS}"
    checkpoints.lower(other, 1, 1)
    assert read_offsets(files, f"log/{START_OFFSETS}") == {key: 7}
    checkpoints.lower(key, 6, 6)
    checkpoints.lower(key, 4, 4)
    assert {name: checkpoints.get(name, key) for name in CHECKPOINTS} == dict.fromkeys(CHECKPOINTS, 4)
    assert read_offsets(files, f"log/{RECOVERY_POINTS}") == {key: 5}
    files.full = ""
    checkpoints.write_late()
    again = Checkpoints(files, "log")
    assert {name: again.get(name, key) for name in CHECKPOINTS} == dict.fromkeys(CHECKPOINTS, 4)
    assert again.keys == {key} and not again.damaged
    files.replace_file(f"log/{RECOVERY_POINTS}", b"?")
    assert Checkpoints(files, "log").damaged


def test_where_many_logs_start_is_kept_by_one_sync_and_one_checkpoint() -> None:
    files = FaultFiles(MemoryFiles())
    node = owner(files)
    node.changes.create_topic(NewTopic("t", 50))
    asked = {TopicPartition("t", number): 0 for number in range(50)}
    node.changes.delete_records(asked)
    calls = len(files.sites)
    assert [part.low_watermark for part in node.changes.delete_records(asked).values()] == [0] * 50
    # Both slots of each are written; nothing else depends on how many there are.
    assert len(files.sites) - calls < 60
    assert node.directories.first.checkpoints.get(START_OFFSETS, TopicPartition("t", 49)) == 0


@pytest.mark.parametrize("interrupt", [None, KeyboardInterrupt])
def test_starts_that_could_not_be_kept_latch_their_logs(interrupt: type[BaseException] | None) -> None:
    asked = {TopicPartition("t", 0): 1, TopicPartition("t", 1): 5, TopicPartition("u", 0): 0}

    def made() -> tuple[FaultFiles, ReplicaManager]:
        files = FaultFiles(MemoryFiles(), interrupt=interrupt)
        node = owner(files)
        node.changes.create_topic(NewTopic("t", 2))
        append_durably(node, "t", b"x")
        node.roles.partition("t", 1)
        return files, node

    files, node = made()
    kept, beyond, absent = node.changes.delete_records(asked).values()
    assert (kept.error, kept.low_watermark) == (None, 1)
    assert isinstance(beyond.error, errors.OffsetOutOfRange)
    assert isinstance(absent.error, errors.UnknownTopicOrPartition)
    sync = max(n for n, site in enumerate(files.sites, 1) if "storage.published" in site and site.endswith("sync"))
    files, node = made()
    files.faults.fail_at = sync
    if interrupt is None:
        kept, *_ = node.changes.delete_records(asked).values()
        assert isinstance(kept.error, errors.DurabilityUnknown) and kept.low_watermark == -1
    else:
        with pytest.raises(interrupt):
            node.changes.delete_records(asked)
    assert node.roles.partition("t", 0).failed and not node.roles.partition("t", 1).failed


def test_the_start_of_a_log_that_was_deleted_meanwhile_is_not_kept() -> None:
    node = owner(MemoryFiles())
    node.changes.create_topic(NewTopic("t"))
    append_durably(node, "t", b"x")
    partition, key = node.roles.partition("t", 0), TopicPartition("t", 0)
    partition.delete_records(1)
    node.changes.delete_topic("t", EndedRoles())
    node.directories.first.keep_starts([partition])
    assert node.directories.first.checkpoints.get(START_OFFSETS, key) is None


def test_a_log_is_not_cut_below_its_start_with_no_byte_free_to_say_so() -> None:
    files = OneFullDisk()
    node = owner(files)
    node.changes.create_topic(NewTopic("t"))
    for _ in range(4):
        append_durably(node, "t", b"x")
    partition, key = node.roles.partition("t", 0), TopicPartition("t", 0)
    part = node.changes.delete_records({key: 3})[key]
    assert (part.error, part.low_watermark) == (None, 3)
    files.full = "log/"
    with pytest.raises(errors.DiskFull):
        partition.truncate(2, 0)
    assert (partition.start_offset, partition.next_offset, partition.failed) == (3, 4, False)
    assert node.directories.first.checkpoints.get(START_OFFSETS, key) == 3
    files.full = ""
    partition.truncate(2, 0)
    assert read_offsets(files, f"log/{START_OFFSETS}")[key] == 2


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"[1, 2]"])
def test_unreadable_cleanings_are_ignored(content: bytes) -> None:
    files, key = MemoryFiles(), TopicPartition("t", 0)
    directory = LogDirectory(files, "log", None)
    files.replace_file("log/.pylog-cleanings", content)
    assert read_cleanings(files, "log") == {}
    directory.write_cleanings({key: {"end": 5}})
    assert read_cleanings(files, "log") == {"t-0": {"end": 5}}
    directory.forget("t", [0])
    assert read_cleanings(files, "log") == {}


# --- a full disk ------------------------------------------------------------------------------------------------------


class OneFullDisk(MemoryFiles):
    """Several disks, one of which has no byte free."""

    full = ""

    def replace_file(self, path: str, data: bytes) -> None:
        if self.full and path.startswith(self.full):
            raise errors.DiskFull(f"cannot replace {path}")
        super().replace_file(path, data)


def owner(files: Files, paths: tuple[str, ...] = ("log",)) -> ReplicaManager:
    return ReplicaManager(files, paths, NodeConfig(), SimClock(NOW), node_id=1, visible_when_durable=True)


def append_durably(node: ReplicaManager, topic: str, value: bytes) -> None:
    leader = node.roles.writer(topic, 0)
    leader.append(encode([Record(value, timestamp=NOW)], now_ms=NOW), NOW)
    leader.partition.sync()
    leader.advance()


def end_of(node: ReplicaManager, topic: str) -> int:
    return node.roles.partition(topic, 0).next_offset


def test_a_topic_is_deleted_or_stays_whole_with_no_byte_free() -> None:
    deleted = kept = 0
    # The disk is full from the n-th call on that needs room.
    for room in range(8):
        memory = MemoryFiles()
        files = FaultFiles(memory, error=errno.ENOSPC, once=False)
        node = owner(files)
        node.changes.create_topic(NewTopic("t"))
        for _ in range(10):
            append_durably(node, "t", b"old")
        node.checkpoint()
        files.faults.fail_at = len(files.sites) + 1 + room
        try:
            node.changes.delete_topic("t", EndedRoles())
        except errors.DiskFull:
            kept += 1
            assert end_of(node, "t") == 10
            continue
        except errors.DurabilityUnknown:
            # Its deletion is in the list of topics, which cannot publish that: the next open knows.
            assert "t" not in owner(MemoryFiles(tree=memory.tree())).image.topics
            continue
        deleted += 1
        # A folder that could not be renamed has gone at once.
        assert "t-0" not in memory.list_dir("log")
        node.topics.purge(NOW + 60_000)
        assert not [name for name in memory.list_dir("log") if name.startswith("t-")]
        # Nothing was closed: what is there is what a kill leaves.
        killed = MemoryFiles(tree=memory.tree())
        files.heal()
        for after, left in ((node, memory), (owner(killed), killed)):
            after.changes.create_topic(NewTopic("t"))
            append_durably(after, "t", b"new")
            again = owner(MemoryFiles(tree=left.tree()))
            assert end_of(again, "t") == 1 and not again.roles.quarantined
    assert deleted and kept


def test_a_topic_does_not_come_again_before_the_checkpoints_have_forgotten_it() -> None:
    files = OneFullDisk()
    node = owner(files)
    node.changes.create_topic(NewTopic("t"))
    append_durably(node, "t", b"old")
    node.checkpoint()
    files.full = f"log/{RECOVERY_POINTS}"
    node.changes.delete_topic("t", EndedRoles())
    assert read_offsets(files, f"log/{RECOVERY_POINTS}")[TopicPartition("t", 0)] == 1
    node.changes.create_topic(NewTopic("t"))
    with pytest.raises(errors.DiskFull):
        append_durably(node, "t", b"new")
    assert files.stat("log/t-0") is None
    files.full = ""
    append_durably(node, "t", b"new")
    assert TopicPartition("t", 0) not in read_offsets(files, f"log/{RECOVERY_POINTS}")


def test_a_partition_leaves_a_full_disk_and_its_files_do() -> None:
    files = OneFullDisk()
    node = owner(files, ("a", "b"))
    node.changes.create_topic(NewTopic("t"))
    append_durably(node, "t", b"x")
    node.checkpoint()
    files.full = "a/"
    node.changes.move(Replacement("t", 0, "b"), EndedRoles())
    append_durably(node, "t", b"y")
    node.topics.purge(NOW + 60_000)
    assert end_of(node, "t") == 2
    assert not [name for name in files.list_dir("a") if name.startswith("t-")]


class NoNewNames(MemoryFiles):
    """A directory takes no new name until something in it was removed; `refused` counts."""

    full = ""
    refused = 0

    def rename(self, source: str, target: str) -> None:
        if self.full and target.startswith(self.full) and self.stat(target) is None:
            self.refused += 1
            raise errors.DiskFull(f"cannot rename {source}")
        super().rename(source, target)

    def remove(self, path: str) -> None:
        super().remove(path)
        if path.endswith(".log"):
            self.full = ""


def test_a_deleted_topic_makes_the_room_for_its_new_name() -> None:
    files = NoNewNames()
    node = owner(files)
    node.changes.create_topic(NewTopic("t"))
    append_durably(node, "t", b"old")
    files.full = "log/t-0."
    node.changes.delete_topic("t", EndedRoles())
    (away,) = [name for name in files.list_dir("log") if name.startswith("t-")]
    assert files.refused == 1 and is_set_aside(away, "-delete")
    assert not [name for name in files.list_dir(f"log/{away}") if name.endswith(".log")]
    # A crash before the rename leaves a folder without records, which no other topic takes for its own.
    tree = {path.replace(away, "t-0"): data for path, data in files.tree().items()}
    again = owner(MemoryFiles(tree=tree))
    again.changes.create_topic(NewTopic("t"))
    append_durably(again, "t", b"new")
    assert end_of(again, "t") == 1


def test_a_decided_move_that_failed_is_finished_by_the_next_open() -> None:
    files = NoNewNames()
    node = owner(files, ("a", "b"))
    node.changes.create_topic(NewTopic("t"))
    append_durably(node, "t", b"x")
    files.full = "b/t-0"
    with pytest.raises(errors.StorageError, match="the next open does that") as raised:
        node.changes.move(Replacement("t", 0, "b"), EndedRoles())
    assert not isinstance(raised.value, errors.DiskFull)
    with pytest.raises(errors.StorageError, match="the next open does that"):
        append_durably(node, "t", b"y")
    files.full = ""
    node.close()
    again = owner(files, ("a", "b"))
    append_durably(again, "t", b"y")
    assert end_of(again, "t") == 2 and again.topics.home(TopicPartition("t", 0)).path == "b"


def test_a_deleted_topic_that_could_not_be_removed_is_tried_again() -> None:
    class Stuck(MemoryFiles):
        """Folders cannot be removed."""

        stuck = True

        def remove_dir(self, path: str) -> None:
            if self.stuck:
                raise errors.StorageError(f"cannot remove {path}")
            super().remove_dir(path)

    files = Stuck()
    node = owner(files)
    node.changes.create_topic(NewTopic("t"))
    append_durably(node, "t", b"old")
    node.changes.delete_topic("t", EndedRoles())
    node.topics.purge(NOW + 60_000)
    assert node.topics.purge_due_ms == NOW + 60_000 + RETRY_MS
    files.stuck = False
    node.topics.purge(NOW + 60_000 + RETRY_MS)
    assert node.topics.purge_due_ms is None and not [name for name in files.list_dir("log") if name.startswith("t-")]
    # Somebody else has removed it.
    node.changes.create_topic(NewTopic("t"))
    append_durably(node, "t", b"new")
    node.changes.delete_topic("t", EndedRoles())
    files.remove_dir(f"log/{next(name for name in files.list_dir('log') if name.startswith('t-'))}")
    node.topics.purge(NOW + 60_000)
    assert node.topics.purge_due_ms is None


# --- the incarnation --------------------------------------------------------------------------------------------------


def incarnations(tree: dict[str, bytes | None], boot: str) -> tuple[MemoryFiles, LogDirectory]:
    files = MemoryFiles(tree=tree, boot=boot)
    return files, LogDirectory(files, "log", None)


def test_a_directory_knows_its_incarnation_again_within_one_boot() -> None:
    files, directory = incarnations({}, "first")
    assert not directory.has_all_written
    directory.note_incarnation()
    assert incarnations(files.tree(), "first")[1].has_all_written
    assert not incarnations(files.tree(), "second")[1].has_all_written


def test_an_incarnation_that_is_forgotten_is_noted_again() -> None:
    files, directory = incarnations({}, "first")
    directory.note_incarnation()
    again_files, again = incarnations(files.tree(), "first")
    again.forget_incarnation()
    again.forget_incarnation()
    assert not incarnations(again_files.tree(), "first")[1].has_all_written
    again.note_incarnation()
    assert incarnations(again_files.tree(), "first")[1].has_all_written


def test_a_full_disk_keeps_no_log_from_being_opened(caplog: pytest.LogCaptureFixture) -> None:
    inner = MemoryFiles()
    directory = LogDirectory(FaultFiles(inner), "log", None)
    directory.files = FaultFiles(inner, 2, error=errno.ENOSPC, once=False)
    directory.note_incarnation()
    assert "open transactions will be aborted" in caplog.text
    assert not incarnations(inner.tree(), inner.boot)[1].has_all_written


def test_a_file_system_that_does_not_tell_its_incarnation_has_none_noted() -> None:
    class Silent(MemoryFiles):
        def incarnation(self, path: str) -> None:
            return None

    files = Silent()
    directory = LogDirectory(files, "log", None)
    directory.note_incarnation()
    assert not directory.has_all_written and not any("incarnation" in path for path in files.tree())


def test_an_identity_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pylog.open(tmp_path):
        pass
    properties = tmp_path / "meta.properties"
    properties.write_text(properties.read_text().replace("node.id=1", "node.id=one"))
    with pytest.raises(StorageError, match=r"meta\.properties: node\.id='one' cannot be read .*restore the file"):
        pylog.open(tmp_path)


def test_a_directory_whose_marker_cannot_be_removed_is_let_go() -> None:
    class Stubborn(MemoryFiles):
        refuses = True

        def remove(self, path: str) -> None:
            if self.refuses and path.endswith(".kafka_cleanshutdown"):
                raise StorageError(f"cannot remove {path}")
            super().remove(path)

    files = Stubborn()
    LogDirectory(files, "log", None).close(clean=True)
    with pytest.raises(StorageError, match="cannot remove"):
        LogDirectory(files, "log", None)
    files.refuses = False
    LogDirectory(files, "log", None).close(clean=True)
