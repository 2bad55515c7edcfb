"""The machine's clock rises, and the simulated one does exactly what it is told."""

import threading
import time

import pytest

import pylog
from pylog.runtime.clock import Clock, MovableClock, SystemClock, condition
from pylog.testing import SimClock
from support.stepping import Steps

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


# --- a clock that is waited for in one thread ------------------------------------------------------------------------


def test_a_wait_on_a_condition_advances_the_simulated_clock() -> None:
    clock = Steps()
    lock = threading.Lock()
    told = condition(clock, lock)

    def tell() -> None:
        with lock:
            told.notify_all()

    clock.call_at(10, tell)
    with lock:
        assert told.wait(0.5)
        assert clock.tick_ms() == 10
        assert not told.wait(0.5)
        assert clock.tick_ms() == 510


def test_a_log_and_its_clients_need_no_thread() -> None:
    clock = Steps()
    threads = threading.active_count()
    with pylog.open(":memory:", clock=clock, flush="sync") as log:
        log.create_topic("t")
        with log.producer(transactional_id="x", linger_ms=20) as producer:
            producer.begin()
            producer.send("t", b"1")
            producer.commit()
        assert clock.tick_ms() <= 20
        other = log.producer(acks=0)
        future = other.send("t", b"2")
        other.flush(1)
        assert future.done()
        with log.consumer("t", group_id="g", auto_offset_reset="earliest") as consumer:
            assert [record.value for record in consumer.poll(100)] == [b"1", b"2"]
            before = clock.tick_ms()
            assert consumer.poll(300) == []
            assert clock.tick_ms() == before + 300
            consumer.commit()
    assert threading.active_count() == threads


class Sleeper:
    """Counts how often it was told that time has moved."""

    def __init__(self) -> None:
        self.told = 0

    def tell(self) -> None:
        self.told += 1


def test_a_clock_that_is_moved_tells_those_that_live() -> None:
    clock, sleeper, gone = MovableClock(), Sleeper(), Sleeper()
    clock.on_move(sleeper.tell)
    clock.on_move(gone.tell)
    del gone
    wall, tick = clock.wall_ms(), clock.tick_ms()

    clock.advance(60_000)

    assert sleeper.told == 1
    assert clock.wall_ms() >= wall + 60_000 and clock.tick_ms() >= tick + 60_000
    with pytest.raises(ValueError, match="time does not go back"):
        clock.advance(-1)
