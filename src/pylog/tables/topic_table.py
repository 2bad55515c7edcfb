"""Partitions and topics as tables, wherever they lie."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from pylog.kernel import ConsumerRecord
from pylog.protocol.isolation import IsolationLevel
from pylog.tables.appended import AppendedTable, ColumnSerde, CompressionType, RecordSource, TableInput
from pylog.tables.decoded import ColumnDeserializer, Decoding, Fields, OnError
from pylog.tables.selection import MAX_ROWS, Moment, OnDamage, Selection, TablePart, WantedRange, milliseconds
from pylog.tables.tabular import Tabular

if TYPE_CHECKING:
    import pyarrow

__all__ = ["PartitionTable", "TopicTable"]

P = TypeVar("P", bound=TablePart)


class PartitionTable(Tabular):
    """A partition. As a table it is all of its records (`select` chooses)."""

    @abstractmethod
    def _part(self) -> TablePart:
        """The partition."""

    def select(
        self,
        columns: Sequence[str] | None = None,
        *,
        offset: int | None = None,
        end: int | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        isolation_level: IsolationLevel = "read_uncommitted",
        on_damage: OnDamage = "raise",
        key: ColumnDeserializer | None = None,
        value: ColumnDeserializer | None = None,
        fields: Fields | None = None,
        on_error: OnError = "raise",
    ) -> Selection:
        """Records in [offset, end) and in [since, until), and the columns that are named (None: all).

        Times are datetimes, or milliseconds since 1970. `key`, `value`: serdes that decode these columns. `fields`:
        columns in place of the value, "user.id" for a field of a field; by name, or with Arrow types. `on_error`: for a
        record that cannot be decoded. Raises ValueError and TypeError for wrong arguments; as it is read,
        DeserializationError, ValueError (a field has values of several types, and no type was given).

        >>> partition.select(["offset", "value"], offset=1, value=serde.string()).to_arrow().to_pylist()
        [{'offset': 1, 'value': 'pen'}, {'offset': 2, 'value': 'ink'}]
        """
        part = self._part()
        wanted = WantedRange(offset, end, milliseconds(since, "since"), milliseconds(until, "until"))
        what = f"{part.topic}-{part.partition}"
        return Selection(
            what, [part], wanted, columns, isolation_level, on_damage, Decoding(key, value, fields, on_error)
        )

    def _selection(self) -> Selection:
        return self.select()


class TopicTable(Tabular, Generic[P]):
    """A topic. As a table it is all of its records, partition after partition (`select` chooses)."""

    name: str
    _partitions: Mapping[int, P]

    def __len__(self) -> int:
        return len(self._partitions)

    def __getitem__(self, number: int) -> P:
        found = self._partitions.get(number)
        if found is None:
            raise IndexError(f"topic {self.name!r} has no partition {number}; it has {len(self)}")
        return found

    def __iter__(self) -> Iterator[P]:
        return iter(self._partitions.values())

    @abstractmethod
    def _append(self, table: TableInput, source: RecordSource, compression_type: CompressionType) -> AppendedTable:
        """See `append_table`."""

    def select(
        self,
        columns: Sequence[str] | None = None,
        *,
        partitions: Iterable[int] | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        isolation_level: IsolationLevel = "read_uncommitted",
        on_damage: OnDamage = "raise",
        key: ColumnDeserializer | None = None,
        value: ColumnDeserializer | None = None,
        fields: Fields | None = None,
        on_error: OnError = "raise",
    ) -> Selection:
        """Records in [since, until), of the partitions with these numbers (None: all), and the columns that are named
        (None: all). `select` of a partition takes offsets, too.

        The other arguments and errors are those of `PartitionView.select`; IndexError for a partition that there is
        not.

        >>> topic.select(["key", "value"], partitions=[0]).to_arrow().to_pylist()[0]
        {'key': b'alice', 'value': b'book'}
        >>> topic.select(["value"], value=serde.string()).to_arrow().to_pylist()
        [{'value': 'book'}, {'value': 'pen'}, {'value': 'ink'}]
        """
        wanted = WantedRange(since_ms=milliseconds(since, "since"), until_ms=milliseconds(until, "until"))
        decoding = Decoding(key, value, fields, on_error)
        parts = list(self) if partitions is None else [self[number] for number in partitions]
        return Selection(self.name, parts, wanted, columns, isolation_level, on_damage, decoding)

    def records(
        self, *, isolation_level: IsolationLevel = "read_uncommitted", on_damage: OnDamage = "raise"
    ) -> Iterator[ConsumerRecord]:
        """All records, partition after partition. Raises what `records` of a partition does.

        >>> [record.value for record in topic.records()]
        [b'book', b'pen', b'ink']
        """
        return self.select(isolation_level=isolation_level, on_damage=on_damage).records()

    def columns(
        self, *, max_rows: int = MAX_ROWS, isolation_level: IsolationLevel = "read_uncommitted",
        on_damage: OnDamage = "raise",
    ) -> "Iterator[pyarrow.RecordBatch]":  # fmt: skip
        """The same records as Arrow record batches. Raises what `columns` of a partition does.

        >>> [batch.num_rows for batch in topic.columns(max_rows=2)]
        [2, 1]
        """
        return self.select(isolation_level=isolation_level, on_damage=on_damage).columns(max_rows=max_rows)

    def append_table(
        self, table: TableInput, *, key: str | tuple[str, ColumnSerde] | None = None,
        value: str | ColumnSerde | tuple[str, ColumnSerde] = "value", fields: Sequence[str] | None = None,
        timestamp: str | None = None, headers: str | None = None, partition: str | int | None = None,
        compression_type: CompressionType = "none",
    ) -> AppendedTable:  # fmt: skip
        """Append the rows of a table as records, column by column; gives how many, and their offsets by partition.

        `table`: a pyarrow Table, RecordBatch or RecordBatchReader, a data frame of pandas or Polars, another object
        with Arrow's PyCapsule interface, or the path of a `.parquet` or `.csv` file.
        `value`: a column of text, bytes or whole numbers (as their digits), where null is a tombstone; `(column,
        serde)`: its cells by a serde; a serde alone: the row, as a dict of the columns in `fields` (None: of all).
        `key`: a column, or `(column, serde)`; a null is no key. `timestamp`: a column of times, or of milliseconds
        since 1970; a null is now. `headers`: a column of pairs, as `to_arrow` gives them. `partition`: a column, where
        a null is by the key, or one number. None: the column of that name, if the table has one.

        Rows keep their order in a partition, and are as durable as after `PartitionView.append`; through a network they
        are sent by an idempotent producer with acks="all". They go in by batches, and not all at once: where a row
        makes no record, the rows before it are appended, and the error names it. A note of an error says how many rows
        are in, and their offsets, also where an append fails.
        Raises: ValueError, TypeError (a column, before anything is appended; a row), RecordTooLarge, InvalidRecord (a
        null key in a compacted topic), what an append raises, OSError, pyarrow's errors of files,
        ImportError (says what to install).

        >>> import pyarrow
        >>> table = pyarrow.table({"customer": ["bob", "eve"], "item": ["cup", "hat"]})
        >>> topic.append_table(table, key="customer", value="item")
        AppendedTable(records=2, offsets={0: range(3, 5)})
        """
        source = RecordSource(key, value, fields, timestamp, headers, partition)
        return self._append(table, source, compression_type)

    def _selection(self) -> Selection:
        return self.select()
