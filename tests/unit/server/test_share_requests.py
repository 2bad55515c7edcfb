"""ShareFetch and ShareAcknowledge over the wire: their versions, and what the end of a connection frees."""

from collections.abc import Iterator
from typing import Any

import pytest

from pylog.protocol.batch import split
from pylog.testing import StandIn
from support.wire_client import WireClient

ANN, BEN = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"


class Shop:
    """A server with a topic of three records, and a share group that begins with the first."""

    def __init__(self, kafka: StandIn) -> None:
        self.kafka = kafka
        kafka.log.create_topic("t")
        self.topic_id = kafka.log.broker.image.topics["t"].id
        with self.client() as client:
            part = {"partition": 0, "stateEpoch": 1, "startOffset": 0}
            topics = [{"topicId": self.topic_id, "partitions": [part]}]
            client.ask("InitializeShareGroupState", 0, {"groupId": "g", "topics": topics})
        with kafka.log.producer() as producer:
            for _ in range(3):
                producer.send("t", b"x")

    def client(self) -> WireClient:
        return WireClient(self.kafka.bootstrap_servers)

    def fetch(self, epoch: int, member: str, wait_ms: int = 0) -> dict[str, Any]:
        parts = [{"partitionIndex": 0, "acknowledgementBatches": []}]
        return {
            "groupId": "g", "memberId": member, "shareSessionEpoch": epoch, "maxWaitMs": wait_ms, "minBytes": 1,
            "maxBytes": 1 << 20, "maxRecords": 100, "batchSize": 100,
            "topics": [{"topicId": self.topic_id, "partitions": parts}], "forgottenTopicsData": [],
        }  # fmt: skip


@pytest.fixture
def shop() -> Iterator[Shop]:
    with StandIn() as kafka:
        yield Shop(kafka)


def acquired(response: dict[str, Any]) -> list[tuple[int, int, int]]:
    assert response["errorCode"] == 0
    (topic,) = response["responses"]
    (part,) = topic["partitions"]
    assert (part["errorCode"], part["acknowledgeErrorCode"]) == (0, 0)
    return [(one["firstOffset"], one["lastOffset"], one["deliveryCount"]) for one in part["acquiredRecords"]]


@pytest.mark.parametrize("version", [1, 2])
def test_records_are_acquired_and_acknowledged(shop: Shop, version: int) -> None:
    with shop.client() as client:
        response = client.ask("ShareFetch", version, shop.fetch(0, ANN))
        assert acquired(response) == [(0, 2, 1)]
        (part,) = response["responses"][0]["partitions"]
        assert [batch.next_offset for batch in split(part["records"])][-1] == 3
        said = {"firstOffset": 0, "lastOffset": 2, "acknowledgeTypes": [1, 2, 3]}
        topics = [{"topicId": shop.topic_id, "partitions": [{"partitionIndex": 0, "acknowledgementBatches": [said]}]}]
        body = {"groupId": "g", "memberId": ANN, "shareSessionEpoch": 1, "topics": topics}
        response = client.ask("ShareAcknowledge", version, body)
        assert response["responses"][0]["partitions"][0]["errorCode"] == 0
        assert response.get("acquisitionLockTimeoutMs") == (30_000 if version > 1 else None)
        assert acquired(client.ask("ShareFetch", version, shop.fetch(2, ANN))) == [(1, 1, 2)]


def test_the_end_of_a_connection_frees_what_its_client_holds(shop: Shop) -> None:
    with shop.client() as ben:
        with shop.client() as ann:
            assert acquired(ann.ask("ShareFetch", 2, shop.fetch(0, ANN))) == [(0, 2, 1)]
            ben.send("ShareFetch", 2, shop.fetch(0, BEN, wait_ms=60_000))
        assert acquired(ben.receive("ShareFetch", 2)[1]) == [(0, 2, 2)]


def test_a_client_that_leaves_while_it_waits_takes_nothing(shop: Shop) -> None:
    with shop.client() as ann:
        assert acquired(ann.ask("ShareFetch", 2, shop.fetch(0, ANN))) == [(0, 2, 1)]
        with shop.client() as ben:
            ben.send("ShareFetch", 2, shop.fetch(0, BEN, wait_ms=60_000))
        with shop.kafka.log.producer() as producer:
            producer.send("t", b"x")
        # Its session ends in its turn.
        found: list[tuple[int, int, int]] = []
        epoch = 1
        while not found:
            response = ann.ask("ShareFetch", 2, shop.fetch(epoch, ANN, wait_ms=10))
            found, epoch = acquired(response) if response["responses"] else [], epoch + 1
        assert [(first, last) for first, last, _ in found] == [(3, 3)]
