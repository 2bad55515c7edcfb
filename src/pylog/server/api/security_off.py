"""Delegation tokens are off, as in a Kafka without a secret key for them; SASL is, on a listener without it.

    Create-, Renew-, Expire-, DescribeDelegationToken
                                                  UnsupportedByAuthentication for a client that has proved no name,
                                                  DelegationTokenDisabled for the others
    SaslHandshake, SaslAuthenticate               IllegalSaslState, as on a plain-text listener of Kafka;
                                                  `authentication` answers both where there is SASL

In all versions alike, but from version 3 on CreateDelegationToken may be for another owner, and names the requester
beside it.
"""

from pylog.errors import DelegationTokenDisabled, IllegalSaslState, UnsupportedByAuthentication
from pylog.protocol.wire.mapping import Body
from pylog.server.api.call import Outcome, Request, api
from pylog.server.served_node import ServedNode

REQUESTER_FROM = 3
NEVER_MS = -1


def _token_error(request: Request) -> int:
    is_known = request.session.is_proved
    return DelegationTokenDisabled.code if is_known else UnsupportedByAuthentication.code


def _create_token(request: Request, node: ServedNode) -> Outcome:
    kind, _, name = request.session.principal.partition(":")
    owner = kind, name
    if request.body.get("ownerPrincipalName"):
        owner = request.body["ownerPrincipalType"] or "", request.body["ownerPrincipalName"]
    body: Body = {
        "errorCode": _token_error(request), "principalType": owner[0], "principalName": owner[1],
        "issueTimestampMs": NEVER_MS, "expiryTimestampMs": NEVER_MS, "maxTimestampMs": NEVER_MS, "tokenId": "",
        "hmac": b"",
    }  # fmt: skip
    if request.version >= REQUESTER_FROM:
        body |= {"tokenRequesterPrincipalType": kind, "tokenRequesterPrincipalName": name}
    return body


def _change_token(request: Request, node: ServedNode) -> Outcome:
    return {"errorCode": _token_error(request), "expiryTimestampMs": NEVER_MS}


def _describe_tokens(request: Request, node: ServedNode) -> Outcome:
    return {"errorCode": _token_error(request), "tokens": []}


def _handshake(request: Request, node: ServedNode) -> Outcome:
    return {"errorCode": IllegalSaslState.code, "mechanisms": []}


def _authenticate(request: Request, node: ServedNode) -> Outcome:
    told = "SaslAuthenticate request received after successful authentication"
    return {"errorCode": IllegalSaslState.code, "errorMessage": told, "authBytes": b""}


APIS = (
    api("SaslHandshake", _handshake),
    api("SaslAuthenticate", _authenticate),
    api("CreateDelegationToken", _create_token),
    api("RenewDelegationToken", _change_token),
    api("ExpireDelegationToken", _change_token),
    api("DescribeDelegationToken", _describe_tokens),
)
