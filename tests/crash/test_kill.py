"""Writing processes are killed at random moments, with readers beside them: a sample of what `make kill` does."""

import pytest

from .kill_session import Session, run, sessions

KILLS, KILLS_EACH = 2, 1


@pytest.mark.kill
@pytest.mark.usefixtures("fork_server")
@pytest.mark.parametrize("session", sessions(KILLS, KILLS_EACH), ids=str)
def test_nothing_acknowledged_is_lost_and_readers_see_a_prefix(session: Session) -> None:
    assert run(session) is None
