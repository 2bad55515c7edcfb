"""The stream reader on a directory, without a session: what Spark would do in its processes is done here, one by one.

The cases are those of Spark's KafkaMicroBatchSourceSuite and KafkaSourceSuiteBase where they have a meaning, by name.
"""

import json
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="SPARK TESTS SKIPPED: pip install pyspark pandas pyarrow")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows, ReadMinRows
from pyspark.sql.types import StringType, StructField, StructType

import pylog
from pylog import Record
from pylog.errors import OffsetOutOfRange, UnknownTopicOrPartition
from pylog.spark.options.limits import TOPIC_IDS
from pylog.spark.source import PylogDataSource
from pylog.spark.stream_offsets import StreamOffsets
from pylog.spark.tasks import Task
from support.stream_query import Query, append, reader


@pytest.fixture
def log(tmp_path: Path) -> Iterator[pylog.Log]:
    with pylog.open(tmp_path / "data", flush="none") as log:
        yield log


def sizes(batches: list[list[int]]) -> list[int]:
    return [len(batch) for batch in batches]


# How far a batch goes


def test_trigger_available_now(log: pylog.Log) -> None:
    log.create_topic("t", partitions=5)
    for n in range(15):
        append(log, "t", n, partition=n % 5)
    query = Query(log, subscribe="t", maxOffsetsPerTrigger="5", available_now=True)
    append(log, "t", 99)
    assert sizes(query.run()) == [5, 5, 5]
    query.restart()
    assert query.run() == [[99]]


def test_max_offsets_per_trigger(log: pylog.Log) -> None:
    log.create_topic("t", partitions=3)
    append(log, "t", *range(100, 201), partition=0)
    append(log, "t", *range(10, 21), partition=1)
    append(log, "t", 1, partition=2)
    query = Query(log, subscribe="t", maxOffsetsPerTrigger="10")
    assert query.limit == ReadMaxRows(10)
    assert query.trigger() == [1, 10, *range(100, 108)]
    assert query.trigger() == [11, *range(108, 117)]
    query.restart()
    assert query.trigger() == [12, *range(117, 126)]
    query.limit = ReadAllAvailable()
    assert query.trigger() == [*range(13, 21), *range(126, 201)], "Trigger.Once ignores the limit"


def test_min_offsets_per_trigger(log: pylog.Log) -> None:
    log.create_topic("t")
    append(log, "t", 1)
    query = Query(log, subscribe="t", minOffsetsPerTrigger="3", maxTriggerDelay="1h")
    assert query.limit == ReadMinRows(3)
    assert query.trigger() == [1], "the first batch runs"
    append(log, "t", 2, 3)
    assert query.trigger() is None
    append(log, "t", 4)
    assert query.trigger() == [2, 3, 4]
    append(log, "t", 5)
    assert query.trigger() is None
    query.limit = ReadAllAvailable()
    assert query.trigger() == [5]


def test_max_trigger_delay(log: pylog.Log) -> None:
    log.create_topic("t")
    query = Query(log, subscribe="t", minOffsetsPerTrigger="3", maxTriggerDelay="0ms")
    append(log, "t", 1)
    assert query.trigger() == [1]
    append(log, "t", 2)
    assert query.trigger() == [2]


def test_composite_read_limit(log: pylog.Log) -> None:
    log.create_topic("t")
    query = Query(log, subscribe="t", minOffsetsPerTrigger="3", maxOffsetsPerTrigger="4", maxTriggerDelay="1h")
    append(log, "t", *range(10))
    assert query.run() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    query = Query(log, subscribe="t", minOffsetsPerTrigger="3", maxOffsetsPerTrigger="4", available_now=True)
    assert sizes(query.run()) == [4, 4, 2], "all that is available comes, however little is left"


def test_max_bytes_per_trigger(log: pylog.Log) -> None:
    log.create_topic("t")
    log.topic("t")[0].append([Record(b"%01000d" % n) for n in range(100)])
    query = Query(log, subscribe="t", maxBytesPerTrigger="10500")
    assert query.limit == ReadMaxBytes(10500)
    found = query.run()
    assert all(9 <= size <= 11 for size in sizes(found)[:-1])
    assert [n for batch in found for n in batch] == list(range(100))


def test_offsets_set_when_no_new_data_comes_in(log: pylog.Log) -> None:
    """SPARK-22956"""
    log.create_topic("t")
    append(log, "t", 1)
    query = Query(log, subscribe="t")
    assert query.run() == [[1]]
    assert query.trigger() is None
    latest = query.reader.reportLatestOffset()
    assert latest is not None
    assert latest["t"] == query.committed["t"]


def test_lag_is_what_the_latest_offset_is_ahead(log: pylog.Log) -> None:
    log.create_topic("t")
    append(log, "t", *range(10))
    query = Query(log, subscribe="t", maxOffsetsPerTrigger="4")
    assert query.reader.reportLatestOffset() is None
    query.trigger()
    latest = query.reader.reportLatestOffset()
    assert latest is not None
    assert (latest["t"], query.committed["t"]) == ({"0": 10}, {"0": 4})


# Topics that come and go


def test_added_partitions_are_read_from_their_start(log: pylog.Log) -> None:
    log.create_topic("t")
    append(log, "t", 1)
    query = Query(log, subscribe="t")
    assert query.run() == [[1]]
    log.create_partitions("t", 2)
    append(log, "t", 2, partition=1)
    assert query.run() == [[2]]


def test_subscribing_topic_by_pattern_with_topic_deletions(log: pylog.Log) -> None:
    log.create_topic("t-seems")
    append(log, "t-seems", 1)
    query = Query(log, subscribePattern="t-.*", failOnDataLoss="false")
    assert query.run() == [[1]]
    log.delete_topic("t-seems")
    log.create_topic("t-bad")
    append(log, "t-bad", 4, 5)
    assert query.run() == [[4, 5]]
    assert "t-seems" not in query.committed


def test_subscribing_topic_by_pattern_with_topic_recreation_between_batches(log: pylog.Log) -> None:
    for topic, values in (("t-good", (1, 3)), ("t-bad", (2, 4))):
        log.create_topic(topic)
        append(log, topic, *values)
    query = Query(log, subscribePattern="t-.*")
    assert query.run() == [[1, 2, 3, 4]]
    log.delete_topic("t-bad")
    log.create_topic("t-bad")
    append(log, "t-bad", 6, 7, 8)
    query.restart()
    with pytest.raises(OffsetOutOfRange, match="topic t-bad was deleted and made again"):
        query.run()
    query.restart(failOnDataLoss="false")
    assert query.run() == [[6, 7, 8]], "also those at the offsets that the old topic had"


def test_deleted_topic_fails_unless_told_otherwise(log: pylog.Log) -> None:
    log.create_topic("t")
    log.create_topic("u")
    append(log, "t", 1)
    query = Query(log, subscribe="t,u")
    assert query.run() == [[1]]
    log.delete_topic("t")
    with pytest.raises(OffsetOutOfRange, match=r"partition t-0 is gone.*set failOnDataLoss to 'false'"):
        query.run()


def test_topic_deleted_while_a_batch_runs(log: pylog.Log) -> None:
    log.create_topic("t")
    append(log, "t", 1)
    options = {"path": str(log.path), "subscribe": "t"}
    stream = reader(**options)
    start = stream.initialOffset()
    tasks = stream.partitions(start, stream.latestOffset(start, ReadAllAvailable()))
    log.delete_topic("t")
    with pytest.raises(OffsetOutOfRange, match="topic t was deleted after the read was planned"):
        list(stream.read(tasks[0]))


def test_records_deleted_before_they_are_read(log: pylog.Log) -> None:
    log.create_topic("t")
    append(log, "t", *range(10))
    strict = Query(log, subscribe="t", maxOffsetsPerTrigger="2")
    lenient = Query(log, subscribe="t", maxOffsetsPerTrigger="2", failOnDataLoss="false")
    for query in (strict, lenient):
        assert query.trigger() == [0, 1]
    log.delete_records({pylog.TopicPartition("t", 0): 5})
    with pytest.raises(OffsetOutOfRange):
        strict.run()
    assert lenient.run_all() == [5, 6, 7, 8, 9]


def test_subscribed_topic_that_is_not_there(log: pylog.Log) -> None:
    log.create_topic("t")
    stream = reader(path=str(log.path), subscribe="t")
    log.delete_topic("t")
    start = stream.initialOffset()
    with pytest.raises(UnknownTopicOrPartition, match="no topic 't'"):
        stream.latestOffset(start, ReadAllAvailable())


# Where it begins


@pytest.mark.parametrize("selection", [{"assign": '{"t":[0,1]}'}, {"subscribe": "t"}, {"subscribePattern": "t.*"}])
@pytest.mark.parametrize(
    ("start", "first"),
    [
        ({}, [0, 1, 2, 3]),
        ({"startingOffsets": "earliest"}, [0, 1, 2, 3]),
        ({"startingOffsets": "latest"}, []),
        ({"startingOffsets": '{"t":{"0":1,"1":-1}}'}, [2]),
        ({"startingOffsetsByTimestamp": '{"t":{"0":1002,"1":1000}}'}, [1, 2, 3]),
        ({"startingTimestamp": "1002"}, [2, 3]),
        ({"startingTimestamp": "5000", "startingOffsetsByTimestampStrategy": "latest"}, []),
    ],
)
def test_starts_of_each_selection(
    log: pylog.Log, tmp_path: Path, selection: dict[str, str], start: dict[str, str], first: list[int]
) -> None:
    topic = log.create_topic("t", partitions=2)
    for n in range(4):
        topic[n % 2].append([Record(str(n).encode(), timestamp=1000 + n)])
    options = {**selection, **start, "stateLocation": str(tmp_path / "state")}
    query = Query(log, **options)
    assert query.run_all() == first
    append(log, "t", 7)
    query.restart()
    assert query.run() == [[7]]


def test_non_matching_starting_timestamp(log: pylog.Log, tmp_path: Path) -> None:
    log.create_topic("t")
    with pytest.raises(ValueError, match="No offset matched from request of topic-partition t-0"):
        Query(log, subscribe="t", startingTimestamp="5000", stateLocation=str(tmp_path / "state")).plan()


def test_bad_source_options(log: pylog.Log) -> None:
    log.create_topic("t")
    for bad, message in (
        ({"startingOffsets": "latest"}, "stateLocation"),
        ({"endingOffsets": "latest"}, "not valid in streaming queries"),
    ):
        with pytest.raises(ValueError, match=message):
            Query(log, subscribe="t", **bad)
    with pytest.raises(ValueError, match="you must specify all TopicPartitions"):
        Query(log, subscribe="t", startingOffsets='{"t":{"0":0,"1":0}}').plan()


def test_a_schema_that_does_not_fit_is_refused_by_the_first_call(log: pylog.Log) -> None:
    """Spark's runner hides what is raised while a reader is made."""
    log.create_topic("t")
    source = PylogDataSource({"path": str(log.path), "subscribe": "t"})
    stream = pickle.loads(pickle.dumps(source.streamReader(StructType([StructField("value", StringType())]))))
    for call in (
        stream.getDefaultReadLimit, stream.prepareForTriggerAvailableNow, stream.initialOffset, stream.latestOffset,
        lambda: stream.latestOffset({}, ReadAllAvailable()), lambda: stream.partitions({}, {}),
        lambda: stream.read(Task(())), lambda: stream.commit({}),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="column 'value' is binary, the schema says string"):
            call()


def test_first_offsets_are_the_same_after_a_failure_in_the_first_batch(log: pylog.Log, tmp_path: Path) -> None:
    log.create_topic("t")
    append(log, "t", 0)
    query = Query(log, subscribe="t", startingOffsets="latest", stateLocation=str(tmp_path / "st #1?%20ü"))
    append(log, "t", 1, 2)
    query.restart()
    append(log, "t", 3)
    assert query.run() == [[1, 2, 3]]
    assert [path.name for path in (tmp_path / "st #1?%20ü").iterdir()] == ["first-offsets.json"]


STARTS: list[dict[str, str]] = [
    {"subscribePattern": "t.*"},
    {"subscribePattern": "t.*", "startingOffsets": '{"t":{"0":0,"1":-2}}'},
]


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("change", ["partition", "topic"])
def test_what_came_after_a_first_batch_that_failed_is_read_behind_it(
    log: pylog.Log, start: dict[str, str], change: str
) -> None:
    log.create_topic("t", partitions=2)
    append(log, "t", 1)
    query = Query(log, **start)
    assert query.plan() is not None
    if change == "partition":
        log.create_partitions("t", 3)
        append(log, "t", 2, partition=2)
    else:
        log.create_topic("t2")
        append(log, "t2", 2)
    for _ in range(2):
        query.restart()
    assert query.run() == [[1], [2]]
    append(log, "t", 3)
    query.restart()
    assert query.run() == [[3]]


def test_a_record_that_is_deleted_under_a_first_batch_that_failed_is_told(log: pylog.Log) -> None:
    log.create_topic("t")
    append(log, "t", 0, 1, 2)
    query = Query(log, subscribe="t")
    assert query.plan() is not None
    log.delete_records({pylog.TopicPartition("t", 0): 2})
    query.restart()
    with pytest.raises(OffsetOutOfRange, match="set failOnDataLoss to 'false'"):
        query.run()
    query.restart(failOnDataLoss="false")
    assert query.run() == [[2]]


def test_a_topic_that_is_deleted_under_a_first_batch_that_failed_is_told(log: pylog.Log) -> None:
    for name in "tu":
        log.create_topic(name)
        append(log, name, 1)
    query = Query(log, subscribePattern="[tu]")
    assert query.plan() is not None
    log.delete_topic("u")
    query.restart()
    with pytest.raises(OffsetOutOfRange, match="topic u was deleted after the read was planned"):
        query.run()
    query.restart(failOnDataLoss="false")
    assert query.run() == [[1], []]


def test_the_end_of_the_first_batch_alone_has_its_start(log: pylog.Log) -> None:
    log.create_topic("t")
    append(log, "t", 0, 1)
    query = Query(log, subscribe="t", maxOffsetsPerTrigger="1")
    first = StreamOffsets.from_json(query.plan()).first
    assert first is not None and first.offsets == {pylog.TopicPartition("t", 0): 0}
    query.trigger()
    assert StreamOffsets.from_json(query.plan()).first is None
    assert Query(log, subscribe="t", startingOffsets=json.dumps(query.committed)).run() == [[1]]


def test_first_offsets_of_another_stream_are_refused(log: pylog.Log, tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    for topic in "tu":
        log.create_topic(topic)
    Query(log, subscribe="t", startingOffsets="latest", stateLocation=state)
    with pytest.raises(ValueError, match=r"belongs to another read: subscribe t in .*, and this one is: subscribe u"):
        Query(log, subscribe="u", startingOffsets="latest", stateLocation=state).plan()


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"read": "x"}', '{"read": "x", "offsets": {"t": 1}}'])
def test_first_offsets_that_are_damaged_are_refused(log: pylog.Log, tmp_path: Path, text: str) -> None:
    log.create_topic("t")
    (tmp_path / "first-offsets.json").write_text(text)
    with pytest.raises(ValueError, match="has no offsets that pylog wrote"):
        Query(log, subscribe="t", stateLocation=str(tmp_path)).plan()


def test_state_location_that_cannot_be_opened(log: pylog.Log) -> None:
    log.create_topic("t")
    for location in ("relative", "dropbox://a/b"):
        with pytest.raises(ValueError, match=f"option 'stateLocation'.* '{location}'"):
            Query(log, subscribe="t", stateLocation=location).plan()


def test_a_start_behind_the_end_of_the_first_batch_reads_nothing(log: pylog.Log) -> None:
    """What Spark hands over after a failure in the first batch, where the first offsets were asked for anew."""
    log.create_topic("t")
    stream = reader(path=str(log.path), subscribe="t", failOnDataLoss="false")
    assert stream.partitions({"t": {"0": 110}}, {"t": {"0": 100}}) == []


def test_offsets_of_a_future_version_are_refused(log: pylog.Log) -> None:
    log.create_topic("t")
    with pytest.raises(ValueError, match="the checkpoint has offsets that pylog did not write"):
        reader(path=str(log.path), subscribe="t").latestOffset({"v2": [1]}, ReadAllAvailable())


def test_offsets_of_a_query_are_the_start_of_another(log: pylog.Log) -> None:
    log.create_topic("t")
    append(log, "t", 1)
    query = Query(log, subscribe="t")
    query.run()
    append(log, "t", 2)
    offsets = json.dumps(query.committed)
    assert Query(log, subscribe="t", startingOffsets=offsets).run() == [[2]]
    log.delete_topic("t")
    log.create_topic("t")
    append(log, "t", 1, 2, 3)
    with pytest.raises(ValueError, match="the offsets that were given for topic t are of one that was deleted"):
        Query(log, subscribe="t", startingOffsets=offsets).plan()


def test_offsets_of_the_checkpoint_of_a_kafka_source(log: pylog.Log) -> None:
    log.create_topic("t")
    append(log, "t", 1, 2)
    query = Query(log, subscribe="t")
    query.started = {"t": {"0": 1}}
    assert query.run() == [[2]]
    assert TOPIC_IDS in query.committed


# What is read


def test_read_kafka_transactional_messages(log: pylog.Log) -> None:
    log.create_topic("t")
    dirty = Query(log, subscribe="t", maxOffsetsPerTrigger="3")
    clean = Query(log, subscribe="t", **{"kafka.isolation.level": "read_committed"})
    with log.producer(transactional_id="x") as producer:
        for first, is_commit in ((0, True), (10, False)):
            producer.begin()
            for n in range(first, first + 5):
                producer.send("t", str(n).encode())
            producer.flush()
            assert clean.run_all() == [], "nothing is visible yet"
            (producer.commit if is_commit else producer.abort)()
            assert clean.run_all() == ([*range(5)] if is_commit else [])
    assert dirty.run_all() == [*range(5), *range(10, 15)]


def test_null_key_and_value(log: pylog.Log) -> None:
    """SPARK-27494"""
    log.create_topic("t")[0].append([Record(None), Record(b"v", key=None)])
    stream = reader(path=str(log.path), subscribe="t")
    start = stream.initialOffset()
    (task,) = stream.partitions(start, stream.latestOffset(start, ReadAllAvailable()))
    (batch,) = stream.read(task)
    assert (batch.column("key").to_pylist(), batch.column("value").to_pylist()) == ([None, None], [None, b"v"])


def test_min_partitions(log: pylog.Log) -> None:
    """SPARK-30656"""
    log.create_topic("t", partitions=3)
    for n in range(9):
        append(log, "t", n, partition=n % 3)
    query = Query(log, subscribe="t", minPartitions="6")
    assert query.run() == [list(range(9))]
    assert query.planned == [6]


def test_small_ranges_share_a_task(log: pylog.Log) -> None:
    log.create_topic("t", partitions=12)
    for n in range(12):
        append(log, "t", n, partition=n)
    query = Query(log, subscribe="t")
    assert query.run() == [list(range(12))]
    assert query.planned == [1]


def test_large_ranges_have_tasks_of_their_own(log: pylog.Log) -> None:
    topic = log.create_topic("t", partitions=3)
    for partition in topic:
        partition.append([Record(b"1")] * 6_000)
    stream = reader(path=str(log.path), subscribe="t")
    start = stream.initialOffset()
    tasks = stream.partitions(start, stream.latestOffset(start, ReadAllAvailable()))
    assert [len(task.ranges) for task in tasks if isinstance(task, Task)] == [1, 1, 1]
