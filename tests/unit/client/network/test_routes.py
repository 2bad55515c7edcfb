"""Where calls go: addresses, nodes, coordinators and rests."""

import pytest

from pylog.client.network.address import Address, parse, parse_all
from pylog.client.network.routes import Routes

FIRST, SECOND = Address("a", 1), Address("b", 2)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("127.0.0.1:9092", Address("127.0.0.1", 9092)),
        (" kafka:1 ", Address("kafka", 1)),
        ("[::1]:9092", Address("::1", 9092)),
        ("unix:/run/pylog.sock", Address("unix:/run/pylog.sock", 0)),
    ],
)
def test_an_address_is_read_and_written_alike(text: str, found: Address) -> None:
    assert parse(text) == found
    assert str(found) == text.strip()


@pytest.mark.parametrize("text", ["", "host", "host:", ":9092", "host:0", "host:65536", "host:9a", "host:-1", "unix:"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no address|no path"):
        parse(text)


def test_several_addresses_are_taken_once_each() -> None:
    assert parse_all("a:1, b:2,a:1,") == [FIRST, SECOND]
    assert parse_all(["a:1", "b:2"]) == [FIRST, SECOND]
    with pytest.raises(ValueError, match="no address was given"):
        parse_all(" , ")
    with pytest.raises(TypeError, match="not NoneType"):
        parse_all(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not int"):
        parse_all(["a:1", 9092])  # type: ignore[list-item]


def test_nodes_are_those_of_the_last_metadata() -> None:
    routes = Routes([FIRST], 50, 1000)
    routes.learn({1: ("a", 1), 2: ("b", 2)})
    routes.learn({2: ("b", 2)})
    assert routes.nodes == {2: SECOND}
    routes.learn({})
    assert routes.nodes == {2: SECOND}


@pytest.mark.parametrize("broker", [("", 1), ("a", 0), ("a", -1), ("a", 1 << 20)])
def test_an_address_that_no_socket_could_reach_is_not_taken(broker: tuple[str, int]) -> None:
    routes = Routes([FIRST], 50, 1000)
    routes.learn({1: broker})
    assert routes.nodes == {}


def test_behind_a_unix_socket_every_node_is_that_socket() -> None:
    there = parse("unix:/run/pylog.sock")
    routes = Routes([there], 50, 1000)
    routes.learn({7: ("127.0.0.1", 9092)})
    assert routes.nodes == {7: there}


def test_any_node_is_one_that_does_not_rest_and_the_given_addresses_are_last() -> None:
    routes = Routes([FIRST], 50, 1000)
    assert routes.any_node(set()) == FIRST
    routes.learn({2: ("b", 2)})
    assert routes.any_node(set()) == SECOND
    routes.failed(SECOND, OSError("refused"), 0)
    assert routes.any_node(set()) == FIRST
    assert routes.any_node({FIRST}) == SECOND
    assert routes.any_node({FIRST, SECOND}) is None
    assert "b:2: refused" in routes.failures()


def test_an_address_rests_longer_after_each_failure_until_it_is_reached() -> None:
    routes = Routes([FIRST], 50, 1000)
    rests = []
    for _ in range(8):
        routes.failed(FIRST, OSError("refused"), 0)
        rests.append(routes.rests_until_ms(FIRST))
    assert 40 <= rests[0] <= 60
    assert 80 <= rests[1] <= 120
    assert 800 <= rests[-1] <= 1200
    routes.reached(FIRST)
    assert routes.rests_until_ms(FIRST) == 0


def test_what_a_node_coordinates_is_forgotten_when_it_is_lost() -> None:
    routes = Routes([FIRST], 50, 1000)
    routes.learn({1: ("a", 1), 2: ("b", 2)})
    routes.coordinates(("group", "g"), 1)
    routes.coordinates(("group", "h"), 2)
    routes.failed(FIRST, OSError("gone"), 0)
    assert routes.coordinator(("group", "g")) is None
    assert routes.coordinator(("group", "h")) == 2
    routes.forget_coordinator(("group", "h"))
    assert routes.coordinator(("group", "h")) is None


def test_a_coordinator_without_an_address_is_not_taken() -> None:
    routes = Routes([FIRST], 50, 1000)
    routes.learn_one({"nodeId": -1, "host": "", "port": -1})
    routes.learn_one({"nodeId": 3, "host": "b", "port": 2})
    assert routes.nodes == {3: SECOND}
