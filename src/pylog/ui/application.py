"""The application: which page answers which address, and what becomes of errors.

GET  /                                            topics
GET  /topics/T                                    a topic and its partitions
GET  /topics/T/config, /records, /follow          its configs, its records, those to come
GET  /topics/T/download                           records as a file
GET  /topics/T/records/P/OFFSET[/key|/value]      one record; its key or value as a file
GET  /topics/T/partitions/P[/files/NAME[/batch]]  segments, a file, a batch
GET  /groups, /group?id=  /schemas, /schema?subject=|id=  /transactions, /transaction?id=  /node  /damage
POST /check                                       read every byte
GET  /topics/T/produce                            the form that appends a record, where there are changes
POST ...                                          changes, where there are any
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from threading import Lock

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Scope

from pylog.errors import (
    GroupIdNotFound,
    LogNotFound,
    NetworkError,
    NotLocal,
    PylogError,
    StorageError,
    TransactionalIdNotFound,
    UnknownTopicOrPartition,
)
from pylog.runtime.clock import SystemClock
from pylog.serde.schema_store import SchemaStore
from pylog.ui import (
    damage,
    download,
    follow,
    groups,
    node,
    producing,
    records,
    schemas,
    segments,
    topic_changes,
    topics,
    transactions,
)
from pylog.ui.history import LogHistory
from pylog.ui.pages import Pages
from pylog.ui.rates import Rates
from pylog.ui.sampling import PATIENCE_SECONDS, LogLooks
from pylog.ui.security import Guard, Policy
from pylog.ui.source import Source

__all__ = ["application"]

SAMPLE_SECONDS = 5.0
SHARE = 20
"""A log of very many partitions is looked at less often: the looks take at most a twentieth of the time."""
STATUSES: tuple[tuple[type[Exception] | tuple[type[Exception], ...], int], ...] = (
    ((UnknownTopicOrPartition, GroupIdNotFound, TransactionalIdNotFound, LogNotFound), 404),
    (NotLocal, 404),
    (NetworkError, 502),
    (StorageError, 500),
    ((PylogError, ValueError), 400),
)
OWN_WORDS = {
    "Not Found": "There is no such page.",
    "Method Not Allowed": "There is no such change: start `pylog ui` with --write.",
}
"""In place of Starlette's."""

logger = logging.getLogger("pylog.ui")


def application(source: Source, policy: Policy, *, patience_seconds: float = PATIENCE_SECONDS) -> ASGIApp:
    """The pages of a log. The log stays open when the application ends. `patience_seconds`: how long a page waits for
    the first look at the log.
    """
    pages = Pages(source, policy.csrf)
    app = Starlette(
        routes=[*_looking(), *(_changing() if source.change is not None else [])],
        exception_handlers={HTTPException: _refused, PylogError: _failed, ValueError: _failed, Exception: _broken},
        lifespan=_lifespan,
    )
    app.state.source, app.state.pages, app.state.rates = source, pages, Rates()
    app.state.looks, app.state.history = LogLooks(source, patience_seconds), LogHistory()
    app.state.checking = Lock()
    app.state.formats = download.formats()
    app.state.schemas = SchemaStore(source.log)

    def refuse(scope: Scope, status: int, text: str) -> Response:
        return pages.error(scope, status, text, ask_token=status == 401)

    # Outside of all that makes answers, those of errors too.
    return Guard(app, policy, refuse)


def _looking() -> list[Route | Mount]:
    topic = "/topics/{topic}"
    one = topic + "/partitions/{partition:int}"
    place = topic + "/records/{partition:int}/{offset:int}"
    return [
        Route("/", topics.topics),
        Route(topic, topics.topic),
        Route(topic + "/config", topics.config),
        Route(topic + "/records", records.records),
        Route(topic + "/download", download.download),
        Route(topic + "/follow", follow.follow),
        Route(place, records.record),
        Route(place + "/{part}", records.value),
        Route(one, segments.partition),
        Route(one + "/files/{name}", segments.file),
        Route(one + "/files/{name}/batch", segments.batch),
        Route("/groups", groups.groups),
        Route("/group", groups.group),
        Route("/schemas", schemas.schemas),
        Route("/schema", schemas.schema),
        Route("/transactions", transactions.transactions),
        Route("/transaction", transactions.transaction),
        Route("/node", node.node),
        Route("/damage", damage.damage),
        Route("/check", damage.check, methods=["POST"]),
        Mount("/static", StaticFiles(packages=[("pylog.ui", "static")])),
    ]


def _changing() -> list[Route]:
    topic = "/topics/{topic}"
    changes: dict[str, Callable[[Request], Response]] = {
        "/topics": topic_changes.create,
        topic + "/delete": topic_changes.delete,
        topic + "/partitions": topic_changes.add_partitions,
        topic + "/trim": topic_changes.trim,
        topic + "/config/set": topic_changes.alter_config,
        topic + "/produce": producing.produce,
        "/group/reset-offsets": groups.reset_offsets,
        "/group/delete-offsets": groups.delete_offsets,
        "/group/delete": groups.delete,
        "/transactions/hanging": transactions.hanging,
        "/transactions/abort": transactions.abort_hanging,
        "/transaction/abort": transactions.abort,
    }
    posted = [Route(path, change, methods=["POST"]) for path, change in changes.items()]
    return [Route(topic + "/produce", producing.produce_form), *posted]


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    pages: Pages = request.app.state.pages
    return pages.error(request.scope, error.status_code, OWN_WORDS.get(error.detail, error.detail))


def _failed(request: Request, error: Exception) -> Response:
    """The refusal or failure of the log, in its own words."""
    status = next(status for kinds, status in STATUSES if isinstance(error, kinds))
    pages: Pages = request.app.state.pages
    return pages.error(request.scope, status, str(error) or type(error).__name__)


def _broken(request: Request, error: Exception) -> Response:
    """A mistake of pylog's own, or the end of a download that cannot be made whole: its answer has begun already."""
    if isinstance(error, download.BrokenDownloadError):
        logger.warning("%s breaks off: %s", request.url.path, error)
    else:
        logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    pages: Pages = request.app.state.pages
    return pages.error(request.scope, 500, "This is a mistake in pylog: what it was is on the terminal of `pylog ui`.")


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    sampler = asyncio.create_task(_sample(app))
    try:
        yield
    finally:
        sampler.cancel()


async def _sample(app: Starlette) -> None:
    """Look at the log every few seconds."""
    clock, looks, rates = SystemClock(), app.state.looks, app.state.rates
    while True:
        begun_ms = clock.tick_ms()
        try:
            taken = await run_in_threadpool(looks.take)
            rates.note(begun_ms, taken.ends)
            app.state.history.note(begun_ms, taken.counted())
        except PylogError as error:
            logger.debug("no sample of the log: %s", error)
        except Exception:
            # A mistake of pylog's own. Pages have the last sample until the next one.
            logger.exception("no sample of the log")
        await asyncio.sleep(max(SAMPLE_SECONDS, SHARE * (clock.tick_ms() - begun_ms) / 1000))
