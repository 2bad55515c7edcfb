"""Templates, and what each page has: the log's name, the way to other pages, whether something can be changed.

Each view bounds what it shows of one record, group or file. A page as a whole is bounded here, because a log may have
any number of them.
"""

from collections.abc import Iterator, Mapping
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse
from starlette.types import Scope

from pylog.kernel.notebook import time_text
from pylog.runtime.words import config_text, count_text, duration_text, plural, size_text
from pylog.ui.source import Source
from pylog.ui.values import middle, shown, visible

__all__ = ["Pages", "after", "form", "link", "page", "seen"]

DONE = {
    "created": "The topic was created.",
    "deleted": "The topic was deleted.",
    "partitions": "The topic has more partitions now.",
    "trimmed": "Records were deleted: partitions begin at the offsets below.",
    "config": "The config was changed.",
    "produced": "The record was appended.",
    "offsets-reset": "The offsets of the group were reset.",
    "group-deleted": "The group was deleted.",
    "offsets-deleted": "The offsets were deleted.",
    "aborted": "The transaction was aborted.",
}
"""What a page says after a change. The address has its key, as it could be made by anyone."""

PAGE_CHARS_MAX = 16 << 20
CUT = f'<p class="problem" role="alert">The page is cut here, after {size_text(PAGE_CHARS_MAX)}.</p>'


def link(*parts: object, **query: object) -> str:
    """The address of a page: its parts, quoted, and what is not None of the query."""
    path = "/" + "/".join(quote(str(part), safe="") for part in parts)
    given = {name: value for name, value in query.items() if value is not None and value != ""}
    return f"{path}?{urlencode(given)}" if given else path


def utc(timestamp_ms: int) -> str | None:
    """A time, without the zone: pages say UTC beside it. None without a time."""
    text = time_text(timestamp_ms)
    return None if text is None else text.removesuffix("+00:00")


class Pages:
    """The templates of a log."""

    def __init__(self, source: Source, csrf: str) -> None:
        self._source = source
        self._csrf = csrf
        self._templates = Environment(
            loader=PackageLoader("pylog.ui"), autoescape=True, undefined=StrictUndefined, auto_reload=False,
            trim_blocks=True, lstrip_blocks=True,
        )  # fmt: skip
        self._templates.globals.update(link=link, plural=plural, config_text=config_text)
        self._templates.filters.update(
            count=count_text,
            size=size_text,
            time=utc,
            shown=shown,
            visible=visible,
            middle=middle,
            duration=duration_text,
        )

    def _facts(self, path: str, facts: Mapping[str, object]) -> dict[str, object]:
        can_write = self._source.change is not None
        return {
            "source": self._source, "path": path, "can_write": can_write, "csrf": self._csrf, "done": "", **facts
        }  # fmt: skip

    def text(self, template: str, path: str, /, **facts: object) -> str:
        """A page, or a part of one, as HTML."""
        return "".join(self._parts(template, path, facts))

    def parts(self, template: str, scope: Scope, /, **facts: object) -> Iterator[str]:
        """A page as it is made, part after part."""
        return self._parts(template, scope["path"], facts)

    def _parts(self, template: str, path: str, facts: Mapping[str, object]) -> Iterator[str]:
        left = PAGE_CHARS_MAX
        for part in self._templates.get_template(template).generate(self._facts(path, facts)):
            left -= len(part)
            # A value never begins with a tag, as it is escaped: so this is not within an attribute.
            if left < 0 and part.lstrip()[:1] == "<":
                yield CUT
                return
            yield part

    def html(self, template: str, scope: Scope, status: int, /, **facts: object) -> HTMLResponse:
        """A page as an answer."""
        return HTMLResponse(self.text(template, scope["path"], **facts), status)

    def error(self, scope: Scope, status: int, text: str, *, ask_token: bool = False) -> HTMLResponse:
        """A page that says what went wrong."""
        return self.html("error.html", scope, status, text=text, ask_token=ask_token, code=status)


def page(request: Request, template: str, /, **facts: object) -> HTMLResponse:
    """The answer to a request: a template with these facts, and what has just been done."""
    pages: Pages = request.app.state.pages
    done = DONE.get(request.query_params.get("done", ""), "")
    return pages.html(template, request.scope, 200, done=done, **facts)


def seen(request: Request) -> Source:
    """The log that is shown."""
    source: Source = request.app.state.source
    return source


def form(request: Request) -> Mapping[str, str]:
    """The form of a POST."""
    found: Mapping[str, str] = request.state.form
    return found


def after(done: str, *parts: object, **query: object) -> RedirectResponse:
    """The way on after a change."""
    return RedirectResponse(link(*parts, done=done, **query), 303)
