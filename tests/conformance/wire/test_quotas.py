"""Quotas of clients: who has which, how long a client is passed over, and what Kafka's own command makes of them."""

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from conformance.wire.conftest import Topics
from conformance.wire.servers import Server
from conformance.wire.test_shell import Run, run
from support.clients.values import until
from support.raw_client import DisconnectedError, WireClient
from support.wire_requests import Requests, records

__all__ = ["run"]

RATE = 10_000
BURST_SECONDS = 10
"""A rate is measured over so long, at least."""
Entity = dict[str, str | None]


class Quotas:
    """The quotas of a server. Those that were set are removed in the end."""

    def __init__(self, wire: WireClient) -> None:
        self._wire = wire
        self.set_: list[tuple[Entity, str]] = []

    def alter(self, entity: Entity, *, remove: bool = False, **values: float) -> tuple[int, str | None]:
        parts = [{"entityType": kind, "entityName": name} for kind, name in entity.items()]
        ops = [{"key": key, "value": value, "remove": remove} for key, value in values.items()]
        answer = self._wire.ask("AlterClientQuotas", {"entries": [{"entity": parts, "ops": ops}]})
        (told,) = answer["entries"]
        if told["errorCode"] == 0 and not remove:
            self.set_ += [(entity, key) for key in values]
            until(lambda: self.described(entity).items() >= values.items())
        return told["errorCode"], told["errorMessage"]

    def described(self, entity: Entity) -> dict[str, float]:
        components = [
            {"entityType": kind, "matchType": 1 if name is None else 0, "match": name} for kind, name in entity.items()
        ]
        answer = self._wire.ask("DescribeClientQuotas", {"components": components, "strict": True})
        return {value["key"]: value["value"] for one in answer["entries"] for value in one["values"]}

    def close(self) -> None:
        for entity, key in self.set_:
            self.alter(entity, remove=True, **{key: 0.0})


@pytest.fixture
def quotas(wire: WireClient) -> Iterator[Quotas]:
    made = Quotas(wire)
    yield made
    made.close()


def produce(server: Server, topic: str, client_id: str, size: int) -> int:
    """The throttle time of a Produce whose frame has about so many bytes."""
    with WireClient(server.bootstrap_servers, client_id) as wire:
        return _produced(wire, topic, size)


def _produced(wire: WireClient, topic: str, size: int) -> int:
    topic_id = Requests(wire).topic_id(topic)
    data = [{"topicId": topic_id, "partitionData": [{"index": 0, "records": records(b"x" * size)}]}]
    answer = wire.ask("Produce", {"acks": 1, "timeoutMs": 5000, "topicData": data})
    throttle_ms: int = answer["throttleTimeMs"]
    return throttle_ms


def test_quotas_are_set_described_and_removed(quotas: Quotas, topics: Topics) -> None:
    client, user = topics.name(), topics.name()
    both: Entity = {"user": user, "client-id": client}

    assert quotas.alter(both, producer_byte_rate=1000.0, request_percentage=12.5) == (0, None)
    assert quotas.alter({"user": user}, consumer_byte_rate=2000.0) == (0, None)
    assert quotas.described(both) == {"producer_byte_rate": 1000.0, "request_percentage": 12.5}
    assert quotas.described({"user": user}) == {"consumer_byte_rate": 2000.0}
    assert quotas.alter(both, remove=True, producer_byte_rate=0.0) == (0, None)
    until(lambda: quotas.described(both) == {"request_percentage": 12.5})
    assert quotas.alter(both, remove=True, producer_byte_rate=0.0) == (0, None)


@pytest.mark.parametrize(
    ("entity", "values"),
    [
        ({}, {"producer_byte_rate": 1.0}),
        ({"what": "a"}, {"producer_byte_rate": 1.0}),
        ({"user": "a", "ip": "127.0.0.1"}, {"producer_byte_rate": 1.0}),
        ({"ip": "127.0.0.1"}, {"producer_byte_rate": 1.0}),
        ({"user": "a"}, {"what": 1.0}),
        ({"user": "a"}, {"producer_byte_rate": 0.0}),
        ({"user": "a"}, {"producer_byte_rate": -1.0}),
        ({"user": "a"}, {"consumer_byte_rate": 1.5}),
        ({"user": "a"}, {"producer_byte_rate": 1e30}),
    ],
)
def test_a_quota_that_makes_no_sense_is_refused(quotas: Quotas, entity: Entity, values: dict[str, float]) -> None:
    code, told = quotas.alter(entity, **values)
    assert code == 42 and told
    assert quotas.described({"user": "a"}) == {}


def test_a_client_over_its_quota_is_passed_over_for_the_time_that_it_is_told(
    server: Server, quotas: Quotas, topics: Topics
) -> None:
    topic, client = topics.create(), topics.name()
    quotas.alter({"client-id": client}, producer_byte_rate=float(RATE))

    with WireClient(server.bootstrap_servers, client) as wire:
        assert _produced(wire, topic, RATE * (BURST_SECONDS - 1)) == 0
        throttle_ms = _produced(wire, topic, 2 * RATE)
        # A second of bytes too many takes a second, and the windows that began meanwhile.
        assert 900 <= throttle_ms <= 1300
        begun = time.monotonic()
        wire.ask("ApiVersions", {}, version=0)
        assert time.monotonic() - begun >= 0.9 * throttle_ms / 1000
    assert produce(server, topic, topics.name(), RATE) == 0


@pytest.mark.parametrize(
    ("special", "general"),
    [
        ({"user": "ANONYMOUS", "client-id": "NAME"}, {"user": "ANONYMOUS"}),
        ({"user": "ANONYMOUS", "client-id": None}, {"user": "ANONYMOUS"}),
        ({"user": "ANONYMOUS"}, {"client-id": "NAME"}),
        ({"user": None, "client-id": "NAME"}, {"user": None, "client-id": None}),
        ({"user": None, "client-id": None}, {"user": None}),
        ({"user": None}, {"client-id": "NAME"}),
        ({"client-id": "NAME"}, {"client-id": None}),
    ],
)
def test_the_most_special_entity_counts(
    server: Server, quotas: Quotas, topics: Topics, special: Entity, general: Entity
) -> None:
    topic, client = topics.create(), topics.name()
    for entity, rate in ((special, RATE), (general, 100 * RATE)):
        quotas.alter(
            {kind: client if name == "NAME" else name for kind, name in entity.items()}, producer_byte_rate=rate
        )

    assert produce(server, topic, client, (BURST_SECONDS + 1) * RATE) > 0


def test_a_fetch_over_the_quota_has_no_records(
    server: Server, quotas: Quotas, topics: Topics, wire: WireClient
) -> None:
    topic, client = topics.create(), topics.name()
    for _ in range(20):
        _produced(wire, topic, RATE)
    quotas.alter({"client-id": client}, consumer_byte_rate=float(RATE))

    with WireClient(server.bootstrap_servers, client) as reader:
        topic_id = Requests(reader).topic_id(topic)

        def fetch(offset: int) -> tuple[int, int]:
            part = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": 6 * RATE, "currentLeaderEpoch": -1}
            topics = [{"topicId": topic_id, "partitions": [part]}]
            body: dict[str, Any] = {
                "replicaId": -1,
                "maxWaitMs": 0,
                "minBytes": 0,
                "maxBytes": 1 << 20,
                "topics": topics,
            }
            answer = reader.ask("Fetch", {**body, "sessionId": 0, "sessionEpoch": -1})
            parts = [part for one in answer["responses"] for part in one["partitions"]]
            return sum(len(part["records"] or b"") for part in parts), answer["throttleTimeMs"]

        size, throttle_ms = fetch(0)
        assert 4 * RATE < size <= 6 * RATE and throttle_ms == 0
        size, throttle_ms = fetch(5)
        assert size == 0 and throttle_ms > 0


def test_connections_over_the_quota_of_an_address_end(server: Server, quotas: Quotas) -> None:
    quotas.alter({"ip": "127.0.0.1"}, connection_creation_rate=1.0)

    ended = 0
    for _ in range(BURST_SECONDS + 3):
        with WireClient(server.bootstrap_servers) as client:
            try:
                client.ask("ApiVersions", {}, version=0)
            except (DisconnectedError, ConnectionError):
                ended += 1

    assert 1 <= ended <= 3


def test_kafkas_command_sets_and_describes_quotas(run: Run, quotas: Quotas, topics: Topics) -> None:
    client = topics.name()
    entity = "--entity-type", "clients", "--entity-name", client

    run("configs", "--alter", *entity, "--add-config", "producer_byte_rate=1000,request_percentage=50")
    until(lambda: quotas.described({"client-id": client}) == {"producer_byte_rate": 1000.0, "request_percentage": 50.0})
    told = run("configs", "--describe", *entity)
    assert f"Quota configs for client-id '{client}' are" in told and "producer_byte_rate=1000.0" in told
    run("configs", "--alter", *entity, "--delete-config", "producer_byte_rate,request_percentage")
    until(lambda: quotas.described({"client-id": client}) == {})
    with suppress(AssertionError):
        run("configs", "--alter", *entity, "--add-config", "producer_byte_rate=0")
    assert quotas.described({"client-id": client}) == {}
