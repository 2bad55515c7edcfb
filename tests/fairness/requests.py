"""Requests in which one array, text or blob is as large as it may be: one for each field of each schema.

The usual request of a key (`support.every_request`) with one field changed. An array gets as many elements as fit into
the size of the attack: each with texts and numbers of its own, or all the same. In the highest version that has the
field.
"""

import struct
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any
from uuid import UUID

from fairness.attack import PATIENCE_SECONDS, Attack, Strike, one_request
from pylog.protocol import schema
from pylog.protocol.schema.table import BYTES, FIXED, SIZES, Field, load
from pylog.server.calls import elements_max
from support.every_request import fitting, requests_for
from support.raw_client import Body
from wirefuzz.sockets import WAITING

Path = tuple[str, ...]
Make = Callable[[], bytes]
ELEMENTS_MAX = 65_000
"""How many elements a request has at most, in all of its arrays: pylog refuses more than 65,536, and fewer of few
bytes (`elements_max`).
"""
FEW_ELEMENTS = 200
ROOM = 100
"""How many elements a usual request has besides."""
MARK = "\u00b5mark"
LONGEST_TEXT = 32_767
"""The longest text of Kafka's protocol, in bytes."""
IS_ONE_OF = frozenset({
    "resourceType", "configOperation", "keyType", "mechanism", "operation", "permissionType", "resourcePatternType",
    "patternType", "matchType", "upgradeType", "operationType",
})  # fmt: skip
"""Numbers that are words: those of the usual request stay."""


def attacks(topic: str, topic_id: UUID, served: dict[int, tuple[int, int]], size: int) -> Iterator[Attack]:
    """The attacks of every key that is served, in the versions `served`."""
    for said, make in frames(topic, topic_id, served, size):
        seconds = PATIENCE_SECONDS if said.partition(" ")[0] in WAITING else 60.0
        yield Attack(said, partial(_strike, make, seconds))


def _strike(make: Make, seconds: float) -> Strike:
    return one_request(make(), seconds)


def frames(
    topic: str, topic_id: UUID, served: dict[int, tuple[int, int]], size: int
) -> Iterator[tuple[str, Make]]:  # fmt: skip
    """The requests, by a name each that begins with that of the key; each is made when it is asked for."""
    for name, (body, _) in requests_for(topic, topic_id).items():
        request = schema.message(f"{name}Request")
        low, high = served.get(request.api_key, (1, 0))
        versions = range(max(low, request.versions[0]), min(high, request.versions[1]) + 1)
        for path, field, version in _fields(load(request.name).fields, versions):
            yield from _of_field(name, body, path, field, version, size)


def _fields(fields: tuple[Field, ...], versions: range, above: Path = ()) -> Iterator[tuple[Path, Field, int]]:
    """Each field that has a length, by its path, with the highest of the versions that has it."""
    for field in fields:
        inside = [version for version in versions if version in field.versions]
        if not inside:
            continue
        path = (*above, field.name)
        if field.is_array or field.kind == "string" or field.kind in BYTES:
            yield path, field, inside[-1]
        if field.fields:
            yield from _fields(field.fields, range(inside[0], inside[-1] + 1), path)


def _of_field(
    name: str, body: Body, path: Path, field: Field, version: int, size: int
) -> Iterator[tuple[str, Make]]:  # fmt: skip
    said = f"{name} {version} {'.'.join(path)}"
    if field.is_array:
        for kind in ("distinct", "same", *(["longest"] if field.kind == "string" else [])):
            yield f"{said}, {kind}", partial(_with_elements, name, version, body, path, kind, size)
    elif field.kind == "string":
        yield f"{said}, longest", partial(_with_value, name, version, body, path, "x" * LONGEST_TEXT)
        if schema.message(f"{name}Request").is_flexible(version):
            yield f"{said}, too long", partial(_with_text, name, version, body, path, size)
    else:
        yield f"{said}, longest", partial(_with_value, name, version, body, path, bytes(size))


def _frame(name: str, version: int, data: bytes) -> bytes:
    request = schema.message(f"{name}Request")
    tags = b"\0" if request.is_flexible(version) else b""
    return struct.pack(">hhih", request.api_key, version, 1, 4) + b"fair" + tags + data


def _encoded(name: str, version: int, body: Body) -> bytes:
    return schema.message(f"{name}Request").encode(version, body)


def _with_value(name: str, version: int, body: Body, path: Path, value: Any) -> bytes:
    fields = load(f"{name}Request").fields
    return _frame(name, version, _encoded(name, version, _set(fields, version, body, path, value)))


def _with_text(name: str, version: int, body: Body, path: Path, size: int) -> bytes:
    """A text that is longer than the encoder allows."""
    fields = load(f"{name}Request").fields
    data = _encoded(name, version, _set(fields, version, body, path, MARK))
    mark = MARK.encode()
    before, found, after = data.partition(schema.uvarint(len(mark) + 1) + mark)
    assert found, f"{name} {version} has no {path}"
    return _frame(name, version, before + schema.uvarint(size + 1) + b"x" * size + after)


def _with_elements(name: str, version: int, body: Body, path: Path, kind: str, size: int) -> bytes:
    fields = load(f"{name}Request").fields
    field, given = _at(fields, version, body, path)
    template = given[0] if given else None

    def made(number: int) -> Any:
        return _element(field.element, version, template, None if kind == "same" else number, is_long=kind == "longest")

    def frame(most: int) -> bytes:
        each, elements = max(_size(made(10_000)), 1), 1 + _elements(made(10_000))
        count = max(min(size // each, most // elements), 1)
        changed = _set(fields, version, body, path, list(islice(map(made, range(ELEMENTS_MAX)), count)))
        return _frame(name, version, _encoded(name, version, changed))

    allowed = elements_max(len(frame(FEW_ELEMENTS)) * ELEMENTS_MAX // FEW_ELEMENTS)
    return frame(ELEMENTS_MAX if allowed >= ELEMENTS_MAX else elements_max(0) - ROOM)


def _at(fields: tuple[Field, ...], version: int, body: Any, path: Path) -> tuple[Field, Any]:
    """The field at a path, and its value in the first element of each array above; None where there is none."""
    field = next(one for one in fields if one.name == path[0])
    given = body.get(path[0]) if isinstance(body, dict) else None
    if len(path) == 1:
        return field, given
    inner = (given[0] if given else None) if field.is_array else given
    return _at(field.fields, version, inner, path[1:])


def _set(fields: tuple[Field, ...], version: int, body: Any, path: Path, value: Any) -> Body:
    """The body with another value at a path, in the fields of this version."""
    found = fitting(fields, version, body or {})
    field = next(one for one in fields if one.name == path[0])
    if len(path) == 1:
        return {**found, path[0]: value}
    given = found.get(path[0])
    inner = (given[0] if given else None) if field.is_array else given
    if inner is None:
        inner = {one.name: _value(one, version, None, 0) for one in field.fields if _is_plain(one, version)}
    made = _set(field.fields, version, inner, path[1:], value)
    return {**found, path[0]: [made] if field.is_array else made}


def _is_plain(field: Field, version: int) -> bool:
    return version in field.versions and version not in field.tagged


def _element(field: Field, version: int, template: Any, number: int | None, *, is_long: bool = False) -> Any:
    """An element: the template, or a value of its own for each number."""
    if is_long:
        return f"{number}".ljust(LONGEST_TEXT, "x")
    if not field.fields:
        return template if number is None and template is not None else _value(field, version, None, number or 0)
    given = fitting(field.fields, version, template or {})
    return {
        one.name: _value(one, version, given.get(one.name), number)
        for one in field.fields
        if _is_plain(one, version) or one.name in given
    }


def _value(field: Field, version: int, given: Any, number: int | None) -> Any:
    """The value of a field of an element: the given one where the elements are all the same, or a word."""
    if number is None and given is not None:
        return given
    number = number or 0
    if field.is_array:
        first = given[0] if given else None
        return [_element(field.element, version, first, number)]
    if field.fields:
        return _element(field, version, given, number)
    if field.kind == "string":
        return given if _is_word(field, given) else f"n{number}"
    if field.kind == "uuid":
        return UUID(int=number + 1)
    if field.kind in FIXED and field.kind not in ("bool", "float64"):
        if field.name in IS_ONE_OF and given is not None:
            return given
        bits = 8 * SIZES[FIXED[field.kind]]
        return number % (1 << (bits - 1))
    return given if given is not None else field.default


def _is_word(field: Field, given: Any) -> bool:
    return given is not None and field.name in ("value", "metadata", "path")


def _elements(value: Any) -> int:
    """How many elements the arrays in a value have."""
    if isinstance(value, dict):
        return sum(map(_elements, value.values()))
    return sum(1 + _elements(one) for one in value) if isinstance(value, list | tuple) else 0


def _size(value: Any) -> int:
    """About how many bytes a value takes."""
    if isinstance(value, dict):
        return sum(map(_size, value.values()))
    if isinstance(value, list | tuple):
        return 2 + sum(map(_size, value))
    return 2 + len(value) if isinstance(value, str | bytes | memoryview) else 16 if isinstance(value, UUID) else 4
