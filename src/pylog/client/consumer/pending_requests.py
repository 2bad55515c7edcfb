"""Messages of a client that are under way, and the one place where it waits for any of their answers.

    send      then, later, in the thread that calls `deliver`:  then(call, answer or error)
    wait      until an answer has come, somebody has rung, or the time is up

An answer that never comes is taken for RequestTimedOut: nothing waits for ever. Not thread-safe, but for `ring`.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from pylog.client.cluster import Cluster
from pylog.errors import Closed, PylogError, RequestTimedOut
from pylog.protocol.messages import Message
from pylog.runtime.clock import Clock, SteppedClock
from pylog.runtime.future import Future
from pylog.runtime.signals import opened

ANSWER_MS_SPARE = 30_000
"""How much longer than it was asked to a node may take."""

Then = Callable[["PendingRequest", Any], object]


@dataclass(slots=True, eq=False)
class PendingRequest:
    """A message under way."""

    future: Future[Any]
    deadline_ms: int
    then: Then

    @property
    def answer(self) -> Any:
        """The answer, or the PylogError that was one."""
        try:
            return self.future.result(0)
        except PylogError as error:
            return error


class PendingRequests:
    """What one client has under way."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._under_way: list[PendingRequest] = []
        self._is_over = False
        # Unlike an Event it may be rung from a signal handler, whatever the thread under it is at.
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._led: Future[Any] | None = None
        """The future whose work is done by the thread that waits."""

    def send(self, node: int, message: Message, then: Then, wait_ms: int = 0) -> PendingRequest:
        """Send; `deliver` calls `then` with the call and its answer. `wait_ms`: how long the node may keep it back."""
        future = self._cluster.send(node, message)
        call = PendingRequest(future, self._clock.tick_ms() + wait_ms + ANSWER_MS_SPARE, then)
        self._under_way.append(call)
        if not future.done():
            future.add_done_callback(self.ring)
        return call

    def deliver(self) -> bool:
        """Deal with the answers that are there; whether there were any."""
        if not self._under_way:
            return False
        came = False
        for call in list(self._under_way):
            is_answered = call.future.done()
            # What is called may send, deliver and forget in its turn.
            if call not in self._under_way or not (is_answered or self._clock.tick_ms() >= call.deadline_ms):
                continue
            self._under_way.remove(call)
            came = True
            call.then(call, call.answer if is_answered else RequestTimedOut("a node has not answered in time"))
        return came

    def forget(self, call: PendingRequest) -> None:
        """Nobody is interested in this answer any more."""
        if call in self._under_way:
            self._under_way.remove(call)

    def wait(self, timeout_ms: float) -> None:
        """Sleep until an answer is there or somebody has rung since the last wait, or for `timeout_ms`.

        Raises Closed where another thread has ended it.
        """
        if self._is_over:
            raise Closed("this consumer was closed while it waited")
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
            while not self._bell.empty():
                self._bell.get_nowait()

    def _lead(self, left_ms: float) -> float:
        """Do the work that an answer waits for, where the node leaves it to its caller; gives the time left."""
        future = next((call.future for call in self._under_way if not call.future.done()), None)
        if future is None:
            return left_ms
        begun_ms = self._clock.tick_ms()
        self._led = future
        try:
            # In this order: `ring` puts its mark first, and then ends what is led.
            if self._bell.empty():
                future.lead(left_ms / 1000)
        finally:
            self._led = None
        return max(0, left_ms - (self._clock.tick_ms() - begun_ms))

    def end(self) -> None:
        """Let whoever waits, or is about to, have Closed instead. From any thread."""
        self._is_over = True
        self.ring()

    def ring(self, _: object = None) -> None:
        """End the wait of now, or the next one. From any thread, and from signal handlers."""
        # One mark is enough, and a client that never waits shall not gather them.
        if self._bell.empty():
            self._bell.put(None)
        led = self._led
        if led is not None:
            led.stop_leading()
