"""Downloads whose keys and values are decoded."""

import csv
import io
import json
from collections.abc import Iterator

import msgspec
import pytest
from pyarrow import parquet

import pylog
from pylog import serde
from pylog.ui import decoded_rows, download
from support.shop_messages import messages
from support.visitor import Visitor
from unit.ui.conftest import pages_of

FRUIT = messages()["Fruit"]
LONG = "n" * 1000
READING = {
    "type": "record",
    "name": "Reading",
    "fields": [{"name": "of", "type": "string"}, {"name": "degrees", "type": "double"}],
}
NAMES = {"type": "array", "items": {"type": "record", "name": "R", "fields": [{"name": LONG, "type": "int"}]}}
LINE_CHARS = 100_000
AVRO = {"of": "größe", "degrees": 7.5}


@pytest.fixture(scope="module")
def pages() -> Iterator[Visitor]:
    """`mixed` has a record of each format, and what cannot be decoded."""
    with pylog.open(":memory:") as log:
        registry = serde.LogRegistry(log)
        log.create_topic("mixed")
        readings = serde.avro(registry, "readings-value", READING)
        fruit = serde.protobuf(registry, "fruit-value", FRUIT)
        checked = serde.json_schema(registry, "checked-value", {"type": "object"})
        names = serde.avro(registry, "names-value", NAMES)
        with log.producer() as producer:
            for key, value in (
                (b'{"id": 1}', readings.serialize(AVRO)),
                (b"protobuf", fruit.serialize(FRUIT(weight=7))),
                (b"json schema", checked.serialize({"of": "shop"})),
                (b"msgpack", msgspec.msgpack.encode({"of": [1, 2.5], "raw": b"\xff"})),
                (b"half a pair", b'{"a": "\\ud800\\u2028"}'),
                (b"not a number", readings.serialize({"of": "", "degrees": float("nan")})),
                (b"NaN is not JSON", b'{"a": NaN}'),
                (b"no such schema", b"\0\0\0\0\x63payload\xff"),
                (b"long", names.serialize([{LONG: 1}] * 50)),
                (None, None),
                (b"\xff", b"a,b\n"),
            ):
                producer.send("mixed", value, key=key, headers=[("a,=", b"1,2"), ("raw", b"\xff")]).result()
        yield pages_of(log, can_write=False)


@pytest.fixture(autouse=True)
def bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell has so much JSON that the one with long names has more."""
    monkeypatch.setattr(decoded_rows, "JSON_CHARS_MAX", 4 << 10)


def saved(pages: Visitor, kind: str, query: str = "") -> bytes:
    answer = pages.get(f"/topics/mixed/download?format={kind}&decoded=1&{query}")
    assert answer.status == 200, answer.words
    assert answer.headers["content-disposition"] == f'attachment; filename="mixed.decoded.{kind}"'
    return answer.body


DECODED = [AVRO, {"weight": 7}, {"of": "shop"}, {"of": [1, 2.5], "raw": "ff"}, {"a": "\ud800\u2028"}]
DECODED.append({"of": "", "degrees": "NaN"})


def test_json_lines_have_decoded_values_and_say_what_is_not_decoded(pages: Visitor) -> None:
    data = saved(pages, "jsonl")
    lines = [json.loads(line) for line in data.decode().splitlines()]
    assert [one["value"] for one in lines[:6]] == DECODED and lines[0]["key"] == {"id": 1}
    assert [one["key"] for one in lines[1:3]] == ["protobuf", "json schema"]
    assert (lines[6]["value"], lines[6]["problem"]) == (
        '{"a": NaN}',
        "value: it has a number that JSON does not have",
    )
    assert lines[7]["value"] == {"base64": "AAAAAGNwYXlsb2Fk/w=="}
    assert lines[7]["problem"] == "value: topic _schemas has no schema with id 99"
    assert lines[8]["problem"] == "value: its JSON has more than 4.0 KiB"
    assert (lines[9]["key"], lines[9]["value"], lines[9]["problem"]) == (None, None, None)
    assert (lines[10]["key"], lines[10]["value"]) == ({"base64": "/w=="}, "a,b\n")
    assert lines[0]["headers"] == [["a,=", "1,2"], ["raw", {"base64": "/w=="}]]
    assert "größe".encode() in data and b"NaN}" in data and b'"\\ud800\\u2028"' in data


def test_csv_has_json_in_its_cells_and_is_whole(pages: Visitor) -> None:
    rows = list(csv.DictReader(io.StringIO(saved(pages, "csv").decode())))
    assert [json.loads(one["value"]) for one in rows[:6]] == DECODED
    assert (rows[7]["value"], rows[7]["problem"][:12]) == ("AAAAAGNwYXlsb2Fk/w==", "value: topic")
    assert (rows[9]["key"], rows[10]["key"], rows[10]["value"], rows[0]["problem"]) == ("", "/w==", "a,b\n", "")
    assert json.loads(rows[0]["headers"])[0] == ["a,=", "1,2"]


def test_parquet_has_text_and_batches_of_a_bounded_size(pages: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = parquet.read_table(io.BytesIO(saved(pages, "parquet")))
    assert [json.loads(one) for one in whole.column("value").to_pylist()[:6]] == DECODED
    assert whole.column("value").to_pylist()[9] is None and whole.column("key").to_pylist()[10] == "/w=="
    assert whole.column("problem").to_pylist()[8:10] == ["value: its JSON has more than 4.0 KiB", None]
    assert whole.column("offset").to_pylist() == list(range(11))
    monkeypatch.setattr(decoded_rows, "BATCH_CHARS", 1)
    monkeypatch.setattr(download, "GROUP_BYTES", 1)
    assert parquet.read_table(io.BytesIO(saved(pages, "parquet"))) == whole
    assert parquet.read_table(io.BytesIO(saved(pages, "parquet", "where=key=x"))).num_rows == 0


def test_lines_much_longer_than_their_records_come_in_chunks() -> None:
    group: list[pylog.ConsumerRecord] = [None] * 3  # type: ignore[list-item]
    chunks = list(download._lines(iter([group, []]), lambda _: b"x" * LINE_CHARS, b"head"))
    assert [len(one) for one in chunks] == [4 + LINE_CHARS, LINE_CHARS, LINE_CHARS, 0, 0]


def test_the_page_offers_decoded_files_of_what_is_found(pages: Visitor) -> None:
    text = pages.get("/topics/mixed/records?where=value.weight=7").text
    assert "format=parquet&amp;decoded=1&amp;where=value.weight%3D7" in text and 'aria-label="CSV, decoded"' in text
    assert json.loads(saved(pages, "jsonl", "where=value.weight=7"))["value"] == {"weight": 7}
