"""The requests of a client that are in flight, and the one place where it waits for any of their answers.

    add       then, later, in the thread that calls `deliver`:  then(request, answer or error)
    answer    in rounds: the answer of one request; the answers of the others stay for `deliver`
    run       carry a call in rounds on in this thread
    wait      until an answer has come, `ring` was called, or the time is up

Calls are in rounds (`runtime/rounds`). An event loop carries them on itself: `listener` tells it of each ring, and
`take_rings` takes the place of `wait`.

An answer that never comes becomes RequestTimedOut: nothing waits for ever. Not thread-safe, except `ring` and `end`.
"""

from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from pylog.errors import Closed, PylogError, RequestTimedOut
from pylog.runtime.clock import Clock, SteppedClock
from pylog.runtime.future import Future
from pylog.runtime.rounds import Pause, Rounds
from pylog.runtime.signals import opened
from pylog.transport import PendingAnswer

T = TypeVar("T")

CLOSED = "this consumer is closed"
ANSWER_MS_SPARE = 30_000
"""How much longer than it was asked to a node may take."""


@dataclass(slots=True, eq=False)
class PendingRequest:
    """A request in flight."""

    future: PendingAnswer
    deadline_ms: int
    then: "Callable[[PendingRequest, Any], object]"


class PendingRequests:
    """The requests of one client that are in flight. `who` answers them, for a message."""

    def __init__(self, clock: Clock, who: Callable[[], str]) -> None:
        self.who = who
        self.is_ended = False
        """True once `end` was called: the client is closed."""
        self.listener: Callable[[], object] | None = None
        """Is called by each ring that begins to count: nothing was rung since the last wait."""
        self._clock = clock
        self._in_flight: list[PendingRequest] = []
        # Unlike an Event it may be rung from a signal handler, whatever the interrupted thread is at.
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._driven: PendingAnswer | None = None
        """The future whose work the waiting thread does."""

    def add(
        self, future: Future[T], then: Callable[[PendingRequest, T | PylogError], object], wait_ms: int = 0
    ) -> PendingRequest:
        """Let `deliver` call `then` with the request and its answer. `wait_ms`: how long the node may keep it."""
        request = PendingRequest(future, self._clock.tick_ms() + wait_ms + ANSWER_MS_SPARE, then)
        self._in_flight.append(request)
        if not future.done():
            future.add_done_callback(self.ring)
        return request

    def deliver(self) -> bool:
        """Deal with the answers that are there; whether there were any."""
        if not self._in_flight:
            return False
        came = False
        for request in self._in_flight.copy():
            future = request.future
            is_answered = future.done()
            # `then` may send, deliver and forget in its turn.
            if request not in self._in_flight or not (is_answered or self._clock.tick_ms() >= request.deadline_ms):
                continue
            self._in_flight.remove(request)
            came = True
            try:
                answer = future.result() if is_answered else RequestTimedOut(f"{self.who()} has not answered in time")
            except PylogError as error:
                answer = error
            request.then(request, answer)
        return came

    def forget(self, request: PendingRequest) -> None:
        """Let the answer be of no interest."""
        if request in self._in_flight:
            self._in_flight.remove(request)

    def answer(self, future: Future[T], seconds: float) -> Rounds[T]:
        """The answer of a request that was not added. Raises its error, and TimeoutError."""
        if not future.done():
            future.add_done_callback(self.ring)
        deadline_ms = self._clock.tick_ms() + seconds * 1000
        while not future.done():
            left_ms = deadline_ms - self._clock.tick_ms()
            if left_ms <= 0:
                raise TimeoutError(f"no answer within {seconds} seconds")
            yield left_ms
        return future.result()

    def run(self, rounds: Rounds[T]) -> T:
        """The answer of a call, which waits in this thread. Raises what the call does, and what `wait` does."""
        try:
            pause = next(rounds)
            while True:
                try:
                    self._pause(pause)
                except BaseException as error:  # noqa: BLE001 - the call sees it
                    pause = rounds.throw(error)
                else:
                    pause = next(rounds)
        except StopIteration as end:
            value: T = end.value
            return value

    def _pause(self, pause: Pause) -> None:
        if isinstance(pause, int | float):
            self.wait(pause)
        elif isinstance(pause, Coroutine):
            pause.close()
            raise TypeError("a listener's method is a coroutine: only a consumer of pylog.aio awaits it")

    def wait(self, timeout_ms: float) -> None:
        """Sleep until an answer is there, `ring` was called since the last wait, or for `timeout_ms`.

        A future whose work is left to a waiting caller (`Future.drive`) is driven meanwhile. Raises Closed where
        another thread has called `end`.
        """
        self._check_not_ended()
        left_ms = max(timeout_ms, 0)
        if isinstance(self._clock, SteppedClock):
            self._clock.wait(lambda: not self._bell.empty(), left_ms)
            left_ms = 0
        else:
            left_ms = self._lead(left_ms)
        with suppress(Empty):
            if self._bell.empty():
                with opened():
                    self._bell.get(timeout=left_ms / 1000)
            self._silence()

    def take_rings(self) -> bool:
        """Whether there is no need to wait: `ring` was called since the last wait. Raises Closed as `wait` does."""
        self._check_not_ended()
        is_rung = not self._bell.empty()
        with suppress(Empty):
            self._silence()
        return is_rung

    def hurry(self) -> None:
        """No thread waits here: let the work of the answers begin in the threads that are there for it."""
        for request in self._in_flight.copy():
            if not request.future.done():
                request.future.hurry()

    def _check_not_ended(self) -> None:
        if self.is_ended:
            raise Closed("this consumer was closed while it waited")

    def _silence(self) -> None:
        while not self._bell.empty():
            self._bell.get_nowait()

    def _lead(self, left_ms: float) -> float:
        """Lead the first future that is not done; gives the time left."""
        future = next((request.future for request in self._in_flight if not request.future.done()), None)
        if future is None:
            return left_ms
        begun_ms = self._clock.tick_ms()
        self._driven = future
        try:
            # `ring` puts its mark first, and then ends the drive: this order misses no call of it.
            if self._bell.empty():
                future.drive(left_ms / 1000)
        finally:
            self._driven = None
        return max(0, left_ms - (self._clock.tick_ms() - begun_ms))

    def check_open(self) -> None:
        """Raise Closed after `end`."""
        if self.is_ended:
            raise Closed(CLOSED)

    def end(self) -> None:
        """Let the wait of now, and all that come, raise Closed. From any thread."""
        self.is_ended = True
        self.ring()

    def ring(self, _: object = None) -> None:
        """End the wait of now, or the next one. From any thread, and from signal handlers."""
        # One mark is enough, and a client that never waits shall not gather them.
        if self._bell.empty():
            self._bell.put(None)
            listener = self.listener
            if listener is not None:
                listener()
        driven = self._driven
        if driven is not None:
            driven.stop_driving()
