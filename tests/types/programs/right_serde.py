"""Serdes know what they take and give."""

from dataclasses import dataclass
from typing import Any, assert_type

import pylog
from pylog import serde
from pylog.schema_registry import SchemaRegistryServer
from pylog.testing import StandIn


@dataclass
class Order:
    apples: int


def copy(log: pylog.Log, registry: serde.SchemaRegistry) -> None:
    orders = serde.json(Order)
    assert_type(orders, serde.Serde[Order])
    registry.set_compatibility("FULL", "t-value")
    assert_type(serde.avro(registry, "t-value", {"type": "int"}), serde.Serde[Any])
    with (
        log.producer(key_serializer=serde.string().serialize, value_serializer=orders.serialize) as producer,
        log.consumer("t", key_deserializer=serde.long().deserialize, value_deserializer=orders.deserialize) as consumer,
        log.producer() as plain,
    ):
        assert_type(producer, pylog.Producer[str, Order])
        for record in serde.DeadLetters(plain, "dead").records(consumer):
            assert_type(record, pylog.ConsumerRecord[int, Order])
            producer.send("u", record.value, key=str(record.key))


def registries(log: pylog.Log) -> None:
    with StandIn(schema_registry=True) as kafka:
        assert_type(kafka.schema_registry_url, str)
    with SchemaRegistryServer(log, "127.0.0.1:0", topic="_schemas", allow_plaintext=False) as server:
        assert_type(server.url, str)
        try:
            serde.HttpRegistry(server.url).version("s")
        except (pylog.errors.SchemaNotFound, pylog.errors.SchemaRegistryError) as error:
            assert_type(error.error_code, int)
