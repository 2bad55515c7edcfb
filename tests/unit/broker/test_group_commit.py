"""Group commit: which thread drives, which one is woken, and what becomes of an append that no thread waits for."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog import Record
from pylog.broker.group_commit import LOOK_SECONDS, CommitThread
from pylog.errors import DurabilityUnknown
from pylog.protocol.batch import Batch, encode
from pylog.protocol.messages import ProduceRequest, Session
from pylog.runtime.future import Future, gathered
from support.patience import HANG_SECONDS
from tests.support.threads import no_threads


def sent(log: pylog.Log, value: bytes = b"x", acks: int = -1) -> Future[Any]:
    return log.broker.handle(ProduceRequest.of("t", 0, encode([Record(value)], now_ms=1), acks=acks), Session())


def offset(answer: Future[Any]) -> int:
    part = answer.result(HANG_SECONDS).parts[0]
    assert part.error is None
    base_offset: int = part.base_offset
    return base_offset


@pytest.fixture
def log(tmp_path: Path) -> Iterator[pylog.Log]:
    with pylog.open(tmp_path / "log") as made:
        made.create_topic("t")[0].append([Record(b"first")])
        yield made


def undriven(log: pylog.Log) -> Any:
    """The group commit of the topic, which the commit thread does not drive."""
    (group_commit,) = log.broker._produce._group_commits.values()
    group_commit._thread = CommitThread()
    group_commit._thread._is_looking = True
    return group_commit


def test_an_answer_that_is_driven_comes_with_all_that_had_joined(log: pylog.Log) -> None:
    offset(sent(log))
    undriven(log)
    answers = [sent(log) for _ in range(3)]
    answers[1].drive(HANG_SECONDS)
    assert [offset(answer) for answer in answers] == [2, 3, 4]
    assert log.topic("t")[0].durable_offset == 5


def test_waiting_for_an_answer_does_no_work(log: pylog.Log) -> None:
    offset(sent(log))
    undriven(log)
    answer = sent(log)
    with pytest.raises(TimeoutError):
        answer.result(0.01)
    assert log.topic("t")[0].next_offset == 2
    answer.drive()
    assert offset(answer) == 2


def test_an_answer_that_no_thread_waits_for_comes_soon(log: pylog.Log) -> None:
    for number in range(3):
        told = threading.Event()
        answer = sent(log)
        answer.add_done_callback(lambda _, told=told: told.set())  # type: ignore[misc]
        assert told.wait(HANG_SECONDS)
        assert offset(answer) == number + 1
        threading.Event().wait(0.05)


def test_the_commit_thread_of_an_idle_log_does_not_look_and_is_woken(log: pylog.Log) -> None:
    offset(sent(log))
    thread: Any = log.broker._produce._commit_thread
    look, looks = thread._drive_all, 0

    def counted() -> Any:
        nonlocal looks
        looks += 1
        return look()

    thread._drive_all = counted
    for _ in range(3):
        assert offset(sent(log)) > 0
        deadline = time.monotonic() + HANG_SECONDS
        while thread._is_looking and time.monotonic() < deadline:
            threading.Event().wait(0.005)
        before = looks
        threading.Event().wait(100 * LOOK_SECONDS)
        assert looks == before > 0


def test_a_callback_that_raises_keeps_no_other_append_waiting(log: pylog.Log, caplog: pytest.LogCaptureFixture) -> None:
    offset(sent(log))
    group_commit = undriven(log)
    first, second = sent(log), sent(log)
    first.add_done_callback(lambda _: 1 // 0)
    told: list[int] = []
    second.add_done_callback(lambda done: told.append(offset(done)))
    thread, group_commit.is_listed = CommitThread(), False
    thread.look_at(group_commit)
    assert offset(second) == 3
    second.drive()
    thread.close()
    assert told == [3] and "a callback of an append raised" in caplog.text


def test_a_thread_that_was_never_called_can_be_closed() -> None:
    threads = threading.active_count()
    CommitThread().close()
    assert threading.active_count() == threads


def test_callers_drive_where_the_commit_thread_cannot_begin(log: pylog.Log) -> None:
    """Two of them took the same group from a list, and one raised IndexError."""
    offset(sent(log))
    undriven(log)._thread = thread = CommitThread()
    answers: list[Future[Any]] = []
    begin = threading.Event()

    def run() -> None:
        begin.wait(HANG_SECONDS)
        answers.extend([sent(log) for _ in range(20)])

    callers = [threading.Thread(target=run) for _ in range(8)]
    for caller in callers:
        caller.start()
    with no_threads():
        begin.set()
        for caller in callers:
            caller.join()
        assert all(answer.done() for answer in answers)
    assert sorted(map(offset, answers)) == list(range(2, 162))
    assert offset(sent(log)) == 162 and thread._thread is not None
    thread.close()


def test_threads_that_drive_for_their_answers_share_syncs(log: pylog.Log) -> None:
    offset(sent(log))
    group_commit = undriven(log)
    offsets: list[int] = []

    def run() -> None:
        for _ in range(20):
            answer = sent(log)
            answer.drive(HANG_SECONDS)
            offsets.append(offset(answer))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_SECONDS)
    assert sorted(offsets) == list(range(2, 162)) and not group_commit.engine.lacks_driver
    group_commit._thread.close()


def test_a_loop_of_sends_that_waits_for_the_last_costs_a_few_syncs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pylog.open(tmp_path / "log", flush="sync") as log:
        log.create_topic("t")
        groups: list[int] = []
        with log.producer(linger_ms=0) as producer:
            producer.send("t", b"first").result(HANG_SECONDS)
            node = log.broker._produce
            monkeypatch.setattr(type(node), "_answer", counting(type(node)._answer, groups))
            futures = [producer.send("t", b"%d" % number) for number in range(1000)]
            assert [future.result(HANG_SECONDS).offset for future in futures] == list(range(1, 1001))
        assert len(groups) < 50, "each answer is a batch, and a sync at most"
        assert log.topic("t")[0].durable_offset == 1001


def counting(call: Any, calls: list[int]) -> Any:
    def counted(*arguments: Any) -> Any:
        calls.append(1)
        return call(*arguments)

    return counted


def test_a_thread_that_does_not_wait_makes_its_appends_durable_together(tmp_path: Path) -> None:
    with pylog.open(tmp_path / "log") as log:
        log.create_topic("t")
        with log.producer(linger_ms=0) as producer:
            futures = [producer.send("t", b"%d" % number) for number in range(50)]
            assert [future.result(HANG_SECONDS).offset for future in futures] == list(range(50))
        assert log.topic("t")[0].durable_offset == log.topic("t")[0].high_watermark == 50


def test_threads_that_append_each_find_their_records_durable(tmp_path: Path) -> None:
    with pylog.open(tmp_path / "log") as log:
        partition = log.create_topic("t")[0]
        wrong: list[int] = []

        def run() -> None:
            for _ in range(20):
                appended = partition.append([Record(b"x")])
                if not appended.next_offset <= partition.durable_offset:
                    wrong.append(appended.base_offset)

        threads = [threading.Thread(target=run) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(HANG_SECONDS)
        assert (wrong, partition.high_watermark) == ([], 160)


def test_appends_without_a_waiter_are_durable_after_a_close(tmp_path: Path) -> None:
    log = pylog.open(tmp_path / "log")
    log.create_topic("t")
    answers = [
        log.broker.handle(ProduceRequest.of("t", 0, encode([Record(b"x")], now_ms=1), acks=acks), Session())
        for acks in (-1, 1)
    ]
    log.close()
    assert [answer.result(0).parts[0].base_offset for answer in answers] == [0, 1]


def test_an_append_that_is_interrupted_is_in_doubt_and_the_others_are_not(log: pylog.Log) -> None:
    offset(sent(log))
    undriven(log)
    handler: Any = log.broker._produce
    append, calls = handler.append, 0

    def interrupted(*arguments: Any, **how: Any) -> object:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        return append(*arguments, **how)

    handler.append = interrupted
    # A topic of which a header does not prove enough: no batch is plain.
    log.alter_config("t", {"message.timestamp.before.max.ms": 10**15})
    asked = [ProduceRequest.of("t", 0, encode([Record(b"x")], now_ms=1)) for _ in range(3)]
    answers = [log.broker.handle(one, Session()) for one in asked]
    answers[0].drive()
    assert [offset(answers[0]), offset(answers[2])] == [2, 3]
    error = answers[1].result(0).parts[0].error
    assert isinstance(error, DurabilityUnknown) and "was interrupted" in str(error)


@pytest.mark.parametrize("moment", ["before the append", "before the sync", "after the sync"])
def test_a_partition_that_moves_takes_pending_appends_along(tmp_path: Path, moment: str) -> None:
    places = [tmp_path / "a", tmp_path / "b"]
    with pylog.open(places) as log:
        log.create_topic("t")[0].append([Record(b"0")])
        partition, node = log.broker.partition("t", 0), log.broker.node
        target = next(str(place) for place in places if not partition.directory.startswith(str(place)))
        durability = partition._durability
        sync = durability.sync
        message = ProduceRequest.of("t", 0, encode([Record(b"1")], now_ms=1))
        if moment == "before the append":
            answer = log.broker.handle(message, Session())
            log.move_partition("t", 0, target)
        else:

            def synced(upto: int | None = None) -> int:
                if moment == "after the sync":
                    sync()
                log.move_partition("t", 0, target)
                return sync()

            durability.sync = partition.sync = synced  # type: ignore[method-assign]
            # A name that is not durable makes the sync one that the kernel does not do by itself.
            partition._local.pending.note_names()
            # The commit thread may drive before this one does.
            answer = log.broker.handle(message, Session())
        answer.drive()
        part = answer.result(HANG_SECONDS).parts[0]
        assert (part.error, part.base_offset) == (None, 1)
        assert [record.value for record in log.topic("t")[0].records()] == [b"0", b"1"]
        assert node.roles.partition("t", 0).directory.startswith(target)


def test_an_append_to_a_moved_partition_goes_to_its_new_place(tmp_path: Path) -> None:
    places = [tmp_path / "a", tmp_path / "b"]
    with pylog.open(places, flush="none") as log:
        view = log.create_topic("t")[0]
        view.append([Record(b"0")])
        partition: Any = log.broker.node.roles.leader("t", 0).partition
        target = next(str(place) for place in places if not partition.directory.startswith(str(place)))
        append = partition.append

        def moved(batch: Batch, **how: Any) -> object:
            log.move_partition("t", 0, target)
            return append(batch, **how)

        # Without room in the segment, as far as is known, the batch is not plain.
        partition._local.active.tail.room = 0
        partition.append = moved
        assert view.append([Record(b"1")]).base_offset == 1
        assert [record.value for record in view.records()] == [b"0", b"1"]


def test_an_append_that_is_hurried_is_driven_by_the_thread(log: pylog.Log) -> None:
    offset(sent(log))
    group_commit = undriven(log)
    first, second = sent(log), sent(log)
    assert not first.done()
    first.hurry()
    assert [offset(first), offset(second)] == [2, 3]
    # It is answered, so nothing is to be done.
    first.hurry()
    group_commit._thread.close()


def test_a_gathered_answer_hurries_each_of_its_parts() -> None:
    hurried: list[int] = []

    class Part(Future[int]):
        def hurry(self) -> None:
            hurried.append(id(self))

    parts = [Part(), Part(), Part()]
    whole = gathered(parts, sum)
    parts[1].set_result(1)
    whole.hurry()
    assert hurried == [id(parts[0]), id(parts[2])]
