"""One random workload on two servers: every observation is the same.

`PYLOG_OPERATIONS` is their number, `PYLOG_SEED` chooses them. With one server chosen, the workload runs on two of its
kind: the comparison must find no difference between those.
"""

import os
import reprlib
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from conformance.wire import servers
from conformance.wire.conftest import CHOSEN, wait_for_coordinators
from conformance.wire.observer import Observer
from conformance.wire.workload import Choices
from support.raw_client import WireClient

OPERATIONS = int(os.environ.get("PYLOG_OPERATIONS") or 1000)
DIFFERENCES = 20
"""How many are told before it ends; the first is the one to believe."""
SEED = int(os.environ.get("PYLOG_SEED") or 1)


@pytest.fixture
def observers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Observer]]:
    names = CHOSEN if len(CHOSEN) == 2 else CHOSEN * 2
    for name in names:
        if reason := servers.missing(name):
            pytest.skip(reason)
    with ExitStack() as closing:
        found = []
        for name in names:
            # Nothing is compacted meanwhile: each server would do that in its own time.
            running = servers.running(name, tmp_path_factory.mktemp(name), log_cleaner_backoff_ms="100000000")
            server = closing.enter_context(running)
            wait_for_coordinators(server)
            found.append(Observer(closing.enter_context(WireClient(server.bootstrap_servers))))
        yield found


@pytest.mark.timeout(7200)
def test_random_operations_look_the_same_on_two_servers(observers: list[Observer]) -> None:
    choices = Choices(SEED)
    found: dict[str, str] = {}
    for number in range(OPERATIONS):
        operation = choices.draw()
        one, other = (observer.run(operation) for observer in observers)
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
