"""A topic as it grows: server-sent events, each a few lines of the table of records.

    event: records   data: HTML rows, newest first    id: 0-120.1-77     the next offset of each partition

A browser that has lost the connection sends the last id, and goes on there. What comes more quickly than anyone can
read is skipped, and said. Threads of the pool look; the loop sleeps between.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from pylog.errors import PylogError
from pylog.record import ConsumerRecord
from pylog.ui.pages import Pages
from pylog.ui.records import Wanted, reader_of, wanted_of

__all__ = ["Followers", "follow"]

LINES_MAX = 100
PAUSE_SECONDS = 0.5
ROUNDS_OF_SILENCE = 20
"""After so many a comment is sent, so that a browser that has gone is noticed."""
FOLLOWERS_MAX = 32


class Followers:
    """How many follow now. Of the event loop alone."""

    def __init__(self) -> None:
        self.count = 0


class Follower:
    """One visitor who follows a topic."""

    def __init__(self, request: Request, wanted: Wanted) -> None:
        self._request = request
        self._wanted = wanted
        self._topic: str = request.path_params["topic"]
        self._positions = _positions(request.headers.get("last-event-id", ""))

    def step(self) -> str | None:
        """The next event, if something has come. Raises PylogError."""
        reader = reader_of(self._request, self._wanted)
        partitions = reader.partitions if self._wanted.partition is None else [self._wanted.partition]
        lines: list[ConsumerRecord] = []
        skipped, damage, begins = 0, "", not self._positions
        for one, (start, end) in reader.ends(partitions).items():
            # A partition that is new is read from its start.
            position = max(self._positions.get(one, end if begins else start), start)
            if position > end:
                # Another topic has that name now.
                position = start
            if self._wanted.text:
                found = reader.forwards(one, position, end, LINES_MAX)
                position = found.reached
            else:
                first = max(position, end - LINES_MAX)
                found = reader.forwards(one, first, end, LINES_MAX)
                # The time may be over before the end.
                skipped += first - position + end - found.reached
                position = end
            damage = damage or found.damage
            lines += found.records
            self._positions[one] = position
        if not (lines or skipped or damage or begins):
            return None
        lines.sort(key=lambda one: (one.timestamp, one.partition, one.offset), reverse=True)
        skipped += max(0, len(lines) - LINES_MAX)
        return self._event(lines[:LINES_MAX], skipped, damage)

    def _event(self, lines: list[ConsumerRecord], skipped: int, damage: str) -> str:
        pages: Pages = self._request.app.state.pages
        html = pages.text("record_rows.html", self._request.scope["path"], topic=self._topic, lines=lines)
        identity = ".".join(f"{one}-{offset}" for one, offset in sorted(self._positions.items()))
        data = json.dumps({"html": html, "count": len(lines), "skipped": skipped, "damage": damage})
        return f"id: {identity}\nevent: records\ndata: {data}\n\n"


def _positions(identity: str) -> dict[int, int]:
    """The positions in the id of an event; none where it is none of ours."""
    found = {}
    for part in identity[:100_000].split("."):
        one, _, offset = part.partition("-")
        if not (one.isascii() and one.isdigit() and offset.isascii() and offset.isdigit() and len(part) < 32):
            return {}
        found[int(one)] = int(offset)
    return found


async def follow(request: Request) -> Response:
    """The events of a topic, from now on."""
    followers: Followers = request.app.state.followers
    if followers.count >= FOLLOWERS_MAX:
        raise HTTPException(503, f"{FOLLOWERS_MAX} pages follow a topic already: close some.")
    followers.count += 1
    try:
        follower = Follower(request, replace(wanted_of(request), offset=None, before=None, time_ms=None))
        first = await run_in_threadpool(follower.step)
    except BaseException:
        followers.count -= 1
        raise
    return _Following(_events(follower, first), followers)


class _Following(StreamingResponse):
    """The answer to a follower, who counts until it ends. It may end before its first event."""

    def __init__(self, events: AsyncIterator[str], followers: Followers) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._followers = followers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._followers.count -= 1


async def _events(follower: Follower, first: str | None) -> AsyncIterator[str]:
    try:
        yield first or ": nothing yet\n\n"
        silent = 0
        while True:
            await asyncio.sleep(PAUSE_SECONDS)
            event = await run_in_threadpool(follower.step)
            silent = 0 if event is not None else silent + 1
            if event is not None:
                yield event
            elif silent % ROUNDS_OF_SILENCE == 0:
                yield ": still here\n\n"
    except PylogError as error:
        yield f"event: ended\ndata: {json.dumps(str(error))}\n\n"
