"""Records that cannot be read are put aside, in order, once, and never for a registry that does not answer."""

from collections.abc import Iterator
from itertools import chain

import pytest

import pylog
from pylog import serde
from pylog.errors import DeserializationError, SchemaRegistryError


@pytest.fixture
def log() -> Iterator[pylog.Log]:
    with pylog.open(":memory:") as log:
        log.create_topic("t")
        log.create_topic("dead")
        with log.producer() as producer:
            for number, value in enumerate((b"1", b"{", b"2", b"]", b"3")):
                producer.send("t", value, key=b"k%d" % number, headers=[("trace", b"x")])
        yield log


def reading(log: pylog.Log, registry: serde.SchemaRegistry | None = None) -> pylog.Consumer[bytes, object]:
    one = serde.json() if registry is None else serde.json_schema(registry, "t-value")
    return log.consumer("t", auto_offset_reset="earliest", consumer_timeout_ms=200, value_deserializer=one.deserialize)


def test_a_loop_goes_on_behind_what_is_put_aside(log: pylog.Log) -> None:
    with log.producer() as producer, reading(log) as consumer:
        assert [record.value for record in serde.DeadLetters(producer, "dead").records(consumer)] == [1, 2, 3]
    aside = list(log.topic("dead").records())
    assert [(record.key, record.value) for record in aside] == [(b"k1", b"{"), (b"k3", b"]")]
    said = dict(aside[0].headers)
    assert said.pop("__connect.errors.exception.message")
    assert said == {
        "trace": b"x", "__connect.errors.topic": b"t", "__connect.errors.partition": b"0",
        "__connect.errors.offset": b"1", "__connect.errors.exception.class.name": b"JSONDecodeError",
    }  # fmt: skip


def test_a_poll_gives_what_can_be_read_around_it(log: pylog.Log) -> None:
    with log.producer() as producer, reading(log) as consumer:
        dead = serde.DeadLetters(producer, "dead")
        polls = [[record.value for record in dead.poll(consumer, timeout_ms=1000)] for _ in range(5)]
    assert list(chain(*polls)) == [1, 2, 3]
    assert log.topic("dead")[0].next_offset == 2


def test_a_letter_of_a_transaction_that_aborts_is_not_seen(log: pylog.Log) -> None:
    with log.producer(transactional_id="x") as producer, reading(log) as consumer:
        producer.begin()
        assert len(list(serde.DeadLetters(producer, "dead").records(consumer))) == 3
        producer.abort()
    assert list(log.topic("dead")[0].records(isolation_level="read_committed")) == []


def test_a_registry_that_does_not_answer_puts_nothing_aside(log: pylog.Log) -> None:
    with log.producer() as producer:
        producer.send("t", b"\0\0\0\0\1{}").result()
    registry = serde.HttpRegistry("http://127.0.0.1:1", timeout=1)
    with log.producer() as producer, reading(log, registry) as consumer:
        letters = serde.DeadLetters(producer, "dead")
        with pytest.raises(DeserializationError) as raised:
            for _ in range(10):
                letters.poll(consumer, timeout_ms=1000)
    assert isinstance(raised.value.__cause__, SchemaRegistryError) and raised.value.offset == 5
    assert log.topic("dead")[0].next_offset == 5


def test_a_schema_that_is_nowhere_is_put_aside(log: pylog.Log) -> None:
    with log.producer() as producer:
        producer.send("t", b"\0\0\0\0\1{}").result()
    with log.producer() as producer, reading(log, serde.LogRegistry(log)) as consumer:
        assert list(serde.DeadLetters(producer, "dead").records(consumer)) == []
    said = dict(list(log.topic("dead").records())[-1].headers)
    assert said["__connect.errors.exception.class.name"] == b"SchemaNotFound"
