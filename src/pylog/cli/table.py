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
    return pyarrow.RecordBatch.from_pylist([_row(one) for one in records], schema=schema)


def _row(record: ConsumerRecord) -> dict[str, object]:
    return {
        "key": record.key, "value": record.value, "topic": record.topic, "partition": record.partition,
        "offset": record.offset, "timestamp": record.timestamp, "timestamp_type": record.timestamp_type,
        "headers": [{"key": header.key, "value": header.value} for header in record.headers],
    }  # fmt: skip
