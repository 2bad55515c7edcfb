"""What a Spark read asks of a log: the options of Spark's Kafka source, parsed and checked.

`parse` takes the options as Spark hands them over (names in any case, values as text) and returns one frozen
`ReadOptions`. It is a pure function: whether the directory, the topics and the offsets exist is asked later.

Names, defaults, precedence and wording are those of Spark's KafkaSourceProvider: exactly one of subscribe,
subscribePattern and assign; startingTimestamp before startingOffsetsByTimestamp before startingOffsets; in the JSON
forms -2 means earliest and -1 latest; a batch read cannot start at latest nor end at earliest. Differences:

- `path` (or `load(path)`) names the directory, so `kafka.*` options are refused: no Kafka client takes them;
- `columns` names the columns to read, because Spark cannot tell a Python source which ones a query uses;
- an unknown option is an error that suggests the nearest name; options that only have a meaning against a Kafka
  broker or in streaming are accepted and reported in `ReadOptions.ignored`.

Every refusal is a ValueError whose text names the option and the value.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal
from urllib.parse import unquote, urlsplit

from pylog.spark.columns import COLUMNS, column_name
from pylog.spark.options.limits import EARLIEST, LATEST, Limit, parse_limit, parse_no_match, refuse_limit
from pylog.spark.options.selection import STRATEGIES, Selection, parse_selection
from pylog.spark.options.values import flag, nearest, positive

_OPTIONS: Final = (
    "path",
    *STRATEGIES,
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    "columns",
    "failOnDataLoss",
)
_WITHOUT_EFFECT: Final = (
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """A checked request: which directory, partitions and offsets, which columns, in how many tasks."""

    path: str
    selection: Selection
    starting: Limit
    ending: Limit
    no_match: Literal["error", "latest"]
    min_partitions: int | None
    max_records_per_partition: int | None
    columns: tuple[str, ...]
    fail_on_data_loss: bool
    ignored: tuple[str, ...]


def parse(options: Mapping[str, str]) -> ReadOptions:
    """The options of one `load()`, checked; names match in any case, as everywhere in Spark.

    Raises ValueError for a missing, unknown, conflicting or unreadable option.
    Source: KafkaSourceProvider.validateBatchOptions and getKafkaOffsetRangeLimit.
    """
    given = {name.lower(): value for name, value in options.items()}
    ignored = _check_names(given)
    starting = parse_limit(given, "starting", EARLIEST)
    ending = parse_limit(given, "ending", LATEST)
    refuse_limit(starting, LATEST, "starting", "latest")
    refuse_limit(ending, EARLIEST, "ending", "earliest")
    return ReadOptions(
        path=_path(given),
        selection=parse_selection(given),
        starting=starting,
        ending=ending,
        no_match=parse_no_match(given),
        min_partitions=positive(given, "minPartitions"),
        max_records_per_partition=positive(given, "maxRecordsPerPartition"),
        columns=_columns(given),
        fail_on_data_loss=flag(given, "failOnDataLoss", True),
        ignored=ignored,
    )


def _check_names(given: Mapping[str, str]) -> tuple[str, ...]:
    known = {name.lower() for name in _OPTIONS}
    without_effect = {name.lower(): name for name in _WITHOUT_EFFECT}
    for name in given:
        if name.startswith("kafka."):
            raise ValueError(_kafka_option(name.removeprefix("kafka.")))
        if name == "paths":
            raise ValueError(
                f"a read takes one log directory, got {given[name]}; load each by itself and union the results"
            )
        if name not in known and name not in without_effect:
            raise ValueError(f"unknown option '{name}' for the pylog source{nearest(name, _OPTIONS)}")
    return tuple(without_effect[name] for name in given if name in without_effect)


def _kafka_option(name: str) -> str:
    instead = {
        "bootstrap.servers": "the log is a directory: give it as load(path) or option('path', ...)",
        "auto.offset.reset": "set the source option 'startingOffsets' to say where to start",
        "key.deserializer": "keys are binary; deserialize them with DataFrame operations",
        "value.deserializer": "values are binary; deserialize them with DataFrame operations",
        "group.id": "a read belongs to no consumer group",
    }.get(name, "the pylog source reads the log's files without a Kafka client")
    return f"Kafka option 'kafka.{name}' is not supported: {instead}"


def _path(given: Mapping[str, str]) -> str:
    """The directory as an absolute path: tasks may run with another working directory than the planner."""
    text = given.get("path", "").strip()
    if not text:
        raise ValueError("the pylog source needs the log's directory: load(path) or option('path', ...)")
    url = urlsplit(text)
    if (url.scheme and "://" in text) or url.scheme == "file":
        if url.scheme != "file" or url.netloc not in ("", "localhost"):
            raise ValueError(f"the pylog source reads local directories only, got path '{text}'")
        text = unquote(url.path)
    return str(Path(text).absolute())


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
