"""What sending does for each record: the twins agree, nothing is lost between threads, and nothing is kept."""

import gc
import importlib
import sys
import threading
from collections.abc import Iterator
from operator import attrgetter
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pylog
from pylog.client.producer import WAITING_MAX, Producer
from pylog.client.record_append import pure
from pylog.config import ProducerConfig
from pylog.kernel import HEADER_BYTES, MAX_TIMESTAMP, check_fields, record_size_bound
from pylog.protocol.messages.topics import MetadataRequest
from pylog.protocol.messages.transactions import InitProducerIdRequest
from pylog.protocol.partitioner import partition_for_key
from pylog.record import TopicPartition
from pylog.runtime.clock import SystemClock
from pylog.runtime.future import Future, completed
from pylog.testing import SimClock
from support.described import described
from support.messages import producer_id_given
from support.produce import produced

NODE = 1
THREADS = 4
PARTITIONS = 3
RECORD_MAX = 400
ROUNDS = 50


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads that take turns as often as they can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.fixture
def compiled() -> ModuleType:
    return compiled_twin()


def compiled_twin() -> ModuleType:
    return pytest.importorskip("pylog.client.record_append.compiled", exc_type=ImportError)


def sender(twin: Any, limit: int, memory: int) -> Any:
    """A sender of topic "t" with a few partitions, whose slow way is short: it opens a batch where there is none."""

    class Sending(twin.RecordAppender):  # type: ignore[misc]
        def __init__(self) -> None:
            self.clock = SimClock()
            self.open = twin.OpenBatches()
            self.made: list[Any] = []
            self.slow = 0
            super().__init__(self.open, self.clock, RECORD_MAX, memory, self.send_slowly)

        def send_slowly(self, topic: Any, value: Any, key: Any, partition: Any, timestamp: Any, headers: Any) -> Any:
            self.slow += 1
            check_fields(value, key, timestamp)
            if record_size_bound(value, key, headers) > RECORD_MAX or self.open.bytes_waiting > memory:
                raise ValueError("too much")
            route = self.open.routes.setdefault("t", twin.Route(twin.StickyPartitioner(1000), [None] * PARTITIONS))
            if partition is None:
                partition = 0 if key is None else partition_for_key(key, PARTITIONS)
            timestamp = self.clock.wall_ms() if timestamp is None else timestamp
            batch = route.batches[partition]
            future = batch and self.open.append(batch, value, key, timestamp, headers)
            if future is None:
                batch = twin.ProducerBatch(TopicPartition("t", partition), limit, 0)
                future = self.open.append(batch, value, key, timestamp, headers)
                route.batches[partition] = batch
                self.made.append(batch)
            return future

    return Sending()


class Text(str):
    """Not plain."""

    __slots__ = ()


content = st.none() | st.binary(max_size=60) | st.just(b"x" * 300) | st.just(b"x" * 900) | st.just("text")
send = st.tuples(
    content,
    content,
    st.none() | st.sampled_from([0, 1, PARTITIONS - 1, PARTITIONS, 1 << 70, True]),
    st.none() | st.sampled_from([-2, -1, 0, 5, MAX_TIMESTAMP, MAX_TIMESTAMP + 1, 1.5, True]),
    st.sampled_from([(), [], [("h", b"v")], [(Text("h"), None)]]),
).filter(lambda sent: sent[2] is not None or sent[1] is not None)  # which one is sticky is random


def outcome(sending: Any, sent: tuple[Any, ...]) -> Any:
    value, key, partition, timestamp, headers = sent
    sending.clock.advance(1)
    try:
        return sending.send("t", value, key, partition=partition, timestamp_ms=timestamp, headers=headers)
    except (TypeError, ValueError, IndexError, OverflowError) as error:
        return type(error)


fields = attrgetter("topic", "partition", "offset", "timestamp")
"""Of where a record landed, in either twin: they are equal to their like only."""


@given(st.lists(send, max_size=40), st.sampled_from([100, 700, 1 << 16]), st.sampled_from([500, 1 << 20]))
def test_the_twins_send_the_same(sends: list[tuple[Any, ...]], limit: int, memory: int) -> None:
    sides = []
    for twin in (pure, compiled_twin()):
        sending = sender(twin, limit, memory)
        outcomes = [outcome(sending, sent) for sent in sends]
        waiting = sending.open.bytes_waiting
        streams = [batch.close() for batch in sending.made]
        assert waiting == sum(len(stream[0]) - HEADER_BYTES for stream in streams)
        for number, batch in enumerate(sending.made):
            batch.delivery.complete(1000 * number, None)
            sending.open.free(batch)
        assert sending.open.bytes_waiting == 0
        sides.append((waiting, streams, [one if isinstance(one, type) else fields(one.result(0)) for one in outcomes]))
    assert sides[0] == sides[1]


def test_only_the_first_of_a_batch_goes_the_slow_way(compiled: ModuleType) -> None:
    sending = sender(compiled, 1 << 16, 1 << 20)
    futures = [sending.send("t", b"value", b"key", partition=0) for _ in range(100)]
    assert sending.slow == 1
    sending.made[0].delivery.complete(7)
    assert [future.result(0).offset for future in futures] == list(range(7, 107))


def test_records_without_a_key_change_partition_after_a_batch_of_bytes(compiled: ModuleType) -> None:
    sending = sender(compiled, 1 << 16, 1 << 20)
    for partition in range(PARTITIONS):
        sending.send("t", b"", partition=partition)
    route = sending.open.routes["t"]
    for _ in range(20):
        # Whoever asks for the partition makes the choice.
        slow, stuck = sending.slow, route.sticky.partition(PARTITIONS)
        before = sending.made[stuck].count
        for _ in range(10):
            sending.send("t", b"x" * 100)
        assert sending.slow == slow and sending.made[stuck].count == before + 10


def test_a_future_of_either_twin_is_a_future(compiled: ModuleType) -> None:
    for twin in (pure, compiled):
        future = twin.Delivery("t", 0).future(0, 1)
        assert isinstance(future, Future) and not hasattr(future, "get")
        with pytest.raises(AttributeError, match=r"has no 'add_errback': use add_done_callback\(function\)"):
            future.add_errback()
    assert not gc.is_tracked(compiled.Delivery("t", 0).future(0, 1))


def test_which_twin_runs_is_decided_with_the_kernel() -> None:
    twin = pure if pylog.kernel.NAME == "pure" else importlib.import_module("pylog.client.record_append.compiled")
    assert issubclass(Producer, twin.RecordAppender)


def test_no_memory_leaks() -> None:
    topic, value, key = "t" * 40, b"v" * 100, b"k" * 20
    seen: list[object] = []
    held = (topic, value, key, seen.clear)

    def send(sending: Producer) -> None:
        for number in range(30):
            future = sending.send(topic, value, key, timestamp_ms=number)
            future.add_done_callback(seen.append)
        sending.send(topic, value, headers=[("h", value)])
        for bad in ({"partition": 7}, {"timestamp_ms": -5}):
            with pytest.raises((ValueError, pylog.PylogError)):
                sending.send(topic, value, key, **bad)
        sending.flush()
        assert len(seen) == 30 and future.result(0).topic == topic
        seen.clear()

    with pylog.open(":memory:") as log, log.producer(batch_size=1000) as sending:
        log.create_topic(topic)
        for _ in range(3):
            send(sending)
        gc.collect()
        before = [sys.getrefcount(thing) for thing in held]
        for _ in range(ROUNDS):
            send(sending)
        gc.collect()
        # What leaks does so in each round. A thread of the log's may hold one of them now, or have held it before.
        after = [sys.getrefcount(thing) for thing in held]
        assert all(now < then + ROUNDS for now, then in zip(after, before, strict=True)), (after, before)


@pytest.mark.parametrize("keyed", [True, False])
def test_threads_keep_their_order_and_lose_nothing(hasty: None, keyed: bool) -> None:
    count = 600
    futures: list[list[Any]] = [[] for _ in range(THREADS)]
    with pylog.open(":memory:") as log, log.producer(batch_size=1500, linger_ms=1) as sending:
        log.create_topic("t", partitions=2)

        def send(me: int) -> None:
            for number in range(count):
                key = b"%d" % me if keyed else None
                partition = None if keyed else number % 2
                value = b"%d %d" % (me, number) + b"." * (number % 90)
                futures[me].append((value, sending.send("t", value, key, partition=partition)))
                if number % 200 == 0:
                    sending.flush()

        run(send)
        sending.flush()
        found = [list(log.topic("t")[partition].records(0)) for partition in range(2)]
    for mine in futures:
        offsets = [-1, -1]
        for value, future in mine:
            metadata = future.result(0)
            assert found[metadata.partition][metadata.offset].value == value
            assert metadata.offset > offsets[metadata.partition]
            offsets[metadata.partition] = metadata.offset
    assert sum(map(len, found)) == THREADS * count


def test_few_batches_wait_while_one_is_shipped(hasty: None) -> None:
    waiting: list[int] = []

    def handle(message: Any, session: object) -> Future[Any]:
        if isinstance(message, MetadataRequest):
            return completed(described(["t"], 1, NODE))
        if isinstance(message, InitProducerIdRequest):
            return completed(producer_id_given(None, 7, 0))
        waiting.append(sending._client.batches.ready(TopicPartition("t", 0)))
        return completed(message.with_parts([produced(0, 0)]))

    transport = pylog.MemoryTransport()
    transport.attach(NODE, handle)
    config = ProducerConfig(batch_size=300)
    sending = Producer(transport, NODE, config, SystemClock())
    # The first batch of a partition goes alone, and what is sent meanwhile is bounded by the buffer.
    sending.send("t", b"first").result()
    waiting.clear()
    run(lambda _: [sending.send("t", b"x" * 90) for _ in range(300)])
    sending.close()
    assert max(waiting) < WAITING_MAX + THREADS


def run(work: Any) -> None:
    threads = [threading.Thread(target=work, args=(me,)) for me in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
        assert not thread.is_alive()
