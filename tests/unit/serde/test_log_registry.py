"""Schemas in a topic of the log: ids, versions, Confluent's records, and several that register at once."""

import json
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import pylog
from pylog import serde
from pylog.errors import (
    CoordinatorLoadInProgress,
    InvalidProducerEpoch,
    InvalidRecord,
    ReadOnly,
    SchemaNotFound,
    SchemaRegistryError,
    TransactionAbortable,
)
from pylog.testing import StandIn

TEXT = serde.Schema('"string"')
NUMBER = serde.Schema('{"type": "int"}')


@pytest.fixture
def log() -> Iterator[pylog.Log]:
    with pylog.open(":memory:") as log:
        yield log


def records(log: pylog.Log) -> list[tuple[bytes | None, Any]]:
    return [(record.key, json.loads(record.value or b"null")) for record in log.topic("_schemas").records()]


def write(log: pylog.Log, key: dict[str, Any], value: dict[str, Any] | None) -> None:
    with log.producer() as producer:
        producer.send("_schemas", None if value is None else json.dumps(value).encode(), key=json.dumps(key).encode())


def test_a_schema_gets_an_id_once_and_a_subject_gets_versions(log: pylog.Log) -> None:
    registry = serde.LogRegistry(log)
    registry.set_compatibility("NONE")
    assert [registry.register("a", TEXT), registry.register("a", NUMBER), registry.register("a", TEXT)] == [1, 2, 1]
    assert registry.register("b", serde.Schema('{"type":"int"}')) == 2
    assert registry.register("b", serde.Schema("{}", "JSON")) == 3
    assert [registry.register("b", serde.Schema(text, "JSON")) for text in ("true", " true")] == [4, 4]
    assert registry.by_id(2) == NUMBER and registry.by_id(3).type == "JSON"
    assert registry.version("a") == serde.RegisteredSchema(2, "a", 2, NUMBER)
    assert registry.version("a", 1).schema == TEXT and registry.version("b", 1).id == 2
    again = serde.LogRegistry(log)
    assert again.version("b").version == 3 and again.register("a", NUMBER) == 2
    assert repr(again) == f"<LogRegistry _schemas of {log}>"


def test_the_topic_has_confluents_records_and_is_compacted(log: pylog.Log) -> None:
    registry = serde.LogRegistry(log)
    registry.register("orders-value", TEXT)
    registry.register("a", serde.Schema("message A {}", "PROTOBUF"))
    registry.register("x", serde.Schema("message X {}", "PROTOBUF", (serde.Reference("a.proto", "a", 1),)))
    found = records(log)
    del found[1]
    assert found == [
        (
            b'{"keytype":"SCHEMA","subject":"orders-value","version":1,"magic":1}',
            {"subject": "orders-value", "version": 1, "id": 1, "schema": '"string"', "deleted": False},
        ),
        (
            b'{"keytype":"SCHEMA","subject":"x","version":1,"magic":1}',
            {
                "subject": "x", "version": 1, "id": 3, "schema": "message X {}", "schemaType": "PROTOBUF",
                "references": [{"name": "a.proto", "subject": "a", "version": 1}], "deleted": False,
            },
        ),
    ]  # fmt: skip
    assert log.topic("_schemas").overrides == {"cleanup.policy": "compact"}
    assert serde.LogRegistry(log).by_id(3) == registry.by_id(3)


def test_what_confluents_registry_wrote_is_read(log: pylog.Log, caplog: pytest.LogCaptureFixture) -> None:
    log.create_topic("_schemas")
    for version, text in ((1, "int"), (2, "bytes"), (3, "long")):
        value = {"subject": "s", "version": version, "id": version + 10, "md5Bytes": "x", "schema": json.dumps(text)}
        write(log, {"keytype": "SCHEMA", "subject": "s", "version": version, "magic": 1}, {**value, "deleted": False})
    write(log, {"keytype": "NOOP", "magic": 0}, None)
    write(log, {"keytype": "CONFIG", "subject": None, "magic": 0}, {"compatibilityLevel": "FULL"})
    registry = serde.LogRegistry(log)
    assert registry.version("s").id == 13
    write(log, {"keytype": "SCHEMA", "subject": "s", "version": 3, "magic": 1}, {**value, "deleted": True})
    assert registry.version("s").version == 2 and registry.by_id(13).text == '"long"'
    write(log, {"keytype": "DELETE_SUBJECT", "subject": "s", "magic": 0}, {"subject": "s", "version": 3})
    with pytest.raises(SchemaNotFound, match=r"no schema of subject s$"):
        registry.version("s")
    registry.set_compatibility("NONE")
    assert registry.register("s", serde.Schema('"long"')) == 13
    assert registry.version("s").version == 4
    write(log, {"keytype": "SCHEMA", "subject": "s", "version": 4, "magic": 1}, None)
    with pytest.raises(SchemaNotFound, match="subject s in version 4"):
        registry.version("s", 4)
    with log.producer() as producer, caplog.at_level(logging.WARNING, "pylog"):
        producer.send("_schemas", b"{}", key=b"\xff").result()
        producer.send("_schemas", b'"x"', key=b'{"keytype":"CONFIG","magic":0}').result()
        producer.send("_schemas", b"[" * 100_000, key=b'{"keytype":"CONFIG","magic":0}').result()
        assert registry.register("s", TEXT) == 14
    assert caplog.text.count("is not a record of a schema") == 3


def test_an_id_or_subject_that_is_not_there_is_not_found(log: pylog.Log) -> None:
    registry = serde.LogRegistry(log)
    with pytest.raises(SchemaNotFound, match="topic _schemas has no schema with id 7"):
        registry.by_id(7)
    with pytest.raises(SchemaNotFound, match="subject x"):
        registry.version("x")
    assert log.topics() == []


def test_registries_that_register_at_once_give_each_schema_one_id(log: pylog.Log) -> None:
    schemas = [serde.Schema(json.dumps({"type": "fixed", "name": "n", "size": number})) for number in range(6)]
    serde.LogRegistry(log).set_compatibility("NONE")

    def register(first: int) -> list[int]:
        registry = serde.LogRegistry(log)
        return [registry.register("s", schemas[(first + number) % 6]) for number in range(6)]

    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(register, range(3)))
    for first, ids in enumerate(found):
        assert {schemas[(first + number) % 6].text: one for number, one in enumerate(ids)} == {
            serde.LogRegistry(log).by_id(number).text: number for number in range(1, 7)
        }
    assert sorted(serde.LogRegistry(log).version("s", number).id for number in range(1, 7)) == list(range(1, 7))


def test_a_schema_is_registered_again_where_its_transaction_was_aborted() -> None:
    with StandIn() as kafka, ThreadPoolExecutor(1) as pool:
        serde.LogRegistry(kafka.log).register("a", TEXT)
        kafka.fail("EndTxn", CoordinatorLoadInProgress, times=None)
        with pylog.connect(kafka.bootstrap_servers) as there:
            added = pool.submit(serde.LogRegistry(there).register, "b", NUMBER)
            state = kafka.log.admin.describe_transaction
            while state("pylog-_schemas").state != "Ongoing" or not kafka.requests_of("EndTxn"):
                assert not added.done(), added.result()
            while state("pylog-_schemas").state != "CompleteAbort":
                assert not added.done(), added.result()
                kafka.advance(60_001)
            kafka.heal()
            assert added.result() == 2
        assert serde.LogRegistry(kafka.log).by_id(2) == NUMBER


def test_a_registry_works_through_a_network_and_only_reads_in_a_reader(log: pylog.Log, tmp_path: Any) -> None:
    with log.serve() as server, pylog.connect(server.bootstrap_servers) as there:
        assert serde.LogRegistry(there).register("a", TEXT) == 1
    assert serde.LogRegistry(log).by_id(1) == TEXT
    with pylog.open(tmp_path / "log") as owner:
        serde.LogRegistry(owner).register("a", TEXT)
    with pylog.open(tmp_path / "log", mode="read") as reader:
        assert serde.LogRegistry(reader).register("a", TEXT) == 1
        with pytest.raises(ReadOnly):
            serde.LogRegistry(reader).register("b", NUMBER)


def test_a_text_that_is_no_schema_and_was_not_checked_is_itself_alone(log: pylog.Log) -> None:
    log.create_topic("_schemas")
    key = {"keytype": "SCHEMA", "subject": "s", "version": 1, "magic": 1}
    write(log, key, {"subject": "s", "version": 1, "id": 7, "schema": "{", "schemaType": "JSON"})
    registry = serde.LogRegistry(log)
    assert registry.version("s").id == registry.register("s", serde.Schema("{", "JSON")) == 7
    with pytest.raises(SchemaRegistryError, match="Invalid schema of type JSON"):
        registry.register("s", serde.Schema("{ ", "JSON"))


def test_a_transaction_that_fails_is_tried_again_where_another_one_fenced_it() -> None:
    with StandIn() as kafka, pylog.connect(kafka.bootstrap_servers) as there:
        registry = serde.LogRegistry(there)
        registry.register("a", TEXT)
        kafka.fail("Produce", InvalidProducerEpoch)
        assert registry.register("b", NUMBER) == 2
        kafka.fail("Produce", InvalidRecord)
        with pytest.raises(TransactionAbortable):
            registry.register("c", NUMBER)
        assert serde.LogRegistry(kafka.log).version("b").id == 2
