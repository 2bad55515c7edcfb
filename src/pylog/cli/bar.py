"""The bar that `meter` shows on a terminal, by rich."""

from collections.abc import Callable

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

from pylog.cli.output import rate_text
from pylog.runtime.words import plural

__all__ = ["bar"]


class _RateColumn(ProgressColumn):
    """Records so far and per second."""

    def render(self, task: Task) -> Text:
        records = int(task.fields["records"])
        elapsed_ms = round((task.finished_time or task.elapsed or 0) * 1000)
        return Text(f"{plural(records, 'record')}  {rate_text(records, elapsed_ms)}", style="cyan")


def bar(what: str, total: int | None, get_time: Callable[[], float]) -> Progress:
    """A bar on stderr with one task; a spinner where the total is not known. Start it."""
    ends = (TimeElapsedColumn(),) if total is None else (TaskProgressColumn(), TimeRemainingColumn())
    first: ProgressColumn = SpinnerColumn() if total is None else BarColumn(bar_width=30)
    made = Progress(
        TextColumn("{task.description}"), first, *ends, _RateColumn(), console=Console(stderr=True), transient=True,
        get_time=get_time,
    )  # fmt: skip
    made.add_task(what, total=total, records=0)
    return made
