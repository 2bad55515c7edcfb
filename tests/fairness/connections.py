"""What a client may do with connections: TLS and SASL states, slow readers and writers, idle ones, floods."""

import ctypes
import ctypes.util
import os
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from fairness.attack import Attack, Strike, Target, Traffic, connected, exchanged, framed, one_request, summed
from pylog.protocol import schema
from support.raw_client import Body

MANY = 300
LONG_BYTES = 500_000
"""Just below `sasl.server.max.receive.size`."""
SECOND = 1.0


def attacks(listeners: set[str]) -> Iterator[Attack]:
    """Those against the listeners that there are."""
    for listener, ways in (("PLAINTEXT", PLAIN), ("SSL", TLS), ("SASL_PLAINTEXT", SASL)):
        if listener in listeners:
            for name, prepare in ways.items():
                yield Attack(name, prepare)


def request(name: str, version: int, body: Body) -> bytes:
    """A frame without its length."""
    of = schema.message(f"{name}Request")
    head = struct.pack(">hhih", of.api_key, version, 1, -1)
    return head + (b"\0" if of.is_flexible(version) else b"") + of.encode(version, body)


def _many(first: bytes, each: int = MANY, listener: str = "PLAINTEXT", seconds: float = SECOND) -> Callable[[], Strike]:
    """Connections that send this, and stay."""

    def strike(target: Target) -> Traffic:
        with ExitStack() as closing:
            for _ in range(each):
                client = closing.enter_context(connected(target, listener))
                client.sendall(first)
            time.sleep(seconds)
        return Traffic(each * len(first))

    return lambda: strike


def _storm() -> Strike:
    def strike(target: Target) -> Traffic:
        for _ in range(1500):
            connected(target).close()
        return Traffic(0)

    return strike


def _byte_by_byte() -> Strike:
    data = framed(request("Metadata", 1, {"topics": []}))

    def strike(target: Target) -> Traffic:
        with ExitStack() as closing:
            clients = [closing.enter_context(connected(target)) for _ in range(50)]
            for at in range(len(data)):
                for client in clients:
                    client.sendall(data[at : at + 1])
                time.sleep(0.02)
            for client in clients:
                client.recv(4)
        return Traffic(len(data) * 50)

    return strike


def _pipelined(name: str, version: int, body: Body, count: int, answers: int | None = None) -> Callable[[], Strike]:
    """So many requests at once, and then their answers."""

    def prepare() -> Strike:
        data = framed(request(name, version, body)) * count

        def strike(target: Target) -> Traffic:
            with connected(target) as client, ExitStack() as closing:
                if (child := os.fork()) == 0:
                    # Another process sends: the answers have to be read meanwhile.
                    try:
                        client.sendall(data)
                    finally:
                        os._exit(0)
                closing.callback(os.waitpid, child, 0)
                got = exchanged(client, b"", count if answers is None else answers)
                return got._replace(sent=len(data))

        return strike

    return prepare


def _never_reads(name: str, version: int, body: Body) -> Callable[[], Strike]:
    def prepare() -> Strike:
        data = framed(request(name, version, body)) * 1000

        def strike(target: Target) -> Traffic:
            sent = 0
            with connected(target) as client:
                client.settimeout(SECOND)
                try:
                    while sent < 20 << 20:
                        sent += client.send(data)
                except (TimeoutError, ConnectionError):
                    pass
            return Traffic(sent)

        return strike

    return prepare


def _one_then_leave(name: str, version: int, body: Body, count: int) -> Callable[[], Strike]:
    """Connections that ask, and leave before they are answered."""

    def prepare() -> Strike:
        data = framed(request(name, version, body))

        def strike(target: Target) -> Traffic:
            for _ in range(count):
                with connected(target) as client:
                    client.sendall(data)
            return Traffic(count * len(data))

        return strike

    return prepare


FETCH = {
    "replicaId": -1, "maxWaitMs": 2**31 - 1, "minBytes": 2**31 - 1, "maxBytes": 2**31 - 1, "isolationLevel": 0,
    "topics": [{"topic": "victim", "partitions": [{"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 2**31 - 1}]}],
}  # fmt: skip
READ_ALL = {**FETCH, "maxWaitMs": 0, "minBytes": 0}
FIND = {"key": "g", "keyType": 0}
METADATA: Body = {"topics": None}
PLAIN: dict[str, Callable[[], Strike]] = {
    "idle connections": _many(b""),
    "half a length": _many(b"\0\0"),
    "announced frames of 100 MB": _many(struct.pack(">i", 100_000_000) + bytes(1000)),
    "garbage": _many(b"GET / HTTP/1.1\r\n\r\n" * 10),
    "connections that come and go": _storm,
    "byte by byte": _byte_by_byte,
    "ApiVersions, pipelined": _pipelined("ApiVersions", 0, {}, 20_000),
    "Metadata, pipelined": _pipelined("Metadata", 1, METADATA, 10_000),
    "FindCoordinator, pipelined": _pipelined("FindCoordinator", 1, FIND, 5_000),
    "DescribeConfigs, pipelined": _pipelined(
        "DescribeConfigs", 1, {"resources": [{"resourceType": 4, "resourceName": "1", "configurationKeys": None}]}, 500
    ),
    "Metadata, never read": _never_reads("Metadata", 1, METADATA),
    "Fetch, never read": _never_reads("Fetch", 4, READ_ALL),
    "Fetch, and leave": _one_then_leave("Fetch", 4, FETCH, 500),
    "Fetches that wait": _many(framed(request("Fetch", 4, FETCH)), seconds=2 * SECOND),
}

HELLO = ssl.create_default_context()
HELLO.check_hostname, HELLO.verify_mode = False, ssl.CERT_NONE


def _client_hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = HELLO.wrap_bio(incoming, outgoing)
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()
    raise AssertionError("a handshake without a server")


def _handshakes() -> Strike:
    def strike(target: Target) -> Traffic:
        for _ in range(200):
            with HELLO.wrap_socket(connected(target, "SSL")):
                pass
        return Traffic(200 * len(_client_hello()))

    return strike


def _key_updates() -> Strike:
    """TLS 1.3 KeyUpdates without a byte between them, by OpenSSL's own calls."""
    found = ctypes.util.find_library("ssl"), ctypes.util.find_library("crypto")
    assert all(found), "there is no libssl"
    library, crypto = (ctypes.CDLL(name) for name in found)
    pointer = ctypes.c_void_p
    for name, of, kinds in (
        ("TLS_client_method", library, []), ("SSL_CTX_new", library, [pointer]), ("SSL_new", library, [pointer]),
        ("BIO_s_mem", crypto, []), ("BIO_new", crypto, [pointer]),
    ):  # fmt: skip
        call = getattr(of, name)
        call.restype, call.argtypes = pointer, kinds

    def strike(target: Target) -> Traffic:
        with connected(target, "SSL") as client:
            client.settimeout(None)
            session = pointer(library.SSL_new(library.SSL_CTX_new(library.TLS_client_method())))
            library.SSL_set_fd(session, client.fileno())
            assert library.SSL_connect(session) == 1, "there is no TLS"
            memory = pointer(crypto.BIO_new(crypto.BIO_s_mem()))
            library.SSL_set0_wbio(session, memory)
            data = ctypes.create_string_buffer(64 * 120_000)
            for _ in range(120_000):
                library.SSL_key_update(session, 0)
                library.SSL_do_handshake(session)
            size = crypto.BIO_read(memory, data, len(data))
            try:
                client.settimeout(30)
                client.sendall(data.raw[:size])
                time.sleep(SECOND)
            except OSError:
                return Traffic(size, is_refused=True)
            return Traffic(size)

    return strike


TLS: dict[str, Callable[[], Strike]] = {
    "TLS: nothing after the connection": _many(b"", listener="SSL"),
    "TLS: half of a hello": _many(_client_hello()[:100], listener="SSL"),
    "TLS: a hello, and nothing after it": _many(_client_hello(), listener="SSL"),
    "TLS: no TLS": _many(framed(b"\0\x12\0\0\0\0\0\1\xff\xff"), listener="SSL"),
    "TLS: handshakes": _handshakes,
    "TLS: KeyUpdates": _key_updates,
}


def _sasl(mechanism: str, token: bytes, times: int = 20) -> Callable[[], Strike]:
    def prepare() -> Strike:
        data = framed(request("SaslHandshake", 1, {"mechanism": mechanism}))
        data += framed(request("SaslAuthenticate", 2, {"authBytes": token}))

        def strike(target: Target) -> Traffic:
            found = []
            for _ in range(times):
                with connected(target, "SASL_PLAINTEXT") as client:
                    found.append(exchanged(client, data, 2, 10))
            return summed(found)

        return strike

    return prepare


def _unproved(frame: Callable[[], bytes]) -> Callable[[], Strike]:
    return lambda: one_request(frame(), 10, "SASL_PLAINTEXT")


def _handshakes_again() -> Strike:
    data = framed(request("SaslHandshake", 1, {"mechanism": "PLAIN"})) * 5000

    def strike(target: Target) -> Traffic:
        with connected(target, "SASL_PLAINTEXT") as client:
            return exchanged(client, data, 5000, 10)

    return strike


def _wrong_passwords() -> Strike:
    data = framed(request("SaslHandshake", 1, {"mechanism": "PLAIN"}))
    data += framed(request("SaslAuthenticate", 2, {"authBytes": b"\0alice\0wrong"}))

    def strike(target: Target) -> Traffic:
        with ExitStack() as closing:
            clients = [closing.enter_context(connected(target, "SASL_PLAINTEXT")) for _ in range(200)]
            for client in clients:
                client.sendall(data)
            answered = summed(exchanged(client, b"", 2, 20) for client in clients)
            return answered._replace(sent=len(data) * len(clients))

    return strike


SASL: dict[str, Callable[[], Strike]] = {
    "SASL: nothing after the connection": _many(b"", listener="SASL_PLAINTEXT"),
    "SASL: a long name by SCRAM": _sasl("SCRAM-SHA-256", b"n,,n=" + b"u" * LONG_BYTES + b",r=abc"),
    "SASL: a long nonce by SCRAM": _sasl("SCRAM-SHA-512", b"n,,n=alice,r=" + b"r" * LONG_BYTES),
    "SASL: many attributes by SCRAM": _sasl("SCRAM-SHA-256", b"n,,n=alice,r=abc" + b",x=1" * (LONG_BYTES // 4)),
    "SASL: a long name by PLAIN": _sasl("PLAIN", b"\0" + b"u" * LONG_BYTES + b"\0secret"),
    "SASL: a long password by PLAIN": _sasl("PLAIN", b"\0alice\0" + b"p" * LONG_BYTES),
    "SASL: an unknown mechanism": _sasl("x" * 32_000, b""),
    "SASL: an empty token": _sasl("PLAIN", b""),
    "SASL: wrong passwords": _wrong_passwords,
    "SASL: handshakes again": _handshakes_again,
    "SASL: a large request before a name": _unproved(
        lambda: request("Metadata", 1, {"topics": [{"name": f"n{i}"} for i in range(60_000)]})
    ),
    "SASL: ApiVersions of many tags": _unproved(
        lambda: request("ApiVersions", 3, {"_tags": dict.fromkeys(range(1000, 101_000), b"")})
    ),
}
