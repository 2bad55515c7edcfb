"""`pylog topic create | list | describe`, and what changes topics (`change`): the catalogue of a log.

`create` owns the directory while it runs, or has its owner do it; `list` and `describe` only look, and work beside an
owner. What `describe` shows of a partition are half-open ends: start is the first offset there is, end, durable and
high watermark the first there is not.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from pylog.cli import change, places
from pylog.cli import completion as complete
from pylog.cli.arguments import count, topic_options
from pylog.cli.commands import CommandGroup
from pylog.cli.opening import changing, looking
from pylog.cli.output import Column, print_line, print_table, say, tell
from pylog.cli.params import argument, at_most_one, config_pair, json_option, option
from pylog.cli.place import LogPlace
from pylog.config import TopicConfig
from pylog.errors import UnknownTopicOrPartition
from pylog.handles.any_log import AnyLog
from pylog.handles.topic_facts import PartitionFacts, TopicFacts, TopicReader, facts_of, readers_of, sizes_of
from pylog.protocol.topic_names import validate_topic_name
from pylog.runtime.json_lines import json_line
from pylog.runtime.words import config_text, count_text, plural, size_text

if TYPE_CHECKING:
    from pylog.logdirs.log_directory import CleaningFacts


__all__ = ["command"]

MAKE_ONE = "make one with `pylog topic create NAME`"
ALWAYS_SHOWN = (
    "cleanup.policy",
    "compression.type",
    "retention.ms",
    "retention.bytes",
    "segment.bytes",
    "max.message.bytes",
)
LIST_COLUMNS = (Column("topic"), Column("partitions", True), Column("records", True), Column("size", True))
PARTITION_COLUMNS = (
    Column("partition", True), Column("start", True), Column("end", True), Column("durable", True),
    Column("high watermark", True), Column("records", True), Column("size", True), Column("segments", True),
    Column("replicas", True), Column("in sync", True),
)  # fmt: skip
GROUP_COLUMNS = (Column("group"), Column("state"), Column("members", True), Column("lag", True))


command = CommandGroup(
    "topic", short_help="create, list, describe, alter, trim, clean and delete topics", help="The topics of a log."
)


@command.verb(
    "create",
    short_help="make a topic, and the log directory if it is missing",
    examples=(
        "pylog topic create clicks --log data",
        "pylog topic create flights --partitions 6 --config compression.type=zstd --config retention.ms=604800000",
    ),
)
@argument("name", "NAME", "1 to 249 characters of a-z A-Z 0-9 . _ -")
@option("--partitions", "-p", type=count, default="1", metavar="N", help="how many (default: 1)")
@option(
    "--config", "-c", "configs", type=config_pair, multiple=True, metavar="NAME=VALUE",
    help="a topic config by its Kafka name; may be repeated", shell_complete=complete.topic_configs,
)  # fmt: skip
@option("--if-not-exists", is_flag=True, help="leave a topic of that name as it is")
@json_option
def create(
    place: LogPlace,
    name: str,
    partitions: int,
    configs: tuple[tuple[str, str], ...],
    if_not_exists: bool,
    as_json: bool,
) -> int:
    """Make a topic. The log's directory is made if it does not exist."""
    # First, so that what cannot be made does not leave an empty log behind.
    validate_topic_name(name)
    if place.servers is None:
        # A cluster may know configs that are not known here.
        TopicConfig.from_kafka(dict(configs))
    with changing(place) as log:
        is_new = not (if_not_exists and name in log.topics(internal=True))
        topic = log.create_topic(name, partitions, topic_options(configs)) if is_new else log.topic(name)
        count = len(topic)
    facts = {"topic": name, "partitions": count, "created": is_new}
    words = f"created topic {name} with {plural(count, 'partition')}"
    tell(as_json, facts, words if is_new else f"there is a topic {name} already: it stays as it is")
    return 0


@command.verb(
    "list",
    short_help="all topics: partitions, records, bytes",
    examples=(
        "pylog topic list",
        "pylog topic list --quiet | xargs pylog consume -b",
        "pylog topic list --json | jq .bytes",
    ),
)
@option("--internal", is_flag=True, help="also Kafka's own topics, whose names begin with __")
@option("--quiet", "-q", "is_quiet", is_flag=True, help="the names alone")
@json_option
def list_topics(place: LogPlace, internal: bool, is_quiet: bool, as_json: bool) -> int:
    """All topics: how many partitions each has, and how many records and bytes are in them."""
    at_most_one({"--quiet": is_quiet, "--json": as_json})
    with looking(place) as log:
        names = log.topics(internal=internal)
        found = [] if is_quiet else sizes_of(log, names)
    if not names:
        say(f"there are no topics in {place}: {MAKE_ONE}")
    elif is_quiet:
        for name in names:
            print_line(name)
    elif as_json:
        for one in found:
            print_line(
                json_line({"topic": one.name, "partitions": one.partitions, "records": one.records, "bytes": one.bytes})
            )
    else:
        rows = [(one.name, count_text(one.partitions), count_text(one.records), size_text(one.bytes)) for one in found]
        print_table(LIST_COLUMNS, rows)
    return 0


@command.verb(
    "describe",
    short_help="configs, partitions and groups of a topic, or of all",
    examples=("pylog topic describe flights", "pylog topic describe --json | jq .partitions[].end,.groups[].lag"),
)
@argument("name", "[NAME]", "the topic (default: all)", required=False, shell_complete=complete.topics)
@json_option
def describe(place: LogPlace, name: str | None, as_json: bool) -> int:
    """Configs, per partition offsets, size, segments, and the groups that read it, with their lag.

    An end is the first offset not there.
    """
    with looking(place) as log:
        readers = readers_of(log)
        found = [facts_of(log, name)] if name is not None else _all_facts(log)
        number = -1
        for number, topic in enumerate(found):
            if as_json:
                print_line(json_line(_as_json(topic, readers.get(topic.name, []))))
                continue
            if number > 0:
                print_line("")
            _print_topic(topic, readers.get(topic.name, []))
        if number < 0:
            say(f"there are no topics in {place}: {MAKE_ONE}")
    return 0


def _all_facts(log: AnyLog) -> Iterator[TopicFacts]:
    """The facts of all topics, except those that are deleted meanwhile."""
    for name in log.topics():
        with suppress(UnknownTopicOrPartition):
            yield facts_of(log, name)


for _one in (change.alter, change.trim, change.clean, change.move, change.delete, places.offsets, places.dirs):
    command.add_command(_one)


# --- showing --------------------------------------------------------------------------------------------------------


def _as_json(topic: TopicFacts, readers: list[TopicReader]) -> dict[str, object]:
    return {
        "topic": topic.name,
        "id": topic.id,
        "overrides": topic.overrides,
        "configs": topic.configs,
        "partitions": [
            {
                "partition": partition.partition,
                "start": partition.start,
                "end": partition.end,
                "durable": partition.durable,
                "high_watermark": partition.high_watermark,
                "replicas": list(partition.replicas),
                "isr": list(partition.isr),
                "bytes": partition.size,
                "cleaning": partition.cleaning,
                "segments": None
                if partition.segments is None
                else [
                    {
                        "base": segment.base_offset,
                        "next": segment.next_offset,
                        "bytes": segment.size,
                        "path": segment.path,
                    }
                    for segment in partition.segments
                ],
            }
            for partition in topic.partitions
        ],
        "groups": [one._asdict() for one in readers],
    }


def _print_topic(topic: TopicFacts, readers: list[TopicReader]) -> None:
    rows = [_row(partition) for partition in topic.partitions]
    records = sum(partition.end - partition.start for partition in topic.partitions)
    size = sum(partition.size for partition in topic.partitions)
    count = plural(len(topic.partitions), "partition")
    print_line(f"topic {topic.name}: {count}, {plural(records, 'record')}, {size_text(size)}")
    print_line(f"  id {topic.id}")
    configs = topic.configs
    names = [name for name in ALWAYS_SHOWN if name in configs]
    names += sorted(name for name in topic.overrides if name not in names)
    width = max(len(name) for name in names)
    for name in names:
        value = configs.get(name, topic.overrides.get(name, ""))
        origin = "set" if name in topic.overrides else "default"
        amount = config_text(name, value)
        print_line(f"  {name.ljust(width)}  {value}{amount and f' = {amount}'}  ({origin})")
    print_table(PARTITION_COLUMNS, rows, indent=2)
    for partition in topic.partitions:
        text = _cleaning(partition.cleaning)
        if text:
            print_line(f"  partition {partition.partition} {text}")
    if readers:
        behind = [
            (one.group, one.state, count_text(one.members), "-" if one.lag is None else count_text(one.lag))
            for one in readers
        ]
        print_table(GROUP_COLUMNS, behind, indent=2)


def _row(partition: PartitionFacts) -> tuple[str, ...]:
    durable = "-" if partition.durable is None else count_text(partition.durable)
    segments = "-" if partition.segments is None else count_text(len(partition.segments))
    return (
        str(partition.partition), count_text(partition.start), count_text(partition.end), durable,
        count_text(partition.high_watermark), count_text(partition.end - partition.start), size_text(partition.size),
        segments, _nodes(partition.replicas), _nodes(partition.isr),
    )  # fmt: skip


def _nodes(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids))


def _cleaning(state: "CleaningFacts | None") -> str:
    """The state of compaction, in words."""
    if state is None:
        return ""
    if state["error"]:
        return f"is not cleaned any more: {state['error']}"
    progress, last = state["progress"], state["last"]
    if progress:
        share = progress["bytes_done"] / progress["bytes_total"] if progress["bytes_total"] else 1.0
        return f"is being cleaned: {share:.0%} of {size_text(progress['bytes_total'])} read"
    if last is None:
        return ""
    return (
        f"was cleaned up to offset {count_text(last['end_offset'])}: {plural(last['records_kept'], 'record')} of "
        f"{count_text(last['records_read'])} kept, {size_text(last['bytes_kept'])} of {size_text(last['bytes_read'])}"
    )
