"""The export of records to a Parquet file, with its progress. It stands on pyarrow, an extra."""

import os
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec

import pyarrow
from pyarrow.fs import LocalFileSystem
from pyarrow.parquet import ParquetWriter
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

GROUP_BYTES = 64 << 20
"""How much is in a row group, about: a reader skips whole groups, and the writer has one in memory."""


def export(
    schema: pyarrow.Schema, batches: Iterator[pyarrow.RecordBatch], path: str, compression: str, most: int,
    progress: bool | None,
) -> int:  # fmt: skip
    """See `Tabular.to_parquet`. `most`: how many records there are at most."""
    unfinished, disk = f"{path}.part", LocalFileSystem()
    rows = 0
    try:
        with _bar(path, most, progress) as bar, ParquetWriter(unfinished, schema, compression=compression) as writer:
            group: list[pyarrow.RecordBatch] = []
            for batch in batches:
                group.append(batch)
                rows += batch.num_rows
                if sum(one.nbytes for one in group) >= GROUP_BYTES:
                    _write(writer, schema, group)
                bar.update(bar.task_ids[0], completed=rows)
            _write(writer, schema, group)
            bar.update(bar.task_ids[0], total=rows)
        disk.move(unfinished, path)
    except BaseException:
        with suppress(OSError):
            disk.delete_file(unfinished)
        raise
    return rows


def _write(writer: ParquetWriter, schema: pyarrow.Schema, group: list[pyarrow.RecordBatch]) -> None:
    table = pyarrow.Table.from_batches(group, schema=schema)
    group.clear()
    if table.num_rows:
        writer.write_table(table, row_group_size=table.num_rows)


def _bar(path: str, most: int, progress: bool | None) -> Progress:
    console = Console(stderr=True)
    # In a notebook rich draws with ipywidgets, and warns without them.
    is_seen = find_spec("ipywidgets") is not None if console.is_jupyter else console.is_terminal
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(bar_width=30), MofNCompleteColumn(), TimeRemainingColumn(),
        console=console, disable=not (is_seen if progress is None else progress),
    )  # fmt: skip
    bar.add_task(os.path.basename(path), total=most)
    return bar
