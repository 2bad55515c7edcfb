"""One random workload on two servers: whatever can be seen of each operation is the same.

`PYLOG_OPERATIONS` says how many, `PYLOG_SEED` which. With one server chosen it runs on two of its kind, which shows
that the comparison itself finds nothing where there is nothing to find.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from conformance.wire import servers
from conformance.wire.conftest import CHOSEN, wait_for_coordinators
from conformance.wire.observer import Observer
from conformance.wire.workload import Choices
from support.wire_client import WireClient

OPERATIONS = int(os.environ.get("PYLOG_OPERATIONS") or 1000)
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
            server = closing.enter_context(servers.running(name, tmp_path_factory.mktemp(name)))
            wait_for_coordinators(server)
            found.append(Observer(closing.enter_context(WireClient(server.bootstrap_servers))))
        yield found


@pytest.mark.timeout(7200)
def test_random_operations_look_the_same_on_two_servers(observers: list[Observer]) -> None:
    choices = Choices(SEED)
    before: list[str] = []
    for number in range(OPERATIONS):
        operation = choices.draw()
        one, other = (observer.run(operation) for observer in observers)
        before = [*before[-9:], str(operation)]
        assert one == other, f"seed {SEED}, operation {number}, the last of these:\n" + "\n".join(before)
