"""A streaming query without Spark: what Spark would do in its processes is done here, one by one."""

import json
import pickle
from typing import Any, cast

from pyspark.sql.streaming.datasource import ReadLimit

import pylog
from pylog import Record
from pylog.spark.source import PylogDataSource
from pylog.spark.stream_reader import PylogStreamReader


def append(log: pylog.Log, topic: str, *values: int, partition: int = 0) -> None:
    log.topic(topic)[partition].append([Record(str(value).encode()) for value in values])


class Query:
    """A streaming query: the offsets of its checkpoint, and what it has given. A new reader is a restart."""

    def __init__(self, log: pylog.Log, *, available_now: bool = False, **options: str) -> None:
        self._options = {"path": str(log.path), **options}
        self._available_now = available_now
        self.committed: Any = None
        self.logged: Any = None
        """The end of a batch that was planned, and is not committed."""
        self.batches: list[list[int]] = []
        self.planned: list[int] = []
        self.restart()

    def restart(self, **options: str) -> None:
        """Start again with the checkpoint there is; a planned batch that failed is done again."""
        self._options |= options
        self.reader = reader(**self._options)
        self.limit: ReadLimit = self.reader.getDefaultReadLimit()
        if self._available_now:
            self.reader.prepareForTriggerAvailableNow()
        self.started = self.committed if self.committed is not None else self.reader.initialOffset()

    def plan(self) -> Any:
        """The end of the next batch, which the checkpoint has from then on; None where there is none."""
        if self.logged is None:
            end = through_json(self.reader.latestOffset(self.started, self.limit))
            self.logged = None if end == self.started else end
        return self.logged

    def trigger(self) -> list[int] | None:
        """One batch: the values it gave; None where there was none."""
        end = self.plan()
        if end is None:
            return None
        tasks = self.reader.partitions(self.started, end)
        # Another process reads: what planning has learned is not there.
        executor = pickle.loads(pickle.dumps(reader(**self._options)))
        values = []
        for task in pickle.loads(pickle.dumps(tasks)):
            for batch in executor.read(task):
                values += [int(value) for value in batch.column("value").to_pylist()]
        self.planned.append(len(tasks))
        self.batches.append(sorted(values))
        self.reader.commit(end)
        self.started, self.committed, self.logged = end, end, None
        return sorted(values)

    def run(self) -> list[list[int]]:
        """All batches there are now."""
        found = []
        while (batch := self.trigger()) is not None:
            found.append(batch)
        return found

    def run_all(self) -> list[int]:
        """The values of all batches there are now."""
        return [value for batch in self.run() for value in batch]


def reader(**options: str) -> PylogStreamReader:
    source = PylogDataSource(options)
    # What is refused is refused by the first call, as Spark meets it.
    return cast("PylogStreamReader", source.streamReader(source.schema()))


def through_json(value: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(value))
    return found
