"""Archives the records of a topic as Parquet files, a folder for each day of their timestamps.

The driver plans ranges of offsets as a batch read does. Executors read them from the log and write the files with
pyarrow; only their names come back. A commit (`commits`) covers two tasks for each core. What was committed stays when
the run is killed, and the next run goes on behind it.
"""

import json
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from pyspark.sql import SparkSession

from pylog.errors import StorageError
from pylog.spark.columns import COLUMNS
from pylog.spark.folder import Folder
from pylog.spark.pipelines.bar import Bar
from pylog.spark.pipelines.commits import ARCHIVE, Commit, Commits, DataFile, Piece
from pylog.spark.pipelines.days import RESULT, ArchiveTasks
from pylog.spark.pipelines.planned import last_commit, plan, read_options, tasks_at_once, topics_of
from pylog.spark.pipelines.where import LogPlace
from pylog.spark.range_reader import RangeReader
from pylog.spark.schema import arrow_schema, spark_schema

_ROUND: Final = 2
"""Tasks of one commit, for each that runs at a time: a slow one holds up the others less."""
COMPRESSIONS: Final = ("zstd", "snappy", "gzip", "lz4", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """The result of one run of `archive`."""

    records: int
    files: int
    size: int
    """In bytes."""
    commits: int


def archive(
    spark: SparkSession, log: LogPlace, topic: str, to: str, *, compression: str = "zstd",
    fail_on_data_loss: bool = True, progress: bool | None = None,
) -> Archived:  # fmt: skip
    """Archive the committed records of `topic` (several with commas) that the folder `to` does not have yet.

    `to` is a path, or a URI that pyarrow knows, that driver and executors see; it is made where it is missing. Of
    runs at once one goes on, and the others end with StorageError. All columns are kept, headers too. `progress`:
    whether to show a bar on stderr (None: where that is a terminal).

    Raises UnknownTopicOrPartition, ValueError (wrong options; another topic is archived there), StorageError (commits
    that cannot be read, files of the last one that are gone, another run has committed), and OffsetOutOfRange in an
    error of Spark's where records were deleted before they were archived and `fail_on_data_loss` is set.

    >>> from pylog.spark.pipelines.archive import archive
    >>> archive(spark, log.path, "clicks", "lake/clicks").records
    3
    """
    if compression not in COMPRESSIONS:
        raise ValueError(f"compression is one of {', '.join(COMPRESSIONS)}, got '{compression}'")
    options = read_options(log, topic, fail_on_data_loss=fail_on_data_loss)
    read = ",".join(topics_of(options))
    folder = Folder(to)
    commits = Commits(folder, ARCHIVE)
    last = last_commit(commits, folder, read)
    reader = RangeReader(options, arrow_schema(spark_schema(COLUMNS), COLUMNS))
    planned = plan(options, last, reader)
    made: list[Commit] = []
    done = 0
    with Bar(f"archiving {topic}", progress) as bar, commits.run() as run:
        bar.show(done, planned.total)
        for part in planned.rounds(_ROUND * tasks_at_once(spark)):
            before = made[-1] if made else last
            number = 1 if before is None else before.number + 1
            job = ArchiveTasks(reader, tuple(part.tasks), folder, run, compression)
            made.append(
                Commit(
                    number=number,
                    id=uuid4().hex if before is None else before.id,
                    read=read,
                    run=run,
                    offsets=part.offsets,
                    partitions=planned.partitions,
                    pieces=_run(spark, job, number),
                )
            )
            commits.add(made[-1])
            done += part.size
            bar.show(done, planned.total)
    files = [file for commit in made for file in commit.files]
    records = sum(commit.records for commit in made)
    return Archived(records=records, files=len(files), size=sum(file.size for file in files), commits=len(made))


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
            DataFile(f"day={day}/{commit:010}-{task:05}-{number:02}.parquet", staged, size)
            for number, (day, staged, size) in enumerate(fields["files"])
        )
        pieces.append(Piece(fields["records"], tuple(files)))
    return tuple(pieces)
