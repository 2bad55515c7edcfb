"""Batches and streams from servers, without a session: each reader is pickled, as for a process on another machine."""

import pickle
from collections.abc import Iterator

import pytest

pytest.importorskip("pyspark", reason="SPARK TESTS SKIPPED: pip install pyspark pandas pyarrow")

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from pylog import Record, TopicPartition
from pylog.errors import (
    NetworkError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    RequestTimedOut,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from pylog.spark.batch_reader import PylogReader
from pylog.spark.source import PylogDataSource
from pylog.spark.stream_reader import PylogStreamReader
from pylog.testing import StandIn

QUICK = {"fetchOffset.retryIntervalMs": "1"}


@pytest.fixture
def kafka() -> Iterator[StandIn]:
    with StandIn() as kafka:
        topic = kafka.log.create_topic("t", partitions=3)
        for n in range(30):
            topic[n % 3].append([Record(b"%d" % n, timestamp=1000 + n)])
        yield kafka


def source(kafka: StandIn, **options: str) -> PylogDataSource:
    return PylogDataSource({"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": "t", **QUICK, **options})


def batch(kafka: StandIn, **options: str) -> PylogReader:
    made = source(kafka, **options)
    return made.reader(made.schema())


def stream(kafka: StandIn, **options: str) -> PylogStreamReader:
    made = source(kafka, **options)
    reader = made.streamReader(made.schema())
    assert isinstance(reader, PylogStreamReader)
    return reader


def values(reader: PylogReader | PylogStreamReader, tasks: "list[InputPartition]") -> list[int]:
    elsewhere = pickle.loads(pickle.dumps(reader))
    batches = [found for task in pickle.loads(pickle.dumps(tasks)) for found in elsewhere.read(task)]
    return sorted(int(value) for found in batches for value in found.column("value").to_pylist())


def read(kafka: StandIn, **options: str) -> list[int]:
    reader = batch(kafka, **options)
    return values(reader, list(reader.partitions()))


def test_batches(kafka: StandIn) -> None:
    assert read(kafka) == list(range(30))
    assert read(kafka, startingTimestamp="1010", endingTimestamp="1020") == list(range(10, 20))
    assert read(kafka, startingOffsets='{"t":{"0":9,"1":10,"2":-2}}') == [*range(2, 27, 3), 27, 29]
    assert read(kafka, minPartitions="7", **{"kafka.isolation.level": "read_committed"}) == list(range(30))


def test_streams(kafka: StandIn) -> None:
    reader = stream(kafka, maxOffsetsPerTrigger="10")
    start = reader.initialOffset()
    found = []
    while (end := reader.latestOffset(start, ReadMaxRows(10))) != start:
        found.append(values(reader, list(reader.partitions(start, end))))
        start = end
    assert [len(one) for one in found] == [9, 9, 9, 3]
    assert sorted(n for one in found for n in one) == list(range(30))


def test_bytes_of_a_trigger(kafka: StandIn) -> None:
    kafka.log.create_topic("large")[0].append([Record(bytes(1000))] * 100)
    reader = stream(kafka, subscribe="large", maxBytesPerTrigger="10500")
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    assert 9 <= end["large"]["0"] <= 11


def test_subscribe_pattern_and_assign(kafka: StandIn) -> None:
    made = PylogDataSource({"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribePattern": "t.*"})
    reader = made.reader(made.schema())
    assert values(reader, list(reader.partitions())) == list(range(30))
    made = PylogDataSource({"kafka.bootstrap.servers": kafka.bootstrap_servers, "assign": '{"t":[1]}'})
    reader = made.reader(made.schema())
    assert values(reader, list(reader.partitions())) == list(range(1, 30, 3))


def test_errors_that_pass_are_met_by_asking_again(kafka: StandIn) -> None:
    reader = batch(kafka)
    kafka.fail("ListOffsets", NotLeaderOrFollower, times=2)
    tasks = list(reader.partitions())
    kafka.fail("Fetch", NotLeaderOrFollower)
    kafka.disconnect("Fetch")
    assert values(reader, tasks) == list(range(30))


def test_errors_that_do_not_pass_come_out(kafka: StandIn) -> None:
    reader = batch(kafka, **{"fetchOffset.numRetries": "1", "kafkaConsumer.pollTimeoutMs": "1"})
    kafka.fail("ListOffsets", NotLeaderOrFollower, times=2)
    with pytest.raises(NotLeaderOrFollower):
        reader.partitions()
    tasks = list(reader.partitions())
    kafka.fail("Fetch", NotLeaderOrFollower, times=None)
    with pytest.raises((NotLeaderOrFollower, RequestTimedOut)):
        values(reader, tasks)


def test_servers_that_are_not_there() -> None:
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "fetchOffset.numRetries": "0"}
    with pytest.raises(NetworkError):
        PylogDataSource(options).schema()


def test_topic_that_is_not_there(kafka: StandIn) -> None:
    with pytest.raises(UnknownTopicOrPartition, match=f"no topic 'u' in {kafka.bootstrap_servers}; there are: t"):
        source(kafka, subscribe="u").schema()


def test_topic_made_again_after_the_read_was_planned(kafka: StandIn) -> None:
    strict, lenient = batch(kafka), batch(kafka, failOnDataLoss="false")
    tasks = list(strict.partitions())
    kafka.log.delete_topic("t")
    kafka.log.create_topic("t", partitions=3)[0].append([Record(b"7")] * 10)
    assert values(lenient, tasks) == []
    with pytest.raises(OffsetOutOfRange, match="topic t was deleted after the read was planned"):
        values(strict, tasks)


@pytest.mark.parametrize("error", [UnknownTopicId, UnknownTopicOrPartition])
def test_topic_that_goes_while_it_is_read(kafka: StandIn, error: type[UnknownTopicId]) -> None:
    reader = batch(kafka)
    tasks = list(reader.partitions())
    kafka.fail("Fetch", error, times=None)
    kafka.fail("Metadata", UnknownTopicOrPartition, times=None)
    with pytest.raises(OffsetOutOfRange, match="topic t was deleted after the read was planned"):
        values(reader, tasks)


def test_records_deleted_after_the_read_was_planned(kafka: StandIn) -> None:
    strict, lenient = batch(kafka), batch(kafka, failOnDataLoss="false")
    tasks = list(strict.partitions())
    kafka.log.delete_records({TopicPartition("t", 0): 8})
    assert values(lenient, tasks) == [n for n in range(30) if n % 3 or n >= 24]
    with pytest.raises(OffsetOutOfRange):
        values(strict, tasks)


def test_topic_made_again_between_batches_of_a_stream(kafka: StandIn) -> None:
    reader = stream(kafka)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    kafka.log.delete_topic("t")
    kafka.log.create_topic("t", partitions=3)
    later = reader.latestOffset(end, ReadAllAvailable())
    with pytest.raises(OffsetOutOfRange, match="topic t was deleted and made again"):
        reader.partitions(end, later)
