"""One request by HTTP, bounded: its answer in bytes, all of it in time, and no redirect to elsewhere. For servers, the
name of the host in a request.

`urlopen` takes its time-out for each call of the socket, so a server that sends a byte now and then holds it for ever.
It also reads an answer without end, and follows a redirect to another host with the login in its headers.
"""

from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from io import BufferedReader, RawIOBase
from ipaddress import ip_address
from socket import socket
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, Request, build_opener

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


__all__ = ["ANSWER_BYTES_MAX", "TimelyReader", "TooManyBytes", "answer_to", "host_name", "is_rebindable"]

ANSWER_BYTES_MAX = 16 << 20
"""How long an answer may be."""


def host_name(header: str) -> str:
    """The name in a Host header: in small letters, without port and brackets; "" for a text that has none."""
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""


def is_rebindable(name: str) -> bool:
    """True for a name that another site can point at this server (DNS rebinding): no address, and not localhost."""
    try:
        ip_address(name)
    except ValueError:
        return name != "localhost"
    return False


class TooManyBytes(Exception):  # noqa: N818 - it is raised to the server alone
    """A peer sends more bytes than are taken from it."""


class TimelyReader(RawIOBase):
    """The bytes of a socket until a deadline, after which it raises TimeoutError.

    Where `bytes_left` is a number, a read after so many bytes raises TooManyBytes. It and the deadline may be moved.
    """

    def __init__(self, raw: RawIOBase, sock: socket, deadline: float) -> None:
        self._raw = raw
        self._sock = sock
        self.deadline = deadline
        self.bytes_left: int | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, target: "WriteableBuffer") -> int | None:
        left = self.deadline - monotonic()
        if left <= 0:
            raise TimeoutError("the bytes did not come in time")
        if self.bytes_left is not None and self.bytes_left <= 0:
            raise TooManyBytes("more bytes came than are taken")
        self._sock.settimeout(left)
        count = self._raw.readinto(target)
        if self.bytes_left is not None and count:
            self.bytes_left -= count
        return count

    def close(self) -> None:
        super().close()
        self._raw.close()


class _Response(HTTPResponse):
    def __init__(
        self, sock: socket, debuglevel: int = 0, method: str | None = None, url: str | None = None, *, deadline: float
    ) -> None:
        super().__init__(sock, debuglevel, method, url)
        self.fp = BufferedReader(TimelyReader(self.fp.detach(), sock, deadline))


class _NoRedirect(HTTPRedirectHandler):
    """A redirect is an answer like any other: an HTTPError with its code."""

    def redirect_request(self, *request: object) -> None:
        return None


def answer_to(request: Request, seconds: float) -> bytes:
    """The body of the answer to a request, which took no longer than `seconds`, a connection that is refused included.

    Raises HTTPError for an answer that is no success, a redirect too; OSError, which TimeoutError is; ValueError for
    an answer that is longer than `ANSWER_BYTES_MAX`, shorter than it says, or not HTTP.
    """
    response = partial(_Response, deadline=monotonic() + seconds)

    class Plain(HTTPConnection):
        response_class = response  # type: ignore[assignment]

    class Secure(HTTPSConnection):
        response_class = response  # type: ignore[assignment]

    class ByPlain(HTTPHandler):
        def http_open(self, asked: Request) -> HTTPResponse:
            return self.do_open(Plain, asked)

    class BySecure(HTTPSHandler):
        def https_open(self, asked: Request) -> HTTPResponse:
            return self.do_open(Secure, asked)

    try:
        with build_opener(ByPlain, BySecure, _NoRedirect).open(request, timeout=seconds) as answer:
            body: bytes = answer.read(ANSWER_BYTES_MAX + 1)
            missing = answer.length
    except HTTPException as error:
        raise ValueError(f"the answer is not HTTP: {error!r}") from error
    if len(body) > ANSWER_BYTES_MAX:
        raise ValueError(f"the answer is longer than {ANSWER_BYTES_MAX} bytes")
    if missing:
        raise ValueError(f"the answer ends {missing} bytes too early")
    return body
