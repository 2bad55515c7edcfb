"""A topic as it grows: a page asks again and again for what has come since it asked last.

    GET /topics/T/follow?after=0-120.1-77     after: the next offset of each partition, from the last answer
    {"after": ..., "html": rows of the table of records, newest first, "count": ..., "skipped": ..., "damage": ...}

Each answer comes at once, so a page that follows holds no connection: a browser has six for all of its tabs. What comes
more quickly than a visitor can read is skipped, and said.
"""

from dataclasses import replace

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pylog.record import ConsumerRecord
from pylog.ui.pages import Pages
from pylog.ui.records import decoder_of, reader_of, wanted_of

__all__ = ["AFTER_CHARS_MAX", "follow"]

LINES_MAX = 100
AFTER_CHARS_MAX = 256 << 10
"""The longest place: that of a topic with ten thousand partitions."""


def follow(request: Request) -> Response:
    """The records behind a place, and the next place. Without a place: from now on."""
    wanted = replace(wanted_of(request), offset=None, before=None, time_ms=None)
    reader = reader_of(request, wanted)
    partitions = reader.partitions if wanted.partition is None else [wanted.partition]
    positions = _positions(request.query_params.get("after", ""))
    lines: list[ConsumerRecord] = []
    skipped, damage, begins = 0, "", not positions
    for one, (start, end) in reader.ends(partitions).items():
        # A partition that is new is read from its start.
        position = max(positions.get(one, end if begins else start), start)
        if position > end:
            # Another topic has that name now.
            position = start
        if wanted.matches:
            found = reader.forwards(one, position, end, LINES_MAX)
            positions[one] = found.reached
        else:
            first = max(position, end - LINES_MAX)
            found = reader.forwards(one, first, end, LINES_MAX)
            # The time may be over before the end.
            skipped += first - position + end - found.reached
            positions[one] = end
        damage = damage or found.damage
        lines += found.records
    lines.sort(key=lambda one: (one.timestamp, one.partition, one.offset), reverse=True)
    skipped += max(0, len(lines) - LINES_MAX)
    pages: Pages = request.app.state.pages
    shown = decoder_of(request).lines(lines[:LINES_MAX])
    html = pages.text("record_rows.html", request.scope["path"], topic=request.path_params["topic"], lines=shown)
    after = ".".join(f"{one}-{offset}" for one, offset in sorted(positions.items()))
    return JSONResponse({"after": after, "html": html, "count": len(shown), "skipped": skipped, "damage": damage})


def _positions(after: str) -> dict[int, int]:
    """The next offset of each partition, as an answer has said them; none where that is none of ours."""
    found = {}
    for part in after[:AFTER_CHARS_MAX].split("."):
        one, _, offset = part.partition("-")
        if not (one.isascii() and one.isdigit() and offset.isascii() and offset.isdigit() and len(part) < 32):
            return {}
        found[int(one)] = int(offset)
    return found
