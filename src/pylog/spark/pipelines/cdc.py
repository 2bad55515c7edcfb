"""Applies the changes that a topic has to a table of Parquet files: change data capture (CDC).

The records since the last commit are read in tasks, as by `archive`. Spark finds the last change of each key
(`changes`), and a worker for each part of the table writes that again (`parts`). A commit (`commits`) has the next
offsets and the new files together, so each change is applied once, whatever is killed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as sql

from pylog.spark.folder import Folder
from pylog.spark.pipelines.bar import Bar
from pylog.spark.pipelines.changes import ENVELOPES, KEY, PART, changes, last_of_each_key, row_fields
from pylog.spark.pipelines.commits import TABLE, Commit, Commits, DataFile, Piece
from pylog.spark.pipelines.parts import RESULT, ChangeParts, part_name
from pylog.spark.pipelines.planned import last_commit, plan, read_options, tasks_at_once, topics_of
from pylog.spark.pipelines.where import LogPlace
from pylog.spark.range_reader import RangeReader
from pylog.spark.schema import arrow_schema, spark_schema
from pylog.spark.tasks import Task

PARTS: Final = 16
"""Of a new table."""
_ROUND: Final = 8
"""Tasks of one commit, for each that runs at a time: a commit writes all parts again that have changes."""
_COLUMNS: Final = ("key", "value", "partition", "offset", "timestamp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The result of one run of `cdc`."""

    records: int
    """Changes that were read."""
    rows: int
    """Of the table, now."""
    commits: int


def cdc(
    spark: SparkSession, log: LogPlace, topic: str, to: str, *, schema: str | None = None, envelope: str = "none",
    parts: int | None = None, fail_on_data_loss: bool = True, progress: bool | None = None,
) -> Applied:  # fmt: skip
    """Apply the committed records of `topic` that the table in folder `to` does not have yet: one row for each key.

    A record writes the row of its key, a record without a value deletes it. With `envelope="debezium"` records are the
    changes of a Debezium connector. The highest offset of a key holds, whatever timestamps say. Where a key is in
    several partitions, as partitions were added, the later timestamp holds between them; a deletion is remembered for
    that within its commit alone.

    `schema`: the fields of the JSON values ("id BIGINT, name STRING"), which are the columns then; Debezium needs it.
    Without, the column `value` has the bytes. The columns `_key`, `_partition`, `_offset`, `_timestamp` say which
    record a row is from. `parts`: Parquet files of a new table (16); each has to fit into the memory of a worker.
    `to`: a path, or a URI that pyarrow knows, that driver and executors see; it is made where it is missing. Of runs at
    once one goes on, and the others end with StorageError. `progress`: whether to show a bar on stderr (None: where
    that is a terminal).

    Raises UnknownTopicOrPartition, ValueError (wrong options; another table is there), StorageError (commits or files
    that are not what was committed, another run has committed), and errors of Spark's: a record without a key, or with
    a value that is not JSON of the fields, or not a change of Debezium's, names its offset; OffsetOutOfRange where
    records
    were deleted before they were applied and `fail_on_data_loss` is set.

    >>> from pylog.spark.pipelines.cdc import cdc
    >>> cdc(spark, log.path, "clicks", "lake/last", schema="page STRING, ms INT")
    Applied(records=3, rows=2, commits=1)
    """
    if envelope not in ENVELOPES:
        raise ValueError(f"envelope is one of {', '.join(ENVELOPES)}, got '{envelope}'")
    if schema is None and envelope != "none":
        raise ValueError(f'envelope={envelope} needs a schema: the fields of its rows, "id BIGINT, name STRING" say')
    options = read_options(log, topic, fail_on_data_loss=fail_on_data_loss)
    if len(topics_of(options)) != 1:
        raise ValueError(f"a table has the changes of one topic, got '{topic}'")
    read = f"{topic} ({envelope}, {row_fields(schema).simpleString()})"
    folder = Folder(to)
    commits = Commits(folder, TABLE)
    last = last_commit(commits, folder, read)
    pieces = _pieces(folder, last, parts)
    reader = RangeReader(options, arrow_schema(spark_schema(_COLUMNS), _COLUMNS))
    planned = plan(options, last, reader)
    records, done, made = 0, 0, 0
    with Bar(f"applying {topic}", progress) as bar, commits.run() as run:
        bar.show(done, planned.total)
        for part in planned.rounds(_ROUND * tasks_at_once(spark)):
            merge = ChangeParts(folder, run, tuple(piece.records for piece in pieces))
            count, pieces = _apply(spark, _Records(reader, tuple(part.tasks)), topic, schema, envelope, merge)
            last = Commit(
                number=1 if last is None else last.number + 1,
                id=uuid4().hex if last is None else last.id,
                read=read,
                run=run,
                offsets=part.offsets,
                partitions=planned.partitions,
                pieces=pieces,
            )
            commits.add(last)
            records, done, made = records + count, done + part.size, made + 1
            bar.show(done, planned.total)
    return Applied(records=records, rows=sum(piece.records for piece in pieces), commits=made)


def _pieces(folder: Folder, last: Commit | None, parts: int | None) -> tuple[Piece, ...]:
    """The pieces of each part. Raises ValueError."""
    if parts is not None and parts < 1:
        raise ValueError(f"parts is 1 or more, got {parts}")
    if last is None:
        if folder.names(""):
            raise ValueError(f"{folder} has files and is not a table of pylog's: take a new folder")
        return (Piece(0, ()),) * (parts or PARTS)
    if parts not in (None, len(last.pieces)):
        raise ValueError(f"{folder} has {len(last.pieces)} parts, got {parts}: it keeps what it was made with")
    return last.pieces


@dataclass(frozen=True)
class _Records:
    """The function that `mapInArrow` runs to read: the rows that come in are numbers of tasks."""

    reader: RangeReader
    tasks: Sequence[Task]

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in rows:
            for number in batch.column(0).to_pylist():
                yield from self.reader.read(self.tasks[number])


def _apply(
    spark: SparkSession, read: _Records, topic: str, schema: str | None, envelope: str, merge: ChangeParts
) -> tuple[int, tuple[Piece, ...]]:
    """Run the tasks of one commit: how many records they read, and what each part has then."""
    count, seen = len(read.tasks), Observation("cdc")
    records = spark.range(0, count, 1, count).mapInArrow(read, spark_schema(_COLUMNS))
    found = changes(records.observe(seen, sql.count("*").alias("records")), topic, schema, envelope)
    last = last_of_each_key(found).withColumn(PART, sql.pmod(sql.hash(KEY), sql.lit(len(merge.rows))))

    # A function of one argument: of a method Spark counts `self`, and gives it the group's key, too.
    def change(rows: pa.Table) -> pa.Table:
        return merge.apply(rows)

    written = {row.part: row for row in last.groupBy(PART).applyInArrow(change, RESULT).collect()}
    pieces = [
        Piece(written[number].records, (DataFile(part_name(number), written[number].staged, written[number].size),))
        if number in written
        else Piece(rows, ())
        for number, rows in enumerate(merge.rows)
    ]
    return seen.get["records"], tuple(pieces)
