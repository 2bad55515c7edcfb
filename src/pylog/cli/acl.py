"""`pylog acl add | list | remove`: what users may do through a server with `--acls`.

    pylog acl add alice read topic:orders
    pylog acl add alice write topic:orders- --prefixed
    pylog acl add '*' all group:secret --deny
    pylog acl remove alice

A user is a name, which means User:NAME, or a principal with another type; * is everyone. (Kafka: kafka-acls.sh)
"""

from collections.abc import Iterable

import click

from pylog.cli import completion as complete
from pylog.cli.commands import CommandGroup
from pylog.cli.opening import changing, looking
from pylog.cli.output import Column, print_line, print_table, say
from pylog.cli.params import argument, json_option, option
from pylog.cli.place import LogPlace
from pylog.protocol.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
)
from pylog.runtime.json_lines import json_line
from pylog.runtime.words import plural

__all__ = ["command"]

OPERATIONS = {one.name.lower().replace("_", "-"): one for one in AclOperation if one >= AclOperation.ALL}
KINDS = {one.name.lower().replace("_", "-"): one for one in AclResourceType if one > AclResourceType.ANY}
CLUSTER = "cluster"
RESOURCE = "topic:NAME, group:NAME, transactional-id:NAME or cluster; the name * means every one"


def resource(text: str) -> tuple[AclResourceType, str]:
    """`topic:orders` -> (TOPIC, "orders")."""
    kind, colon, name = text.partition(":")
    if text == CLUSTER:
        return AclResourceType.CLUSTER, CLUSTER_NAME
    if kind not in KINDS or not colon or not name:
        raise click.BadParameter(f"{text!r} is not a resource: {RESOURCE}")
    return KINDS[kind], name


def principal(text: str) -> str:
    """`alice` -> "User:alice"."""
    return text if ":" in text else f"User:{text}"


command = CommandGroup(
    "acl",
    short_help="list, add and remove what users may do",
    help="What users may do through a server with --acls (ACLs).",
    examples=(
        "pylog acl add alice read topic:orders",
        "pylog acl add alice read group:billing",
        "pylog acl add alice write topic:orders- --prefixed",
        "pylog acl add '*' all topic:secret --deny",
        "pylog acl list --user alice",
        "pylog acl remove alice read topic:orders",
        "pylog serve --acls --listen SASL_PLAINTEXT://127.0.0.1:9092 -c super.users=User:root",
    ),
)


@command.verb("add", short_help="allow, or deny, an operation")
@argument("user", "USER", "the user; * means everyone", type=principal, shell_complete=complete.users)
@argument("operation", "OPERATION", ", ".join(OPERATIONS), type=click.Choice(list(OPERATIONS)))
@argument("target", "RESOURCE", RESOURCE, type=resource)
@option("--prefixed", is_flag=True, help="every resource whose name begins with this one")
@option("--deny", is_flag=True, help="deny it, whatever else allows it")
@option("--host", default=WILDCARD, metavar="ADDRESS", help="from this address alone (default: from every one)")
@json_option
def add(
    place: LogPlace, user: str, operation: str, target: tuple[AclResourceType, str], prefixed: bool, deny: bool,
    host: str, as_json: bool,
) -> int:  # fmt: skip
    """Allow a user to do something with a resource, or deny it."""
    kind, name = target
    made = AclBinding(
        kind, name, user, OPERATIONS[operation], PatternType.PREFIXED if prefixed else PatternType.LITERAL, host,
        AclPermissionType.DENY if deny else AclPermissionType.ALLOW,
    )  # fmt: skip
    with changing(place) as log:
        log.admin.create_acls([made])
    _print([made], as_json)
    return 0


@command.verb("list", short_help="all ACLs, or those of a user or for a resource")
@argument("target", "RESOURCE", f"those that mean {RESOURCE}", type=resource, required=False)
@option("--user", type=principal, metavar="USER", help="of this user", shell_complete=complete.users)
@json_option
def list_acls(place: LogPlace, target: tuple[AclResourceType, str] | None, user: str | None, as_json: bool) -> int:
    """The ACLs: all of them, or those of a user, or those that mean a resource, by prefixes and wildcards, too."""
    kind, name = target or (AclResourceType.ANY, None)
    with looking(place) as log:
        found = log.admin.describe_acls(AclBindingFilter(kind, name, user, pattern_type=PatternType.MATCH))
    if not found and not as_json:
        say("there are no such ACLs: `pylog acl add USER OPERATION RESOURCE` adds one")
    else:
        _print(sorted(found), as_json)
    return 0


@command.verb("remove", short_help="remove ACLs")
@argument("user", "USER", "the user; * means the ACLs for everyone", type=principal, shell_complete=complete.users)
@argument("operation", "OPERATION", "of this operation alone", type=click.Choice(list(OPERATIONS)), required=False)
@argument("target", "RESOURCE", "with this name alone, as it was added", type=resource, required=False)
@json_option
def remove(
    place: LogPlace, user: str, operation: str | None, target: tuple[AclResourceType, str] | None, as_json: bool
) -> int:  # fmt: skip
    """Remove the ACLs of a user: all of them, or those of an operation, or of an operation with a resource."""
    kind, name = target or (AclResourceType.ANY, None)
    chosen = AclOperation.ANY if operation is None else OPERATIONS[operation]
    with changing(place) as log:
        gone = log.admin.delete_acls([AclBindingFilter(kind, name, user, chosen)])
    if as_json:
        _print(sorted(gone), as_json)
    else:
        say(f"{plural(len(gone), 'ACL')} removed")
    return 0


def _print(acls: Iterable[AclBinding], as_json: bool) -> None:
    rows = [_row(acl) for acl in acls]
    if as_json:
        for row in rows:
            print_line(json_line(row))
    else:
        columns = tuple(Column(name) for name in ("permission", "user", "operation", "resource", "pattern", "host"))
        print_table(columns, [tuple(row[column.name] for column in columns) for row in rows])


def _row(acl: AclBinding) -> dict[str, str]:
    return {
        "permission": acl.permission_type.name.lower(), "user": acl.principal.removeprefix("User:"),
        "operation": acl.operation.name.lower().replace("_", "-"),
        "resource": f"{acl.resource_type.name.lower().replace('_', '-')}:{acl.name}",
        "pattern": acl.pattern_type.name.lower(), "host": acl.host,
    }  # fmt: skip
