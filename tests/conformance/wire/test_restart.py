"""The server is stopped, or killed, and started again at its address, while clients are connected."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from conformance.wire.conftest import Opened, Topics, open_client
from conformance.wire.servers import Server
from support import clients
from support.clients.values import Client, Sent, read_all, until
from support.wire_client import WireClient
from support.wire_requests import Requests, error_of, records


@pytest.fixture(params=["stop", "kill"])
def restart(request: pytest.FixtureRequest, own_server: Server) -> Callable[[], None]:
    def again() -> None:
        getattr(own_server, request.param)()
        own_server.start()

    return again


@pytest.fixture(params=list(clients.LIBRARIES))
def own_client(request: pytest.FixtureRequest, own_server: Server) -> Iterator[Opened]:
    connected: dict[str, Client] = {}
    with ExitStack() as closing:
        yield open_client(request.param, own_server, connected, closing)
    for client in connected.values():
        client.close()


@pytest.fixture
def own_topics(own_server: Server) -> Iterator[Topics]:
    with WireClient(own_server.bootstrap_servers) as wire:
        yield Topics(wire, "own")


def test_clients_go_on_after_a_restart(
    own_client: Opened, own_topics: Topics, restart: Callable[[], None]
) -> None:  # fmt: skip
    topic, group = own_topics.create(), own_topics.name()
    producer, consumer = own_client.producer(), own_client.consumer(group_id=group)
    consumer.subscribe(topic)
    assert producer.send(topic, [Sent(b"before")]) == [(0, 0)]
    assert [record.value for record in read_all(consumer, 1)] == [b"before"]
    consumer.commit({(topic, 0): 1})

    restart()

    assert producer.send(topic, [Sent(b"after")]) == [(0, 1)]
    assert [record.value for record in read_all(consumer, 1)] == [b"after"]
    assert consumer.committed((topic, 0)) == 1


def test_all_that_was_acknowledged_is_there_after_a_restart(
    own_server: Server, own_topics: Topics, restart: Callable[[], None]
) -> None:
    topic = own_topics.create(retention_ms="123456789")
    with WireClient(own_server.bootstrap_servers) as wire:
        before = Requests(wire)
        producer = before.init_producer()
        identity = {"producer_id": producer["producerId"], "producer_epoch": producer["producerEpoch"]}
        for sequence in range(5):
            assert error_of(before.produce(topic, records(b"x", base_sequence=sequence, **identity))) == "NONE"
        assert before.commit_offset("g", topic, 3) == "NONE"
        topic_id = before.topic_id(topic)

    restart()

    with WireClient(own_server.bootstrap_servers) as wire:
        after = Requests(wire)
        assert after.topic_id(topic) == topic_id
        assert [record.offset for record in after.read(topic)] == [0, 1, 2, 3, 4]
        assert after.produce(topic, records(b"x", base_sequence=4, **identity))["baseOffset"] == 4, "a duplicate"
        assert after.produce(topic, records(b"y", base_sequence=5, **identity))["baseOffset"] == 5
        assert until(lambda: committed(after, topic)) == 3
        asked = {"resources": [{"resourceType": 2, "resourceName": topic, "configurationKeys": ["retention.ms"]}]}
        (config,) = wire.ask("DescribeConfigs", asked)["results"][0]["configs"]
        assert config["value"] == "123456789"


def committed(requests: Requests, topic: str) -> int | None:
    """The committed offset; None as long as the coordinator loads."""
    asked = {"groups": [{"groupId": "g", "topics": [{"name": topic, "partitionIndexes": [0]}]}]}
    (group,) = requests.wire.ask("OffsetFetch", asked, version=9)["groups"]
    return None if group["errorCode"] else group["topics"][0]["partitions"][0]["committedOffset"]


def test_transaction_is_aborted_or_goes_on_after_a_restart(
    own_server: Server, own_topics: Topics, restart: Callable[[], None]
) -> None:
    topic = own_topics.create()
    with WireClient(own_server.bootstrap_servers) as wire:
        before = Requests(wire)
        owner = until(lambda: (answer := before.init_producer("t"))["errorCode"] == 0 and answer)
        until(lambda: before.add_partitions("t", owner, topic) == "NONE")
        identity = {"producer_id": owner["producerId"], "producer_epoch": owner["producerEpoch"]}
        data = records(b"open", base_sequence=0, transactional=True, **identity)
        until(lambda: error_of(before.produce(topic, data, transactional_id="t", version=11)) == "NONE")

    restart()

    with WireClient(own_server.bootstrap_servers) as wire:
        after = Requests(wire)
        more = records(b"more", base_sequence=1, transactional=True, **identity)
        until(lambda: error_of(after.produce(topic, more, transactional_id="t", version=11)) == "NONE")
        until(lambda: error_of(after.end("t", owner, commit=True)) == "NONE")
        until(lambda: [record.value for record in after.read(topic, isolation=1)] == [b"open", b"more"])
