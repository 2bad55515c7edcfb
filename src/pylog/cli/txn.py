"""`pylog txn list | describe | producers | hanging | abort`: transactions, and their producers.

All but `abort` and what asks producers only look, and work beside an owner. A transaction hangs where it is open in a
partition and no coordinator has it: readers of committed records wait for it for ever, until it is aborted.
"""

from dataclasses import asdict

import click

from pylog.cli import completion as complete
from pylog.cli.arguments import Moment, moment, natural, partitions_of, topic_partition
from pylog.cli.commands import CommandGroup
from pylog.cli.opening import changing, looking
from pylog.cli.output import Column, agreed, print_line, print_table, say, tell
from pylog.cli.params import argument, json_option, option, yes_option
from pylog.cli.place import LogPlace
from pylog.handles import open_transactions
from pylog.protocol.messages.transactions import STATES
from pylog.record import TopicPartition
from pylog.runtime.clock import SystemClock
from pylog.runtime.json_lines import json_line
from pylog.runtime.words import count_text, duration_text

__all__ = ["command"]


command = CommandGroup("txn", short_help="list, describe and abort transactions", help="The transactions of a log.")


@command.verb("list", short_help="all transactional ids and their states")
@option(
    "--state", "states", multiple=True, type=click.Choice(STATES), metavar="STATE",
    help="only in this state (Ongoing...); may be repeated",
)  # fmt: skip
@json_option
def list_transactions(place: LogPlace, states: tuple[str, ...], as_json: bool) -> int:
    """All transactional ids and their states."""
    with looking(place) as log:
        found = log.admin.list_transactions(states=states)
    if as_json:
        for one in found:
            print_line(json_line(one._asdict()))
    elif found:
        rows = [(one.transactional_id, str(one.producer_id), one.state) for one in found]
        print_table((Column("transactional id"), Column("producer id", True), Column("state")), rows)
    elif states:
        say("there are no such transactions")
    else:
        say("there are no transactions: `log.producer(transactional_id=NAME)` begins them")
    return 0


@command.verb("describe", short_help="the transaction of a transactional id")
@argument("name", "ID", "the transactional id", shell_complete=complete.transactional_ids)
@json_option
def describe(place: LogPlace, name: str, as_json: bool) -> int:
    """The transaction of a transactional id."""
    with looking(place) as log:
        found = log.admin.describe_transaction(name)
    if as_json:
        facts = {
            "transactional_id": name, "state": found.state, "producer_id": found.producer_id,
            "producer_epoch": found.producer_epoch, "timeout_ms": found.timeout_ms,
            "start_time_ms": found.start_time_ms, "partitions": [key._asdict() for key in sorted(found.partitions)],
        }  # fmt: skip
        print_line(json_line(facts))
        return 0
    print_line(f"transactional id {name}: {found.state}, producer {found.producer_id}, "
               f"epoch {found.producer_epoch}, timeout {duration_text(found.timeout_ms)}")  # fmt: skip
    if found.start_time_ms >= 0:
        age = max(0, SystemClock().wall_ms() - found.start_time_ms)
        print_line(f"open for {count_text(age // 1000)} s, in {', '.join(map(_name, sorted(found.partitions)))}")
    return 0


def _name(key: TopicPartition) -> str:
    return f"{key.topic}:{key.partition}"


@command.verb("producers", short_help="the producers that are known in a topic")
@argument("where", "TOPIC[:P]", "where", type=topic_partition, shell_complete=complete.topics)
@json_option
def producers(place: LogPlace, where: tuple[str, int | None], as_json: bool) -> int:
    """The producers that are known in a topic."""
    with changing(place) as log:
        described = log.admin.describe_producers(partitions_of(log, *where))
    found = [(key, one) for key, ones in sorted(described.items()) for one in ones]
    if as_json:
        for key, one in found:
            print_line(json_line({**key._asdict(), **asdict(one)}))
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


@command.verb("hanging", short_help="list transactions that no coordinator will end")
@option("--topic", "where", type=topic_partition, metavar="TOPIC[:P]", help="only here", shell_complete=complete.topics)
@option("--older-than", type=moment, metavar="TIME", help="only those without a record since: 15m")
@json_option
def hanging(place: LogPlace, where: tuple[str, int | None] | None, older_than: Moment | None, as_json: bool) -> int:
    """List transactions that no coordinator will end."""
    older_than_ms = older_than.at(SystemClock()) if older_than is not None else 0
    with changing(place) as log:
        keys = partitions_of(log, *where) if where is not None else None
        found = log.admin.find_hanging_transactions(keys, older_than_ms=older_than_ms)
    if as_json:
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


@command.verb(
    "abort",
    short_help="end the transaction of an ID, or one that hangs in a partition",
    examples=(
        "pylog txn list --state Ongoing", "pylog txn abort billing",
        "pylog txn hanging", "pylog txn abort --topic orders:3 --start-offset 1234 --yes",
    ),
)  # fmt: skip
@argument(
    "name", "[ID]", "the transactional id; its producer is fenced", required=False,
    shell_complete=complete.transactional_ids,
)  # fmt: skip
@option(
    "--topic", "where", type=topic_partition, metavar="TOPIC:P", help="the partition in which one hangs",
    shell_complete=complete.topics,
)  # fmt: skip
@option("--start-offset", type=natural, metavar="O", help="where that begins there")
@yes_option
@json_option
def abort(
    place: LogPlace,
    name: str | None,
    where: tuple[str, int | None] | None,
    start_offset: int | None,
    is_agreed: bool,
    as_json: bool,
) -> int:
    """End the transaction of an ID, or one that hangs in a partition."""
    if name is not None and where is None and start_offset is None:
        return _abort_open(place, name, is_agreed, as_json)
    if name is not None or where is None or start_offset is None:
        raise click.UsageError("give either an ID, or --topic and --start-offset")
    if where[1] is None:
        raise click.UsageError("--topic: give the partition, too, as in orders:3")
    return _abort_hanging(place, TopicPartition(where[0], where[1]), start_offset, is_agreed, as_json)


def _abort_open(place: LogPlace, name: str, is_agreed: bool, as_json: bool) -> int:
    with changing(place) as log:
        found = log.admin.describe_transaction(name)
        if found.state != open_transactions.ONGOING:
            say(f"transactional id {name} has no transaction open: {found.state}")
            return 1
        places = ", ".join(map(_name, sorted(found.partitions)))
        what = f"the transaction of {name}, in {places}"
        if not is_agreed and not agreed(f"aborting {what}", f"Abort {what}", "yes"):
            return 1
        open_transactions.abort(log, found)
    partitions = [key._asdict() for key in sorted(found.partitions)]
    tell(as_json, {"transactional_id": name, "aborted": True, "partitions": partitions}, f"aborted {what}")
    return 0


def _abort_hanging(place: LogPlace, key: TopicPartition, start_offset: int, is_agreed: bool, as_json: bool) -> int:
    with changing(place) as log:
        found = open_transactions.hanging_at(log, key, start_offset)
        if found is None:
            say(f"no transaction hangs in {_name(key)} since offset {start_offset}")
            return 1
        what = f"the transaction of producer {found.producer_id} in {found.topic}:{found.partition}"
        if not is_agreed and not agreed(f"aborting {what}", f"Abort {what}", "yes"):
            return 1
        log.admin.abort_transaction(found)
    facts = {"producer_id": found.producer_id, "aborted": True, "partitions": [key._asdict()]}
    tell(as_json, facts, f"aborted {what}")
    return 0
