"""Spark's data source over a log directory: `spark.read.format("pylog").option("subscribe", "t").load("data")`.

    driver host   schema()      checks options, directory and topics: wrong ones fail in load()
                  partitions()  opens the log, resolves offsets, cuts ranges; Spark keeps the answer for that load()
    executors     read()        one range: Arrow batches decoded from the log's own files, no lock, no server

Invariants:
- The columns are those of Spark's Kafka source, in its order and types; `columns` or a schema given to the reader
  chooses among them. Each batch has exactly Spark's Arrow schema: binary and string, not large; timestamp[us, UTC].
- Spark plans a Python source once per `load()`: a DataFrame keeps the end it saw first, a new one sees the new end.
- There is no `pushFilters`: Spark 4.3 leaks pushed filters into other scans of the same DataFrame. The range options
  are per `load()` and safe.
- A worker process keeps its readers open between tasks. A reader holds no lock, so the owner may write meanwhile.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn
from uuid import UUID

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pylog.errors import OffsetOutOfRange, UnknownTopicOrPartition
from pylog.log import Log
from pylog.opening import open as open_log
from pylog.record import TopicPartition
from pylog.spark.options import Assign, ReadOptions, Subscribe, column_name, parse
from pylog.spark.ranges import OffsetRange, resolve, split
from pylog.views import PartitionView, TopicView

_log: Final = logging.getLogger(__name__)

BATCH_ROWS: Final = 10_000
"""Rows of one Arrow batch: the cost of a batch is lost among them, and a worker holds few megabytes."""

_READERS_MAX: Final = 8

_HEADER: Final = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_SPARK_TYPES: Final[dict[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": ArrayType(_HEADER),
}
_ARROW_TYPES: Final = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
}
_NULLABLE: Final = ("key", "value", "headers")
_LOG_COLUMNS: Final = {"timestampType": "timestamp_type"}


class PylogDataSource(DataSource):
    """The source that `format("pylog")` names; options are those of Spark's Kafka source, see `pylog.spark.options`."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "pylog"

    def schema(self) -> StructType:
        """The chosen columns of Spark's Kafka source, all nullable.

        Raises ValueError for wrong options, LogNotFound for a missing directory, UnknownTopicOrPartition.
        """
        options = parse(self.options)
        if options.ignored:
            _log.warning("options without effect in a batch read of a pylog directory: %s", ", ".join(options.ignored))
        with open_log(options.path, mode="read") as log:
            _selected(log, options)
        return StructType([StructField(column, _SPARK_TYPES[column]) for column in options.columns])

    def reader(self, schema: StructType) -> "PylogReader":
        """A reader of the columns that `schema` names: the source's own, or the one the user gave.

        Raises ValueError for a column that is not there or has another type.
        """
        options = parse(self.options)
        chosen = self.options.get("columns") is not None
        return PylogReader(options, _arrow_schema(schema, options.columns if chosen else None))

    def streamReader(self, schema: StructType) -> NoReturn:  # noqa: N802 (Spark's name)
        """Raises NotImplementedError: Spark asks for it when a query starts, there is no earlier moment to say so."""
        raise NotImplementedError('format("pylog") is not read as a stream yet: spark.read reads it as it is now')

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        """Raises NotImplementedError."""
        raise NotImplementedError('format("pylog") is not written to from Spark yet: a pylog producer writes')

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: N802 (Spark's name)
        """Raises NotImplementedError."""
        self.writer(schema, overwrite)


@dataclass(frozen=True)
class LogRange(InputPartition):
    """What one task reads; the id tells the topic that was planned from one made later under the same name."""

    topic: str
    topic_id: UUID
    partition: int
    start: int
    end: int


class PylogReader(DataSourceReader):
    """Plans a read on the driver's host; pickled to the executors, it reads there."""

    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """One range per task, in order of topic, partition and offset; none when there is nothing to read.

        Raises ValueError when limits and partitions do not fit together, OffsetOutOfRange when offsets that were asked
        for are gone and failOnDataLoss is set.
        """
        options = self._options
        with open_log(options.path, mode="read") as log:
            views = _selected(log, options)
            available = {at: (view.start_offset, view.high_watermark) for at, view in views.items()}

            def offset_for_time(at: TopicPartition, timestamp_ms: int) -> int | None:
                offset = views[at].offset_for_time(timestamp_ms)
                # The log may have grown since `available` was asked: what came later is not part of this read.
                return None if offset is None or offset >= available[at][1] else offset

            resolved = resolve(
                available, options.starting, options.ending, no_match=options.no_match, offset_for_time=offset_for_time
            )
            for loss in resolved.losses:
                self._lost(loss)
            pieces = split(
                resolved.ranges,
                min_partitions=options.min_partitions,
                max_records_per_partition=options.max_records_per_partition,
            )
            ids = {at.topic: log.topic(at.topic).id for at in views}
        return [_log_range(piece, ids[piece.topic_partition.topic]) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The Arrow batches of one range, decoded as they are asked for."""
        # Spark plans one partition without a range where `partitions` gave none.
        return self._batches(partition) if isinstance(partition, LogRange) else iter(())

    def _batches(self, wanted: LogRange) -> Iterator[pa.RecordBatch]:
        view = _view(self._options.path, wanted)
        if view is None:
            self._lost(f"topic {wanted.topic} was deleted after the read was planned: some data may have been lost")
            return
        shape = _Shape(self._schema, wanted)
        position = wanted.start
        while position < wanted.end:
            try:
                for batch in view.columns(position, wanted.end, columns=shape.columns, max_rows=BATCH_ROWS):
                    yield shape.batch(batch)
                    position = shape.next_offset
                break
            except OffsetOutOfRange as error:
                start = view.start_offset
                if start <= position:
                    raise
                self._lost(str(error))
                position = start
        if (end := view.high_watermark) < wanted.end:
            name = f"{wanted.topic}-{wanted.partition}"
            self._lost(f"{name} now ends at offset {end}, {wanted.end} was planned: some data may have been lost")

    def _lost(self, loss: str) -> None:
        if self._options.fail_on_data_loss:
            raise OffsetOutOfRange(loss)
        _log.warning("%s", loss)


class _Shape:
    """Turns the log's batches into Spark's: renames, widens timestamps, adds the columns of one value throughout."""

    def __init__(self, schema: pa.Schema, wanted: LogRange) -> None:
        names = [column_name(name, "the schema") for name in schema.names]
        self._schema = schema
        self._names = names
        self._constants = {
            "topic": pa.array([wanted.topic], pa.string()),
            "partition": pa.array([wanted.partition], pa.int32()),
        }
        from_log = [name for name in names if name not in self._constants and name != "offset"]
        self.columns = ("offset", *(_LOG_COLUMNS.get(name, name) for name in from_log))
        self.next_offset = wanted.start
        self._wanted = wanted

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        self.next_offset = batch.column(0)[-1].as_py() + 1 if batch.num_rows else self.next_offset
        arrays = [self._column(name, batch) for name in self._names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _column(self, name: str, batch: pa.RecordBatch) -> pa.Array:
        if (constant := self._constants.get(name)) is not None:
            if len(constant) < batch.num_rows:
                constant = self._constants[name] = pa.repeat(constant[0], batch.num_rows)
            return constant.slice(0, batch.num_rows)
        array = batch.column(_LOG_COLUMNS.get(name, name))
        return array if name != "timestamp" else self._microseconds(array)

    def _microseconds(self, milliseconds: pa.Array) -> pa.Array:
        try:
            return milliseconds.cast(_ARROW_TYPES["timestamp"])
        except pa.ArrowInvalid as error:
            place = f"{self._wanted.topic}-{self._wanted.partition} before offset {self.next_offset}"
            raise ValueError(f"a timestamp of {place} does not fit into Spark's microseconds: {error}") from None


_readers: dict[str, Log] = {}


def _reader(path: str, *, again: bool) -> Log:
    """This process's reader of a directory; `again` opens it anew. The least recently used are closed."""
    log = _readers.pop(path, None)
    if log is not None and again:
        log.close()
        log = None
    _readers[path] = log or open_log(path, mode="read")
    while len(_readers) > _READERS_MAX:
        _readers.pop(next(iter(_readers))).close()
    return _readers[path]


def _view(path: str, wanted: LogRange) -> PartitionView | None:
    """The partition that was planned, or None when its topic is gone; a reader that has gone stale is opened again."""
    for again in (False, True):
        log = _reader(path, again=again)
        if wanted.topic in log.topics(internal=True) and log.topic(wanted.topic).id == wanted.topic_id:
            return log.topic(wanted.topic)[wanted.partition]
    return None


def _selected(log: Log, options: ReadOptions) -> dict[TopicPartition, PartitionView]:
    """The partitions that a selection means; a topic or partition named outright must exist."""
    selection = options.selection
    if isinstance(selection, Assign):
        return {at: _partition(log, at) for at in selection.partitions}
    if isinstance(selection, Subscribe):
        topics: Iterable[str] = selection.topics
    else:
        topics = selection.matching(log.topics())
    return {TopicPartition(topic, view.partition): view for topic in topics for view in _topic(log, topic)}


def _topic(log: Log, topic: str) -> TopicView:
    if topic not in log.topics(internal=True):
        known = ", ".join(log.topics()) or "none"
        raise UnknownTopicOrPartition(f"no topic '{topic}' in {log.path}; there are: {known}")
    return log.topic(topic)


def _partition(log: Log, at: TopicPartition) -> PartitionView:
    topic = _topic(log, at.topic)
    if at.partition >= len(topic):
        raise UnknownTopicOrPartition(f"no partition {at.partition}: topic '{at.topic}' in {log.path} has {len(topic)}")
    return topic[at.partition]


def _log_range(piece: OffsetRange, topic_id: UUID) -> LogRange:
    topic, partition = piece.topic_partition
    return LogRange(topic, topic_id, partition, piece.start, piece.end)


def _arrow_schema(schema: StructType, columns: Sequence[str] | None) -> pa.Schema:
    """The Arrow schema that Spark expects for `schema`, which names columns of the source in any order and case."""
    fields: dict[str, pa.Field] = {}
    for field in schema.fields:
        column = column_name(field.name, "the schema")
        if column in fields:
            raise ValueError(f"the schema names column '{column}' twice")
        if field.dataType != _SPARK_TYPES[column]:
            expected, given = _SPARK_TYPES[column].simpleString(), field.dataType.simpleString()
            raise ValueError(f"column '{column}' is {expected}, the schema says {given}: CAST it after load()")
        if column in _NULLABLE and not field.nullable:
            raise ValueError(f"column '{column}' can be null, the schema says NOT NULL")
        fields[column] = pa.field(field.name, _ARROW_TYPES[column], nullable=field.nullable)
    if not fields:
        raise ValueError("the schema names no column")
    if columns is not None and tuple(columns) != tuple(fields):
        raise ValueError(
            f"option 'columns' names {', '.join(columns)}, the schema {', '.join(fields)}: give one of both"
        )
    return pa.schema(list(fields.values()))
