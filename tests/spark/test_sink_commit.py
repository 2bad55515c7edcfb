"""The driver's half of a write, without Spark: what is committed, once, whatever is run again or was killed."""
# ruff: noqa: E402 (without PySpark this file is skipped, so it is asked for before the imports that need it)

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

SKIPPED = "SPARK TESTS SKIPPED: pip install pyspark pandas pyarrow"
pytest.importorskip("pyspark", reason=SKIPPED)
pa = pytest.importorskip("pyarrow", reason=SKIPPED)

from pyspark.sql.types import StringType, StructField, StructType

import pylog
from pylog import TopicPartition, errors
from pylog.files import DiskFiles
from pylog.inspect import Problem, verify
from pylog.logdirs.log_directory import STAGED
from pylog.spark.options.write import parse_write
from pylog.spark.sink.commit import TRANSACTIONAL_ID, Write, commit, drop
from pylog.spark.sink.content import MODULUS, Checksum
from pylog.spark.sink.ledger import LEDGER_CONFIG, LEDGER_PARTITIONS, LEDGER_TOPIC, Entry, Ledger
from pylog.spark.sink.plan import BatchPlan, plan_of
from pylog.spark.sink.staging import LEFT_MS, Staged
from pylog.spark.sink.writers import Sink

SCHEMA = StructType([StructField("key", StringType()), StructField("value", StringType())])
QUERY = "0f0e0d0c-0000-4000-8000-000000000001"


class Query:
    """One query that writes to topic `out`: what Spark would call, in its order."""

    def __init__(self, options: dict[str, str], query: str = QUERY, *, complete: bool = False) -> None:
        self.options = parse_write({"topic": "out", **options})
        self.query = query
        self.complete = complete

    def stage(self, batch: int | None, *tasks: Sequence[str]) -> list[Staged]:
        sink = Sink(self.options, SCHEMA, replaces=self.complete)
        return [sink.stage(iter([rows(task)]), self.query, batch) for task in tasks]

    def write(self, batch: int | None, plan: BatchPlan | None = None) -> Write:
        return Write(options=self.options, id=self.query, batch=batch, replaces=self.complete, plan=plan)

    def commit(self, batch: int | None, staged: list[Staged], plan: BatchPlan | None = None) -> None:
        commit(self.write(batch, plan), staged)

    def run(self, batch: int | None, *tasks: Sequence[str], plan: BatchPlan | None = None) -> None:
        self.commit(batch, self.stage(batch, *tasks), plan)


def rows(values: Sequence[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"key": [f"k{value}" for value in values], "value": list(values)})


@pytest.fixture(params=["directory", "owner elsewhere", "server"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[dict[str, str], Callable[[], pylog.Log]]]:
    """The options of a place with topic `out`, and how a test looks at it."""
    path = str(tmp_path / "data")
    with pylog.open(path, flush="none") as log:
        log.create_topic("out", partitions=2)
        log.create_topic("compacted", config={"cleanup.policy": "compact"})
        if request.param == "server":
            with log.serve() as server:
                yield {"kafka.bootstrap.servers": server.bootstrap_servers}, lambda: pylog.open(path, mode="read")
            return
        if request.param == "owner elsewhere":
            yield {"path": path}, lambda: pylog.open(path, mode="read")
            return
    yield {"path": path}, lambda: pylog.open(path, mode="read")


Place = tuple[dict[str, str], Callable[[], pylog.Log]]


def values(place: Place, isolation: str = "read_committed") -> list[str]:
    with place[1]() as log:
        return sorted(
            (record.value or b"").decode()
            for partition in log.topic("out")
            for record in partition.records(isolation_level=isolation)
        )


def test_what_all_tasks_have_staged_is_committed_in_one_transaction(place: Place) -> None:
    query = Query(place[0])
    staged = query.stage(0, "ab", "", "cd")
    assert [message.records for message in staged] == [2, 0, 2]
    assert values(place, "read_uncommitted") == []
    query.commit(0, staged)
    assert values(place) == list("abcd")
    with place[1]() as log:
        first = next(log.topic("out")[0].records())
        assert first.key is not None and first.timestamp > 0


def test_a_batch_that_is_committed_again_is_there_once(place: Place) -> None:
    query = Query(place[0])
    query.run(0, "ab")
    query.run(0, "b", "", "a")
    query.run(1, "cd", "e")
    query.run(1, "edc")
    assert values(place) == list("abcde")


@pytest.mark.parametrize(("batch", "rows"), [(1, "cd"), (1, "d"), (1, "cc"), (0, "ab"), (0, "c")])
def test_what_is_no_replay_of_the_last_batch_is_refused(place: Place, batch: int, rows: str) -> None:
    """A checkpoint that was restored, or has lost its last files: the numbers come again, with other records."""
    query = Query(place[0])
    query.run(0, "ab")
    query.run(1, "c")
    with pytest.raises(errors.OutOfOrderSequence, match=r"no replay .* checkpoint was restored .* To go on, put"):
        query.run(batch, rows)
    assert values(place) == list("abc")
    # The same query goes on, where the checkpoint is put back.
    query.run(1, "c")
    query.run(2, "d")
    assert values(place) == list("abcd")


def test_a_batch_by_the_same_plan_is_a_replay_whatever_its_rows_are(place: Place) -> None:
    """A query may compute other rows each time: uuid(), say."""
    query, plan = (
        Query(place[0]),
        BatchPlan.of(b"one", ('{"in": {"0": 7}, "#first": {"in": {"0": 2}}}', "-", "{}", "5")),
    )
    query.run(0, "ab", plan=plan)
    query.run(0, "xyz", plan=plan)
    assert values(place) == list("ab")
    query.run(0, "ba", plan=BatchPlan.of(b"two"))
    with pytest.raises(errors.OutOfOrderSequence) as refused:
        query.run(0, "abc", plan=BatchPlan.of(b"two"))
    assert str(refused.value).endswith('start behind what is written: startingOffsets={"in": {"0": 7}}')


def test_a_plan_is_that_of_the_checkpoint_and_none_where_it_cannot_be_read(tmp_path: Path) -> None:
    checkpoint = tmp_path / "a checkpoint #1%20"
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "offsets" / "3").write_text('v1\n{"batchTimestampMs":5}\n{"in": {"0": 7}}\n-')
    found = plan_of(str(checkpoint), 3)
    assert found is not None and found.ends == ('{"in": {"0": 7}}', "-")
    assert plan_of(checkpoint.as_uri(), 3) == plan_of(f"file:{checkpoint.as_uri()[7:]}", 3) == found
    assert plan_of(str(checkpoint), 4) is plan_of("dropbox://a/b", 3) is plan_of(None, 3) is None
    (checkpoint / "offsets" / "3").write_text('v1\n{"batchTimestampMs":6}\n{"in": {"0": 7}}\n-')
    assert plan_of(str(checkpoint), 3) != found


def test_a_checksum_is_that_of_the_rows_and_not_of_their_order_or_pieces() -> None:
    schema = pa.schema([
        ("skipped", pa.string()), ("value", pa.binary()), ("partition", pa.int32()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ])  # fmt: skip
    rows = [
        {"skipped": str(number), "value": value, "partition": partition, "timestamp": stamp, "headers": headers}
        for number, (value, partition, stamp, headers) in enumerate([
            (b"a", 0, 1, None), (b"a", 1, 1, []), (b"b", None, None, [{"key": "k", "value": b"v"}]), (None, 0, 1, None),
            (b"a", 0, 1, None), (b"\xff" * 1000, 0, 2**40, [{"key": "k", "value": None}]),
        ])
    ]  # fmt: skip

    def checksum(*pieces: list[dict[str, object]]) -> int:
        seen = Checksum([1, 2, 3, 4])
        assert sum(one.num_rows for one in seen.over(pa.RecordBatch.from_pylist(p, schema) for p in pieces)) > 0
        return seen.value

    whole = checksum(rows)
    assert 0 <= whole < MODULUS
    assert whole == checksum(rows[::-1]) == checksum(rows[3:], [], rows[:3]) == checksum(*([row] for row in rows))
    assert whole == (checksum(rows[:2]) + checksum(rows[2:])) % MODULUS
    assert whole == checksum([{**row, "skipped": "x"} for row in rows])
    others = [rows[:-1], [*rows, rows[0]], *([*rows[:at], *rows[at + 1 :], rows[(at + 1) % 6]] for at in range(1, 6))]
    for field, value in {
        "value": b"c",
        "partition": 7,
        "timestamp": 7,
        "headers": [{"key": "k", "value": b"w"}],
    }.items():
        others += [[{**rows[0], field: value}, *rows[1:]]]
    for other in others:
        assert checksum(other) != whole


def test_an_abort_behind_a_durable_commit_takes_nothing_back(place: Place) -> None:
    query = Query(place[0])
    staged = query.stage(0, "ab")
    query.commit(0, staged)
    drop(query.write(0), staged)
    query.run(0, "ab")
    assert values(place) == list("ab")


def test_a_new_checkpoint_begins_at_batch_0_and_loses_nothing(place: Place) -> None:
    Query(place[0]).run(0, "a")
    Query(place[0], "0f0e0d0c-0000-4000-8000-000000000002").run(0, "b")
    assert values(place) == list("ab")


def test_a_driver_that_was_thought_dead_is_fenced(place: Place) -> None:
    query = Query(place[0])
    staged = query.stage(0, "ab")
    with place[1]() as reader:
        path = reader.path
    with pylog.open(path) as log:
        dead = log.producer(transactional_id=f"{TRANSACTIONAL_ID}{QUERY}")
        dead.begin()
        dead.send("out", b"from the dead", partition=0).result()
        query.commit(0, staged)
        with pytest.raises(errors.ProducerFenced):
            dead.commit()
        dead.close()
    assert values(place) == list("ab")


def test_an_open_transaction_of_another_query_hides_no_entry(place: Place) -> None:
    query = Query({**place[0], "kafka.transaction.timeout.ms": "200"})
    with place[1]() as reader:
        path = reader.path
    with pylog.open(path) as log:
        log.create_topic(LEDGER_TOPIC, LEDGER_PARTITIONS, LEDGER_CONFIG)
        other = log.producer(transactional_id="other")
        other.begin()
        for partition in range(LEDGER_PARTITIONS):
            other.send(LEDGER_TOPIC, b"", b"other", partition=partition).result()
        # What this query has committed lies behind it.
        staged = query.stage(0, "a")
        with log.producer(transactional_id="this") as producer, producer.transaction():
            Ledger(log, QUERY, 200).write(producer, Entry(batch=0, records=1, checksum=staged[0].checksum))
        with pytest.raises(errors.RequestTimedOut, match="another query stays open"):
            query.run(0, "a")
        other.abort()
        other.close()
    query.run(0, "a")
    query.run(1, "b")
    assert values(place) == ["b"]


def test_a_complete_batch_takes_the_place_of_all_that_was_there(place: Place) -> None:
    query = Query(place[0], complete=True)
    query.run(0, "abc")
    query.run(1, "x", "y")
    assert values(place) == ["x", "y"]
    query.run(2)
    query.run(2, "")
    with pytest.raises(errors.OutOfOrderSequence):
        query.run(1, "x", "y")
    assert values(place) == []


def test_a_replay_finishes_what_a_kill_behind_the_commit_has_left(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(place[0], complete=True)
    query.run(0, "abc")
    staged = query.stage(1, "x")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pylog.handles.client_half.ClientHalf.delete_records", killed)
        with pytest.raises(KeyboardInterrupt):
            query.commit(1, staged)
    assert values(place) == ["a", "b", "c", "x"]
    query.run(1, "x")
    assert values(place) == ["x"]


def test_what_cannot_be_replaced_is_refused_when_the_write_is_planned(place: Place) -> None:
    options = parse_write({**place[0], "topic": "compacted"})
    with pytest.raises(errors.PolicyViolation, match="compact,delete"):
        Sink(options, SCHEMA, replaces=True)


def test_a_batch_write_is_all_or_nothing(place: Place) -> None:
    query = Query(place[0], "write")
    staged = query.stage(None, "ab")
    query.commit(None, staged)
    assert values(place) == ["a", "b"]
    replacing = Query(place[0], "write2", complete=True)
    replacing.run(None, "c")
    assert values(place) == ["c"]


# --- what lies in a directory ---------------------------------------------------------------------------------------


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Place]:
    path = str(tmp_path / "data")
    with pylog.open(path, flush="none") as log:
        log.create_topic("out", partitions=2)
    yield {"path": path}, lambda: pylog.open(path, mode="read")


def staged_names(place: Place) -> list[str]:
    return sorted(os.listdir(Path(place[0]["path"]) / STAGED))


@pytest.mark.parametrize("damage", ["gone", "shorter", "flipped", "count", "name"])
def test_staged_batches_that_are_damaged_leave_nothing_and_are_staged_again(directory: Place, damage: str) -> None:
    query = Query(directory[0])
    staged = query.stage(0, "ab", "cd")
    file = Path(directory[0]["path"]) / STAGED / staged[1].unique
    data = bytearray(file.read_bytes())
    if damage == "gone":
        file.unlink()
    elif damage == "shorter":
        file.write_bytes(data[:-1])
    elif damage == "flipped":
        data[-3] ^= 1
        file.write_bytes(data)
    elif damage == "name":
        data[10] = 0xFF
        file.write_bytes(data)
    else:
        data[3] ^= 0x40
        file.write_bytes(data)
    with pytest.raises((errors.StorageError, errors.CorruptBatch)):
        query.commit(0, staged)
    assert values(directory) == []
    query.run(0, "ab", "cd")
    assert values(directory) == list("abcd")


def test_a_zombie_task_changes_nothing_and_what_it_left_is_removed(directory: Place) -> None:
    query, other = Query(directory[0]), Query(directory[0], "0f0e0d0c-0000-4000-8000-000000000002")
    zombie = query.stage(0, "a")[0]
    query.run(0, "a")
    late, waits = query.stage(0, "a")[0], other.stage(0, "b")[0]
    assert staged_names(directory) == sorted([late.unique, waits.unique])
    query.run(1, "c")
    assert values(directory) == ["a", "c"]
    assert zombie.unique not in staged_names(directory) and staged_names(directory) == [waits.unique]


def test_a_task_that_fails_leaves_no_file(directory: Place) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield rows(["a" * 300_000, "b" * 300_000])
        raise RuntimeError("the task has failed")

    sink = Sink(parse_write({"topic": "out", **directory[0]}), SCHEMA, replaces=False)
    with pytest.raises(RuntimeError, match="the task has failed"):
        sink.stage(broken(), QUERY, 0)
    assert staged_names(directory) == []


def test_what_nobody_committed_is_removed_after_a_week(directory: Place) -> None:
    query, dead = Query(directory[0]), Query(directory[0], "dead")
    left = dead.stage(0, "x")[0]
    file = Path(directory[0]["path"]) / STAGED / left.unique
    query.run(0, "a")
    assert staged_names(directory) == [left.unique]
    os.utime(file, (1, file.stat().st_mtime - LEFT_MS / 1000 - 60))
    query.run(1, "b")
    assert staged_names(directory) == []


def test_staged_files_are_none_of_a_log_for_verify_and_for_an_open(directory: Place) -> None:
    Query(directory[0]).stage(0, "ab")
    assert not [event for event in verify(DiskFiles(), directory[0]["path"]) if isinstance(event, Problem)]
    with pylog.open(directory[0]["path"]) as log:
        assert log.topics() == ["out"]


def test_a_topic_made_again_since_the_commit_keeps_its_records(directory: Place) -> None:
    query = Query(directory[0], complete=True)
    query.run(0, "abc")
    query.run(1, "d")
    with pylog.open(directory[0]["path"]) as log:
        log.delete_topic("out")
        log.create_topic("out", partitions=2)
        with log.producer() as producer:
            producer.send("out", b"new")
    query.run(1, "d")
    assert values(directory) == ["new"]
    with pylog.open(directory[0]["path"]) as log:
        log.delete_topic("out")
        log.create_topic("compacted")
    query.options = parse_write({"topic": "compacted", **directory[0]})
    query.run(1, "d")


def test_a_long_ledger_is_compacted_by_the_commit(directory: Place) -> None:
    query = Query(directory[0])
    with pylog.open(directory[0]["path"]) as log:
        log.create_topic(LEDGER_TOPIC, LEDGER_PARTITIONS, LEDGER_CONFIG)
        with log.producer() as producer:
            for number in range(10_500):
                text = b'{"version":2,"batch":%d,"records":1,"checksum":0,"more":"%s"}' % (number, b"x" * 300)
                producer.send(LEDGER_TOPIC, text, QUERY.encode())
    with pytest.raises(errors.OutOfOrderSequence):
        query.run(10_499, "a")
    query.run(10_500, "b")
    assert values(directory) == ["b"]
    with directory[1]() as log:
        assert sum(1 for partition in log.topic(LEDGER_TOPIC) for _ in partition.records()) < 5_000


def test_offsets_begin_behind_what_was_replaced(directory: Place) -> None:
    query = Query(directory[0], complete=True)
    query.run(0, "abcdef")
    query.run(1, "g")
    with directory[1]() as log:
        starts = log.admin.list_offsets({TopicPartition("out", number): "earliest" for number in range(2)})
    assert all(listed.offset > 1 for listed in starts.values())
