"""The decision by ACLs: deny first, then allow, then what is said for resources without any. (KIP-11)

    super.users                          may do everything
    an ACL that denies matches           no, whatever others allow
    an ACL that allows matches           yes
    an ACL with a pattern of it exists   no
    else                                 `allow.everyone.if.no.acl.found`

An ACL that allows READ, WRITE, DELETE or ALTER allows DESCRIBE, too, and ALTER_CONFIGS allows DESCRIBE_CONFIGS. One
that denies them denies nothing else. (Kafka: StandardAuthorizerData)

Invariants: no I/O and no clock; a decision is made from one state of the ACLs; threads may ask at once.
"""

from collections.abc import Callable, Iterable
from ipaddress import IPv6Address
from typing import NamedTuple, Protocol

from pylog.errors import InvalidConfig
from pylog.protocol.acls import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AclBinding,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    Acls,
    PatternType,
)

__all__ = ["Authorizer", "StandardAuthorizer"]

REMEMBERED_MAX = 10_000
"""How many decisions are remembered."""
ANY_NAME = "hardcode"
"""The name by which Kafka asks whether all resources of a type are allowed, so that super users are."""

_DENY, _ALLOW, _ALL = AclPermissionType.DENY, AclPermissionType.ALLOW, AclOperation.ALL
_ALLOWED_BY: dict[AclOperation, frozenset[AclOperation]] = {one: frozenset((one, _ALL)) for one in AclOperation} | {
    AclOperation.DESCRIBE: frozenset((
        AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER, _ALL,
    )),
    AclOperation.DESCRIBE_CONFIGS: frozenset((AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS, _ALL)),
}  # fmt: skip
"""The operations whose permission allows an operation."""


class Authorizer(Protocol):
    """An object that decides what the clients of a server may do: `authorizer=` of `Log.serve` takes it."""

    def authorize(
        self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType, name: str, /
    ) -> bool:  # fmt: skip
        """Decide whether a client may do this with that resource. Several threads may call it at once. It must not
        wait: a server's clients share the thread.
        """


Question = tuple[str, str, AclOperation, AclResourceType, str | None]
"""Principal, host, operation, type and name of a resource; no name: any resource of the type."""


class _Decided(NamedTuple):
    """Decisions that follow from one state of the ACLs."""

    acls: Acls
    decisions: dict[Question, bool]


class StandardAuthorizer:
    """Kafka's rules over the ACLs of now. Thread-safe.

    A decision is remembered until an ACL changes.
    """

    def __init__(self, acls: Callable[[], Acls], *, super_users: Iterable[str], allows_without_acl: bool) -> None:
        self._acls = acls
        self._super_users = frozenset(super_users)
        self._allows_without_acl = allows_without_acl
        self._known = _Decided(acls(), {})

    def authorize(
        self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType, name: str, /
    ) -> bool:
        """Decide whether a client may do this with that resource."""
        return self._decided((principal, host, operation, resource_type, name))

    def has_allowed(self, question: Question) -> bool:
        """True where this was allowed before, and no ACL has changed since. It decides nothing."""
        known = self._known
        return known.acls is self._acls() and known.decisions.get(question, False)

    def authorize_any(
        self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType, /
    ) -> bool:
        """Whether a client may do this with at least one resource of a type, whether it is there or not.

        No operation is implied by another one here. (Kafka: Authorizer.authorizeByResourceType)
        """
        return self._decided((principal, host, operation, resource_type, None))

    def _decided(self, question: Question) -> bool:
        """The decision that is remembered, or a new one."""
        known = self._known
        if known.acls is not self._acls() or len(known.decisions) >= REMEMBERED_MAX:
            known = self._known = _Decided(self._acls(), {})
        decided = known.decisions.get(question)
        if decided is None:
            decided = known.decisions[question] = self._decide(known.acls, *question)
        return decided

    def _decide(
        self, acls: Acls, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType,
        name: str | None,
    ) -> bool:  # fmt: skip
        if principal in self._super_users:
            return True
        if name is None:
            whole = self._decide(acls, principal, host, operation, resource_type, ANY_NAME)
            return whole or _allows_any(acls, _names(principal), _texts(host), operation, resource_type)
        patterns = acls.patterns(resource_type, name)
        if not patterns:
            return self._allows_without_acl
        hosts, allowing = _texts(host), _ALLOWED_BY[operation]
        is_allowed = False
        for pattern in patterns:
            for name in _names(principal):
                for acl in acls.of(pattern, name):
                    if acl.host not in hosts:
                        continue
                    if acl.permission_type == _DENY and acl.operation in (operation, _ALL):
                        return False
                    is_allowed = is_allowed or (acl.permission_type == _ALLOW and acl.operation in allowing)
        return is_allowed


def _allows_any(
    acls: Acls, principals: frozenset[str], hosts: frozenset[str], operation: AclOperation, kind: AclResourceType
) -> bool:
    """Whether an ACL allows what no other one that is as wide, or wider, denies."""
    mine = [
        acl
        for acl in acls.by_id.values()
        if acl.resource_type == kind
        and acl.operation in (operation, _ALL)
        and acl.host in hosts
        and acl.principal in principals
    ]
    denied = {(acl.pattern_type, acl.name) for acl in mine if acl.permission_type == _DENY}
    allowed = [acl for acl in mine if acl.permission_type == _ALLOW]
    if (PatternType.LITERAL, WILDCARD) in denied:
        return False
    return any(_is_everything(acl) or not _is_denied(acl, denied) for acl in allowed)


def _is_everything(acl: AclBinding) -> bool:
    return acl.pattern_type == PatternType.LITERAL and acl.name == WILDCARD


def _is_denied(acl: AclBinding, denied: set[tuple[PatternType, str]]) -> bool:
    if acl.pattern_type == PatternType.LITERAL and (PatternType.LITERAL, acl.name) in denied:
        return True
    return any((PatternType.PREFIXED, acl.name[:end]) in denied for end in range(1, len(acl.name) + 1))


def _names(principal: str) -> frozenset[str]:
    """The principals of ACLs that mean a client."""
    return frozenset((principal, WILDCARD_PRINCIPAL))


def _texts(host: str) -> frozenset[str]:
    """The hosts of ACLs that mean an address: Kafka writes one of IPv6 in full, and one of IPv4 in IPv6 as IPv4."""
    texts = {WILDCARD, host}
    if ":" in host:
        address = IPv6Address(host.partition("%")[0])
        mapped = address.ipv4_mapped
        texts.add(":".join(f"{int(part, 16):x}" for part in address.exploded.split(":")))
        texts |= set() if mapped is None else {str(mapped)}
    return frozenset(texts)


def super_users_of(text: str) -> list[str]:
    """The principals in the value of `super.users`, with semicolons between. Raises InvalidConfig."""
    found = [name.strip() for name in text.split(";") if name.strip()]
    for name in found:
        kind, colon, _ = name.partition(":")
        if not kind or not colon:
            raise InvalidConfig(f"super.users: {name!r} is not a principal, as User:alice is")
    return found
