"""JSON as a value of an Avro schema. fastavro's writer and its `json_reader` take 1.5 for an int, and any text for a
boolean; its `json_reader` takes neither a plain value of a union nor ISO 8601.

    bytes, fixed     text, whose characters up to U+00FF are the bytes
    decimal          a number, or its text
    dates and times  ISO 8601, in UTC where a timestamp names no zone; or the number that Avro has for it
    a union          the value, for the first branch that it fits; or {"branch": value}
    a field          that is missing has its default

(Avro 1.12: JSON encoding)
"""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import TypeVar
from uuid import UUID

from pylog.serde.avro_schema import AvroSchema, Definition

__all__ = ["InputError", "avro_datum"]

T = TypeVar("T")
V = TypeVar("V")

STEPS_MAX = 100_000
"""How many values are looked at: nested unions multiply them."""
SHORT_CHARS = 60
BITS = {"int": 32, "long": 64}
NOT_FINITE = ("NaN", "Infinity", "-Infinity")


class InputError(ValueError):
    """The reason why a value does not fit, with the place where."""


def avro_datum(schema: AvroSchema, value: object, place: str) -> object:
    """A value of JSON as fastavro writes it. `schema`: as fastavro has parsed it; `place`: the name of the value, for
    errors. Raises InputError, RecursionError.
    """
    return _Input(schema).datum(schema, value, place)


class _Input:
    def __init__(self, schema: AvroSchema) -> None:
        from fastavro import parse_schema

        self._named: dict[str, Definition] = {}
        """The types that have names: a value may use one before it reaches the definition."""
        self._steps = 0
        parse_schema(schema, named_schemas=self._named)

    def datum(self, schema: AvroSchema, value: object, place: str) -> object:
        self._steps += 1
        if self._steps > STEPS_MAX:
            raise InputError(f"{place}: its unions take more than {STEPS_MAX:,} steps")
        if isinstance(schema, list):
            return self._of_union(schema, value, place)
        if isinstance(schema, str):
            return (
                self.datum(self._named[schema], value, place) if schema in self._named else _plain(schema, value, place)
            )
        match schema["type"]:
            case "record" | "error":
                return self._of_record(schema, value, place)
            case "array":
                items = _checked(value, list, "an array", place)
                return [self.datum(schema["items"], one, f"{place}[{at}]") for at, one in enumerate(items)]
            case "map":
                found = _checked(value, dict, "an object", place)
                return {key: self.datum(schema["values"], one, f"{place}.{key}") for key, one in found.items()}
            case "enum":
                if value not in schema["symbols"]:
                    raise _unfit(value, f"one of {', '.join(schema['symbols'])}", place)
                return value
            case kind:
                return _logical(schema, kind, value, place)

    def _of_record(self, schema: Definition, value: object, place: str) -> dict[str, object]:
        found = _checked(value, dict, f"an object with the fields of {schema['name']}", place)
        fields = {field["name"]: field for field in schema["fields"]}
        for name in found:
            if name not in fields:
                raise InputError(f"{place}.{name[:SHORT_CHARS]}: {schema['name']} has no such field")
        made = {}
        for name, field in fields.items():
            if name not in found and "default" not in field:
                raise InputError(f"{place}.{name} is missing, and has no default")
            made[name] = self.datum(field["type"], found.get(name, field.get("default")), f"{place}.{name}")
        return made

    def _of_union(self, branches: list[AvroSchema], value: object, place: str) -> object:
        reasons: list[InputError] = []
        for branch in branches:
            try:
                return _branch_name(branch), self.datum(branch, value, place)
            except InputError as error:
                reasons.append(error)
        if isinstance(value, dict) and len(value) == 1:
            ((name, inner),) = value.items()
            for branch in branches:
                if _branch_name(branch) == name:
                    return _branch_name(branch), self.datum(branch, inner, place)
        if len(reasons) == 2 and "null" in branches:
            raise reasons[1 - branches.index("null")]
        raise _unfit(value, f"one of {', '.join(map(_branch_name, branches))}", place)


def _branch_name(branch: AvroSchema) -> str:
    """The name of a branch, by which Avro's JSON tags a value, and fastavro is told it."""
    return str(branch.get("name", branch["type"])) if isinstance(branch, dict) else str(branch)


def _plain(kind: str, value: object, place: str) -> object:
    """A value of a primitive type."""
    match kind:
        case "null":
            if value is not None:
                raise _unfit(value, "null", place)
            return None
        case "boolean":
            return _checked(value, bool, "true or false", place)
        case "int" | "long":
            top = 1 << BITS[kind] - 1
            if not isinstance(value, int) or isinstance(value, bool) or not -top <= value < top:
                raise _unfit(value, f"a whole number of {BITS[kind]} bits", place)
            return value
        case "float" | "double":
            if isinstance(value, bool) or not (isinstance(value, int | float) or value in NOT_FINITE):
                raise _unfit(value, "a number", place)
            return _by(float, value, "a number", place)
        case "string":
            return _checked(value, str, "a string", place)
    return _bytes(value, place)


def _bytes(value: object, place: str) -> bytes:
    return _by(lambda text: text.encode("latin-1"), _checked(value, str, "a string", place), _BYTES, place)


_BYTES = "a string of characters up to U+00FF, which are bytes"


def _logical(schema: Definition, kind: str, value: object, place: str) -> object:
    """A value of a primitive type or `fixed`, by its logical type if it has one that is known."""
    logical = schema.get("logicalType", "")
    if logical == "decimal" and isinstance(value, int | float | str) and not isinstance(value, bool):
        return _by(lambda one: Decimal(str(one)), value, "a decimal number", place)
    if logical == "uuid":
        return str(_by(UUID, _checked(value, str, "a UUID", place), "a UUID", place))
    for name, (read, words) in _TIMES.items():
        if logical.startswith(name) and isinstance(value, str):
            return _by(read, value, words, place)
    if kind != "fixed":
        return _plain(kind, value, place)
    data = _bytes(value, place)
    if len(data) != schema["size"]:
        raise _unfit(value, f"{schema['size']} bytes", place)
    return data


def _utc(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


_TIMES: dict[str, tuple[Callable[[str], object], str]] = {
    "date": (date.fromisoformat, "a date like 2026-05-01"),
    "timestamp-": (_utc, "a time like 2026-05-01T12:00"),
    "local-timestamp-": (
        lambda text: datetime.fromisoformat(text).replace(tzinfo=None),
        "a time like 2026-05-01T12:00",
    ),
    "time-": (time.fromisoformat, "a time of a day like 12:00"),
}
"""By the beginnings of logical types: how text is read, and what it is."""


def _by(read: Callable[[V], T], value: V, words: str, place: str) -> T:
    try:
        return read(value)
    except (ValueError, OverflowError, InvalidOperation) as error:
        raise _unfit(value, words, place) from error


def _checked(value: object, kind: type[T], words: str, place: str) -> T:
    if not isinstance(value, kind):
        raise _unfit(value, words, place)
    return value


def _unfit(value: object, words: str, place: str) -> InputError:
    return InputError(f"{place} is {json.dumps(value, ensure_ascii=False)[:SHORT_CHARS]}, not {words}")
