"""`Selection`: records of some partitions, by offset or time, and some of their columns.

Only what is asked for is read: offsets and times become ranges of offsets by the indexes, and columns that are not
wanted are not decoded. A time is where a partition first has a record of that time or a later one, as for
`Consumer.offsets_for_times` and Spark: where timestamps are out of order, a range may have some from outside.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Literal, Protocol, Self, TypeVar, get_args

from pylog.errors import DeserializationError
from pylog.kernel import ConsumerRecord
from pylog.kernel.notebook import shown, table
from pylog.protocol.isolation import Isolation, IsolationLevel
from pylog.tables.decoded import Decoding
from pylog.tables.schema import checked_columns, schema_of
from pylog.tables.tabular import Tabular

if TYPE_CHECKING:
    import pyarrow

T = TypeVar("T")
MAX_ROWS = 10_000
SHOWN_MOST = 20
"""How many records a notebook shows."""
Moment = datetime | int
"""A time: with its zone, or in milliseconds since 1970."""


OnDamage = Literal["raise", "skip"]
"""What is done where records are damaged: CorruptBatch, or they are left out, and said in the log."""


def must_skip(on_damage: OnDamage) -> bool:
    """Whether damaged records are left out. Raises ValueError for another word."""
    if on_damage not in get_args(OnDamage):
        raise ValueError(f"on_damage is {on_damage!r}, and may be {' or '.join(map(repr, get_args(OnDamage)))}")
    return on_damage == "skip"


class TablePart(Protocol):
    """A partition."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def start_offset(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def last_stable_offset(self) -> int: ...
    def offset_for_time(self, timestamp_ms: int) -> int | None: ...
    def records(
        self, offset: int | None = None, end: int | None = None, *, isolation_level: IsolationLevel = ...,
        on_damage: OnDamage = ...,
    ) -> Iterator[ConsumerRecord]: ...  # fmt: skip
    def columns(
        self,
        offset: int | None = None,
        end: int | None = None,
        *,
        columns: Sequence[str] | None = None,
        max_rows: int = ...,
        isolation_level: IsolationLevel = ...,
        on_damage: OnDamage = ...,
    ) -> "Iterator[pyarrow.RecordBatch]": ...


@dataclass(frozen=True, slots=True)
class WantedRange:
    """The wanted range of each partition; None: from the start, up to the end."""

    offset: int | None = None
    end: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    def of(self, part: TablePart) -> tuple[int | None, int | None]:
        """The offsets of it in a partition, as they are now. They may be an empty range."""
        start, end = self.offset, self.end
        if self.since_ms is not None:
            first = part.offset_for_time(self.since_ms)
            start = max(start or 0, part.high_watermark if first is None else first)
        if self.until_ms is not None:
            first = part.offset_for_time(self.until_ms)
            end = _least(end, first)
        return start, end


def _least(one: int | None, other: int | None) -> int | None:
    given = [number for number in (one, other) if number is not None]
    return min(given, default=None)


def milliseconds(moment: Moment | None, name: str) -> int | None:
    """A time that a caller gave. Raises TypeError, ValueError (a datetime without a zone, or a time before 1970)."""
    if moment is None:
        return None
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise ValueError(f"{name} is {moment}, without a time zone: datetime(..., tzinfo=UTC)")
        moment = round(moment.timestamp() * 1000)
    if type(moment) is not int:
        raise TypeError(f"{name} is {type(moment).__name__}, not a datetime or milliseconds since 1970")
    if moment < 0:
        raise ValueError(f"{name} is {moment}: a time from 1970 on")
    return moment


class Selection(Tabular):
    """Records of some partitions, and some of their columns. Holds nothing: each call reads again.

    >>> selection = log.topic("orders")[0].select(["key", "value"], offset=1)
    >>> selection
    <Selection of orders-0: key, value>
    """

    def __init__(
        self,
        what: str,
        parts: Sequence[TablePart],
        wanted: WantedRange,
        columns: Sequence[str] | None,
        isolation: IsolationLevel,
        on_damage: OnDamage,
        decoding: Decoding,
    ) -> None:
        """Raises ValueError, TypeError for columns, isolation levels and words that there are not."""
        self._what = what
        self._parts = parts
        self._wanted = wanted
        self._columns = checked_columns(columns)
        Isolation.named(isolation)
        self._isolation = isolation
        must_skip(on_damage)
        self._on_damage = on_damage
        decoding.check(self._columns)
        self._decoding = decoding

    def __repr__(self) -> str:
        return f"<Selection of {self._what}: {', '.join(self._columns)}>"

    def records(self) -> Iterator[ConsumerRecord]:
        """The records, with all of their fields, as they lie in the log.

        Raises, as it reads, what `PartitionView.records` does.

        >>> [record.value for record in selection.records()]
        [b'pen', b'ink']
        """
        for part in self._parts:
            yield from part.records(*self._wanted.of(part), isolation_level=self._isolation, on_damage=self._on_damage)

    def columns(self, *, max_rows: int = MAX_ROWS) -> "Iterator[pyarrow.RecordBatch]":
        """The records as Arrow record batches of at most `max_rows` rows, without an object a record unless keys or
        values are decoded.

        At least one batch, so that there is a schema; it is empty where there are no records. Raises, as it reads,
        what `PartitionView.columns` does; DeserializationError where keys or values are decoded.

        >>> [batch.num_rows for batch in selection.columns(max_rows=1)]
        [1, 1]
        """
        yield from self.stream(max_rows)[1]

    def _selection(self) -> Self:
        return self

    @property
    def schema(self) -> "pyarrow.Schema":
        """The Arrow schema of the columns. Where the types of decoded columns are those of the values, the records are
        read. Raises ImportError, which says what to install.
        """
        return self.stream()[0]

    def stream(self, max_rows: int = MAX_ROWS) -> "tuple[pyarrow.Schema, Iterator[pyarrow.RecordBatch]]":
        """The schema, and the batches of `columns`."""
        # It says what to install where pyarrow is missing.
        schema = schema_of(self._columns)
        if not self._decoding.is_any:
            found = self._read(((part, *self._wanted.of(part)) for part in self._parts), self._columns, max_rows)
            return schema, _at_least_one(schema, (batch for _, batch in found))
        from pylog.tables.decoder import RecordDecoder

        decoder = RecordDecoder(self._columns, self._decoding)
        # Records that are appended meanwhile would be decoded by types that were learnt without them.
        ranges = [(part, *self._bounded(part)) for part in self._parts]
        if not decoder.knows_types:
            for part, batch in self._read(ranges, decoder.read, max_rows):
                self._told(part, decoder.learn, batch)
            decoder.settle()
        batches = (
            self._told(part, decoder.decoded, batch) for part, batch in self._read(ranges, decoder.read, max_rows)
        )
        return decoder.schema, _at_least_one(decoder.schema, batches)

    def _read(
        self, ranges: "Iterable[tuple[TablePart, int | None, int | None]]", columns: Sequence[str], max_rows: int
    ) -> "Iterator[tuple[TablePart, pyarrow.RecordBatch]]":
        for part, start, end in ranges:
            for batch in part.columns(
                start, end, columns=columns, max_rows=max_rows, isolation_level=self._isolation,
                on_damage=self._on_damage,
            ):  # fmt: skip
                yield part, batch

    def _told(self, part: TablePart, work: "Callable[[pyarrow.RecordBatch], T]", batch: "pyarrow.RecordBatch") -> T:
        """The result of a decoder's work. Raises DeserializationError."""
        from pylog.tables.decoder import Undecodable

        try:
            return work(batch)
        except Undecodable as error:
            at = error.offset
            (record,) = part.records(at, at + 1, isolation_level=self._isolation, on_damage=self._on_damage)
            remedy = "on_error='skip' leaves it out, and on_error='column' says so in a column"
            raise DeserializationError(str(error), record, remedy) from error.cause

    def _bounded(self, part: TablePart) -> tuple[int | None, int]:
        start, end = self._wanted.of(part)
        visible = part.last_stable_offset if self._isolation == "read_committed" else part.high_watermark
        return start, visible if end is None else min(end, visible)

    @property
    def records_most(self) -> int:
        """The most records that there can be now: offsets may be of none."""
        total = 0
        for part in self._parts:
            start, end = self._wanted.of(part)
            start = part.start_offset if start is None else start
            total += max(0, min(part.high_watermark, part.high_watermark if end is None else end) - start)
        return total

    def _repr_html_(self) -> str:
        columns: Sequence[str] = self._columns
        rows: list[list[object]]
        if self._decoding.is_any:
            schema, batches = self.stream(SHOWN_MOST + 1)
            columns = schema.names
            rows = list(islice((list(row.values()) for batch in batches for row in batch.to_pylist()), SHOWN_MOST + 1))
        else:
            rows = [[shown(record, name) for name in columns] for record in islice(self.records(), SHOWN_MOST + 1)]
        note = f"the first {SHOWN_MOST} of at most {self.records_most:,} records" if len(rows) > SHOWN_MOST else ""
        return table(f"Records of {self._what}", columns, rows[:SHOWN_MOST], note)


def _at_least_one(
    schema: "pyarrow.Schema", batches: "Iterable[pyarrow.RecordBatch]"
) -> "Iterator[pyarrow.RecordBatch]":
    """The batches that have rows; one without a row, if no batch has any."""
    import pyarrow

    has_any = False
    for batch in batches:
        if batch.num_rows:
            has_any = True
            yield batch
    if not has_any:
        yield pyarrow.RecordBatch.from_pylist([], schema=schema)
