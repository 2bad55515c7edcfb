"""A check after each test that nothing of the process has changed, and that nothing is left.

What a test leaves behind strikes another one, in another file, on another machine: a handler of a signal, a variable, a
trace function, a thread, a descriptor, a child process, a temporary file. `tests/conftest.py` registers `Surroundings`
for all tests. It compares `settings` and `holdings` around each test and the fixtures that are set up and torn down
with it. While a fixture of a module or of the session holds something, more may come; the test that ends it is asked.
"""

import gc
import locale
import logging
import os
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import suppress
from typing import Any

import pytest

from pylog.files.outside import runtime_dir
from support.holdings import Holding, holdings

NOT_OURS = ("PYTEST_", "SPARK_", "PYSPARK_", "_RJEM_")
"""Variables that begin so are pytest's, which changes them around a test, those of a session of Spark's, and the one
that polars sets as it is imported.
"""

SOON_S = 0.05
PLAIN_LOGGER = logging.NOTSET, [], False, True
LIMITS = {name: getattr(resource, name) for name in ("RLIMIT_NOFILE", "RLIMIT_FSIZE", "RLIMIT_AS", "RLIMIT_CORE")}


def settings() -> dict[str, object]:
    """All that the process has one of, by its name."""
    found: dict[str, object] = {
        f"${name}": value for name, value in os.environ.items() if not name.startswith(NOT_OURS)
    }
    found |= {f"the handler of {number.name}": _handler(number) for number in signal.Signals}
    found |= {f"the limit {name}": resource.getrlimit(number) for name, number in LIMITS.items()}
    found |= {
        "the signals that are blocked": signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        "the descriptor that signals wake": _wakeup(),
        "the working directory": os.getcwd(),
        "the umask": _umask(),
        "the priority": os.getpriority(os.PRIO_PROCESS, 0),
        "the locale": locale.setlocale(locale.LC_ALL),
        "the time zone": time.tzname,
        "the temporary folder": tempfile.gettempdir(),
        "the trace function": sys.gettrace(),
        "the trace function of threads": threading.gettrace(),
        "the profile function": sys.getprofile(),
        "the profile function of threads": threading.getprofile(),
        "the switch interval": sys.getswitchinterval(),
        "the recursion limit": sys.getrecursionlimit(),
        "the collector": (gc.isenabled(), gc.get_threshold(), gc.get_debug()),
        "sys.path": [*sys.path],
        "sys.meta_path": [*sys.meta_path],
        "sys.excepthook": sys.excepthook,
        "sys.unraisablehook": sys.unraisablehook,
        "threading.excepthook": threading.excepthook,
        "what logging disables": logging.root.manager.disable,
    }
    for name, logger in {"root": logging.root, **logging.root.manager.loggerDict}.items():
        if isinstance(logger, logging.Logger) and (name == "root" or name.startswith("pylog")):
            state = logger.level, [*logger.handlers], logger.disabled, logger.propagate
            if state != PLAIN_LOGGER:
                found[f"the logger {name}"] = state
    return found


def _handler(number: signal.Signals) -> object:
    """The handler of a signal. That of pytest-timeout goes in the middle of a test that fails."""
    found = signal.getsignal(number)
    return signal.SIG_DFL if getattr(found, "__module__", "") == "pytest_timeout" else found


def _wakeup() -> int:
    """The descriptor of `signal.set_wakeup_fd`, which can only be learned by setting it."""
    found = signal.set_wakeup_fd(-1)
    if found != -1:
        signal.set_wakeup_fd(found)
    return found


def _umask() -> int:
    found = os.umask(0o077)
    os.umask(found)
    return found


class Surroundings:
    """The plugin; see the module. `patience_s`: how long the threads of a test may take to end after it."""

    def __init__(self, patience_s: float = 60) -> None:
        self._patience_s = patience_s
        self._folder = ""
        self._settings: dict[str, object] = {}
        self._held: set[Holding] = set()
        self._owned: dict[pytest.FixtureDef[Any], set[Holding]] = {}
        """What each fixture holds for more than one test, in the order in which they were set up."""
        self._failed = 0

    def pytest_collection_finish(self) -> None:
        """Give each process that runs tests a temporary folder that no other process changes."""
        # The folders of pytest, and those of another one that a test runs, stay where they would be.
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
        self._folder = os.environ["TMPDIR"] = tempfile.tempdir = tempfile.mkdtemp(prefix="pytest-")
        # An owner of a long path makes it for its socket, and it stays. It may be elsewhere, and refused.
        with suppress(OSError):
            runtime_dir()

    def pytest_sessionfinish(self) -> None:
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        self._settings, self._held, self._failed = settings(), holdings(self._folder), item.session.testsfailed
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        done = yield
        left = self._changed()
        # The traceback of a failure keeps what the test had.
        if item.session.testsfailed == self._failed:
            left += [f"{one} is left" for one in sorted(map(str, self._left(item)))]
        if left:
            pytest.fail("the test has changed the process:\n  " + "\n  ".join(left), pytrace=False)
        return done

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        if fixturedef.scope == "function":
            return (yield)
        before = holdings(self._folder)
        made = yield
        if held := holdings(self._folder) - before:
            self._owned[fixturedef] = held
            self._held |= held
        return made

    def pytest_fixture_post_finalizer(self, fixturedef: pytest.FixtureDef[Any]) -> None:
        self._held -= self._owned.pop(fixturedef, set())

    def _changed(self) -> list[str]:
        before, now = self._settings, settings()
        names = sorted(name for name in {*now, *before} if now.get(name) != before.get(name))
        return [f"{name}: {before.get(name)!r} is now {now.get(name)!r}" for name in names]

    def _left(self, item: pytest.Item) -> set[Holding]:
        # What a test was given is pytest's until the next one, and descriptors go with their objects.
        item.funcargs.clear()  # type: ignore[attr-defined]
        left = holdings(self._folder) - self._held
        if not left:
            return left
        if self._owned:
            # A server of the module may have got a connection, or a file. The test that ends it is asked.
            next(iter(self._owned.values())).update(left)
            return set()
        # Cycles keep descriptors, and threads keep what they use. Nearly always they are young, and end at once: a look
        # of the collector at all objects is dear.
        for generation, patience_s in ((1, SOON_S), (2, self._patience_s)):
            gc.collect(generation)
            deadline = time.monotonic() + patience_s
            for one in left:
                if isinstance(one.which, threading.Thread):
                    one.which.join(max(0, deadline - time.monotonic()))
            gc.collect(generation)
            if not (left := holdings(self._folder) - self._held):
                break
        return left
