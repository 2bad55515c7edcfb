"""`spark.read.format("pylog")`: the batch source, on logs written here and read by Spark's own workers.

The cases are those of Spark's KafkaRelationSuite where they have a meaning for a directory, and our own.
"""
# ruff: noqa: E402 (without PySpark this file is skipped, so it is asked for before the imports that need it)

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

SKIPPED = "SPARK TESTS SKIPPED: pip install pyspark pandas pyarrow"
pytest.importorskip("pyspark", reason=SKIPPED)
pa = pytest.importorskip("pyarrow", reason=SKIPPED)

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

import pylog
from pylog import Record
from pylog.spark.batch_reader import PylogReader
from pylog.spark.source import PylogDataSource
from pylog.spark.tasks import BATCH_ROWS, Task
from pylog.spark.versions import HAS_LIMITS

FIRST, SECOND, THIRD = 1_700_000_000_000, 1_700_000_001_000, 1_700_000_002_000
"""Timestamps (ms) of the records 0-9, 10-19 and 20-29 of topic clicks."""

MANY = 25_000

KAFKA_SCHEMA = (
    "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int>"
)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pylog.Log]:
    """A log that this process owns while Spark's workers read it.

    clicks: records 0-29, number n in partition n % 3 at offset n // 3; empty: nothing; headed: headers and nulls;
    stamped: log append time; many: MANY records in zstd batches.
    """
    with pylog.open(str(tmp_path_factory.mktemp("log") / "data"), flush="none") as log:
        clicks = log.create_topic("clicks", partitions=3)
        for n in range(30):
            clicks[n % 3].append(
                [Record(str(n).encode(), key=f"k{n}".encode(), timestamp=(FIRST, SECOND, THIRD)[n // 10])]
            )
        log.create_topic("empty", partitions=2)
        headed = log.create_topic("headed")
        headed[0].append(
            [
                Record(b"1"),
                Record(b"2", headers=[("a", b"b"), ("c", b"d")]),
                Record(b"3", headers=[("e", b"f"), ("e", None)]),
                Record(None, key=b"tombstone"),
            ]
        )
        stamped = log.create_topic("stamped", config={"message.timestamp.type": "LogAppendTime"})
        stamped[0].append([Record(b"x", timestamp=FIRST)])
        log.create_topic("many", partitions=2)
        with log.producer(compression_type="zstd") as producer:
            for n in range(MANY):
                producer.send("many", b"%08d" % n, partition=n % 2, timestamp_ms=FIRST + n)
        yield log


def load(spark: SparkSession, log: pylog.Log, **options: str) -> DataFrame:
    return spark.read.format("pylog").options(**options).load(str(log.path))


def numbers(frame: DataFrame) -> list[int]:
    return sorted(int(row.value) for row in frame.select("value").collect())


def clicks(spark: SparkSession, log: pylog.Log, **options: str) -> list[int]:
    return numbers(load(spark, log, subscribe="clicks", **options))


def refused(spark: SparkSession, log: pylog.Log, **options: str) -> str:
    with pytest.raises(AnalysisException) as error:
        load(spark, log, **options).collect()
    assert "PYTHON_DATA_SOURCE_ERROR" in str(error.value)
    return str(error.value)


def partitions_json(*values: int) -> str:
    return json.dumps({"clicks": {str(i): value for i, value in enumerate(values)}})


# Columns


def test_schema_and_rows(spark: SparkSession, log: pylog.Log) -> None:
    frame = load(spark, log, subscribe="clicks")
    assert frame.schema.simpleString() == KAFKA_SCHEMA
    assert all(field.nullable for field in frame.schema)
    rows = {bytes(row.value): row for row in frame.collect()}
    assert len(rows) == 30
    row = rows[b"17"]
    assert (bytes(row.key), row.topic, row.partition, row.offset, row.timestampType) == (b"k17", "clicks", 2, 5, 0)
    utc = frame.where("offset = 5 and partition = 2").select(sql.unix_millis("timestamp")).first()
    assert utc is not None
    assert utc[0] == SECOND


def test_headers_and_nulls(spark: SparkSession, log: pylog.Log) -> None:
    frame = load(spark, log, subscribe="headed", includeHeaders="true")
    assert frame.schema.simpleString() == KAFKA_SCHEMA[:-1] + ",headers:array<struct<key:string,value:binary>>>"
    rows = frame.orderBy("offset").collect()
    assert [row.key for row in rows] == [None, None, None, bytearray(b"tombstone")]
    assert [row.value for row in rows] == [b"1", b"2", b"3", None]
    assert [row.headers and [tuple(header) for header in row.headers] for row in rows] == [
        None,
        [("a", b"b"), ("c", b"d")],
        [("e", b"f"), ("e", None)],
        None,
    ]


def test_timestamp_type(spark: SparkSession, log: pylog.Log) -> None:
    row = (
        load(spark, log, subscribe="stamped").select("timestampType", sql.unix_millis("timestamp").alias("ms")).first()
    )
    assert row is not None
    assert row.timestampType == 1
    assert row.ms == next(log.topic("stamped")[0].records(0)).timestamp > THIRD


def test_columns_option(spark: SparkSession, log: pylog.Log) -> None:
    frame = load(spark, log, subscribe="clicks", columns="partition,topic")
    assert frame.schema.simpleString() == "struct<partition:int,topic:string>"
    assert sorted({tuple(row) for row in frame.collect()}) == [(0, "clicks"), (1, "clicks"), (2, "clicks")]
    headers = load(spark, log, subscribe="headed", columns="headers,OFFSET").where("headers is not null")
    assert sorted(row.offset for row in headers.collect()) == [1, 2]


def test_schema_of_the_user_is_a_projection(spark: SparkSession, log: pylog.Log) -> None:
    reader = spark.read.format("pylog").option("subscribe", "clicks")
    frame = reader.schema("TimestampType int, value binary, offset bigint NOT NULL").load(str(log.path))
    assert frame.columns == ["TimestampType", "value", "offset"]
    assert numbers(frame) == list(range(30))


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("value string", "column 'value' is binary, the schema says string"),
        ("val binary", "the schema names an unknown column 'val': did you mean 'value'"),
        ("key binary, KEY binary", "twice"),
        ("value binary NOT NULL", "column 'value' can be null"),
    ],
)
def test_schema_of_the_user_refused(spark: SparkSession, log: pylog.Log, schema: str, message: str) -> None:
    reader = spark.read.format("pylog").option("subscribe", "clicks").schema(schema)
    with pytest.raises(PySparkException) as error:
        reader.load(str(log.path)).collect()
    assert message in str(error.value)


def test_schema_and_columns_must_agree(spark: SparkSession, log: pylog.Log) -> None:
    reader = spark.read.format("pylog").options(subscribe="clicks", columns="key").schema("offset bigint")
    with pytest.raises(AnalysisException, match="give one of both"):
        reader.load(str(log.path)).collect()


@pytest.mark.skipif(not HAS_LIMITS, reason="to_arrow_schema of older PySparks has other parameters")
def test_record_batches_have_the_schema_that_spark_expects(log: pylog.Log) -> None:
    """Without a session: what the workers run, and the size of a batch."""
    source = PylogDataSource({"path": str(log.path), "subscribe": "many,headed", "includeHeaders": "true"})
    reader = source.reader(source.schema())
    assert isinstance(reader, PylogReader)
    expected = to_arrow_schema(source.schema(), timezone="UTC")
    sizes = []
    for partition in reader.partitions():
        assert isinstance(partition, Task)
        (wanted,) = partition.ranges
        batches = list(reader.read(partition))
        assert all(expected.equals(batch.schema) for batch in batches)
        table = pa.Table.from_batches(batches)
        table.validate(full=True)
        assert table.column("offset").to_pylist() == list(range(wanted.start, wanted.end))
        sizes.append([batch.num_rows for batch in batches])
    assert sizes[0] == [4]
    for many in sizes[1:]:
        assert sum(many) == MANY // 2
        assert max(many) <= BATCH_ROWS
        # How many records a batch of the log has depends on when its producer was let in: batches that fit are put
        # together, so two neighbours have more, and one that does not fit is parted once.
        assert len(many) <= 4


# Which partitions


def test_subscribe_several(spark: SparkSession, log: pylog.Log) -> None:
    counts = load(spark, log, subscribe="many, clicks,empty").groupBy("topic").count().collect()
    assert {row["topic"]: row["count"] for row in counts} == {"many": MANY, "clicks": 30}


def test_subscribe_pattern(spark: SparkSession, log: pylog.Log) -> None:
    topics = load(spark, log, subscribePattern="(cl|he).*", columns="topic").distinct().collect()
    assert sorted(row.topic for row in topics) == ["clicks", "headed"]
    assert load(spark, log, subscribePattern="click").count() == 0


def test_assign(spark: SparkSession, log: pylog.Log) -> None:
    frame = load(spark, log, assign='{"clicks":[2,0]}')
    assert numbers(frame) == [n for n in range(30) if n % 3 != 1]


def test_compressed_batches(spark: SparkSession, log: pylog.Log) -> None:
    frame = load(spark, log, subscribe="many")
    row = frame.agg(
        sql.count("*"), sql.sum(sql.length("value")), sql.sum(sql.col("value").cast("string").cast("int"))
    ).first()
    assert row is not None
    assert tuple(row) == (MANY, 8 * MANY, MANY * (MANY - 1) // 2)


def test_empty_topic(spark: SparkSession, log: pylog.Log) -> None:
    assert load(spark, log, subscribe="empty").collect() == []
    assert load(spark, log, subscribe="empty", minPartitions="4").count() == 0


def test_sql(spark: SparkSession, log: pylog.Log) -> None:
    spark.sql(f"CREATE TEMPORARY VIEW clicks_view USING pylog OPTIONS (path '{log.path}', subscribe 'clicks')")
    assert spark.sql("SELECT max(offset) FROM clicks_view").collect() == [(9,)]


# Where to start and end


def test_earliest_to_latest(spark: SparkSession, log: pylog.Log) -> None:
    assert clicks(spark, log, startingOffsets="earliest", endingOffsets="latest") == list(range(30))


def test_offsets(spark: SparkSession, log: pylog.Log) -> None:
    start, end = partitions_json(2, -2, 9), partitions_json(-1, 3, 10)
    expected = [n for n in range(30) if (n // 3 >= 2, n // 3 < 3, n // 3 == 9)[n % 3]]
    assert clicks(spark, log, startingOffsets=start, endingOffsets=end) == expected
    assert clicks(spark, log, startingOffsets=partitions_json(10, 10, 10)) == []


def test_global_timestamps(spark: SparkSession, log: pylog.Log) -> None:
    assert clicks(spark, log, startingTimestamp=str(SECOND), endingTimestamp=str(THIRD)) == list(range(10, 20))
    assert clicks(spark, log, startingTimestamp=str(FIRST + 1)) == list(range(10, 30))
    assert clicks(spark, log, endingTimestamp=str(THIRD + 1)) == list(range(30))


def test_timestamps_of_partitions(spark: SparkSession, log: pylog.Log) -> None:
    expected = [n for n in range(30) if (n >= 10, n >= 20, n >= 0)[n % 3] and (n < 20, n < 30, n < 10)[n % 3]]
    start, end = partitions_json(SECOND, THIRD, 0), partitions_json(THIRD, THIRD + 1, SECOND)
    assert clicks(spark, log, startingOffsetsByTimestamp=start, endingOffsetsByTimestamp=end) == expected


def test_timestamp_for_start_and_offset_for_end(spark: SparkSession, log: pylog.Log) -> None:
    options = {
        "startingOffsetsByTimestamp": partitions_json(FIRST, FIRST, FIRST),
        "endingOffsets": partitions_json(-1, -1, 1),
    }
    assert clicks(spark, log, **options) == [n for n in range(30) if n % 3 != 2 or n == 2]


def test_timestamps_go_before_offsets(spark: SparkSession, log: pylog.Log) -> None:
    by_partition = {
        "startingOffsetsByTimestamp": partitions_json(SECOND, SECOND, SECOND),
        "startingOffsets": "earliest",
    }
    assert clicks(spark, log, **by_partition) == list(range(10, 30))
    assert clicks(spark, log, startingTimestamp=str(THIRD), **by_partition) == list(range(20, 30))


def test_start_time_without_match(spark: SparkSession, log: pylog.Log) -> None:
    late = partitions_json(SECOND, SECOND, THIRD + 1)
    message = refused(spark, log, subscribe="clicks", startingOffsetsByTimestamp=late)
    assert f"No offset matched from request of topic-partition clicks-2 and timestamp {THIRD + 1}" in message
    options = {"startingOffsetsByTimestamp": late, "startingOffsetsByTimestampStrategy": "latest"}
    assert clicks(spark, log, **options) == [n for n in range(10, 30) if n % 3 != 2]


# How many tasks


def test_min_partitions(spark: SparkSession, log: pylog.Log) -> None:
    def tasks(**options: str) -> int:
        return load(spark, log, subscribe="clicks,many", **options).select(sql.spark_partition_id()).distinct().count()

    assert tasks() == 3, "small ranges share a task"
    assert tasks(minPartitions="7") == 7
    assert tasks(maxRecordsPerPartition="6250") == 5
    assert clicks(spark, log, minPartitions="8") == list(range(30))


# What is refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "One of the following options must be specified for the pylog source"),
        ({"subscribe": "clicks", "assign": '{"clicks":[0]}'}, "Only one of the following options can be specified"),
        ({"subscribe": "nope"}, "no topic 'nope' in "),
        ({"subscribe": "clicks,nope"}, "there are: clicks, empty, headed, many, stamped"),
        ({"assign": '{"clicks":[3]}'}, "no partition 3: topic 'clicks' in"),
        ({"assign": "clicks"}, "No topicpartitions to assign"),
        ({"subscribe": "clicks", "startingOffsets": "latest"}, "starting offset can't be latest for batch queries"),
        ({"subscribe": "clicks", "startingOffsets": '{"clicks":'}, "option 'startingOffsets': expected e.g."),
        ({"subscribe": "clicks", "startingOffsets": '{"clicks":{"0":1}}'}, "you must specify all TopicPartitions"),
        ({"subscribe": "clicks", "startingOffsets": partitions_json(0, 11, 0)}, "start offset 11 is greater than the"),
        (
            {"subscribe": "clicks", "kafka.bootstrap.servers": "h:1"},
            "and kafka.bootstrap.servers 'h:1' are given",
        ),
        ({"subscribe": "clicks", "startingOffset": "earliest"}, "did you mean 'startingOffsets'"),
        ({"subscribe": "clicks", "columns": "valeu"}, "did you mean 'value'"),
        (
            {"subscribe": "clicks", "endingOffsets": partitions_json(5, 5, 11)},
            "offsets [0, 11) of topic-partition clicks-2",
        ),
    ],
)
def test_refused(spark: SparkSession, log: pylog.Log, options: dict[str, str], message: str) -> None:
    assert message in refused(spark, log, **options)


def test_no_directory(spark: SparkSession, log: pylog.Log, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    with pytest.raises(AnalysisException, match=str(nowhere)):
        spark.read.format("pylog").option("subscribe", "clicks").load(str(nowhere))
    assert not nowhere.exists()
    with pytest.raises(AnalysisException, match="needs the log's directory"):
        spark.read.format("pylog").option("subscribe", "clicks").load()
    with pytest.raises(AnalysisException, match="'paths' names a directory twice"):
        spark.read.format("pylog").option("subscribe", "clicks").load([str(log.path), str(log.path)])


def test_path_option_and_url(spark: SparkSession, log: pylog.Log) -> None:
    assert spark.read.format("pylog").options(path=f"file://{log.path}", subscribe="clicks").load().count() == 30


def test_timestamps_are_utc_instants(spark: SparkSession, log: pylog.Log) -> None:
    row = (
        load(spark, log, subscribe="clicks", columns="timestamp")
        .agg(sql.min("timestamp").cast("string").alias("t"))
        .first()
    )
    assert row is not None
    assert row.t == datetime.fromtimestamp(FIRST / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def test_schema_is_the_same_in_each_worker(log: pylog.Log) -> None:
    source = PylogDataSource({"path": str(log.path), "subscribe": "clicks"})
    assert isinstance(source.schema(), StructType)
    assert PylogDataSource.name() == "pylog"


def test_offsets_that_are_gone_with_fail_on_data_loss_off(spark: SparkSession, log: pylog.Log) -> None:
    options = {"endingOffsets": partitions_json(5, 5, 11), "failOnDataLoss": "false"}
    assert clicks(spark, log, **options) == sorted([*range(0, 15, 3), *range(1, 15, 3), *range(2, 30, 3)])
