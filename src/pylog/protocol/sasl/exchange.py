"""The two sides of an exchange, by the name of its mechanism.

    client = sasl_client("SCRAM-SHA-256", "alice", "secret")
    server = sasl_server("SCRAM-SHA-256", secrets)
    token = client.step()
    while token is not None:
        token = client.step(server.step(token))        client.is_complete, server.user == "alice"

A client's token goes to the server, and the server's answer to the client, until the client's `step` gives None.
"""

from functools import partial
from typing import Protocol

from pylog.errors import UnsupportedSaslMechanism
from pylog.protocol.sasl import plain
from pylog.protocol.sasl.credentials import ScramCredential, ScramMechanism
from pylog.protocol.sasl.plain import PlainClient, PlainServer
from pylog.protocol.sasl.scram import ScramClient, ScramServer

__all__ = ["MECHANISMS", "SaslClient", "SaslServer", "Secrets", "sasl_client", "sasl_server"]

_SCRAM = {mechanism.sasl_name: mechanism for mechanism in ScramMechanism}
MECHANISMS = (plain.NAME, *_SCRAM)
"""The names of the mechanisms."""


class SaslClient(Protocol):
    """The client's side of one exchange."""

    is_complete: bool
    """Whether the exchange is over and has succeeded."""

    def step(self, challenge: bytes = b"") -> bytes | None:
        """The next token, after the server's answer to the last one; None when the exchange is over.

        Raises SaslAuthentication: the server refuses, or cannot be trusted.
        """


class SaslServer(Protocol):
    """The server's side of one exchange."""

    @property
    def user(self) -> str | None:
        """The name of the user, when it is proved."""

    @property
    def is_complete(self) -> bool:
        """Whether the exchange is over and has succeeded."""

    def step(self, token: bytes) -> bytes:
        """The answer to a token. Raises SaslAuthentication, with a text for the client: the exchange is over."""


class Secrets(Protocol):
    """The secrets of the users of a server."""

    def password(self, user: str) -> str | None:
        """The password of a user, for PLAIN; None: no such user."""

    def credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential:
        """The credential of a user for SCRAM; of no such user, one that no password fits (`decoys`)."""


def sasl_client(mechanism: str, user: str, password: str) -> SaslClient:
    """The client's side. Raises UnsupportedSaslMechanism, ValueError (a name that no user can have)."""
    _check_known(mechanism)
    if mechanism == plain.NAME:
        return PlainClient(user, password)
    return ScramClient(_SCRAM[mechanism], user, password)


def sasl_server(mechanism: str, secrets: Secrets) -> SaslServer:
    """The server's side. Raises UnsupportedSaslMechanism."""
    _check_known(mechanism)
    if mechanism == plain.NAME:
        return PlainServer(secrets.password)
    scram = _SCRAM[mechanism]
    return ScramServer(scram, partial(secrets.credential, scram))


def _check_known(mechanism: str) -> None:
    if mechanism not in MECHANISMS:
        raise UnsupportedSaslMechanism(f"SASL mechanism {mechanism!r} is not known: there is {', '.join(MECHANISMS)}")
