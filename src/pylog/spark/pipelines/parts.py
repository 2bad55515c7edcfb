"""Applies the changes of one part of a table, in a worker: a part has the rows of some keys, in one Parquet file.

The file is read, the rows that changed are taken out, and the new ones go into a file that takes its place with the
commit. A part has to fit into the memory of a worker.
"""

from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import pyarrow as pa
from pyarrow import compute

from pylog.errors import StorageError
from pylog.spark.folder import Folder
from pylog.spark.pipelines.changes import DELETED, KEY, PART, PLACE
from pylog.spark.pipelines.commits import STAGED

RESULT: Final = "part int, records long, staged string, size long"
"""What a worker gives for each part that changed: its number, its rows, and its new file."""
_COMPRESSION: Final = "zstd"


def part_name(part: int) -> str:
    """The file of a part."""
    return f"part-{part:05}.parquet"


@dataclass(frozen=True)
class ChangeParts:
    """The function that `applyInArrow` runs for each part that has changes."""

    folder: Folder
    run: str
    rows: tuple[int, ...]
    """How many rows each part has."""

    def apply(self, changes: pa.Table) -> pa.Table:
        """Stage the file of a part. Raises StorageError where the file that it has is not what was committed."""
        part = changes[PART][0].as_py()
        changes = _in_utc(changes.drop_columns([PART]))
        table = merged(self._rows(part, changes.schema), changes)
        name = f"{uuid4().hex}.parquet"
        size = self.folder.write_table(f"{STAGED}/{self.run}/{name}", table, _COMPRESSION)
        columns = {"part": [part], "records": [table.num_rows], "staged": [name], "size": [size]}
        return pa.table(
            columns,
            pa.schema([("part", pa.int32()), ("records", pa.int64()), ("staged", pa.string()), ("size", pa.int64())]),
        )

    def _rows(self, part: int, schema: pa.Schema) -> pa.Table:
        name, count = part_name(part), self.rows[part]
        if count == 0:
            return schema.remove(schema.get_field_index(DELETED)).empty_table()
        if not self.folder.has(name):
            raise StorageError(
                f"{self.folder.at(name)} is gone, and had {count} rows: put it back, or take a new folder"
            )
        found = self.folder.read_table(name)
        if found.num_rows != count:
            raise StorageError(
                f"{self.folder.at(name)} has {found.num_rows} rows, and {count} were committed: put back what was "
                "there, or take a new folder"
            )
        return found


def merged(rows: pa.Table, changes: pa.Table) -> pa.Table:
    """The rows behind the changes, one for each key, in the order of keys. `changes` has each key once, and DELETED.

    A change wins over a row of its partition, as it comes behind it, and over one of another partition where its
    timestamp is not older.
    """
    partition, offset, timestamp = PLACE
    at = compute.index_in(rows[KEY], value_set=changes[KEY].combine_chunks())
    other = changes.select(PLACE).take(at)
    is_behind = compute.if_else(
        compute.equal(other[partition], rows[partition]),
        compute.greater(other[offset], rows[offset]),
        compute.greater_equal(other[timestamp], rows[timestamp]),
    )
    is_kept = compute.invert(compute.fill_null(is_behind, False))
    too_old = compute.index_in(changes[KEY], value_set=rows.filter(is_kept)[KEY].combine_chunks())
    written = changes.filter(compute.and_(compute.is_null(too_old), compute.invert(changes[DELETED])))
    kept = [rows.filter(is_kept), written.select(rows.column_names).cast(rows.schema)]
    return pa.concat_tables(kept).sort_by(KEY)


def _in_utc(table: pa.Table) -> pa.Table:
    """Timestamps with the time zone of Spark's session as those of UTC, so that all parts have one schema."""
    fields = [
        field.with_type(pa.timestamp(field.type.unit, "UTC"))
        if pa.types.is_timestamp(field.type) and field.type.tz is not None
        else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))
