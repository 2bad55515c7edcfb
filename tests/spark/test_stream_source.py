"""`spark.readStream.format("pylog")` on a directory, with Spark's own processes.

The cases of Spark's KafkaMicroBatchSourceSuite that need a query; the others are in the unit tests of the reader.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="SPARK TESTS SKIPPED: pip install pyspark pandas pyarrow")

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming import StreamingQuery

import pylog
from pylog import Record


@pytest.fixture
def log(tmp_path: Path) -> Iterator[pylog.Log]:
    """A log that this process owns while Spark's workers read it."""
    with pylog.open(tmp_path / "data", flush="none") as log:
        yield log


def append(log: pylog.Log, topic: str, *values: int, partition: int = 0) -> None:
    log.topic(topic)[partition].append([Record(str(value).encode()) for value in values])


def load(spark: SparkSession, log: pylog.Log, **options: str) -> DataFrame:
    return spark.readStream.format("pylog").options(**options).load(str(log.path))


class Sink:
    """What a query has given, by the number of the batch: one that is done again counts once. Runs may be several."""

    def __init__(self, frame: DataFrame, checkpoint: Path, *, mode: str = "append") -> None:
        self.batches: dict[int, list[int]] = {}
        self._writer = frame.select("value").writeStream.outputMode(mode).foreachBatch(self._take)
        self._writer = self._writer.option("checkpointLocation", str(checkpoint))

    def _take(self, frame: DataFrame, number: int) -> None:
        self.batches[number] = [int(row.value) for row in frame.collect()]

    def start(self) -> StreamingQuery:
        return self._writer.trigger(processingTime="0 seconds").start()

    def run(self) -> StreamingQuery:
        """A whole run with Trigger.AvailableNow."""
        query = self._writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return query

    def numbers(self) -> list[int]:
        return sorted(value for batch in self.batches.values() for value in batch)


def input_rows(query: StreamingQuery) -> list[int]:
    return [progress.numInputRows for progress in query.recentProgress]


def test_available_now_in_batches_then_new_records_after_a_restart(
    spark: SparkSession, log: pylog.Log, tmp_path: Path
) -> None:
    """Trigger.AvailableNow; input row metrics."""
    log.create_topic("t", partitions=5)
    for n in range(15):
        append(log, "t", n, partition=n % 5)
    frame = load(spark, log, subscribe="t", maxOffsetsPerTrigger="5")
    sink = Sink(frame, tmp_path / "cp")
    query = sink.run()
    assert sink.numbers() == list(range(15))
    assert input_rows(query) == [5, 5, 5]
    source = query.recentProgress[1].sources[0]
    assert json.loads(source.endOffset)["t"] == dict.fromkeys("01234", 2)
    assert json.loads(source.latestOffset)["t"] == dict.fromkeys("01234", 3)
    append(log, "t", 15)
    again = Sink(frame, tmp_path / "cp")
    assert input_rows(again.run()) == [1]
    assert again.numbers() == [15]


def test_a_running_query_sees_records_partitions_and_topics(
    spark: SparkSession, log: pylog.Log, tmp_path: Path
) -> None:
    log.create_topic("t-1")
    append(log, "t-1", 1)
    sink = Sink(load(spark, log, subscribePattern="t-.*"), tmp_path / "cp")
    query = sink.start()
    try:
        query.processAllAvailable()
        assert sink.numbers() == [1]
        append(log, "t-1", 2)
        log.create_partitions("t-1", 2)
        append(log, "t-1", 3, partition=1)
        log.create_topic("t-2")
        append(log, "t-2", 4)
        query.processAllAvailable()
        assert sink.numbers() == [1, 2, 3, 4]
    finally:
        query.stop()


def test_nothing_is_skipped_after_a_failure_in_the_first_batch(
    spark: SparkSession, log: pylog.Log, tmp_path: Path
) -> None:
    """(De)serialization of initial offsets: with startingOffsets=latest, which moves on meanwhile."""
    log.create_topic("t")
    append(log, "t", 0)
    frame = load(
        spark, log, subscribe="t", startingOffsets="latest", stateLocation=str(tmp_path / "cp" / "pylog"),
        failOnDataLoss="true",
    )  # fmt: skip
    query = Sink(frame, tmp_path / "cp").start()
    query.processAllAvailable()
    query.stop()
    append(log, "t", 1, 2)
    query = Sink(frame.withColumn("value", sql.raise_error(sql.lit("on purpose"))), tmp_path / "cp").start()
    with pytest.raises(StreamingQueryException, match="on purpose"):
        query.processAllAvailable()
    append(log, "t", 3)
    sink = Sink(frame, tmp_path / "cp")
    sink.run()
    assert sink.numbers() == [1, 2, 3]


def test_start_that_would_move_is_refused_without_a_state_location(
    spark: SparkSession, log: pylog.Log, tmp_path: Path
) -> None:
    log.create_topic("t")
    with pytest.raises(StreamingQueryException, match="needs option 'stateLocation'"):
        Sink(load(spark, log, subscribe="t", startingOffsets="latest"), tmp_path / "cp").run()


def test_delete_a_topic_when_a_spark_job_is_running(spark: SparkSession, log: pylog.Log, tmp_path: Path) -> None:
    log.create_topic("t")
    append(log, "t", 1)
    sink = Sink(load(spark, log, subscribePattern="t", failOnDataLoss="false"), tmp_path / "cp")
    query = sink.start()
    try:
        query.processAllAvailable()
        log.delete_topic("t")
        query.processAllAvailable()
        log.create_topic("t")
        append(log, "t", 2)
        query.processAllAvailable()
        assert sink.numbers() == [1, 2]
    finally:
        query.stop()


def test_topic_made_again_fails_a_query_by_its_id(spark: SparkSession, log: pylog.Log, tmp_path: Path) -> None:
    """Subscribing topic by pattern with topic recreation between batches."""
    log.create_topic("t")
    append(log, "t", 1)
    sink = Sink(load(spark, log, subscribe="t"), tmp_path / "cp")
    sink.run()
    log.delete_topic("t")
    log.create_topic("t")
    append(log, "t", 2, 3)
    with pytest.raises(StreamingQueryException, match="topic t was deleted and made again"):
        sink.run()


def test_source_with_watermark(spark: SparkSession, log: pylog.Log, tmp_path: Path) -> None:
    """KafkaSource with watermark."""
    log.create_topic("t")[0].append([Record(b"1", timestamp=1_000_000)])
    counts = (
        load(spark, log, subscribe="t")
        .withWatermark("timestamp", "10 seconds")
        .groupBy(sql.window("timestamp", "5 seconds"))
        .agg(sql.count("*").alias("value"))
        .select("value")
    )
    sink = Sink(counts, tmp_path / "cp", mode="complete")
    sink.run()
    assert sink.numbers() == [1]


def test_union_of_two_sources_where_one_has_nothing_new(spark: SparkSession, log: pylog.Log, tmp_path: Path) -> None:
    """SPARK-22956"""
    for topic, value in (("a", 1), ("b", 2)):
        log.create_topic(topic)
        append(log, topic, value)
    both = load(spark, log, subscribe="a").union(load(spark, log, subscribe="b"))
    sink = Sink(both, tmp_path / "cp")
    query = sink.start()
    try:
        query.processAllAvailable()
        append(log, "a", 3)
        query.processAllAvailable()
        append(log, "b", 4)
        query.processAllAvailable()
        assert sink.numbers() == [1, 2, 3, 4]
    finally:
        query.stop()


def test_stream_stream_self_join(spark: SparkSession, log: pylog.Log, tmp_path: Path) -> None:
    log.create_topic("t")
    append(log, "t", 1, 2)
    value = sql.col("value").cast("string")
    frame = load(spark, log, subscribe="t").select(value.alias("value"))
    sink = Sink(frame.join(frame, "value"), tmp_path / "cp")
    sink.run()
    assert sink.numbers() == [1, 2]
