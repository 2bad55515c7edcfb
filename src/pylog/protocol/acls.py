"""ACLs: who may do what with which resource, as values, and all of them with an index. (KIP-11, KIP-290)

An `AclBinding` allows or denies one operation to a principal, from a host, with the resources of a pattern:

    pattern      LITERAL "t"     the resource of this name; "*" means every name
                 PREFIXED "t-"   the resources whose names begin with this
    principal    "User:alice"; "User:*" means everyone
    host         an address; "*" means every one
    operation    READ, WRITE...; ALL means each of them

Kafka's numbers and names. (Kafka: AclBinding, AclBindingFilter, ResourcePatternFilter, StandardAuthorizerData.)

Invariants: nothing is decided here (`authorizer.standard` does); `Acls` that others see never change, a change is made
to a `successor`.
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple, TypeVar
from uuid import UUID

from pylog.protocol.persistent_map import PersistentMap

__all__ = [
    "CLUSTER_NAME", "WILDCARD", "WILDCARD_PRINCIPAL", "AclBinding", "AclBindingFilter", "AclOperation",
    "AclPermissionType", "AclResourceType", "Acls", "PatternType",
]  # fmt: skip

WILDCARD, WILDCARD_PRINCIPAL = "*", "User:*"
CLUSTER_NAME = "kafka-cluster"
"""The name of the one resource of the type CLUSTER."""


class AclResourceType(IntEnum):
    """The kind of a resource. (Kafka: ResourceType; that of configs has other numbers)"""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """The way in which the name of an ACL means resources. A filter may have ANY, or MATCH (all that mean a name)."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """An action on a resource."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermissionType(IntEnum):
    """The effect of an ACL."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class AclBinding(NamedTuple):
    """One ACL: it allows, or denies, an operation to a principal.

    >>> AclBinding(AclResourceType.TOPIC, "orders", "User:alice", AclOperation.READ)
    AclBinding(resource_type=<AclResourceType.TOPIC: 2>, name='orders', principal='User:alice', ...)
    """

    resource_type: AclResourceType
    name: str
    principal: str
    operation: AclOperation
    pattern_type: PatternType = PatternType.LITERAL
    host: str = WILDCARD
    permission_type: AclPermissionType = AclPermissionType.ALLOW


class AclBindingFilter(NamedTuple):
    """Some of the ACLs: those with the values that it names. ANY and None leave a value open.

    >>> AclBindingFilter(AclResourceType.TOPIC, "orders", pattern_type=PatternType.MATCH)
    AclBindingFilter(resource_type=<AclResourceType.TOPIC: 2>, name='orders', principal=None, ...)
    """

    resource_type: AclResourceType = AclResourceType.ANY
    name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    pattern_type: PatternType = PatternType.ANY
    host: str | None = None
    permission_type: AclPermissionType = AclPermissionType.ANY

    def matches(self, acl: AclBinding) -> bool:
        """Whether an ACL is one of these."""
        return (
            self.resource_type in (AclResourceType.ANY, acl.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission_type in (AclPermissionType.ANY, acl.permission_type)
            and self._matches_pattern(acl)
        )

    def _matches_pattern(self, acl: AclBinding) -> bool:
        if self.pattern_type in (PatternType.ANY, acl.pattern_type):
            return self.name in (None, acl.name)
        if self.pattern_type != PatternType.MATCH:
            return False
        if self.name is None:
            return True
        if acl.pattern_type == PatternType.LITERAL:
            return acl.name in (self.name, WILDCARD)
        return self.name.startswith(acl.name)


Pattern = tuple[AclResourceType, PatternType, str]
K = TypeVar("K")


class Acls:
    """All ACLs, by their ids, and by what a decision looks up: a pattern, and a principal.

    A look-up takes a step for the name, one for the wildcard, and one for each length that a prefix of this type of
    resource has, however many ACLs there are.
    """

    def __init__(self) -> None:
        self.by_id = PersistentMap[UUID, AclBinding]()
        self._ids = PersistentMap[AclBinding, UUID]()
        self._of = PersistentMap[tuple[Pattern, str], tuple[AclBinding, ...]]()
        """The ACLs of a pattern for a principal."""
        self._patterns = PersistentMap[Pattern, int]()
        """How many ACLs a pattern has."""
        self._lengths: dict[AclResourceType, dict[int, int]] = {}
        """How many ACLs have a prefix of each length."""

    def successor(self) -> "Acls":
        """The same ACLs, to be changed: these stay the same."""
        after = Acls()
        after.by_id, after._ids = self.by_id.successor(), self._ids.successor()
        after._of, after._patterns = self._of.successor(), self._patterns.successor()
        after._lengths = {kind: dict(lengths) for kind, lengths in self._lengths.items()}
        return after

    def __len__(self) -> int:
        return len(self.by_id)

    def __repr__(self) -> str:
        return f"<Acls {self.by_id!r}>"

    def __contains__(self, acl: object) -> bool:
        return acl in self._ids

    def add(self, acl_id: UUID, acl: AclBinding) -> None:
        """Add an ACL. One that is there under this id is replaced."""
        if acl_id in self.by_id:
            self.remove(acl_id)
        self.by_id[acl_id], self._ids[acl] = acl, acl_id
        pattern = acl.resource_type, acl.pattern_type, acl.name
        key = pattern, acl.principal
        self._of[key] = (*self._of.get(key, ()), acl)
        self._patterns[pattern] = self._patterns.get(pattern, 0) + 1
        if acl.pattern_type == PatternType.PREFIXED:
            _count(self._lengths.setdefault(acl.resource_type, {}), len(acl.name), 1)

    def remove(self, acl_id: UUID) -> None:
        """Remove an ACL. Raises KeyError."""
        acl = self.by_id.pop(acl_id)
        if self._ids.get(acl) == acl_id:
            del self._ids[acl]
        pattern = acl.resource_type, acl.pattern_type, acl.name
        key = pattern, acl.principal
        left = list(self._of.pop(key))
        left.remove(acl)
        if left:
            self._of[key] = tuple(left)
        _count(self._patterns, pattern, -1)
        if acl.pattern_type == PatternType.PREFIXED:
            _count(self._lengths[acl.resource_type], len(acl.name), -1)

    def matching(self, filter_: AclBindingFilter) -> Iterator[tuple[UUID, AclBinding]]:
        """The ACLs of a filter, with their ids."""
        return ((acl_id, acl) for acl_id, acl in self.by_id.items() if filter_.matches(acl))

    def patterns(self, kind: AclResourceType, name: str) -> list[Pattern]:
        """The patterns with an ACL that mean this resource."""
        wanted: list[Pattern] = [(kind, PatternType.LITERAL, name)]
        if name != WILDCARD:
            wanted.append((kind, PatternType.LITERAL, WILDCARD))
        size = len(name)
        wanted += [
            (kind, PatternType.PREFIXED, name[:length]) for length in self._lengths.get(kind, ()) if length <= size
        ]
        known = self._patterns
        return [pattern for pattern in wanted if pattern in known]

    def of(self, pattern: Pattern, principal: str) -> tuple[AclBinding, ...]:
        """The ACLs that a pattern has for this principal by name."""
        return self._of.get((pattern, principal), ())


def _count(counts: "dict[K, int] | PersistentMap[K, int]", key: K, change: int) -> None:
    after = counts.get(key, 0) + change
    if after:
        counts[key] = after
    else:
        del counts[key]
