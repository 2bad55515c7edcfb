"""An answer that will come: done, result, exception, drive, add_done_callback, await.

A future is completed once, by `set_result` or `set_exception`. It runs no thread, and waiting for it does no work: a
caller that is ready to do the work of an answer calls `drive` first. Completing is a store and a look at a deque. A
lock exists only while a thread waits in `result`, one for each of them. The futures of records are in `record_append`.

Invariants: each callback is called exactly once, by the thread that completes the future or, after that, by the thread
that adds the callback. The outcome of a future that is done never changes. Both rest on one order: one side stores the
outcome and then drains the callbacks, the other appends its callback and then looks for the outcome. Taking a callback
from a deque is atomic.
"""

import os
from abc import ABCMeta
from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from threading import Lock, get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from pylog.runtime.signals import WholeLock, opened

__all__ = ["Future", "completed", "failed", "gathered"]

S = TypeVar("S")
T = TypeVar("T")


class Absent:
    """An attribute that futures of other clients have and these have not: its error says what to use."""

    def __init__(self, instead: str) -> None:
        self._instead = instead

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, future: object, owner: type) -> object:
        raise AttributeError(f"a future of pylog has no {self._name!r}: use {self._instead}")


class LentSocket(Protocol):
    """A socket at which a caller waits for an answer, in the place of the thread that brings it."""

    def fileno(self) -> int:
        """Its descriptor."""

    def take_back(self) -> None:
        """Receive what has come, and wait there no more: the thread does so again."""


class Future(Generic[T], metaclass=ABCMeta):
    """An answer that will come. Thread-safe; any asyncio loop can await it.

    >>> with log.producer() as producer:
    ...     future = producer.send("orders", b"cup")
    >>> future
    <RecordFuture RecordMetadata(topic='orders', partition=0, offset=3, timestamp=...)>
    """

    __slots__ = ("_callbacks", "_done", "_error", "_traceback", "_value")

    if not TYPE_CHECKING:
        # By kafka-python's names.
        get = Absent("result(timeout)")
        add_callback = Absent("add_done_callback(function), or on_delivery= of send")
        add_errback = Absent("add_done_callback(function), or on_delivery= of send")

    def __init__(self) -> None:
        self._done = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._traceback: TracebackType | None = None
        self._callbacks: deque[Callable[[Future[T]], object]] | None = None

    def done(self) -> bool:
        """True once the answer is there: then `result` and `exception` do not wait.

        >>> future.done()
        True
        """
        return self._done

    def result(self, timeout: float | None = None) -> T:
        """The answer; waits up to `timeout` seconds (None: for ever).

        Raises the error that was the answer, TimeoutError without an answer in time (the future stays as it is).

        >>> future.result(timeout=60).offset
        3
        """
        if not self._done:
            self._wait(timeout)
        if self._error is not None:
            # The same error may be raised many times, in many threads: each starts from the traceback it came with.
            raise self._error.with_traceback(self._traceback)
        return self._value  # type: ignore[return-value]  # None is a T where the answer is None

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The error that was the answer, None for a good one; waits as `result` does. Raises TimeoutError.

        >>> future.exception() is None
        True
        """
        if not self._done:
            self._wait(timeout)
        return self._error

    def drive(self, timeout: float | None = None) -> None:
        """Do the work of the answer in this thread, or wait for the thread that does it, for up to `timeout` seconds.

        Most answers come by themselves: then this does nothing. It never raises TimeoutError, and the answer may still
        be missing afterwards: wait for it with `result`.
        """

    def lend(self) -> LentSocket | None:
        """The socket that brings the answer, for an event loop that waits for it: it owes `take_back`.

        None: the answer comes by itself.
        """
        return None

    def hurry(self) -> None:
        """No thread is going to `drive`: let the work of the answer begin at once in the thread that is for it."""

    def stop_driving(self) -> None:
        """End the `drive` of now. From any thread, and from handlers of signals."""

    def abandon(self) -> None:
        """Nobody waits for the answer any more: it may never come. What was begun is not undone."""

    def add_done_callback(self, fn: "Callable[[Future[T]], object]") -> None:
        """Call `fn(self)` once the answer is there, in the thread that brings it; at once if it is there already.

        Callbacks run in the order they were added in. An error of one comes out where the future is completed, after
        the others have run.

        >>> future.add_done_callback(lambda done: print("stored at", done.result().offset))
        stored at 3
        """
        if self._done and not self._callbacks:
            fn(self)
            return
        if self._callbacks is None:
            with _making_callbacks:
                if self._callbacks is None:
                    self._callbacks = deque()
        self._callbacks.append(fn)
        if self._done:
            self._run_callbacks()

    def set_result(self, value: T) -> None:
        """Answer. Raises RuntimeError when there is an answer already."""
        self._complete(value, None)

    def set_exception(self, error: BaseException) -> None:
        """Answer with an error. Raises RuntimeError when there is an answer already."""
        self._complete(None, error)

    def __await__(self) -> Generator[object, None, T]:
        if not self.done():
            import asyncio

            loop, thread = asyncio.get_running_loop(), get_ident()
            waiter = loop.create_future()

            def wake() -> None:
                if not waiter.done():
                    waiter.set_result(None)

            def tell(_: Future[T]) -> None:
                # Nothing waits in a loop that was closed meanwhile.
                with suppress(RuntimeError):
                    if get_ident() == thread:
                        wake()
                    else:
                        loop.call_soon_threadsafe(wake)

            self.add_done_callback(tell)
            yield from waiter
        return self.result()

    def __repr__(self) -> str:
        if not self.done():
            return f"<{type(self).__name__} waiting>"
        error = self.exception()
        return f"<{type(self).__name__} {f'failed: {error!r}' if error is not None else repr(self.result())}>"

    def _complete(self, value: T | None, error: BaseException | None) -> None:
        if self._done:
            raise RuntimeError("this future is answered already")
        self._value = value
        self._error = error
        self._traceback = error.__traceback__ if error is not None else None
        self._done = True
        if self._callbacks is not None:
            self._run_callbacks()

    # --- waiting -----------------------------------------------------------------------------------------------------

    def _run_callbacks(self) -> None:
        callbacks = self._callbacks
        while callbacks:
            try:
                fn = callbacks.popleft()
            except IndexError:
                return  # another thread has taken the last one
            try:
                fn(self)
            except BaseException:
                self._run_callbacks()
                raise

    def _wait(self, timeout: float | None) -> None:
        lock = Lock()
        lock.acquire()

        # In quotes: it would be made again each time.
        def wake(_: "Future[T]") -> None:
            lock.release()

        self.add_done_callback(wake)
        with opened():
            is_answered = lock.acquire(timeout=-1 if timeout is None else max(timeout, 0))
        if not is_answered:
            self._forget(wake)
            raise TimeoutError(f"no answer within {timeout} seconds")

    def _forget(self, fn: "Callable[[Future[T]], object]") -> None:
        if self._callbacks is not None:
            with suppress(ValueError):
                self._callbacks.remove(fn)


_making_callbacks = WholeLock()
"""Guards the moment in which a future gets its callbacks: most futures never have one."""


def _forked() -> None:
    # A thread of the parent may have held it.
    global _making_callbacks  # noqa: PLW0603
    _making_callbacks = WholeLock()


os.register_at_fork(after_in_child=_forked)


def completed(value: T) -> Future[T]:
    """A future whose answer is there."""
    future: Future[T] = Future.__new__(Future)
    future._done, future._value, future._error, future._traceback, future._callbacks = True, value, None, None, None
    return future


class _Gathered(Future[T]):
    __slots__ = ("_waited",)

    def __init__(self, waited: list[Future[Any]]) -> None:
        super().__init__()
        self._waited = waited

    def hurry(self) -> None:
        for future in self._waited:
            if not future.done():
                future.hurry()

    def abandon(self) -> None:
        for future in self._waited:
            future.abandon()


def gathered(futures: Iterable[Future[S]], combine: Callable[[list[S]], T]) -> Future[T]:
    """The result of `combine` for all answers, when the last one is there; or the first error among them."""
    waited = list(futures)
    values: list[Any] = []
    for future in waited:
        if not future._done or future._error is not None:
            break
        values.append(future._value)
    else:
        return completed(combine(values))
    whole: Future[T] = _Gathered(waited)
    # The callback that finds nothing left to take is the last one: taking is one step.
    left = deque(waited[1:])

    def answered(_: Future[S]) -> None:
        try:
            left.pop()
        except IndexError:
            error = next((done.exception() for done in waited if done.exception() is not None), None)
            if error is not None:
                whole.set_exception(error)
            else:
                whole.set_result(combine([done.result() for done in waited]))

    for future in waited:
        future.add_done_callback(answered)
    return whole


def failed(error: BaseException) -> Future[T]:
    """A future whose answer is an error."""
    future: Future[T] = Future()
    future.set_exception(error)
    return future
