"""JSON with a schema in Confluent's format, by jsonschema: the extra `json-schema`. (KafkaJsonSchemaSerializer)"""

from collections.abc import Mapping
from functools import cache
from json import loads
from typing import TYPE_CHECKING, Any

from pylog.serde.compatibility.json_schema import JsonSchema
from pylog.serde.parsed import ParsedSchemas
from pylog.serde.plain import json
from pylog.serde.registry import JSON, Schema, SchemaRegistry
from pylog.serde.serde import Serde
from pylog.serde.wire import split

if TYPE_CHECKING:
    from jsonschema.protocols import Validator


def json_schema(registry: SchemaRegistry, subject: str, schema: Mapping[str, object] | str | None = None) -> Serde[Any]:
    r"""Values of a JSON Schema, checked as they are written and, by the schema that is given, as they are read.

    `subject`: "orders-value" for the values of a topic `orders`. `schema`: registered with the first value that is
    written, and what is read is held to it; None: the latest version of the subject is written, and what is read is
    not checked. A value is never checked by the schema that its producer names: patterns and `uniqueItems` of a
    stranger may take for ever (Confluent: json.fail.invalid.schema is false by default). References are looked up in
    the registry alone, never by their URLs. Raises ImportError (says what to install) and, as it is used,
    SchemaNotFound, SchemaRegistryError, ValueError, jsonschema's ValidationError for a value that does not fit, and
    referencing's Unresolvable for a reference that the registry does not have.

    >>> schema = {"type": "object", "required": ["item"]}
    >>> orders = serde.json_schema(serde.LogRegistry(log), "orders-value", schema)
    >>> orders.serialize({"item": "book"})
    b'\x00\x00\x00\x00\x01{"item":"book"}'
    """
    try:
        from jsonschema.validators import validator_for
        from jsonschema_specifications import REGISTRY
        from referencing.jsonschema import DRAFT202012, specification_with
    except ModuleNotFoundError as error:
        raise ImportError(f"JSON Schema needs jsonschema: pip install jsonschema ({error})") from error

    def validator(one: Schema) -> "Validator":
        of = loads(one.text)
        kind = validator_for(of)
        kind.check_schema(of)
        default = specification_with(kind.META_SCHEMA["$schema"], default=DRAFT202012)
        resources = [
            (name, specification_with(_draft(there), default=default).create_resource(there))
            for name, there in _referred(one, registry, {}).items()
        ]
        return kind(of, registry=REGISTRY.with_resources(resources))

    plain, by_id = json(), cache(registry.by_id)
    schemas = ParsedSchemas(registry, subject, schema, JSON, validator)

    def serialize(value: object) -> bytes:
        first, of = schemas.writer()
        of.validate(value)
        return first + plain.serialize(value)

    def deserialize(data: bytes) -> object:
        schema_id, payload = split(data)
        # It has to be there: a registry that does not answer is not a value that cannot be read.
        by_id(schema_id)
        value = plain.deserialize(payload)
        if schemas.wanted is not None:
            schemas.wanted.validate(value)
        return value

    return Serde(serialize, deserialize)


def _draft(schema: JsonSchema) -> str:
    return "" if isinstance(schema, bool) else schema.get("$schema", "")


def _referred(schema: Schema, registry: SchemaRegistry, found: dict[str, JsonSchema]) -> dict[str, JsonSchema]:
    """`found` with the schemas that `schema` refers to, and those that these refer to, by their names there."""
    for used in schema.references:
        if used.name not in found:
            there = registry.referenced(used)
            found[used.name] = loads(there.text)
            _referred(there, registry, found)
    return found
