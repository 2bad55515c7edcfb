"""`spark.read.format("pylog")` on a log that changes: growing, deleted, made again, written by another process."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="SPARK TESTS SKIPPED: pip install pyspark pandas pyarrow")

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

import pylog
from pylog import Record


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pylog.Log]:
    """An empty log that this process owns while Spark's workers read it."""
    with pylog.open(str(tmp_path_factory.mktemp("log") / "data"), flush="none") as log:
        yield log


def load(spark: SparkSession, log: pylog.Log, **options: str) -> DataFrame:
    return spark.read.format("pylog").options(**options).load(str(log.path))


def numbers(frame: DataFrame) -> list[int]:
    return sorted(int(row.value) for row in frame.select("value").collect())


def test_a_new_load_sees_the_new_end(spark: SparkSession, log: pylog.Log) -> None:
    topic = log.create_topic("growing")
    topic[0].append([Record(b"0"), Record(b"1")])
    before = load(spark, log, subscribe="growing")
    assert numbers(before) == [0, 1]
    topic[0].append([Record(b"2")])
    assert numbers(load(spark, log, subscribe="growing")) == [0, 1, 2]
    # Spark plans a Python source once per load(): the older DataFrame stays as it was.
    assert numbers(before) == [0, 1]
    assert numbers(before.union(before)) == [0, 0, 1, 1]


def test_topic_deleted_after_planning(spark: SparkSession, log: pylog.Log) -> None:
    log.create_topic("doomed")[0].append([Record(b"1")])
    strict, lenient = (load(spark, log, subscribe="doomed", failOnDataLoss=word) for word in ("true", "false"))
    assert numbers(strict) == numbers(lenient) == [1]
    log.delete_topic("doomed")
    assert numbers(lenient) == []
    with pytest.raises(PySparkException, match="doomed was deleted after the read was planned"):
        strict.collect()
    log.create_topic("doomed")[0].append([Record(b"2")])
    assert numbers(lenient) == []
    assert numbers(load(spark, log, subscribe="doomed")) == [2]


def test_topic_made_again_between_two_reads(spark: SparkSession, log: pylog.Log) -> None:
    """The workers keep a reader that has seen the first topic."""
    log.create_topic("phoenix")[0].append([Record(b"%d" % n) for n in range(100)])
    assert numbers(load(spark, log, subscribe="phoenix")) == list(range(100))
    log.delete_topic("phoenix")
    log.create_topic("phoenix")[0].append([Record(b"%d" % n) for n in range(200, 250)])
    assert numbers(load(spark, log, subscribe="phoenix")) == list(range(200, 250))


WRITER = """
import sys, pylog
with pylog.open(sys.argv[1], flush="sync") as log:
    partition = log.create_topic("live")[0]
    for n in range(0, 3_000_000, 50):
        partition.append([pylog.Record(b"%012d" % i, timestamp=i + 1) for i in range(n, n + 50)])
        if n == 1000:
            print("writing", flush=True)
"""


@pytest.fixture
def live(tmp_path: Path) -> Iterator[str]:
    """A directory into which another process is writing; it is killed in the end."""
    data = str(tmp_path / "data")
    with subprocess.Popen([sys.executable, "-c", WRITER, data], stdout=subprocess.PIPE, text=True) as writer:
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "writing\n"
            yield data
        finally:
            writer.kill()


def test_reading_while_another_process_writes(spark: SparkSession, live: str) -> None:
    value, ms = sql.col("value").cast("string").cast("long"), sql.unix_millis("timestamp")
    wrong = sql.count_if((value != sql.col("offset")) | (ms != sql.col("offset") + 1))
    seen = 0
    for _ in range(4):
        frame = spark.read.format("pylog").option("subscribe", "live").load(live)
        row = frame.agg(sql.count("*"), sql.max("offset"), sql.sum("offset"), wrong).first()
        assert row is not None
        count, last, total, mistakes = row
        assert (count, total, mistakes) == (last + 1, last * (last + 1) // 2, 0)
        assert count > seen
        seen = count
