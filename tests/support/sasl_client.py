"""A `WireClient` that proves its name by SASL."""

from typing import Any

from pylog.protocol.sasl.exchange import SaslClient, sasl_client
from support.wire_client import WireClient

__all__ = ["authenticate", "handshake", "tokens"]


def handshake(client: WireClient, mechanism: str, version: int = 1) -> dict[str, Any]:
    return client.ask("SaslHandshake", version, {"mechanism": mechanism})


def tokens(client: WireClient, sasl: SaslClient, version: int = 2) -> dict[str, Any]:
    """Exchange tokens until the server refuses, or both are done; gives the last answer."""
    answer: dict[str, Any] = {}
    token = sasl.step()
    while token is not None:
        answer = client.ask("SaslAuthenticate", version, {"authBytes": token})
        if answer["errorCode"]:
            return answer
        token = sasl.step(bytes(answer["authBytes"]))
    return answer


def authenticate(client: WireClient, mechanism: str, user: str, password: str, version: int = 2) -> dict[str, Any]:
    """Shake hands and exchange tokens; gives the last answer."""
    answer = handshake(client, mechanism)
    return answer if answer["errorCode"] else tokens(client, sasl_client(mechanism, user, password), version)
