"""Any requests to a registry of schemas get answers of its interface, and its topic makes the same registry again."""

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

import pylog
from pylog.schema_registry.interface import RESOURCES, Interface
from pylog.serde.schema_store import SchemaStore

REQUESTS = 400
STATUSES = {200, 404, 409, 422}
VALUES = [
    "string", "int", "R", "a.R", "null", "record", "enum", "fixed", "array", "map", "", "\0", "\ud800", "type", 7, None,
    True, -1, 2**70, 1.5,
]  # fmt: skip
KEYS = """type name namespace fields items values symbols size aliases default properties anyOf not $ref required const
    logicalType doc additionalProperties definitions""".split()
NAMES = ["s", "t", "1", "2", "latest", "-1", "%00", ":.:s", "%C3%A9"]
PARAMETERS = """deleted permanent normalize force verbose deletedOnly offset limit defaultToGlobal fetchMaxId
    latestOnly""".split()


class Client:
    """One that sends requests of all kinds, by a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.pick: Callable[[Any], Any] = self._random.choice

    def often(self, share: float) -> bool:
        return self._random.random() < share

    def value(self, depth: int = 0) -> Any:
        if depth > 4 or self.often(0.4):
            return self.pick(VALUES)
        if self.often(0.3):
            return [self.value(depth + 1) for _ in range(self._random.randrange(4))]
        return {self.pick(KEYS): self.value(depth + 1) for _ in range(self._random.randrange(6))}

    def schema(self, depth: int = 0) -> Any:
        fields = [
            {
                "name": self.pick("abc"),
                "type": self.schema(depth + 1) if depth < 3 and self.often(0.3) else self.pick(["int", "string", "R"]),
                **({"default": self.pick([0, "", None])} if self.often(0.5) else {}),
            }
            for _ in range(self._random.randrange(3))
        ]
        return {"type": self.pick(["record", "enum", "fixed"]), "name": self.pick(["R", "a.R", "S"]), "fields": fields,
                "symbols": ["A"], "size": 1}  # fmt: skip

    def body(self) -> bytes:
        kind = self.pick(["AVRO", "AVRO", "JSON", "PROTOBUF", self.value()])
        texts = [json.dumps(self.value()), json.dumps(self.schema()), "message A { int32 a = 1; }", self.value()]
        found: Any = {"schema": self.pick(texts), "schemaType": kind}
        if self.often(0.3):
            used = {"name": self.pick("RS"), "subject": self.pick("st"), "version": self.pick([1, 2, -1, 0, True])}
            found["references"] = self.pick([[used], [used, used], self.value()])
        for name in ("id", "version"):
            if self.often(0.2):
                found[name] = self.pick([1, 5, self.value()])
        if self.often(0.3):
            found = {"compatibility": self.pick(["NONE", "FULL", "full_transitive", self.value()])}
        if self.often(0.2):
            found = {"mode": self.pick(["IMPORT", "READWRITE", "READWRITE", None, self.value()])}
        return json.dumps(self.value() if self.often(0.1) else found).encode()

    def request(self) -> tuple[str, str, bytes]:
        pattern = "subjects/*/versions" if self.often(0.3) else self.pick(list(RESOURCES))
        if self.often(0.3):
            text = json.dumps({"type": "fixed", "name": "F", "size": self._random.randrange(20)})
            return "POST", f"/subjects/{self.pick('stuv')}/versions", json.dumps({"schema": text}).encode()
        path = "/".join(self.pick(NAMES) if word == "*" else word for word in pattern.split("/"))
        given = self._random.sample(PARAMETERS, self._random.randrange(3))
        query = "&".join(f"{name}={self.pick(['true', 'false', '1', 'x', ''])}" for name in given)
        method = (
            self.pick(["GET", "GET", "PUT", "DELETE", "DELETE"])
            if "mode" in path
            else self.pick(list(RESOURCES[pattern]))
        )
        return method, f"/{path}?{query}", self.body() if method in ("POST", "PUT") else b""


def seen(log: pylog.Log) -> list[bytes]:
    """The whole registry, as a new server of the log has it."""
    interface = Interface(SchemaStore(log))
    paths = ["/schemas?deleted=true", "/schemas", "/subjects?deletedOnly=true", "/config", "/mode"]
    paths += [f"/{kind}/{subject}" for kind in ("config", "mode") for subject in ("s", "t", "1", "2")]
    return [interface.answer("GET", path, b"").body for path in paths]


@pytest.mark.parametrize("seed", range(2))
def test_any_requests_get_answers_and_the_topic_makes_the_same_registry_again(seed: int) -> None:
    client, statuses = Client(seed), set()
    with pylog.open(":memory:") as log:
        interface = Interface(SchemaStore(log))
        interface.answer("PUT", "/config", b'{"compatibility": "NONE"}')
        for _ in range(REQUESTS):
            method, target, body = client.request()
            status, answer = interface.answer(method, target, body)
            assert status in STATUSES, (method, target, body, answer)
            if status != 200:
                code = json.loads(answer)["error_code"]
                assert code == status or code // 100 == status, (method, target, answer)
            statuses.add(status)
        assert {200, 404, 422} <= statuses
        before = seen(log)
        paths = ["/schemas?deleted=true", "/schemas", "/subjects?deletedOnly=true", "/config", "/mode"]
        assert [interface.answer("GET", path, b"").body for path in paths] == before[: len(paths)]
        (cleaned,) = log.clean("_schemas").values()
        assert cleaned.records_kept < cleaned.records_read
        assert seen(log) == before
        assert len(json.loads(before[0])) > len(json.loads(before[1])) > 0, "some are there, and some are deleted"
