"""A topic's partitions on one node: opened once, told from those of an earlier topic, deleted whatever fails."""

import logging
from uuid import UUID

import pytest

from pylog.config import DynamicBrokerConfig, NodeConfig, TopicConfig
from pylog.errors import DurabilityUnknown, InconsistentTopicId, StorageError, UnknownTopicOrPartition
from pylog.files import Files, MemoryFiles
from pylog.kernel import Record
from pylog.logdirs.log_directories import Directories
from pylog.protocol.batch import encode
from pylog.topic import Topic, remove_leftovers
from tests.support.faults import FaultFiles

NOW = 1_700_000_000_000
OLD, NEW = UUID(int=7), UUID(int=8)


def made(files: Files, topic_id: UUID = NEW, *, removed: tuple[UUID, ...] = (), partitions: int = 1) -> Topic:
    """A topic `t` in the directory `log`, of which the metadata log says that its partitions lie there."""
    directories = Directories(files, ["log"], None)
    places = dict.fromkeys(range(partitions), directories.first.directory_id)
    return Topic(
        directories,
        "t",
        topic_id,
        TopicConfig(),
        places,
        set(removed),
        DynamicBrokerConfig(NodeConfig()),
        lambda _: None,
    )


def append(topic: Topic, value: bytes, number: int = 0) -> None:
    topic.partition(number, NOW).append(encode([Record(value)], now_ms=NOW), epoch=0, now_ms=NOW)


def closed(topic: Topic) -> None:
    topic.close()
    assert topic.directories.first.is_whole
    topic.directories.release()


def test_a_partition_is_opened_once_and_others_are_not_there() -> None:
    topic = made(MemoryFiles())
    partition = topic.partition(0, NOW)
    assert topic.partition(0, NOW) is partition
    assert topic.opened == [partition]
    with pytest.raises(UnknownTopicOrPartition, match="'t' has no partition 1 on this node"):
        topic.partition(1, NOW)


def test_the_folder_of_a_topic_that_was_deleted_is_put_away() -> None:
    files = MemoryFiles()
    before = made(files, OLD)
    append(before, b"old")
    closed(before)
    topic = made(files, NEW, removed=(OLD,))
    assert topic.partition(0, NOW).next_offset == 0
    assert files.stat(f"log/t-0.{OLD.hex}-stray") is not None


def test_the_folder_of_an_unknown_topic_is_not_touched() -> None:
    files = MemoryFiles()
    before = made(files, OLD)
    append(before, b"whose?")
    closed(before)
    names = files.list_dir("log/t-0")
    with pytest.raises(InconsistentTopicId, match=rf"log/t-0 says .* topic id {OLD}, and topic 't' has id {NEW}"):
        made(files, NEW).partition(0, NOW)
    assert files.list_dir("log/t-0") == names


def test_a_dropped_partition_is_opened_anew_and_a_closed_one_may_be_dropped() -> None:
    topic = made(MemoryFiles(), partitions=2)
    append(topic, b"x")
    partition = topic.partition(0, NOW)
    topic.drop(0)
    topic.drop(1)
    assert topic.opened == []
    again = topic.partition(0, NOW)
    assert again is not partition and again.next_offset == 1


def test_a_failed_partition_stays_where_it_is_and_is_recovered_there() -> None:
    """As one that is about to be moved, whose files may not be what the disk has."""
    files = FaultFiles(MemoryFiles())
    topic = made(files)
    append(topic, b"x")
    files.faults.fail_at = len(files.sites) + 1
    with pytest.raises(DurabilityUnknown):
        append(topic, b"y")
    with pytest.raises(DurabilityUnknown, match="t-0 failed, and stays in log/t-0"):
        topic.drop(0)
    again = topic.partition(0, NOW)
    assert (again.next_offset, again.opened_clean, topic.directories.first.is_whole) == (1, False, False)
    again.sync()
    topic.close()
    assert topic.directories.first.is_whole


def test_a_topic_that_cannot_be_closed_is_deleted_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    files = FaultFiles(MemoryFiles())
    topic = made(files)
    append(topic, b"never synced")
    # The next call is the first that closing makes.
    files.faults.fail_at = len(files.sites) + 1
    with caplog.at_level(logging.WARNING, "pylog"):
        (doomed,) = topic.delete()
    assert "was deleted although it could not be closed: cannot" in caplog.text
    assert (files.stat("log/t-0"), topic.opened) == (None, [])
    assert files.stat(doomed) is not None
    remove_leftovers(files, "log")
    assert files.stat(doomed) is None


class Unrenamable(MemoryFiles):
    """Files of which one folder cannot be renamed."""

    def rename(self, source: str, target: str) -> None:
        if source == "log/t-0":
            raise StorageError(f"cannot rename {source}")
        super().rename(source, target)


def test_a_folder_that_cannot_be_put_away_keeps_no_other_from_it(caplog: pytest.LogCaptureFixture) -> None:
    files = Unrenamable()
    topic = made(files, partitions=2)
    for number in range(2):
        append(topic, b"x", number)
    (doomed,) = topic.delete()
    assert doomed.startswith("log/t-1.") and files.stat("log/t-1") is None
    assert "t-0 was deleted, and its folder stays" in caplog.text
