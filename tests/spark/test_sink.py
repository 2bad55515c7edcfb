"""`write.format("pylog")` and `writeStream.format("pylog")` by Spark itself: batches, streams, restarts, faults."""
# ruff: noqa: E402 (without PySpark this file is skipped, so it is asked for before the imports that need it)

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SKIPPED = "SPARK TESTS SKIPPED: pip install pyspark pandas pyarrow"
pytest.importorskip("pyspark", reason=SKIPPED)

from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import pylog
from pylog.spark.sink.ledger import LEDGER_TOPIC
from pylog.spark.versions import HAS_LIMITS


@pytest.fixture
def data(tmp_path: Path) -> str:
    """A log directory that no process owns."""
    with pylog.open(tmp_path / "data", flush="none") as log:
        log.create_topic("out", partitions=2)
    return str(tmp_path / "data")


def numbers(spark: SparkSession, first: int, end: int) -> DataFrame:
    return spark.range(first, end).selectExpr("CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value")


def written(path: str) -> list[int]:
    with pylog.open(path, mode="read") as log:
        found = [
            int(record.value or b"")
            for partition in log.topic("out")
            for record in partition.records(isolation_level="read_committed")
        ]
    return sorted(found)


def stream(frame: DataFrame, checkpoint: Path, path: str, mode: str = "append", **options: str) -> Any:
    writer = frame.writeStream.outputMode(mode).format("pylog").option("checkpointLocation", str(checkpoint))
    return writer.options(**{"topic": "out", **options}).trigger(availableNow=True).start(path)


def finish(query: Any) -> None:
    query.awaitTermination(120)
    if query.exception() is not None:
        raise query.exception()


def test_a_batch_is_written_all_or_nothing(spark: SparkSession, data: str) -> None:
    numbers(spark, 0, 1000).write.format("pylog").mode("append").option("topic", "out").save(data)
    assert written(data) == list(range(1000))
    broken = spark.range(0, 100, 1, 4).selectExpr("CAST(IF(id = 99, raise_error('bad'), id) AS STRING) AS value")
    with pytest.raises(PySparkException, match="bad"):
        broken.write.format("pylog").mode("append").option("topic", "out").save(data)
    assert written(data) == list(range(1000))
    numbers(spark, 5, 8).write.format("pylog").mode("overwrite").option("topic", "out").save(data)
    assert written(data) == [5, 6, 7]


def test_a_stream_that_goes_on_writes_each_record_once(spark: SparkSession, data: str, tmp_path: Path) -> None:
    source = tmp_path / "in"
    for part in range(2):
        numbers(spark, part * 100, part * 100 + 100).write.mode("append").parquet(str(source))
        frame = spark.readStream.schema("key string, value string").option("maxFilesPerTrigger", 1)
        finish(stream(frame.parquet(str(source)), tmp_path / "cp", data))
    assert written(data) == list(range(200))
    with pylog.open(data, mode="read") as log:
        entries = [record for partition in log.topic(LEDGER_TOPIC) for record in partition.records()]
    assert len({record.key for record in entries}) == 1
    assert [json.loads(record.value or b"")["batch"] for record in entries] == list(range(len(entries)))


def test_a_batch_that_spark_runs_again_is_there_once(spark: SparkSession, data: str, tmp_path: Path) -> None:
    numbers(spark, 0, 100).write.parquet(str(tmp_path / "in"))
    frame = spark.readStream.schema("key string, value string").parquet(str(tmp_path / "in"))
    finish(stream(frame, tmp_path / "cp", data))
    # As a kill behind the sink's commit leaves it: the batch is planned, and Spark does not know that it is done.
    for name in (tmp_path / "cp" / "commits").iterdir():
        name.unlink()
    finish(stream(frame, tmp_path / "cp", data))
    assert written(data) == list(range(100))
    finish(stream(frame, tmp_path / "another", data))
    assert written(data) == sorted([*range(100), *range(100)])


@pytest.mark.skipif(not HAS_LIMITS, reason="streams of PySpark 4.0 and 4.1 have no limits")
@pytest.mark.parametrize("loss", ["backup", "last offsets"])
def test_a_checkpoint_that_was_put_back_loses_nothing(
    spark: SparkSession, data: str, tmp_path: Path, loss: str
) -> None:
    """Its numbers come again, with other records."""
    checkpoint = tmp_path / "cp"

    def send(first: int, end: int) -> None:
        with pylog.open(data) as log, log.producer() as producer:
            for number in range(first, end):
                producer.send("in", b"%d" % number)

    def run(**start: str) -> None:
        options = {"subscribe": "in", "maxOffsetsPerTrigger": "30", **start}
        frame = spark.readStream.format("pylog").options(**options).load(data).select("value")
        finish(stream(frame, checkpoint, data))

    with pylog.open(data) as log:
        log.create_topic("in")
    send(0, 60)
    run()
    if loss == "backup":
        shutil.copytree(checkpoint, tmp_path / "backup")
        send(60, 120)
        run()
        shutil.rmtree(checkpoint)
        (tmp_path / "backup").rename(checkpoint)
    else:
        for folder in ("offsets", "commits"):
            for name in ("1", ".1.crc"):
                (checkpoint / folder / name).unlink()
    send(120, 150)
    before = written(data)
    if loss == "last offsets":
        # The batch is planned with the same end, so it is the one that is there.
        run()
        assert written(data) == [*range(60), *range(120, 150)]
        return
    with pytest.raises(StreamingQueryException, match=r"no replay .* To go on, put the checkpoint back") as refused:
        run()
    assert written(data) == before == list(range(120))
    shutil.rmtree(checkpoint)
    said = re.search(r"startingOffsets=(\{.*?\}\})", str(refused.value))
    assert said is not None
    run(startingOffsets=said[1])
    assert written(data) == list(range(150))


def test_the_output_mode_complete_replaces_the_topic(spark: SparkSession, data: str, tmp_path: Path) -> None:
    counts = "CAST(key AS STRING) AS key", "CAST(count AS STRING) AS value"
    for part in range(2):
        numbers(spark, 0, 3).write.mode("append").parquet(str(tmp_path / "in"))
        frame = spark.readStream.schema("key string, value string").parquet(str(tmp_path / "in"))
        finish(stream(frame.groupBy("key").count().selectExpr(*counts), tmp_path / "cp", data, "complete"))
        assert written(data) == [part + 1] * 3


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_a_server_is_written_to(spark: SparkSession, data: str, tmp_path: Path, guarantee: str) -> None:
    numbers(spark, 0, 500).write.parquet(str(tmp_path / "in"))
    with pylog.open(data) as log, log.serve() as server:
        options = {
            "topic": "out", "kafka.bootstrap.servers": server.bootstrap_servers, "deliveryGuarantee": guarantee,
            "kafka.compression.type": "lz4",
        }  # fmt: skip
        numbers(spark, 500, 1000).write.format("pylog").mode("append").options(**options).save()
        frame = spark.readStream.schema("key string, value string").parquet(str(tmp_path / "in"))
        query = frame.writeStream.format("pylog").options(**options).option("checkpointLocation", str(tmp_path / "cp"))
        finish(query.trigger(availableNow=True).start())
    assert written(data) == list(range(1000))


def test_at_least_once_writes_to_a_directory_as_it_goes(spark: SparkSession, data: str) -> None:
    writer = numbers(spark, 0, 1000).write.format("pylog").mode("append").option("topic", "out")
    writer.option("deliveryGuarantee", "at-least-once").save(data)
    assert written(data) == list(range(1000))


def test_the_owner_of_the_directory_may_be_another_process(spark: SparkSession, data: str, tmp_path: Path) -> None:
    numbers(spark, 0, 100).write.parquet(str(tmp_path / "in"))
    with pylog.open(data) as log:
        numbers(spark, 100, 200).write.format("pylog").mode("append").option("topic", "out").save(data)
        frame = spark.readStream.schema("key string, value string").parquet(str(tmp_path / "in"))
        finish(stream(frame, tmp_path / "cp", data))
        assert sum(partition.high_watermark for partition in log.topic("out")) >= 200
    assert written(data) == list(range(200))


@pytest.fixture
def bad(spark: SparkSession, tmp_path: Path) -> Iterator[DataFrame]:
    spark.range(3).selectExpr("id AS value").write.parquet(str(tmp_path / "bad"))
    yield spark.readStream.schema("value bigint").parquet(str(tmp_path / "bad"))


def test_what_is_wrong_is_said_before_a_row_is_read(
    spark: SparkSession, data: str, bad: DataFrame, tmp_path: Path
) -> None:
    frame = numbers(spark, 0, 10)
    for options, message in [
        ({}, "topic option required"),
        ({"topic": "missing"}, "no topic 'missing'.*there are: out"),
        ({"topic": "out", "tpoic": "out"}, "unknown option 'tpoic'"),
    ]:
        with pytest.raises(PySparkException, match=message):
            frame.write.format("pylog").mode("append").options(**options).save(data)
    with pytest.raises(PySparkException, match="no log directory"):
        frame.write.format("pylog").mode("append").option("topic", "out").save(str(tmp_path / "nowhere"))
    with pytest.raises(StreamingQueryException, match="value attribute type must be a string or binary"):
        finish(stream(bad, tmp_path / "cp", data))
    assert written(data) == []
