"""The Arrow types of what serdes read: by annotations of Python, Avro schemas and Protobuf descriptors.

It stands on pyarrow, an extra. Where a type has no counterpart, as Any, a recursive one, or a union of a number and a
text, all of it has none: the type is that of the values then.
"""

import enum
import types
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

import pyarrow as pa

from pylog.serde.avro_schema import AvroSchema
from pylog.serde.messages import is_repeated

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

__all__ = ["of_annotation", "of_avro", "of_message"]

DEPTH_MOST = 30
DIGITS_OF_128, DIGITS_MOST = 38, 76
"""The most digits of Arrow's decimals of 128 and of 256 bits."""
PLAIN: dict[object, pa.DataType] = {
    bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string(), bytes: pa.binary(),
    datetime: pa.timestamp("us", tz="UTC"), date: pa.date32(), time: pa.time64("us"), timedelta: pa.duration("us"),
    uuid.UUID: pa.string(),
}  # fmt: skip
AVRO: dict[str, pa.DataType] = {
    "null": pa.null(), "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "bytes": pa.binary(), "string": pa.string(), "enum": pa.string(), "fixed": pa.binary(),
    "date": pa.date32(), "time-millis": pa.time64("us"), "time-micros": pa.time64("us"), "uuid": pa.string(),
    "timestamp-millis": pa.timestamp("us", tz="UTC"), "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "local-timestamp-millis": pa.timestamp("us"), "local-timestamp-micros": pa.timestamp("us"),
}  # fmt: skip
PROTOBUF: tuple[pa.DataType, ...] = (
    pa.int32(), pa.int64(), pa.uint32(), pa.uint64(), pa.float64(), pa.float32(), pa.bool_(), pa.string(),
)  # fmt: skip
"""By the number of a field's `cpp_type`, from 1 on."""
MESSAGE, STRING, BYTES = 10, 9, 12


class _NoCounterpart(Exception):  # noqa: N818 - it never leaves this module
    """Arrow has no such type."""


def _found(make: Callable[[], pa.DataType]) -> pa.DataType | None:
    try:
        return make()
    except (_NoCounterpart, NameError):
        # NameError: an annotation names what was never defined.
        return None


def of_annotation(annotation: object) -> pa.DataType | None:
    """The type of the values of a dataclass, TypedDict, msgspec Struct, pydantic model, or type made of these."""
    return _found(lambda: _annotated(annotation, 0))


def _annotated(of: object, depth: int) -> pa.DataType:
    if depth > DEPTH_MOST:
        raise _NoCounterpart
    if isinstance(of, type) and issubclass(of, enum.Enum):
        return _one([_annotated(type(one.value), depth + 1) for one in of])
    if of in PLAIN:
        return PLAIN[of]
    origin, arguments = get_origin(of), get_args(of)
    if origin is Annotated:
        return _annotated(arguments[0], depth + 1)
    if origin is Literal:
        return _one([_annotated(type(one), depth + 1) for one in arguments if one is not None])
    if origin in (Union, types.UnionType):
        return _one([_annotated(one, depth + 1) for one in arguments if one is not types.NoneType])
    if origin in (list, set, frozenset) or (origin is tuple and arguments[1:] == (...,)):
        return pa.list_(_annotated(arguments[0], depth + 1))
    if origin in (dict, Mapping) and arguments[0] is str:
        return pa.map_(pa.string(), _annotated(arguments[1], depth + 1))
    return pa.struct([(name, _annotated(field, depth + 1)) for name, field in _fields(of)])


def _fields(of: Any) -> Iterable[tuple[str, object]]:
    """The names and annotations of an object's fields, as its plain form has them."""
    if hasattr(of, "model_fields"):
        return [(name, field.annotation) for name, field in of.model_fields.items()]
    config = getattr(of, "__struct_config__", None)
    if config is not None and not config.array_like:
        hints = get_type_hints(of, include_extras=True)
        tag = [] if config.tag is None else [(config.tag_field, type(config.tag))]
        names = zip(of.__struct_encode_fields__, of.__struct_fields__, strict=True)
        return tag + [(encoded, hints[name]) for encoded, name in names]
    if config is None and (is_dataclass(of) or is_typeddict(of)):
        return get_type_hints(of, include_extras=True).items()
    raise _NoCounterpart


def _one(kinds: list[pa.DataType]) -> pa.DataType:
    """The type that holds all of these. Raises _NoCounterpart."""
    try:
        schemas = [pa.schema([("one", kind)]) for kind in kinds]
        return pa.unify_schemas(schemas, promote_options="permissive").field("one").type
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        raise _NoCounterpart from None


def of_avro(schema: AvroSchema) -> pa.DataType | None:
    """The type of the values of an Avro schema, as fastavro reads them."""
    return _found(lambda: _avro(schema, {}, 0))


def _avro(schema: AvroSchema, named: dict[str, AvroSchema], depth: int) -> pa.DataType:
    if depth > DEPTH_MOST:
        raise _NoCounterpart
    if isinstance(schema, str):
        return AVRO[schema] if schema in AVRO else _avro(named[schema], named, depth + 1)
    if isinstance(schema, list):
        return _one([_avro(one, named, depth + 1) for one in schema if one != "null"])
    kind, logical = schema["type"], schema.get("logicalType")
    if "name" in schema:
        named[schema["name"]] = schema
    if logical == "decimal":
        return _decimal(schema["precision"], schema.get("scale", 0))
    if logical in AVRO:
        return AVRO[logical]
    if kind == "record":
        return pa.struct([(one["name"], _avro(one["type"], named, depth + 1)) for one in schema["fields"]])
    if kind == "array":
        return pa.list_(_avro(schema["items"], named, depth + 1))
    if kind == "map":
        return pa.map_(pa.string(), _avro(schema["values"], named, depth + 1))
    return _avro(kind, named, depth + 1)


def _decimal(precision: int, scale: int) -> pa.DataType:
    if precision > DIGITS_MOST:
        raise _NoCounterpart
    return pa.decimal128(precision, scale) if precision <= DIGITS_OF_128 else pa.decimal256(precision, scale)


def of_message(descriptor: "Descriptor") -> pa.DataType | None:
    """The type of the messages of a Protobuf descriptor, as `serde.protobuf` makes them plain."""
    return _found(lambda: _message(descriptor, 0))


def _message(descriptor: "Descriptor", depth: int) -> pa.DataType:
    if depth > DEPTH_MOST:
        raise _NoCounterpart
    if descriptor.full_name == "google.protobuf.Timestamp":
        return PLAIN[datetime]
    return pa.struct([(field.name, _field(field, depth)) for field in descriptor.fields])


def _field(field: "FieldDescriptor", depth: int) -> pa.DataType:
    of = field.message_type
    if of is not None and of.GetOptions().map_entry:
        return pa.map_(_single(of.fields_by_name["key"], depth), _single(of.fields_by_name["value"], depth))
    return pa.list_(_single(field, depth)) if is_repeated(field) else _single(field, depth)


def _single(field: "FieldDescriptor", depth: int) -> pa.DataType:
    if field.cpp_type == MESSAGE:
        return _message(field.message_type, depth + 1)
    if field.cpp_type == STRING:
        return pa.binary() if field.type == BYTES else pa.string()
    return PROTOBUF[field.cpp_type - 1]
