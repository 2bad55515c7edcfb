"""A reader beside a writer: rolls, truncation, deletion, an owner that comes later; no descriptor is left behind."""

import os
import shutil
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Literal

import pytest

import pylog
from pylog import Record, errors
from pylog.broker.read_only_broker import ReadOnlyBroker
from pylog.broker.read_only_catalogue import ReadOnlyCatalogue
from pylog.commitlog.read_only_partition import ReadOnlyPartition
from pylog.config import NodeConfig
from pylog.files import DiskFiles, File
from pylog.protocol.batch import split
from pylog.protocol.messages import Fetch, FetchPart, Session
from pylog.protocol.messages.configs import ListConfigResourcesRequest
from support.partition_log import InterruptingFiles
from support.patience import HANG_SECONDS

T0 = 1_700_000_000_000


def fill(log: pylog.Log, count: int, size: int = 10, topic: str = "t") -> None:
    for _ in range(count):
        partition = log.topic(topic)[0]
        partition.append([Record(b"%d " % partition.next_offset + b"x" * size)])


def offsets(log: pylog.Log) -> list[int]:
    return [record.offset for record in log.topic("t")[0].records()]


def test_a_reader_follows_a_writer_through_its_rolls(tmp_path: Path) -> None:
    with pylog.open(tmp_path, flush="none") as owner:
        owner.create_topic("t", config={"segment.bytes": 1 << 20, "index.interval.bytes": 0})
        writing = threading.Thread(target=fill, args=(owner, 300, 20_000))
        with pylog.open(tmp_path, mode="read") as reader:
            with reader.consumer("t", auto_offset_reset="earliest") as consumer:
                writing.start()
                seen: list[int] = []
                while len(seen) < 300:
                    records = consumer.poll(5000)
                    assert records, "the reader stands still"
                    for record in records:
                        assert record.value is not None
                        assert record.value.startswith(b"%d " % record.offset)
                        seen.append(record.offset)
            writing.join()
            assert seen == list(range(300))
            assert len(reader.topic("t")[0].segments) > 5
            found = reader.topic("t")[0].offset_for_time(0)
            assert found == 0 and reader.topic("t")[0].offset_for_time(2**60) is None


def test_groups_of_a_replaced_directory_are_not_told(tmp_path: Path) -> None:
    for name in ("read", "other"):
        with pylog.open(tmp_path / name) as owner:
            owner.create_topic("t")
            owner.admin.alter_offsets("g", {pylog.TopicPartition("t", 0): 0})
    with pylog.open(tmp_path / "read", mode="read") as reader:
        assert list(reader.admin.describe_groups(["g"])) == ["g"]
        (tmp_path / "read").rename(tmp_path / "before")
        (tmp_path / "other").rename(tmp_path / "read")
        for ask in (reader.admin.list_groups, lambda: reader.admin.describe_groups(["g"])):
            with pytest.raises(errors.DirectoryReplaced):
                ask()


def test_a_reader_sees_a_truncation(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as owner, pylog.open(tmp_path, mode="read") as reader:
        owner.create_topic("t", config={"segment.bytes": 1 << 20})
        fill(owner, 60, 50_000)
        assert offsets(reader) == list(range(60))
        partition = owner.broker.partition("t", 0)
        partition.truncate(10, 0)
        assert reader.topic("t")[0].next_offset == 10 and offsets(reader) == list(range(10))
        fill(owner, 40, 70_000)
        assert offsets(reader) == list(range(50))
        assert all(record.value and len(record.value) > 60_000 for record in reader.topic("t")[0].records(10))
        partition.truncate_fully(500, 0)
        fill(owner, 1)
        assert offsets(reader) == [500]


def test_a_reader_checks_the_bytes_of_its_owner(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as owner, pylog.open(tmp_path, mode="read") as reader:
        owner.create_topic("t")
        fill(owner, 5)
        owner.broker.partition("t", 0).roll(T0)
        fill(owner, 5)
        reader.topic("t")[0].check()
        path = tmp_path / "t-0" / f"{5:020d}.log"
        path.write_bytes(path.read_bytes()[:-1] + b"!")
        with pytest.raises(errors.CorruptBatch):
            reader.topic("t")[0].check()


def test_a_topic_made_anew_is_another_topic(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as owner, pylog.open(tmp_path, mode="read") as reader:
        owner.create_topic("t")
        fill(owner, 5)
        view = reader.topic("t")[0]
        assert view.next_offset == 5
        with reader.consumer("t") as consumer:
            consumer.poll(0)
            owner.delete_topic("t")
            with pytest.raises(errors.UnknownTopicOrPartition):
                _ = view.next_offset
            with pytest.raises(errors.UnknownTopicOrPartition):
                consumer.poll(1000)
        owner.create_topic("t")
        assert view.next_offset == 0
        fill(owner, 2)
        assert offsets(reader) == [0, 1] and view.next_offset == 2


@pytest.mark.parametrize("mode", ["own", "read", "attach"])
@pytest.mark.parametrize("waits", [True, False])
def test_a_consumer_begins_anew_in_a_topic_made_anew(
    tmp_path: Path, mode: Literal["own", "read", "attach"], waits: bool
) -> None:
    """A reader went on at its position, and missed the first records of the topic that had come in the meantime."""
    with ExitStack() as opened:
        owner = opened.enter_context(pylog.open(tmp_path))
        reader = owner if mode == "own" else opened.enter_context(pylog.open(tmp_path, mode=mode))
        owner.create_topic("t")
        fill(owner, 5)
        consumer = opened.enter_context(reader.consumer("t", auto_offset_reset="earliest"))
        assert len(consumer.poll(60_000)) == 5
        if waits:
            assert consumer.poll(1) == []
        owner.delete_topic("t")
        owner.create_topic("t")
        fill(owner, 8)
        found: list[int] = []
        while len(found) < 8:
            # A fetch that was under way at the deletion says that the topic is gone.
            with suppress(errors.UnknownTopicOrPartition):
                found += [record.offset for record in consumer.poll(60_000)]
        assert found == list(range(8))


def test_a_partition_is_followed_as_long_as_it_gets_records_and_nothing_else(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as owner, pylog.open(tmp_path, mode="read") as reader:
        owner.create_topic("t")
        fill(owner, 5)
        node = reader._node
        assert isinstance(node, ReadOnlyBroker)
        known = node.node.find("t", 0)
        assert isinstance(known, ReadOnlyPartition)
        fill(owner, 2)
        assert known.follow() and known.next_offset == 7
        assert not known.follow(), "there is nothing new"
        fill(owner, 1)
        owner.broker.partition("t", 0).roll(T0)
        fill(owner, 1)
        assert not known.follow() and known.next_offset == 7, "a roll"
        known.refresh()
        assert known.next_offset == 9
        owner.delete_topic("t")
        assert not known.follow(), "a deletion"


@pytest.mark.parametrize("change", ["delete", "roll, delete", "delete, make anew", "roll, delete, make anew"])
def test_a_reader_of_a_partition_hears_of_its_topics_end(tmp_path: Path, change: str) -> None:
    with pylog.open(tmp_path) as owner, pylog.open(tmp_path, mode="read") as reader:
        owner.create_topic("t")
        fill(owner, 5)
        node = reader._node
        assert isinstance(node, ReadOnlyBroker)
        message = Fetch([FetchPart("t", 0, 5)], max_wait_ms=0)
        node._read(message)
        if "roll" in change:
            owner.broker.partition("t", 0).roll(T0)
            fill(owner, 1)
        owner.delete_topic("t")
        if "anew" in change:
            owner.create_topic("t")
            fill(owner, 7)
        assert node.node.grown("t", 0) is None
        (part,) = node._read(message).parts
        if "anew" in change:
            assert [batch.base_offset for batch in split(part.data)] == [5, 6]
        else:
            assert isinstance(part.error, errors.UnknownTopicOrPartition)


def test_a_reader_inside_a_topic_made_anew_comes_to_its_end(tmp_path: Path) -> None:
    with pylog.open(tmp_path, flush="none") as owner, pylog.open(tmp_path, mode="read") as reader:
        owner.create_topic("t")
        fill(owner, 40, 100_000)
        records = reader.topic("t")[0].records()
        assert next(iter(records)).offset == 0
        owner.delete_topic("t")
        owner.create_topic("t")
        assert offsets(reader) == []
        assert len(list(records)) == 39


def test_an_empty_fetch_is_answered_when_its_time_is_up(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as owner, pylog.open(tmp_path, mode="read") as reader:
        owner.create_topic("t")
        assert isinstance(reader._node, ReadOnlyBroker)
        assert reader._node.handle(Fetch([], max_wait_ms=1), Session()).result(HANG_SECONDS).parts == []


def test_a_reader_tells_which_resources_have_configs(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as owner, pylog.open(tmp_path, mode="read") as reader:
        owner.create_topic("later")
        told, wanted = (one._node.handle(ListConfigResourcesRequest(), Session()).result() for one in (reader, owner))
        assert told == wanted and any(one.resource_name == "later" for one in told.config_resources)


def test_an_owner_that_comes_later_is_noticed(tmp_path: Path) -> None:
    """A directory that nobody has published anything for, as Kafka leaves it."""
    with pylog.open(tmp_path) as log:
        log.create_topic("t")
        fill(log, 3)
    (tmp_path / ".pylog-published").unlink()
    with pylog.open(tmp_path, mode="read") as reader:
        assert offsets(reader) == [0, 1, 2]
        with pylog.open(tmp_path) as owner:
            fill(owner, 2)
            owner.create_topic("later")
            assert offsets(reader) == [0, 1, 2, 3, 4]
            assert reader.topics() == ["later", "t"]


def test_readers_leave_no_descriptors(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as owner:
        owner.create_topic("t", config={"segment.bytes": 1 << 20})
        fill(owner, 50, 50_000)

        def open_descriptors() -> int:
            return len(os.listdir("/proc/self/fd"))

        before = open_descriptors()
        for _ in range(3):
            with pylog.open(tmp_path, mode="read") as reader:
                assert len(offsets(reader)) == 50
        assert open_descriptors() == before


def test_many_threads_may_share_a_reader(tmp_path: Path) -> None:
    with pylog.open(tmp_path, flush="none") as owner, pylog.open(tmp_path, mode="read") as reader:
        owner.create_topic("t", config={"segment.bytes": 1 << 20})
        fill(owner, 1)
        failures: list[BaseException] = []
        done = threading.Event()

        def look() -> None:
            try:
                while not done.is_set():
                    assert reader.topics()[0] == "t"
                    found = offsets(reader)
                    assert found == list(range(len(found)))
            except (AssertionError, errors.PylogError, RuntimeError, KeyError) as error:
                failures.append(error)

        threads = [threading.Thread(target=look) for _ in range(3)]
        for thread in threads:
            thread.start()
        for number in range(12):
            owner.create_topic(f"u{number}")
            fill(owner, 5, 40_000)
        done.set()
        for thread in threads:
            thread.join()
        assert failures == []


def test_a_closed_reader_refuses(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as owner:
        owner.create_topic("t")
    reader = pylog.open(tmp_path, mode="read")
    view = reader.topic("t")[0]
    reader.close()
    with pytest.raises(errors.Closed):
        _ = view.next_offset


def everything(log: pylog.Log) -> list[list[bytes | None]]:
    return [[record.value for record in partition.records()] for partition in log.topic("t")]


def test_a_reader_of_several_directories_follows_a_partition_that_moves(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    with pylog.open(paths) as owner:
        owner.create_topic("t", partitions=4)
        for number, partition in enumerate(owner.topic("t")):
            partition.append([Record(b"%d" % number)])
        with pylog.open(paths, mode="read") as reader:
            wanted = everything(owner)
            assert everything(reader) == wanted
            for number in range(4):
                owner.move_partition("t", number, paths[1])
                owner.topic("t")[number].append([Record(b"moved")])
                wanted[number].append(b"moved")
                assert everything(reader) == wanted
    with pylog.open(paths[::-1], mode="read") as reader:
        assert everything(reader) == wanted


def test_a_partition_that_is_being_moved_is_not_taken_for_empty(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    with pylog.open(paths) as owner:
        owner.create_topic("t")
        fill(owner, 3)
        source = Path(owner.topic("t")[0].path)
    (target,) = (path for path in paths if path != source.parent)
    with (
        pylog.open(paths, mode="read") as reader,
        reader.consumer("t", auto_offset_reset="earliest", fetch_max_wait_ms=50) as consumer,
    ):
        assert len(consumer.poll(60_000)) == 3
        away = source.rename(source.with_name(f"t-0.{'0' * 32}-delete"))
        assert consumer.poll(200) == []
        with pytest.raises(errors.NotLeaderOrFollower, match="t-0 has had records"):
            offsets(reader)
        away.rename(target / "t-0")
        assert consumer.poll(200) == [] and consumer.position(pylog.TopicPartition("t", 0)) == 3
        assert offsets(reader) == [0, 1, 2]


def test_a_folder_that_is_missing_is_told_from_a_partition_without_records(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as owner:
        owner.create_topic("t", partitions=2)
        fill(owner, 3)
    shutil.rmtree(tmp_path / "t-0")
    with pylog.open(tmp_path, mode="read") as reader:
        with pytest.raises(errors.LogNotFound, match="t-0 has had records, and it has no such folder: put it back"):
            offsets(reader)
        assert list(reader.topic("t")[1].records()) == []


def test_a_folder_that_is_made_while_a_reader_looks_for_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = DiskFiles.stat
    with pylog.open(tmp_path) as owner:
        owner.create_topic("t")
        # A reader looks which directory has the folder, and then for the folder.
        looks = [lambda: fill(owner, 3), lambda: None]

        def stat(files: DiskFiles, path: str) -> object:
            found = look(files, path)
            if path.endswith("t-0") and looks:
                looks.pop()()
            return found

        with pylog.open(tmp_path, mode="read") as reader:
            monkeypatch.setattr(DiskFiles, "stat", stat)
            assert offsets(reader) == [0, 1, 2]


class SnapshotFiles(InterruptingFiles):
    """Files in which `action` happens before a snapshot of the metadata log is opened."""

    def open(self, path: str, *, create: bool = False, kept: bool = False) -> File:
        if path.endswith(".checkpoint"):
            self.before("open a snapshot")
        return super().open(path, create=create, kept=kept)


@pytest.mark.parametrize("is_always", [False, True])
def test_a_snapshot_that_goes_while_it_is_read_is_followed_by_the_next_one(tmp_path: Path, is_always: bool) -> None:
    with pylog.open(tmp_path, config={"metadata.log.max.record.bytes.between.snapshots": 1}) as owner:
        names: list[str] = []

        def grow() -> None:
            for _ in range(2):
                names.append(f"t{len(names)}")
                owner.create_topic(names[-1])
                owner.broker.node.checkpoint()
            if is_always:
                files.begin(1, ("open a snapshot",), grow)

        files = SnapshotFiles(DiskFiles(read_only=True))
        grow()
        files.begin(1, ("open a snapshot",), grow)
        if is_always:
            with pytest.raises(errors.LogNotFound):
                ReadOnlyCatalogue(files, [str(tmp_path)], NodeConfig(), 1)  # type: ignore[arg-type]
        else:
            topics = ReadOnlyCatalogue(files, [str(tmp_path)], NodeConfig(), 1)  # type: ignore[arg-type]
            assert sorted(topics.image.topics) == names == ["t0", "t1", "t2", "t3"]
            topics.close()


def test_directories_without_a_list_of_topics_are_read_together(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    with pylog.open(paths) as owner:
        owner.create_topic("t", partitions=4)
        for number, partition in enumerate(owner.topic("t")):
            partition.append([Record(b"%d" % number)])
        wanted = everything(owner)
    shutil.rmtree(paths[0] / "__cluster_metadata-0")
    assert all(list(path.glob("t-*")) for path in paths)
    with pylog.open(paths, mode="read") as reader:
        assert everything(reader) == wanted


@pytest.mark.parametrize("told", [True, False])
def test_a_waiting_reader_is_woken_by_a_publish(tmp_path: Path, told: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not told:
        monkeypatch.setattr(DiskFiles, "watch", lambda _, path: None)
    with pylog.open(tmp_path, flush="none") as owner, pylog.open(tmp_path, mode="read") as reader:
        owner.create_topic("t")
        fill(owner, 1)
        with reader.consumer("t", auto_offset_reset="earliest") as consumer:
            assert len(consumer.poll(60_000)) == 1
            for _ in range(3):
                writing = threading.Timer(0.01, fill, args=(owner, 1))
                writing.start()
                assert len(consumer.poll(60_000)) == 1
                writing.join()
            assert consumer.poll(1) == []


@pytest.mark.parametrize("what", ["missing", "empty"])
@pytest.mark.parametrize("published", [True, False])
@pytest.mark.parametrize("mode", ["read", "own"])
def test_times_are_found_without_a_time_index(
    tmp_path: Path, what: str, published: bool, mode: Literal["read", "own"]
) -> None:
    """As Kafka finds them, which builds the index again: there may be none, and no seal that knows of it."""
    with pylog.open(tmp_path) as log:
        partition = log.create_topic("t", config={"index.interval.bytes": 0})[0]
        for i in range(35):
            partition.append([Record(b"%d" % i, timestamp=T0 + i)])
            if i % 10 == 9:
                log.broker.partition("t", 0).roll(1)
    for index in (tmp_path / "t-0").glob("*.timeindex"):
        index.unlink()
        if what == "empty":
            index.touch()
    for seal in (tmp_path / "t-0").glob("*.pylog-seal"):
        seal.unlink()
    if not published:
        (tmp_path / ".pylog-published").unlink()
    with pylog.open(tmp_path, mode=mode) as log:
        partition = log.topic("t")[0]
        assert [partition.offset_for_time(T0 + i) for i in (0, 5, 15, 29, 31, 34, 35)] == [0, 5, 15, 29, 31, 34, None]
        newest = log.consumer().offsets_for_times({pylog.TopicPartition("t", 0): T0 + 34})
        assert [found.offset for found in newest.values() if found is not None] == [34]
        if mode == "own":
            partition.append([Record(b"older", timestamp=T0)])
            log.broker.partition("t", 0).roll(1)
            assert partition.offset_for_time(T0 + 34) == 34
