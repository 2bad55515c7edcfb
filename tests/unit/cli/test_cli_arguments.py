"""Words on the command line as values, and records as bytes."""

import json

import click
import pytest

from pylog.cli.arguments import Moment, count, headers, moment, natural, separator
from pylog.cli.lines import parser
from pylog.cli.output import rate_text
from pylog.cli.params import config_pair
from pylog.cli.template import renderer
from pylog.kernel import BatchScope, ConsumerRecord, Header
from pylog.runtime.json_lines import text_or_base64

T0 = 1_700_000_000_123


class Noon:
    """A clock that stands."""

    def wall_ms(self) -> int:
        return T0

    def tick_ms(self) -> int:
        return 0


def record(value: bytes | None = b"v", key: bytes | None = b"k", at: int = T0) -> ConsumerRecord:
    scope = BatchScope("clicks", 2, 0, 0)
    return ConsumerRecord(7, at, key, value, (Header("a", b"1"), Header("b", None)), scope)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("10m", T0 - 600_000),
        ("2h", T0 - 7_200_000),
        ("1d", T0 - 86_400_000),
        ("500ms ago", T0 - 500),
        ("1700000000000", 1_700_000_000_000),
        ("2023-11-14T22:13:20", 1_700_000_000_000),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T23:13:20.5+01:00", 1_700_000_000_500),
        ("2023-11-14", 1_699_920_000_000),
        ("20231114", 1_699_920_000_000),
        ("1900-01-01", 0),
        ("99999999w", 0),
    ],
)
def test_moments(text: str, ms: int) -> None:
    assert moment(text).at(Noon()) == ms


def test_a_moment_is_a_value() -> None:
    assert moment("1s") == Moment(ago_ms=1000)


@pytest.mark.parametrize("text", ["", "yesterday", "10", "10 parsecs", "2023-13-01", "-5m"])
def test_no_moments(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is no time: give"):
        moment(text)


def test_pairs() -> None:
    assert config_pair("retention.ms=1000") == ("retention.ms", "1000")
    assert config_pair("a=b=c") == ("a", "b=c")
    assert headers("a=1,b=,a=ü") == (("a", b"1"), ("b", b""), ("a", "ü".encode()))
    for text in ("retention.ms", "=5"):
        with pytest.raises(click.BadParameter, match="is not NAME=VALUE"):
            config_pair(text)
    with pytest.raises(click.BadParameter, match="'b' is not NAME=VALUE"):
        headers("a=1,b")


def test_numbers() -> None:
    assert (natural("0"), natural("1_000"), natural("1,000"), count("5")) == (0, 1000, 1000, 5)
    for text in ("-1", "x", "", "1.5"):
        with pytest.raises(click.BadParameter, match="not a whole number"):
            natural(text)
    with pytest.raises(click.BadParameter, match="too few"):
        count("0")


def test_separators() -> None:
    assert separator(r"\t") == b"\t"
    assert separator(" ") == b" "
    assert separator("::") == b"::"
    assert separator("→") == "→".encode()
    # The byte 0xff as it was typed.
    assert separator("\udcff") == b"\xff"
    for text in ("", r"\n"):
        with pytest.raises(click.BadParameter, match="must not"):
            separator(text)


def test_bytes_of_the_command_line_stay_what_they_are() -> None:
    assert headers("a=\udcff") == (("a", b"\xff"),)
    with pytest.raises(click.BadParameter, match="is not UTF-8"):
        headers("\udcff=a")
    assert renderer("{value}\udcff")(record(b"v")) == b"v\xff\n"
    parse = parser("{key}\udcff{value}")
    assert parse is not None and parse(b"k\xffv")[:2] == (b"v", b"k")


def test_rates_for_people() -> None:
    assert [rate_text(n, 1000) for n in (5, 9999, 123_456, 2_345_678)] == [
        "5 records/s", "9,999 records/s", "123 k records/s", "2.3 M records/s",
    ]  # fmt: skip
    assert rate_text(10, 0) == "10 k records/s"


def test_raw() -> None:
    raw = renderer("raw")
    assert raw(record(b"\xff\x00")) == b"\xff\x00\n"
    assert raw(record(None)) == b"\n"


def test_json_lines() -> None:
    line = renderer("json")(record(b"\xff", "ké".encode()))
    assert line.endswith(b"\n")
    assert json.loads(line) == {
        "topic": "clicks", "partition": 2, "offset": 7, "timestamp": T0,
        "key": "ké", "value": {"base64": "/w=="}, "headers": [["a", "1"], ["b", None]],
    }  # fmt: skip
    assert json.loads(renderer("json")(record(None, None)))["value"] is None
    assert text_or_base64(b"a\nb") == "a\nb"


@pytest.mark.parametrize(
    ("template", "line"),
    [
        ("{value}", b"v\n"),
        ("{topic}-{partition}@{offset}: {key}={value} {headers}", b"clicks-2@7: k=v a=1,b=\n"),
        (r"{key}\t{value}\n", b"k\tv\n"),
        (r"{key}\0", b"k\0"),
        ("{offset:>5}|{key:<3}|", b"    7|k  |\n"),
        ("{timestamp}", b"1700000000123\n"),
        ("{timestamp:%Y-%m-%d %H:%M:%S}", b"2023-11-14 22:13:20\n"),
        ("{{{value}}}", b"{v}\n"),
    ],
)
def test_templates(template: str, line: bytes) -> None:
    assert renderer(template)(record()) == line


def test_templates_keep_bytes() -> None:
    assert renderer("{value}")(record(b"\xff")) == b"\xff\n"
    assert renderer("{value}{key}")(record(None, None)) == b"\n"
    assert renderer("{timestamp:%Y}")(record(at=2**62)) == b"9999\n"


@pytest.mark.parametrize(
    "template",
    ["{nothing}", "{value.__class__}", "{value[0]}", "{value", "plain", "", "{}", "{0}", "{key!r}", "{offset:q}"],
)
def test_no_templates(template: str) -> None:
    with pytest.raises(click.BadParameter):
        renderer(template)
