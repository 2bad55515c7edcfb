"""Progress of a command, where stderr is a terminal."""

import math
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from pylog.cli.output import is_terminal

if TYPE_CHECKING:
    from rich.progress import Progress, Task

__all__ = ["Meter"]

MEASURE_SECONDS = 0.1


class Meter:
    """Progress on stderr: a bar where the total is known, a running count where not.

    Nothing unless stderr is a terminal, or where `is_shown` says no: one types into that terminal. `total` is in
    bytes. A context manager: the bar goes when it ends, so that the summary stands alone.
    """

    def __init__(
        self, what: str, total: int | None, *, is_shown: bool = True, get_time: Callable[[], float] = time.monotonic
    ) -> None:
        self._progress: Progress | None = None
        self._task: Task | None = None
        self._get_time = get_time
        self._measure_at = -math.inf
        if is_shown and is_terminal(sys.stderr):
            # Loading rich takes longer than most commands run.
            from pylog.cli.bar import bar

            self._progress = bar(what, total, get_time)
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
