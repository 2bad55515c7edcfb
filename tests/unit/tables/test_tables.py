"""Topics, partitions and selections as tables: Arrow, pandas, Polars, DuckDB and Parquet read the same records."""

import builtins
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow
import pyarrow.parquet
import pytest

import pylog
from pylog.protocol.batch import encode
from pylog.protocol.compression import Codec
from pylog.tables import COLUMNS
from pylog.tables.record_batches import record_batches
from pylog.tables.record_file import write_table
from pylog.tables.schema import schema_of

NOON = 1_767_268_800_000
HOUR = 3_600_000


@pytest.fixture
def log() -> Iterator[pylog.Log]:
    """Three partitions of ten records, one an hour from noon on, and a topic that is empty."""
    with pylog.open(":memory:") as log:
        log.create_topic("t", partitions=3)
        log.create_topic("empty", partitions=2)
        # A batch for each partition, however slow the machine is.
        with log.producer(linger_ms=60_000) as producer:
            for number in range(30):
                producer.send(
                    "t", b"value %d" % number, b"key %d" % (number % 7), partition=number % 3,
                    timestamp_ms=NOON + number // 3 * HOUR, headers=[("n", b"%d" % number)] if number % 2 else (),
                )  # fmt: skip
        yield log


@pytest.fixture
def topic(log: pylog.Log) -> pylog.TopicView:
    return log.topic("t")


def offsets(table: pyarrow.Table) -> list[tuple[int, int]]:
    return list(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))


def test_a_topic_is_a_table_of_all_its_records_partition_by_partition(topic: pylog.TopicView) -> None:
    table = topic.to_arrow()
    assert tuple(table.column_names) == COLUMNS
    assert offsets(table) == [(part, offset) for part in range(3) for offset in range(10)]
    assert table["value"].to_pylist() == [record.value for record in topic.records()]
    assert table["timestamp"][0].as_py() == datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert table["headers"].to_pylist()[:2] == [None, [{"key": "n", "value": b"3"}]]
    assert set(table["topic"].to_pylist()) == {"t"}


def test_a_partition_and_a_selection_of_offsets_are_tables_too(topic: pylog.TopicView) -> None:
    assert offsets(topic[1].to_arrow()) == [(1, offset) for offset in range(10)]
    chosen = topic[1].select(["offset", "partition"], offset=3, end=5)
    assert chosen.to_arrow().to_pydict() == {"offset": [3, 4], "partition": [1, 1]}
    assert [record.offset for record in chosen.records()] == [3, 4]
    assert repr(chosen) == "<Selection of t-1: offset, partition>"
    assert topic[1].select(["offset"], offset=10).to_arrow().num_rows == 0


def test_a_topic_is_read_of_some_partitions_and_a_range_of_times(topic: pylog.TopicView) -> None:
    six = datetime(2026, 1, 1, 18, tzinfo=UTC)
    table = topic.select(["partition", "offset"], partitions=[2, 0], since=six, until=NOON + 8 * HOUR).to_arrow()
    assert offsets(table) == [(2, 6), (2, 7), (0, 6), (0, 7)]
    assert topic.select(since=NOON + 10 * HOUR).to_arrow().num_rows == 0
    assert topic.select(until=NOON).to_arrow().num_rows == 0
    assert topic.select(since=0, until=NOON + 100 * HOUR).to_arrow().num_rows == 30
    assert offsets(topic[0].select(offset=7, since=NOON + HOUR).to_arrow()) == [(0, 7), (0, 8), (0, 9)]
    assert offsets(topic[0].select(offset=7, since=NOON + 9 * HOUR).to_arrow()) == [(0, 9)]
    assert topic[0].select(end=2, until=NOON + 8 * HOUR).to_arrow().num_rows == 2
    assert topic[0].select(end=8, until=NOON + 2 * HOUR).to_arrow().num_rows == 2


@pytest.mark.parametrize("name", ["to_arrow", "to_pandas", "to_polars"])
def test_what_is_empty_has_the_schema_of_what_is_not(log: pylog.Log, topic: pylog.TopicView, name: str) -> None:
    for empty in (log.topic("empty"), log.topic("empty")[1], topic.select(partitions=[])):
        found, full = getattr(empty, name)(), getattr(topic, name)()
        assert len(found) == 0 and len(full) == 30
        assert list(found.columns if name != "to_arrow" else found.schema) == list(
            full.columns if name != "to_arrow" else full.schema
        )
    assert pyarrow.Table.from_batches(log.topic("empty")[0].columns(columns=["offset"])).num_rows == 0
    assert len(list(log.topic("empty").columns())) == 1


def test_pandas_and_polars_have_the_same_rows(topic: pylog.TopicView) -> None:
    frame, other = topic.select(["offset", "value", "timestamp"]).to_pandas(), topic.to_polars()
    assert list(frame["value"]) == other["value"].to_list() == [record.value for record in topic.records()]
    assert str(frame["timestamp"].dtype) == "datetime64[ms, UTC]"
    assert other["timestamp"].dtype == polars.Datetime("ms", "UTC")


def test_tools_read_a_topic_without_glue(topic: pylog.TopicView) -> None:
    late = topic.select(["key", "offset"], since=NOON + 8 * HOUR)
    assert pyarrow.table(late).num_rows == polars.DataFrame(late).height == 6
    counted = duckdb.sql('select partition, count(*), max("offset") from topic group by 1 order by 1').fetchall()
    assert counted == [(0, 10, 9), (1, 10, 9), (2, 10, 9)]
    assert duckdb.sql("select count(distinct key) from late").fetchall() == [(6,)]
    assert pyarrow.schema(topic) == topic.to_arrow().schema


def test_a_stream_is_read_as_it_is_asked_for(topic: pylog.TopicView) -> None:
    reader = pyarrow.RecordBatchReader.from_stream(topic)
    assert reader.read_next_batch().num_rows == 10
    assert [batch.num_rows for batch in reader] == [10, 10]
    assert [batch.num_rows for batch in topic.columns(max_rows=4)] == [4, 4, 2] * 3


def test_read_committed_leaves_out_what_was_aborted(log: pylog.Log) -> None:
    with log.producer(transactional_id="x") as producer:
        producer.begin()
        producer.send("t", b"gone", partition=0).result()
        producer.abort()
    assert log.topic("t").to_arrow().num_rows == 31
    topic = log.topic("t")
    assert topic.select(isolation_level="read_committed").to_arrow().num_rows == 30
    assert [len(list(topic.records(isolation_level=one))) for one in ("read_committed", "read_uncommitted")] == [30, 31]
    assert sum(batch.num_rows for batch in topic.columns(isolation_level="read_committed")) == 30


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"columns": ["keys"]}, ValueError, "there is no column 'keys'; the columns are key, value"),
        ({"columns": ["key", "key"]}, ValueError, "named twice"),
        ({"columns": "key"}, TypeError, "list of names"),
        ({"since": datetime(2026, 1, 1)}, ValueError, "without a time zone"),  # noqa: DTZ001
        ({"until": -1}, ValueError, "from 1970 on"),
        ({"since": 1.5}, TypeError, "float, not a datetime"),
        ({"isolation_level": "all"}, ValueError, "isolation_level is 'all'"),
        ({"partitions": [3]}, IndexError, "no partition 3"),
    ],
)
def test_a_selection_that_cannot_be_is_refused_when_it_is_made(
    topic: pylog.TopicView, given: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        topic.select(**given)


def test_an_extra_that_is_not_installed_is_named(topic: pylog.TopicView, monkeypatch: pytest.MonkeyPatch) -> None:
    really, missing = builtins.__import__, "pyarrow"

    def find(name: str, *args: Any) -> Any:
        if name == missing:
            raise ModuleNotFoundError(f"No module named {name!r}")
        return really(name, *args)

    monkeypatch.setattr(builtins, "__import__", find)
    for missing, call in (
        ("pyarrow", topic.to_arrow), ("pyarrow", topic.__arrow_c_stream__), ("pandas", topic.to_pandas),
        ("polars", topic.to_polars),
    ):  # fmt: skip
        with pytest.raises(ImportError, match=f"pip install {missing}"):
            call()


def test_a_parquet_file_has_the_records_or_what_it_had_before(
    log: pylog.Log, topic: pylog.TopicView, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.parquet"
    assert topic.to_parquet(path) == 30
    assert pyarrow.parquet.read_table(path) == topic.to_arrow()
    assert capsys.readouterr().err == ""
    log.delete_records({pylog.TopicPartition("t", 0): 5})
    with pytest.raises(pylog.errors.OffsetOutOfRange):
        topic[0].select(offset=0).to_parquet(path)
    assert [one.name for one in tmp_path.iterdir()] == ["t.parquet"]
    assert pyarrow.parquet.read_table(path).num_rows == 30
    assert topic.select(["offset"], until=0).to_parquet(path, compression="none", progress=True) == 0
    assert pyarrow.parquet.read_table(path).schema.names == ["offset"]
    assert "t.parquet" in capsys.readouterr().err


def test_a_large_export_has_several_row_groups(log: pylog.Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pylog.tables.parquet.GROUP_BYTES", 3 << 20)
    with log.producer() as producer:
        for _ in range(100):
            producer.send("empty", bytes(100_000), partition=0)
    assert log.topic("empty").to_parquet(tmp_path / "large", progress=False) == 100
    found = pyarrow.parquet.ParquetFile(tmp_path / "large")
    assert found.metadata.num_row_groups in (3, 4) and found.metadata.num_rows == 100


def test_records_are_decoded_in_groups_of_so_many_bytes() -> None:
    """What is decompressed at once is bounded: a binary column of Arrow has less than 2 GiB, and memory has an end."""
    batches = [encode([pylog.Record(bytes(1000), timestamp=NOON)] * 2, now_ms=NOON, codec=Codec.ZSTD) for _ in range(5)]
    for number, batch in enumerate(batches):
        batch.stamp(2 * number, 0)

    def rows_of(group_bytes: int) -> list[int]:
        found = list(record_batches([(0, 10, batches)], "t", 0, ["offset"], 100, group_bytes))
        assert [offset for one in found for offset in one["offset"].to_pylist()] == list(range(10))
        return [one.num_rows for one in found]

    assert rows_of(1) == [2] * 5, "a batch of the log is decoded whole"
    assert rows_of(5000) == [4, 4, 2]
    assert rows_of(1 << 20) == [10]


def test_a_table_of_what_was_consumed_is_written_in_groups(topic: pylog.TopicView, tmp_path: Path) -> None:
    records = list(topic.records())
    path = str(tmp_path / "t.parquet")
    assert write_table(schema_of(COLUMNS), iter([records, []]), path, group_bytes=40) == 30
    table = pyarrow.parquet.read_table(path)
    assert table["value"].to_pylist() == [record.value for record in records]
