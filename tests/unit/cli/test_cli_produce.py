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
from hypothesis import given, settings
from hypothesis import strategies as st

import pylog
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


@settings(max_examples=200)
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
        (b"nonsense", "it is no JSON"),
        (b"[1]", 'no object with a "value"'),
        (b'{"key":"a"}', 'no object with a "value"'),
        (b'{"value":5}', '"value" is no string'),
        (b'{"value":{"a":1}}', '"value" is no string'),
        (b'{"value":{"base64":"?"}}', '"value" is no base64'),
        (b'{"value":"a","key":[]}', '"key" is no string'),
        (b'{"value":"a","partition":"0"}', "\"partition\" is '0'"),
        (b'{"value":"a","timestamp":1.5}', '"timestamp" is 1.5'),
        (b'{"value":"a","headers":5}', '"headers" is no list'),
        (b'{"value":"a","headers":"ab"}', '"headers" is no list'),
        (b'{"value":"a","headers":["ab"]}', '"headers" is no list'),
        (b'{"value":"a","headers":[["x"]]}', '"headers" is no list'),
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
        with pytest.raises(ValueError, match=r"it is not like|no whole number|the name of a header is no UTF-8"):
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
    "text", ["{key}", "{key}{value}", "{nothing}{value}", "{value}{value}", "{value:>5}", "{value", "plain"]
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


def test_options_that_exclude_each_other_are_wrong_usage(run: Run) -> None:
    run("topic", "create", "lines")
    misused(run("produce", "lines", "--json", "--format", "{value}"), "--format is not allowed with --json")
    misused(run("produce", "lines", "--json", "-K", ":"), "--key-separator is not allowed with --json")
    misused(run("produce", "lines", "--transaction-records", "5"), "needs --transactional-id")
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
