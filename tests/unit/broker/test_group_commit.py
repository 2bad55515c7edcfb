"""Group commit: who leads, who is woken, and what a group is."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog import Record, errors
from pylog.broker.group_commit import CommitThread, GroupCommit, PendingAppend
from pylog.protocol.batch import Batch, encode
from pylog.protocol.messages import Produce, Produced, ProducedPart, ProducePart, Session

SECONDS = 20


class Log:
    """A gate whose syncs are written down; they can be held up, and fail."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.called: list[GroupCommit] = []
        self.during: Callable[[], None] = lambda: None
        self.gate = GroupCommit(self._settle, self._answer, self.called.append, lambda *_: None, lambda _: None)

    def _settle(self, group: list[PendingAppend]) -> None:
        self.groups.append([commit.part.base_offset for commit in group if commit.part is not None])
        self.during()

    @staticmethod
    def _answer(commit: PendingAppend) -> None:
        assert commit.part is not None
        commit.set_result(Produced([commit.part]))

    def join(self, offset: int) -> PendingAppend:
        commit = PendingAppend(self.gate, None, needs_all=True, timeout_ms=1)  # type: ignore[arg-type]
        commit.part = ProducedPart("t", 0, None, offset, offset + 1)
        self.gate.join(commit)
        return commit


def test_a_waiter_syncs_for_all_that_have_joined() -> None:
    log = Log()
    commits = [log.join(offset) for offset in range(3)]
    assert commits[1].result(0).parts[0].base_offset == 1
    assert [commit.done() for commit in commits] == [True] * 3
    assert (log.groups, log.called) == ([[0, 1, 2]], [])


def test_an_append_during_a_sync_is_of_the_next_group() -> None:
    log = Log()
    late: list[PendingAppend] = []
    log.during = lambda: late.append(log.join(len(late) + 1)) if not late else None
    assert log.join(0).result(0).parts[0].base_offset == 0
    assert not late[0].done()
    # Nobody waits for it yet, so the thread was called, once.
    assert log.called == [log.gate]
    log.gate.take_call()
    assert (late[0].done(), log.groups) == (True, [[0], [1]])


def test_a_sleeping_waiter_is_woken_by_the_answer_or_to_lead() -> None:
    log = Log()
    first, begun, go_on = log.join(0), threading.Event(), threading.Event()

    def hold() -> None:
        if len(log.groups) == 1:
            begun.set()
            assert go_on.wait(SECONDS)

    log.during = hold
    answers: list[int] = []
    leading = threading.Thread(target=lambda: answers.append(first.result(SECONDS).parts[0].base_offset))
    leading.start()
    assert begun.wait(SECONDS)
    later = [log.join(1), log.join(2)]
    sleeping = [
        threading.Thread(target=lambda one=one: answers.append(one.result(SECONDS).parts[0].base_offset))
        for one in (first, *later)
    ]
    for thread in sleeping:
        thread.start()
    while any(commit.wake is None for commit in later):
        begun.wait(0)
    go_on.set()
    for thread in (leading, *sleeping):
        thread.join(SECONDS)
    assert (sorted(answers), log.groups) == ([0, 0, 1, 2], [[0], [1, 2]])


def test_a_waiter_whose_time_is_up_leaves_the_sync_to_the_thread() -> None:
    log = Log()
    first = log.join(0)
    second: list[PendingAppend] = []

    def impatient() -> None:
        second.append(log.join(1))
        with pytest.raises(TimeoutError, match=r"no answer within 0\.001 seconds"):
            second[0].result(0.001)
        log.during = lambda: None

    log.during = impatient
    first.result(0)
    assert log.called == [log.gate]
    log.gate.take_call()
    assert second[0].done()


def test_an_interrupted_leader_leaves_its_group_to_the_next_one() -> None:
    log = Log()
    commits = [log.join(0), log.join(1)]

    def interrupted() -> None:
        log.during = lambda: None
        raise KeyboardInterrupt

    log.during = interrupted
    with pytest.raises(KeyboardInterrupt):
        commits[0].result(0)
    assert not commits[0].done()
    commits[1].result(0)
    assert log.groups == [[0, 1], [0, 1]]


def test_a_callback_that_raises_keeps_no_other_waiting(caplog: pytest.LogCaptureFixture) -> None:
    log, thread = Log(), CommitThread()
    gate = GroupCommit(log._settle, log._answer, thread.call, lambda *_: None, lambda _: None)
    log.gate = gate
    told: list[int] = []
    done = threading.Event()

    def refuse(_: object) -> None:
        raise ZeroDivisionError

    first, second = log.join(0), log.join(1)
    with gate._leading:
        first.add_done_callback(refuse)
        second.add_done_callback(lambda future: told.append(future.result().parts[0].base_offset))
        second.add_done_callback(lambda _: done.set())
    gate.call_thread()
    assert done.wait(SECONDS)
    second.add_done_callback(lambda _: told.append(7))
    thread.close()
    assert told == [1, 7]
    assert "a callback of an append raised" in caplog.text


def test_a_commit_thread_that_was_never_called_can_be_closed() -> None:
    CommitThread().close()


def test_a_thread_that_does_not_wait_makes_its_appends_durable_together(tmp_path: Path) -> None:
    with pylog.open(tmp_path / "log") as log:
        log.create_topic("t")
        with log.producer(linger_ms=0) as producer:
            futures = [producer.send("t", b"%d" % number) for number in range(50)]
            assert [future.result(SECONDS).offset for future in futures] == list(range(50))
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
            thread.join(SECONDS)
        assert (wrong, partition.high_watermark) == ([], 160)


def test_appends_without_a_waiter_are_durable_after_a_close(tmp_path: Path) -> None:
    log = pylog.open(tmp_path / "log")
    log.create_topic("t")
    answers = [
        log.broker.handle(Produce([ProducePart("t", 0, encode([Record(b"x")], now_ms=1))], acks), Session())
        for acks in (-1, 1)
    ]
    log.close()
    assert [answer.result(0).parts[0].base_offset for answer in answers] == [0, 1]


def test_an_interrupted_append_is_not_appended_twice(tmp_path: Path) -> None:
    with pylog.open(tmp_path / "log") as log:
        log.create_topic("t")
        batches = [encode([Record(b"%d" % number)], now_ms=1) for number in range(3)]

        def interrupt() -> Batch:
            raise KeyboardInterrupt

        given: list[Batch | Callable[[], Batch]] = [batches[0], interrupt, batches[2]]
        answers = [log.broker.handle(Produce([ProducePart("t", 0, some)]), Session()) for some in given]
        with pytest.raises(KeyboardInterrupt):
            answers[0].result(0)

        assert answers[2].result(SECONDS).parts[0].base_offset == 1
        assert answers[0].result(SECONDS).parts[0].base_offset == 0
        error = answers[1].result(SECONDS).parts[0].error
        assert isinstance(error, errors.DurabilityUnknown) and "was interrupted" in str(error)


@pytest.mark.parametrize("moment", ["before the append", "before the sync", "after the sync"])
def test_a_partition_that_moves_takes_pending_appends_along(tmp_path: Path, moment: str) -> None:
    places = [tmp_path / "a", tmp_path / "b"]
    with pylog.open(places) as log:
        log.create_topic("t")[0].append([Record(b"0")])
        partition, node = log.broker.partition("t", 0), log.broker.node
        target = next(str(place) for place in places if not partition.directory.startswith(str(place)))
        sync = partition.sync
        answer = log.broker.handle(Produce([ProducePart("t", 0, encode([Record(b"1")], now_ms=1))]), Session())
        if moment == "before the append":
            log.move_partition("t", 0, target)
        else:

            def synced() -> int:
                if moment == "after the sync":
                    sync()
                log.move_partition("t", 0, target)
                return sync()

            partition.sync = synced  # type: ignore[method-assign]
        part = answer.result(SECONDS).parts[0]
        assert (part.error, part.base_offset) == (None, 1)
        assert [record.value for record in log.topic("t")[0].records()] == [b"0", b"1"]
        assert node.roles.partition("t", 0).directory.startswith(target)


def test_an_append_to_a_moved_partition_goes_to_its_new_place(tmp_path: Path) -> None:
    places = [tmp_path / "a", tmp_path / "b"]
    with pylog.open(places, flush="none") as log:
        view = log.create_topic("t")[0]
        view.append([Record(b"0")])
        leader = log.broker.node.roles.leader("t", 0)
        target = next(str(place) for place in places if not leader.partition.directory.startswith(str(place)))
        append = leader.append

        def moved(batch: Batch, now_ms: int, **how: Any) -> object:
            log.move_partition("t", 0, target)
            return append(batch, now_ms, **how)

        leader.append = moved  # type: ignore[assignment, method-assign]
        assert view.append([Record(b"1")]).base_offset == 1
        assert [record.value for record in view.records()] == [b"0", b"1"]
