"""The users of a cluster: their credentials for SCRAM. (Kafka: ScramControlManager)"""

from collections.abc import Callable

from pylog.errors import (
    DuplicateResource,
    ProtocolError,
    PylogError,
    ResourceNotFound,
    UnacceptableCredential,
    UnsupportedSaslMechanism,
)
from pylog.protocol.messages.users import AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse
from pylog.protocol.metadata_changes import remove_user, set_user
from pylog.protocol.metadata_image import MetadataImage
from pylog.protocol.sasl.credentials import ITERATIONS_MAX, ITERATIONS_MIN, ScramMechanism

Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
Altered = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult


class UserControl:
    """Decides about credentials."""

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image

    def alter(self, asked: AlterUserScramCredentialsRequest) -> tuple[list[bytes], AlterUserScramCredentialsResponse]:
        """The records that set and remove credentials, without those of users with an error, and the answer.

        A user is changed once in a request, as by Kafka.
        """
        changes: list[Deletion | Upsertion] = [*asked.deletions, *asked.upsertions]
        errors: dict[str, PylogError | None] = {}
        for change in changes:
            if change.name in errors:
                twice = "A user credential cannot be altered twice in the same request"
                errors[change.name] = errors[change.name] or DuplicateResource(twice)
            else:
                errors[change.name] = self._refusal(change)
        records = [record for one in changes if errors[one.name] is None for record in _records(one)]
        results = [Altered(user=name, error=error) for name, error in errors.items()]
        return records, AlterUserScramCredentialsResponse(results=results)

    def _refusal(self, change: Deletion | Upsertion) -> ProtocolError | None:
        if not change.name:
            return UnacceptableCredential("Username must not be empty")
        if change.mechanism not in _KNOWN:
            return UnsupportedSaslMechanism("Unknown SCRAM mechanism")
        if isinstance(change, Deletion):
            is_there = (change.name, ScramMechanism(change.mechanism)) in self._image().users
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
