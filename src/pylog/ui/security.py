"""The checks of who may use the page. All requests pass here before a page sees them.

    Host              an IP address, localhost or a name that was given: a page elsewhere that lets its own name lead
                      here (DNS rebinding) is refused
    token             where the log can be changed, or others reach the server: once in the address, then as a cookie
                      that scripts do not see and that other sites do not send
    forms             only those of these pages: the browser's Origin has to be this host, and the form has a secret
    every answer      the policy that no script but ours runs, no frame, no referrer, nothing kept

A GET changes nothing, so it needs no secret.
"""

import hmac
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pylog.runtime.http import host_name, is_rebindable

__all__ = ["Guard", "Policy"]

FORM_BYTES_MAX = 64 << 10
FIELDS_MAX = 200
HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    # With "no-referrer" a browser would say that a form of ours is of nobody (Origin: null).
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}

Refuse = Callable[[Scope, int, str], Response]


@dataclass(frozen=True, slots=True)
class Policy:
    """The checks of a request."""

    token: str | None = None
    """What a visitor has to know; None: nothing."""
    hosts: frozenset[str] = frozenset()
    """Names in small letters, besides localhost, under which the server is reached."""
    cookie: str = "pylog-ui"
    """The cookie's name. A browser sends it to all ports of a host, so each server needs its own."""
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    """The secret of the forms."""


class Guard:
    """The door before an ASGI application. A form that passes is in `request.state.form`."""

    def __init__(self, app: ASGIApp, policy: Policy, refuse: Refuse) -> None:
        self._app = app
        self._policy = policy
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            # A websocket: there are none.
            await send({"type": "websocket.close", "code": 1008})
            return
        answer = self._checked(scope)
        if answer is None and scope["method"] == "POST":
            answer = await self._checked_form(scope, receive)
        await (answer or self._app)(scope, receive, _guarded(send))

    def _checked(self, scope: Scope) -> Response | None:
        """The answer to a request that is not let in, or that brings the token."""
        headers, policy = Headers(scope=scope), self._policy
        hosts = headers.getlist("host")
        name = host_name(hosts[0]) if len(hosts) == 1 else ""
        if is_rebindable(name) and name not in policy.hosts:
            text = f"This server is not known as {name[:100]!r}. Start it with --allow-host NAME to reach it by a name."
            return self._refuse(scope, 421, text)
        if policy.token is None:
            return None
        given = dict(parse_qsl(scope["query_string"].decode("latin-1"))).get("token")
        if given is not None and _same(given, policy.token):
            welcome = RedirectResponse("/", 303)
            welcome.set_cookie(policy.cookie, policy.token, httponly=True, samesite="lax", path="/")
            return welcome
        if not _same(cookie_parser(headers.get("cookie", "")).get(policy.cookie, ""), policy.token) and not scope[
            "path"
        ].startswith("/static/"):
            wrong = "That is not the token." if given is not None else "The token is needed."
            return self._refuse(scope, 401, f"{wrong} It is in the address that `pylog ui` has printed.")
        return None

    async def _checked_form(self, scope: Scope, receive: Receive) -> Response | None:
        """The answer to a form that is not one of these pages; what is in it goes into the scope."""
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2].lower() != headers["host"].lower():
            return self._refuse(scope, 403, "This form was sent by another site. Nothing was done.")
        if headers.get("content-type", "").partition(";")[0] != "application/x-www-form-urlencoded":
            return self._refuse(scope, 415, "Only forms of these pages are taken. Nothing was done.")
        body = await _body(receive)
        if body is None:
            return self._refuse(scope, 413, f"A form has at most {FORM_BYTES_MAX:,} bytes. Nothing was done.")
        try:
            found = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=FIELDS_MAX, errors="strict")
        except ValueError:
            return self._refuse(scope, 400, "The form cannot be read. Nothing was done.")
        form = dict(found)
        if not _same(form.pop("csrf", ""), self._policy.csrf):
            text = "The form is of a server that has ended since. Nothing was done: load its page again."
            return self._refuse(scope, 403, text)
        scope.setdefault("state", {})["form"] = form
        return None


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())


async def _body(receive: Receive) -> bytes | None:
    """The body of a request; None where it is too large, or its sender has gone."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if len(body) > FORM_BYTES_MAX:
            return None
        if not message.get("more_body", False):
            return bytes(body)


def _guarded(send: Send) -> Send:
    """`send`, with the headers of every answer."""

    def with_headers(message: Message) -> Awaitable[None]:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
        return send(message)

    return with_headers
