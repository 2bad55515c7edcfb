"""Tables as Arrow record batches: what has Arrow's PyCapsule interface, data frames, Parquet and CSV files."""

import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import compute

from pylog.tables.appended import TableInput

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile


__all__ = ["batches_of", "parquet_batches"]

ROWS = 1 << 16
"""The most rows of a file that are in memory at a time."""
BYTES = 64 << 20
"""About how many bytes these rows have at most."""
KINDS = "a Parquet file (.parquet) or a CSV file (.csv)"


def batches_of(table: TableInput, key: str | None, value: str | None) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The schema of a table, and its record batches as they are asked for.

    `key`, `value`: the columns of a CSV file that stay text, so that "007" does; an empty key is null. Raises TypeError
    for what is not a table, ValueError for a file of another kind, OSError, pyarrow.ArrowInvalid.
    """
    if isinstance(table, str | os.PathLike):
        path = os.fspath(table)
        suffix = os.path.splitext(path)[1].lower()
        if suffix == ".parquet":
            return _parquet(path)
        if suffix == ".csv":
            return _csv(path, key, value)
        raise ValueError(f"{path!r} is not {KINDS}: read it with pyarrow, pandas or Polars, and append that")
    reader = _reader(table)
    return reader.schema, iter(reader)


def _reader(table: object) -> pa.RecordBatchReader:
    if isinstance(table, pa.RecordBatchReader):
        return table
    if isinstance(table, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(table.schema, [table])
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(table, pandas.DataFrame):
        # An index with a name is a column; one without counts rows.
        has_index = any(name is not None for name in table.index.names)
        return pa.Table.from_pandas(table, preserve_index=has_index).to_reader()
    polars = sys.modules.get("polars")
    if polars is not None and isinstance(table, polars.DataFrame):
        # Its stream has views of texts, which pyarrow cannot cast before 18.
        return table.to_arrow().to_reader()
    if hasattr(table, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(table)
    if hasattr(table, "__arrow_c_array__"):
        return _reader(pa.record_batch(table))
    raise TypeError(
        f"a table is {type(table).__name__}: give a pyarrow Table, RecordBatch or RecordBatchReader, a data frame of "
        f"pandas or Polars, or the path of {KINDS}"
    )


def _parquet(path: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    from pyarrow.parquet import ParquetFile

    file = ParquetFile(path)

    def batches() -> Iterator[pa.RecordBatch]:
        with file:
            yield from parquet_batches(file)

    return file.schema_arrow, batches()


def parquet_batches(
    file: "ParquetFile", columns: Sequence[str] | None = None, rows_max: int = ROWS
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """The rows of a `ParquetFile`: so many at a time that they have about `BYTES`, by the sizes in its footer."""
    footer = file.metadata
    size = sum(footer.row_group(number).total_byte_size for number in range(footer.num_row_groups))
    each = max(size // max(footer.num_rows, 1), 1)
    yield from file.iter_batches(min(max(BYTES // each, 1), rows_max), columns=columns)


def _csv(path: str, key: str | None, value: str | None) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    from pyarrow import csv

    texts = {name: pa.string() for name in (key, value) if name is not None}
    reader = csv.open_csv(path, convert_options=csv.ConvertOptions(column_types=texts))

    def batches() -> Iterator[pa.RecordBatch]:
        place = -1 if key is None else reader.schema.get_field_index(key)
        with reader:
            for batch in reader:
                columns = [_full(one) if number == place else one for number, one in enumerate(batch.columns)]
                yield pa.RecordBatch.from_arrays(columns, schema=batch.schema)

    return reader.schema, batches()


def _full(keys: pa.Array) -> pa.Array:
    """Keys, where an empty one is null."""
    return compute.if_else(compute.equal(keys, ""), pa.scalar(None, pa.string()), keys)
