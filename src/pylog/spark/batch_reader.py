"""The batch reader: plans ranges of offsets, and reads them.

Spark plans a Python source once per `load()`: a DataFrame keeps the end it saw first, a new one sees the new end.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from pylog.errors import UnknownTopicOrPartition
from pylog.record import TopicPartition
from pylog.spark.options.read import ReadOptions, check_batch
from pylog.spark.place import place_of
from pylog.spark.range_reader import RangeReader
from pylog.spark.ranges import check_topic_ids, resolve
from pylog.spark.tasks import tasks

_log: Final = logging.getLogger("pylog.spark")


class PylogReader(DataSourceReader):
    """Plans a read on the driver's host; pickled to the executors, it reads there."""

    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        """Raises ValueError for what a batch cannot do."""
        for name in check_batch(options):
            _log.warning("option %s has no effect in a batch read", name)
        self._options = options
        self._reader = RangeReader(options, schema)

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks, in order of topic, partition and offset; none when there is nothing to read.

        Raises ValueError when limits and partitions do not fit together, OffsetOutOfRange when offsets that were asked
        for are gone and failOnDataLoss is set, UnknownTopicOrPartition.
        """
        options, place = self._options, place_of(self._options)
        selected = place.select(options.selection)
        if selected.missing:
            raise UnknownTopicOrPartition(selected.missing[0])
        check_topic_ids(selected.topic_ids, options.starting, options.ending)
        ends = place.ends(selected.partitions, options.isolation)

        def offset_for_time(at: TopicPartition, timestamp_ms: int) -> int | None:
            offset = place.offset_for_time(at, timestamp_ms)
            # The log may have grown since the ends were asked for: what came later is not part of this read.
            return None if offset is None or offset >= ends[at][1] else offset

        resolved = resolve(
            ends, options.starting, options.ending, no_match=options.no_match, offset_for_time=offset_for_time
        )
        for loss in resolved.losses:
            self._reader.lost(loss)
        return tasks(resolved.ranges, selected.topic_ids, options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The Arrow batches of one task, decoded as they are asked for."""
        return self._reader.read(partition)
