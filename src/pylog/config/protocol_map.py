"""`listener.security.protocol.map`: the security protocol of each listener of a server, by its name.

    "IN:SASL_SSL,OUT:SSL"

A listener whose name is a protocol has that one unless the map says otherwise.
"""

import re
from enum import Enum

from pylog.config.options import Words

__all__ = ["PROTOCOL_MAP", "SASL_MECHANISMS", "ProtocolMap", "SecurityProtocol", "protocols_of"]


class SecurityProtocol(Enum):
    """The protocol that encrypts and authenticates a listener's connections. (Kafka: SecurityProtocol)"""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        """Whether the bytes are encrypted."""
        return self.value.endswith("SSL")

    @property
    def has_sasl(self) -> bool:
        """Whether clients prove their names by SASL."""
        return self.value.startswith("SASL")


PROTOCOL_MAP = "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"
SASL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_NAME = re.compile(r"[A-Za-z0-9_-]+")


def protocols_of(text: str) -> dict[str, SecurityProtocol]:
    """The protocols in a map, and those of their own names. Raises ValueError."""
    found: dict[str, SecurityProtocol] = {}
    for pair in text.split(",") if text.strip() else []:
        name, _, protocol = (part.strip() for part in pair.partition(":"))
        if not _NAME.fullmatch(name) or name in found:
            raise ValueError(text)
        found[name] = SecurityProtocol(protocol.upper())
    return {protocol.value: protocol for protocol in SecurityProtocol} | found


class ProtocolMap(Words):
    """The kind of value that `listener.security.protocol.map` takes."""

    def __init__(self) -> None:
        super().__init__()
        protocols = ", ".join(protocol.value for protocol in SecurityProtocol)
        self.allowed = f"NAME:PROTOCOL pairs with commas between; a protocol is one of {protocols}"

    def parse(self, value: object) -> str:
        if not isinstance(value, str):
            raise ValueError(value)
        protocols_of(value)
        return value.strip()
