"""The life of a producer: its lock, the threads that wait in it, and what it has come to."""

import threading
from collections.abc import Callable

from pylog.client.transaction_manager import unusable
from pylog.config import ProducerConfig
from pylog.errors import Closed
from pylog.runtime.clock import Clock, condition
from pylog.runtime.signals import WholeLock, wait_at

CLOSED = "this producer is closed"


class Lifetime:
    """The lock of a producer and its end. All fields are guarded by the lock."""

    def __init__(self, config: ProducerConfig, clock: Clock) -> None:
        self.clock = clock
        self.closed = False
        """True once a close has begun."""
        self.closer: int | None = None
        """The thread that closes it."""
        self.is_over = False
        """True once a close has ended."""
        self.fatal: BaseException | None = None
        """The error after which nothing can be sent."""
        self.is_abandoned = False
        """True in a forked child: the producer belongs to the parent."""
        self._block_ms = config.max_block_ms
        self._make_lock()

    def _make_lock(self) -> None:
        self.lock = WholeLock()
        self._changed = condition(self.clock, self.lock)
        self.waiting = 0
        """How many threads and event loops wait for a change."""
        self._listeners: list[Callable[[], object]] = []

    def check_open(self) -> None:
        """Raise Closed once a close has begun."""
        if self.is_abandoned:
            raise Closed("this producer was made before the process forked: make another one in the child")
        if self.closed:
            raise Closed(CLOSED)

    def check_usable(self) -> None:
        """Raise Closed, and what `unusable` makes of a fatal error."""
        self.check_open()
        if self.fatal is not None:
            raise unusable(self.fatal) from self.fatal

    def deadline(self, timeout: float | None) -> int:
        """The tick at which so many seconds are over (None: `max_block_ms`)."""
        seconds = self._block_ms / 1000 if timeout is None else timeout
        return self.clock.tick_ms() + round(min(seconds, threading.TIMEOUT_MAX) * 1000)

    def wait(self, seconds: float | None) -> None:
        """Wait, with the lock held, until `note_change` is called; it may return early, so look again."""
        self.waiting += 1
        try:
            wait_at(self._changed, seconds)
        finally:
            self.waiting -= 1

    def wait_firmly(self, seconds: float) -> None:
        """The same where no signal may strike."""
        self.waiting += 1
        try:
            self._changed.wait(seconds)
        finally:
            self.waiting -= 1

    def note_change(self) -> None:
        """Wake what waits, with the lock held."""
        if self.waiting:
            self._changed.notify_all()
            for listener in self._listeners:
                listener()

    def listen(self, listener: Callable[[], object]) -> None:
        """Have `listener` called at each change, with the lock held, until `listen_no_more`: in whatever thread."""
        with self.lock:
            self.waiting += 1
            self._listeners.append(listener)

    def listen_no_more(self, listener: Callable[[], object]) -> None:
        """Undo `listen`."""
        with self.lock:
            self.waiting -= 1
            self._listeners.remove(listener)

    def abandon(self) -> None:
        """Refuse everything in a forked child: the locks may have been held by threads that do not exist here."""
        self._make_lock()
        self.closed = self.is_abandoned = True
