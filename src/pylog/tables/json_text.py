"""Arrow columns as JSON text, one text a row, without an object a row. It stands on pyarrow, an extra.

Structs and maps are objects, lists are arrays. NaN and infinity are null, as JSON has no such numbers. Times and dates
are text, as ISO 8601; a time with a zone is in UTC. JSON has no bytes: they are refused.
"""

from contextlib import suppress

import numpy as np
import pyarrow as pa
from pyarrow import compute, types

__all__ = ["json_text"]

CONTROLS = {
    **{chr(code): f"\\u{code:04x}" for code in range(0x20)},
    "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r",
}  # fmt: skip
"""Characters that are escaped, besides the quote and the backslash (RFC 8259)."""
UNSAFE = '[\\x00-\\x1f"\\\\]'
UNSAFE_CONTROL = "[\\x00-\\x1f]"


def json_text(cells: pa.Array) -> pa.Array:
    """A column as binary: the JSON of each cell; null stays null. Raises TypeError for a type that JSON lacks."""
    texts = compute.if_else(compute.is_valid(cells), _texts(cells, ""), pa.scalar(None, pa.string()))
    return texts.cast(pa.binary())


def _texts(cells: pa.Array, name: str) -> pa.Array:
    """The same as strings, with "null" for null. `name`: the place in the column, for an error."""
    kind = cells.type
    if isinstance(kind, pa.BaseExtensionType):
        return _texts(cells.storage, name)
    if types.is_dictionary(kind):
        return _texts(cells.dictionary_decode(), name)
    if types.is_null(kind):
        found = pa.nulls(len(cells), pa.string())
    elif types.is_boolean(kind) or types.is_integer(kind) or types.is_decimal(kind):
        found = cells.cast(pa.string())
    elif types.is_floating(kind):
        found = _floats(cells)
    elif str(kind) in ("string", "large_string", "string_view"):
        found = _strings(cells.cast(pa.string()))
    elif types.is_timestamp(kind):
        found = _timestamps(cells)
    elif types.is_date(kind) or types.is_time(kind):
        found = _joined('"', cells.cast(pa.string()), '"')
    elif types.is_struct(kind):
        found = _objects(cells, name)
    elif types.is_map(kind):
        found = _maps(cells, name)
    elif types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        found = _joined("[", _lists(cells, _texts(cells.flatten(), f"{name}[]")), "]")
    else:
        raise TypeError(f"{_place(name)} is {kind}, which JSON lacks: cast it, or leave it out")
    return compute.fill_null(found, "null")


def _place(name: str) -> str:
    return f"the column {name!r}" if name else "the column"


def _joined(*parts: object) -> pa.Array:
    return compute.binary_join_element_wise(*parts, "")


def _floats(cells: pa.Array) -> pa.Array:
    if types.is_float16(cells.type):
        # pyarrow casts them from 21 on. NaN is null in JSON, too.
        cells = pa.array(cells.to_numpy(zero_copy_only=False).astype(np.float32), from_pandas=True)
    texts = cells.cast(pa.string())
    # A float stays one for a reader that tells 1 from 1.0.
    texts = compute.if_else(compute.match_substring_regex(texts, "[.e]"), texts, _joined(texts, ".0"))
    return compute.if_else(compute.is_finite(cells), texts, pa.scalar(None, pa.string()))


def _strings(cells: pa.Array) -> pa.Array:
    if compute.any(compute.match_substring_regex(cells, UNSAFE)).as_py():
        cells = compute.replace_substring(cells, "\\", "\\\\")
        cells = compute.replace_substring(cells, '"', '\\"')
        if compute.any(compute.match_substring_regex(cells, UNSAFE_CONTROL)).as_py():
            for character, escaped in CONTROLS.items():
                cells = compute.replace_substring(cells, character, escaped)
    return _joined('"', cells, '"')


def _timestamps(cells: pa.Array) -> pa.Array:
    zone = cells.type.tz
    if cells.type.unit == "ns":
        # As pandas has them: most have no more than microseconds.
        with suppress(pa.ArrowInvalid):
            cells = cells.cast(pa.timestamp("us", zone))
    # Without its zone, Arrow writes the time in UTC.
    texts = cells.cast(pa.timestamp(cells.type.unit)).cast(pa.string())
    return _joined('"', compute.replace_substring(texts, " ", "T"), '"' if zone is None else 'Z"')


def _objects(cells: pa.Array, name: str) -> pa.Array:
    parts: list[object] = ["{"]
    for number, field in enumerate(cells.type):
        head = _strings(pa.array([field.name]))[0].as_py()
        # `field` of a struct does not look at nulls of the struct itself: those are null as a whole.
        parts += [f"{',' if number else ''}{head}:", _texts(cells.field(number), f"{name}.{field.name}".lstrip("."))]
    text = _joined(*parts, "}") if len(parts) > 1 else pa.array(["{}"] * len(cells), pa.string())
    return compute.if_else(compute.is_valid(cells), text, pa.scalar(None, pa.string()))


def _maps(cells: pa.Array, name: str) -> pa.Array:
    key, item = cells.type.key_type, cells.type.item_type
    if str(key) not in ("string", "large_string", "string_view"):
        raise TypeError(f"{_place(name)} is {cells.type}: the keys of a JSON object are text, cast them")
    lists = cells.cast(pa.list_(pa.struct([("key", key), ("value", item)])))
    pairs = lists.flatten()
    texts = _joined(_strings(pairs.field("key").cast(pa.string())), ":", _texts(pairs.field("value"), f"{name}{{}}"))
    return _joined("{", _lists(lists, texts), "}")


def _lists(cells: pa.Array, texts: pa.Array) -> pa.Array:
    """The texts of the elements of each list, with commas; null for a null."""
    lengths = compute.fill_null(compute.list_value_length(cells), 0).to_numpy(zero_copy_only=False)
    edges = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    found = compute.binary_join(pa.ListArray.from_arrays(pa.array(edges), texts), ",")
    return compute.if_else(compute.is_valid(cells), found, pa.scalar(None, pa.string()))
