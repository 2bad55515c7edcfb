"""The principal of a client: "User:alice" by SASL, or the distinguished name of its certificate. (RFC 2253)

    subject      C=DE, O=Example, CN=alice
    principal    User:CN=alice,O=Example,C=DE          the other way round, as Kafka has it

(Kafka: DefaultKafkaPrincipalBuilder, X500Principal.getName.)
"""

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["principal_of"]

_NAMES = {
    "commonName": "CN", "localityName": "L", "stateOrProvinceName": "ST", "organizationName": "O",
    "organizationalUnitName": "OU", "countryName": "C", "streetAddress": "STREET", "domainComponent": "DC",
    "userId": "UID",
}  # fmt: skip
"""The attributes that RFC 2253 names by letters."""
_SPECIAL = re.compile(r'[,+"\\<>;]')


def principal_of(certificate: Mapping[str, Any] | None) -> str | None:
    """The principal of a certificate as `ssl` describes it; None without one, or without a name in it."""
    subject = (certificate or {}).get("subject", ())
    names = ["+".join(_attribute(key, value) for key, value in part) for part in reversed(subject)]
    return f"User:{','.join(names)}" if names else None


def _attribute(key: str, value: str) -> str:
    escaped = _SPECIAL.sub(lambda found: f"\\{found[0]}", value)
    if escaped.startswith((" ", "#")):
        escaped = f"\\{escaped}"
    if len(escaped) > 1 and escaped.endswith(" "):
        escaped = f"{escaped[:-1]}\\ "
    return f"{_NAMES.get(key, key)}={escaped}"
