"""The same operations on two servers, and where their observations differ.

`PYLOG_OPERATIONS` is the number of operations, `PYLOG_SEED` chooses them. With one server chosen, they run on two of
its kind: the comparison must find no difference between those.
"""

import os
import reprlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from operator import methodcaller
from typing import Any, Protocol

import pytest

from conformance.wire import servers
from conformance.wire.conftest import CHOSEN, wait_for_coordinators
from conformance.wire.servers import Server
from conformance.wire.workload import Operation

OPERATIONS = int(os.environ.get("PYLOG_OPERATIONS") or 1000)
SEED = int(os.environ.get("PYLOG_SEED") or 1)
DIFFERENCES = 20
"""How many are told before it ends; the first is the one to believe."""


class Observes(Protocol):
    """One server under a workload."""

    def run(self, operation: Operation) -> Any: ...


@contextmanager
def two_servers(work: pytest.TempPathFactory, **settings: str) -> Iterator[list[Server]]:
    """The servers to compare, with these settings. Skips where one is missing."""
    names = CHOSEN if len(CHOSEN) == 2 else CHOSEN * 2
    for name in names:
        if reason := servers.missing(name):
            pytest.skip(reason)
    with ExitStack() as closing:
        found = [closing.enter_context(servers.running(name, work.mktemp(name), **settings)) for name in names]
        for server in found:
            wait_for_coordinators(server)
        yield found


def compare(observers: Sequence[Observes], draw: Callable[[], Operation], count: int = OPERATIONS) -> None:
    """Carry so many operations out on both servers. Fails where observations differ."""
    found: dict[str, str] = {}
    # Both wait at once.
    with ThreadPoolExecutor(len(observers)) as threads:
        for number in range(count):
            operation = draw()
            one, other = threads.map(methodcaller("run", operation), observers)
            for place, values in differences(one, other):
                found.setdefault(f"{operation.name}{place}", f"{values}, operation {number}: {operation}")
            if len(found) >= DIFFERENCES:
                break
    assert not found, f"seed {SEED}:\n" + "\n".join(f"{place}: {text}" for place, text in found.items())


def differences(one: Any, other: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Where two values differ, each with both sides of it. Items of a list have one place."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        for name in one:
            yield from differences(one[name], other[name], f"{place}.{name}")
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        for left, right in zip(one, other, strict=True):
            yield from differences(left, right, f"{place}[]")
    elif one != other:
        yield place, f"{reprlib.repr(one)} != {reprlib.repr(other)}"
