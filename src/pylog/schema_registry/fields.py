"""The fields of a request to a registry: parameters of its address, and its body. All of it is a stranger's."""

import json
from typing import NamedTuple, TypeVar

from pylog.errors import SchemaNotFound, SchemaRegistryError
from pylog.serde.registry import Reference, Schema
from pylog.serde.registry_state import LookupFilter

__all__ = ["Body", "Parameters", "SchemaRequest", "integer", "version_of"]

T = TypeVar("T")
Body = dict[str, object]
NOT_FOUND, UNPROCESSABLE, BAD_REQUEST, INVALID_VERSION = 404, 422, 400, 42202
INT_MAX = 2**31 - 1
LATEST = ("latest", "-1")
DEFAULT_CONTEXT = ":.:"
WITHOUT_EFFECT = frozenset({"propagateSchemaTags"})


class Parameters:
    """The parameters of an address, each as it was given first."""

    def __init__(self, given: dict[str, list[str]]) -> None:
        self._given = {name: values[0] for name, values in given.items()}

    def is_true(self, name: str) -> bool:
        """Whether it was given as true."""
        return self.text(name).lower() == "true"

    def text(self, name: str) -> str:
        """Its text; empty where it was not given."""
        return self._given.get(name, "")

    def with_deleted(self) -> LookupFilter:
        """The versions that `deleted` names."""
        return LookupFilter.INCLUDE_DELETED if self.is_true("deleted") else LookupFilter.DEFAULT

    def which(self) -> LookupFilter:
        """The versions that `deleted` and `deletedOnly` name."""
        return LookupFilter.DELETED_ONLY if self.is_true("deletedOnly") else self.with_deleted()

    def page(self, found: list[T]) -> list[T]:
        """The part of a list that `offset` and `limit` name."""
        offset = integer(self._given.get("offset", "0"))
        limit = integer(self._given.get("limit", "-1"))
        rest = found[max(offset, 0) :]
        return rest[:limit] if limit > 0 else rest


def integer(text: str) -> int:
    """A number of 32 bits. Raises SchemaNotFound (404): such an address is not there."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 10 and int(digits) <= INT_MAX):
        raise SchemaNotFound("HTTP 404 Not Found", NOT_FOUND)
    return int(text)


def version_of(text: str) -> int | None:
    """A version in an address; None: the latest. Raises SchemaRegistryError (42202)."""
    if text in LATEST:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and 0 < int(text) <= INT_MAX):
        raise SchemaRegistryError(
            f"The specified version '{text[:100]}' is not a valid version id. Allowed values are between [1, 2^31-1] "
            'and the string "latest"',
            INVALID_VERSION,
        )
    return int(text)


def body_of(data: bytes) -> Body:
    """The object in a body. Raises SchemaRegistryError (400, 422)."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise SchemaRegistryError(f"the body is not JSON: {str(error)[:200]}", BAD_REQUEST) from error
    if not isinstance(found, dict):
        raise SchemaRegistryError("the body is not an object of JSON", UNPROCESSABLE)
    return found


class SchemaRequest(NamedTuple):
    """A schema in a body, and which id and version it wants."""

    schema: Schema
    id: int | None
    version: int | None

    @classmethod
    def of(cls, body: Body) -> "SchemaRequest":
        """Raises SchemaRegistryError (422)."""
        given = {name: one for name, one in body.items() if one is not None and name not in WITHOUT_EFFECT}
        text, kind = given.pop("schema", ""), given.pop("schemaType", "AVRO")
        references = given.pop("references", [])
        schema_id, version = (_number(given.pop(name, None), name) for name in ("id", "version"))
        if given:
            names = ", ".join(sorted(given))[:200]
            raise SchemaRegistryError(f"Unrecognized field: {names}: pylog's registry does not have it", UNPROCESSABLE)
        if not isinstance(text, str) or not isinstance(kind, str) or not isinstance(references, list):
            raise SchemaRegistryError("schema and schemaType are texts, references is a list", UNPROCESSABLE)
        found = Schema(text, kind, tuple(map(_reference, references)))
        return cls(found, schema_id if schema_id != -1 else None, version or None if version != -1 else None)


def _reference(given: object) -> Reference:
    match given:
        case {"name": str(name), "subject": str(subject), "version": int(version)}:
            return Reference(name, subject, version)
    raise SchemaRegistryError("a reference has a name, a subject and a version", UNPROCESSABLE)


def _number(given: object, name: str) -> int | None:
    if given is None:
        return None
    if not isinstance(given, int) or isinstance(given, bool) or not -1 <= given <= INT_MAX:
        raise SchemaRegistryError(f"{name} is not a number from 1 on", UNPROCESSABLE)
    return given
