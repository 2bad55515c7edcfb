"""Progress of a job on stderr, where a terminal watches."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class Bar:
    """A bar that counts offsets. A context manager: it goes when it ends."""

    def __init__(self, what: str, shown: bool | None) -> None:
        """`shown`: whether to show it; None: where stderr is a terminal."""
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=30), MofNCompleteColumn(), TimeElapsedColumn(),
            TimeRemainingColumn(), console=console, transient=True,
            disable=not (console.is_terminal if shown is None else shown),
        )  # fmt: skip
        self._task = self._progress.add_task(what, total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def show(self, done: int, total: int) -> None:
        """So many offsets are done, of so many."""
        self._progress.update(self._task, completed=done, total=total)
