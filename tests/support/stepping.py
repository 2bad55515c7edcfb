"""A world in one thread with nothing in it but what is called at its time."""

import heapq
from collections.abc import Callable

from pylog.runtime.clock import SteppedClock


class Steps(SteppedClock):
    """Time passes where somebody waits, up to what is called next."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.calls: list[tuple[int, int, Callable[[], object]]] = []
        self.count = 0

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + self.now_ms

    def tick_ms(self) -> int:
        return self.now_ms

    def call_at(self, tick_ms: int, call: Callable[[], object]) -> None:
        self.count += 1
        heapq.heappush(self.calls, (tick_ms, self.count, call))

    def wait(self, is_over: Callable[[], bool], timeout_ms: float | None) -> bool:
        assert timeout_ms is not None
        until_ms = self.now_ms + int(timeout_ms)
        while not is_over() and self.calls and self.calls[0][0] <= until_ms:
            tick_ms, _, call = heapq.heappop(self.calls)
            self.now_ms = max(self.now_ms, tick_ms)
            call()
        if not is_over():
            self.now_ms = until_ms
        return is_over()
