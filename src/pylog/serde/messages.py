"""Messages of Protobuf as plain values."""

from datetime import UTC
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.protobuf.descriptor import FieldDescriptor
    from google.protobuf.message import Message

__all__ = ["is_repeated", "plain_message"]

LABEL_REPEATED = 3


def is_repeated(field: "FieldDescriptor") -> bool:
    """Whether a field is a list. protobuf 7 has dropped `label`, and those before 6.31 have no `is_repeated`."""
    return bool(field.is_repeated if hasattr(field, "is_repeated") else field.label == LABEL_REPEATED)


def plain_message(message: "Message") -> object:
    """A message as a dict of its fields: null for one that is not set and has no default, enums by their names."""
    if message.DESCRIPTOR.full_name == "google.protobuf.Timestamp":
        return message.ToDatetime(tzinfo=UTC)
    return {field.name: _cell(message, field) for field in message.DESCRIPTOR.fields}


def _cell(message: "Message", field: "FieldDescriptor") -> object:
    value, of = getattr(message, field.name), field.message_type
    if of is not None and of.GetOptions().map_entry:
        return {key: _one(one, of.fields_by_name["value"]) for key, one in value.items()}
    if is_repeated(field):
        return [_one(one, field) for one in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _one(value, field)


def _one(value: "Message | object", field: "FieldDescriptor") -> object:
    if field.message_type is not None:
        return plain_message(value)
    if field.enum_type is not None:
        named = field.enum_type.values_by_number.get(value)
        return str(value) if named is None else named.name
    return value
