"""The share sessions of a node: one for each member, the newest."""

from pylog.broker.share_sessions import MemberKey, ShareSession, ShareSessions

MEMBER = MemberKey("workers", "one")


def begun(sessions: ShareSessions) -> ShareSession:
    return sessions.fetch(MEMBER, 0, (), (), connection=0, acknowledges=False, sessions_max=1)


def test_the_end_of_a_session_leaves_the_one_that_came_in_its_place() -> None:
    sessions = ShareSessions()
    first = begun(sessions)
    second = begun(sessions)
    sessions.end(first)
    assert sessions.get(MEMBER) is second and sessions.size == 1
    sessions.end(second)
    assert sessions.size == 0
