"""The formats of `pylog consume` for a record: raw, JSON, or a template.

A template is a Python format string over seven fields, compiled once into a list of pieces:

    "{partition}:{offset:>8} {key}\\n"   ->   [field, b":", padded field, b" ", field, b"\\n"]

Without a format a field is written byte for byte (a value that is not UTF-8 comes out as it went in); with one it is
text. Only the seven names are known: no attributes, no indexes, so a template from elsewhere can do nothing.
"""

import string
from collections.abc import Callable
from datetime import UTC, datetime

import click

from pylog.cli.arguments import bytes_of
from pylog.record import ConsumerRecord
from pylog.tables.json_lines import json_record

__all__ = ["FIELDS", "KNOWN", "Renderer", "renderer", "unescaped"]

Renderer = Callable[[ConsumerRecord], bytes]

FIELDS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
KNOWN = " ".join(f"{{{name}}}" for name in FIELDS)
"""The fields as they stand in a template, for messages."""


def renderer(text: str) -> Renderer:
    """The function for a format's name or a template.

    Raises BadParameter (unknown field, bad braces or format).
    """
    if text == "raw":
        return _raw
    if text == "json":
        return json_record
    pieces = _compile(unescaped(text))
    return lambda record: b"".join([piece if isinstance(piece, bytes) else piece(record) for piece in pieces])


def _raw(record: ConsumerRecord) -> bytes:
    return (record.value or b"") + b"\n"


def unescaped(text: str) -> str:
    """`\\n`, `\\t`, `\\0` and `\\\\` as in most such tools; other backslashes stay."""
    result, escapes = "", {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}
    letters = iter(text)
    for letter in letters:
        if letter != "\\":
            result += letter
            continue
        following = next(letters, "")
        result += escapes.get(following, "\\" + following)
    return result


def _compile(text: str) -> list[bytes | Renderer]:
    pieces: list[bytes | Renderer] = []
    try:
        for literal, name, spec, conversion in string.Formatter().parse(text):
            if literal:
                pieces.append(bytes_of(literal))
            if name is not None:
                pieces.append(_field(name, spec or "", conversion))
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is no template: {error}; write {{{{ for a brace") from error
    if not any(callable(piece) for piece in pieces):
        raise click.BadParameter(f"{text!r} names no field: give raw, json, or a template with some of {KNOWN}")
    if not (isinstance(pieces[-1], bytes) and pieces[-1].endswith((b"\n", b"\0"))):
        pieces.append(b"\n")
    return pieces


def _field(name: str, spec: str, conversion: str | None) -> Renderer:
    if name not in FIELDS or conversion:
        raise click.BadParameter(f"{{{name}}} is no field: there are {KNOWN}")
    if not spec:
        return PLAIN[name]
    text = TEXT[name]
    if name == "timestamp" and "%" in spec:
        return lambda record: format(_moment(record.timestamp), spec).encode()
    try:
        format(0 if name in ("partition", "offset", "timestamp") else "", spec)
    except ValueError as error:
        raise click.BadParameter(f"{{{name}:{spec}}}: {error}") from error
    return lambda record: format(text(record), spec).encode()


def _moment(ms: int) -> datetime:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        # Beyond the year 9999: the last moment that can be shown.
        return datetime.max.replace(tzinfo=UTC)


def _headers(record: ConsumerRecord) -> bytes:
    return b",".join(header.key.encode() + b"=" + (header.value or b"") for header in record.headers)


PLAIN: dict[str, Renderer] = {
    "topic": lambda record: record.topic.encode(),
    "partition": lambda record: b"%d" % record.partition,
    "offset": lambda record: b"%d" % record.offset,
    "timestamp": lambda record: b"%d" % record.timestamp,
    "key": lambda record: record.key or b"",
    "value": lambda record: record.value or b"",
    "headers": _headers,
}
TEXT: dict[str, Callable[[ConsumerRecord], str | int]] = {
    "topic": lambda record: record.topic,
    "partition": lambda record: record.partition,
    "offset": lambda record: record.offset,
    "timestamp": lambda record: record.timestamp,
    "key": lambda record: (record.key or b"").decode(errors="replace"),
    "value": lambda record: (record.value or b"").decode(errors="replace"),
    "headers": lambda record: _headers(record).decode(errors="replace"),
}
