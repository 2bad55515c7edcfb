"""Users of a cluster and their passwords, for SCRAM. (Kafka: alterUserScramCredentials, kafka-configs.sh, KIP-554)

A password is salted and hashed here: neither the node nor the log ever has it.
"""

from collections.abc import Iterable

from pylog.client.cluster import Cluster, checked_name, checked_words
from pylog.errors import ResourceNotFound
from pylog.protocol.messages import (
    AlterUserScramCredentials,
    DescribedUsers,
    DescribeUserScramCredentials,
    ScramDeletion,
    ScramUpsertion,
    UserScramCredentialsAltered,
)
from pylog.protocol.sasl.credentials import ITERATIONS_MAX, ITERATIONS_MIN, ScramMechanism

MECHANISMS = {mechanism.sasl_name: mechanism for mechanism in ScramMechanism}


class UserAdmin:
    """The questions about users, and their changes."""

    _cluster: Cluster

    def set_password(
        self, user: str, password: str, *, mechanisms: Iterable[str] = tuple(MECHANISMS),
        iterations: int = ITERATIONS_MIN,
    ) -> None:  # fmt: skip
        """Let a user in with this password, by these mechanisms; a missing user is made.

        Raises: UnacceptableCredential (no name; iterations below 4096 or above 16384), ValueError (a mechanism that is
        not known, an empty password).
        """
        # It loads OpenSSL.
        from pylog.protocol.sasl.hashing import new_salt, salted_password

        if not isinstance(password, str):
            raise TypeError(f"a password is a str, not {type(password).__name__}")
        if not password:
            raise ValueError("a password is not empty")
        for name in checked_words("mechanisms", mechanisms, MECHANISMS):
            mechanism, salt = MECHANISMS[name], new_salt()
            salted = salted_password(mechanism, password, salt, min(max(iterations, 1), ITERATIONS_MAX))
            self._altered(
                AlterUserScramCredentials(
                    [], [ScramUpsertion(checked_name("user", user), mechanism.value, iterations, salt, salted)]
                )
            )

    def delete_user(self, user: str) -> None:
        """Let a user in no more. Connections that are open stay. Raises ResourceNotFound."""
        found = self.users().get(checked_name("user", user))
        if found is None:
            raise ResourceNotFound(f"there is no user {user!r}")
        for name in found:
            self._altered(AlterUserScramCredentials([ScramDeletion(user, MECHANISMS[name].value)], []))

    def users(self) -> dict[str, dict[str, int]]:
        """The users, by name: the iterations of each of their mechanisms."""
        answer: DescribedUsers = self._cluster.ask(DescribeUserScramCredentials())
        return {
            one.user: {ScramMechanism(number).sasl_name: count for number, count in sorted(one.credentials.items())}
            for one in answer.users
        }

    def _altered(self, message: AlterUserScramCredentials) -> None:
        answer: UserScramCredentialsAltered = self._cluster.ask(message)
        for error in answer.errors.values():
            if error is not None:
                raise error
