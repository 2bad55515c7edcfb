"""`pylog produce TOPIC [FILE...]`: lines go in as records.

    one line                      ->  one record: its bytes without the line feed
    --key-separator SEP           ->  key SEP value, split at the first; a line without one is an error that names it
    an empty line                 ->  a record with an empty value; with --empty-as-null a tombstone
    --delimiter SEP, --whole      ->  a record ends with SEP, or is a file (`cutting`)
    --input FILE                  ->  the rows of a table (`rows`)

Bytes stay bytes: nothing is decoded. With --format or --json a line has more than a value in it (`lines`). The command
ends when all records are acknowledged; Ctrl-C stops reading, waits for what was sent, and says how much that was. With
--transactional-id what was not committed is aborted then.
"""

import sys
from typing import Any, get_args

import click

from pylog.cli import commands, rows
from pylog.cli import completion as complete
from pylog.cli.arguments import bytes_of, count, delimiter, headers, natural, partitions_of, separator
from pylog.cli.cutting import LINES, WHOLE, Cut, delimited
from pylog.cli.lines import JSON, Parser, parser, raw
from pylog.cli.opening import changing
from pylog.cli.output import rate_text, say
from pylog.cli.params import argument, at_most_one, option
from pylog.cli.place import LogPlace
from pylog.cli.sending import STDIN, Brake, Count, Input, send_all
from pylog.client.producer import Producer
from pylog.config import ProducerConfig
from pylog.errors import UnknownTopicOrPartition
from pylog.files import DiskFiles
from pylog.handles.any_log import AnyLog
from pylog.handles.table_sinks import topic_rules
from pylog.logdirs.foreign import require_directory
from pylog.runtime.clock import SystemClock
from pylog.runtime.words import plural, size_text
from pylog.tables.appended import CompressionType
from pylog.tables.schema import schema_of

__all__ = ["command"]

ESCAPED = 6
"""How much longer a record may be in JSON: six characters for a byte that is no letter."""
OF_OPTIONS = ("acks", "compression.type", "transactional.id")
"""The configs of a producer that have an option here."""

FORMATS = """formats:
  raw        the line is the value, or key and value with --key-separator
  json       one object a line, as `pylog consume --json` prints them: key, value, headers, timestamp and partition are
             kept; bytes that are no text are {\"base64\": \"...\"}, a value of null is a tombstone
  template   '{key}\\t{value}' takes a line apart again: {key} {value} {partition} {timestamp} {headers}; a timestamp is
             ms since 1970, ISO 8601 (UTC where it names no zone), or as {timestamp:%Y-%m-%d %H:%M} has it"""


@commands.command(
    "produce",
    short_help="append lines of files, or of standard input, as records",
    examples=(
        "pylog produce clicks access.log",
        "zcat access.log.gz | pylog produce clicks --key-separator ' ' --codec zstd",
        "pylog produce clicks access.log --bootstrap 127.0.0.1:9092 -X linger.ms=50",
        "pylog consume clicks -b --json | pylog produce copy --json",
        "pylog produce orders day.csv --format '{key},{value}' --transactional-id import",
        "pylog produce orders --input may.parquet                # as `pylog consume --output` writes it",
        "pylog produce orders --input orders.csv --as-json --key-column id",
        "pylog produce photos --whole --key cat cat.png",
        "echo | pylog produce users --key ada --empty-as-null    # a tombstone: compaction forgets ada",
        "tail -f app.log | pylog produce logs --headers host=web1,env=prod --flush interval",
    ),
    notes=FORMATS,
)
@argument("topic", "TOPIC", "the topic; make one with `pylog topic create`", shell_complete=complete.topics)
@argument("files", "[FILE...]", "files to read, - for standard input (the default)", nargs=-1, type=click.Path())
@option(
    "--key-separator", "-K", type=separator, metavar="SEP",
    help="what stands between key and value in a line (\\t is a tab); without it records have no key",
)  # fmt: skip
@option("--key", "-k", type=bytes_of, metavar="KEY", help="the key of every record that has none of its own")
@option(
    "--empty-as-null", "-Z", "is_null_empty", is_flag=True,
    help="an empty value is null: a tombstone, which lets compaction forget the key",
)  # fmt: skip
@option(
    "--delimiter", "-D", type=delimiter, metavar="SEP",
    help="what ends a record in place of a line feed; \\0 is a zero byte",
)  # fmt: skip
@option("--whole", "is_whole", is_flag=True, help="one record a file: all of it is the value")
@option(
    "--input", "table", metavar="FILE", type=click.Path(exists=True, dir_okay=False),
    help="a table with a column value, and key, timestamp, partition and headers if it has them: .parquet, .csv, or "
    ".jsonl as --json; any table with --as-json",
)  # fmt: skip
@option("--as-json", is_flag=True, help="with --input: the value is the row, as a JSON object of all of its columns")
@option("--key-column", metavar="NAME", help="with --input: the column that is the key (default: key, if there is one)")
@option(
    "--format", "parser", type=parser, default="raw", metavar="FORMAT",
    help="what a line is: raw, json, or a template, see below (default: raw)",
)  # fmt: skip
@option("--json", "is_json", is_flag=True, help="short for --format json")
@option("--headers", "-H", type=headers, default="", metavar="K=V,...", help="headers of every record")
@option(
    "--codec", "-z", "compression", type=click.Choice(get_args(CompressionType)), default="none", metavar="CODEC",
    help="none, gzip, snappy, lz4 or zstd (default: none)",
)  # fmt: skip
@option(
    "--partition", "-p", type=natural, metavar="N", help="the partition (default: by key, or wherever a batch is open)"
)
@option(
    "--acks", type=click.Choice(("all", "1", "0")), default="all",
    help="the replicas that must store a record before it counts (default: all)",
)  # fmt: skip
@option(
    "--flush", type=click.Choice(("sync", "interval", "none")),
    help="when records become durable: before they are acknowledged (sync, the default), every second, or when the "
    "system likes",
)  # fmt: skip
@option(
    "--transactional-id", metavar="ID", shell_complete=complete.transactional_ids,
    help="send all of it in a transaction: an error or Ctrl-C leaves nothing of it",
)  # fmt: skip
@option(
    "--transaction-records", type=count, metavar="N",
    help="with --transactional-id: commit after every N records, and begin again",
)  # fmt: skip
@option("--quiet", "-q", "is_quiet", is_flag=True, help="no progress and no summary")
def command(
    place: LogPlace, topic: str, files: tuple[str, ...], compression: CompressionType, acks: str, flush: str | None,
    parser: Parser | None, is_json: bool, key_separator: bytes | None, delimiter: bytes | None, is_whole: bool,
    table: str | None, as_json: bool, key_column: str | None, **given: Any,
) -> int:  # fmt: skip
    """Append lines as records: one a line, from files or standard input.

    Owns the log while it runs, or has the process append that owns it.
    """
    if place.servers is None:
        for path in place.paths:
            require_directory(DiskFiles(read_only=True), path)
    elif flush is not None:
        raise click.UsageError("--flush is for --log: a server has its own")
    at_most_one({"FILE": files or None, "--input": table})
    at_most_one({"--json": is_json, "--format": parser, "--key-separator": key_separator, "--input": table})
    at_most_one({"--delimiter": delimiter, "--whole": is_whole, "--input": table})
    at_most_one({"--key-separator": key_separator, "--key": given["key"]})
    made: Parser | None = JSON if is_json else parser
    cut: Cut = WHOLE if is_whole else LINES if delimiter is None else delimited(delimiter)
    form = None
    if table is not None:
        files, form = (table,), rows.RowForm(as_json, key_column)
        if not rows.is_parquet(table):
            cut, made = rows.reading(table, form)
    elif as_json or key_column is not None:
        raise click.UsageError("--as-json and --key-column are for the rows of a table: give --input")
    options: dict[str, Any] = {
        "acks": acks, "compression_type": compression, "transactional_id": given["transactional_id"],
        **place.client_configs(ProducerConfig, OF_OPTIONS),
    }  # fmt: skip
    longest = ProducerConfig.from_kafka(options).max_request_size * (1 if made is None else ESCAPED)
    source = Input(topic, files or (STDIN,), made or raw(key_separator), longest, cut=cut, **given)
    if source.transaction_records is not None and source.transactional_id is None:
        raise click.UsageError("--transaction-records needs --transactional-id")
    _produce(place, source, flush, options, form)
    return 0


def _produce(
    place: LogPlace, source: Input, flush: str | None, options: dict[str, Any], form: rows.RowForm | None
) -> None:
    clock = SystemClock()
    started = clock.tick_ms()
    went_in = Count()
    try:
        with changing(place, client=ProducerConfig, flush=flush) as log:
            _check_place(log, source.topic, source.partition)
            with log.producer(**options) as producer:
                with Brake() as brake:
                    if form is not None and rows.is_parquet(source.sources[0]):
                        _send_parquet(source, form, log, producer, went_in, brake)
                    else:
                        send_all(source, producer, went_in, brake)
                brake.check()
    except KeyboardInterrupt:
        if went_in.aborted is not None:
            say(f"interrupted: the open transaction was aborted, with {plural(went_in.aborted, 'record')} in it")
        raise
    finally:
        # Also after an error or Ctrl-C: how much went in is what one needs to know then.
        if not source.is_quiet and (went_in.sent or sys.exc_info()[0] is None):
            _summary(source.topic, went_in, clock.tick_ms() - started)


def _send_parquet(
    source: Input, form: rows.RowForm, log: AnyLog, producer: Producer, went_in: Count, brake: Brake
) -> None:
    # It says what to install where pyarrow is missing.
    schema_of(())
    from pylog.cli.parquet_input import send_parquet

    topic = log.topic(source.topic)
    rules = topic_rules(len(topic), topic.config, SystemClock().wall_ms())
    send_parquet(source, form, rules, producer, went_in, brake)


def _check_place(log: AnyLog, topic: str, partition: int | None) -> None:
    if topic not in log.topics(internal=True):
        raise UnknownTopicOrPartition(
            f"there is no topic {topic!r}: make it with `pylog topic create {topic}`, or see `pylog topic list`"
        )
    partitions_of(log, topic, partition)


def _summary(topic: str, count: Count, elapsed_ms: int) -> None:
    failed = count.sent - count.acknowledged
    missing = f"; {plural(failed, 'record')} sent and not acknowledged" if failed else ""
    size = "" if count.size is None else f" ({size_text(count.size)})"
    say(
        f"appended {plural(count.acknowledged, 'record')}{size} to {topic} "
        f"in {elapsed_ms / 1000:.1f} s, {rate_text(count.acknowledged, elapsed_ms)}{missing}"
    )
