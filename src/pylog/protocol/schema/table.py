"""The table of Kafka's message schemas, `schemas.json.gz`, as values: which fields a message has in which versions.

The file maps the name of a message to its description in Kafka 4.3: `apiKey`, `kind`, `validVersions`,
`flexibleVersions`, `fields` and `commonStructs` (structs named by several fields). A field has `name`, `type` (`[]X`
for an array), `versions`, and where they apply `nullableVersions`, `taggedVersions` and `tag`, `default` and
`ignorable`.

Invariant: read once, at first use, and never changed.
"""

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

TABLE = "schemas.json.gz"
GZIP_WINDOW = 31
ZERO_UUID = UUID(int=0)

FIXED = {
    "bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q", "float64": "d",
    "uuid": "16s",
}  # fmt: skip
"""The types of fixed size, and their letters in `struct`."""
SIZES = {"b": 1, "?": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "d": 8, "16s": 16}
BYTES = frozenset({"bytes", "records"})


class Versions(NamedTuple):
    """A closed range of versions; empty where `low` is above `high`."""

    low: int
    high: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.low <= version <= self.high


NEVER = Versions(1, 0)


def parse_versions(text: str | None) -> Versions:
    """Parse "3", "1-4", "2+" or "none"."""
    if text is None or text == "none":
        return NEVER
    if text.endswith("+"):
        return Versions(int(text[:-1]), 0x7FFF)
    low, _, high = text.partition("-")
    return Versions(int(low), int(high or low))


Struct: TypeAlias = dict[str, Any]
"""A struct as a dict. What a field is stands in the table, under its name."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a struct. `kind` is the type, of the elements where it is an array; `fields` those of a struct."""

    name: str
    kind: str
    is_array: bool
    versions: Versions
    nullable: Versions
    tagged: Versions
    flexible: Versions | None
    tag: int
    ignorable: bool
    default: object
    fields: tuple["Field", ...]
    made: type | None = None
    """The class that its structs are instances of; None: they are dicts."""

    def compact(self, version: int, flexible: bool) -> bool:
        """Whether its length is a varint: only the client id of a request header is not, in a flexible version."""
        return flexible if self.flexible is None else version in self.flexible

    @property
    def element(self) -> "Field":
        """An element of the array."""
        return Field(
            f"{self.name}[]", self.kind, False, self.versions, NEVER, NEVER, self.flexible, -1, False,
            default_of(self.kind, {}), self.fields, self.made,
        )  # fmt: skip


def default_of(kind: str, raw: Struct) -> object:
    """The default of a field: the table's, else the type's. A tuple stands for a list, a dict for a struct.

    Only the text "null" means None: where the table has JSON's null, Kafka's generator takes the default of the type.
    """
    given = raw.get("default")
    if given == "null":
        return None
    if kind == "[]":
        return ()
    if kind in FIXED and kind not in ("bool", "uuid", "float64"):
        return given if isinstance(given, int) else int(given or "0", 0)
    if kind == "records" and "nullableVersions" in raw:
        return None
    simple = {"bool": given in (True, "true"), "uuid": ZERO_UUID, "float64": 0.0, "string": given or ""}
    return simple.get(kind, b"" if kind in BYTES else {})


def parse_fields(raw: Iterable[Struct], common: Mapping[str, list[Struct]]) -> tuple[Field, ...]:
    made = []
    for field in raw:
        kind = field["type"].removeprefix("[]")
        is_array = kind != field["type"]
        inner = field.get("fields") or common.get(kind) or ()
        made.append(
            Field(
                field["name"][0].lower() + field["name"][1:], kind, is_array,
                parse_versions(field.get("versions", field.get("taggedVersions"))),
                parse_versions(field.get("nullableVersions")), parse_versions(field.get("taggedVersions")),
                parse_versions(field["flexibleVersions"]) if "flexibleVersions" in field else None,
                field.get("tag", -1), field.get("ignorable", False), default_of("[]" if is_array else kind, field),
                parse_fields(inner, common),
            )
        )  # fmt: skip
    return tuple(made)


def smallest(field: Field, version: int, flexible: bool) -> int:
    """The fewest bytes that the field takes."""
    if field.is_array or field.kind in BYTES:
        return 1 if field.compact(version, flexible) else 4
    if field.kind in FIXED:
        return SIZES[FIXED[field.kind]]
    if field.kind == "string":
        return 1 if field.compact(version, flexible) else 2
    if version in field.nullable:
        return 1
    inner = [f for f in field.fields if version in f.versions and version not in f.tagged]
    return sum(smallest(f, version, flexible) for f in inner) + flexible


@dataclass(frozen=True, slots=True)
class Message:
    """The table's entry of one message. `api_key` is -1 where it has none (data, headers)."""

    name: str
    kind: str
    api_key: int
    versions: Versions
    flexible: Versions
    fields: tuple[Field, ...]


@lru_cache(1)
def _table() -> dict[str, Struct]:
    from pkgutil import get_data

    data = get_data("pylog.protocol.schema", TABLE)
    assert data is not None, "the package data of pylog is missing: install it again"
    table: dict[str, Struct] = json.loads(zlib.decompress(data, GZIP_WINDOW))
    return table


def load(name: str) -> Message:
    """The message called `name`. Raises KeyError."""
    raw = _table()[name]
    common = {struct["name"]: struct["fields"] for struct in raw.get("commonStructs", ())}
    return Message(
        name, raw["kind"], raw.get("apiKey", -1), parse_versions(raw["validVersions"]),
        parse_versions(raw["flexibleVersions"]), parse_fields(raw["fields"], common),
    )  # fmt: skip


def names(kind: str | None = None) -> list[str]:
    """The names of all messages, or of those of one kind.

    The kinds: request, response, header, metadata, coordinator-key, coordinator-value, data.
    """
    return [name for name, raw in _table().items() if kind in (None, raw["kind"])]
