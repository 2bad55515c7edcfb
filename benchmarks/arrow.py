"""Reading everything back as Arrow columns (offset, timestamp, key, value), against a bare read of the same bytes.

All files are in the page cache, and CRCs are checked. Nothing makes an object a record.
"""

from pathlib import Path

import peers
import pylog
from harness import (
    RECORD_BYTES,
    VALUE_BYTES,
    at_least,
    figure,
    keys_and_values,
    measure,
    report,
    scaled,
    scratch,
    stopwatch,
)
from storage import read_files

COUNT = scaled(usual=1_000_000, quick=10_000)
ROUNDS = scaled(usual=9, quick=2)
COLUMNS = ["offset", "timestamp", "key", "value"]


def fill(folder: Path) -> None:
    rows = keys_and_values(min(COUNT, 100_000))
    lists = peers.chunks([pylog.Record(value, key) for key, value in rows])
    with pylog.open(folder / "log", flush="none") as log:
        partition = log.create_topic("bench")[0]
        while partition.next_offset < COUNT:
            for records in lists:
                partition.append(records)


def arrow(log: pylog.Log, max_rows: int) -> float:
    taken, rows, size = stopwatch(), 0, 0
    for batch in log.topic("bench")[0].columns(columns=COLUMNS, max_rows=max_rows):
        rows += batch.num_rows
        size += batch.column(3).nbytes
    seconds = taken()
    assert rows == COUNT and size >= COUNT * VALUE_BYTES
    return seconds / COUNT


def main() -> None:
    with scratch() as folder:
        fill(folder)
        paths = sorted((folder / "log" / "bench-0").glob("*.log"))
        with pylog.open(folder / "log", flush="none") as log:
            measured = measure(
                {
                    "columns": lambda: arrow(log, 10_000),
                    "columns, a batch each": lambda: arrow(log, 1_000),
                    "raw read": lambda: read_files(paths) / COUNT,
                },
                ROUNDS,
            )
    rate = 1e-6 / measured.median("columns")
    report(
        "arrow",
        [
            measured.speed("columns, 10,000 rows at once", "columns", "raw read", at_least(0.15)),
            figure("columns, 10,000 rows at once", rate, "M records/s", at_least(25)),
            measured.speed("columns, 1,000 rows at once", "columns, a batch each", "raw read"),
        ],
        records=COUNT,
        bytes=COUNT * RECORD_BYTES,
    )


if __name__ == "__main__":
    main()
