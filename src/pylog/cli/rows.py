"""Tables as input of `pylog produce --input`: Parquet, CSV or JSON lines, by the end of the file's name.

    x.parquet    what `pylog consume --output` wrote, or any table with these columns
    x.csv        UTF-8, the names of the columns in the first row; an empty key, partition or timestamp counts as
    missing
    x.jsonl      what `pylog consume --json` printed; x.ndjson and x.json, too

A table has a column `value`, and may have `key`, `timestamp`, `partition` and `headers`. `topic`, `offset` and
`timestamp_type` say where a record came from; a new one does not take them.
"""

import csv
import io
import os
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import click

from pylog.cli.cutting import LINES, Cut
from pylog.cli.lines import JSON, Line, Parser, line_of
from pylog.tables.schema import COLUMNS, schema_of

__all__ = ["reading"]

TAKEN = ("key", "value", "timestamp", "partition", "headers")
ROWS = 256
"""How many rows of a Parquet file are in memory at a time."""
OPTIONAL = ("key", "timestamp", "partition")


def reading(path: str) -> tuple[Cut, Parser]:
    """The cut of a table into rows, and the parser of a row into a record. Raises BadParameter for another kind of
    file.
    """
    end = os.path.splitext(path)[1].lower()
    if end not in KINDS:
        raise click.BadParameter(f"{path!r} is none of {', '.join(KINDS)}")
    return KINDS[end]


def _checked(names: Iterable[str]) -> None:
    """Raises ValueError for columns that make no record."""
    found = list(names)
    if "value" not in found:
        raise ValueError(
            f"the table has no column value, but {', '.join(found) or 'none'}: rename one, or give lines with --format"
        )
    for name in found:
        if name not in COLUMNS:
            raise ValueError(f"the column {name!r} is not one of a record: {', '.join(COLUMNS)}")


def _csv_rows(stream: BinaryIO, longest: int) -> Iterator[tuple[dict[str, str | None], int]]:
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
    before = csv.field_size_limit(longest)
    try:
        rows = csv.DictReader(text, strict=True)
        _checked(rows.fieldnames or ())
        for row in rows:
            yield row, 0
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"it is no CSV in UTF-8: {error}") from error
    finally:
        csv.field_size_limit(before)
        text.detach()


def _csv_line(row: dict[str, str | None]) -> Line:
    if None in row or None in row.values():
        raise ValueError("it has more or fewer cells than the first row has names")
    found = {name: str(row[name]).encode() for name in TAKEN if name in row}
    for name in OPTIONAL:
        if not found.get(name):
            found.pop(name, None)
    return line_of(found)


def _parquet_rows(stream: BinaryIO, longest: int) -> Iterator[tuple[dict[str, Any], int]]:
    # It says what to install where pyarrow is missing.
    schema_of(COLUMNS)
    import pyarrow
    from pyarrow import parquet

    file = parquet.ParquetFile(stream)
    names = file.schema_arrow.names
    _checked(names)
    for batch in file.iter_batches(ROWS, columns=[name for name in TAKEN if name in names]):
        columns = {name: batch.column(name) for name in batch.schema.names}
        at = columns.get("timestamp")
        if at is not None and pyarrow.types.is_timestamp(at.type):
            columns["timestamp"] = at.cast(pyarrow.timestamp("ms", tz=at.type.tz), safe=False).cast(pyarrow.int64())
        for row in pyarrow.RecordBatch.from_pydict(columns).to_pylist():
            yield row, 0


def _parquet_line(row: dict[str, Any]) -> Line:
    return Line(
        _bytes(row["value"], "the value"), _bytes(row.get("key"), "the key"), _number(row, "partition"),
        _number(row, "timestamp"), tuple(map(_header, row.get("headers") or ())),
    )  # fmt: skip


def _header(found: object) -> tuple[str, bytes | None]:
    match found:
        case {"key": str(name), "value": value}:
            return name, _bytes(value, f"the header {name!r}")
    raise ValueError(f"the header {found!r} is not a struct of key and value")


def _bytes(value: object, name: str) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    raise ValueError(f"{name} is of type {type(value).__name__}, neither text nor bytes")


def _number(row: dict[str, Any], name: str) -> int | None:
    value = row.get(name)
    if value is not None and type(value) is not int:
        raise ValueError(f"the {name} is {value!r}, no whole number")
    return value


KINDS: dict[str, tuple[Cut, Parser]] = {
    ".parquet": (Cut("row", _parquet_rows), _parquet_line),
    ".csv": (Cut("row", _csv_rows), _csv_line),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), (LINES, JSON)),
}
