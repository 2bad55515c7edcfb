"""Housekeeping goes on, whatever happens to one partition, and whoever deletes topics beside it."""

from dataclasses import replace
from typing import Any

import pytest

import pylog
from pylog import Record, TopicPartition, errors
from pylog.broker.alarm import Alarm
from pylog.broker.housekeeping import PLACES, Housekeeping
from pylog.broker.replica_manager import EndedRoles, ReplicaManager
from pylog.config import NodeConfig
from pylog.files import File, FileStat, MemoryFiles
from pylog.logdirs.log_directory import CLEANINGS, read_cleanings
from pylog.protocol.batch import encode
from pylog.protocol.messages import NewTopic
from pylog.testing import SimClock

NOW = 1_700_000_000_000
BAD, GOOD = TopicPartition("bad", 0), TopicPartition("good", 0)


class FilesWithABug(MemoryFiles):
    """Files that fail as nobody expects them to, in one folder, once told so."""

    broken: Exception | None = None

    def rename(self, source: str, target: str) -> None:
        self._check(source)
        super().rename(source, target)

    def remove(self, path: str) -> None:
        self._check(path)
        super().remove(path)

    def open(self, path: str, *, create: bool = False, kept: bool = False) -> File:
        self._check(path)
        return super().open(path, create=create, kept=kept)

    def _check(self, path: str) -> None:
        if self.broken is not None and path.startswith("log/bad-0/"):
            raise self.broken


def make_node(files: MemoryFiles, clock: SimClock) -> ReplicaManager:
    return ReplicaManager(files, ["log"], NodeConfig(), clock, node_id=1, visible_when_durable=False)


def make_housekeeping(node: ReplicaManager, clock: SimClock) -> Housekeeping:
    return Housekeeping(node, clock, Alarm(), expire=lambda topic, after: iter(()))


def fill(node: ReplicaManager, topic: str) -> None:
    leader = node.roles.writer(topic, 0)
    for _ in range(2):
        leader.append(encode([Record(b"value", b"key", timestamp=NOW)], now_ms=NOW), NOW)
        leader.advance()
        leader.partition.roll(NOW)


@pytest.fixture
def clock() -> SimClock:
    return SimClock(NOW)


def make(clock: SimClock, policy: str) -> tuple[FilesWithABug, ReplicaManager, Housekeeping]:
    """A node with a topic in whose folder there is a bug, and a good one."""
    files = FilesWithABug()
    node = make_node(files, clock)
    for topic in ("bad", "good"):
        node.changes.create_topic(NewTopic(topic, config={"cleanup.policy": policy, "retention.ms": "1000"}))
        fill(node, topic)
    return files, node, make_housekeeping(node, clock)


def test_a_topic_deleted_while_housekeeping_looks_around_is_left_out(clock: SimClock) -> None:
    _, node, _ = make(clock, "delete")
    kept = node.kept()
    assert next(kept).topic == "bad"
    node.changes.delete_topic("good", EndedRoles())
    assert list(kept) == []
    with pytest.raises(errors.UnknownTopicOrPartition):
        node.roles.partition(*GOOD)


class DeletingFiles(MemoryFiles):
    """Files in which a topic is deleted as soon as its folder was found."""

    node: ReplicaManager | None = None

    def stat(self, path: str) -> FileStat | None:
        found = super().stat(path)
        if path == "log/good-0" and self.node is not None:
            node, self.node = self.node, None
            node.changes.delete_topic("good", EndedRoles())
        return found


def test_damage_is_not_looked_for_in_a_topic_deleted_meanwhile(clock: SimClock) -> None:
    files = DeletingFiles()
    node = make_node(files, clock)
    housekeeping = make_housekeeping(node, clock)
    for topic in ("bad", "good"):
        node.changes.create_topic(NewTopic(topic))
        fill(node, topic)
    files.node = node
    assert not housekeeping.find_damage()
    assert "good" not in node.image.topics
    node.changes.create_topic(NewTopic("good"))
    fill(node, "good")
    files.node = node
    with pytest.raises(errors.UnknownTopicOrPartition):
        housekeeping.find_damage([GOOD])


def test_one_partition_does_not_keep_the_others_from_retention(
    clock: SimClock, caplog: pytest.LogCaptureFixture
) -> None:
    files, node, housekeeping = make(clock, "delete")
    clock.advance(2000)
    files.broken = RuntimeError("a bug")
    with pytest.raises(errors.DurabilityUnknown, match="a bug"):
        housekeeping.retain()
    assert node.roles.partition(*BAD).failed and node.roles.partition(*GOOD).start_offset == 2
    assert "retention of bad-0 failed: " in caplog.text
    assert housekeeping.retain() == {}
    housekeeping.close()


def test_an_unexpected_error_does_not_end_the_background_work(
    clock: SimClock, caplog: pytest.LogCaptureFixture
) -> None:
    files, _, housekeeping = make(clock, "delete")
    clock.advance(2000)
    assert housekeeping.retain() == {BAD: 2, GOOD: 2}
    files.broken = RuntimeError("a bug")
    clock.advance(60_000)
    for _ in range(5):
        housekeeping._work()
    assert "purge failed as it never should" in caplog.text and "a bug" in caplog.text
    assert not [name for name in files.list_dir("log/good-0") if name.endswith(".deleted")]
    housekeeping.close()


def test_one_partition_does_not_keep_the_others_from_being_cleaned(
    clock: SimClock, caplog: pytest.LogCaptureFixture
) -> None:
    files, node, housekeeping = make(clock, "compact")
    housekeeping.close()
    node.close()
    node = make_node(files, clock)
    housekeeping = make_housekeeping(node, clock)
    node.roles.partition(*BAD)
    files.broken = RuntimeError("a bug")
    for _ in range(3):
        housekeeping._clean_once()
    assert housekeeping.cleanings[GOOD].last is not None
    error = housekeeping.cleanings[BAD].error
    assert error == "RuntimeError('a bug')" and housekeeping.cleanings[BAD].last is None
    assert "bad-0 is not cleaned any more" in caplog.text
    housekeeping.close()


def test_a_full_disk_puts_cleaning_off(clock: SimClock) -> None:
    files, _, housekeeping = make(clock, "compact")
    files.broken = errors.DiskFull("cannot make a file: no space left")
    with pytest.raises(errors.DiskFull):
        housekeeping.clean([BAD])
    files.broken = None
    for _ in range(2):
        housekeeping._clean_once()
    assert housekeeping.cleanings[BAD].last is not None and housekeeping.cleanings[BAD].error is None
    housekeeping.close()


def test_a_topic_deleted_while_it_is_chosen_for_cleaning_is_no_error(
    clock: SimClock, caplog: pytest.LogCaptureFixture
) -> None:
    _, node, housekeeping = make(clock, "compact")
    partition = node.roles.partition(*GOOD)
    node.changes.delete_topic("good", EndedRoles())
    assert housekeeping._clean(partition, None) is None
    assert housekeeping.cleanings == {} and not caplog.records


def test_topics_come_and_go_while_housekeeping_never_rests() -> None:
    config = {"log.retention.check.interval.ms": 1, "log.cleaner.backoff.ms": 1, "log.cleanup.policy": "compact,delete"}
    with pylog.open(":memory:", config=config) as log:
        for _ in range(50):
            log.create_topic("t", config={"file.delete.delay.ms": 0})
            log.topic("t")[0].append([Record(b"value", b"key")])
            log.delete_topic("t")
        housekeeping = log.broker.housekeeping
        assert housekeeping._worker._thread is not None and housekeeping._worker._thread.is_alive()
        assert housekeeping._cleaner._thread is not None and housekeeping._cleaner._thread.is_alive()


def test_an_append_that_comes_in_the_last_look_is_looked_at_later(clock: SimClock) -> None:
    _, node, keeping = make(clock, "delete")
    partition = node.roles.partition(*GOOD)
    alarm = keeping._alarm

    class Looks:
        def look(self) -> bool:
            assert alarm.is_armed
            keeping.note_append(partition)
            return False

    keeping.note_append(partition)
    keeping._places = Looks()  # type: ignore[assignment]
    alarm.is_armed = False
    keeping._look_at_places()
    assert PLACES in keeping._due
    keeping.close()


def test_places_are_looked_at_again_where_the_disk_does_not_say(clock: SimClock) -> None:
    _, node, keeping = make(clock, "delete")

    class Looks:
        def look(self) -> bool:
            raise errors.StorageError("no answer")

    keeping.note_append(node.roles.partition(*GOOD))
    keeping._places = Looks()  # type: ignore[assignment]
    with pytest.raises(errors.StorageError):
        keeping._look_at_places()
    assert PLACES in keeping._due
    keeping.close()


def test_results_of_cleaning_are_written_once_for_all_partitions(clock: SimClock) -> None:
    replaced: list[str] = []

    class Watched(MemoryFiles):
        def replace_file(self, path: str, data: bytes) -> None:
            replaced.append(path)
            super().replace_file(path, data)

    files = Watched()
    with_many = make_node(files, clock)
    with_many.changes.create_topic(NewTopic("t", 20, {"cleanup.policy": "compact"}))
    for number in range(20):
        leader = with_many.roles.writer("t", number)
        leader.append(encode([Record(b"value", b"key", timestamp=NOW)], now_ms=NOW), NOW)
        leader.advance()
        leader.partition.roll(NOW)
    keeping = make_housekeeping(with_many, clock)
    assert len(keeping.clean()) == 20
    assert replaced.count(f"log/{CLEANINGS}") == 1
    assert len(read_cleanings(files, "log")) == 20
    keeping.close()


def test_a_cleaning_that_ends_before_the_next_begins_keeps_its_result(clock: SimClock) -> None:
    _, _, housekeeping = make(clock, "compact")
    housekeeping.clean()
    key = TopicPartition("good", 0)
    newer = replace(housekeeping.cleanings[key], finished_ms=NOW + 5)
    alone = housekeeping._alone

    def behind_another(work: str) -> Any:
        housekeeping.cleanings[key] = newer
        return alone(work)

    housekeeping._alone = behind_another  # type: ignore[method-assign]
    assert housekeeping.clean([key]) == {}
    after = housekeeping.cleanings[key]
    assert after.last is not None and after.idle_reason is not None
    assert after == replace(newer, idle_reason=after.idle_reason)
    housekeeping.close()
