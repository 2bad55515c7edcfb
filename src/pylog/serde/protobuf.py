"""Protobuf in Confluent's format: the extra `protobuf`. (Confluent: KafkaProtobufSerializer)

Between the id of the schema and the message stands which message of the file it is: the number of indexes and the
indexes, each a zigzag varint; a single zero for the first message.
"""

from base64 import b64encode
from functools import cache
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from pylog.serde.messages import plain_message
from pylog.serde.registry import PROTOBUF, Reference, Schema, SchemaRegistry
from pylog.serde.serde import Serde
from pylog.serde.wire import head, split

if TYPE_CHECKING:
    import pyarrow
    from google.protobuf.descriptor import Descriptor, FileDescriptor

INDEXES_MOST = 100


class ProtobufMessage(Protocol):
    """A class that protoc has made."""

    DESCRIPTOR: "Descriptor"

    def SerializeToString(self) -> bytes: ...  # noqa: N802
    @classmethod
    def FromString(cls, data: bytes, /) -> Self: ...  # noqa: N802


M = TypeVar("M", bound=ProtobufMessage)


def protobuf(registry: SchemaRegistry, subject: str, message: type[M]) -> Serde[M]:
    r"""Messages of a class that protoc has made.

    `subject`: "orders-value" for the values of a topic `orders`. The file of the message and those that it imports are
    registered with the first one that is written, the latter under their names. Reading needs no registry: fields go by
    their numbers, and unknown ones are kept. Raises, as it is used, SchemaRegistryError, ValueError, TypeError (another
    class), and protobuf's DecodeError.

    >>> from google.protobuf.wrappers_pb2 import StringValue
    >>> names = serde.protobuf(serde.LogRegistry(log), "names-value", StringValue)
    >>> names.serialize(StringValue(value="bob"))
    b'\x00\x00\x00\x00\x01\x02\x0e\n\x03bob'
    """
    wanted = _path(message.DESCRIPTOR)
    indexes = b"\0" if wanted == [0] else b"".join(map(_zigzag, [len(wanted), *wanted]))

    @cache
    def first() -> bytes:
        return head(registry.register(subject, _schema(registry, message.DESCRIPTOR.file))) + indexes

    def serialize(value: M) -> bytes:
        if not isinstance(value, message):
            raise TypeError(f"{type(value).__name__} is not {message.__name__}")
        return first() + value.SerializeToString()

    def deserialize(data: bytes) -> M:
        _, payload = split(data)
        path, rest = split_indexes(payload)
        if path != wanted:
            raise ValueError(f"the message is another one of its file than {message.DESCRIPTOR.full_name}")
        return message.FromString(rest)

    def arrow_type() -> "pyarrow.DataType | None":
        from pylog.serde.arrow_types import of_message

        return of_message(message.DESCRIPTOR)

    return Serde(
        serialize, deserialize, lambda fields: message(**fields), to_plain=plain_message, arrow_type=arrow_type
    )


def _schema(registry: SchemaRegistry, file: "FileDescriptor") -> Schema:
    """The schema of a file; those that it imports are registered. protobuf's own need not be."""
    references = []
    for imported in file.dependencies:
        if not imported.name.startswith("google/protobuf/"):
            registry.register(imported.name, _schema(registry, imported))
            references.append(Reference(imported.name, imported.name, registry.version(imported.name).version))
    return Schema(b64encode(file.serialized_pb).decode(), PROTOBUF, tuple(references))


def _path(descriptor: "Descriptor | None") -> list[int]:
    """The indexes of a message: in its file, and in each message that it is nested in."""
    path: list[int] = []
    while descriptor is not None:
        outer = descriptor.containing_type
        beside = descriptor.file.message_types_by_name if outer is None else outer.nested_types_by_name
        path.insert(0, list(beside).index(descriptor.name))
        descriptor = outer
    return path


def _zigzag(number: int) -> bytes:
    left, out = number << 1, bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def split_indexes(data: bytes) -> tuple[list[int], bytes]:
    """The indexes of a message, [0] for the first of its file, and its bytes. Raises ValueError."""
    count, at = _varint(data, 0)
    if count > INDEXES_MOST:
        raise ValueError(f"{count} indexes of a message are too many")
    path = []
    for _ in range(count):
        index, at = _varint(data, at)
        path.append(index)
    return path or [0], data[at:]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint that is not negative, and where it ends. Raises ValueError."""
    number = 0
    for shift in range(0, 35, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80 and not number & 1:
            return number >> 1, at
        if byte < 0x80:
            break
    raise ValueError("the indexes of the message are damaged")
