"""The figures as a table on a terminal, and the words for their cells, which the document uses too."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

VERDICTS = {True: "holds", False: "does not hold", None: ""}
COLOURS = {"holds": "green", "does not hold": "red", "skipped": "yellow", "": ""}


def show(figures: Sequence[dict[str, Any]]) -> None:
    if not figures:
        return
    table = Table(title=title(figures[0]), title_justify="left")
    for name in ("workload", "figure", "pylog", "against", "it takes", "ratio", "target", "verdict"):
        table.add_column(name, justify="right" if name in ("pylog", "it takes", "ratio", "target") else "left")
    previous = ""
    for one in figures:
        table.add_section() if previous not in ("", one["workload"]) else None
        words = verdict(one)
        colour = COLOURS[words]
        table.add_row(
            "" if previous == one["workload"] else one["workload"], one["name"], *cells(one),
            f"[{colour}]{words}[/]" if colour else words,
        )  # fmt: skip
        previous = one["workload"]
    Console().print(table)


def title(one: dict[str, Any]) -> str:
    machine = one["machine"]
    return (
        f"kernel: {one['kernel']} · commit {one['commit'][:10]}{'+' if one['commit'].endswith('+') else ''} · "
        f"Python {one['python']} · {machine['cpus']} x {machine.get('cpu', '?')} · load {machine['load']}"
    )


def cells(one: dict[str, Any]) -> tuple[str, str, str, str, str]:
    """pylog, against, it takes, ratio, target."""
    unit = one["unit"]
    return (
        f"{number(one['value'])} {unit}" if one["value"] is not None else "",
        one["against"],
        f"{number(one['other'])} {unit}" if one["other"] is not None else "",
        f"{number(one['ratio'])} x" if one["ratio"] is not None else "",
        target(one),
    )


def target(one: dict[str, Any]) -> str:
    """The bound, with what it bounds: the speed, the time, or the figure itself."""
    if one["target"] is None:
        return ""
    return f"{one['target']} x" + (" the time" if one["sense"] == "time" else "") if one["sense"] else one["target"]


def verdict(one: dict[str, Any]) -> str:
    return "skipped" if one["skipped"] else VERDICTS[one["holds"]]


def number(value: float) -> str:
    """Three digits, without an exponent."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
