"""Tables into topics, and back: what a row becomes, and where it goes; what is refused, and how much is in then."""

import itertools
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pandas
import polars
import pyarrow as pa
import pytest
from pyarrow import parquet

import pylog
from pylog import errors, serde
from pylog.handles.table_sinks import ProducerSink, append_rows
from pylog.protocol.partitioner import partition_for_key
from pylog.runtime.clock import SystemClock
from pylog.tables.appended import RecordSource, TopicRules
from pylog.tables.appending import append, column_encoder, record_columns
from pylog.tables.appending.column_encoder import ColumnEncoder
from pylog.tables.appending.sources import parquet_batches

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
RULES = TopicRules(3, 1 << 20, 1 << 30, needs_key=False)
Topic = Any
"""A `TopicView` or a `ConnectedTopic`."""


@pytest.fixture
def log() -> Iterator[pylog.Log]:
    with pylog.open(":memory:") as log:
        log.create_topic("t", partitions=3)
        yield log


def pairs(log: pylog.Log) -> list[tuple[bytes | None, bytes | None]]:
    return sorted(((one.key, one.value) for one in log.topic("t").records()), key=str)


TABLE = pa.table({"key": ["a", "b", None, "a"], "value": [b"1", None, b"3", b"4"]})


def test_rows_go_where_a_producer_sends_them_in_their_order(log: pylog.Log, topic: Topic) -> None:
    appended = topic.append_table(TABLE)
    assert appended.records == 4
    assert pairs(log) == sorted([(b"a", b"1"), (b"a", b"4"), (b"b", None), (None, b"3")], key=str)
    records = list(log.topic("t").records())
    assert [one.value for one in records if one.key == b"a"] == [b"1", b"4"]
    assert {one.partition for one in records if one.key == b"a"} == {partition_for_key(b"a", 3)}
    ends = {part.partition: range(part.high_watermark) for part in log.topic("t") if part.high_watermark}
    assert appended.offsets == ends
    assert topic.append_table(TABLE).offsets[partition_for_key(b"a", 3)].start >= 2
    assert topic.append_table(TABLE.slice(0, 0)) == (0, {})
    batches = [*TABLE.slice(0, 0).to_batches(), pa.RecordBatch.from_pylist([], TABLE.schema)]
    assert topic.append_table(pa.RecordBatchReader.from_batches(TABLE.schema, batches)) == (0, {})


def as_file(end: str, write: Callable[[Path], None], folder: Path) -> str:
    path = folder / f"table{end}"
    write(path)
    return str(path)


TABLES: dict[str, Callable[[Path], Any]] = {
    "Table": lambda folder: TABLE,
    "RecordBatch": lambda folder: TABLE.to_batches()[0],
    "RecordBatchReader": lambda folder: TABLE.to_reader(max_chunksize=1),
    "stream": lambda folder: Capsules(TABLE),
    "array": lambda folder: BatchCapsules(TABLE.to_batches()[0]),
    "pandas": lambda folder: TABLE.to_pandas(),
    "pandas with an index": lambda folder: TABLE.to_pandas().set_index("key"),
    "Polars": lambda folder: polars.from_arrow(TABLE),
    "Parquet": lambda folder: as_file(".parquet", lambda path: parquet.write_table(TABLE, path), folder),
    "a path": lambda folder: Path(as_file(".PARQUET", lambda path: parquet.write_table(TABLE, path), folder)),
}


class Capsules:
    def __init__(self, table: pa.Table) -> None:
        self.__arrow_c_stream__ = table.__arrow_c_stream__


class BatchCapsules:
    def __init__(self, batch: pa.RecordBatch) -> None:
        self.__arrow_c_array__ = batch.__arrow_c_array__


@pytest.mark.parametrize("kind", TABLES)
def test_every_kind_of_table_gives_the_same_records(log: pylog.Log, tmp_path: Path, kind: str) -> None:
    assert log.topic("t").append_table(TABLES[kind](tmp_path)).records == 4
    assert pairs(log) == sorted([(b"a", b"1"), (b"a", b"4"), (b"b", None), (None, b"3")], key=str)


def test_a_csv_keeps_its_texts_and_an_empty_key_is_none(log: pylog.Log, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("id,value,at\n007,1.50,2026-01-01T12:00:00\n,,\n")
    log.topic("t").append_table(path, key="id", timestamp="at")
    assert pairs(log) == sorted([(b"007", b"1.50"), (None, b"")], key=str)
    times = {one.value: one.timestamp for one in log.topic("t").records()}
    assert times[b"1.50"] == NOON.timestamp() * 1000 < times[b""]
    assert log.topic("t").append_table(path, key=("id", serde.string()), value=serde.json()).records == 2


def test_a_topic_is_a_table_for_another_one(log: pylog.Log) -> None:
    """All columns that a topic gives are taken, and those that say where a record came from are not looked at."""
    with log.producer() as producer:
        for number in range(20):
            producer.send("t", b"%d" % number, b"k" if number % 3 else None, partition=number % 2, timestamp_ms=number,
                          headers=[("n", b"1"), ("n", None)] if number % 5 else ())  # fmt: skip
    copy = log.create_topic("copy", partitions=3)
    copy.append_table(log.topic("t"))
    assert copy.to_arrow().drop_columns(["topic"]).equals(log.topic("t").to_arrow().drop_columns(["topic"]))
    copy.append_table(log.topic("t").to_pandas(), partition=2)
    values = [(one.value, one.headers) for one in copy[2].records()]
    assert values == [(one.value, one.headers) for one in log.topic("t").records()]
    copy.append_table(pa.table({"value": ["x"], "headers": pa.nulls(1)}), partition=0)
    assert list(copy[0].records())[-1].headers == ()


def test_the_elements_of_a_null_list_are_no_headers(log: pylog.Log) -> None:
    """Arrow lets a list be null over elements that are there, as a kernel leaves them that masks rows."""
    some = pa.array([[("hidden", b"1")], [("h", b"2")]], HEADERS)
    headers = pa.ListArray.from_arrays(some.offsets, some.values, mask=pa.array([True, False]))
    log.topic("t").append_table(pa.table({"value": ["a", "b"], "headers": headers}), partition=0)
    assert [one.headers for one in log.topic("t")[0].records()] == [(), (pylog.Header("h", b"2"),)]


def test_times_of_every_kind_are_milliseconds(log: pylog.Log) -> None:
    wanted = int(NOON.timestamp() * 1000)
    naive = NOON.replace(tzinfo=None)
    columns: list[tuple[pa.Array[Any], int]] = [
        (pa.array([NOON], pa.timestamp("us", "Europe/Berlin")), wanted), (pa.array([naive], pa.timestamp("s")), wanted),
        (pa.array([naive], pa.timestamp("ns")), wanted), (pa.array([wanted], pa.int64()), wanted),
        (pa.array([date(2026, 1, 1)], pa.date32()), wanted - 12 * 3_600_000),
    ]  # fmt: skip
    for column, time in columns:
        log.topic("t").append_table(pa.table({"value": ["x"], "timestamp": column}), partition=0)
        assert list(log.topic("t")[0].records())[-1].timestamp == time
    log.topic("t").append_table(pa.table({"value": ["x"], "timestamp": pa.nulls(1)}), partition=0)
    assert list(log.topic("t")[0].records())[-1].timestamp > wanted


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["1", "2"]), pa.array([1, 2], pa.int8()), pa.array([1, 2], pa.uint64()),
        pa.array(["1", "2"], pa.large_string()),
        pa.array(["1", "2"]).dictionary_encode(), pa.array([b"1", b"2"], pa.binary(1)),
        pa.ExtensionArray.from_storage(pa.opaque(pa.string(), "digit", "here"), pa.array(["1", "2"])),
    ],
    ids=lambda column: str(column.type),
)  # fmt: skip
def test_text_bytes_and_whole_numbers_are_keys_and_values(log: pylog.Log, column: "pa.Array[Any]") -> None:
    log.topic("t").append_table(pa.table({"id": column, "value": column}), key="id")
    assert pairs(log) == [(b"1", b"1"), (b"2", b"2")]


def test_a_partition_is_a_column_or_a_number(log: pylog.Log, topic: Topic) -> None:
    table = pa.table({"value": ["a", "b", "c", "d"], "key": ["k"] * 4, "to": pa.array([2, None, 0, 0], pa.int8())})
    topic.append_table(table, partition="to")
    assert {one.value: one.partition for one in log.topic("t").records()} == {
        b"a": 2, b"b": partition_for_key(b"k", 3), b"c": 0, b"d": 0,
    }  # fmt: skip
    before = log.topic("t")[1].high_watermark
    assert topic.append_table(table, partition=1).offsets == {1: range(before, before + 4)}


def test_batches_are_compressed_and_full(log: pylog.Log, topic: Topic) -> None:
    table = pa.table({"value": [b"%0500d" % number for number in range(5000)]})
    topic.append_table(table, compression_type="zstd", partition=0)
    assert log.topic("t")[0].size < 500_000
    assert [one.value for one in log.topic("t")[0].records()] == table["value"].to_pylist()
    with pytest.raises(errors.InvalidConfig, match=r"zip.* is not one of"):
        topic.append_table(table, compression_type="zip")


def test_a_table_is_encoded_in_pieces(log: pylog.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(append, "PIECE_BYTES", 100)
    monkeypatch.setattr(append, "ROOM", 300)
    table = pa.table({"value": [b"%040d" % number for number in range(50)], "key": [str(n % 5) for n in range(50)]})
    log.topic("t").append_table(table)
    assert sorted(one.value or b"" for one in log.topic("t").records()) == table["value"].to_pylist()


def test_the_fullest_batches_make_room() -> None:
    closed: list[int] = []
    encoder = ColumnEncoder(3, lambda number, batch: closed.append(number), limit=1 << 20)
    for number, size in enumerate((10, 1000, 100)):
        encoder.add(record_columns.RecordColumns(pa.array([b"x" * size]), partitions=number, stamps=1))
    held = encoder.held
    encoder.shrink(held)
    assert closed == []
    encoder.shrink(held - 1)
    assert closed == [1] and encoder.held < held - 1000
    encoder.shrink(0)
    assert closed == [1, 2, 0] and encoder.held == 0


def test_rows_without_a_key_go_to_one_partition_until_a_batch_is_full(log: pylog.Log, monkeypatch: Any) -> None:
    turns = itertools.cycle([1, 2, 0])
    monkeypatch.setattr(column_encoder, "randrange", lambda count: next(turns))
    monkeypatch.setattr(append, "BATCH_BYTES", 1000)
    log.topic("t").append_table(pa.table({"value": [b"%0100d" % number for number in range(20)]}))
    found = [[int(one.value or b"") for one in part.records()] for part in log.topic("t")]
    assert found[1][:8] == list(range(8)) and found[2][:8] == list(range(8, 16))
    assert sorted(itertools.chain(*found)) == list(range(20))


def test_a_row_without_a_key_joins_the_open_batch_of_its_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = itertools.cycle([0, 1])
    monkeypatch.setattr(column_encoder, "randrange", lambda count: next(turns))
    found: list[tuple[int, int]] = []
    encoder = ColumnEncoder(2, lambda number, batch: found.append((number, batch.count)), limit=1000)
    encoder.add(record_columns.RecordColumns(pa.array([b"x"]), partitions=1, stamps=1))
    encoder.add(record_columns.RecordColumns(pa.array([b"y" * 500] * 2), stamps=1))
    encoder.finish()
    assert found == [(0, 1), (1, 2)]


# --- serdes ----------------------------------------------------------------------------------------------------------


def test_a_serde_makes_values_of_rows_and_of_cells(log: pylog.Log) -> None:
    table = pa.table({"id": [1, 2], "who": [{"name": "ada"}, None], "at": [NOON, None]})
    topic = log.topic("t")
    topic.append_table(table, key=("id", serde.long()), value=serde.json(), timestamp="at")
    topic.append_table(table, key="id", value=serde.json(), fields=["who"])
    topic.append_table(table, key="id", value=("who", serde.json()))
    long = serde.long().serialize
    assert pairs(log) == sorted([
        (long(1), b'{"id":1,"who":{"name":"ada"},"at":"2026-01-01T12:00:00.000000Z"}'),
        (long(2), b'{"id":2,"who":null,"at":null}'), (b"1", b'{"who":{"name":"ada"}}'), (b"2", b'{"who":null}'),
        (b"1", b'{"name":"ada"}'), (b"2", None),
    ], key=str)  # fmt: skip


def test_the_row_that_a_serde_refuses_is_named_and_those_before_are_in(log: pylog.Log, topic: Topic) -> None:
    table = pa.table({"id": ["a", "b", "c"], "number": [1, 2, 1 << 40]})
    with pytest.raises(ValueError, match=r"row 2, column 'number': .* 32 bits; the 2 rows before it are appended"):
        topic.append_table(table, key="id", value=("number", serde.integer()))
    integer = serde.integer().serialize
    assert pairs(log) == [(b"a", integer(1)), (b"b", integer(2))]


def test_a_registry_that_refuses_is_no_row_that_fails(log: pylog.Log) -> None:
    registry = serde.LogRegistry(log)
    nobody = serde.avro(registry, "nobody-value")
    with pytest.raises(errors.SchemaNotFound):
        log.topic("t").append_table(TABLE, value=nobody, fields=["value"])
    assert pairs(log) == []


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (
            {"key": "idd"},
            ValueError,
            "key: the column 'idd' is not in the table, which has the columns id, value, at, f",
        ),
        ({"key": "f"}, TypeError, r"key: the column 'f' is double, .* give key=\('f', serde\)"),
        ({"value": "at"}, TypeError, r"value: the column 'at' is timestamp\[us, tz=UTC\], not text"),
        ({"timestamp": "value"}, TypeError, "timestamp: the column 'value' is string, not a timestamp"),
        ({"headers": "id"}, TypeError, "headers: the column 'id' is int64, not a list<struct<key: string"),
        ({"headers": "pairs"}, TypeError, "headers: the column 'pairs' is list<.*int64>>, not a list<struct"),
        ({"partition": "value"}, TypeError, "partition: the column 'value' is string, not a whole number"),
        ({"partition": 3}, ValueError, "there is no partition 3: the topic has 3"),
        ({"fields": ["id"]}, ValueError, "fields are for a value that a serde makes"),
        ({"value": serde.json(), "fields": "id"}, TypeError, r"\['id'\], not one name"),
        ({"value": serde.json(), "fields": ["x"]}, ValueError, "fields: the column 'x' is not in the table"),
        ({"value": 7}, TypeError, "value is int: give the name of a column, a serde, or"),
        ({"key": ("id", 7)}, TypeError, "key is int: give the name"),
        ({"key": ("tags", serde.string())}, TypeError, r"the column 'tags' is list<item: int64>, which its serde"),
        ({"value": ("tags", serde.long())}, TypeError, r"the column 'tags' is list<item: int64>, which its serde"),
    ],
)
def test_a_wrong_column_is_refused_before_anything_is_in(
    log: pylog.Log, arguments: dict[str, Any], kind: type[Exception], message: str
) -> None:
    pairs_of_ints = [[{"key": "a", "value": 1}]]
    table = pa.table({"id": [1], "value": ["x"], "at": [NOON], "f": [0.5], "tags": [[1]], "pairs": pairs_of_ints})
    with pytest.raises(kind, match=message):
        log.topic("t").append_table(table, **arguments)
    assert pairs(log) == []


def test_what_is_not_a_table_is_refused(log: pylog.Log, tmp_path: Path) -> None:
    topic: Any = log.topic("t")
    with pytest.raises(TypeError, match="a table is list: give a pyarrow Table"):
        topic.append_table([{"value": 1}])
    with pytest.raises(ValueError, match=r"\.xlsx' is not a Parquet file"):
        topic.append_table("sheet.xlsx")
    with pytest.raises(FileNotFoundError):
        topic.append_table(tmp_path / "missing.parquet")
    doubled = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["value", "value"])
    with pytest.raises(ValueError, match="the column 'value' is twice in the table"):
        topic.append_table(doubled)


@pytest.mark.parametrize(
    ("columns", "kind", "message"),
    [
        ({"partition": [0, 0, 3]}, ValueError, "column 'partition': the topic has partitions 0 to 2"),
        ({"partition": [0, 0, -1]}, ValueError, "column 'partition': the topic has"),
        ({"partition": pa.array([0, 0, 1 << 63], pa.uint64())}, ValueError, "column 'partition': the topic has"),
        ({"timestamp": pa.array([1, 2, 1 << 63], pa.uint64())}, ValueError, "column 'timestamp': the time is not in"),
        ({"timestamp": [1, 2, -3]}, ValueError, r"column 'timestamp': the time is not in \[0, \d+\] ms since 1970"),
        ({"timestamp": [1, 2, 1 << 50]}, ValueError, r"see the topic's message\.timestamp\.before\.max\.ms and"),
        ({"headers": pa.array([[], None, [None]], HEADERS)}, ValueError, "column 'headers': a header has no key"),
        ({"headers": pa.array([[], None, [(None, b"x")]], HEADERS)}, ValueError, "a header has no key"),
        ({"value": ["a", "b", "x" * 1_100_000]}, errors.RecordTooLarge, r"takes up to 1100\d+ bytes, over the topic's"),
        ({"key": ["a", "b", "x" * 1_100_000]}, errors.RecordTooLarge, "column 'value'"),
        ({"headers": pa.array([[], [("h", b"x")], [("h", b"x" * 1_100_000)]], HEADERS)}, errors.RecordTooLarge, "over"),
    ],
)
def test_the_row_that_makes_no_record_is_named_and_those_before_are_in(
    log: pylog.Log, columns: dict[str, Any], kind: type[Exception], message: str
) -> None:
    table = pa.table({"value": ["a", "b", "c"], **columns})
    with pytest.raises(kind, match=f"row 2, .*{message}.*; the 2 rows before it are appended") as caught:
        log.topic("t").append_table(table)
    assert "of the table, 2 rows are appended: partition" in caught.value.__notes__[0]
    assert [value for _, value in pairs(log)] == [b"a", b"b"]
    with pytest.raises(kind, match=f"row 0, .*{message}.*; nothing is appended"):
        log.topic("t").append_table(table.slice(2))


def test_a_compacted_topic_takes_no_row_without_a_key(log: pylog.Log) -> None:
    compacted = log.create_topic("c", config={"cleanup.policy": "compact"})
    with pytest.raises(errors.InvalidRecord, match=r"row 2, column 'key': the key is null, .*; the 2 rows before"):
        compacted.append_table(TABLE)
    with pytest.raises(errors.InvalidRecord, match=r"row 0, column 'key'"):
        compacted.append_table(pa.table({"value": ["a"]}))
    assert compacted[0].high_watermark == 2
    assert compacted.append_table(TABLE.slice(0, 2)).records == 2


def test_a_topic_bounds_the_times_of_rows(log: pylog.Log, topic: Topic) -> None:
    old = pa.table({"value": ["x"], "timestamp": [1]})
    assert topic.append_table(old).records == 1
    log.alter_config("t", {"message.timestamp.before.max.ms": 1000})
    bounded = topic if not isinstance(topic, pylog.TopicView) else log.topic("t")
    with pytest.raises(ValueError, match=r"row 0, column 'timestamp': the time is not in \[\d+, \d+\]"):
        bounded.append_table(old)
    log.alter_config("t", {"message.timestamp.type": "LogAppendTime"})
    bounded = topic if not isinstance(topic, pylog.TopicView) else log.topic("t")
    assert bounded.append_table(old).records == 1


def test_what_cannot_be_read_any_further_leaves_the_rows_before_it(log: pylog.Log, topic: Topic) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield from TABLE.slice(0, 1).to_batches()
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="gone") as caught:
        topic.append_table(pa.RecordBatchReader.from_batches(TABLE.schema, batches()))
    place = f"partition {partition_for_key(b'a', 3)} from offset 0 to 0"
    assert caught.value.__notes__ == [f"of the table, 1 row is appended: {place}"]
    assert pairs(log) == [(b"a", b"1")]


def test_an_append_that_fails_says_which_rows_are_in(log: pylog.Log) -> None:
    """The topic takes less than its view has it."""
    table = pa.table({"value": ["a", "x" * 5000], "partition": [0, 1]})
    topic = log.topic("t")
    log.alter_config("t", {"max.message.bytes": 1000})
    with pytest.raises(errors.RecordTooLarge) as caught:
        topic.append_table(table)
    assert caught.value.__notes__ == ["of the table, 1 row is appended: partition 0 from offset 0 to 0"]
    with log.producer() as producer, pytest.raises(errors.RecordTooLarge) as caught:
        append_rows(table, RecordSource(), RULES, ProducerSink(producer, "t"), "none", SystemClock())
    assert caught.value.__notes__ == ["of the table, 1 row is appended: partition 0 from offset 1 to 1"]
    assert pairs(log) == [(None, b"a")] * 2


def test_batches_behind_one_that_failed_count_too(log: pylog.Log) -> None:
    log.alter_config("t", {"max.message.bytes": 1000})
    with log.producer() as producer:
        sink = ProducerSink(producer, "t")
        sink._sent.extend((0, 1, producer.send("t", b"x" * size, partition=0)) for size in (5000, 1, 5000, 1))
        assert sink.appended == (2, {0: range(2)})


def test_a_log_that_is_read_takes_no_table(tmp_path: Path) -> None:
    with pylog.open(tmp_path / "log") as log:
        log.create_topic("t")
        with pylog.open(tmp_path / "log", mode="read") as reader, pytest.raises(errors.ReadOnly) as caught:
            reader.topic("t").append_table(pandas.DataFrame({"value": ["x"]}))
    assert caught.value.__notes__ == ["of the table, no row is appended"]


def test_large_rows_of_a_file_are_read_a_few_at_a_time(tmp_path: Path) -> None:
    """65,536 rows of a MiB each would be 64 GiB."""
    path = tmp_path / "large.parquet"
    parquet.write_table(pa.table({"value": [bytes(3 << 20)] * 30}), path, use_dictionary=False, compression="zstd")
    with parquet.ParquetFile(path) as file:
        assert [batch.num_rows for batch in parquet_batches(file)] == [21, 9]
        assert [batch.num_rows for batch in parquet_batches(file, ["value"], 20)] == [20, 10]
