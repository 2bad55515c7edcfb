"""ACLs and questions about them, drawn from small sets of names, and their answers by reading every ACL."""

from random import Random
from typing import NamedTuple

from pylog.protocol.acls import AclBinding, AclOperation, AclPermissionType, AclResourceType, PatternType

PRINCIPALS = ("User:alice", "User:bob", "User:*", "Group:alice")
CLIENTS = ("User:alice", "User:bob", "User:root", "Group:alice")
HOSTS = ("*", "10.0.0.1", "0:0:0:0:0:0:0:1")
ADDRESSES = ("10.0.0.1", "10.0.0.2", "::1")
NAMES = ("*", "a", "ab", "abc", "abd", "b", "hard", "hardcode", "h", "ü", "\U0001f600x")
RESOURCES = ("a", "ab", "abc", "abcd", "abd", "b", "bc", "hardcode", "x", "*", "üb", "\U0001f600xy")
OPERATIONS = tuple(one for one in AclOperation if one > AclOperation.ALL)
KINDS = tuple(one for one in AclResourceType if one > AclResourceType.ANY)


class AclQuestion(NamedTuple):
    """May a client do this? Without a name: with any resource of the type."""

    principal: str
    host: str
    operation: AclOperation
    resource_type: AclResourceType
    name: str | None


class World(NamedTuple):
    """The ACLs of a cluster, and what holds besides."""

    acls: list[AclBinding]
    super_users: str
    allows_without_acl: bool

    def allows(self, question: AclQuestion) -> bool:
        """The answer to a question about one resource, by the rules alone."""
        principal, host, operation, kind, name = question
        if principal in self.super_users.split(";"):
            return True
        about = [acl for acl in self.acls if acl.resource_type == kind and _means(acl, name or "")]
        mine = [acl for acl in about if acl.principal in (principal, "User:*") and _is_from(acl, host)]
        if any(acl.permission_type == AclPermissionType.DENY and acl.operation in (operation, 2) for acl in mine):
            return False
        allowing = [acl.operation for acl in mine if acl.permission_type == AclPermissionType.ALLOW]
        if not about:
            return self.allows_without_acl
        return any(_allows(one, operation) for one in allowing)


def _means(acl: AclBinding, name: str) -> bool:
    if acl.pattern_type == PatternType.PREFIXED:
        return name.startswith(acl.name)
    return acl.name in (name, "*")


def _is_from(acl: AclBinding, host: str) -> bool:
    return acl.host in ("*", host, {"::1": "0:0:0:0:0:0:0:1"}.get(host, host))


def _allows(given: AclOperation, operation: AclOperation) -> bool:
    if given in (operation, AclOperation.ALL):
        return True
    name = operation.name
    return (name == "DESCRIBE" and given.name in ("READ", "WRITE", "DELETE", "ALTER")) or (
        name == "DESCRIBE_CONFIGS" and given.name == "ALTER_CONFIGS"
    )


def drawn_world(dice: Random) -> World:
    """A few ACLs, so that patterns meet."""
    kinds = dice.sample(KINDS, 2)
    operations = (AclOperation.ALL, *dice.sample(OPERATIONS, 3), AclOperation.READ)
    acls = {
        AclBinding(
            dice.choice(kinds), dice.choice(NAMES), dice.choice(PRINCIPALS), dice.choice(operations),
            dice.choice((PatternType.LITERAL, PatternType.PREFIXED)), dice.choice(HOSTS),
            dice.choice((AclPermissionType.DENY, AclPermissionType.ALLOW, AclPermissionType.ALLOW)),
        )
        for _ in range(dice.randrange(12))
    }  # fmt: skip
    return World(sorted(acls), dice.choice(("", "User:root", "User:root;User:bob")), dice.random() < 0.3)


def drawn_question(dice: Random, world: World, *, may_be_any: bool) -> AclQuestion:
    """A question that has to do with an ACL more often than not."""
    near = dice.choice(world.acls) if world.acls and dice.random() < 0.8 else None
    operation = dice.choice(OPERATIONS) if near is None or near.operation == AclOperation.ALL else near.operation
    if dice.random() < 0.3:
        operation = dice.choice((AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS, AclOperation.READ))
    return AclQuestion(
        dice.choice(CLIENTS), dice.choice(ADDRESSES), operation,
        dice.choice(KINDS) if near is None else near.resource_type,
        None if may_be_any and dice.random() < 0.2 else dice.choice(RESOURCES),
    )  # fmt: skip
