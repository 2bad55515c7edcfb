"""The changes of rows in the records of a topic, and the last one of each key.

    plain       the key is a row's, the value is the row, and no value deletes it
    debezium    the value is an envelope: `op` says what happened, `after` is the row; with and without the wrapper
                {"schema": ..., "payload": ...} that Kafka Connect puts around keys and values

A change has `KEY`, the columns of the row, `PLACE`, which says where its record is, and `DELETED`.
Sources: Debezium's event envelope (io.debezium.data.Envelope), Kafka Connect's JsonConverter.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

ENVELOPES: Final = ("none", "debezium")
KEY: Final = "_key"
PLACE: Final = ("_partition", "_offset", "_timestamp")
DELETED: Final = "_deleted"
PART: Final = "_part"
_CORRUPT: Final = "_corrupt"
_RESERVED: Final = frozenset({KEY, *PLACE, DELETED, PART, _CORRUPT})
_VALUE: Final = StructType([StructField("value", BinaryType())])


def row_fields(schema: str | None) -> StructType:
    """The columns of a row: those of a DDL schema, or one of bytes. Raises ValueError, ParseException."""
    if schema is None:
        return _VALUE
    fields = StructType.fromDDL(schema)
    if not isinstance(fields, StructType) or not fields.names:
        raise ValueError(f"the schema is fields, id BIGINT, name STRING say, got '{schema}'")
    taken = [name for name in fields.names if name.lower() in _RESERVED]
    if taken:
        raise ValueError(f"the schema has the column '{taken[0]}', a name that pylog takes: rename that field")
    return fields


def changes(records: DataFrame, topic: str, schema: str | None, envelope: str) -> DataFrame:
    """The change of each record. A query fails at a record that says none, and the error names its offset."""
    place = sql.concat(sql.lit(f"{topic}-"), "partition", sql.lit(" at offset "), "offset")
    keyed = records.withColumn("key", _or_fail("key", place, "no key, so it says of no row that it changed"))
    if schema is None:
        return keyed.select(sql.col("key").alias(KEY), sql.col("value").isNull().alias(DELETED), "value", *_place())
    text = sql.col("key").cast("string")
    valid = sql.when(sql.is_valid_utf8(text), text)
    keyed = keyed.withColumn("key", _or_fail(valid, place, "a key that is no UTF-8; leave out the schema"))
    fields = row_fields(schema)
    if envelope == "none":
        row, is_deleted, key = _json(fields, place), sql.col("value").isNull(), sql.col("key")
    else:
        row, is_deleted = _unwrapped(fields, place)
        key = _payload(sql.col("key"))
    found = keyed.select(key.alias(KEY), is_deleted.alias(DELETED), row.alias("row"), *_place())
    return found.select(KEY, DELETED, *(sql.col("row")[name].alias(name) for name in fields.names), *PLACE)


def last_of_each_key(found: DataFrame) -> DataFrame:
    """The change of each key that holds in the end: the one of the highest offset; where the key is in several
    partitions, of these the one of the latest timestamp.
    """
    partition, offset, timestamp = PLACE
    whole = sql.struct(*(name for name in found.columns if name != KEY))
    last = found.groupBy(KEY, partition).agg(sql.max_by(whole, offset).alias("last"))
    newest = sql.struct(f"last.{timestamp}", f"last.{partition}")
    return last.groupBy(KEY).agg(sql.max_by("last", newest).alias("last")).select(KEY, "last.*")


def _place() -> list[Column]:
    return [sql.col(name[1:]).alias(name) for name in PLACE]


def _or_fail(column: Column | str, place: Column, problem: str) -> Column:
    return sql.coalesce(column, sql.raise_error(sql.concat(place, sql.lit(f" has {problem}"))))


def _json(fields: StructType, place: Column) -> Column:
    """The value as these fields of JSON, and null without a value."""
    wanted = StructType([*fields.fields, StructField(_CORRUPT, StringType())])
    found = sql.from_json(sql.col("value").cast("string"), wanted, {"columnNameOfCorruptRecord": _CORRUPT})
    sound = sql.when(found[_CORRUPT].isNull(), found)
    return sql.when(
        sql.col("value").isNotNull(), _or_fail(sound, place, f"a value that is no JSON of {fields.simpleString()}")
    )


def _unwrapped(fields: StructType, place: Column) -> tuple[Column, Column]:
    """The row behind a change of Debezium's, and whether it is deleted. A tombstone follows a deletion, and says it
    once more.
    """
    event = [StructField("op", StringType()), StructField("after", fields)]
    value = _json(StructType([StructField("payload", StructType(event)), *event]), place)
    op = sql.coalesce(value["payload"]["op"], value["op"])
    after = sql.coalesce(value["payload"]["after"], value["after"])
    is_deleted = sql.col("value").isNull() | op.eqNullSafe("d")
    written = _or_fail(sql.when(op.isin("c", "u", "r"), after), place, "a value that is no change of Debezium's")
    return sql.when(~is_deleted, written), is_deleted


def _payload(key: Column) -> Column:
    """The key without Connect's wrapper, whose schema may change while the row stays the same."""
    payload = sql.when(sql.get_json_object(key, "$.schema").isNotNull(), sql.get_json_object(key, "$.payload"))
    return sql.coalesce(payload, sql.get_json_object(key, "$"), key)
