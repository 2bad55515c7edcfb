"""The stream reader of PySpark 4.0 and 4.1, whose streams know no limits and no start: a batch takes all there is.

`latestOffset` is asked before `initialOffset`, and is not told where the batch begins. So the end of the first batch
cannot have its start in it (`stream_plan`), and `stateLocation` has to keep that.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from pylog.spark.options.read import ReadOptions, check_plain_stream, check_stream
from pylog.spark.range_reader import RangeReader
from pylog.spark.stream_offsets import StreamOffsets
from pylog.spark.stream_plan import StreamPlan

_log: Final = logging.getLogger("pylog.spark")


class PlainStreamReader(DataSourceStreamReader):
    """Reads a log as a stream."""

    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        """Raises ValueError for what a stream cannot do."""
        check_plain_stream(options)
        for name in check_stream(options):
            _log.warning("option %s has no effect in a stream", name)
        self._reader = RangeReader(options, schema)
        self._plan = StreamPlan(options, self._reader.lost)
        self._is_start_kept = False

    def initialOffset(self) -> dict[str, object]:  # noqa: N802 (Spark's name)
        """Where the stream begins: what `stateLocation` keeps.

        Raises ValueError when the starting offsets do not fit the partitions, UnknownTopicOrPartition.
        """
        return self._plan.first().to_json()

    def latestOffset(self) -> dict[str, object]:  # type: ignore[override]  # noqa: N802 (as PySpark 4.1 has it)
        """Where the log ends now. Keeps the start first: one that is resolved later could lie behind it."""
        if not self._is_start_kept:
            self._plan.first()
            self._is_start_kept = True
        return self._plan.ends().latest.to_json()

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[InputPartition]:
        """The tasks from one offset to another.

        Raises OffsetOutOfRange where partitions are gone or begin again and failOnDataLoss is set.
        """
        return self._plan.tasks(StreamOffsets.from_json(start), StreamOffsets.from_json(end))

    def commit(self, end: dict[str, object]) -> None:
        """Do nothing: Spark's checkpoint has the offsets, and no group is told."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The Arrow batches of one task, decoded as they are asked for."""
        return self._reader.read(partition)
