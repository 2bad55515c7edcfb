import os
import socket
import stat
from pathlib import Path

import pytest

from pylog.config import NodeConfig, SecurityProtocol, protocols_of
from pylog.errors import InvalidConfig
from pylog.server.binding import bind, bind_again, bind_listener
from pylog.server.listeners import ListenAddress, Listener, UnixAddress, is_loopback, parse_address, parse_listeners

PROTOCOLS = protocols_of("IN:SASL_SSL")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9092", ("127.0.0.1", 9092)),
        (":0", ("127.0.0.1", 0)),
        ("[::1]:9092", ("::1", 9092)),
        ("localhost:1", ("localhost", 1)),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "9092", "host", "host:", "host:x", "host:70000", "::1:9092", "host:-1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        parse_address(text)


def test_an_ipv6_address_is_written_in_brackets() -> None:
    assert str(ListenAddress("::1", 9092)) == "[::1]:9092"
    assert str(ListenAddress("h", 9092)) == "h:9092"


def test_a_path_is_an_address_without_a_port() -> None:
    address = parse_address("unix:/run/pylog.sock")

    assert isinstance(address, UnixAddress)
    assert (str(address), address.host, address.port) == ("unix:/run/pylog.sock", "unix:/run/pylog.sock", 0)
    assert parse_address("unix:pylog.sock") == UnixAddress(os.path.abspath("pylog.sock"))
    for text in ("unix:", "unix:/", "unix:a\0b"):
        with pytest.raises(ValueError, match="unix:PATH"):
            parse_address(text)


def test_listeners_have_addresses_and_protocols_by_their_names() -> None:
    found = parse_listeners([":1", "IN://0.0.0.0:2", "unix:/a", "SSL://:3"], "IN://kafka:3", PROTOCOLS)

    assert found == [
        Listener("PLAINTEXT", ListenAddress("127.0.0.1", 1), None),
        Listener("IN", ListenAddress("0.0.0.0", 2), ListenAddress("kafka", 3), SecurityProtocol.SASL_SSL),
        Listener("UNIX", UnixAddress("/a"), None),
        Listener("SSL", ListenAddress("127.0.0.1", 3), None, SecurityProtocol.SSL),
    ]
    assert parse_listeners("IN://unix:/a", None, PROTOCOLS) == [
        Listener("IN", UnixAddress("/a"), None, SecurityProtocol.SASL_SSL)
    ]


@pytest.mark.parametrize(
    ("listen", "advertise", "told"),
    [
        ([], None, "no address to listen on"),
        ([":1", ":2"], None, "two addresses are called PLAINTEXT"),
        (["unix:/a", "unix:/b"], None, "two addresses are called UNIX"),
        ([":1", "IN://0.0.0.0:2"], "OUT://kafka:3", "OUT: no listener has this name.* there is PLAINTEXT, IN"),
        ([":1", "IN://0.0.0.0:2"], "kafka:3", "every interface"),
        ("SASL_SLL://:1", None, "SASL_SLL has no security protocol.*SASL_SSL.*listener.security.protocol.map"),
        ("A B://:1", None, "a name has letters"),
        ("://:1", None, "a name has letters"),
        ("unix:/a", "UNIX://kafka:1", "Unix socket connect to its path"),
        (":1", "unix:/a", "UNIX: no listener has this name"),
        ("*:1", None, "--advertise"),
        ("0.0.0.0:1", None, "--advertise"),
        ("[::]:1", "0.0.0.0:2", "cannot be advertised"),
    ],
)
def test_listeners_that_no_client_could_use_are_refused(listen: str, advertise: str | None, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        parse_listeners(listen, advertise, PROTOCOLS)


@pytest.mark.parametrize(
    ("host", "is_one"),
    [
        ("localhost", True), ("127.0.0.1", True), ("127.8.9.1", True), ("::1", True), ("0.0.0.0", False), ("::", False),
        ("127.evil.org", False), ("10.0.0.1", False), ("localhost.evil.org", False), ("127.0.0.1.evil.org", False),
    ],
)  # fmt: skip
def test_loopback_addresses_are_known(host: str, is_one: bool) -> None:
    assert is_loopback(host) is is_one


def test_a_port_that_is_taken_is_named() -> None:
    with bind(ListenAddress("127.0.0.1", 0)).socket as taken, pytest.raises(OSError, match="cannot listen on 127"):
        bind(ListenAddress("127.0.0.1", taken.getsockname()[1]))


@pytest.mark.parametrize("protocol", [SecurityProtocol.PLAINTEXT, SecurityProtocol.SASL_PLAINTEXT])
def test_a_listener_without_tls_is_out_of_reach_unless_that_is_allowed(protocol: SecurityProtocol) -> None:
    listener = Listener("L", ListenAddress("0.0.0.0", 0), ListenAddress("kafka", 1), protocol)
    with pytest.raises(ValueError, match=r"not encrypted.*--allow-plaintext"):
        bind_listener(listener, allow_plaintext=False)

    bind_listener(listener, allow_plaintext=True).socket.close()
    bind_listener(listener._replace(protocol=SecurityProtocol.SSL), allow_plaintext=False).socket.close()
    bind_listener(listener._replace(listen=ListenAddress("localhost", 0)), allow_plaintext=False).socket.close()


# --- Unix sockets -----------------------------------------------------------------------------------------------------


def test_the_socket_of_a_path_is_for_its_owner_and_goes_with_the_server(tmp_path: Path) -> None:
    path = tmp_path / "s"
    bound = bind(UnixAddress(str(path)))
    with bound.socket:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with pytest.raises(OSError, match="another server listens there"):
            bind(UnixAddress(str(path)))
        # Ownership and rights of files may change while they are used.
        os.chmod(path, 0o660)
        bound.release()
        assert not path.exists()
        bound.release()


def test_the_file_of_another_socket_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "s"
    bound = bind(UnixAddress(str(path)))
    with bound.socket:
        path.unlink()
        assert not bound.is_in_place()
        other = bind_again(bound)
        with other.socket:
            assert other.is_in_place() and not bound.is_in_place()
            bound.release()
            assert other.is_in_place()
            with pytest.raises(OSError, match=r"cannot listen on unix:.*/s: a file that is not its socket"):
                bind_again(bound)
            assert other.is_in_place()
    # A number that nobody has open may be that of another file.
    other.release()
    assert path.exists()


def test_the_socket_that_a_killed_server_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s"
    killed = bind(UnixAddress(str(path)))
    killed.socket.close()
    assert path.exists()

    bound = bind(UnixAddress(str(path)))
    with bound.socket, socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        killed.release()
        assert path.exists(), "it is another one's"
    bound.release()


def test_another_file_at_the_path_stays(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_text("mine")
    with pytest.raises(OSError, match="no socket"):
        bind(UnixAddress(str(path)))
    assert path.read_text() == "mine"


def test_a_path_that_is_too_long_or_nowhere_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="103 bytes at most"):
        bind(UnixAddress(f"/tmp/{'x' * 100}"))
    with pytest.raises(OSError, match=r"cannot listen on unix:.*No such file"):
        bind(UnixAddress(str(tmp_path / "absent" / "s")))


# --- protocols --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["IN", "IN:TLS", "IN:SSL,IN:SSL", ":SSL", "A B:SSL", 1, "IN:SSL,,"])
def test_a_map_of_protocols_that_is_wrong_is_refused(value: object) -> None:
    with pytest.raises(InvalidConfig, match="NAME:PROTOCOL pairs"):
        NodeConfig.from_kafka({"listener.security.protocol.map": value})


def test_names_that_are_protocols_need_no_map() -> None:
    for text in ("", " in:sasl_ssl , OUT : SSL"):
        config = NodeConfig.from_kafka({"listener.security.protocol.map": text})
        found = protocols_of(config.listener_security_protocol_map)
        assert {name: found[name].value for name in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")} == {
            name: name for name in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
        }
    assert (found["in"].value, found["OUT"].value) == ("SASL_SSL", "SSL")
    assert protocols_of("SSL:PLAINTEXT")["SSL"] is SecurityProtocol.PLAINTEXT
