"""Decoded keys and values as columns: their types, their fields, and records that cannot be decoded."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet
import pytest

import pylog
from pylog import errors, serde

USER = pa.struct([("id", pa.int64()), ("name", pa.string())])
CLICK = pa.struct([("user", USER), ("amount", pa.float64()), ("tags", pa.list_(pa.string()))])
VALUES: list[dict[str, Any]] = [
    {"user": {"id": 0}, "amount": 1},
    {"user": {"id": 1, "name": "ada"}, "amount": 2.5, "tags": ["x"]},
    {"user": {"id": 2}, "amount": 3, "to.do": True},
]


@dataclass
class User:
    id: int
    name: str | None = None


@dataclass
class Click:
    user: User
    amount: float
    tags: list[str] = field(default_factory=list)


@pytest.fixture
def log() -> Iterator[pylog.Log]:
    """Three values of JSON in two partitions, and a tombstone."""
    with pylog.open(":memory:") as log:
        topic = log.create_topic("t", partitions=2)
        for number, value in enumerate(VALUES):
            append(topic, serde.json().serialize(value), number % 2)
        append(topic, None, 1)
        yield log


def append(topic: pylog.TopicView, value: bytes | None, partition: int = 0, key: bytes | None = b"k") -> None:
    topic[partition].append([pylog.Record(value, key)])


def test_a_serde_of_a_type_gives_its_columns(topic: Any) -> None:
    chosen = topic.select(["offset", "value"], value=serde.json(Click))
    assert chosen.schema == pa.schema([("offset", pa.int64()), ("value", CLICK)])
    table = chosen.to_arrow()
    assert table.schema == chosen.schema
    ada = {"user": {"id": 1, "name": "ada"}, "amount": 2.5, "tags": ["x"]}
    assert table["offset"].to_pylist() == [0, 1, 0, 1]
    found = table["value"].to_pylist()
    assert found[2:] == [ada, None] and found[0] == {"user": {"id": 0, "name": None}, "amount": 1.0, "tags": []}
    assert topic[1].select(["value"], value=serde.json(Click)).to_arrow()["value"].to_pylist() == [ada, None]
    assert [record.value for record in chosen.records()][3] is None, "records stay as they are"


def test_fields_take_the_place_of_the_value(topic: Any) -> None:
    names = ["user.id", "amount", "user.name"]
    for values in (serde.json(Click), serde.json()):
        frame = topic.select(["key", "value", "offset"], key=serde.string(), value=values, fields=names).to_polars()
        assert frame.columns == ["key", *names, "offset"]
        assert frame.rows() == [
            ("k", 0, 1.0, None, 0), ("k", 2, 3.0, None, 1), ("k", 1, 2.5, "ada", 0), ("k", None, None, None, 1),
        ]  # fmt: skip
    assert frame.schema["key"] == polars.String
    dotted = topic.select(["value"], value=serde.json(), fields=["to.do", "user.none", "amount.none"])
    assert dotted.to_arrow().to_pylist()[1] == {"to.do": True, "user.none": None, "amount.none": None}


def test_a_schema_that_changes_in_the_middle_holds_all_values(log: pylog.Log) -> None:
    topic = log.topic("t")
    merged = topic.select(["value"], value=serde.json()).schema.field("value").type
    assert merged.field("amount").type == pa.float64()
    assert {one.name for one in merged} == {"user", "amount", "tags", "to.do"}
    assert {one.name for one in merged.field("user").type} == {"id", "name"}
    small = topic.select(["value"], value=serde.json(), fields=["amount"])
    assert [batch.num_rows for batch in small.columns(max_rows=1)] == [1] * 4
    assert pa.Table.from_batches(small.columns(max_rows=1))["amount"].to_pylist() == [1.0, 3.0, 2.5, None]


def test_types_are_given_with_fields(topic: Any) -> None:
    chosen = topic.select(
        ["value"], value=serde.json(), fields={"amount": pa.decimal128(10, 1), "user": pa.map_("string", "string")},
        on_error="column",
    )  # fmt: skip
    assert chosen.schema.names == ["amount", "user", "error"]
    rows = chosen.to_arrow().to_pylist()
    assert [row["error"] is None for row in rows] == [False, False, False, True]
    assert "user is not map<string, string>" in rows[0]["error"]


def test_values_are_cast_to_the_types_that_are_given(log: pylog.Log) -> None:
    topic = log.create_topic("texts")
    for value in ({"at": "2026-01-02T03:04:05Z", "id": 7, "cents": 1.5}, {"at": None, "id": "x7"}, {"at": "never"}):
        append(topic, serde.json().serialize(value))
    kinds = {"at": pa.timestamp("ms", "UTC"), "id": pa.string(), "cents": pa.decimal128(5, 2)}
    table = topic.select(["value"], value=serde.json(), fields=kinds, on_error="column").to_arrow()
    assert [str(one) for one in table["at"].to_pylist()] == ["2026-01-02 03:04:05+00:00", "None", "None"]
    assert table["id"].to_pylist() == ["7", "x7", None] and str(table["cents"][0]) == "1.50"
    assert [error and error.split(":")[0] for error in table["error"].to_pylist()] == [
        None, None, "at is not timestamp[ms, tz=UTC]",
    ]  # fmt: skip


def test_tools_read_decoded_columns_as_a_stream(log: pylog.Log, tmp_path: Any) -> None:
    clicks = log.topic("t").select(["value"], value=serde.json(), fields=["user.id", "amount"])
    assert duckdb.sql('select sum("user.id"), sum(amount) from clicks').fetchall() == [(3, 6.5)]
    assert clicks.to_parquet(tmp_path / "clicks.parquet") == 4
    assert pyarrow.parquet.read_table(tmp_path / "clicks.parquet").schema == clicks.schema
    assert clicks.to_pandas()["amount"].sum() == 6.5
    assert pa.schema(clicks) == clicks.schema


def test_what_is_empty_has_the_schema_of_the_type(log: pylog.Log) -> None:
    empty = log.create_topic("empty")
    assert empty.select(["value"], value=serde.json(Click)).to_arrow().schema == pa.schema([("value", CLICK)])
    untyped = empty.select(["value"], value=serde.json(), fields=["a"], on_error="column").to_arrow()
    assert untyped.schema == pa.schema([("a", pa.null()), ("error", pa.string())]) and untyped.num_rows == 0


def test_what_is_appended_while_it_is_read_is_not_in_it(log: pylog.Log) -> None:
    """Its types were not looked at."""
    topic = log.topic("t")
    for isolation, count in (("read_uncommitted", 4), ("read_committed", 5)):
        chosen: Any = topic.select(["value"], value=serde.json(), fields=["amount"], isolation_level=isolation)
        _, batches = chosen.stream()
        append(topic, b'{"amount": 1}')
        assert sum(batch.num_rows for batch in batches) == count
    assert topic[0].select(["value"], offset=1, end=2, value=serde.json()).to_arrow().num_rows == 1


# --- records that cannot be decoded ---------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [serde.json(), serde.json(Click)])
def test_a_record_that_cannot_be_decoded_is_an_error(log: pylog.Log, topic: Any, values: serde.Serde[Any]) -> None:
    append(log.topic("t"), b"{bad")
    with pytest.raises(
        errors.DeserializationError, match=r"t-0, offset 2: the value cannot be decoded: .*'skip'"
    ) as one:
        topic.select(["value"], value=values).to_arrow()
    assert one.value.record.value == b"{bad" and one.value.offset == 2 and one.value.__cause__ is not None


@pytest.mark.parametrize("values", [serde.json(), serde.json(Click)])
def test_it_is_left_out_or_is_in_a_column_of_errors(log: pylog.Log, topic: Any, values: serde.Serde[Any]) -> None:
    append(log.topic("t"), b"{bad")
    append(log.topic("t"), b"7")
    append(log.topic("t"), b'{"user": {"id": 9}, "amount": 9}', key=b"\xff")
    wanted = {"key": serde.string(), "value": values, "fields": ["user.id", "amount"]}
    skipped = topic.select(["key", "offset", "value"], partitions=[0], on_error="skip", **wanted).to_arrow()
    assert skipped.to_pydict() == {
        "key": ["k", "k"], "offset": [0, 1], "user.id": [0, 2], "amount": [1.0, 3.0],
    }  # fmt: skip
    rows = topic.select(["key", "value"], partitions=[0], on_error="column", **wanted).to_arrow().to_pylist()
    assert [row["user.id"] for row in rows] == [0, 2, None, None, 9]
    assert [row["key"] for row in rows] == ["k"] * 4 + [None]
    assert [row["error"] and row["error"].split(":")[0] for row in rows] == [
        None, None, "the value cannot be decoded", "the value cannot be decoded", "the key cannot be decoded",
    ]  # fmt: skip
    none = log.create_topic("bad")
    append(none, b"{bad")
    assert none.select(["value"], value=values, on_error="skip").to_arrow().num_rows == 0


def test_a_number_that_no_column_holds_is_not_decoded(log: pylog.Log) -> None:
    append(log.topic("t"), b'{"user": {"id": 18446744073709551615}, "amount": 1}')
    chosen = log.topic("t").select(["value"], value=serde.json(Click), fields=["user.id"], on_error="skip")
    assert chosen.to_arrow()["user.id"].to_pylist() == [0, 2, 1, None]
    with pytest.raises(errors.DeserializationError, match=r"user\.id is not int64"):
        log.topic("t").select(["value"], value=serde.json(Click), fields=["user.id"]).to_arrow()


def test_values_of_several_types_ask_for_one(log: pylog.Log) -> None:
    append(log.topic("t"), b'{"amount": "much"}')
    with pytest.raises(ValueError, match=r"'amount' has values .* fields=\{'amount': pyarrow\.string\(\)\}"):
        log.topic("t").select(["value"], value=serde.json(), fields=["amount"]).to_arrow()
    with pytest.raises(ValueError, match=r"'value' has values .* or fields=\[\.\.\.\]"):
        log.topic("t").select(["value"], value=serde.json()).to_arrow()
    with pytest.raises(ValueError, match=r"'amount' has values that are not of one type: Unable to merge"):
        list(log.topic("t").select(["value"], value=serde.json(), fields=["amount"]).columns(max_rows=1))


def test_a_registry_that_does_not_answer_is_no_record_that_fails(log: pylog.Log) -> None:
    nowhere = serde.avro(serde.HttpRegistry("http://127.0.0.1:1"), "t-value")
    append(log.topic("t"), b"\0\0\0\0\1x")
    with pytest.raises(errors.SchemaRegistryError):
        log.topic("t")[0].select(["value"], offset=2, value=nowhere, on_error="skip").to_arrow()


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"fields": ["a"]}, ValueError, "fields are those of a decoded value"),
        ({"value": serde.json(), "fields": "a"}, TypeError, r"\['a'\], not one name"),
        (
            {"value": serde.json(), "fields": ["offset"]},
            ValueError,
            "the field 'offset' has the name of another",
        ),
        ({"value": serde.json(), "fields": ["a", "a"]}, ValueError, "the field 'a' has the name of another"),
        ({"value": serde.json(), "fields": ["error"], "on_error": "column"}, ValueError, "the field 'error' has"),
        ({"value": serde.json(), "on_error": "ignore"}, ValueError, "on_error is 'ignore', and may be one of 'raise'"),
        ({"value": serde.json, "on_error": "skip"}, TypeError, "value is function, not a serde"),
        ({"columns": ["key"], "value": serde.json()}, ValueError, "value is decoded, and not among the columns key"),
    ],
)
def test_wrong_arguments_are_refused_at_once(
    log: pylog.Log, arguments: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        log.topic("t").select(**arguments)


@pytest.mark.parametrize("path", ["usr.id", "user.idd", "amount.x", "usr"])
def test_a_field_that_the_type_has_not_is_refused(log: pylog.Log, path: str) -> None:
    chosen = log.topic("t").select(["value"], value=serde.json(Click), fields=[path])
    with pytest.raises(ValueError, match=r"there is no field '\w+(\.\w+)?'(; the fields are| in a double)"):
        chosen.to_arrow()


def test_a_field_of_a_map_is_one_of_its_values(log: pylog.Log) -> None:
    append(log.create_topic("maps"), b'{"a": 1}')
    chosen = log.topic("maps").select(["value"], value=serde.json(dict[str, int]), fields=["a", "b"])
    assert chosen.schema == pa.schema([("a", pa.int64()), ("b", pa.int64())])
    assert chosen.to_arrow().to_pylist() == [{"a": 1, "b": None}]


def test_a_field_of_a_value_of_a_map_has_its_own_type(log: pylog.Log) -> None:
    """Of a key with a dot the value itself is found."""
    append(log.create_topic("maps"), b'{"ada": {"id": 1}, "b.c": {"id": 2}}')
    chosen = log.topic("maps").select(["value"], value=serde.json(dict[str, User]), fields=["ada.id", "b.c", "ada"])
    assert chosen.schema == pa.schema([("ada.id", pa.int64()), ("b.c", USER), ("ada", USER)])
    assert chosen.to_arrow().to_pylist() == [
        {"ada.id": 1, "b.c": {"id": 2, "name": None}, "ada": {"id": 1, "name": None}}
    ]


def test_a_notebook_shows_decoded_columns(log: pylog.Log) -> None:
    shown = log.topic("t").select(["value"], value=serde.json(), fields=["user.name"])._repr_html_()
    assert "<th>user.name</th>" in shown and "<td>ada</td>" in shown
