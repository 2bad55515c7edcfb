"""SASL without I/O: how a client says who it is, and how a server finds out. (RFC 4422, KIP-12, KIP-84)

    credentials    users' secrets: a password, or what SCRAM keeps in its place
    plain          PLAIN: the password itself, in one message
    scram          SCRAM-SHA-256 and SCRAM-SHA-512: a proof of it, in two messages of each side
    exchange       the two sides by the name of a mechanism

Read `exchange` first. A caller carries the tokens, in SaslAuthenticate or as bare frames; errors are
SaslAuthentication, and end the exchange.
"""

from pylog.protocol.sasl.credentials import ScramCredential, ScramMechanism, constant_time_equal
from pylog.protocol.sasl.exchange import MECHANISMS, SaslClient, SaslServer, Secrets, sasl_client, sasl_server

__all__ = [
    "MECHANISMS", "SaslClient", "SaslServer", "ScramCredential", "ScramMechanism", "Secrets", "constant_time_equal",
    "sasl_client", "sasl_server",
]  # fmt: skip
