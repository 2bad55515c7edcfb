"""The values of words of the command line.

A wrong one raises BadParameter, so it is wrong usage (exit code 2) and never an error halfway through.

    --headers trace=1,source=web           pairs, UTF-8
    --since 10m | 2h | 2024-05-01T12:00 | 1714564800000
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

import click

from pylog.errors import UnknownTopicOrPartition
from pylog.record import TopicPartition
from pylog.runtime.clock import Clock

if TYPE_CHECKING:
    from pylog.config.typed import TopicOptions
    from pylog.handles.any_log import AnyLog

__all__ = [
    "Moment",
    "bytes_of",
    "count",
    "delimiter",
    "headers",
    "moment",
    "natural",
    "partitions_of",
    "separator",
    "topic_options",
    "topic_partition",
]

UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}


def topic_options(pairs: Iterable[tuple[str, str]]) -> "TopicOptions":
    """The `--config`s of a topic. Their names are checked where the topic is."""
    return cast("TopicOptions", dict(pairs))


def headers(text: str) -> tuple[tuple[str, bytes], ...]:
    """`a=1,b=2` -> (("a", b"1"), ("b", b"2")): in this order, names may repeat."""
    pairs = []
    for part in text.split(",") if text else ():
        name, equals, value = part.partition("=")
        if not equals:
            raise click.BadParameter(f"{part!r} is not NAME=VALUE, as in --headers trace=1,source=web")
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise click.BadParameter(f"the name of the header {part!r} is not UTF-8") from error
        pairs.append((name, bytes_of(value)))
    return tuple(pairs)


def bytes_of(text: str) -> bytes:
    """A word of the command line as the bytes that were typed, UTF-8 or not."""
    return text.encode("utf-8", "surrogateescape")


def separator(text: str) -> bytes:
    """The bytes between key and value; `\\t` and other escapes of Python strings are understood."""
    data = delimiter(text)
    if b"\n" in data:
        raise click.BadParameter("the separator must not hold a line break")
    return data


def delimiter(text: str) -> bytes:
    """The bytes that end a record; escapes as for `separator`."""
    data = (
        text.encode("latin-1", "backslashreplace").decode("unicode_escape").encode() if "\\" in text else bytes_of(text)
    )
    if not data:
        raise click.BadParameter("it must not be empty")
    return data


def count(text: str) -> int:
    """A number above zero."""
    number = natural(text)
    if number == 0:
        raise click.BadParameter("0 is too few: give at least 1")
    return number


def natural(text: str) -> int:
    """A number, zero or above; `1_000` and `1,000` are understood."""
    digits = text.replace("_", "").replace(",", "")
    if not digits.isascii() or not digits.isdigit():
        raise click.BadParameter(f"{text!r} is not a whole number of 0 or above")
    return int(digits)


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time: `ms` since 1970, or `ago_ms` before now."""

    ms: int | None = None
    ago_ms: int = 0

    def at(self, clock: Clock) -> int:
        """The time in ms since 1970; 0 for earlier times, which records cannot have."""
        return max(0, clock.wall_ms() - self.ago_ms if self.ms is None else self.ms)


def moment(text: str) -> Moment:
    """`10m` or `2h` (ago), ms since 1970, or ISO 8601 (UTC where it names no zone)."""
    ago = re.fullmatch(r"(\d+)(ms|s|m|h|d|w)( ago)?", text)
    if ago:
        return Moment(ago_ms=int(ago[1]) * UNITS_MS[ago[2]])
    if text.isascii() and text.isdigit() and len(text) > 8:
        return Moment(ms=int(text))
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError as error:
        raise click.BadParameter(
            f"{text!r} is no time: give 10m or 2h (ago), 2024-05-01T12:00 (UTC), or ms since 1970"
        ) from error
    at = parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)
    return Moment(ms=round(at.timestamp() * 1000))


def topic_partition(text: str) -> tuple[str, int | None]:
    """`clicks` -> ("clicks", None); `clicks:3` -> ("clicks", 3)."""
    name, colon, number = text.partition(":")
    if not name or (colon and not number):
        raise click.BadParameter(f"{text!r} is not TOPIC or TOPIC:PARTITION, as in clicks:0")
    return name, natural(number) if colon else None


def partitions_of(log: "AnyLog", name: str, number: int | None) -> list[TopicPartition]:
    """One partition of a topic, or all. Raises UnknownTopicOrPartition."""
    numbers = [view.partition for view in log.topic(name)]
    if number is not None and number not in numbers:
        raise UnknownTopicOrPartition(f"topic {name!r} has no partition {number}; it has {len(numbers)}, from 0 on")
    return [TopicPartition(name, one) for one in numbers if number in (None, one)]
