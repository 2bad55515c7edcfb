"""A filter of records: terms that each name a field, and a text that may be anywhere.

    key=user-7   value.user.id=ann   value.items.sku~"red shoe"   header.trace=77   value=null
    offset>=100 offset<200   partition=1   time>=2026-05-01T12:00

All terms have to hold. A path goes into the decoded key or value (`decoding`); in a list a number is an index, and a
name is looked for in each element. A field that a record does not have matches nothing. Numbers are compared as numbers
where both sides are; `~` is part of the text, in either case of letters.
"""

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeVar

from starlette.exceptions import HTTPException

from pylog.record import ConsumerRecord
from pylog.ui.decoding import Decoded, Decoder, DecodingError
from pylog.ui.parameters import INT64_MAX, moment_ms, needed_number

__all__ = ["RecordFilter", "filter_of"]

T = TypeVar("T")
TERM = re.compile(
    r"""\s* ([A-Za-z]+ (?: \. [^\s=!~<>"]+ )?) \s* (!=|>=|<=|=|~|>|<) \s*
    ( "(?:[^"\\]|\\.)*" | [^\s"]+ ) (?= \s | $ )""",
    re.VERBOSE | re.DOTALL,
)
NUMBER = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][-+]?[0-9]{1,3})?")
ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
FIELDS = "key, key.NAME, value, value.NAME, header.NAME, offset, partition or time"
NUMBERS = ("offset", "partition", "time")


@dataclass(frozen=True, slots=True)
class Term:
    """One term: `value.user.id=ann` has the field "value", the path ("user", "id")."""

    field: str
    path: tuple[str, ...]
    sign: str
    wanted: str
    number: int | None = None
    """The number that an offset, a partition or a time is compared with."""


class RecordFilter:
    """A filter for one page."""

    def __init__(self, text: str, terms: list[Term], decoder: Decoder) -> None:
        self._needle = text.encode().lower()
        self._terms = terms
        self._decoder = decoder

    def __bool__(self) -> bool:
        """Whether it may leave records out."""
        return bool(self._needle or self._terms)

    @property
    def offsets(self) -> tuple[int, int]:
        """The first offset that may match, and the first behind that may not."""
        low, high = 0, INT64_MAX
        for term in self._terms:
            if term.field == "offset" and term.number is not None:
                if term.sign in ("=", ">", ">="):
                    low = max(low, term.number + (term.sign == ">"))
                if term.sign in ("=", "<", "<="):
                    high = min(high, term.number + (term.sign != "<"))
        return low, high

    def __call__(self, record: ConsumerRecord) -> bool:
        """Whether a record matches."""
        if self._needle and not self._has_text(record):
            return False
        decoded: dict[str, Decoded | None] = {}
        return all(self._holds(term, record, decoded) for term in self._terms)

    def _has_text(self, record: ConsumerRecord) -> bool:
        parts = [record.key, record.value]
        for name, value in record.headers:
            parts += [name.encode(), value]
        return any(self._needle in part.lower() for part in parts if part)

    def _holds(self, term: Term, record: ConsumerRecord, decoded: dict[str, Decoded | None]) -> bool:
        """Whether a term holds. `decoded`: the key and the value, where a term before it has decoded them."""
        if term.number is not None:
            return _compares(term.sign, _number_of(record, term.field), term.number)
        try:
            return any(_matches(one, term) for one in self._candidates(term, record, decoded))
        except (DecodingError, RecursionError):
            return False

    def _candidates(self, term: Term, record: ConsumerRecord, decoded: dict[str, Decoded | None]) -> Iterator[object]:
        if term.field == "header":
            return (_plain(value) for name, value in record.headers if name == term.path[0])
        data = record.key if term.field == "key" else record.value
        if not term.path:
            return iter([_plain(data)])
        if term.field not in decoded:
            decoded[term.field] = self._decoder.decode(data)
        found = decoded[term.field]
        return iter(()) if found is None else _at(found.value, term.path)


def filter_of(where: str, text: str, decoder: Decoder) -> RecordFilter:
    """The filter that a visitor has written. Raises HTTPException (400)."""
    terms, at = list[Term](), 0
    while where[at:].strip():
        found = TERM.match(where, at)
        if found is None:
            raise _wrong(f"{where[at:].strip()[:60]!r} is not FIELD=VALUE, as in value.user.id=ann")
        terms.append(_term(*found.groups()))
        at = found.end()
    return RecordFilter(text, terms, decoder)


def _wrong(text: str) -> HTTPException:
    return HTTPException(400, f"where: {text}")


def _term(name: str, sign: str, given: str) -> Term:
    field, _, rest = name.partition(".")
    field = field.lower()
    wanted = re.sub(r"\\(.)", r"\1", given[1:-1], flags=re.DOTALL) if given.startswith('"') else given
    if field in NUMBERS and not rest and sign != "~":
        words = {name: wanted}
        return Term(field, (), sign, wanted, moment_ms(words, name) if field == "time" else needed_number(words, name))
    if field == "header" and rest:
        return Term(field, (rest,), sign, wanted)
    if field in ("key", "value"):
        return Term(field, tuple(rest.split(".")) if rest else (), sign, wanted)
    raise _wrong(f"{name[:60]}{sign} is not a field to compare: {FIELDS}")


def _number_of(record: ConsumerRecord, field: str) -> int:
    return {"offset": record.offset, "partition": record.partition, "time": record.timestamp}[field]


def _plain(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="replace")


def _at(value: object, path: tuple[str, ...]) -> Iterator[object]:
    """The values at a path."""
    if not path:
        yield value
    elif isinstance(value, dict):
        if path[0] in value:
            yield from _at(value[path[0]], path[1:])
    elif isinstance(value, list):
        if path[0].isascii() and path[0].isdigit():
            yield from (one for element in value[int(path[0][:9]) :][:1] for one in _at(element, path[1:]))
        else:
            for element in value:
                yield from _at(element, path)


def _matches(value: object, term: Term) -> bool:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if term.sign == "~":
        return term.wanted.lower() in text.lower()
    if NUMBER.fullmatch(text) and NUMBER.fullmatch(term.wanted):
        return _compares(term.sign, Decimal(text), Decimal(term.wanted))
    if term.sign in ORDERS and not isinstance(value, str):
        return False
    return _compares(term.sign, text, term.wanted)


def _compares(sign: str, one: T, other: T) -> bool:
    if sign in ORDERS:
        return ORDERS[sign](one, other)
    return bool(one == other) == (sign == "=")
