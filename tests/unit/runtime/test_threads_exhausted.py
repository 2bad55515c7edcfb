"""Where the system gives no other thread, a call raises ThreadsExhausted before anything is done, or does without."""

import asyncio
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest

import pylog
from pylog import TopicPartition
from pylog.aio.threads import Threads
from pylog.errors import ThreadsExhausted, TransactionAbortable
from pylog.runtime.pool import Pool
from pylog.runtime.threads import _Begun, started
from tests.support.threads import no_threads

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="RLIMIT_AS is enforced by Linux")


def refused(call: Callable[[], object]) -> None:
    for _ in range(2):
        with pytest.raises(ThreadsExhausted, match="ulimit"):
            call()


def values(log: pylog.Log, topic: str = "t") -> list[bytes | None]:
    return [record.value for part in log.topic(topic) for record in part.records()]


def polled(consumer: pylog.Consumer, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    while len(found) < count:
        found += [record.value for record in consumer.poll(1000)]
    return found


@pytest.mark.parametrize("linger_ms", [0, 5])
@pytest.mark.parametrize("flush", ["none", "sync"])
def test_a_first_record_is_refused_before_it_is_buffered(tmp_path: Path, flush: str, linger_ms: int) -> None:
    with pylog.open(tmp_path, flush=flush) as log, log.producer(linger_ms=linger_ms) as producer:
        log.create_topic("t")
        with no_threads():
            refused(lambda: producer.send("t", b"refused"))
            refused(lambda: producer.send("t", b"refused", headers={"a": b"b"}))
            producer.flush()
        futures = [producer.send("t", b"%d" % number) for number in range(3)]
        assert [future.result(240).offset for future in futures] == [0, 1, 2]
        assert values(log) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("linger_ms", [0, 5])
@pytest.mark.parametrize("flush", ["none", "sync"])
def test_a_producer_at_work_needs_no_other_thread(tmp_path: Path, flush: str, linger_ms: int) -> None:
    with pylog.open(tmp_path, flush=flush) as log, log.producer(linger_ms=linger_ms) as producer:
        log.create_topic("t", 2)
        producer.send("t", b"0", partition=0).result(240)
        with no_threads():
            log.topic("t")[1].append([pylog.Record(b"1")])
            futures = [producer.send("t", b"%d" % number, partition=1) for number in range(2, 5)]
            assert [future.result(240).offset for future in futures] == [1, 2, 3]
            producer.flush()
            producer.close()
        assert values(log) == [b"%d" % number for number in range(5)]


def test_an_append_without_a_thread_lets_the_next_one_begin_the_upkeep() -> None:
    before = threading.enumerate()

    def names() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread not in before]

    with pylog.open(":memory:") as log:
        partition = log.create_topic("t", config={"cleanup.policy": "compact"})[0]
        with no_threads():
            partition.append([pylog.Record(b"0", b"key")])
        assert not {"pylog-housekeeping", "pylog-cleaner"} & set(names())
        partition.append([pylog.Record(b"1", b"key")])
        assert {"pylog-housekeeping", "pylog-cleaner"} <= set(names())
        assert values(log) == [b"0", b"1"]


def test_a_transaction_that_gets_no_thread_is_aborted_and_the_next_goes_on(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as log, log.producer(transactional_id="id") as producer:
        log.create_topic("t")
        producer.begin()
        with no_threads():
            refused(lambda: producer.send("t", b"refused"))
            with pytest.raises(TransactionAbortable, match="ThreadsExhausted"):
                producer.commit()
            producer.abort()
            producer.begin()
        producer.send("t", b"0")
        with no_threads():
            producer.commit()
            producer.begin()
            producer.send("t", b"1")
            producer.commit()
        assert [record.value for record in log.topic("t")[0].records(isolation_level="read_committed")] == [b"0", b"1"]


def test_a_poll_of_a_member_is_refused_and_goes_on_later(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as log:
        log.create_topic("t")[0].append([pylog.Record(b"%d" % number) for number in range(3)])
        with log.consumer("t", group_id="g", auto_offset_reset="earliest", enable_auto_commit=False) as member:
            with no_threads():
                refused(lambda: member.poll(1000))
            assert polled(member, 3) == [b"0", b"1", b"2"]
            with no_threads():
                member.commit()
                member.close()
        assert log.admin.committed("g")[TopicPartition("t", 0)].offset == 3


def test_a_consumer_without_a_group_polls_without_a_thread() -> None:
    with pylog.open(":memory:") as log, log.consumer(auto_offset_reset="earliest") as consumer:
        partition = log.create_topic("t")[0]
        consumer.assign([TopicPartition("t", 0)])
        with no_threads():
            assert list(consumer.poll(20)) == []
            partition.append([pylog.Record(b"0")])
            assert polled(consumer, 1) == [b"0"]


def test_a_reader_waits_as_soon_as_a_thread_can_be_had(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as log, pylog.open(tmp_path, mode="read") as reader:
        partition = log.create_topic("t")[0]
        partition.append([pylog.Record(b"0")])
        with reader.consumer(auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("t", 0)])
            with no_threads():
                assert polled(consumer, 1) == [b"0"]
                refused(lambda: consumer.poll(20))
            partition.append([pylog.Record(b"1")])
            assert polled(consumer, 1) == [b"1"]


@pytest.mark.parametrize("mode", ["auto", "own"])
def test_an_open_without_a_thread_leaves_the_directory_free(tmp_path: Path, mode: str) -> None:
    with no_threads():
        refused(lambda: pylog.open(tmp_path, mode=mode))
        refused(lambda: pylog.open(":memory:"))
    with pylog.open(tmp_path, mode=mode) as log:
        log.create_topic("t")[0].append([pylog.Record(b"0")])
        assert values(log) == [b"0"]


def test_an_attachment_is_refused_and_made_later(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as log:
        log.create_topic("t")
        with no_threads():
            refused(lambda: pylog.open(tmp_path, mode="attach"))
        with pylog.open(tmp_path, mode="attach") as attached, attached.producer(linger_ms=0) as producer:
            assert producer.send("t", b"0").result(240).offset == 0
            with no_threads():
                assert producer.send("t", b"1").result(240).offset == 1
        assert values(log) == [b"0", b"1"]


def test_a_server_and_its_clients_are_refused_and_served_later(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as log:
        log.create_topic("t")
        with no_threads():
            refused(lambda: log.serve("127.0.0.1:0"))
        with log.serve("127.0.0.1:0") as server:
            with no_threads():
                refused(lambda: pylog.connect(server.bootstrap_servers))
            with pylog.connect(server.bootstrap_servers) as client, client.producer() as producer:
                assert producer.send("t", b"0").result(240).offset == 0
                with no_threads():
                    # What may wait is done by the threads that the server has.
                    client.create_topic("u")
                    assert producer.send("u", b"1").result(240).offset == 0
                    client.delete_topic("u")
        assert values(log) == [b"0"] and list(log.topics()) == ["t"]


def test_a_copy_is_refused_and_made_later(tmp_path: Path) -> None:
    with pylog.open(tmp_path / "leader") as log, log.serve("127.0.0.1:0") as server:
        log.create_topic("t")[0].append([pylog.Record(b"0")])
        with pylog.open(tmp_path / "copy", node_id=2) as copy:
            with no_threads():
                refused(lambda: copy.follow(server.bootstrap_servers))
            with copy.follow(server.bootstrap_servers) as following:
                while following.lag()[TopicPartition("t", 0)].next_offset == 0:
                    pass
                assert values(copy) == [b"0"]


def test_a_call_of_asyncio_is_refused_and_not_made_later() -> None:
    async def call() -> None:
        threads, made = Threads(), [0]
        with no_threads():
            for _ in range(2):
                with pytest.raises(ThreadsExhausted, match="ulimit"):
                    await threads.call(made.append, -1)
        await threads.call(made.append, 1)
        with no_threads():
            # The thread that there is makes them all.
            await asyncio.gather(*(threads.call(made.append, number) for number in (2, 3, 4)))
        threads.close()
        assert made == [0, 1, 2, 3, 4]

    asyncio.run(call())


def test_a_pool_that_has_begun_makes_each_call() -> None:
    pool, made = Pool("few", 4), threading.Semaphore(0)
    with no_threads():
        refused(lambda: pool.submit(made.release))
        refused(pool.begin)
    pool.begin()
    with no_threads():
        for _ in range(10):
            pool.submit(made.release)
        assert all(made.acquire(timeout=240) for _ in range(10))
    for thread in pool.close():
        thread.join()
    assert pool.unfinished == 0


BORN_WITHOUT_MEMORY = """
import resource, sys, threading
from pylog.errors import ThreadsExhausted
from pylog.runtime.threads import _Begun, started

HARD, PAGE, STACK = resource.getrlimit(resource.RLIMIT_AS)[1], resource.getpagesize(), 64 << 20
threading.stack_size(STACK)
told = 0
for pages in range(12):
    mapped, done = int(open("/proc/self/statm").read().split()[0]) * PAGE, []
    resource.setrlimit(resource.RLIMIT_AS, (mapped + STACK + pages * PAGE, HARD))
    try:
        thread = started(lambda: done.append(pages), "young")
    except ThreadsExhausted as error:
        told += "no memory to begin" in str(error)
        thread = None
    resource.setrlimit(resource.RLIMIT_AS, (HARD, HARD))
    if thread is not None:
        thread.join()
    assert done == ([] if thread is None else [pages]), pages
print(told)
"""


def test_a_thread_without_memory_for_its_first_step_is_told() -> None:
    """`Thread.start` waits for such a thread for ever: a run of `make limits` hung in it."""
    done = subprocess.run([sys.executable, "-c", BORN_WITHOUT_MEMORY], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 0


def test_a_thread_lets_go_of_its_work() -> None:
    with no_threads(), pytest.raises(ThreadsExhausted):
        started(int, "never")
    done = threading.Event()
    thread = started(done.set, "quick")
    assert thread is not None and done.is_set() | done.wait(240)
    thread.join()
    assert not thread.is_alive() and thread.daemon and thread.name == "quick"


def test_a_thread_that_has_ended_before_it_began_is_not_waited_for() -> None:
    begun = _Begun()
    begun.life = weakref.ref(_Begun())
    with pytest.raises(RuntimeError, match="no memory to begin"):
        begun.wait()
