"""SCRAM: both sides prove that they know the password, and neither sends it. (RFC 5802, RFC 7677)

    client  n,,n=user,r=NONCE                                      client first
    server  r=NONCE+MORE,s=salt,i=iterations                       server first
    client  c=biws,r=NONCE+MORE,p=proof                            client final
    server  v=signature          or e=error                        server final

    AuthMessage = client first without "n,,"  ","  server first  ","  client final without the proof
    proof       = ClientKey XOR HMAC(StoredKey, AuthMessage)        signature = HMAC(ServerKey, AuthMessage)

There is no channel binding, as in Kafka (ScramSaslServer): the header is "n,,", and "biws" is that in base64. A server
does not know which users exist: whose name is unknown has a credential that no password fits (`decoys`).
"""

import base64
import binascii
import hmac
import re
import secrets
from collections.abc import Callable

from pylog.errors import SaslAuthentication
from pylog.protocol.sasl.credentials import ITERATIONS_MIN, ScramCredential, ScramMechanism
from pylog.protocol.sasl.hashing import client_key_of, credential_of_salted, hash_of, hmac_of, salted_password

__all__ = ["ScramClient", "ScramServer"]

GS2_HEADER = "n,,"
NONCE_BYTES = 24
CLIENT_ITERATIONS_MAX = 1 << 20
"""The most iterations that a client computes: a server could keep it busy for hours."""
_NAME = r"(?:[^=,\0]++|=2C|=3D)++"  # possessive: else `re` keeps a place to come back to for each turn of the group
_NONCE = r"[\x21-\x2b\x2d-\x7e]+"
_EXTENSIONS = r"(?:,(?!p=)[A-Za-z]++=[^,\0]++)*+"
_CLIENT_FIRST = re.compile(rf"(n,(?:a=({_NAME}))?,)(n=({_NAME}),r=({_NONCE}){_EXTENSIONS})")
_SERVER_FIRST = re.compile(rf"r=({_NONCE}),s=([A-Za-z0-9+/=]+),i=([1-9][0-9]{{0,9}}){_EXTENSIONS}")
_CLIENT_FINAL = re.compile(rf"(c=([A-Za-z0-9+/=]+),r=({_NONCE}){_EXTENSIONS}),p=([A-Za-z0-9+/=]+)")
_SERVER_FINAL = re.compile(rf"(?:e=([^,\0]+)|v=([A-Za-z0-9+/=]+)){_EXTENSIONS}")


def new_nonce() -> str:
    """A nonce that no other exchange has."""
    return base64.b64encode(secrets.token_bytes(NONCE_BYTES)).decode()


class ScramClient:
    """The client's side."""

    is_complete = False

    def __init__(self, mechanism: ScramMechanism, user: str, password: str, nonce: str | None = None) -> None:
        self._mechanism = mechanism
        self._password = password
        self._nonce = new_nonce() if nonce is None else nonce
        self._first = f"n={_quoted(user)},r={self._nonce}"
        self._has_sent = False
        self._signature: bytes | None = None
        """The signature that the server has to show."""

    def step(self, challenge: bytes = b"") -> bytes | None:
        """The next message; None when the server has proved itself. Raises SaslAuthentication."""
        if not self._has_sent:
            self._has_sent = True
            return (GS2_HEADER + self._first).encode()
        if self._signature is None:
            return self._answer_first(_text(challenge))
        self._check_final(_text(challenge))
        return None

    def _answer_first(self, text: str) -> bytes:
        found = _SERVER_FIRST.fullmatch(text)
        if found is None:
            refused = _SERVER_FINAL.fullmatch(text)
            raise _failed(f"the server answers {(refused and refused[1]) or 'what is no SCRAM'!r}")
        nonce, salt, iterations = found[1], _decoded(found[2]), int(found[3])
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise _failed("the server's nonce does not continue the client's: another exchange may be played back")
        if not ITERATIONS_MIN <= iterations <= CLIENT_ITERATIONS_MAX:
            raise _failed(
                f"the server asks for {iterations} iterations: {ITERATIONS_MIN} to {CLIENT_ITERATIONS_MAX} are taken"
            )
        mechanism = self._mechanism
        salted = salted_password(mechanism, self._password, salt, iterations)
        credential = credential_of_salted(mechanism, salted, salt, iterations)
        final = f"c={_encoded(GS2_HEADER.encode())},r={nonce}"
        message = f"{self._first},{text},{final}".encode()
        self._signature = hmac_of(mechanism, credential.server_key, message)
        proof = _xor(client_key_of(mechanism, salted), hmac_of(mechanism, credential.stored_key, message))
        return f"{final},p={_encoded(proof)}".encode()

    def _check_final(self, text: str) -> None:
        found = _SERVER_FINAL.fullmatch(text)
        if found is None or self.is_complete:
            raise _failed("the server's last message is no SCRAM")
        if found[1] is not None:
            raise _failed(f"the server answers {found[1]!r}")
        assert self._signature is not None, "the first message of the server was answered"
        if not hmac.compare_digest(_decoded(found[2]), self._signature):
            raise _failed("the server does not know the password: it may be another server than it says")
        self.is_complete = True


class ScramServer:
    """The server's side. `credential_of` gives the credential of any user for this mechanism (`exchange.Secrets`)."""

    user: str | None = None

    def __init__(
        self, mechanism: ScramMechanism, credential_of: Callable[[str], ScramCredential],
        nonce: str | None = None,
    ) -> None:  # fmt: skip
        self._mechanism = mechanism
        self._credential_of = credential_of
        self._nonce = new_nonce() if nonce is None else nonce
        self._asked: tuple[str, ScramCredential] | None = None
        """The user of the exchange, and its credential."""
        self._header = ""
        self._messages = ""
        """The client's first message and the server's."""

    @property
    def is_complete(self) -> bool:
        """Whether the client has proved to be `user`."""
        return self.user is not None

    def step(self, token: bytes) -> bytes:
        """The answer to a message of the client. Raises SaslAuthentication, which does not tell why."""
        if self.is_complete:
            raise self._refused()
        try:
            text = token.decode()
        except UnicodeDecodeError:
            raise self._refused() from None
        return self._answer_first(text) if self._asked is None else self._answer_final(text, *self._asked)

    def _answer_first(self, text: str) -> bytes:
        found = _CLIENT_FIRST.fullmatch(text)
        if found is None:
            raise self._refused()
        header, authorization_id, first, quoted, nonce = found.groups()
        user = _unquoted(quoted)
        if authorization_id is not None and _unquoted(authorization_id) != user:
            raise self._refused()
        credential = self._credential_of(user)
        self._asked, self._header, self._nonce = (user, credential), header, nonce + self._nonce
        answer = f"r={self._nonce},s={_encoded(credential.salt)},i={credential.iterations}"
        self._messages = f"{first},{answer}"
        return answer.encode()

    def _answer_final(self, text: str, user: str, credential: ScramCredential) -> bytes:
        found = _CLIENT_FINAL.fullmatch(text)
        if found is None or found[3] != self._nonce or _decoded(found[2]) != self._header.encode():
            raise self._refused()
        proof, mechanism = _decoded(found[4]), self._mechanism
        message = f"{self._messages},{found[1]}".encode()
        mask = hmac_of(mechanism, credential.stored_key, message)
        if len(proof) != len(mask):
            raise self._refused()
        if not hmac.compare_digest(hash_of(mechanism, _xor(proof, mask)), credential.stored_key):
            raise self._refused()
        self.user = user
        return f"v={_encoded(hmac_of(mechanism, credential.server_key, message))}".encode()

    def _refused(self) -> SaslAuthentication:
        return SaslAuthentication(
            "Authentication failed during authentication due to invalid credentials with SASL mechanism "
            f"{self._mechanism.sasl_name}"
        )


def _failed(reason: str) -> SaslAuthentication:
    return SaslAuthentication(f"the SCRAM exchange failed: {reason}")


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise _failed("the server's message is not utf-8") from None


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decoded(text: str) -> bytes:
    """The bytes of base64 in its one form: two texts never mean the same proof."""
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error:
        data = b""
    if not data or _encoded(data) != text:
        raise _failed("a value is not base64")
    return data


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def _quoted(name: str) -> str:
    if not name or "\0" in name:
        raise ValueError(f"{name!r} is not the name of a user")
    return name.replace("=", "=3D").replace(",", "=2C")


def _unquoted(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")
