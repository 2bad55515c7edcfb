"""Keys and values decoded on the pages of records."""

import json
import sys
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

import pylog
from pylog import serde
from pylog.errors import NetworkError
from pylog.serde.schema_store import SchemaStore
from pylog.ui import decoding
from pylog.ui.decoding import Decoded, Decoder, DecodingError
from support.shop_messages import messages
from support.visitor import Visitor
from unit.ui.conftest import pages_of

CLICK = {"type": "record", "name": "Click", "fields": [{"name": "page", "type": "string"}]}
MESSAGES = messages()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pylog.Log]:
    """`mixed` has a record of each format."""
    with pylog.open(tmp_path_factory.mktemp("ui") / "data", flush="none") as opened:
        registry = serde.LogRegistry(opened)
        opened.create_topic("mixed")
        clicks = serde.avro(registry, "clicks-value", CLICK)
        fruit = serde.protobuf(registry, "fruit-value", MESSAGES["Fruit"])
        checked = serde.json_schema(registry, "checked-value", {"type": "object"})
        with opened.producer() as producer:
            for key, value in (
                (b"avro", clicks.serialize({"page": "/<b>"})),
                (b"protobuf", fruit.serialize(MESSAGES["Fruit"](weight=7))),
                (b"json schema", checked.serialize({"of": "shop"})),
                (b"msgpack", msgspec.msgpack.encode({"of": [1, 2.5, "größe"], "raw": b"\xff"})),
                (b"no schema", b"\0\0\0\0\x63payload\xff"),
                (b"not of its schema", b"\0\0\0\0\1\x10x\xff"),
            ):
                producer.send("mixed", value, key=key).result()
        yield opened


@pytest.fixture
def pages(log: pylog.Log) -> Visitor:
    return pages_of(log)


@pytest.fixture
def decoder(log: pylog.Log) -> Decoder:
    return Decoder(SchemaStore(log))


@pytest.mark.parametrize(
    ("offset", "line", "laid_out"),
    [
        (0, 'Avro, schema 1 {"page": "/<b>"}', 'Avro, schema 1 10 B; save its bytes { "page": "/<b>" }'),
        (1, 'Protobuf, schema 2 {"weight": 7}', 'Protobuf, schema 2 8 B; save its bytes { "weight": 7 }'),
        (2, 'JSON Schema, schema 3 {"of": "shop"}', 'JSON Schema, schema 3 18 B; save its bytes { "of": "shop" }'),
        (3, '"raw": "ff"', "MessagePack 30 B; save its bytes"),
        (4, "not decoded: topic _schemas has no schema with id 99", "Not decoded: topic _schemas has no schema"),
        (5, "not decoded: Avro, schema 1: ", "Not decoded: Avro, schema 1: "),
    ],
)
def test_a_value_is_decoded_or_the_reason_is_said(pages: Visitor, offset: int, line: str, laid_out: str) -> None:
    assert line in pages.get("/topics/mixed/records").words
    assert laid_out in pages.get(f"/topics/mixed/records/0/{offset}").words


def test_an_undecodable_value_is_shown_as_it_is(pages: Visitor) -> None:
    assert "00 00 00 00 63 70 61" in pages.get("/topics/mixed/records").words
    one = pages.get("/topics/mixed/records/0/4")
    assert "<details open>" in one.text and "00 00 00 00 63 70 61" in one.words


def test_a_topic_that_is_followed_is_decoded(pages: Visitor) -> None:
    said = json.loads(pages.get("/topics/mixed/follow?after=0-0").body)
    assert "Avro, schema 1" in said["html"] and "&lt;b&gt;" in said["html"]


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (None, None),
        (b"", None),
        (b"plain", None),
        (b"[info] started", None),
        (b'{"a": 1}', Decoded("JSON", {"a": 1})),
        (b" [1]", Decoded("JSON", [1])),
        (b"\0\0\0\0\0\0\0\x2a", None),
        (b"\0\0", None),
        (b"\x82\xff", None),
        (b"\x81" * 2000, None),
        (b"\xc0\xff", None),
        ("\u07ff".encode(), None),
        (msgspec.msgpack.encode({b"a": 1, 2: (1,)}), Decoded("MessagePack", {"a": 1, "2": [1]})),
        (b"\x82\xc4\x01a\xc3\x02\x91\xca\x00\x00\x00\x00", Decoded("MessagePack", {"a": True, "2": [0.0]})),
        (
            b"\x93\xd6\xff\x00\x00\x00\x01\xc4\x01\xff\xa1a",
            Decoded("MessagePack", ["1970-01-01T00:00:01+00:00", "ff", "a"]),
        ),
    ],
    ids=repr,
)
def test_the_bytes_say_how_they_are_decoded(decoder: Decoder, data: bytes | None, value: Decoded | None) -> None:
    assert decoder.decode(data) == value


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b'{"a": ', "JSON: "),
        (b"{\xff}", "JSON: "),
        (b'{"a":' * 100_000, "more than 256 KiB"),
        (b'{"a":' * 50_000, "JSON: "),
        (b'{"a": ' + b"9" * 5000 + b"}", "JSON: Exceeds"),
        (b"\0\0\0\0\1" + bytes(300_000), "more than 256 KiB"),
        (b"\0\0\0\0\2" + b"\0\xff", "Protobuf, schema 2: "),
    ],
    ids=["cut", "not UTF-8", "long", "deep", "a long number", "long Avro", "Protobuf"],
)
def test_why_a_value_is_not_decoded(decoder: Decoder, data: bytes, why: str) -> None:
    with pytest.raises(DecodingError, match=why):
        decoder.decode(data)
    part = decoder.part(data, 100)
    assert part is not None and part.kind == "none" and why in part.problem


def test_schemas_that_cannot_be_read_fail_no_page(log: pylog.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: SchemaStore) -> Any:
        raise NetworkError("nobody answers")

    monkeypatch.setattr(SchemaStore, "state", fail)
    words = pages_of(log).get("/topics/mixed/records").words
    assert "not decoded: topic _schemas cannot be read: nobody answers" in words and "MessagePack" in words


def test_a_library_that_is_not_there_is_said(decoder: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    monkeypatch.setitem(sys.modules, "msgspec", None)
    with pytest.raises(DecodingError, match="fastavro"):
        decoder.decode(b"\0\0\0\0\1\x02x")
    assert decoder.decode(b"\x81\xc4\x01\xff\xc3") is None


def test_a_table_decodes_so_much_and_no_more(pages: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "LINES_BYTES_MAX", 60)
    words = pages.get("/topics/mixed/records?offset=0").words
    assert "Avro, schema 1" in words and "not decoded: open its record to see it" in words


def test_a_value_that_is_nested_too_deep_to_show_is_said(decoder: Decoder) -> None:
    part = decoder.part(b'{"a":' * 990 + b"1" + b"}" * 990, 10_000_000)
    assert part is not None and "recursion" in part.problem
