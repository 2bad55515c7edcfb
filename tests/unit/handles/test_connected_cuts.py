"""`pylog.connect` over connections that are cut at random bytes: nothing is lost, nothing is there twice.

The seeds are fixed; another one is a parameter more.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import pylog
from support.cutting_proxy import CuttingProxy
from support.patience import HANG_SECONDS

RECORDS = 300
BYTES_MAX = 6000


@contextmanager
def cut(seed: int) -> Iterator[tuple[pylog.Log, CuttingProxy]]:
    """A log in memory, and the proxy by which clients reach it."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        listen = f"127.0.0.1:{probe.getsockname()[1]}"
    with CuttingProxy(listen, seed, BYTES_MAX) as proxy, pylog.open(":memory:") as here:
        here.serve(listen, advertise=proxy.address)
        here.create_topic("t", 2)
        yield here, proxy


def numbers(log: Any, **config: Any) -> list[list[int]]:
    return [[int(record.value or b"") for record in part.records(**config)] for part in log.topic("t")]


@pytest.mark.parametrize("seed", range(2))
def test_an_idempotent_producer_loses_nothing_and_stores_nothing_twice(seed: int) -> None:
    with cut(seed) as (here, proxy), pylog.connect(proxy.address) as log:
        proxy.is_cutting = True
        with log.producer(linger_ms=0, retry_backoff_ms=2) as producer:
            futures = [producer.send("t", b"%d" % i, partition=i % 2) for i in range(RECORDS)]
            assert [future.exception(HANG_SECONDS) for future in futures] == [None] * RECORDS
            # One at a time, so that there are many requests.
            for i in range(RECORDS, RECORDS + 100):
                producer.send("t", b"%d" % i, partition=i % 2).result(HANG_SECONDS)
            proxy.is_cutting = False
        assert proxy.cuts
        assert numbers(here) == [list(range(rest, RECORDS + 100, 2)) for rest in (0, 1)]


@pytest.mark.parametrize("seed", range(2))
def test_a_consumer_reads_every_record_once_and_in_order(seed: int) -> None:
    with cut(seed) as (here, proxy), pylog.connect(proxy.address) as log:
        with here.producer() as producer:
            for i in range(RECORDS):
                producer.send("t", b"%d" % i, partition=i % 2)
        proxy.is_cutting = True
        got: list[list[int]] = [[], []]
        # An answer has to get through whole, some day: a cut comes after 6,000 bytes at most.
        config: dict[str, Any] = {"auto_offset_reset": "earliest", "retry_backoff_ms": 2, "fetch_max_bytes": 500}
        with log.consumer(max_partition_fetch_bytes=500, **config) as consumer:
            consumer.assign([pylog.TopicPartition("t", number) for number in (0, 1)])
            while sum(map(len, got)) < RECORDS:
                for record in consumer.poll(HANG_SECONDS * 1000):
                    got[record.partition].append(int(record.value or b""))
        assert got == [list(range(rest, RECORDS, 2)) for rest in (0, 1)]


@pytest.mark.parametrize("seed", range(2))
def test_transactions_are_whole_whatever_is_cut(seed: int) -> None:
    with cut(seed) as (here, proxy), pylog.connect(proxy.address) as log:
        with log.producer(transactional_id="tx", linger_ms=0, retry_backoff_ms=2) as producer:
            proxy.is_cutting = True
            done = []
            for turn in range(15):
                try:
                    with producer.transaction():
                        for i in range(4):
                            producer.send("t", b"%d" % (turn * 4 + i), partition=i % 2)
                        producer.send_offsets({pylog.TopicPartition("t", 0): turn}, "g")
                    done.append(turn)
                except pylog.PylogError:
                    # It could not be told how it went, or a part of it: then none of it is there.
                    pass
            proxy.is_cutting = False
        assert len(done) > 5
        for rest, found in enumerate(numbers(here, isolation_level="read_committed")):
            assert found == [turn * 4 + i for turn in done for i in (rest, rest + 2)]
        assert here.admin.committed("g")[pylog.TopicPartition("t", 0)].offset == done[-1]
