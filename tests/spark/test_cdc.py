"""The job `cdc`: the changes of a topic as a table, checked against a dict and pandas."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="SPARK TESTS SKIPPED: pip install pyspark pandas pyarrow")

import pandas
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import pylog
from pylog import Record
from pylog.errors import StorageError
from pylog.spark.pipelines.cdc import Applied, cdc
from pylog.spark.pipelines.changes import changes

FIELDS = "id BIGINT, name STRING"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[pylog.Log]:
    """A log that this process owns, while Spark reads it."""
    with pylog.open(tmp_path / "data", flush="none") as log:
        log.create_topic("users", partitions=2)
        yield log


def row(number: int, name: str) -> bytes:
    return json.dumps({"id": number, "name": name}).encode()


def append(log: pylog.Log, changes: list[tuple[int, str | None]]) -> None:
    """Changes of users, whose timestamps go down; None deletes."""
    for at, (number, name) in enumerate(changes):
        value = None if name is None else row(number, name)
        record = Record(value, b"%d" % number, timestamp=1_714_521_600_000 - at)
        log.topic("users")[number % 2].append([record])


def table(path: Path) -> pandas.DataFrame:
    """What a reader that knows nothing of commits finds."""
    return pandas.read_parquet(path).sort_values("_key", ignore_index=True)


def rows(path: Path) -> dict[int, str]:
    found = table(path)
    assert found["_key"].is_unique
    return dict(zip(found["id"].tolist(), found["name"].tolist(), strict=True))


def last_rows(log: pylog.Log) -> dict[int, str]:
    """The same by pandas: the last record of each key, without the deleted ones."""
    records = log.topic("users").to_pandas().sort_values(["partition", "offset"])
    last = records.groupby("key")["value"].agg(lambda values: values.iloc[-1]).dropna()
    return {found["id"]: found["name"] for found in map(json.loads, last)}


def change(op: str, after: dict[str, Any] | None, *, wrapped: bool) -> bytes:
    """A change as a Debezium connector writes it, with fields that the table does not take."""
    event = {"before": None, "after": after, "op": op, "ts_ms": 1, "source": {"table": "users", "lsn": 5}}
    return json.dumps({"schema": {"type": "struct"}, "payload": event} if wrapped else event).encode()


def test_rows_follow_their_changes_over_several_runs(spark: SparkSession, log: pylog.Log, tmp_path: Path) -> None:
    lake = tmp_path / "lake"

    def run() -> Applied:
        return cdc(spark, log.path, "users", str(lake), schema=FIELDS, parts=3)

    append(log, [(number % 50, f"n{number}") for number in range(200)] + [(7, None), (8, None), (8, "again")])
    assert run() == Applied(records=203, rows=49, commits=1)
    assert rows(lake) == last_rows(log)
    assert rows(lake)[8] == "again" and 7 not in rows(lake)
    assert run() == Applied(records=0, rows=49, commits=0)
    # Some rows change, one comes back, one goes, some are new; one part alone changes in the last run.
    append(log, [(number, f"m{number}") for number in range(40, 60)] + [(7, "back"), (0, None)])
    assert run() == Applied(records=22, rows=59, commits=1)
    append(log, [(1, None)])
    assert run() == Applied(records=1, rows=58, commits=1)
    assert rows(lake) == last_rows(log)
    found = table(lake).set_index("id")
    record = list(log.topic("users")[1].records())[found["_offset"][7]]
    assert (record.key, record.value) == (b"7", row(7, "back"))
    assert found["_timestamp"][7] == pandas.Timestamp(record.timestamp, unit="ms", tz="UTC")
    # Spark reads the folder as a table, too.
    assert spark.read.parquet(str(lake)).count() == 58
    assert sorted(path.name for path in lake.glob("*.parquet")) == [f"part-{part:05}.parquet" for part in range(3)]
    append(log, [(number, None) for number in range(60)])
    assert run().rows == 0 and rows(lake) == {}


def test_a_killed_run_applies_each_change_once(spark: SparkSession, log: pylog.Log, tmp_path: Path) -> None:
    lake = tmp_path / "lake"

    def run() -> Applied:
        return cdc(spark, log.path, "users", str(lake), parts=1)

    log.topic("users")[0].append([Record(b"\xff1", b"\xfea"), Record(b"2", b"b")])
    # The tasks are done, and the run ends before the commit is there.
    (lake / "_commits" / "0000000001.json").mkdir(parents=True)
    with pytest.raises(StorageError, match="another run has committed meanwhile"):
        run()
    assert not list((lake / "_staged").iterdir()) and not list(lake.glob("*.parquet"))
    (lake / "_commits" / "0000000001.json").rmdir()
    # It is there, and the driver ends before the file is in its place.
    (lake / "part-00000.parquet" / "in the way").mkdir(parents=True)
    with pytest.raises(OSError, match=r"part-00000\.parquet"):
        run()
    (lake / "part-00000.parquet" / "in the way").rmdir()
    (lake / "part-00000.parquet").rmdir()
    assert run() == Applied(records=0, rows=2, commits=0)
    assert table(lake)[["_key", "value"]].values.tolist() == [[b"b", b"2"], [b"\xfea", b"\xff1"]]
    assert not list((lake / "_staged").glob("*/*"))
    log.topic("users")[0].append([Record(None, b"b")])
    assert run().rows == 1


@pytest.mark.parametrize("wrapped", [False, True])
def test_debezium_says_what_became_of_a_row(spark: SparkSession, log: pylog.Log, tmp_path: Path, wrapped: bool) -> None:
    lake = tmp_path / "lake"

    def key(number: int, version: int = 1) -> bytes:
        payload = {"id": number}
        schema = {"type": "struct", "version": version}
        return json.dumps({"schema": schema, "payload": payload} if wrapped else payload).encode()

    def event(number: int, op: str, name: str | None = None, version: int = 1) -> Record:
        after = None if name is None else {"id": number, "name": name, "more": [1]}
        return Record(change(op, after, wrapped=wrapped), key(number, version))

    def run() -> Applied:
        return cdc(spark, log.path, "users", str(lake), schema=FIELDS, envelope="debezium", parts=2)

    users = log.topic("users")[0]
    users.append([event(1, "r", "one"), event(2, "c", "two"), event(3, "c", "three"), event(1, "u", "uno")])
    # A deletion, and the tombstone behind it.
    users.append([event(2, "d"), Record(None, key(2))])
    assert run() == Applied(records=6, rows=2, commits=1)
    assert rows(lake) == {1: "uno", 3: "three"}
    users.append([event(3, "u", "drei", version=2), event(1, "d"), Record(None, key(1)), event(2, "c", "zwei")])
    run()
    assert rows(lake) == {2: "zwei", 3: "drei"}
    assert set(table(lake)["_key"]) == {'{"id":2}', '{"id":3}'}


def test_the_later_timestamp_wins_between_partitions(spark: SparkSession, log: pylog.Log, tmp_path: Path) -> None:
    def put(partition: int, name: str, timestamp: int) -> None:
        log.topic("users")[partition].append([Record(row(1, name), b"1", timestamp=timestamp)])
        cdc(spark, log.path, "users", str(tmp_path / "lake"), schema=FIELDS)

    for partition, name, timestamp, expected in [
        (0, "a", 10, "a"),
        (1, "b", 9, "a"),
        (1, "c", 10, "c"),
        (1, "d", 1, "d"),
    ]:
        put(partition, name, timestamp)
        assert rows(tmp_path / "lake") == {1: expected}


@pytest.mark.parametrize(
    ("key", "value", "envelope", "words"),
    [
        (None, b"{}", "none", "has no key"),
        (None, None, "debezium", "has no key"),
        (b"1", b"{", "none", "has a value that is no JSON of struct<id:bigint,name:string>"),
        (b"1", b'{"id":"x"}', "none", "has a value that is no JSON"),
        (b"1", b"[]", "none", "has a value that is no JSON"),
        (b"1", b"", "none", "has a value that is no JSON"),
        (b"\xff", b"{}", "none", "has a key that is no UTF-8"),
        (b"1", change("t", None, wrapped=False), "debezium", "has a value that is no change of Debezium's"),
        (b"1", change("u", None, wrapped=True), "debezium", "has a value that is no change of Debezium's"),
        (b"1", row(1, "a"), "debezium", "has a value that is no change of Debezium's"),
    ],
)
def test_a_record_that_changes_no_row_is_named(
    spark: SparkSession, key: bytes | None, value: bytes | None, envelope: str, words: str
) -> None:
    place = {"partition": 1, "offset": 7, "timestamp": datetime(2024, 5, 1, tzinfo=UTC)}
    record = pandas.DataFrame([{"key": key, "value": value, **place}])
    records = spark.createDataFrame(
        record, "key BINARY, value BINARY, partition INT, offset BIGINT, timestamp TIMESTAMP"
    )
    with pytest.raises(PySparkException, match=f"users-1 at offset 7 {words}"):
        changes(records, "users", FIELDS, envelope).collect()


def test_cdc_says_what_is_wrong(spark: SparkSession, log: pylog.Log, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    log.create_topic("other")
    append(log, [(1, "a")])

    def refused(words: str, topic: str = "users", to: Path = lake, **options: Any) -> None:
        with pytest.raises(ValueError, match=words):
            cdc(spark, log.path, topic, str(to), **options)

    refused("envelope is one of none, debezium, got 'maxwell'", envelope="maxwell")
    refused("envelope=debezium needs a schema", envelope="debezium")
    refused("a table has the changes of one topic", topic="users,other")
    refused("the column '_offset', a name that pylog takes", schema="_offset INT")
    refused("the schema is fields", schema="INT")
    refused("parts is 1 or more, got 0", parts=0)
    refused("has files and is not a table", to=Path(log.path))
    cdc(spark, log.path, "users", str(lake), schema=FIELDS)
    refused("is a table of users .*, not of other", topic="other", schema=FIELDS)
    refused("is a table of users .*, not of users", schema="id INT")
    refused("has 16 parts, got 4", schema=FIELDS, parts=4)
    log.topic("users")[0].append([Record(b"no key")])
    with pytest.raises(PySparkException, match="users-0 at offset 0 has no key"):
        cdc(spark, log.path, "users", str(lake), schema=FIELDS)
    log.delete_records({pylog.TopicPartition("users", 0): 1})
    with pytest.raises(PySparkException, match=r"offset 0 of users-0 is outside .*set failOnDataLoss"):
        cdc(spark, log.path, "users", str(lake), schema=FIELDS)
    assert cdc(spark, log.path, "users", str(lake), schema=FIELDS, fail_on_data_loss=False).rows == 1
    append(log, [(1, "b")])
    part = next(path for path in lake.glob("part-*.parquet"))
    pandas.concat([pandas.read_parquet(part)] * 2).to_parquet(part)
    with pytest.raises(PySparkException, match=f"{part.name} has 2 rows, and 1 were committed"):
        cdc(spark, log.path, "users", str(lake), schema=FIELDS)
    part.unlink()
    with pytest.raises(PySparkException, match=f"{part.name} is gone"):
        cdc(spark, log.path, "users", str(lake), schema=FIELDS)
    commit = lake / "_commits" / "0000000002.json"
    commit.write_text(commit.read_text().replace('"table"', '"archive"'))
    with pytest.raises(StorageError, match=r"0000000002\.json is not a commit of a table"):
        cdc(spark, log.path, "users", str(lake), schema=FIELDS)
