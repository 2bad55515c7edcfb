"""Where the pages are served, and how that begins and ends."""

import asyncio
import logging
import re
import signal
import socket
import threading
import urllib.request
from contextlib import closing
from typing import Any

import pytest

import pylog
from pylog.errors import NetworkError
from pylog.ui import application as applications
from pylog.ui.application import application
from pylog.ui.security import Policy
from pylog.ui.serving import bound, run
from pylog.ui.source import Source
from support.visitor import Visitor
from unit.ui.conftest import PATIENT


def test_a_server_of_this_host_that_only_shows_needs_no_token() -> None:
    with bound("127.0.0.1:0") as listening:
        port = listening.socket.getsockname()[1]
        assert listening.url == f"http://127.0.0.1:{port}/"
        assert (listening.policy.token, listening.policy.cookie) == (None, f"pylog-ui-{port}")
        with pytest.raises(OSError), bound(f"127.0.0.1:{port}"):
            pass


def test_a_server_that_changes_something_or_that_others_reach_has_a_token() -> None:
    with bound("localhost:0", is_writable=True, hosts=["Logs.Example"]) as writable:
        token = writable.policy.token
        assert token is not None and len(token) > 40 and writable.url.endswith(f"/?token={token}")
        assert writable.policy.hosts == {"localhost", "logs.example"}
    with bound("0.0.0.0:0", allow_plaintext=True) as open_to_all:
        assert open_to_all.policy.token is not None


@pytest.mark.parametrize("place", ["", "8080", "127.0.0.1", "127.0.0.1:", ":8080", "127.0.0.1:65536", "127.0.0.1:x"])
def test_what_is_no_address_is_refused(place: str) -> None:
    with pytest.raises(ValueError, match="give HOST:PORT"), bound(place):
        pass


def test_a_host_that_is_not_known_is_named() -> None:
    with pytest.raises(ValueError, match=r"cannot listen at nowhere\.invalid:80"), bound("nowhere.invalid:80"):
        pass


def test_an_address_that_others_reach_is_refused_without_leave() -> None:
    with pytest.raises(ValueError, match="no TLS"), bound("0.0.0.0:0"):
        pass


def test_an_address_of_ipv6_has_brackets() -> None:
    if not socket.has_ipv6:
        pytest.skip("there is no IPv6 here")
    with bound("[::1]:0") as listening:
        assert re.fullmatch(r"http://\[::1]:\d+/", listening.url)


def test_pages_are_served_until_a_signal(log: pylog.Log) -> None:
    got: list[bytes] = []

    def visit(url: str) -> None:
        for path in ("static/ui.css", "topics/clicks/follow"):
            with closing(urllib.request.urlopen(url + path, timeout=240)) as answer:
                got.append(answer.read(20))
        signal.raise_signal(signal.SIGINT)

    with bound("127.0.0.1:0") as listening:
        visitor = threading.Thread(target=visit, args=(listening.url,))
        with pytest.raises(KeyboardInterrupt):
            run(Source("data", log), listening, visitor.start)
        visitor.join()
    assert got == [b":root {\n  color-sche", b'{"after":"0-30.1-30.']


def lived(app: Any, rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an application begin, sleep so many times, and end."""
    slept = asyncio.Event()
    sleeps: list[float] = []

    async def sleep(seconds: float) -> None:
        sleeps.append(seconds)
        if len(sleeps) >= rounds:
            slept.set()
            await asyncio.Event().wait()

    monkeypatch.setattr(applications.asyncio, "sleep", sleep)
    begun = False

    async def receive() -> dict[str, str]:
        nonlocal begun
        if begun:
            await slept.wait()
            return {"type": "lifespan.shutdown"}
        begun = True
        return {"type": "lifespan.startup"}

    async def send(message: dict[str, str]) -> None:
        assert message["type"].endswith("complete")

    asyncio.run(app({"type": "lifespan", "app": None, "state": {}}, receive, send))
    assert min(sleeps) >= applications.SAMPLE_SECONDS


def test_rates_are_sampled_while_the_pages_are_served(log: pylog.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(0, 100_000, 500))
    monkeypatch.setattr(applications.SystemClock, "tick_ms", lambda _: next(ticks))
    app = application(Source("data", log), Policy(), patience_seconds=PATIENT)
    lived(app, 3, monkeypatch)
    assert "clicks 3 90 3.0 KiB 0.0 0 B" in Visitor(app).get("/").words


def test_a_sample_that_fails_is_left_out(
    log: pylog.Log, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Source) -> None:
        raise NetworkError("the server has gone")

    monkeypatch.setattr(Source, "ends", fail)
    caplog.set_level(logging.DEBUG, "pylog.ui")
    app = application(Source("data", log), Policy(), patience_seconds=PATIENT)
    lived(app, 2, monkeypatch)
    assert "the server has gone" in caplog.text
    assert Visitor(app).get("/").status == 502


def test_a_mistake_in_a_sample_is_logged_and_the_next_one_is_taken(
    log: pylog.Log, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ends = Source.ends
    fails = iter([True])
    monkeypatch.setattr(Source, "ends", lambda source: 1 / 0 if next(fails, False) else ends(source))
    app = application(Source("data", log), Policy(), patience_seconds=PATIENT)
    lived(app, 2, monkeypatch)
    assert "ZeroDivisionError" in caplog.text
    state: Any = app._app.state  # type: ignore[attr-defined]
    assert state.looks.last() is not None
