"""Tables as input of `pylog produce --input`: Parquet, CSV or JSON lines, by the end of the file's name.

    x.parquet    what `pylog consume --output` wrote, or any table with these columns
    x.csv        UTF-8, the names of the columns in the first row; an empty key, partition or timestamp counts as
    missing
    x.jsonl      what `pylog consume --json` printed; x.ndjson and x.json, too

A table has a column `value`, and may have `key`, `timestamp`, `partition` and `headers`. `topic`, `offset` and
`timestamp_type` say where a record came from; a new one does not take them. A table of anything else becomes records
with `--as-json`: the value is the row, as a JSON object, and `--key-column` names the key.
"""

import csv
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

import click

from pylog.cli.cutting import LINES, Cut
from pylog.cli.lines import JSON, JSON_LINES, Line, Parser, line_of
from pylog.tables.schema import COLUMNS, schema_of

__all__ = ["RowForm", "reading"]

TAKEN = ("key", "value", "timestamp", "partition", "headers")
ROWS = 256
"""How many rows of a Parquet file are in memory at a time."""
OPTIONAL = ("key", "timestamp", "partition")


@dataclass(frozen=True, slots=True)
class RowForm:
    """The form of the record that a row becomes: a JSON object, or its own fields; and the column of the key."""

    as_json: bool = False
    key_column: str | None = None

    @property
    def key(self) -> str:
        """The column of the key, which may be missing where it was not named."""
        return self.key_column or "key"


def reading(path: str, form: RowForm) -> tuple[Cut, Parser]:
    """The cut of a table into rows, and the parser of a row into a record. Raises BadParameter for another kind of
    file.
    """
    end = os.path.splitext(path)[1].lower()
    if end not in KINDS:
        raise click.BadParameter(f"{path!r} is none of {', '.join(KINDS)}")
    return KINDS[end](form)


def _of_csv(form: RowForm) -> tuple[Cut, Parser]:
    return Cut("row", partial(_csv_rows, form)), partial(_csv_line, form)


def _of_parquet(form: RowForm) -> tuple[Cut, Parser]:
    return Cut("row", partial(_parquet_rows, form)), _parquet_line


def _of_json(form: RowForm) -> tuple[Cut, Parser]:
    if form.key_column is not None and not form.as_json:
        raise click.UsageError('--key-column of JSON lines takes --as-json: without it the key is in "key"')
    return LINES, partial(_json_row, form.key) if form.as_json else JSON


def _json_row(key_column: str, line: bytes) -> Line:
    """A line that is the value itself."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ValueError("it is not an object")
    key = found.get(key_column)
    if key is not None and type(key) not in (str, int):
        raise ValueError(f"{key_column} is of type {type(key).__name__}, neither text nor a whole number")
    return Line(line, None if key is None else str(key).encode("utf-8", "surrogatepass"))


def _checked(names: Iterable[str], form: RowForm) -> None:
    """Raises ValueError for columns that make no record."""
    found = list(names)
    if form.key_column is not None and form.key_column not in found:
        raise ValueError(f"the table has no column {form.key_column}, but {', '.join(found) or 'none'}")
    if form.as_json:
        return
    if "value" not in found:
        raise ValueError(
            f"the table has no column value, but {', '.join(found) or 'none'}: rename one, or give --as-json "
            "to make a record of a whole row"
        )
    for name in found:
        if name not in COLUMNS and name != form.key_column:
            raise ValueError(f"the column {name!r} is not one of a record: {', '.join(COLUMNS)}")


def _csv_rows(form: RowForm, stream: BinaryIO, longest: int) -> Iterator[tuple[dict[str, str | None], int]]:
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
    before = csv.field_size_limit(longest)
    try:
        rows = csv.DictReader(text, strict=True)
        _checked(rows.fieldnames or (), form)
        for row in rows:
            yield row, 0
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"it is not CSV in UTF-8: {error}") from error
    finally:
        csv.field_size_limit(before)
        text.detach()


def _csv_line(form: RowForm, row: dict[str, str | None]) -> Line:
    if None in row or None in row.values():
        raise ValueError("it has more or fewer cells than the first row has names")
    fields = {**row, "key": row.get(form.key, "")}
    if form.as_json:
        fields = {"value": json.dumps(row, ensure_ascii=False, separators=(",", ":")), "key": fields["key"]}
    found = {name: str(fields[name]).encode() for name in TAKEN if name in fields}
    for name in OPTIONAL:
        if not found.get(name):
            found.pop(name, None)
    return line_of(found)


def _parquet_rows(form: RowForm, stream: BinaryIO, longest: int) -> Iterator[tuple[dict[str, Any], int]]:
    # It says what to install where pyarrow is missing.
    schema_of(COLUMNS)
    import pyarrow
    from pyarrow import parquet

    file = parquet.ParquetFile(stream)
    names = file.schema_arrow.names
    _checked(names, form)
    taken = names if form.as_json else [name for name in dict.fromkeys((*TAKEN, form.key)) if name in names]
    for batch in file.iter_batches(ROWS, columns=taken):
        for row in pyarrow.RecordBatch.from_pydict(_columns(batch, form)).to_pylist():
            yield row, 0


def _columns(batch: Any, form: RowForm) -> dict[str, Any]:
    """The columns of records."""
    import pyarrow

    found = {name: batch.column(name) for name in TAKEN if name in batch.schema.names and not form.as_json}
    if form.as_json:
        found["value"] = _json_values(batch)
    if form.key in batch.schema.names:
        key = batch.column(form.key)
        found["key"] = key.cast(pyarrow.string()) if pyarrow.types.is_integer(key.type) else key
    at = found.get("timestamp")
    if at is not None and pyarrow.types.is_timestamp(at.type):
        found["timestamp"] = at.cast(pyarrow.timestamp("ms", tz=at.type.tz), safe=False).cast(pyarrow.int64())
    return found


def _json_values(batch: Any) -> Any:
    from pylog.tables.json_text import json_text

    try:
        return json_text(batch.to_struct_array())
    except TypeError as error:
        raise ValueError(str(error)) from error


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
        raise ValueError(f"the {name} is {value!r}, not a whole number")
    return value


KINDS: dict[str, Callable[[RowForm], tuple[Cut, Parser]]] = {
    ".parquet": _of_parquet,
    ".csv": _of_csv,
    **dict.fromkeys(JSON_LINES, _of_json),
}
