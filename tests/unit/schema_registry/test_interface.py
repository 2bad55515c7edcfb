"""Confluent's HTTP interface, resource by resource: the answers and codes that its API reference names."""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import pylog
from pylog import serde
from pylog.schema_registry.interface import Interface
from pylog.serde import registry_changes as changes
from pylog.serde.registry_state import RegistryState
from pylog.serde.schema_store import SchemaStore

Ask = Callable[..., tuple[int, Any]]
TEXT, BYTES, INT, LONG = ({"schema": json.dumps(one)} for one in ("string", "bytes", "int", "long"))
A_FIELD = {"name": "a", "type": "string"}
OBJECT = {"schema": '{"type": "object"}', "schemaType": "JSON"}


def record(*fields: str, **defaults: int) -> dict[str, Any]:
    given = [{"name": name, "type": "int"} for name in fields]
    given += [{"name": name, "type": "int", "default": default} for name, default in defaults.items()]
    return {"schema": json.dumps({"type": "record", "name": "Payment", "fields": given})}


@pytest.fixture
def log() -> Iterator[pylog.Log]:
    with pylog.open(":memory:") as log:
        yield log


def asking(log: pylog.Log) -> Ask:
    interface = Interface(SchemaStore(log))

    def ask(request: str, body: object = None) -> tuple[int, Any]:
        method, _, target = request.partition(" ")
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        answer = interface.answer(method, target, data)
        found = json.loads(answer.body)
        return answer.status, found.get("error_code") if isinstance(found, dict) and answer.status >= 400 else found

    return ask


@pytest.fixture
def ask(log: pylog.Log) -> Ask:
    return asking(log)


def records(log: pylog.Log) -> list[tuple[dict[str, Any], Any]]:
    return [
        (json.loads(one.key or b""), json.loads(one.value or b"null")) for one in log.topic("_schemas").records()
    ]  # fmt: skip


# --- subjects and versions -----------------------------------------------------------------------------------------


def test_a_schema_is_registered_once_and_found_by_each_road(ask: Ask) -> None:
    one = {"subject": "a/b", "version": 1, "id": 1, "schema": '"string"'}
    assert ask("GET /") == (200, {}) and ask("GET /subjects") == (200, [])
    for _ in range(2):
        assert ask("POST /subjects/a%2Fb/versions", TEXT) == (200, {"id": 1, "version": 1, "schema": '"string"'})
    assert ask("POST /subjects/c/versions", {"schema": '{"type": "string"}'})[1]["id"] == 1
    assert ask("POST /subjects/c/versions", {**BYTES, "schemaType": None, "references": []})[1]["version"] == 2
    assert ask("GET /subjects") == (200, ["a/b", "c"])
    assert ask("GET /subjects?subjectPrefix=:*:a") == ask("GET /subjects?limit=1") == (200, ["a/b"])
    assert ask("GET /subjects?subjectPrefix=:.:c") == ask("GET /subjects?offset=1") == (200, ["c"])
    assert ask("GET /subjects/c/versions") == (200, [1, 2])
    assert ask("GET /subjects/a%2Fb/versions/1") == ask("GET /subjects/a%2Fb/versions/latest") == (200, one)
    assert ask("GET /subjects/:.:a%2Fb/versions/-1") == ask("POST /subjects/a%2Fb", TEXT) == (200, one)
    assert ask("GET /subjects/c/versions/2/schema") == (200, "bytes")
    assert ask("GET /schemas/ids/1") == (200, {"schema": '"string"'})
    assert ask("GET /schemas/ids/1?fetchMaxId=true") == (200, {"schema": '"string"', "maxId": 2})
    assert ask("GET /schemas/ids/2/schema") == (200, "bytes")
    assert ask("GET /schemas/ids/1/subjects") == (200, ["a/b", "c"])
    assert ask("GET /schemas/ids/1/versions") == (
        200, [{"subject": "a/b", "version": 1}, {"subject": "c", "version": 1}]
    )  # fmt: skip
    assert [x["id"] for x in ask("GET /schemas?subjectPrefix=c")[1]] == [1, 2]
    assert ask("GET /schemas?latestOnly=true&offset=1") == (200, [{"subject": "c", "version": 2, "id": 2, **BYTES}])
    assert ask("GET /schemas/types") == (200, ["JSON", "PROTOBUF", "AVRO"])
    assert ask("GET /contexts") == (200, ["."])


def test_other_types_are_named_in_answers(ask: Ask) -> None:
    proto = {"schema": '// one\nsyntax = "proto3";\nmessage A {}', "schemaType": "PROTOBUF"}
    assert ask("POST /subjects/j/versions", OBJECT) == (200, {"id": 1, "version": 1, **OBJECT})
    assert ask("POST /subjects/p/versions", proto)[1]["id"] == 2
    assert ask("GET /schemas/ids/1") == (200, OBJECT) and ask("GET /schemas/ids/2") == (200, proto)
    assert ask("GET /subjects/p/versions/1")[1] == {"subject": "p", "version": 1, "id": 2, **proto}


NOT_THERE = [
    ("GET /subjects/x/versions", 404, 40401),
    ("GET /subjects/x/versions/1", 404, 40401),
    ("GET /subjects/s/versions/9", 404, 40402),
    ("GET /subjects/s/versions/0", 422, 42202),
    ("GET /subjects/s/versions/2147483648", 422, 42202),
    ("GET /subjects/s/versions/one", 422, 42202),
    ("GET /subjects/s/versions/9/schema", 404, 40402),
    ("GET /subjects/s/versions/9/referencedby", 404, 40402),
    ("DELETE /subjects/x", 404, 40401),
    ("DELETE /subjects/x/versions/1", 404, 40401),
    ("DELETE /subjects/s/versions/9", 404, 40402),
    ("DELETE /subjects/s/versions/-2", 422, 42202),
    ("GET /schemas/ids/9", 404, 40403),
    ("GET /schemas/ids/9/schema", 404, 40403),
    ("GET /schemas/ids/9/subjects", 404, 40403),
    ("GET /schemas/ids/9/versions", 404, 40403),
    ("GET /schemas/ids/one", 404, 404),
    (f"GET /schemas/ids/{'9' * 5000}", 404, 404),
    ("GET /subjects?offset=x", 404, 404),
    ("GET /config/s", 404, 40408),
    ("GET /mode/s", 404, 40409),
    ("DELETE /config/s", 404, 40401),
    ("DELETE /mode/s", 404, 40401),
    ("GET /nothing", 404, 404),
    ("GET /subjects/s/versions/1/2/3", 404, 404),
    ("PUT /subjects", 405, 405),
    ("GET /compatibility/subjects/s/versions", 405, 405),
    ("GET //[", 400, 400),
    (f"GET /subjects?{'a=1&' * 200}", 400, 400),
]


@pytest.mark.parametrize(("request_", "status", "code"), NOT_THERE, ids=[one[0][:40] for one in NOT_THERE])
def test_an_address_of_nothing_has_its_code(ask: Ask, request_: str, status: int, code: int) -> None:
    ask("POST /subjects/s/versions", TEXT)
    assert ask(request_) == (status, code)


BAD = [
    (b"", 400, 400),
    (b"{", 400, 400),
    (b"[" * 100_000, 400, 400),
    (b"[]", 422, 422),
    ({}, 422, 42201),
    ({"schema": " "}, 422, 42201),
    ({"schema": 7}, 422, 422),
    ({"schema": '"string"', "schemaType": 7}, 422, 422),
    ({"schema": '"string"', "schemaType": "XML"}, 422, 42201),
    ({"schema": '"string"', "references": {}}, 422, 422),
    ({"schema": '"string"', "references": [{"name": "a"}]}, 422, 422),
    ({"schema": '"string"', "references": [{"name": "a", "subject": "x", "version": 1}]}, 422, 42201),
    ({"schema": '"string"', "ruleSet": {"domainRules": []}}, 422, 422),
    ({"schema": '"string"', "id": "one"}, 422, 422),
    ({"schema": '"string"', "version": True}, 422, 422),
    ({"schema": '"string"', "id": 7}, 422, 42205),
    ({"schema": '"string"', "version": 5}, 422, 42201),
    ({"schema": '"string"', "id": 2**31}, 422, 422),
    ({"schema": '"stri"'}, 422, 42201),
    ({"schema": json.dumps({"type": "record", "name": "R", "fields": [{**A_FIELD, "default": None}]})}, 422, 42201),
    ({"schema": '{"type": "enum", "name": "\ud800"}'}, 422, 42201),
    ({"schema": "{"}, 422, 42201),
    ({"schema": "[" * 100_000}, 422, 42201),
    ({"schema": "7"}, 422, 42201),
    ({"schema": "{", "schemaType": "JSON"}, 422, 42201),
    ({"schema": "7", "schemaType": "JSON"}, 422, 42201),
    ({"schema": '{"type": "text"}', "schemaType": "JSON"}, 422, 42201),
    ({"schema": '{"items": [7]}', "schemaType": "JSON"}, 422, 42201),
    ({"schema": '{"anyOf": {}}', "schemaType": "JSON"}, 422, 42201),
    ({"schema": '{"properties": []}', "schemaType": "JSON"}, 422, 42201),
    ({"schema": '{"not": {"type": ["null", "none"]}}', "schemaType": "JSON"}, 422, 42201),
    ({"schema": "message A {", "schemaType": "PROTOBUF"}, 422, 42201),
    ({"schema": "hello", "schemaType": "PROTOBUF"}, 422, 42201),
    ({"schema": "/wAA", "schemaType": "PROTOBUF"}, 422, 42201),
]


@pytest.mark.parametrize(("body", "status", "code"), BAD, ids=[str(one[0])[:60] for one in BAD])
def test_a_body_that_is_no_schema_has_its_code(log: pylog.Log, ask: Ask, body: object, status: int, code: int) -> None:
    assert ask("POST /subjects/s/versions", body) == (status, code)
    assert log.topics() == [], "nothing was written"


def test_half_of_a_character_is_refused_wherever_it_comes_from(log: pylog.Log, ask: Ask) -> None:
    half = {"schema": '{"title": "\\ud800"}', "schemaType": "JSON"}
    assert ask("POST /subjects/s/versions", half)[0] == 200, "as it was given, it is text"
    assert ask("POST /subjects/t/versions?normalize=true", half) == (422, 42201)
    ask("POST /subjects/\ufffd/versions", TEXT)
    used = [{"name": "\ud800", "subject": "\ufffd", "version": 1}]
    assert ask("POST /subjects/s/versions", {**TEXT, "references": used}) == (422, 42201)
    with pytest.raises(pylog.errors.SchemaRegistryError, match="not valid"):
        serde.LogRegistry(log).register("\ud800", serde.Schema('"int"'))


@pytest.mark.parametrize("subject", ["__GLOBAL", "__EMPTY", "a%00", "a%C2%80", ":.other:s"])
def test_a_subject_that_cannot_be_has_its_code(ask: Ask, subject: str) -> None:
    assert ask(f"POST /subjects/{subject}/versions", TEXT) == (422, 42208)
    assert ask(f"PUT /mode/{subject}", {"mode": "READONLY"}) == (422, 42208)
    assert ask(f"PUT /config/{subject}", {"compatibility": "NONE"}) == (422, 42208)


def test_a_schema_is_looked_up_in_its_subject(ask: Ask) -> None:
    assert ask("POST /subjects/s", TEXT) == (404, 40401)
    ask("POST /subjects/s/versions", TEXT)
    assert ask("POST /subjects/s", {"schema": '{"type":"string"}'})[1]["version"] == 1
    assert ask("POST /subjects/s", INT) == (404, 40403)
    assert ask("POST /subjects/s", {"schema": "{"}) == (422, 42201)
    ask("DELETE /subjects/s")
    assert ask("POST /subjects/s", TEXT) == (404, 40401)
    assert ask("POST /subjects/s?deleted=true", TEXT)[1]["version"] == 1


def test_a_schema_that_a_record_cannot_hold_is_too_large(ask: Ask) -> None:
    text = json.dumps({"type": "record", "name": "R", "doc": "x" * (1 << 20), "fields": []})
    assert ask("POST /subjects/s/versions", {"schema": text}) == (422, 42209)


def test_a_log_that_is_closed_is_a_failure_of_the_store(log: pylog.Log, caplog: pytest.LogCaptureFixture) -> None:
    ask = asking(log)
    log.close()
    assert ask("GET /subjects") == (500, 50001)
    assert "a request to the registry failed: GET /subjects" in caplog.text


# --- deletion ------------------------------------------------------------------------------------------------------


def test_a_version_is_soft_deleted_and_then_for_good(log: pylog.Log, ask: Ask) -> None:
    ask("POST /subjects/s/versions", record("a"))
    ask("POST /subjects/s/versions", record("a", b=1))
    assert ask("DELETE /subjects/s/versions/2?permanent=true") == (404, 40407)
    assert ask("DELETE /subjects/s/versions/latest") == (200, 2)
    assert ask("DELETE /subjects/s/versions/2") == (404, 40406)
    assert ask("GET /subjects/s/versions/2") == (404, 40402)
    assert ask("GET /subjects/s/versions/2?deleted=true")[1]["id"] == 2
    assert ask("GET /subjects/s/versions/latest")[1]["version"] == 1
    assert ask("GET /subjects/s/versions") == (200, [1])
    assert ask("GET /subjects/s/versions?deleted=true") == (200, [1, 2])
    assert ask("GET /subjects/s/versions?deletedOnly=true") == (200, [2])
    assert ask("GET /schemas/ids/2")[0] == 200, "what was written by it can be read"
    assert ask("GET /schemas/ids/2/subjects") == ask("GET /schemas/ids/2/versions") == (200, [])
    assert ask("GET /schemas/ids/2/subjects?deleted=true") == (200, ["s"])
    assert ask("DELETE /subjects/s/versions/2?permanent=true") == (200, 2)
    assert ask("GET /schemas/ids/2") == (404, 40403)
    assert ask("POST /subjects/s/versions", record("a", c=1))[1] | {"schema": ""} == {
        "id": 3, "version": 2, "schema": ""
    }, "an id is never given again"  # fmt: skip
    assert records(log)[-2:][0] == ({"keytype": "SCHEMA", "subject": "s", "version": 2, "magic": 1}, None)


def test_a_subject_is_soft_deleted_and_then_for_good(log: pylog.Log, ask: Ask) -> None:
    ask("PUT /config", {"compatibility": "NONE"})
    for one in (TEXT, INT):
        ask("POST /subjects/s/versions", one)
    ask("PUT /config/s", {"compatibility": "FULL"})
    ask("PUT /mode/s", {"mode": "READWRITE"})
    assert ask("DELETE /subjects/s?permanent=true") == (404, 40405)
    assert ask("DELETE /subjects/s") == (200, [1, 2])
    assert records(log)[-1] == (
        {"keytype": "DELETE_SUBJECT", "subject": "s", "magic": 0}, {"subject": "s", "version": 2}
    )  # fmt: skip
    assert ask("DELETE /subjects/s") == (404, 40404)
    assert ask("GET /subjects") == (200, [])
    assert ask("GET /subjects?deleted=true") == ask("GET /subjects?deletedOnly=true") == (200, ["s"])
    assert ask("GET /subjects/s/versions") == (404, 40401)
    assert ask("GET /subjects/s/versions/latest") == (404, 40401)
    assert ask("DELETE /subjects/s?permanent=true") == (200, [1, 2])
    assert ask("GET /subjects?deleted=true") == (200, [])
    assert ask("GET /config/s") == (404, 40408) and ask("GET /mode/s") == (404, 40409)
    assert asking(log)("GET /subjects?deleted=true") == (200, []), "what is replayed is the same"
    assert ask("POST /subjects/s/versions", LONG)[1]["version"] == 1


def test_the_last_version_that_goes_takes_the_settings_of_its_subject(ask: Ask) -> None:
    ask("POST /subjects/s/versions", TEXT)
    ask("PUT /config/s", {"compatibility": "FULL"})
    ask("DELETE /subjects/s/versions/1")
    assert ask("GET /config/s") == (200, {"compatibilityLevel": "FULL"})
    ask("DELETE /subjects/s/versions/1?permanent=true")
    assert ask("GET /config/s") == (404, 40408)


def test_a_schema_that_was_deleted_comes_back_with_its_id(log: pylog.Log, ask: Ask) -> None:
    for one in (record("a"), record("a", b=1)):
        ask("POST /subjects/s/versions", one)
    ask("DELETE /subjects/s")
    added = ask("POST /subjects/s/versions", record("a"))[1]
    assert (added["id"], added["version"]) == (1, 3)
    assert ask("GET /subjects/s/versions?deleted=true") == (200, [2, 3]), "the new version takes the place of the old"
    assert asking(log)("GET /schemas/ids/1/versions") == (200, [{"subject": "s", "version": 3}])


# --- compatibility -------------------------------------------------------------------------------------------------

LEVELS = [
    ("BACKWARD", [record("a")], record("a", b=1), record("b")),
    ("BACKWARD_TRANSITIVE", [record("a"), record("a", "b")], record(b=1), record("b")),
    ("FORWARD", [record("a", b=1)], record("a"), record(b=1)),
    ("FORWARD_TRANSITIVE", [record(a=1), record("a", "b")], record("a", "b", "c"), record("c")),
    ("FULL", [record("a")], record("a", b=1), record("a", "b")),
    ("FULL_TRANSITIVE", [record("a"), record("a", b=1)], record("a", c=1), record()),
]


@pytest.mark.parametrize(("level", "versions", "good", "bad"), LEVELS, ids=[one[0] for one in LEVELS])
def test_a_version_is_held_to_those_before_it(
    ask: Ask, level: str, versions: list[dict[str, Any]], good: dict[str, Any], bad: dict[str, Any]
) -> None:
    ask("PUT /config/s", {"compatibility": "NONE"})
    for one in versions:
        ask("POST /subjects/s/versions", one)
    assert ask("PUT /config/s", {"compatibility": level.lower()}) == (200, {"compatibility": level.lower()})
    assert ask("GET /config/s") == (200, {"compatibilityLevel": level})
    for given, is_compatible in ((bad, False), (good, True)):
        assert ask("POST /compatibility/subjects/s/versions", given)[1] == {"is_compatible": is_compatible}
        assert ask("POST /subjects/s/versions", given)[0] == (200 if is_compatible else 409)


def test_compatibility_is_asked_of_one_version(ask: Ask) -> None:
    for one in (record("a"), record("a", b=1)):
        ask("POST /subjects/s/versions", one)
    path = "POST /compatibility/subjects/s/versions"
    assert ask(f"{path}/1", record("b")) == (200, {"is_compatible": False})
    assert ask(f"{path}/latest", record("b")) == (200, {"is_compatible": True})
    told = ask(f"{path}/1?verbose=true", record("b"))[1]
    assert "version 1 of s" in told["messages"][0] and "field Payment.b" in told["messages"][1]
    assert ask(f"{path}/9", record("a")) == (404, 40402)
    assert ask(f"{path}/x", record("a")) == (422, 42202)
    assert ask(f"{path}/1", {"schema": "{"}) == (422, 42201)
    told = ask(f"{path}/1?verbose=true", {"schema": "{"})[1]
    assert told["is_compatible"] is False and "Invalid schema of type AVRO" in told["messages"][0]
    assert ask("POST /compatibility/subjects/new/versions/latest", TEXT) == (200, {"is_compatible": True})
    assert ask("POST /compatibility/subjects/new/versions?verbose=true", TEXT) == (
        200, {"is_compatible": True, "messages": []}
    )  # fmt: skip


def test_configs_are_of_a_subject_or_of_all(log: pylog.Log, ask: Ask) -> None:
    assert ask("GET /config") == (200, {"compatibilityLevel": "BACKWARD"})
    assert ask("PUT /config", {"compatibility": "FULL", "alias": None})[0] == 200
    assert ask("GET /config/s?defaultToGlobal=true") == (200, {"compatibilityLevel": "FULL"})
    assert ask("PUT /config/s", {"normalize": True}) == (200, {"normalize": True})
    assert ask("GET /config/s") == (200, {"normalize": True})
    assert ask("GET /config/s?defaultToGlobal=true") == (200, {"compatibilityLevel": "FULL", "normalize": True})
    assert ask("PUT /config/s", {"compatibility": "NONE"})[0] == 200
    assert records(log)[-1] == (
        {"keytype": "CONFIG", "subject": "s", "magic": 0},
        {"subject": "s", "normalize": True, "compatibilityLevel": "NONE"},
    )
    assert ask("PUT /config/s", {"compatibility": "MOST"}) == (422, 42203)
    assert ask("PUT /config/s", {"alias": "other"}) == (422, 422)
    assert ask("PUT /config/s", {"normalize": "yes"}) == (422, 422)
    assert ask("DELETE /config/s") == (200, {"normalize": True, "compatibilityLevel": "NONE"})
    assert ask("GET /config/s") == (404, 40408)
    assert ask("DELETE /config") == (200, {"compatibilityLevel": "FULL"})
    assert asking(log)("GET /config") == (200, {"compatibilityLevel": "BACKWARD"})


# --- references ----------------------------------------------------------------------------------------------------


def basket(version: int = 1) -> dict[str, Any]:
    schema = {"type": "record", "name": "Basket", "fields": [{"name": "first", "type": "Payment"}]}
    used = [{"name": "Payment", "subject": "payment", "version": version}]
    return {"schema": json.dumps(schema), "references": used}


def test_references_are_kept_and_followed(ask: Ask) -> None:
    for one in (record("a"), record("a", b=1)):
        ask("POST /subjects/payment/versions", one)
    added = ask("POST /subjects/s/versions", basket())[1]
    assert added["id"] == 3 and added["references"] == basket()["references"]
    assert ask("GET /schemas/ids/3")[1]["references"] == basket()["references"]
    assert ask("POST /subjects/s/versions", {**basket(), "references": []}) == (422, 42201)
    assert ask("POST /subjects/s/versions", basket(9)) == (422, 42201)
    latest = ask("POST /subjects/s/versions", basket(-1))[1]
    assert latest["references"] == basket(2)["references"], "the latest version is named by its number"
    assert ask("GET /subjects/payment/versions/1/referencedby") == (200, [3])
    assert ask("GET /subjects/payment/versions/latest/referencedby") == (200, [4])
    assert ask("POST /compatibility/subjects/s/versions", basket())[1] == {"is_compatible": True}


def test_a_schema_is_found_with_its_references_in_their_places(log: pylog.Log, ask: Ask) -> None:
    ask("POST /subjects/payment/versions", record("a"))
    ask("POST /subjects/s/versions", basket())
    whole = json.loads(basket()["schema"])
    whole["fields"][0]["type"] = json.loads(record("a")["schema"])
    assert ask("POST /subjects/s", {"schema": json.dumps(whole)})[1]["id"] == 2
    assert ask("POST /subjects/s/versions", {"schema": json.dumps(whole)})[1]["id"] == 2
    assert ask("POST /subjects/s", record("a")) == (404, 40403)
    with log.producer(key_serializer=str.encode) as producer:
        key = '{"keytype":"SCHEMA","subject":"payment","version":1,"magic":1}'
        producer.send("_schemas", None, key=key).result()
    assert ask("POST /subjects/s", {"schema": json.dumps(whole)}) == (404, 40403), "what it refers to is gone"


def test_a_new_schema_refers_to_none_that_was_deleted(ask: Ask) -> None:
    ask("POST /subjects/payment/versions", record("a"))
    ask("POST /subjects/s/versions", basket())
    for path in ("s", "payment"):
        ask(f"DELETE /subjects/{path}")
    assert ask("POST /subjects/s/versions", basket()) == (422, 42201)
    assert ask("POST /subjects/s?deleted=true", basket())[1]["id"] == 2


def test_a_schema_that_others_refer_to_is_not_deleted(ask: Ask) -> None:
    ask("POST /subjects/payment/versions", record("a"))
    ask("POST /subjects/s/versions", basket())
    for path in ("/subjects/payment", "/subjects/payment/versions/1"):
        assert ask(f"DELETE {path}") == (422, 42206)
    ask("DELETE /subjects/s")
    assert ask("GET /subjects/payment/versions/1/referencedby") == (200, [])
    assert ask("GET /subjects/payment/versions/1/referencedby?deleted=true") == (200, [2])
    assert ask("DELETE /subjects/payment") == (200, [1])
    for path in ("/subjects/payment", "/subjects/payment/versions/1"):
        assert ask(f"DELETE {path}?permanent=true") == (422, 42206), "one that is soft deleted may come back"
    assert ask("POST /subjects/payment/versions", record("a"))[1]["version"] == 2
    assert ask("GET /subjects/payment/versions?deleted=true") == (200, [1, 2]), "the reference has a target"
    assert ask("PUT /mode", {"mode": "IMPORT"}) == (422, 42205)
    ask("DELETE /subjects/payment")
    assert ask("PUT /mode/payment", {"mode": "IMPORT"}) == (422, 42206)
    assert ask("DELETE /subjects/s?permanent=true") == (200, [1])
    assert ask("DELETE /subjects/payment?permanent=true") == (200, [1, 2])


def test_a_subject_that_refers_to_itself_is_deleted(ask: Ask) -> None:
    ask("PUT /config", {"compatibility": "NONE"})
    ask("POST /subjects/payment/versions", record("a"))
    assert ask("POST /subjects/payment/versions", basket())[1]["version"] == 2
    assert ask("DELETE /subjects/payment/versions/1") == (422, 42206)
    assert ask("DELETE /subjects/payment") == (200, [1, 2])
    assert ask("DELETE /subjects/payment?permanent=true") == (200, [1, 2])


# --- normalize -----------------------------------------------------------------------------------------------------


def test_a_schema_is_kept_as_it_is_given_or_in_normal_form(ask: Ask) -> None:
    given = {"schema": '{"name": "R", "type": "record", "namespace": "a.b", "fields": [], "doc": "d"}'}
    normal = '{"type":"record","name":"a.b.R","fields":[],"doc":"d"}'
    assert ask("POST /subjects/s/versions", given)[1]["schema"] == given["schema"]
    assert ask("POST /subjects/s/versions?normalize=true", given)[1] == {
        "id": 1,
        "version": 1,
        "schema": given["schema"],
    }
    assert ask("POST /subjects/n/versions?normalize=true", given)[1]["id"] == 1, "it is the same schema"
    assert ask("GET /subjects/n/versions/1/schema") == (200, json.loads(normal))
    json_schema = {"schema": '{"type":"object","properties":{"b":{},"a":{}}}', "schemaType": "JSON"}
    ask("PUT /config/j", {"normalize": True})
    assert ask("POST /subjects/j/versions", json_schema)[1]["schema"] == (
        '{"properties":{"a":{},"b":{}},"type":"object"}'
    )
    assert ask("POST /subjects/j", json_schema)[1]["version"] == 1
    proto = {"schema": "message A {}", "schemaType": "PROTOBUF"}
    assert ask("POST /subjects/p/versions?normalize=true", proto)[1]["schema"] == "message A {}"


# --- modes ---------------------------------------------------------------------------------------------------------


def test_a_mode_is_of_a_subject_or_of_all(log: pylog.Log, ask: Ask) -> None:
    assert ask("GET /mode") == (200, {"mode": "READWRITE"})
    assert ask("GET /mode/s?defaultToGlobal=true") == (200, {"mode": "READWRITE"})
    assert ask("PUT /mode/s", {"mode": "readonly"}) == (200, {"mode": "READONLY"})
    assert records(log) == [
        ({"keytype": "MODE", "subject": "s", "magic": 0}, {"subject": "s", "mode": "READONLY"})
    ]  # fmt: skip
    assert ask("GET /mode/s") == asking(log)("GET /mode/s") == (200, {"mode": "READONLY"})
    for mode in ("MOST", "", 7, "FORWARD"):
        assert ask("PUT /mode", {"mode": mode}) == (422, 42204)
    assert ask("DELETE /mode/s") == (200, {"mode": "READONLY"})
    assert ask("PUT /mode", {"mode": "READONLY_OVERRIDE"})[0] == 200
    ask("PUT /mode/s", {"mode": "READWRITE"})
    assert ask("GET /mode/s?defaultToGlobal=true") == (200, {"mode": "READONLY_OVERRIDE"})
    assert ask("POST /subjects/s/versions", TEXT) == (422, 42205)
    assert ask("DELETE /mode") == (200, {"mode": "READONLY_OVERRIDE"})
    ask("PUT /mode", {"mode": "READONLY"})
    assert ask("PUT /mode", {"mode": None}) == (200, {"mode": None})
    assert asking(log)("GET /mode") == (200, {"mode": "READWRITE"})


def test_what_is_read_only_is_not_changed(ask: Ask) -> None:
    ask("POST /subjects/s/versions", TEXT)
    ask("PUT /config/s", {"compatibility": "FULL"})
    ask("PUT /mode", {"mode": "READONLY"})
    for request, body in (
        ("POST /subjects/s/versions", INT), ("DELETE /subjects/s", None), ("DELETE /subjects/s/versions/1", None),
        ("PUT /config/s", {"compatibility": "NONE"}), ("PUT /config", {"compatibility": "NONE"}),
        ("DELETE /config/s", None), ("DELETE /config", None),
    ):  # fmt: skip
        assert ask(request, body) == (422, 42205), request
    assert ask("GET /subjects/s/versions/1")[0] == 200
    assert ask("POST /subjects/s/versions", TEXT)[1]["id"] == 1, "what is there may be registered again"
    ask("PUT /mode/s", {"mode": "READWRITE"})
    assert ask("DELETE /subjects/s") == (200, [1])


def test_schemas_are_imported_with_their_ids(ask: Ask) -> None:
    ask("POST /subjects/old/versions", TEXT)
    assert ask("PUT /mode", {"mode": "IMPORT"}) == (422, 42205)
    assert ask("PUT /mode?force=true", {"mode": "IMPORT"})[0] == 200
    ask("DELETE /mode")
    assert ask("PUT /mode/s", {"mode": "IMPORT"})[0] == 200
    assert ask("POST /subjects/s/versions", TEXT) == (422, 42205), "an import names the id"
    assert ask("POST /subjects/s/versions", {**INT, "id": 70, "version": 5})[1]["version"] == 5
    assert ask("POST /subjects/s/versions", {**TEXT, "id": 71})[1] == {"id": 71, "version": 6, **TEXT}
    assert ask("POST /subjects/s/versions", {**BYTES, "id": 70}) == (422, 42205), "an id has one schema"
    assert ask("POST /subjects/s/versions", INT)[1]["id"] == 70, "programs that register what is there go on"
    assert ask("POST /subjects/s/versions", {**TEXT, "id": 71, "version": 6})[1]["version"] == 6
    assert ask("GET /subjects/s/versions") == (200, [5, 6])
    ask("DELETE /subjects/s/versions/6"), ask("DELETE /subjects/s/versions/6?permanent=true")
    assert ask("POST /subjects/other/versions", TEXT)[1]["id"] == 1
    assert ask("POST /subjects/other2/versions", {**LONG, "version": 1, "id": -1})[1]["id"] == 72


def test_a_subject_is_emptied_for_an_import(log: pylog.Log, ask: Ask) -> None:
    ask("POST /subjects/s/versions", TEXT)
    ask("DELETE /subjects/s")
    assert ask("PUT /mode", {"mode": "IMPORT"}) == (200, {"mode": "IMPORT"})
    assert asking(log)("GET /subjects?deleted=true") == (200, [])


# --- beside others -------------------------------------------------------------------------------------------------


def test_a_registry_of_the_log_and_the_interface_see_the_same(log: pylog.Log, ask: Ask) -> None:
    registry = serde.LogRegistry(log)
    assert registry.register("s", serde.Schema('"int"')) == 1
    assert ask("GET /subjects/s/versions/1")[1]["id"] == 1
    ask("POST /subjects/s/versions", LONG)
    assert registry.version("s").id == 2
    with pytest.raises(pylog.errors.SchemaRegistryError, match="read-only") as caught:
        ask("PUT /mode", {"mode": "READONLY"})
        registry.register("s", serde.Schema('"string"'))
    assert caught.value.error_code == 42205


def test_what_confluents_registry_wrote_is_served(log: pylog.Log, ask: Ask) -> None:
    log.create_topic("_schemas")
    with log.producer(key_serializer=str.encode, value_serializer=str.encode) as producer:
        for key, value in (
            ('{"keytype":"NOOP","magic":0}', None),
            ('{"keytype":"CONFIG","subject":null,"magic":0}', '{"compatibilityLevel":"FULL","alias":"x"}'),
            ('{"keytype":"MODE","subject":"s","magic":0}', '{"subject":"s","mode":"READONLY"}'),
            ('{"keytype":"MODE","subject":"t","magic":0}', '{"subject":"t","mode":"MOST"}'),
            (
                '{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}',
                '{"subject":"s","version":1,"id":9,"md5":"","schema":"\\"int\\"","deleted":false,"ts":1}',
            ),
            ('{"keytype":"DELETE_SUBJECT","subject":"t","magic":0}', '{"subject":"t","version":3}'),
            ('{"keytype":"CLEAR_SUBJECT","subject":"t","magic":0}', '{"subject":"t"}'),
        ):  # fmt: skip
            producer.send("_schemas", value, key=key)
    assert ask("GET /subjects/s/versions/latest") == (200, {"subject": "s", "version": 1, "id": 9, **INT})
    assert ask("GET /config") == (200, {"compatibilityLevel": "FULL", "alias": "x"})
    assert ask("GET /mode/s") == (200, {"mode": "READONLY"}) and ask("GET /mode/t") == (404, 40409)


def test_a_change_that_is_still_decided_keeps_no_other_one_waiting(log: pylog.Log, ask: Ask) -> None:
    store, begun, may_end = SchemaStore(log), threading.Event(), threading.Event()
    decided: list[int] = []

    def decide(state: RegistryState) -> changes.RegistryChange[int]:
        begun.set()
        assert may_end.wait(240)
        change = changes.register(state, "slow", serde.Schema('"int"'))
        decided.append(change.result.id)
        return changes.RegistryChange(change.result.id, change.records)

    interface = Interface(store)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(store.change, decide)
        assert begun.wait(240)
        assert interface.answer("POST", "/subjects/quick/versions", json.dumps(TEXT).encode()).status == 200
        assert interface.answer("GET", "/subjects", b"").body == b'["quick"]'
        may_end.set()
        assert slow.result() == 2
    assert decided == [1, 2], "it is decided again from what the other one has written"
    assert ask("GET /subjects") == (200, ["quick", "slow"])


def test_references_that_multiply_are_refused(ask: Ask) -> None:
    for number in range(20):
        used = [{"name": f"R{number - 1}", "subject": f"s{number - 1}", "version": 1}] * 2 if number else []
        fields = [{"name": "a", "type": f"R{number - 1}"}] if number else []
        schema = {"type": "record", "name": f"R{number}", "fields": fields}
        found = ask(f"POST /subjects/s{number}/versions", {"schema": json.dumps(schema), "references": used})
        if found[0] != 200:
            break
    assert found == (422, 42201) and 10 < number < 16
