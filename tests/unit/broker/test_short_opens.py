"""A directory that is only opened for moments: what is due is done by an open that appends, or by its close."""

import errno
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

import pylog
from pylog import Log, Record, TopicPartition
from pylog.broker.alarm import Alarm
from pylog.broker.housekeeping import Housekeeping
from pylog.broker.replica_manager import ReplicaManager
from pylog.broker.sweeps import HOUSEKEEPING
from pylog.config import NodeConfig
from pylog.files import MemoryFiles
from pylog.protocol.batch import encode
from pylog.protocol.messages import NewTopic
from pylog.protocol.partitioner import partition_for
from pylog.testing import SimClock
from tests.support.faults import FaultFiles

NOW = 1_700_000_000_000
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
MANY = 5
SMALL_SEGMENTS = {"segment.bytes": str(1 << 20), "file.delete.delay.ms": str(MINUTE)}


@pytest.fixture
def clock() -> SimClock:
    return SimClock(NOW)


class Directory:
    """A log directory, and the moments for which it is open."""

    def __init__(self, path: Path, clock: SimClock) -> None:
        self.path = path
        self.clock = clock
        self.config: dict[str, str | int] = {
            "transaction.state.log.num.partitions": 1,
            "offsets.topic.num.partitions": 1,
        }

    def opened(self) -> AbstractContextManager[Log]:
        return pylog.open(self.path, mode="own", flush="none", clock=self.clock, config=self.config)

    def append(self, topic: str, count: int = 1, key: bytes | None = None) -> None:
        """Open, append so many records, each of which gets a segment, close."""
        with self.opened() as log:
            fill(log, topic, count, key)

    def names(self, topic: str, suffix: str = ".log") -> list[str]:
        return sorted(path.name for path in (self.path / f"{topic}-0").iterdir() if path.name.endswith(suffix))

    @property
    def times(self) -> str | None:
        file = self.path / HOUSEKEEPING
        return file.read_text() if file.exists() else None


def fill(log: Log, topic: str, count: int, key: bytes | None = None) -> None:
    for _ in range(count):
        log.topic(topic)[0].append([Record(bytes(600 << 10), key, timestamp=log.broker.housekeeping._clock.wall_ms())])


def records(log: Log, topic: str) -> int:
    key = TopicPartition(topic, 0)
    with log.consumer() as consumer:
        consumer.assign([key])
        consumer.seek_to_beginning(key)
        end, count = consumer.end_offsets([key])[key], 0
        while consumer.position(key) < end:
            count += len(consumer.poll(timeout_ms=0))
    return count


@pytest.fixture
def directory(tmp_path: Path, clock: SimClock) -> Directory:
    directory = Directory(tmp_path / "log", clock)
    with directory.opened() as log:
        log.create_topic("other")
    return directory


def made(directory: Directory, topic: str, config: dict[str, str]) -> None:
    with directory.opened() as log:
        log.create_topic(topic, config=SMALL_SEGMENTS | config)


def test_each_close_applies_the_retention_of_what_was_appended_to(directory: Directory) -> None:
    made(directory, "t", {"retention.bytes": str(2 << 20)})
    for _ in range(15):
        directory.append("t", 2)
        assert len(directory.names("t")) <= 4
    # A longer open would have given them a minute; the next one has removed them.
    assert len(directory.names("t", ".log.deleted")) <= 2


def test_a_topic_that_nobody_opens_is_looked_at_when_that_is_due(directory: Directory, clock: SimClock) -> None:
    made(directory, "t", {"retention.ms": "1000"})
    directory.append("t", 4)
    kept = directory.names("t")
    clock.advance(4 * MINUTE)
    times = directory.times
    directory.append("other")
    assert directory.names("t") == kept and directory.times == times is not None
    clock.advance(MINUTE)
    directory.append("other")
    assert len(directory.names("t")) == 1 and directory.times != times
    assert directory.names("t", ".log.deleted") == [f"{name}.deleted" for name in kept]
    directory.append("t")
    assert directory.names("t", ".deleted") == []


def test_an_open_that_appends_nothing_changes_nothing(directory: Directory, clock: SimClock) -> None:
    made(directory, "t", {"retention.ms": "1000"})
    directory.append("t", 4)
    kept, times = directory.names("t"), directory.times
    clock.advance(DAY)
    with directory.opened() as log:
        assert records(log, "t") == 4
    assert directory.names("t") == kept and directory.times == times


def test_a_directory_in_which_nothing_was_done_begins_an_interval(directory: Directory, clock: SimClock) -> None:
    assert directory.times is None
    made(directory, "t", {"retention.ms": "1000"})
    directory.append("t", 4)
    (directory.path / HOUSEKEEPING).unlink()
    clock.advance(MINUTE)
    kept = directory.names("t")
    directory.append("other")
    assert directory.names("t") == kept
    clock.advance(5 * MINUTE)
    directory.append("other")
    assert len(directory.names("t")) == 1


def test_a_clock_that_is_set_back_puts_nothing_off(directory: Directory, clock: SimClock) -> None:
    made(directory, "t", {"retention.ms": "1000"})
    directory.append("t", 4)
    (directory.path / HOUSEKEEPING).unlink()
    clock.jump(365 * DAY)
    directory.append("other")
    clock.jump(-365 * DAY)
    clock.advance(2000)
    directory.append("other")
    assert len(directory.names("t")) == 1
    # From now on by the clock as it is.
    times = directory.times
    directory.append("other")
    assert directory.times == times


DAMAGE = [
    b"", b"\xff", b"[" * 60_000, b"7", b"[1]", b"{", b'{"retention":{"ms":"x"},"offsets":true}',
    b'{"retention":{"ms":1' + b"0" * 5000 + b"}}", b'{"retention":{"ms":1.5,"after":["t",0]}}', b"x" * 100_000,
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE, ids=range(len(DAMAGE)))
def test_times_that_cannot_be_read_begin_anew(directory: Directory, clock: SimClock, damage: bytes) -> None:
    made(directory, "t", {"retention.ms": "1000"})
    directory.append("t", 4)
    (directory.path / HOUSEKEEPING).write_bytes(damage)
    directory.append("other")
    assert len(directory.names("t")) == 4
    clock.advance(5 * MINUTE)
    directory.append("other")
    assert len(directory.names("t")) == 1


def test_a_process_that_is_always_killed_does_it_too(directory: Directory, clock: SimClock) -> None:
    made(directory, "t", {"retention.ms": "1000"})
    directory.append("t", 4)
    clock.advance(DAY)
    with directory.opened() as log:
        fill(log, "other", 1)
        # It is due at once: the thread has done it by now, or does it here.
        log.broker.housekeeping._worker.close()
        log.broker.housekeeping._work()
        assert len(directory.names("t")) == 1


def test_transactional_ids_expire(directory: Directory, clock: SimClock) -> None:
    for number in range(3):
        name = f"batch-{number}"
        with directory.opened() as log, log.producer(transactional_id=name) as producer, producer.transaction():
            producer.send("other", b"value")
    clock.advance(8 * DAY)
    with directory.opened() as log:
        assert len(log.admin.list_transactions()) == 3
    directory.append("other")
    with directory.opened() as log:
        assert log.admin.list_transactions() == []


@pytest.mark.parametrize(("little", "left"), [(4 << 20, []), (10, ["group"])])
def test_committed_offsets_expire_unless_much_would_have_to_be_read(
    directory: Directory, clock: SimClock, monkeypatch: pytest.MonkeyPatch, little: int, left: list[str]
) -> None:
    monkeypatch.setattr("pylog.broker.coordinators.LITTLE_BYTES", little)
    directory.append("other")
    with directory.opened() as log, log.consumer(group_id="group") as consumer:
        consumer.assign([TopicPartition("other", 0)])
        consumer.commit({TopicPartition("other", 0): 1})
    with directory.opened() as log:
        assert [group.group_id for group in log.admin.list_groups()] == ["group"]
    clock.advance(8 * DAY)
    directory.append("other")
    with directory.opened() as log:
        assert [group.group_id for group in log.admin.list_groups()] == left


def test_deleting_records_alone_gives_their_room_back(directory: Directory) -> None:
    made(directory, "t", {})
    directory.append("t", 7)
    assert len(directory.names("t")) == 7
    with directory.opened() as log:
        log.delete_records({TopicPartition("t", 0): 6})
    assert len(directory.names("t")) == 1


def test_a_close_compacts_what_is_little(directory: Directory) -> None:
    made(directory, "t", {"cleanup.policy": "compact"})
    for _ in range(10):
        directory.append("t", 1, b"key")
    # One that is clean, the active one, and those that are not dirty enough yet.
    assert len(directory.names("t")) <= 4
    with directory.opened() as log:
        assert records(log, "t") <= 4


def test_a_close_leaves_to_a_longer_open_what_takes_a_while(directory: Directory) -> None:
    made(directory, "t", {"cleanup.policy": "compact"})
    directory.config["log.cleaner.io.max.bytes.per.second"] = 1000
    for _ in range(10):
        directory.append("t", 1, b"key")
    assert len(directory.names("t")) == 10


def test_nothing_is_dropped_in_a_directory_that_lies_in_the_place_of_another(
    directory: Directory, tmp_path: Path
) -> None:
    made(directory, "t", {"retention.bytes": str(1 << 20)})
    with pytest.raises(pylog.errors.PylogError), directory.opened() as log:
        fill(log, "t", 5)
        directory.path.rename(tmp_path / "moved")
        copy = directory.path / "t-0"
        copy.mkdir(parents=True)
        for file in (tmp_path / "moved/t-0").iterdir():
            (copy / file.name).write_bytes(file.read_bytes())
    assert len(directory.names("t")) == 5


# --- a close that waits for some partitions alone --------------------------------------------------------------------


class WearingClock(SimClock):
    """A clock by which each look takes a while; those of the log's threads take none."""

    def __init__(self, wall_ms: int) -> None:
        super().__init__(wall_ms)
        self.look_ms = 0
        self._thread = threading.get_ident()

    def tick_ms(self) -> int:
        if self.look_ms and threading.get_ident() == self._thread:
            self.advance(self.look_ms)
        return super().tick_ms()


def without_threads(log: Log) -> Log:
    """Leave to the close what a thread may have begun."""
    log.broker.housekeeping._worker.close()
    return log


@pytest.fixture
def many(tmp_path: Path) -> Directory:
    """Topics whose records are too old."""
    directory = Directory(tmp_path / "log", WearingClock(NOW))
    with directory.opened() as log:
        log.create_topic("other")
        for number in range(MANY):
            log.create_topic(f"t{number}", config=SMALL_SEGMENTS | {"retention.ms": "1000"})
            fill(log, f"t{number}", 1)
    directory.clock.advance(DAY)
    return directory


def kept_topics(directory: Directory) -> list[str]:
    """The topics with their old segment."""
    return [f"t{number}" for number in range(MANY) if directory.names(f"t{number}") == [f"{0:020}.log"]]


def append_slowly(directory: Directory) -> None:
    """A close of an open in which the disk is slow."""
    clock = directory.clock
    assert isinstance(clock, WearingClock)
    with directory.opened() as log:
        without_threads(log)
        fill(log, "other", 1)
        clock.look_ms = 40
    clock.look_ms = 0


def test_a_close_that_is_due_takes_some_partitions_and_the_next_ones_the_rest(many: Directory) -> None:
    left = [kept_topics(many)]
    assert len(left[0]) == MANY
    while left[-1]:
        append_slowly(many)
        left.append(kept_topics(many))
        assert left[-1] == left[0][-len(left[-1]) :] or not left[-1], "they go in their order"
        assert 1 <= len(left[-2]) - len(left[-1]) <= 3
        many.append("other")
        assert kept_topics(many) == left[-1], "it has cost enough until it is due again"
        many.clock.advance(5 * MINUTE)
    assert len(left) >= 3


def test_a_sweep_that_came_to_the_end_begins_anew(many: Directory) -> None:
    times = f'{{"retention":{{"ms":{NOW},"after":["zzz",2147483648]}}}}'
    (many.path / HOUSEKEEPING).write_text(times)
    many.append("other")
    assert kept_topics(many) == []
    assert many.times is not None and "after" not in many.times


def test_what_a_thread_has_begun_its_close_goes_on_with(many: Directory) -> None:
    with many.opened() as log:
        keeping = without_threads(log).broker.housekeeping
        fill(log, "other", 1)
        keeping._stopped.set()
        keeping._work()
        # "other" itself comes first.
        assert len(kept_topics(many)) == MANY and many.times is not None and '"after":["other",0]' in many.times
    assert kept_topics(many) == [] and "after" not in many.times


def test_a_full_disk_leaves_the_times_and_the_close_as_they_were(clock: SimClock) -> None:
    files = FaultFiles(MemoryFiles(clock))
    node = ReplicaManager(files, ["log"], NodeConfig(), clock, node_id=1, visible_when_durable=False)
    node.changes.create_topic(NewTopic("t"))
    leader = node.roles.writer("t", 0)
    seen: list[TopicPartition | None] = []

    def expire(topic: str, after: TopicPartition | None) -> Iterator[TopicPartition]:
        seen.append(after)
        return iter(())

    keeping = Housekeeping(node, clock, Alarm(), expire)
    leader.append(encode([Record(b"value", timestamp=NOW)], now_ms=NOW), NOW)
    keeping.note_append(leader.partition)
    times = files.read_file(f"log/{HOUSEKEEPING}", 1000)
    clock.advance(DAY)
    files.faults.error, files.faults.once, files.faults.fail_at = errno.ENOSPC, False, 1
    keeping.finish()
    assert len(seen) == 2 and files.read_file(f"log/{HOUSEKEEPING}", 1000) == times
    files.heal()
    keeping.close()
    node.close()


def test_a_damaged_coordinator_keeps_no_other_from_expiring(tmp_path: Path, clock: SimClock) -> None:
    directory = Directory(tmp_path / "log", clock)
    directory.config["offsets.topic.num.partitions"] = 2
    groups = {partition_for(name, 2): name for name in ("a", "b", "c", "d", "e", "f")}
    with directory.opened() as log:
        log.create_topic("other")
        for name in groups.values():
            with log.consumer(group_id=name) as consumer:
                consumer.commit({TopicPartition("other", 0): 0})
    assert sorted(groups) == [0, 1]
    damaged = directory.path / "__consumer_offsets-0" / f"{0:020}.log"
    data = bytearray(damaged.read_bytes())
    data[30] ^= 1
    damaged.write_bytes(data)
    clock.advance(8 * DAY)
    directory.append("other")
    damaged.write_bytes(bytes([*data[:30], data[30] ^ 1, *data[31:]]))
    with directory.opened() as log:
        assert [group.group_id for group in log.admin.list_groups()] == [groups[0]]
