"""Words of an address or a form as values. A wrong one is a page that says so (400)."""

from collections.abc import Mapping
from datetime import UTC, datetime

from starlette.exceptions import HTTPException

__all__ = ["choice", "flag", "moment_ms", "needed", "needed_number", "needed_partition", "number", "pairs", "partition"]

INT64_MAX = (1 << 63) - 1
PARTITION_MAX = (1 << 31) - 1


def _wrong(text: str) -> HTTPException:
    return HTTPException(400, text)


def needed(words: Mapping[str, str], name: str) -> str:
    """A word that has to be there."""
    text = words.get(name, "").strip()
    if not text:
        raise _wrong(f"{name} is missing")
    return text


def number(words: Mapping[str, str], name: str, low: int = 0, high: int = INT64_MAX) -> int | None:
    """A whole number in [low, high]; None where the word is empty or missing."""
    text = words.get(name, "").strip()
    if not text:
        return None
    digits = text.removeprefix("-")
    # int() would take other digits, too, and hours for a million of them.
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19) or not low <= int(text) <= high:
        raise _wrong(f"{name} is {text[:40]!r}, not a whole number from {low:,} to {high:,}")
    return int(text)


def needed_number(words: Mapping[str, str], name: str, low: int = 0, high: int = INT64_MAX) -> int:
    """A whole number in [low, high] that has to be there."""
    needed(words, name)
    found = number(words, name, low, high)
    assert found is not None
    return found


def choice(words: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    """One of these words; the first where it is missing."""
    text = words.get(name, "") or choices[0]
    if text not in choices:
        raise _wrong(f"{name} is {text[:40]!r}, not one of {', '.join(choices)}")
    return text


def partition(words: Mapping[str, str]) -> int | None:
    """The number of a partition; None where it is empty or missing."""
    return number(words, "partition", 0, PARTITION_MAX)


def needed_partition(words: Mapping[str, str]) -> int:
    """The number of a partition, which has to be there."""
    return needed_number(words, "partition", 0, PARTITION_MAX)


def flag(words: Mapping[str, str], name: str) -> bool:
    """Whether a box is ticked."""
    return words.get(name, "") != ""


def moment_ms(words: Mapping[str, str], name: str) -> int | None:
    """A time as ISO 8601, UTC where it names no zone, in ms since 1970; None where it is missing."""
    text = words.get(name, "").strip()
    if not text:
        return None
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError as error:
        raise _wrong(f"{name} is {text[:40]!r}, not a time like 2026-05-01T12:00") from error
    at = parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)
    return max(0, round(at.timestamp() * 1000))


def pairs(words: Mapping[str, str], name: str, example: str) -> list[tuple[str, str]]:
    """Lines of NAME=VALUE. A name may stand in several."""
    found = []
    for line in words.get(name, "").splitlines():
        if not line.strip():
            continue
        key, equals, value = line.partition("=")
        if not equals or not key.strip():
            raise _wrong(f"{name}: {line[:40]!r} is not NAME=VALUE, as in {example}")
        found.append((key.strip(), value.strip()))
    return found
