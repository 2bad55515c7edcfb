"""The users that a server lets in by SASL: those that it was given, and those of the log."""

from collections.abc import Mapping

from pylog.protocol.sasl.credentials import ScramCredential, ScramMechanism
from pylog.protocol.sasl.hashing import credential_of_password
from pylog.server.security import CredentialOf

__all__ = ["Users"]


class Users:
    """What a server knows of its users (`sasl.exchange.Secrets`). For the loop's thread.

    A user that was given comes before one of the log with the same name.
    """

    def __init__(self, given: Mapping[str, str], credential_of: CredentialOf) -> None:
        self._given = dict(given)
        self._credential_of = credential_of
        self._credentials: dict[tuple[ScramMechanism, str], ScramCredential] = {}
        """Those of the given users, made when they are asked for: each takes a millisecond."""

    def password(self, user: str) -> str | None:
        """The password of a user that was given. The log has no passwords."""
        return self._given.get(user)

    def credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        """The credential of a user."""
        if user not in self._given:
            return self._credential_of(mechanism, user)
        found = self._credentials.get((mechanism, user))
        if found is None:
            found = self._credentials[mechanism, user] = credential_of_password(mechanism, self._given[user])
        return found
