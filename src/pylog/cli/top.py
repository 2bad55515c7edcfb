"""`pylog top`: what goes on in a log, again and again: rates, sizes and lag.

    pylog top: data, 2 topics, 30,000 records, 4.1 MiB, 12 k records/s

    topic   partitions  records     size   in             bytes in
    clicks           6   20,000  3.1 MiB   12 k records/s  1.2 MiB/s

    group      state   members  lag   out
    analytics  Stable        2   87   11 k records/s

On a terminal it redraws until Ctrl-C; elsewhere, and with --json, each view follows the one before. It only looks.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count as numbers
from typing import NamedTuple, TypedDict

import click

from pylog.cli import commands
from pylog.cli.arguments import count
from pylog.cli.opening import looking
from pylog.cli.output import Column, is_terminal, live_text, print_line, rate_text, table_lines
from pylog.cli.params import json_option, option
from pylog.cli.place import LogPlace
from pylog.errors import GroupIdNotFound
from pylog.handles.any_log import AnyLog
from pylog.handles.topic_facts import TopicSize, sizes_of
from pylog.runtime.clock import SystemClock
from pylog.runtime.json_lines import json_line
from pylog.runtime.words import count_text, plural, size_text

__all__ = ["GroupLag", "Sample", "View", "command"]

TOPIC_COLUMNS = (
    Column("topic"), Column("partitions", True), Column("records", True), Column("size", True), Column("in", True),
    Column("bytes in", True),
)  # fmt: skip
GROUP_COLUMNS = (Column("group"), Column("state"), Column("members", True), Column("lag", True), Column("out", True))
INTERVAL_SECONDS = 2.0


class GroupLag(NamedTuple):
    """The lag of a group: the sums of what it has committed, and of what it has not read yet."""

    name: str
    state: str
    members: int
    committed: int
    lag: int


@dataclass(frozen=True, slots=True)
class Sample:
    """The counts at one moment, in ms of a clock that only goes forward."""

    at_ms: int
    topics: dict[str, TopicSize]
    groups: dict[str, GroupLag]


class TopicRow(TypedDict):
    """The facts of a topic, as they are printed."""

    topic: str
    partitions: int
    records: int
    bytes: int
    records_per_second: float | None
    bytes_per_second: float | None


class GroupRow(TypedDict):
    """The facts of a group, as they are printed."""

    group: str
    state: str
    members: int
    lag: int
    records_per_second: float | None


@dataclass(frozen=True, slots=True)
class View:
    """The latest sample, and the one before; rates are None where nothing was."""

    now: Sample
    before: Sample | None

    @property
    def _elapsed_ms(self) -> int:
        return max(1, self.now.at_ms - self.before.at_ms) if self.before is not None else 0

    def topics(self) -> list[TopicRow]:
        """The facts of each topic, those with the most that comes in first."""
        found: list[TopicRow] = []
        for one in self.now.topics.values():
            was = self.before.topics.get(one.name) if self.before is not None else None
            found.append({
                "topic": one.name, "partitions": one.partitions, "records": one.records, "bytes": one.bytes,
                "records_per_second": self._rate(one.appended, was and was.appended),
                "bytes_per_second": self._rate(one.bytes, was and was.bytes),
            })  # fmt: skip
        return sorted(found, key=lambda one: (-(one["records_per_second"] or 0), -one["bytes"], one["topic"]))

    def groups(self) -> list[GroupRow]:
        """The facts of each group, those that are furthest behind first."""
        found: list[GroupRow] = []
        for one in self.now.groups.values():
            was = self.before.groups.get(one.name) if self.before is not None else None
            found.append({
                "group": one.name, "state": one.state, "members": one.members, "lag": one.lag,
                "records_per_second": self._rate(one.committed, was and was.committed),
            })  # fmt: skip
        return sorted(found, key=lambda one: (-one["lag"], one["group"]))

    def _rate(self, now: int, before: int | None) -> float | None:
        """The growth per second. What is taken away, as by retention, is no rate."""
        return None if before is None else max(0, now - before) * 1000 / self._elapsed_ms

    def lines(self, where: str, most: int) -> list[str]:
        """The view as text, in at most so many lines, where that is 12 or more."""
        topics, groups = self.topics(), self.groups()
        records, size = sum(one["records"] for one in topics), sum(one["bytes"] for one in topics)
        head = f"pylog top: {where}, {plural(len(topics), 'topic')}, {plural(records, 'record')}, {size_text(size)}"
        if self.before is not None:
            head += f", {rate_text(round(sum(one['records_per_second'] or 0 for one in topics)), 1000)}"
        # Of the lines that are left, groups have half, or what topics leave.
        room = most - 6
        for_groups = min(len(groups), max(room // 2, room - len(topics)))
        found = [head, "", *_cut(table_lines(TOPIC_COLUMNS, [_topic_row(one) for one in topics]), room - for_groups)]
        if groups:
            found += ["", *_cut(table_lines(GROUP_COLUMNS, [_group_row(one) for one in groups]), for_groups)]
        return found


def _cut(lines: list[str], most: int) -> list[str]:
    """The names of the columns, and so many rows; the last one says how many more there are."""
    rows = len(lines) - 1
    return lines if rows <= most else [*lines[:most], f"and {rows - most + 1} more"]


def _topic_row(one: TopicRow) -> tuple[str, ...]:
    size = one["bytes_per_second"]
    return (
        one["topic"], count_text(one["partitions"]), count_text(one["records"]), size_text(one["bytes"]),
        _rate_text(one), "-" if size is None else f"{size_text(round(size))}/s",
    )  # fmt: skip


def _group_row(one: GroupRow) -> tuple[str, ...]:
    return one["group"], one["state"], count_text(one["members"]), count_text(one["lag"]), _rate_text(one)


def _rate_text(one: TopicRow | GroupRow) -> str:
    rate = one["records_per_second"]
    return "-" if rate is None else rate_text(round(rate), 1000)


@commands.command(
    "top",
    short_help="watch rates, sizes and lag",
    examples=(
        "pylog top",
        "pylog top --bootstrap 127.0.0.1:9092 --interval 5",
        "pylog top --json --iterations 2 | tail -1 | jq .groups[].lag",
    ),
)
@option(
    "--interval", type=click.FloatRange(min=0.05), default=INTERVAL_SECONDS, metavar="SECONDS",
    help=f"the time between two views (default: {INTERVAL_SECONDS:g})",
)  # fmt: skip
@option("--iterations", "-n", type=count, metavar="N", help="end after N views (default: with Ctrl-C)")
@json_option
def command(place: LogPlace, interval: float, iterations: int | None, as_json: bool) -> int:
    """Watch a log: how many records come in, how much is there, and how far groups are behind.

    On a terminal the view redraws; elsewhere one follows the other. Rates are from the second view on.
    """
    with looking(place) as log, suppress(KeyboardInterrupt):
        views = _views(log, interval, iterations)
        if is_terminal(sys.stdout) and not as_json:
            _draw(views, str(place))
            return 0
        for view in views:
            if as_json:
                print_line(json_line({"topics": view.topics(), "groups": view.groups()}))
            else:
                for line in [*view.lines(str(place), sys.maxsize), ""]:
                    print_line(line)
            sys.stdout.flush()
    return 0


def _views(log: AnyLog, interval: float, most: int | None) -> Iterator[View]:
    before = None
    for number in numbers() if most is None else range(most):
        if number > 0:
            time.sleep(interval)
        now = _sample(log)
        yield View(now, before)
        before = now


def _sample(log: AnyLog) -> Sample:
    topics = {one.name: one for one in sizes_of(log, log.topics())}
    groups = {}
    for listed in log.admin.list_groups():
        # A group may be deleted between two questions.
        with suppress(GroupIdNotFound):
            members = len(log.admin.describe_group(listed.group_id).members)
            lags = log.admin.lag(listed.group_id).values()
            committed, lag = sum(one.committed or 0 for one in lags), sum(one.lag or 0 for one in lags)
            groups[listed.group_id] = GroupLag(listed.group_id, listed.state, members, committed, lag)
    return Sample(SystemClock().tick_ms(), topics, groups)


def _draw(views: Iterator[View], where: str) -> None:
    from rich.console import Console
    from rich.live import Live

    console, lines = Console(), list[str]()
    with suppress(KeyboardInterrupt), Live(console=console, screen=True, auto_refresh=False) as live:
        for view in views:
            lines = view.lines(where, console.height)
            live.update(live_text(lines), refresh=True)
    # The last view stays where the screen is given back.
    for line in lines:
        print_line(line)
