"""The pages of records: a topic's, by offset, time or text, and one record whole."""

from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from pylog.protocol.isolation import IsolationLevel
from pylog.record import ConsumerRecord
from pylog.ui.decoding import Decoder
from pylog.ui.filters import RecordFilter, filter_of
from pylog.ui.pages import page, seen
from pylog.ui.parameters import flag, moment_ms, number, partition
from pylog.ui.reading import SCAN_MS_MAX, FoundRecords, Reader
from pylog.ui.values import Shown, hex_lines, shown

__all__ = [
    "RECORDS_MAX", "WantedRecords", "decoder_of", "ranges_of", "reader_of", "record", "records", "value", "wanted_of",
]  # fmt: skip

TEXT_CHARS_MAX = 1000
LIMIT = 50
LIMIT_MAX = 500
TEXT_BYTES = 64 << 10
JSON_CHARS = 128 << 10
HEX_BYTES = 4 << 10
HEADERS_MAX = 100
HEADER_BYTES = 4 << 10
RECORDS_MAX = 100_000
"""How many records a file has at most (`download`)."""


@dataclass(frozen=True, slots=True)
class WantedRecords:
    """The records that a visitor asks for. `partition`: None for all."""

    partition: int | None
    offset: int | None
    before: int | None
    time_ms: int | None
    text: str
    where: str
    matches: RecordFilter
    is_committed: bool
    limit: int

    @property
    def words(self) -> dict[str, object]:
        """The words of an address that stay the same on the way to other records."""
        return {
            "partition": self.partition, "text": self.text, "where": self.where,
            "committed": "1" if self.is_committed else None,
        }  # fmt: skip

    @property
    def is_newest_first(self) -> bool:
        """Whether it goes backwards from the end, or from `before`."""
        return self.offset is None and self.time_ms is None

    @property
    def isolation_level(self) -> IsolationLevel:
        """Kafka's word for which records are visible."""
        return "read_committed" if self.is_committed else "read_uncommitted"


def wanted_of(request: Request) -> WantedRecords:
    """The records that the address asks for. Raises HTTPException (400)."""
    words = request.query_params
    text, where = words.get("text", "")[:TEXT_CHARS_MAX], words.get("where", "")[:TEXT_CHARS_MAX]
    return WantedRecords(
        partition(words), number(words, "offset"), number(words, "before"),
        moment_ms(words, "time"), text, where, filter_of(where, text, decoder_of(request)), flag(words, "committed"),
        number(words, "limit", 1, LIMIT_MAX) or LIMIT,
    )  # fmt: skip


def reader_of(request: Request, wanted: WantedRecords, *, ms_max: int = SCAN_MS_MAX) -> Reader:
    """A reader of the topic in the address. Raises UnknownTopicOrPartition, HTTPException (404)."""
    name = request.path_params["topic"]
    reader = Reader(
        seen(request).log, name, isolation_level=wanted.isolation_level, matches=wanted.matches, ms_max=ms_max
    )
    if wanted.partition is not None and not reader.has(wanted.partition):
        raise HTTPException(404, f"Topic {name} has no partition {wanted.partition}; it has {len(reader.partitions)}.")
    return reader


def decoder_of(request: Request) -> Decoder:
    """The decoder of this page."""
    if not hasattr(request.state, "decoder"):
        request.state.decoder = Decoder(request.app.state.schemas)
    decoder: Decoder = request.state.decoder
    return decoder


def records(request: Request) -> Response:
    """Records of a topic: the newest, those before or from an offset, those from a time on."""
    wanted = wanted_of(request)
    reader = reader_of(request, wanted)
    found = {
        one: reader.backwards(one, start, end, wanted.limit)
        if wanted.is_newest_first
        else reader.forwards(one, start, end, wanted.limit)
        for one, (start, end) in ranges_of(reader, wanted).items()
    }
    lines = sorted(
        (one for part in found.values() for one in part.records),
        key=lambda one: (one.offset,) if wanted.partition is not None else (one.timestamp, one.partition, one.offset),
        reverse=wanted.is_newest_first,
    )[: wanted.limit]
    only = None if wanted.partition is None else found[wanted.partition]
    return page(
        request, "records.html", topic=request.path_params["topic"], wanted=wanted, partitions=reader.partitions,
        lines=decoder_of(request).lines(lines), found=found, only=only, words=request.query_params,
        more=_more(wanted, lines, only), unread=_unread(wanted, found, lines), formats=request.app.state.formats,
        records_max=RECORDS_MAX,
    )  # fmt: skip


def ranges_of(reader: Reader, wanted: WantedRecords) -> dict[int, tuple[int, int]]:
    """The offsets that are looked at in each partition."""
    found, ends = {}, reader.ends(reader.partitions if wanted.partition is None else [wanted.partition])
    times = reader.at_time(list(ends), wanted.time_ms) if wanted.time_ms is not None else {}
    low, high = wanted.matches.offsets
    for one, (start, end) in ends.items():
        begin, until = start, end
        if wanted.is_newest_first:
            until = end if wanted.before is None else min(wanted.before, end)
        else:
            offset = times.get(one, end) if wanted.offset is None else wanted.offset
            begin = end if offset is None else max(start, offset)
        begin = min(max(begin, low), end)
        found[one] = begin, max(begin, min(until, high))
    return found


def _more(wanted: WantedRecords, lines: list[ConsumerRecord], only: FoundRecords | None) -> dict[str, int]:
    """The offsets from which pages of one partition go on: `older` ends before one, `newer` begins at one."""
    if only is None:
        return {}
    more = {}
    if wanted.is_newest_first:
        if only.reached > only.start:
            more["older"] = only.reached
        if wanted.before is not None:
            more["newer"] = only.end
        return more
    if only.reached < only.end:
        more["newer"] = only.reached
    if only.start > 0:
        more["older"] = lines[0].offset if lines else only.start
    return more


def _unread(wanted: WantedRecords, found: dict[int, FoundRecords], lines: list[ConsumerRecord]) -> bool:
    """Whether the look ended before there were enough records, though there is more to look at."""
    if len(lines) >= wanted.limit:
        return False
    reached = (
        part.reached > part.start if wanted.is_newest_first else part.reached < part.end for part in found.values()
    )
    return any(reached)


def _found(request: Request) -> ConsumerRecord:
    partition, offset = request.path_params["partition"], request.path_params["offset"]
    wanted = WantedRecords(partition, offset, None, None, "", "", filter_of("", "", decoder_of(request)), False, 1)
    found = reader_of(request, wanted).one(partition, offset)
    if found is None or found.offset != offset:
        raise HTTPException(
            404,
            f"There is no record at offset {offset:,}: it was deleted or compacted away, is a marker, or is to come.",
        )
    return found


@dataclass(frozen=True, slots=True)
class RecordPart:
    """The key or the value of a record: decoded (None: nothing says how), as text, and as bytes."""

    name: str
    data: bytes | None
    decoded: Shown | None
    plain: Shown
    dump: list[tuple[int, str, str]]


def record(request: Request) -> Response:
    """One record: its key, value and headers decoded, as text and as bytes."""
    found, decoder = _found(request), decoder_of(request)
    parts = [
        RecordPart(
            name, data, decoder.part(data, JSON_CHARS), shown(data, TEXT_BYTES), hex_lines((data or b"")[:HEX_BYTES])
        )
        for name, data in (("key", found.key), ("value", found.value))
    ]
    return page(
        request, "record.html", topic=found.topic, record=found, parts=parts, hex_bytes=HEX_BYTES,
        headers=[(one.key, shown(one.value, HEADER_BYTES)) for one in found.headers[:HEADERS_MAX]],
    )  # fmt: skip


def value(request: Request) -> Response:
    """The key or the value of a record as a file: all of its bytes, as they are."""
    part = request.path_params["part"]
    if part not in ("key", "value"):
        raise HTTPException(404, "A record has a key and a value.")
    found = _found(request)
    data = found.key if part == "key" else found.value
    name = f"{found.topic}-{found.partition}-{found.offset}.{part}"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(data or b"", media_type="application/octet-stream", headers=headers)
