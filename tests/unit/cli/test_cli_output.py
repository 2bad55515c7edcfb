"""What the commands share in their output, where no process and no terminal is needed."""

import ast
import io
import json
import re
import sys
from pathlib import Path

import click
import pytest

from pylog.cli import output
from pylog.cli.meter import Meter
from pylog.cli.output import Column, ask, live_text, print_line, print_table, say, show_misuse, write
from pylog.runtime.json_lines import json_line


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("step", [1, 10, 1000])
def test_the_time_that_remains_follows_from_the_pace(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    screen, now = Screen(), 0.0
    monkeypatch.setattr(sys, "stderr", screen)
    with Meter("reading", 30_000, get_time=lambda: now) as meter:
        # 1,000 bytes a second: 20 of 30 seconds are left after 10.
        for size in range(step, 10_000 + step, step):
            now = size / 1000
            meter.update(size, size // 10)
    remaining = re.findall(r"\d:\d\d:\d\d", screen.getvalue())
    assert remaining[-1] in ("0:00:20", "0:00:21")
    assert "1,000 records" in screen.getvalue().rpartition("reading")[2]


def test_a_message_moves_no_cursor_whatever_it_names(capsys: pytest.CaptureFixture[str]) -> None:
    say("there is no\n group \x1b[2J\x9b1A grün")
    assert capsys.readouterr().err == "pylog: there is no group \\x1b[2J\\x9b1A grün\n"


HOSTILE = "t\x1b[2J\x9b1A\u202e\n\U000e0001\udcff ü"
SHOWN = r"t\x1b[2J\x9b1A\u202e\n\U000e0001\udcff ü"


class Terminal(io.TextIOWrapper):
    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def isatty(self) -> bool:
        return True

    @property
    def seen(self) -> str:
        return self.buffer.getvalue().decode()  # type: ignore[attr-defined,no-any-return]


def test_a_line_moves_no_cursor_whatever_it_names(capsys: pytest.CaptureFixture[str]) -> None:
    print_line(HOSTILE)
    print_table((Column("NAME"),), [(HOSTILE,)])
    ask(HOSTILE)
    show_misuse(click.UsageError("\x9b\u202e"))
    out, err = capsys.readouterr()
    assert out.splitlines() == [SHOWN, "NAME", SHOWN]
    assert err == SHOWN + r"Error: \x9b\u202e" + "\n"
    assert live_text([HOSTILE, "more"]).plain == f"{SHOWN}\nmore"


def test_json_has_its_own_escapes_and_means_the_same() -> None:
    line = json_line({"key": HOSTILE, HOSTILE: 1})
    assert line.isprintable() and json.loads(line) == {"key": HOSTILE, HOSTILE: 1} and "ü" in line


def test_records_are_as_they_are_in_a_pipe_and_print_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = b"a\tb\n\x1b[2J\xff\xe2\x80\xae\n"
    screen, pipe = Terminal(), io.TextIOWrapper(io.BytesIO())
    for stream in (screen, pipe):
        monkeypatch.setattr(sys, "stdout", stream)
        write(lines, flush=True)
    assert screen.seen == "a\tb\n\\x1b[2J\\xff\\u202e\n"
    assert pipe.buffer.getvalue() == lines  # type: ignore[attr-defined]


def test_output_is_the_one_way_to_the_terminal() -> None:
    """No other file of the command prints, or makes the text of a view that is drawn anew."""
    folder, ways = Path(output.__file__).parent, set()
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                if called in ("print", "Text") or re.search(
                    r"std(out|err)(\.buffer)?\.write|echo$|console\.print", called
                ):
                    ways.add(path.name)
    # The numbers beside a bar are its own.
    assert ways == {"output.py", "bar.py"}
