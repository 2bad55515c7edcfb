"""What SCRAM keeps of a password. (RFC 5802 section 3; Kafka: ScramMechanism, ScramFormatter, ScramCredential)

    SaltedPassword = PBKDF2(password, salt, iterations)
    ClientKey      = HMAC(SaltedPassword, "Client Key")        StoredKey = H(ClientKey)
    ServerKey      = HMAC(SaltedPassword, "Server Key")

Passwords are taken as UTF-8 without SASLprep, as Kafka takes them.
"""

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from enum import Enum

__all__ = ["ITERATIONS_MAX", "ITERATIONS_MIN", "ScramCredential", "ScramMechanism", "constant_time_equal"]

ITERATIONS_MIN, ITERATIONS_MAX = 4096, 16384
"""How often a password of a user of a cluster is hashed (RFC 7677; Kafka: ScramControlManager)."""
SALT_BYTES = 16


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

    def hash(self, data: bytes) -> bytes:
        """H of RFC 5802."""
        return hashlib.new(self.hash_name, data).digest()

    def hmac(self, key: bytes, data: bytes) -> bytes:
        """HMAC of RFC 5802."""
        return hmac.digest(key, data, self.hash_name)

    def salted_password(self, password: str, salt: bytes, iterations: int) -> bytes:
        """Hi of RFC 5802. It takes about a millisecond for 4096 iterations."""
        return hashlib.pbkdf2_hmac(self.hash_name, password.encode(), salt, iterations)


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a server keeps of a user's password for one mechanism. It does not show its secrets."""

    mechanism: ScramMechanism
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    @classmethod
    def of_salted(
        cls, mechanism: ScramMechanism, salted_password: bytes, salt: bytes, iterations: int
    ) -> "ScramCredential":
        """The credential of a password that was salted and hashed already."""
        client_key = mechanism.hmac(salted_password, b"Client Key")
        server_key = mechanism.hmac(salted_password, b"Server Key")
        return cls(mechanism, salt, mechanism.hash(client_key), server_key, iterations)

    @classmethod
    def of_password(
        cls, mechanism: ScramMechanism, password: str, *, salt: bytes | None = None, iterations: int = ITERATIONS_MIN
    ) -> "ScramCredential":
        """The credential of a password; without `salt` it gets a random one."""
        salt = secrets.token_bytes(SALT_BYTES) if salt is None else salt
        return cls.of_salted(mechanism, mechanism.salted_password(password, salt, iterations), salt, iterations)


def constant_time_equal(one: str, other: str) -> bool:
    """Whether two texts are the same, in a time that does not tell where they differ."""
    return hmac.compare_digest(one.encode(), other.encode())
