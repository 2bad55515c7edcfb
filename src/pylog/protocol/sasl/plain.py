"""PLAIN: one message with the password as it is. (RFC 4616; Kafka: PlainSaslServer)

    [ authorization id ] NUL user NUL password

It is as safe as the connection: use it with TLS. The authorization id is empty, or the user.
"""

from collections.abc import Callable

from pylog.errors import SaslAuthentication
from pylog.protocol.sasl.hashing import same_text

__all__ = ["NAME", "PlainClient", "PlainServer"]

NAME = "PLAIN"


class PlainClient:
    """The client's side."""

    is_complete = False

    def __init__(self, user: str, password: str) -> None:
        if "\0" in user + password:
            raise ValueError("a user and a password of PLAIN have no NUL in them")
        self._user, self._password = user, password
        self._has_sent = False

    def step(self, challenge: bytes = b"") -> bytes | None:
        """The message; None when the server has accepted it. Raises SaslAuthentication."""
        if not self._has_sent:
            self._has_sent = True
            return b"\0".join((b"", self._user.encode(), self._password.encode()))
        if challenge or self.is_complete:
            raise SaslAuthentication("the server answers PLAIN with a challenge: it has none")
        self.is_complete = True
        return None


class PlainServer:
    """The server's side. `password_of` gives the password of a user, or None."""

    user: str | None = None

    def __init__(self, password_of: Callable[[str], str | None]) -> None:
        self._password_of = password_of

    @property
    def is_complete(self) -> bool:
        """Whether the client has proved to be `user`."""
        return self.user is not None

    def step(self, token: bytes) -> bytes:
        """The answer to the client's message: nothing. Raises SaslAuthentication."""
        if self.is_complete:
            raise SaslAuthentication("Authentication failed: PLAIN has one message")
        try:
            authorization_id, user, password = token.decode().split("\0")
        except ValueError:
            raise SaslAuthentication(
                "Authentication failed: a message of PLAIN is [id] NUL user NUL password"
            ) from None
        if not user:
            raise SaslAuthentication("Authentication failed: username not specified")
        if not password:
            raise SaslAuthentication("Authentication failed: password not specified")
        expected = self._password_of(user)
        # A user that does not exist takes as long as a wrong password.
        is_right = same_text(password, password + "x" if expected is None else expected)
        if not is_right:
            raise SaslAuthentication("Authentication failed: Invalid username or password")
        if authorization_id not in ("", user):
            raise SaslAuthentication(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.user = user
        return b""
