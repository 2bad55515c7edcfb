"""Signals that come while something is half done."""

import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import pytest

import pylog
from pylog import errors
from pylog.runtime.signals import WHOLE, WholeLock, opened, pause, wait_at
from support.sampling import every


class StruckError(BaseException):
    """What the handler of a signal raises."""


@pytest.fixture(autouse=True)
def raising() -> Iterator[None]:
    def strike(number: int, frame: FrameType | None) -> None:
        raise StruckError

    before = signal.signal(signal.SIGTERM, strike)
    yield
    assert signal.getsignal(signal.SIGTERM) is strike
    signal.signal(signal.SIGTERM, before)


def strike() -> None:
    signal.raise_signal(signal.SIGTERM)


def test_a_signal_waits_until_the_block_is_whole() -> None:
    done = []
    with pytest.raises(StruckError), WHOLE:
        with WHOLE:
            strike()
            done.append("inner")
        done.append("outer")
    assert done == ["inner", "outer"]
    with pytest.raises(StruckError):
        strike()


def test_the_second_one_strikes_at_once() -> None:
    done = []
    with pytest.raises(StruckError), WHOLE:
        strike()
        done.append(1)
        strike()
        done.append(2)
    assert done == [1]


def test_a_waiting_signal_is_handled_after_another_handler_raises() -> None:
    ran: list[int] = []

    def alarmed(number: int, frame: FrameType | None) -> None:
        ran.append(number)

    before = signal.signal(signal.SIGALRM, alarmed)
    try:
        for order in ((signal.SIGTERM, signal.SIGALRM), (signal.SIGTERM, signal.SIGALRM, signal.SIGTERM)):
            ran.clear()
            with pytest.raises(StruckError), WHOLE:
                for number in order:
                    signal.raise_signal(number)
            assert ran == [signal.SIGALRM]
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_handler_that_raises_nothing_takes_no_protection_away() -> None:
    ticks: list[int] = []
    done = []
    before = signal.signal(signal.SIGINT, lambda number, frame: ticks.append(number))
    try:
        with pytest.raises(StruckError), WHOLE:
            for _ in range(3):
                signal.raise_signal(signal.SIGINT)
            strike()
            done.append("whole")
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(ticks) == 3 and done == ["whole"]


@pytest.mark.parametrize("number", [signal.SIGALRM, signal.SIGHUP, signal.SIGUSR1, signal.SIGCHLD])
def test_a_timer_that_comes_again_waits_like_the_first_time(number: signal.Signals) -> None:
    """Its handler ran in the middle of the append during which it had come twice, and waited for that one's lock."""
    ticks: list[int] = []
    before = signal.signal(number, lambda number, frame: ticks.append(number))
    try:
        with WHOLE:
            for _ in range(3):
                signal.raise_signal(number)
            assert not ticks
        assert ticks == [number]
    finally:
        signal.signal(number, before)


def test_a_second_one_that_gets_nowhere_is_no_end_of_the_first() -> None:
    """Somebody's `except Exception` may be between it and the end of the block."""
    with pytest.raises(StruckError), WHOLE:
        strike()
        with suppress(StruckError):
            strike()


@pytest.mark.parametrize("error", [StruckError, ValueError])
def test_a_signal_that_strikes_while_others_are_put_away_leaves_none_behind(error: type[BaseException]) -> None:
    """Ctrl-C did nothing any more until the next block."""
    handler, tracing = signal.getsignal(signal.SIGINT), sys.gettrace()
    usual = signal.getsignal(signal.SIGTERM)

    def raising(number: int, frame: FrameType | None) -> None:
        raise error("struck")

    def block() -> None:
        with WHOLE, opened(), WHOLE:
            pass

    signal.signal(signal.SIGTERM, raising)
    for step in range(1, 60):
        with suppress(error):
            is_struck(step, block)
        assert signal.getsignal(signal.SIGINT) is handler and WHOLE.depth == 0
    # In all lines of a block's begin and end, and of that of what is opened in it.
    for step in range(1, 400):
        left = step

        def trace(frame: FrameType, event: str, arg: object) -> Any:
            nonlocal left
            if frame.f_globals.get("__name__") != "pylog.runtime.signals":
                return None
            left -= event in ("call", "line")
            if left == 0:
                sys.settrace(tracing)
                strike()
            return trace

        sys.settrace(trace)
        try:
            block()
        except error:
            pass
        finally:
            sys.settrace(tracing)
        assert signal.getsignal(signal.SIGINT) is handler and WHOLE.depth == 0
        if left > 0:
            break
    assert 20 < step < 399, "the block has fewer lines than that"
    with pytest.raises(error):
        strike()
    signal.signal(signal.SIGTERM, usual)


def test_where_signals_strike_another_thread_than_was_thought_none_is_held() -> None:
    """As in an interpreter that is embedded: `signal.signal` is refused there."""
    main, done = WHOLE.main, []

    def work() -> None:
        WHOLE.main = threading.get_ident()
        with WHOLE:
            done.append(WHOLE.main)
        with WHOLE, opened():
            done.append(WHOLE.main)

    thread = threading.Thread(target=work)
    try:
        thread.start()
        thread.join()
    finally:
        WHOLE.main = main
        WHOLE.depth = 0
    assert done == [None, None]


def test_errors_inside_a_block_are_raised_unchanged() -> None:
    with pytest.raises(KeyError), WHOLE:
        raise KeyError
    with pytest.raises(StruckError) as caught, WHOLE:
        strike()
        raise KeyError
    assert isinstance(caught.value.__context__, KeyError)


def test_a_block_that_opens_may_be_ended() -> None:
    done = []
    with pytest.raises(StruckError), WHOLE:
        with opened():
            strike()
            done.append("opened")
        done.append("whole")
    assert done == []
    with pytest.raises(StruckError), WHOLE:
        strike()
        with opened():
            done.append("it strikes before")
    assert done == []
    with WHOLE:
        with pytest.raises(StruckError), opened():
            strike()
        with pytest.raises(StruckError), WHOLE, opened():
            strike()
        done.append("still whole")
    with opened():
        done.append("nothing to open")
    assert len(done) == 2


def test_a_handler_installed_in_a_block_stays() -> None:
    ours = signal.getsignal(signal.SIGTERM)
    with WHOLE:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    with WHOLE:
        strike()
    signal.signal(signal.SIGTERM, ours)


def test_other_threads_do_not_care() -> None:
    seen = []

    def work() -> None:
        with WHOLE, opened():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGTERM)]


def test_a_lock_is_held_in_a_block() -> None:
    lock, done = WholeLock(), []
    with pytest.raises(StruckError):
        with lock:
            strike()
            done.append(lock.acquire(False))
        done.append("behind it")
    assert done == [False] and lock.acquire(False)


def test_a_wait_at_a_condition_holds_no_lock_when_a_signal_strikes() -> None:
    lock = WholeLock()
    condition = threading.Condition(lock)  # type: ignore[arg-type]  # it is locked like these
    free = []

    def handler(number: int, frame: FrameType | None) -> None:
        with lock:
            free.append(number)

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with WHOLE, lock:
            signal.raise_signal(signal.SIGALRM)
            assert not free
            wait_at(condition, 0)
            assert free == [signal.SIGALRM] and not lock.acquire(False)
    finally:
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(StruckError), WHOLE, lock:
        strike()
        wait_at(condition, 0)
    assert lock.acquire(False)


def test_a_pause_of_another_thread_is_a_plain_wait() -> None:
    found = list[bool]()
    stopped = threading.Event()
    stopped.set()
    thread = threading.Thread(target=lambda: found.append(pause(stopped, 60)))
    thread.start()
    thread.join()
    assert found == [True]


def test_the_second_one_waits_for_a_lock() -> None:
    """What the lock guards was left half done: a batch was in no queue, and the producer's close waited for ever."""
    done = []
    lock = WholeLock()
    with pytest.raises(StruckError), WHOLE:
        with lock:
            strike()
            strike()
            done.append("held")
        strike()
        done.append("free")
    assert done == ["held"] and (WHOLE.depth, WHOLE.firm) == (0, 0)
    with lock:
        done.append("given back")


def test_a_pause_is_ended_by_a_handler_that_stops_it_and_by_one_that_raises() -> None:
    stopped = threading.Event()
    assert not pause(stopped, 0)
    with pytest.raises(StruckError), WHOLE:
        strike()
        pause(stopped, 60)
    before = signal.signal(signal.SIGALRM, lambda number, frame: stopped.set())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        assert pause(stopped, 60)
    finally:
        signal.signal(signal.SIGALRM, before)


# --- what the log makes of it -----------------------------------------------------------------------------------------


def is_struck(calls: int, work: Callable[[], object], times: int = 1) -> bool:
    """Run `work`, and let a signal come, so many times, at the so many-th place in it; whether it was ended so.

    The interpreter looks for signals where a function begins and behind the call of a compiled one, and not before one:
    the `__exit__` of a lock is never kept from being called.
    """
    left = calls

    def count(frame: FrameType, event: str, arg: object) -> None:
        nonlocal left
        left -= event in ("call", "c_return") and frame.f_code is not is_struck.__code__
        if left == 0:
            left = -1
            for _ in range(times):
                strike()

    # What is raised where the collector calls back is lost, whoever has raised it.
    gc.disable()
    sys.setprofile(count)
    try:
        work()
    except StruckError:
        return True
    finally:
        sys.setprofile(None)
        gc.enable()
    return False


def everything(log: pylog.Log, isolation_level: Literal["read_committed", "read_uncommitted"]) -> list[bytes | None]:
    with log.consumer(
        "t", auto_offset_reset="earliest", isolation_level=isolation_level, consumer_timeout_ms=200
    ) as consumer:
        return [record.value for record in consumer]


def test_a_producer_goes_on_whenever_two_signals_come() -> None:
    """The lock of a partition stayed taken, or its thread was said to send still: close was refused for ever."""
    struck = 0
    with pylog.open(":memory:", flush="none") as log:
        log.create_topic("t")
        for step in every(2, range(1, 400)):
            producer = log.producer(linger_ms=0)
            struck += is_struck(step, lambda producer=producer: producer.send("t", b"first"), times=2)
            with suppress(StruckError), WHOLE:
                # The first one, if the second has struck where a block was about to begin.
                pass
            producer.send("t", b"second").result()
            producer.close()
    assert struck > 50


@pytest.mark.parametrize("flush", ["sync", "none"])
def test_a_producer_goes_on_whenever_a_signal_comes(tmp_path: Path, flush: Literal["sync", "none"]) -> None:
    """Half an append made the partition refuse all others, and a batch between two hands was never answered."""
    struck, sent = 0, []
    with pylog.open(tmp_path, flush=flush) as log, log.producer() as producer:
        log.create_topic("t")
        for step in range(1, 320, 2):
            value = b"%d" % step
            if is_struck(step, lambda value=value: sent.append(producer.send("t", value))):  # type: ignore[misc]
                struck += 1
            sent.append(producer.send("t", b"after %d" % step))
            sent[-1].result()
            if is_struck(step, producer.flush):
                struck += 1
            assert all(future.exception() is None for future in sent[-2:])
        given = everything(log, "read_uncommitted")
    assert struck > 50 and len(given) >= len(sent) > 50
    assert len(given) == len(set(given))


def test_an_append_is_there_or_not_whenever_a_signal_comes(tmp_path: Path) -> None:
    struck = 0
    with pylog.open(tmp_path, flush="none") as log:
        partition = log.create_topic("t")[0]
        for step in range(1, 60):
            records = [pylog.Record(b"%d" % step)]
            struck += is_struck(step, lambda records=records: partition.append(records))  # type: ignore[misc]
            partition.append([pylog.Record(b"after %d" % step)])
        given = everything(log, "read_uncommitted")
        assert partition.high_watermark == partition.next_offset == len(given)
    assert struck > 10 and len(given) == len(set(given))
    assert {b"after %d" % step for step in range(1, 60)} <= set(given)


def test_a_transaction_can_be_ended_whenever_a_signal_comes(tmp_path: Path) -> None:
    """It left the coordinator's partition failed, and nobody could take the id up until the log was opened again."""
    struck, committed = 0, []
    with pylog.open(tmp_path) as log, log.producer(transactional_id="id") as producer:
        log.create_topic("t")
        for step in every(2, range(1, 1800, 9)):
            producer.begin()
            producer.send("t", b"%d" % step)
            if is_struck(step, producer.commit):
                struck += 1
                # How it has ended is not known: to say it again is the same end.
                with suppress(errors.InvalidTxnState):
                    producer.commit()
            committed.append(b"%d" % step)
        assert everything(log, "read_committed") == committed
    assert struck > 25


def test_a_transaction_that_is_a_block_is_over_whenever_a_signal_comes() -> None:
    """It stayed open where the signal came as it began, and the next one could not."""
    struck, sent = 0, 0
    with pylog.open(":memory:") as log, log.producer(transactional_id="id") as producer:
        log.create_topic("t")

        def one() -> None:
            with producer.transaction():
                producer.send("t", b"%d" % step)

        for step in every(2, range(1, 2200, 11)):
            if is_struck(step, one):
                struck += 1
                with suppress(errors.InvalidTxnState):
                    producer.commit()
            else:
                sent += 1
            producer.begin()
            producer.abort()
        assert len(everything(log, "read_committed")) >= sent > 0
    assert struck > 25


# Where a generator is collected nobody hears of what is raised.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("way", ["poll", "loop"])
def test_a_consumer_misses_nothing_whenever_a_signal_comes(way: str) -> None:
    """A batch that was being decoded, or records that were about to be given, were skipped, and committed as read."""
    struck = 0
    with pylog.open(":memory:") as log:
        partition = log.create_topic("t")[0]
        for number in range(4):
            partition.append([pylog.Record(b"%d" % (number * 5 + i)) for i in range(5)])
        for step in range(1, 600, 7):
            with log.consumer("t", auto_offset_reset="earliest", max_poll_records=3, consumer_timeout_ms=0) as consumer:
                lists: list[list[pylog.ConsumerRecord]] = []
                looped: list[pylog.ConsumerRecord] = []

                def read(consumer: pylog.Consumer = consumer, lists: list[Any] = lists) -> None:
                    for _ in range(3):
                        lists.append(consumer.poll(1))  # noqa: PERF401 - no frame may come between

                def loop(consumer: pylog.Consumer = consumer, looped: list[Any] = looped) -> None:
                    for record in islice(consumer, 7):
                        looped.append(record)  # noqa: PERF402

                struck += is_struck(step, read if way == "poll" else loop)
                while records := consumer.poll(1):
                    lists.append(records)
                seen = [record.offset for record in chain(looped, *lists)]
                # What a loop was given and a signal kept it from looking at is one record at most.
                assert seen == sorted(set(seen)) and len(seen) >= (20 if way == "poll" else 19), (step, seen)
    assert struck > 30


def test_a_reader_that_waits_for_its_owner_can_be_struck(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as log:
        log.create_topic("t")
        with pylog.open(tmp_path, mode="read") as reading, reading.consumer("t", fetch_max_wait_ms=60_000) as consumer:
            consumer.poll(0)
            before = signal.signal(signal.SIGALRM, signal.getsignal(signal.SIGTERM))
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.05)
                with pytest.raises(StruckError):
                    consumer.poll(60_000)
            finally:
                signal.signal(signal.SIGALRM, before)


def test_a_consumer_that_was_struck_is_locked_by_no_thread(tmp_path: Path) -> None:
    with pylog.open(":memory:") as log, log.consumer() as consumer:
        for step in range(1, 60):
            is_struck(step, consumer.subscription)
            assert not consumer._turn._lock._is_owned()  # type: ignore[attr-defined]


def test_a_node_goes_on_whenever_a_signal_comes_to_a_reader() -> None:
    """Half of a fetch that waits was left behind, and every append to the partition raised KeyError."""
    struck = 0
    with pylog.open(":memory:") as log:
        partition = log.create_topic("t")[0]
        with log.consumer("t") as consumer:
            consumer.poll(0)
            for step in range(1, 500, 5):
                struck += is_struck(step, lambda: consumer.poll(1))
                partition.append([pylog.Record(b"v")])
    assert struck > 30


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_is_gone_whenever_a_signal_comes_to_its_end(protocol: Literal["classic", "consumer"]) -> None:
    """It stayed in the group, and in its thread; to close it again did nothing."""
    struck = 0
    threads = threading.active_count()
    with pylog.open(":memory:") as log:
        log.create_topic("t")
        for step in range(1, 900, 25):
            consumer = log.consumer("t", group_id=f"{step}", group_protocol=protocol)
            while not consumer.assignment():
                consumer.poll(50)
            struck += is_struck(step, consumer.close)
            consumer.close()
            assert not log.admin.describe_group(f"{step}").members
    assert struck > 15 and threading.active_count() == threads


@pytest.mark.parametrize("end", ["producer", "log"])
def test_a_close_is_complete_whenever_a_signal_comes(tmp_path: Path, end: str) -> None:
    """The directory stayed locked by this process, futures were never done and threads stayed."""
    struck = 0
    threads = threading.active_count()
    for step in every(2, range(1, 2200, 53)):
        log = pylog.open(tmp_path)
        if step == 1:
            log.create_topic("t")
        producer = log.producer(linger_ms=60_000)
        future = producer.send("t", b"%d" % step)
        struck += is_struck(step, producer.close if end == "producer" else log.close)
        producer.close()
        # A commit may take longer than a wait goes on before it lets the signal strike: the future says so then.
        assert future.exception(0) is None or isinstance(future.exception(0), errors.Closed)
        log.close()
        assert threading.active_count() == threads
    assert struck > 7


def test_a_close_that_two_signals_have_ended_is_done_by_the_next(tmp_path: Path) -> None:
    """It counted as going on in this thread: the log's close left it to that, and the next open waited for ever."""
    struck = 0
    threads = threading.active_count()
    for step in every(2, range(1, 260, 4)):
        with pylog.open(tmp_path, flush="none") as log:
            log.create_topic("t", exist_ok=True)
            producer = log.producer(linger_ms=60_000)
            future = producer.send("t", b"%d" % step)
            struck += is_struck(step, producer.close, times=2)
            with suppress(StruckError), WHOLE:
                # The first one, if the second has struck where a block was about to begin.
                pass
        assert not producer._client.is_closing_here
        assert future.exception(0) is None or isinstance(future.exception(0), errors.Closed)
        assert threading.active_count() == threads
    assert struck > 25


def test_a_producer_that_waits_for_its_transactional_id_ends_with_its_log() -> None:
    """It was none of the log's before it had its id: it asked on until `max_block_ms` was over."""
    refused = 0
    for step in every(3, range(1, 700, 9)):
        log = pylog.open(":memory:")
        before = signal.signal(signal.SIGTERM, lambda number, frame, log=log: log.close())
        try:
            is_struck(step, lambda log=log: log.producer(transactional_id="one", max_block_ms=1_000))
        except errors.Closed:
            refused += 1
        finally:
            signal.signal(signal.SIGTERM, before)
            log.close()
    assert refused > 3


def test_a_handler_may_close_the_log_whose_send_waits_for_room() -> None:
    """A handler that closed the log while its thread waited for room in a queue waited for ever."""
    full = {"segment.bytes": 1 << 20, "retention.bytes": 1 << 20, "pylog.full.policy": "block"}
    refused: list[BaseException | None] = []
    with (
        pylog.open(":memory:", config={"replica.fetch.backoff.ms": 1}) as log,
        log.producer(linger_ms=60_000, buffer_memory=1 << 20) as producer,
    ):
        log.create_topic("t", config=full)

        sent, seen = 0, [-1, -2]

        def handle(number: int, frame: FrameType | None) -> None:
            seen.append(sent)
            if len(set(seen[-3:])) == 1:
                # The record of the send that was struck has no callback where that had not come to it.
                with suppress(errors.Undelivered):
                    log.close()

        before = signal.signal(signal.SIGALRM, handle)
        signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
        try:
            with pytest.raises(errors.Closed):
                while True:
                    producer.send("t", bytes(1000), on_delivery=lambda _, error: refused.append(error))
                    sent += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
    assert {type(error) for error in refused} == {type(None), errors.PartitionFull}


@pytest.mark.parametrize("handlers", ["close", "clean"])
def test_a_handler_that_strikes_a_compaction_does_not_wait_for_it(handlers: str) -> None:
    """A compaction rests to read no more than so many bytes a second. Closing compacts, too: it waited for ever."""
    slowly = {"log.cleaner.io.max.bytes.per.second": 200_000, "log.cleaner.backoff.ms": 3_600_000}
    refused: list[BaseException] = []
    with pylog.open(":memory:", config=slowly) as log:
        log.create_topic("t", config={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0})
        with log.producer() as producer:
            producer.send_many("t", [pylog.Record(bytes(1000), b"%d" % i) for i in range(100)])

        def handle(number: int, frame: FrameType | None) -> None:
            if log.broker.housekeeping._cleans_in is None or refused:
                return
            if handlers == "close":
                log.close()
                return
            with pytest.raises(errors.ConcurrentUse, match="in the middle of a clean") as raised:
                log.clean()
            refused.append(raised.value)

        before = signal.signal(signal.SIGALRM, handle)
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        try:
            with suppress(errors.Closed):
                log.clean()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert bool(refused) == (handlers == "clean")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_gets_its_records_whenever_a_signal_comes(protocol: Literal["classic", "consumer"]) -> None:
    """It waited for an answer that it had lost, and polled in vain for ever."""
    struck = 0
    with pylog.open(":memory:") as log:
        log.create_topic("t")[0].append([pylog.Record(b"v")])
        for step in range(1, 400, 7):
            with log.consumer(
                "t", group_id=f"{step}", group_protocol=protocol, auto_offset_reset="earliest"
            ) as consumer:
                struck += is_struck(step, lambda consumer=consumer: consumer.poll(50))  # type: ignore[misc]
                consumer.seek_to_beginning(*consumer.assignment())
                for _ in range(20):
                    if consumer.poll(500):
                        break
                else:
                    pytest.fail(f"nothing is read after a signal in call {step}")
    assert struck > 5


@pytest.mark.parametrize("times", [1, 2])
def test_a_directory_is_free_whenever_a_signal_comes_while_it_is_opened(tmp_path: Path, times: int) -> None:
    """It stayed locked where the signal, or a second one, came between the lock and who was to give it back."""
    with pylog.open(tmp_path) as log:
        log.create_topic("t", 3)
    struck, opened_logs = 0, []

    def work() -> None:
        opened_logs.append(pylog.open(tmp_path))

    for step in every(2, (*range(1, 40), *range(40, 2500, 97))):
        struck += is_struck(step, work, times)
        with suppress(StruckError), WHOLE:
            pass  # the first of two may still wait
        for log in opened_logs:
            log.close()
        opened_logs.clear()
        pylog.open(tmp_path).close()
    assert struck > 10


def test_recovery_ends_between_two_partitions(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as log:
        log.create_topic("t", 3)
        for view in log.topic("t"):
            view.append([pylog.Record(b"v")])
    (tmp_path / ".kafka_cleanshutdown").unlink()
    with pytest.raises(StruckError):
        with WHOLE:
            strike()
            pylog.open(tmp_path)
        raise AssertionError("it is struck inside of the block")
    with pylog.open(tmp_path) as log:
        assert [len(list(view.records())) for view in log.topic("t")] == [1, 1, 1]
