"""The pages of files: the segments of a partition, a file line by line, a batch down to its bytes.

They read the files as they lie there, through `pylog.inspect`, so they show damage, too. A file may go while it is
looked at, as its owner drops segments: that is a page that says so.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import islice

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from pylog.errors import StorageError
from pylog.files import Files, join
from pylog.handles.views import PartitionView, TopicView
from pylog.inspect import BatchEntry, DumpLine, Problem, dump_segment, scan
from pylog.inspect.dump import base_offset_of, batch_entry, kind_of, offset_entries
from pylog.kernel.format import LOG_OVERHEAD
from pylog.protocol.batch import Batch
from pylog.storage.segment_checksum import INDEX_BYTES_MAX
from pylog.ui.batch_bytes import BATCH_BYTES_MAX, batch_bytes_max, header_fields
from pylog.ui.pages import page, seen, utc
from pylog.ui.parameters import number
from pylog.ui.values import hex_lines, shown, visible

__all__ = ["batch", "file", "partition"]

LINES = 100
RECORDS_MAX = 100
HEX_BYTES = 4 << 10


@dataclass(frozen=True, slots=True)
class FileLine:
    """A file of a partition."""

    name: str
    kind: str
    size: int
    mtime_ms: int


def _folder(request: Request) -> tuple[Files, PartitionView]:
    """The files, and the partition in the address. Raises NotLocal, UnknownTopicOrPartition, HTTPException (404)."""
    source = seen(request)
    files, name, one = source.local_files(), request.path_params["topic"], request.path_params["partition"]
    topic = source.log.topic(name)
    assert isinstance(topic, TopicView), "its files are here"
    if one >= len(topic):
        raise HTTPException(404, f"Topic {name} has no partition {one}; it has {len(topic)}.")
    return files, topic[one]


def _listed(files: Files, folder: str) -> list[FileLine]:
    if files.stat(folder) is None:
        # It is made with the first record.
        return []
    found = ((name, files.stat(join(folder, name))) for name in sorted(files.list_dir(folder)))
    return [FileLine(name, kind_of(name), stat.size, stat.mtime_ms) for name, stat in found if stat is not None]


def partition(request: Request) -> Response:
    """A partition: how far it has come, its segments, and their files."""
    files, view = _folder(request)
    lines = _listed(files, view.path)
    by_base: dict[int | None, list[FileLine]] = {}
    for line in lines:
        by_base.setdefault(base_offset_of(line.name), []).append(line)
    segments = [(one, by_base.pop(one.base_offset, [])) for one in view.segments]
    rest = [line for lines in by_base.values() for line in lines]
    return page(request, "partition.html", topic=view.topic, view=view, segments=segments, rest=rest)


def _file(request: Request) -> tuple[Files, PartitionView, str]:
    """The files, the partition and the file in the address: one of those that lie there, of a kind that is known."""
    files, view = _folder(request)
    name = request.path_params["name"]
    if name not in {line.name for line in _listed(files, view.path)}:
        raise HTTPException(404, f"There is no file {name} in {view.path}: its owner may have dropped it.")
    if not kind_of(name):
        raise HTTPException(404, f"{name} is not a file of a log that is known here.")
    return files, view, join(view.path, name)


def file(request: Request) -> Response:
    """The contents of a file: batches, entries or lines, a hundred at a time."""
    files, view, path = _file(request)
    name, words = request.path_params["name"], request.query_params
    is_log = kind_of(name) == "log"
    start = number(words, "start") or 0
    if is_log and (offset := number(words, "offset")) is not None:
        start = _position_before(files, path, offset)
    found = _batch_lines(files, path, start) if is_log else islice(dump_segment(files, path), start, None)
    lines = list(islice(found, LINES + 1))
    if start and not lines:
        what = "byte" if is_log else "line"
        raise HTTPException(404, f"There is no {what} {start:,} in {path}: look at it from the start.")
    more = None
    if len(lines) > LINES:
        last = lines.pop()
        more = getattr(last, "position", None) if is_log else start + LINES
    stat = files.stat(path)
    return page(
        request, "file.html", topic=view.topic, view=view, name=name, is_log=is_log, lines=[*map(_cells, lines)],
        columns=_columns(lines), start=start, more=more, size=0 if stat is None else stat.size,
    )  # fmt: skip


def _position_before(files: Files, path: str, offset: int) -> int:
    """A position in a log from which the batch with this offset is not far: what its index says, where that is in the
    file.
    """
    index = path.removesuffix(".log") + ".index"
    stat = files.stat(path)
    if stat is None or files.stat(index) is None:
        return 0
    entries = offset_entries(files.read_file(index, INDEX_BYTES_MAX))
    relative = offset - (base_offset_of(path) or 0)
    at = bisect_right(entries, relative, key=lambda entry: entry[0])
    position = entries[at - 1][1] if at else 0
    return position if 0 <= position < stat.size else 0


def _batch_lines(files: Files, path: str, start: int) -> Iterator[DumpLine]:
    opened = files.open(path)
    try:
        for found in scan.batches(opened, start):
            if isinstance(found, scan.Damage):
                yield Problem(path, found.position, found.offset, found.what, "`pylog verify` tells what is lost")
            else:
                yield batch_entry(found.batch, found.position)
    finally:
        opened.close()


def _columns(lines: list[DumpLine]) -> list[str]:
    first = next((line for line in lines if not isinstance(line, Problem)), None)
    return [] if first is None else list(_facts(first))


def _facts(line: DumpLine) -> dict[str, object]:
    if isinstance(line, BatchEntry):
        span = f"{line.base_offset:,} to {line.last_offset:,}"
        kind = " ".join(
            word for word, holds in (("control", line.is_control), ("transactional", line.is_transactional)) if holds
        )
        producer = "" if line.producer_id < 0 else f"{line.producer_id} epoch {line.producer_epoch}"
        return {
            "offsets": span, "records": line.count, "size": line.size, "codec": line.codec, "kind": kind,
            "newest (UTC)": utc(line.max_timestamp) or "-", "epoch": line.leader_epoch, "producer": producer,
        }  # fmt: skip
    found = {one.name: getattr(line, one.name) for one in fields(line)}
    # The lines of a text have names of their own.
    return dict(found["fields"]) if set(found) == {"fields"} else found


def _cells(line: DumpLine) -> tuple[DumpLine, list[object], bool]:
    is_problem = isinstance(line, Problem)
    return line, [] if is_problem else list(_facts(line).values()), is_problem


def batch(request: Request) -> Response:
    """A batch: each field of its header, its records, and all of its bytes."""
    files, view, path = _file(request)
    position, at = number(request.query_params, "position") or 0, number(request.query_params, "byte") or 0
    size, data = _batch_bytes(files, path, position)
    if not data:
        raise HTTPException(404, f"There is no byte {position:,} in {path}: look at it from the start.")
    records, problem = _records(data, size)
    piece = data[at : at + HEX_BYTES]
    return page(
        request, "batch.html", topic=view.topic, view=view, name=request.path_params["name"], position=position,
        size=size, read=len(data), header=header_fields(data), records=records, problem=problem,
        records_max=RECORDS_MAX, lines=hex_lines(piece, position + at), at=at,
        more=at + HEX_BYTES if at + HEX_BYTES < len(data) else None,
    )  # fmt: skip


def _batch_bytes(files: Files, path: str, position: int) -> tuple[int, bytes]:
    """The size that a batch claims to have, and those of its bytes that are there and that a page takes."""
    opened = files.open(path)
    try:
        if position >= opened.size():
            # The system refuses to read where no file can reach.
            return 0, b""
        size = batch_bytes_max(opened.read(position, LOG_OVERHEAD))
        return size, opened.read(position, min(size, BATCH_BYTES_MAX))
    finally:
        opened.close()


def _records(data: bytes, size: int) -> tuple[list[object], str]:
    """The first records of a batch, and why there are not more."""
    if len(data) < size:
        return [], f"its header says {size:,} bytes, and {len(data):,} were read"
    lines: list[object] = []
    try:
        found = Batch.parse(data, 0)
        found.check()
        for one in islice((one for group, _ in found.groups("", -1) for one in group), RECORDS_MAX):
            names = visible(", ".join(header.key for header in one.headers))
            lines.append((one, shown(one.key), shown(one.value), names))
    except StorageError as error:
        return lines, scan.words(error)
    return lines, ""
