"""`pylog produce --input x.parquet`: its rows go in column by column, as rows of JSON lines do one by one."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog.cli.lines import raw
from pylog.cli.rows import RowForm
from pylog.cli.sending import Brake, Count, Input
from pylog.errors import DiskFull
from pylog.server.server import Server
from support.command_line import Run, failed, run

pyarrow = pytest.importorskip("pyarrow")

from pyarrow import parquet  # noqa: E402

from pylog.cli import parquet_input  # noqa: E402
from pylog.tables.appended import TopicRules  # noqa: E402

__all__ = ["run"]

HEADERS = pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))
ROWS = [
    {"key": f"k{number % 5}" if number % 3 else None, "value": f"value {number}" if number % 4 else "",
     "timestamp": 1000 + number, "headers": [("a", "1")] if number % 2 else []}
    for number in range(40)
]  # fmt: skip


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    """The rows as a Parquet file."""
    columns: dict[str, Any] = {name: [row[name] for row in rows] for name in rows[0]}
    if "headers" in columns:
        pairs = [[{"key": name, "value": value.encode()} for name, value in cell] for cell in columns["headers"]]
        columns["headers"] = pyarrow.array(pairs, HEADERS)
    parquet.write_table(pyarrow.table(columns), path)
    return str(path)


def records(run: Run, topic: str, *where: str) -> list[dict[str, Any]]:
    """All records, without what differs from run to run."""
    found = [json.loads(line) for line in run("consume", topic, "-b", "--json", *where).lines]
    return [{name: one[name] for name in ("partition", "timestamp", "key", "value", "headers")} for one in found]


@pytest.mark.parametrize(
    "words",
    [
        "-p 1", "-p 1 --key fixed", "-p 1 -H host=web1,env=prod", "-p 1 -Z --codec zstd", "-p 1 -X batch.size=50",
        "-p 1 -X compression.lz4.level=2 --codec lz4", "--key fixed -X partitioner=consistent_random",
        "--key fixed -X partitioner=murmur3", "-X partitioner=round_robin",
        "-p 1 --transactional-id import --transaction-records 7",
    ],
)  # fmt: skip
def test_rows_by_columns_are_the_records_of_rows_one_by_one(run: Run, tmp_path: Path, words: str) -> None:
    lines = tmp_path / "a.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    for topic, path in (("one", str(lines)), ("two", write(tmp_path / "a.parquet", ROWS))):
        run("topic", "create", topic, "-p", "3")
        done = run("produce", topic, "--input", path, *words.split())
        assert done.code == 0 and "appended 40 records" in done.err, done
        # The size of keys, values and headers is the same, too.
        assert done.err.split(" to ")[0] == run("produce", topic, "--input", path, *words.split()).err.split(" to ")[0]
    assert len(records(run, "one")) == 80
    assert records(run, "two") == records(run, "one")


def test_a_partitioner_without_keys_takes_one_partition_at_a_time(run: Run, tmp_path: Path) -> None:
    run("topic", "create", "t", "-p", "3")
    path = write(tmp_path / "a.parquet", [{"value": "x", "key": "k"}] * 5)
    assert run("produce", "t", "-q", "--input", path, "-X", "partitioner=sticky").code == 0
    assert len({one["partition"] for one in records(run, "t")}) == 1


def test_options_stand_in_for_columns_that_a_file_lacks(run: Run, tmp_path: Path) -> None:
    run("topic", "create", "t", "-p", "3")
    path = write(tmp_path / "a.parquet", [{"value": 7, "partition": 2}, {"value": 8, "partition": None}])
    words = "--key k -H a=1 -X partitioner=murmur3"
    assert run("produce", "t", "-q", "--input", path, *words.split()).code == 0
    found = records(run, "t")
    assert {(one["key"], tuple(map(tuple, one["headers"]))) for one in found} == {("k", (("a", "1"),))}
    assert [one["partition"] for one in found if one["value"] == "7"] == [2]
    assert sorted(one["value"] for one in found) == ["7", "8"]


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ({"headers": [5]}, "-H a=1"), ({"headers": [["x"]]}, "-H a=1"),
        ({"partition": ["0"]}, "-X partitioner=murmur3"),
        ({"headers": [[{"key": "a", "value": 1}]]}, "-H a=1"), ({"headers": [[{"key": "a", "value": 1}]]}, "-p 0"),
    ],
)  # fmt: skip
def test_a_wrong_column_is_named_before_options_change_it(
    run: Run, tmp_path: Path, column: dict[str, Any], words: str
) -> None:
    """They ended with a traceback of pyarrow."""
    run("topic", "create", "t")
    parquet.write_table(pyarrow.table({"value": ["a"], **column}), tmp_path / "a.parquet")
    name = next(iter(column))
    wrong = run("produce", "t", "-q", "--input", str(tmp_path / "a.parquet"), *words.split())
    failed(wrong, f"a.parquet: {name}: the column '{name}' is ", "nothing was appended")


def test_a_batch_that_cannot_be_cast_says_behind_which_row(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_input, "ROWS", 2)
    run("topic", "create", "t")
    pairs = [[{"key": name, "value": b"1"}] for name in (b"a", b"b", b"c", b"\xff")]
    parquet.write_table(pyarrow.table({"value": ["a"] * 4, "headers": pairs}), tmp_path / "a.parquet")
    done = run("produce", "t", "-q", "--input", str(tmp_path / "a.parquet"))
    failed(done, "a.parquet, behind row 2: Invalid UTF8", "the rows before it were appended")
    assert len(records(run, "t")) == 2


def test_a_server_takes_them_as_well(run: Run, tmp_path: Path) -> None:
    with pylog.serve(":memory:") as served:
        assert isinstance(served, Server)
        where = ("--bootstrap", served.bootstrap_servers)
        run("topic", "create", "t", *where)
        done = run("produce", "t", "--input", write(tmp_path / "a.parquet", ROWS), *where)
        assert "appended 40 records" in done.err, done
        assert [one["value"] for one in records(run, "t", *where)] == [row["value"] for row in ROWS]


def test_a_row_that_makes_no_record_is_named_and_those_before_it_are_in(run: Run, tmp_path: Path) -> None:
    run("topic", "create", "t")
    path = write(tmp_path / "a.parquet", [{"value": "a", "timestamp": 5}] * 3 + [{"value": "b", "timestamp": -1}] * 3)
    done = run("produce", "t", "--input", path)
    summary, error = done.err.splitlines()
    assert "appended 3 records (3 B)" in summary
    assert "a.parquet, row 4: column 'timestamp': the time is not in" in error
    assert error.endswith("; the rows before it were appended: correct the row and go on from there")
    assert [one["value"] for one in records(run, "t")] == ["a"] * 3


@pytest.mark.parametrize(
    ("words", "limit"),
    [("", "the topic's max.message.bytes 300"), ("-X max.request.size=200", "max.request.size 200")],
)
def test_a_record_that_is_too_large_names_its_row_and_the_limit(
    run: Run, tmp_path: Path, words: str, limit: str
) -> None:
    run("topic", "create", "t", "--config", "max.message.bytes=300")
    path = write(tmp_path / "a.parquet", [{"value": "a"}, {"value": "b" * 1000}])
    failed(run("produce", "t", "-q", "--input", path, *words.split()), "row 2: column 'value': the record takes", limit)


def test_a_batch_that_the_node_refuses_counts_as_not_acknowledged(run: Run, tmp_path: Path) -> None:
    run("topic", "create", "t", "--config", "max.message.bytes=300")
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"value": [b"a", os.urandom(2000)]}), path)
    done = run("produce", "t", "--input", str(path), "--codec", "zstd")
    summary, error = done.err.splitlines()
    assert "appended 1 record to t" in summary and "1 record sent and not acknowledged" in summary
    assert "over the topic's max.message.bytes=300" in error


class Pulled(Brake):
    """A brake that is pulled when the second piece was sent."""

    checks = 0

    def check(self) -> None:
        self.checks += 1
        if self.checks == 3:
            raise KeyboardInterrupt


def test_ctrl_c_leaves_the_rows_that_were_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_input, "ROWS", 5)
    path = write(tmp_path / "a.parquet", ROWS)
    given = Input("t", (path,), raw(None), 1000, (), None, None, None, is_quiet=True)
    with pylog.open(":memory:") as log, log.producer() as producer:
        topic, count = log.create_topic("t"), Count()
        rules = TopicRules.of(1, topic.config, 10**6)
        with pytest.raises(KeyboardInterrupt):
            parquet_input.send_parquet(given, RowForm(), rules, producer, count, Pulled())
        assert count.acknowledged == topic[0].next_offset == 10


class Failing(Count):
    """A count that is told of the failure of the second batch."""

    batches = 0

    def add(self, future: Any, size: int, records: int = 1) -> None:
        super().add(future, size, records)
        self.batches += 1
        if self.batches == 2:
            raise DiskFull("the disk is full")


def test_nothing_is_sent_behind_a_batch_that_failed(tmp_path: Path) -> None:
    given = Input("t", (write(tmp_path / "a.parquet", ROWS),), raw(None), 1000, (), None, None, None, is_quiet=True)
    with pylog.open(":memory:") as log, log.producer(batch_size=1) as producer:
        topic, count = log.create_topic("t"), Failing()
        with pytest.raises(DiskFull), Brake() as brake:
            parquet_input.send_parquet(given, RowForm(), TopicRules.of(1, topic.config, 10**6), producer, count, brake)
        assert topic[0].next_offset == 2
