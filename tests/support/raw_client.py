"""A client of Kafka's protocol over one socket: requests and answers as dicts, field by field.

Frames are encoded by `pylog.protocol.schema`. Nothing is retried, renamed or checked: a wrong request goes out as it
is.

    frame     i32 size, header, body
    request   i16 api key, i16 version, i32 correlation id, string client id (, tags)
    response  i32 correlation id (, tags)
"""

import socket
import struct
from functools import cache
from types import TracebackType
from typing import Any, Self

from kio.schema.errors import ErrorCode

from pylog.protocol import schema
from support.patience import HANG_SECONDS

API_VERSIONS = 18
Body = dict[str, Any]


class DisconnectedError(Exception):
    """The server has closed the connection."""


class WireClient:
    """One connection. `ask` sends a request and waits for its answer; `send` and `receive` are its halves."""

    def __init__(self, bootstrap_servers: str, client_id: str = "wire") -> None:
        host, port = bootstrap_servers.rsplit(":", 1)
        self.bootstrap_servers = bootstrap_servers
        self._socket = socket.create_connection((host, int(port)), HANG_SECONDS)
        self._client_id = client_id
        self._correlation_id = 0
        self._versions: dict[int, tuple[int, int]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    @property
    def versions(self) -> dict[int, tuple[int, int]]:
        """The api keys that the server serves, each with its lowest and highest version."""
        if self._versions is None:
            keys = self.ask("ApiVersions", {"clientSoftwareName": "wire", "clientSoftwareVersion": "1"}, version=3)
            self._versions = {key["apiKey"]: (key["minVersion"], key["maxVersion"]) for key in keys["apiKeys"]}
        return self._versions

    def highest(self, name: str) -> int:
        """The highest version of a message that both sides know."""
        request = schema.message(f"{name}Request")
        low, high = self.versions.get(request.api_key, (0, -1))
        version = min(high, request.versions[1])
        assert version >= max(low, request.versions[0]), f"the server does not serve {name}"
        return version

    def ask(self, name: str, body: Body | None = None, *, version: int | None = None) -> Body:
        """Send a request and give the answer to it, all fields plain values."""
        version = self.highest(name) if version is None else version
        self.send(name, body, version=version)
        return self.receive(name, version)

    def send(self, name: str, body: Body | None = None, *, version: int) -> int:
        """Send a request and do not wait. Gives its correlation id."""
        request = schema.message(f"{name}Request")
        data = self.header(request.api_key, version, request.is_flexible(version)) + request.encode(version, body or {})
        self.send_frame(data)
        return self._correlation_id

    def header(self, api_key: int, version: int, is_flexible: bool) -> bytes:
        """The header of the next request."""
        self._correlation_id += 1
        client_id = self._client_id.encode()
        fixed = struct.pack(">hhih", api_key, version, self._correlation_id, len(client_id))
        return fixed + client_id + (b"\x00" if is_flexible else b"")

    def receive(self, name: str, version: int) -> Body:
        """The answer to the oldest request that has none yet."""
        response = schema.message(f"{name}Response")
        frame = self.receive_frame()
        (correlation_id,) = struct.unpack_from(">i", frame)
        assert correlation_id <= self._correlation_id
        position = 4
        if response.is_flexible(version) and response.api_key != API_VERSIONS:
            assert frame[4] == 0, "the header has tagged fields"
            position = 5
        body, end = response.decode(version, frame, position)
        assert end == len(frame), f"{len(frame) - end} bytes follow the answer to {name}"
        return plain(body)  # type: ignore[no-any-return]

    def wait_for(self, seconds: float) -> None:
        """Wait so long at most for bytes; then TimeoutError is raised."""
        self._socket.settimeout(seconds)

    def send_frame(self, data: bytes) -> None:
        self._socket.sendall(struct.pack(">i", len(data)) + data)

    def send_bytes(self, data: bytes) -> None:
        """Send bytes that are not framed."""
        self._socket.sendall(data)

    def receive_frame(self) -> bytes:
        """The next frame. Raises DisconnectedError."""
        (size,) = struct.unpack(">i", self._read(4))
        return self._read(size)

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                more = self._socket.recv(size - len(data))
            except ConnectionResetError:
                more = b""
            if not more:
                raise DisconnectedError(f"after {len(data)} of {size} bytes")
            data += more
        return bytes(data)


def plain(value: Any) -> Any:
    """A decoded value with bytes in the place of views."""
    if isinstance(value, dict):
        return {name: plain(field) for name, field in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return bytes(value) if isinstance(value, memoryview) else value


@cache
def error_name(code: int) -> str:
    """Kafka's name of an error code, or the code where the table of kio is older than it."""
    try:
        return ErrorCode(code).name.upper()
    except ValueError:
        return str(code)
