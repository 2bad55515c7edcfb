"""The driver's half of Spark's sink before a real Kafka broker: staged in a topic, committed in one transaction, once.

The tasks' half and the driver's are called as Spark calls them, without its JVM.
"""
# ruff: noqa: E402 (without PySpark this file is skipped, so it is asked for before the imports that need it)

from collections.abc import Iterator, Sequence

import pytest

pytest.importorskip("pyspark", reason="SPARK TESTS SKIPPED: pip install pyspark pandas pyarrow")
pa = pytest.importorskip("pyarrow")

from pyspark.sql.types import StringType, StructField, StructType

import pylog
from conformance import dump_log
from conformance.kafka_broker import broker
from pylog import errors
from pylog.spark.options.write import parse_write
from pylog.spark.sink.commit import TRANSACTIONAL_ID, Write, commit
from pylog.spark.sink.staging import Staged
from pylog.spark.sink.writers import Sink

REASON = dump_log.missing()
pytestmark = [pytest.mark.broker, pytest.mark.skipif(REASON is not None, reason=str(REASON))]

SCHEMA = StructType([StructField("key", StringType()), StructField("value", StringType())])
QUERY = "0f0e0d0c-0000-4000-8000-000000000001"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("kafka")
    with broker(folder / "data", folder) as servers:
        with pylog.connect(servers) as log:
            log.create_topic("out", partitions=3)
            log.create_topic("complete", partitions=2)
        yield servers


def stage(servers: str, topic: str, batch: int, values: Sequence[str], *, complete: bool) -> tuple[Write, list[Staged]]:
    options = parse_write({"kafka.bootstrap.servers": servers, "topic": topic, "kafka.compression.type": "zstd"})
    sink = Sink(options, SCHEMA, replaces=complete)
    rows = pa.RecordBatch.from_pydict({"key": list(values), "value": list(values)})
    staged = [sink.stage(iter([rows]), f"{QUERY}-{topic}", batch)]
    return Write(options=options, id=f"{QUERY}-{topic}", batch=batch, replaces=complete), staged


def committed(servers: str, topic: str) -> list[str]:
    with pylog.connect(servers) as log:
        return sorted(
            (record.value or b"").decode()
            for partition in log.topic(topic)
            for record in partition.records(isolation_level="read_committed")
        )


def test_a_batch_is_committed_to_kafka_once(servers: str) -> None:
    many = [f"{number:06d}" for number in range(20_000)]
    write, staged = stage(servers, "out", 0, many, complete=False)
    assert committed(servers, "out") == []
    commit(write, staged)
    commit(write, staged)
    commit(*stage(servers, "out", 0, many, complete=False))
    commit(*stage(servers, "out", 1, ["x"], complete=False))
    assert committed(servers, "out") == [*many, "x"]


def test_a_driver_that_was_thought_dead_is_fenced_by_kafka(servers: str) -> None:
    write, staged = stage(servers, "out", 2, ["y"], complete=False)
    with pylog.connect(servers) as log:
        dead = log.producer(transactional_id=f"{TRANSACTIONAL_ID}{write.id}")
        dead.begin()
        dead.send("out", b"from the dead").result()
        commit(write, staged)
        with pytest.raises(errors.ProducerFenced):
            dead.commit()
        dead.close()
    assert committed(servers, "out")[-2:] == ["x", "y"]


def test_a_complete_batch_takes_the_place_of_what_kafka_had(servers: str) -> None:
    commit(*stage(servers, "complete", 0, ["a", "b", "c"], complete=True))
    commit(*stage(servers, "complete", 1, ["d"], complete=True))
    commit(*stage(servers, "complete", 1, ["d"], complete=True))
    assert committed(servers, "complete") == ["d"]
