"""Serdes over columns of Arrow: the bytes are those that `serialize` gives cell by cell."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pyarrow as pa
import pytest
from google.protobuf.struct_pb2 import Value
from pydantic import BaseModel, Field

import pylog
from pylog import serde


@dataclass
class Point:
    x: int
    name: str = "p"


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]


@pytest.mark.parametrize(
    ("of", "column"),
    [
        (serde.string(), pa.array(["a", None, "é", ""])),
        (serde.string("UTF8"), pa.array(["a", None], pa.large_string())),
        (serde.integer(), pa.array([1, None, -(2**31), 2**31 - 1])),
        (serde.integer(), pa.array([1, 2, 3], pa.uint8()).slice(1)),
        (serde.long(), pa.array([1, None, -(2**63), 2**63 - 1])),
        (serde.json(), pa.array([{"a": [1, None], "b": "x\n"}, None, {"a": None, "b": ""}])),
    ],
)
def test_a_column_has_the_bytes_of_its_cells(of: serde.Serde[Any], column: "pa.Array[Any]") -> None:
    assert of.serialize_column is not None
    found = of.serialize_column(column)
    assert found.type == pa.binary()
    assert found.to_pylist() == [None if one is None else of.serialize(one) for one in column.to_pylist()]


def test_a_number_that_does_not_fit_is_arrows_error() -> None:
    of = serde.integer()
    assert of.serialize_column is not None
    with pytest.raises(pa.ArrowInvalid, match="4294967296 not in range"):
        of.serialize_column(pa.array([1 << 32]))
    assert serde.string("latin-1").serialize_column is None


@pytest.mark.parametrize(
    ("of", "plain", "made"),
    [
        (serde.json(Point), {"x": 1}, Point(1)),
        (serde.json(Cat), {"kind": "cat", "lives": 9}, Cat(kind="cat", lives=9)),
        (serde.json(Annotated[Cat | Dog, Field(discriminator="kind")]), {"kind": "dog"}, Dog(kind="dog")),
    ],
)
def test_a_row_becomes_an_object_of_the_type(of: serde.Serde[Any], plain: dict[str, Any], made: Any) -> None:
    assert of.from_plain is not None and of.from_plain(plain) == made
    with pytest.raises(ValueError, match=r"valid|Expected `int`"):
        of.from_plain({"x": "no number", "kind": "cow"})


def test_rows_of_a_table_become_messages() -> None:
    with pylog.open(":memory:") as log:
        values = serde.protobuf(serde.LogRegistry(log), "t-value", Value)
        topic = log.create_topic("t")
        topic.append_table(pa.table({"string_value": ["x"]}), value=values)
        (record,) = topic.records()
        assert record.value is not None and values.deserialize(record.value).string_value == "x"
