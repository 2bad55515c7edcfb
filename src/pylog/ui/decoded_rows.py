"""Records with decoded keys and values, as lines and batches of a file.

                       JSON lines               CSV and Parquet
    decoded            JSON, in the line        its JSON, as text
    not decoded        text                     text
    not UTF-8          {"base64": ...}          base64

The column `problem` says why a value was not decoded, where its bytes name a format. No content of a record breaks the
file off. A cell has at most `JSON_CHARS_MAX` characters of JSON: names of a schema may be far longer than the bytes
that stand for them.
"""

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from pylog.record import ConsumerRecord
from pylog.runtime.json_lines import json_line, printable_json, text_or_base64
from pylog.runtime.words import printable, size_text
from pylog.tables.csv_lines import csv_cells, csv_time
from pylog.tables.schema import COLUMNS, schema_of
from pylog.ui.decoding import Decoder, DecodingError

if TYPE_CHECKING:
    import pyarrow

__all__ = ["DecodedRows", "arrow_schema"]

JSON_CHARS_MAX = 4 << 20
PROBLEM_CHARS_MAX = 1000
BATCH_CHARS = 1 << 20
"""How much text a batch of Parquet has, about."""
CSV_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers", "problem")

_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)


class DecodedCell(NamedTuple):
    """A key or a value: its JSON for a line of JSON, its text for other files (None: null), and its problem or ""."""

    json: str
    text: str | None
    problem: str = ""


class DecodedRows:
    """Renders records by the decoder of one request."""

    head = csv_cells(*CSV_COLUMNS)
    """The first line of CSV."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder

    def json_line(self, record: ConsumerRecord) -> bytes:
        """A record as a line of JSON."""
        key, value = self._cell(record.key), self._cell(record.value)
        facts = {
            "topic": record.topic, "partition": record.partition, "offset": record.offset,
            "timestamp": record.timestamp,
        }  # fmt: skip
        rest = {"headers": _headers(record), "problem": _problem(key, value)}
        line = f'{json_line(facts)[:-1]},"key":{key.json},"value":{value.json},{json_line(rest)[1:]}\n'
        return line.encode()

    def csv_line(self, record: ConsumerRecord) -> bytes:
        """A record as a line of CSV, its headers as JSON."""
        key, value = self._cell(record.key), self._cell(record.value)
        return csv_cells(
            record.topic, record.partition, record.offset, csv_time(record.timestamp), key.text, value.text,
            json_line(_headers(record)), _problem(key, value),
        )  # fmt: skip

    def batches(
        self, schema: "pyarrow.Schema", groups: Iterable[list[ConsumerRecord]]
    ) -> "Iterator[pyarrow.RecordBatch]":
        """Records as batches of a bounded size, with `arrow_schema`; some have no row."""
        for group in groups:
            rows: list[tuple[ConsumerRecord, DecodedCell, DecodedCell]] = []
            size = 0
            for record in group:
                key, value = self._cell(record.key), self._cell(record.value)
                rows.append((record, key, value))
                size += len(key.text or "") + len(value.text or "")
                if size > BATCH_CHARS:
                    yield _batch(schema, rows)
                    rows, size = [], 0
            yield _batch(schema, rows)

    def _cell(self, data: bytes | None) -> DecodedCell:
        try:
            decoded = self._decoder.decode(data)
            if decoded is not None:
                text = _json(decoded.value)
                return DecodedCell(text, text)
        except (DecodingError, RecursionError) as error:
            return _plain(data, printable(str(error)[:PROBLEM_CHARS_MAX]))
        return _plain(data)


def _json(value: object) -> str:
    """One line of JSON. Raises DecodingError (it is too long, or JSON has no such number), RecursionError."""
    parts, left = list[str](), JSON_CHARS_MAX
    try:
        for part in _ENCODER.iterencode(value):
            parts.append(part)
            left -= len(part)
            if left < 0:
                raise DecodingError(f"its JSON has more than {size_text(JSON_CHARS_MAX)}")
    except ValueError as error:
        raise DecodingError("it has a number that JSON does not have") from error
    return printable_json("".join(parts))


def _plain(data: bytes | None, problem: str = "") -> DecodedCell:
    found = text_or_base64(data)
    text = found["base64"] if isinstance(found, dict) else found
    return DecodedCell(json_line(found), text, problem)


def _headers(record: ConsumerRecord) -> list[object]:
    return [[header.key, text_or_base64(header.value)] for header in record.headers]


def _problem(key: DecodedCell, value: DecodedCell) -> str | None:
    """Why the key or the value is not decoded; None where there is no problem."""
    words = [f"{name}: {one.problem}" for name, one in (("key", key), ("value", value)) if one.problem]
    return "; ".join(words) or None


def arrow_schema() -> "pyarrow.Schema":
    """The columns of records, where keys and values are text, and `problem`."""
    import pyarrow

    schema = schema_of(COLUMNS)
    for name in ("key", "value"):
        schema = schema.set(schema.get_field_index(name), pyarrow.field(name, pyarrow.string()))
    return schema.append(pyarrow.field("problem", pyarrow.string()))


def _batch(
    schema: "pyarrow.Schema", rows: list[tuple[ConsumerRecord, DecodedCell, DecodedCell]]
) -> "pyarrow.RecordBatch":
    import pyarrow

    columns: dict[str, list[object]] = {
        name: [getattr(record, name) for record, _, _ in rows] for name in COLUMNS if name not in ("key", "value")
    }
    columns["key"], columns["value"] = [key.text for _, key, _ in rows], [value.text for _, _, value in rows]
    columns["problem"] = [_problem(key, value) for _, key, value in rows]
    return pyarrow.RecordBatch.from_pydict(columns, schema=schema)
