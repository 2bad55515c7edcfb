"""Records as a Parquet file, for `pylog consume --output`. It stands on pyarrow, an extra."""

from collections.abc import Iterator

import pyarrow

from pylog.record import ConsumerRecord
from pylog.tables.parquet import export

__all__ = ["write_table"]

COMPRESSION = "zstd"


def write_table(schema: pyarrow.Schema, reading: Iterator[list[ConsumerRecord]], path: str) -> int:
    """Write all that is read, in the columns of `schema`, which are all there are; how many records there were."""
    batches = (_batch(schema, records) for records in reading if records)
    return export(schema, batches, path, COMPRESSION, 0, progress=False)


def _batch(schema: pyarrow.Schema, records: list[ConsumerRecord]) -> pyarrow.RecordBatch:
    # The columns have the names of a record's fields.
    columns = {name: [getattr(record, name) for record in records] for name in schema.names}
    return pyarrow.RecordBatch.from_pydict(columns, schema=schema)
