"""`pylog quota list | set | remove`: how much the clients of a server may send, receive and ask.

    pylog quota set --client-id reports consumer_byte_rate=5000000
    pylog quota set --user ada --default-client-id producer_byte_rate=1000000
    pylog quota remove --client-id reports consumer_byte_rate

(Kafka: kafka-configs.sh --entity-type users, clients)
"""

from collections.abc import Callable
from typing import Any

import click

from pylog.cli import completion as complete
from pylog.cli.commands import CommandGroup
from pylog.cli.opening import changing, looking
from pylog.cli.output import Column, print_line, print_table, say, tell
from pylog.cli.params import argument, at_most_one, json_option, option
from pylog.cli.place import LogPlace
from pylog.protocol.messages.quotas import QuotaEntity
from pylog.runtime.json_lines import json_line
from pylog.runtime.words import printable

__all__ = ["command"]

QUOTAS = "producer_byte_rate, consumer_byte_rate (bytes a second), request_percentage (100 is one thread)"
DEFAULT = "<default>"

command = CommandGroup("quota", short_help="list, set and remove quotas of clients", help="The quotas of clients.")


def entity_options(function: Callable[..., int]) -> Callable[..., int]:
    """Give a command the options that name an entity."""
    for added in (
        option("--default-client-id", is_flag=True, help="clients whose id has no quota of its own"),
        option("--client-id", metavar="ID", help="the clients with this id"),
        option("--default-user", is_flag=True, help="users without a quota of their own"),
        option("--user", metavar="NAME", help="the clients of this user", shell_complete=complete.users),
    ):
        function = added(function)
    return function


def _entity(
    user: str | None, default_user: bool, client_id: str | None, default_client_id: bool
) -> dict[str, str | None]:  # fmt: skip
    at_most_one({"--user": user, "--default-user": default_user})
    at_most_one({"--client-id": client_id, "--default-client-id": default_client_id})
    entity: dict[str, str | None] = {}
    if user is not None or default_user:
        entity["user"] = user
    if client_id is not None or default_client_id:
        entity["client-id"] = client_id
    if not entity:
        raise click.UsageError("whose quota? give --user, --client-id, or both, or their defaults")
    return entity


def _bound(text: str) -> tuple[str, float]:
    """`producer_byte_rate=1000` -> ("producer_byte_rate", 1000.0)."""
    name, equals, value = text.partition("=")
    try:
        return name, float(value if equals else "")
    except ValueError:
        raise click.BadParameter(f"{text!r} is not NAME=NUMBER: {QUOTAS}") from None


@command.verb("list", short_help="all quotas", examples=("pylog quota list", "pylog quota list --json"))
@json_option
def list_quotas(place: LogPlace, as_json: bool) -> int:
    """All quotas, by the users and clients that they are for."""
    with looking(place) as log:
        found = log.admin.describe_client_quotas()
    if as_json:
        for entity, quotas in found.items():
            print_line(json_line({"entity": dict(entity), "quotas": quotas}))
    elif found:
        rows = [
            (_name(entity, "user"), _name(entity, "client-id"), name, f"{bound:,.10g}")
            for entity, quotas in found.items()
            for name, bound in quotas.items()
        ]
        print_table((Column("user"), Column("client id"), Column("quota"), Column("bound", True)), rows)
    else:
        say("there are no quotas: `pylog quota set` adds one")
    return 0


def _name(entity: QuotaEntity, kind: str) -> str:
    named = dict(entity)
    name = named.get(kind)
    return "-" if kind not in named else DEFAULT if name is None else printable(name)


@command.verb(
    "set",
    short_help="set quotas of clients",
    examples=(
        "pylog quota set --client-id reports consumer_byte_rate=5000000",
        "pylog quota set --default-user producer_byte_rate=1000000 request_percentage=50",
    ),
)
@argument("bounds", "NAME=NUMBER...", QUOTAS, nargs=-1, required=True, type=_bound)
@entity_options
@json_option
def put(place: LogPlace, bounds: tuple[tuple[str, float], ...], as_json: bool, **named: Any) -> int:
    """Set quotas of a user's clients, of the clients with an id, or of both; they count at once."""
    entity = _entity(**named)
    with changing(place) as log:
        log.admin.alter_client_quotas(entity, dict(bounds))
    tell(as_json, {"entity": entity, "quotas": dict(bounds)}, f"set {', '.join(name for name, _ in bounds)}")
    return 0


@command.verb(
    "remove",
    short_help="remove quotas of clients",
    examples=("pylog quota remove --client-id reports consumer_byte_rate",),
)
@argument("names", "NAME...", "the quotas", nargs=-1, required=True)
@entity_options
@json_option
def remove(place: LogPlace, names: tuple[str, ...], as_json: bool, **named: Any) -> int:
    """Remove quotas. To remove one that is not there changes nothing."""
    entity = _entity(**named)
    with changing(place) as log:
        log.admin.alter_client_quotas(entity, dict.fromkeys(names))
    tell(as_json, {"entity": entity, "removed": names}, f"removed {', '.join(names)}")
    return 0
