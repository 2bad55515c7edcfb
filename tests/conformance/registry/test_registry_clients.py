"""Clients of a registry that are not Python's, and kcat, each on a stand-in with a registry.

`make registry-clients` fetches franz-go's client (Go) and that of kafkajs (node), and runs them. Debian's kcat has no
Avro: it has to be built with libserdes. Java's kafka-avro-serializer is not on Maven Central.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pylog import serde
from pylog.testing import StandIn

BUILT = Path(__file__).parents[3] / "build" / "registry-clients"
KCAT = shutil.which("kcat")
SECONDS = 120
ORDER = {"type": "record", "name": "Order", "fields": [{"name": "apples", "type": "int"}]}


@pytest.fixture
def kafka() -> Iterator[StandIn]:
    with StandIn(schema_registry=True) as kafka:
        yield kafka


def printed(*command: str | Path) -> list[str]:
    """The lines that a program prints."""
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS, cwd=BUILT if BUILT.exists() else None
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout.splitlines()


@pytest.mark.skipif(not (BUILT / "franz-go").exists(), reason="franz-go's client is absent: make registry-clients")
def test_franz_gos_client_is_answered(kafka: StandIn) -> None:
    found = [json.loads(line) for line in printed(BUILT / "franz-go", kafka.schema_registry_url)]
    schema = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
    assert found == [
        1, ["go-value"], schema, 1, 1, "FULL", False, "READONLY", "READONLY", [1], [1], "Subject 'go-value' not found.",
    ]  # fmt: skip


@pytest.mark.skipif(not (BUILT / "node_modules").exists(), reason="kafkajs' client is absent: make registry-clients")
def test_the_client_of_kafkajs_reads_what_it_wrote(kafka: StandIn) -> None:
    found = [json.loads(line) for line in printed("node", BUILT / "client.js", kafka.schema_registry_url)]
    assert found == [[kind, True, {"x": 5}] for kind in ("AVRO", "JSON", "PROTOBUF")]


def test_kcat_reads_avro(kafka: StandIn) -> None:
    if KCAT is None or "Avro" not in " ".join(printed(KCAT, "-V")):
        pytest.skip("kcat is absent, or has no Avro, as Debian's: build it with libserdes")
    registry = serde.HttpRegistry(kafka.schema_registry_url)
    orders, keys = serde.avro(registry, "orders-value", ORDER), serde.avro(registry, "orders-key", '"string"')
    kafka.log.create_topic("orders")
    with kafka.log.producer(key_serializer=keys.serialize, value_serializer=orders.serialize) as producer:
        producer.send("orders", {"apples": 3}, key="k").result()
    where = ("-b", kafka.bootstrap_servers, "-r", kafka.schema_registry_url)
    assert printed(KCAT, "-C", "-t", "orders", "-e", "-q", "-s", "avro", "-f", "%k %s\n", *where) == [
        '"k" {"apples": 3}'
    ]
