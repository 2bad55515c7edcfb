"""`pylog consume TOPIC...`: records come out, as lines.

Where it starts: at the end unless told (`--from-beginning`, `--offset`, `--since`). Where it stops: at the ends that
the partitions had when it began, so a script gets an answer; with `--follow` never, with `--max-records` after so
many.

Only looks: nothing is locked or committed, so any number of these run beside an owner. Within a partition records
come in the order of their offsets; across partitions there is no order, as in Kafka. A member of a group commits, and
one of a share group accepts, what was written.
"""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import click

from pylog.cli import commands
from pylog.cli import completion as complete
from pylog.cli.arguments import Moment, bytes_of, count, moment, natural, partitions_of
from pylog.cli.interrupts import interrupted_later
from pylog.cli.lines import JSON_LINES
from pylog.cli.opening import changing, looking
from pylog.cli.output import is_terminal, say, write
from pylog.cli.params import argument, at_most_one, option
from pylog.cli.place import LogPlace
from pylog.cli.reading import Offset, PrintedRecords, ReadRange, offset, read
from pylog.cli.shared_reading import shared_records
from pylog.cli.template import Renderer, renderer
from pylog.client.consumer.consumer import Consumer
from pylog.config import ConsumerConfig
from pylog.config.options import Config
from pylog.config.share_consumer import ShareConsumerConfig
from pylog.errors import UnknownTopicOrPartition
from pylog.handles.any_log import AnyLog
from pylog.protocol.isolation import IsolationLevel
from pylog.record import ConsumerRecord, TopicPartition
from pylog.runtime.words import plural
from pylog.tables.csv_lines import HEAD, csv_line
from pylog.tables.schema import COLUMNS, schema_of

__all__ = ["command"]

OF_OPTIONS = ("auto.offset.reset", "enable.auto.commit", "group.id", "isolation.level")
"""The configs of a consumer that options say here."""
OF_SHARE_OPTIONS = ("group.id", "max.poll.records", "share.acknowledgement.mode", "share.acquire.mode")

FORMATS = """formats:
  raw        the value as it is, and a line feed
  json       one object a line: topic, partition, offset, timestamp (ms), key, value, headers; bytes are strings
             where they are UTF-8, else {"base64": "..."}; null stays null
  template   text with {topic} {partition} {offset} {timestamp} {key} {value} {headers}; \\n and \\t are understood,
             {offset:>8} pads and {timestamp:%Y-%m-%d %H:%M} shows UTC; null is empty"""


def _regex(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise click.BadParameter(f"{text!r} is no regular expression: {error}") from error


@commands.command(
    "consume",
    short_help="print records",
    examples=(
        "pylog consume clicks --from-beginning",
        "pylog consume clicks --bootstrap 127.0.0.1:9092 --follow",
        "pylog consume clicks --offset -10                       # the last 10 of each partition",
        "pylog consume clicks --since 10m --follow --format json | jq .value",
        "pylog consume --include 'clicks.*' -b --grep error --json",
        "pylog consume clicks --group analytics --max-records 100",
        "pylog consume jobs --share workers --follow --json",
        "pylog consume clicks --since 2024-05-01 --until 2024-05-02 --output may.parquet    # or .csv, .jsonl",
        "pylog consume clicks --from-beginning --format '{partition}:{offset} {timestamp:%H:%M:%S} {key}'",
    ),
    notes=FORMATS,
)
@argument("topics", "[TOPIC...]", "the topics", nargs=-1, shell_complete=complete.topics)
@option("--from-beginning", "-b", is_flag=True, help="start with the first record there is")
@option(
    "--offset", "-o", "offsets", type=offset, multiple=True, metavar="N",
    help="start at offset N, or -N: the last N of each partition; or by time as in kcat: -o s@TIME -o e@TIME",
)  # fmt: skip
@option(
    "--since", "-s", type=moment, metavar="TIME",
    help="start with the first record of that time or later: 10m or 2h ago, ISO 8601 (UTC), or ms since 1970",
)  # fmt: skip
@option(
    "--until", type=moment, metavar="TIME", help="stop before the first record of that time or later, as for --since"
)
@option("--until-offset", type=natural, metavar="N", help="stop before offset N of each partition")
@option(
    "--group", metavar="GROUP", shell_complete=complete.groups,
    help="read as a member of this group, go on where it was, and commit what was printed",
)  # fmt: skip
@option(
    "--share", metavar="GROUP", shell_complete=complete.share_groups,
    help="read as a member of this share group: each record goes to one member, and is accepted when it is printed",
)  # fmt: skip
@option(
    "--include", type=_regex, metavar="REGEX",
    help="also the topics whose whole names this matches, of those that are there when it begins",
)  # fmt: skip
@option("--key", metavar="KEY", help="only records with this key")
@option("--grep", type=_regex, metavar="REGEX", help="only records in whose values this is found")
@option("--partition", "-p", type=natural, metavar="N", help="this partition alone")
@option("--max-records", "-n", type=count, metavar="N", help="stop after N records")
@option(
    "--skip-damaged", is_flag=True, help="leave out records that are damaged, each said in a line, instead of stopping"
)
@option("--follow", "-f", is_flag=True, help="wait for more records instead of stopping at the end")
@option(
    "--isolation-level", "isolation", type=click.Choice(("read_uncommitted", "read_committed")),
    default="read_uncommitted",
    help="read_committed leaves out open and aborted transactions (default: read_uncommitted)",
)  # fmt: skip
@option(
    "--format", "render", metavar="FORMAT", type=renderer,
    help="raw, json, or a template, see below (default: raw)",
)  # fmt: skip
@option("--json", "is_json", is_flag=True, help="short for --format json")
@option(
    "--output", metavar="FILE", type=click.Path(dir_okay=False),
    help="write into this file; .parquet and .csv make a table of it, .jsonl JSON lines",
)  # fmt: skip
def command(
    place: LogPlace, topics: tuple[str, ...], from_beginning: bool, offsets: tuple[Offset, ...], since: Moment | None,
    until: Moment | None, until_offset: int | None, render: Renderer | None, is_json: bool, output: str | None,
    **given: Any,
) -> int:  # fmt: skip
    """Print records, from the end unless told otherwise.

    Without --follow it stops at the ends that the partitions had when it started; so say --from-beginning, --offset
    or --since, or --follow, or --group. With --share it stops when no record is free.
    """
    at_most_one({"--json": is_json, "--format": render})
    reading = _Selected(topics, ReadRange.of(from_beginning, offsets, since, until, until_offset), **given)
    reading.check()
    end = "" if output is None else os.path.splitext(output)[1].lower()
    is_table, is_csv = end == ".parquet", end == ".csv"
    if is_table and (is_json or render is not None or reading.follow):
        raise click.UsageError("a Parquet file has columns, and an end: it takes no --format, --json or --follow")
    if is_csv and (is_json or render is not None):
        raise click.UsageError("a CSV file has columns: it takes no --format or --json")
    if is_table and reading.is_member:
        # The file is whole only at its end, and a group commits on the way.
        name = "--group" if reading.share is None else "--share"
        raise click.UsageError(f"{name} is not allowed with a Parquet file: a group commits before the file is whole")
    kind: type[Config] = ConsumerConfig if reading.share is None else ShareConsumerConfig
    configs = place.client_configs(kind, OF_OPTIONS if reading.share is None else OF_SHARE_OPTIONS)
    # A member of a group writes: what it commits.
    with (
        (changing if reading.is_member else looking)(place, client=kind) as log,
        reading.records(log, configs) as records,
    ):
        if is_table:
            assert output is not None
            _write_table(records, output)
        else:
            # A group commits a batch when the next is asked for: what is only in a buffer then can still be lost.
            is_urgent = reading.follow or reading.is_member
            usual = csv_line if is_csv else renderer("json" if is_json or end in JSON_LINES else "raw")
            _write_lines(records, render or usual, output, is_urgent, HEAD if is_csv else b"")
    return 0


@dataclass(frozen=True, slots=True)
class _Selected:
    """The selection of records to read."""

    topics: Sequence[str]
    range: ReadRange
    partition: int | None
    max_records: int | None
    skip_damaged: bool
    follow: bool
    isolation: IsolationLevel
    group: str | None
    share: str | None
    include: re.Pattern[str] | None
    key: str | None
    grep: re.Pattern[str] | None

    @property
    def is_member(self) -> bool:
        """Whether it reads as a member of a group of either kind."""
        return self.group is not None or self.share is not None

    def check(self) -> None:
        """Raises UsageError for what does not go together."""
        if not self.topics and self.include is None:
            raise click.UsageError("give a TOPIC, or --include")
        at_most_one({"--follow": self.follow, "--until": self.range.until, "--until-offset": self.range.until_offset})
        others: dict[str, object] = {
            "--offset": self.range.start, "--since": self.range.since, "--partition": self.partition,
        }  # fmt: skip
        for name, value in others.items() if self.group is not None else ():
            at_most_one({"--group": self.group, name: value})
        # What is not printed would be done all the same; where a share group begins, its config says.
        others |= {
            "--group": self.group, "--from-beginning": self.range.from_beginning, "--until": self.range.until,
            "--until-offset": self.range.until_offset, "--key": self.key, "--grep": self.grep,
            "--isolation-level": self.isolation == "read_committed",
        }  # fmt: skip
        for name, value in others.items() if self.share is not None else ():
            at_most_one({"--share": self.share, name: value})

    @contextmanager
    def records(self, log: AnyLog, configs: dict[str, Any]) -> Iterator[Iterator[list[ConsumerRecord]]]:
        """The records, as they come. What is not there is an error before the first is asked for."""
        chosen = self._chosen(log)
        if self.share is not None:
            topics = sorted({key.topic for key in chosen})
            with shared_records(
                log, self.share, topics, limit=self.max_records, follow=self.follow, skips=self.skip_damaged,
                configs=configs,
            ) as shared:  # fmt: skip
                yield shared
            return
        wanted = PrintedRecords(bytes_of(self.key) if self.key is not None else None, self.grep, self.max_records)
        with self._consumer(log, configs) as consumer:
            ends = consumer.end_offsets(chosen)
            if self.group is not None:
                consumer.subscribe(sorted({key.topic for key in chosen}))
            else:
                consumer.assign(chosen)
                self.range.seek(consumer, ends)
                if not self.range.has_start and not self.follow:
                    say("this starts and stops at the end: give --from-beginning, --offset or --since, or --follow to "
                        "wait for more")  # fmt: skip
            stops = None if self.follow else self.range.stops(consumer, ends)
            records = read(consumer, stops, wanted, commits=self.group is not None, skips=self.skip_damaged)
            with closing(records):
                yield records

    def _consumer(self, log: AnyLog, configs: dict[str, Any]) -> Consumer:
        if self.group is None:
            # "none": an offset that is not there any more (an owner's retention) is an error, never a silent jump.
            return log.consumer(auto_offset_reset="none", isolation_level=self.isolation, **configs)
        start = "earliest" if self.range.from_beginning else "latest"
        return log.consumer(
            group_id=self.group, auto_offset_reset=start, isolation_level=self.isolation, enable_auto_commit=False,
            **configs,
        )  # fmt: skip

    def _chosen(self, log: AnyLog) -> list[TopicPartition]:
        """The partitions. Raises UnknownTopicOrPartition."""
        matching = []
        if self.include is not None:
            matching = [name for name in log.topics(internal=True) if self.include.fullmatch(name)]
            if not self.topics and not matching:
                pattern = self.include.pattern
                raise UnknownTopicOrPartition(f"no topic has a name like {pattern!r}: see `pylog topic list`")
        names = dict.fromkeys((*self.topics, *matching))
        return [key for name in names for key in partitions_of(log, name, self.partition)]


def _write_lines(
    reading: Iterator[list[ConsumerRecord]], render: Renderer, output: str | None, is_urgent: bool, head: bytes
) -> None:
    if output is not None:
        with open(output, "wb") as file:
            file.write(head)
            for records in reading:
                file.write(b"".join(map(render, records)))
                if is_urgent:
                    file.flush()
        return
    flush = is_urgent or is_terminal(sys.stdout)
    for records in reading:
        write(b"".join(map(render, records)), flush=flush)


def _write_table(reading: Iterator[list[ConsumerRecord]], path: str) -> None:
    """Raises ImportError, which says what to install."""
    with interrupted_later():
        schema = schema_of(COLUMNS)
        from pylog.tables.record_file import write_table

    say(f"wrote {plural(write_table(schema, reading, path), 'record')} to {path}")
