"""Requests that Kafka's own classes wrote, in every version: each is read, and has a response (facts/wire.json.gz)."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pylog.protocol.schema import message
from pylog.protocol.wire.headers import read_call, read_header, response_header
from pylog.server.api.call import NoResponse, Reply
from pylog.server.api.table import APIS
from support.wire_node import WireNode, decoded, wire_node

pytestmark = pytest.mark.oracle


def facts(fixtures: Path, name: str) -> Any:
    path = fixtures / "facts" / name
    if not path.is_file():
        pytest.skip(f"{path} is absent")
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return json.loads(text)


@pytest.fixture(scope="module")
def node() -> Iterator[WireNode]:
    with wire_node() as made:
        yield made


def test_every_key_is_served_in_the_versions_of_kafka(fixtures: Path) -> None:
    kafka = {one["id"]: (one["min"], one["max"]) for one in facts(fixtures, "api_versions.json")["apis"]}

    assert {api.key: (api.low, api.high) for api in APIS.values()} == {key: kafka[key] for key in APIS}


def test_headers_are_those_of_kafka(fixtures: Path) -> None:
    for one in facts(fixtures, "wire.json.gz")["headers"]:
        data = bytearray.fromhex(one["hex"])
        flexible = one["request_header_version"] == 2
        header = read_header(data, flexible=flexible)

        assert read_call(data) == (one["api_key"], one["api_version"], one["correlation_id"])
        assert (header.client_id, header.body_at) == (one["client_id"] or "", len(data))
        written = response_header(one["api_key"], one["correlation_id"], flexible=flexible)
        assert written.hex() == one["response_header_hex"]


@pytest.mark.parametrize("name", [api.name for api in APIS.values()])
def test_every_request_of_kafka_has_a_response(fixtures: Path, node: WireNode, name: str) -> None:
    seen = set()
    api = next(one for one in APIS.values() if one.name == name)
    bodies = facts(fixtures, "wire.json.gz")["messages"].get(f"{name}Request")
    if bodies is None:
        pytest.skip(f"the facts have no {name}Request")
    for one in bodies:
        version = one["version"]
        if not api.low <= version <= api.high:
            continue
        flexible = message(f"{name}Request").is_flexible(version)
        head = api.key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\1\0\4test" + b"\0" * flexible

        call, outcome = node.call(head + bytes.fromhex(one["hex"]))

        if not isinstance(outcome, Reply | NoResponse):
            decoded(call, outcome)
        seen.add(version)
    assert seen == set(range(api.low, api.high + 1))
