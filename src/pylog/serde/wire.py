"""Confluent's format of keys and values with a schema: a zero byte, the id of the schema in four bytes, the payload."""

from struct import Struct

_HEAD = Struct(">bI")


def head(schema_id: int) -> bytes:
    """The bytes before the payload."""
    return _HEAD.pack(0, schema_id)


def split(data: bytes) -> tuple[int, bytes]:
    """The id of the schema, and the payload. Raises ValueError for what is not in this format."""
    if len(data) < _HEAD.size or data[0]:
        raise ValueError(f"{data[:8]!r} is not in Confluent's format: a zero byte and the id of a schema come first")
    return _HEAD.unpack_from(data)[1], data[_HEAD.size :]
