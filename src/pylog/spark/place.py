"""Where the records come from: log directories, or servers. Batches and streams go this one way, on the driver's host
and in tasks.

    select           the partitions that are meant, and the ids of their topics
    ends             where they begin and end
    offset_for_time  the first offset of a time
    mean_sizes       bytes of a record, on average
    partition        one partition
    columns          its records from one offset to another, as Arrow batches: what a task reads

Directories are read without a lock, so their owner may write meanwhile. Servers are asked again after errors that may
pass.
Each process opens a place once (`place_of`), and keeps it between tasks.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar, cast
from uuid import UUID

import pyarrow as pa

from pylog.errors import UnknownTopicOrPartition
from pylog.record import TopicPartition
from pylog.runtime.retries import retried
from pylog.spark.options.read import Isolation, ReadOptions, Retries
from pylog.spark.options.selection import Assign, Selection, Subscribe
from pylog.spark.options.where import GivenDirectories, Where
from pylog.spark.tasks import BATCH_ROWS, LogRange

if TYPE_CHECKING:
    from pylog.handles.connected_log import ConnectedLog, ConnectedPartition
    from pylog.handles.views import PartitionView
    from pylog.log import Log

_PLACES_MAX: Final = 8
_NO_ID: Final = UUID(int=0)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SelectedPartitions:
    """The partitions that a selection means now, the ids of their topics where they have any, and what is missing."""

    partitions: tuple[TopicPartition, ...]
    topic_ids: Mapping[str, UUID]
    missing: tuple[str, ...] = field(default=())
    """A sentence for each topic or partition that was named and is not there."""


class SourceLog:
    """A log that is read. Not thread-safe."""

    def __init__(self, where: Where, retries: Retries) -> None:
        self._where = where
        self._retries = retries
        self._log: Log | ConnectedLog | None = None

    def close(self) -> None:
        """Close what is open. The next call opens it again."""
        log, self._log = self._log, None
        if log is not None:
            log.close()

    def select(self, selection: Selection) -> SelectedPartitions:
        """The partitions of a selection. Raises what opening the log raises."""
        return self._ask(lambda log: _selected(log, selection, str(self._where)))

    def ends(self, partitions: Iterable[TopicPartition], isolation: Isolation) -> dict[TopicPartition, tuple[int, int]]:
        """The first offset of each partition, and the one behind the last that a reader sees.

        Raises UnknownTopicOrPartition, and KafkaStorage where a partition is in a directory that was not named.
        """
        keys = list(partitions)

        def ask(log: "Log | ConnectedLog") -> dict[TopicPartition, tuple[int, int]]:
            if not keys:
                return {}
            first = log.admin.list_offsets(dict.fromkeys(keys, "earliest"))
            last = log.admin.list_offsets(dict.fromkeys(keys, "latest"), isolation_level=isolation)
            return {key: (first[key].offset, last[key].offset) for key in keys}

        return self._ask(ask)

    def offset_for_time(self, key: TopicPartition, timestamp_ms: int) -> int | None:
        """The first offset whose timestamp is at or after a time, or None."""
        offset = self._ask(lambda log: log.admin.list_offsets({key: timestamp_ms}))[key].offset
        return offset if offset >= 0 else None

    def mean_sizes(self, ends: Mapping[TopicPartition, tuple[int, int]]) -> dict[TopicPartition, float]:
        """Bytes that an offset takes in the log, on average over a whole partition: an estimate."""
        found: dict[TopicPartition, int] = {}
        for directory in self._ask(lambda log: log.admin.describe_log_dirs()):
            for key, size in directory.partitions.items():
                found[key] = max(size, found.get(key, 0))
        return {key: found.get(key, 0) / max(1, last - first) for key, (first, last) in ends.items()}

    def partition(self, wanted: LogRange) -> "PartitionView | ConnectedPartition | None":
        """The partition that was planned, or None where its topic is gone. What has gone stale is opened again."""
        for _ in range(2):
            found = self._ask(lambda log: _partition(log, wanted))
            if found is not None:
                return found
            self.close()
        return None

    def columns(
        self,
        view: "PartitionView | ConnectedPartition",
        start: int,
        end: int,
        names: Sequence[str],
        isolation: Isolation,
    ) -> Iterator[pa.RecordBatch]:
        """The records of [start, end), decoded as they are asked for. Raises OffsetOutOfRange, CorruptBatch,
        UnknownTopicOrPartition and UnknownTopicId (the topic is gone), and what else `columns` of both raises.
        """
        if not isinstance(self._where, GivenDirectories):
            return cast("ConnectedPartition", view).columns(
                start,
                end,
                columns=names,
                max_rows=BATCH_ROWS,
                isolation_level=isolation,
                timeout_ms=self._retries.poll_timeout_ms,
            )
        local = cast("PartitionView", view)
        return local.columns(start, end, columns=names, max_rows=BATCH_ROWS, isolation_level=isolation)

    def end_of(self, view: "PartitionView | ConnectedPartition") -> int:
        """Where a partition ends now."""
        return self._ask(lambda _: view.high_watermark)

    def start_of(self, view: "PartitionView | ConnectedPartition") -> int:
        """Where a partition begins now."""
        return self._ask(lambda _: view.start_offset)

    def _ask(self, question: "Callable[[Log | ConnectedLog], T]") -> T:
        if isinstance(self._where, GivenDirectories):
            return question(self._opened())
        return retried(lambda: question(self._opened()), most=self._retries.most, interval_ms=self._retries.interval_ms)

    def _opened(self) -> "Log | ConnectedLog":
        # A process of Spark's reads from one of both: it loads no more than that.
        if self._log is None:
            if isinstance(self._where, GivenDirectories):
                from pylog.log import open_lazily

                self._log = open_lazily(self._where.paths, mode="read")
            else:
                from pylog.handles.connected_log import connect

                self._log = connect(self._where.bootstrap_servers, config=dict(self._where.config))
        return self._log


_places: dict[tuple[Where, Retries], SourceLog] = {}


def place_of(options: ReadOptions) -> SourceLog:
    """This process's place of these options. The least recently used are closed."""
    key = options.where, options.retries
    _places[key] = _places.pop(key) if key in _places else SourceLog(*key)
    while len(_places) > _PLACES_MAX:
        _places.pop(next(iter(_places))).close()
    return _places[key]


def _selected(log: "Log | ConnectedLog", selection: Selection, where: str) -> SelectedPartitions:
    partitions: list[TopicPartition] = []
    ids: dict[str, UUID] = {}
    missing = []
    for name, numbers in _named(log, selection).items():
        try:
            topic = log.admin.topic(name)
        except UnknownTopicOrPartition:
            known = ", ".join(log.topics()) or "none"
            missing.append(f"no topic '{name}' in {where}; there are: {known}")
            continue
        there = sorted(part.partition for part in topic.partitions)
        for number in there if numbers is None else numbers:
            if number in there:
                partitions.append(TopicPartition(name, number))
            else:
                missing.append(f"no partition {number}: topic '{name}' in {where} has {len(there)}")
        if topic.id != _NO_ID:
            ids[name] = topic.id
    return SelectedPartitions(tuple(partitions), ids, tuple(missing))


def _named(log: "Log | ConnectedLog", selection: Selection) -> dict[str, list[int] | None]:
    """The topics that are meant, and which of their partitions; None: all."""
    if isinstance(selection, Assign):
        found: dict[str, list[int] | None] = {}
        for topic, number in selection.partitions:
            numbers = found.get(topic) or []
            found[topic] = [*numbers, number]
        return found
    names = selection.topics if isinstance(selection, Subscribe) else selection.matching(log.topics())
    return dict.fromkeys(names)


def _partition(log: "Log | ConnectedLog", wanted: LogRange) -> "PartitionView | ConnectedPartition | None":
    try:
        topic = log.topic(wanted.topic)
    except UnknownTopicOrPartition:
        return None
    if wanted.topic_id is not None and wanted.topic_id != topic.id:
        return None
    return topic[wanted.partition] if wanted.partition < len(topic) else None
