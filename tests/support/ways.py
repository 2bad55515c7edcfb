"""The ways to reach a log: every one of them gives the same clients."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pylog
from pylog.handles.client_half import ClientHalf

Way = Literal["own", ":memory:", "attach", "connect"]
WAYS: tuple[Way, ...] = ("own", ":memory:", "attach", "connect")
Reach = Callable[[], ClientHalf[Any]]


@contextmanager
def reached(way: Way, path: Path) -> Iterator[Reach]:
    """Gives what opens a log at a path in one of the ways. The owner and its server end with the block."""
    if way in ("own", ":memory:"):
        yield lambda: pylog.open(path if way == "own" else way)
        return
    with pylog.open(path) as owner:
        if way == "attach":
            yield lambda: pylog.open(path, mode="attach")
            return
        with owner.serve() as server:
            yield lambda: pylog.connect(server.bootstrap_servers)
