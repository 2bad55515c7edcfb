"""One random workload of share groups on two servers: every observation is the same."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from conformance.wire.comparison import SEED, compare, two_servers
from conformance.wire.share_observer import ShareObserver
from conformance.wire.share_workload import ShareChoices

SETTINGS = {
    "log_cleaner_backoff_ms": "100000000", "group_share_max_record_lock_duration_ms": "3600000",
    "group_share_max_session_timeout_ms": "3600000", "group_share_session_timeout_ms": "3600000",
}  # fmt: skip
"""Nothing is compacted meanwhile, and neither locks nor members end before the workload does."""


@pytest.fixture
def observers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ShareObserver]]:
    with ExitStack() as closing:
        found = [
            ShareObserver(server.bootstrap_servers, closing)
            for server in closing.enter_context(two_servers(tmp_path_factory, **SETTINGS))
        ]
        for observer in found:
            observer.begin()
        yield found


@pytest.mark.timeout(7200)
def test_random_operations_of_share_groups_look_the_same_on_two_servers(observers: list[ShareObserver]) -> None:
    compare(observers, ShareChoices(SEED).draw)
