"""The common part of archive and cdc: a folder with commits, and a run that reads on behind the last of them.

last_commit  the last commit of the folder, with what a killed run has left in order again
plan         what there is to read since, as tasks in the order of offsets
Plan.rounds  the tasks of one commit after another, and the offsets behind each
tasks_at_once  how many tasks Spark runs at a time
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from pylog.errors import UnknownTopicOrPartition
from pylog.record import TopicPartition
from pylog.spark.folder import Folder
from pylog.spark.options.read import ReadOptions, parse
from pylog.spark.options.selection import Subscribe
from pylog.spark.pipelines.commits import Commit, Commits
from pylog.spark.pipelines.where import LogPlace, options_of
from pylog.spark.place import SourceLog
from pylog.spark.range_reader import RangeReader
from pylog.spark.ranges import OffsetRange
from pylog.spark.sink.staging import now_ms
from pylog.spark.stream_offsets import StreamOffsets, between
from pylog.spark.tasks import BATCH_ROWS, Task, tasks

_MANY: Final = 1 << 14
_TASK_BYTES: Final = 64 << 20
"""Of the log, about: what a task reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The tasks that one commit reads."""

    tasks: Sequence[Task]
    offsets: StreamOffsets
    """Where the next one begins."""
    size: int
    """In offsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """The plan of a run: where it begins, and its tasks in the order of offsets."""

    begun: StreamOffsets
    partitions: dict[str, int]
    """How many each topic has."""
    tasks: Sequence[Task]
    total: int
    """In offsets."""

    def rounds(self, count: int) -> Iterator[Round]:
        """The commits, of `count` tasks each."""
        offsets = self.begun
        for first in range(0, len(self.tasks), count):
            some = self.tasks[first : first + count]
            ranges = [one for task in some for one in task.ranges]
            ends = {TopicPartition(one.topic, one.partition): one.end for one in ranges}
            offsets = StreamOffsets({**offsets.offsets, **ends}, offsets.topic_ids)
            yield Round(tasks=some, offsets=offsets, size=sum(one.end - one.start for one in ranges))


def read_options(log: LogPlace, topic: str, *, fail_on_data_loss: bool) -> ReadOptions:
    """The committed records of a topic (several with commas). Raises ValueError."""
    loss = "true" if fail_on_data_loss else "false"
    return parse({
        **options_of(log), "subscribe": topic, "includeHeaders": "true", "failOnDataLoss": loss,
        "kafka.isolation.level": "read_committed",
    })  # fmt: skip


def tasks_at_once(spark: SparkSession) -> int:
    """The number of tasks that Spark runs at a time: it cuts a range into so many pieces. A session behind Spark
    Connect has no context with this number.
    """
    return spark.range(_MANY).select(sql.spark_partition_id()).distinct().count()


def topics_of(options: ReadOptions) -> list[str]:
    """The topics that are read, in order."""
    assert isinstance(options.selection, Subscribe), "the topics are named"
    return sorted(options.selection.topics)


def last_commit(commits: Commits, folder: Folder, read: str) -> Commit | None:
    """The last commit of the folder, whose files are in their places then. What a killed run has left and not committed
    is removed after a week. `read`: what the commits have to be of.

    Raises ValueError where they are of something else, StorageError where they cannot be read, OSError.
    """
    last = commits.last()
    if last is not None:
        if last.read != read:
            raise ValueError(f"{folder} is {commits.kind} of {last.read}, not of {read}: give each a folder of its own")
        commits.settle(last)
    commits.remove_left(now_ms())
    return last


def plan(options: ReadOptions, last: Commit | None, reader: RangeReader) -> RunPlan:
    """The plan for the records behind the last commit.

    Raises UnknownTopicOrPartition, and OffsetOutOfRange where records are gone and failOnDataLoss is set.
    """
    with closing(SourceLog(options.where, options.retries)) as place:
        selected = place.select(options.selection)
        if selected.missing:
            raise UnknownTopicOrPartition(selected.missing[0])
        ends = place.ends(selected.partitions, options.isolation)
        sizes = place.mean_sizes(ends)
    first = {key: start for key, (start, _) in ends.items()}
    latest = StreamOffsets({key: end for key, (_, end) in ends.items()}, selected.topic_ids)
    batch = between(StreamOffsets(first, selected.topic_ids) if last is None else last.offsets, latest, first)
    for loss in batch.losses:
        reader.lost(loss)
    begins = dict(latest.offsets) | {one.topic_partition: one.start for one in batch.ranges}
    partitions: dict[str, int] = {}
    for key in selected.partitions:
        partitions[key.topic] = max(key.partition + 1, partitions.get(key.topic, 0))
    cut = replace(options, max_records_per_partition=_records_of_task(batch.ranges, sizes))
    return RunPlan(
        begun=StreamOffsets(begins, selected.topic_ids),
        partitions=partitions,
        tasks=tasks(batch.ranges, selected.topic_ids, cut),
        total=sum(one.size for one in batch.ranges),
    )


def _records_of_task(ranges: Sequence[OffsetRange], sizes: dict[TopicPartition, float]) -> int:
    """The number of offsets that a task reads: some `_TASK_BYTES` of the log."""
    total = sum(one.size for one in ranges)
    size = sum(one.size * sizes[one.topic_partition] for one in ranges)
    return max(1, int(total * _TASK_BYTES / size)) if size else BATCH_ROWS
