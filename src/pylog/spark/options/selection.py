"""The partitions to read: exactly one of subscribe, subscribePattern and assign."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from pylog.record import TopicPartition
from pylog.spark.options.values import expected, json_object

OF_THE_SINK: Final = "__pylog_spark_"
"""How names of topics begin that the sink keeps for itself: a pattern means none of them, nor Kafka's internal ones."""
STRATEGIES: Final = ("subscribe", "subscribePattern", "assign")

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
        """Those of the topics whose whole name matches, in their order. The sink's own topics are none of them."""
        return [topic for topic in topics if re.fullmatch(self.pattern, topic) and not topic.startswith(OF_THE_SINK)]


@dataclass(frozen=True, slots=True)
class Assign:
    """Exactly these partitions; each must exist."""

    partitions: tuple[TopicPartition, ...]


Selection: TypeAlias = Subscribe | SubscribePattern | Assign


def parse_selection(given: Mapping[str, str]) -> Selection:
    """The one of the three ways to name partitions that was given. Raises ValueError for none, or two."""
    found = [name for name in STRATEGIES if name.lower() in given]
    names = ", ".join(STRATEGIES)
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
    topics = json_object(text, "assign", _ASSIGN_EXAMPLE) if text.strip().startswith("{") else {}
    for topic, numbers in topics.items():
        if not isinstance(numbers, list) or not all(type(number) is int and number >= 0 for number in numbers):
            raise expected("assign", _ASSIGN_EXAMPLE, text)
        partitions += [TopicPartition(topic, number) for number in numbers]
    if not partitions:
        raise ValueError(
            f"No topicpartitions to assign as specified value for option 'assign' is '{text}'; e.g. {_ASSIGN_EXAMPLE}"
        )
    return Assign(tuple(sorted(set(partitions))))
