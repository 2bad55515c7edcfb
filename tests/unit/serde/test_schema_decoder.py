"""Values of any registered schema, decoded without a type."""

import json
import sys
from base64 import b64encode
from collections.abc import Iterator

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

import pylog
from pylog import serde
from pylog.serde import schema_decoder
from pylog.serde.schema_decoder import SchemaDecoder
from pylog.serde.schema_store import SchemaStore
from pylog.serde.wire import split
from support.shop_messages import messages

MESSAGES = messages()
ORDER = {"type": "record", "name": "shop.Order", "fields": [{"name": "apples", "type": "int"}]}


@pytest.fixture
def log() -> Iterator[pylog.Log]:
    with pylog.open(":memory:") as opened:
        yield opened


def decoded(log: pylog.Log, data: bytes) -> object:
    """The value of bytes in Confluent's format."""
    state = SchemaStore(log).state()
    schema_id, payload = split(data)
    schema = state.by_id(schema_id)
    assert schema is not None
    return SchemaDecoder(state.referenced).decode(schema, payload)


def test_avro_with_a_reference(log: pylog.Log) -> None:
    registry = serde.LogRegistry(log)
    registry.register("order", serde.Schema(json.dumps(ORDER)))
    uses = (serde.Reference("shop.Order", "order", 1),)
    registry.register("t-value", serde.Schema('{"type": "map", "values": "shop.Order"}', "AVRO", uses))
    data = serde.avro(registry, "t-value").serialize({"a": {"apples": 3}})
    assert decoded(log, data) == {"a": {"apples": 3}}
    with pytest.raises(ValueError, match="bytes follow the value"):
        decoded(log, data + b"x")


def test_json_schema(log: pylog.Log) -> None:
    one = serde.json_schema(serde.LogRegistry(log), "t-value", {"type": "object"})
    assert decoded(log, one.serialize({"apples": 3})) == {"apples": 3}


def test_protobuf_with_imports_and_nested_messages(log: pylog.Log) -> None:
    registry, basket = serde.LogRegistry(log), MESSAGES["Basket"](fruit=[{"weight": 7}])
    basket.at.FromSeconds(60)
    data = serde.protobuf(registry, "t-value", MESSAGES["Basket"]).serialize(basket)
    assert decoded(log, data) == {"fruit": [{"weight": 7}], "at": "1970-01-01T00:01:00Z"}
    innermost = serde.protobuf(registry, "t-value", MESSAGES["Innermost"]).serialize(MESSAGES["Innermost"](text="x"))
    assert decoded(log, innermost) == {"text": "x"}
    with pytest.raises(IndexError):
        decoded(log, data[:5] + b"\2\x0e")


def descriptor(*imported: str) -> serde.Schema:
    """A file of one message without fields."""
    file = FileDescriptorProto(name="f.proto", dependency=imported)
    file.message_type.add(name="M")
    return serde.Schema(b64encode(file.SerializeToString()).decode(), "PROTOBUF")


def test_files_of_protobuf_itself_need_no_reference() -> None:
    none = SchemaDecoder({}.__getitem__)
    every = descriptor(*sorted(schema_decoder.WELL_KNOWN), "google/protobuf/any.proto")
    assert none.decode(every, b"\0") == none.decode(every, b"\0") == {}


@pytest.mark.parametrize(
    ("schema", "error", "why"),
    [
        (serde.Schema('syntax = "proto3";', "PROTOBUF"), ValueError, "source text"),
        (descriptor("there.proto"), TypeError, None),
        (descriptor("os.proto"), TypeError, None),
        (serde.Schema("{}", "PROTOBUF", (serde.Reference("a", "b", 1),)), ValueError, "source text"),
        (descriptor("a.proto")._replace(references=(serde.Reference("a.proto", "b", 1),)), KeyError, None),
        (descriptor(*(f"{one}.proto" for one in range(201))), ValueError, "more than 200 schemas"),
        (serde.Schema("", "XML"), ValueError, "'XML' is not decoded"),
    ],
    ids=["source text", "no such file", "a module", "text with references", "no such reference", "too many", "kind"],
)
def test_a_schema_that_is_not_one_is_refused(schema: serde.Schema, error: type[Exception], why: str | None) -> None:
    with pytest.raises(error, match=why):
        SchemaDecoder({}.__getitem__).decode(schema, b"\0")
    assert "os_pb2" not in sys.modules


def test_fields_that_are_not_set_are_left_out() -> None:
    """So a message of two bytes with a thousand fields makes no thousand texts."""
    file = FileDescriptorProto(name="wide.proto", syntax="proto3")
    wide = file.message_type.add(name="Wide")
    for number in range(1, 1001):
        wide.field.add(name=f"f{number}", number=number, type=5, label=1)
    schema = serde.Schema(b64encode(file.SerializeToString()).decode(), "PROTOBUF")
    assert SchemaDecoder({}.__getitem__).decode(schema, b"\0\x08\x07") == {"f1": 7}
