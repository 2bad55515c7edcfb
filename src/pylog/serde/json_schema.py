"""JSON with a schema in Confluent's format, by jsonschema: the extra `json-schema`. (KafkaJsonSchemaSerializer)"""

from collections.abc import Mapping
from json import loads
from typing import Any

from pylog.serde.parsed import ParsedSchemas
from pylog.serde.plain import json
from pylog.serde.registry import JSON, Schema, SchemaRegistry
from pylog.serde.serde import Serde
from pylog.serde.wire import split


def json_schema(registry: SchemaRegistry, subject: str, schema: Mapping[str, Any] | str | None = None) -> Serde[Any]:
    """Values of a JSON Schema, checked as they are written and as they are read.

    `subject`: "orders-value" for the values of a topic `orders`. `schema`: registered with the first value that is
    written; None: the latest version of the subject is written, and what is read is checked by the schema that it was
    written by. Raises ImportError (says what to install) and, as it is used, SchemaNotFound, SchemaRegistryError,
    ValueError, and jsonschema's ValidationError for a value that does not fit.
    """
    try:
        from jsonschema.validators import validator_for
    except ModuleNotFoundError as error:
        raise ImportError(f"JSON Schema needs jsonschema: pip install jsonschema ({error})") from error

    def validator(one: Schema) -> Any:
        of = loads(one.text)
        kind = validator_for(of)
        kind.check_schema(of)
        return kind(of)

    plain = json()
    schemas = ParsedSchemas(registry, subject, schema, JSON, validator)

    def serialize(value: Any) -> bytes:
        first, of = schemas.writer()
        of.validate(value)
        return first + plain.serialize(value)

    def deserialize(data: bytes) -> Any:
        schema_id, payload = split(data)
        value = plain.deserialize(payload)
        (schemas.wanted if schemas.wanted is not None else schemas.written_by(schema_id)).validate(value)
        return value

    return Serde(serialize, deserialize)
