"""Users of the cluster: the credentials by which they prove their names with SCRAM (KIP-554).

A password is salted and hashed by the client that sets it. Neither it nor what is made of it is ever in an answer.
"""

from dataclasses import field

from pylog.errors import PylogError
from pylog.protocol.messages.message import message


@message
class ScramDeletion:
    """The end of a user's credential. `mechanism` is Kafka's number: 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512."""

    user: str
    mechanism: int


@message
class ScramUpsertion:
    """A new credential of a user, in place of the one that it has for that mechanism."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)


@message
class AlterUserScramCredentials:
    deletions: list[ScramDeletion] = field(default_factory=list)
    upsertions: list[ScramUpsertion] = field(default_factory=list)


@message
class UserScramCredentialsAltered:
    """An error or None for each user."""

    errors: dict[str, PylogError | None]


@message
class DescribeUserScramCredentials:
    users: list[str] | None = None
    """None: all of them."""


@message
class DescribedUser:
    user: str
    error: PylogError | None = None
    credentials: dict[int, int] = field(default_factory=dict)
    """The iterations of each mechanism, by Kafka's number of it."""


@message
class DescribedUsers:
    users: list[DescribedUser]
