"""Users of the cluster: the credentials by which they prove their names with SCRAM (KIP-554).

`mechanism` is Kafka's number: 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512. A password is salted and hashed by the client
that sets it. Neither it nor what is made of it is ever in an answer.
"""

from dataclasses import field

from pylog.errors import PylogError
from pylog.protocol.messages.api import ApiRequest, ApiResponse, api_message


@api_message
class DescribeUserScramCredentialsResponse(ApiResponse):
    @api_message
    class DescribeUserScramCredentialsResult:
        """The mechanisms of one user."""

        @api_message
        class CredentialInfo:
            mechanism: int
            iterations: int

        user: str
        error: PylogError | None = None
        credential_infos: list[CredentialInfo] = field(default_factory=list)

    throttle_time_ms: int = 0
    error: PylogError | None = None
    results: list[DescribeUserScramCredentialsResult] = field(default_factory=list)


@api_message
class DescribeUserScramCredentialsRequest(ApiRequest[DescribeUserScramCredentialsResponse]):
    @api_message
    class UserName:
        name: str

    users: list[UserName] | None = field(default_factory=list)
    """Empty, or None: all of them."""


@api_message
class AlterUserScramCredentialsResponse(ApiResponse):
    @api_message
    class AlterUserScramCredentialsResult:
        user: str
        error: PylogError | None = None

    throttle_time_ms: int = 0
    results: list[AlterUserScramCredentialsResult] = field(default_factory=list)


@api_message
class AlterUserScramCredentialsRequest(ApiRequest[AlterUserScramCredentialsResponse]):
    @api_message
    class ScramCredentialDeletion:
        """The end of a user's credential."""

        name: str
        mechanism: int

    @api_message
    class ScramCredentialUpsertion:
        """A new credential of a user, in place of the one that it has for that mechanism."""

        name: str
        mechanism: int
        iterations: int
        salt: bytes = field(repr=False)
        salted_password: bytes = field(repr=False)

    deletions: list[ScramCredentialDeletion] = field(default_factory=list)
    upsertions: list[ScramCredentialUpsertion] = field(default_factory=list)

    def refused(self, error: PylogError) -> AlterUserScramCredentialsResponse:
        result = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult
        names = dict.fromkeys([one.name for one in self.deletions] + [one.name for one in self.upsertions])
        return AlterUserScramCredentialsResponse(results=[result(user=name, error=error) for name in names])
