"""Rows of Arrow batches, encoded as Kafka batches of the partitions that they go to.

The columns are those of Spark's Kafka sink, and `timestamp`: value (string or binary, required), key, topic, partition,
headers. Without a partition a record goes where a Java producer sends it: by its key, and without a key to one
partition until a batch is full. A row without a timestamp gets the time of encoding. The other columns of the
source (offset, timestampType) are passed over, so that what was read can be written.
(Kafka's sink: KafkaWriter.validateQuery, KafkaRowWriter.)
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import repeat
from random import randrange
from typing import Any, Final

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
from pylog.kernel import OpenBatch, add_columns
from pylog.protocol.batch import seal
from pylog.protocol.compression import Codec
from pylog.protocol.partitioner import partition_for_key
from pylog.runtime.clock import SystemClock
from pylog.spark.columns import column_name

_TEXTS: Final = (StringType, BinaryType)
_TYPES: Final[dict[str, tuple[tuple[type[DataType], ...], str]]] = {
    "value": (_TEXTS, "string or binary"),
    "key": (_TEXTS, "string or binary"),
    "topic": ((StringType,), "string"),
    "partition": ((IntegerType,), "int"),
    "timestamp": ((TimestampType,), "timestamp"),
}
_HEADERS: Final = "array<struct<key:string,value:binary>>"

Put = Callable[[str, int, bytearray], None]
"""Takes a topic, a partition and a batch."""


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


class _Topic:
    """The open batches of one topic."""

    def __init__(self, name: str, count: int) -> None:
        self.name = name
        self.count = count
        self.open: list[OpenBatch | None] = [None] * count
        self.sticky = randrange(count)


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
        self._topics: dict[str, _Topic] = {}
        self._room = config.buffer_memory
        self._clock = SystemClock()

    def add(self, batch: pa.RecordBatch) -> None:
        """Encode the rows of a batch.

        Raises ValueError for a row without a topic, a partition that is not there, a timestamp before 1970, a header
        without a key; UnknownTopicOrPartition.
        """
        if self._topic is not None and not self._places.keys() & {"partition", "headers"}:
            self._add_plain(self._find(self._topic), batch)
        else:
            self._add_rows(batch)
        self.records += batch.num_rows
        self._make_room()

    def _add_plain(self, at: "_Topic", batch: pa.RecordBatch) -> None:
        """Encode rows of values, keys and timestamps: in the kernel, except those that begin a batch."""
        count, row = batch.num_rows, 0
        keys = _buffers(self._column(batch, "key", pa.binary())) if "key" in self._places else None
        values, times = _buffers(self._column(batch, "value", pa.binary())), self._times(batch)
        stamps = times if isinstance(times, int) else (times.buffers()[1], times.offset)
        while row < count:
            row = add_columns(at.open, at.sticky, values, keys, stamps, row, count)
            if row < count:
                self._add_rows(batch.slice(row, 1))
                row += 1

    def _add_rows(self, batch: pa.RecordBatch) -> None:
        at: _Topic | None = None
        for value, key, name, number, stamp, headers in self._rows(batch):
            if at is None or name != at.name:
                at = self._find(name)
            if number is None:
                number = at.sticky if key is None else partition_for_key(key, at.count)
            elif not 0 <= number < at.count:
                raise ValueError(
                    f"column 'partition' is {number}: topic '{name}' has {at.count} partitions, from 0 on; null "
                    "leaves the choice to the partitioner"
                )
            opened = at.open[number]
            if opened is None or opened.add(value, key, stamp, headers) < 0:
                self._begin(at, number).add(value, key, stamp, headers)

    def finish(self) -> None:
        """Give all that is left to `put`."""
        for topic in self._topics.values():
            for number in range(topic.count):
                self._close(topic, number)

    def _rows(self, batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
        count = batch.num_rows

        def cells(name: str, kind: pa.DataType) -> Any:
            return self._column(batch, name, kind).to_pylist() if name in self._places else repeat(None, count)

        topics: Any = repeat(self._topic, count) if self._topic is not None else cells("topic", pa.string())
        times = self._times(batch)
        stamps: Any = repeat(times, count) if isinstance(times, int) else times.to_pylist()
        return zip(
            cells("value", pa.binary()), cells("key", pa.binary()), topics, cells("partition", pa.int32()), stamps,
            self._headers(batch), strict=True,
        )  # fmt: skip

    def _column(self, batch: pa.RecordBatch, name: str, kind: pa.DataType) -> "pa.Array[Any]":
        array = batch.column(self._places[name])
        return array if array.type == kind else array.cast(kind)

    def _times(self, batch: pa.RecordBatch) -> "pa.Array[Any] | int":
        """The timestamps in ms; one for all where there is no such column."""
        now = self._clock.wall_ms()
        if "timestamp" not in self._places:
            return now
        micros = self._column(batch, "timestamp", pa.timestamp("us", tz="UTC")).cast(pa.int64())
        return compute.fill_null(compute.divide(micros, 1000), now)

    def _headers(self, batch: pa.RecordBatch) -> Any:
        place = self._places.get("headers")
        if place is None:
            return repeat((), batch.num_rows)
        return [_headers(some) for some in batch.column(place).to_pylist()]

    def _find(self, name: str | None) -> _Topic:
        if name is None:
            raise ValueError(
                "null topic present in the data. Use the topic option for setting a default topic, or fill the column"
            )
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = _Topic(name, self._partitions(name))
        return topic

    def _begin(self, topic: _Topic, number: int) -> OpenBatch:
        self._close(topic, number)
        topic.open[number] = batch = OpenBatch(self._limit)
        return batch

    def _make_room(self) -> None:
        """Where the open batches hold more than `buffer.memory`, close the fullest ones until half of it is free."""
        opened = [
            (batch.size, topic, number)
            for topic in self._topics.values()
            for number, batch in enumerate(topic.open)
            if batch is not None
        ]
        held = sum(size for size, _, _ in opened)
        if held <= self._room:
            return
        for size, topic, number in sorted(opened, key=lambda one: -one[0]):
            if held <= self._room // 2:
                break
            self._close(topic, number)
            held -= size

    def _close(self, topic: _Topic, number: int) -> None:
        batch, topic.open[number] = topic.open[number], None
        if batch is None:
            return
        if number == topic.sticky:
            topic.sticky = randrange(topic.count)
        sealed = seal(batch.close(), codec=self._codec, level=self._level, transactional=self._transactional)
        assert isinstance(sealed.data, bytearray), "it was made here"
        self._put(topic.name, number, sealed.data)


def _buffers(array: "pa.Array[Any]") -> tuple[Any, Any, Any, int]:
    validity, offsets, data = array.buffers()
    return validity, offsets, data, array.offset


def _headers(some: list[dict[str, Any] | None] | None) -> tuple[tuple[str, bytes | None], ...]:
    if not some:
        return ()
    found = []
    for header in some:
        if header is None or header["key"] is None:
            raise ValueError("column 'headers' has a header without a key: filter these out")
        found.append((header["key"], header["value"]))
    return tuple(found)
