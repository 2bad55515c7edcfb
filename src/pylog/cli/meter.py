"""Progress of a command, where stderr is a terminal."""

import math
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from pylog.cli.output import is_terminal, plural, rate_text

__all__ = ["Meter"]

MEASURE_SECONDS = 0.1


class _RateColumn(ProgressColumn):
    """Records so far and per second."""

    def render(self, task: Task) -> Text:
        records = int(task.fields["records"])
        elapsed_ms = round((task.finished_time or task.elapsed or 0) * 1000)
        return Text(f"{plural(records, 'record')}  {rate_text(records, elapsed_ms)}", style="cyan")


class Meter:
    """Progress on stderr:

    a bar where the total is known, a running count where not; nothing unless stderr is a terminal.

    `total` is in bytes. A context manager: the bar goes when it ends, so that the summary stands alone.
    """

    def __init__(self, what: str, total: int | None, *, get_time: Callable[[], float] = time.monotonic) -> None:
        self._progress: Progress | None = None
        self._task: Task | None = None
        self._get_time = get_time
        self._measure_at = -math.inf
        if is_terminal(sys.stderr):
            ends = (TimeElapsedColumn(),) if total is None else (TaskProgressColumn(), TimeRemainingColumn())
            bar: ProgressColumn = SpinnerColumn() if total is None else BarColumn(bar_width=30)
            console = Console(stderr=True)
            self._progress = Progress(
                TextColumn("{task.description}"), bar, *ends, _RateColumn(), console=console, transient=True,
                get_time=get_time,
            )  # fmt: skip
            self._progress.add_task(what, total=total, records=0)
            self._task = self._progress.tasks[0]

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def update(self, size: int, records: int) -> None:
        """So many bytes and records by now. Cheap enough to be called for each record."""
        if self._task is None or self._progress is None:
            return
        self._task.fields["records"] = records
        now = self._get_time()
        if now >= self._measure_at:
            # The one way to move the bar: rich takes the speed, and from it the time that remains, from what has been
            # added here since the last time. It takes a lock, so it is not called for each record.
            self._progress.update(self._task.id, completed=size)
            self._measure_at = now + MEASURE_SECONDS
