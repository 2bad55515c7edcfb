"""Partitions and topics as tables, wherever they lie."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pylog.kernel import ConsumerRecord
from pylog.protocol.isolation import IsolationLevel
from pylog.tables.decoded import ColumnDeserializer, Decoding, Fields, OnError
from pylog.tables.selection import MAX_ROWS, Moment, OnDamage, Part, Selection, WantedRange, milliseconds
from pylog.tables.tabular import Tabular

if TYPE_CHECKING:
    import pyarrow

__all__ = ["PartitionTable", "TopicTable"]


class PartitionTable(Tabular):
    """A partition. As a table it is all of its records (`select` chooses)."""

    @abstractmethod
    def _part(self) -> Part:
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
        """
        part = self._part()
        wanted = WantedRange(offset, end, milliseconds(since, "since"), milliseconds(until, "until"))
        what = f"{part.topic}-{part.partition}"
        return Selection(
            what, [part], wanted, columns, isolation_level, on_damage, Decoding(key, value, fields, on_error)
        )

    def _selection(self) -> Selection:
        return self.select()


class TopicTable(Tabular):
    """A topic. As a table it is all of its records, partition after partition (`select` chooses)."""

    name: str

    @abstractmethod
    def _parts(self, numbers: Iterable[int] | None) -> Sequence[Part]:
        """The partitions with these numbers; None: all. Raises IndexError."""

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
        """
        wanted = WantedRange(since_ms=milliseconds(since, "since"), until_ms=milliseconds(until, "until"))
        decoding = Decoding(key, value, fields, on_error)
        return Selection(self.name, self._parts(partitions), wanted, columns, isolation_level, on_damage, decoding)

    def records(
        self, *, isolation_level: IsolationLevel = "read_uncommitted", on_damage: OnDamage = "raise"
    ) -> Iterator[ConsumerRecord]:
        """All records, partition after partition. Raises what `records` of a partition does."""
        return self.select(isolation_level=isolation_level, on_damage=on_damage).records()

    def columns(
        self, *, max_rows: int = MAX_ROWS, isolation_level: IsolationLevel = "read_uncommitted",
        on_damage: OnDamage = "raise",
    ) -> "Iterator[pyarrow.RecordBatch]":  # fmt: skip
        """The same records as Arrow record batches. Raises what `columns` of a partition does."""
        return self.select(isolation_level=isolation_level, on_damage=on_damage).columns(max_rows=max_rows)

    def _selection(self) -> Selection:
        return self.select()
