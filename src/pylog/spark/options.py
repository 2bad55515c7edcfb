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

import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias
from urllib.parse import unquote, urlsplit

from pylog.record import TopicPartition

EARLIEST: Final = -2
LATEST: Final = -1

COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
"""The columns of Spark's Kafka source, in its order."""

_STRATEGIES: Final = ("subscribe", "subscribePattern", "assign")
_OPTIONS: Final = (
    "path",
    *_STRATEGIES,
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

_OFFSETS_EXAMPLE: Final = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_TIMESTAMPS_EXAMPLE: Final = '{"topicA":{"0":123456789,"1":123456789},"topicB":{"0":123456789}}'
_ASSIGN_EXAMPLE: Final = '{"topicA":[0,1],"topicB":[0,1]}'


@dataclass(frozen=True, slots=True)
class Subscribe:
    """All partitions of the named topics; each must exist."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SubscribePattern:
    """All partitions of the topics whose whole name matches a regular expression (Python's `re`); may be none."""

    pattern: str

    def matching(self, topics: Iterable[str]) -> list[str]:
        """Those of the topics whose whole name matches, in their order."""
        return [topic for topic in topics if re.fullmatch(self.pattern, topic)]


@dataclass(frozen=True, slots=True)
class Assign:
    """Exactly these partitions; each must exist."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class AtOffset:
    """One place for all partitions: EARLIEST or LATEST."""

    offset: int


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset, EARLIEST or LATEST for each partition; must name all partitions that are read."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """The first record of each partition whose timestamp (ms) is at or after this one."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class AtTimestamps:
    """The same with a timestamp (ms) for each partition; must name all partitions that are read."""

    timestamps_ms: Mapping[TopicPartition, int]


Selection: TypeAlias = Subscribe | SubscribePattern | Assign
Limit: TypeAlias = AtOffset | AtOffsets | AtTimestamp | AtTimestamps


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
    starting = _limit(given, "starting", EARLIEST)
    ending = _limit(given, "ending", LATEST)
    _refuse(starting, LATEST, "starting", "latest")
    _refuse(ending, EARLIEST, "ending", "earliest")
    return ReadOptions(
        path=_path(given),
        selection=_selection(given),
        starting=starting,
        ending=ending,
        no_match=_no_match(given),
        min_partitions=_positive(given, "minPartitions"),
        max_records_per_partition=_positive(given, "maxRecordsPerPartition"),
        columns=_columns(given),
        fail_on_data_loss=_flag(given, "failOnDataLoss", True),
        ignored=ignored,
    )


def column_name(name: str, source: str) -> str:
    """The column `name` means, in its canonical spelling; `source` says in an error where the name came from.

    Raises ValueError with the nearest names when there is no such column.
    """
    for column in COLUMNS:
        if column.lower() == name.lower():
            return column
    raise ValueError(
        f"{source} names an unknown column '{name}'{_nearest(name, COLUMNS)}; the columns are {', '.join(COLUMNS)}"
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
            raise ValueError(f"unknown option '{name}' for the pylog source{_nearest(name, _OPTIONS)}")
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


def _selection(given: Mapping[str, str]) -> Selection:
    found = [name for name in _STRATEGIES if name.lower() in given]
    names = ", ".join(_STRATEGIES)
    if not found:
        raise ValueError(f"One of the following options must be specified for the pylog source: {names}")
    if len(found) > 1:
        raise ValueError(
            f"Only one of the following options can be specified for the pylog source: {names}; got {', '.join(found)}"
        )
    text = given[found[0].lower()]
    if found[0] == "subscribe":
        return _subscribe(text)
    return _pattern(text) if found[0] == "subscribePattern" else _assign(text)


def _subscribe(text: str) -> Subscribe:
    topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not topics:
        raise ValueError(f"No topics to subscribe to as specified value for option 'subscribe' is '{text}'")
    return Subscribe(topics)


def _pattern(text: str) -> SubscribePattern:
    pattern = text.strip()
    if not pattern:
        raise ValueError(f"Pattern to subscribe is empty as specified value for option 'subscribePattern' is '{text}'")
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"option 'subscribePattern' is not a regular expression: {error}, got '{pattern}'") from None
    return SubscribePattern(pattern)


def _assign(text: str) -> Assign:
    partitions = []
    topics = _json_object(text, "assign", _ASSIGN_EXAMPLE) if text.strip().startswith("{") else {}
    for topic, numbers in topics.items():
        if not isinstance(numbers, list) or not all(type(number) is int and number >= 0 for number in numbers):
            raise _expected("assign", _ASSIGN_EXAMPLE, text)
        partitions += [TopicPartition(topic, number) for number in numbers]
    if not partitions:
        raise ValueError(
            f"No topicpartitions to assign as specified value for option 'assign' is '{text}'; e.g. {_ASSIGN_EXAMPLE}"
        )
    return Assign(tuple(sorted(set(partitions))))


def _limit(given: Mapping[str, str], side: str, default: int) -> Limit:
    """The first of the three ways to name a start (or end) that is given, in Spark's order of precedence."""
    if (text := given.get(f"{side}timestamp")) is not None:
        return AtTimestamp(_timestamp(text.strip(), f"{side}Timestamp"))
    if (text := given.get(f"{side}offsetsbytimestamp")) is not None:
        return AtTimestamps(
            _per_partition(text, f"{side}OffsetsByTimestamp", _TIMESTAMPS_EXAMPLE, lambda value: value >= 0)
        )
    text = given.get(f"{side}offsets")
    if text is None:
        return AtOffset(default)
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return AtOffset(EARLIEST if word == "earliest" else LATEST)
    return AtOffsets(_per_partition(text, f"{side}Offsets", _OFFSETS_EXAMPLE, lambda value: value >= EARLIEST))


def _refuse(limit: Limit, offset: int, side: str, word: str) -> None:
    if limit == AtOffset(offset):
        raise ValueError(f"{side} offset can't be {word} for batch queries")
    if isinstance(limit, AtOffsets):
        for partition, value in limit.offsets.items():
            if value == offset:
                raise ValueError(
                    f"{side}Offsets for {partition.topic}-{partition.partition} can't be {word} for batch queries"
                )


def _timestamp(text: str, option: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = -1
    if value < 0:
        raise ValueError(f"option '{option}': expected a single timestamp in milliseconds since 1970, got '{text}'")
    return value


def _per_partition(text: str, option: str, example: str, valid: Callable[[int], bool]) -> dict[TopicPartition, int]:
    result: dict[TopicPartition, int] = {}
    for topic, values in _json_object(text, option, example).items():
        if not isinstance(values, dict):
            raise _expected(option, example, text)
        for number, value in values.items():
            if not number.isascii() or not number.isdigit() or type(value) is not int or not valid(value):
                raise _expected(option, example, text)
            result[TopicPartition(topic, int(number))] = value
    return result


def _json_object(text: str, option: str, example: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise _expected(option, example, text)
    return value


def _expected(option: str, example: str, text: str) -> ValueError:
    words = " or 'earliest' or 'latest'" if option in ("startingOffsets", "endingOffsets") else ""
    return ValueError(f"option '{option}': expected e.g. {example}{words}, got {text}")


def _no_match(given: Mapping[str, str]) -> Literal["error", "latest"]:
    text = given.get("startingoffsetsbytimestampstrategy", "error").strip().lower()
    if text == "error":
        return "error"
    if text == "latest":
        return "latest"
    raise ValueError(f"option 'startingOffsetsByTimestampStrategy' is 'error' or 'latest', got '{text}'")


def _positive(given: Mapping[str, str], option: str) -> int | None:
    text = given.get(option.lower())
    if text is None:
        return None
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value <= 0:
        raise ValueError(f"{option} must be positive, got '{text}'")
    return value


def _flag(given: Mapping[str, str], option: str, default: bool) -> bool:
    text = given.get(option.lower())
    if text is None:
        return default
    if (word := text.strip().lower()) in ("true", "false"):
        return word == "true"
    raise ValueError(f"option '{option}' is 'true' or 'false', got '{text}'")


def _columns(given: Mapping[str, str]) -> tuple[str, ...]:
    headers = _flag(given, "includeHeaders", False)
    text = given.get("columns")
    if text is None:
        return COLUMNS if headers else COLUMNS[:-1]
    columns = tuple(column_name(name.strip(), "option 'columns'") for name in text.split(",") if name.strip())
    if not columns:
        raise ValueError(f"option 'columns' names no column, got '{text}'; the columns are {', '.join(COLUMNS)}")
    if len(set(columns)) < len(columns):
        raise ValueError(f"option 'columns' names a column twice, got '{text}'")
    return columns


def _nearest(name: str, names: tuple[str, ...]) -> str:
    lowered = {known.lower(): known for known in names}
    close = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    return f": did you mean '{lowered[close[0]]}'?" if close else ""
