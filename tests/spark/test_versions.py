"""What works with every PySpark from 4.0 on: batches, the sink, streams, jobs (`make spark-versions`)."""

import json
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="SPARK TESTS SKIPPED: pip install pyspark pandas pyarrow")

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import pylog
from pylog import Record
from pylog.spark.pipelines.archive import archive
from pylog.spark.pipelines.cdc import cdc
from pylog.spark.pipelines.restore import restore
from pylog.spark.versions import HAS_LIMITS


def make(path: Path) -> str:
    with pylog.open(path, flush="none") as log:
        for name in ("in", "out"):
            log.create_topic(name, partitions=2)
    return str(path)


def send(path: str, first: int, end: int) -> None:
    with pylog.open(path, flush="none") as log:
        for number in range(first, end):
            record = Record(b"%d" % number, b"k%d" % (number % 7), timestamp=number, headers=[("h", b"1")])
            log.topic("in")[number % 2].append([record])


def values(path: str, topic: str = "out") -> list[int]:
    with pylog.open(path, mode="read") as log:
        found = [part.records(isolation_level="read_committed") for part in log.topic(topic)]
        return sorted(int(record.value or b"") for records in found for record in records)


def load(spark: SparkSession, path: str, tmp_path: Path, **options: str) -> DataFrame:
    state = {} if HAS_LIMITS else {"stateLocation": str(tmp_path / "state")}
    return spark.readStream.format("pylog").options(subscribe="in", **state, **options).load(path)


def run(frame: DataFrame, path: str, tmp_path: Path) -> None:
    writer = frame.writeStream.format("pylog").option("topic", "out").option("checkpointLocation", f"{tmp_path}/cp")
    query = writer.trigger(availableNow=True).start(path)
    query.awaitTermination()


def test_batches_are_read_and_written(spark: SparkSession, tmp_path: Path) -> None:
    path = make(tmp_path / "data")
    send(path, 0, 100)
    read = spark.read.format("pylog").option("subscribe", "in").option("includeHeaders", "true").load(path)
    row = read.where("partition = 1").orderBy("offset").first()
    assert row is not None
    assert (row.key, row.value, row.offset, row.headers[0].key) == (b"k1", b"1", 0, "h")
    writer = read.select("key", "value", "headers", "timestamp").write.format("pylog").mode("append")
    writer.option("topic", "out").save(path)
    assert values(path) == list(range(100))
    with pylog.open(path, mode="read") as log:
        assert {record.timestamp for part in log.topic("out") for record in part.records()} == set(range(100))
    with pylog.open(path) as log, log.serve() as server:
        options = {"kafka.bootstrap.servers": server.bootstrap_servers, "subscribe": "out"}
        assert spark.read.format("pylog").options(**options).load().count() == 100


def test_a_stream_writes_each_record_once_and_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    path = make(tmp_path / "data")
    send(path, 0, 50)
    frame = load(spark, path, tmp_path).select("key", "value", "timestamp")
    run(frame, path, tmp_path)
    send(path, 50, 80)
    run(frame, path, tmp_path)
    assert values(path) == list(range(80))
    # As a kill behind the sink's commit leaves it.
    for name in (tmp_path / "cp" / "commits").iterdir():
        if "0" not in name.name:
            name.unlink()
    send(path, 80, 90)
    run(frame, path, tmp_path)
    run(frame, path, tmp_path)
    assert values(path) == list(range(90))
    ends = [json.loads(path.read_text().splitlines()[2]) for path in (tmp_path / "cp" / "offsets").glob("[0-9]")]
    assert max(end["in"]["0"] for end in ends) == 45


def test_what_a_stream_cannot_do_is_said(spark: SparkSession, tmp_path: Path) -> None:
    path = make(tmp_path / "data")
    frame = spark.readStream.format("pylog").option("subscribe", "in").option("startingOffsets", "latest").load(path)
    with pytest.raises(StreamingQueryException, match="needs option 'stateLocation'") as refused:
        run(frame, path, tmp_path)
    assert "UnboundLocalError" not in str(refused.value)
    schema = spark.readStream.format("pylog").schema("value string").option("subscribe", "in").load(path)
    with pytest.raises(StreamingQueryException, match="column 'value' is binary, the schema says string"):
        run(schema, path, tmp_path)
    if not HAS_LIMITS:
        with pytest.raises(StreamingQueryException, match=r"'maxOffsetsPerTrigger' needs PySpark 4\.2"):
            run(load(spark, path, tmp_path, maxOffsetsPerTrigger="5"), path, tmp_path)


def test_jobs_that_are_no_streams(spark: SparkSession, tmp_path: Path) -> None:
    path, lake = make(tmp_path / "data"), tmp_path / "lake"
    send(path, 0, 40)
    assert archive(spark, path, "in", str(lake)).records == 40
    assert restore(spark, path, str(lake), topic="again").records == 40
    assert values(path, "again") == list(range(40))
    assert cdc(spark, path, "in", str(tmp_path / "table"), parts=2).rows == 7
