"""`pylog produce` from JSON, from templates, and in transactions."""

import io
import json
import re
import signal
import sys
import time
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pylog
from pylog.cli import main
from pylog.cli.lines import JSON, Line, parser, raw
from pylog.cli.sending import Brake, Count, Input, send_all
from pylog.cli.template import renderer
from pylog.errors import RecordTooLarge
from pylog.kernel import BatchScope, ConsumerRecord, Header
from support.command_line import Run, failed, misused, run

__all__ = ["run"]


def test_a_copy_by_json_lines_keeps_all_of_each_record(run: Run, tmp_path: Path) -> None:
    for name in ("one", "two"):
        run("topic", "create", name, "-p", "3")
    with pylog.open(tmp_path / "data", flush="none") as log, log.producer() as producer:
        for number in range(30):
            value = (b"text %d" % number, bytes([255, number]), None, b'"\\\n\x00', b"")[number % 5]
            key = (b"k%d" % number, None, b"\xff\xfe")[number % 3]
            headers = [("a", b"1"), ("a", None), ("b", b"\xff")][: number % 4]
            producer.send("one", value, key, partition=number % 3, timestamp_ms=1000 + number, headers=headers)
    printed = run("consume", "one", "-b", "--json").raw
    done = run("produce", "two", "--json", stdin=printed)
    assert (done.code, done.out) == (0, "") and "appended 30 records" in done.err

    def contents(topic: str) -> list[tuple[object, ...]]:
        with pylog.open(tmp_path / "data", mode="read") as log:
            return [
                (one.partition, one.offset, one.timestamp, one.key, one.value, tuple(one.headers))
                for partition in log.topic(topic)
                for one in partition.records()
            ]

    assert len(contents("one")) == 30
    assert contents("two") == contents("one")


def test_records_go_to_all_directories_that_are_named_with_commas(run: Run, tmp_path: Path) -> None:
    """It took the two names for the path of one directory, which is not there."""
    paths = [str(tmp_path / "a"), str(tmp_path / "b")]
    with pylog.open(paths, flush="none") as log:
        log.create_topic("t", 2)
    for number in range(2):
        words = ("produce", "t", "--partition", str(number), "--log", ",".join(paths))
        assert run(*words, stdin=b"x\n").code == 0
    assert [(tmp_path / name).exists() for name in ("a/t-0", "b/t-1")] == [True, True]
    failed(run("produce", "t", "--log", f"{paths[0]},{tmp_path}/c", stdin=b"x\n"), f"{tmp_path}/c: there is no log")


TEXTS = st.one_of(st.none(), st.binary(max_size=8), st.text(max_size=8).map(str.encode))
HEADERS = st.lists(st.tuples(st.text(max_size=4), TEXTS), max_size=3)


@given(value=TEXTS, key=TEXTS, headers=HEADERS, at=st.integers(0, 2**62))
def test_what_consume_prints_as_json_is_read_as_it_was(
    value: bytes | None, key: bytes | None, headers: list[tuple[str, bytes | None]], at: int
) -> None:
    made = tuple(Header(name, one) for name, one in headers)
    line = renderer("json")(ConsumerRecord(7, at, key, value, made, BatchScope("t", 3, 0, 0)))
    assert line.count(b"\n") == 1 and line.endswith(b"\n")
    assert JSON(line.removesuffix(b"\n")) == Line(value, key, 3, at, tuple(headers))


def test_json_lines_may_leave_out_all_but_the_value(run: Run) -> None:
    run("topic", "create", "lines")
    lines = b'{"value":"a"}\n{"value":null,"key":"k","headers":{"h":"1"},"timestamp":-1}\n'
    done = run("produce", "lines", "--format", "json", "-H", "x=y", stdin=lines)
    assert done.code == 0 and "appended 2 records (8 B)" in done.err, "keys, values and headers"
    told = [json.loads(line) for line in run("consume", "lines", "-b", "--json").lines]
    assert [(one["key"], one["value"], one["headers"]) for one in told] == [
        (None, "a", [["x", "y"]]), ("k", None, [["h", "1"], ["x", "y"]]),
    ]  # fmt: skip
    assert all(one["timestamp"] > 1_600_000_000_000 for one in told)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"nonsense", "it is not JSON"),
        (b"[1]", 'not an object with a "value"'),
        (b'{"key":"a"}', "no \"value\", but 'key'"),
        (b'{"value":5}', '"value" is no string'),
        (b'{"value":{"a":1}}', '"value" is no string'),
        (b'{"value":{"base64":"?"}}', '"value" is no base64'),
        (b'{"value":"a","key":[]}', '"key" is no string'),
        (b'{"value":"a","partition":"0"}', "\"partition\" is '0'"),
        (b'{"value":"a","timestamp":1.5}', '"timestamp" is 1.5'),
        (b'{"value":"a","headers":5}', '"headers" is neither a list'),
        (b'{"value":"a","headers":"ab"}', '"headers" is neither a list'),
        (b'{"value":"a","headers":["ab"]}', '"headers" is neither a list'),
        (b'{"value":"a","headers":[["x"]]}', '"headers" is neither a list'),
        (b'{"value":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deep"),
        (b'{"value":"a","headers":[["a",5]]}', "header 'a' is no string"),
        (b'{"value":"a","headers":{"\\ud800":"x"}}', "has half a character"),
    ],
)
def test_a_json_line_that_is_no_record_says_why(line: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        JSON(line)
    assert words in str(caught.value)


def test_a_template_takes_lines_apart() -> None:
    parse = parser(r"{key}\t{timestamp}|{partition} {headers}:{value}\n")
    assert parse is not None
    assert parse(b"k\t12|3 a=1,b=:v:w") == Line(b"v:w", b"k", 3, 12, (("a", b"1"), ("b", b"")))
    assert parse(b"\t0|0 :\xff\n") == Line(b"\xff\n", b"", 0, 0, ())
    swapped = parser("{value}@{key}")
    assert swapped is not None and swapped(b"a.b@c@d") == Line(b"a.b", b"c@d")
    only = parser("{{{value}}}")
    assert only is not None and only(b"{x}") == Line(b"x")
    for line in (b"no tab", b"k\tx|3 :v", b"k\t12|-1 :v", b"k\t%s|3 :v" % (b"9" * 5000), b"k\t12|3 \xff=1:v"):
        with pytest.raises(ValueError, match=r"it is not like|not a whole number|ISO 8601|a header is not UTF-8"):
            parse(line)


@pytest.mark.parametrize(
    ("text", "line", "ms"),
    [
        ("{timestamp} {value}", b"86400000 v", 86_400_000),
        ("{timestamp} {value}", b"1970-01-02T00:00:00.5Z v", 86_400_500),
        ("{timestamp},{value}", b"1970-01-02 00:00,v", 86_400_000),
        ("{timestamp},{value}", b"1970-01-02T00:00+01:00,v", 82_800_000),
        ("{timestamp:%d.%m.%Y %H:%M},{value}", b"02.01.1970 00:01,v", 86_460_000),
    ],
)
def test_a_template_takes_a_timestamp_as_a_time(text: str, line: bytes, ms: int) -> None:
    parse = parser(text)
    assert parse is not None and parse(line) == Line(b"v", timestamp_ms=ms)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("{timestamp},{value}", b"yesterday,v", "ISO 8601"),
        ("{timestamp},{value}", b"1969-12-31,v", "before 1970"),
        ("{timestamp:%H:%M},{value}", b"x,v", "like '%H:%M'"),
    ],
)
def test_a_template_refuses_what_is_no_time(text: str, line: bytes, words: str) -> None:
    parse = parser(text)
    assert parse is not None
    with pytest.raises(ValueError, match=words):
        parse(line)


LITERALS = st.text("ab", min_size=1, max_size=2)


@given(
    first=st.text("ab", max_size=2), one=LITERALS, two=LITERALS, last=st.text("ab", max_size=2),
    line=st.text("abc", max_size=12),
)  # fmt: skip
def test_a_template_finds_the_shortest_fields(first: str, one: str, two: str, last: str, line: str) -> None:
    parse = parser(f"{first}{{key}}{one}{{headers}}{two}{{value}}{last}")
    assert parse is not None
    expected = re.fullmatch(f"{first}(.*?){one}(.*?){two}(.*?){last}", line)
    if expected is None:
        with pytest.raises(ValueError, match="it is not like"):
            parse(line.encode())
        return
    value, key, _, _, headers = parse(line.encode())
    assert [key, value] == [expected[1].encode(), expected[3].encode()]
    assert [name for name, _ in headers] == [expected[2]] * bool(expected[2])


def test_a_template_refuses_a_long_line_at_once() -> None:
    parse = parser("{key},{headers},{value};")
    assert parse is not None
    started = time.process_time()
    with pytest.raises(ValueError, match="it is not like"):
        # A regular expression tries each place for each field: seconds, and hours for a line of 20 times that length.
        parse(b"," * 1000)
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    "text",
    [
        "{key}",
        "{key}{value}",
        "{nothing}{value}",
        "{value}{value}",
        "{value:>5}",
        "{timestamp:>5} {value}",
        "{value",
        "plain",
    ],
)
def test_a_template_without_sense_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        parser(text)


def test_raw_lines_are_values_or_keys_and_values() -> None:
    assert parser("raw") is None
    assert raw(None)(b"a:b") == Line(b"a:b")
    assert raw(b":")(b"a:b:c") == Line(b"b:c", b"a")
    with pytest.raises(ValueError, match="no key separator ':'"):
        raw(b":")(b"abc")


def test_a_bad_line_is_named_and_what_came_before_stays(run: Run) -> None:
    run("topic", "create", "lines")
    lines = b'{"value":"a"}\n{"value":"b","partition":7}\n{"value":"c"}\n'
    failed(run("produce", "lines", "--json", "-q", stdin=lines), "standard input, line 2", "7", "were appended")
    assert run("consume", "lines", "-b").lines == ["a"]


def test_a_transaction_is_committed_as_a_whole_or_not_at_all(run: Run) -> None:
    run("topic", "create", "lines")
    words = ("produce", "lines", "--transactional-id", "import", "-K", ":")
    done = run(*words, stdin=b"a:1\nb:2\n")
    assert done.code == 0 and "appended 2 records" in done.err
    done = run(*words, stdin=b"a:3\nbad\n")
    assert done.code == 1 and "line 2" in done.err and "was aborted" in done.err and "appended" not in done.err
    committed = ("consume", "lines", "-b", "--isolation-level", "read_committed")
    assert run(*committed).lines == ["1", "2"]
    done = run(*words, "--transaction-records", "2", stdin=b"a:3\na:4\na:5\nbad\n")
    assert done.code == 1 and "appended 2 records (4 B)" in done.err
    assert run(*committed).lines == ["1", "2", "3", "4"]
    assert [json.loads(line)["state"] for line in run("txn", "list", "--json").lines] != ["Ongoing"]


def sent(run: Run, *words: str, stdin: bytes = b"") -> list[tuple[str | None, str | None]]:
    """The keys and values that `pylog produce` makes of its input."""
    run("topic", "create", "t")
    done = run("produce", "t", "-q", *words, stdin=stdin)
    assert (done.code, done.err) == (0, ""), done
    told = [json.loads(line) for line in run("consume", "t", "-b", "--json").lines]
    return [(one["key"], one["value"]) for one in told]


@pytest.mark.parametrize(
    ("words", "stdin", "records"),
    [
        ("--key k", b"a\nb\n", [("k", "a"), ("k", "b")]),
        ("--json -k k", b'{"value":"a"}\n{"value":"b","key":"own"}\n', [("k", "a"), ("own", "b")]),
        ("-K : -Z", b"a:1\nb:\n", [("a", "1"), ("b", None)]),
        ("--key k --empty-as-null", b"\n", [("k", None)]),
        ("-D ;", b"a;b\nc;", [(None, "a"), (None, "b\nc")]),
        (r"-D \0 -K :", b"a:1\0b:2", [("a", "1"), ("b", "2")]),
        (r"-D \n", b"a\nb", [(None, "a"), (None, "b")]),
        ("--whole", b"a\nb\n", [(None, "a\nb\n")]),
        ("-X linger.ms=0 -X batch.size=1", b"a\nb\n", [(None, "a"), (None, "b")]),
    ],
)
def test_what_a_record_is_can_be_said(
    run: Run, words: str, stdin: bytes, records: list[tuple[str | None, str | None]]
) -> None:
    assert sent(run, *words.split(), stdin=stdin) == records


def test_a_piece_that_is_too_long_is_named(run: Run) -> None:
    run("topic", "create", "t")
    for stdin in (b"a;" + b"b" * 3000 + b";", b"a;" + b"b" * 3000):
        failed(run("produce", "t", "-q", "-D", ";", "-X", "max.request.size=1000", stdin=stdin), "record 2", "1000 B")
    failed(run("produce", "t", "-q", "--whole", "-X", "max.request.size=1000", stdin=stdin), "record 1", "1000 B")
    assert run("consume", "t", "-b").lines == ["a", "a"]


def test_a_record_may_be_as_long_as_the_config_says(run: Run) -> None:
    run("topic", "create", "t", "-c", "max.message.bytes=2000000")
    done = run("produce", "t", "--whole", "-X", "max.request.size=1900000", stdin=b"a" * 1_500_000)
    assert done.code == 0 and "appended 1 record (1.4 MiB)" in done.err, done


def test_each_file_is_a_record(run: Run, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a", "b")]
    for path in paths:
        path.write_bytes(path.name.encode() + b"\n")
    assert sent(run, "--whole", *map(str, paths)) == [(None, "a\n"), (None, "b\n")]


TABLE = [("k", "a", 7, 0, [("h", b"1")]), (None, None, 9, 0, [])]


def table(path: Path) -> Path:
    """A file with two records."""
    if path.suffix == ".csv":
        path.write_text(
            'headers,key,value,timestamp,partition,offset\nh=1,k,a,7,0,5\n,,"",1970-01-01T00:00:00.009Z,,6\n'
        )
    elif path.suffix == ".jsonl":
        lines = ('{"key":"k","value":"a","timestamp":7,"headers":{"h":"1"}}', '{"value":null,"timestamp":9}')
        path.write_text("\n".join(lines))
    else:
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        headers = pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))
        columns = {
            "key": pyarrow.array(["k", None]), "value": pyarrow.array([b"a", None]), "topic": pyarrow.array(["x", "x"]),
            "timestamp": pyarrow.array([7000, 9000], pyarrow.timestamp("us")),
            "headers": pyarrow.array([[{"key": "h", "value": b"1"}], None], headers),
        }  # fmt: skip
        parquet.write_table(pyarrow.table(columns), path)
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_rows_of_a_table_are_records(run: Run, tmp_path: Path, name: str) -> None:
    run("topic", "create", "t")
    done = run("produce", "t", "-Z", "--input", str(table(tmp_path / name)))
    assert done.code == 0 and "appended 2 records" in done.err, done
    with pylog.open(tmp_path / "data", mode="read") as log:
        found = [
            (one.key and one.key.decode(), one.value and one.value.decode(), one.timestamp, one.partition,
             [tuple(header) for header in one.headers])
            for one in log.topic("t")[0].records()
        ]  # fmt: skip
    assert found == TABLE


def test_what_consume_writes_as_parquet_is_read_as_it_was(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    run("topic", "create", "one")
    run("topic", "create", "two")
    run("produce", "one", "-q", "-K", ":", "-H", "h=1", "-Z", stdin=b"a:1\nb:\n")
    path = str(tmp_path / "one.parquet")
    assert run("consume", "one", "-b", "--output", path).code == 0
    assert run("produce", "two", "-q", "--input", path).code == 0
    one, two = (run("consume", name, "-b", "--json").out.replace(name, "t") for name in ("one", "two"))
    assert one == two


@pytest.mark.parametrize("end", ["csv", "jsonl"])
def test_what_consume_writes_as_lines_is_read_as_it_was(run: Run, tmp_path: Path, end: str) -> None:
    run("topic", "create", "one")
    run("topic", "create", "two")
    values = 'a:x,"y"\nb:é\n:\n'.encode()
    run("produce", "one", "-q", "-K", ":", "-H", "h=1,i=", stdin=values)
    path = tmp_path / f"one.{end}"
    assert run("consume", "one", "-b", "--output", str(path)).code == 0
    if end == "csv":
        assert path.read_text().splitlines()[0] == "topic,partition,offset,timestamp,key,value,headers"
    assert run("produce", "two", "-q", "--input", str(path)).code == 0
    one, two = (run("consume", name, "-b", "--json").out.replace(name, "t") for name in ("one", "two"))
    # CSV has no empty key.
    assert two == (one.replace('"key":""', '"key":null') if end == "csv" else one)


def orders(path: Path) -> Path:
    """A table that has none of the columns of a record."""
    rows: list[dict[str, object]] = [{"id": 7, "by": "ada", "sum": 1.5}, {"id": None, "by": 'b"ob', "sum": None}]
    if path.suffix == ".csv":
        path.write_text('id,by,sum\n7,ada,1.5\n,"b""ob",\n')
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


@pytest.mark.parametrize("end", ["csv", "jsonl", "parquet"])
def test_rows_of_any_table_become_objects(run: Run, tmp_path: Path, end: str) -> None:
    path = str(orders(tmp_path / f"orders.{end}"))
    found = sent(run, "--input", path, "--as-json", "--key-column", "id")
    seven, none = ("7", "") if end == "csv" else (7, None)
    sums = ("1.5", "") if end == "csv" else (1.5, None)
    assert [key for key, _ in found] == ["7", None]
    assert [json.loads(value or "") for _, value in found] == [
        {"id": seven, "by": "ada", "sum": sums[0]}, {"id": none, "by": 'b"ob', "sum": sums[1]},
    ]  # fmt: skip


@pytest.mark.parametrize("end", ["csv", "parquet"])
def test_a_key_may_have_a_column_of_another_name(run: Run, tmp_path: Path, end: str) -> None:
    path = tmp_path / f"a.{end}"
    if end == "csv":
        path.write_text("value,id\nx,7\n")
    else:
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pyarrow.table({"value": ["x"], "id": [7]}), path)
    assert sent(run, "--input", str(path), "--key-column", "id") == [("7", "x")]
    failed(run("produce", "t", "-q", "--input", str(path), "--key-column", "no"), "no column 'no': it has value, id;")


def test_rows_that_are_no_objects_say_why(run: Run, tmp_path: Path) -> None:
    run("topic", "create", "t")
    path = tmp_path / "a.jsonl"
    for text, words in (("[1]", "is not an object"), ("{", "is not JSON"), ('{"id": 1.5}', "id is of type float")):
        path.write_text(text)
        failed(run("produce", "t", "-q", "--input", str(path), "--as-json", "--key-column", "id"), "line 1", words)
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"id": [b"x"]}), tmp_path / "a.parquet")
    failed(run("produce", "t", "-q", "--input", str(tmp_path / "a.parquet"), "--as-json"), "'id' is binary, which JSON")
    misused(run("produce", "t", "--input", str(path), "--key-column", "id"), "JSON lines takes --as-json")
    misused(run("produce", "t", "--as-json"), "are for the rows of a table: give --input")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.csv", "id,name\n1,x\n", "a.csv: the table has no column 'value': it has id, name; rename one"),
        ("a.csv", "id,name\n1,x\n", "make a record of a whole row; nothing was appended"),
        ("a.csv", "", "no column 'value': it has none;"),
        ("a.csv", "value,colour\n1,x\n", "'colour' is not one of a record"),
        ("a.csv", "value,key\n1\n", "row 1: it has more or fewer cells"),
        ("a.csv", "value,key\n1,2,3\n", "row 1: it has more or fewer cells"),
        ("a.csv", "value,timestamp\n1,x\n", "row 1: its timestamp is 'x'"),
        ("a.csv", 'value\na\n"x\n', "row 2: it is not CSV"),
        ("a.csv", 'value\na\n"x\n', "the rows before it were appended"),
        ("a.csv", "value\n\udcff\n", "it is not CSV in UTF-8"),
        ("a.parquet", "nonsense", "nothing was appended"),
    ],
)
def test_a_table_that_makes_no_records_says_why(run: Run, tmp_path: Path, name: str, text: str, words: str) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    run("topic", "create", "t")
    (tmp_path / name).write_bytes(text.encode(errors="surrogateescape"))
    failed(run("produce", "t", "-q", "--input", str(tmp_path / name)), words)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ({"value": [1.5]}, "'value' is double, not text, bytes or a whole number: cast it, or give --as-json"),
        ({"value": ["a"], "key": [1.5]}, "the column 'key' is double, not text"),
        ({"value": ["a"], "partition": ["0"]}, "partition: the column 'partition' is string, not a whole number"),
        ({"value": ["a"], "headers": [["x"]]}, "not a list<struct<key: string, value: binary>>"),
        ({"id": [7], "name": ["a"]}, "a.parquet: the table has no column 'value': it has id, name; rename one, or"),
    ],
)
def test_a_parquet_column_of_another_type_is_an_error(
    run: Run, tmp_path: Path, column: dict[str, list[object]], words: str
) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    run("topic", "create", "t")
    parquet.write_table(pyarrow.table(column), tmp_path / "a.parquet")
    failed(run("produce", "t", "-q", "--input", str(tmp_path / "a.parquet")), words, "nothing was appended")


def test_the_help_shows_a_template_as_it_is_typed(run: Run) -> None:
    assert r"'{key}\t{value}' takes a line apart again" in run("produce", "--help").out


@pytest.mark.parametrize("source", ["none", "-"])
def test_an_interrupt_before_a_source_waits_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\n")))
    given = Input("lines", (source,), raw(None), 100, (), None, None, None, is_quiet=True)
    with pylog.open(tmp_path / "data") as log, log.producer() as producer, Brake() as brake:
        log.create_topic("lines")
        count = Count()
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            send_all(given, producer, count, brake)
        assert count.sent == 0


class Struck(io.BytesIO):
    """A stream that is interrupted at its end."""

    def readline(self, size: int | None = -1) -> bytes:
        line = super().readline(size)
        if not line:
            raise KeyboardInterrupt
        return line


def test_an_interrupted_transaction_is_said_to_be_aborted(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Nothing was said of it."""
    run("topic", "create", "lines")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Struck(b"a\nb\nc\n")))

    code = main(["produce", "lines", "--transactional-id", "import", "--transaction-records", "2"])

    first, second = capsysbinary.readouterr().err.decode().splitlines()
    assert (code, first) == (130, "pylog: interrupted: the open transaction was aborted, with 1 record in it")
    assert second.startswith("pylog: appended 2 records")


def test_options_that_exclude_each_other_are_wrong_usage(run: Run) -> None:
    run("topic", "create", "lines")
    misused(run("produce", "lines", "--json", "--format", "{value}"), "--format is not allowed with --json")
    misused(run("produce", "lines", "--json", "-K", ":"), "--key-separator is not allowed with --json")
    misused(run("produce", "lines", "--transaction-records", "5"), "needs --transactional-id")
    misused(run("produce", "lines", "--whole", "-D", ";"), "--whole is not allowed with --delimiter")
    misused(run("produce", "lines", "-k", "a", "-K", ":"), "--key is not allowed with --key-separator")
    misused(run("produce", "lines", "-X", "acks=1"), "acks: the command has an option for it")
    misused(run("produce", "lines", "-X", "sasl.username=a"), "sasl.username is a config of a connection")
    misused(run("produce", "lines", "-X", "linger"), "is not NAME=VALUE")
    misused(run("produce", "lines", "-D", ""), "must not be empty")
    misused(run("produce", "lines", "--input", __file__), "its name ends in none of .parquet, .csv")
    misused(run("produce", "lines", "a", "--input", __file__), "--input is not allowed with FILE")
    failed(run("produce", "lines", "-X", "linger.mss=1"), "linger.mss", "linger.ms")
    failed(run("produce", "lines", "--transactional-id", "a", "--acks", "1", "-q", stdin=b"a\n"), "acks")


LONGEST = 10


@pytest.mark.parametrize("end", [b"", b"\n", b"\nb", b"\n\n"])
def test_a_line_of_the_greatest_length_is_one_record(tmp_path: Path, end: bytes) -> None:
    source = tmp_path / "lines"
    source.write_bytes(b"a" * LONGEST + end)
    given = Input("lines", (str(source),), raw(None), LONGEST, (), None, None, None, is_quiet=True)
    with pylog.open(tmp_path / "data") as log, log.producer() as producer, Brake() as brake:
        part = log.create_topic("lines")[0]
        send_all(given, producer, Count(), brake)
        values = [record.value for record in part.records()]
        source.write_bytes(b"a" * (LONGEST + 1) + end)
        with pytest.raises(RecordTooLarge, match="line 1: it is longer than 10 B"):
            send_all(given, producer, Count(), brake)
    assert values == (b"a" * LONGEST + end).splitlines()
