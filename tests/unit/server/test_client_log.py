"""What a server logs about its clients is bounded, however much they send."""

import logging

import pytest

from pylog.server.client_log import PAUSE_MS, ClientLog
from pylog.testing import SimClock

KIND, OTHER = "a client at %s could not %s", "a client at %s is gone"


@pytest.fixture
def clock() -> SimClock:
    return SimClock()


@pytest.fixture
def log(clock: SimClock, caplog: pytest.LogCaptureFixture) -> ClientLog:
    caplog.set_level(logging.INFO, "pylog.server")
    return ClientLog(clock)


def test_each_kind_is_said_once_in_a_while(log: ClientLog, clock: SimClock, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        log.say(logging.WARNING, KIND, "/h", "read")
    log.say(logging.INFO, OTHER, "")
    clock.advance(PAUSE_MS)
    for _ in range(2):
        log.say(logging.WARNING, KIND, "/h", "write")
    clock.advance(10 * PAUSE_MS)
    log.say(logging.WARNING, KIND, "/i", "write")

    assert caplog.messages == [
        "a client at /h could not read",
        "a client at here is gone",
        "a client at /h could not write (and 2 more)",
        "a client at /i could not write (and 1 more)",
    ]
    assert [record.host for record in caplog.records] == ["/h", "", "/h", "/i"]  # type: ignore[attr-defined]


def test_what_a_client_has_sent_is_cut_and_printable(log: ClientLog, caplog: pytest.LogCaptureFixture) -> None:
    log.say(logging.ERROR, KIND, "/h", "x\n\x1b[31m" + "y" * 10_000, error=ValueError("wrong"))

    assert caplog.messages == [r"a client at /h could not x\n\x1b[31m" + "y" * 193 + "..."]
    assert caplog.records[0].exc_info is not None
