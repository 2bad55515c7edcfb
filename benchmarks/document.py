"""Writes the figures of the last run into docs/performance.md, between its marks, and draws docs/performance.svg.

Everything outside of the marks is written by hand and stays.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import results
import table

DOCS = Path(__file__).parents[1] / "docs"
BEGIN, END = "<!-- figures: written by make bench-docs -->\n", "<!-- end of figures -->\n"
GREEN, RED = "#2a7f3f", "#b3382c"


def write(workloads: Sequence[str]) -> int:
    """Give 1, and say why, where there is nothing to write."""
    figures = results.load(workloads)
    if not figures:
        print("there are no results: run make bench first", file=sys.stderr)
        return 1
    page = DOCS / "performance.md"
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    _, after = rest.split(END)
    page.write_text(before + BEGIN + "\n".join(lines(figures)) + "\n" + END + after, encoding="utf-8")
    draw([one for one in figures if one["target"] is not None and not one["skipped"]], DOCS / "performance.svg")
    return 0


def lines(figures: Sequence[dict[str, Any]]) -> Iterator[str]:
    told = [one for one in figures if one["target"] is not None]
    holding = sum(one["holds"] is True for one in told)
    yield ""
    yield f"**{holding} of {len(told)} targets hold.** {setting(figures)}"
    yield ""
    yield "![How far each figure is from its target](performance.svg)"
    yield ""
    yield "| workload | figure | pylog | against | it takes | ratio | rounds | target | |"
    yield "|---|---|---:|---|---:|---:|---:|---:|---|"
    previous = ""
    for one in figures:
        name = "" if one["workload"] == previous else f"[{one['workload']}](../benchmarks/{one['workload']}.py)"
        previous = one["workload"]
        *measured, target = table.cells(one)
        yield "| " + " | ".join((name, one["name"], *measured, spread(one), target, mark(one))) + " |"
    yield ""
    yield from notes(figures)
    yield from behind(figures)


def notes(figures: Sequence[dict[str, Any]]) -> Iterator[str]:
    """What has to be said of single figures."""
    said = [f"- {one['workload']}, {one['name']}: {one['note']}." for one in figures if one["note"]]
    if said:
        yield from ("What has to be said of some:", "", *said, "")


def mark(one: dict[str, Any]) -> str:
    words = table.verdict(one)
    return f"**{words}**" if words == "does not hold" else words


def spread(one: dict[str, Any]) -> str:
    """From the worst round to the best: how much the machine's noise leaves of a ratio."""
    rounds = one["rounds"]
    return f"{table.number(min(rounds))} to {table.number(max(rounds))}" if rounds else ""


def setting(figures: Sequence[dict[str, Any]]) -> str:
    one = figures[-1]
    machine, versions = one["machine"], one["versions"]
    commits = sorted({figure["commit"][:10] for figure in figures})
    kernels = sorted({figure["kernel"] for figure in figures})
    loads = [figure["machine"]["load"] for figure in figures]
    names = ", ".join(f"{name} {number}" for name, number in versions.items() if name != "pylog-commitlog")
    return (
        f"Kernel: {', '.join(kernels)}. Commit {', '.join(commits)}. {machine['cpus']} processors "
        f"({machine.get('cpu', 'unknown')}), {machine['system']}, load {min(loads)} to {max(loads)} at the end of a "
        f"workload; Python {one['python']}; {names}. Measured on {one['at'][:10]}."
    )


def behind(figures: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Where somebody else is ahead: said once more, in words, so that nobody has to search for it."""
    slower = [one for one in figures if one["sense"] == "speed" and one["ratio"] is not None and one["ratio"] < 1]
    yield "Where pylog is behind what it is held against:"
    yield ""
    if not slower:
        yield "- nowhere."
    for one in sorted(slower, key=lambda one: one["ratio"]):
        yield f"- {one['workload']}, {one['name']}: {one['against']} is {table.number(1 / one['ratio'])} times as fast."


def draw(figures: Sequence[dict[str, Any]], path: Path) -> None:
    """A bar a target: how far the figure is on the good side of it, or on the bad one."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text, and the file small
    matplotlib.rcParams["svg.hashsalt"] = "pylog"  # the same figures give the same file
    from matplotlib import pyplot

    names = [" / ".join(filter(None, (f"{one['workload']}: {one['name']}", one["against"]))) for one in figures]
    reached = [far(one) for one in figures]
    colours = [GREEN if value >= 1 else RED for value in reached]
    picture, axes = pyplot.subplots(figsize=(10, 0.26 * len(figures) + 1))
    axes.barh(names, [value - 1 for value in reached], left=1, color=colours)
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=1)
    axes.margins(y=0.01)
    axes.invert_yaxis()
    axes.set_xlabel("figure / target (target / figure where less is better): right of 1 the target holds")
    axes.tick_params(axis="y", labelsize=7)
    picture.tight_layout()
    picture.savefig(path, metadata={"Date": None})
    pyplot.close(picture)


def far(one: dict[str, Any]) -> float:
    """How many times as good as its target a figure is."""
    value = one["value"] if one["ratio"] is None else one["ratio"]
    if value is None:
        return 0.01
    is_most = one["target"].startswith("<=")
    share: float = one["bound"] / max(value, 1e-9) if is_most else value / one["bound"]
    return min(max(share, 0.01), 100.0)
