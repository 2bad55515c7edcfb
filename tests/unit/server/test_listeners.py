import pytest

from pylog.server.listeners import Address, Listener, bind, check_addresses, parse_address, parse_listeners


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
    assert str(Address("::1", 9092)) == "[::1]:9092"
    assert str(Address("h", 9092)) == "h:9092"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "*"])
def test_listening_everywhere_needs_an_address_to_advertise(host: str) -> None:
    with pytest.raises(ValueError, match="--advertise"):
        check_addresses(Address(host, 9092), None)
    with pytest.raises(ValueError, match="cannot be advertised"):
        check_addresses(Address(host, 9092), Address(host, 9092))

    check_addresses(Address(host, 9092), Address("kafka.example.org", 9092))


def test_listeners_have_the_advertised_addresses_of_their_names() -> None:
    found = parse_listeners([":1", "IN://0.0.0.0:2"], "IN://kafka:3")

    assert found == [
        Listener("PLAINTEXT", Address("127.0.0.1", 1), None),
        Listener("IN", Address("0.0.0.0", 2), Address("kafka", 3)),
    ]


@pytest.mark.parametrize(
    ("listen", "advertise", "told"),
    [
        ([], None, "no address to listen on"),
        ([":1", ":2"], None, "two addresses are called PLAINTEXT"),
        ([":1", "IN://0.0.0.0:2"], "OUT://kafka:3", "OUT: no listener has this name.* there is PLAINTEXT, IN"),
        ([":1", "IN://0.0.0.0:2"], "kafka:3", "every interface"),
        ("A B://:1", None, "a name has letters"),
        ("://:1", None, "a name has letters"),
    ],
)
def test_listeners_that_no_client_could_use_are_refused(listen: str, advertise: str | None, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        parse_listeners(listen, advertise)


def test_a_port_that_is_taken_is_named() -> None:
    with bind(Address("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="cannot listen on 127"):
        bind(Address("127.0.0.1", taken.getsockname()[1]))
