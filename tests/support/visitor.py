"""A visitor of an ASGI application, without a socket: it asks, and gets the whole answer."""

import asyncio
import html
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

Application = Callable[..., Awaitable[None]]
HOST = "127.0.0.1:8080"
FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, whole."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body."""
        return self.body.decode()

    @property
    def words(self) -> str:
        """What a reader sees of the page's main part."""
        found = re.search("<main.*</main>", self.text, re.DOTALL)
        return html.unescape(re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", found[0] if found else self.text))).strip()


class Visitor:
    """Asks for pages, and sends forms with their secret."""

    def __init__(self, app: Application, *, csrf: str = "") -> None:
        self.app = app
        self.csrf = csrf

    def get(self, path: str, **headers: str) -> Answer:
        """A page. `headers` have underscores for dashes."""
        return self.ask("GET", path, headers)

    def post(self, path: str, form: dict[str, str] | None = None, **headers: str) -> Answer:
        """A form."""
        body = urlencode({"csrf": self.csrf, **(form or {})}).encode()
        return self.ask("POST", path, {"content_type": FORM, **headers}, body)

    def ask(self, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> Answer:
        """An answer."""
        given = {"host": HOST, **{name.replace("_", "-"): value for name, value in headers.items()}}
        bare, _, query = path.partition("?")
        scope = {
            "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "method": method,
            "scheme": "http", "path": bare, "raw_path": bare.encode(), "query_string": query.encode(), "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in given.items() if value],
            "client": ("127.0.0.1", 50_000), "server": ("127.0.0.1", 8080),
        }  # fmt: skip
        return asyncio.run(_asked(self.app, scope, body))


async def _asked(app: Application, scope: dict[str, Any], body: bytes) -> Answer:
    sent: list[dict[str, Any]] = []
    requests = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if not requests:
            # The visitor stays until the answer is whole.
            await asyncio.Event().wait()
        return requests.pop()

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Answer(sent[0]["status"], headers, b"".join(message.get("body", b"") for message in sent[1:]))
