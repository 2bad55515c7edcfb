"""The likely reason why a node ends a connection before it has answered: its listener speaks otherwise than the client.

No field of Kafka's protocol says what a listener wants. One with TLS, or with SASL, closes the connection of a client
that begins without it, and so does one without TLS where a client begins with it. The step at which the connection
ended tells them apart. (Kafka: NetworkClient, SaslClientAuthenticator.)
"""

import ssl
from enum import Enum

__all__ = ["IS_TLS", "NO_LOGIN", "TLS_ALERT", "Step", "likely_reason"]

TLS_ALERT = b"\x15\x03"
"""How a server with TLS answers what is no TLS: an alert (RFC 8446, 5.1)."""
IS_TLS = "the node speaks TLS: give security.protocol=SSL, or SASL_SSL with a login"
NO_LOGIN = "the listener takes no login: give security.protocol=PLAINTEXT, or SSL where it speaks TLS"


class Step(Enum):
    """The step at which a connection ended: TLS, ApiVersions, or the first request of a client."""

    TLS = "tls"
    VERSIONS = "versions"
    FIRST_REQUEST = "first request"


def likely_reason(step: Step, error: Exception, *, has_tls: bool, has_login: bool) -> str | None:
    """The likely reason why a connection ended at this step; None: its security explains nothing."""
    if step is Step.TLS:
        is_no_tls = isinstance(error, ssl.SSLEOFError) or "WRONG_VERSION_NUMBER" in str(error)
        if is_no_tls or isinstance(error, ConnectionError):
            return "its listener may be without TLS (give security.protocol=PLAINTEXT or SASL_PLAINTEXT)"
    elif not isinstance(error, ConnectionError):
        return None
    elif step is Step.VERSIONS and not has_tls:
        return "its listener may speak TLS (give security.protocol=SSL, or SASL_SSL with a login)"
    elif step is Step.FIRST_REQUEST and not has_login:
        return (
            "its listener may want a login (give security.protocol=SASL_PLAINTEXT or SASL_SSL, sasl.mechanism, "
            "sasl.username and sasl.password)"
        )
    return None
