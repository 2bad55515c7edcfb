"""The batch reader: plans ranges of offsets, and reads them.

Spark plans a Python source once per `load()`: a DataFrame keeps the end it saw first, a new one sees the new end.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import Final
from uuid import UUID

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from pylog.errors import OffsetOutOfRange
from pylog.opening import open as open_log
from pylog.record import TopicPartition
from pylog.spark.directory import partition_of, selected
from pylog.spark.options.read import ReadOptions
from pylog.spark.ranges import OffsetRange, resolve, split
from pylog.spark.schema import LogRange, Shape

_log: Final = logging.getLogger(__name__)

BATCH_ROWS: Final = 10_000
"""Rows of one Arrow batch: the cost of a batch is lost among them, and a worker holds few megabytes."""


class PylogReader(DataSourceReader):
    """Plans a read on the driver's host; pickled to the executors, it reads there."""

    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """One range per task, in order of topic, partition and offset; none when there is nothing to read.

        Raises ValueError when limits and partitions do not fit together, OffsetOutOfRange when offsets that were asked
        for are gone and failOnDataLoss is set.
        """
        options = self._options
        with open_log(options.path, mode="read") as log:
            views = selected(log, options)
            available = {at: (view.start_offset, view.high_watermark) for at, view in views.items()}

            def offset_for_time(at: TopicPartition, timestamp_ms: int) -> int | None:
                offset = views[at].offset_for_time(timestamp_ms)
                # The log may have grown since `available` was asked: what came later is not part of this read.
                return None if offset is None or offset >= available[at][1] else offset

            resolved = resolve(
                available, options.starting, options.ending, no_match=options.no_match, offset_for_time=offset_for_time
            )
            for loss in resolved.losses:
                self._lost(loss)
            pieces = split(
                resolved.ranges,
                min_partitions=options.min_partitions,
                max_records_per_partition=options.max_records_per_partition,
            )
            ids = {at.topic: log.topic(at.topic).id for at in views}
        return [_log_range(piece, ids[piece.topic_partition.topic]) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The Arrow batches of one range, decoded as they are asked for."""
        # Spark plans one partition without a range where `partitions` gave none.
        return self._batches(partition) if isinstance(partition, LogRange) else iter(())

    def _batches(self, wanted: LogRange) -> Iterator[pa.RecordBatch]:
        view = partition_of(self._options.path, wanted)
        if view is None:
            self._lost(f"topic {wanted.topic} was deleted after the read was planned: some data may have been lost")
            return
        shape = Shape(self._schema, wanted)
        position = wanted.start
        while position < wanted.end:
            try:
                for batch in view.columns(position, wanted.end, columns=shape.columns, max_rows=BATCH_ROWS):
                    yield shape.batch(batch)
                    position = shape.next_offset
                break
            except OffsetOutOfRange as error:
                start = view.start_offset
                if start <= position:
                    raise
                self._lost(str(error))
                position = start
        if (end := view.high_watermark) < wanted.end:
            name = f"{wanted.topic}-{wanted.partition}"
            self._lost(f"{name} now ends at offset {end}, {wanted.end} was planned: some data may have been lost")

    def _lost(self, loss: str) -> None:
        if self._options.fail_on_data_loss:
            raise OffsetOutOfRange(loss)
        _log.warning("%s", loss)


def _log_range(piece: OffsetRange, topic_id: UUID) -> LogRange:
    topic, partition = piece.topic_partition
    return LogRange(topic, topic_id, partition, piece.start, piece.end)
