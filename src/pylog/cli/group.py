"""`pylog group list | describe | seek | delete-offsets | delete`: groups, their members and their lag.

`list` and `describe` only look, and work beside an owner; the others own the directory while they run. `seek`, which
Kafka calls resetting offsets, is for groups without members.
"""

import argparse
from collections.abc import Sequence
from typing import Any

from pylog.cli.arguments import Parser, add_log, examples, moment, natural, partitions_of, topic_partition
from pylog.cli.opening import changing, looking
from pylog.cli.output import Column, agreed, count_text, json_line, plural, print_line, print_table, say
from pylog.client.admin.groups import STATES, GroupDescription, OffsetMove, PartitionLag
from pylog.client_half import ClientHalf
from pylog.errors import PylogError
from pylog.record import TopicPartition
from pylog.runtime.clock import SystemClock

__all__ = ["add"]

LAG_COLUMNS = (
    Column("topic"), Column("partition", True), Column("committed", True), Column("end", True), Column("lag", True),
    Column("member"),
)  # fmt: skip
CHANGE_COLUMNS = (Column("topic"), Column("partition", True), Column("before", True), Column("after", True))


def add(commands: "argparse._SubParsersAction[Parser]") -> None:
    """Add `group` and its subcommands."""
    group = commands.add_parser(
        "group", help="list, describe, seek and delete consumer groups", description="The consumer groups of a log."
    )
    add_log(group)
    verbs = group.add_subparsers(title="commands", dest="verb", metavar="COMMAND", required=True)
    _add_list(verbs)
    _add_describe(verbs)
    _add_seek(verbs)
    _add_delete(verbs)


def _add_list(verbs: "argparse._SubParsersAction[Parser]") -> None:
    parser = verbs.add_parser(
        "list",
        help="all groups and their states",
        description="All groups: name, state, type.",
        epilog=examples(("pylog group list", "pylog group list --state empty --json")),
    )
    parser.add_argument(
        "--state", action="append", default=[], type=str.lower, choices=[state.lower() for state in STATES],
        metavar="STATE", help="only groups in this state; may be repeated",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="one JSON object a line and group")
    add_log(parser)
    parser.set_defaults(run=list_groups, parser=parser)


def _add_describe(verbs: "argparse._SubParsersAction[Parser]") -> None:
    parser = verbs.add_parser(
        "describe",
        help="members, committed offsets and lag of a group",
        description="Members, and per partition the committed offset, the end of the log, and the lag between them.",
        epilog=examples(("pylog group describe analytics", "pylog group describe analytics --json | jq .lag")),
    )
    parser.add_argument("name", metavar="GROUP", help="the group")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    add_log(parser)
    parser.set_defaults(run=describe, parser=parser)


def _add_seek(verbs: "argparse._SubParsersAction[Parser]") -> None:
    parser = verbs.add_parser(
        "seek",
        help="let a group go on elsewhere",
        description="Commit other offsets for a group that has no members (Kafka: --reset-offsets).",
        epilog=examples((
            "pylog group seek analytics --to earliest --yes",
            "pylog group seek analytics --to-time 2024-05-01T12:00 --topic clicks --dry-run",
            "pylog group seek analytics --shift -100 --topic clicks:0",
        )),
    )  # fmt: skip
    parser.add_argument("name", metavar="GROUP", help="the group")
    ways = parser.add_mutually_exclusive_group(required=True)
    ways.add_argument("--to", choices=("earliest", "latest"), help="an end of each partition")
    ways.add_argument("--to-offset", type=natural, metavar="O", help="an offset")
    ways.add_argument("--to-time", type=moment, metavar="TIME", help="the first record not older: 2h, or ISO 8601")
    ways.add_argument("--shift", type=int, metavar="N", help="N records further on, or back where N is negative")
    _add_topics(parser, "only here; may be repeated (default: all that the group has committed)")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be")
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask")
    add_log(parser)
    parser.set_defaults(run=seek, parser=parser)


def _add_delete(verbs: "argparse._SubParsersAction[Parser]") -> None:
    offsets = verbs.add_parser(
        "delete-offsets",
        help="forget what a group has committed in some partitions",
        description="Forget what a group has committed in partitions of topics that no member subscribes to.",
        epilog=examples(("pylog group delete-offsets analytics --topic clicks --yes",)),
    )
    offsets.add_argument("name", metavar="GROUP", help="the group")
    _add_topics(offsets, "where; may be repeated", required=True)
    offsets.add_argument("--yes", "-y", action="store_true", help="do not ask")
    add_log(offsets)
    offsets.set_defaults(run=delete_offsets, parser=offsets)
    parser = verbs.add_parser(
        "delete",
        help="forget groups that have no members",
        description="Forget groups that have no members, with all that they have committed.",
        epilog=examples(("pylog group delete analytics --yes",)),
    )
    parser.add_argument("name", nargs="+", metavar="GROUP", help="the group")
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask")
    add_log(parser)
    parser.set_defaults(run=delete, parser=parser)


def _add_topics(parser: argparse.ArgumentParser, what: str, *, required: bool = False) -> None:
    parser.add_argument(
        "--topic", type=topic_partition, action="append", default=[], metavar="TOPIC[:P]", required=required, help=what
    )


# --- running --------------------------------------------------------------------------------------------------------


def list_groups(args: argparse.Namespace) -> int:
    """Run `group list`."""
    with looking(args) as log:
        groups = log.admin.list_groups(states=args.state)
    if args.json:
        for one in groups:
            print_line(json_line(one._asdict()))
    elif groups:
        rows = [(one.group_id, one.state, one.type, one.protocol_type or "-") for one in groups]
        print_table((Column("group"), Column("state"), Column("type"), Column("protocol")), rows)
    elif args.state:
        say("there are no such groups")
    else:
        say("there are no groups: `log.consumer(..., group_id=NAME)` makes one")
    return 0


def describe(args: argparse.Namespace) -> int:
    """Run `group describe`."""
    with looking(args) as log:
        group, lags = log.admin.describe_group(args.name), log.admin.lag(args.name)
    if args.json:
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
    committed, behind = _number(lag.committed), _number(lag.lag)
    return key.topic, str(key.partition), committed, count_text(lag.end_offset), behind, lag.member_id or "-"


def _number(number: int | None) -> str:
    return "-" if number is None else count_text(number)


def _as_json(group: GroupDescription, lags: dict[TopicPartition, PartitionLag]) -> dict[str, Any]:
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


def seek(args: argparse.Namespace) -> int:
    """Run `group seek`."""
    with looking(args) if args.dry_run else changing(args) as log:
        changes = _seek(log, args, dry_run=True)
        if not changes:
            say(f"group {args.name} has committed nothing: give --topic")
            return 1
        rows = [(key.topic, str(key.partition), *map(_number, change)) for key, change in changes.items()]
        print_table(CHANGE_COLUMNS, rows)
        what = f"committing these offsets for group {args.name}"
        if args.dry_run:
            say("nothing was changed: this was a dry run")
            return 0
        if not args.yes and not agreed(what, what.capitalize(), "yes"):
            return 1
        _seek(log, args, dry_run=False)
    say(f"group {args.name} goes on there")
    return 0


def _seek(log: ClientHalf[Any], args: argparse.Namespace, *, dry_run: bool) -> dict[TopicPartition, OffsetMove]:
    return log.admin.reset_offsets(
        args.name, args.to, offset=args.to_offset, shift=args.shift,
        time_ms=args.to_time.at(SystemClock()) if args.to_time is not None else None,
        partitions=_partitions(log, args.topic), dry_run=dry_run,
    )  # fmt: skip


def _partitions(log: ClientHalf[Any], given: Sequence[tuple[str, int | None]]) -> list[TopicPartition] | None:
    return [key for name, number in given for key in partitions_of(log, name, number)] if given else None


def delete_offsets(args: argparse.Namespace) -> int:
    """Run `group delete-offsets`."""
    with changing(args) as log:
        keys = _partitions(log, args.topic) or []
        what = f"what group {args.name} has committed in {plural(len(keys), 'partition')}"
        if not args.yes and not agreed(f"deleting {what}", f"Delete {what}", "yes"):
            return 1
        log.admin.delete_offsets(args.name, keys)
    print_line(f"deleted {what}")
    return 0


def delete(args: argparse.Namespace) -> int:
    """Run `group delete`."""
    names = ", ".join(args.name)
    if not args.yes and not agreed(f"deleting {names}", f"Delete {names} with all committed offsets", "yes"):
        return 1
    refused = 0
    with changing(args) as log:
        for name in args.name:
            try:
                log.admin.delete_groups([name])
                print_line(f"deleted group {name}")
            except PylogError as error:
                refused += 1
                say(str(error))
    return 1 if refused else 0
