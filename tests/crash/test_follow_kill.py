"""A few of the kills of `make follow-kill`."""

import logging

import pytest

from crash.follow_kill import run


@pytest.mark.timeout(180)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_leader_and_a_follower_that_are_killed_lose_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    assert "2 promotions" in run(5, 15)
