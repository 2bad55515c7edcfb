"""The header of a request and of its response.

    request    i16 api key, i16 api version, i32 correlation id, nullable string client id (i16 length)
               in flexible versions, tagged fields
    response   i32 correlation id; in flexible versions, the number of tagged fields, which is 0

A response to ApiVersions never has tagged fields: a client reads it before it knows which versions the server has.
The client id keeps its two-byte length in flexible versions, too. (Kafka: RequestHeader, ResponseHeader, KIP-482.)
"""

import struct
from typing import NamedTuple

from pylog.errors import CorruptBatch
from pylog.protocol.schema import read_uvarint

API_VERSIONS = 18
TAGS_MAX = 64
_FIXED = struct.Struct(">hhih")
_NO_TAGS = b"\0"


class ApiCall(NamedTuple):
    """The first eight bytes of a request. They decide how the rest is read."""

    key: int
    version: int
    correlation_id: int


class RequestHeader(NamedTuple):
    """The header of a request, and where its body begins."""

    key: int
    version: int
    correlation_id: int
    client_id: str
    body_at: int


def read_call(frame: bytearray) -> ApiCall:
    """Read the header of a request frame, and what API call it is. Raises CorruptBatch."""
    if len(frame) < _FIXED.size - 2:
        raise CorruptBatch(f"a request of {len(frame)} bytes has no header", position=0)
    key, version, correlation_id = struct.unpack_from(">hhi", frame)
    return ApiCall(key, version, correlation_id)


def read_header(frame: bytearray, *, flexible: bool) -> RequestHeader:
    """The header of a request whose version is flexible or not. Raises CorruptBatch."""
    try:
        key, version, correlation_id, length = _FIXED.unpack_from(frame)
    except struct.error:
        raise CorruptBatch("a request ends in its header", position=0) from None
    position = _FIXED.size + max(length, 0)
    if position > len(frame):
        raise CorruptBatch("a client id is longer than the request", position=_FIXED.size)
    try:
        client_id = str(frame[_FIXED.size : position], "utf-8")
    except UnicodeDecodeError:
        raise CorruptBatch("a client id is not utf-8", position=_FIXED.size) from None
    if flexible:
        position = _behind_tags(frame, position)
    return RequestHeader(key, version, correlation_id, client_id, position)


def _behind_tags(frame: bytearray, position: int) -> int:
    view = memoryview(frame)
    count, position = read_uvarint(view, position)
    if count > TAGS_MAX:
        raise CorruptBatch(f"a header has {count} tagged fields", position=position)
    for _ in range(count):
        _, position = read_uvarint(view, position)
        size, position = read_uvarint(view, position)
        position += size
    if position > len(frame):
        raise CorruptBatch("a tagged field is longer than the request", position=position)
    return position


def response_header(key: int, correlation_id: int, *, flexible: bool) -> bytes:
    """The header of a response."""
    has_tags = flexible and key != API_VERSIONS
    return correlation_id.to_bytes(4, "big", signed=True) + (_NO_TAGS if has_tags else b"")
