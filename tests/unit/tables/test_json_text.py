"""Columns as JSON text: what Python's json makes of each cell, for every type of Arrow that JSON has."""

import json
import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pylog.tables.json_text import json_text

AT = datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)
STRING, INT = pa.string(), pa.int64()
EVIL = ['a"b\\c/d', "".join(map(chr, range(0x20))), "é\u2028\U0001f600\x7f", "", "plain", "\\u0041"]


def texts(column: "pa.Array[Any]") -> list[str | None]:
    return [None if one is None else one.decode() for one in json_text(column).to_pylist()]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, -(2**63), None]),
        pa.array([2**64 - 1], pa.uint64()),
        pa.array([True, False, None]),
        pa.array([1.0, 0.1, 1e300, -1.5e-7, -0.0, 123456789.0, None]),
        pa.array([0.5, 1.0], pa.float32()),
        pa.array(EVIL),
        pa.array(EVIL, pa.large_string()),
        pa.array(["x", None, "x"]).dictionary_encode(),
        pa.nulls(2),
        pa.array([[1, None], [], None, [2]]),
        pa.array([["a"], None], pa.large_list(STRING)),
        pa.array([[1, 2], None, [3, None]], pa.list_(INT, 2)),
        pa.array([{"a": 1, 'q"': {"b": ["x", None]}}, {"a": None, 'q"': None}, None]),
        pa.array([{}, None], pa.struct([])),
        pa.ExtensionArray.from_storage(pa.opaque(STRING, "text", "here"), pa.array(["x"])),
    ],
    ids=lambda column: str(column.type),
)  # fmt: skip
def test_a_cell_is_the_json_of_its_value(column: "pa.Array[Any]") -> None:
    """Slices, too: Arrow's children do not know of them."""
    for part in (column, column.slice(1), column.slice(0, 1), column.slice(0, 0)):
        wanted = [None if one is None else json.dumps(one, separators=(",", ":"), ensure_ascii=False)
                  for one in part.to_pylist()]  # fmt: skip
        found = texts(part)
        assert [one and json.loads(one) for one in found] == [one and json.loads(one) for one in wanted]
        assert [type(json.loads(one)) for one in found if one] == [type(json.loads(one)) for one in wanted if one]
        if not pa.types.is_floating(column.type) and not pa.types.is_string(column.type):
            assert len("".join(filter(None, found))) == len("".join(filter(None, wanted)))


def test_maps_are_objects_and_their_keys_are_text() -> None:
    column = pa.array([[("a", 1), ('"', None)], [], None], pa.map_(STRING, INT))
    assert texts(column) == ['{"a":1,"\\"":null}', "{}", None]
    assert texts(column.slice(1)) == ["{}", None]
    with pytest.raises(TypeError, match=r"the column is map<int64, int64>: the keys of a JSON object are text"):
        texts(pa.array([[(1, 1)]], pa.map_(INT, INT)))


def test_times_are_text_and_those_with_a_zone_are_in_utc() -> None:
    assert texts(pa.array([AT, None], pa.timestamp("ms", "Asia/Tokyo"))) == ['"2026-01-02T03:04:05.678Z"', None]
    assert texts(pa.array([AT.replace(tzinfo=None)], pa.timestamp("s"))) == ['"2026-01-02T03:04:05"']
    assert texts(pa.array([AT], pa.timestamp("ns", "UTC"))) == ['"2026-01-02T03:04:05.678000Z"']
    assert texts(pa.array([1], pa.timestamp("ns"))) == ['"1970-01-01T00:00:00.000000001"']
    assert texts(pa.array([date(2026, 1, 2)])) == ['"2026-01-02"']
    assert texts(pa.array([time(3, 4)], pa.time32("s"))) == ['"03:04:00"']


def test_numbers_that_json_has_not_are_null() -> None:
    assert texts(pa.array([math.nan, math.inf, -math.inf, 2.5])) == ["null", "null", "null", "2.5"]
    assert texts(pa.array([[math.nan, 2.5]])) == ["[null,2.5]"]
    assert texts(pa.array([Decimal("1.50"), None])) == ["1.50", None]
    assert texts(pa.array([np.float16(0.5)])) == ["0.5"]


@pytest.mark.parametrize(
    ("column", "where"),
    [
        (pa.array([b"x"]), "the column is binary"),
        (pa.array([{"a": {"b": [b"x"]}}]), r"the column 'a\.b\[\]' is binary"),
        (pa.array([1], pa.duration("s")), r"the column is duration\[s\], which JSON lacks: cast it, or leave it out"),
    ],
)
def test_what_json_lacks_is_refused_with_its_place(column: "pa.Array[Any]", where: str) -> None:
    with pytest.raises(TypeError, match=where):
        json_text(column)
