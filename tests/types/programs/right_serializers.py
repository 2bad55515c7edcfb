"""Keys and values that are no bytes."""

import json
from dataclasses import dataclass
from typing import Any, TypeVar, assert_type

import pylog

K = TypeVar("K")
V = TypeVar("V")
BytesLike = bytes | bytearray | memoryview


@dataclass
class Order:
    apples: int

    def dump(self) -> bytes:
        return b"%d" % self.apples

    @classmethod
    def load(cls, data: bytes) -> "Order":
        return cls(int(data))


def dump(value: object) -> bytes:
    return json.dumps(value).encode()


def packed(number: int) -> bytearray:
    return bytearray(number.to_bytes(8))


def send(log: pylog.Log) -> None:
    with log.producer(value_serializer=dump) as anything:
        assert_type(anything, pylog.Producer[BytesLike, object])
        anything.send("t", {"a": 1}, key=b"key")
    with log.producer(value_serializer=lambda value: json.dumps(value).encode()) as undeclared:
        undeclared.send("t", {"a": 1})
    with log.producer(key_serializer=str.encode, value_serializer=Order.dump, linger_ms=0) as orders:
        assert_type(orders, pylog.Producer[str, Order])
        orders.send("t", Order(2), key="alice")
        orders.send("t", None, key="alice")
        orders.send_many("t", [Order(1), Order(2)])
    with log.producer(key_serializer=str.encode) as named:
        assert_type(named, pylog.Producer[str, BytesLike])
        named.send("t", bytearray(b"value"), "key")
    with log.producer(value_serializer=packed) as built:
        assert_type(built, pylog.Producer[BytesLike, int])
        built.send("t", 7)


def read(log: pylog.Log) -> None:
    with log.consumer("t", key_deserializer=bytes.decode, value_deserializer=Order.load) as orders:
        assert_type(orders, pylog.Consumer[str, Order])
        for record in orders:
            assert_type(record, pylog.ConsumerRecord[str, Order])
            assert_type(record.value, Order | None)
            print(record.value.apples if record.value is not None else "gone", record.key)
    with log.consumer("t", group_id="g", value_deserializer=json.loads) as anything:
        assert_type(anything, pylog.Consumer[bytes, Any])
    with log.consumer("t", key_deserializer=int) as numbered:
        assert_type(numbered, pylog.Consumer[int, bytes])
        print([len(record.value or b"") for record in numbered.poll()])


def copy(consumer: pylog.Consumer[K, V], producer: pylog.Producer[K, V]) -> None:
    for record in consumer.poll():
        producer.send("copy", record.value, key=record.key)
