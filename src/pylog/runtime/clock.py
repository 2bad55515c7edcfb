"""Time, as everything else gets it: two ints in milliseconds.

`wall_ms` is the time that is stored (record times, retention); it can jump. `tick_ms` is for deadlines and only rises.

Where the clock is a `SteppedClock`, waiting is its business, too: then no thread is started, and a caller that has to
wait lets everything else go on meanwhile, in its own thread. So a simulation runs clients and nodes as they are.
"""

import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

stopwatch_ns = time.monotonic_ns
"""For how long something took, in metrics: nothing is decided by it."""


class Clock(Protocol):
    """Where time comes from."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970 UTC."""

    def tick_ms(self) -> int:
        """Milliseconds since some moment in the past; never goes back."""


class SystemClock:
    """The machine's clocks."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def tick_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


class MovableClock(SystemClock):
    """The machine's clocks, ahead by as much as `advance` was told: for tests of time that real clients take part in.

    Threads sleep by the machine's clock. So who sleeps until a moment of this one asks by `on_move` to be told.
    """

    def __init__(self) -> None:
        self._ahead_ms = 0
        self._told: list[weakref.WeakMethod[Callable[[], object]]] = []

    def wall_ms(self) -> int:
        return super().wall_ms() + self._ahead_ms

    def tick_ms(self) -> int:
        return super().tick_ms() + self._ahead_ms

    def on_move(self, call: Callable[[], object]) -> None:
        """Call a bound method after each move, as long as its object lives."""
        self._told.append(weakref.WeakMethod(call))

    def advance(self, ms: int) -> None:
        """Move both clocks ahead. Raises ValueError when that is negative: time never goes back."""
        if ms < 0:
            raise ValueError(f"{ms} ms: time does not go back")
        self._ahead_ms += ms
        for told in list(self._told):
            call = told()
            if call is not None:
                call()


class SteppedClock(ABC):
    """The clock of a world in one thread, in which time passes only while a caller waits.

    What the clients' own calls wait for is waited for here. A future that is waited for blocks its thread, unless it is
    one of a transport that does as this clock does: `flush`, then look at the futures.
    """

    @abstractmethod
    def wall_ms(self) -> int:
        """Milliseconds since 1970 UTC."""

    @abstractmethod
    def tick_ms(self) -> int:
        """Milliseconds since some moment in the past; never goes back."""

    @abstractmethod
    def call_at(self, tick_ms: int, call: Callable[[], object]) -> None:
        """Call a function at that moment, while a caller waits, as a thread would that sleeps until then."""

    @abstractmethod
    def wait(self, is_over: Callable[[], bool], timeout_ms: float | None) -> bool:
        """Let the world go on until `is_over()`, or for so long; gives `is_over()`. What happens meanwhile may wait
        in its turn.
        """


def condition(clock: Clock | SteppedClock, lock: Any) -> threading.Condition:
    """A condition whose waits go by `clock`. `lock` is a lock of `threading`, or an object with the same methods."""
    return _SteppedCondition(clock, lock) if isinstance(clock, SteppedClock) else threading.Condition(lock)


class _SteppedCondition(threading.Condition):
    def __init__(self, clock: SteppedClock, lock: Any) -> None:
        super().__init__(lock)
        self._clock = clock
        self._told = 0

    def wait(self, timeout: float | None = None) -> bool:
        told = self._told
        self.release()
        try:
            return self._clock.wait(lambda: self._told != told, None if timeout is None else timeout * 1000)
        finally:
            self.acquire()

    def notify(self, n: int = 1) -> None:
        self._told += 1
