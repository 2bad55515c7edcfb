"""What the demo says: steps in plain words, figures in a column, a moving bar for what takes long.

On a terminal there are colours and progress bars; through a pipe the same facts come as plain lines, one for each piece
of work when it is done.
"""

import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

STEPS = 8
WIDTH = 100
LABEL_WIDTH = 26

Advance = Callable[[int], None]


class MismatchError(Exception):
    """What came back is not what went in: the demo has failed."""


def expect(holds: bool, otherwise: str) -> None:
    """Go on if it holds. Raises MismatchError."""
    if not holds:
        raise MismatchError(otherwise)


class Report:
    """Writes to standard output."""

    def __init__(self) -> None:
        terminal = sys.stdout.isatty()
        self._console = Console(width=None if terminal else WIDTH, highlight=False, soft_wrap=not terminal)
        self._tick = "✓" if (self._console.encoding or "").lower().startswith("utf") else "ok:"
        self._step = 0
        self._began = time.perf_counter()

    @property
    def seconds(self) -> float:
        """How long the demo has been running."""
        return time.perf_counter() - self._began

    def title(self, text: str) -> None:
        self._console.print(f"\n[bold]{escape(text)}[/]")

    def step(self, text: str) -> None:
        """Begin the next step."""
        self._step += 1
        self._console.print(f"\n[bold cyan]{self._step}/{STEPS}[/]  [bold]{escape(text)}[/]")

    def say(self, text: str) -> None:
        """A sentence or two, wrapped."""
        indent = " " * 5
        width = min(self._console.width, WIDTH)
        words = textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
        self._console.print(f"[dim]{escape(words)}[/]", soft_wrap=True)

    def figure(self, label: str, value: str) -> None:
        """A line of the column of figures."""
        self._console.print(f"     {escape(label):<{LABEL_WIDTH}} [bold]{escape(value)}[/]", soft_wrap=True)

    def proved(self, text: str) -> None:
        """Something that was checked and holds."""
        self._console.print(f"     [green]{self._tick}[/] {escape(text)}", soft_wrap=True)

    def command(self, text: str) -> None:
        """A command to copy: never wrapped."""
        self._console.print(f"       [cyan]{escape(text)}[/]", soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> None:
        """A small table; all but the first `left` columns are flush right."""
        table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
        for index, column in enumerate(columns):
            table.add_column(escape(column), justify="left" if index < left else "right", no_wrap=True)
        for row in rows:
            table.add_row(*(escape(cell) for cell in row))
        self._console.print(Padding(table, (0, 0, 0, 5), expand=False), soft_wrap=False)

    def failed(self, text: str) -> None:
        """Why the demo ends here."""
        where = f"in step {self._step} of {STEPS}" if self._step else "before its first step"
        self._console.print(f"\n[bold red]The demo failed {where}:[/] {escape(text)}", soft_wrap=True)

    @contextmanager
    def progress(self, label: str, total: int | None = None) -> Iterator[Advance]:
        """A bar for a piece of work; without `total` it shows that something moves. Yields what moves it."""
        began = time.perf_counter()
        done = 0
        with Progress(
            TextColumn("    "),
            SpinnerColumn(finished_text=f"[green]{self._tick}[/]"),
            TextColumn("{task.description}"),
            BarColumn(bar_width=28),
            TextColumn("{task.fields[amount]:>9}"),
            TimeElapsedColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        ) as bar:
            task: TaskID = bar.add_task(label, total=total, amount="")

            def advance(count: int) -> None:
                nonlocal done
                done += count
                bar.update(task, advance=count, amount=f"{done:,}")

            yield advance
            bar.update(task, total=done if total is None else total, completed=done if total is None else total)
        if not self._console.is_terminal:
            amount = f"{done:,} in " if done else ""
            self._console.print(f"     {escape(label)}: {amount}{time.perf_counter() - began:.1f} s", soft_wrap=True)


def bytes_text(size: int) -> str:
    """Bytes for people, in thousands and millions."""
    return f"{size / 1e6:,.1f} MB" if size >= 1_000_000 else f"{size / 1e3:,.1f} kB"
