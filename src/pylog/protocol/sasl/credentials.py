"""The credentials that a server keeps of a password for SCRAM. (RFC 5802 section 3; Kafka: ScramMechanism,
ScramCredential)
"""

from dataclasses import dataclass, field
from enum import Enum

__all__ = ["ITERATIONS_MAX", "ITERATIONS_MIN", "ScramCredential", "ScramMechanism"]

ITERATIONS_MIN, ITERATIONS_MAX = 4096, 16384
"""How often the password of a user of a cluster is hashed (RFC 7677; Kafka: ScramControlManager)."""


class ScramMechanism(Enum):
    """A SCRAM mechanism. The value is its number in records and requests."""

    SHA_256 = 1
    SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        """The name of the mechanism in SASL."""
        return f"SCRAM-SHA-{self.name[4:]}"

    @property
    def hash_name(self) -> str:
        """The name of the hash function in `hashlib`."""
        return f"sha{self.name[4:]}"


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """The credential that is kept of a user's password for one mechanism (`hashing`). It does not show its secrets."""

    mechanism: ScramMechanism
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int
