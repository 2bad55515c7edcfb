"""The pages of schemas."""

import base64
import json
import sys
from collections.abc import Iterator

import pytest

import pylog
from pylog import serde
from pylog.serde import registry_changes
from pylog.serde.schema_store import SchemaStore
from pylog.ui import schemas
from support.shop_messages import messages
from support.visitor import Visitor
from unit.ui.conftest import pages_of

USER = {"type": "record", "name": "User", "fields": [{"name": "id", "type": "string"}]}
WIDER = {**USER, "fields": [*USER["fields"], {"name": "b", "type": "int", "default": 0}]}
PAYMENT = {"type": "record", "name": "Payment", "fields": [{"name": "by", "type": "User"}]}
BASKET = messages()["Basket"]


@pytest.fixture(scope="module")
def pages() -> Iterator[Visitor]:
    """`users-value` has two versions; `copies` has the first of them, and `payments-value` refers to it."""
    with pylog.open(":memory:") as log:
        registry = serde.LogRegistry(log)
        log.create_topic("users")
        first = serde.Schema(json.dumps(USER))
        for subject in ("users-value", "copies"):
            registry.register(subject, first)
        registry.register("users-value", serde.Schema(json.dumps(WIDER)))
        reference = serde.Reference("User", "users-value", 1)
        registry.register("payments-value", serde.Schema(json.dumps(PAYMENT), references=(reference,)))
        registry.register("page-value", serde.Schema('{"title": "<script>\\u202e", "type": "object"}', "JSON"))
        serde.protobuf(registry, "basket-value", BASKET).serialize(BASKET())
        registry.register("source-value", serde.Schema('syntax = "proto3";\nmessage A { int32 a = 1; }', "PROTOBUF"))
        yield pages_of(log, can_write=False)


def test_subjects_are_listed_with_their_latest_versions(pages: Visitor) -> None:
    answer = pages.get("/schemas")
    assert "users-value AVRO 2 2 BACKWARD" in answer.words and "page-value JSON 1" in answer.words
    assert 'href="/schemas" aria-current="page"' in answer.text and "7 subjects in topic _schemas" in answer.words
    by_id = pages.get("/schemas?sort=id").words
    assert (
        by_id.index("copies") < by_id.index("users-value") < by_id.index("payments-value") < by_id.index("page-value")
    )
    with pylog.open(":memory:") as bare:
        assert "Topic _schemas has no schemas" in pages_of(bare).get("/schemas").words


def test_a_version_shows_its_text_and_where_it_is_used(pages: Visitor) -> None:
    latest = pages.get("/schema?subject=users-value").words
    assert "Version 2 Id 2 Type AVRO Compatibility BACKWARD" in latest and '"name": "b"' in latest
    assert "topic users , by its name" in latest and "copies" not in latest and "2 versions, newest first" in latest
    first = pages.get("/schema?subject=users-value&version=1").words
    assert "the same schema: copies, version 1" in first and "referred to by payments-value, version 1" in first
    assert "refers to users-value, version 1 , as User" in pages.get("/schema?subject=payments-value").words
    assert "Version 2 Id 2" in pages.get("/schema?id=2").words
    assert "No topic has its name" in pages.get("/schema?subject=page-value").words


def test_texts_of_others_are_shown_and_run_nothing(pages: Visitor) -> None:
    answer = pages.get("/schema?subject=page-value")
    assert '"title": "<script>\\u202e"' in answer.words and "<script>" not in answer.text.partition("<main")[2]


def test_a_descriptor_is_shown_by_its_fields_and_source_text_as_it_is(
    pages: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = pages.get("/schema?subject=basket-value").words
    assert 'name: "Basket"' in words and "The fields of a descriptor" in words
    words = pages.get("/schema?subject=source-value").words
    assert "message A { int32 a = 1; }" in words and "The fields of a descriptor" not in words
    bad = base64.b64encode(b"\xff").decode()
    assert schemas._text(serde.Schema(bad, "PROTOBUF")) == bad
    monkeypatch.setattr(schemas, "TEXT_CHARS", 5)
    assert "cut, the first 5 B of the text are shown" in pages.get("/schema?subject=users-value").words
    monkeypatch.setitem(sys.modules, "google.protobuf.descriptor_pb2", None)
    assert "The fields of" not in pages.get("/schema?subject=basket-value").words


def test_a_version_that_is_not_there_is_a_page(pages: Visitor) -> None:
    for query in ("subject=none", "subject=users-value&version=3"):
        answer = pages.get(f"/schema?{query}")
        assert answer.status == 404 and "no such version of subject" in answer.words
    answer = pages.get("/schema?id=99")
    assert answer.status == 404 and "no schema with id 99" in answer.words
    assert pages.get("/schema").status == pages.get("/schema?subject=users-value&version=x").status == 400


def test_a_deleted_version_is_shown_by_its_id_alone() -> None:
    with pylog.open(":memory:") as log:
        serde.LogRegistry(log).register("gone-value", serde.Schema(json.dumps(USER)))
        SchemaStore(log).change(lambda state: registry_changes.delete_subject(state, "gone-value", permanent=False))
        pages = pages_of(log)
        assert "has no schemas" in pages.get("/schemas").words
        assert pages.get("/schema?subject=gone-value").status == 404
        assert "gone-value deleted Version 1" in pages.get("/schema?id=1").words
