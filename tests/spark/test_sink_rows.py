"""Rows as batches: which columns, which partition, what is refused; with the cases of Spark's KafkaSinkSuite."""
# ruff: noqa: E402 (without PySpark this file is skipped, so it is asked for before the imports that need it)

from datetime import UTC, datetime
from typing import Any

import pytest

SKIPPED = "SPARK TESTS SKIPPED: pip install pyspark pandas pyarrow"
pytest.importorskip("pyspark", reason=SKIPPED)
pa = pytest.importorskip("pyarrow", reason=SKIPPED)

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

from pylog import ConsumerRecord, errors
from pylog.config import ProducerConfig
from pylog.protocol.batch import Batch
from pylog.protocol.compression import Codec
from pylog.protocol.partitioner import partition_for_key
from pylog.spark.sink.rows import RowEncoder, sink_columns

HEADERS = "array<struct<key:string,value:binary>>"
SWAPPED = "array<struct<value:binary,key:string>>"
ARROW_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


TYPES: dict[str, DataType] = {
    "string": StringType(),
    "binary": BinaryType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "timestamp": TimestampType(),
    "array<string>": ArrayType(StringType()),
    HEADERS: ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
    SWAPPED: ArrayType(StructType([StructField("value", BinaryType()), StructField("key", StringType())])),
}


def schema(ddl: str) -> StructType:
    """A schema without a JVM."""
    pairs = [column.split(" ") for column in ddl.split(", ")]
    return StructType([StructField(name, TYPES[kind]) for name, kind in pairs])


def encoded(
    ddl: str, *batches: dict[str, Any], topic: str | None = "t", partitions: int = 3, **config: Any
) -> list[tuple[str, int, Batch]]:
    found: list[tuple[str, int, Batch]] = []

    def put(name: str, partition: int, data: bytearray) -> None:
        found.append((name, partition, Batch.parse(data)))

    def count(name: str) -> int:
        if name == "missing":
            raise errors.UnknownTopicOrPartition(name)
        return partitions

    columns = sink_columns(schema(ddl), topic)
    encoder = RowEncoder(columns, topic, count, ProducerConfig.from_kafka(config), put, transactional=True)
    for batch in batches:
        encoder.add(pa.RecordBatch.from_pydict(batch))
    encoder.finish()
    assert encoder.records == sum(len(next(iter(batch.values()))) for batch in batches)
    return found


def records(found: list[tuple[str, int, Batch]]) -> list[ConsumerRecord]:
    return [record for topic, partition, batch in found for record in batch.records(topic, partition)]


def test_a_key_leads_to_the_partition_that_a_java_producer_chooses() -> None:
    keys = [f"key-{number}" for number in range(50)]
    for record in records(encoded("value string, key string", {"value": keys, "key": keys})):
        assert record.key == record.value
        assert record.partition == partition_for_key(record.value or b"", 3)


def test_without_a_key_records_stick_to_a_partition_until_a_batch_is_full() -> None:
    found = encoded("value string", {"value": ["x" * 100] * 200}, batch_size=1000)
    assert len(found) > 20
    assert {partition for _, partition, _ in found} == {0, 1, 2}
    assert len({partition for _, partition, _ in encoded("value string", {"value": ["x"] * 50})}) == 1


def test_a_partition_goes_before_the_key_and_null_leaves_the_choice() -> None:
    batch = {"value": ["a", "b"], "key": ["k", "k"], "partition": pa.array([2, None], pa.int32())}
    found = {
        record.value: record.partition for record in records(encoded("value string, key string, partition int", batch))
    }
    assert found == {b"a": 2, b"b": partition_for_key(b"k", 3)}


@pytest.mark.parametrize("number", [3, -1])
def test_a_partition_that_is_not_there_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match=f"'partition' is {number}: topic 't' has 3 partitions"):
        encoded("value string, partition int", {"value": ["a"], "partition": pa.array([number], pa.int32())})


def test_keys_values_headers_and_timestamps_are_as_given() -> None:
    at = datetime(2024, 1, 2, 3, 4, 5, 678_999, UTC)
    batch = {
        "VALUE": pa.array([b"\xff", None], pa.large_binary()), "key": pa.array([None, "k"], pa.large_string()),
        "headers": pa.array([[{"key": "a", "value": b"1"}, {"key": "a", "value": None}], None], ARROW_HEADERS),
        "timestamp": pa.array([at, None], pa.timestamp("us", tz="UTC")), "offset": [7, 8], "timestampType": [0, 0],
    }  # fmt: skip
    ddl = f"VALUE binary, key string, headers {HEADERS}, timestamp timestamp, offset bigint, timestampType int"
    (one, two) = sorted(records(encoded(ddl, batch)), key=lambda record: record.timestamp)
    assert (one.value, one.key, one.headers) == (b"\xff", None, (("a", b"1"), ("a", None)))
    assert one.timestamp == int(at.timestamp() * 1000)
    assert (two.value, two.key, two.headers) == (None, b"k", ())
    assert two.timestamp > one.timestamp


def test_a_column_names_the_topic_of_each_row_and_the_option_wins() -> None:
    batch = {"value": ["a", "b", "c"], "topic": ["x", "y", "x"]}
    found = records(encoded("value string, topic string", batch, topic=None))
    assert sorted((record.topic, record.value) for record in found) == [("x", b"a"), ("x", b"c"), ("y", b"b")]
    assert {record.topic for record in records(encoded("value string, topic string", batch))} == {"t"}


def test_a_row_without_a_topic_or_with_one_that_is_missing_is_refused() -> None:
    with pytest.raises(ValueError, match="null topic present in the data"):
        encoded("value string, topic string", {"value": ["a"], "topic": pa.array([None], pa.string())}, topic=None)
    with pytest.raises(errors.UnknownTopicOrPartition):
        encoded("value string, topic string", {"value": ["a"], "topic": ["missing"]}, topic=None)


@pytest.mark.parametrize("headers", [[None], [{"key": None, "value": b"x"}]])
def test_a_header_without_a_key_is_refused(headers: list[Any]) -> None:
    with pytest.raises(ValueError, match="without a key"):
        encoded(f"value string, headers {HEADERS}", {"value": ["a"], "headers": pa.array([headers], ARROW_HEADERS)})


@pytest.mark.parametrize("codec", ["zstd", "lz4", "none"])
def test_batches_are_full_compressed_and_of_a_transaction(codec: str) -> None:
    found = encoded(
        "value string",
        {"value": ["x" * 50] * 100},
        {"value": ["y" * 50] * 100},
        batch_size=2000,
        compression_type=codec,
    )
    assert {batch.codec for _, _, batch in found} == {Codec.parse(codec)}
    assert all(batch.is_transactional for _, _, batch in found)
    assert sum(batch.count for _, _, batch in found) == 200
    for _, _, batch in found:
        batch.check()


def test_a_task_with_many_partitions_fills_its_batches() -> None:
    keys = [f"{number}" for number in range(30_000)]
    found = encoded("value string, key string", {"value": keys, "key": keys}, partitions=300)
    assert sorted(int(record.value or b"") for record in records(found)) == list(range(30_000))
    assert len(found) == 300, "one batch for each partition"


def test_where_open_batches_hold_too_much_the_fullest_are_closed() -> None:
    """A quarter of the records goes to one partition, which is closed; the others go on."""
    rows = [{"value": [b"v" * 100] * 100, "partition": [0] * 25 + list(range(1, 76))} for _ in range(10)]
    found = encoded("value binary, partition int", *rows, partitions=76, **{"buffer.memory": 20_000})
    counts = [sum(number == partition for _, partition, _ in found) for number in range(76)]
    assert sum(batch.count for _, _, batch in found) == 1000
    assert counts[0] > max(counts[1:])


@pytest.mark.parametrize(
    ("ddl", "topic", "message"),
    [
        ("key string", "t", "Required attribute 'value' not found"),
        ("value string", None, "topic option required when no 'topic' attribute is present"),
        ("value int", "t", "value attribute type must be a string or binary, it is int"),
        ("value string, key int", "t", "key attribute type must be a string or binary"),
        ("value string, topic int", "t", "topic attribute type must be a string"),
        ("value string, partition bigint", "t", "partition attribute type must be a int"),
        ("value string, timestamp bigint", "t", "timestamp attribute type must be a timestamp"),
        ("value string, headers array<string>", "t", "headers attribute type must be array<struct"),
        ("value string, headers string", "t", "headers attribute type must be array<struct"),
        (f"value string, headers {SWAPPED}", "t", "headers attribute type must be"),
        ("value string, vlaue string", "t", "unknown column 'vlaue': did you mean 'value'"),
        ("value string, VALUE string", "t", "column 'value' twice"),
    ],
)
def test_columns_that_are_no_record_are_refused(ddl: str, topic: str | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sink_columns(schema(ddl), topic)
