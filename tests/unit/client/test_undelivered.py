"""What a producer could not deliver is told by its end, unless somebody has looked at it."""

import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog import Producer, errors
from pylog.client.producer.failures import FIRST, UnseenFailures, together
from pylog.runtime import closing

LARGE = b"x" * 600


@pytest.fixture
def log() -> Iterator[pylog.Log]:
    with pylog.open(":memory:") as opened:
        opened.create_topic("t", 2, config={"max.message.bytes": 400})
        yield opened


def test_a_block_raises_failures_that_were_not_looked_at(log: pylog.Log) -> None:
    told = pytest.raises(errors.Undelivered, match=r"2 records were not delivered.*RecordTooLarge: .*400")
    with told as raised, log.producer() as producer:
        for partition in (0, 1):
            producer.send("t", LARGE, partition=partition)
            producer.send("t", b"good", partition=partition)
    assert raised.value.count == 2
    assert [type(one) for one in raised.value.errors] == [errors.RecordTooLarge] * 2
    assert raised.value.__cause__ is raised.value.errors[0]
    assert [record.value for part in log.topic("t") for record in part.records()] == [b"good"] * 2
    producer.close()


def test_the_end_of_the_log_tells_of_all_its_producers() -> None:
    log = pylog.open(":memory:")
    log.create_topic("t", config={"max.message.bytes": 400})
    producers = [log.producer(linger_ms=60_000) for _ in range(3)]
    for producer in producers:
        producer.send("t", LARGE)
    with pytest.raises(errors.Undelivered) as raised:
        log.close()
    assert (raised.value.count, len(raised.value.errors)) == (3, 3)
    log.close()


def refused(future: Any) -> None:
    with pytest.raises(errors.RecordTooLarge):
        future.result()


LOOKS: list[Callable[[Producer], Any]] = [
    lambda producer: producer.send("t", LARGE).exception(),
    lambda producer: refused(producer.send("t", LARGE)),
    lambda producer: producer.send("t", LARGE, on_delivery=lambda *_: None),
    lambda producer: producer.send("t", LARGE).add_done_callback(lambda _: None),
    lambda producer: (future := producer.send("t", LARGE), producer.flush(), future.add_done_callback(lambda _: None)),
]


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("linger_ms", [0, 60_000])
def test_a_failure_that_was_looked_at_is_not_raised_again(
    log: pylog.Log, look: Callable[[Producer], Any], linger_ms: int
) -> None:
    with log.producer(linger_ms=0) as producer:
        look(producer)
    with log.producer(linger_ms=linger_ms) as producer:
        futures = [producer.send("t", LARGE, partition=0) for _ in range(3)]
        producer.flush()
        for _ in range(2):
            assert [type(future.exception()) for future in futures] == [errors.RecordTooLarge] * 3


def test_a_flush_raises_failures_not_looked_at_so_far(log: pylog.Log) -> None:
    producer = log.producer(linger_ms=60_000)
    assert producer.flush() is None
    futures = [producer.send("t", value, partition=0) for value in (b"a", LARGE, LARGE, b"b")]
    for left in (2, 2):
        told = producer.flush()
        assert told is not None and told.count == left
    assert futures[1].exception() is futures[1].exception() is not None
    told = producer.flush()
    assert told is not None and told.count == 1
    with pytest.raises(errors.Undelivered, match="a record was not delivered"):
        producer.close()
    producer.close()


def test_another_error_is_not_hidden(log: pylog.Log, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ZeroDivisionError), log.producer() as producer:
        producer.send("t", LARGE)
        raise ZeroDivisionError
    (record,) = caplog.records
    assert (record.levelname, record.name) == ("ERROR", "pylog.client")
    assert "a record was not delivered" in record.message


def test_where_the_close_fails_it_is_logged(log: pylog.Log, caplog: pytest.LogCaptureFixture) -> None:
    producer = log.producer()
    producer.send("t", LARGE)
    sender: Any = producer._client.sender

    def fail(*_: object) -> None:
        raise TimeoutError

    sender.flush = fail
    with pytest.raises(TimeoutError):
        producer.close()
    assert "a record was not delivered" in caplog.text


def test_where_the_close_of_the_log_fails_it_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    log = pylog.open(":memory:")
    log.create_topic("t", config={"max.message.bytes": 400})
    producer = log.producer()
    producer.send("t", LARGE)
    node: Any = log.broker.node
    close = node.close

    def fail() -> None:
        close()
        raise errors.StorageError("no disk")

    node.close = fail
    with pytest.raises(errors.StorageError, match="no disk"):
        log.close()
    assert "a record was not delivered" in caplog.text
    node.close = close


def test_of_a_dropped_producer_it_is_logged(log: pylog.Log, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.warns(ResourceWarning):
        log.producer().send("t", LARGE)
    closing.settle()
    assert "a record was not delivered" in caplog.text


def test_at_the_exit_it_is_logged(tmp_path: Path) -> None:
    script = """
import sys, pylog
log = pylog.open(sys.argv[1])
log.create_topic("t", config={"max.message.bytes": 400})
producer = log.producer()
producer.send("t", b"x" * 600)
"""
    command = [sys.executable, "-Werror", "-c", script, str(tmp_path / "log")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0
    assert ended.stderr.startswith("a record was not delivered") and ended.stderr.count("\n") == 1


def test_a_failure_in_a_transaction_is_raised_by_its_end_alone(log: pylog.Log) -> None:
    with log.producer(transactional_id="a") as producer:
        with pytest.raises(errors.TransactionAbortable), producer.transaction():
            producer.send("t", LARGE)
        producer.begin()
        producer.send("t", LARGE)
        producer.abort()
        producer.begin()
        producer.send("t", LARGE)


def test_of_many_errors_the_first_are_kept() -> None:
    failures = UnseenFailures()
    many = [errors.PylogError(str(number)) for number in range(FIRST + 3)]
    for error in many:
        failures.add(error, 2)
    found = failures.peek()
    assert found is not None and (found.count, list(found.errors)) == (2 * len(many), many[:FIRST])
    for error in many[:FIRST]:
        failures.looked(error)
        failures.looked(error)
    found = failures.take()
    assert found is not None and (found.count, found.errors) == (6, ())
    assert str(found) == "6 records were not delivered, and their futures were not looked at"
    failures.looked(many[-1])
    assert failures.take() is None
    both = together([errors.Undelivered("x", 2, many[:4]), None, errors.Undelivered("y", 1, many[4:6])])
    assert both is not None and (both.count, list(both.errors)) == (3, many[:FIRST])
    copy = pickle.loads(pickle.dumps(both))
    assert (str(copy), copy.count, len(copy.errors)) == (str(both), 3, FIRST)
