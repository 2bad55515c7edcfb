"""Values of an Avro schema as a visitor types them, in JSON."""

import io
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pytest

from pylog.ui import avro_input
from pylog.ui.avro_input import InputError, avro_datum

USER = {
    "type": "record",
    "name": "shop.User",
    "fields": [{"name": "id", "type": "string"}, {"name": "raw", "type": "bytes", "default": "\u00ff"}],
}
ADMIN = {"type": "record", "name": "Admin", "fields": [{"name": "id", "type": "string"}]}
TREE = {
    "type": "record",
    "name": "Tree",
    "fields": [{"name": "left", "type": ["null", "Tree"]}, {"name": "right", "type": ["null", "Tree"]}],
}
FIXED = {"type": "fixed", "name": "Two", "size": 2}
FRUIT = {"type": "enum", "name": "Fruit", "symbols": ["apple", "pear"]}
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
ID = "4e1f0b0e-0000-4000-8000-000000000000"


def logical(kind: str, name: str, **more: object) -> dict[str, object]:
    return {"type": kind, "logicalType": name, **more}


MONEY = logical("bytes", "decimal", precision=6, scale=2)


def written(schema: Any, value: Any) -> Any:
    """What is read of a value that was typed."""
    parsed = fastavro.parse_schema(schema)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, parsed, avro_datum(parsed, value, "value"))
    return fastavro.schemaless_reader(io.BytesIO(out.getvalue()), parsed, None)


@pytest.mark.parametrize(
    ("schema", "value", "read"),
    [
        ("null", None, None),
        ("boolean", True, True),
        ("int", -(1 << 31), -(1 << 31)),
        ({"type": "long"}, (1 << 63) - 1, (1 << 63) - 1),
        ("double", 1, 1.0),
        ("float", "-Infinity", float("-inf")),
        ("string", "größe", "größe"),
        ("bytes", "a\u00ff", b"a\xff"),
        (FIXED, "ab", b"ab"),
        (FRUIT, "pear", "pear"),
        ({"type": "array", "items": "int"}, [1, 2], [1, 2]),
        ({"type": "map", "values": "string"}, {"a": "b"}, {"a": "b"}),
        (USER, {"id": "ann"}, {"id": "ann", "raw": b"\xff"}),
        (TREE, {"left": {"left": None, "right": None}, "right": None}, None),
        (["null", "string"], "x", "x"),
        (["null", "string"], {"string": "x"}, "x"),
        (["null", {"type": "array", "items": "int"}], [7], [7]),
        (["null", {"type": "array", "items": "int"}], {"array": [7]}, [7]),
        (["bytes", "string"], {"string": "a"}, "a"),
        ([FIXED, {"type": "array", "items": "Two"}], ["ab"], [b"ab"]),
        (["string", FRUIT], {"Fruit": "pear"}, "pear"),
        ([USER, ADMIN], {"Admin": {"id": "ann"}}, {"id": "ann"}),
        ([USER, ADMIN], {"id": "ann"}, {"id": "ann", "raw": b"\xff"}),
        (["int", "double"], 1.5, 1.5),
        (MONEY, 1.25, Decimal("1.25")),
        (MONEY, "1234.5", Decimal("1234.50")),
        (logical("string", "uuid"), ID, UUID(ID)),
        (logical("int", "date"), "2026-05-01", date(2026, 5, 1)),
        (logical("int", "date"), 1, date(1970, 1, 2)),
        (logical("int", "time-millis"), "12:30", time(12, 30)),
        (logical("long", "timestamp-millis"), "2026-05-01T12:00", NOON),
        (logical("long", "timestamp-micros"), "2026-05-01T14:00+02:00", NOON),
        (logical("long", "timestamp-millis"), 1000, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        (logical("long", "local-timestamp-millis"), "2026-05-01T12:00+02:00", NOON.replace(tzinfo=None)),
        (logical("string", "other"), "x", "x"),
    ],
)  # fmt: skip
def test_what_is_typed_is_what_is_read(schema: Any, value: Any, read: Any) -> None:
    assert written(schema, value) == (value if read is None else read)


@pytest.mark.parametrize(
    ("schema", "value", "why"),
    [
        ("null", 0, "value is 0, not null"),
        ("boolean", 1, "value is 1, not true or false"),
        ("int", 1.5, "value is 1.5, not a whole number of 32 bits"),
        ("int", True, "value is true, not a whole number of 32 bits"),
        ("int", 1 << 31, "value is 2147483648, not a whole number of 32 bits"),
        ("long", "7", 'value is "7", not a whole number of 64 bits'),
        ("double", "x", 'value is "x", not a number'),
        ("double", False, "value is false, not a number"),
        ("double", 10**400, "not a number"),
        ("string", None, "value is null, not a string"),
        ("bytes", "\u0100", "characters up to U\\+00FF, which are bytes"),
        (FIXED, "abc", 'value is "abc", not 2 bytes'),
        (FRUIT, "<b>", 'value is "<b>", not one of apple, pear'),
        ({"type": "array", "items": "int"}, [1, "x"], r'value\[1\] is "x"'),
        ({"type": "array", "items": "int"}, {}, "value is {}, not an array"),
        ({"type": "map", "values": "int"}, {"a": None}, "value.a is null"),
        (USER, {"name": "x", "id": "x"}, "value.name: shop.User has no such field"),
        (USER, {"raw": ""}, "value.id is missing, and has no default"),
        (USER, 7, "value is 7, not an object with the fields of shop.User"),
        (TREE, {"left": {"left": 7, "right": None}, "right": None}, "value.left.left is 7, not an object"),
        (["string", "null"], 7, "value is 7, not a string"),
        (["null", "int", "string"], {"string": 7}, "value is 7, not a string"),
        (["null", "int", FRUIT], [], r"value is \[\], not one of null, int, Fruit"),
        (["null", "int"], {"string": 7}, "not a whole number of 32 bits"),
        (MONEY, "x", 'value is "x", not a decimal number'),
        (MONEY, True, "value is true, not a string"),
        (logical("string", "uuid"), "x", 'value is "x", not a UUID'),
        (logical("int", "date"), "soon", 'value is "soon", not a date like 2026-05-01'),
        ("string", ["x" * 1000], r'value is \["x{58}, not a string'),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named_with_its_place(schema: Any, value: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        avro_datum(fastavro.parse_schema(schema), value, "value")


def test_unions_take_a_bounded_number_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro_input, "STEPS_MAX", 10)
    with pytest.raises(InputError, match=": its unions take more than 10 steps"):
        avro_datum(fastavro.parse_schema({"type": "array", "items": "int"}), [1] * 20, "value")
