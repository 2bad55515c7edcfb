"""A client of the wire over one socket, with requests and responses as bodies."""

import socket
import ssl
from types import TracebackType
from typing import Any, Self

from pylog.protocol.schema import message

API_VERSIONS = 18


def request_frame(name: str, version: int, body: dict[str, Any], *, correlation_id: int = 1) -> bytes:
    """A request, with its length before it."""
    schema = message(f"{name}Request")
    header = schema.api_key.to_bytes(2, "big") + version.to_bytes(2, "big") + correlation_id.to_bytes(4, "big")
    header += b"\0\x04test" + (b"\0" if schema.is_flexible(version) else b"")
    frame = header + schema.encode(version, body)
    return len(frame).to_bytes(4, "big") + frame


def response_body(name: str, version: int, frame: bytes) -> tuple[int, dict[str, Any]]:
    """The correlation id and the body of a response."""
    schema = message(f"{name}Response")
    start = 5 if schema.is_flexible(version) and schema.api_key != API_VERSIONS else 4
    body, end = schema.decode(version, frame, start)
    assert end == len(frame), f"{len(frame) - end} bytes follow the response of {name} {version}"
    return int.from_bytes(frame[:4], "big"), body


class WireClient:
    """One connection. With `tls` it is encrypted; "unix:path" is that of a Unix socket."""

    def __init__(self, bootstrap_servers: str, *, tls: ssl.SSLContext | None = None) -> None:
        if bootstrap_servers.startswith("unix:"):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(240)
            self.socket.connect(bootstrap_servers.removeprefix("unix:"))
        else:
            host, _, port = bootstrap_servers.rpartition(":")
            self.socket = socket.create_connection((host, int(port)), timeout=240)
        if tls is not None:
            try:
                self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
            except BaseException:
                self.socket.close()
                raise

    def send(self, name: str, version: int, body: dict[str, Any], *, correlation_id: int = 1) -> None:
        self.socket.sendall(request_frame(name, version, body, correlation_id=correlation_id))

    def receive(self, name: str, version: int) -> tuple[int, dict[str, Any]]:
        return response_body(name, version, self.receive_frame())

    def ask(self, name: str, version: int, body: dict[str, Any]) -> dict[str, Any]:
        self.send(name, version, body)
        return self.receive(name, version)[1]

    def receive_frame(self) -> bytes:
        return self._exactly(int.from_bytes(self._exactly(4), "big"))

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise EOFError("the server has closed the connection")
            data += more
        return bytes(data)

    def is_closed(self) -> bool:
        """Whether the server has closed the connection; waits for it."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.socket.close()
