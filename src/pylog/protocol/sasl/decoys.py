"""Credentials of users that do not exist, so that an exchange does not tell which users there are.

Kafka refuses an unknown user at its first message. Here it is asked for a proof as any other is: its salt, iterations
and keys follow from its name and a secret, so they are the same each time and cost the same work, and no password fits
them. Salts and iterations look as those of users that exist do.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pylog.protocol.sasl.credentials import ITERATIONS_MIN, ScramCredential, ScramMechanism
from pylog.protocol.sasl.hashing import SALT_BYTES

__all__ = ["CredentialShape", "Decoys", "shapes_of"]

LETTERS = b"0123456789abcdefghijklmnopqrstuvwxyz"
"""Those of the salts that Kafka's tools make."""
_AS_LETTERS = bytes(LETTERS[byte % len(LETTERS)] for byte in range(256))


class CredentialShape(NamedTuple):
    """The part of a credential that a client can see, without the value of the salt."""

    iterations: int = ITERATIONS_MIN
    salt_bytes: int = SALT_BYTES
    is_text: bool = False
    """True if the salt has letters and digits alone."""


def shapes_of(credentials: Iterable[ScramCredential]) -> list[CredentialShape]:
    """The shapes of the users that exist, in order; without users, the one of a user set here."""
    found = [CredentialShape(one.iterations, len(one.salt), one.salt.isalnum()) for one in credentials]
    return sorted(found) or [CredentialShape()]


class Decoys:
    """The credentials by which users that do not exist are refused. `secret`: what no client can know."""

    def __init__(self, secret: bytes) -> None:
        self._key = hashlib.sha256(b"users that do not exist" + secret).digest()

    def credential(
        self, mechanism: ScramMechanism, user: str, shapes: Sequence[CredentialShape] = (CredentialShape(),)
    ) -> ScramCredential:
        """The credential of a user, with one of these shapes. A further shape changes it for few users."""
        place = int.from_bytes(self._derived(mechanism, user, b"shape", 8), "big")
        shape = shapes[place * len(shapes) >> 64]
        salt = self._derived(mechanism, user, b"salt", shape.salt_bytes)
        text = salt.translate(_AS_LETTERS)
        size = hashlib.new(mechanism.hash_name).digest_size
        stored, server = (self._derived(mechanism, user, kind, size) for kind in (b"stored", b"server"))
        return ScramCredential(mechanism, text if shape.is_text else salt, stored, server, shape.iterations)

    def _derived(self, mechanism: ScramMechanism, user: str, kind: bytes, size: int) -> bytes:
        return hashlib.shake_256(b"\0".join((self._key, kind, mechanism.name.encode(), user.encode()))).digest(size)
