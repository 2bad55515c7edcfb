"""`pylog txn list | describe | producers | hanging | abort`: transactions, and their producers.

All but `abort` and what asks producers only look, and work beside an owner. A transaction hangs where it is open in a
partition and no coordinator knows of it: readers of committed records wait for it for ever, until it is aborted.
"""

import argparse

from pylog.cli.arguments import Parser, add_log, examples, moment, natural, partitions_of, topic_partition
from pylog.cli.opening import changing, looking
from pylog.cli.output import Column, agreed, count_text, duration_text, json_line, print_line, print_table, say
from pylog.client.admin.transactions import STATES, HangingTransaction
from pylog.record import TopicPartition
from pylog.runtime.clock import SystemClock

__all__ = ["add"]


def add(commands: "argparse._SubParsersAction[Parser]") -> None:
    """Add `txn` and its subcommands."""
    group = commands.add_parser(
        "txn", help="list, describe and abort transactions", description="The transactions of a log."
    )
    add_log(group)
    verbs = group.add_subparsers(title="commands", dest="verb", metavar="COMMAND", required=True)
    parser = _verb(verbs, "list", "all transactional ids and their states", list_transactions)
    parser.add_argument(
        "--state", action="append", default=[], choices=STATES, metavar="STATE",
        help="only in this state (Ongoing...); may be repeated",
    )  # fmt: skip
    parser = _verb(verbs, "describe", "the transaction of a transactional id", describe)
    parser.add_argument("name", metavar="ID", help="the transactional id")
    parser = _verb(verbs, "producers", "the producers that are known in a topic", producers)
    parser.add_argument("topic", type=topic_partition, metavar="TOPIC[:P]", help="where")
    parser = _verb(verbs, "hanging", "list transactions that no coordinator will end", hanging)
    parser.add_argument("--topic", type=topic_partition, metavar="TOPIC[:P]", help="only here")
    parser.add_argument("--older-than", type=moment, metavar="TIME", help="only those without a record since: 15m")
    _add_abort(verbs)


def _verb(
    verbs: "argparse._SubParsersAction[Parser]", name: str, what: str, run: object, *, json: bool = True
) -> argparse.ArgumentParser:
    parser = verbs.add_parser(name, help=what, description=f"{what.capitalize()}.")
    if json:
        parser.add_argument("--json", action="store_true", help="one JSON object a line")
    add_log(parser)
    parser.set_defaults(run=run, parser=parser)
    return parser


def _add_abort(verbs: "argparse._SubParsersAction[Parser]") -> None:
    parser = _verb(verbs, "abort", "end the transaction of an ID, or one that hangs in a partition", abort, json=False)
    parser.epilog = examples((
        "pylog txn list --state Ongoing", "pylog txn abort billing",
        "pylog txn hanging", "pylog txn abort --topic orders:3 --start-offset 1234 --yes",
    ))  # fmt: skip
    parser.add_argument("name", metavar="ID", nargs="?", help="the transactional id; its producer is fenced")
    parser.add_argument("--topic", type=topic_partition, metavar="TOPIC:P", help="the partition in which one hangs")
    parser.add_argument("--start-offset", type=natural, metavar="O", help="where that begins there")
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask")


# --- running --------------------------------------------------------------------------------------------------------


def list_transactions(args: argparse.Namespace) -> int:
    """Run `txn list`."""
    with looking(args) as log:
        found = log.admin.list_transactions(states=args.state)
    if args.json:
        for one in found:
            print_line(json_line(one._asdict()))
    elif found:
        rows = [(one.transactional_id, str(one.producer_id), one.state) for one in found]
        print_table((Column("transactional id"), Column("producer id", True), Column("state")), rows)
    elif args.state:
        say("there are no such transactions")
    else:
        say("there are no transactions: `log.producer(transactional_id=NAME)` begins them")
    return 0


def describe(args: argparse.Namespace) -> int:
    """Run `txn describe`."""
    with looking(args) as log:
        found = log.admin.describe_transaction(args.name)
    if args.json:
        facts = {
            "transactional_id": args.name, "state": found.state, "producer_id": found.producer_id,
            "producer_epoch": found.producer_epoch, "timeout_ms": found.timeout_ms,
            "start_time_ms": found.start_time_ms, "partitions": [key._asdict() for key in sorted(found.partitions)],
        }  # fmt: skip
        print_line(json_line(facts))
        return 0
    print_line(f"transactional id {args.name}: {found.state}, producer {found.producer_id}, "
               f"epoch {found.producer_epoch}, timeout {duration_text(found.timeout_ms)}")  # fmt: skip
    if found.start_time_ms >= 0:
        age = max(0, SystemClock().wall_ms() - found.start_time_ms)
        print_line(f"open for {count_text(age // 1000)} s, in {', '.join(map(_name, sorted(found.partitions)))}")
    return 0


def _name(key: TopicPartition) -> str:
    return f"{key.topic}:{key.partition}"


def producers(args: argparse.Namespace) -> int:
    """Run `txn producers`."""
    with changing(args) as log:
        described = log.admin.describe_producers(partitions_of(log, *args.topic))
    found = [(key, one) for key, ones in sorted(described.items()) for one in ones]
    if args.json:
        for key, one in found:
            print_line(json_line({**key._asdict(), **one._asdict()}))
        return 0
    if not found:
        say("no producer is known there")
        return 0
    columns = (
        Column("partition"), Column("producer id", True), Column("epoch", True), Column("last sequence", True),
        Column("last timestamp", True), Column("transaction since", True),
    )  # fmt: skip
    rows = [
        (_name(key), str(one.producer_id), str(one.producer_epoch), str(one.last_sequence), str(one.last_timestamp),
         "-" if one.current_txn_start_offset < 0 else count_text(one.current_txn_start_offset))
        for key, one in found
    ]  # fmt: skip
    print_table(columns, rows)
    return 0


def hanging(args: argparse.Namespace) -> int:
    """Run `txn hanging`."""
    older_than_ms = args.older_than.at(SystemClock()) if args.older_than is not None else 0
    with changing(args) as log:
        keys = partitions_of(log, *args.topic) if args.topic is not None else None
        found = log.admin.find_hanging_transactions(keys, older_than_ms=older_than_ms)
    if args.json:
        for one in found:
            print_line(json_line(one._asdict()))
    elif found:
        columns = (
            Column("partition"), Column("start offset", True), Column("producer id", True), Column("epoch", True),
            Column("last timestamp", True),
        )  # fmt: skip
        rows = [
            (f"{one.topic}:{one.partition}", count_text(one.start_offset), str(one.producer_id),
             str(one.producer_epoch), str(one.last_timestamp))
            for one in found
        ]  # fmt: skip
        print_table(columns, rows)
    else:
        say("no transaction hangs")
    return 0


def abort(args: argparse.Namespace) -> int:
    """Run `txn abort`."""
    if (args.name is None) == (args.topic is None) or (args.topic is None) != (args.start_offset is None):
        args.parser.error("give either an ID, or --topic and --start-offset")
    return _abort_open(args) if args.name is not None else _abort_hanging(args)


def _abort_open(args: argparse.Namespace) -> int:
    with changing(args) as log:
        found = log.admin.describe_transaction(args.name)
        if found.state != "Ongoing":
            say(f"transactional id {args.name} has no transaction open: {found.state}")
            return 1
        places = ", ".join(map(_name, sorted(found.partitions)))
        what = f"the transaction of {args.name}, in {places}"
        if not args.yes and not agreed(f"aborting {what}", f"Abort {what}", "yes"):
            return 1
        # A new producer fences the old one of the id, and ends its transaction.
        log.producer(transactional_id=args.name, transaction_timeout_ms=found.timeout_ms).close()
    print_line(f"aborted {what}")
    return 0


def _abort_hanging(args: argparse.Namespace) -> int:
    if args.topic[1] is None:
        args.parser.error("--topic: give the partition, too, as in orders:3")
    with changing(args) as log:
        found = _hanging_at(log.admin.find_hanging_transactions(partitions_of(log, *args.topic)), args.start_offset)
        if found is None:
            say(f"no transaction hangs in {args.topic[0]}:{args.topic[1]} since offset {args.start_offset}")
            return 1
        what = f"the transaction of producer {found.producer_id} in {found.topic}:{found.partition}"
        if not args.yes and not agreed(f"aborting {what}", f"Abort {what}", "yes"):
            return 1
        log.admin.abort_transaction(found)
    print_line(f"aborted {what}")
    return 0


def _hanging_at(found: list[HangingTransaction], start_offset: int) -> HangingTransaction | None:
    return next((one for one in found if one.start_offset == start_offset), None)
