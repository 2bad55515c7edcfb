"""Reads the ranges of a task as Spark's Arrow batches: what batches and streams run on executors."""

import logging
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from pylog.errors import OffsetOutOfRange, UnknownTopicId, UnknownTopicOrPartition
from pylog.spark.options.read import ReadOptions
from pylog.spark.place import place_of
from pylog.spark.schema import ColumnShaper
from pylog.spark.tasks import LogRange, Task

_log: Final = logging.getLogger("pylog.spark")


class RangeReader:
    """Reads ranges. Pickled with its reader, from the driver's host to the executors."""

    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema

    def read(self, task: InputPartition) -> Iterator[pa.RecordBatch]:
        """The Arrow batches of a task, decoded as they are asked for.

        Raises OffsetOutOfRange where records that were planned are gone and failOnDataLoss is set.
        """
        # Spark plans one partition without ranges where there were none.
        for wanted in task.ranges if isinstance(task, Task) else ():
            yield from self._batches(wanted)

    def lost(self, loss: str) -> None:
        """Fail or warn, as failOnDataLoss says."""
        if self._options.fail_on_data_loss:
            raise OffsetOutOfRange(
                f"{loss}; some data may have been lost; to go on with what is there, set failOnDataLoss to 'false'"
            )
        _log.warning("%s; some data may have been lost", loss)

    def _batches(self, wanted: LogRange) -> Iterator[pa.RecordBatch]:
        place = place_of(self._options)
        shape = ColumnShaper(self._schema, wanted)
        position = wanted.start
        try:
            view = place.partition(wanted)
            while view is not None and position < wanted.end:
                try:
                    for batch in place.columns(view, position, wanted.end, shape.columns, self._options.isolation):
                        yield shape.batch(batch)
                        position = shape.next_offset
                    break
                except OffsetOutOfRange as error:
                    start = place.start_of(view)
                    if start <= position:
                        raise
                    self.lost(str(error))
                    position = start
            if view is not None and position >= wanted.end:
                return
            end = None if view is None else place.end_of(view)
        except (UnknownTopicOrPartition, UnknownTopicId):
            end = None
        if end is None:
            self.lost(f"topic {wanted.topic} was deleted after the read was planned")
        elif end < wanted.end:
            self.lost(f"{wanted} now ends at offset {end}, {wanted.end} was planned")
