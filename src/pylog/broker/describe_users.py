"""The description of users: their credentials for SCRAM, without the keys. (Kafka: ScramImage)"""

from collections import Counter
from collections.abc import Iterable

from pylog.errors import DuplicateResource, ResourceNotFound
from pylog.protocol.messages.users import DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse
from pylog.protocol.metadata_image import MetadataImage
from pylog.protocol.sasl.credentials import ScramCredential, ScramMechanism

__all__ = ["describe_users"]

Described = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult


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
