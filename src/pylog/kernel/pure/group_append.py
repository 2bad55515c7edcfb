"""Group commit: the appends to one partition wait together, are written together, and share one sync.

    append   drive: gather -> append each -> tell -> sync -> show -> done      a thread that waits: one drives or sleeps
    join     .                                                 -> answer    an answer that comes later; `wait` may drive

The driver of a group is the thread that appends it. A thread writes nothing before it drives, or there would be as many
waits for the partition's lock as threads. A thread that waits and finds that no other drives does so: it appends and
syncs for all that have joined by then, and lets one of those that have joined since drive the next group. So a single
thread does all of it by itself.

Before it syncs, the driver of more than one gathers: it yields until as many have joined as the last time, or a third
of what a sync takes has passed. Without that two half groups take turns.

Invariants:

- Batches are appended once, in the order in which they joined, plain ones and others in their places.
- A group is everything that joined before its first append. Each of it is answered once, without `driving`, also when
  the sync fails.
- A batch of a thread that is interrupted while it waits is appended or not, as a whole: not, where its group had not
  begun. A thread that drives others is in a `whole` block, where no signal strikes.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any, Protocol

from pylog.kernel.pure.fast_append import AppendState
from pylog.kernel.pure.header import BatchHeader
from pylog.kernel.pure.tail import Appended

SLICE = 0.1
GATHER_SECONDS_MAX = 0.003


class Appendable(Protocol):
    """A partition that appends, syncs and shows."""

    @property
    def state(self) -> AppendState: ...
    @property
    def durable_offset(self) -> int: ...
    def sync(self) -> int: ...


class DriveLock(Protocol):
    """The lock of the thread that drives."""

    def acquire(self, blocking: bool = ...) -> bool: ...
    def release(self) -> None: ...


class AppendGroup:
    """Batches that are appended together; `answers` are theirs, in order, once it `is_done`."""

    def __init__(self) -> None:
        self.partition: Appendable | None = None
        self.batches: list[BatchHeader | None] = []
        self.pendings: list[object] = []
        self.answers: list[Appended | BaseException | None] = []
        self.error: BaseException | None = None
        self.drivers = 0
        """How many wait in a thread of their own, which may drive."""
        self.is_begun = False
        self.is_done = False
        self._asleep: deque[threading.Lock] = deque()

    def outcome(self, index: int) -> Appended | BaseException | None:
        """The answer to a batch: an Appended, an error, or None where nothing was done for it."""
        done = self.answers[index] if index < len(self.answers) else self.error
        is_appended = done is not None and not isinstance(done, BaseException)
        if self.error is not None and (is_appended or not isinstance(self.error, Exception)):
            return self.error
        return done

    def sleep(self, seconds: float) -> None:
        """Sleep until the group is done, or this thread is called, or for so long."""
        bed = threading.Lock()
        bed.acquire()
        self._asleep.append(bed)
        if not self.is_done:
            bed.acquire(timeout=max(seconds, 0))
        with suppress(ValueError):
            self._asleep.remove(bed)

    def call(self) -> None:
        """Wake one of the threads that sleep."""
        with suppress(IndexError):
            self._asleep.popleft().release()

    def finish(self) -> None:
        """Wake all of them, and let none sleep any more."""
        self.is_done = True
        while self._asleep:
            self.call()


class GroupAppends:
    """The group commit of one partition. Thread-safe.

    The thread that holds `driving` appends a group, in a `whole` block. `general(partition, pending, batch)` appends a
    batch that is not plain, or gives None where it has to go another way; in Python no batch is plain.
    `tell(partition)` lets followers have what is appended, before it is synced. `show(partition)` shows what is
    durable. `answer(pending, outcome)` tells what a batch that has joined has come to.
    """

    def __init__(
        self, driving: DriveLock, whole: AbstractContextManager[object],
        general: Callable[[Any, Any, Any], Appended | None], tell: Callable[[Any], None], show: Callable[[Any], None],
        answer: Callable[[Any, Appended | BaseException | None], None],
    ) -> None:  # fmt: skip
        self._driving = driving
        self._whole = whole
        self._general = general
        self._tell = tell
        self._show = show
        self._answer = answer
        self._joining = threading.Lock()
        self._open = AppendGroup()
        self._expected = 1
        self._sync_seconds = 0.0

    @property
    def lacks_driver(self) -> bool:
        """Whether the next group has something, and nothing of a thread that waits in `append`."""
        group = self._open
        return bool(group.batches) and not group.drivers

    def append(self, partition: Appendable, batch: BatchHeader, epoch: int, now_ms: int) -> Appended | None:
        """Append a batch as the leader of `epoch`, with those of other threads, make it durable and show it.

        None where `general` gives that: nothing was done then. Raises what the partition raises that cannot write or
        sync, and what a signal's handler does.
        """
        group, index = self._add(partition, batch, None)
        try:
            self._wait_until(group, None)
        except BaseException:
            self._leave(group, index)
            raise
        done = group.outcome(index)
        if isinstance(done, BaseException):
            raise done
        return done

    def join(self, partition: Appendable, batch: BatchHeader, epoch: int, now_ms: int, pending: object) -> AppendGroup:
        """Let a batch be of the next group, whose driver answers `pending`; gives the group."""
        return self._add(partition, batch, pending)[0]

    def wait(self, group: AppendGroup, timeout: float) -> bool:
        """Drive, or sleep until a group is done, for up to `timeout` seconds; gives whether it is done."""
        is_done = False
        try:
            is_done = self._wait_until(group, time.monotonic() + timeout)
        finally:
            if not is_done:
                # It may have been called to drive just now.
                group.call()
        return is_done

    def drive(self) -> None:
        """Drive the next group, unless it is empty or another thread drives."""
        self._drives()

    def hand_over(self) -> None:
        """Let a thread of the next group drive: no other does."""
        if self._open.batches:
            self._open.call()

    def _add(self, partition: Appendable, batch: BatchHeader, pending: object) -> tuple[AppendGroup, int]:
        with self._whole, self._joining:
            group = self._open
            group.partition = partition
            group.drivers += pending is None
            group.batches.append(batch)
            group.pendings.append(pending)
            return group, len(group.batches) - 1

    def _wait_until(self, group: AppendGroup, deadline: float | None) -> bool:
        while not group.is_done:
            if not group.is_begun and self._drives():
                continue
            left = SLICE if deadline is None else min(SLICE, deadline - time.monotonic())
            if left <= 0:
                return False
            group.sleep(left)
        return True

    def _leave(self, group: AppendGroup, index: int) -> None:
        """A signal's handler has raised: what is not appended stays so, and another one may have to drive."""
        with self._whole, self._joining:
            if not group.is_begun:
                group.batches[index] = None
                group.drivers -= 1
        group.call()

    def _drives(self) -> bool:
        # What holds `driving` may not lack memory before it is where it releases it.
        following = AppendGroup()
        with self._whole:
            if not self._open.batches or not self._driving.acquire(False):
                return False
            try:
                self._gather()
                began = time.monotonic()
            except BaseException:
                self._driving.release()
                raise
            self._drive_open(following, began)
        return True

    def _drive_open(self, following: AppendGroup, began: float) -> None:
        with self._joining:
            group, self._open = self._open, following
            group.is_begun = True
        try:
            try:
                is_appended = self._append_all(group)
            finally:
                self._driving.release()
            if is_appended:
                self._show(group.partition)
        except BaseException as error:  # noqa: BLE001 - it is told below
            group.error = error
        self._sync_seconds = time.monotonic() - began
        self._expected = max(len(group.batches) + len(self._open.batches), 1)
        group.finish()
        self.hand_over()
        self._answer_pendings(group)

    def _append_all(self, group: AppendGroup) -> bool:
        """Append each, and make all durable; gives whether there was anything."""
        for batch, pending in zip(group.batches, group.pendings, strict=True):
            try:
                group.answers.append(None if batch is None else self._general(group.partition, pending, batch))
            except BaseException as error:  # noqa: BLE001 - of this one alone
                group.answers.append(error)
        answers = [answer for answer in group.answers if answer is not None]
        ends = [answer.next_offset for answer in answers if not isinstance(answer, BaseException)]
        if group.partition is not None and ends:
            if group.partition.state.rules.has_followers:
                self._tell(group.partition)
            if max(ends) > group.partition.durable_offset:
                group.partition.sync()
        return bool(ends)

    def _answer_pendings(self, group: AppendGroup) -> None:
        raised: BaseException | None = None
        for index, pending in enumerate(group.pendings):
            if pending is not None:
                # Each whatever the callbacks of another raise.
                try:
                    self._answer(pending, group.outcome(index))
                except BaseException as error:  # noqa: BLE001
                    raised = error
        if group.error is not None and not isinstance(group.error, Exception):
            raised = group.error
        if raised is not None:
            raise raised

    def _gather(self) -> None:
        if self._expected > 1:
            deadline = time.monotonic() + min(self._sync_seconds / 3, GATHER_SECONDS_MAX)
            while len(self._open.batches) < self._expected and time.monotonic() < deadline:
                time.sleep(0)
