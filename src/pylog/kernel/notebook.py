"""The view of a log and of records in a notebook: small tables in HTML. All that comes from records is escaped."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape

__all__ = ["record_table", "shown", "table", "time_text"]

FIELDS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
LAST_MS = 253_402_300_799_999
"""The end of the year 9999."""

CELL_MOST = 100
"""How many characters of a value are shown."""


def table(title: str, names: Sequence[str], rows: Iterable[Sequence[object]], note: str = "") -> str:
    """A table with a line of names, and a note below it."""
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{cell(value)}</td>' for value in row)}</tr>" for row in rows)
    below = f"<p>{escape(note)}</p>" if note else ""
    return (
        f"<div><p><b>{escape(title)}</b></p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        f"{below}</div>"
    )


def record_table(record: object) -> str:
    """A record, a field a line."""
    return table(type(record).__name__, ("field", "value"), [(name, shown(record, name)) for name in FIELDS])


def shown(record: object, field: str) -> object:
    """A field of a record for people: times as text, headers in a line."""
    value = getattr(record, field)
    if field == "timestamp":
        return time_text(value)
    if field == "headers":
        return ", ".join(f"{name}={(data or b'').decode(errors='replace')}" for name, data in value)
    return value


def time_text(timestamp_ms: int) -> str | None:
    """Milliseconds since 1970 as a time in UTC; None below 0, which means no time, and the number behind year 9999."""
    if timestamp_ms < 0:
        return None
    if timestamp_ms > LAST_MS:
        return str(timestamp_ms)
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(" ", "milliseconds")


def cell(value: object) -> str:
    """A value as it is shown: text where bytes are text, hexadecimal where they are not."""
    if value is None:
        return "<i>none</i>"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    text = _text(value) if isinstance(value, bytes) else str(value)
    return escape(text if len(text) <= CELL_MOST else f"{text[: CELL_MOST - 1]}…")


def _text(data: bytes) -> str:
    try:
        # A character takes at most 4 bytes; a cut one at the end is cut off by `cell`, too.
        text = data[: 4 * CELL_MOST].decode("utf-8", "strict" if len(data) <= 4 * CELL_MOST else "ignore")
    except UnicodeDecodeError:
        return f"0x{data[:CELL_MOST].hex()}"
    return text if text.isprintable() else f"0x{data[:CELL_MOST].hex()}"
