"""A TLS 1.3 client that sends KeyUpdates: records without content, which Python's `ssl` cannot make.

It calls the OpenSSL that Python's `ssl` stands on. Where that does not show its functions the tests are skipped.
"""

import _ssl
import ctypes
import socket
from collections.abc import Callable

import pytest

__all__ = ["KeyUpdater"]

_SIGNATURES: dict[str, tuple[object, list[object]]] = {
    "TLS_client_method": (ctypes.c_void_p, []),
    "SSL_CTX_new": (ctypes.c_void_p, [ctypes.c_void_p]),
    "SSL_CTX_free": (None, [ctypes.c_void_p]),
    "SSL_new": (ctypes.c_void_p, [ctypes.c_void_p]),
    "SSL_free": (None, [ctypes.c_void_p]),
    "SSL_set_bio": (None, [ctypes.c_void_p] * 3),
    "SSL_connect": (ctypes.c_int, [ctypes.c_void_p]),
    "SSL_do_handshake": (ctypes.c_int, [ctypes.c_void_p]),
    "SSL_key_update": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_int]),
    "SSL_write": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]),
    "BIO_s_mem": (ctypes.c_void_p, []),
    "BIO_new": (ctypes.c_void_p, [ctypes.c_void_p]),
    "BIO_read": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]),
    "BIO_write": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]),
}
_ROOM = 1 << 20


def _functions() -> dict[str, Callable[..., int]]:
    library = ctypes.CDLL(_ssl.__file__)
    found = {}
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name, None)
        if function is None:
            pytest.skip(f"the OpenSSL of Python does not show {name}")
        function.restype, function.argtypes = result, arguments
        found[name] = function
    return found


class KeyUpdater:
    """The client at one end of a pair of sockets, which checks no certificate. `step` lets the server go on."""

    def __init__(self, end: socket.socket, step: Callable[[], object]) -> None:
        self._call = _functions()
        self._socket = end
        self._context = self._call["SSL_CTX_new"](self._call["TLS_client_method"]())
        self._ssl = self._call["SSL_new"](self._context)
        self._incoming, self._outgoing = (self._call["BIO_new"](self._call["BIO_s_mem"]()) for _ in range(2))
        self._call["SSL_set_bio"](self._ssl, self._incoming, self._outgoing)
        while self._call["SSL_connect"](self._ssl) != 1:
            end.sendall(self._made())
            step()
            data = end.recv(_ROOM)
            assert self._call["BIO_write"](self._incoming, data, len(data)) == len(data)
        end.sendall(self._made())

    def updates(self, count: int) -> bytes:
        """So many KeyUpdates, as they are sent."""
        for _ in range(count):
            assert self._call["SSL_key_update"](self._ssl, 0) == 1
            assert self._call["SSL_do_handshake"](self._ssl) == 1
        return self._made()

    def written(self, data: bytes) -> bytes:
        """A record with `data`, as it is sent."""
        assert self._call["SSL_write"](self._ssl, data, len(data)) == len(data)
        return self._made()

    def _made(self) -> bytes:
        room = ctypes.create_string_buffer(_ROOM)
        count = self._call["BIO_read"](self._outgoing, room, _ROOM)
        return room.raw[: max(count, 0)]

    def close(self) -> None:
        self._call["SSL_free"](self._ssl)
        self._call["SSL_CTX_free"](self._context)
        self._socket.close()
