"""Rows of Arrow batches, encoded as Kafka batches of the partitions that they go to.

The columns are those of Spark's Kafka sink, and `timestamp`: value (string or binary, required), key, topic, partition,
headers. Without a partition a record goes where a Java producer sends it: by its key, and without a key to one
partition until a batch is full. A row without a timestamp gets the time of encoding. The other columns of the
source (offset, timestampType) are passed over, so that what was read can be written.
(Kafka's sink: KafkaWriter.validateQuery, KafkaRowWriter.)
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import pyarrow as pa
from pyarrow import compute
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
    TimestampType,
)

from pylog.config import ProducerConfig
from pylog.kernel.values import BytesLike
from pylog.protocol.compression import Codec
from pylog.runtime.clock import SystemClock
from pylog.spark.columns import column_name
from pylog.tables.appending.column_encoder import ColumnEncoder
from pylog.tables.appending.record_columns import RecordColumns, as_bytes, as_times, out_of_range, without_name

_TEXTS: Final = (StringType, BinaryType)
_TYPES: Final[dict[str, tuple[tuple[type[DataType], ...], str]]] = {
    "value": (_TEXTS, "string or binary"),
    "key": (_TEXTS, "string or binary"),
    "topic": ((StringType,), "string"),
    "partition": ((IntegerType,), "int"),
    "timestamp": ((TimestampType,), "timestamp"),
}
_HEADERS: Final = "array<struct<key:string,value:binary>>"

Put = Callable[[str, int, BytesLike], None]
"""Takes a topic, a partition and the bytes of a batch."""


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """Where the columns of a record are in a row: their numbers, by name."""

    places: dict[str, int]


def sink_columns(schema: StructType, topic: str | None) -> SinkColumns:
    """The columns of a DataFrame that is written; `topic` is the option.

    Raises ValueError for a column that is missing, has another type, or is none of a record.
    """
    places: dict[str, int] = {}
    for number, field in enumerate(schema.fields):
        column = column_name(field.name, "the DataFrame that is written")
        if column in places:
            raise ValueError(f"the DataFrame that is written has column '{column}' twice")
        _check_type(column, field.dataType)
        places[column] = number
    if "value" not in places:
        raise ValueError("Required attribute 'value' not found: SELECT something AS value, to_json(struct(*)) say")
    if topic is None and "topic" not in places:
        raise ValueError(
            "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic."
        )
    if topic is not None:
        places.pop("topic", None)
    return SinkColumns(places)


def _check_type(column: str, given: DataType) -> None:
    if column == "headers":
        element = given.elementType if isinstance(given, ArrayType) else None
        fields = element.fields if isinstance(element, StructType) else []
        if [(field.name, type(field.dataType)) for field in fields] != [("key", StringType), ("value", BinaryType)]:
            raise ValueError(f"headers attribute type must be {_HEADERS}, it is {given.simpleString()}")
    elif column in _TYPES:
        kinds, words = _TYPES[column]
        if not isinstance(given, kinds):
            raise ValueError(f"{column} attribute type must be a {words}, it is {given.simpleString()}: CAST it")


class RowEncoder:
    """Encodes rows, and gives each full batch to `put`. `partitions` says how many a topic has."""

    def __init__(
        self, columns: SinkColumns, topic: str | None, partitions: Callable[[str], int], config: ProducerConfig,
        put: Put, *, transactional: bool,
    ) -> None:  # fmt: skip
        self.records = 0
        self._places = columns.places
        self._topic = topic
        self._partitions = partitions
        self._put = put
        self._limit = config.batch_size
        self._codec = Codec.parse(config.compression_type)
        self._level = getattr(config, f"compression_{config.compression_type}_level", None)
        self._transactional = transactional
        self._topics: dict[str, tuple[ColumnEncoder, int]] = {}
        self._room = config.buffer_memory
        self._clock = SystemClock()

    def add(self, batch: pa.RecordBatch) -> None:
        """Encode the rows of a batch.

        Raises ValueError for a row without a topic, a partition that is not there, a timestamp before 1970, a header
        without a key; UnknownTopicOrPartition.
        """
        rows = RecordColumns(
            as_bytes(batch.column(self._places["value"])), self._column(batch, "key", as_bytes), self._times(batch),
            self._column(batch, "partition"), self._column(batch, "headers"),
        )  # fmt: skip
        for name, first, end in self._topics_of(batch):
            self._add(name, rows.slice(first, end - first))
        self.records += batch.num_rows
        self._make_room()

    def finish(self) -> None:
        """Give all that is left to `put`."""
        for encoder, _ in self._topics.values():
            encoder.finish()

    def _add(self, name: str, rows: RecordColumns) -> None:
        encoder, count = self._find(name)
        if not isinstance(rows.partitions, int | None):
            wrong = rows.partitions.filter(out_of_range(rows.partitions, count))
            if len(wrong):
                raise ValueError(
                    f"column 'partition' is {wrong[0]}: topic '{name}' has {count} partitions, from 0 on; "
                    "null leaves the choice to the partitioner"
                )
        if rows.headers is not None and compute.any(without_name(rows.headers)).as_py():
            raise ValueError("column 'headers' has a header without a key: filter these out")
        encoder.add(rows)

    def _column(
        self, batch: pa.RecordBatch, name: str, made: Callable[[pa.Array], pa.Array] = lambda column: column
    ) -> pa.Array | None:
        return made(batch.column(self._places[name])) if name in self._places else None

    def _times(self, batch: pa.RecordBatch) -> pa.Array | int:
        """The timestamps in ms; one for all where there is no such column. Raises ValueError for one before 1970."""
        now = self._clock.wall_ms()
        times = self._column(batch, "timestamp", lambda column: as_times(column, now))
        if times is None:
            return now
        if (row := compute.index(compute.less(times, 0), True).as_py()) >= 0:
            raise ValueError(f"column 'timestamp' is {times[row]} ms: a record has a time from 1970 on")
        return times

    def _topics_of(self, batch: pa.RecordBatch) -> Iterator[tuple[str, int, int]]:
        """Neighbours with the same topic: it, the first, the end."""
        if self._topic is not None:
            yield self._topic, 0, batch.num_rows
            return
        first = 0
        for name, run in groupby(batch.column(self._places["topic"]).to_pylist()):
            if name is None:
                raise ValueError(
                    "null topic present in the data. Use the topic option for setting a default topic, or fill the "
                    "column"
                )
            end = first + sum(1 for _ in run)
            yield name, first, end
            first = end

    def _find(self, name: str) -> tuple[ColumnEncoder, int]:
        found = self._topics.get(name)
        if found is None:
            count = self._partitions(name)
            encoder = ColumnEncoder(
                count, lambda partition, batch: self._put(name, partition, batch.data), limit=self._limit,
                codec=self._codec, level=self._level, transactional=self._transactional,
            )  # fmt: skip
            found = self._topics[name] = encoder, count
        return found

    def _make_room(self) -> None:
        """Where the open batches hold more than `buffer.memory`, close the fullest ones until half of it is free."""
        held = sum(encoder.held for encoder, _ in self._topics.values())
        if held > self._room:
            for encoder, _ in self._topics.values():
                encoder.shrink(encoder.held * self._room // 2 // held)
