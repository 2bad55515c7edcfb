"""A clock that stands still until it is told to move."""


class SimClock:
    """Time that passes only by `advance` (both clocks) and `jump` (the wall clock alone, as when someone sets it)."""

    __slots__ = ("_tick_ms", "_wall_ms")

    def __init__(self, wall_ms: int = 0, tick_ms: int = 0) -> None:
        self._wall_ms = wall_ms
        self._tick_ms = tick_ms

    def __repr__(self) -> str:
        return f"SimClock(wall_ms={self._wall_ms}, tick_ms={self._tick_ms})"

    def wall_ms(self) -> int:
        """Milliseconds since 1970 UTC."""
        return self._wall_ms

    def tick_ms(self) -> int:
        """Milliseconds that went by; never goes back."""
        return self._tick_ms

    def advance(self, ms: int) -> None:
        """Let `ms` milliseconds pass. Raises ValueError when that is negative: time never goes back."""
        if ms < 0:
            raise ValueError(f"{ms} ms: time does not go back; jump() sets the wall clock")
        self._wall_ms += ms
        self._tick_ms += ms

    def jump(self, ms: int) -> None:
        """Set the wall clock `ms` milliseconds ahead, or back; deadlines stay where they are."""
        self._wall_ms += ms
