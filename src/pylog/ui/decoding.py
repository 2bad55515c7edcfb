"""Keys and values decoded, where their bytes say how: JSON, Confluent's format with a schema of the log, MessagePack.

    { or [ first                 JSON
    a zero byte and an id        Avro, JSON Schema or Protobuf, by the schemas in the log's topic `_schemas`
    neither, and not UTF-8       MessagePack, where all of it is one map or array (the extra `json`)

A value that was meant to be decoded and cannot be is shown as it is, with the reason. The bytes of a value that is
decoded are bounded, so its object is, too; its text is cut (`values.json_text`).
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from functools import cached_property
from math import isfinite

from pylog.errors import PylogError
from pylog.record import ConsumerRecord
from pylog.runtime.words import size_text
from pylog.serde.registry import AVRO, JSON, PROTOBUF
from pylog.serde.registry_state import RegistryState
from pylog.serde.schema_decoder import SchemaDecoder
from pylog.serde.schema_store import TOPIC, SchemaStore
from pylog.serde.wire import split
from pylog.ui.values import CELL_BYTES, Shown, json_text, shown

__all__ = ["Decoded", "Decoder", "DecodingError", "RecordLine"]

DECODED_BYTES_MAX = 256 << 10
"""How long a value may be to be decoded."""
LINES_BYTES_MAX = 1 << 20
"""How much is decoded for a table of records."""
FORMATS = {AVRO: "Avro", JSON: "JSON Schema", PROTOBUF: "Protobuf"}
WIRE_BYTES_MIN = 5
MSGPACK_FIRST = frozenset((*range(0x80, 0xA0), *range(0xDC, 0xE0)))
"""The first bytes of a map or an array of MessagePack."""


class DecodingError(Exception):
    """The reason why a value is not decoded, for people."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """A plain value, of dicts, lists, texts and numbers, its format, and the id of its schema, where it has one."""

    format: str
    value: object
    schema_id: int | None = None


@dataclass(frozen=True, slots=True)
class RecordLine:
    """A record in a table."""

    record: ConsumerRecord
    key: Shown
    value: Shown


class Decoder:
    """Decodes for one page, by the schemas that the log has then."""

    def __init__(self, store: SchemaStore) -> None:
        self._store = store

    def decode(self, data: bytes | None) -> Decoded | None:
        """The value of some bytes; None where they do not say how. Raises DecodingError."""
        if not data:
            return None
        if data.lstrip()[:1] in (b"{", b"["):
            return _json(_bounded(data))
        return self.decode_binary(data)

    def decode_binary(self, data: bytes) -> Decoded | None:
        """The same, for bytes that are not JSON."""
        if data[0] == 0 and len(data) >= WIRE_BYTES_MIN:
            return self._by_schema(data)
        if data[0] in MSGPACK_FIRST and len(data) <= DECODED_BYTES_MAX:
            return _message_pack(data)
        return None

    def part(self, data: bytes | None, chars_max: int) -> Shown | None:
        """A key or a value for its own page, laid out as JSON; None where its bytes do not say how."""
        size = len(data or b"")
        try:
            decoded = self.decode(data)
            if decoded is None:
                return None
            text, is_cut = json_text(decoded.value, chars_max)
        except (DecodingError, RecursionError) as error:
            return Shown("none", "", size, False, problem=str(error))
        return Shown("json", text, size, is_cut, decoded.format, schema_id=decoded.schema_id)

    def lines(self, records: Iterable[ConsumerRecord]) -> list[RecordLine]:
        """The lines of a table. JSON is shown as it is there."""
        left, lines = LINES_BYTES_MAX, []
        for record in records:
            cells = []
            for data in (record.key, record.value):
                cell = shown(data)
                if data and (cell.kind == "hex" or data[0] == 0):
                    left -= len(data)
                    cell = self._cell(data, cell) if left >= 0 else replace(cell, problem="open its record to see it")
                cells.append(cell)
            lines.append(RecordLine(record, *cells))
        return lines

    def _cell(self, data: bytes, plain: Shown) -> Shown:
        try:
            decoded = self.decode_binary(data)
            if decoded is None:
                return plain
            text, is_cut = json_text(decoded.value, CELL_BYTES, indent=None)
        except (DecodingError, RecursionError) as error:
            return replace(plain, problem=str(error))
        return Shown("json", text, len(data), is_cut, decoded.format)

    @cached_property
    def _state(self) -> RegistryState:
        return self._store.state()

    @cached_property
    def _schemas(self) -> SchemaDecoder:
        return SchemaDecoder(self._state.referenced)

    def _by_schema(self, data: bytes) -> Decoded | None:
        schema_id, payload = split(data)
        try:
            schema = self._state.by_id(schema_id)
        except PylogError as error:
            raise DecodingError(f"topic {TOPIC} cannot be read: {error}") from error
        if schema is None:
            # Any number in eight bytes begins with a zero byte, too: only where there are schemas was one meant.
            if schema_id and self._state.id_max:
                raise DecodingError(f"topic {TOPIC} has no schema with id {schema_id}")
            return None
        name = f"{FORMATS.get(schema.type, schema.type[:40])}, schema {schema_id}"
        _bounded(data)
        try:
            return Decoded(name, _plain(self._schemas.decode(schema, payload)), schema_id)
        except Exception as error:
            # A library raises what it likes for a value, or a schema, that is not one; so does one that is missing.
            raise DecodingError(f"{name}: {type(error).__name__}: {error}") from error


def _bounded(data: bytes) -> bytes:
    if len(data) > DECODED_BYTES_MAX:
        raise DecodingError(f"it has {size_text(len(data))}, more than {size_text(DECODED_BYTES_MAX)}")
    return data


def _json(data: bytes) -> Decoded | None:
    try:
        return Decoded("JSON", json.loads(data))
    except (ValueError, RecursionError) as error:
        if data.lstrip()[:1] == b"[":
            # A line of text, as "[info] started".
            return None
        raise DecodingError(f"JSON: {error}") from error


def _message_pack(data: bytes) -> Decoded | None:
    try:
        from msgspec import DecodeError
        from msgspec.msgpack import decode
    except ModuleNotFoundError:
        return None
    try:
        data.decode()
    except UnicodeDecodeError:
        pass
    else:
        return None
    try:
        return Decoded("MessagePack", _plain(decode(data)))
    except (DecodeError, RecursionError):
        # It was a guess.
        return None


def _plain(value: object) -> object:
    """The same with texts in the place of all that JSON does not have. Raises RecursionError."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        # JSON has neither infinities nor NaN: these are texts, as in Protobuf's JSON.
        return value if isfinite(value) else json.dumps(value)
    if isinstance(value, dict):
        return {key if isinstance(key, str) else _text(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return _text(value)


def _text(value: object) -> str:
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value.hex(" ")
    return str(value)
