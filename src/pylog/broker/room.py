"""Produces to bounded queues that are full, whose policy is to block: they wait here until there is room.

They hold no thread. The node's worker tries them again when records were deleted by a call, and every few milliseconds
for what retention has dropped.

Invariant: the batches of a partition are appended in the order in which they came. While one waits, a later one that
would fit waits behind it: a producer may have both under way.
"""

from collections import deque
from collections.abc import Callable

from pylog.errors import PartitionFull
from pylog.protocol.messages import ProduceRequest, ProduceResponse
from pylog.record import TopicPartition
from pylog.runtime.clock import Clock
from pylog.runtime.future import Future
from pylog.runtime.signals import WholeLock

POLL_MS = 50
"""How often it is looked for what retention may have dropped."""
TICK_MAX = 2**63 - 1


class _Waiting(Future[ProduceResponse]):
    """The answer to a Produce of one part. `full`: what it is refused with when its time is up."""

    __slots__ = ("deadline_ms", "full", "is_abandoned", "message")

    def __init__(self, message: ProduceRequest, full: PartitionFull, deadline_ms: int) -> None:
        super().__init__()
        self.message, self.full, self.deadline_ms = message, full, deadline_ms
        self.is_abandoned = False

    def abandon(self) -> None:
        self.is_abandoned = True


class Room:
    """The Produces of one node that wait for room. Thread-safe.

    `again` appends one, or gives the error of a queue that is still full; `refuse` gives the answer to one whose time
    is up; `wake` is called when `due_ms` may have become earlier.
    """

    def __init__(
        self, clock: Clock, again: Callable[[ProduceRequest], Future[ProduceResponse] | PartitionFull],
        refuse: Callable[[ProduceRequest, PartitionFull], ProduceResponse], wake: Callable[[], object],
    ) -> None:  # fmt: skip
        self._clock = clock
        self._again, self._refuse, self._wake = again, refuse, wake
        self._lock = WholeLock()
        self._waiting: dict[TopicPartition, deque[_Waiting]] = {}
        """By partition, in the order in which they came. Who takes one out answers it: the worker, or a close."""
        self._is_closed = False
        self._look_ms = TICK_MAX
        self._latest_ms = TICK_MAX

    @property
    def due_ms(self) -> int | None:
        """When `work` has something to do; None while nothing waits."""
        return self._look_ms if self._waiting else None

    def is_awaited(self, topic: str, partition: int) -> bool:
        """Whether a Produce to this partition has to wait behind others."""
        return bool(self._waiting) and (topic, partition) in self._waiting

    def park(self, message: ProduceRequest, full: PartitionFull) -> Future[ProduceResponse]:
        """Answer a Produce of one part when there was room for it, or with `full` when its time is up."""
        ((topic, part),) = message.pairs
        now = self._clock.tick_ms()
        waiting = _Waiting(message, full, now + message.timeout_ms)
        with self._lock:
            is_closed = self._is_closed
            if not is_closed:
                self._waiting.setdefault(TopicPartition(topic.name, part.index), deque()).append(waiting)
                self._look_ms = min(self._look_ms, now + POLL_MS)
        if is_closed:
            self._give_up(waiting)
        else:
            self._wake()
        return waiting

    def note(self) -> None:
        """Records were deleted: look at once."""
        if self._waiting:
            self._look_ms = self._clock.tick_ms()
            self._wake()

    def hurry(self, deadline_ms: int) -> None:
        """Let no Produce wait longer than until then: a close is under way."""
        self._latest_ms = deadline_ms
        self.note()

    def work(self, now_ms: int) -> None:
        """Try those again that wait, and refuse those whose time is up."""
        if not self._waiting or now_ms < self._look_ms:
            return
        self._look_ms = now_ms + POLL_MS
        for key, queue in list(self._waiting.items()):
            while (first := self._taken(queue)) is not None:
                if not self._is_over(first):
                    self._put_back(queue, first)
                    break
            self._refuse_late(queue, now_ms)
            with self._lock:
                if not queue:
                    self._waiting.pop(key, None)

    def _taken(self, queue: deque[_Waiting]) -> _Waiting | None:
        """The first of a queue, for the one who takes it out to answer: a close may come at any time."""
        with self._lock:
            return queue.popleft() if queue else None

    def _put_back(self, queue: deque[_Waiting], first: _Waiting) -> None:
        with self._lock:
            if not self._is_closed:
                queue.appendleft(first)
                return
        self._give_up(first)

    def _give_up(self, waiting: _Waiting) -> None:
        waiting.set_result(self._refuse(waiting.message, waiting.full))

    def _is_over(self, first: _Waiting) -> bool:
        """Append the first one of its partition, unless the queue is full still."""
        if first.is_abandoned:
            return True
        try:
            again = self._again(first.message)
        except Exception as error:  # noqa: BLE001  (it is for the sender; the others are tried)
            first.set_exception(error)
            return True
        if isinstance(again, PartitionFull):
            first.full = again
            return False
        again.add_done_callback(lambda done: first.set_result(done.result()))
        return True

    def _refuse_late(self, queue: deque[_Waiting], now_ms: int) -> None:
        with self._lock:
            late = [one for one in queue if one.is_abandoned or now_ms >= min(one.deadline_ms, self._latest_ms)]
            for one in late:
                queue.remove(one)
        for one in late:
            if not one.is_abandoned:
                self._give_up(one)

    def close(self) -> None:
        """Refuse all that wait, and all that come."""
        with self._lock:
            self._is_closed = True
            waiting = [one for queue in self._waiting.values() for one in queue]
            for queue in self._waiting.values():
                queue.clear()
        for one in waiting:
            self._give_up(one)
