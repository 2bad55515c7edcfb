"""The start and the end of a read: startingTimestamp, startingOffsetsByTimestamp and startingOffsets, in this order of
precedence, and the same for the end. In the JSON forms -2 means earliest and -1 latest.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias
from uuid import UUID

from pylog.record import TopicPartition
from pylog.spark.options.values import expected, json_object

EARLIEST: Final = -2
LATEST: Final = -1
TOPIC_IDS: Final = "#topicIds"
"""The name under which a stream's offsets keep the ids of their topics. Such offsets can start another stream."""
FIRST: Final = "#first"
"""The name under which the end of a stream's first batch keeps where that begins."""

_OFFSETS_EXAMPLE: Final = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_TIMESTAMPS_EXAMPLE: Final = '{"topicA":{"0":123456789,"1":123456789},"topicB":{"0":123456789}}'


@dataclass(frozen=True, slots=True)
class AtOffset:
    """One place for all partitions: EARLIEST or LATEST."""

    offset: int


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset, EARLIEST or LATEST for each partition; must name all partitions that are read."""

    offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)
    """The topics that these offsets belong to, where that was said."""


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """The first record of each partition whose timestamp (ms) is at or after this one."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class AtTimestamps:
    """The same with a timestamp (ms) for each partition; must name all partitions that are read."""

    timestamps_ms: Mapping[TopicPartition, int]


Limit: TypeAlias = AtOffset | AtOffsets | AtTimestamp | AtTimestamps


def parse_limit(given: Mapping[str, str], side: str, default: int) -> Limit:
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
    option = f"{side}Offsets"
    offsets = _per_partition(text, option, _OFFSETS_EXAMPLE, lambda value: value >= EARLIEST)
    return AtOffsets(offsets, _topic_ids(text, option))


def refuse_limit(limit: Limit, offset: int, side: str, word: str) -> None:
    """Raise ValueError where a limit is `offset`, for all partitions or for one."""
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
    for topic, values in json_object(text, option, example).items():
        if topic in (TOPIC_IDS, FIRST):
            continue
        if not isinstance(values, dict):
            raise expected(option, example, text)
        for number, value in values.items():
            if not number.isascii() or not number.isdigit() or type(value) is not int or not valid(value):
                raise expected(option, example, text)
            result[TopicPartition(topic, int(number))] = value
    return result


def _topic_ids(text: str, option: str) -> dict[str, UUID]:
    ids = json_object(text, option, _OFFSETS_EXAMPLE).get(TOPIC_IDS, {})
    try:
        return {topic: UUID(known) for topic, known in ids.items()}  # type: ignore[attr-defined]
    except (AttributeError, TypeError, ValueError):
        raise expected(option, _OFFSETS_EXAMPLE, text) from None


def parse_no_match(given: Mapping[str, str]) -> Literal["error", "latest"]:
    text = given.get("startingoffsetsbytimestampstrategy", "error").strip().lower()
    if text == "error":
        return "error"
    if text == "latest":
        return "latest"
    raise ValueError(f"option 'startingOffsetsByTimestampStrategy' is 'error' or 'latest', got '{text}'")
