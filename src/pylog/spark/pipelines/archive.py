"""Archives the records of a topic as Parquet files, a folder for each day of their timestamps.

The driver plans ranges of offsets as a batch read does. Executors read them from the log and write the files with
pyarrow; only their names come back. A commit (`commits`) covers two tasks for each core. What was committed stays when
the run is killed, and the next run goes on behind it.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final
from uuid import uuid4

from pyspark.sql import SparkSession

from pylog.errors import StorageError, UnknownTopicOrPartition
from pylog.record import TopicPartition
from pylog.spark.columns import COLUMNS
from pylog.spark.folder import Folder
from pylog.spark.options.read import ReadOptions, parse
from pylog.spark.options.selection import Subscribe
from pylog.spark.pipelines.bar import Bar
from pylog.spark.pipelines.commits import STAGED, Commit, Commits, DayFile, Piece
from pylog.spark.pipelines.days import RESULT, ArchiveTasks
from pylog.spark.pipelines.where import LogPlace, options_of
from pylog.spark.place import Place
from pylog.spark.range_reader import RangeReader
from pylog.spark.ranges import OffsetRange
from pylog.spark.schema import arrow_schema, spark_schema
from pylog.spark.stream_offsets import StreamOffsets, between
from pylog.spark.tasks import BATCH_ROWS, Task, tasks

_TASK_BYTES: Final = 64 << 20
"""Of the log, about: what a task reads."""
_ROUND: Final = 2
"""Tasks of one commit, for each that runs at a time: a slow one holds up the others less."""
COMPRESSIONS: Final = ("zstd", "snappy", "gzip", "lz4", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """What one run has archived."""

    records: int
    files: int
    size: int
    """In bytes."""
    commits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What a run has to do: where it begins, and its tasks in the order of offsets."""

    begun: StreamOffsets
    partitions: dict[str, int]
    tasks: list[Task]
    total: int


def archive(
    spark: SparkSession, log: LogPlace, topic: str, to: str, *, compression: str = "zstd",
    fail_on_data_loss: bool = True, progress: bool | None = None,
) -> Archived:  # fmt: skip
    """Archive the committed records of `topic` (several with commas) that the folder `to` does not have yet.

    `to` is a path, or a URI that pyarrow knows, that driver and executors see; it is made where it is missing. One run
    at a time may write there. All columns are kept, headers too. `progress`: whether to show a bar on stderr (None:
    where that is a terminal).

    Raises UnknownTopicOrPartition, ValueError (wrong options; another topic is archived there), StorageError (commits
    that cannot be read), and OffsetOutOfRange in an error of Spark's where records were deleted before they were
    archived and `fail_on_data_loss` is set.
    """
    if compression not in COMPRESSIONS:
        raise ValueError(f"compression is one of {', '.join(COMPRESSIONS)}, got '{compression}'")
    loss = "true" if fail_on_data_loss else "false"
    options = parse({
        **options_of(log), "subscribe": topic, "includeHeaders": "true", "failOnDataLoss": loss,
        "kafka.isolation.level": "read_committed",
    })  # fmt: skip
    folder = Folder(to)
    commits = Commits(folder)
    last = commits.last()
    assert isinstance(options.selection, Subscribe), "the topics are named"
    read = ",".join(sorted(options.selection.topics))
    _check_same(last, read, folder)
    if last is not None:
        commits.settle(last)
    # What a killed run has left and not committed.
    folder.remove(STAGED)
    reader = RangeReader(options, arrow_schema(spark_schema(COLUMNS), COLUMNS))
    plan = _plan(options, last, reader)
    run = ArchiveTasks(reader, (), folder, uuid4().hex, compression)
    made: list[Commit] = []
    done = 0
    with Bar(f"archiving {topic}", progress) as bar:
        bar.show(done, plan.total)
        for some in _rounds(plan.tasks, _ROUND * spark.sparkContext.defaultParallelism):
            before = made[-1] if made else last
            number = 1 if before is None else before.number + 1
            made.append(
                Commit(
                    number=number,
                    archive=uuid4().hex if before is None else before.archive,
                    read=read,
                    run=run.run,
                    offsets=_behind(made[-1].offsets if made else plan.begun, some),
                    partitions=plan.partitions,
                    pieces=_run(spark, replace(run, tasks=tuple(some)), number),
                )
            )
            commits.add(made[-1])
            done += _size(some)
            bar.show(done, plan.total)
    folder.remove(f"{STAGED}/{run.run}")
    files = [file for commit in made for file in commit.files]
    records = sum(commit.records for commit in made)
    return Archived(records=records, files=len(files), size=sum(file.size for file in files), commits=len(made))


def _check_same(last: Commit | None, read: str, folder: Folder) -> None:
    if last is not None and last.read != read:
        raise ValueError(f"{folder} is an archive of {last.read}, not of {read}: give each a folder of its own")


def _plan(options: ReadOptions, last: Commit | None, reader: RangeReader) -> _Plan:
    with closing(Place(options.where, options.retries)) as place:
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
    return _Plan(
        begun=StreamOffsets(begins, selected.topic_ids),
        partitions=partitions,
        tasks=tasks(batch.ranges, selected.topic_ids, cut),
        total=sum(one.size for one in batch.ranges),
    )


def _records_of_task(ranges: Sequence[OffsetRange], sizes: dict[TopicPartition, float]) -> int:
    """How many offsets a task reads: some `_TASK_BYTES` of the log."""
    total = sum(one.size for one in ranges)
    size = sum(one.size * sizes[one.topic_partition] for one in ranges)
    return max(1, int(total * _TASK_BYTES / size)) if size else BATCH_ROWS


def _rounds(some: Sequence[Task], count: int) -> Iterator[Sequence[Task]]:
    for first in range(0, len(some), count):
        yield some[first : first + count]


def _behind(begun: StreamOffsets, done: Sequence[Task]) -> StreamOffsets:
    ends = {TopicPartition(one.topic, one.partition): one.end for task in done for one in task.ranges}
    return StreamOffsets({**begun.offsets, **ends}, begun.topic_ids)


def _size(some: Sequence[Task]) -> int:
    return sum(one.end - one.start for task in some for one in task.ranges)


def _run(spark: SparkSession, run: ArchiveTasks, commit: int) -> tuple[Piece, ...]:
    """Run the tasks of one commit, and name their files."""
    count = len(run.tasks)
    found = {row.task: row.written for row in spark.range(0, count, 1, count).mapInArrow(run, RESULT).collect()}
    if found.keys() != set(range(count)):
        raise StorageError(f"Spark ran {len(found)} of {count} tasks: nothing of them was archived; run it again")
    pieces = []
    for task, written in sorted(found.items()):
        fields = json.loads(written)
        files = (
            DayFile(f"day={day}/{commit:010}-{task:05}-{number:02}.parquet", staged, size)
            for number, (day, staged, size) in enumerate(fields["files"])
        )
        pieces.append(Piece(fields["records"], tuple(files)))
    return tuple(pieces)
