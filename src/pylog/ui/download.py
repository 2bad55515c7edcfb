"""The records that a page has found, and those that follow them, as a file: JSON lines, CSV or Parquet.

The files are those of `pylog consume --output`, and `pylog produce --input` reads them; or keys and values are decoded,
for other programs (`decoded_rows`). A file is made as it is sent. One that cannot be made whole breaks off, so that no
visitor takes a part of it for all: a record is damaged, is not text (CSV that is not decoded), or the time is over.
`RECORDS_MAX` records are a whole file.
"""

from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from pylog.errors import PylogError
from pylog.record import ConsumerRecord
from pylog.tables.csv_lines import HEAD, csv_line
from pylog.tables.json_lines import json_record
from pylog.tables.schema import COLUMNS, schema_of
from pylog.ui.decoded_rows import DecodedRows, arrow_schema
from pylog.ui.parameters import choice, flag
from pylog.ui.reading import Reader
from pylog.ui.records import RECORDS_MAX, WantedRecords, decoder_of, ranges_of, reader_of, wanted_of

if TYPE_CHECKING:
    from pyarrow import RecordBatch, Schema
    from pyarrow.parquet import ParquetWriter

__all__ = ["BrokenDownloadError", "download", "formats"]

MS_MAX = 60_000
CHUNK_BYTES = 64 << 10
GROUP_BYTES = 16 << 20
"""How much is in a row group of Parquet, about: it is in memory until it is written."""
PAUSE_RECORDS = 10_000
"""After so many records without a match the server looks whether its visitor is still there."""
MEDIA = {"jsonl": "application/jsonl", "csv": "text/csv", "parquet": "application/vnd.apache.parquet"}

Groups = Iterator[list[ConsumerRecord]]


class BrokenDownloadError(Exception):
    """The reason why a file that was begun is not sent to its end."""


def formats() -> tuple[str, ...]:
    """The formats that there are here: Parquet takes pyarrow."""
    return tuple(name for name in MEDIA if name != "parquet" or find_spec("pyarrow") is not None)


def download(request: Request) -> Response:
    """Records of a topic as a file, partition by partition, oldest first."""
    wanted = wanted_of(request)
    reader = reader_of(request, wanted, ms_max=MS_MAX)
    name = choice(request.query_params, "format", formats())
    is_decoded = flag(request.query_params, "decoded")
    groups = _groups(reader, wanted)
    found = _decoded(name, groups, DecodedRows(decoder_of(request))) if is_decoded else _made(name, groups)
    try:
        # The first part is made before an answer begins: what goes wrong at once is a page.
        first = next(found, b"")
    except ValueError as error:
        raise HTTPException(400, str(error)) from error
    title = request.path_params["topic"] + (".decoded" if is_decoded else "")
    headers = {"content-disposition": f'attachment; filename="{title}.{name}"'}
    return StreamingResponse(chain([first], _rest(found)), media_type=MEDIA[name], headers=headers)


def _rest(found: Iterator[bytes]) -> Iterator[bytes]:
    try:
        yield from found
    except (PylogError, ValueError) as error:
        # The answer has begun: its connection is closed before its end, which a browser calls a failed download.
        raise BrokenDownloadError(str(error)) from error


def _groups(reader: Reader, wanted: WantedRecords) -> Groups:
    """Matching records together, until they are many bytes. A list may be empty. Raises CorruptBatch, ValueError."""
    group: list[ConsumerRecord] = []
    left, size, passed = RECORDS_MAX, 0, 0
    for partition, (start, end) in ranges_of(reader, wanted).items():
        for record, matches in reader.every(partition, start, end):
            passed += 1
            if matches:
                group.append(record)
                left -= 1
                size += len(record.key or b"") + len(record.value or b"") + 100
                size += sum(len(header.value or b"") + 100 for header in record.headers)
            if size > CHUNK_BYTES or passed == PAUSE_RECORDS or not left:
                yield group
                group, size, passed = [], 0, 0
            if not left:
                return
    yield group


def _made(name: str, groups: Groups) -> Iterator[bytes]:
    if name == "csv":
        return _lines(groups, csv_line, HEAD)
    if name == "jsonl":
        return _lines(groups, json_record)
    from pylog.tables.record_file import record_batch

    schema = schema_of(COLUMNS)
    return _parquet(schema, (record_batch(schema, group) for group in groups))


def _decoded(name: str, groups: Groups, rows: DecodedRows) -> Iterator[bytes]:
    if name == "csv":
        return _lines(groups, rows.csv_line, rows.head)
    if name == "jsonl":
        return _lines(groups, rows.json_line)
    schema = arrow_schema()
    return _parquet(schema, rows.batches(schema, groups))


def _lines(groups: Groups, render: Callable[[ConsumerRecord], bytes], head: bytes = b"") -> Iterator[bytes]:
    """Lines in chunks of a bounded size: decoded ones may be much longer than their records."""
    chunk = bytearray(head)
    for group in groups:
        for record in group:
            chunk += render(record)
            if len(chunk) > CHUNK_BYTES:
                yield bytes(chunk)
                chunk.clear()
        yield bytes(chunk)
        chunk.clear()


class _Sink:
    """The file that pyarrow writes to: what was written since the last time can be taken."""

    closed = False

    def __init__(self) -> None:
        self._new = bytearray()

    def write(self, data: bytes) -> int:
        self._new += data
        return len(data)

    def take(self) -> bytes:
        """The new bytes."""
        found = bytes(self._new)
        self._new.clear()
        return found


def _parquet(schema: "Schema", batches: "Iterable[RecordBatch]") -> Iterator[bytes]:
    from pyarrow import PythonFile
    from pyarrow.parquet import ParquetWriter

    sink = _Sink()
    with ParquetWriter(PythonFile(sink, mode="w"), schema, compression="zstd") as writer:
        waiting: list[RecordBatch] = []
        for batch in batches:
            waiting.append(batch)
            if sum(one.nbytes for one in waiting) > GROUP_BYTES:
                _write(writer, waiting)
            yield sink.take()
        _write(writer, waiting)
    yield sink.take()


def _write(writer: "ParquetWriter", waiting: "list[RecordBatch]") -> None:
    from pyarrow import Table

    table = Table.from_batches(waiting)
    waiting.clear()
    if table.num_rows:
        writer.write_table(table, row_group_size=table.num_rows)
