"""`pylog share list | describe | offsets | reset | delete-offsets | delete`: share groups and their progress.

The members of a share group take records from the same partitions, as workers take them from a queue (KIP-932);
`pylog consume --share` is such a member. `list`, `describe` and `offsets` only look, and work beside an owner; the
others own the directory while they run, or have its owner do it, and are for groups without members.
"""

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import Any, Literal

import click

from pylog.cli import completion as complete
from pylog.cli.arguments import Moment, moment, natural
from pylog.cli.commands import CommandGroup
from pylog.cli.group_moves import Where, chosen, forget, move, number_text, topics_option
from pylog.cli.opening import changing, looking, working
from pylog.cli.output import Column, agreed, print_line, print_table, say, tell
from pylog.cli.params import argument, at_most_one, json_option, option, yes_option
from pylog.cli.place import LogPlace
from pylog.client.admin.groups import GroupDescription
from pylog.client.admin.offset_moves import OffsetMove
from pylog.client.admin.share_offsets import ShareStanding
from pylog.errors import GroupIdNotFound, PylogError
from pylog.handles.any_log import AnyLog
from pylog.record import TopicPartition
from pylog.runtime.clock import SystemClock
from pylog.runtime.json_lines import json_line
from pylog.runtime.words import count_text, duration_text, plural

__all__ = ["command"]

STATES = ("empty", "stable")
OFFSET_COLUMNS = (
    Column("topic"), Column("partition", True), Column("start", True), Column("end", True), Column("lag", True)
)  # fmt: skip
STANDING_COLUMNS = (
    Column("topic"), Column("partition", True), Column("locked", True), Column("in flight", True),
    Column("deliveries"), Column("oldest lock", True),
)  # fmt: skip

command = CommandGroup(
    "share", short_help="list, describe, reset and delete share groups", help="The share groups of a log."
)
a_group = argument("name", "GROUP", "the share group", shell_complete=complete.share_groups)


def _described(log: AnyLog, name: str) -> GroupDescription:
    """A share group. Raises GroupIdNotFound."""
    found = log.admin.describe_group(name)
    if found.type != "Share":
        raise GroupIdNotFound(f"{name} is no share group: see `pylog group describe {name}`")
    return found


@command.verb(
    "list",
    short_help="all share groups and their states",
    examples=("pylog share list", "pylog share list --state empty --json"),
)
@option(
    "--state", "states", multiple=True, type=click.Choice(STATES, case_sensitive=False), metavar="STATE",
    help="only groups in this state; may be repeated",
)  # fmt: skip
@json_option
def list_groups(place: LogPlace, states: tuple[str, ...], as_json: bool) -> int:
    """All share groups: name, state."""
    with looking(place) as log:
        groups = log.admin.list_groups(states=states, types=["share"])
    if as_json:
        for one in groups:
            print_line(json_line({"group": one.group_id, "state": one.state}))
    elif groups:
        print_table((Column("group"), Column("state")), [(one.group_id, one.state) for one in groups])
    elif states:
        say("there are no such share groups")
    else:
        say("there are no share groups: `log.share_consumer(..., group_id=NAME)` makes one")
    return 0


@command.verb(
    "describe",
    short_help="members of a share group and what they read",
    examples=("pylog share describe workers", "pylog share describe workers --json | jq .members"),
)
@a_group
@json_option
def describe(place: LogPlace, name: str, as_json: bool) -> int:
    """State and members of a share group, and the partitions that each member reads; several may read one.

    Then, for each partition that is at work: how many records members have (locked), how many were delivered and are
    not done, how many of them were delivered how often (deliveries: records), and the age of the oldest lock.
    """
    with looking(place) as log:
        group = _described(log, name)
        with working(place, log) as owner:
            standing = owner.admin.share_standing(name)
    if as_json:
        print_line(json_line({**_as_json(group), "partitions": _standing_as_json(standing)}))
        return 0
    print_line(f"share group {group.group_id}: {group.state}, {plural(len(group.members), 'member')}")
    if group.members:
        print_line(f"assignor {group.assignor or '-'}, epoch {group.generation}")
        print_line("")
        rows = [
            (one.member_id, one.client_id or "-", one.host, _shown(one.assignment) or "-") for one in group.members
        ]  # fmt: skip
        print_table((Column("member"), Column("client"), Column("host"), Column("partitions")), rows)
    if standing:
        print_line("")
        print_table(STANDING_COLUMNS, [
            (
                key.topic, str(key.partition), count_text(one.acquired), count_text(one.in_flight),
                " ".join(f"{count}:{records}" for count, records in one.deliveries.items()) or "-",
                "-" if one.oldest_lock_ms is None else duration_text(one.oldest_lock_ms),
            )
            for key, one in standing.items()
        ])  # fmt: skip
    return 0


def _shown(keys: Sequence[TopicPartition]) -> str:
    topics = groupby(keys, lambda key: key.topic)
    return " ".join(f"{topic}:{','.join(str(key.partition) for key in found)}" for topic, found in topics)


def _as_json(group: GroupDescription) -> dict[str, object]:
    return {
        "group": group.group_id, "state": group.state, "assignor": group.assignor, "epoch": group.generation,
        "assignment_epoch": group.assignment_epoch, "coordinator": group.coordinator,
        "members": [
            {
                "member_id": one.member_id, "client_id": one.client_id, "host": one.host, "epoch": one.epoch,
                "subscription": one.subscription, "assignment": [key._asdict() for key in one.assignment],
            }
            for one in group.members
        ],
    }  # fmt: skip


def _standing_as_json(standing: dict[TopicPartition, ShareStanding] | None) -> list[dict[str, object]] | None:
    if standing is None:
        return None
    return [{**key._asdict(), **one._asdict(), "in_flight": one.in_flight} for key, one in standing.items()]


@command.verb(
    "offsets",
    short_help="the progress of a share group in each partition",
    examples=("pylog share offsets workers", "pylog share offsets workers --json | jq .lag"),
)
@a_group
@json_option
def offsets(place: LogPlace, name: str, as_json: bool) -> int:
    """Per partition the start, before which all is done, the end of the log, and how many records are left to do."""
    with looking(place) as log:
        _described(log, name)
        lags = log.admin.lag(name)
    if as_json:
        for key, one in lags.items():
            facts = {"start_offset": one.committed, "end_offset": one.end_offset, "lag": one.lag}
            print_line(json_line({"group": name, **key._asdict(), **facts}))
    elif lags:
        print_table(OFFSET_COLUMNS, [
            (
                key.topic, str(key.partition), number_text(one.committed), count_text(one.end_offset),
                number_text(one.lag),
            )
            for key, one in lags.items()
        ])  # fmt: skip
    else:
        say(f"share group {name} has begun no partition")
    return 0


@command.verb(
    "reset",
    short_help="let a share group begin again elsewhere",
    examples=(
        "pylog share reset workers --to earliest --yes",
        "pylog share reset workers --to-time 2024-05-01T12:00 --topic clicks --dry-run",
    ),
)
@a_group
@option("--to", type=click.Choice(("earliest", "latest")), help="an end of each partition")
@option("--to-offset", type=natural, metavar="O", help="an offset")
@option("--to-time", type=moment, metavar="TIME", help="the first record not older: 2h, or ISO 8601")
@topics_option("only here; may be repeated (default: all that the group has begun); needed for a new group")
@option("--dry-run", is_flag=True, help="only show what would be")
@yes_option
@json_option
def reset(place: LogPlace, name: str, where: Where, dry_run: bool, is_agreed: bool, as_json: bool, **way: Any) -> int:
    """Let a share group that has no members begin again there: records that were done are given again.

    A group that is not there yet is made: so it begins at the start of a topic, and not at its end.
    """
    at_most_one({f"--{one.replace('_', '-')}": value for one, value in way.items()}, is_needed=True)
    with looking(place) if dry_run else changing(place) as log:
        reset = partial(_reset, log, name, chosen(log, where), **way)
        return move(name, "begun", reset, dry_run=dry_run, is_agreed=is_agreed, as_json=as_json)


def _reset(
    log: AnyLog, name: str, partitions: list[TopicPartition] | None, is_dry: bool, *,
    to: Literal["earliest", "latest"] | None, to_offset: int | None, to_time: Moment | None,
) -> dict[TopicPartition, OffsetMove]:  # fmt: skip
    time_ms = to_time.at(SystemClock()) if to_time is not None else None
    return log.admin.reset_share_offsets(
        name, to, offset=to_offset, time_ms=time_ms, partitions=partitions, dry_run=is_dry
    )


@command.verb(
    "delete-offsets",
    short_help="forget the progress of a share group in some topics",
    examples=("pylog share delete-offsets workers --topic clicks --yes",),
)
@a_group
@option(
    "--topic", "topics", multiple=True, metavar="TOPIC", required=True, help="where; may be repeated",
    shell_complete=complete.topics,
)  # fmt: skip
@yes_option
@json_option
def delete_offsets(place: LogPlace, name: str, topics: tuple[str, ...], is_agreed: bool, as_json: bool) -> int:
    """Forget the progress of a share group that has no members in topics: it begins as a new one there."""
    what = f"the offsets of share group {name} in {', '.join(topics)}"
    if not is_agreed and not agreed(f"deleting {what}", f"Delete {what}", "yes"):
        return 1
    with changing(place) as log:
        log.admin.delete_share_offsets(name, topics)
    tell(as_json, {"group": name, "deleted": True, "topics": topics}, f"deleted {what}")
    return 0


@command.verb(
    "delete", short_help="forget share groups that have no members", examples=("pylog share delete workers --yes",)
)
@argument("names", "GROUP...", "the share groups", nargs=-1, required=True, shell_complete=complete.share_groups)
@yes_option
@json_option
def delete(place: LogPlace, names: tuple[str, ...], is_agreed: bool, as_json: bool) -> int:
    """Forget share groups that have no members, with all that is known of what they have done."""
    listed = ", ".join(names)
    if not is_agreed and not agreed(f"deleting {listed}", f"Delete {listed} with all offsets", "yes"):
        return 1
    with changing(place) as log:
        found = log.admin.describe_groups(names)
        others = [name for name, one in found.items() if not isinstance(one, PylogError) and one.type != "Share"]
        for name in others:
            say(f"{name} is no share group: see `pylog group delete`")
        return max(bool(others), forget(log, [name for name in found if name not in others], as_json=as_json))
