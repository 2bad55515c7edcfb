"""`SchemaRegistryServer`: the HTTP server of a registry.

Each connection has a thread. The number of connections is bounded, and so are the bytes and the time of a request, and
the time of an answer. Where all connections are in use, a new one takes the place of the one that has waited longest
for a request, so clients that hold connections cannot keep others out.

A page of another site cannot use it: a body has to be JSON by its type, which a browser sends to another site only
after asking, and at a loopback address the name of the host has to be a local one.
"""

import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BufferedReader
from time import monotonic
from typing import Self

from pylog.errors import ThreadsExhausted
from pylog.handles.any_log import AnyLog
from pylog.runtime.forking import undivided
from pylog.runtime.http import TimelyReader, TooManyBytes, host_name, is_rebindable
from pylog.runtime.sockets import hang_up, stop_listening
from pylog.runtime.threads import started
from pylog.schema_registry.interface import Interface, RestAnswer, refused
from pylog.serde.registry import CONTENT
from pylog.serde.schema_store import TOPIC, SchemaStore
from pylog.server.binding import bind
from pylog.server.listeners import ListenAddress, is_loopback, parse_address

__all__ = ["SchemaRegistryServer"]

CONTENTS = frozenset({
    CONTENT, "application/vnd.schemaregistry+json", "application/json", "application/octet-stream"
})  # fmt: skip
"""The types of bodies. (Confluent: Versions)"""
CONNECTIONS_MAX = 64
HEAD_BYTES_MAX = 32 << 10
BODY_BYTES_MAX = 4 << 20
REQUEST_SECONDS = 30.0
"""How long a request may take to come, from the end of the answer before it."""
LINGER_BYTES_MAX, LINGER_SECONDS = 16 << 20, 5.0
"""How much more of a refused request is taken in."""
ACCEPT_PAUSE_SECONDS = 0.1
ANSWER_SECONDS = 10.0
"""How long a client may take to read its answer."""


class SchemaRegistryServer:
    """Confluent's HTTP interface to the schemas in a topic of a log. Close it before the log, or use it in `with`.

    >>> from pylog.schema_registry import SchemaRegistryServer
    >>> server = SchemaRegistryServer(log)
    >>> serde.HttpRegistry(server.url).register("orders-value", serde.Schema('"string"'))
    1
    """

    def __init__(
        self, log: AnyLog, listen: str = "127.0.0.1:0", *, topic: str = TOPIC, allow_plaintext: bool = False
    ) -> None:
        """`listen`: HOST:PORT; port 0 takes one that is free. `topic`: Confluent's `kafkastore.topic`.

        There is no TLS and no login: other hosts reach it only with `allow_plaintext`. Raises ValueError (no such
        address, or one that other hosts reach), OSError (it is taken), ThreadsExhausted.
        """
        address = parse_address(listen)
        if not isinstance(address, ListenAddress):
            raise ValueError(f"{listen}: a registry listens at HOST:PORT, as in 127.0.0.1:8081")
        self._interface = Interface(SchemaStore(log, topic))
        self._listening = bind(address).socket
        host, port = self._listening.getsockname()[:2]
        self._is_local = is_loopback(str(host))
        if not self._is_local and not allow_plaintext:
            self._listening.close()
            raise ValueError(
                f"other hosts reach {listen}, and a registry has no TLS: listen at 127.0.0.1:8081, behind a proxy that "
                "has it, or allow it with allow_plaintext (--allow-plaintext)"
            )
        self.address = ListenAddress(address.host, port)
        self._connections = _Connections()
        self._wake, self._woken = socket.socketpair()
        try:
            self._thread = started(self._accept, "pylog-schema-registry")
        except ThreadsExhausted:
            self._drop()
            raise

    def __repr__(self) -> str:
        return f"<SchemaRegistryServer {self.url}>"

    @property
    def url(self) -> str:
        """The value of `schema.registry.url` for a client."""
        return f"http://{self.address}"

    def close(self) -> None:
        """End at once: connections break. A second call does nothing.

        >>> server.close()
        """
        if self._listening.fileno() < 0:
            return
        self._connections.stop()
        self._wake.send(b"\0")
        if self._thread is not None:
            self._thread.join()
        # The thread that accepts has ended, so there are no more.
        for thread in self._connections.threads:
            thread.join()
        self._drop()

    def _drop(self) -> None:
        stop_listening(self._listening)
        self._wake.close()
        self._woken.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    # --- in the threads ----------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._woken, selectors.EVENT_READ)
            selector.register(self._listening, selectors.EVENT_READ)
            while not any(key.fileobj is self._woken for key, _ in selector.select()):
                connection = self._accepted()
                if connection is None:
                    # No descriptors are left, say. Others may be closed meanwhile.
                    selector.unregister(self._listening)
                    selector.select(ACCEPT_PAUSE_SECONDS)
                    selector.register(self._listening, selectors.EVENT_READ)
                else:
                    self._connections.begin(connection, partial(_Requests, connection, self))

    def _accepted(self) -> socket.socket | None:
        with undivided, suppress(OSError):
            connection, _ = self._listening.accept()
            connection.setblocking(True)
            return connection
        return None

    def answer(self, requests: "_Requests", body: bytes) -> RestAnswer:
        """The answer to a request that has come whole."""
        kind = requests.headers.get("Content-Type", "")
        if body and kind.partition(";")[0].strip().lower() not in CONTENTS:
            return refused(415, f"HTTP 415 Unsupported Media Type: a body is {CONTENT}")
        # A browser always names its host.
        host = host_name(requests.headers.get("Host", "localhost"))
        if self._is_local and host != self.address.host.lower() and is_rebindable(host):
            return refused(403, "HTTP 403 Forbidden: the address is local, and the request names another host")
        with self._connections.at_work(requests.connection):
            return self._interface.answer(requests.command, requests.path, body)


class _Connections:
    """The connections that are open, each with its thread. A new one may end the one that has waited longest."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        """Those that were begun, and some that have ended."""
        self._changed = threading.Condition()
        self._open: set[socket.socket] = set()
        self._waiting: dict[socket.socket, float] = {}
        """Since when a connection waits for its client."""
        self._is_closed = False

    def begin(self, connection: socket.socket, work: Callable[[], object]) -> None:
        """Do `work` in a thread of the connection, as soon as there is room for it. One thread calls this."""
        with self._changed:
            while len(self._open) >= CONNECTIONS_MAX and not self._is_closed:
                if self._waiting:
                    longest = min(self._waiting, key=self._waiting.__getitem__)
                    del self._waiting[longest]
                    _shut(longest)
                self._changed.wait()
            if self._is_closed:
                hang_up(connection)
                return
            self._waiting[connection] = monotonic()
            self._open.add(connection)
        try:
            thread = started(partial(self._run, connection, work), "pylog-schema-registry-connection")
        except ThreadsExhausted:
            thread = None
        if thread is None:
            self._end(connection)
        else:
            self.threads = [*(one for one in self.threads if one.is_alive()), thread]

    def _run(self, connection: socket.socket, work: Callable[[], object]) -> None:
        try:
            # The client may be gone, or too slow.
            with suppress(OSError):
                work()
        finally:
            self._end(connection)

    def _end(self, connection: socket.socket) -> None:
        with self._changed:
            hang_up(connection)
            self._open.discard(connection)
            self._waiting.pop(connection, None)
            self._changed.notify_all()

    @contextmanager
    def at_work(self, connection: socket.socket) -> Iterator[None]:
        """The time in which a connection waits for the registry, and not for its client."""
        with self._changed:
            self._waiting.pop(connection, None)
        try:
            yield
        finally:
            with self._changed:
                self._waiting[connection] = monotonic()
                self._changed.notify_all()

    def stop(self) -> None:
        """End all connections, and take no other one. Their threads end soon."""
        with self._changed:
            self._is_closed = True
            for connection in self._open:
                _shut(connection)
            self._changed.notify_all()


def _shut(connection: socket.socket) -> None:
    # Its client may have ended it.
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class _Requests(BaseHTTPRequestHandler):
    """The requests of one connection, one after the other."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "pylog", ""
    wbufsize = -1
    disable_nagle_algorithm = True

    def __init__(self, connection: socket.socket, registry: SchemaRegistryServer) -> None:
        self._registry = registry
        # The base keeps a `server`, and asks nothing of it.
        super().__init__(connection, connection.getpeername(), None)  # type: ignore[arg-type]

    def setup(self) -> None:
        super().setup()
        self._bytes = TimelyReader(self.rfile.detach(), self.connection, 0.0)
        self.rfile = BufferedReader(self._bytes)

    def handle_one_request(self) -> None:
        self._bytes.deadline = monotonic() + REQUEST_SECONDS
        self._bytes.bytes_left = HEAD_BYTES_MAX
        try:
            super().handle_one_request()
        except TooManyBytes:
            self.send_error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def _answer(self) -> None:
        length = self._length()
        if isinstance(length, HTTPStatus):
            self.send_error(length)
            return
        self._bytes.bytes_left = length
        body = self.rfile.read(length)
        if len(body) < length:
            self.close_connection = True
            return
        self._send(self._registry.answer(self, body))

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = _answer  # noqa: N815

    def _length(self) -> int | HTTPStatus:
        """The length of the body, or the status of the refusal."""
        given = set(self.headers.get_all("Content-Length", []))
        if "Transfer-Encoding" in self.headers:
            return HTTPStatus.LENGTH_REQUIRED
        if not given:
            return 0
        text = given.pop()
        if given or not (text.isascii() and text.isdigit()):
            return HTTPStatus.BAD_REQUEST
        if len(text) > 10 or int(text) > BODY_BYTES_MAX:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        return int(text)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse a request, whose rest is not known: the connection ends."""
        self.close_connection = True
        self.request_version = self.protocol_version
        status = HTTPStatus(code)
        self._send(refused(status.value, f"HTTP {status.value} {status.phrase}"))
        self._linger()

    def _linger(self) -> None:
        """Take in what the client still sends: a close with unread bytes would take the answer from it."""
        self.connection.shutdown(socket.SHUT_WR)
        self._bytes.deadline = monotonic() + LINGER_SECONDS
        self._bytes.bytes_left = LINGER_BYTES_MAX
        with suppress(TooManyBytes):
            while self.rfile.read(64 << 10):
                pass

    def _send(self, answer: RestAnswer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", CONTENT)
        self.send_header("Content-Length", str(len(answer.body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(answer.body)
        self.connection.settimeout(ANSWER_SECONDS)
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Log nothing: a client decides what stands in a request."""

    def log_request(self, *_: object) -> None:
        """Log nothing."""
