"""JSON Schema's rules, held to jsonschema: a fault has a value that was taken before and is not any more."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from pylog.serde.compatibility.json_schema import faults

TEXT, NUMBER, CLOSED = {"type": "string"}, {"type": "number"}, {"additionalProperties": False}
REF = {"$ref": "#/$defs/a"}


def fields(*, closed: bool = False, required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    more = {"required": required} if required else {}
    return {"type": "object", "properties": properties, **more, **(CLOSED if closed else {})}


def tree(of: Any) -> dict[str, Any]:
    node = {"properties": {"value": of, "next": {"$ref": "#/$defs/node"}}}
    return {"$defs": {"node": node}, "$ref": "#/$defs/node"}


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        (TEXT, {**TEXT, "title": "x", "maxLength": 3}),
        (True, TEXT),
        ({}, False),
        (False, False),
        (NUMBER, {"type": "integer"}),
        ({"type": ["string", "null"]}, TEXT),
        ({"enum": ["a", "b"]}, {"enum": ["a"]}),
        ({"enum": ["a"]}, {"const": "a"}),
        ({"minimum": 1, "maxLength": 9}, {"minimum": 2, "maxLength": 8}),
        ({}, {"pattern": "x"}),
        (fields(a=TEXT, b=NUMBER, closed=True), fields(a=TEXT, closed=True)),
        (fields(a=TEXT), fields(a=TEXT, b=NUMBER)),
        (fields(a=TEXT, b=True), fields(a=TEXT)),
        (fields(a=TEXT), fields(a=TEXT, closed=True)),
        ({"additionalProperties": TEXT}, fields(a=TEXT, closed=True)),
        (fields(a=TEXT), fields(a=TEXT, required=["a"])),
        ({"items": NUMBER}, {"items": {"type": "integer"}}),
        ({"items": [TEXT]}, {"items": [TEXT]}),
        ({"anyOf": [TEXT, {"type": "null"}]}, TEXT),
        ({"anyOf": [TEXT, NUMBER]}, {"anyOf": [NUMBER]}),
        (TEXT, {"anyOf": [NUMBER], **TEXT}),
        ({"unevaluatedItems": False, "items": TEXT}, {"unevaluatedItems": False, "items": TEXT}),
        ({"oneOf": [REF], "$defs": {"a": TEXT}, "minimum": 1}, {"oneOf": [REF], "$defs": {"a": TEXT}, "minimum": 2}),
        (tree(NUMBER), tree({"type": "integer"})),
        ({**REF, "default": 1, "$defs": {"a": TEXT}}, {**REF, "$defs": {"a": TEXT}}),
        ({"$defs": {"a/b": TEXT}, "$ref": "#/$defs/a~1b"}, TEXT),
    ],
)
def test_what_takes_as_much_has_no_faults(reader: Any, writer: Any) -> None:
    assert faults(reader, writer) == []


@pytest.mark.parametrize(
    ("reader", "writer", "value", "fault"),
    [
        (NUMBER, TEXT, "x", "it may be string, and number alone is taken"),
        (TEXT, {}, 1, "it has to be string now"),
        (False, {}, 1, "nothing is taken any more"),
        ({"type": "integer"}, NUMBER, 1.5, "it may be number, and integer alone is taken"),
        ({"enum": ["a"]}, {"enum": ["a", "b"]}, "b", "'b' is not taken any more"),
        ({"const": 1}, {}, 2, "only some values are taken now"),
        ({"enum": [1]}, {"enum": [True]}, True, "True is not taken any more"),
        ({"minimum": 2}, {"minimum": 1}, 1, "minimum is not the same"),
        ({"maxLength": 1}, {}, "xx", "maxLength is not the same"),
        ({"minContains": 1, "contains": TEXT}, {"minContains": 0, "contains": TEXT}, [], "minContains is not the same"),
        (fields(a=NUMBER), fields(a=TEXT), {"a": "x"}, "field a: it may be string, and number alone is taken"),
        (
            fields(o=fields(a=NUMBER)),
            fields(o=fields(a=TEXT)),
            {"o": {"a": ""}},
            "field o.a: it may be string, and number alone is taken",
        ),
        (fields(a=TEXT, required=["a"]), fields(a=TEXT), {}, "field a: it is required, and was not"),
        (fields(a=TEXT), fields(), {"a": 1}, "field a: it is new, and was not kept out by additionalProperties: false"),
        (
            {**fields(x=TEXT), "patternProperties": {"x": NUMBER}},
            {**fields(closed=True), "patternProperties": {"x": NUMBER}},
            {"x": 1},
            "field x: it is new, and was not kept out by additionalProperties: false",
        ),
        (
            fields(closed=True),
            fields(a=TEXT, closed=True),
            {"a": ""},
            "field a: it is gone, and additionalProperties does not take it",
        ),
        (fields(closed=True), fields(), {"a": ""}, "additionalProperties takes less"),
        ({"items": TEXT}, {}, [1], "field []: it has to be string now"),
        ({"items": NUMBER}, {"items": TEXT}, ["x"], "field []: it may be string, and number alone is taken"),
        ({"anyOf": [TEXT]}, {"anyOf": [TEXT, NUMBER]}, 1, "no branch of anyOf takes what was taken before"),
        ({"oneOf": [REF], "$defs": {"a": TEXT}}, {"oneOf": [REF], "$defs": {"a": NUMBER}}, 1, "oneOf is not the same"),
        (tree(NUMBER), tree(TEXT), {"value": "x"}, "field value: it may be string, and number alone is taken"),
        (
            {**REF, "$defs": {"a": True}, "maxLength": 1},
            {**REF, "$defs": {"a": True}},
            "xx",
            "what stands beside $ref is not the same",
        ),
        (
            fields(a=TEXT, b={"type": "integer"}),
            {**fields(a=REF, b=REF), "$defs": {"a": TEXT}},
            {"b": "x"},
            "field b: it may be string, and integer alone is taken",
        ),
        (
            {**fields(a=REF, b=REF), "$defs": {"a": TEXT}},
            fields(a=TEXT, b={"type": "integer"}),
            {"b": 1},
            "field b: it may be integer, and string alone is taken",
        ),
        (
            {**fields(a=REF, b={**REF, "maxLength": 3}), "$defs": {"a": TEXT}},
            {**fields(a=REF, b=REF), "$defs": {"a": TEXT}},
            {"b": "xxxx"},
            "field b: what stands beside $ref is not the same",
        ),
        ({"enum": [[1]]}, {"enum": [[True]]}, [True], "[True] is not taken any more"),
        ({"const": 1, "enum": [2]}, {"const": 1}, 1, "1 is not taken any more"),
        (
            {"unevaluatedProperties": False, "properties": {"a": {}}},
            {"unevaluatedProperties": False, "properties": {"a": {}, "b": {}}},
            {"b": 1},
            "unevaluatedProperties cannot be compared",
        ),
        (
            {"unevaluatedItems": False},
            {"unevaluatedItems": False, "items": TEXT},
            ["x"],
            "unevaluatedItems cannot be compared",
        ),
    ],
)
def test_a_fault_is_named_and_is_one(reader: Any, writer: Any, value: Any, fault: str) -> None:
    assert faults(reader, writer) == [fault]
    assert Draft202012Validator(writer).is_valid(value) and not Draft202012Validator(reader).is_valid(value)


@pytest.mark.parametrize(
    ("reader", "writer", "fault"),
    [
        ({"$ref": "other.json"}, TEXT, "a reference to another schema cannot be compared"),
        (TEXT, {"$ref": "#/gone"}, "a reference to another schema cannot be compared"),
        ({"$ref": "#"}, {"$ref": "#"}, "a reference to another schema cannot be compared"),
        ({"items": [TEXT]}, {"items": [NUMBER]}, "items is not the same"),
        ({"oneOf": [TEXT]}, {"oneOf": [TEXT, NUMBER]}, "oneOf is not the same"),
        (TEXT, {**TEXT, "if": TEXT}, "if is not the same"),
    ],
)
def test_what_cannot_be_shown_is_a_fault(reader: Any, writer: Any, fault: str) -> None:
    assert faults(reader, writer) == [fault]


def test_what_is_no_schema_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="3 is no schema"):
        faults({"items": 3}, {})
