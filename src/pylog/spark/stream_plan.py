"""Where a stream begins, where it ends at the moment, and the tasks between two of its offsets: on the driver's host.

Spark 4 keeps the first offsets of a Python source nowhere, and asks for them again when the first batch fails. They are
others then, where records were deleted or partitions added meanwhile. So the end of the first batch, which Spark does
keep, has them in it (`first`): a batch that is run again reads what it was planned to read. A start at `latest` moves
before there is a first batch, too: `stateLocation` keeps it (`first_offsets`).
Source: KafkaMicroBatchStream.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from pylog.errors import UnknownTopicOrPartition
from pylog.record import TopicPartition
from pylog.spark.first_offsets import FirstOffsets
from pylog.spark.options.limits import LATEST, AtOffset
from pylog.spark.options.read import ReadOptions
from pylog.spark.options.selection import Assign, Subscribe
from pylog.spark.place import SourceLog, place_of
from pylog.spark.ranges import check_topic_ids, resolve
from pylog.spark.stream_offsets import StreamOffsets, between
from pylog.spark.tasks import Task, tasks


@dataclass(frozen=True, slots=True)
class StreamEnds:
    """The partitions of one moment: where they begin and end, and the ids of their topics."""

    of: Mapping[TopicPartition, tuple[int, int]]
    topic_ids: Mapping[str, UUID]

    @property
    def latest(self) -> StreamOffsets:
        """Where they end."""
        return StreamOffsets({key: last for key, (_, last) in self.of.items()}, self.topic_ids)


class StreamPlan:
    """The planning of one stream."""

    def __init__(self, options: ReadOptions, lost: Callable[[str], None]) -> None:
        """`lost` is told what was to be read and is not there; it fails or warns."""
        self._options = options
        self._lost = lost

    @property
    def place(self) -> SourceLog:
        """Where the records come from."""
        return place_of(self._options)

    def first(self) -> StreamOffsets:
        """Where the stream begins. With `stateLocation` the same answer each time.

        Raises ValueError when the starting offsets do not fit the partitions, UnknownTopicOrPartition, and
        OffsetOutOfRange.
        """
        location = self._options.state_location
        if location is None:
            return self._resolved()
        kept = FirstOffsets(location, _read_in_words(self._options))
        known = kept.load()
        if known is None:
            known = self._resolved()
            kept.keep(known)
        return known

    def ends(self) -> StreamEnds:
        """The partitions that are there now. Those that are missing are losses, which `tasks` tells."""
        for _ in range(2):
            selected = self.place.select(self._options.selection)
            with suppress(UnknownTopicOrPartition):
                return StreamEnds(self.place.ends(selected.partitions, self._options.isolation), selected.topic_ids)
        raise UnknownTopicOrPartition(
            f"topics of {self._options.where} come and go while they are looked at; start the query again"
        )

    def tasks(self, start: StreamOffsets, end: StreamOffsets) -> Sequence[Task]:
        """The tasks from one offset to another; that of a first batch has its start in it.

        Raises OffsetOutOfRange where partitions are gone or begin again and failOnDataLoss is set.
        """
        if start == end:
            return []
        begun = start if end.first is None else end.first
        anew = {
            key
            for key in end.offsets
            if key not in begun.offsets or begun.is_other_topic(key.topic, end.topic_ids.get(key.topic))
        }
        there = self.ends().of if anew else {}
        batch = between(begun, end, {key: there[key][0] for key in anew & there.keys()})
        for loss in batch.losses:
            self._lost(loss)
        return tasks(batch.ranges, end.topic_ids, self._options)

    def _resolved(self) -> StreamOffsets:
        options, place = self._options, self.place
        selected = place.select(options.selection)
        if selected.missing:
            raise UnknownTopicOrPartition(selected.missing[0])
        check_topic_ids(selected.topic_ids, options.starting)
        ends = place.ends(selected.partitions, options.isolation)
        resolved = resolve(
            ends, options.starting, AtOffset(LATEST), no_match=options.no_match, offset_for_time=place.offset_for_time
        )
        for loss in resolved.losses:
            self._lost(loss)
        return StreamOffsets({one.topic_partition: one.start for one in resolved.ranges}, selected.topic_ids)


def _read_in_words(options: ReadOptions) -> str:
    selection = options.selection
    if isinstance(selection, Assign):
        what = "assign " + ",".join(f"{topic}-{partition}" for topic, partition in selection.partitions)
    elif isinstance(selection, Subscribe):
        what = "subscribe " + ",".join(selection.topics)
    else:
        what = f"subscribePattern {selection.pattern}"
    return f"{what} in {options.where.name}"
