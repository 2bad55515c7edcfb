"""Records as a Parquet file, for `pylog consume --output`. It stands on pyarrow, an extra."""

from collections.abc import Iterator

import pyarrow

from pylog.kernel import ConsumerRecord
from pylog.tables.parquet import GROUP_BYTES, export

__all__ = ["record_batch", "write_table"]

COMPRESSION = "zstd"


def write_table(
    schema: pyarrow.Schema, reading: Iterator[list[ConsumerRecord]], path: str, group_bytes: int = GROUP_BYTES
) -> int:
    """Write all that is read, in the columns of `schema`, which are all there are; how many records there were."""
    batches = (record_batch(schema, group) for records in reading for group in _groups(records, group_bytes))
    return export(schema, batches, path, COMPRESSION, 0, progress=False)


def _groups(records: list[ConsumerRecord], group_bytes: int) -> Iterator[list[ConsumerRecord]]:
    """Records together until they hold more than `group_bytes`: a column of Arrow's has less than 2 GiB."""
    group: list[ConsumerRecord] = []
    size = 0
    for record in records:
        if group and size > group_bytes:
            yield group
            group, size = [], 0
        group.append(record)
        size += len(record.key or b"") + len(record.value or b"")
        size += sum(len(header.value or b"") for header in record.headers)
    if group:
        yield group


def record_batch(schema: pyarrow.Schema, records: list[ConsumerRecord]) -> pyarrow.RecordBatch:
    """Some records in the columns of `schema`."""
    # The columns have the names of a record's fields.
    columns = {name: [getattr(record, name) for record in records] for name in schema.names}
    return pyarrow.RecordBatch.from_pydict(columns, schema=schema)
