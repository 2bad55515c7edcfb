"""Group commit: what is appended to one partition waits together, is written together, and made durable by one sync.

    join     lead: gather -> append each -> sync -> answer        callers that wait: the first leads, the others sleep
    join     .                                                    callers with a callback: a thread leads for them

Nobody writes before he leads, or there would be as many waits for the partition's lock as callers. Whoever waits for an
answer and finds nobody at it leads: he appends and syncs for all who have joined by then, and lets one of those who
have joined since lead the next group. So a single caller does all of it himself, in his own thread; the thread here
exists for answers that nobody waits for. A producer's batch may get more records until it is appended.

Batches of this process that need no decision take the short way, `share`: the same lead, but a group of their own,
which the compiled kernel appends, syncs and wakes in a few steps.

Before it syncs, a leader of more than one gathers: it yields until as many have joined as the last time, or a third of
what a sync takes has passed. Without that two half groups take turns.

Invariants: batches are appended once, in the order in which they joined; a group is what had joined before its first
append; it is answered once, outside the lock, also when the sync fails; an interrupted leader leaves those it has not
answered to the next one, and what he may or may not have appended is DurabilityUnknown.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

from pylog.kernel import Appended, GroupAppends
from pylog.protocol.batch import Batch
from pylog.protocol.messages import Produced, ProducedPart, ProducePart
from pylog.replica import Leader
from pylog.runtime.future import Future
from pylog.runtime.signals import WHOLE, opened, whole
from pylog.runtime.worker import started

logger = logging.getLogger("pylog")


class PendingAppend(Future[Produced]):
    """The answer to a Produce of one part: whoever waits for it has it appended and made durable."""

    __slots__ = (
        "_gate",
        "asked",
        "begun",
        "broken",
        "leader",
        "needs_all",
        "part",
        "timeout_ms",
        "transactional_id",
        "wake",
    )

    def __init__(
        self,
        gate: "GroupCommit",
        asked: ProducePart,
        *,
        needs_all: bool,
        timeout_ms: int,
        transactional_id: str | None = None,
    ) -> None:
        super().__init__()
        self._gate = gate
        self.asked = asked
        self.needs_all = needs_all
        self.timeout_ms = timeout_ms
        self.transactional_id = transactional_id
        self.begun = False
        """Whether it may have been appended."""
        self.leader: Leader | None = None
        self.part: ProducedPart | None = None
        """What became of it, once that is known."""
        self.broken: Exception | None = None
        """What kept it from being appended, where that is no answer."""
        self.wake: Callable[[], None] | None = None
        """Wakes one of those who wait for this answer, to lead."""

    def add_done_callback(self, fn: Callable[[Future[Produced]], object]) -> None:
        """See `Future.add_done_callback`: a thread sees to it that the answer comes."""
        super().add_done_callback(fn)
        if not self._done:
            self._gate.call_thread()

    def _wait(self, timeout: float | None) -> None:
        self._gate.lead()
        if self._done:
            return
        deadline = None if timeout is None else time.monotonic() + timeout
        asleep = threading.Lock()
        asleep.acquire()

        def wake(_: object = None) -> None:
            with suppress(RuntimeError):  # awake already
                asleep.release()

        super().add_done_callback(wake)
        while not self.done():
            # Who leads now lets go of the lead before it looks for whom to wake.
            self.wake = wake
            self._gate.lead()
            if self.done():
                return
            woken = False
            try:
                with opened():
                    woken = asleep.acquire(timeout=-1 if deadline is None else max(deadline - time.monotonic(), 0))
            finally:
                if not woken:
                    # It may have been chosen to lead just now.
                    self.wake = None
                    self._forget(wake)
                    self._gate.call_thread()
            if not woken and not self.done():
                raise TimeoutError(f"no answer within {timeout} seconds")


class GroupCommit:
    """Where the appends to one partition wait. `settle` appends a group, makes it durable and visible, `answer`
    completes one of it; `call` lets a thread call `lead`. For those who share a sync, `ordinarily` appends what
    is not plain, and `show` makes visible what is durable.
    """

    def __init__(
        self, settle: Callable[[list[PendingAppend]], None], answer: Callable[[PendingAppend], None],
        call: Callable[["GroupCommit"], None],
        ordinarily: Callable[[Leader, Batch], Appended | None], show: Callable[[Leader], None],
    ) -> None:  # fmt: skip
        self._settle = settle
        self._answer = answer
        self._call = call
        self._called = False
        self._leading = threading.Lock()
        self._joined: deque[PendingAppend] = deque()
        self._sharing = GroupAppends(self._leading, WHOLE, ordinarily, show)
        self._expected = 1
        self._sync_seconds = 0.0

    def join(self, commit: PendingAppend) -> None:
        """Let `commit` be of the next group."""
        self._joined.append(commit)

    @whole
    def lead(self) -> None:
        """Make durable and answer what has joined, unless somebody is at it."""
        if not self._leading.acquire(blocking=False):
            return
        group: list[PendingAppend] = []
        try:
            self._gather()
            group = [self._joined.popleft() for _ in range(len(self._joined))]
            start = time.monotonic()
            if group:
                self._settle(group)
            self._sync_seconds = time.monotonic() - start
        except BaseException:
            self._joined.extendleft(reversed(group))
            raise
        finally:
            self._expected = len(group) + len(self._joined)
            self._leading.release()
            self._hand_over()
        raised: BaseException | None = None
        for commit in group:
            # Each whatever the callbacks of another raise.
            try:
                self._answer(commit)
            except BaseException as error:  # noqa: BLE001
                raised = error
        if raised is not None:
            raise raised

    def share(self, leader: Leader, batch: Batch, now_ms: int) -> Appended | None:
        """Append a batch that needs no decision, and share a sync with those of other threads; None where it has to
        `join`. Raises what the partition raises that cannot write or sync.
        """
        assert leader.epoch is not None, "the node takes an epoch before it appends"
        if self._joined:
            # Or those who share would pass the lead to each other for ever.
            return None
        try:
            return self._sharing.append(leader.partition.state, batch, leader.epoch, now_ms, leader)
        finally:
            if self._joined:
                # They came meanwhile, and found the lead taken.
                with WHOLE:
                    self._hand_over()

    def _gather(self) -> None:
        if self._expected > 1:
            deadline = time.monotonic() + self._sync_seconds / 3
            while len(self._joined) < self._expected and time.monotonic() < deadline:
                time.sleep(0)

    def _hand_over(self) -> None:
        """Let one of those who have joined meanwhile lead."""
        self._sharing.hand_over()
        for commit in self._joined.copy():
            wake = commit.wake
            if wake is not None:
                wake()
                return
        if self._joined:
            self.call_thread()

    def call_thread(self) -> None:
        """Let the thread lead: there is an answer that nobody may be waiting for."""
        if not self._called:
            with WHOLE:
                self._called = True
                self._call(self)

    def take_call(self) -> None:
        """The thread has come."""
        self._called = False
        self.lead()


class CommitThread:
    """Leads where nobody waits. It starts at the first call, and holds nothing whose loss matters."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[GroupCommit | None] = SimpleQueue()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def call(self, gate: GroupCommit) -> None:
        """Let the thread lead at `gate`."""
        self._calls.put(gate)
        if self._thread is None:
            with WHOLE, self._starting:
                if self._thread is None:
                    self._thread = started(self._run, "pylog-commit")
            if self._thread is None:
                # In the exit hook: whoever calls waits for it.
                with suppress(Empty):
                    while (waiting := self._calls.get_nowait()) is not None:
                        _take_call(waiting)

    def _run(self) -> None:
        while (gate := self._calls.get()) is not None:
            _take_call(gate)

    def close(self) -> None:
        """Stop the thread and wait for it, unless it is the caller."""
        self._calls.put(None)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()


def _take_call(gate: GroupCommit) -> None:
    try:
        gate.take_call()
    except BaseException:
        # A callback of the user's; there is no caller to tell, and others wait for this thread.
        logger.exception("a callback of an append raised")
