"""What Avro bytes may ask of a decoder: values that a writer makes pass, and a few hostile bytes do not."""

from io import BytesIO
from typing import Any

import pytest
from fastavro import parse_schema, schemaless_writer
from fastavro.utils import generate_many

import pylog
from pylog import serde
from pylog.errors import DeserializationError
from pylog.serde.avro_bounds import DECIMAL_BYTES_MAX, DEPTH_MAX, EMPTY_MAX, AvroBounds

CHAIN = {"type": "record", "name": "R", "fields": [{"name": "next", "type": ["null", "R"]}]}
TREE = {
    "type": "record", "name": "T",
    "fields": [
        {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["A", "B"]}},
        {"name": "mark", "type": {"type": "fixed", "name": "F", "size": 3}},
        {"name": "again", "type": ["null", "F"]},
        {"name": "numbers", "type": {"type": "array", "items": ["double", "float", "boolean", "int"]}},
        {"name": "names", "type": {"type": "map", "values": "bytes"}},
        {"name": "below", "type": {"type": "array", "items": {"type": "record", "name": "L", "fields": [
            {"name": "text", "type": "string"}, {"name": "tree", "type": ["null", "T"]},
        ]}}},
    ],
}  # fmt: skip
EMPTY = {"type": "record", "name": "E", "fields": []}
MANY_EMPTY = {"type": "array", "items": {"type": "record", "name": "W", "fields": [
    {"name": "a", "type": EMPTY}, {"name": "b", "type": "E"}, {"name": "c", "type": {"type": "null"}},
]}}  # fmt: skip
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}


def number(value: int) -> bytes:
    """A zigzag varint."""
    value, out = value << 1 ^ value >> 63, b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


MANY_NULLS = {
    "type": "record",
    "name": "N",
    "fields": [{"name": "id", "type": "int"}, *({"name": f"n{one}", "type": "null"} for one in range(1000))],
}


def doubled(levels: int) -> dict[str, Any]:
    """A record of two records of two records..., without a byte: its values are 2^levels elements."""
    schema: Any = {"type": "record", "name": "L0", "fields": []}
    for level in range(1, levels):
        fields = [{"name": "a", "type": schema}, {"name": "b", "type": f"L{level - 1}"}]
        schema = {"type": "record", "name": f"L{level}", "fields": fields}
    return schema  # type: ignore[no-any-return]


def written(schema: Any, value: Any) -> bytes:
    out = BytesIO()
    schemaless_writer(out, schema, value)
    return out.getvalue()


def leaf(number: int) -> dict[str, Any]:
    return {
        "kind": "AB"[number % 2], "mark": b"123", "again": b"456" if number % 2 else None,
        "numbers": [1.5, True, number, 2.0], "names": {"a": bytes(number)}, "below": [],
    }  # fmt: skip


@pytest.mark.parametrize("schema", [CHAIN, MANY_EMPTY, DECIMAL, {"type": "array", "items": "null"}], ids=str)
def test_what_a_writer_makes_is_let_through(schema: Any) -> None:
    """A value that is not let through is an error; here none is."""
    parsed = parse_schema(schema)
    bounds = AvroBounds(parsed)
    for value in generate_many(parsed, 20):
        bounds.check(written(parsed, value))


def test_a_tree_is_let_through_and_no_part_of_it() -> None:
    parsed = parse_schema(TREE)
    tree = leaf(3) | {"below": [{"text": "x", "tree": leaf(2) | {"below": [{"text": "", "tree": None}]}}] * 3}
    data = written(parsed, tree)
    AvroBounds(parsed).check(data)
    for size in range(len(data)):
        with pytest.raises(ValueError, match="Avro value"):
            AvroBounds(parsed).check(data[:size])


@pytest.mark.parametrize(
    ("schema", "data", "why"),
    [
        (CHAIN, number(1) * (DEPTH_MAX + 1) + number(0), "levels deep"),
        ({"type": "record", "name": "R", "fields": [{"name": "self", "type": "R"}]}, b"", "levels deep"),
        ({"type": "array", "items": "null"}, number(1 << 40) + number(0), "elements without a byte"),
        ({"type": "array", "items": "null"}, number(EMPTY_MAX) + number(1) + number(0), "elements without a byte"),
        (MANY_EMPTY, number(1 << 40) + number(0), "elements without a byte"),
        (doubled(40), b"", "elements without a byte"),
        ({"type": "array", "items": MANY_NULLS}, number(200) + number(0) * 201, "elements without a byte"),
        (DECIMAL, number(400_000) + b"\x7f" * 400_000, "a decimal at byte 0"),
        (DECIMAL | {"type": "fixed", "name": "D", "size": 400_000}, b"\x7f" * 400_000, "a decimal at byte 0"),
        (TREE, number(7) + b"abc" + number(9), "branch 9 of 2"),
        (TREE, b"\xff" * 20, "is not whole"),
    ],
    ids=[
        "chain", "itself", "nulls", "two blocks of nulls", "empty records", "doubled", "nulls beside an int", "decimal",
        "fixed decimal", "branch", "number",
    ],
)  # fmt: skip
def test_what_would_not_end_is_refused(schema: Any, data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        AvroBounds(parse_schema(schema)).check(data)


def test_blocks_with_their_size_and_fields_without_a_byte_are_counted() -> None:
    nothing = {"type": "fixed", "name": "N", "size": 0}
    bounds = AvroBounds(parse_schema({"type": "array", "items": nothing}))
    bounds.check(number(-3) + number(0) + number(2) + number(0))
    with pytest.raises(ValueError, match="elements without a byte"):
        bounds.check(number(-1 - EMPTY_MAX) + number(0) + number(0))


def test_a_fixed_decimal_beside_a_long_text_is_no_harm() -> None:
    fixed = DECIMAL | {"type": "fixed", "name": "D", "size": 8}
    schema = {"type": "record", "name": "P", "fields": [{"name": "d", "type": fixed}, {"name": "t", "type": "string"}]}
    AvroBounds(parse_schema(schema)).check(bytes(8) + number(DECIMAL_BYTES_MAX) + b"x" * DECIMAL_BYTES_MAX)


def test_a_chain_at_the_limit_and_a_long_text_are_no_harm() -> None:
    """One more would be an error, as the test above shows."""
    AvroBounds(parse_schema(CHAIN)).check(number(1) * (DEPTH_MAX - 1) + number(0))
    plain = {"type": "record", "name": "P", "fields": [{"name": "d", "type": DECIMAL}, {"name": "t", "type": "string"}]}
    value = number(1) + b"\x05" + number(DECIMAL_BYTES_MAX) + b"x" * DECIMAL_BYTES_MAX
    AvroBounds(parse_schema(plain)).check(value)


def test_a_consumer_goes_past_a_hostile_value() -> None:
    with pylog.open(":memory:") as log:
        log.create_topic("t")
        registry = serde.LogRegistry(log)
        links = serde.avro(registry, "t-value", CHAIN)
        good = links.serialize({"next": None})
        with log.producer() as producer:
            producer.send("t", good[:5] + number(1) * 100_000 + number(0))
            producer.send("t", good)
        with log.consumer("t", auto_offset_reset="earliest", value_deserializer=links.deserialize) as consumer:
            with pytest.raises(DeserializationError, match="levels deep"):
                consumer.poll(1000)
            consumer.skip()
            assert [record.value for record in consumer.poll(60_000)] == [{"next": None}]
