"""Avro, JSON Schema and Protobuf in Confluent's format, held against Confluent's own serializers."""

import json
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema
import pytest
from referencing.exceptions import Unresolvable

import pylog
from pylog import serde
from pylog.errors import SchemaNotFound
from pylog.schema_registry import SchemaRegistryServer
from support.shop_messages import messages

ORDER = {
    "type": "record", "name": "Order",
    "fields": [{"name": "apples", "type": "int"}, {"name": "note", "type": ["null", "string"], "default": None}],
}  # fmt: skip
OBJECT = {"type": "object", "properties": {"apples": {"type": "integer"}}, "required": ["apples"], "title": "Order"}


@pytest.fixture
def log() -> Iterator[pylog.Log]:
    with pylog.open(":memory:") as log:
        yield log


@pytest.fixture
def registry(log: pylog.Log) -> serde.LogRegistry:
    return serde.LogRegistry(log)


MESSAGES = messages()


def theirs(kind: str) -> Any:
    """A module of Confluent's serializers."""
    from importlib import import_module

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what it imports
        return import_module(f"confluent_kafka.schema_registry{kind}")


@pytest.fixture
def confluent(log: pylog.Log) -> Iterator[Callable[[str], Any]]:
    """Gives a client of the registry, and the context of a value of topic t, to a call."""
    from confluent_kafka.serialization import MessageField, SerializationContext

    context = SerializationContext("t", MessageField.VALUE)
    with SchemaRegistryServer(log) as server, theirs("").SchemaRegistryClient({"url": server.url}) as client:
        yield lambda call: call(client, context)


# --- Avro ------------------------------------------------------------------------------------------------------------


def test_avro_has_the_bytes_of_confluent(registry: serde.LogRegistry, confluent: Any) -> None:
    orders, avro = serde.avro(registry, "t-value", ORDER), theirs(".avro")
    data = orders.serialize({"apples": -3})
    assert data == b"\0\0\0\0\1" + b"\5\0"
    assert confluent(lambda client, context: avro.AvroDeserializer(client)(data, context)) == {
        "apples": -3, "note": None
    }  # fmt: skip
    text = registry.by_id(1).text
    made = confluent(lambda client, context: avro.AvroSerializer(client, text)({"apples": 7, "note": "x"}, context))
    assert orders.deserialize(made) == {"apples": 7, "note": "x"} and made[:5] == data[:5]


def test_avro_is_read_by_the_schema_that_it_was_written_by(registry: serde.LogRegistry) -> None:
    old = {"type": "record", "name": "Order", "fields": [{"name": "apples", "type": "int"}]}
    data = serde.avro(registry, "t-value", old).serialize({"apples": 1})
    assert serde.avro(registry, "t-value", ORDER).deserialize(data) == {"apples": 1, "note": None}
    assert serde.avro(registry, "t-value").deserialize(data) == {"apples": 1}
    latest = serde.avro(registry, "t-value")
    assert latest.serialize({"apples": 1}) == data
    serde.avro(registry, "t-value", ORDER).serialize({"apples": 1})
    assert latest.serialize({"apples": 1}) == data, "the latest version is looked up once"


@pytest.mark.parametrize(
    "name",
    [
        {"name": "Basket", "namespace": "shop"}, {"name": "shop.Basket"},
        {"name": "shop.Basket", "namespace": "elsewhere"},
    ],
    ids=["beside", "in full", "before its namespace"],
)  # fmt: skip
def test_avro_with_a_reference_is_read(registry: serde.LogRegistry, name: dict[str, str]) -> None:
    registry.register("order", serde.Schema(json.dumps({**ORDER, "namespace": "shop"})))
    basket = {
        "type": "record", **name,
        "fields": [{"name": "first", "type": "Order"}, {"name": "others", "type": {"type": "array", "items": "Order"}}],
    }  # fmt: skip
    uses = (serde.Reference("shop.Order", "order", 1),)
    registry.register("t-value", serde.Schema(json.dumps(basket), "AVRO", uses))
    baskets, order = serde.avro(registry, "t-value"), {"apples": 1, "note": None}
    value = {"first": order, "others": [order, order]}
    assert baskets.deserialize(baskets.serialize(value)) == value
    registry.register("u-value", serde.Schema('{"type":"map","values":["null","shop.Order"]}', "AVRO", uses))
    maps = serde.avro(registry, "u-value")
    assert maps.deserialize(maps.serialize({"a": order, "b": None})) == {"a": order, "b": None}


def test_avro_refuses_what_does_not_fit(registry: serde.LogRegistry) -> None:
    orders = serde.avro(registry, "t-value", ORDER)
    data = orders.serialize({"apples": 1})
    for wrong in ({"pears": 1}, {"apples": "x"}, {"apples": 1, "pears": 2}):
        with pytest.raises((ValueError, TypeError)):
            orders.serialize(wrong)
    for bad in (b"", b"\0\0\0", b"\1" + data[1:], data + b"x"):
        with pytest.raises(ValueError):
            orders.deserialize(bad)
    with pytest.raises(SchemaNotFound):
        orders.deserialize(b"\0\0\0\0\7\2\0")
    with pytest.raises(SchemaNotFound, match="subject nothing"):
        serde.avro(registry, "nothing").serialize({})


# --- JSON Schema -----------------------------------------------------------------------------------------------------


def test_json_schema_has_the_bytes_of_confluent(registry: serde.LogRegistry, confluent: Any) -> None:
    orders, module = serde.json_schema(registry, "t-value", OBJECT), theirs(".json_schema")
    data = orders.serialize({"apples": 3})
    assert data == b'\0\0\0\0\1{"apples":3}'
    text = registry.by_id(1).text
    assert confluent(lambda client, context: module.JSONDeserializer(text)(data, context)) == {"apples": 3}
    made = confluent(lambda client, context: module.JSONSerializer(text, client)({"apples": 4}, context))
    assert orders.deserialize(made) == serde.json_schema(registry, "t-value").deserialize(made) == {"apples": 4}
    assert made[:5] == data[:5] and registry.version("t-value").schema.type == "JSON"


def test_json_schema_checks_both_ways(registry: serde.LogRegistry) -> None:
    orders = serde.json_schema(registry, "t-value", OBJECT)
    with pytest.raises(jsonschema.ValidationError):
        orders.serialize({"apples": "x"})
    data = orders.serialize({"apples": 1})
    with pytest.raises(jsonschema.ValidationError):
        orders.deserialize(data[:5] + b"{}")
    for reader in (orders, serde.json_schema(registry, "t-value")):
        assert reader.serialize({"apples": 1}) == data
        with pytest.raises(ValueError):
            reader.deserialize(data[:-1])
    with pytest.raises(jsonschema.SchemaError):
        serde.json_schema(registry, "t-value", {"type": 5})


def test_a_value_is_not_checked_by_the_schema_of_a_stranger(registry: serde.LogRegistry) -> None:
    evil = {"uniqueItems": True, "items": {"pattern": "(a|aa)+b"}, "$ref": "http://127.0.0.1:9/internal"}
    known = registry.register("t-value", serde.Schema(json.dumps(evil), "JSON"))
    data = b"\0" + known.to_bytes(4, "big") + b'["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]'
    assert len(serde.json_schema(registry, "t-value").deserialize(data)) == 1
    with pytest.raises(jsonschema.ValidationError):
        serde.json_schema(registry, "t-value", OBJECT).deserialize(data)


def test_references_of_a_json_schema_are_those_of_the_registry(registry: serde.LogRegistry) -> None:
    registry.register("fruit", serde.Schema(json.dumps({"type": "array", "items": {"$ref": "one.json"}}), "JSON", (
        serde.Reference("one.json", "one", registry.register("one", serde.Schema('{"type": "integer"}', "JSON"))),
    )))  # fmt: skip
    text = json.dumps({"properties": {"fruit": {"$ref": "fruits.json"}}})
    used = serde.Reference("fruits.json", "fruit", 1), serde.Reference("one.json", "one", 1)
    registry.register("t-value", serde.Schema(text, "JSON", used))
    baskets = serde.json_schema(registry, "t-value")
    assert baskets.deserialize(baskets.serialize({"fruit": [1]})) == {"fruit": [1]}
    with pytest.raises(jsonschema.ValidationError):
        baskets.serialize({"fruit": ["x"]})

    abroad = serde.json_schema(registry, "u-value", {"$ref": "http://127.0.0.1:9/internal"})
    with pytest.raises(Unresolvable, match="127"):
        abroad.serialize({})


@pytest.mark.parametrize("text", ["true", "false"])
def test_a_json_schema_may_refer_to_one_that_is_true_or_false(registry: serde.LogRegistry, text: str) -> None:
    registry.register("any", serde.Schema(text, "JSON"))
    used = (serde.Reference("any.json", "any", 1),)
    registry.register("t-value", serde.Schema('{"items": {"$ref": "any.json"}}', "JSON", used))
    values = serde.json_schema(registry, "t-value")
    if text == "true":
        assert values.deserialize(values.serialize([1, "x"])) == [1, "x"]
    else:
        with pytest.raises(jsonschema.ValidationError):
            values.serialize([1])


# --- Protobuf --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "head"),
    [("Fruit", b"\0"), ("Other", b"\0"), ("Basket", b"\2\2"), ("Innermost", b"\6\2\x8c\1\0")],
)
def test_protobuf_has_the_bytes_of_confluent(
    registry: serde.LogRegistry, confluent: Any, name: str, head: bytes
) -> None:
    kind, module = MESSAGES[name], theirs(".protobuf")
    one = serde.protobuf(registry, "t-value", kind)
    value = kind()
    if name == "Basket":
        value.fruit.add(weight=300)
        value.at.seconds = 5
    elif name == "Fruit":
        value.weight = 7
    data = one.serialize(value)
    assert data[5:] == head + value.SerializeToString() and one.deserialize(data) == value
    made = confluent(lambda client, context: module.ProtobufSerializer(kind, client)(value, context))
    assert made == data
    assert confluent(lambda client, context: module.ProtobufDeserializer(kind)(data, context)) == value


def test_the_files_that_a_message_imports_are_registered_first(registry: serde.LogRegistry) -> None:
    serde.protobuf(registry, "t-value", MESSAGES["Basket"]).serialize(MESSAGES["Basket"]())
    assert registry.version("t-value").schema.references == (serde.Reference("fruit.proto", "fruit.proto", 1),)
    assert registry.version("fruit.proto").id == 1 and registry.version("t-value").id == 2


def test_protobuf_refuses_what_is_another_message(registry: serde.LogRegistry) -> None:
    one, other = (serde.protobuf(registry, "t-value", MESSAGES[name]) for name in ("Basket", "Other"))
    with pytest.raises(TypeError, match="Other is not Basket"):
        one.serialize(MESSAGES["Other"]())
    with pytest.raises(ValueError, match=r"another one of its file than shop\.Basket"):
        one.deserialize(other.serialize(MESSAGES["Other"]()))
    for bad in (b"", b"\xff" * 9, b"\1", b"\4\2", b"\xca\1"):
        with pytest.raises(ValueError):
            one.deserialize(b"\0\0\0\0\1" + bad)


@pytest.mark.parametrize(("call", "module"), [(serde.avro, "fastavro"), (serde.json_schema, "jsonschema")])
def test_an_extra_that_is_not_installed_is_named(
    registry: serde.LogRegistry, monkeypatch: pytest.MonkeyPatch, call: Any, module: str
) -> None:
    monkeypatch.setitem(__import__("sys").modules, module, None)
    monkeypatch.setitem(__import__("sys").modules, f"{module}.validators", None)
    with pytest.raises(ImportError, match=f"pip install {module}"):
        call(registry, "t-value", {})
