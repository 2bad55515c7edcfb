"""The security of a server and its clients: users, certificates, and what may do without them.

log.serve("SASL_SSL://0.0.0.0:9093", advertise="SASL_SSL://kafka:9093",
          ssl_certificate_location="cert.pem", ssl_key_location="key.pem", users={"alice": "secret"})
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypedDict

from pylog.authorizer.standard import Authorizer, StandardAuthorizer, super_users_of
from pylog.config import NodeConfig, SecurityProtocol
from pylog.protocol.acls import Acls
from pylog.protocol.sasl.credentials import ScramCredential, ScramMechanism

__all__ = ["CLIENT_AUTH", "LogUsers", "Security", "SecurityOptions", "authorizer_of"]

CLIENT_AUTH = ("none", "requested", "required")
"""Whether a client has to have a certificate. (Kafka: ssl.client.auth)"""


class LogUsers(NamedTuple):
    """The users of a log."""

    credentials: Callable[[], Mapping[tuple[str, ScramMechanism], ScramCredential]]
    """What the log has of them now: a mapping that does not change, and another one when they do."""
    secret: bytes
    """Bytes that stay with the log, and that no client can know."""


class SecurityOptions(TypedDict, total=False):
    """The options of a server that keep it safe. The names are those of `pylog.connect`.

    The files are read again when they change.
    """

    users: Mapping[str, str]
    """Names and passwords, for PLAIN and for SCRAM. Users of the log (`Admin.set_password`) are let in besides, by
    SCRAM.
    """
    ssl_certificate_location: str
    """PEM file with the certificate, and those up to its root."""
    ssl_key_location: str
    """PEM file with the key, if it is not in the same file."""
    ssl_key_password: str
    """It decrypts the key."""
    ssl_ca_location: str
    """PEM file with the roots of clients' certificates."""
    ssl_client_auth: str
    """Whether a client has to have a certificate: "none", "requested" or "required". Where there is an
    `ssl_ca_location`, "required" is the default.
    """
    allow_plaintext: bool
    """Whether other hosts may reach a listener without TLS."""
    authorizer: "Literal['standard'] | bool | Authorizer | None"
    """What clients may do. "standard", or True: what the ACLs of the log allow (`Admin.create_acls`), and all to
    `super.users`. An object with a method `authorize(principal, host, operation, resource_type, name) -> bool`
    decides by itself. None: everything.
    """


def authorizer_of(
    options: SecurityOptions, acls: Callable[[], Acls], config: NodeConfig
) -> Authorizer | None:  # fmt: skip
    """The authorizer that options ask for; `acls` gives those of the log. Raises TypeError, InvalidConfig."""
    asked = options.get("authorizer")
    if asked is None or asked is False:
        return None
    if asked is True or asked == "standard":
        return StandardAuthorizer(
            acls, super_users=super_users_of(config.super_users),
            allows_without_acl=config.allow_everyone_if_no_acl_found,
        )  # fmt: skip
    if isinstance(asked, str) or not callable(getattr(asked, "authorize", None)):
        raise TypeError(f'authorizer is {asked!r}: give "standard", or an object with a method authorize')
    return asked


class Security(NamedTuple):
    """The same, checked."""

    users: Mapping[str, str]
    ssl_certificate_location: str | None
    ssl_key_location: str | None
    ssl_key_password: str | None
    ssl_ca_location: str | None
    ssl_client_auth: str
    allow_plaintext: bool

    def __repr__(self) -> str:
        return f"<Security of {len(self.users)} users>"

    @classmethod
    def of(cls, options: SecurityOptions) -> "Security":
        """Options as they are given. Raises TypeError (one that is not known), ValueError."""
        unknown = sorted(set(options) - set(SecurityOptions.__annotations__))
        if unknown:
            known = ", ".join(SecurityOptions.__annotations__)
            raise TypeError(f"{', '.join(unknown)}: a server has no such option; it has {known}")
        key_password: object = options.get("ssl_key_password")
        users: Mapping[Any, Any] = options.get("users", {})
        if not isinstance(key_password, str | None):
            raise TypeError(f"ssl_key_password is a str, not {type(key_password).__name__}")
        cafile = options.get("ssl_ca_location")
        client_auth = options.get("ssl_client_auth", "none" if cafile is None else "required")
        if client_auth not in CLIENT_AUTH:
            raise ValueError(f"ssl_client_auth is {client_auth!r}, not one of {', '.join(CLIENT_AUTH)}")
        if client_auth != "none" and cafile is None:
            raise ValueError(
                f"ssl_client_auth={client_auth!r} needs ssl_ca_location: the roots of clients' certificates"
            )
        for user, password in users.items():
            if not isinstance(user, str) or not isinstance(password, str):
                # What was given may be the password, in the wrong form or place.
                found = f"{type(user).__name__} and {type(password).__name__}"
                raise TypeError(f"users: a name and a password are str, not {found}")
            if not user or not password or "\0" in user + password:
                raise ValueError(f"user {user!r}: a name and a password are not empty, and have no NUL in them")
        return cls(
            dict(users), options.get("ssl_certificate_location"), options.get("ssl_key_location"),
            key_password, cafile, client_auth, options.get("allow_plaintext", False),
        )  # fmt: skip

    def check_fits(self, protocol: SecurityProtocol) -> None:
        """Refuse a listener that lacks something. Raises ValueError."""
        if protocol.has_tls and self.ssl_certificate_location is None:
            raise ValueError(
                f"a listener of {protocol.value} needs a certificate: give ssl_certificate_location "
                "(--ssl-certificate-location)"
            )
