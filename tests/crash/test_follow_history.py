"""A few of the kills of `make follow-history`."""

import logging

import pytest

from crash.follow_history import run


@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_transactions_and_groups_outlive_a_failover(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    assert "committed" in run(2, 8)
