"""The rows of a Parquet file as records, for `pylog produce --input`: column by column, without an object a record.

It stands on pyarrow, an extra. The columns of the file become those of records, as `RowForm` and the options say;
`RecordPlan` checks them, and the batches that they make go to the producer of the command.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import randrange
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import compute, parquet

from pylog.cli.cutting import TableError
from pylog.cli.meter import Meter
from pylog.cli.rows import TAKEN, RowForm, check_columns
from pylog.cli.sending import Brake, Count, Input, commit_if_due, named, seen_through, total
from pylog.client.producer import Producer
from pylog.client.producer.partitioning import Partitioning
from pylog.errors import PylogError
from pylog.protocol.batch import Batch
from pylog.protocol.compression import Codec
from pylog.runtime.clock import SystemClock
from pylog.tables.appended import RecordSource, TopicRules
from pylog.tables.appending.column_encoder import ColumnEncoder
from pylog.tables.appending.record_columns import HEADERS, RecordColumns, RecordPlan, RowFault, as_bytes, makes_bytes
from pylog.tables.appending.sources import parquet_batches
from pylog.tables.json_text import json_text

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile


__all__ = ["send_parquet"]

ROWS = 1 << 14
"""The most rows that are in memory at a time, and that are sent between two looks at Ctrl-C; fewer of large ones."""
ROOM = 16 << 20
"""The most bytes of the open batches of all partitions."""
SLACK = 64
"""A codec adds at most one part in so many to a batch, where it compresses nothing."""


def send_parquet(
    source: Input, form: RowForm, rules: TopicRules, producer: Producer, count: Count, brake: Brake
) -> None:
    """Send every row of the one file of `source`. Raises as `send_all` does: the error of a row has its number."""
    path, size = source.sources[0], total(source.sources) or 0
    with (
        brake.open(path) as stream,
        Meter(source.topic, size or None, is_shown=not source.is_quiet) as meter,
        seen_through(source, producer, count),
    ):
        try:
            file = parquet.ParquetFile(stream)
            sender = _Sender(source, form, rules, producer, count, file.schema_arrow)
            fault = _send_rows(file, sender, lambda share: meter.update(int(share * size), sender.rows), brake)
        except ValueError as error:
            where = f"{path}, behind row {sender.rows:,}" if count.sent else path
            raise named(error, where, "row", source, count) from error
        if fault is not None:
            found = fault.kind(f"column {fault.column!r}: {fault.reason}")
            raise named(found, f"{path}, row {sender.rows + 1:,}", "row", source, count)


def _send_rows(file: "ParquetFile", sender: "_Sender", show: Callable[[float], None], brake: Brake) -> RowFault | None:
    """Send all rows, or those before one that makes no record: it is given."""
    rows, fault = max(file.metadata.num_rows, 1), None
    try:
        for batch in parquet_batches(file, sender.names, ROWS):
            fault = sender.add(batch)
            if fault is not None:
                break
            show(sender.rows / rows)
            brake.check()
    except BaseException as error:
        # Ctrl-C and a file that breaks off leave no row unsent before the last one that was read. Nothing is sent
        # behind a batch that failed.
        if not isinstance(error, PylogError):
            sender.finish()
        raise
    sender.finish()
    return fault


class _Sender:
    """Sends the rows of record batches in the columns of one file."""

    def __init__(
        self, source: Input, form: RowForm, rules: TopicRules, producer: Producer, count: Count, schema: pa.Schema
    ) -> None:  # fmt: skip
        """Raises TableError: the file lacks a column, or has one of a wrong type."""
        check_columns(schema.names, form)
        self.rows = 0
        self._source = source
        self._form = form
        self._producer = producer
        self._count = count
        self._clock = SystemClock()
        self._partitions = rules.partitions
        self._partitioning = Partitioning(producer.config)
        codec = Codec.parse(producer.config.compression_type)
        limit = min(producer.config.batch_size, rules.max_message_bytes, rules.segment_bytes, source.longest)
        self._encoder = ColumnEncoder(
            rules.partitions, self._put, limit=limit - limit // SLACK if codec else limit, codec=codec,
            level=producer.config.compression_level, transactional=source.transactional_id is not None,
        )  # fmt: skip
        self.names = None if form.as_json else [one for one in dict.fromkeys((*TAKEN, form.key)) if one in schema.names]
        bounds = _bounds(rules, source.longest, is_packed=bool(codec))
        no_rows, given = pa.RecordBatch.from_pylist([], schema=schema), RecordSource(partition=source.partition)
        try:
            # Options change columns only where their types are right.
            RecordPlan(pa.RecordBatch.from_pydict(self._taken(no_rows)).schema, given, bounds)
            self._plan = RecordPlan(self._shaped(no_rows).schema, given, bounds)
        except TypeError as error:
            raise TableError(str(error)) from error

    def add(self, batch: pa.RecordBatch) -> RowFault | None:
        """Send rows, or those before one that makes no record: it is given."""
        rows, fault = self._plan.columns(self._shaped(batch), self._clock.wall_ms())
        for part in self._transactions(rows):
            self._encoder.add(part)
            self._encoder.shrink(ROOM)
            self.rows += len(part.values)
            self._count.add_bytes(_size(part))
            most = self._source.transaction_records
            if most is not None and not self.rows % most:
                self.finish()
                commit_if_due(most, self._producer, self._count)
        return fault

    def finish(self) -> None:
        """Send the open batches."""
        self._encoder.finish()

    def _put(self, partition: int, batch: Batch) -> None:
        self._count.add(self._producer.send_batch(self._source.topic, partition, batch.data), 0, batch.count)

    def _transactions(self, rows: RecordColumns) -> Iterator[RecordColumns]:
        """The rows, cut where a transaction ends."""
        first, most = 0, self._source.transaction_records
        while first < len(rows.values):
            some = len(rows.values) - first
            if most is not None:
                some = min(some, most - self.rows % most)
            yield rows.slice(first, some)
            first += some

    # --- the columns of records --------------------------------------------------------------------------------------

    def _taken(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        """The columns of the file that records take, with values and keys as binary."""
        form, names = self._form, batch.schema.names
        found = {name: batch.column(name) for name in TAKEN if name in names and not form.as_json}
        found["value"] = json_text(batch.to_struct_array()) if form.as_json else _bytes(found["value"], "value")
        if form.key in names:
            found["key"] = _bytes(batch.column(form.key), form.key)
        return found

    def _shaped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns `value`, `key`, `timestamp`, `partition` and `headers` of the rows, as the options say."""
        source, found = self._source, self._taken(batch)
        if source.key is not None:
            key = pa.scalar(source.key, pa.binary())
            found["key"] = compute.fill_null(found["key"], key) if "key" in found else pa.repeat(key, batch.num_rows)
        if source.is_null_empty:
            is_empty = compute.equal(compute.binary_length(found["value"]), 0)
            found["value"] = compute.if_else(is_empty, pa.scalar(None, pa.binary()), found["value"])
        if source.headers:
            found["headers"] = self._headers(found.get("headers"), batch)
        if source.partition is not None:
            found.pop("partition", None)
        elif not self._partitioning.is_usual:
            chosen = self._chosen(found["value"], found.get("key"))
            found["partition"] = compute.coalesce(found["partition"], chosen) if "partition" in found else chosen
        return pa.RecordBatch.from_pydict(found)

    def _headers(self, given: pa.Array | None, batch: pa.RecordBatch) -> pa.Array:
        """The headers of each row, and those of every record behind them."""
        added = [{"key": name, "value": value} for name, value in self._source.headers]
        rows = [None] * batch.num_rows if given is None else given.to_pylist()
        return pa.array([[*(own or ()), *added] for own in rows], HEADERS)

    def _chosen(self, values: pa.Array, keys: pa.Array | None) -> pa.Array:
        """The partition of each row, by a partitioner other than the usual one."""
        choose, by_key, count = self._partitioning.choose, self._partitioning.by_key, self._partitions
        some = [None] * len(values) if keys is None else keys.to_pylist()
        if choose is not None:
            topic = self._source.topic
            numbers = [choose(topic, key, value, count) for key, value in zip(some, values.to_pylist(), strict=True)]
        else:
            sticky = randrange(count)
            numbers = [sticky if (found := by_key(key, count)) is None else found for key in some]
        return pa.array(numbers, pa.int64())


def _bounds(rules: TopicRules, longest: int, *, is_packed: bool) -> TopicRules:
    """The bounds of a record: what the producer sends, and, unless it is compressed, what the topic takes."""
    if longest < rules.max_message_bytes or is_packed:
        return replace(rules, max_message_bytes=longest, limit_name="max.request.size")
    return rules


def _bytes(cells: pa.Array, name: str) -> pa.Array:
    """A column as binary. Raises TableError for one of another type."""
    if not makes_bytes(cells.type):
        raise TableError(
            f"the column {name!r} is {cells.type}, not text, bytes or a whole number: cast it, or give --as-json to "
            "make a record of a whole row"
        )
    return as_bytes(cells)


def _size(rows: RecordColumns) -> int:
    """The bytes of keys, values and headers."""
    found = [rows.values] if rows.keys is None else [rows.values, rows.keys]
    if rows.headers is not None:
        pairs = rows.headers.flatten()
        found += [pairs.field("key"), pairs.field("value")]
    return sum(compute.sum(compute.binary_length(one)).as_py() or 0 for one in found)
