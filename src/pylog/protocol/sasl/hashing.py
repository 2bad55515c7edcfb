"""The hashes of SCRAM. (RFC 5802 section 3; Kafka: ScramFormatter)

    SaltedPassword = PBKDF2(password, salt, iterations)
    ClientKey      = HMAC(SaltedPassword, "Client Key")        StoredKey = H(ClientKey)
    ServerKey      = HMAC(SaltedPassword, "Server Key")

Passwords are taken as UTF-8 without SASLprep, as Kafka takes them.
"""

import hashlib
import hmac
import secrets

from pylog.protocol.sasl.credentials import ITERATIONS_MIN, ScramCredential, ScramMechanism

__all__ = [
    "client_key_of",
    "credential_of_password",
    "credential_of_salted",
    "hash_of",
    "hmac_of",
    "new_salt",
    "salted_password",
    "same_text",
]  # fmt: skip

SALT_BYTES = 16


def new_salt() -> bytes:
    """A salt that no other credential has."""
    return secrets.token_bytes(SALT_BYTES)


def hash_of(mechanism: ScramMechanism, data: bytes) -> bytes:
    """H of RFC 5802."""
    return hashlib.new(mechanism.hash_name, data).digest()


def hmac_of(mechanism: ScramMechanism, key: bytes, data: bytes) -> bytes:
    """HMAC of RFC 5802."""
    return hmac.digest(key, data, mechanism.hash_name)


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Hi of RFC 5802. It takes about a millisecond for 4096 iterations."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def client_key_of(mechanism: ScramMechanism, salted: bytes) -> bytes:
    """ClientKey of RFC 5802."""
    return hmac_of(mechanism, salted, b"Client Key")


def credential_of_salted(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """The credential of a password that was salted and hashed already."""
    stored_key = hash_of(mechanism, client_key_of(mechanism, salted))
    return ScramCredential(mechanism, salt, stored_key, hmac_of(mechanism, salted, b"Server Key"), iterations)


def credential_of_password(
    mechanism: ScramMechanism, password: str, *, salt: bytes | None = None, iterations: int = ITERATIONS_MIN
) -> ScramCredential:
    """The credential of a password; without `salt` it gets a random one."""
    salt = new_salt() if salt is None else salt
    return credential_of_salted(mechanism, salted_password(mechanism, password, salt, iterations), salt, iterations)


def same_text(one: str, other: str) -> bool:
    """Whether two texts are the same, in a time that does not tell where they differ."""
    return hmac.compare_digest(one.encode(), other.encode())
