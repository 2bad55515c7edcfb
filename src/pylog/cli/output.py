"""The parts of the output that the commands share: words for people on a terminal, plain lines for programs.

    stdout    what was asked for: records, tables, JSON lines; nothing else ever
    stderr    everything about it: progress (on a terminal alone), summaries, warnings, errors as one line `pylog: ...`

Colours, boxes and moving bars appear only where the stream is a terminal; a pipe or a file gets the same facts as
plain text.

All text goes through here, because names, errors and records may be of others: marks that would move the cursor, change
colours, turn the order of letters round or begin a line are escaped (`printable`). Records are the one exception:
`consume` writes them to a pipe or a file as they are.
"""

import io
import select
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from pylog.runtime.json_lines import json_line
from pylog.runtime.words import plural, printable

if TYPE_CHECKING:
    from rich.text import Text

__all__ = [
    "Column",
    "agreed",
    "ask",
    "check_reader",
    "is_terminal",
    "live_text",
    "print_line",
    "print_table",
    "rate_text",
    "say",
    "show_misuse",
    "table_lines",
    "tell",
    "write",
]


def rate_text(number: int, ms: int) -> str:
    """`number` per `ms` milliseconds, as a rate per second; two digits are enough for people."""
    rate = number * 1000 / max(ms, 1)
    if rate >= 1_000_000:
        return f"{rate / 1_000_000:.1f} M records/s"
    if rate >= 10_000:
        return f"{rate / 1000:.0f} k records/s"
    return f"{plural(round(rate), 'record')}/s"


def is_terminal(stream: object) -> bool:
    """Whether a user watches the stream."""
    return bool(getattr(stream, "isatty", lambda: False)())


def say(text: str) -> None:
    """A line on stderr that begins with `pylog: `. Line breaks inside become spaces: one message, one line."""
    _print_error(f"pylog: {' '.join(text.split())}", "\n")


def ask(question: str) -> None:
    """A question on stderr; the cursor stays behind it."""
    _print_error(question, "")


def show_misuse(error: click.UsageError) -> None:
    """The lines on stderr that click has for wrong usage; they repeat words of the command line."""
    lines = io.StringIO()
    error.show(lines)
    for line in lines.getvalue().splitlines():
        _print_error(line, "\n")


def _print_error(line: str, end: str) -> None:
    if sys.stderr is not None:
        print(printable(line), end=end, file=sys.stderr, flush=True)


def agreed(doing: str, question: str, word: str) -> bool:
    """Whether the user at the terminal types `word`. Without a terminal the error names the option to give instead."""
    if not is_terminal(sys.stdin):
        say(f"{doing} cannot be undone: give --yes if that is what you want")
        return False
    hint = "its name" if word != "yes" else "yes"
    ask(f"{question}? This cannot be undone. Type {hint} to go on: ")
    if sys.stdin.readline().strip() == word:
        return True
    say("nothing was deleted")
    return False


def print_line(text: str) -> None:
    """A line on stdout. Characters that do not print, or that the terminal's encoding lacks, are escaped."""
    text = printable(text)
    try:
        sys.stdout.write(text + "\n")
    except UnicodeEncodeError:
        sys.stdout.write(text.encode("ascii", "backslashreplace").decode() + "\n")


def write(data: bytes, *, flush: bool = False) -> None:
    """Whole lines on stdout, as bytes: as they are in a pipe or a file, as text that prints on a terminal."""
    if is_terminal(sys.stdout):
        data = printable(data.decode(errors="backslashreplace"), keep="\n\t").encode()
    sys.stdout.buffer.write(data)
    if flush:
        sys.stdout.buffer.flush()


def check_reader() -> None:
    """Raise BrokenPipeError when the reader of stdout is gone: a command that waits for records would not notice it."""
    try:
        stdout = sys.stdout.fileno()
    except (OSError, ValueError):
        # stdout is no file (a test reads it).
        return
    look = select.poll()
    look.register(stdout, 0)
    if any(events & select.POLLERR for _, events in look.poll(0)):
        raise BrokenPipeError


def live_text(lines: Iterable[str]) -> "Text":
    """Lines for a view that is drawn again (rich's `Live`), each cut to the width of the terminal."""
    from rich.text import Text

    return Text("\n".join(map(printable, lines)), no_wrap=True, overflow="ellipsis")


def tell(as_json: bool, facts: Mapping[str, object], words: str) -> None:
    """A line on stdout that says what was done: facts as JSON, or words."""
    print_line(json_line(facts) if as_json else words)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; numbers stand to the right."""

    name: str
    is_number: bool = False


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str]], *, indent: int = 0) -> None:
    """Rows under names, aligned with spaces; on a terminal the names are bold. Nothing is ever cut to a width."""
    head, *lines = table_lines(columns, rows, indent=indent)
    (_bold_printer() if is_terminal(sys.stdout) else print_line)(head)
    for line in lines:
        print_line(line)


def table_lines(columns: Sequence[Column], rows: Sequence[Sequence[str]], *, indent: int = 0) -> list[str]:
    """The lines of a table; the first has the names of the columns."""
    names = [column.name for column in columns]
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [names, *rows]) for i in range(len(columns))]
    lines = []
    for row in [names, *rows]:
        cells = (
            cell.rjust(width) if column.is_number else cell.ljust(width)
            for cell, width, column in zip(row, widths, columns, strict=True)
        )
        lines.append((" " * indent + "  ".join(cells)).rstrip())
    return lines


def _bold_printer() -> Callable[[str], None]:
    # Most commands never need it, and it takes longer to load than they run.
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True)
    return lambda line: console.print(Text(line, style="bold"))
