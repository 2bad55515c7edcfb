"""The classes that Spark calls to write: once for a batch write, and for each batch of a stream.

    planner      writer(), streamWriter()    check columns, options and topic
    executors    write()                     encode and stage; or, at least once, send
    driver       commit(), abort()

Spark pickles a writer for the tasks. A stream's `commit` runs in another object than its `write`, which therefore puts
the id of the query into its message.
"""

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pylog.kernel.values import BytesLike
from pylog.spark.options.where import GivenDirectories
from pylog.spark.options.write import WriteOptions
from pylog.spark.sink.commit import Write, check_replaceable, commit, drop
from pylog.spark.sink.content import Checksum
from pylog.spark.sink.plan import BatchPlan, plan_of
from pylog.spark.sink.reach import check_first, count_partitions, opened, producer_of
from pylog.spark.sink.rows import RowEncoder, SinkColumns, sink_columns
from pylog.spark.sink.staged_topic import TopicStage
from pylog.spark.sink.staging import FileStage, Stage, Staged
from pylog.spark.versions import StreamArrowWriter

if TYPE_CHECKING:
    from pylog.handles.any_log import AnyLog

Messages = Sequence[WriterCommitMessage | None]


class Sink:
    """The common part of both writers: what a task does."""

    def __init__(self, options: WriteOptions, schema: StructType, *, replaces: bool) -> None:
        """Raises ValueError for wrong columns, UnknownTopicOrPartition, PolicyViolation, what opening does, and
        LogNotFound or KafkaStorage where a log directory was not named.
        """
        self._options = options
        self._columns: SinkColumns = sink_columns(schema, options.topic)
        self._replaces = replaces
        self._counts: dict[str, int] = {}
        if replaces and options.topic is None:
            raise ValueError("to replace what a topic has, name it by the option 'topic'")
        if replaces and not options.is_exactly_once:
            raise ValueError("deliveryGuarantee 'at-least-once' only appends: it cannot replace what a topic has")
        check_first(options.where)
        if options.topic is not None:
            with opened(options.where, writes=False) as log:
                self._counts[options.topic] = count_partitions(log, options.where, options.topic)
                if replaces:
                    check_replaceable(log, options.topic)

    def stage(self, rows: Iterator[pa.RecordBatch], write: str, batch: int | None) -> Staged:
        """Encode the rows of a task, and stage or send them."""
        with ExitStack() as closing:
            if not self._options.is_exactly_once:
                return self._send(rows, write, closing)
            stage, seen = self._stage(write, batch, closing), Checksum(sorted(self._columns.places.values()))
            try:
                # A batch write is never run again as a whole: it needs no checksum.
                covered = rows if batch is None else seen.over(rows)
                records = self._encode(covered, stage.put, closing, transactional=True)
                return replace(stage.done(records), checksum=seen.value)
            except BaseException:
                stage.discard()
                raise

    def _stage(self, write: str, batch: int | None, closing: ExitStack) -> Stage:
        where = self._options.where
        if isinstance(where, GivenDirectories):
            return FileStage(where.paths[0], write, batch)
        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        return TopicStage(closing.enter_context(opened(where, writes=True)), self._options.producer, write, task)

    def _send(self, rows: Iterator[pa.RecordBatch], write: str, closing: ExitStack) -> Staged:
        log = closing.enter_context(opened(self._options.where, writes=True))
        # What a node may have is sent again: at least once is what was asked for. One batch at a time keeps the order.
        producer = closing.enter_context(
            producer_of(log, self._options.producer, enable_idempotence=False, max_in_flight_requests_per_connection=1)
        )

        def send(topic: str, partition: int, batch: BytesLike) -> None:
            producer.send_batch(topic, partition, batch)

        records = self._encode(rows, send, closing, transactional=False)
        return Staged(write, "", records, 0, 0)

    def _encode(
        self, rows: Iterator[pa.RecordBatch], put: Callable[[str, int, BytesLike], None], closing: ExitStack, *,
        transactional: bool,
    ) -> int:  # fmt: skip
        options = self._options
        looking: list[AnyLog] = []

        def partitions(topic: str) -> int:
            if topic not in self._counts:
                if not looking:
                    looking.append(closing.enter_context(opened(options.where, writes=False)))
                self._counts[topic] = count_partitions(looking[0], options.where, topic)
            return self._counts[topic]

        encoder = RowEncoder(
            self._columns, options.topic, partitions, options.producer, put, transactional=transactional
        )
        for batch in rows:
            encoder.add(batch)
        encoder.finish()
        return encoder.records


class PylogWriter(DataSourceArrowWriter):
    """A batch write: its records come in one transaction. With `overwrite` the earlier ones go after that."""

    def __init__(self, options: WriteOptions, schema: StructType, *, overwrite: bool) -> None:
        self._sink = Sink(options, schema, replaces=overwrite)
        self._write = Write(options=options, id=uuid.uuid4().hex, batch=None, replaces=overwrite)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """One task."""
        return self._sink.stage(iterator, self._write.id, None)

    def commit(self, messages: Messages) -> None:
        """All tasks are done."""
        commit(self._write, _staged(messages))

    def abort(self, messages: Messages) -> None:
        """A task has failed, or `commit` has raised."""
        drop(self._write, _staged(messages))


class PylogStreamWriter(StreamArrowWriter):
    """The batches of a stream: each is committed once, whatever is run again."""

    def __init__(self, options: WriteOptions, schema: StructType, *, complete: bool) -> None:
        self._options = options
        self._sink = Sink(options, schema, replaces=complete)
        self._replaces = complete

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """One task of a batch."""
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty("sql.streaming.queryId")
        batch = None if context is None else context.getLocalProperty("streaming.sql.batchId")
        if query is None or batch is None:
            raise RuntimeError("Spark does not say which query and which batch this task belongs to")
        return self._sink.stage(iterator, query, int(batch))

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803 (Spark's name)
        """All tasks of a batch are done. It may come again, after a success too."""
        staged = _staged(messages)
        if staged and self._options.is_exactly_once:
            commit(self._of(staged, batchId, plan_of(self._options.checkpoint, batchId)), staged)

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: N803 (Spark's name)
        """A task has failed, or `commit` has raised, which may have been after a success."""
        staged = _staged(messages)
        if staged:
            drop(self._of(staged, batchId), staged)

    def _of(self, staged: Sequence[Staged], batch: int, plan: BatchPlan | None = None) -> Write:
        return Write(options=self._options, id=staged[0].write, batch=batch, replaces=self._replaces, plan=plan)


def _staged(messages: Messages) -> list[Staged]:
    return [message for message in messages if isinstance(message, Staged)]
