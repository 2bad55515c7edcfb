"""The fields of a schema, bound to the attributes of the class of a message.

    class       it has the name of the schema; a struct in it is an inner class, with the name of the struct
    attribute   the name of the field in snake_case: `resourceType` -> `resource_type`
    error       one attribute for two fields, errorCode and errorMessage: a PylogError, or None. partitionErrorCode is
                one, too
    OURS        the metadata of an attribute that is not on the wire; it is at its default when it comes from there

A class has an attribute for each field that any version has, so a field that a version lacks is at its default. A
tagged struct, which is not written where it is at its default, is None then.
"""

import re
from dataclasses import fields, replace
from typing import get_args

from pylog.protocol.messages.message import OURS
from pylog.protocol.schema.table import Field

ERROR, ERROR_CODES, ERROR_MESSAGE = "error", frozenset({"errorCode", "partitionErrorCode"}), "errorMessage"

_CAPITAL = re.compile("([A-Z])")


def attribute(field: Field) -> str:
    """The attribute of a field."""
    is_error = field.name in ERROR_CODES or field.name == ERROR_MESSAGE
    return ERROR if is_error else _CAPITAL.sub(r"_\1", field.name).lower()


def bound(schema: tuple[Field, ...], made: type) -> tuple[Field, ...]:
    """The fields of a struct, those that are structs bound to the classes that the attributes of `made` name."""
    kinds = {one.name: one.type for one in fields(made)}
    return tuple(_bound(field, kinds[attribute(field)]) for field in schema)


def _bound(field: Field, kind: object) -> Field:
    if not field.fields:
        return field
    (made,) = classes_in(kind)
    return replace(field, made=made, fields=bound(field.fields, made))


def classes_in(kind: object) -> list[type]:
    """The classes of messages in an annotation: `list[Part] | None` names Part."""
    if isinstance(kind, type) and hasattr(kind, "__dataclass_fields__"):
        return [kind]
    return [made for inner in get_args(kind) for made in classes_in(inner)]


def ours(made: type) -> list[tuple[str, object]]:
    """The attributes of a class that are not on the wire, and their defaults."""
    return [(one.name, one.default) for one in fields(made) if one.metadata == OURS]
