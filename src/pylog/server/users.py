"""The users that a server lets in by SASL: those that it was given, and those of the log."""

from collections.abc import Iterable, Mapping

from pylog.protocol.sasl.credentials import ScramCredential, ScramMechanism
from pylog.protocol.sasl.decoys import Decoys, shapes_of
from pylog.protocol.sasl.hashing import credential_of_salted, salted_password
from pylog.server.security import LogUsers

__all__ = ["ServedUsers"]


class ServedUsers:
    """The users of a server (`sasl.exchange.Secrets`). For the loop's thread.

    A user that was given comes before one of the log with the same name. `mechanisms`: those that are enabled.
    """

    def __init__(self, given: Mapping[str, str], of_log: LogUsers, mechanisms: Iterable[str]) -> None:
        self._given = dict(given)
        self._of_log = of_log
        self._decoys = Decoys(of_log.secret)
        # They are made now: a client could measure the millisecond that each takes.
        self._credentials = {
            (user, one): self._made(one, user)
            for user in given
            for one in ScramMechanism
            if one.sasl_name in mechanisms
        }
        self._seen: Mapping[tuple[str, ScramMechanism], ScramCredential] = {}
        """The users of the log of which `_shapes` were taken."""
        self._shapes = shapes_of(self._credentials.values())

    def _made(self, mechanism: ScramMechanism, user: str) -> ScramCredential:
        """The credential of a given user: its salt is the same in each run, as the salts of others are."""
        decoy = self._decoys.credential(mechanism, user)
        salted = salted_password(mechanism, self._given[user], decoy.salt, decoy.iterations)
        return credential_of_salted(mechanism, salted, decoy.salt, decoy.iterations)

    def password(self, user: str) -> str | None:
        """The password of a user that was given. The log has no passwords."""
        return self._given.get(user)

    def credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential:
        """The credential of a user, or one that no password fits: the work is the same."""
        known = self._of_log.credentials()
        if known is not self._seen:
            self._seen, self._shapes = known, shapes_of([*known.values(), *self._credentials.values()])
        decoy = self._decoys.credential(mechanism, user, self._shapes)
        of_log = known.get((user, mechanism), decoy)
        return self._credentials.get((user, mechanism), of_log)
