"""Changes of topics cost the same, however many topics there are."""

import gc
import sys
from collections.abc import Callable

import pytest

import pylog
from pylog.testing import SimClock

CHANGES: dict[str, Callable[[pylog.Log, int], object]] = {
    "create": lambda log, _: log.create_topic("made"),
    "delete": lambda log, number: log.delete_topic(f"t_{number}.x"),
    "alter": lambda log, _: log.alter_config("t_0.x", {"retention.ms": 7}),
    "grow": lambda log, _: log.create_partitions("t_0.x", 3),
}


def calls(change: Callable[[pylog.Log, int], object], log: pylog.Log, number: int) -> int:
    """The calls of functions, of Python and of C, that a change makes in this thread."""
    counted = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        change(log, number)
    finally:
        sys.setprofile(before)
    return counted


def filled(count: int) -> pylog.Log:
    log = pylog.open(":memory:", clock=SimClock())
    for number in range(count):
        log.create_topic(f"t_{number}.x")
    return log


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_with_many_topics_makes_as_many_calls_as_with_few(name: str) -> None:
    made = []
    for count in (2, 10, 300):
        with filled(count) as log:
            gc.collect()
            made.append(calls(CHANGES[name], log, count - 1))
    _, few, many = made
    assert many <= few * 1.15, f"{many} calls with 300 topics, {few} with 10"
