"""Every call of a transaction that storage makes to its files fails, as where the process has no descriptor left.

Whatever a client calls then raises a typed error or TimeoutError, and comes back. Once there is room again, a log that
is opened anew has no transaction that hangs, and its transactional ids can be used. Here the first call from each line
of the storage half fails, once and for ever; `PYLOG_FAULTS=every` goes through every call.
"""

import errno
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import pytest

import pylog
from pylog.broker.broker import Broker
from pylog.client.producer import Producer
from pylog.config import NodeConfig
from pylog.errors import PylogError
from pylog.files import Files, MemoryFiles
from pylog.log import Log
from pylog.runtime.clock import SystemClock
from tests.support.faults import FaultFiles

T = TypeVar("T")
EVERY = os.environ.get("PYLOG_FAULTS") == "every"
CONFIG = NodeConfig(transaction_state_log_num_partitions=1, offsets_topic_num_partitions=1)
BRIEF: dict[str, Any] = {
    "max_block_ms": 20, "retry_backoff_ms": 1, "retry_backoff_max_ms": 1, "request_timeout_ms": 20,
    "delivery_timeout_ms": 50, "linger_ms": 0,
}  # fmt: skip
KEY = pylog.TopicPartition("t", 0)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """What fails is logged, and here everything does."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def opened(files: Files, flush: str) -> Log:
    transport, clock = pylog.MemoryTransport(), SystemClock()
    broker = Broker(files, ["log"], config=CONFIG, clock=clock, transport=transport, node_id=None, flush=flush)
    return Log("log", broker, broker, transport, clock)


def tried(call: Callable[[], T]) -> T | None:
    """What a call gives; None where it raises what it may raise."""
    with suppress(PylogError, TimeoutError):
        return call()
    return None


def transaction(log: Log) -> None:
    """All calls of a transaction, each of which may fail."""
    producer = tried(lambda: log.producer(transactional_id="tx", **BRIEF))
    if producer is not None:
        tried(producer.begin)
        for partition in range(2):
            tried(partial(send, producer, partition))
        tried(lambda: producer.send_offsets({KEY: 1}, "g"))
        for call in (producer.flush, producer.commit, producer.abort, lambda: producer.close(0.2)):
            tried(call)
    tried(lambda: log.admin.committed("g"))
    tried(log.admin.list_transactions)


def send(producer: Producer, partition: int) -> None:
    producer.send("t", b"v", partition=partition).result(0.2)


def prepared(flush: str) -> dict[str, bytes | None]:
    """A log with a topic and what coordinators need, killed."""
    files = MemoryFiles()
    log = opened(files, flush)
    log.create_topic("t", 2)
    with log.producer(transactional_id="tx") as producer, producer.transaction():
        producer.send("t", b"before")
        producer.send_offsets({KEY: 0}, "g")
    log.flush()
    tree = files.tree()
    log.close()
    return tree


def attempt(tree: dict[str, bytes | None], flush: str, fail_at: int | None, *, once: bool) -> tuple[FaultFiles, int]:
    inner = MemoryFiles(tree=tree)
    files = FaultFiles(inner, None, error=errno.EMFILE, once=once)
    log = opened(files, flush)
    before = len(files.sites)
    files.faults.fail_at = None if fail_at is None else before + fail_at
    transaction(log)
    calls = len(files.sites)
    files.heal()
    left = inner.tree()
    tried(log.close)
    with opened(MemoryFiles(tree=left), flush) as again:
        assert again.admin.find_hanging_transactions() == []
        with again.producer(transactional_id="tx") as producer, producer.transaction():
            producer.send("t", b"after").result(5)
            producer.send_offsets({KEY: 2}, "g")
        assert again.admin.committed("g")[KEY].offset == 2
        for view in again.topic("t"):
            assert view.last_stable_offset == view.next_offset
    return files, calls - before


@pytest.mark.parametrize("once", [True, False], ids=["once", "for-ever"])
@pytest.mark.parametrize("flush", ["none", "sync"])
def test_a_transaction_without_descriptors_ends_in_typed_errors(flush: str, once: bool) -> None:
    tree = prepared(flush)
    files, calls = attempt(tree, flush, None, once=once)
    sites = files.sites[-calls:]
    wanted = range(1, calls + 1) if EVERY else sorted({sites.index(site) + 1 for site in sites})
    for fail_at in wanted:
        attempt(tree, flush, fail_at, once=once)
