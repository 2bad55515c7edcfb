"""The options of a Spark read: those of Spark's Kafka source, parsed and checked.

`parse` takes the options as Spark hands them over (names in any case, values as text) and returns one frozen
`ReadOptions`. `check_batch` and `check_stream` refuse what has no meaning in one of both. All are pure functions:
whether the log, the topics and the offsets exist is asked later.

Names, defaults, precedence and wording are those of Spark's KafkaSourceProvider. Differences:

- the log is in a directory (`path`, `load(path)`) or several (`paths`, `load([...])`), or behind
  `kafka.bootstrap.servers`;
- a stream starts at earliest, not at latest: Spark keeps the first offsets of a Python source nowhere, so a stream that
  began at latest would begin at another latest when it is started again before its first batch. `stateLocation` names
  a folder in which the first offsets are kept. Without it starts that depend on the moment are refused;
- `columns` names the columns to read, because Spark cannot tell a Python source which ones a query uses;
- an unknown option is an error that suggests the nearest name.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from pylog.spark.columns import COLUMNS, column_name
from pylog.spark.options.limits import (
    EARLIEST,
    LATEST,
    AtOffset,
    AtOffsets,
    Limit,
    parse_limit,
    parse_no_match,
    refuse_limit,
)
from pylog.spark.options.selection import STRATEGIES, Selection, parse_selection
from pylog.spark.options.values import flag, nearest, positive, whole
from pylog.spark.options.where import Where, parse_where

Isolation = Literal["read_uncommitted", "read_committed"]

_ENDING: Final = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
_STREAMING: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "maxBytesPerTrigger")
_OPTIONS: Final = (
    "path",
    "paths",
    "kafka.bootstrap.servers",
    "kafka.isolation.level",
    *STRATEGIES,
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingTimestamp",
    "startingOffsetsByTimestampStrategy",
    *_ENDING,
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    "columns",
    "failOnDataLoss",
    *_STREAMING,
    "stateLocation",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "kafkaConsumer.pollTimeoutMs",
    "groupIdPrefix",
)
_EARLIEST: Final = AtOffset(EARLIEST)
_LATEST: Final = AtOffset(LATEST)
_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """The time to wait for servers."""

    most: int = 3
    """How often a question to servers is asked again after an error that may pass."""
    interval_ms: int = 1_000
    """How long to wait before that."""
    poll_timeout_ms: int = 120_000
    """How long a task waits for records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """The size of one batch of a stream. None: no limit."""

    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay_ms: int = 15 * 60_000
    """How long a batch waits while fewer than `min_offsets` are there."""
    max_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """A checked request: which log, partitions and offsets, which columns, in how many tasks and batches."""

    where: Where
    selection: Selection
    starting: Limit = _EARLIEST
    ending: Limit = _LATEST
    no_match: Literal["error", "latest"] = "error"
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    columns: tuple[str, ...] = COLUMNS[:-1]
    fail_on_data_loss: bool = True
    isolation: Isolation = "read_uncommitted"
    retries: Retries = field(default_factory=Retries)
    trigger: Trigger = field(default_factory=Trigger)
    state_location: str | None = None
    given: frozenset[str] = field(default=frozenset(), compare=False)
    """The names of the options that were given, as they are spelled here."""


def parse(options: Mapping[str, str]) -> ReadOptions:
    """The options of one `load()`; names match in any case, as everywhere in Spark.

    Raises ValueError for a missing, unknown, conflicting or unreadable option.
    Source: KafkaSourceProvider.validateGeneralOptions and getKafkaOffsetRangeLimit.
    """
    given = {name.lower(): value for name, value in options.items()}
    where = parse_where(given, {"isolation.level"})
    return ReadOptions(
        where=where,
        selection=parse_selection(given),
        starting=parse_limit(given, "starting", EARLIEST),
        ending=parse_limit(given, "ending", LATEST),
        no_match=parse_no_match(given),
        min_partitions=positive(given, "minPartitions"),
        max_records_per_partition=positive(given, "maxRecordsPerPartition"),
        columns=_columns(given),
        fail_on_data_loss=flag(given, "failOnDataLoss", True),
        isolation=_isolation(given),
        retries=_retries(given),
        trigger=_trigger(given),
        state_location=given.get("statelocation", "").strip() or None,
        given=_given(given),
    )


def check_batch(options: ReadOptions) -> list[str]:
    """Refuse what a batch cannot do; gives the names of the options that do nothing in one.

    Raises ValueError. Source: KafkaSourceProvider.validateBatchOptions.
    """
    refuse_limit(options.starting, LATEST, "starting", "latest")
    refuse_limit(options.ending, EARLIEST, "ending", "earliest")
    return [name for name in (*_STREAMING, "stateLocation", "groupIdPrefix") if name in options.given]


def check_stream(options: ReadOptions) -> list[str]:
    """Refuse what a stream cannot do; gives the names of the options that do nothing in one.

    Raises ValueError. Source: KafkaSourceProvider.validateStreamOptions.
    """
    for name in _ENDING:
        if name in options.given:
            raise ValueError(f"option '{name}' is not valid in streaming queries: a stream has no end")
    if options.state_location is None and not _is_fixed(options.starting):
        raise ValueError(
            "a stream that starts at latest or at a timestamp needs option 'stateLocation', a folder of its own (in "
            "its checkpoint, say): Spark keeps the first offsets of a Python source nowhere, so a stream that is "
            "started again before its first batch would start later and skip records. Or start at earliest, or offsets"
        )
    return [name for name in ("groupIdPrefix",) if name in options.given]


def check_plain_stream(options: ReadOptions) -> None:
    """Refuse what a stream of PySpark 4.0 and 4.1 cannot do. Raises ValueError."""
    for name in _STREAMING:
        if name in options.given:
            raise ValueError(f"option '{name}' needs PySpark 4.2 or newer: the streams of older ones have no limits")
    if options.state_location is None:
        raise ValueError(
            "a stream needs option 'stateLocation' with PySpark 4.0 and 4.1, a folder of its own (in its checkpoint, "
            "say): Spark keeps the first offsets nowhere, so they would be others after a failure in the first batch"
        )


def _is_fixed(limit: Limit) -> bool:
    """Whether a start means the same each time it is asked for."""
    if isinstance(limit, AtOffsets):
        return LATEST not in limit.offsets.values()
    return limit == _EARLIEST


def _given(given: Mapping[str, str]) -> frozenset[str]:
    """The names as they are spelled here. Raises ValueError for an unknown one; kafka options are for a connection."""
    known = {name.lower(): name for name in _OPTIONS}
    for name in given:
        if name not in known and not name.startswith("kafka."):
            raise ValueError(f"unknown option '{name}' for the pylog source{nearest(name, _OPTIONS)}")
    return frozenset(known.get(name, name) for name in given)


def _isolation(given: Mapping[str, str]) -> Isolation:
    text = given.get("kafka.isolation.level", "read_uncommitted").strip().lower()
    if text == "read_committed":
        return "read_committed"
    if text == "read_uncommitted":
        return "read_uncommitted"
    raise ValueError(f"option 'kafka.isolation.level' is 'read_uncommitted' or 'read_committed', got '{text}'")


def _retries(given: Mapping[str, str]) -> Retries:
    default = Retries()
    return Retries(
        most=whole(given, "fetchOffset.numRetries", default.most),
        interval_ms=whole(given, "fetchOffset.retryIntervalMs", default.interval_ms),
        poll_timeout_ms=positive(given, "kafkaConsumer.pollTimeoutMs") or default.poll_timeout_ms,
    )


def _trigger(given: Mapping[str, str]) -> Trigger:
    trigger = Trigger(
        max_offsets=positive(given, "maxOffsetsPerTrigger"),
        min_offsets=positive(given, "minOffsetsPerTrigger"),
        max_delay_ms=_delay_ms(given.get("maxtriggerdelay", "15m").strip().lower()),
        max_bytes=positive(given, "maxBytesPerTrigger"),
    )
    least, most = trigger.min_offsets, trigger.max_offsets
    if least is not None and most is not None and least > most:
        raise ValueError(
            f"the value of minOffsetsPerTrigger ({least}) is higher than the value of maxOffsetsPerTrigger ({most})"
        )
    return trigger


def _delay_ms(text: str) -> int:
    """A duration as Spark writes it: 500ms, 30s, 15m, 1h; a number alone is milliseconds."""
    found = re.fullmatch(r"([0-9]+)\s*(ms|s|m|min|h|d)?", text)
    if found is None:
        raise ValueError(f"option 'maxTriggerDelay' is a duration such as 500ms, 30s or 15m, got '{text}'")
    return int(found[1]) * _UNITS_MS[found[2] or "ms"]


def _columns(given: Mapping[str, str]) -> tuple[str, ...]:
    headers = flag(given, "includeHeaders", False)
    text = given.get("columns")
    if text is None:
        return COLUMNS if headers else COLUMNS[:-1]
    columns = tuple(column_name(name.strip(), "option 'columns'") for name in text.split(",") if name.strip())
    if not columns:
        raise ValueError(f"option 'columns' names no column, got '{text}'; the columns are {', '.join(COLUMNS)}")
    if len(set(columns)) < len(columns):
        raise ValueError(f"option 'columns' names a column twice, got '{text}'")
    return columns
