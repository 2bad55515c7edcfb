"""Records as lines of CSV, for `pylog consume --output x.csv`; `pylog produce --input` reads them.

UTF-8, the names of the columns in the first row. CSV has no null: a tombstone is an empty value, and a key that is
missing an empty one.
"""

import csv
import io

from pylog.kernel import ConsumerRecord
from pylog.runtime.words import time_text

__all__ = ["HEAD", "csv_cells", "csv_line", "csv_time"]

COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


def csv_line(record: ConsumerRecord) -> bytes:
    """One record. Raises ValueError for bytes that are not text, and headers that a list in a cell cannot have."""
    headers = [(header.key, _text(record, header.value, f"the header {header.key!r}")) for header in record.headers]
    if any("," in value or "," in name or "=" in name for name, value in headers):
        raise _refused(record, "a header has a comma, or its name has an equals sign")
    return csv_cells(
        record.topic, record.partition, record.offset, csv_time(record.timestamp), _text(record, record.key, "the key"),
        _text(record, record.value, "the value"), ",".join(f"{name}={value}" for name, value in headers),
    )  # fmt: skip


def csv_cells(*cells: object) -> bytes:
    """A line with these cells; None is an empty one."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue().encode()


def csv_time(timestamp_ms: int) -> str:
    """A time as ISO 8601 in UTC; no text for a record without a time, and the number beyond the year 9999."""
    return "" if timestamp_ms < 0 else time_text(timestamp_ms)


def _text(record: ConsumerRecord, data: bytes | None, what: str) -> str:
    try:
        return (data or b"").decode()
    except UnicodeDecodeError as error:
        raise _refused(record, f"{what} is not UTF-8") from error


def _refused(record: ConsumerRecord, reason: str) -> ValueError:
    return ValueError(
        f"{record.topic}-{record.partition}, offset {record.offset}: {reason}, and a CSV file has text alone: write "
        ".jsonl or .parquet"
    )


HEAD = csv_cells(*COLUMNS)
"""The first line."""
