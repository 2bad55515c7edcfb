"""Whether a schema is one, when two of them are the same, and the normal form of one.

    same     Avro by `avro_schema`; JSON Schema as JSON, where spaces and the order of fields mean nothing; else by text
    normal   the form of Avro with full names; JSON Schema with sorted fields; references sorted by name

Protobuf is a descriptor in base64, or the source text of a `.proto` file.
(Confluent: ParsedSchema.canonicalString, ParsedSchema.normalize)
"""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress

from pylog.errors import SchemaRegistryError
from pylog.serde.avro import whole_schema
from pylog.serde.avro_schema import check_avro, plain_avro
from pylog.serde.compatibility.protobuf import file_of
from pylog.serde.registry import AVRO, JSON, PROTOBUF, Reference, Schema

__all__ = ["INVALID_SCHEMA", "TYPES", "check_schema", "meaning", "normalized", "whole_meaning"]

INVALID_SCHEMA = 42201
TYPES = (JSON, PROTOBUF, AVRO)
JSON_TYPES = frozenset("array boolean integer null number object string".split())
ONE = frozenset("additionalItems additionalProperties contains else if items not propertyNames then".split())
"""The keywords of JSON Schema that hold a schema; `items` may hold a list of them, too."""
LISTS = frozenset("allOf anyOf items oneOf prefixItems".split())
MAPS = frozenset("$defs definitions patternProperties properties".split())

Meaning = tuple[object, ...]
Find = Callable[[Reference], Schema]
"""Gives the schema that a reference names."""


def meaning(schema: Schema) -> Meaning:
    """A value that is equal where two schemas are."""
    return schema.type, _form(schema, None), tuple(sorted(schema.references))


def whole_meaning(schema: Schema, find: Find) -> Meaning:
    """The same for an Avro schema with those that it refers to in their places, as some clients send it."""
    return schema.type, _form(schema, find), ()


def _form(schema: Schema, find: Find | None) -> str:
    # A topic may have what nobody has checked: such a text is the same as itself alone.
    with suppress(ValueError, TypeError, AttributeError, KeyError, RecursionError):
        if schema.type == AVRO:
            return _sorted(plain_avro(json.loads(schema.text) if find is None else whole_schema(schema, find)))
        if schema.type == JSON:
            return _sorted(json.loads(schema.text))
    return schema.text


def normalized(schema: Schema) -> Schema:
    """The normal form of a schema that was checked."""
    text = schema.text
    if schema.type == AVRO:
        text = json.dumps(plain_avro(json.loads(text)), separators=(",", ":"), ensure_ascii=False)
    elif schema.type == JSON:
        text = _sorted(json.loads(text))
    return Schema(text, schema.type, tuple(sorted(schema.references)))


def check_schema(schema: Schema, find: Find, *, is_new: bool = True) -> None:
    """Raise SchemaRegistryError (42201) for a text that is not valid by its type. `is_new`: defaults have to fit."""
    try:
        if schema.type == AVRO:
            check_avro(whole_schema(schema, find), with_defaults=is_new)
        elif schema.type == JSON:
            _check_json(json.loads(schema.text))
        elif schema.type == PROTOBUF:
            file_of(schema.text)
        else:
            raise ValueError(f"the type {schema.type!r} is not one of {', '.join(TYPES)}")
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise SchemaRegistryError(f"Invalid schema of type {schema.type}: {error}", INVALID_SCHEMA) from error


def _sorted(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)


def _check_json(root: object) -> None:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, bool):
            continue
        if not isinstance(node, dict):
            raise ValueError(f"{str(node)[:80]!r} is not an object or a boolean")
        given = node.get("type", [])
        unknown = [one for one in (given if isinstance(given, list) else [given]) if one not in JSON_TYPES]
        if unknown:
            raise ValueError(f"{unknown[0]!r} is not a type of JSON Schema")
        waiting += _inner_schemas(node)


def _inner_schemas(node: dict[str, object]) -> Iterator[object]:
    for key, value in node.items():
        if key in LISTS and isinstance(value, list):
            yield from value
        elif key in ONE:
            yield value
        elif key in LISTS:
            raise ValueError(f"{key} is not a list of schemas")
        elif key in MAPS:
            if not isinstance(value, dict):
                raise ValueError(f"{key} is not an object of schemas")
            yield from value.values()
