"""The users of a cluster: the credentials for SCRAM in the metadata log. (Kafka: ScramControlManager, ScramImage)"""

from collections import Counter
from collections.abc import Iterable

from pylog.broker.replica_manager.topics import LocalTopics
from pylog.errors import (
    DuplicateResource,
    ProtocolError,
    PylogError,
    ResourceNotFound,
    UnacceptableCredential,
    UnsupportedSaslMechanism,
)
from pylog.protocol.messages.users import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from pylog.protocol.metadata_changes import remove_user, set_user
from pylog.protocol.metadata_image import MetadataImage
from pylog.protocol.sasl.credentials import ITERATIONS_MAX, ITERATIONS_MIN, ScramCredential, ScramMechanism
from pylog.runtime.signals import WholeLock

__all__ = ["Users", "describe_users"]

Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
Altered = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult
Described = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult


class Users:
    """Changes of users. Thread-safe."""

    def __init__(self, topics: LocalTopics, lock: WholeLock) -> None:
        self._topics = topics
        self._lock = lock

    def describe(self, asked: DescribeUserScramCredentialsRequest) -> DescribeUserScramCredentialsResponse:
        """See `describe_users`."""
        return describe_users(self._topics.image, asked)

    def alter(self, asked: AlterUserScramCredentialsRequest) -> AlterUserScramCredentialsResponse:
        """Set and remove credentials, all of them in one step but those of users with an error.

        A user is changed once in a request, as by Kafka. Raises DiskFull, DurabilityUnknown.
        """
        with self._lock:
            changes: list[Deletion | Upsertion] = [*asked.deletions, *asked.upsertions]
            errors: dict[str, PylogError | None] = {}
            for change in changes:
                if change.name in errors:
                    twice = "A user credential cannot be altered twice in the same request"
                    errors[change.name] = errors[change.name] or DuplicateResource(twice)
                else:
                    errors[change.name] = self._refusal(change)
            records = [record for one in changes if errors[one.name] is None for record in _records(one)]
            if records:
                self._topics.metadata_log.commit(records)
            return AlterUserScramCredentialsResponse(
                results=[Altered(user=name, error=error) for name, error in errors.items()]
            )

    def _refusal(self, change: Deletion | Upsertion) -> ProtocolError | None:
        if not change.name:
            return UnacceptableCredential("Username must not be empty")
        if change.mechanism not in _KNOWN:
            return UnsupportedSaslMechanism("Unknown SCRAM mechanism")
        if isinstance(change, Deletion):
            is_there = (change.name, ScramMechanism(change.mechanism)) in self._topics.image.users
            return None if is_there else ResourceNotFound("Attempt to delete a user credential that does not exist")
        if change.iterations < ITERATIONS_MIN:
            return UnacceptableCredential("Too few iterations")
        return UnacceptableCredential("Too many iterations") if change.iterations > ITERATIONS_MAX else None


_KNOWN = frozenset(mechanism.value for mechanism in ScramMechanism)


def _records(change: Deletion | Upsertion) -> list[bytes]:
    mechanism = ScramMechanism(change.mechanism)
    if isinstance(change, Deletion):
        return remove_user(change.name, mechanism)
    # It loads OpenSSL.
    from pylog.protocol.sasl.hashing import credential_of_salted

    credential = credential_of_salted(mechanism, change.salted_password, change.salt, change.iterations)
    return set_user(change.name, credential)


def describe_users(
    image: MetadataImage, asked: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:  # fmt: skip
    """The users of an image: those named, or all, by name. One that is not there, or named twice, has an error."""
    known = _by_user(image)
    wanted = Counter([one.name for one in asked.users] if asked.users else sorted(known))
    return DescribeUserScramCredentialsResponse(
        results=[_described(name, known.get(name), is_twice=times > 1) for name, times in wanted.items()]
    )


def _described(name: str, credentials: dict[int, int] | None, *, is_twice: bool) -> Described:
    if is_twice:
        told = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        return Described(user=name, error=DuplicateResource(told))
    if credentials is None:
        told = f"Attempt to describe a user credential that does not exist: {name}"
        return Described(user=name, error=ResourceNotFound(told))
    infos = [Described.CredentialInfo(mechanism=one, iterations=count) for one, count in sorted(credentials.items())]
    return Described(user=name, credential_infos=infos)


def _by_user(image: MetadataImage) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    users: Iterable[tuple[tuple[str, ScramMechanism], ScramCredential]] = image.users.items()
    for (name, mechanism), credential in users:
        found.setdefault(name, {})[mechanism.value] = credential.iterations
    return found
