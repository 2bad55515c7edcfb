"""The jobs on streams of topics, each run twice or more with its checkpoint, and checked against pandas."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="SPARK TESTS SKIPPED: pip install pyspark pandas pyarrow")

import pandas
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import pylog
from pylog import Record
from pylog.spark.pipelines.aggregate import aggregate
from pylog.spark.pipelines.compact import Compacted, compact
from pylog.spark.pipelines.deduplicate import deduplicate
from pylog.spark.pipelines.join import join
from pylog.spark.pipelines.mirror import mirror
from pylog.spark.pipelines.rekey import rekey
from pylog.spark.pipelines.sessionise import sessionise

FIRST_MS = 1_714_521_600_000  # 2024-05-01 UTC
MINUTE_MS = 60_000
SCHEMA = "user STRING, amount INT"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[pylog.Log]:
    """A log that this process owns, while Spark reads and writes it."""
    with pylog.open(tmp_path / "data", flush="none") as log:
        log.create_topic("clicks", partitions=2)
        yield log


def append(log: pylog.Log, rows: list[tuple[str, int, float]], topic: str = "clicks") -> None:
    """Records of JSON: user, amount, minutes. The key is the user."""
    for user, amount, minutes in rows:
        value = json.dumps({"user": user, "amount": amount}).encode()
        stamp = FIRST_MS + round(minutes * MINUTE_MS)
        log.topic(topic)[amount % 2].append([Record(value, user.encode(), timestamp=stamp)])


def frame_of(rows: list[tuple[str, int, float]]) -> pandas.DataFrame:
    found = pandas.DataFrame(rows, columns=["user", "amount", "minutes"])
    found["at"] = pandas.to_datetime(FIRST_MS + found["minutes"] * MINUTE_MS, unit="ms", utc=True)
    return found


def written(log: pylog.Log, topic: str) -> list[Any]:
    """The committed records of a topic, partition after partition."""
    return [record for partition in log.topic(topic) for record in partition.records(isolation_level="read_committed")]


def facts(log: pylog.Log, topic: str) -> list[tuple[object, ...]]:
    found = written(log, topic)
    return [(one.partition, one.key, one.value, one.timestamp, tuple(one.headers)) for one in found]


def values(log: pylog.Log, topic: str) -> list[dict[str, Any]]:
    return [json.loads(record.value) for record in written(log, topic)]


def rows_of(count: int, users: int = 3, every: float = 1.0) -> list[tuple[str, int, float]]:
    return [(f"u{number * 7 % users}", number, number * every) for number in range(count)]


def test_mirror_copies_each_record_once_in_order(spark: SparkSession, log: pylog.Log, tmp_path: Path) -> None:
    with pylog.open(tmp_path / "copy", flush="none"):
        pass

    def run() -> int:
        return mirror(spark, log.path, "clicks", tmp_path / "copy", checkpoint=str(tmp_path / "cp")).records

    append(log, rows_of(40))
    log.topic("clicks")[0].append([Record(None, b"u1", headers=[("h", b"1")])])
    assert run() == 41
    append(log, rows_of(20))
    # As a kill behind the sink's commit leaves it.
    for name in (tmp_path / "cp" / "commits").iterdir():
        name.unlink()
    run()
    run()
    with pylog.open(tmp_path / "copy", mode="read") as copy:
        assert facts(copy, "clicks") == facts(log, "clicks")


def test_rekey_puts_records_where_the_new_key_says(spark: SparkSession, log: pylog.Log, tmp_path: Path) -> None:
    rows = rows_of(60, users=5)
    append(log, rows)
    parameters: dict[str, Any] = {"key": "concat('k-', value.amount % 7)", "schema": SCHEMA, "partitions": 3}
    done = rekey(spark, log.path, "clicks", "by-amount", checkpoint=str(tmp_path / "cp"), **parameters)
    assert (done.records, done.batches) == (60, 1)
    found = written(log, "by-amount")
    assert sorted(json.loads(record.value)["amount"] for record in found) == list(range(60))
    assert all(record.key == b"k-%d" % (json.loads(record.value)["amount"] % 7) for record in found)
    assert len({(record.key, record.partition) for record in found}) == 7
    assert [record.timestamp for record in found] == [
        FIRST_MS + json.loads(record.value)["amount"] * MINUTE_MS for record in found
    ]
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        rekey(spark, log.path, "clicks", "by-amount", checkpoint=str(tmp_path / "cp2"), key="nothing")


def test_deduplicate_keeps_the_first_within_the_time(spark: SparkSession, log: pylog.Log, tmp_path: Path) -> None:
    def run() -> int:
        return deduplicate(
            spark, log.path, "clicks", "unique", checkpoint=str(tmp_path / "cp"), by="value.amount", schema=SCHEMA
        ).late

    rows = rows_of(30)
    append(log, rows)
    log.topic("clicks")[0].append([Record(b"no JSON", timestamp=FIRST_MS)] * 2)
    run()
    # Repeats come in a later run, and one so late that nothing is known of it.
    append(log, [(user, amount, minutes + 0.5) for user, amount, minutes in rows[10:]])
    append(log, [("u9", 200, 200)])
    run()
    append(log, [("late", 201, 1)])
    assert run() == 1
    found = [record.value for record in written(log, "unique")]
    assert found.count(b"no JSON") == 2
    kept = frame_of([*rows, *rows, ("u9", 200, 200)]).drop_duplicates("amount")
    assert sorted(json.loads(value)["amount"] for value in found if value != b"no JSON") == kept["amount"].tolist()


def aggregated(rows: list[tuple[str, int, float]]) -> list[tuple[object, ...]]:
    groups = frame_of(rows).groupby([pandas.Grouper(key="at", freq="10min"), "user"])["amount"].agg(["size", "sum"])
    return sorted((start.isoformat(), user, int(n), int(total)) for (start, user), (n, total) in groups.iterrows() if n)


def test_aggregate_writes_each_window_once_when_it_is_over(spark: SparkSession, log: pylog.Log, tmp_path: Path) -> None:
    def run() -> int:
        return aggregate(
            spark, log.path, "clicks", "totals", checkpoint=str(tmp_path / "cp"), schema=SCHEMA, window="10 minutes",
            by={"user": "value.user"}, aggregates={"n": "count(*)", "total": "sum(value.amount)"}, late="5 minutes",
        ).late  # fmt: skip

    def found() -> list[tuple[object, ...]]:
        return sorted(
            (pandas.Timestamp(one["start"]).isoformat(), one["user"], one["n"], one["total"])
            for one in values(log, "totals")
        )

    rows = rows_of(60, every=0.5)
    append(log, rows)
    run()
    # The newest record is of minute 29.5: the windows that end at 10 and at 20 are over.
    assert found() == aggregated([row for row in rows if row[2] < 20])
    late = [("u0", 1, 21.0), ("u0", 1, 3.0)]
    append(log, late)
    assert run() == 1
    append(log, [("u5", 5, 300.0)])
    run()
    assert found() == aggregated([*rows, late[0]])
    assert {record.key for record in written(log, "totals")} == {b"u0", b"u1", b"u2"}
    with pytest.raises(ValueError, match="the name 'end' is taken twice"):
        aggregate(spark, log.path, "clicks", "x", checkpoint=str(tmp_path / "cp2"), aggregates={"end": "count(*)"})


def test_sessionise_ends_a_session_behind_its_gap(spark: SparkSession, log: pylog.Log, tmp_path: Path) -> None:
    def run() -> None:
        sessionise(spark, log.path, "clicks", "sessions", checkpoint=str(tmp_path / "cp"), gap="5 minutes")

    # Sessions of u0 go on in the second run; those of u1 have holes.
    first = [("u0", n, n * 4.0) for n in range(4)] + [("u1", n, minutes) for n, minutes in enumerate((0, 3, 9, 13))]
    second = [("u0", 5, 16.0), ("u2", 6, 500.0)]
    append(log, first)
    run()
    append(log, second)
    run()
    run()
    found = sorted((one["key"], one["start"], one["end"], one["count"]) for one in values(log, "sessions"))
    frame = frame_of([*first, second[0]]).sort_values(["user", "at"])
    begins = frame.groupby("user")["at"].diff() >= pandas.Timedelta(minutes=5)
    expected = frame.groupby(["user", begins.groupby(frame["user"]).cumsum()])["at"].agg(["min", "max", "size"])
    assert [(user, pandas.Timestamp(start), pandas.Timestamp(end), count) for user, start, end, count in found] == [
        (user, row["min"], row["max"] + pandas.Timedelta(minutes=5), row["size"])
        for (user, _), row in expected.iterrows()
    ]


def test_join_finds_pairs_that_come_in_different_runs(spark: SparkSession, log: pylog.Log, tmp_path: Path) -> None:
    log.create_topic("paid", partitions=2)

    def run() -> None:
        join(
            spark, log.path, "clicks", "paid", "pairs", checkpoint=str(tmp_path / "cp"), within="10 minutes",
            schema=SCHEMA,
        )  # fmt: skip

    left, right = rows_of(20), [(f"u{n % 4}", 100 + n, n * 2.0) for n in range(15)]
    append(log, left)
    append(log, right[:5], "paid")
    run()
    append(log, right[5:], "paid")
    run()
    both = frame_of(left).merge(frame_of(right), on="user", suffixes=("", "_right"))
    near = both[(both["minutes"] - both["minutes_right"]).abs() <= 10]
    found = sorted((one["left"]["amount"], one["right"]["amount"]) for one in values(log, "pairs"))
    assert found == sorted(zip(near["amount"], near["amount_right"], strict=True))


def test_compact_leaves_the_last_record_of_each_key(spark: SparkSession, log: pylog.Log) -> None:
    rows = rows_of(50, users=10)
    append(log, rows)
    log.topic("clicks")[1].append([Record(b"no key"), Record(None, b"u3", timestamp=FIRST_MS + 100 * MINUTE_MS)])
    last = frame_of(rows).sort_values("minutes").groupby("user").last().drop("u3")
    for _ in range(2):
        assert compact(spark, log.path, "clicks", "users", partitions=2) == Compacted(records=9)
        found = {record.key.decode(): json.loads(record.value)["amount"] for record in written(log, "users")}
        assert found == last["amount"].to_dict()
        assert len(written(log, "users")) == 9
