"""Confluent's own client and serializers, through a stand-in with a registry."""

import json
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest

from pylog import errors, serde
from pylog.testing import StandIn
from support.shop_messages import messages

confluent_kafka = pytest.importorskip("confluent_kafka", reason="Confluent's client is not installed")
ORDER = {
    "type": "record", "name": "Order",
    "fields": [{"name": "apples", "type": "int"}, {"name": "note", "type": ["null", "string"], "default": None}],
}  # fmt: skip
OBJECT = {"type": "object", "title": "Order", "properties": {"apples": {"type": "integer"}}, "required": ["apples"]}


def theirs(kind: str = "") -> Any:
    """A module of Confluent's serializers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what it imports
        return import_module(f"confluent_kafka.schema_registry{kind}")


@pytest.fixture
def kafka() -> Iterator[StandIn]:
    with StandIn(schema_registry=True) as kafka:
        yield kafka


@pytest.fixture
def client(kafka: StandIn) -> Iterator[Any]:
    with theirs().SchemaRegistryClient({"url": kafka.schema_registry_url}) as client:
        yield client


def sent_and_read(kafka: StandIn, serialize: Callable[..., Any], deserialize: Callable[..., Any], value: Any) -> Any:
    """A value that went through a topic."""
    from confluent_kafka.serialization import MessageField, SerializationContext

    context = SerializationContext("orders", MessageField.VALUE)
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce("orders", serialize(value, context))
    assert producer.flush(60) == 0
    consumer = confluent_kafka.Consumer({
        "bootstrap.servers": kafka.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"
    })  # fmt: skip
    consumer.subscribe(["orders"])
    try:
        message = None
        while message is None:
            message = consumer.poll(1)
        assert message.error() is None
        return deserialize(message.value(), context)
    finally:
        consumer.close()


def test_avro_goes_through_a_topic(kafka: StandIn, client: Any) -> None:
    avro, value = theirs(".avro"), {"apples": 2, "note": "x"}
    found = sent_and_read(
        kafka, avro.AvroSerializer(client, json.dumps(ORDER)), avro.AvroDeserializer(client), value
    )  # fmt: skip
    assert found == value
    assert serde.avro(serde.LogRegistry(kafka.log), "orders-value").deserialize(
        next(kafka.log.topic("orders").records()).value or b""
    ) == value  # fmt: skip


def test_json_schema_goes_through_a_topic(kafka: StandIn, client: Any) -> None:
    json_schema, value = theirs(".json_schema"), {"apples": 2}
    text = json.dumps(OBJECT)
    serializer = json_schema.JSONSerializer(text, client, conf={"normalize.schemas": True})
    assert (
        sent_and_read(kafka, serializer, json_schema.JSONDeserializer(text, schema_registry_client=client), value)
        == value
    )
    assert client.get_latest_version("orders-value").schema.schema_type == "JSON"


def test_protobuf_goes_through_a_topic_with_what_it_imports(kafka: StandIn, client: Any) -> None:
    protobuf, classes = theirs(".protobuf"), messages()
    basket, value = classes["Basket"], classes["Basket"](fruit=[classes["Fruit"](weight=2)])
    serializer = protobuf.ProtobufSerializer(basket, client)
    deserializer = protobuf.ProtobufDeserializer(basket, {}, client)
    assert sent_and_read(kafka, serializer, deserializer, value) == value
    latest = client.get_latest_version("orders-value")
    assert [one.name for one in latest.schema.references if "google" not in one.name] == ["fruit.proto"]
    fruit = next(one for one in latest.schema.references if one.name == "fruit.proto")
    assert client.get_referenced_by(fruit.subject, fruit.version) == [latest.schema_id]


def test_the_clients_calls_are_answered(client: Any) -> None:
    registry = theirs()
    order = registry.Schema(json.dumps(ORDER), "AVRO")
    assert client.register_schema("s", order) == 1
    assert client.lookup_schema("s", order).version == 1
    assert client.get_schema(1).schema_str == json.dumps(ORDER)
    assert client.get_subjects() == ["s"] and client.get_versions("s") == [1]
    assert client.get_version("s", 1).schema_id == client.get_latest_version("s").schema_id == 1
    assert client.get_schema_versions(1)[0].subject == "s"
    assert client.get_subjects_by_schema_id(1) == ["s"] and client.get_schema_types() == ["JSON", "PROTOBUF", "AVRO"]
    assert client.get_compatibility() == "BACKWARD"
    assert (
        client.set_compatibility("s", "FULL") == {"compatibility": "FULL"} and client.get_compatibility("s") == "FULL"
    )
    assert client.get_config("s").compatibility_level == "FULL"
    assert client.test_compatibility("s", order) and client.test_compatibility_all_versions("s", order)
    assert not client.test_compatibility("s", registry.Schema('"int"', "AVRO"))
    assert client.update_mode("s", "READONLY") == client.get_mode("s") == "READONLY"
    with pytest.raises(registry.SchemaRegistryError) as caught:
        client.register_schema("s", registry.Schema('"int"', "AVRO"))
    assert (caught.value.http_status_code, caught.value.error_code) == (422, 42205)
    assert client.delete_mode("s") == "READONLY" and client.get_global_mode() == "READWRITE"
    with pytest.raises(registry.SchemaRegistryError) as caught:
        client.register_schema("s", registry.Schema('"int"', "AVRO"))
    assert (caught.value.http_status_code, caught.value.error_code) == (409, 409)
    assert client.delete_subject("s") == client.delete_subject("s", permanent=True) == [1]
    with pytest.raises(registry.SchemaRegistryError) as caught:
        client.get_versions("s")
    assert (caught.value.http_status_code, caught.value.error_code) == (404, 40401)


def test_pylogs_own_client_learns_the_codes(kafka: StandIn) -> None:
    registry = serde.HttpRegistry(kafka.schema_registry_url)
    assert registry.register("a/b", serde.Schema('"int"')) == 1
    with pytest.raises(errors.SchemaNotFound, match="40402") as missing:
        registry.version("a/b", 2)
    assert missing.value.error_code == 40402
    with pytest.raises(errors.IncompatibleSchema) as incompatible:
        registry.register("a/b", serde.Schema('"string"'))
    assert incompatible.value.error_code == 409
    with pytest.raises(errors.SchemaRegistryError) as invalid:
        registry.register("a/b", serde.Schema("{"))
    assert invalid.value.error_code == 42201


def test_schemas_and_the_address_survive_a_restart(kafka: StandIn) -> None:
    url = kafka.schema_registry_url
    serde.HttpRegistry(url).register("s", serde.Schema('"int"'))
    kafka.kill()
    with pytest.raises(errors.SchemaRegistryError):
        serde.HttpRegistry(url).version("s")
    kafka.restart()
    assert kafka.schema_registry_url == url and serde.HttpRegistry(url).version("s").id == 1


def test_a_stand_in_without_a_registry_says_how_to_get_one() -> None:
    with StandIn() as kafka, pytest.raises(ValueError, match=r"StandIn\(schema_registry=True\)"):
        _ = kafka.schema_registry_url
