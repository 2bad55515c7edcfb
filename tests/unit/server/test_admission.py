"""How many connections are taken, and what a Unix socket has of its own."""

import socket
from pathlib import Path

import pytest

import pylog
from pylog.config import DynamicBrokerConfig, NodeConfig
from pylog.server.admission import Admission
from pylog.testing import StandIn
from support.wire_client import WireClient

METADATA = {"topics": None}


def test_connections_are_counted_by_their_addresses() -> None:
    admission = Admission(DynamicBrokerConfig(NodeConfig(max_connections=3, max_connections_per_ip=2)))

    assert [admission.enter(host) for host in "aab"] == [None] * 3
    assert admission.enter("c") == "max.connections"
    admission.leave("a")
    assert admission.enter("b") is None
    admission.leave("b")
    assert admission.enter("b") is None
    assert admission.enter("a") == "max.connections"
    admission.leave("b")
    admission.leave("b")
    assert [admission.enter("a"), admission.enter("a")] == [None, "max.connections.per.ip"]
    assert admission.count == 2


def test_a_unix_socket_has_no_address_to_count_by() -> None:
    admission = Admission(DynamicBrokerConfig(NodeConfig(max_connections_per_ip=1)))

    assert [admission.enter(""), admission.enter(""), admission.enter("a")] == [None] * 3
    assert admission.enter("a") == "max.connections.per.ip"


def test_too_many_connections_in_a_second_wait_for_the_next_one() -> None:
    admission = Admission(DynamicBrokerConfig(NodeConfig(max_connection_creation_rate=2)))

    assert [admission.wait_ms(now) for now in (0, 100, 200, 999, 1000, 1001, 1500, 2000)] == [
        0, 0, 800, 1, 0, 0, 500, 0,
    ]  # fmt: skip
    assert Admission(DynamicBrokerConfig(NodeConfig())).wait_ms(0) == 0


def test_a_server_refuses_what_is_too_many_from_one_address_and_frees_places() -> None:
    with (
        StandIn(config={"max_connections_per_ip": 2}) as kafka,
        WireClient(kafka.bootstrap_servers) as one,
        WireClient(kafka.bootstrap_servers) as two,
    ):
        assert one.ask("Metadata", 12, METADATA)["brokers"]
        assert two.ask("Metadata", 12, METADATA)["brokers"]
        with WireClient(kafka.bootstrap_servers) as three:
            assert three.is_closed()
        one.socket.shutdown(socket.SHUT_WR)
        assert one.is_closed()
        with WireClient(kafka.bootstrap_servers) as four:
            assert four.ask("Metadata", 12, METADATA)["brokers"]


# --- Unix sockets -----------------------------------------------------------------------------------------------------


def test_a_unix_socket_serves_beside_a_port(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with pylog.open(":memory:") as log, log.serve([f"unix:{path}", "127.0.0.1:0"]) as server:
        assert server.bootstrap_servers == f"unix:{path}"
        with WireClient(server.bootstrap_servers) as client:
            (broker,) = client.ask("Metadata", 12, METADATA)["brokers"]
            assert (broker["host"], broker["port"]) == (f"unix:{path}", 0)
            client.ask("Metadata", 12, {"topics": [{"name": "t"}]})
        with WireClient(str(server.addresses["PLAINTEXT"])) as client:
            answer = client.ask("Metadata", 12, METADATA)
            assert [topic["name"] for topic in answer["topics"]] == ["t"]
            assert answer["brokers"][0]["host"] == "127.0.0.1"
    assert not path.exists()


def test_a_server_that_cannot_begin_leaves_no_socket(tmp_path: Path) -> None:
    with pylog.open(":memory:") as log:
        with log.serve() as other, pytest.raises(OSError, match="cannot listen"):
            log.serve([f"unix:{tmp_path / 's'}", other.bootstrap_servers])
        assert list(tmp_path.iterdir()) == []


def test_a_killed_server_leaves_its_socket_and_the_next_one_takes_it(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with pylog.open(":memory:") as log:
        log.serve(f"unix:{path}").kill()
        assert path.exists()
        with log.serve(f"unix:{path}") as server, WireClient(server.bootstrap_servers) as client:
            assert client.ask("Metadata", 12, METADATA)["brokers"]
