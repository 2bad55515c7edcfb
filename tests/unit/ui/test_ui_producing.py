"""The form that appends a record."""

import json
import sys
from collections.abc import Iterator

import pytest

import pylog
from pylog import serde
from support.shop_messages import messages
from support.visitor import Answer, Visitor
from unit.ui.conftest import pages_of

USER = {"type": "record", "name": "User", "fields": [{"name": "id", "type": "string"}]}
CHECKED = {"type": "object", "required": ["id"]}
FRUIT = messages()["Fruit"]


@pytest.fixture
def log() -> Iterator[pylog.Log]:
    """`users` has two partitions; the registry has a schema of each type."""
    with pylog.open(":memory:") as opened:
        opened.create_topic("users", partitions=2)
        registry = serde.LogRegistry(opened)
        registry.register("users-value", serde.Schema(json.dumps(USER)))
        registry.register("checked-value", serde.Schema(json.dumps(CHECKED), "JSON"))
        serde.protobuf(registry, "fruit-value", FRUIT).serialize(FRUIT(weight=1))
        yield opened


def produced(log: pylog.Log, **words: str) -> Answer:
    """The answer to a form. Its names have underscores for dashes."""
    form = {name.replace("_", "-"): text for name, text in words.items()}
    return Visitor(pages_of(log).app, csrf="the secret").post("/topics/users/produce", form)


def by_schema(subject: str, value: str) -> dict[str, str]:
    return {"value_format": "schema", "value_subject": subject, "value": value}


def last(log: pylog.Log, partition: int = 0) -> pylog.ConsumerRecord:
    return list(log.topic("users")[partition].records())[-1]


def test_the_form_has_the_schemas_and_partitions(log: pylog.Log) -> None:
    answer = pages_of(log).get("/topics/users/produce")
    assert answer.status == 200 and "<option>fruit-value</option>" in answer.text
    assert "<option selected>users-value</option>" in answer.text and "<option>1</option>" in answer.text
    assert pages_of(log).get("/topics/none/produce").status == 404
    with pylog.open(":memory:") as bare:
        bare.create_topic("users")
        assert "subject" not in pages_of(bare).get("/topics/users/produce").text


def test_there_is_no_form_where_nothing_is_changed(log: pylog.Log) -> None:
    pages = pages_of(log, can_write=False)
    assert pages.get("/topics/users/produce").status == pages.post("/topics/users/produce").status == 404
    assert ">Produce<" not in pages.get("/topics/users").text


@pytest.mark.parametrize(
    ("form", "key", "value"),
    [
        ({"key_format": "null", "value": "größe\r\nx"}, None, "größe\nx".encode()),
        ({"key": "k", "value_format": "null"}, b"k", None),
        (
            {"key_format": "hex", "key": "00 fF\r\n01", "value_format": "json", "value": ' {"a": 1}'},
            b"\0\xff\1",
            b' {"a": 1}',
        ),
        (by_schema("users-value", '{"id": "ann"}'), b"", b"\0\0\0\0\1\6ann"),
        (
            {"value_format": "schema", "value_subject": "checked-value", "value": '{"id": 7}'},
            b"",
            b'\0\0\0\0\2{"id":7}',
        ),
        (
            {"value_format": "schema", "value_subject": "fruit-value", "value": '{"weight": 7}'},
            b"",
            b"\0\0\0\0\3\0\x08\7",
        ),
    ],
    ids=["text", "tombstone", "hex and JSON", "Avro", "JSON Schema", "Protobuf"],
)  # fmt: skip
def test_a_record_is_appended(log: pylog.Log, form: dict[str, str], key: bytes | None, value: bytes | None) -> None:
    answer = produced(log, partition="0", headers="trace=77\r\n\r\ntrace= a=b ", **form)
    assert answer.status == 303, answer.words
    assert answer.headers["location"] == "/topics/users/records/0/0?done=produced"
    assert pages_of(log).get(answer.headers["location"]).words.startswith("The record was appended.")
    record = last(log)
    assert (record.key, record.value) == (key, value)
    assert record.headers == (("trace", b"77"), ("trace", b"a=b"))


def test_a_record_goes_to_the_partition_of_its_key(log: pylog.Log) -> None:
    with log.producer() as producer:
        wanted = producer.send("users", b"", key=b"key").result().partition
    assert f"/records/{wanted}/1?" in produced(log, key="key", value="v").headers["location"]


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ({"value_format": "hex", "value": "0"}, "value is not hexadecimal"),
        ({"value_format": "json", "value": "{"}, "value is not JSON"),
        ({"key_format": "json", "key": "[" * 20_000}, "key is not JSON"),
        ({"value_format": "xml"}, "value-format is 'xml', not one of text"),
        ({"value_format": "schema", "value": "1"}, "value-subject is missing"),
        (by_schema("none", "1"), "no schema of subject none"),
        (by_schema("users-value", "{}"), "does not fit schema 1 of users-value: value.id is missing"),
        (by_schema("users-value", '{"id": 7}'), "value.id is 7, not a string"),
        (by_schema("checked-value", "{}"), "of checked-value: value: 'id' is a required"),
        (by_schema("fruit-value", '{"x":1}'), "does not fit schema 3"),
        ({"partition": "7"}, "partition"),
        ({"partition": "x"}, "partition is 'x', not a whole number"),
        ({"headers": "<b>"}, "'<b>' is not NAME=VALUE"),
        ({"headers": "=x"}, "'=x' is not NAME=VALUE, as in trace=77"),
    ],
)  # fmt: skip
def test_what_cannot_be_sent_is_said_and_stays_in_the_form(log: pylog.Log, form: dict[str, str], why: str) -> None:
    answer = produced(log, **{"key": '"><script>', **form})
    assert answer.status == 400 and "Nothing was appended: " in answer.words and why in answer.words
    assert "<script>" not in answer.text and form.get("key", "&#34;&gt;&lt;script&gt;") in answer.text
    assert log.topic("users")[0].next_offset == log.topic("users")[1].next_offset == 0


def test_a_library_that_is_not_there_is_said(log: pylog.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    answer = produced(log, value_format="schema", value_subject="users-value", value='{"id": "ann"}')
    assert answer.status == 400 and "Avro needs fastavro" in answer.words


def test_a_topic_that_is_gone_is_a_page(log: pylog.Log) -> None:
    assert pages_of(log).post("/topics/none/produce", {"value": "x"}).status == 404
