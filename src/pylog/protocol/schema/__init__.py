"""Kafka's message schemas: requests, responses, metadata records, coordinator records, as values and as bytes.

The table (`schemas.json.gz`, facts of Kafka 4.3) has the fields of each message, their types and their versions. A
message at one version becomes two flat functions, written as source and compiled at first use: no interpreting per
field. The value is a dict, or an instance of a class of `protocol/messages` with the name of the schema. In a dict
fields have Kafka's names in camelCase, and a field that a version lacks is not there; `classes` says what a class has.

    int8 int16 int32 int64 uint16 uint32 float64    big-endian       bool    one byte       uuid    16 bytes, uuid.UUID
    string    i16 length, utf-8     bytes, records    i32 length, a memoryview      []X    i32 count, a list (-1: None)

In flexible versions (KIP-482) lengths and counts are unsigned varints of n + 1 (0: None), and every struct ends with
`uvarint count, (uvarint tag, uvarint size, data)*`. Tagged fields at their default are not written and are read as the
default; unknown tags are kept in a dict, under `"_tags"`, as {tag: bytes}. A nullable struct has a byte before it:
1, or for None -1, inside a tagged field 0. Read `table` first, then `classes`, `compiler`, and `runtime`, which the
compiled functions call.

Invariants: before anything is made of it a length is checked against the bytes that are left, and a count against the
elements that a message may have, too (`runtime.ELEMENTS_MAX`). A damaged or hostile message raises CorruptBatch and
nothing else.
"""

import struct
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast, overload

from pylog.errors import CorruptBatch, UnsupportedFormat
from pylog.kernel.values import BytesLike
from pylog.protocol.schema.classes import attribute, bound
from pylog.protocol.schema.compiler import compile_decode, compile_encode
from pylog.protocol.schema.runtime import ELEMENTS_MAX, TooManyElements, read_uvarint, uvarint
from pylog.protocol.schema.table import Field, Message, Struct, Versions, load, names

if TYPE_CHECKING:
    from pylog.protocol.messages.records import Extent


__all__ = [
    "ELEMENTS_MAX",
    "MessageSchema",
    "Piece",
    "Struct",
    "TooManyElements",
    "message",
    "names",
    "read_uvarint",
    "uvarint",
]

M = TypeVar("M")
Piece: TypeAlias = "BytesLike | Extent"
"""What a piece of an encoded message may be."""
ENCODE_ERRORS = (AttributeError, TypeError, ValueError, struct.error)


class _Form:
    """The compiled functions of one message for one kind of values, by version: for dicts, or for a class."""

    __slots__ = ("decoders", "encoders", "fields", "made")

    def __init__(self, table: Message, made: type | None) -> None:
        self.made = made
        self.fields = table.fields if made is None else bound(table.fields, made)
        self.decoders: dict[int, Callable[..., tuple[object, int]]] = {}
        self.encoders: dict[int, Callable[..., None]] = {}


class MessageSchema:
    """One of Kafka's messages in all of its versions."""

    def __init__(self, table: Message) -> None:
        self._table = table
        self._dicts = _Form(table, None)
        self._of_class: dict[type, _Form] = {}

    @property
    def name(self) -> str:
        """The name of the message, as Kafka's schemas call it."""
        return self._table.name

    @property
    def api_key(self) -> int:
        """The api key of a request or response, the record type of a record; -1 where it has none."""
        return self._table.api_key

    @property
    def versions(self) -> Versions:
        """The lowest and the highest version."""
        return self._table.versions

    @cached_property
    def defaults(self) -> dict[str, object]:
        """The default of each field of the message itself; a tuple stands for a list, a dict for a struct."""
        return {field.name: field.default for field in self._table.fields}

    def is_flexible(self, version: int) -> bool:
        """Whether this version has compact lengths and tags."""
        low, high = self._table.flexible
        return low <= version <= high

    def has_field(self, name: str, version: int) -> bool:
        """True if the top level of the message has a field of this name in this version."""
        return any(field.name == name and version in field.versions for field in self._table.fields)

    def _form(self, made: type) -> _Form:
        """Make the functions for the instances of a class. Another thread may make the same at the same time."""
        if made.__name__ != self.name or not hasattr(made, "__dataclass_fields__"):
            return self._dicts
        form = self._of_class[made] = _Form(self._table, made)
        return form

    def _check(self, version: int) -> None:
        low, high = self._table.versions
        if not low <= version <= high:
            raise UnsupportedFormat(f"{self.name} has the versions {low} to {high}, not {version}")

    @overload
    def decode(
        self, version: int, data: BytesLike, position: int = 0, elements_max: int = ELEMENTS_MAX, into: None = None
    ) -> tuple[Struct, int]: ...
    @overload
    def decode(
        self, version: int, data: BytesLike, position: int = 0, elements_max: int = ELEMENTS_MAX, *, into: type[M]
    ) -> tuple[M, int]: ...
    def decode(
        self, version: int, data: BytesLike, position: int = 0, elements_max: int = ELEMENTS_MAX,
        into: type | None = None,
    ) -> tuple[object, int]:  # fmt: skip
        """The message at `position` (bytes from the start of `data`) and the position after it: a dict, or an instance
        of the class `into`.

        Fields of type records, and in a dict those of type bytes, are views into `data`: copy them where they outlive
        it.
        Raises: UnsupportedFormat (the version), CorruptBatch (the bytes; `position` says where), and of that
        TooManyElements (more than `elements_max`).
        """
        form = self._dicts if into is None else self._of_class.get(into) or self._form(into)
        decoder = form.decoders.get(version)
        if decoder is None:
            self._check(version)
            decoder = compile_decode(form.fields, version, self.is_flexible(version), form.made)
            form.decoders[version] = decoder
        if position < 0:
            raise ValueError(f"position {position} is negative")
        view = memoryview(data)
        try:
            return decoder(view, position, len(view), elements_max)
        except (struct.error, IndexError):
            raise self._corrupt(version, "it ends in the middle of a field", position) from None
        except UnicodeDecodeError as error:
            raise self._corrupt(version, f"a string is not utf-8: {error.reason}", position) from None
        except TooManyElements as error:
            what = f"this {self.name} of version {version} has more than {elements_max} elements"
            raise TooManyElements(what, position=error.position) from None
        except CorruptBatch as error:
            raise self._corrupt(version, error.reason, error.position) from None

    def _corrupt(self, version: int, what: str, position: int | None) -> CorruptBatch:
        return CorruptBatch(f"this is no {self.name} of version {version}: {what}", position=position)

    def encode(self, version: int, value: object) -> bytes:
        """The bytes of a message, a dict or an instance of its class. Missing keys take the default of the field.

        Raises: UnsupportedFormat (the version, or a field that it lacks), ValueError (a value that does not fit).
        """
        return b"".join(cast(list[BytesLike], self.encode_pieces(version, value)))

    def encode_pieces(self, version: int, value: object, *, is_large: bool = False) -> list[Piece]:
        """The same in pieces: what a field of type bytes or records is given is a piece as it is, without a copy, and
        what lies before, between and behind these is one each, empty where there is nothing.

        Such a value needs no more than a length: the bytes of a region of a file may be sent from there. `is_large`:
        the fields are written into one buffer. That takes longer for a few, but a `bytes` for each takes ten times its
        size.
        """
        kind = type(value)
        form = self._dicts if kind is dict else self._of_class.get(kind) or self._form(kind)
        encoder = form.encoders.get(version)
        if encoder is None:
            self._check(version)
            encoder = compile_encode(form.fields, version, self.is_flexible(version), form.made)
            form.encoders[version] = encoder
        pieces: list[Piece] = []
        between: Any = bytearray() if is_large else []

        def whole(piece: Piece) -> None:
            pieces.append(bytes(between) if is_large else b"".join(between))
            pieces.append(piece)
            between.clear()

        try:
            encoder(value, between.extend if is_large else between.append, whole)
        except ENCODE_ERRORS as error:
            where = _misfit(form.fields, value, version, self.is_flexible(version), form.made)
            raise ValueError(f"{self.name} version {version}, {where or 'as a whole'}: {error}") from error
        pieces.append(between if is_large else b"".join(between))
        return pieces


def _misfit(fields: tuple[Field, ...], value: object, version: int, flexible: bool, made: type | None) -> str:
    """The path of the field that does not fit, found by trying them one by one; "" where it is the struct itself."""
    if not isinstance(value, made or Mapping):
        return ""
    for field in fields:
        name = field.name if made is None else attribute(field)
        if version not in field.versions or (isinstance(value, Mapping) and name not in value):
            continue
        given = value[name] if isinstance(value, Mapping) else getattr(value, name)
        try:
            compile_encode((field,), version, flexible, made)(value if made else {name: given}, len, len)
        except ENCODE_ERRORS:
            if field.fields and field.is_array and isinstance(given, list | tuple):
                inner = (
                    f"[{i}].{_misfit(field.fields, item, version, flexible, field.made)}"
                    for i, item in enumerate(given)
                )
                return field.name + next((path for path in inner if not path.endswith(".")), "")
            path = _misfit(field.fields, given, version, flexible, field.made)
            return f"{field.name}.{path}" if path else field.name
    return ""


@lru_cache(None)
def message(name: str) -> MessageSchema:
    """The schema of the message called `name`, for example "FetchRequest" or "PartitionRecord". Raises KeyError."""
    return MessageSchema(load(name))
