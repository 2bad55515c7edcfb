"""The server is stopped, or killed, and started again at its address, while clients are connected."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from conformance.wire import servers
from conformance.wire.conftest import CHOSEN, Opened, Topics, open_client, wait_for_coordinators
from conformance.wire.servers import Server
from support import clients
from support.clients.values import Client, Sent, read_all, until
from support.raw_client import WireClient
from support.wire_requests import Requests, error_of, records


@pytest.fixture(scope="module", params=CHOSEN or ["pylog"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that the tests of this file alone have: they stop it."""
    if reason := servers.missing(request.param):
        pytest.skip(reason)
    with servers.running(request.param, tmp_path_factory.mktemp(request.param)) as server:
        wait_for_coordinators(server)
        yield server


@pytest.fixture(params=["stop", "kill"])
def restart(request: pytest.FixtureRequest, server: Server) -> Callable[[], None]:
    def again() -> None:
        getattr(server, request.param)()
        server.start()

    return again


@pytest.fixture(params=list(clients.LIBRARIES))
def client(request: pytest.FixtureRequest, server: Server) -> Iterator[Opened]:
    """A client of this server, which no other test has."""
    connected: dict[str, Client] = {}
    with ExitStack() as closing:
        yield open_client(request.param, server, connected, closing)
    for each in connected.values():
        each.close()


def test_clients_go_on_after_a_restart(
    client: Opened, topics: Topics, restart: Callable[[], None]
) -> None:  # fmt: skip
    topic, group = topics.create(), topics.name()
    producer, consumer = client.producer(), client.consumer(group_id=group)
    consumer.subscribe(topic)
    assert producer.send(topic, [Sent(b"before")]) == [(0, 0)]
    assert [record.value for record in read_all(consumer, 1)] == [b"before"]
    consumer.commit({(topic, 0): 1})

    restart()

    assert producer.send(topic, [Sent(b"after")]) == [(0, 1)]
    again = until(consumer.poll, patience=90)
    assert {(record.offset, record.value) for record in again} == {(1, b"after")}
    # aiokafka knows of none as long as it looks for its coordinator.
    until(lambda: consumer.committed((topic, 0)) == 1)


def test_all_that_was_acknowledged_is_there_after_a_restart(
    server: Server, topics: Topics, restart: Callable[[], None]
) -> None:
    topic, group = topics.create(max_message_bytes="123456"), topics.name()
    with WireClient(server.bootstrap_servers) as wire:
        before = Requests(wire)
        producer = until(lambda: (answer := before.init_producer())["errorCode"] == 0 and answer)
        identity = {"producer_id": producer["producerId"], "producer_epoch": producer["producerEpoch"]}
        identity["timestamp"] = time.time_ns() // 1_000_000  # a producer is forgotten by the time of its last record
        for sequence in range(5):
            assert error_of(before.produce(topic, records(b"x", base_sequence=sequence, **identity))) == "NONE"
        assert before.commit_offset(group, topic, 3) == "NONE"
        topic_id = before.topic_id(topic)

    restart()

    with WireClient(server.bootstrap_servers) as wire:
        after = Requests(wire)
        assert after.topic_id(topic) == topic_id
        assert [record.offset for record in after.read(topic)] == [0, 1, 2, 3, 4]
        assert after.produce(topic, records(b"x", base_sequence=4, **identity))["baseOffset"] == 4, "a duplicate"
        assert after.produce(topic, records(b"y", base_sequence=5, **identity))["baseOffset"] == 5
        assert until(lambda: committed(after, group, topic)) == 3
        asked = {"resources": [{"resourceType": 2, "resourceName": topic, "configurationKeys": ["max.message.bytes"]}]}
        (config,) = wire.ask("DescribeConfigs", asked)["results"][0]["configs"]
        assert config["value"] == "123456"


def committed(requests: Requests, group: str, topic: str) -> int | None:
    """The committed offset; None as long as the coordinator loads."""
    asked = {"groups": [{"groupId": group, "topics": [{"name": topic, "partitionIndexes": [0]}]}]}
    (found,) = requests.wire.ask("OffsetFetch", asked, version=9)["groups"]
    return None if found["errorCode"] else found["topics"][0]["partitions"][0]["committedOffset"]


def test_transaction_goes_on_after_a_restart(server: Server, topics: Topics, restart: Callable[[], None]) -> None:
    topic, name = topics.create(), topics.name()
    with WireClient(server.bootstrap_servers) as wire:
        before = Requests(wire)
        owner = until(lambda: (answer := before.init_producer(name))["errorCode"] == 0 and answer)
        until(lambda: before.add_partitions(name, owner, topic) == "NONE")
        identity = {"producer_id": owner["producerId"], "producer_epoch": owner["producerEpoch"]}
        data = records(b"open", base_sequence=0, transactional=True, **identity)
        until(lambda: error_of(before.produce(topic, data, transactional_id=name, version=11)) == "NONE")

    restart()

    with WireClient(server.bootstrap_servers) as wire:
        after = Requests(wire)
        more = records(b"more", base_sequence=1, transactional=True, **identity)
        until(lambda: error_of(after.produce(topic, more, transactional_id=name, version=11)) == "NONE")
        until(lambda: error_of(after.end(name, owner, commit=True)) == "NONE")
        until(lambda: [record.value for record in after.read(topic, isolation=1)] == [b"open", b"more"])
