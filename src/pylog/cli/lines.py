"""The parsing of a line of input into a record for `pylog produce`: raw, JSON, or by a template.

    raw         the line is the value; with a key separator, key SEP value, split at the first
    json        an object as `consume --format json` prints them: key, value, timestamp, headers and partition are kept
    template    '{key}\\t{timestamp}\\t{value}': what lies between the literal pieces, each taken as short as it can be;
                topic and offset say where a record came from, and a new one does not take them; a timestamp is a
                number (ms since 1970), ISO 8601 (UTC where it names no zone), or like {timestamp:%d.%m.%Y %H:%M}

All parsers take a line without its line feed, and raise ValueError, which says what is wrong with it.
"""

import base64
import binascii
import json
import string
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import click

from pylog.cli.arguments import bytes_of
from pylog.cli.template import FIELDS, KNOWN, unescaped
from pylog.kernel.format import NO_TIMESTAMP

__all__ = ["JSON", "JSON_LINES", "Fields", "Line", "Parser", "line_of", "parser", "raw"]

DIGITS_MAX = 19
"""Those of the largest number in 64 bits."""


class Line(NamedTuple):
    """One record to send. None: no key, a tombstone, the partition of the key, the time of sending."""

    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


Fields = tuple[bytes | None, bytes | None, int | None, int | None, tuple[tuple[str, bytes | None], ...]]
"""A `Line` without its names."""
Parser = Callable[[Any], Fields]


def parser(text: str) -> Parser | None:
    """The parser for a format's name or a template; None for raw, which `raw` gives. Raises BadParameter."""
    if text == "raw":
        return None
    return JSON if text == "json" else _template(text)


def raw(key_separator: bytes | None) -> Parser:
    """The parser of lines that are values, or keys and values."""
    # A record a line: plain tuples take a third of the time of those with names.
    if key_separator is None:
        return lambda line: (line, None, None, None, ())

    def split(line: bytes) -> Fields:
        key, found, value = line.partition(key_separator)
        if not found:
            raise ValueError(f"it has no key separator {key_separator.decode(errors='replace')!r}")
        return value, key, None, None, ()

    return split


def _json(line: bytes) -> Line:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise ValueError(f"it is not JSON: {error}") from error
    except RecursionError as error:
        raise ValueError("it is JSON that is nested too deep") from error
    if not isinstance(found, dict):
        raise ValueError('it is not an object with a "value", as `pylog consume --format json` prints them')
    if "value" not in found:
        there = f"but {', '.join(map(repr, found))}" if found else "and no other field"
        raise ValueError(
            f'it has no "value", {there}: rename one, or give --input FILE --as-json to make a record of a whole object'
        )
    timestamp = _number(found, "timestamp")
    return Line(
        _bytes(found["value"], '"value"'), _bytes(found.get("key"), '"key"'), _number(found, "partition"),
        None if timestamp == NO_TIMESTAMP else timestamp, _headers(found.get("headers") or []),
    )  # fmt: skip


JSON: Parser = _json
"""The parser of JSON lines."""
JSON_LINES = (".jsonl", ".ndjson", ".json")
"""The ends of names of files that have a JSON object a line."""


def _headers(found: object) -> tuple[tuple[str, bytes | None], ...]:
    pairs = list(found.items()) if isinstance(found, dict) else found
    if not isinstance(pairs, list) or not all(isinstance(one, list | tuple) and len(one) == 2 for one in pairs):
        raise ValueError('"headers" is neither a list of [name, value], nor an object')
    for name, _ in pairs:
        if any("\ud800" <= letter <= "\udfff" for letter in str(name)):
            raise ValueError(f"the name of header {name!r} has half a character")
    return tuple((str(name), _bytes(value, f"header {name!r}")) for name, value in pairs)


def _number(found: dict[str, object], name: str) -> int | None:
    number = found.get(name)
    if number is not None and type(number) is not int:
        raise ValueError(f'"{name}" is {number!r}, not a whole number')
    return number


def _bytes(value: object, name: str) -> bytes | None:
    """A string, or {"base64": ...}, as `json_lines.text_or_base64` writes bytes; null stays null."""
    match value:
        case None:
            return None
        case str():
            return value.encode("utf-8", "surrogatepass")
        case {"base64": str(text), **others} if not others:
            try:
                return base64.b64decode(text, validate=True)
            except binascii.Error as error:
                raise ValueError(f"{name} is no base64: {error}") from error
    raise ValueError(f'{name} is no string, null or {{"base64": "..."}}: put a value that is JSON into a string')


def _template(text: str) -> Parser:
    names: list[str] = []
    style = ""
    # The literal before the first field, and the one behind each field.
    literals = [b""]
    try:
        for literal, name, spec, conversion in string.Formatter().parse(unescaped(text).removesuffix("\n")):
            literals[-1] += bytes_of(literal)
            if name is None:
                continue
            is_style = name == "timestamp" and "%" in (spec or "")
            if name not in FIELDS or name in names or (spec and not is_style) or conversion:
                raise click.BadParameter(
                    f"{{{name}}}: each of {KNOWN} may stand there once, and no formats but {{timestamp:%Y-%m-%d %H:%M}}"
                )
            style = spec or style
            if names and not literals[-1]:
                raise click.BadParameter(f"{text!r}: nothing stands between {{{names[-1]}}} and {{{name}}}")
            names.append(name)
            literals.append(b"")
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is no template: {error}; write {{{{ for a brace") from error
    if "value" not in names:
        raise click.BadParameter(f"{text!r} names no {{value}}: give raw, json, or a template with it")

    def parse(line: bytes) -> Line:
        found = _apart(line, literals)
        if found is None:
            raise ValueError(f"it is not like {text!r}")
        return line_of(dict(zip(names, found, strict=True)), style)

    return parse


def _apart(line: bytes, literals: Sequence[bytes]) -> list[bytes] | None:
    """Cut the fields of a template out of a line: each lies between two literals. None if a literal is missing.

    A field ends where the next literal is found first, the last one where the line ends. So no place is tried twice.
    """
    first, *between, last = literals
    if not line.startswith(first):
        return None
    rest, fields = line[len(first) :], []
    for literal in between:
        field, found, rest = rest.partition(literal)
        if not found:
            return None
        fields.append(field)
    return [*fields, rest.removesuffix(last)] if rest.endswith(last) else None


def line_of(found: dict[str, bytes], style: str = "") -> Line:
    """The record of fields as text; a timestamp is written in `style`, where there is one. Raises ValueError."""
    partition = _whole("partition", found["partition"]) if "partition" in found else None
    timestamp = _moment(found["timestamp"], style) if "timestamp" in found else None
    pairs = [one.partition(b"=") for one in found["headers"].split(b",")] if found.get("headers") else []
    try:
        headers = tuple((name.decode(), value) for name, _, value in pairs)
    except UnicodeDecodeError as error:
        raise ValueError(f"the name of a header is not UTF-8: {error}") from error
    return Line(found["value"], found.get("key"), partition, timestamp, headers)


def _whole(name: str, digits: bytes) -> int:
    if not digits.isdigit() or len(digits) > DIGITS_MAX:
        raise ValueError(f"its {name} is {digits[:40].decode(errors='replace')!r}, not a whole number that fits")
    return int(digits)


def _moment(data: bytes, style: str) -> int:
    """The ms since 1970 of a time as text."""
    if not style and data.isdigit():
        return _whole("timestamp", data)
    text = data[:100].decode(errors="replace")
    try:
        at = datetime.strptime(text, style) if style else datetime.fromisoformat(text)  # noqa: DTZ007
    except ValueError as error:
        wanted = f"like {style!r}" if style else "ms since 1970 or ISO 8601"
        raise ValueError(f"its timestamp is {text[:40]!r}, and not {wanted}") from error
    ms = round((at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp() * 1000)
    if ms < 0:
        raise ValueError(f"its timestamp {text[:40]!r} is before 1970")
    return ms
