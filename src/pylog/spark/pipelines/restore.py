"""Restores an archive into a topic: the way of the sink, with workers that read the Parquet files themselves.

Each commit of the archive is one batch, which the ledger of the sink (`pylog.spark.sink.ledger`) knows by its number:
so a restore that was killed goes on behind what it has committed, and each record is there once. A later restore brings
what was archived since; the ledger has which file the last commit was, so that another archive does not pass for this
one. Records keep partition, key, value, headers, timestamp and their order, and get new offsets.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Final
from uuid import UUID, uuid5

import pyarrow as pa
from pyspark.sql import SparkSession

from pylog.errors import StorageError
from pylog.handles.any_log import AnyLog
from pylog.record import TopicPartition
from pylog.spark.columns import COLUMNS
from pylog.spark.folder import Folder
from pylog.spark.options.write import WriteOptions, parse_write
from pylog.spark.pipelines.bar import Bar
from pylog.spark.pipelines.commits import ARCHIVE, Commit, Commits, DataFile, Piece
from pylog.spark.pipelines.topics import make_topics
from pylog.spark.pipelines.where import LogPlace, options_of
from pylog.spark.schema import spark_schema
from pylog.spark.sink.commit import TRANSACTIONAL_ID, Write, commit
from pylog.spark.sink.ledger import Entry, Ledger
from pylog.spark.sink.reach import offsets_of, opened, producer_of
from pylog.spark.sink.staging import Staged
from pylog.spark.sink.writers import Sink
from pylog.spark.tasks import BATCH_ROWS

_ORDER: Final = [("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")]
_RESULT: Final = "task int, staged string"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """The result of one run of `restore`."""

    records: int
    commits: int


def restore(
    spark: SparkSession, log: LogPlace, archive: str, *, topic: str | None = None, progress: bool | None = None
) -> Restored:
    """Restore an archive that `pylog.spark.pipelines.archive` made, or go on with it.

    The records go to the topic of their name, or to `topic`, where the archive has one alone. A topic that is not there
    is made with as many partitions as it had; one that is there has to be empty when the first restore begins.
    `progress`: whether to show a bar on stderr (None: where that is a terminal).

    Raises ValueError (nothing is archived there; a topic that has records, or too few partitions), StorageError (the
    archive cannot be read, or does not go on where the restore ended), and what opening the log raises.

    >>> from pylog.spark.pipelines.archive import archive
    >>> from pylog.spark.pipelines.restore import restore
    >>> archived = archive(spark, log.path, "clicks", "lake/clicks")
    >>> restore(spark, log.path, "lake/clicks", topic="clicks-again").records
    3
    """
    folder = Folder(archive)
    commits = Commits(folder, ARCHIVE)
    last = commits.last()
    if last is None:
        raise ValueError(f"{folder} is no archive, or nothing was archived yet: make one with `archive`")
    options = parse_write({**options_of(log), **({} if topic is None else {"topic": topic})})
    write_id = uuid5(UUID(last.id), topic or "").hex
    with opened(options.where, writes=True) as there:
        done = _begin(there, options, write_id, _targets(last, topic, folder))
    check_goes_on(commits, done, folder)
    sink = Sink(options, spark_schema(COLUMNS), replaces=False)
    left = [found for found in map(commits.load, commits.numbers()) if found.number > done.batch]
    total, records = sum(found.records for found in left), 0
    with Bar(f"restoring {last.read}", progress) as bar:
        bar.show(records, total)
        for found in left:
            plan = commits.plan(found.number)
            write = Write(options=options, id=write_id, batch=found.number, replaces=False, plan=plan)
            commit(write, _stage(spark, RestoreTasks(folder, found, sink, write_id)))
            records += found.records
            bar.show(records, total)
    return Restored(records=records, commits=len(left))


@dataclass(frozen=True)
class RestoreTasks:
    """The function that `mapInArrow` runs: the rows that come in are numbers of pieces of a commit."""

    folder: Folder
    commit: Commit
    sink: Sink
    write_id: str

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Stage the pieces; one row for each."""
        for batch in rows:
            for number in batch.column(0).to_pylist():
                records = self._records(self.commit.pieces[number])
                staged = self.sink.stage(records, self.write_id, self.commit.number)
                yield pa.RecordBatch.from_arrays(
                    [pa.array([number], pa.int32()), pa.array([json.dumps(asdict(staged))], pa.string())],
                    names=["task", "staged"],
                )

    def _records(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        """The records of a piece, in the order of offsets: that of a file, and its days may have been mixed."""
        names = [self._place(file) for file in piece.files]
        count = 0
        for batch in self.folder.batches(names[0], BATCH_ROWS) if len(names) == 1 else self._sorted(names):
            count += batch.num_rows
            yield batch.select(list(COLUMNS))
        if count != piece.records:
            raise StorageError(
                f"{self.folder}: {', '.join(names) or 'no file'} of commit {self.commit.number} has {count} records, "
                f"and {piece.records} were archived: put back what was there"
            )

    def _place(self, file: DataFile) -> str:
        """Where a file is: a commit is there before its files are in their places."""
        staged = self.commit.staged(file)
        return staged if not self.folder.has(file.name) and self.folder.has(staged) else file.name

    def _sorted(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        if names:
            table = pa.concat_tables([self.folder.read_table(name) for name in names])
            yield from table.sort_by(_ORDER).to_batches(max_chunksize=BATCH_ROWS)


def _targets(last: Commit, topic: str | None, folder: Folder) -> Mapping[str, int]:
    """The topics that are written to, and how many partitions each needs."""
    if topic is None:
        return last.partitions
    if len(last.partitions) > 1:
        raise ValueError(f"{folder} has the topics {', '.join(last.partitions)}: restore them by their own names")
    return {topic: max(last.partitions.values())}


def check_goes_on(commits: Commits, done: Entry, folder: Folder) -> None:
    """Raise StorageError where what was restored last is not a commit of this archive; `done` has number 0 for none."""
    if done.batch and (done.batch not in commits.numbers() or commits.plan(done.batch) != done.plan):
        raise StorageError(
            f"{folder}: the topic has commit {done.batch} of this archive, and that is not here, or another one has "
            "its number: the archive was put back to an earlier state. Nothing more was restored. Put back the archive "
            "that was restored, or restore this one into a new topic (topic=...)"
        )


def _begin(log: AnyLog, options: WriteOptions, write_id: str, targets: Mapping[str, int]) -> Entry:
    """Make the topics that are missing, and give the last commit that is restored; one of number 0 where none is."""
    make_topics(log, targets)
    with producer_of(log, options.producer, transactional_id=f"{TRANSACTIONAL_ID}{write_id}") as producer:
        ledger = Ledger(log, write_id, options.producer.transaction_timeout_ms)
        entry = ledger.read()
        if entry is None:
            for name in targets:
                _check_empty(log, name)
            # From here on what the topics have may be this restore's, even where it is killed before it commits.
            entry = Entry(batch=0, records=0, checksum=0)
            with producer.transaction():
                ledger.write(producer, entry)
    return entry


def _check_empty(log: AnyLog, topic: str) -> None:
    keys = [TopicPartition(topic, part.partition) for part in log.admin.topic(topic).partitions]
    first, last = offsets_of(log, keys, "earliest"), offsets_of(log, keys, "latest")
    if any(first[key] < last[key] for key in keys):
        raise ValueError(f"topic '{topic}' has records: restore into a topic that is new or empty (topic=...)")


def _stage(spark: SparkSession, run: RestoreTasks) -> list[Staged]:
    """Run the tasks of one commit; what they staged, in the order of the pieces, which is that of offsets."""
    count = len(run.commit.pieces)
    found = {row.task: row.staged for row in spark.range(0, count, 1, count).mapInArrow(run, _RESULT).collect()}
    if found.keys() != set(range(count)):
        raise StorageError(f"Spark ran {len(found)} of {count} tasks: nothing of them was restored; run it again")
    staged = []
    for _, text in sorted(found.items()):
        fields = json.loads(text)
        staged.append(Staged(**{**fields, "place": tuple(fields["place"])}))
    return staged
