"""The stream reader of PySpark 4.0 and 4.1, without a session: what such a Spark would ask, in its order."""

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="SPARK TESTS SKIPPED: pip install pyspark pandas pyarrow")

import pylog
from pylog import Record
from pylog.errors import OffsetOutOfRange, UnknownTopicOrPartition
from pylog.spark.columns import COLUMNS
from pylog.spark.options.read import parse
from pylog.spark.plain_stream_reader import PlainStreamReader
from pylog.spark.schema import arrow_schema, spark_schema


@pytest.fixture
def log(tmp_path: Path) -> Iterator[pylog.Log]:
    with pylog.open(tmp_path / "data", flush="none") as log:
        yield log


def append(log: pylog.Log, topic: str, *values: int, partition: int = 0) -> None:
    log.topic(topic)[partition].append([Record(b"%d" % value) for value in values])


class Query:
    """A query with Trigger.AvailableNow: one batch a run. Each run has a new reader."""

    def __init__(self, log: pylog.Log, tmp_path: Path, **options: str) -> None:
        self.options = {"path": str(log.path), "subscribePattern": "t.*", "stateLocation": f"{tmp_path}/st", **options}
        self.committed: Any = None
        self.logged: Any = None

    def reader(self) -> PlainStreamReader:
        return PlainStreamReader(parse(self.options), arrow_schema(spark_schema(COLUMNS[:-1]), None))

    def run(self, *, fails: bool = False) -> list[int]:
        reader = self.reader()
        if self.logged is None:
            self.logged = reader.latestOffset()
        elif self.committed is not None:
            assert reader.partitions(self.committed, self.committed) == []
        start = reader.initialOffset() if self.committed is None else self.committed
        if fails:
            return []
        tasks = pickle.loads(pickle.dumps(reader.partitions(start, self.logged)))
        executor = pickle.loads(pickle.dumps(reader))
        found = [int(v) for task in tasks for batch in executor.read(task) for v in batch.column("value").to_pylist()]
        reader.commit(self.logged)
        self.committed, self.logged = self.logged, None
        return sorted(found)


@pytest.mark.parametrize("start", [{}, {"startingOffsets": '{"t":{"0":0}}'}, {"startingTimestamp": "0"}])
def test_a_batch_takes_all_there_is_and_the_next_one_what_came(
    log: pylog.Log, tmp_path: Path, start: dict[str, str]
) -> None:
    log.create_topic("t")
    append(log, "t", 1, 2)
    query = Query(log, tmp_path, **start)
    assert query.run() == [1, 2]
    append(log, "t", 3)
    log.create_topic("t2")
    append(log, "t2", 4)
    assert query.run() == [3, 4]
    assert query.run() == []


def test_a_start_at_latest_is_that_of_the_first_run(log: pylog.Log, tmp_path: Path) -> None:
    log.create_topic("t")
    append(log, "t", 1)
    query = Query(log, tmp_path, startingOffsets="latest")
    assert query.run() == []
    append(log, "t", 2)
    assert query.run() == [2]


def test_what_comes_after_a_first_batch_that_failed_is_read_behind_it(log: pylog.Log, tmp_path: Path) -> None:
    log.create_topic("t")
    append(log, "t", 1)
    query = Query(log, tmp_path)
    query.run(fails=True)
    log.create_partitions("t", 2)
    append(log, "t", 2, partition=1)
    log.create_topic("t2")
    append(log, "t2", 3)
    assert query.run() == [1]
    assert query.run() == [2, 3]


def test_a_record_that_is_deleted_under_a_batch_that_failed_is_told(log: pylog.Log, tmp_path: Path) -> None:
    log.create_topic("t")
    append(log, "t", 1, 2)
    query = Query(log, tmp_path)
    query.run(fails=True)
    log.delete_records({pylog.TopicPartition("t", 0): 1})
    with pytest.raises(OffsetOutOfRange, match="set failOnDataLoss to 'false'"):
        query.run()
    query.options["failOnDataLoss"] = "false"
    assert query.run() == [2]


def test_what_these_versions_cannot_do_is_refused(log: pylog.Log, tmp_path: Path) -> None:
    log.create_topic("t")
    with pytest.raises(ValueError, match=r"option 'maxOffsetsPerTrigger' needs PySpark 4\.2 or newer"):
        Query(log, tmp_path, maxOffsetsPerTrigger="5").reader()
    with pytest.raises(ValueError, match=r"needs option 'stateLocation' with PySpark 4\.0 and 4\.1"):
        Query(log, tmp_path, stateLocation="").reader()
    with pytest.raises(ValueError, match="not valid in streaming queries"):
        Query(log, tmp_path, endingOffsets="latest").reader()
    query = Query(log, tmp_path, subscribe="u")
    del query.options["subscribePattern"]
    with pytest.raises(UnknownTopicOrPartition, match="no topic 'u'"):
        query.run()
