"""Avro in Confluent's format, by fastavro: the extra `avro`. (Confluent: KafkaAvroSerializer)"""

import json
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import TYPE_CHECKING, Any

from pylog.serde.avro_bounds import AvroBounds
from pylog.serde.avro_schema import AvroSchema, Definition, defined_name
from pylog.serde.parsed import ParsedSchemas
from pylog.serde.registry import AVRO, Reference, Schema, SchemaRegistry
from pylog.serde.serde import Serde, plain_of
from pylog.serde.wire import split

if TYPE_CHECKING:
    import pyarrow
    from fastavro.types import Schema as ParsedAvro

WHOLE_CHARS_MAX = 16 << 20
"""How long a schema may be with all that it refers to."""
REFERENCE_CHARS = 1000
"""How much of that a reference takes besides the text behind it."""

ReadAvro = Callable[[bytes, "ParsedAvro | None"], object]
"""Decodes a payload, into a wanted schema or (None) as it was written."""


def avro(registry: SchemaRegistry, subject: str, schema: Mapping[str, object] | str | None = None) -> Serde[Any]:
    r"""Values of an Avro schema: dicts for records, as fastavro has them.

    `subject`: "orders-value" for the values of a topic `orders`. `schema`: what is written, and registered with the
    first value; what is read is turned into it from the schema that it was written by. None: the latest version of the
    subject is written, and what is read stays as it was written. What asks for endless work is refused before it is
    decoded (`avro_bounds`). Raises ImportError (says what to install) and, as it
    is used, SchemaNotFound, SchemaRegistryError, ValueError and what fastavro raises for a value that does not fit.

    >>> fields = [{"name": "item", "type": "string"}]
    >>> registry = serde.LogRegistry(log)
    >>> orders = serde.avro(registry, "orders-value", {"type": "record", "name": "Order", "fields": fields})
    >>> orders.serialize({"item": "book"})
    b'\x00\x00\x00\x00\x01\x08book'
    >>> orders.deserialize(b"\0\0\0\0\1\x08book")
    {'item': 'book'}
    """
    try:
        from fastavro import schemaless_writer
    except ModuleNotFoundError as error:
        raise ImportError(f"Avro needs fastavro: pip install fastavro ({error})") from error

    schemas = ParsedSchemas(registry, subject, schema, AVRO, lambda one: parsed_avro(one, registry.referenced))

    def serialize(value: object) -> bytes:
        first, (of, _) = schemas.writer()
        out = BytesIO()
        out.write(first)
        schemaless_writer(out, of, value, strict_allow_default=True)
        return out.getvalue()

    def deserialize(data: bytes) -> object:
        schema_id, payload = split(data)
        _, read = schemas.written_by(schema_id)
        return read(payload, None if schemas.wanted is None else schemas.wanted[0])

    def arrow_type() -> "pyarrow.DataType | None":
        from pylog.serde.arrow_types import of_avro

        # Without a schema a value is as it was written, by one version or another.
        return None if schemas.wanted is None else of_avro(schemas.wanted[0])

    return Serde(serialize, deserialize, to_plain=plain_of, arrow_type=arrow_type)


def parsed_avro(schema: Schema, find: Callable[[Reference], Schema]) -> "tuple[ParsedAvro, ReadAvro]":
    """A schema as fastavro parses it, and what decodes a payload that was written by it, into another parsed schema or
    None. Raises ImportError, and what fastavro raises for a schema that is not one.
    """
    from fastavro import parse_schema, schemaless_reader

    parsed = parse_schema(whole_schema(schema, find))
    bounds = AvroBounds(parsed)

    def read(payload: bytes, wanted: "ParsedAvro | None") -> object:
        bounds.check(payload)
        source = BytesIO(payload)
        value = schemaless_reader(source, parsed, wanted)
        if source.read(1):
            raise ValueError("bytes follow the value: it was written by another schema")
        return value

    return parsed, read


def whole_schema(schema: Schema, find: Callable[[Reference], Schema]) -> AvroSchema:
    """An Avro schema as JSON, with those that it refers to, which `find` gives, in their places. Raises ValueError."""
    return _SchemaParts(find).of(schema)


class _SchemaParts:
    """The parts of one schema. A part that is referred to twice is read twice, so their number is bounded."""

    def __init__(self, find: Callable[[Reference], Schema]) -> None:
        self._find = find
        self._left = WHOLE_CHARS_MAX
        self._named: dict[str, AvroSchema] = {}
        """The schemas that are referred to, and are not placed yet."""

    def of(self, schema: Schema) -> AvroSchema:
        self._left -= REFERENCE_CHARS + len(schema.text)
        if self._left < 0:
            raise ValueError("it refers to too many schemas")
        for reference in schema.references:
            self._named[reference.name] = self.of(self._find(reference))
        return _placed(json.loads(schema.text), self._named, "")


def _placed(node: AvroSchema, named: dict[str, AvroSchema], namespace: str) -> AvroSchema:
    """The same type, where the first use of each name in `named` is its definition."""
    if isinstance(node, str):
        name = node if node in named or not namespace else f"{namespace}.{node}"
        return named.pop(name) if name in named else node
    if isinstance(node, list):
        return [_placed(one, named, namespace) for one in node]
    match node:
        case {"type": "record" | "error", "name": str()}:
            space = defined_name(node, namespace).rpartition(".")[0]
        case _:
            space = namespace
    placed: Definition = {key: _placed(node[key], named, space) for key in ("type", "items", "values") if key in node}
    fields = [{**field, "type": _placed(field["type"], named, space)} for field in node.get("fields", ())]
    return {**node, **placed, **({"fields": fields} if fields else {})}
