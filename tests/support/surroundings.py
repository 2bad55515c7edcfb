"""A check after each test that nothing of the process has changed.

What a test leaves behind strikes another one, in another file, on another machine: a handler of a signal, a variable, a
trace function. `tests/conftest.py` registers `Surroundings` for all tests. It compares `settings` around each test and
the fixtures that are set up and torn down with it, those of a module and of the session, too.
"""

import gc
import locale
import logging
import os
import resource
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Generator

import pytest

NOT_OURS = ("PYTEST_", "SPARK_", "PYSPARK_", "_RJEM_")
"""Variables that begin so are pytest's, which changes them around a test, those of a session of Spark's, and the one
that polars sets as it is imported.
"""

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
    """The plugin; see the module."""

    def __init__(self) -> None:
        self._before: dict[str, object] = {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Generator[None, object, object]:
        self._before = settings()
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self) -> Generator[None, object, object]:
        done = yield
        before, now = self._before, settings()
        names = sorted(name for name in {*now, *before} if now.get(name) != before.get(name))
        if names:
            left = [f"{name}: {before.get(name)!r} is now {now.get(name)!r}" for name in names]
            pytest.fail("the test has changed the process:\n  " + "\n  ".join(left), pytrace=False)
        return done
