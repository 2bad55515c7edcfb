"""`Tabular`: what a topic, a partition and a selection of records can be turned into."""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn, Protocol

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


class Selected(Protocol):
    """Records that were chosen."""

    @property
    def schema(self) -> "pyarrow.Schema":
        """The Arrow schema of the columns."""

    @property
    def records_most(self) -> int:
        """The most records that there can be now."""

    def stream(self) -> "tuple[pyarrow.Schema, Iterator[pyarrow.RecordBatch]]":
        """The schema, and the records, read as they are asked for."""


class Tabular(ABC):
    """Records that can be read as a table, partition after partition, each in the order of its offsets.

    Each call reads up to the end of now. Tools that know Arrow's PyCapsule protocol (DuckDB, Polars, pyarrow...) take
    the object itself, and read batch by batch. Needs pyarrow and numpy (the extra `arrow`).
    Raises, as it reads: OffsetOutOfRange, CorruptBatch (names file, position and offset); ImportError (says what to
    install).
    """

    @abstractmethod
    def _selection(self) -> Selected:
        """The selection to read."""

    def _stream(self) -> "tuple[pyarrow.Schema, Iterator[pyarrow.RecordBatch]]":
        # The schema comes first: it says what to install where pyarrow is not there.
        return self._selection().stream()

    def to_arrow(self) -> "pyarrow.Table":
        """All of it in memory.

        Raises OffsetOutOfRange, CorruptBatch, DeserializationError (where keys or values are decoded), ImportError
        (says what to install).

        >>> log.topic("orders").to_arrow().column("value").to_pylist()
        [b'book', b'pen', b'ink']
        """
        schema, batches = self._stream()
        import pyarrow

        return pyarrow.Table.from_batches(list(batches), schema=schema)

    def to_pandas(self) -> "pandas.DataFrame":
        """All of it in memory. Needs pandas, too (the extra `pandas`). Raises what `to_arrow` does.

        >>> log.topic("orders").to_pandas()["value"].tolist()
        [b'book', b'pen', b'ink']
        """
        try:
            import pandas  # noqa: F401
        except ModuleNotFoundError as error:
            raise ImportError(f"to_pandas needs pandas: pip install pandas ({error})") from error
        return self.to_arrow().to_pandas()

    def to_polars(self) -> "polars.DataFrame":
        """All of it in memory. Needs polars, too (the extra `polars`). Raises what `to_arrow` does.

        >>> log.topic("orders").to_polars()["value"].to_list()
        [b'book', b'pen', b'ink']
        """
        try:
            import polars
        except ModuleNotFoundError as error:
            raise ImportError(f"to_polars needs polars: pip install polars ({error})") from error
        frame = polars.from_arrow(self.to_arrow())
        assert isinstance(frame, polars.DataFrame)
        return frame

    def to_parquet(
        self, path: str | os.PathLike[str], *, compression: str = "zstd", progress: bool | None = None
    ) -> int:
        """Write a Parquet file, in the memory of some batches; gives the number of records.

        `path` has the whole file at the end, or what it had before. `compression`: as pyarrow names it. `progress`:
        whether a bar shows how far it is; None: where stderr is a terminal, and in a notebook with ipywidgets. Raises
        OSError, too.

        >>> log.topic("orders").to_parquet("orders.parquet")
        3
        """
        schema, batches = self._stream()
        from pylog.tables.parquet import export

        return export(schema, batches, os.fspath(path), compression, self._selection().records_most, progress)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} is of a log that is open in its process, and is not pickled: give the name, and "
            "open or connect to the log there, or give the records, as to_arrow() has them"
        )

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The records as an Arrow stream (the PyCapsule protocol)."""
        schema, batches = self._stream()
        import pyarrow

        return pyarrow.RecordBatchReader.from_batches(schema, batches).__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """The schema of that stream."""
        return self._selection().schema.__arrow_c_schema__()
