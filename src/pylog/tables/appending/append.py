"""A table appended to a topic: its rows in their order, and the rows that are in the log where one fails."""

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from pylog.protocol.batch import Batch
from pylog.protocol.compression import Codec
from pylog.tables.appended import AppendedTable, ColumnSerde, RecordSource, TableInput, TopicRules
from pylog.tables.appending.column_encoder import ColumnEncoder
from pylog.tables.appending.record_columns import RecordColumns, RecordPlan
from pylog.tables.appending.sources import batches_of

__all__ = ["BatchSink", "append_table"]

PIECE_BYTES = 32 << 20
"""How much of a table is encoded at a time, about."""
BATCH_BYTES = 1 << 20
"""As much as a consumer asks for at once (Kafka's max.partition.fetch.bytes), before it is compressed."""
ROOM = 64 << 20
"""The most bytes of the open batches of all partitions."""


class BatchSink(Protocol):
    """The topic that takes the batches."""

    def put(self, partition: int, batch: Batch) -> None:
        """Append a batch, now or soon."""

    def settle(self) -> None:
        """Wait until all batches are appended. Raises the first error of one that is not."""

    @property
    def appended(self) -> AppendedTable:
        """The batches that are appended. Waits for those that are not answered."""


def append_table(
    table: TableInput, source: RecordSource, rules: TopicRules, sink: BatchSink, compression_type: str, now_ms: int
) -> AppendedTable:
    """See `TopicView.append_table`. A row without a time gets `now_ms`."""
    schema, batches = batches_of(table, *_texts(source))
    plan = RecordPlan(schema, source, rules)
    limit = min(BATCH_BYTES, rules.max_message_bytes, rules.segment_bytes)
    encoder = ColumnEncoder(rules.partitions, sink.put, limit=limit, codec=Codec.parse(compression_type))
    failure: Exception | None = None
    try:
        for given in _columns(batches, plan, now_ms):
            if isinstance(given, Exception):
                failure = given
            else:
                encoder.add(given)
                encoder.shrink(ROOM)
        # The rows before a row that fails are in the log, all of them.
        encoder.finish()
        sink.settle()
        if failure is not None:
            raise failure
    except BaseException as error:
        error.add_note(f"of the table, {sink.appended}")
        raise
    return sink.appended


def _columns(batches: Iterator[pa.RecordBatch], plan: RecordPlan, now_ms: int) -> Iterator[RecordColumns | Exception]:
    """The rows as columns, up to the first row that makes no record or cannot be read: its error comes last."""
    rows = 0
    try:
        for piece in (piece for batch in batches for piece in _pieces(batch)):
            columns, fault = plan.columns(piece, now_ms)
            rows += len(columns.values)
            yield columns
            if fault is not None:
                error = fault.kind(f"row {rows:,}, column {fault.column!r}: {fault.reason}; {_before(rows)} appended")
                error.__cause__ = fault.cause
                yield error
                return
    except Exception as error:  # noqa: BLE001 - the caller raises it, when the rows before it are appended
        yield error


def _before(rows: int) -> str:
    if not rows:
        return "nothing is"
    return "the row before it is" if rows == 1 else f"the {rows:,} rows before it are"


def _texts(source: RecordSource) -> tuple[str | None, str | None]:
    """The columns that are the key and the value as they are."""
    key: str | tuple[str, ColumnSerde] = "key" if source.key is None else source.key
    return key if isinstance(key, str) else None, source.value if isinstance(source.value, str) else None


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of no more than `PIECE_BYTES`, except for a single row."""
    if batch.nbytes <= PIECE_BYTES or batch.num_rows == 1:
        if batch.num_rows:
            yield batch
        return
    half = batch.num_rows // 2
    yield from _pieces(batch.slice(0, half))
    yield from _pieces(batch.slice(half))
