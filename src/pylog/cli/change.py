"""`pylog topic alter | trim | clean | move | delete`: what changes a topic that is there. `clean` owns the
directory; the others have its owner do it where there is one.

`trim` and `delete` take records away for good: they ask on a terminal, and want --yes elsewhere.
"""

from difflib import get_close_matches
from typing import TYPE_CHECKING

import click

import pylog
from pylog.cli import completion as complete
from pylog.cli.arguments import count, natural, topic_options
from pylog.cli.commands import command
from pylog.cli.opening import changing, looking, owned
from pylog.cli.output import agreed, say, tell
from pylog.cli.params import argument, config_pair, json_option, option, yes_option
from pylog.cli.place import LogPlace
from pylog.errors import NotLocal
from pylog.handles.any_log import AnyLog
from pylog.handles.topic_facts import facts_of
from pylog.record import TopicPartition
from pylog.runtime.words import count_text, plural, size_text, time_text

if TYPE_CHECKING:
    from pylog.broker.log_cleaner import Cleaned
    from pylog.handles.connected_log import ConnectedPartition
    from pylog.handles.views import PartitionView
    from pylog.logdirs.log_directory import CleaningFacts

__all__ = ["alter", "clean", "delete", "move", "trim"]

NEVER = "it has no records"
"""Why nothing of a partition was cleaned that has no state."""
a_topic = argument("name", "NAME", "the topic", shell_complete=complete.topics)
a_partition = option("--partition", type=natural, required=True, metavar="P", help="the partition")


@command(
    "alter",
    short_help="change configs, add partitions",
    examples=(
        "pylog topic alter clicks --config retention.ms=604800000 --delete-config segment.bytes",
        "pylog topic alter clicks --partitions 12",
    ),
)
@a_topic
@option(
    "--config", "-c", "configs", type=config_pair, multiple=True, metavar="NAME=VALUE",
    help="set a config; may be repeated", shell_complete=complete.topic_configs,
)  # fmt: skip
@option(
    "--delete-config", "deleted", multiple=True, metavar="NAME", help="back to its default; may be repeated",
    shell_complete=complete.topic_configs,
)  # fmt: skip
@option("--partitions", "-p", type=count, metavar="N", help="how many in all; keys go to other partitions then")
@json_option
def alter(
    place: LogPlace,
    name: str,
    configs: tuple[tuple[str, str], ...],
    deleted: tuple[str, ...],
    partitions: int | None,
    as_json: bool,
) -> int:
    """Set configs of a topic, take them back to their defaults, add partitions."""
    if not (configs or deleted or partitions):
        raise click.UsageError("nothing to change: give --config, --delete-config or --partitions")
    for one in deleted:
        if one in dict(configs):
            raise click.UsageError(f"--config and --delete-config both name {one}: give one of them")
    with changing(place) as log:
        if configs or deleted:
            _check_deleted(log, name, deleted)
            log.alter_config(name, topic_options(configs), delete=deleted)
            changed = [f"{one}={value}" for one, value in configs] + [f"{one} back to its default" for one in deleted]
            facts = {"topic": name, "set": dict(configs), "deleted": deleted}
            tell(as_json, facts, f"altered topic {name}: {', '.join(changed)}")
        if partitions:
            log.create_partitions(name, partitions)
            made = f"topic {name} has {plural(partitions, 'partition')} now"
            tell(as_json, {"topic": name, "partitions": partitions}, made)
    return 0


def _check_deleted(log: AnyLog, name: str, deleted: tuple[str, ...]) -> None:
    """Raise ValueError for a config that the topic has not: taking it back would do nothing, and say that it did."""
    facts = facts_of(log, name)
    known = sorted({*facts.configs, *facts.overrides})
    for one in deleted:
        if one.replace("_", ".") not in known:
            near = get_close_matches(one, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"see `pylog config describe --topic {name}`"
            raise ValueError(f"topic {name} has no config {one}: {hint}")


@command(
    "trim",
    short_help="delete the records of a partition before an offset",
    examples=(
        "pylog topic trim clicks --partition 0 --before-offset 1000 --yes",
        "pylog topic trim clicks --partition 0",
    ),
)
@a_topic
@a_partition
@option("--before-offset", type=natural, metavar="O", help="the new start (default: the end)")
@yes_option
@json_option
def trim(place: LogPlace, name: str, partition: int, before_offset: int | None, is_agreed: bool, as_json: bool) -> int:
    """Let a partition start at an offset; what lies before it is gone for good."""
    key = pylog.TopicPartition(name, partition)
    with looking(place) as log:
        view = _partition(log, key)
        upto = view.high_watermark if before_offset is None else before_offset
        lost = max(0, min(upto, view.next_offset) - view.start_offset)
    what = f"{plural(lost, 'record')} of {name}-{partition} before offset {count_text(upto)}"
    if not is_agreed and not agreed(f"deleting {what}", f"Delete {what}", "yes"):
        return 1
    with changing(place) as log:
        start = log.delete_records({key: upto})[key]
    facts = {"topic": name, "partition": partition, "start": start}
    tell(as_json, facts, f"{name}-{partition} starts at offset {count_text(start)} now")
    return 0


def _partition(log: AnyLog, key: pylog.TopicPartition) -> "PartitionView | ConnectedPartition":
    topic = log.topic(key.topic)
    try:
        return topic[key.partition]
    except IndexError as error:
        raise ValueError(str(error)) from None


@command(
    "clean", short_help="apply retention and compaction now", examples=("pylog topic clean", "pylog topic clean users")
)
@argument("name", "[NAME]", "compact this topic alone (default: all)", required=False, shell_complete=complete.topics)
@json_option
def clean(place: LogPlace, name: str | None, as_json: bool) -> int:
    """Drop the segments that no topic has to keep, and compact the topics that are compacted."""
    if place.servers is not None:
        raise NotLocal("cleaning needs the files of the log: give --log, where they lie and no server runs")
    with owned(place.paths) as log:
        dropped = {} if name is not None else log.apply_retention()
        cleaned = log.clean(name)
        names = log.topics(internal=True) if name is None else [name]
        compacted = [topic for topic in map(log.topic, names) if "compact" in topic.config.cleanup_policy]
        # A partition that never had a record is left out, unless its topic was named.
        states = [
            (TopicPartition(topic.name, view.partition), view.cleaning)
            for topic in compacted
            for view in topic
            if name is not None or view.next_offset
        ]
    for key, number in sorted(dropped.items()):
        facts = {**key._asdict(), "segments_dropped": number}
        tell(as_json, facts, f"{key.topic}-{key.partition}: dropped {plural(number, 'segment')}")
    for key, state in states:
        facts, words = _of_cleaning(cleaned.get(key), state)
        tell(as_json, {**key._asdict(), **facts}, f"{key.topic}-{key.partition}: {words}")
    if not dropped and not states:
        say(f"there was nothing to clean: {_why_nothing(name)}")
    return 0


def _of_cleaning(done: "Cleaned | None", state: "CleaningFacts | None") -> tuple[dict[str, object], str]:
    """A partition after a cleaning: what was done, or why nothing was, and the tombstones that wait."""
    facts: dict[str, object] = {}
    if done is not None:
        facts = {name: getattr(done, name) for name in ("records_read", "records_kept", "bytes_read", "bytes_kept")}
        words = (
            f"kept {plural(done.records_kept, 'record')} of {count_text(done.records_read)}, "
            f"{size_text(done.bytes_kept)} of {size_text(done.bytes_read)}"
        )
    else:
        facts["reason"] = NEVER if state is None else state["idle_reason"] or "the log has changed meanwhile"
        words = f"nothing was cleaned: {facts['reason']}"
    last = None if state is None else state["last"]
    if last is not None and last.get("tombstones_kept"):
        number, until_ms = last["tombstones_kept"], last["tombstones_until_ms"]
        facts |= {"tombstones_kept": number, "tombstones_until_ms": until_ms}
        words += (
            f"; {plural(number, 'tombstone')} kept until {time_text(until_ms)} (delete.retention.ms): the first "
            "cleaning after that which has new records drops them"
        )
    return facts, words


def _why_nothing(name: str | None) -> str:
    if name is not None:
        return f"{name} is not compacted, cleanup.policy=compact makes it so"
    return "no segment is past its retention, and no compacted topic has records"


@command(
    "move",
    short_help="move a partition into another log directory",
    examples=("pylog topic move clicks --partition 0 --to /disk2/log --log /disk1/log,/disk2/log",),
)
@a_topic
@a_partition
@option("--to", required=True, metavar="PATH", type=click.Path(), help="one of the log's directories")
@json_option
def move(place: LogPlace, name: str, partition: int, to: str, as_json: bool) -> int:
    """Copy a partition into another directory of the log, and remove it where it lies now."""
    with changing(place) as log:
        log.move_partition(name, partition, to)
    facts = {"topic": name, "partition": partition, "path": to}
    tell(as_json, facts, f"{name}-{partition} lies in {to} now")
    return 0


@command("delete", short_help="remove a topic and all its records", examples=("pylog topic delete clicks --yes",))
@a_topic
@yes_option
@json_option
def delete(place: LogPlace, name: str, is_agreed: bool, as_json: bool) -> int:
    """Remove a topic and all its records, for good. Asks on a terminal; elsewhere --yes must be given."""
    with looking(place) as log:
        facts = _facts(log, name)
    if not is_agreed and not agreed(f"deleting {name} ({facts})", f"Delete topic {name} ({facts})", name):
        return 1
    with changing(place) as log:
        log.delete_topic(name)
    tell(as_json, {"topic": name, "deleted": True}, f"deleted topic {name}")
    return 0


def _facts(log: AnyLog, name: str) -> str:
    topic = log.topic(name)
    records = sum(partition.next_offset - partition.start_offset for partition in topic)
    size = sum(partition.size for partition in topic)
    return f"{plural(len(topic), 'partition')}, {plural(records, 'record')}, {size_text(size)}"
