"""The jobs over a log behind servers: pylog's (`--bootstrap`), and a real Kafka (`make kafka`)."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="SPARK TESTS SKIPPED: pip install pyspark pandas pyarrow")

import pandas
from pyspark.sql import SparkSession

import pylog
from conformance import dump_log
from conformance.kafka_broker import broker
from support.command_line import Run, run

__all__ = ["run"]

REASON = dump_log.missing()
FIRST_MS = 1_714_521_600_000  # 2024-05-01 UTC


@pytest.fixture(
    scope="module",
    params=[
        "pylog",
        pytest.param("kafka", marks=[pytest.mark.broker, pytest.mark.skipif(REASON is not None, reason=str(REASON))]),
    ],
)
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Servers whose topic `clicks` has 40 records of 5 keys in two partitions, one of which is a tombstone."""
    folder = tmp_path_factory.mktemp("servers")
    if request.param == "kafka":
        with broker(folder / "data", folder) as servers:
            fill(servers)
            yield servers
    else:
        with pylog.open(folder / "data", flush="none") as log, log.serve() as server:
            fill(server.bootstrap_servers)
            yield server.bootstrap_servers


def fill(servers: str) -> None:
    with pylog.connect(servers) as log:
        log.create_topic("clicks", partitions=2)
        with log.producer() as producer:
            for number in range(40):
                value = None if number == 39 else json.dumps({"id": number % 5, "ms": number}).encode()
                producer.send("clicks", value, key=b"%d" % (number % 5), timestamp_ms=FIRST_MS + number * 60_000)


def facts(servers: str, topic: str) -> list[tuple[object, ...]]:
    """The committed records of a topic, partition after partition."""
    with pylog.connect(servers) as log:
        return [
            (partition.partition, record.key, record.value, record.timestamp)
            for partition in log.topic(topic)
            for record in partition.records(isolation_level="read_committed")
        ]


def job(run: Run, servers: str, name: str, *words: str) -> dict[str, object]:
    done = run("pipeline", "run", name, "--bootstrap", servers, "--json", *words)
    assert done.code == 0, done.err
    found: dict[str, object] = json.loads(done.lines[0])
    return found


def test_archive_and_restore_over_servers(spark: SparkSession, run: Run, servers: str, tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    assert job(run, servers, "archive", "--topic", "clicks", "--to", lake)["records"] == 40
    assert job(run, servers, "restore", "--archive", lake, "--topic", "again")["records"] == 40
    assert job(run, servers, "restore", "--archive", lake, "--topic", "again")["records"] == 0
    assert facts(servers, "again") == facts(servers, "clicks")


def test_jobs_on_streams_over_servers(spark: SparkSession, run: Run, servers: str, tmp_path: Path) -> None:
    with pylog.open(tmp_path / "copy", flush="none"):
        pass
    to, mirrored = str(tmp_path / "copy"), str(tmp_path / "mirrored")
    for records in (40, 0):
        words = ("--topic", "clicks", "--to-log", to, "--checkpoint", mirrored)
        assert job(run, servers, "mirror", *words)["records"] == records
    with pylog.open(to, mode="read") as log:
        copied = [record.value for partition in log.topic("clicks") for record in partition.records()]
    assert copied == [fact[2] for fact in facts(servers, "clicks")]

    words = ("--topic", "clicks", "--schema", "id INT, ms INT", "--window", "10 minutes", "--late", "1 minute")
    counted = ("--aggregate", "n=count(*)", "--to", "totals", "--checkpoint", str(tmp_path / "totals"))
    assert job(run, servers, "aggregate", *words, *counted)["records"] == 40
    # The last window is not over.
    assert [json.loads(str(fact[2], "utf-8"))["n"] for fact in facts(servers, "totals")] == [10, 10, 10]  # type: ignore[arg-type]


def test_jobs_that_keep_the_last_of_each_key(spark: SparkSession, run: Run, servers: str, tmp_path: Path) -> None:
    assert job(run, servers, "compact", "--topic", "clicks", "--to", "last")["records"] == 4
    last = {key: json.loads(value)["ms"] for _, key, value, _ in facts(servers, "last")}  # type: ignore[arg-type]
    assert last == {b"0": 35, b"1": 36, b"2": 37, b"3": 38}
    words = ("--topic", "clicks", "--to", str(tmp_path / "table"), "--schema", "id INT, ms INT", "--parts", "2")
    assert job(run, servers, "cdc", *words) == {"job": "cdc", "records": 40, "rows": 4, "commits": 1}
    assert job(run, servers, "cdc", *words)["records"] == 0
    found = pandas.read_parquet(tmp_path / "table")
    assert {key.encode(): ms for key, ms in zip(found["_key"], found["ms"], strict=True)} == last
