"""Filters of records that name a field, and the download of what they find."""

import csv
import io
import json
import re
from collections.abc import Iterator

import pyarrow.parquet as parquet
import pytest

import pylog
from pylog import serde
from pylog.testing import SimClock
from pylog.ui import download, reading
from pylog.ui.reading import Reader
from support.visitor import Answer, Visitor
from unit.ui.conftest import pages_of

ORDERS = [
    {"user": {"id": "ann", "age": 30}, "items": [{"sku": "red shoe"}, {"sku": "hat"}], "paid": True, "note": None},
    {"user": {"id": "Bob", "age": 4.5}, "items": [], "paid": False},
    {"user": {"id": "cy", "age": "n/a"}, "big": 2**60 + 1},
]
USER = {"type": "record", "name": "User", "fields": [{"name": "id", "type": "string"}]}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pylog.Log]:
    """`orders`: three of JSON, one of Avro, a tombstone, text; two partitions."""
    with pylog.open(tmp_path_factory.mktemp("ui") / "data", flush="none") as opened:
        opened.create_topic("orders", partitions=2)
        with opened.producer() as producer:
            for number, order in enumerate(ORDERS):
                headers = [("trace", b"%d" % number), ("a.b", None)]
                producer.send("orders", json.dumps(order).encode(), key=b"user-%d" % number, partition=0,
                              timestamp_ms=1000 * number, headers=headers).result()  # fmt: skip
            users = serde.avro(serde.LogRegistry(opened), "orders-value", USER)
            producer.send("orders", users.serialize({"id": "dee"}), partition=1, timestamp_ms=10_000).result()
            producer.send("orders", None, key=b'{"of": 7}', partition=1, timestamp_ms=11_000).result()
            producer.send("orders", b'{"not JSON', key=b"\xff", partition=1, timestamp_ms=12_000).result()
            producer.send("orders", b'{"deep":' + b"[" * 900 + b"]" * 900 + b"}", partition=1).result()
        yield opened


@pytest.fixture
def pages(log: pylog.Log) -> Visitor:
    return pages_of(log)


def quoted(where: str) -> str:
    return "".join(f"%{byte:02x}" for byte in where.encode())


def found(pages: Visitor, where: str) -> set[str]:
    """The places of the records that a page shows for a filter."""
    answer = pages.get(f"/topics/orders/records?where={quoted(where)}")
    assert answer.status == 200, answer.words
    return set(re.findall(r">(\d+:\d+)</a></td>", answer.text))


ALL = {"0:0", "0:1", "0:2", "1:0", "1:1", "1:2", "1:3"}


@pytest.mark.parametrize(
    ("where", "places"),
    [
        ("", ALL),
        ("key=user-1", {"0:1"}),
        ("key!=user-1 partition=0", {"0:0", "0:2"}),
        ("key ~ USER", {"0:0", "0:1", "0:2"}),
        ("key.of=7", {"1:1"}),
        ("key=null", {"1:0", "1:3"}),
        ("value=null", {"1:1"}),
        ("value.user.id=ann", {"0:0"}),
        ("value.user.id=bob", set()),
        ("value.user.id~b", {"0:1"}),
        ("value.id=dee", {"1:0"}),
        ("value.user.age>=4.5", {"0:0", "0:1", "0:2"}),
        ("value.user.age<30", {"0:1"}),
        ("value.user.age<30 value.user.id~b", {"0:1"}),
        ("value.user.age=30.0", {"0:0"}),
        ("value.paid=true", {"0:0"}),
        ("value.paid>false", set()),
        ("value.note=null", {"0:0"}),
        ('value.items.sku="red shoe"', {"0:0"}),
        ("value.items.1.sku=hat", {"0:0"}),
        ("value.items.9.sku=hat", set()),
        ("value.items~hat", {"0:0"}),
        (f"value.big={2**60 + 1}", {"0:2"}),
        (f"value.big={2**60}", set()),
        (f"value.deep{'.x' * 400}=1", set()),
        ("value.none=1", set()),
        ("value.user.id.x=1", set()),
        ("value.none!=1", set()),
        (r'key!="a\"b\\"', ALL - {"1:0", "1:3"} | {"1:0", "1:3"}),
        ("header.trace>0", {"0:1", "0:2"}),
        ("header.a.b=null value.user.id=cy", {"0:2"}),
        ("offset>=1 offset<2", {"0:1", "1:1"}),
        ("offset>1 offset<=2", {"0:2", "1:2"}),
        ("offset=2", {"0:2", "1:2"}),
        ("offset!=2 partition=1", {"1:0", "1:1", "1:3"}),
        ("offset>90", set()),
        ("time<1970-01-01T00:00:02", {"0:0", "0:1"}),
    ],
)
def test_records_are_found_by_their_fields(pages: Visitor, where: str, places: set[str]) -> None:
    assert found(pages, where) == places


def test_offsets_bound_what_is_read(log: pylog.Log, pages: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "SCAN_RECORDS_MAX", 2)
    assert found(pages, "offset=0") == {"0:0", "1:0"}


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("user", "'user' is not FIELD=VALUE"),
        ('key="open', "is not FIELD=VALUE"),
        ("key=1 <script>", "'<script>' is not FIELD=VALUE"),
        ("age=1", "age= is not a field to compare"),
        ("offset~1", "offset~ is not a field to compare"),
        ("header=1", "header= is not a field to compare"),
        ("offset.a=1", "offset.a= is not a field to compare"),
        ("offset=x", "offset is 'x', not a whole number"),
        ("time=soon", "time is 'soon', not a time"),
    ],
)
def test_a_filter_that_cannot_be_read_says_why(pages: Visitor, where: str, why: str) -> None:
    answer = pages.get(f"/topics/orders/records?where={quoted(where)}")
    assert answer.status == 400 and why in answer.words


def test_what_is_followed_goes_through_the_filter(pages: Visitor) -> None:
    said = json.loads(pages.get(f"/topics/orders/follow?after=0-0.1-0&where={quoted('value.user.id=ann')}").body)
    assert said["count"] == 1 and "ann" in said["html"]


# --- download --------------------------------------------------------------------------------------------------------


def saved(pages: Visitor, kind: str, query: str = "", topic: str = "orders") -> Answer:
    return pages.get(f"/topics/{topic}/download?format={kind}&{query}")


def test_what_is_found_is_saved_as_json_lines(pages: Visitor) -> None:
    answer = saved(pages, "jsonl", f"where={quoted('value.user.id~b')}")
    assert answer.headers["content-disposition"] == 'attachment; filename="orders.jsonl"'
    line = json.loads(answer.body)
    assert (line["offset"], line["key"], json.loads(line["value"])) == (1, "user-1", ORDERS[1])
    places = [(one["partition"], one["offset"]) for one in map(json.loads, saved(pages, "jsonl").text.splitlines())]
    assert places == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3)]


@pytest.mark.parametrize(
    ("query", "offsets"),
    [("partition=0&offset=1", [1, 2]), ("partition=0&before=2", [0, 1]), ("time=1970-01-01T00:00:02", [2, 0, 1, 2, 3])],
)
def test_a_download_begins_and_ends_where_the_page_does(pages: Visitor, query: str, offsets: list[int]) -> None:
    assert [json.loads(line)["offset"] for line in saved(pages, "jsonl", query).text.splitlines()] == offsets


def test_what_is_found_is_saved_as_csv(pages: Visitor) -> None:
    rows = list(csv.DictReader(io.StringIO(saved(pages, "csv", "partition=0&where=offset<2").text)))
    assert [json.loads(row["value"]) for row in rows] == ORDERS[:2]


def test_what_is_found_is_saved_as_parquet(pages: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "GROUP_BYTES", 1)
    monkeypatch.setattr(download, "CHUNK_BYTES", 1)
    file = parquet.ParquetFile(io.BytesIO(saved(pages, "parquet").body))
    assert file.metadata.num_row_groups == 7
    assert file.read().column("key").to_pylist() == [b"user-0", b"user-1", b"user-2", None, b'{"of": 7}', b"\xff", None]
    empty = parquet.read_table(io.BytesIO(saved(pages, "parquet", "where=key=x").body))
    assert empty.num_rows == 0


def test_a_download_has_so_many_records_and_no_more(pages: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "RECORDS_MAX", 2)
    assert len(saved(pages, "jsonl").text.splitlines()) == 2
    monkeypatch.setattr(download, "PAUSE_RECORDS", 1)
    assert saved(pages, "jsonl", "where=key=x").body == b""


def test_what_goes_wrong_at_once_is_a_page(pages: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    assert saved(pages, "xml").status == 400
    assert saved(pages, "jsonl", "where=x").status == 400
    assert saved(pages, "jsonl", topic="none").status == 404
    monkeypatch.setattr(download, "MS_MAX", 0)
    answer = saved(pages, "jsonl")
    assert answer.status == 400 and "takes more than 0 s" in answer.words


def test_bytes_that_are_not_text_are_refused_in_csv(
    pages: Visitor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answer = saved(pages, "csv", "partition=1")
    assert answer.status == 400 and "orders-1, offset 2: the key is not UTF-8" in answer.words
    # A file that has begun breaks off.
    monkeypatch.setattr(download, "CHUNK_BYTES", 1)
    with pytest.raises(download.BrokenDownloadError):
        saved(pages, "csv", "partition=1")
    assert "/topics/orders/download breaks off: orders-1, offset 2: the key" in caplog.text


def test_parquet_is_offered_where_it_can_be_made(pages: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Save what is found, up to 100,000 records" in pages.get("/topics/orders/records").words
    assert "format=parquet&amp;where=key%3Duser-1" in pages.get("/topics/orders/records?where=key=user-1").text
    monkeypatch.setattr(download, "find_spec", lambda _: None)
    assert download.formats() == ("jsonl", "csv")


def test_a_look_at_every_record_ends_when_its_time_is_over(log: pylog.Log) -> None:
    clock = SimClock(0, 0)
    reader = Reader(log, "orders", ms_max=1000, clock=clock)
    looking = reader.every(0, 0, 3)
    assert next(looking)[1]
    clock.advance(1000)
    with pytest.raises(ValueError, match="takes more than 1 s"):
        next(looking)
