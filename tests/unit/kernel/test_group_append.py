"""Appends that share a sync: which thread drives, what is one group, and what an error in it means. Both twins."""

import itertools
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from uuid import UUID

import pytest

import pylog
from pylog import kernel
from pylog.commitlog.plain_rules import Duty
from pylog.config import TopicConfig
from pylog.errors import DurabilityUnknown, PartitionFailed, PylogError, RecordBatchTooLarge
from pylog.files import DiskFiles
from pylog.kernel import Appended, pure
from pylog.partition import Partition
from pylog.protocol.batch import Batch, encode
from pylog.runtime.signals import WHOLE
from support.patience import HANG_SECONDS

TWINS = {"pure": pure.GroupAppends, "compiled": kernel.GroupAppends} if kernel.NAME == "compiled" else {
    "pure": pure.GroupAppends
}  # fmt: skip
NOW = 1_700_000_000_000
TOPIC_ID = UUID(int=7)


class Drive:
    """The lock of the thread that drives: it tells who found it taken."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.refused: SimpleQueue[None] = SimpleQueue()

    def acquire(self, blocking: bool = True) -> bool:
        taken = self._lock.acquire(blocking)
        if not taken:
            self.refused.put(None)
        return taken

    def release(self) -> None:
        self._lock.release()


class Log:
    """A partition whose appends share syncs, and the threads that append to it, in the order in which they join."""

    def __init__(self, folder: Path, twin: Any, **config: str) -> None:
        self.twin = twin
        self.partition = Partition(
            DiskFiles(), str(folder / "t-0"), "t", 0, TopicConfig.loaded(config), topic_id=TOPIC_ID
        )
        self.partition.create(TOPIC_ID, NOW)
        self.partition.take_duty(Duty(has_followers=False, syncs=True))
        # The first batch of an epoch is not plain.
        self.partition.append(batch(1), epoch=0, now_ms=NOW)
        self.driving = Drive()
        self.shown: list[int] = []
        self.told: list[tuple[int, int]] = []
        """The ends of the log, and of what is durable, when followers were told."""
        self.general: Callable[[Batch], Appended | None] = self.append_general
        self.answered: list[tuple[Any, Any]] = []
        self.make_group(nullcontext(), self.show)
        self.threads: list[threading.Thread] = []
        self.answers: dict[int, Any] = {}

    def make_group(self, whole: Any, show: Callable[[Any], None]) -> None:
        self.group = self.twin(
            self.driving, whole, lambda _, pending, batch: self.general(batch), self.tell, show,
            lambda *answer: self.answered.append(answer),
        )  # fmt: skip

    def append_general(self, batch: Batch) -> Appended:
        return self.partition.append(batch, epoch=0, now_ms=NOW)

    def tell(self, _: object) -> None:
        self.told.append((self.partition.next_offset, self.partition.durable_offset))

    def show(self, _: object) -> None:
        self.partition.advance_high_watermark(self.partition.durable_offset)
        self.shown.append(self.partition.durable_offset)

    def append(self, size: int = 10, epoch: int = 0) -> Appended | None:
        appended: Appended | None = self.group.append(self.partition, batch(size), epoch, NOW)
        return appended

    def join(self, *sizes: int) -> None:
        """Threads append records of these sizes while somebody else drives."""
        for size in sizes:
            number = len(self.threads)
            self.threads.append(threading.Thread(target=self._answered, args=(number, size)))
            self.threads[-1].start()
            self.driving.refused.get(timeout=HANG_SECONDS)

    def _answered(self, number: int, size: int) -> None:
        try:
            self.answers[number] = self.append(size)
        except BaseException as error:  # noqa: BLE001
            self.answers[number] = error

    def let_go(self) -> list[Any]:
        """Let a thread drive; gives what the threads get."""
        self.driving.release()
        self.group.hand_over()
        for thread in self.threads:
            thread.join(HANG_SECONDS)
        return [self.answers[number] for number in range(len(self.threads))]


def batch(size: int) -> Batch:
    return encode([(b"v" * size, None, NOW, ())], now_ms=NOW)


@pytest.fixture(params=TWINS)
def twin(request: pytest.FixtureRequest) -> Any:
    return TWINS[request.param]


@pytest.fixture
def log(tmp_path: Path, twin: Any) -> Iterator[Log]:
    made = Log(tmp_path, twin)
    yield made
    made.partition.close()


def test_one_caller_appends_syncs_and_shows(log: Log) -> None:
    assert log.append() == Appended(1, 2)
    assert (log.partition.durable_offset, log.partition.high_watermark, log.shown) == (2, 2, [2])
    assert not log.told


def test_what_followers_have_to_have_first_is_durable_and_not_shown(log: Log) -> None:
    log.make_group(nullcontext(), lambda _: None)
    log.partition.take_duty(Duty(has_followers=True, syncs=True))
    before = log.partition.durable_offset
    assert log.append() == Appended(1, 2)
    assert (log.partition.durable_offset, log.partition.high_watermark) == (2, 0)
    assert log.told == [(2, before)], "followers have it while it is synced"


def test_a_group_tells_followers_once_and_syncs_once(log: Log) -> None:
    log.make_group(nullcontext(), lambda _: None)
    log.partition.take_duty(Duty(has_followers=True, syncs=True))
    before = sum(log.partition.state.sync_counts)
    log.driving.acquire()
    log.join(10, 10, 10)
    assert log.let_go() == [Appended(1, 2), Appended(2, 3), Appended(3, 4)]
    assert [end for end, _ in log.told] == [4]
    assert sum(log.partition.state.sync_counts) == before + 1


def test_those_who_join_meanwhile_are_one_group_in_their_order(log: Log) -> None:
    log.driving.acquire()
    log.join(1, 2, 3, 4)
    assert log.partition.next_offset == 1, "nobody writes before he drives"
    assert log.let_go() == [Appended(offset, offset + 1) for offset in range(1, 5)]
    assert log.shown == [5]


def test_index_entries_lie_where_one_append_after_the_other_puts_them(tmp_path: Path, twin: Any) -> None:
    sizes = [100, 900, 3000, 200, 4000, 50, 50, 2000, 2500, 10, 10]
    both = []
    for name in ("together", "apart"):
        (tmp_path / name).mkdir()
        log = Log(tmp_path / name, twin)
        if name == "together":
            log.driving.acquire()
            log.join(*sizes)
            log.let_go()
        else:
            for size in sizes:
                log.partition.append(batch(size), epoch=0, now_ms=NOW)
            log.partition.sync()
            log.show(None)
        ((segment, _),) = log.partition.segments
        both.append((list(segment.offsets), list(segment.times), log.partition.state.numbers()))
        log.partition.close()
        both[-1] += tuple(sorted((path.name, path.read_bytes()) for path in (tmp_path / name / "t-0").glob("0*")))
    assert both[0] == both[1]
    assert len(both[0][0]) > 2


def test_a_batch_that_is_not_plain_is_appended_in_its_place_by_the_driver(tmp_path: Path, twin: Any) -> None:
    log = Log(tmp_path, twin, **{"segment.bytes": "1000"})
    log.driving.acquire()
    log.join(300, 300, 800, 100, 2000, 10)
    answers = log.let_go()
    assert isinstance(answers.pop(4), RecordBatchTooLarge), "of one alone"
    assert answers == [Appended(offset, offset + 1) for offset in range(1, 6)]
    assert len(log.partition.segments) > 1
    assert log.partition.durable_offset == log.partition.next_offset == 6
    log.partition.close()


def test_a_batch_of_another_epoch_goes_the_general_way(log: Log) -> None:
    taken: list[Batch] = []

    def general(batch: Batch) -> Appended | None:
        taken.append(batch)
        return log.append_general(batch) if log.partition.epochs.latest == 0 else None

    log.general = general
    log.driving.acquire()
    log.join(1)
    log.threads.append(threading.Thread(target=lambda: log.answers.update({1: log.append(epoch=1)})))
    log.threads[-1].start()
    log.driving.refused.get(timeout=HANG_SECONDS)
    assert log.let_go() == [Appended(1, 2), Appended(2, 3)]
    log.partition.begin_epoch(1)
    assert log.append(epoch=0) is None
    assert log.partition.next_offset == 3


def broken(log: Log) -> None:
    """The file is none any more."""
    ((segment, _),) = log.partition.segments
    out, into = os.pipe()
    os.dup2(into, segment.log.opened.descriptor)  # type: ignore[attr-defined]
    os.close(out)
    os.close(into)


def test_a_write_that_fails_is_the_answer_of_all_that_it_was_for(tmp_path: Path, twin: Any) -> None:
    log = Log(tmp_path, twin)
    assert log.append() == Appended(1, 2)
    broken(log)
    log.driving.acquire()
    log.join(1, 2, 3)
    answers = log.let_go()
    # Compiled they are one write; one by one, the second finds that the partition has failed.
    later = DurabilityUnknown if log.twin is not pure.GroupAppends else PartitionFailed
    assert [type(answer) for answer in answers] == [DurabilityUnknown, later, later]
    assert log.partition.failed
    assert (log.partition.next_offset, log.partition.durable_offset) == (2, 2)
    with pytest.raises(PartitionFailed):
        log.append()
    log.partition.abandon()


def test_a_sync_that_fails_is_the_answer_of_all_that_were_written(tmp_path: Path, twin: Any) -> None:
    log = Log(tmp_path, twin, **{"segment.bytes": "1000"})
    assert log.append() == Appended(1, 2)
    log.general = lambda given: broken(log) if given.size > 1000 else log.append_general(given)
    log.driving.acquire()
    log.join(1, 2000)
    answers = log.let_go()
    assert isinstance(answers[0], DurabilityUnknown)
    assert answers[1] is None, "nothing was done for it"
    assert (log.partition.next_offset, log.partition.durable_offset) == (3, 2)
    log.partition.abandon()


def test_a_waiter_that_is_interrupted_has_appended_nothing(log: Log) -> None:
    def interrupt() -> None:
        log.driving.refused.get(timeout=HANG_SECONDS)
        log.join(1)
        signal.raise_signal(signal.SIGINT)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    log.driving.acquire()
    other = threading.Thread(target=interrupt)
    other.start()
    with pytest.raises(KeyboardInterrupt):
        log.append(7)
        pytest.fail("nobody drives")
    other.join(HANG_SECONDS)
    assert log.let_go() == [Appended(1, 2)]
    assert log.partition.next_offset == 2


def test_a_signal_is_for_the_thread_that_it_strikes_alone(log: Log) -> None:
    def show(_: object) -> None:
        signal.raise_signal(signal.SIGINT)
        log.show(None)

    assert log.append() == Appended(1, 2)
    log.make_group(WHOLE, show)
    log.driving.acquire()
    log.join(1, 2)
    log.driving.release()
    with pytest.raises(KeyboardInterrupt):
        log.append(3)
    log.driving.acquire()
    assert log.let_go() == [Appended(2, 3), Appended(3, 4)]
    assert (log.partition.next_offset, log.partition.high_watermark) == (5, 5)


def test_a_signal_in_a_general_append_waits_until_it_is_done(tmp_path: Path, twin: Any) -> None:
    log = Log(tmp_path, twin, **{"segment.bytes": "1000"})

    def general(batch: Batch) -> Appended | None:
        signal.raise_signal(signal.SIGINT)
        return log.append_general(batch)

    log.general = general
    log.make_group(WHOLE, log.show)
    with pytest.raises(KeyboardInterrupt):
        log.append(800)
    assert not log.partition.failed
    assert log.partition.durable_offset == log.partition.next_offset == 2
    log.partition.close()


def test_an_append_that_is_answered_later_is_of_the_group_in_its_place(log: Log) -> None:
    first = log.group.join(log.partition, batch(1), 0, NOW, "first")
    assert log.group.lacks_driver
    log.driving.acquire()
    log.join(2)
    assert not log.group.lacks_driver
    second = log.group.join(log.partition, batch(3), 0, NOW, "second")
    assert first is second
    assert log.let_go() == [Appended(2, 3)]
    assert log.group.wait(first, HANG_SECONDS)
    assert log.answered == [("first", Appended(1, 2)), ("second", Appended(3, 4))]
    assert log.partition.durable_offset == 4 and not log.group.lacks_driver


def test_a_thread_that_waits_for_a_group_drives_it(log: Log) -> None:
    group = log.group.join(log.partition, batch(1), 0, NOW, "only")
    log.driving.acquire()
    assert not log.group.wait(group, 0.001), "another thread drives"
    log.driving.release()
    assert log.group.wait(group, 0)
    log.group.drive()
    assert (log.answered, log.shown) == ([("only", Appended(1, 2))], [2])


def test_a_driver_without_an_append_of_its_own_answers_what_has_joined(log: Log) -> None:
    for name in ("a", "b"):
        log.group.join(log.partition, batch(1), 0, NOW, name)
    log.group.drive()
    assert log.answered == [("a", Appended(1, 2)), ("b", Appended(2, 3))]


def test_numbered_batches_of_one_producer_are_plain_one_after_the_other(log: Log) -> None:
    def numbered(sequence: int) -> Batch:
        return encode([(b"v", None, NOW, ())], now_ms=NOW, producer_id=7, producer_epoch=0, base_sequence=sequence)

    general: list[int] = []

    def count(given: Batch) -> Appended:
        general.append(given.base_sequence)
        return log.append_general(given)

    log.general = count
    for sequence in range(4):
        log.group.join(log.partition, numbered(sequence), 0, NOW, sequence)
    log.group.join(log.partition, numbered(2), 0, NOW, "again")
    log.group.drive()
    appended = [Appended(1 + sequence, 2 + sequence) for sequence in range(4)]
    again = Appended(3, 4, NOW, duplicate=True)
    assert [outcome for _, outcome in log.answered] == [*appended, again]
    known = log.partition.producers.entries()[7]
    assert known.last_sequence == 3 and len(known.batches) == 4
    assert general == ([0, 1, 2, 3, 2] if log.twin is pure.GroupAppends else [0, 2]), "a retry needs a decision"


def test_an_error_of_publishing_is_told_to_all(log: Log) -> None:
    def refuse(_: object) -> None:
        raise PylogError("there is nobody to show it to")

    assert log.append() == Appended(1, 2)
    log.make_group(nullcontext(), refuse)
    log.driving.acquire()
    log.join(1, 2)
    assert [str(answer) for answer in log.let_go()] == ["there is nobody to show it to"] * 2
    assert log.partition.durable_offset == 4


@pytest.mark.parametrize("lacking", ["AppendGroup", "time.monotonic"])
def test_who_lacks_memory_to_drive_leaves_the_drive_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    """Of the pure twin: the compiled one allocates nothing between the lock and the group."""

    def fails() -> None:
        raise MemoryError

    log = Log(tmp_path, pure.GroupAppends)
    with monkeypatch.context() as patch:
        patch.setattr(f"pylog.kernel.pure.group_append.{lacking}", fails)
        with pytest.raises(MemoryError):
            log.append()
    assert log.append() is not None


def test_a_log_is_closed_while_threads_share_and_others_send(tmp_path: Path) -> None:
    log = pylog.open(tmp_path / "log", flush="sync")
    partition = log.create_topic("t")[0]
    acknowledged: list[tuple[int, bytes]] = []
    begun = threading.Semaphore(0)

    def run(append: Callable[[bytes], int], name: bytes) -> None:
        with suppress(PylogError):
            for number in itertools.count():
                value = name + b" %d" % number
                acknowledged.append((append(value), value))
                begun.release()

    producer = log.producer(linger_ms=0)
    ways: list[Callable[[bytes], int]] = [lambda value: partition.append([pylog.Record(value)]).base_offset] * 6
    ways += [lambda value: producer.send("t", value).result(HANG_SECONDS).offset] * 2
    threads = [threading.Thread(target=run, args=(way, b"%d" % number)) for number, way in enumerate(ways)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        assert begun.acquire(timeout=HANG_SECONDS)
    log.close()
    for thread in threads:
        thread.join(HANG_SECONDS)
        assert not thread.is_alive()
    assert {value[:1] for _, value in acknowledged} >= {b"6", b"7"}, "senders get their turn"
    with pylog.open(tmp_path / "log") as log:
        values = {record.offset: record.value for record in log.topic("t")[0].records()}
    assert all(values[offset] == value for offset, value in acknowledged)


def test_many_threads_through_a_log_lose_nothing(tmp_path: Path) -> None:
    each, count = 60, 8
    with pylog.open(tmp_path / "log", flush="sync") as log:
        partition = log.create_topic("t")[0]
        offsets: dict[int, list[int]] = {}

        def run(number: int) -> None:
            offsets[number] = [
                partition.append([pylog.Record(b"%d %d" % (number, index))]).base_offset for index in range(each)
            ]

        threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(HANG_SECONDS)
        assert partition.durable_offset == partition.high_watermark == each * count
        assert all(found == sorted(found) for found in offsets.values())
        values = {record.offset: record.value for record in partition.records()}
    assert values == {
        offset: b"%d %d" % (n, index) for n, found in offsets.items() for index, offset in enumerate(found)
    }
