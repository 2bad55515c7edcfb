"""`pylog group list | describe | seek | delete-offsets | delete`: groups, their members and their lag.

`list` and `describe` only look, and work beside an owner; the others own the directory while they run, or have its
owner do it. `seek`, which Kafka calls resetting offsets, is for groups without members.
"""

from functools import partial
from typing import Any, Literal

import click

from pylog.cli import completion as complete
from pylog.cli.arguments import Moment, moment, natural
from pylog.cli.commands import CommandGroup
from pylog.cli.group_moves import Where, chosen, forget, move, number_text, topics_option
from pylog.cli.opening import changing, looking
from pylog.cli.output import Column, agreed, print_line, print_table, say, tell
from pylog.cli.params import argument, at_most_one, json_option, option, yes_option
from pylog.cli.place import LogPlace
from pylog.client.admin.groups import STATES, GroupDescription
from pylog.client.admin.offset_moves import OffsetMove
from pylog.client.admin.offsets import PartitionLag
from pylog.handles.any_log import AnyLog
from pylog.record import TopicPartition
from pylog.runtime.clock import SystemClock
from pylog.runtime.json_lines import json_line
from pylog.runtime.words import count_text, plural

__all__ = ["command"]

LAG_COLUMNS = (
    Column("topic"), Column("partition", True), Column("committed", True), Column("end", True), Column("lag", True),
    Column("member"),
)  # fmt: skip


command = CommandGroup(
    "group", short_help="list, describe, seek and delete consumer groups", help="The consumer groups of a log."
)
a_group = argument("name", "GROUP", "the group", shell_complete=complete.groups)


@command.verb(
    "list",
    short_help="all groups and their states",
    examples=("pylog group list", "pylog group list --state empty --json"),
)
@option(
    "--state", "states", multiple=True, type=click.Choice([state.lower() for state in STATES], case_sensitive=False),
    metavar="STATE", help="only groups in this state; may be repeated",
)  # fmt: skip
@json_option
def list_groups(place: LogPlace, states: tuple[str, ...], as_json: bool) -> int:
    """All groups: name, state, type."""
    with looking(place) as log:
        groups = log.admin.list_groups(states=states)
    if as_json:
        for one in groups:
            facts = {"group": one.group_id, "state": one.state, "type": one.type, "protocol_type": one.protocol_type}
            print_line(json_line(facts))
    elif groups:
        rows = [(one.group_id, one.state, one.type, one.protocol_type or "-") for one in groups]
        print_table((Column("group"), Column("state"), Column("type"), Column("protocol")), rows)
    elif states:
        say("there are no such groups")
    else:
        say("there are no groups: `log.consumer(..., group_id=NAME)` makes one")
    return 0


@command.verb(
    "describe",
    short_help="members, committed offsets and lag of a group",
    examples=("pylog group describe analytics", "pylog group describe analytics --json | jq .lag"),
)
@a_group
@json_option
def describe(place: LogPlace, name: str, as_json: bool) -> int:
    """Members, and per partition the committed offset, the end of the log, and the lag between them."""
    with looking(place) as log:
        group, lags = log.admin.describe_group(name), log.admin.lag(name)
    if as_json:
        print_line(json_line(_as_json(group, lags)))
        return 0
    members = plural(len(group.members), "member")
    print_line(f"group {group.group_id}: {group.state}, {group.type.lower()} protocol, {members}")
    if group.members:
        print_line(f"assignor {group.assignor or '-'}, generation {group.generation}")
        columns = (Column("member"), Column("instance"), Column("client"), Column("host"), Column("partitions", True))
        rows = [
            (one.member_id, one.group_instance_id or "-", one.client_id or "-", one.host, str(len(one.assignment)))
            for one in group.members
        ]
        print_line("")
        print_table(columns, rows)
    if lags:
        print_line("")
        print_table(LAG_COLUMNS, [_lag_row(key, lag) for key, lag in lags.items()])
    return 0


def _lag_row(key: TopicPartition, lag: PartitionLag) -> tuple[str, ...]:
    committed, behind = number_text(lag.committed), number_text(lag.lag)
    return key.topic, str(key.partition), committed, count_text(lag.end_offset), behind, lag.member_id or "-"


def _as_json(group: GroupDescription, lags: dict[TopicPartition, PartitionLag]) -> dict[str, object]:
    return {
        "group": group.group_id, "state": group.state, "type": group.type, "protocol_type": group.protocol_type,
        "assignor": group.assignor, "generation": group.generation, "coordinator": group.coordinator,
        "members": [
            {
                "member_id": one.member_id, "instance_id": one.group_instance_id, "client_id": one.client_id,
                "host": one.host, "assignment": [key._asdict() for key in one.assignment],
            }
            for one in group.members
        ],
        "partitions": [{**key._asdict(), **lag._asdict()} for key, lag in lags.items()],
        "lag": sum(lag.lag or 0 for lag in lags.values()),
    }  # fmt: skip


@command.verb(
    "seek",
    short_help="reset the committed offsets of a group",
    examples=(
        "pylog group seek analytics --to earliest --yes",
        "pylog group seek analytics --to-time 2024-05-01T12:00 --topic clicks --dry-run",
        "pylog group seek analytics --shift -100 --topic clicks:0",
    ),
)
@a_group
@option("--to", type=click.Choice(("earliest", "latest")), help="an end of each partition")
@option("--to-offset", type=natural, metavar="O", help="an offset")
@option("--to-time", type=moment, metavar="TIME", help="the first record not older: 2h, or ISO 8601")
@option("--shift", type=int, metavar="N", help="N records further on, or back where N is negative")
@topics_option("only here; may be repeated (default: all that the group has committed)")
@option("--dry-run", is_flag=True, help="only show what would be")
@yes_option
@json_option
def seek(place: LogPlace, name: str, where: Where, dry_run: bool, is_agreed: bool, as_json: bool, **way: Any) -> int:
    """Commit other offsets for a group that has no members (Kafka: --reset-offsets)."""
    at_most_one({f"--{one.replace('_', '-')}": value for one, value in way.items()}, is_needed=True)
    with looking(place) if dry_run else changing(place) as log:
        reset = partial(_reset, log, name, chosen(log, where), **way)
        return move(name, "committed", reset, dry_run=dry_run, is_agreed=is_agreed, as_json=as_json)


def _reset(
    log: AnyLog, name: str, partitions: list[TopicPartition] | None, is_dry: bool, *,
    to: Literal["earliest", "latest"] | None, to_offset: int | None, to_time: Moment | None, shift: int | None,
) -> dict[TopicPartition, OffsetMove]:  # fmt: skip
    time_ms = to_time.at(SystemClock()) if to_time is not None else None
    return log.admin.reset_offsets(
        name, to, offset=to_offset, shift=shift, time_ms=time_ms, partitions=partitions, dry_run=is_dry
    )


@command.verb(
    "delete-offsets",
    short_help="forget what a group has committed in some partitions",
    examples=("pylog group delete-offsets analytics --topic clicks --yes",),
)
@a_group
@topics_option("where; may be repeated", required=True)
@yes_option
@json_option
def delete_offsets(place: LogPlace, name: str, where: Where, is_agreed: bool, as_json: bool) -> int:
    """Forget what a group has committed in partitions of topics that no member subscribes to."""
    with changing(place) as log:
        keys = chosen(log, where) or []
        what = f"what group {name} has committed in {plural(len(keys), 'partition')}"
        if not is_agreed and not agreed(f"deleting {what}", f"Delete {what}", "yes"):
            return 1
        log.admin.delete_offsets(name, keys)
    partitions = [key._asdict() for key in keys]
    tell(as_json, {"group": name, "deleted": True, "partitions": partitions}, f"deleted {what}")
    return 0


@command.verb(
    "delete", short_help="forget groups that have no members", examples=("pylog group delete analytics --yes",)
)
@argument("names", "GROUP...", "the groups", nargs=-1, required=True, shell_complete=complete.groups)
@yes_option
@json_option
def delete(place: LogPlace, names: tuple[str, ...], is_agreed: bool, as_json: bool) -> int:
    """Forget groups that have no members, with all that they have committed."""
    listed = ", ".join(names)
    if not is_agreed and not agreed(f"deleting {listed}", f"Delete {listed} with all committed offsets", "yes"):
        return 1
    with changing(place) as log:
        return forget(log, names, as_json=as_json)
