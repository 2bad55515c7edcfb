"""A registry behind HTTP: the requests that Confluent's own client makes, answers kept, errors typed."""

import socket
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, repeat
from time import sleep

import pytest

import pylog
from pylog import serde
from pylog.errors import IncompatibleSchema, SchemaNotFound, SchemaRegistryError
from pylog.runtime.http import TimelyReader
from pylog.schema_registry import SchemaRegistryServer

TEXT = serde.Schema('"string"')
USING = serde.Schema('{"$ref": "a.json"}', "JSON", (serde.Reference("a.json", "a/b", 1),))


@pytest.fixture
def behind() -> Iterator[pylog.Log]:
    with pylog.open(":memory:") as log:
        yield log


@contextmanager
def served(log: pylog.Log) -> Iterator[str]:
    with SchemaRegistryServer(log) as server:
        yield server.url


def test_schemas_are_registered_and_found(behind: pylog.Log) -> None:
    with served(behind) as url:
        registry = serde.HttpRegistry(f"{url}/")
        assert registry.register("a/b", TEXT) == 1 and registry.register("c", USING) == 2
        assert registry.by_id(1) == TEXT and registry.by_id(2) == USING
        assert registry.version("a/b") == serde.RegisteredSchema(1, "a/b", 1, TEXT) == registry.version("a/b", 1)
        assert repr(registry) == f"<HttpRegistry at {url}>"
        with pytest.raises(SchemaNotFound, match=r"/subjects/x/versions/7: 404 .*Subject 'x' not found"):
            registry.version("x", 7)
    assert registry.register("c", USING) == 2 and registry.by_id(2) == USING, "what was found is kept"
    with pytest.raises(SchemaRegistryError, match="/schemas/ids/3: "):
        registry.by_id(3)


def test_a_level_is_set_and_an_incompatible_schema_refused(behind: pylog.Log) -> None:
    with served(behind) as url:
        registry = serde.HttpRegistry(url)
        registry.register("a/b", TEXT)
        with pytest.raises(IncompatibleSchema, match=r"/subjects/a%2Fb/versions: 409 .*string cannot be read as int"):
            registry.register("a/b", serde.Schema('"int"'))
        registry.set_compatibility("FULL")
        registry.set_compatibility("NONE", "a/b")
        with pytest.raises(ValueError, match="'SOME' is not a level"):
            registry.set_compatibility("SOME")  # type: ignore[arg-type]
        assert (registry.compatibility(), registry.compatibility("a/b")) == ("FULL", "NONE")
        assert registry.register("a/b", serde.Schema('"int"')) == 2


def test_confluents_client_finds_what_this_one_registered_and_the_other_way_round(behind: pylog.Log) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what it imports
        from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
    with served(behind) as url, SchemaRegistryClient({"url": url}) as theirs:
        ours = serde.HttpRegistry(url)
        ours.register("a/b", TEXT)
        ours.register("c", USING)
        found = theirs.get_latest_version("c")
        assert (found.schema_id, found.version, found.schema.schema_type) == (2, 1, "JSON")
        assert found.schema.schema_str == USING.text and found.schema.references[0].subject == "a/b"
        assert theirs.get_schema(1).schema_type == "AVRO"
        assert theirs.register_schema("d", Schema('"long"', "AVRO")) == 3
        theirs.set_compatibility("d", "FORWARD")
        assert ours.compatibility("d") == theirs.get_compatibility("d") == "FORWARD"
        assert ours.by_id(3) == serde.Schema('"long"') and serde.LogRegistry(behind).version("d").id == 3


# --- servers that mean harm ------------------------------------------------------------------------------------------


@contextmanager
def saying(pieces: Iterable[bytes], *, pause: float = 0) -> Iterator[tuple[str, list[bytes]]]:
    """The URL of a server that answers each request with these pieces, whatever it is; and the requests."""
    asked: list[bytes] = []

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                with client, suppress(OSError):
                    asked.append(client.recv(65536))
                    for piece in pieces:
                        client.sendall(piece)
                        sleep(pause)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", asked
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


OK = b"HTTP/1.1 200 OK\r\n"


def test_a_login_is_sent_and_its_refusal_told() -> None:
    refusal = b'HTTP/1.1 401 Unauthorized\r\n\r\n{"error_code": 401, "message": "Unauthorized"}'
    for password, login in (("secret", b"Basic YWRhOnNlY3JldA=="), (None, b"Basic YWRhOg==")):
        with saying([refusal]) as (url, asked):
            with pytest.raises(SchemaRegistryError, match=r"401 .*Unauthorized") as caught:
                serde.HttpRegistry(url, username="ada", password=password).by_id(1)
            assert b"\r\nAuthorization: " + login in asked[0] and caught.value.error_code == 401


def test_a_login_follows_no_redirect() -> None:
    with saying([b"HTTP/1.1 200 OK\r\n\r\n{}"]) as (elsewhere, hits):
        where = b"HTTP/1.1 307 Elsewhere\r\nLocation: " + elsewhere.encode() + b"/\r\nContent-Length: 0\r\n\r\n"
        with saying([where]) as (url, asked):
            with pytest.raises(SchemaRegistryError, match="307"):
                serde.HttpRegistry(url, username="ada", password="secret").by_id(1)
            assert b"Authorization: Basic" in asked[0]
        assert hits == []


@pytest.mark.parametrize("head", [OK + b"\r\n", OK, b""], ids=["body", "headers", "nothing"])
def test_the_time_of_a_request_is_that_of_all_its_bytes(head: bytes) -> None:
    with saying([head, *[b"x"] * 500], pause=0.02) as (url, _), pytest.raises(SchemaRegistryError, match="time"):
        serde.HttpRegistry(url, timeout=0.3).by_id(1)


def test_nothing_is_read_behind_the_end_of_the_time() -> None:
    with pytest.raises(TimeoutError, match="in time"):
        TimelyReader(None, None, deadline=0).readinto(bytearray(1))


def test_a_server_without_tls_is_an_error_of_the_registry() -> None:
    with saying([OK, b"\r\n{}"]) as (url, _), pytest.raises(SchemaRegistryError, match="/schemas/ids/1: "):
        serde.HttpRegistry(url.replace("http:", "https:"), timeout=240).by_id(1)


def test_an_answer_has_an_end() -> None:
    endless = chain([OK, b"\r\n"], repeat(b" " * 65536))
    with saying(endless) as (url, _), pytest.raises(SchemaRegistryError, match="longer than 16777216 bytes"):
        serde.HttpRegistry(url, timeout=240).by_id(1)


@pytest.mark.parametrize(
    "body",
    [
        b"[]", b"7", b"{}", b'{"schema": "x", "references": 5}', b"[" * 100_000, b"\xff",
        b'{"schema": "x", "references": [1]}',
    ],
    ids=["list", "number", "nothing", "references", "nested", "bytes", "reference"],
)  # fmt: skip
def test_an_answer_of_another_kind_is_an_error_of_the_registry(body: bytes) -> None:
    with saying([OK, b"\r\n", body]) as (url, _), pytest.raises(SchemaRegistryError, match="/schemas/ids/1: "):
        serde.HttpRegistry(url, timeout=240).by_id(1)


def test_what_is_not_http_is_an_error_of_the_registry() -> None:
    for said, why in (([b"SSH-2.0\r\n"], "is not HTTP"), ([OK, b"Content-Length: 9\r\n\r\n{}"], "7 bytes too early")):
        with saying(said) as (url, _), pytest.raises(SchemaRegistryError, match=why):
            serde.HttpRegistry(url, timeout=240).by_id(1)
