"""Who is let in to the pages."""

import asyncio
from typing import Any

import pytest

import pylog
from pylog.ui.security import FORM_BYTES_MAX, Policy
from support.visitor import FORM, HOST, Visitor
from unit.ui.conftest import pages_of

LOCKED = Policy(token="the token", csrf="the secret", cookie="pylog-ui-8080")


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "127.0.0.1", "[::1]:80", "localhost:8080", "LOCALHOST", "10.1.2.3"])
def test_an_address_and_localhost_are_let_in(pages: Visitor, host: str) -> None:
    assert pages.get("/", host=host).status == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example:8080", "", "[::1", "127.0.0.1.evil.example"])
def test_another_name_is_refused(pages: Visitor, host: str) -> None:
    assert pages.get("/", host=host).status == 421


def test_a_name_that_was_allowed_is_let_in(log: pylog.Log) -> None:
    pages = pages_of(log, policy=Policy(hosts=frozenset({"logs.example"})))
    assert [pages.get("/", host=host).status for host in ("Logs.Example:443", "others.example")] == [200, 421]


def test_every_answer_forbids_scripts_of_others_frames_and_caches(pages: Visitor) -> None:
    for answer in (pages.get("/"), pages.get("/none"), pages.get("/", host="evil"), pages.get("/static/ui.css")):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"


def test_without_the_token_no_page_is_shown_but_how_to_come_in(log: pylog.Log) -> None:
    pages = pages_of(log, policy=LOCKED)
    for path in ("/", "/topics/clicks/records", "/?token=wrong"):
        answer = pages.get(path)
        assert answer.status == 401 and 'name="token"' in answer.text and "clicks" not in answer.words
    assert pages.post("/topics", {"name": "new"}).status == 401
    assert pages.get("/static/ui.css").status == 200
    assert log.topics() == ["clicks", "orders"]


def test_the_token_in_the_address_becomes_a_cookie(log: pylog.Log) -> None:
    pages = pages_of(log, policy=LOCKED)
    welcome = pages.get("/topics/clicks?token=the+token")
    cookie = welcome.headers["set-cookie"]
    assert (welcome.status, welcome.headers["location"]) == (303, "/")
    assert "HttpOnly" in cookie and "SameSite=lax" in cookie
    assert pages.get("/", cookie=f"other=1; {cookie.partition(';')[0]}").status == 200
    assert pages.get("/", cookie="pylog-ui-8080=wrong").status == 401
    assert pages.get("/", cookie="pylog-ui-8080=\x7f\x01;;=[").status == 401


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "127.0.0.1:8080", "http://["]
)
def test_a_form_of_another_site_is_refused(pages: Visitor, log: pylog.Log, origin: str) -> None:
    answer = pages.post("/topics", {"name": "new"}, origin=origin)
    assert answer.status == 403 and "another site" in answer.words
    assert log.topics() == ["clicks", "orders"]


def test_a_form_without_the_secret_is_refused(pages: Visitor, log: pylog.Log) -> None:
    for secret in ("", "wrong"):
        assert pages.post("/topics", {"name": "new", "csrf": secret}, origin=f"http://{HOST}").status == 403
    assert log.topics() == ["clicks", "orders"]


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("application/json", b"{}", 415),
        ("text/plain", b"csrf=the+secret", 415),
        (FORM, b"x" * (FORM_BYTES_MAX + 1), 413),
        (FORM, b"csrf=%ff", 400),
        (FORM, b"\xff", 400),
        (FORM, b"a=1&" * 201, 400),
    ],
    ids=["json", "text", "too large", "not UTF-8", "not a form", "too many fields"],
)
def test_what_is_no_form_of_these_pages_is_refused(pages: Visitor, kind: str, body: bytes, status: int) -> None:
    answer = pages.ask("POST", "/topics", {"content_type": kind}, body)
    assert answer.status == status and "Nothing was done" in answer.words


def test_a_visitor_who_goes_in_the_middle_of_a_form_has_changed_nothing(pages: Visitor, log: pylog.Log) -> None:
    messages = [{"type": "http.disconnect"}, {"type": "http.request", "body": b"csrf=the+secret&", "more_body": True}]
    scope = {
        "type": "http", "method": "POST", "path": "/topics", "query_string": b"",
        "headers": [(b"host", HOST.encode()), (b"content-type", FORM.encode())],
    }  # fmt: skip
    sent: list[Any] = []

    async def receive() -> Any:
        return messages.pop()

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(pages.app(scope, receive, send))
    assert sent[0]["status"] == 413


def test_a_websocket_is_closed(pages: Visitor) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(pages.app({"type": "websocket"}, None, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]


def test_without_leave_to_write_there_is_no_change(log: pylog.Log) -> None:
    pages = pages_of(log, can_write=False)
    answer = pages.post("/topics", {"name": "new"})
    assert answer.status == 404 and log.topics() == ["clicks", "orders"]
    assert pages.post("/topics/clicks", {}).status == 405
    for path in ("/", "/topics/clicks", "/topics/clicks/config"):
        assert 'method="post"' not in pages.get(path).text
