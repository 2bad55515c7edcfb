"""The stream reader of PySpark 4.2 and newer: how far each batch of a stream goes, and what its tasks read.

Spark makes two of it. One lives on the driver's host as long as the query runs, and plans; the other is pickled to the
executors, and reads. So nothing that planning has learned is there when a task reads.

    initialOffset   before the first batch; and again after a failure in it, where its own start is used (`stream_plan`)
    latestOffset    the end of the next batch, within the limits; the start without a next batch
    partitions      the tasks of a batch; losses are said here, once a batch
    commit          nothing: Spark's checkpoint has the offsets

With Trigger.AvailableNow the ends of the moment bound all batches, and limits cut these into several.
Source: KafkaMicroBatchStream.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from pylog.errors import PylogError
from pylog.record import TopicPartition
from pylog.runtime.clock import SystemClock
from pylog.spark.options.read import ReadOptions, check_stream
from pylog.spark.range_reader import RangeReader
from pylog.spark.stream_offsets import Delay, StreamOffsets, bounded, most_offsets
from pylog.spark.stream_plan import StreamEnds, StreamPlan

_log: Final = logging.getLogger("pylog.spark")


class PylogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a log as a stream."""

    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        """Raises ValueError for what a stream cannot do."""
        for name in check_stream(options):
            _log.warning("option %s has no effect in a stream", name)
        self._options = options
        self._reader = RangeReader(options, schema)
        self._plan = StreamPlan(options, self._reader.lost)
        self._delay = Delay(options.trigger)
        self._target: StreamEnds | None = None
        self._latest: StreamOffsets | None = None
        self._first: dict[str, object] = {}
        self._refusal: Exception | None = None

    # --- on the driver's host --------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, object]:  # noqa: N802 (Spark's name)
        """Where the stream begins. With `stateLocation` the same answer each time.

        An error (the starting offsets do not fit the partitions, a topic is missing) is raised by `latestOffset`: Spark
        also asks here when it runs the first batch again, which needs no answer.
        """
        try:
            self._first = self._plan.first().to_json()
        except (PylogError, ValueError) as error:
            self._refusal = error
        return self._first

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 (Spark's name)
        """The limit that Spark hands to `latestOffset`. It knows one kind at a time; `latestOffset` goes by all."""
        trigger = self._options.trigger
        if trigger.max_offsets is not None:
            return ReadMaxRows(trigger.max_offsets)
        if trigger.max_bytes is not None:
            return ReadMaxBytes(trigger.max_bytes)
        return ReadAllAvailable() if trigger.min_offsets is None else ReadMinRows(trigger.min_offsets)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 (Spark's name)
        """Let the batches of this run end at the ends of now."""
        self._target = self._plan.ends()

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:  # noqa: N802 (Spark's name)
        """The end of the next batch. It is `start` where nothing has come, or too little (`minOffsetsPerTrigger`).

        Trigger.Once asks with ReadAllAvailable, and gets all there is. Raises what `initialOffset` has found.
        """
        begun = StreamOffsets.from_json(start)
        is_first = start == self._first
        if is_first and self._refusal is not None:
            raise self._refusal
        end = self._end(begun, limit)
        if (end.offsets, end.topic_ids) == (begun.offsets, begun.topic_ids):
            return start
        return (replace(end, first=begun) if is_first else end).to_json()

    def _end(self, begun: StreamOffsets, limit: ReadLimit) -> StreamOffsets:
        ends = self._plan.ends() if self._target is None else self._target
        latest = ends.latest
        self._latest = latest
        begins = _begins(begun, ends)
        if self._target is not None:
            latest = _not_before(latest, begins)
        if isinstance(limit, ReadAllAvailable):
            return latest
        waiting = {key: max(0, last - begins[key]) for key, last in latest.offsets.items()}
        if self._target is None and self._delay.waits(sum(waiting.values()), SystemClock().tick_ms()):
            return begun
        trigger = self._options.trigger
        sizes = self._plan.place.mean_sizes(ends.of) if trigger.max_bytes is not None else {}
        most = most_offsets(trigger, waiting, sizes)
        if most is None:
            return latest
        return StreamOffsets(bounded(begins, latest.offsets, most), ends.topic_ids)

    def reportLatestOffset(self) -> dict[str, object] | None:  # noqa: N802 (Spark's name)
        """The ends as `latestOffset` last saw them: what is behind them is the lag, in the query's progress."""
        return None if self._latest is None else self._latest.to_json()

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[InputPartition]:
        """The tasks from one offset to another.

        Raises OffsetOutOfRange where partitions are gone or begin again and failOnDataLoss is set.
        """
        return self._plan.tasks(StreamOffsets.from_json(start), StreamOffsets.from_json(end))

    def commit(self, end: dict[str, object]) -> None:
        """Do nothing: Spark's checkpoint has the offsets, and no group is told."""

    # --- on executors ----------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The Arrow batches of one task, decoded as they are asked for."""
        return self._reader.read(partition)


def _begins(begun: StreamOffsets, ends: StreamEnds) -> dict[TopicPartition, int]:
    """Where each partition of now is read from: where it begins, if it is new, or its topic was made again."""
    return {
        key: first if begun.is_other_topic(key.topic, ends.topic_ids.get(key.topic)) else begun.offsets.get(key, first)
        for key, (first, _) in ends.of.items()
    }


def _not_before(latest: StreamOffsets, begins: Mapping[TopicPartition, int]) -> StreamOffsets:
    # A start that was resolved later than the target may lie behind it.
    return StreamOffsets({key: max(last, begins[key]) for key, last in latest.offsets.items()}, latest.topic_ids)
