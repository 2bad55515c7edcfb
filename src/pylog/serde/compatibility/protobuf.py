"""Whether messages of one Protobuf file can be read by another one: descriptors in base64, or source text.

Fields go by their numbers. A field may come and go, be renamed, and change between types that have one form on the
wire. It must not change between forms, between one value and several, or be required; a message must not go. Fields
that could all have values must not come into one oneof, where a reader keeps the last one alone.
(Confluent: ProtobufSchemaUtils; https://protobuf.dev/programming-guides/proto3/#updating)
"""

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pylog.serde.compatibility.proto_source import descriptor_of

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

FORMS = (
    ("int32", "int64", "uint32", "uint64", "bool", "enum"), ("sint32", "sint64"), ("string", "bytes"),
    ("fixed32", "sfixed32"), ("fixed64", "sfixed64"),
)  # fmt: skip
"""Types that are read as each other. All others are read as themselves alone."""
BASE64 = re.compile("[A-Za-z0-9+/]*={0,2}")
NAMED = ("message", "group")


def faults(reader: str, writer: str) -> list[str]:
    """The reasons why messages of `writer` cannot be read by `reader`, by the fields. Raises ValueError where one of
    them is not a schema, ImportError without protobuf.
    """
    mine, theirs = dict(_messages(reader)), dict(_messages(writer))
    found = []
    for name, written in theirs.items():
        if name not in mine:
            found.append(f"message {name} is gone")
            continue
        numbers = {field.number: field for field in written.field}
        found += _of_oneofs(name, mine[name], numbers)
        for field in mine[name].field:
            before = numbers.pop(field.number, None)
            found += [f"field {name}.{field.name}: {fault}" for fault in _of_field(field, before)]
    return found


def file_of(text: str) -> "FileDescriptorProto":
    """The FileDescriptorProto of a schema. Raises ValueError for a text that is neither a descriptor in base64 nor a
    source, ImportError without protobuf.
    """
    try:
        from google.protobuf.descriptor_pb2 import FileDescriptorProto
        from google.protobuf.message import DecodeError
    except ModuleNotFoundError as error:
        raise ImportError(f"Protobuf needs protobuf: pip install protobuf ({error})") from error
    if not BASE64.fullmatch(text):
        return descriptor_of(text)
    try:
        return FileDescriptorProto.FromString(b64decode(text, validate=True))
    except (Error, DecodeError) as error:
        raise ValueError(f"it is neither source text nor a descriptor in base64 ({error})") from error


def _messages(text: str) -> Iterator[tuple[str, "DescriptorProto"]]:
    """The messages of a file by name, those in others among them."""
    file = file_of(text)
    waiting = [(file.package, one) for one in file.message_type]
    while waiting:
        outer, message = waiting.pop(0)
        name = f"{outer}.{message.name}" if outer else message.name
        yield name, message
        waiting += [(name, one) for one in message.nested_type]


def _of_oneofs(name: str, message: "DescriptorProto", written: "dict[int, FieldDescriptorProto]") -> list[str]:
    found = []
    oneofs: dict[int, list[FieldDescriptorProto]] = {}
    for field in message.field:
        if field.HasField("oneof_index"):
            oneofs.setdefault(field.oneof_index, []).append(field)
    for members in oneofs.values():
        before = [written[field.number] for field in members if field.number in written]
        # Those that were in one oneof of the writer's came one at a time.
        if len({one.oneof_index if one.HasField("oneof_index") else -one.number for one in before}) > 1:
            names = ", ".join(field.name for field in members if field.number in written)
            found.append(f"fields {names} of {name}: they are in one oneof now, so only one of them is kept")
    return found


def _of_field(field: "FieldDescriptorProto", written: "FieldDescriptorProto | None") -> list[str]:
    """The faults of a field of the reader's, where `written` is the writer's with its number, or None."""
    if written is None:
        return ["it is required, and was not written"] if field.label == field.LABEL_REQUIRED else []
    found = []
    mine, theirs = _type(field), _type(written)
    if mine != theirs and not any(mine in form and theirs in form for form in FORMS):
        found.append(f"it is {mine}, and was {theirs}")
    elif mine in NAMED and field.type_name != written.type_name:
        found.append(f"it is a {field.type_name.lstrip('.')}, and was a {written.type_name.lstrip('.')}")
    if (field.label == field.LABEL_REPEATED) != (written.label == field.LABEL_REPEATED):
        found.append("it is repeated in one of them alone")
    if field.label == field.LABEL_REQUIRED and written.label != field.LABEL_REQUIRED:
        found.append("it is required, and was not")
    return found


def _type(field: "FieldDescriptorProto") -> str:
    name: str = field.Type.Name(field.type)
    return name.removeprefix("TYPE_").lower()
