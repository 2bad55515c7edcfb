"""The Arrow types of serdes hold what they read, as it is made plain."""

import enum
import uuid
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, Optional, TypedDict

import msgspec
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from google.protobuf.struct_pb2 import Value
from pydantic import BaseModel

import pylog
from pylog import serde
from pylog.serde.arrow_types import of_annotation, of_avro
from pylog.tables.appending.record_columns import objects_of

AT = datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)


class Color(enum.Enum):
    RED = "red"


class Inner(TypedDict):
    x: int


@dataclass
class Everything:
    flag: bool
    number: int
    ratio: float
    text: str
    data: bytes
    at: datetime
    day: date
    clock: time
    span: timedelta
    id: uuid.UUID
    color: Color
    level: Literal["low", "high"] | None
    maybe: Optional[int]  # noqa: UP045 - the older spelling
    many: list[Inner]
    some: list[int] | None
    named: dict[str, float]
    noted: Annotated[set[str], "a note"]


class Model(BaseModel):
    at: datetime
    id: uuid.UUID
    color: Color
    parts: tuple[int, ...] = ()


class Cat(msgspec.Struct, tag="cat", rename={"lives": "Lives"}):
    lives: int


class Dog(msgspec.Struct, tag="dog"):
    good: bool


class Pair(msgspec.Struct, array_like=True):
    one: int


@dataclass
class Node:
    below: "Node | None"


@dataclass
class Broken:
    of: "Nowhere"  # type: ignore[name-defined]  # noqa: F821


def same(of: serde.Serde[Any], value: Any) -> pa.DataType:
    """The type, which holds what is written and read again as pyarrow would take it by itself."""
    assert of.arrow_type is not None and of.to_plain is not None
    kind = of.arrow_type()
    assert kind is not None
    plain = of.to_plain(of.deserialize(of.serialize(value)))
    assert objects_of(pa.array([plain], kind)) == [plain]
    return kind


def test_maps_of_a_table_are_dicts_for_a_serde() -> None:
    maps = pa.map_(pa.string(), pa.int64())
    kind = pa.struct([("a", maps), ("b", pa.list_(maps)), ("c", pa.int64())])
    rows: list[Any] = [{"a": {"x": 1}, "b": [{"y": 2}, None], "c": 3}, {"a": None, "b": None, "c": None}, None]
    with pylog.open(":memory:") as log:
        topic = log.create_topic("t")
        topic.append_table(pa.table({"row": pa.array(rows, kind)}), value=("row", serde.Serde(repr_of, bytes)))
        assert [one.value and one.value.decode() for one in topic.records()] == [repr(rows[0]), repr(rows[1]), None]


def repr_of(value: Any) -> bytes:
    return repr(value).encode()


def test_a_dataclass_of_everything_is_a_struct() -> None:
    of = serde.json(Everything)
    value = Everything(
        True, 1, 0.5, "x", b"\xff", AT, AT.date(), time(3, 4), timedelta(1), uuid.UUID(int=1), Color.RED, "low", None,
        [{"x": 1}], [1, 2], {"a": 1.5}, {"b"},
    )  # fmt: skip
    kind = same(of, value)
    assert kind.field("at").type == pa.timestamp("us", tz="UTC") and kind.field("color").type == pa.string()
    assert kind.field("many").type == pa.list_(pa.struct([("x", pa.int64())]))
    assert kind.field("named").type == pa.map_(pa.string(), pa.float64())


def test_models_and_tagged_structs_are_structs() -> None:
    same(serde.json(Model), Model(at=AT, id=uuid.UUID(int=1), color=Color.RED, parts=(1, 2)))
    assert same(serde.json(list[Model]), [Model(at=AT, id=uuid.UUID(int=2), color=Color.RED)]).value_type
    kind = same(serde.json(Cat), Cat(9))
    assert kind == pa.struct([("type", pa.string()), ("Lives", pa.int64())])
    both = of_annotation(Cat | Dog)
    assert both == pa.struct([("type", pa.string()), ("Lives", pa.int64()), ("good", pa.bool_())])


@pytest.mark.parametrize(
    "annotation", [Any, int | str, Pair, Node, Broken, dict[int, int], object, tuple[int, str], Literal[1, "x"]]
)
def test_what_arrow_has_not_is_left_to_the_values(annotation: Any) -> None:
    assert of_annotation(annotation) is None


def test_plain_serdes_have_types() -> None:
    kinds = [of.arrow_type() for of in (serde.string(), serde.integer(), serde.long()) if of.arrow_type]
    assert kinds == [pa.string(), pa.int32(), pa.int64()]
    assert serde.json().arrow_type is None


AVRO: dict[str, Any] = {
    "type": "record", "name": "shop.Order",
    "fields": [
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}}, {"name": "cents", "type": "int"},
        {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
        {"name": "state", "type": {"type": "enum", "name": "shop.State", "symbols": ["NEW", "OLD"]}},
        {"name": "before", "type": ["null", "shop.State"]},
        {"name": "parts", "type": {"type": "array", "items": "long"}},
        {"name": "names", "type": {"type": "map", "values": "double"}},
        {"name": "hash", "type": {"type": "fixed", "name": "shop.Hash", "size": 2}},
        {"name": "text", "type": {"type": "string", "avro.java.string": "String"}},
    ],
}  # fmt: skip
ORDER = {
    "id": uuid.UUID(int=7), "cents": 3, "total": Decimal("1.50"), "at": AT, "day": None, "state": "NEW",
    "before": "OLD", "parts": [1], "names": {"a": 0.5}, "hash": b"ab", "text": "x",
}  # fmt: skip


def test_an_avro_schema_is_a_struct_and_a_value_without_one_is_as_written() -> None:
    with pylog.open(":memory:") as log:
        registry = serde.LogRegistry(log)
        kind = same(serde.avro(registry, "t-value", AVRO), ORDER)
        assert kind.field("total").type == pa.decimal128(10, 2) and kind.field("cents").type == pa.int32()
        unknown = serde.avro(registry, "t-value").arrow_type
        assert unknown is not None and unknown() is None
    assert of_avro(["null", "int", "string"]) is None
    decimals = [{"type": "bytes", "logicalType": "decimal", "precision": digits} for digits in (38, 39, 76, 77)]
    assert [of_avro(one) for one in decimals] == [pa.decimal128(38), pa.decimal256(39), pa.decimal256(76), None]
    node = {"type": "record", "name": "Node", "fields": [{"name": "below", "type": ["null", "Node"]}]}
    assert of_avro(node) is None


def test_a_schema_of_avro_that_changes_in_the_middle_is_a_column() -> None:
    older = {"type": "record", "name": "P", "fields": [{"name": "cents", "type": "int"}]}
    newer = {**older, "fields": [*older["fields"], {"name": "by", "type": "string", "default": ""}]}
    with pylog.open(":memory:") as log:
        registry, topic = serde.LogRegistry(log), log.create_topic("p")
        rows = pa.table({"cents": [1, 2], "by": ["ada", "bob"]})
        topic.append_table(rows.slice(0, 1), value=serde.avro(registry, "p-value", older), fields=["cents"])
        topic.append_table(rows.slice(1), value=serde.avro(registry, "p-value", newer))
        as_written = topic.select(["value"], value=serde.avro(registry, "p-value"), fields=["cents", "by"]).to_arrow()
        assert as_written.to_pydict() == {"cents": [1, 2], "by": [None, "bob"]}
        read = topic.select(["value"], value=serde.avro(registry, "p-value", newer), fields=["by"]).to_arrow()
        assert read["by"].to_pylist() == ["", "bob"]


def shop() -> Any:
    """A message class with a field of each kind."""
    file = descriptor_pb2.FileDescriptorProto(
        name="shop_tables.proto", package="shop", syntax="proto3", dependency=["google/protobuf/timestamp.proto"]
    )
    of = descriptor_pb2.FieldDescriptorProto
    state = file.enum_type.add(name="State")
    state.value.add(name="NEW", number=0)
    order = file.message_type.add(name="Order")
    entry = order.nested_type.add(name="NamesEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=of.TYPE_STRING, label=of.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=of.TYPE_INT64, label=of.LABEL_OPTIONAL)
    fields: list[tuple[str, Any, Any, str]] = [
        ("cents", of.TYPE_INT32, of.LABEL_OPTIONAL, ""), ("data", of.TYPE_BYTES, of.LABEL_OPTIONAL, ""),
        ("state", of.TYPE_ENUM, of.LABEL_OPTIONAL, ".shop.State"), ("parts", of.TYPE_UINT64, of.LABEL_REPEATED, ""),
        ("names", of.TYPE_MESSAGE, of.LABEL_REPEATED, ".shop.Order.NamesEntry"),
        ("at", of.TYPE_MESSAGE, of.LABEL_OPTIONAL, ".google.protobuf.Timestamp"),
        ("text", of.TYPE_STRING, of.LABEL_OPTIONAL, ""),
    ]  # fmt: skip
    for number, (name, kind, label, type_name) in enumerate(fields, 1):
        order.field.add(name=name, number=number, type=kind, label=label, type_name=type_name or None)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def test_a_message_of_protobuf_is_a_struct() -> None:
    order = shop()
    with pylog.open(":memory:") as log:
        of = serde.protobuf(serde.LogRegistry(log), "t-value", order)
        message = order(cents=3, data=b"\xff", parts=[1, 2], names={"a": 1}, text="x")
        message.at.FromDatetime(AT)
        assert same(of, message).field("names").type == pa.map_(pa.string(), pa.int64())
        assert of.to_plain is not None
        assert of.to_plain(message)["state"] == "NEW" and of.to_plain(order(state=7))["state"] == "7"
        assert of.to_plain(order())["at"] is None
        nested = serde.protobuf(serde.LogRegistry(log), "v-value", Value)
        assert nested.arrow_type is not None and nested.arrow_type() is None
