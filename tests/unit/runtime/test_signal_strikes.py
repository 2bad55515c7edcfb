"""Signals that strike at each line of the beginning and the end of a block: no handler is lost, and none stays out."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import suppress
from types import FrameType
from typing import Any

import pytest

from pylog.runtime import signals
from pylog.runtime.signals import FIRM, SIGNALS, WHOLE, WholeLock, opened
from support.sampling import DEEP, every

# SIGALRM strikes, SIGUSR1 and SIGINT are to be kept, and the others have no handler of Python's.
STRIKING, OTHER = signal.SIGALRM, signal.SIGUSR1
LINES_MOST = 600


class StruckError(BaseException):
    """What the handler of a signal raises."""


class OwnLock:
    """A lock that says at once where its own thread would wait for ever."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        assert self._lock.acquire(False), "a handler runs while the lock is held: it would wait for ever"
        return True

    def release(self) -> None:
        self._lock.release()


class World:
    """A block that is struck, and the handlers that a program has: `expected` is what it has installed."""

    def __init__(self, act: str) -> None:
        self.lock = WholeLock(OwnLock())
        self.act = act
        self.runs = 0
        self.interrupted = 0
        self.expected: dict[int, Any] = {number: signal.getsignal(number) for number in SIGNALS}
        self.install(signal.SIGINT, self.interrupt)
        self.install(STRIKING, self.handle)
        self.install(OTHER, lambda number, frame: None)
        self.install(signal.SIGHUP, signal.SIG_IGN)
        self.install(signal.SIGUSR2, signal.SIG_DFL)

    def install(self, number: int, handler: Any) -> Any:
        self.expected[number] = handler
        return signal.signal(number, handler)

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        self.interrupted += 1

    def handle(self, number: int, frame: FrameType | None) -> None:
        self.runs += 1
        if self.act == "raises":
            raise StruckError
        if self.act in ("uses", "does all"):
            with self.lock:
                self.check_shielded(exactly=False)
                if self.runs < 3:
                    signal.raise_signal(STRIKING)
        if self.act in ("changes", "does all") and self.runs < 6:
            # One of another signal, a chain before one, its own, and one where there was none.
            self.install(OTHER, lambda number, frame: None)
            chained: list[Any] = []

            def interrupt(number: int, frame: FrameType | None) -> None:
                chained[0](number, frame)

            chained.append(self.install(signal.SIGINT, interrupt))
            # A bound method is another object each time.
            self.install(STRIKING, self.handle)
            free = (signal.SIG_DFL, lambda number, frame: None)[self.runs % 2]
            self.install(signal.SIGUSR2, free)

    def check_shielded(self, *, exactly: bool = True) -> None:
        """`exactly`: not in a handler. It may strike between an exchange and that of a handler which was changed in the
        call before: until the next call the one before that is there.
        """
        assert WHOLE.depth
        for number, handler in self.expected.items():
            found = signal.getsignal(number)
            if callable(handler):
                assert isinstance(found, signals._Note) and (not exactly or found.behind is handler), (number, found)
            else:
                assert found == handler, (number, found)

    def check_free(self) -> None:
        assert (WHOLE.depth, WHOLE.firm, signals._pending) == (0, 0, {})
        found = {number: signal.getsignal(number) for number in SIGNALS}
        assert found == self.expected, "a handler is not what the program has installed"

    def block(self) -> None:
        with WHOLE:
            self.check_shielded()
            with opened():
                pass
            self.check_shielded()
            with self.lock:
                self.check_shielded()
        with self.lock:
            self.check_shielded()
        with FIRM:
            self.check_shielded()
            with opened(), WHOLE:
                self.check_shielded()
            self.check_shielded()

    def strike_at(self, places: tuple[int, ...]) -> int:
        """Run the block, and strike before these lines of `runtime/signals`; gives how many there are."""
        seen, tracing = 0, sys.gettrace()

        def trace(frame: FrameType, event: str, argument: object) -> Any:
            nonlocal seen
            if frame.f_globals is not signals.__dict__:
                return None
            if event in ("call", "line"):
                seen += 1
                for _ in range(places.count(seen)):
                    signal.raise_signal(STRIKING)
            return trace

        sys.settrace(trace)
        try:
            self.block()
        finally:
            sys.settrace(tracing)
        return seen


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    assert WHOLE.depth == 0
    for number, handler in before.items():
        signal.signal(number, handler)
    with WHOLE:
        pass


def judge(act: str, places: tuple[int, ...]) -> int:
    world = World(act)
    lines = LINES_MOST
    with suppress(StruckError):
        lines = world.strike_at(places)
    assert world.runs or lines < places[0], "a signal is lost"
    # SIGINT does what the program wants at once, whatever is in its place.
    signal.raise_signal(signal.SIGINT)
    assert world.interrupted == 1
    if act == "raises" and len(places) > 1:
        # The second one may have ended what put the handlers back after the first: the next block does.
        with suppress(StruckError), WHOLE:
            pass
    world.check_free()
    world.block()
    world.check_free()
    return lines


ACTS = ("raises", "uses", "changes", "does all")


@pytest.mark.parametrize("act", ACTS)
def test_a_strike_at_each_line_once_and_twice_at_once_leaves_all_handlers(act: str) -> None:
    """Each act at other lines.

    pylog's own stayed SIGINT's for the life of the process, or the block that began ran with none in its place.
    """
    place, lines = 1 if DEEP else 1 + ACTS.index(act), LINES_MOST
    while place <= lines:
        lines = judge(act, (place,))
        judge(act, (place, place))
        place += 1 if DEEP else len(ACTS)
    assert 250 < lines < LINES_MOST


@pytest.mark.parametrize("act", ACTS)
def test_a_second_strike_a_few_lines_later_leaves_all_handlers(act: str) -> None:
    """Each act at other lines; `python -m tests.interrupts.campaign` has a mode for the whole log."""
    for place in every(2, range(1 + ACTS.index(act), 350, len(ACTS))):
        for gap in (1, 2, 3, 5, 9, 17):
            judge(act, (place, place + gap))


@pytest.mark.parametrize("where", ["begin", "end"])
def test_what_a_handler_installs_in_the_call_of_the_exchange_stays(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`signal.signal` looks for signals before it exchanges: the handler that it replaces is one that nobody saw."""
    exchange = signals._setsignal
    waiting: list[Any] = []

    def struck(number: int, handler: Any) -> Any:
        if number == signal.SIGINT and isinstance(handler, signals._Note) == (where == "begin") and waiting:
            signal.signal(number, waiting.pop())
        return exchange(number, handler)

    def late(number: int, frame: FrameType | None) -> None:
        raise StruckError

    monkeypatch.setattr(signals, "_setsignal", struck)
    for handler in (late, signal.SIG_IGN):
        # A note of this handler's own, which is made with the exchange above.
        signal.signal(signal.SIGINT, lambda number, frame: None)
        with WHOLE:
            pass
        waiting.append(handler)
        done = []
        with suppress(StruckError), WHOLE:
            assert bool(waiting) == (where == "end")
            signal.raise_signal(signal.SIGINT)
            done.append("whole")
        assert not waiting and done and signal.getsignal(signal.SIGINT) == handler
        with WHOLE:
            pass
        assert signal.getsignal(signal.SIGINT) == handler


def test_a_signal_that_is_ignored_since_the_exchange_strikes_nobody() -> None:
    """It waits for the end of the block that begins, or of another one, and is over there."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    note = signals._Note(signal.SIGINT, lambda number, frame: pytest.fail("it was put away"))
    note.behind = signal.SIG_IGN
    note(signal.SIGINT, None)
    with WHOLE:
        pass
    assert not signals._pending


def test_the_handler_of_the_moment_gets_a_signal_that_has_waited() -> None:
    """One that a handler has put away still ran behind it: the change was undone for as long as it took."""
    ran: list[str] = []

    def stop(number: int, frame: FrameType | None) -> None:
        ran.append("stop")
        signal.signal(STRIKING, signal.SIG_IGN)
        signal.signal(OTHER, lambda number, frame: ran.append("other"))

    signal.signal(signal.SIGTERM, stop)
    for number in (STRIKING, OTHER):
        signal.signal(number, lambda number, frame: ran.append("put away"))
    with WHOLE:
        for number in (signal.SIGTERM, STRIKING, OTHER):
            signal.raise_signal(number)
    assert ran == ["stop", "other"] and signal.getsignal(STRIKING) == signal.SIG_IGN


def test_a_signal_whose_handler_was_put_away_for_the_systems_own_is_over() -> None:
    """The first of two, which waited where the second one raised, ended the process at the next block."""

    def strike(number: int, frame: FrameType | None) -> None:
        raise StruckError

    signal.signal(signal.SIGTERM, strike)
    with WHOLE:
        with suppress(StruckError):
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    assert not signals._pending and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


@pytest.mark.parametrize("where", ["begin", "end"])
def test_the_block_around_an_opened_one_that_is_struck_is_whole_until_its_end(where: str) -> None:
    """The lock that a wait takes again was held where a handler ran that took it, too."""

    def strike(number: int, frame: FrameType | None) -> None:
        raise StruckError

    signal.signal(STRIKING, strike)
    done = []
    with pytest.raises(StruckError), WHOLE:
        try:
            if where == "begin":
                signal.raise_signal(STRIKING)
            with opened():
                signal.raise_signal(STRIKING)
        except StruckError:
            signal.raise_signal(STRIKING)
            done.append("whole")
    assert done == ["whole"] and WHOLE.depth == 0


def test_a_lock_that_cannot_be_taken_leaves_no_block() -> None:
    """All signals waited for ever."""

    class Refusing(OwnLock):
        def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
            raise MemoryError

    before = [signal.getsignal(number) for number in SIGNALS]
    with pytest.raises(MemoryError), WholeLock(Refusing()):
        pass
    assert (WHOLE.depth, WHOLE.firm) == (0, 0)
    with WHOLE:
        with pytest.raises(MemoryError), WholeLock(Refusing()):
            pass
        assert (WHOLE.depth, WHOLE.firm) == (1, 0)
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_a_child_that_is_forked_in_a_block_has_the_handlers_of_the_program() -> None:
    """Behind a FIRM block, or a lock, a second signal waited for the end of each block of the child."""
    world = World("uses")
    ended = []
    with WHOLE, FIRM, world.lock:
        signal.raise_signal(STRIKING)
        child = os.fork()
        if child:
            world.check_shielded()
    try:
        if not child:
            assert world.runs == 0, "the child has what waited in its parent"
            world.check_free()
            world.install(signal.SIGTERM, signal.default_int_handler)
            with suppress(KeyboardInterrupt), WHOLE:
                signal.raise_signal(signal.SIGTERM)
                signal.raise_signal(signal.SIGTERM)
                os._exit(2)
            world.check_free()
            os._exit(0)
    finally:
        if not child:
            os._exit(1)
        ended.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    assert ended == [0] and world.runs > 0
    world.check_free()


def test_a_handler_that_forks_at_each_line_of_a_block() -> None:
    """The child of one that forks where a block begins goes on in that block."""
    world = World("nothing")
    lines = world.strike_at((LINES_MOST,))
    for place in every(2, range(1, lines + 1, 9)):
        ended: list[int] = []
        world = World("nothing")
        parent = os.getpid()

        def fork(number: int, frame: FrameType | None, ended: list[int] = ended) -> None:
            if not (child := os.fork()):
                return
            ended.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

        world.install(STRIKING, fork)
        try:
            world.strike_at((place,))
            world.check_free()
        except BaseException:
            if os.getpid() != parent:
                os._exit(1)
            raise
        if os.getpid() != parent:
            os._exit(0)
        assert ended == [0], f"the child of line {place}"


def test_a_loop_gets_its_signals_once_and_keeps_its_wakeup_descriptor() -> None:
    """asyncio looks at the number that C writes to its descriptor; its handler does nothing."""
    world = World("does all")
    heard: list[int] = []
    strikes = 0

    async def work() -> None:
        nonlocal strikes
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, heard.append, int(signal.SIGTERM))
        noop = world.expected[signal.SIGTERM] = signal.getsignal(signal.SIGTERM)
        wakeup = signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(wakeup)
        for place in range(1, 60, 7):
            world.runs = 0
            world.strike_at((place, place + 3))
            with WHOLE:
                signal.raise_signal(signal.SIGTERM)
            strikes += 1
            while len(heard) < strikes:
                await asyncio.sleep(0)
            assert signal.getsignal(signal.SIGTERM) is noop
            assert signal.set_wakeup_fd(wakeup) == wakeup
        await asyncio.sleep(0)
        world.check_free()

    asyncio.run(work())
    assert len(heard) == strikes > 5


def test_a_runner_of_asyncio_cancels_its_task_where_blocks_were_struck_before() -> None:
    """It leaves SIGINT alone where that has another handler than Python's own: pylog's had stayed."""
    world = World("uses")
    world.install(signal.SIGINT, signal.default_int_handler)
    for place in range(1, 200, 3):
        world.runs = 0
        world.strike_at((place, place))
    cancelled = []

    async def work() -> None:
        try:
            with WHOLE:
                signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(work())
    assert cancelled == [True]
    world.check_free()


def test_an_interpreter_beside_the_main_one_leaves_its_handlers() -> None:
    """No signal strikes it, and `signal.signal` is refused there."""
    beside = """
        from pylog.runtime.signals import FIRM, WHOLE, WholeLock, opened
        for _ in range(2):
            with WHOLE, opened(), WholeLock(), FIRM:
                pass
        assert WHOLE.main is None
    """
    script = f"""
        import signal, textwrap
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        signal.signal(signal.SIGINT, signal.default_int_handler)
        failed = interpreters.run_string(interpreters.create(), textwrap.dedent({beside!r}))
        assert failed is None, failed
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        print("whole")
    """
    surroundings = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", textwrap.dedent(script)]
    ran = subprocess.run(command, capture_output=True, text=True, env=surroundings)
    assert ran.stdout == "whole\n", ran.stderr
