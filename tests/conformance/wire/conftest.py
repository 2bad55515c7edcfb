"""The servers and clients of the scenarios.

`PYLOG_SERVERS` names the servers ("pylog kafka"; `make conformance` takes both). Without it nothing here is collected.
A server or client that is absent here is skipped, with the reason.
"""

import itertools
import os
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, TypeVar

import pytest

from conformance.wire import servers
from conformance.wire.servers import Server
from support import clients
from support.clients.values import Client, Consumer, Producer, until
from support.raw_client import WireClient, error_name
from support.wire_requests import GROUP, LATEST, TRANSACTION, Requests

CHOSEN = os.environ.get("PYLOG_SERVERS", "").split()
collect_ignore_glob = [] if CHOSEN else ["test_*.py"]
HERE = os.path.dirname(__file__)
HOSTILE = {"ignore::ResourceWarning", "ignore::DeprecationWarning"}
T = TypeVar("T", bound=Any)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Warnings of the clients are theirs."""
    ours = [item for item in items if str(item.path).startswith(HERE)]
    for item, text in itertools.product(ours, HOSTILE):
        item.add_marker(pytest.mark.filterwarnings(text))


@pytest.fixture(scope="session", params=CHOSEN)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that all tests of a process share. Topics and groups of a test have names of its own."""
    name = request.param
    if reason := servers.missing(name):
        pytest.skip(reason)
    with servers.running(name, tmp_path_factory.mktemp(name)) as server:
        wait_for_coordinators(server)
        yield server


def wait_for_coordinators(server: Server) -> None:
    """Have the internal topics created, and wait until the server coordinates groups and transactions."""
    with WireClient(server.bootstrap_servers) as wire:
        for kind in (GROUP, TRANSACTION):
            until(lambda kind=kind: _is_coordinated(wire, kind))  # type: ignore[misc]
        until(lambda: Requests(wire).init_producer()["errorCode"] == 0)
        until(lambda: Requests(wire).init_producer("first")["errorCode"] == 0)


def _is_coordinated(wire: WireClient, kind: int) -> bool:
    (found,) = wire.ask("FindCoordinator", {"keyType": kind, "coordinatorKeys": ["any"]})["coordinators"]
    return bool(found["errorCode"] == 0)


class Opened:
    """A client and what it has opened, closed at the end in the opposite order."""

    def __init__(self, client: Client, closing: ExitStack) -> None:
        self.client, self._closing = client, closing
        self.name, self.lacks = client.name, client.lacks

    def producer(self, **config: Any) -> Producer:
        return self._kept(self.client.producer(**config))

    def consumer(self, **config: Any) -> Consumer:
        return self._kept(self.client.consumer(**config))

    def _kept(self, opened: T) -> T:
        self._closing.callback(_close, opened)
        return opened


def _close(opened: Any) -> None:
    """Close a client; one that the test has closed or fenced may refuse."""
    try:
        opened.close()
    except Exception as error:  # noqa: BLE001
        print("closing:", error)


@pytest.fixture(scope="session")
def connected(server: Server) -> Iterator[dict[str, Client]]:
    """The clients of a server that were asked for, by their names: a JVM is started once."""
    found: dict[str, Client] = {}
    yield found
    for client in found.values():
        client.close()


@pytest.fixture(params=list(clients.LIBRARIES))
def client(request: pytest.FixtureRequest, server: Server, connected: dict[str, Client]) -> Iterator[Opened]:
    """Each client library in turn."""
    with ExitStack() as closing:
        yield open_client(request.param, server, connected, closing)


@pytest.fixture
def java(server: Server, connected: dict[str, Client]) -> Iterator[Any]:
    """The admin client of Java, which knows every operation."""
    with ExitStack() as closing:
        opened = open_client("java", server, connected, closing)
        admin = opened.client.admin()  # type: ignore[attr-defined]
        closing.callback(admin.close)
        yield admin


def open_client(name: str, server: Server, connected: dict[str, Client], closing: ExitStack) -> Opened:
    if reason := clients.missing(name):
        pytest.skip(reason)
    if name not in connected:
        connected[name] = clients.connect(name, server.bootstrap_servers)
    return Opened(connected[name], closing)


@pytest.fixture
def wire(server: Server) -> Iterator[WireClient]:
    """A raw connection."""
    with WireClient(server.bootstrap_servers) as connection:
        yield connection


class Topics:
    """Makes topics and names of groups that no other test has."""

    def __init__(self, wire: WireClient, prefix: str) -> None:
        self._wire, self._prefix = wire, prefix
        self._numbers = itertools.count()

    def name(self) -> str:
        return f"{self._prefix}-{next(self._numbers)}"

    def create(self, partitions: int = 1, **config: str) -> str:
        """Create a topic and wait until its partitions have leaders. Configs with underscores."""
        name = self.name()
        configs = [{"name": key.replace("_", "."), "value": value} for key, value in config.items()]
        topic = {"name": name, "numPartitions": partitions, "replicationFactor": 1, "configs": configs}
        (made,) = self._wire.ask("CreateTopics", {"topics": [topic], "timeoutMs": 30_000})["topics"]
        assert made["errorCode"] == 0, (error_name(made["errorCode"]), made["errorMessage"])
        until(lambda: self.is_led(name, partitions))
        return name

    def grow(self, name: str, partitions: int) -> None:
        """Give a topic more partitions."""
        asked = {"topics": [{"name": name, "count": partitions, "assignments": None}], "timeoutMs": 30_000}
        (made,) = self._wire.ask("CreatePartitions", asked)["results"]
        assert made["errorCode"] == 0, error_name(made["errorCode"])
        until(lambda: self.is_led(name, partitions))

    def is_led(self, name: str, partitions: int) -> bool:
        asked = {"topics": [{"name": name}], "allowAutoTopicCreation": False}
        (topic,) = self._wire.ask("Metadata", asked)["topics"]
        if topic["errorCode"] or len(topic["partitions"]) != partitions:
            return False
        # A broker of Kafka's tells of a leader in the metadata before that takes requests.
        asked = {"replicaId": -1, "topics": [{"name": name, "partitions": [
            {"partitionIndex": number, "timestamp": LATEST} for number in range(partitions)]}]}  # fmt: skip
        (answer,) = self._wire.ask("ListOffsets", asked)["topics"]
        return all(part["errorCode"] == 0 for part in answer["partitions"])


@pytest.fixture
def topics(wire: WireClient, request: pytest.FixtureRequest) -> Topics:
    return Topics(wire, prefix_of(request))


def prefix_of(request: pytest.FixtureRequest) -> str:
    """A prefix of names that only this test has."""
    name = request.node.originalname.removeprefix("test_")[:40].replace("_", "-")
    return f"{name}-{zlib.crc32(request.node.nodeid.encode()):08x}"
