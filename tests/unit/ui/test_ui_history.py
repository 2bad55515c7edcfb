"""Numbers of the last hour, and their lines."""

from typing import Any

import pytest

import pylog
from pylog.handles.topic_facts import Ends
from pylog.record import TopicPartition
from pylog.ui import history
from pylog.ui.history import LogHistory, level_line, rate_line
from pylog.ui.sampling import LogSample
from unit.ui.conftest import pages_of


def test_a_point_is_kept_each_half_minute_and_the_last_look() -> None:
    kept = LogHistory()
    assert kept.of("lag", "a") == []
    for second in range(0, 100, 10):
        kept.note(second * 1000, {("lag", "a"): second})
    assert kept.of("lag", "a") == [(0, 0), (30_000, 30), (60_000, 60), (90_000, 90)]
    kept.note(95_000, {("lag", "a"): 95, ("lag", "new"): 1})
    assert kept.of("lag", "a")[-1] == (95_000, 95)
    assert (kept.of("lag", "new"), kept.of("lag", "none")) == ([(95_000, 1)], [])


def test_what_comes_late_or_goes_has_the_points_of_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "POINTS_MAX", 3)
    kept = LogHistory()
    for minute in range(5):
        kept.note(minute * 60_000, {("lag", "a"): minute, **({("lag", "late"): 7} if minute == 4 else {})})
    assert kept.of("lag", "a") == [(120_000, 2), (180_000, 3), (240_000, 4)]
    assert kept.of("lag", "late") == [(240_000, 7)]
    kept.note(300_000, {("lag", "late"): 8})
    assert kept.of("lag", "a") == [] and kept.of("lag", "late") == [(240_000, 7), (300_000, 8)]


def test_lines_are_drawn_to_the_largest_number() -> None:
    level = level_line("Lag", [(0, 0), (60_000, 10), (240_000, 5)], "{:,.0f}".format)
    assert level is not None and level.points == "0.0,80.0 150.0,0.0 600.0,40.0"
    assert level.words == "Lag, the last 4 minutes: now 5, at most 10"
    rate = rate_line("Records/s", [(0, 0), (10_000, 100), (20_000, 50)], "{:.1f}".format)
    assert rate is not None and rate.points == "0.0,0.0 300.0,0.0 300.0,80.0 600.0,80.0"
    assert rate.words == "Records/s, the last minute: now 0.0, at most 10.0"
    flat = level_line("Lag", [(0, 0), (60_000, 0)], str)
    assert flat is not None and flat.points == "0.0,80.0 600.0,80.0"


def test_no_line_is_drawn_of_one_look() -> None:
    assert rate_line("Records/s", [(0, 1)], str) is level_line("Lag", [(0, 1)], str) is None


def test_the_pages_of_a_topic_and_a_group_have_lines(log: pylog.Log) -> None:
    pages = pages_of(log)
    state: Any = pages.app._app.state  # type: ignore[attr-defined]
    log.admin.alter_offsets("drawn", {TopicPartition("clicks", 0): 1})
    assert "<svg" not in pages.get("/topics/clicks").text
    for second, lag in ((0, 5), (10, 3)):
        ends = {TopicPartition("clicks", one): Ends(0, 10 * second, 1024 * second) for one in range(2)}
        state.history.note(second * 1000, LogSample(ends, {("drawn", "clicks"): lag, ("drawn", "x"): 1}).counted())
    words = pages.get("/topics/clicks").words
    assert (
        "Records/s, the last minute: now 20.0, at most 20.0" in words and "Growth/s, the last minute: now 2.0" in words
    )
    assert "Lag, the last minute: now 3, at most 5" in words
    answer = pages.get("/group?id=drawn")
    assert "Lag, the last minute: now 4, at most 6" in answer.words
    assert '<polyline points="0.0,0.0 600.0,26.7"/>' in answer.text and "style=" not in answer.text
