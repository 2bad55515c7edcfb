"""One random workload on two servers: every observation is the same."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from conformance.wire.comparison import SEED, compare, two_servers
from conformance.wire.observer import Observer
from conformance.wire.workload import Choices
from support.raw_client import WireClient


@pytest.fixture
def observers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Observer]]:
    with ExitStack() as closing:
        # Nothing is compacted meanwhile: each server would do that in its own time.
        found = closing.enter_context(two_servers(tmp_path_factory, log_cleaner_backoff_ms="100000000"))
        yield [Observer(closing.enter_context(WireClient(server.bootstrap_servers))) for server in found]


@pytest.mark.timeout(7200)
def test_random_operations_look_the_same_on_two_servers(observers: list[Observer]) -> None:
    compare(observers, Choices(SEED).draw)
