"""A clock that stands still until it is told to move."""


class SimClock:
    """Time that passes only by `advance` (both clocks) and `jump` (the wall clock alone, as when someone sets it).

    >>> from pylog.testing import SimClock
    >>> clock = SimClock(wall_ms=1_700_000_000_000)
    >>> with pylog.open(":memory:", clock=clock) as timed:
    ...     record = timed.create_topic("orders")[0].append([pylog.Record(b"book")])
    ...     [record.timestamp for record in timed.topic("orders").records()]
    [1700000000000]
    """

    __slots__ = ("_tick_ms", "_wall_ms")

    def __init__(self, wall_ms: int = 0, tick_ms: int = 0) -> None:
        self._wall_ms = wall_ms
        self._tick_ms = tick_ms

    def __repr__(self) -> str:
        return f"SimClock(wall_ms={self._wall_ms}, tick_ms={self._tick_ms})"

    def wall_ms(self) -> int:
        """Milliseconds since 1970 UTC.

        >>> clock.wall_ms()
        1700000000000
        """
        return self._wall_ms

    def tick_ms(self) -> int:
        """Milliseconds that went by; never goes back.

        >>> clock.tick_ms()
        0
        """
        return self._tick_ms

    def advance(self, ms: int) -> None:
        """Let `ms` milliseconds pass. Raises ValueError when that is negative: time never goes back.

        >>> clock.advance(1000)
        >>> clock.wall_ms(), clock.tick_ms()
        (1700000001000, 1000)
        """
        if ms < 0:
            raise ValueError(f"{ms} ms: time does not go back; jump() sets the wall clock")
        self._wall_ms += ms
        self._tick_ms += ms

    def jump(self, ms: int) -> None:
        """Set the wall clock `ms` milliseconds ahead, or back; deadlines stay where they are.

        >>> clock.jump(-1000)
        >>> clock.wall_ms(), clock.tick_ms()
        (1699999999000, 0)
        """
        self._wall_ms += ms
