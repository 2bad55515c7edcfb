"""Texts for people: sizes, counts, lengths of time, what a config amounts to; texts of others, made printable."""

from datetime import UTC, datetime

__all__ = ["config_text", "count_text", "duration_text", "plural", "printable", "size_text", "time_text"]

MS_MOST = 253_402_300_799_999
"""The last millisecond of the year 9999."""

SIZES = ("B", "KiB", "MiB", "GiB", "TiB")
DURATIONS = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1000, "second"))


def size_text(size: int) -> str:
    """Bytes for people: `512 B`, `1.5 KiB`, `20 MiB`."""
    amount, unit = float(size), 0
    while amount >= 1024 and unit < len(SIZES) - 1:
        amount /= 1024
        unit += 1
    digits = 0 if unit == 0 or amount >= 99.95 else 1
    return f"{amount:.{digits}f} {SIZES[unit]}"


def count_text(number: int) -> str:
    """A number with its thousands apart: `336,776`."""
    return f"{number:,}"


def plural(number: int, noun: str) -> str:
    """`1 record`, `2,000 records`, `3 batches`, `2 index entries`."""
    if number == 1:
        return f"1 {noun}"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        noun = noun[:-1] + "ie"
    return f"{count_text(number)} {noun}{'es' if noun.endswith(('h', 'x')) else 's'}"


def duration_text(ms: int) -> str:
    """A length of time in its largest whole unit: 604800000 -> `7 days`."""
    for unit_ms, name in DURATIONS:
        if ms >= unit_ms and ms % unit_ms == 0:
            return plural(ms // unit_ms, name)
    return f"{count_text(ms)} ms"


def config_text(name: str, value: str) -> str:
    """The raw value of a config in readable units, where that helps: `7 days`, `1.0 GiB`, `no limit`; else ""."""
    digits = value.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
        return ""
    number = int(value)
    if number < 0:
        return "no limit" if name.startswith("retention.") else ""
    if number > 1 << 62:
        return "for ever"
    if name.endswith(".ms") and number >= 1000:
        return duration_text(number)
    if name.endswith(".bytes") and number >= 1024:
        return size_text(number)
    return ""


def printable(text: str, keep: str = "") -> str:
    """A text of others with escapes (`\\x1b`) for the characters that do not print, except for those in `keep`.

    What moves the cursor, begins a line or turns the order of letters round does not print; half a character does not,
    either. (str.isprintable)
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in keep else one.encode("unicode_escape").decode() for one in text)


def time_text(timestamp_ms: int) -> str:
    """A time, in ms since 1970, as ISO 8601 in UTC; the number beyond the year 9999."""
    if timestamp_ms > MS_MOST:
        return str(timestamp_ms)
    at = datetime.fromtimestamp(timestamp_ms // 1000, UTC).replace(microsecond=timestamp_ms % 1000 * 1000)
    return at.isoformat(timespec="milliseconds")
