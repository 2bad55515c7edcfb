"""What several threads, callbacks, handlers and the end of a process did to clients: found by a review, mended."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import pytest

import pylog
from pylog import TopicPartition, errors
from pylog.broker.describe import describe_log_dirs
from pylog.errors import LogNotFound
from pylog.files import MemoryFiles
from pylog.protocol.messages.topics import DescribeLogDirsRequest
from support.patience import HANG_SECONDS

T0 = TopicPartition("t", 0)
FLUSHES = pytest.mark.parametrize("flush", ["sync", "none"])
Flush = Literal["sync", "none"]


def in_threads(*works: Callable[[], object]) -> None:
    """Do all of them at once. One that has not ended in time fails the test, and is left."""
    raised: list[BaseException] = []

    def guarded(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - it is raised again
            raised.append(error)

    threads = [threading.Thread(target=guarded, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_SECONDS)
    assert not [thread for thread in threads if thread.is_alive()]
    if raised:
        raise raised[0]


# --- callbacks --------------------------------------------------------------------------------------------------------


def test_callbacks_that_send_to_each_others_partitions_do_not_deadlock() -> None:
    """A callback runs while its partition is shipped. Two of them waited for the other's partition for ever."""
    with pylog.open(":memory:") as log:
        log.create_topic("t", partitions=2)
        producer = log.producer(batch_size=200, linger_ms=20)

        def forward(to: int) -> Callable[[Any, Any], None]:
            def send(metadata: Any, error: Any) -> None:
                for _ in range(20):
                    producer.send("t", b"f" * 90, partition=to)

            return send

        def run(own: int, other: int) -> None:
            for _ in range(300):
                producer.send("t", b"x" * 90, partition=own, on_delivery=forward(other))

        in_threads(lambda: run(0, 1), lambda: run(1, 0))
        while (stored := sum(view.next_offset for view in log.topic("t"))) < 2 * 300 * 21:
            # What is sent in a callback comes after what a flush waits for.
            producer.flush(HANG_SECONDS)
        assert stored == 2 * 300 * 21


@FLUSHES
@pytest.mark.parametrize("call", ["close", "flush"])
def test_a_callback_that_waits_for_another_producer_is_refused(tmp_path: Path, flush: Flush, call: str) -> None:
    """All producers of a log share the threads that bring answers: with sync it waited for its own thread."""
    with pylog.open(tmp_path, flush=flush) as log:
        log.create_topic("t", partitions=2)
        one, other = log.producer(), log.producer()
        said: list[str] = []

        def wait(metadata: Any, error: Any) -> None:
            other.send("t", b"dead letter", partition=1)
            try:
                getattr(other, call)()
            except RuntimeError as refused:
                said.append(str(refused))

        one.send("t", b"x", partition=0, on_delivery=wait)
        in_threads(one.flush)
        assert len(said) == 1 and f"{call} in a callback" in said[0]


# --- two that close ---------------------------------------------------------------------------------------------------


def filled(path: Path, records: int = 200) -> tuple[pylog.Log, pylog.Producer, list[Any]]:
    """A log whose producer has everything to deliver yet."""
    log = pylog.open(path)
    log.create_topic("t", partitions=8)
    producer = log.producer(linger_ms=60_000, batch_size=2000)
    return log, producer, [producer.send("t", b"x" * 500, partition=number % 8) for number in range(records)]


def undelivered(futures: list[Any]) -> list[Any]:
    return [future for future in futures if not future.done() or future.exception(0) is not None]


def test_a_second_close_of_a_log_waits_for_the_first(tmp_path: Path) -> None:
    """The second one closed the node, and what the first one was delivering was refused."""
    for attempt in range(5):
        log, _, futures = filled(tmp_path / str(attempt))
        in_threads(log.close, log.close)
        assert undelivered(futures) == []


def test_a_log_waits_for_a_producer_that_another_thread_closes(tmp_path: Path) -> None:
    for attempt in range(5):
        log, producer, futures = filled(tmp_path / str(attempt))
        in_threads(producer.close, log.close)
        assert undelivered(futures) == []


def test_a_second_close_of_a_producer_waits_for_its_timeout(tmp_path: Path) -> None:
    """A bounded queue that is full holds up the first one."""
    config = {"retention.bytes": 3000, "segment.bytes": 1 << 20, "pylog.full.policy": "block"}
    with pylog.open(":memory:") as log:
        log.create_topic("q", config=config)
        producer = log.producer(linger_ms=60_000, request_timeout_ms=1000, delivery_timeout_ms=61_000)
        sent = [producer.send("q", b"x" * 800) for _ in range(8)]

        def close() -> None:
            with pytest.raises(errors.Undelivered):
                producer.close()

        def close_too() -> None:
            while not producer._client.closed:
                pass
            with pytest.raises(TimeoutError, match="another thread is closing this producer"):
                producer.close(0.01)
            producer.close()

        in_threads(close, close_too)
        assert all(future.done() for future in sent)


@pytest.mark.parametrize("closes", ["log", "producer"])
def test_a_signal_handler_that_closes_the_log_in_a_close_leaves_it_alone(tmp_path: Path, closes: str) -> None:
    """It closed the node under the close that the signal had interrupted."""
    for attempt in range(5):
        log, producer, futures = filled(tmp_path / str(attempt), 1000)
        before = signal.signal(signal.SIGALRM, lambda number, frame, log=log: log.close())
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.002 * (attempt + 1))
            (log if closes == "log" else producer).close()
            signal.setitimer(signal.ITIMER_REAL, 0)
        finally:
            signal.signal(signal.SIGALRM, before)
        log.close()
        assert undelivered(futures) == []


@pytest.mark.parametrize("timeout", ["5", float("nan")])
def test_an_invalid_timeout_closes_nothing(tmp_path: Path, timeout: Any) -> None:
    """It was refused when nothing could be delivered any more: the records were lost without a word."""
    log, producer, futures = filled(tmp_path)
    with pytest.raises((TypeError, ValueError)):
        producer.close(timeout)
    producer.close()
    assert undelivered(futures) == []
    log.close()


def test_records_sent_at_exit_are_delivered_without_a_new_thread(tmp_path: Path) -> None:
    """Python 3.12 begins none once the process ends: a short script lost what it had sent, with exit code 0."""
    script = (
        "import atexit, sys, threading, pylog\n"
        'def refuse(thread): raise RuntimeError("can\'t create new thread at interpreter shutdown")\n'
        "log = pylog.open(sys.argv[1]); producer = log.producer(linger_ms=int(sys.argv[2]))\n"
        "for i in range(100): producer.send('t', b'x', partition=i % 4)\n"
        "atexit.register(lambda: setattr(threading.Thread, 'start', refuse))\n"
    )
    with pylog.open(tmp_path) as log:
        log.create_topic("t", partitions=4)
    for linger_ms in (0, 60_000):
        command = [sys.executable, "-c", script, str(tmp_path), str(linger_ms)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stderr) == (0, "")
    with pylog.open(tmp_path) as log:
        assert sum(view.next_offset for view in log.topic("t")) == 200


# --- transactions, metadata -------------------------------------------------------------------------------------------


def test_a_send_outside_of_a_transaction_does_not_fail_the_next_one() -> None:
    """It was refused between two; when it came to say so the next one had begun, and was blamed."""
    with pylog.open(":memory:") as log:
        log.create_topic("t")
        producer = log.producer(transactional_id="x")

        def begin(frame: FrameType, event: str, argument: object) -> None:
            if event == "return" and frame.f_code.co_name == "_send_bytes":
                sys.setprofile(None)
                producer.begin()

        sys.setprofile(begin)
        with pytest.raises(errors.InvalidTxnState):
            producer.send("t", b"between two")
        producer.send("t", b"in the second")
        producer.commit()
        with log.consumer("t", auto_offset_reset="earliest", isolation_level="read_committed") as consumer:
            assert [record.value for record in consumer.poll(60_000)] == [b"in the second"]


def test_a_producer_learns_of_new_partitions() -> None:
    """One that was there before sent every key where it had always gone, a new one elsewhere."""
    with pylog.open(":memory:") as log:
        log.create_topic("t")
        producer = log.producer(metadata_max_age_ms=0, linger_ms=0)
        producer.send("t", b"x", b"key 1").result()
        log.create_partitions("t", 8)
        keys = [b"key %d" % number for number in range(40)]
        chosen = [producer.send("t", b"x", key).result().partition for key in keys]
        with log.producer() as other:
            assert chosen == [other.send("t", b"x", key).result().partition for key in keys]
        assert len(set(chosen)) == 8


# --- consumers --------------------------------------------------------------------------------------------------------


def test_a_consumer_that_waits_for_its_position_ends_with_its_log() -> None:
    """It waited for `default_api_timeout_ms`, and said that nothing was found in time."""
    log = pylog.open(":memory:")
    log.create_topic("t")
    producer = log.producer(transactional_id="x")
    producer.begin()
    producer.send("t", b"1")
    producer.send_offsets({T0: 1}, "g")
    consumer = log.consumer(group_id="g", auto_offset_reset="earliest", default_api_timeout_ms=600_000)
    consumer.assign([T0])
    waits = threading.Event()

    def position() -> None:
        waits.set()
        # The close of the log aborts the transaction first: the position may be known before the consumer ends.
        with suppress(errors.Closed):
            consumer.position(T0)

    def close() -> None:
        waits.wait(HANG_SECONDS)
        log.close()

    in_threads(position, close)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_listener_may_close_the_log(protocol: str) -> None:
    """The log was closed and said that it was not; the consumer gave nothing for ever."""
    log = pylog.open(":memory:")
    log.create_topic("t")

    class Listener(pylog.RebalanceListener):
        def on_partitions_assigned(self, partitions: object) -> None:
            log.close()

    consumer = log.consumer(group_id="g", group_protocol=protocol, auto_offset_reset="earliest")
    consumer.subscribe(["t"], listener=Listener())
    with pytest.raises(errors.Closed):
        for _ in range(100):
            consumer.poll(100)
    consumer.close()
    log.close()


def test_a_deserializer_may_close_the_log() -> None:
    """`poll` raised a bare KeyError."""
    log = pylog.open(":memory:")
    log.create_topic("t")[0].append([pylog.Record(b"%d" % number) for number in range(10)])

    def closing(value: bytes) -> bytes:
        if value == b"3":
            log.close()
        return value

    consumer = log.consumer("t", auto_offset_reset="earliest", value_deserializer=closing)
    with suppress(errors.Closed):
        assert [record.value for record in consumer.poll(100)] == [b"%d" % number for number in range(10)]
    with pytest.raises(errors.Closed):
        consumer.poll(100)


# --- the command, the admin -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"), [("produce t <&-", "stdin is closed"), ("consume t --from-beginning >&-", "stdout is closed")]
)
def test_the_command_says_that_a_stream_is_closed(tmp_path: Path, words: str, said: str) -> None:
    """It ended in a traceback."""
    with pylog.open(tmp_path) as log:
        log.create_topic("t")
    command = f"'{sys.executable}' -m pylog --log '{tmp_path}' {words}"
    ended = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
    assert ended.returncode == 1 and ended.stderr.startswith("pylog: ") and said in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_a_topic_deleted_meanwhile_does_not_fail_describe_log_dirs() -> None:
    class Vanishing(MemoryFiles):
        def list_dir(self, path: str) -> list[str]:
            if os.path.basename(path) == "b-0":
                raise LogNotFound(f"cannot list {path}")
            return super().list_dir(path)

    files = Vanishing()
    for name in ("a-0", "b-0"):
        files.make_dir(f"log/{name}")
    (described,) = describe_log_dirs(files, ["log"], {}, DescribeLogDirsRequest(topics=None)).results
    assert [topic.name for topic in described.topics] == ["a"]
