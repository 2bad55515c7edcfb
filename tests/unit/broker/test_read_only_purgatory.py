"""A node that only reads keeps a Fetch that waits, and answers it in its own thread or its caller's."""

import errno
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

import pylog
from pylog import Record, errors
from pylog.broker.read_only_purgatory import ReadOnlyPurgatory
from pylog.files import DiskFiles
from pylog.protocol.messages import Fetch, Fetched, FetchPart, Session
from pylog.runtime.clock import SystemClock
from pylog.runtime.future import Future
from support.patience import HANG_SECONDS

READER_THREAD = "pylog-reader"


@pytest.fixture(params=["told", "not told"])
def logs(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[pylog.Log]]:
    if request.param == "not told":
        monkeypatch.setattr(DiskFiles, "watch", lambda _, path: None)
    with pylog.open(tmp_path, flush="none") as owner:
        owner.create_topic("t", partitions=2)
        with pylog.open(tmp_path, mode="read") as reader:
            yield [owner, reader]


def ask(reader: pylog.Log, partition: int = 0, **options: int) -> Future[Fetched]:
    message = Fetch([FetchPart("t", partition, 0)], **{"max_wait_ms": HANG_SECONDS * 1000, **options})
    future: Future[Fetched] = reader._node.handle(message, Session())
    return future


def append(owner: pylog.Log, partition: int = 0) -> None:
    owner.topic("t")[partition].append([Record(b"x")])


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == READER_THREAD]


def answering_thread(future: Future[Any]) -> "SimpleQueue[str]":
    heard: SimpleQueue[str] = SimpleQueue()
    future.add_done_callback(lambda _: heard.put(threading.current_thread().name))
    return heard


def test_a_fetch_that_waits_is_answered_by_the_watching_thread(logs: list[pylog.Log]) -> None:
    owner, reader = logs
    futures = [ask(reader, partition) for partition in (0, 1)]
    assert not any(future.done() for future in futures) and len(threads()) == 1
    for partition, future in enumerate(futures):
        heard = answering_thread(future)
        append(owner, partition)
        assert len(future.result(HANG_SECONDS).parts[0].data) > 0
        assert heard.get(timeout=HANG_SECONDS) == READER_THREAD


def test_a_fetch_waits_no_longer_than_it_was_told(logs: list[pylog.Log]) -> None:
    _, reader = logs
    long, short = ask(reader), ask(reader, max_wait_ms=5)
    assert short.result(HANG_SECONDS).parts[0].data == b""
    assert not long.done()


def test_a_driven_fetch_is_answered_in_its_drivers_thread(logs: list[pylog.Log]) -> None:
    owner, reader = logs
    future = ask(reader)
    heard = answering_thread(future)
    appending = threading.Timer(0.02, append, [owner])
    appending.start()
    future.drive(HANG_SECONDS)
    appending.join()
    assert future.done() and heard.get(timeout=HANG_SECONDS) == threading.current_thread().name


def test_a_drive_that_ends_leaves_the_fetch_to_the_watching_thread(logs: list[pylog.Log]) -> None:
    owner, reader = logs
    future = ask(reader)
    future.drive(0.01)
    assert not future.done()
    stopping = threading.Timer(0.02, future.stop_driving)
    stopping.start()
    future.drive()
    stopping.join()
    assert not future.done()
    append(owner)
    assert len(future.result(HANG_SECONDS).parts[0].data) > 0


@pytest.mark.parametrize("raised", [KeyboardInterrupt, ValueError])
def test_a_signal_ends_a_drive_and_the_fetch_goes_on(logs: list[pylog.Log], raised: type[BaseException]) -> None:
    def strike(*_: object) -> None:
        raise raised

    owner, reader = logs
    future = ask(reader)
    before = signal.signal(signal.SIGALRM, strike)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(raised):
            future.drive(HANG_SECONDS)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    append(owner)
    assert len(future.result(HANG_SECONDS).parts[0].data) > 0


def test_a_fetch_may_be_driven_by_a_handler_while_another_one_is(logs: list[pylog.Log]) -> None:
    owner, reader = logs
    first, second = ask(reader), ask(reader, 1)

    def handle(*_: object) -> None:
        append(owner, 1)
        second.drive(HANG_SECONDS)
        append(owner)

    before = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        while not first.done():
            # A signal that comes just before the sleep is handled after it.
            first.drive(0.1)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert first.done() and second.done()


def test_a_close_answers_what_waits_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as owner:
        owner.create_topic("t")
        append(owner)
    before = set(os.listdir("/proc/self/fd"))
    for _ in range(3):
        reader = pylog.open(tmp_path, mode="read")
        waiting, driven = (ask(reader, min_bytes=1 << 20) for _ in range(2))
        driving = threading.Thread(target=driven.drive)
        driving.start()
        reader.close()
        driving.join(HANG_SECONDS)
        assert not driving.is_alive() and threads() == []
        for future in (waiting, driven):
            assert isinstance(future.exception(HANG_SECONDS), errors.Closed)
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_drive_without_a_descriptor_leaves_the_fetch_to_the_thread(
    logs: list[pylog.Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> tuple[int, int]:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    owner, reader = logs
    future = ask(reader)
    monkeypatch.setattr(os, "pipe", full)
    future.drive(HANG_SECONDS)
    assert not future.done()
    append(owner)
    assert len(future.result(HANG_SECONDS).parts[0].data) > 0


def test_wakeup_ends_the_poll_of_a_reader_at_once(logs: list[pylog.Log]) -> None:
    _, reader = logs
    with reader.consumer("t", fetch_max_wait_ms=HANG_SECONDS * 1000) as consumer:
        waking = threading.Timer(0.05, consumer.wakeup)
        waking.start()
        with pytest.raises(errors.Wakeup):
            consumer.poll(HANG_SECONDS * 1000)
        waking.join()


def test_a_closed_reader_ends_the_poll_of_another_thread(logs: list[pylog.Log]) -> None:
    _, reader = logs
    consumer = reader.consumer("t", fetch_max_wait_ms=HANG_SECONDS * 1000)
    raised: SimpleQueue[BaseException] = SimpleQueue()

    def polling() -> None:
        try:
            consumer.poll(HANG_SECONDS * 1000)
        except errors.PylogError as error:
            raised.put(error)

    thread = threading.Thread(target=polling)
    thread.start()
    while not reader._node._purgatory._driven:
        thread.join(0.001)
    reader.close()
    assert isinstance(raised.get(timeout=HANG_SECONDS), errors.Closed)
    thread.join(HANG_SECONDS)
    assert not thread.is_alive()


def test_a_handler_may_close_the_reader_whose_fetch_its_thread_drives(logs: list[pylog.Log]) -> None:
    _, reader = logs
    future = ask(reader)
    before = signal.signal(signal.SIGALRM, lambda *_: reader.close())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        future.drive(HANG_SECONDS)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert isinstance(future.exception(0), errors.Closed)


@pytest.mark.parametrize("is_driven", [True, False])
def test_an_error_of_a_look_is_the_answer_of_its_fetch_alone(is_driven: bool) -> None:
    damaged, good = (Fetch([FetchPart("t", number, 0)]) for number in range(2))

    def read(message: Fetch) -> Fetched:
        if message is damaged:
            raise ValueError("it cannot be read")
        return Fetched([])

    clock = SystemClock()
    purgatory = ReadOnlyPurgatory(clock, read, lambda: None)
    waiting = purgatory.park(good, clock.tick_ms() + HANG_SECONDS * 1000)
    future = purgatory.park(damaged, clock.tick_ms() + HANG_SECONDS * 1000)
    if is_driven:
        future.drive(HANG_SECONDS)
    with pytest.raises(ValueError, match="it cannot be read"):
        future.result(HANG_SECONDS)
    waiting.stop_driving()
    assert not waiting.done()
    purgatory.close()
    assert isinstance(waiting.exception(0), errors.Closed)


def test_a_closed_purgatory_keeps_no_fetch() -> None:
    clock = SystemClock()
    purgatory = ReadOnlyPurgatory(clock, lambda _: Fetched([]), lambda: None)
    purgatory.close()
    purgatory.close()
    future = purgatory.park(Fetch([]), clock.tick_ms() + HANG_SECONDS * 1000)
    future.drive()
    future.stop_driving()
    assert isinstance(future.exception(0), errors.Closed)


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_child_waits_with_a_thread_of_its_own(logs: list[pylog.Log]) -> None:
    owner, reader = logs
    waiting = ask(reader)
    child = os.fork()
    if child == 0:
        try:
            answered = ask(reader, 1, max_wait_ms=20).result(HANG_SECONDS)
            os._exit(0 if len(answered.parts) == 1 and not waiting.done() else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    append(owner)
    assert len(waiting.result(HANG_SECONDS).parts[0].data) > 0
