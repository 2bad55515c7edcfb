"""The SASL authentication of one client, and its renewal when its session is over. (Kafka: SaslServerAuthenticator,
KIP-152)

    HANDSHAKE    SaslHandshake 0    -> BARE      tokens are frames without a header, and so are their answers
                 SaslHandshake 1    -> TOKENS    tokens are in SaslAuthenticate
    TOKENS       SaslAuthenticate   -> DONE      when the exchange is over; with connections.max.reauth.ms for so long
    DONE         SaslHandshake      -> TOKENS    again, as the same user by the same mechanism (KIP-368)

Before DONE only ApiVersions, SaslHandshake and SaslAuthenticate are answered, and a frame is no larger than
`sasl.server.max.receive.size`. A refusal is answered `connection.failed.authentication.delay.ms` late, and the
connection ends behind it. A session that is over ends its connection with the next request.
"""

import logging
from dataclasses import dataclass, replace
from enum import Enum

from pylog.config import NodeConfig
from pylog.errors import IllegalSaslState, ProtocolError, SaslAuthentication, UnsupportedSaslMechanism
from pylog.protocol.error_codes import error_message
from pylog.protocol.messages import Session
from pylog.protocol.sasl.exchange import SaslServer, Secrets, sasl_server
from pylog.protocol.wire.framing import SIZE_BYTES
from pylog.protocol.wire.headers import API_VERSIONS, read_call
from pylog.protocol.wire.mapping import Body
from pylog.runtime.clock import Clock
from pylog.server.api.call import Fate, Framed, Outcome, Request
from pylog.server.api.table import APIS
from pylog.server.client_log import ClientLog
from pylog.server.dispatch import ServedCall, read_request
from pylog.server.served_node import ServedNode

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
REAUTH_PAUSE_MS = 1000
"""A session is renewed no more often than this."""


@dataclass(frozen=True, slots=True)
class Sasl:
    """The common part of the SASL listeners of a server."""

    config: NodeConfig
    secrets: Secrets
    clock: Clock
    log: ClientLog

    def authentication(self, host: str) -> "Authentication":
        """The authentication of a connection that begins now."""
        return Authentication(self, f"/{host}")


class _State(Enum):
    HANDSHAKE, BARE, TOKENS, DONE = range(4)


class Authentication:
    """The exchanges of one connection. For the loop's thread."""

    def __init__(self, sasl: Sasl, host: str) -> None:
        self.principal: str | None = None
        """The name that the client has proved; None: none yet."""
        self.has_failed = False
        self._sasl = sasl
        self._host = host
        self._state = _State.HANDSHAKE
        self._mechanism = ""
        self._exchange: SaslServer | None = None
        self._done_ms = 0
        self._ends_ms: int | None = None
        """When the session is over; None: never."""

    @property
    def is_done(self) -> bool:
        """Whether the client has proved its name once."""
        return self.principal is not None

    @property
    def frame_bytes_max(self) -> int:
        """The largest size of a request."""
        config = self._sasl.config
        return config.socket_request_max_bytes if self.is_done else config.sasl_server_max_receive_size

    def fate_of(self, fate: Fate | None) -> Fate | None:
        """The fate of the request that was just begun: a refusal comes late."""
        if self.has_failed and fate is None:
            return Fate(delay_ms=self._sasl.config.connection_failed_authentication_delay_ms)
        return fate

    def read(self, frame: bytearray, elements_max: int) -> ServedCall:
        """Decode one frame: a request, or a bare token.

        Raises what `read_request` raises; IllegalSaslState (the client has to prove its name first),
        SaslAuthentication (its session is over): the connection cannot go on.
        """
        if self._state is _State.BARE:
            api = replace(APIS[SASL_AUTHENTICATE], answer=self._answer_bare)
            return ServedCall(api, 0, 0, Request(0, {"authBytes": bytes(frame)}, Session("", self._host)))
        key = read_call(frame).key
        self._check_allowed(key)
        call = read_request(frame, self._host, self.principal, elements_max)
        if key == SASL_HANDSHAKE and call.request is not None and self._may_shake_hands():
            return call._replace(api=replace(call.api, answer=self._shake_hands))
        if key == SASL_AUTHENTICATE and self._state is _State.TOKENS:
            return call._replace(api=replace(call.api, answer=self._answer_token))
        return call

    def _check_allowed(self, key: int) -> None:
        if self._state is _State.TOKENS:
            allowed = key == SASL_AUTHENTICATE
        elif self._state is _State.HANDSHAKE:
            allowed = key in (API_VERSIONS, SASL_HANDSHAKE)
        else:
            allowed = True
            now = self._sasl.clock.tick_ms()
            if self._ends_ms is not None and now >= self._ends_ms and key not in (API_VERSIONS, SASL_HANDSHAKE):
                raise SaslAuthentication(f"the session of {self.principal} is over: it has to authenticate again")
        if not allowed:
            name = APIS[key].name if key in APIS else f"API key {key}"
            raise IllegalSaslState(f"{name} came during SASL authentication: does the client speak SASL?")

    def _may_shake_hands(self) -> bool:
        """Whether a SaslHandshake begins an exchange: the first one does, and one that renews a session."""
        if self._state is _State.HANDSHAKE:
            return True
        return self._ends_ms is not None and self._sasl.clock.tick_ms() - self._done_ms >= REAUTH_PAUSE_MS

    def _shake_hands(self, request: Request, node: ServedNode) -> Outcome:
        mechanism, mechanisms = request.body["mechanism"], list(self._sasl.config.sasl_enabled_mechanisms)
        if mechanism not in mechanisms:
            self._fail(UnsupportedSaslMechanism(f"SASL mechanism {mechanism!r} is not enabled"))
            return {"errorCode": UnsupportedSaslMechanism.code, "mechanisms": mechanisms}
        self._exchange = None
        if not self._mechanism or self._mechanism == mechanism:
            self._mechanism = mechanism
            self._exchange = sasl_server(mechanism, self._sasl.secrets)
        self._state = _State.BARE if request.version == 0 else _State.TOKENS
        return {"errorCode": 0, "mechanisms": mechanisms}

    def _answer_token(self, request: Request, node: ServedNode) -> Outcome:
        try:
            answer = self._step(bytes(request.body["authBytes"]))
        except SaslAuthentication as error:
            self._fail(error)
            return {"errorCode": error.code, "errorMessage": error_message(error), "authBytes": b""}
        body: Body = {"errorCode": 0, "errorMessage": None, "authBytes": answer}
        if request.version >= 1 and self._state is _State.DONE:
            body["sessionLifetimeMs"] = self._sasl.config.connections_max_reauth_ms
        return body

    def _answer_bare(self, request: Request, node: ServedNode) -> Outcome:
        """Raises SaslAuthentication: a bare token has no other answer than the end of the connection."""
        token = self._step(request.body["authBytes"])
        return Framed(len(token).to_bytes(SIZE_BYTES, "big") + token)

    def _step(self, token: bytes) -> bytes:
        most = self._sasl.config.sasl_server_max_receive_size
        if len(token) > most:
            raise SaslAuthentication(f"a token has {len(token)} bytes: sasl.server.max.receive.size is {most}")
        if self._exchange is None:
            raise SaslAuthentication(f"SASL mechanism was {self._mechanism} and cannot change with the connection")
        answer = self._exchange.step(token)
        if self._exchange.user is not None:
            self._finish(f"User:{self._exchange.user}")
        return answer

    def _finish(self, principal: str) -> None:
        if self.is_done and principal != self.principal:
            raise SaslAuthentication(
                f"Cannot change principals during re-authentication from {self.principal} to {principal}"
            )
        self.principal, self._state, self._exchange = principal, _State.DONE, None
        self._done_ms = now = self._sasl.clock.tick_ms()
        lifetime = self._sasl.config.connections_max_reauth_ms
        self._ends_ms = now + lifetime if lifetime > 0 else None

    def _fail(self, error: ProtocolError) -> None:
        self.has_failed = True
        self._sasl.log.say(logging.WARNING, "a client at %s could not prove its name: %s", self._host, error)
