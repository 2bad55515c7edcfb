"""The functions that the compiled functions of `schema` call: varints, uuids, strings, tag sections and refusals.

An unsigned varint is seven bits a byte, the lowest first; a set top bit says that more follow, five bytes are the most.
"""

import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NoReturn
from uuid import UUID

from pylog.errors import CorruptBatch, UnsupportedFormat
from pylog.protocol.error_codes import error_code, error_message, of_code
from pylog.protocol.schema.table import ZERO_UUID, Field, Struct

TAGS = "_tags"
MAX_STRING_BYTES = 0x7FFF
ELEMENTS_MAX = 1 << 18
"""How many elements of arrays, and tagged fields that are not known, one message may have in all. An element of a byte
or two takes two hundred as a value: without this limit a frame of 100 MiB takes 10 GiB.
"""
MAX_UVARINT = 0xFFFFFFFF
VARINT_SHIFT_MAX = 28


def uvarint(value: int) -> bytes:
    """`value` as an unsigned varint."""
    if value < 0x80:
        return value.to_bytes(1, "big")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(data: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """The unsigned varint at `position` and where it ends. Raises CorruptBatch (over 32 bits, or cut off)."""
    value = shift = 0
    for place in range(position, len(data)):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > MAX_UVARINT:
                break
            return value, place + 1
        shift += 7
        if shift > VARINT_SHIFT_MAX:
            break
    raise CorruptBatch("a varint is cut off or has more than 32 bits", position=position)


@lru_cache(4096)
def read_uuid(data: bytes) -> UUID:
    """The uuid of 16 bytes. The same few topic ids come again and again, and a cached UUID is faster than a new one."""
    return UUID(bytes=data)


def text(value: str, name: str) -> bytes:
    """A string field in utf-8. Raises ValueError (longer than Kafka reads)."""
    data = value.encode()
    if len(data) > MAX_STRING_BYTES:
        raise ValueError(f"{name} has {len(data)} bytes, a string may have {MAX_STRING_BYTES}")
    return data


class TooManyElements(CorruptBatch):
    """A message has more elements than its reader allows."""


def crowded(position: int) -> NoReturn:
    """Refuse more elements than the reader allows."""
    raise TooManyElements("it has more elements", position=position)


def fail(what: str, position: int) -> NoReturn:
    """Refuse bytes."""
    raise CorruptBatch(what, position=position)


def null(name: str) -> NoReturn:
    """Refuse None."""
    raise ValueError(f"{name} must not be None in this version")


def unsaid(name: str, version: int) -> NoReturn:
    """Refuse a value that this version has no words for."""
    raise UnsupportedFormat(f"version {version} cannot say what {name!r} is: use another version")


def write_tags(write: Callable[[bytes], None], tags: list[tuple[int, bytes]], more: Mapping[int, bytes] | None) -> None:
    """Write a tag section: the known fields that are not at their default, and those kept under `_tags`."""
    tags = sorted([*tags, *(more or {}).items()], key=lambda tag: tag[0])
    write(uvarint(len(tags)))
    for tag, data in tags:
        write(uvarint(tag) + uvarint(len(data)))
        write(data)


def check_extra(value: Struct, fields: tuple[Field, ...], version: int) -> None:
    """Refuse keys that this version cannot say, unless losing them is harmless (Kafka: `ignorable`, or the default).

    Raises: ValueError (no version has the field), UnsupportedFormat.
    """
    known = {field.name: field for field in fields}
    for name in value.keys() - {field.name for field in fields if version in field.versions}:
        if name == TAGS:
            if value[name]:
                raise UnsupportedFormat(f"version {version} has no tagged fields")
            continue
        field = known.get(name)
        if field is None:
            raise ValueError(f"there is no field {name!r}, only {', '.join(known)}")
        given = tuple(value[name]) if field.is_array and value[name] is not None else value[name]
        if not field.ignorable and given != field.default:
            raise UnsupportedFormat(f"version {version} has no field {name!r}: leave it out, or use another version")


UVARINTS = tuple(uvarint(value) for value in range(128))
"""Those of one byte."""

SCOPE: dict[str, object] = {
    "UUID0": ZERO_UUID, "check_extra": check_extra, "crowded": crowded, "error_code": error_code,
    "error_message": error_message, "fail": fail, "join": b"".join, "new": object.__new__, "null": null,
    "of_code": of_code, "pack": struct.pack, "read_uvarint": read_uvarint, "text": text, "unpack": struct.unpack_from,
    "unsaid": unsaid, "uuid": read_uuid, "uvarint": uvarint, "UVARINTS": UVARINTS, "write_tags": write_tags,
}  # fmt: skip
"""The globals of compiled functions."""
