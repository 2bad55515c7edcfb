"""The stream reader: how far each batch of a stream goes, and what its tasks read.

Spark makes two of it. One lives on the driver's host as long as the query runs, and plans; the other is pickled to the
executors, and reads. So nothing that planning has learned is there when a task reads.

    initialOffset   once, and again after a failure in the first batch: then what was kept (`first_offsets`)
    latestOffset    the end of the next batch, within the limits; the start where there is none
    partitions      the tasks of a batch; losses are said here, once a batch
    commit          nothing: Spark's checkpoint has the offsets

With Trigger.AvailableNow the ends of the moment bound all batches, and limits cut these into several.
Source: KafkaMicroBatchStream.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

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

from pylog.errors import UnknownTopicOrPartition
from pylog.record import TopicPartition
from pylog.runtime.clock import SystemClock
from pylog.spark.first_offsets import FirstOffsets
from pylog.spark.options.limits import LATEST, AtOffset
from pylog.spark.options.read import ReadOptions, check_stream
from pylog.spark.options.selection import Assign, Subscribe
from pylog.spark.place import Place, place_of
from pylog.spark.range_reader import RangeReader
from pylog.spark.ranges import check_topic_ids, resolve
from pylog.spark.stream_offsets import Delay, StreamOffsets, between, bounded, most_offsets
from pylog.spark.tasks import tasks

_log: Final = logging.getLogger("pylog.spark")


@dataclass(frozen=True, slots=True)
class _Ends:
    """The partitions of one moment: where they begin and end, and the ids of their topics."""

    of: Mapping[TopicPartition, tuple[int, int]]
    topic_ids: Mapping[str, UUID]

    @property
    def latest(self) -> StreamOffsets:
        return StreamOffsets({key: last for key, (_, last) in self.of.items()}, self.topic_ids)


class PylogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a log as a stream."""

    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        """Raises ValueError for what a stream cannot do."""
        for name in check_stream(options):
            _log.warning("option %s has no effect in a stream", name)
        self._options = options
        self._reader = RangeReader(options, schema)
        self._delay = Delay(options.trigger)
        self._target: _Ends | None = None
        self._latest: StreamOffsets | None = None

    # --- on the driver's host --------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        """Where the stream begins. With `stateLocation` the same answer each time.

        Raises ValueError when the starting offsets do not fit the partitions, UnknownTopicOrPartition.
        """
        kept = self._kept()
        known = kept.load() if kept is not None else None
        if known is not None:
            return known.to_json()
        first = self._first_offsets()
        if kept is not None:
            kept.keep(first)
        return first.to_json()

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
        self._target = self._ends()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        """The end of the next batch. It is `start` where nothing has come, or too little (`minOffsetsPerTrigger`).

        Trigger.Once asks with ReadAllAvailable, and gets all there is.
        """
        begun = StreamOffsets.from_json(start)
        ends = self._ends() if self._target is None else self._target
        latest = ends.latest
        self._latest = latest
        begins = _begins(begun, ends)
        if self._target is not None:
            latest = _not_before(latest, begins)
        if isinstance(limit, ReadAllAvailable):
            return latest.to_json()
        waiting = {key: max(0, last - begins[key]) for key, last in latest.offsets.items()}
        if self._target is None and self._delay.waits(sum(waiting.values()), SystemClock().tick_ms()):
            return start
        trigger = self._options.trigger
        sizes = self._place.mean_sizes(ends.of) if trigger.max_bytes is not None else {}
        most = most_offsets(trigger, waiting, sizes)
        if most is None:
            return latest.to_json()
        return StreamOffsets(bounded(begins, latest.offsets, most), ends.topic_ids).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 (Spark's name)
        """The ends as `latestOffset` last saw them: what is behind them is the lag, in the query's progress."""
        return None if self._latest is None else self._latest.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks from one offset to another.

        Raises OffsetOutOfRange where partitions are gone or begin anew and failOnDataLoss is set.
        """
        begun, ended = StreamOffsets.from_json(start), StreamOffsets.from_json(end)
        anew = {
            key
            for key in ended.offsets
            if key not in begun.offsets or begun.is_other_topic(key.topic, ended.topic_ids.get(key.topic))
        }
        first = self._ends().of if anew else {}
        batch = between(begun, ended, {key: first[key][0] for key in anew & first.keys()})
        for loss in batch.losses:
            self._reader.lost(loss)
        return tasks(batch.ranges, ended.topic_ids, self._options)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: Spark's checkpoint has the offsets, and no group is told."""

    @property
    def _place(self) -> Place:
        return place_of(self._options)

    def _ends(self) -> _Ends:
        """The partitions that are there now. Those that are missing are losses, which `partitions` tells."""
        for _ in range(2):
            selected = self._place.select(self._options.selection)
            with suppress(UnknownTopicOrPartition):
                return _Ends(self._place.ends(selected.partitions, self._options.isolation), selected.topic_ids)
        raise UnknownTopicOrPartition(
            f"topics of {self._options.where} come and go while they are looked at; start the query again"
        )

    def _first_offsets(self) -> StreamOffsets:
        options, place = self._options, self._place
        selected = place.select(options.selection)
        if selected.missing:
            raise UnknownTopicOrPartition(selected.missing[0])
        check_topic_ids(selected.topic_ids, options.starting)
        ends = place.ends(selected.partitions, options.isolation)
        resolved = resolve(
            ends, options.starting, AtOffset(LATEST), no_match=options.no_match, offset_for_time=place.offset_for_time
        )
        for loss in resolved.losses:
            self._reader.lost(loss)
        return StreamOffsets({one.topic_partition: one.start for one in resolved.ranges}, selected.topic_ids)

    def _kept(self) -> FirstOffsets | None:
        location = self._options.state_location
        return None if location is None else FirstOffsets(location, _read_in_words(self._options))

    # --- on executors ----------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The Arrow batches of one task, decoded as they are asked for."""
        return self._reader.read(partition)


def _begins(begun: StreamOffsets, ends: _Ends) -> dict[TopicPartition, int]:
    """Where each partition of now is read from: where it begins, if it is new, or its topic was made again."""
    return {
        key: first if begun.is_other_topic(key.topic, ends.topic_ids.get(key.topic)) else begun.offsets.get(key, first)
        for key, (first, _) in ends.of.items()
    }


def _not_before(latest: StreamOffsets, begins: Mapping[TopicPartition, int]) -> StreamOffsets:
    # A start that was resolved later than the target may lie behind it.
    return StreamOffsets({key: max(last, begins[key]) for key, last in latest.offsets.items()}, latest.topic_ids)


def _read_in_words(options: ReadOptions) -> str:
    selection = options.selection
    if isinstance(selection, Assign):
        what = "assign " + ",".join(f"{topic}-{partition}" for topic, partition in selection.partitions)
    elif isinstance(selection, Subscribe):
        what = "subscribe " + ",".join(selection.topics)
    else:
        what = f"subscribePattern {selection.pattern}"
    return f"{what} in {options.where}"
