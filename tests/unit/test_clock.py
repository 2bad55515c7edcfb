"""The machine's clock rises, and the simulated one does exactly what it is told."""

import time

import pytest

from pylog.clock import Clock, SystemClock
from pylog.testing import SimClock

CLOCKS: list[Clock] = [SystemClock(), SimClock()]


def test_system_clock_is_the_machines() -> None:
    before = time.time_ns() // 1_000_000
    wall = SystemClock().wall_ms()
    assert before <= wall <= time.time_ns() // 1_000_000


def test_ticks_never_go_back() -> None:
    clock = SystemClock()
    ticks = [clock.tick_ms() for _ in range(1000)]
    assert ticks == sorted(ticks)


@pytest.mark.parametrize("clock", CLOCKS, ids=lambda clock: type(clock).__name__)
def test_times_are_whole_milliseconds(clock: Clock) -> None:
    assert isinstance(clock.wall_ms(), int)
    assert isinstance(clock.tick_ms(), int)


def test_sim_clock_stands_still_and_advances() -> None:
    clock = SimClock(wall_ms=1_700_000_000_000, tick_ms=5)
    assert (clock.wall_ms(), clock.tick_ms()) == (1_700_000_000_000, 5)
    clock.advance(250)
    clock.advance(0)
    assert (clock.wall_ms(), clock.tick_ms()) == (1_700_000_000_250, 255)


def test_sim_clock_jumps_without_passing_time() -> None:
    clock = SimClock(wall_ms=1000)
    clock.jump(-400)
    assert (clock.wall_ms(), clock.tick_ms()) == (600, 0)


def test_sim_clock_does_not_go_back() -> None:
    clock = SimClock(wall_ms=10)
    with pytest.raises(ValueError, match="go back"):
        clock.advance(-1)
    assert clock.wall_ms() == 10
