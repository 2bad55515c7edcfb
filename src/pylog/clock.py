"""Time, as everything else gets it: two ints in milliseconds.

`wall_ms` is what is written down (record times, retention); it can jump. `tick_ms` is for deadlines and only rises.
"""

import time
from typing import Protocol


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
