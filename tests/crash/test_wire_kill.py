"""A few of the kills of `make wire-kill`."""

import logging

import pytest

from crash.wire_kill import run


@pytest.mark.timeout(180)
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_a_server_that_is_killed_under_load_loses_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    assert "records sent once" in run(2, 3)
