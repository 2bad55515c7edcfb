"""Bytes and times of others, as text that is safe to show.

What comes from a record may be anything: half a gigabyte, escape sequences, marks that turn the order of letters round.
It is cut to a size that is said, and what does not print is shown as an escape. HTML is escaped by the templates.
"""

import json
from dataclasses import dataclass

from pylog.runtime.words import count_text, printable

__all__ = ["LAID_OUT", "Shown", "hex_lines", "json_text", "middle", "shown", "visible"]

CELL_BYTES = 200
"""How much of a value a table shows."""
VISIBLE_CHARS_MAX = 4 << 10
NAME_CHARS_MAX = 48
HEX_COLUMNS = 16
LAID_OUT = "\n\t"
"""The marks that do not print, and stay."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A value for people. `kind`: "none", "empty", "text", "hex" or (decoded) "json"; `size` is that of all of it, in
    bytes.
    """

    kind: str
    text: str
    size: int
    is_cut: bool
    format: str = ""
    """The format that it was decoded from."""
    problem: str = ""
    """Why it was not decoded."""
    schema_id: int | None = None
    """The schema that it was decoded by."""


def shown(data: bytes | None, most: int = CELL_BYTES) -> Shown:
    """The first `most` bytes of a value: as text where they are UTF-8 and mostly print, else in hexadecimal."""
    if data is None:
        return Shown("none", "", 0, False)
    if not data:
        return Shown("empty", "", 0, False)
    head, is_cut = data[:most], len(data) > most
    text = _decoded(head, is_cut)
    if text is not None:
        return Shown("text", printable(text, keep=LAID_OUT), len(data), is_cut)
    return Shown("hex", head.hex(" "), len(data), is_cut)


def _decoded(head: bytes, is_cut: bool) -> str | None:
    # A character takes at most 4 bytes, and the last one may be cut.
    for end in range(len(head), len(head) - (4 if is_cut else 1), -1):
        try:
            text = head[:end].decode()
        except UnicodeDecodeError:
            continue
        odd = sum(not one.isprintable() and one not in "\n\r\t" for one in text)
        return text if odd * 8 <= len(text) else None
    return None


def visible(text: str) -> str:
    """A name or an error: marks that do not print are escapes, line feeds and tabs stay, and a long one is cut."""
    if len(text) > VISIBLE_CHARS_MAX:
        text = f"{text[:VISIBLE_CHARS_MAX]}... cut, {count_text(len(text))} characters in all"
    return printable(text, keep=LAID_OUT)


def middle(name: str) -> str:
    """A name that fits a table: the middle of a long one is left out, as names differ at their ends."""
    if len(name) <= NAME_CHARS_MAX:
        return name
    return f"{name[: NAME_CHARS_MAX // 2]}…{name[-(NAME_CHARS_MAX // 2 - 1) :]}"


def json_text(value: object, chars_max: int, *, indent: int | None = 2) -> tuple[str, bool]:
    """A plain value as JSON: the first `chars_max` characters, and whether that is not all. `indent` None: one line.

    Raises RecursionError for a nest that is too deep.
    """
    parts, left = list[str](), chars_max
    for part in json.JSONEncoder(indent=indent, ensure_ascii=False).iterencode(value):
        parts.append(printable(part[: left + 1], keep=LAID_OUT))
        left -= len(parts[-1])
        if left < 0:
            return "".join(parts)[:chars_max], True
    return "".join(parts), False


def hex_lines(data: bytes, start: int = 0) -> list[tuple[int, str, str]]:
    """A dump: of each 16 bytes their position (`start` is that of the first), their digits, and what prints."""
    lines = []
    for at in range(0, len(data), HEX_COLUMNS):
        part = data[at : at + HEX_COLUMNS]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append((start + at, part.hex(" "), text))
    return lines
