"""Avro schemas: what is one, and which of them are the same."""

import json
from typing import Any

import fastavro
import pytest

from pylog.serde.avro_schema import check_avro, plain_avro

FIELDS = [{"name": "a", "type": "int"}]
FIELDS_B = [{"name": "b", "type": "int"}]
WHOLE = {
    "type": "record", "name": "R", "namespace": "a.b", "aliases": ["Old", "c.Older"], "doc": "d",
    "fields": [
        {"name": "one", "type": {"type": "array", "items": {"type": "map", "values": "R"}}},
        {"name": "two", "type": ["null", "string", {"type": "fixed", "name": "F", "size": 2}], "default": None},
        {"name": "three", "type": {"type": {"type": "enum", "name": "c.E", "namespace": None, "symbols": ["A", "B"]}}},
        {"name": "four", "type": ["F", "c.E", {"type": "bytes", "logicalType": "decimal", "precision": 4}]},
        {"name": "five", "type": {"type": "error", "name": "X", "namespace": "", "fields": []}},
    ],
}  # fmt: skip


def test_names_stand_in_full_and_types_in_one_form() -> None:
    check_avro(WHOLE)
    found = plain_avro(WHOLE)
    assert found["name"] == "a.b.R" and "namespace" not in found and found["aliases"] == ["a.b.Old", "c.Older"]
    types = [field["type"] for field in found["fields"]]
    assert types[0] == {"type": "array", "items": {"type": "map", "values": "a.b.R"}}
    assert types[1][2]["name"] == "a.b.F" and types[2]["name"] == "c.E"
    assert types[3] == ["a.b.F", "c.E", {"type": "bytes", "logicalType": "decimal", "precision": 4}]
    assert types[4] == {"type": "error", "name": "X", "namespace": "", "fields": []}
    assert plain_avro(found) == found
    parsed = fastavro.parse_schema(json.loads(json.dumps(found)))
    assert plain_avro(json.loads(fastavro.schema.to_parsing_canonical_form(parsed)))["name"] == "a.b.R"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"type": "string"}, "string"),
        ({"type": {"type": "string"}}, "string"),
        ({"type": ["null", "int"]}, ["null", "int"]),
        (
            {"type": "record", "name": "a.R", "fields": FIELDS},
            {"name": "R", "namespace": "a", "fields": FIELDS, "type": "record"},
        ),
    ],
)
def test_schemas_that_mean_the_same_have_one_form(one: Any, other: Any) -> None:
    assert plain_avro(one) == plain_avro(other)


def test_a_type_of_another_schema_is_named_in_a_part_alone() -> None:
    assert plain_avro({"type": "array", "items": "a.B"}) == {"type": "array", "items": "a.B"}
    with pytest.raises(ValueError, match=r"the type 'a\.B' is not defined"):
        check_avro({"type": "array", "items": "a.B"})


BAD = [
    (7, "7 is not a type"),
    ({}, "{} is not a type"),
    ({"type": 7}, "is not a type"),
    ({"type": "array"}, "array has no items"),
    ({"type": "map", "items": "int"}, "map has no values"),
    (["int", ["null", "string"]], "a union stands in a union"),
    (["int", "string", "int"], "a union has 'int' twice"),
    ([{"type": "array", "items": "int"}, {"type": "array", "items": "long"}], "a union has 'array' twice"),
    ({"type": "record", "fields": []}, "record has the name None"),
    ({"type": "record", "name": "a-b", "fields": []}, "record has the name 'a-b'"),
    ({"type": "record", "name": "R", "namespace": "a..b", "fields": []}, "R has the namespace 'a..b'"),
    ({"type": "record", "name": "R", "namespace": 7, "fields": []}, "R has the namespace 7"),
    ({"type": "record", "name": "R"}, "record R has no list of fields"),
    ({"type": "record", "name": "R", "fields": [7]}, "record R has no list of fields"),
    ({"type": "record", "name": "R", "fields": [{"name": "a"}]}, "record R has no list of fields"),
    ({"type": "record", "name": "R", "fields": [{"type": "int"}]}, "None among the fields of R is not a name"),
    ({"type": "record", "name": "R", "fields": FIELDS * 2}, "the fields of R have a name twice"),
    ({"type": "record", "name": "R", "fields": [], "aliases": "S"}, "the aliases of R are not a list"),
    (
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "fixed", "name": "R", "size": 1}}]},
        "R is defined twice",
    ),
    ({"type": "enum", "name": "E", "symbols": ["A", "A"]}, "the symbols of E have a name twice"),
    ({"type": "enum", "name": "E", "symbols": ["A.B"]}, "'A.B' among the symbols of E is not a name"),
    ({"type": "enum", "name": "E"}, "the symbols of E are not a list"),
    ({"type": "fixed", "name": "F", "size": -1}, "fixed F has the size -1"),
    ({"type": "fixed", "name": "F", "size": True}, "fixed F has the size True"),
    ({"type": "fixed", "name": "F" * 200 + "-", "size": 1}, r"fixed has the name 'F{76}\.\.\."),
]


@pytest.mark.parametrize(("schema", "fault"), BAD, ids=[one[1][:50] for one in BAD])
def test_a_fault_is_named(schema: Any, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        check_avro(schema)


INNER = {
    "type": "record",
    "name": "I",
    "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "int", "default": 1}],
}
DEFAULTS = [
    ("null", [None], ["null", 0]),
    ("boolean", [True], [None, 0]),
    ("int", [-(2**31), 2**31 - 1], [2**31, 1.5, True, "1"]),
    ("long", [2**31, -(2**63)], [2**63, True]),
    ("float", [1, 1.5], [True, "1"]),
    ("double", [0], [None]),
    ("string", ["x"], [None, 1]),
    ("bytes", ["\u00ff"], [[1]]),
    ({"type": "bytes", "logicalType": "decimal", "precision": 4}, ["x"], [1]),
    (["null", "int"], [None, 1], ["x"]),
    ({"type": "array", "items": "int"}, [[], [1]], [["x"], {}]),
    ({"type": "map", "values": ["null", "int"]}, [{}, {"a": None}], [{"a": "x"}, []]),
    ({"type": "enum", "name": "E", "symbols": ["A"]}, ["A"], [1]),
    ({"type": "fixed", "name": "F", "size": 1}, ["x"], [1]),
    (INNER, [{"x": 1}, {"x": 1, "y": 2}], [{}, {"x": "1"}, [], {"x": 1, "y": None}]),
    ({"type": "array", "items": "R"}, [[]], [[{}]]),
]


@pytest.mark.parametrize(("kind", "good", "bad"), DEFAULTS, ids=[str(one[0])[:40] for one in DEFAULTS])
def test_a_default_has_to_fit_its_type(kind: Any, good: list[Any], bad: list[Any]) -> None:
    def schema(default: Any) -> Any:
        return {"type": "record", "name": "R", "fields": [{"name": "a", "type": kind, "default": default}, *FIELDS_B]}

    for one in good:
        check_avro(schema(one))
    for one in bad:
        with pytest.raises(ValueError, match=r"field R\.a: the default .* does not fit its type"):
            check_avro(schema(one))
        check_avro(schema(one), with_defaults=False)


def test_defaults_that_multiply_are_refused() -> None:
    union = [{"type": "array", "items": [{"type": "array", "items": "int"}, {"type": "map", "values": "int"}]}]
    default: Any = [[0]] * 30_000
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": union, "default": default}]}
    with pytest.raises(ValueError, match="too many to be checked"):
        check_avro(schema)
