"""Avro's rules, held to fastavro: what is compatible is read, and what is not is refused for some value."""

from io import BytesIO
from typing import Any

import pytest
from fastavro import parse_schema, schemaless_reader, schemaless_writer
from fastavro.read import SchemaResolutionError

from pylog.serde.compatibility.avro import faults


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, of: Any = "int", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": of, **more}


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


def fixed(size: int) -> dict[str, Any]:
    return {"type": "fixed", "name": "F", "size": size}


LINKED = record(field("next", ["null", "R"]))
A = field("a")


@pytest.mark.parametrize(
    ("reader", "writer", "value"),
    [
        ("int", "int", 1),
        ("double", "int", 1),
        ("float", "long", 1),
        ("bytes", "string", "x"),
        ("string", "bytes", b"x"),
        ({"type": "long"}, {"type": "int"}, 1),
        ({"type": "int", "logicalType": "date"}, "int", 1),
        (record(A), record(A, field("b")), {"a": 1, "b": 2}),
        (record(A, field("b", default=0)), record(A), {"a": 1}),
        (record(field("z", aliases=["a"])), record(A), {"a": 1}),
        (record(name="New", aliases=["R"]), record(), {}),
        (record(name="x.R"), record(name="y.R"), {}),
        (["null", "int"], "int", 1),
        ("long", ["int", "long"], 1),
        (["string", record(A)], [record(A)], {"a": 1}),
        (enum("a", "b"), enum("a"), "a"),
        (enum("a", default="a"), enum("a", "b"), "b"),
        (fixed(2), fixed(2), b"xy"),
        ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}, [1]),
        ({"type": "map", "values": "long"}, {"type": "map", "values": "int"}, {"k": 1}),
        (LINKED, LINKED, {"next": {"next": None}}),
        (record(A, namespace="n"), record(A, name="n.R"), {"a": 1}),
        ({**record(A), "type": "error"}, {**record(A), "type": "error"}, {"a": 1}),
    ],
)
def test_what_is_compatible_is_read(reader: Any, writer: Any, value: Any) -> None:
    assert faults(reader, writer) == []
    assert read(reader, writer, value) is not Ellipsis


@pytest.mark.parametrize(
    ("reader", "writer", "value", "fault"),
    [
        ("int", "long", 1, "long cannot be read as int"),
        ("string", "null", None, "null cannot be read as string"),
        (record(field("b")), record(), {}, "field R.b: it is missing where data was written, and has no default"),
        (
            record(field("a", record(field("b", "string"), name="I"))),
            record(field("a", record(field("b"), name="I"))),
            {"a": {"b": 1}},
            "field R.a.b: int cannot be read as string",
        ),
        (record(name="S"), record(), {}, "record R is not record S"),
        (
            record(field("a", enum("a"))),
            record(field("a", enum("a", "b", "c"))),
            {"a": "b"},
            "field R.a: enum E lacks b, c, and has no default",
        ),
        (fixed(2), fixed(3), b"xyz", "fixed F has 3 bytes, not 2"),
        (enum("a"), record(), {}, "record R cannot be read as enum E"),
        (["null", "string"], "int", 1, "no branch of the union reads int"),
        (
            ["null", record(field("b"))],
            ["null", record()],
            {},
            "field R.b: it is missing where data was written, and has no default",
        ),
        ("int", ["null", "int"], None, "null cannot be read as int"),
        (
            {"type": "array", "items": "int"},
            {"type": "array", "items": "string"},
            ["x"],
            "string cannot be read as int",
        ),
    ],
)
def test_what_is_not_compatible_is_named(reader: Any, writer: Any, value: Any, fault: str) -> None:
    assert faults(reader, writer) == [fault]
    with pytest.raises(SchemaResolutionError):
        read(reader, writer, value)


def test_a_type_may_be_wrapped_again() -> None:
    assert faults("int", {"type": {"type": "int"}}) == []


def test_what_is_no_schema_is_an_error_of_its_kind() -> None:
    with pytest.raises(KeyError):
        faults({"type": "record"}, "int")


def read(reader: Any, writer: Any, value: Any) -> Any:
    out = BytesIO()
    schemaless_writer(out, parse_schema(writer), value)
    return schemaless_reader(BytesIO(out.getvalue()), parse_schema(writer), parse_schema(reader))
