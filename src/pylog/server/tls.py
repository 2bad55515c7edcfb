"""TLS between a socket and the plain bytes of a connection.

    socket -> recv -> [ incoming ] -> TLS -> plain bytes      socket <- send <- [ unsent ] <- TLS <- plain bytes

`TlsSocket` has the methods of a socket that a loop uses. Nothing blocks: the handshake goes on with the bytes that
come. What is encrypted and does not fit into the socket is in `unsent`: the next send begins with it. Bytes that have
come and were not read are in `pending`: the system does not tell of them again.

A record need not hold plain bytes: a KeyUpdate of 27 bytes costs two derivations of keys. So TLS gets `RECORDS_AT_ONCE`
records at most in one call of `recv_into`, whatever they hold, and a client whose records yield nothing is refused
(`EMPTY_RECORDS_MAX`).

The certificate is read again when its files change: connections that begin later have the new one. Where it cannot be
read the old one stays, with a warning.
"""

import logging
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from pylog.files.outside import versions
from pylog.runtime.outgoing import Buffer
from pylog.runtime.sockets import hang_up
from pylog.server.principals import principal_of
from pylog.server.security import Security

__all__ = ["Certificates", "TlsSocket"]

logger = logging.getLogger("pylog.server")

RECEIVED_MAX = 64 << 10
RECORDS_AT_ONCE = 64
EMPTY_RECORDS_MAX = 1 << 18
"""How many records may yield no plain bytes; each plain byte makes up for two of them."""
_HEADER_BYTES = 5
PLAIN_MAX = 64 << 10
"""How much is encrypted at once: no more is unsent, except what TLS adds."""
VERIFY_MODES = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


class Certificates:
    """The certificate of a server, and what it asks of its clients'. Raises ValueError, OSError: it cannot be read."""

    def __init__(self, security: Security) -> None:
        self._security = security
        files = (security.ssl_certificate_location, security.ssl_key_location, security.ssl_ca_location)
        self._paths = [path for path in files if path is not None]
        self._version = versions(self._paths)
        self._context = self._read()

    def wrap(self, client: socket.socket) -> "TlsSocket":
        """The server's side of a connection that begins now."""
        return TlsSocket(client, self._current())

    def _current(self) -> ssl.SSLContext:
        version = versions(self._paths)
        if version != self._version:
            self._version = version
            try:
                self._context = self._read()
                logger.info("the certificate was read again from %s", self._security.ssl_certificate_location)
            except (OSError, ValueError) as error:
                logger.warning("the new certificate cannot be used, the old one stays: %s", error)
        return self._context

    def _read(self) -> ssl.SSLContext:
        security = self._security
        assert security.ssl_certificate_location is not None, "a listener with TLS has a certificate"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        try:
            # Without a password OpenSSL would ask for one at the terminal.
            context.load_cert_chain(
                security.ssl_certificate_location, security.ssl_key_location, lambda: security.ssl_key_password or ""
            )
            if security.ssl_ca_location is not None:
                context.load_verify_locations(security.ssl_ca_location)
        except ssl.SSLError as error:
            raise ValueError(f"{', '.join(self._paths)}: not a certificate with its key: {error}") from error
        except OSError as error:
            raise OSError(error.errno, error.strerror, ", ".join(self._paths)) from error
        context.verify_mode = VERIFY_MODES[security.ssl_client_auth]
        return context


class TlsSocket:
    """The server's side of one connection."""

    __slots__ = ("_empty", "_incoming", "_left", "_outgoing", "_received", "_socket", "_tls", "is_secure", "unsent")

    def __init__(self, plain: socket.socket, context: ssl.SSLContext) -> None:
        self._socket = plain
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._received = b""
        """Bytes that TLS has not got yet, from the beginning of a record on."""
        self._left = 0
        """How many bytes are to come of the record that TLS has got a part of."""
        self._empty = 0
        """How many records more have come than plain bytes make up for."""
        self.is_secure = False
        """Whether the handshake is done."""
        self.unsent = b""

    def fileno(self) -> int:
        """The descriptor of the socket."""
        return self._socket.fileno()

    @property
    def pending(self) -> bool:
        """Whether bytes have come that were not read."""
        if len(self._received) >= _HEADER_BYTES:
            return True
        return self.is_secure and bool(self._tls.pending() or self._incoming.pending)

    @property
    def principal(self) -> str | None:
        """The name in the client's certificate; None without one."""
        return principal_of(self._tls.getpeercert())

    def recv_into(self, target: bytearray | memoryview) -> int:
        """Receive plain bytes; 0 at the end.

        Raises BlockingIOError (none yet, and `pending` says whether more bytes of the socket are needed for some);
        OSError (ssl.SSLError is one).
        """
        if not self.pending:
            data = self._socket.recv(RECEIVED_MAX)
            if not data:
                return 0
            self._received += data
        elif self.is_secure:
            received = self._read_into(target)
            if received is not None:
                return received
        records = self._feed()
        if not self.is_secure:
            self._shake_hands()
        received = self._read_into(target) if self.is_secure else None
        self._empty = max(self._empty + records - 2 * (received or 0), 0)
        if self._empty > EMPTY_RECORDS_MAX:
            raise ConnectionAbortedError(f"the client has sent {self._empty} records of TLS without content")
        if received is None:
            raise BlockingIOError
        return received

    def _feed(self) -> int:
        """Give TLS what has come of the next `RECORDS_AT_ONCE` records, and return how many of them begin."""
        data, at, count = self._received, self._left, 0
        while count < RECORDS_AT_ONCE and at + _HEADER_BYTES <= len(data):
            at += _HEADER_BYTES + int.from_bytes(data[at + 3 : at + _HEADER_BYTES], "big")
            count += 1
        # The header of a record is not cut: a part of it would say nothing of its end.
        end = min(at, len(data))
        self._incoming.write(data[:end])
        self._received, self._left = data[end:], at - end
        return count

    def _read_into(self, target: bytearray | memoryview) -> int | None:
        """Fill the target with what is there. None: TLS needs more bytes of the socket first."""
        view, filled = memoryview(target), 0
        try:
            while filled < len(view):
                # With a buffer to fill it gives a number, whatever the stubs say: 0 where the client has said the end.
                count: Any = self._tls.read(len(view) - filled, view[filled:])
                if count == 0:
                    break
                filled += count
        except ssl.SSLWantReadError:
            return filled or None
        finally:
            self._flush_quietly()
        return filled

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush_quietly()
            return
        except ssl.SSLError:
            # The client is told why, by an alert.
            self._flush_quietly()
            raise
        self.is_secure = True
        self._flush_quietly()

    def sendmsg(self, buffers: Sequence[Buffer], ancillary: tuple[()] = (), flags: int = 0) -> int:
        """Send plain bytes; gives how many were taken. Raises BlockingIOError (none), OSError."""
        self.flush()
        taken: list[memoryview] = []
        size = 0
        for buffer in buffers:
            part = memoryview(buffer)[: PLAIN_MAX - size]
            taken.append(part)
            size += len(part)
            if size == PLAIN_MAX:
                break
        self._tls.write(b"".join(taken))
        self._flush_quietly()
        return size

    def flush(self) -> None:
        """Send what is encrypted. Raises BlockingIOError (it does not all fit), OSError."""
        self._take_encrypted()
        while self.unsent:
            self.unsent = self.unsent[self._socket.send(self.unsent) :]

    def _flush_quietly(self) -> None:
        with suppress(BlockingIOError):
            self.flush()

    def _take_encrypted(self) -> None:
        if self._outgoing.pending:
            self.unsent += self._outgoing.read()

    def close(self) -> None:
        """Say the end to the client, as far as that goes at once, and close the socket."""
        try:
            # That the client has not said the end yet is an error to OpenSSL.
            with suppress(ssl.SSLError):
                if self.is_secure:
                    self._tls.unwrap()
            with suppress(OSError):
                self.flush()
        finally:
            hang_up(self._socket)

    def abandon(self) -> None:
        """Close the descriptor and nothing else: the connection is another process's."""
        self._socket.close()
