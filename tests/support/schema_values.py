"""Strategies for messages of Kafka's schemas: any value that a version can say, as the dict that decoding it gives."""

import math
import struct
from typing import Any

from hypothesis import strategies as st

from pylog.protocol.schema.table import BYTES, FIXED, Field, load

RANGES = {
    name: st.integers(*((0, 2**bits - 1) if name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)))
    for name, bits in {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32, "int64": 64}.items()
}
SIMPLE: dict[str, st.SearchStrategy[Any]] = {
    **RANGES,
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False),
    "uuid": st.uuids(),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=150),
    "bytes": st.binary(max_size=150),
    "records": st.binary(max_size=150),
}


def _single(field: Field, version: int, simple: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    named = simple.get(field.name)
    if named is not None:
        return named
    if field.kind in FIXED or field.kind in BYTES or field.kind == "string":
        return simple[field.kind]
    return struct_values(field.fields, version, simple)


def struct_values(
    fields: tuple[Field, ...], version: int, simple: dict[str, st.SearchStrategy[Any]] = SIMPLE
) -> st.SearchStrategy[dict[str, Any]]:
    """Dicts with every field that the version has. `simple` maps types, and names of fields, to what they hold."""
    made: dict[str, st.SearchStrategy[Any]] = {}
    for field in fields:
        if version in field.versions:
            value = _single(field, version, simple)
            value = st.lists(value, max_size=3) if field.is_array else value
            made[field.name] = st.none() | value if version in field.nullable else value
    return st.fixed_dictionaries(made)


def message_values(name: str, version: int) -> st.SearchStrategy[dict[str, Any]]:
    """Values of a whole message."""
    return struct_values(load(name).fields, version)


def same(one: Any, other: Any) -> bool:
    """Whether two values say the same: views equal bytes, and doubles are compared by their bits."""
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float) and not math.isnan(one):
        return struct.pack(">d", one) == struct.pack(">d", other)
    return bool(one == other)
