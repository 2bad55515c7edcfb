import pytest

from pylog.errors import FetchSessionIdNotFound, FetchSessionTopicId, InvalidFetchSessionEpoch, NotLeaderOrFollower
from pylog.protocol.messages import NO_ID, FetchedPart, FetchPart
from pylog.server.fetch_sessions import EVICTION_MS, FetchSession, FetchSessions, completed_parts
from support.stepping import Steps


def parts(*numbers: int) -> list[FetchPart]:
    return [FetchPart("t", number, 0) for number in numbers]


def begun(slots: int = 2, *numbers: int) -> tuple[FetchSessions, FetchSession, Steps]:
    clock = Steps()
    sessions = FetchSessions(slots, clock)
    session = sessions.begin(0, parts(*(numbers or (0, 1))), uses_ids=False)
    assert session is not None
    return sessions, session, clock


def test_a_session_goes_on_epoch_by_epoch() -> None:
    sessions, session, _ = begun()

    assert sessions.go_on(session.id, 1, uses_ids=False) is session
    assert sessions.go_on(session.id, 2, uses_ids=False) is session
    assert isinstance(sessions.go_on(session.id, 2, uses_ids=False), InvalidFetchSessionEpoch)


def test_the_epoch_behind_the_largest_is_one() -> None:
    sessions, session, _ = begun()
    session.epoch = (1 << 31) - 1

    assert sessions.go_on(session.id, (1 << 31) - 1, uses_ids=False) is session
    assert session.epoch == 1


def test_an_unknown_session_is_an_error() -> None:
    sessions, session, _ = begun()

    assert isinstance(sessions.go_on(session.id + 1, 1, uses_ids=False), FetchSessionIdNotFound)


def test_a_session_that_changes_how_it_names_topics_ends() -> None:
    sessions, session, _ = begun()

    assert isinstance(sessions.go_on(session.id, 1, uses_ids=True), FetchSessionTopicId)
    assert len(sessions) == 0


def test_a_new_session_takes_the_place_of_the_one_that_is_named() -> None:
    sessions, session, _ = begun()

    other = sessions.begin(session.id, parts(5), uses_ids=False)

    assert other is not None
    assert other.id != session.id
    assert len(sessions) == 1


def test_there_is_no_room_while_all_sessions_were_used_lately() -> None:
    sessions, _, clock = begun(1)

    assert sessions.begin(0, parts(0), uses_ids=False) is None

    clock.now_ms += EVICTION_MS
    assert sessions.begin(0, parts(0), uses_ids=False) is not None
    assert len(sessions) == 1


def test_without_slots_there_are_no_sessions() -> None:
    assert FetchSessions(0, Steps()).begin(0, parts(0), uses_ids=False) is None


def test_an_update_adds_moves_and_forgets_partitions() -> None:
    _, session, _ = begun()

    session.update([FetchPart("t", 1, 7), FetchPart("t", 2, 0)], [("t", NO_ID, 0)])

    assert [(part.partition, part.offset) for part in session.parts.values()] == [(1, 7), (2, 0)]


def test_only_news_are_sent() -> None:
    _, session, _ = begun()
    asked = list(session.parts.values())
    quiet = [FetchedPart("t", number, high_watermark=4, log_start_offset=0) for number in (0, 1)]

    assert session.news(completed_parts(asked, quiet), everything=True) == list(zip(asked, quiet, strict=True))
    assert session.news(completed_parts(asked, quiet)) == []

    quiet[1].high_watermark = 5
    assert [part.partition for _, part in session.news(completed_parts(asked, quiet))] == [1]
    assert session.news(completed_parts(asked, quiet)) == []


def test_a_partition_with_records_goes_behind_the_others() -> None:
    _, session, _ = begun(2, 0, 1, 2)
    asked = list(session.parts.values())
    found = [FetchedPart("t", number, data=memoryview(b"x" if number == 0 else b"")) for number in (0, 1, 2)]

    session.news(completed_parts(asked, found))

    assert [part.partition for part in session.parts.values()] == [1, 2, 0]


def test_an_error_is_told_until_it_is_over() -> None:
    _, session, _ = begun(2, 0)
    asked, error = list(session.parts.values()), NotLeaderOrFollower("away")
    failed = [FetchedPart("t", 0, error)]

    assert len(session.news(completed_parts(asked, failed))) == 1
    assert len(session.news(completed_parts(asked, failed))) == 1
    assert len(session.news(completed_parts(asked, [FetchedPart("t", 0)]))) == 1
    assert session.news(completed_parts(asked, [FetchedPart("t", 0)])) == []


def test_a_part_that_was_not_looked_at_has_no_records() -> None:
    asked = parts(0, 1)

    pairs = completed_parts(asked, [FetchedPart("t", 0, data=memoryview(b"x"))])

    assert [(part.partition, part.size, part.high_watermark) for _, part in pairs] == [(0, 1, -1), (1, 0, -1)]


def test_sessions_have_only_so_many_partitions_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pylog.server.fetch_sessions.PARTS_MAX", 4)
    sessions, session, _ = begun(3)

    assert sessions.begin(0, parts(2, 3, 4), uses_ids=False) is None
    assert sessions.begin(0, parts(2, 3), uses_ids=False) is not None
    assert sessions.update(session, (), ()) is session
    assert isinstance(sessions.update(session, parts(9), ()), FetchSessionIdNotFound)
    assert len(sessions) == 1
