"""Texts that Spark hands over as options, read as numbers, flags and JSON. Reading and writing share them.

`given` has the names in lower case: Spark's options match in any case.
"""

import difflib
import json
from collections.abc import Iterable, Mapping


def positive(given: Mapping[str, str], option: str) -> int | None:
    """A whole number above 0, or None where the option was not given."""
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


def whole(given: Mapping[str, str], option: str, default: int) -> int:
    """A whole number from 0 on, or the default where the option was not given."""
    text = given.get(option.lower())
    if text is None:
        return default
    if (word := text.strip()).isascii() and word.isdigit():
        return int(word)
    raise ValueError(f"{option} must be a whole number from 0 on, got '{text}'")


def flag(given: Mapping[str, str], option: str, default: bool) -> bool:
    """True or false, or the default where the option was not given."""
    text = given.get(option.lower())
    if text is None:
        return default
    if (word := text.strip().lower()) in ("true", "false"):
        return word == "true"
    raise ValueError(f"option '{option}' is 'true' or 'false', got '{text}'")


def json_object(text: str, option: str, example: str) -> dict[str, object]:
    """A JSON object; an error shows the example."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise expected(option, example, text)
    return value


def json_texts(text: str, option: str, example: str) -> list[str]:
    """A JSON list of texts; an error shows the example."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise expected(option, example, text)
    return value


def expected(option: str, example: str, text: str) -> ValueError:
    """The error for a text that is not like the example."""
    words = " or 'earliest' or 'latest'" if option in ("startingOffsets", "endingOffsets") else ""
    return ValueError(f"option '{option}': expected e.g. {example}{words}, got {text}")


def nearest(name: str, names: Iterable[str]) -> str:
    """ ": did you mean '...'?" for an error about a name that there is not, or nothing."""
    lowered = {known.lower(): known for known in names}
    close = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    return f": did you mean '{lowered[close[0]]}'?" if close else ""
