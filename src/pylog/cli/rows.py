"""Tables as input of `pylog produce --input`: Parquet, CSV or JSON lines, by the end of the file's name.

    x.parquet    what `pylog consume --output` wrote, or any table with these columns (`parquet_input`)
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
from typing import BinaryIO

import click

from pylog.cli.cutting import LINES, Cut, TableError
from pylog.cli.lines import JSON, JSON_LINES, Line, Parser, line_of
from pylog.tables.schema import COLUMNS

__all__ = ["TAKEN", "RowForm", "check_columns", "is_parquet", "reading"]

TAKEN = ("key", "value", "timestamp", "partition", "headers")
PARQUET = ".parquet"
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


def is_parquet(path: str) -> bool:
    """True for a table that `parquet_input` reads, column by column."""
    return _end(path) == PARQUET


def reading(path: str, form: RowForm) -> tuple[Cut, Parser]:
    """The cut of a table into rows, and the parser of a row into a record. Raises BadParameter for another kind of
    file.
    """
    end = _end(path)
    if end not in KINDS:
        raise click.BadParameter(f"{path!r} is not a table: its name ends in none of {PARQUET}, {', '.join(KINDS)}")
    return KINDS[end](form)


def _end(path: str) -> str:
    return os.path.splitext(path)[1].lower()


def _of_csv(form: RowForm) -> tuple[Cut, Parser]:
    return Cut("row", partial(_csv_rows, form)), partial(_csv_line, form)


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


def check_columns(names: Iterable[str], form: RowForm) -> None:
    """Raises TableError for columns that make no record."""
    found = list(names)
    there = f"it has {', '.join(found)}" if found else "it has none"
    if form.key_column is not None and form.key_column not in found:
        raise TableError(f"the table has no column {form.key_column!r}: {there}")
    if form.as_json:
        return
    if "value" not in found:
        raise TableError(
            f"the table has no column 'value': {there}; rename one, or give --as-json to make a record of a whole row"
        )
    for name in found:
        if name not in COLUMNS and name != form.key_column:
            raise TableError(
                f"the column {name!r} is not one of a record, which are {', '.join(COLUMNS)}: leave it out, give "
                f"--key-column {name} if it is the key, or give --as-json to make a record of a whole row"
            )


def _csv_rows(form: RowForm, stream: BinaryIO, longest: int) -> Iterator[tuple[dict[str, str | None], int]]:
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
    before = csv.field_size_limit(longest)
    try:
        rows = csv.DictReader(text, strict=True)
        check_columns(rows.fieldnames or (), form)
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


KINDS: dict[str, Callable[[RowForm], tuple[Cut, Parser]]] = {
    ".csv": _of_csv,
    **dict.fromkeys(JSON_LINES, _of_json),
}
