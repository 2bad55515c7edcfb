"""The part of Spark's tests that `make test` runs: a batch and a stream, end to end. `make spark-test` runs all."""

import json
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="SPARK TESTS SKIPPED: pip install pyspark pandas pyarrow")

from pyspark.sql import SparkSession

import pylog
from pylog import Record


def test_a_batch_and_a_stream_from_a_topic_to_another(spark: SparkSession, tmp_path: Path) -> None:
    with pylog.open(tmp_path / "data", flush="none") as log:
        log.create_topic("in", partitions=2)
        log.create_topic("out", partitions=2)
        for n in range(20):
            log.topic("in")[n % 2].append([Record(b"%d" % n)])
        assert spark.read.format("pylog").options(subscribe="in").load(str(log.path)).count() == 20
        frame = spark.readStream.format("pylog").options(subscribe="in", maxOffsetsPerTrigger="10").load(str(log.path))
        writer = frame.writeStream.format("pylog").option("topic", "out").option("checkpointLocation", f"{tmp_path}/cp")
        query = writer.trigger(availableNow=True).start(str(log.path))
        query.awaitTermination()
        out = [int(record.value or b"") for partition in log.topic("out") for record in partition.records()]
    assert sorted(out) == list(range(20))
    assert [progress.numInputRows for progress in query.recentProgress] == [10, 10]
    assert json.loads(query.recentProgress[0].sources[0].endOffset)["in"] == {"0": 5, "1": 5}
