"""Group commit: the appends to one partition share syncs. The engine is `kernel.GroupAppends`; this is its policy.

    append    a thread that waits for its append: it drives, or sleeps until another thread has
    join      an append that is answered later, by a `PendingAppend`:
                  drive   a thread that waits for the answer, and says so, drives or sleeps like those that append
                  hurry   no thread is going to: the commit thread drives, at once
                  call    else the commit thread drives, soon

The driver of a group is the thread that appends, syncs, shows and answers all of it. Followers that wait are told
between the append and the sync, so their disks work at the same time. An answer with acks=all then waits for them in
the purgatory.

A caller that has sent something often waits for it next, and then drives faster than any other thread could be woken.
So the commit thread is not woken for an append: it looks every half millisecond while anything is appended, and sleeps
when that has ended. It is woken at once where a driver has answered a group and finds that more has joined, since no
other thread may wait for that. It begins with the first call, and holds nothing that a crash could lose.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from pylog.errors import ThreadsExhausted
from pylog.kernel import Appended, GroupAppends
from pylog.partition import Partition
from pylog.protocol.batch import Batch
from pylog.protocol.messages import ProduceRequest, ProduceResponse
from pylog.replica import Leader
from pylog.runtime.future import Future
from pylog.runtime.signals import SLICE, WHOLE, opened
from pylog.runtime.threads import started

if TYPE_CHECKING:
    from pylog.kernel.pure.group_append import AppendGroup


logger = logging.getLogger("pylog.broker")

LOOK_SECONDS = 0.0005
"""How often the commit thread looks while anything is appended."""
LOOKS_MAX = 40
"""After so many looks that have found nothing the commit thread sleeps until it is woken."""


class PendingAppend(Future[ProduceResponse]):
    """The answer to a Produce of one part that shares a sync: a thread that waits for it may `drive`."""

    __slots__ = ("group", "group_commit", "leader", "message")

    def __init__(self, group_commit: "GroupCommit", message: ProduceRequest, leader: Leader) -> None:
        super().__init__()
        # Its sender adds one at once: here that needs no lock.
        self._callbacks = deque()
        self.group_commit = group_commit
        self.message = message
        self.leader = leader
        """The leader that has appended it, or is to."""
        self.group: AppendGroup | None = None
        """The group of the engine that it is of."""

    def drive(self, timeout: float | None = None) -> None:
        """See `Future.drive`: append, sync and answer the group of this append, or sleep until another thread has."""
        deadline = None if timeout is None else time.monotonic() + timeout
        left: float | None = timeout
        while not self._done:
            if self.group_commit.wait(self.group, SLICE if left is None else min(left, SLICE)):
                return
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return
            with opened():
                # It may be a long wait, which a signal may end.
                pass

    def hurry(self) -> None:
        """See `Future.hurry`: wake the commit thread, which drives every group that no thread drives."""
        if not self._done:
            self.group_commit.hurry()


class GroupCommit:
    """The group commit of one partition. Thread-safe. `thread` drives where no other thread does.

    `general`, `tell`, `show` and `answer`: see `kernel.GroupAppends`.
    """

    def __init__(
        self, general: Callable[[Partition, PendingAppend | None, Batch], Appended | None],
        tell: Callable[[Partition], None], show: Callable[[Partition], None],
        answer: Callable[[PendingAppend, Appended | BaseException | None], None], thread: "CommitThread | None",
    ) -> None:  # fmt: skip
        self._thread = thread
        self.engine = GroupAppends(threading.Lock(), WHOLE, general, tell, show, answer)
        self.is_listed = False
        """True while it is on the list of the commit thread."""

    def append(self, leader: Leader, batch: Batch, now_ms: int) -> Appended | None:
        """See `GroupAppends.append`."""
        assert leader.epoch is not None, "the node takes an epoch before it appends"
        try:
            return self.engine.append(leader.partition, batch, leader.epoch, now_ms)
        finally:
            self._find_driver()

    def join(self, pending: PendingAppend, now_ms: int) -> None:
        """Let an append be of the next group: it is durable soon, also where no thread waits for it."""
        leader = pending.leader
        batch = pending.message.topic_data[0].partition_data[0].batch
        assert leader.epoch is not None and batch is not None, "the node takes an epoch before it appends"
        pending.group = self.engine.join(leader.partition, batch, leader.epoch, now_ms, pending)
        if self._thread is None:
            self.engine.drive()
        else:
            self._thread.look_at(self)

    def wait(self, group: "AppendGroup | None", timeout: float) -> bool:
        """See `GroupAppends.wait`."""
        try:
            assert group is not None, "it has joined one"
            return self.engine.wait(group, timeout)
        finally:
            self._find_driver()

    def drive(self) -> None:
        """Append, sync and answer everything that has joined, unless another thread is at it."""
        self.engine.drive()

    def hurry(self) -> None:
        """Have everything that has joined driven at once, unless another thread drives."""
        if self.engine.lacks_driver and self._thread is not None:
            self._thread.look_now(self)

    def _find_driver(self) -> None:
        """A group was answered, and that may have let more appends join: wake the commit thread where none waits for
        them.
        """
        if self.engine.lacks_driver and self._thread is not None:
            self._thread.look_now(self)


class CommitThread:
    """Drives where no thread waits. It starts at the first call."""

    def __init__(self) -> None:
        self._list: deque[GroupCommit] = deque()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._bed = threading.Lock()
        """Held while the thread has nothing to wake up for."""
        self._bed.acquire()
        self._is_looking = False
        """True while the thread looks again by itself."""
        self._closed = False

    def look_at(self, group_commit: GroupCommit) -> None:
        """Have what has joined driven soon."""
        self._note(group_commit)
        if not self._is_looking:
            self._wake(group_commit)

    def look_now(self, group_commit: GroupCommit) -> None:
        """Have what has joined driven as soon as the thread can."""
        self._note(group_commit)
        self._wake(group_commit)

    def _note(self, group_commit: GroupCommit) -> None:
        if not group_commit.is_listed:
            group_commit.is_listed = True
            self._list.append(group_commit)

    def _wake(self, group_commit: GroupCommit) -> None:
        with WHOLE:
            if self._thread is None:
                with self._starting:
                    if self._thread is None:
                        with suppress(ThreadsExhausted):  # the next call tries again
                            self._thread = started(self._run, "pylog-commit")
            if self._thread is None:
                # The appends have joined already: the caller drives, when no other thread does.
                _drive(group_commit)
                while group_commit.engine.lacks_driver:
                    time.sleep(LOOK_SECONDS)
                    _drive(group_commit)
                return
            self._is_looking = True
            with suppress(RuntimeError):  # awake already
                self._bed.release()

    def _run(self) -> None:
        looks = 0
        while not self._closed:
            is_called = self._bed.acquire(timeout=LOOK_SECONDS if looks < LOOKS_MAX else -1)
            try:
                looks = 0 if self._drive_all() or is_called else looks + 1
            except MemoryError:
                # There was none to say what a callback raised: look again.
                looks = 0
            if looks == LOOKS_MAX:
                self._is_looking = False
                if self._list:
                    # It came in between, from a caller that was told that this thread looks.
                    self._is_looking, looks = True, 0

    def _drive_all(self) -> bool:
        """Drive wherever an append lacks a driver; gives whether there was any."""
        found = False
        for _ in range(len(self._list)):
            group_commit = self._list.popleft()
            group_commit.is_listed = False
            if group_commit.engine.lacks_driver:
                found = True
                _drive(group_commit)
                if group_commit.engine.lacks_driver:
                    # Another thread drives, or more has joined.
                    self._note(group_commit)
        return found

    def close(self) -> None:
        """Stop the thread and wait for it, unless it is the caller."""
        self._closed = True
        with suppress(RuntimeError):  # awake already
            self._bed.release()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()


def _drive(group_commit: GroupCommit) -> None:
    try:
        group_commit.drive()
    except BaseException:
        # A callback of the user's; there is no caller to tell, and others wait for this thread.
        logger.exception("a callback of an append raised")
