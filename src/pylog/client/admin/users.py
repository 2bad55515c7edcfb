"""Users of a cluster and their passwords, for SCRAM. (Kafka: alterUserScramCredentials, kafka-configs.sh, KIP-554)

A password is salted and hashed here: neither the node nor the log ever has it.
"""

from collections.abc import Iterable

from pylog.client.cluster import Cluster, checked_name, checked_words, raise_first, sole
from pylog.errors import ResourceNotFound
from pylog.protocol.messages.users import AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest
from pylog.protocol.sasl.credentials import ITERATIONS_MAX, ITERATIONS_MIN, ScramMechanism

Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
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
        not known, an empty password), TypeError.

        >>> admin.set_password("alice", "correct horse", mechanisms=["SCRAM-SHA-256"])
        >>> admin.users()
        {'alice': {'SCRAM-SHA-256': 4096}}
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
            upsertion = Upsertion(
                name=checked_name("user", user), mechanism=mechanism.value, iterations=iterations, salt=salt,
                salted_password=salted,
            )  # fmt: skip
            self._alter_users(AlterUserScramCredentialsRequest(upsertions=[upsertion]))

    def delete_user(self, user: str) -> None:
        """Let a user in no more. Connections that are open stay. Raises ResourceNotFound.

        >>> admin.set_password("alice", "correct horse", mechanisms=["SCRAM-SHA-256"])
        >>> admin.delete_user("alice")
        """
        found = self.users().get(checked_name("user", user))
        if found is None:
            raise ResourceNotFound(f"there is no user {user!r}")
        for name in found:
            deletion = Deletion(name=user, mechanism=MECHANISMS[name].value)
            self._alter_users(AlterUserScramCredentialsRequest(deletions=[deletion]))

    def users(self) -> dict[str, dict[str, int]]:
        """The users, by name: the iterations of each of their mechanisms.

        >>> admin.users()
        {}
        """
        answer = self._cluster.ask(DescribeUserScramCredentialsRequest(users=None))
        return {
            one.user: {ScramMechanism(info.mechanism).sasl_name: info.iterations for info in one.credential_infos}
            for one in answer.results
            # A node of Kafka's may tell a user that was deleted meanwhile.
            if not isinstance(one.error, ResourceNotFound)
        }

    def _alter_users(self, request: AlterUserScramCredentialsRequest) -> None:
        raise_first([sole(self._cluster.ask(request).results, "one user").error])
