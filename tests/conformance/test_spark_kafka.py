"""Spark's source reads topics of a real Kafka broker: codecs, transactions, what a cleaner left, a topic made again.

No session is started: the reader is what executors run, and it is pickled on the way, as Spark does.
"""

import pickle
from collections.abc import Iterator, Sequence

import pytest

pytest.importorskip("pyspark", reason="SPARK TESTS SKIPPED: pip install pyspark pandas pyarrow")

import pyarrow
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadMaxRows

import pylog
from conformance import dump_log
from conformance.kafka_broker import broker
from pylog.errors import OffsetOutOfRange
from pylog.spark.batch_reader import PylogReader
from pylog.spark.source import PylogDataSource
from pylog.spark.stream_reader import PylogStreamReader
from support.clients.values import until

REASON = dump_log.missing()
pytestmark = [pytest.mark.broker, pytest.mark.skipif(REASON is not None, reason=str(REASON))]

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
EACH = 400


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = {"log.cleaner.backoff.ms": "100", "log.segment.delete.delay.ms": "0", "log.initial.task.delay.ms": "0"}
    with broker(tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("work"), kill=True, settings=settings) as at:
        yield at


@pytest.fixture(scope="module")
def log(kafka: str) -> Iterator[pylog.ConnectedLog]:
    with pylog.connect(kafka) as log:
        log.create_topic("codecs", 3)
        for codec in CODECS:
            with log.producer(compression_type=codec, batch_size=4096) as producer:
                for n in range(EACH):
                    producer.send("codecs", b"%s-%d" % (codec.encode(), n), key=b"%d" % n, headers=[("h", b"%d" % n)])
        yield log


def source(kafka: str, **options: str) -> PylogDataSource:
    return PylogDataSource({"kafka.bootstrap.servers": kafka, "fetchOffset.retryIntervalMs": "100", **options})


def table(reader: PylogReader | PylogStreamReader, tasks: Sequence[InputPartition]) -> pyarrow.Table:
    elsewhere = pickle.loads(pickle.dumps(reader))
    batches = [batch for task in pickle.loads(pickle.dumps(tasks)) for batch in elsewhere.read(task)]
    return pyarrow.Table.from_batches(batches) if batches else pyarrow.table({"value": []})


def read(kafka: str, **options: str) -> pyarrow.Table:
    made = source(kafka, **options)
    reader = made.reader(made.schema())
    return table(reader, reader.partitions())


def test_records_of_every_codec_as_a_consumer_sees_them(kafka: str, log: pylog.ConnectedLog) -> None:
    found = read(kafka, subscribe="codecs", includeHeaders="true").to_pylist()
    rows = {(row["partition"], row["offset"]): row for row in found}
    records = [record for partition in log.topic("codecs") for record in partition.records()]
    assert len(records) == len(rows) == len(found) == EACH * len(CODECS)
    for record in records:
        row = rows[record.partition, record.offset]
        assert (row["key"], row["value"]) == (record.key, record.value)
        assert row["headers"] == [{"key": "h", "value": record.headers[0].value}]
        assert row["timestamp"].timestamp() * 1000 == pytest.approx(record.timestamp, abs=0.01)


def test_a_stream_in_batches_of_a_size(kafka: str, log: pylog.ConnectedLog) -> None:
    made = source(kafka, subscribe="codecs")
    reader = made.streamReader(made.schema())
    start, seen = reader.initialOffset(), []
    while (end := reader.latestOffset(start, ReadMaxRows(1))) != start and len(seen) < 99:
        seen.append(table(reader, reader.partitions(start, end)))
        start = end
    assert [len(seen), seen[0].num_rows] == [1, EACH * len(CODECS)], "no option, no limit"
    made = source(kafka, subscribe="codecs", maxOffsetsPerTrigger="500", maxBytesPerTrigger="1000000")
    reader = made.streamReader(made.schema())
    start, sizes = reader.initialOffset(), []
    while (end := reader.latestOffset(start, ReadMaxRows(500))) != start:
        sizes.append(table(reader, reader.partitions(start, end)).num_rows)
        start = end
    assert sum(sizes) == EACH * len(CODECS)
    assert all(size <= 500 for size in sizes)


def test_transactions(kafka: str, log: pylog.ConnectedLog) -> None:
    log.create_topic("txn")
    with log.producer(transactional_id="x") as producer:
        for n, is_commit in enumerate((True, False, True)):
            producer.begin()
            producer.send("txn", b"%d" % n).result(30)
            (producer.commit if is_commit else producer.abort)()
    # The markers of the last one may come a moment later.
    wanted = {"subscribe": "txn", "kafka.isolation.level": "read_committed"}
    until(lambda: read(kafka, **wanted).column("value").to_pylist() == [b"0", b"2"])
    assert read(kafka, subscribe="txn").column("value").to_pylist() == [b"0", b"1", b"2"]


def test_a_compacted_topic_has_gaps(kafka: str, log: pylog.ConnectedLog) -> None:
    log.create_topic(
        "compacted",
        config={
            "cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.01, "segment.ms": 100,
            "max.compaction.lag.ms": 100,
        },
    )  # fmt: skip
    with log.producer(batch_size=1) as producer:
        for n in range(200):
            producer.send("compacted", b"%d" % n, key=b"%d" % (n % 5)).result(30)

    def offsets(**options: str) -> list[int]:
        found: list[int] = read(kafka, subscribe="compacted", **options).column("offset").to_pylist()
        return found

    until(lambda: len(offsets()) < 200, patience=90)
    assert offsets()[-1] == 199
    # The cleaner may go on meanwhile.
    until(lambda: offsets(minPartitions="8") == offsets())


def test_a_topic_that_is_made_again_is_another_one(kafka: str, log: pylog.ConnectedLog) -> None:
    log.create_topic("again")
    with log.producer() as producer:
        producer.send("again", b"old").result(30)
    made = source(kafka, subscribe="again")
    reader = made.streamReader(made.schema())
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(1))
    tasks = reader.partitions(start, end)
    log.delete_topic("again")
    until(lambda: "again" not in log.topics())
    log.create_topic("again")
    with log.producer() as producer:
        producer.send("again", b"new").result(30)
    with pytest.raises(OffsetOutOfRange, match="deleted after the read was planned"):
        table(reader, tasks)
    with pytest.raises(OffsetOutOfRange, match="topic again was deleted and made again"):
        reader.partitions(end, reader.latestOffset(end, ReadMaxRows(1)))
