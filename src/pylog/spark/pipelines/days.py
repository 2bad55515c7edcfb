"""Writes the Parquet files of an archive, in a worker: the records of one task, by the day of their timestamps.

Records reach the worker from the log itself, as Arrow batches, and leave it as files: none goes through the JVM. Up to
`BUFFERED_BYTES` are held; then the largest day is written as one file. A task can write several files for one day.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final
from uuid import uuid4

import numpy as np
import pyarrow as pa

from pylog.spark.folder import Folder
from pylog.spark.pipelines.commits import STAGED
from pylog.spark.range_reader import RangeReader
from pylog.spark.tasks import Task

BUFFERED_BYTES: Final = 128 << 20
RESULT: Final = "task int, written string"
"""What a worker gives for each task: its number, and JSON: {"records": 5, "files": [[day, staged name, size]]}."""


@dataclass(frozen=True)
class ArchiveTasks:
    """The function that `mapInArrow` runs: the rows that come in are numbers of tasks."""

    reader: RangeReader
    tasks: tuple[Task, ...]
    folder: Folder
    run: str
    compression: str

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Archive the tasks; one row for each."""
        for batch in rows:
            for number in batch.column(0).to_pylist():
                days = _Days(self.folder, f"{STAGED}/{self.run}", self.compression)
                for records in self.reader.read(self.tasks[number]):
                    days.add(records)
                written = json.dumps(days.finish())
                yield pa.RecordBatch.from_arrays(
                    [pa.array([number], pa.int32()), pa.array([written], pa.string())], names=["task", "written"]
                )


class _Days:
    """The days of one task."""

    def __init__(self, folder: Folder, staged: str, compression: str) -> None:
        self._folder = folder
        self._staged = staged
        self._compression = compression
        self._waiting: defaultdict[str, list[pa.RecordBatch]] = defaultdict(list)
        self._sizes: defaultdict[str, int] = defaultdict(int)
        self._buffered = 0
        self._records = 0
        self._files: list[tuple[str, str, int]] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Take a batch, and write the largest day where too much waits."""
        if not batch.num_rows:
            return
        self._records += batch.num_rows
        for day, records in by_day(batch):
            self._waiting[day].append(records)
            self._sizes[day] += records.nbytes
            self._buffered += records.nbytes
        while self._buffered >= BUFFERED_BYTES:
            self._write(max(self._sizes, key=self._sizes.__getitem__))

    def finish(self) -> dict[str, object]:
        """Write the rest; gives how many records there are, and their files: day, name, size."""
        for day in sorted(self._waiting):
            self._write(day)
        return {"records": self._records, "files": self._files}

    def _write(self, day: str) -> None:
        table = pa.Table.from_batches(self._waiting.pop(day))
        self._buffered -= self._sizes.pop(day)
        name = f"{uuid4().hex}.parquet"
        self._files.append((day, name, self._folder.write_table(f"{self._staged}/{name}", table, self._compression)))


def by_day(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The records of each day, `2024-05-01` in UTC, in the order of the batch; days beyond the year 9999, too."""
    days = batch.column("timestamp").cast(pa.date32()).cast(pa.int32()).to_numpy(zero_copy_only=False)
    order = np.argsort(days, kind="stable")
    if days[order[0]] != days[order[-1]]:
        batch, days = batch.take(pa.array(order)), days[order]
    begins = [0, *(np.flatnonzero(np.diff(days)) + 1).tolist(), len(days)]
    for begin, end in pairwise(begins):
        yield str(np.datetime64(int(days[begin]), "D")), batch.slice(begin, end - begin)
