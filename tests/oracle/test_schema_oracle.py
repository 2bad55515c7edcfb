"""The schema codec against bytes and JSON of Kafka's own classes: bodies, headers and coordinator records in the facts.

Kafka's JSON form has bytes and uuids in base64 and leaves out tagged fields at their default; that is how a decoded
message is compared. Encoding what was decoded must give Kafka's bytes again.
"""

import base64
import gzip
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from pylog.errors import PylogError
from pylog.protocol.schema import message, names

pytestmark = pytest.mark.oracle


def read(path: Path) -> Any:
    with gzip.open(path) as file:
        return json.load(file)


def uuid_text(value: UUID) -> str:
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def assert_same(ours: Any, kafka: Any, where: str) -> None:
    """`ours` says what Kafka's JSON says; a field that Kafka leaves out must be one that is worth nothing."""
    if isinstance(ours, Mapping):
        assert isinstance(kafka, Mapping), where
        assert kafka.keys() <= ours.keys(), f"{where}: {sorted(kafka.keys() - ours.keys())} are missing"
        for name, value in ours.items():
            if name in kafka:
                assert_same(value, kafka[name], f"{where}.{name}")
        # What Kafka left out and we have is checked by encoding it again: a value that is not the default would show.
    elif isinstance(ours, list):
        assert isinstance(kafka, list) and len(ours) == len(kafka), where
        for index, (one, other) in enumerate(zip(ours, kafka, strict=True)):
            assert_same(one, other, f"{where}[{index}]")
    elif isinstance(ours, UUID):
        assert uuid_text(ours) == kafka, where
    elif isinstance(ours, memoryview | bytes):
        assert base64.b64encode(ours).decode() == kafka, where
    elif isinstance(ours, float):
        assert ours == float(kafka) or (math.isnan(ours) and kafka == "NaN"), where
    else:
        assert ours == kafka and type(ours) is type(kafka), where


def check(name: str, version: int, data: bytes, kafka: Any) -> None:
    where = f"{name} version {version}"
    schema = message(name)
    decoded, end = schema.decode(version, data)
    assert end == len(data), where
    assert_same(decoded, kafka, where)
    assert schema.encode(version, decoded) == data, where
    padded, end = schema.decode(version, memoryview(b"\xff" * 3 + data + b"\xff" * 3), 3)
    assert (padded, end) == (decoded, len(data) + 3), where


@pytest.fixture(scope="session")
def wire(facts: Path) -> Any:
    return read(facts / "wire.json.gz")


@pytest.fixture(scope="session")
def coordinator(facts: Path) -> Any:
    return read(facts / "coordinator_records.json.gz")


def cases(wire: Any) -> Iterator[tuple[str, int, bytes, Any]]:
    for name, bodies in wire["messages"].items():
        for case in bodies:
            yield name, case["version"], bytes.fromhex(case["hex"]), case["json"]


def test_bodies_are_those_of_kafka(wire: Any) -> None:
    checked = 0
    for case in cases(wire):
        check(*case)
        checked += 1
    assert checked


def test_headers_are_those_of_kafka(wire: Any) -> None:
    assert wire["headers"]
    for case in wire["headers"]:
        value = {
            "requestApiKey": case["api_key"], "requestApiVersion": case["api_version"],
            "correlationId": case["correlation_id"], "clientId": case["client_id"],
        }  # fmt: skip
        check("RequestHeader", case["request_header_version"], bytes.fromhex(case["hex"]), value)
        answer = {"correlationId": case["correlation_id"]}
        check("ResponseHeader", case["response_header_version"], bytes.fromhex(case["response_header_hex"]), answer)


def test_coordinator_records_are_those_of_kafka(coordinator: Any) -> None:
    classes = {name: known for name, known in coordinator["records"].items() if "cases" in known}
    assert classes
    for name, known in classes.items():
        schema = message(name)
        assert schema.versions == (known["lowest"], known["highest"]), name
        assert known["cases"], name
        for case in known["cases"]:
            data = bytes.fromhex(case["hex"])
            is_key = known["prefix"].startswith("record type")
            prefix = int(known["prefix"].rpartition(" ")[2]) if is_key else case["version"]
            assert int.from_bytes(data[:2], "big") == prefix, name
            assert not is_key or schema.api_key == prefix, name
            check(name, case["version"], data[2:], case["json"])


WRITTEN = {
    "written_offset_commits": ("OffsetCommitKey", "OffsetCommitValue"),
    "written_group_metadata": ("GroupMetadataKey", "GroupMetadataValue"),
    "written_transaction_log": ("TransactionLogKey", "TransactionLogValue"),
}


@pytest.mark.parametrize("kind", WRITTEN)
def test_records_of_the_coordinators_are_encoded_the_same(coordinator: Any, kind: str) -> None:
    key_schema, value_schema = map(message, WRITTEN[kind])
    for case in coordinator["records"][kind]:
        key, value = bytes.fromhex(case["key_hex"]), bytes.fromhex(case.get("value_hex") or "")
        decoded, end = key_schema.decode(0, key, 2)
        assert end == len(key) and key_schema.encode(0, decoded) == key[2:]
        for name in decoded.keys() & case.keys():
            assert decoded[name] == case[name]
        if not value:
            continue
        version = int.from_bytes(value[:2], "big")
        assert version == case.get("value_version", version)
        decoded, end = value_schema.decode(version, value, 2)
        assert end == len(value) and value_schema.encode(version, decoded) == value[2:]
        if "json" in case:
            assert_same(decoded, case["json"], kind)
        for name in ("offset", "metadata"):
            assert decoded.get(name) == case.get(name)


def test_every_prefix_of_a_body_is_refused(wire: Any) -> None:
    seen: set[tuple[str, int]] = set()
    for name, version, data, _ in cases(wire):
        if len(data) > 400 or (name, version) in seen:
            continue
        seen.add((name, version))
        for size in range(len(data)):
            with pytest.raises(PylogError):
                message(name).decode(version, data[:size])
    assert seen


def test_versions_are_those_that_kafka_serves(facts: Path) -> None:
    apis = json.loads((facts / "api_versions.json").read_text(encoding="utf-8"))["apis"]
    requests = {schema.api_key: schema for schema in map(message, names("request"))}
    for api in apis:
        if api["min"] is None:
            continue
        low, high = requests[api["id"]].versions
        # Kafka keeps a version or two that are not released yet out of what it serves.
        assert low <= api["min"] <= api["max"] <= high, api["name"]
        if api["flexible_from"] is not None and api["flexible_from"] <= high:
            flexible = [version for version in range(low, high + 1) if requests[api["id"]].is_flexible(version)]
            assert min(flexible) == max(api["flexible_from"], low), api["name"]
