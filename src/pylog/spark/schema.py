"""The columns of the source as Spark and as Arrow have them, and how the log's batches become Spark's.

The columns are those of Spark's Kafka source, in its order and types; `columns` or a schema given to the reader chooses
among them. Each batch has exactly Spark's Arrow schema: binary and string, not large; timestamp[us, UTC].
"""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
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

from pylog.spark.columns import column_name
from pylog.spark.tasks import LogRange

_HEADER: Final = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
SPARK_TYPES: Final[dict[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": ArrayType(_HEADER),
}
ARROW_TYPES: Final = {
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


class ColumnShaper:
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
            return milliseconds.cast(ARROW_TYPES["timestamp"])
        except pa.ArrowInvalid as error:
            place = f"{self._wanted.topic}-{self._wanted.partition} before offset {self.next_offset}"
            raise ValueError(f"a timestamp of {place} does not fit into Spark's microseconds: {error}") from None


def spark_schema(columns: Sequence[str]) -> StructType:
    """The schema of these columns of the source, all nullable."""
    return StructType([StructField(column, SPARK_TYPES[column]) for column in columns])


def arrow_schema(schema: StructType, columns: Sequence[str] | None) -> pa.Schema:
    """The Arrow schema that Spark expects for `schema`, which names columns of the source in any order and case."""
    fields: dict[str, pa.Field] = {}
    for field in schema.fields:
        column = column_name(field.name, "the schema")
        if column in fields:
            raise ValueError(f"the schema names column '{column}' twice")
        if field.dataType != SPARK_TYPES[column]:
            expected, given = SPARK_TYPES[column].simpleString(), field.dataType.simpleString()
            raise ValueError(f"column '{column}' is {expected}, the schema says {given}: CAST it after load()")
        if column in _NULLABLE and not field.nullable:
            raise ValueError(f"column '{column}' can be null, the schema says NOT NULL")
        fields[column] = pa.field(field.name, ARROW_TYPES[column], nullable=field.nullable)
    if not fields:
        raise ValueError("the schema names no column")
    if columns is not None and tuple(columns) != tuple(fields):
        raise ValueError(
            f"option 'columns' names {', '.join(columns)}, the schema {', '.join(fields)}: give one of both"
        )
    return pa.schema(list(fields.values()))
