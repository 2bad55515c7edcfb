"""`pylog consume`: ranges by offset and time, filters, groups, topics by their names' form, files."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pylog
from pylog.kernel import BatchScope, ConsumerRecord
from pylog.tables.csv_lines import csv_line
from support.command_line import Run, failed, misused, run

__all__ = ["run"]

SOURCE = str(Path(pylog.__file__).parents[1])


@pytest.fixture
def ten(run: Run, tmp_path: Path) -> Run:
    """The topic `lines`: ten records in each of two partitions, at 1000 ms, 2000 ms..., `orders` with one."""
    with pylog.open(tmp_path / "data", flush="none") as log, log.producer() as producer:
        log.create_topic("lines", partitions=2)
        log.create_topic("orders")
        for number in range(20):
            key = b"even" if number % 4 < 2 else b"odd"
            producer.send(
                "lines", b"line %d" % number, key, partition=number % 2, timestamp_ms=number // 2 * 1000 + 1000
            )
        producer.send("orders", b"order")
    return run


def offsets(run: Run, *words: str) -> list[int]:
    done = run("consume", "lines", "--partition", "0", "--format", "{offset}", *words)
    assert done.code == 0, done
    return [int(line) for line in done.lines]


def test_a_range_begins_and_stops_by_offset_and_time(ten: Run) -> None:
    assert offsets(ten, "-b", "--until-offset", "3") == [0, 1, 2]
    assert offsets(ten, "--offset", "8", "--until-offset", "100") == [8, 9]
    assert offsets(ten, "--since", "1970-01-01T00:00:03", "--until", "1970-01-01T00:00:06") == [2, 3, 4]
    assert offsets(ten, "-o", "s@1970-01-01T00:00:03", "-o", "e@1970-01-01T00:00:04.5") == [2, 3]
    assert offsets(ten, "-o", "-5", "-o", "e@1970-01-01T00:00:08") == [5, 6]
    assert offsets(ten, "-b", "--until", "1970-01-02") == list(range(10))
    assert offsets(ten, "-b", "--until-offset", "0") == []


def test_ends_that_exclude_each_other_are_wrong_usage(ten: Run) -> None:
    misused(ten("consume", "lines", "-o", "1", "-o", "2"), "one start, and one end")
    misused(ten("consume", "lines", "-o", "1", "-o", "s@10m"), "not allowed with --offset N")
    misused(ten("consume", "lines", "-o", "e@10m", "--until", "5m"), "not allowed with --offset e@")
    misused(ten("consume", "lines", "-b", "--follow", "--until", "5m"), "--until is not allowed with --follow")
    misused(ten("consume", "lines", "--group", "g", "-o", "1"), "--offset is not allowed with --group")
    misused(ten("consume", "lines", "--json", "--format", "{key}"), "not allowed with --json")
    misused(ten("consume"), "give a TOPIC, or --include")
    misused(ten("consume", "lines", "-o", "x@5"), "is no offset")
    misused(ten("consume", "lines", "--grep", "("), "no regular expression")


def test_filters_let_only_some_records_through(ten: Run) -> None:
    assert offsets(ten, "-b", "--key", "even") == [0, 2, 4, 6, 8]
    assert offsets(ten, "-b", "--key", "even", "--max-records", "2") == [0, 2]
    assert offsets(ten, "-b", "--grep", "^line 1[0-4]$") == [5, 6, 7]
    assert offsets(ten, "-b", "--grep", "nothing") == []


def test_a_pattern_is_found_in_text_not_in_bytes(ten: Run) -> None:
    ten("produce", "orders", "-q", stdin="é\né!\n".encode() + b"\xff\n")
    words = ("consume", "orders", "-b", "--format", "{offset}", "--grep")
    assert ten(*words, r"^\u00e9").lines == ["1", "2"]
    assert ten(*words, "^.$").lines == ["1", "3"]
    assert ten(*words, "\udcff").lines == ["3"]


def test_topics_may_be_named_by_a_regular_expression(ten: Run) -> None:
    assert sorted(set(ten("consume", "--include", "l.*|o.*s", "-b", "--format", "{topic}").lines)) == [
        "lines",
        "orders",
    ]
    assert ten("consume", "orders", "--include", "ord.*", "-b").lines == ["order"]
    failed(ten("consume", "--include", "x.*", "-b"), "no topic has a name like 'x.*'")


def test_json_is_short_for_its_format(ten: Run) -> None:
    assert ten("consume", "orders", "-b", "--json").out == ten("consume", "orders", "-b", "--format", "json").out


def test_a_group_goes_on_where_it_was(ten: Run) -> None:
    words = ("consume", "lines", "--group", "g", "-b")
    assert len(ten(*words, "--max-records", "7").lines) == 7
    assert len(ten(*words).lines) == 13
    assert ten(*words).lines == []
    ten("produce", "lines", "-q", stdin=b"new\n")
    assert ten(*words, "--key", "none").lines == [], "what a filter leaves out is done, too"
    assert json.loads(ten("group", "describe", "g", "--json").out)["lag"] == 0
    assert ten("consume", "orders", "--group", "new").lines == [], "a group that is new begins at the end"


@pytest.mark.parametrize("words", [(), ("--max-records", "1")])
def test_a_group_keeps_its_position_in_a_partition_that_is_empty(run: Run, words: tuple[str, ...]) -> None:
    run("topic", "create", "two", "--partitions", "2")
    run("produce", "two", "-q", "-p", "1", stdin=b"one\n")
    assert run("consume", "two", "--group", "g", "-b", *words).lines == ["one"]
    run("produce", "two", "-q", "-p", "0", stdin=b"zero\n")
    assert json.loads(run("group", "describe", "g", "--json").lines[0])["lag"] == 1
    assert run("consume", "two", "--group", "g").lines == ["zero"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a full device")
@pytest.mark.parametrize("words", [(), ("--output", "/dev/full")])
def test_a_group_commits_nothing_that_a_full_disk_refused(ten: Run, tmp_path: Path, words: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "pylog", "consume", "lines", "--group", "g", "-b", *words]
    env = {**os.environ, "PYLOG_LOG": str(tmp_path / "data"), "PYTHONPATH": SOURCE, "PYTHONUNBUFFERED": ""}
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, env=env, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode != 0 and b"No space left" in done.stderr
    with pylog.open(tmp_path / "data", mode="read") as log:
        assert [one.committed for one in log.admin.lag("g").values() if one.committed] == []


def test_a_group_writes_no_parquet(ten: Run, tmp_path: Path) -> None:
    path = tmp_path / "lines.parquet"
    misused(ten("consume", "lines", "--group", "g", "-b", "--output", str(path)), "--group is not allowed with a Parq")
    misused(ten("consume", "lines", "--share", "g", "--output", str(path)), "--share is not allowed with a Parquet")


def test_a_file_takes_lines_or_becomes_parquet(ten: Run, tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    done = ten("consume", "orders", "-b", "--output", str(path))
    assert (done.code, done.out, path.read_bytes()) == (0, "", b"order\n")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "lines.parquet"
    done = ten("consume", "lines", "-b", "--key", "odd", "--output", str(path))
    assert (done.code, done.out) == (0, "") and "wrote 10 records to" in done.err
    table = parquet.read_table(path)
    assert table.num_rows == 10 and set(table["key"].to_pylist()) == {b"odd"}
    assert ten("consume", "lines", "--include", "n", "--output", str(path)).code == 0
    assert parquet.read_table(path).num_rows == 0
    misused(ten("consume", "lines", "-b", "--json", "--output", str(path)), "takes no --format, --json or --follow")
    failed(ten("consume", "lines", "-b", "--output", str(tmp_path / "none" / "x")), "none")


def test_a_file_has_the_form_that_its_name_says(ten: Run, tmp_path: Path) -> None:
    for name in ("a.jsonl", "a.ndjson", "a.JSON"):
        path = tmp_path / name
        assert ten("consume", "orders", "-b", "--output", str(path)).code == 0
        assert json.loads(path.read_text())["value"] == "order"
        assert ten("consume", "orders", "-b", "--format", "raw", "--output", str(path)).code == 0
        assert path.read_text() == "order\n"
    path = tmp_path / "a.csv"
    assert ten("consume", "lines", "-b", "--key", "odd", "--output", str(path)).code == 0
    assert len(path.read_text().splitlines()) == 11
    misused(ten("consume", "lines", "-b", "--json", "--output", str(path)), "a CSV file has columns: it takes no")


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (pylog.Record(b"\xff"), "t-0, offset 0: the value is not UTF-8, and a CSV file has text alone: write .jsonl"),
        (pylog.Record(b"x", b"\xff"), "t-0, offset 0: the key is not UTF-8"),
        (pylog.Record(b"x", headers=[("h", b"\xff")]), "the header 'h' is not UTF-8"),
        (pylog.Record(b"x", headers=[("h", b"a,b")]), "a header has a comma, or its name has an equals sign"),
        (pylog.Record(b"x", headers=[("h=", None)]), "a header has a comma, or its name has an equals sign"),
    ],
)
def test_a_record_that_csv_cannot_have_is_named(record: pylog.Record, words: str) -> None:
    with pylog.open(":memory:") as log:
        log.create_topic("t")[0].append([record])
        (found,) = log.topic("t").records()
    with pytest.raises(ValueError, match=re.escape(words)):
        csv_line(found)


@pytest.mark.parametrize(
    ("timestamp", "text"),
    [
        (1_767_268_800_007, "2026-01-01T12:00:00.007+00:00"),
        (0, "1970-01-01T00:00:00.000+00:00"),
        (-1, ""),
        (1 << 60, str(1 << 60)),
    ],
)
def test_times_in_csv_are_iso_8601_as_long_as_there_are_years(timestamp: int, text: str) -> None:
    record = ConsumerRecord(7, timestamp, None, b"x", (), BatchScope("t", 3, 0, 0))
    assert csv_line(record).decode() == f"t,3,7,{text},,x,\n"


def test_a_file_stays_as_it_is_where_nothing_can_be_read(ten: Run, tmp_path: Path) -> None:
    path = tmp_path / "keep.txt"
    path.write_bytes(b"keep")
    failed(ten("consume", "none", "-b", "--output", str(path)), "there is no topic 'none'")
    failed(ten("consume", "lines", "-o", "100", "--output", str(path)), "offset 100 of lines-0 is not there")
    assert path.read_bytes() == b"keep"


def test_damaged_records_stop_it_or_are_left_out(run: Run, tmp_path: Path) -> None:
    with pylog.open(tmp_path / "data", flush="none") as log:
        partition = log.create_topic("t")[0]
        for number in range(3):
            partition.append([pylog.Record(b"value %d" % number)])
        path, size = Path(partition.segments[0].path), partition.size // 3
    data = bytearray(path.read_bytes())
    data[size + 65] ^= 1
    path.write_bytes(data)
    words = ("consume", "t", "-b", "--output", str(tmp_path / "out"))

    failed(run(*words), "offsets 1 to 1 are damaged", "go on at offset 2", "pylog repair")
    done = run(*words, "--skip-damaged")

    assert done.code == 0 and done.err.startswith("pylog: skipped: ") and "offsets 1 to 1 are damaged" in done.err
    assert (tmp_path / "out").read_text() == "value 0\nvalue 2\n"
