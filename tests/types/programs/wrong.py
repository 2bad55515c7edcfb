"""What a type checker has to refuse: the lines that say so, and no others."""

import json

import pylog
from pylog import serde
from pylog.testing import StandIn
from pylog.workers import Workers


def load(data: bytes) -> int:
    return len(data)


def configs(log: pylog.Log) -> None:
    log.producer(linger_mss=5)  # refused
    log.producer(linger_ms="soon")  # refused
    log.producer(compression_type="zip")  # refused
    log.producer(retention_ms=5)  # refused
    log.consumer("t", auto_offset_rest="earliest")  # refused
    log.consumer("t", isolation_level="committed")  # refused
    log.consumer(["t"])  # refused
    log.create_topic("t", config={"cleanup.polcy": "compact"})  # refused
    log.create_topic("t", config={"retention.ms": None})  # refused
    log.alter_config("t", {"compression.type": "none"})  # refused
    pylog.open("data", config={"num.partition": 3})  # refused
    pylog.open("data", mode="write")  # refused
    pylog.connect("host:9092", sasl_user="ada")  # refused


def clients(log: pylog.Log, producer: pylog.Producer) -> None:
    producer.send("t", "text")  # refused
    producer.send("t", [1, 2])  # refused
    producer.send("t", b"value", key="key")  # refused
    producer.send("t", b"value", headers={"a": "1"})  # refused
    producer.send("t", b"value").get()  # refused
    log.producer(key_serializer=str.encode).send("t", b"value", key=b"key")  # refused
    log.producer(key_serializer=str.encode).send("t", b"value", key=bytearray(b"key"))  # refused
    log.producer(value_serializer=json.dumps)  # refused
    log.consumer("t", value_deserializer=str.encode)  # refused
    for record in log.consumer("t"):
        print(record.value.upper())  # refused
    for counted in log.consumer("t", value_deserializer=load):
        print(counted.value + b"")  # refused
        print(counted.vlaue)  # refused
    print(pylog.errors.NoSuchError)  # refused
    print(pylog.Konsumer)  # refused
    log.topic("t")[0].columns(isolation_level="all")  # refused
    log.topic("t").select(["key"], since="2026-01-01")  # refused
    log.topic("t").to_arrow(columns=["key"])  # refused
    log.topic("t").select(["value"], value=serde.json)  # refused
    log.topic("t").select(["value"], value=serde.json(), on_error="ignore")  # refused
    log.topic("t").append_table([{"value": b"x"}])  # refused
    log.topic("t").append_table("a.parquet", key=["id"])  # refused
    log.topic("t").append_table("a.parquet", compression_type="zip")  # refused


def jobs(log: pylog.Log) -> None:
    Workers(log, "jobs", work, group_id="g", value_deserializer=str)  # refused
    Workers(log, "jobs", work, group_id="g", thread=3)  # refused


def work(record: pylog.ShareRecord[bytes, int]) -> None:
    print(record.value)


def schemas(registry: serde.SchemaRegistry) -> None:
    registry.set_compatibility("MOST")  # refused
    StandIn(schema_registry="127.0.0.1:8081")  # refused
