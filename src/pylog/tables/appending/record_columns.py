"""The columns that records are made of: found by name in the schema of a table, checked, and turned into bytes.

Each check looks at a whole column. The first row that fails one is a `RowFault`, and the rows before it are given.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import compute

from pylog.errors import InvalidRecord, PylogError, RecordTooLarge
from pylog.kernel import HEADER_BYTES
from pylog.kernel.format import RECORD_OVERHEAD_MAX
from pylog.tables.appended import ColumnSerde, RecordSource, TopicRules
from pylog.tables.schema import schema_of

__all__ = [
    "HEADERS",
    "RecordColumns",
    "RecordPlan",
    "RowFault",
    "as_bytes",
    "as_times",
    "makes_bytes",
    "objects_of",
    "out_of_range",
    "without_name",
]

LENGTHS_MOST = 10
"""The most bytes of the two lengths of a key and a value, or of a header's two parts."""
MS = pa.timestamp("ms")


class RecordColumns(NamedTuple):
    """Rows as the encoder takes them."""

    values: pa.Array
    """binary; null: a tombstone."""
    keys: pa.Array | None = None
    """binary; null, or no column: no key."""
    stamps: pa.Array | int = -1
    """int64, milliseconds since 1970, without nulls; or one time for all."""
    partitions: pa.Array | int | None = None
    """Whole numbers, null: by the key; or one partition for all."""
    headers: pa.Array | None = None
    """list<struct<key: string, value: binary>>; null: none."""

    def slice(self, first: int, rows: int) -> "RecordColumns":
        """So many rows from the first on."""
        return RecordColumns(*(one if one is None or isinstance(one, int) else one.slice(first, rows) for one in self))


class RowFault(NamedTuple):
    """The first row that makes no record, and the error it is."""

    row: int
    column: str
    reason: str
    kind: Callable[[str], Exception] = ValueError
    cause: Exception | None = None


@dataclass(frozen=True, slots=True)
class _Cells:
    """One column, or several as a struct, that make a key or a value."""

    what: str
    places: tuple[int, ...]
    serde: ColumnSerde | None
    is_row: bool = False

    def of(self, batch: pa.RecordBatch) -> tuple[pa.Array, RowFault | None]:
        """The bytes, up to the row that the serde refuses."""
        cells = batch.select(list(self.places)).to_struct_array() if self.is_row else batch.column(self.places[0])
        if self.serde is None:
            return as_bytes(cells), None
        if self.serde.serialize_column is not None:
            try:
                return self.serde.serialize_column(cells), None
            except pa.ArrowInvalid:
                # A cell does not fit: the loop below finds it.
                pass
            except pa.ArrowNotImplementedError as error:
                raise TypeError(f"the column {self.what!r} is {cells.type}, which its serde does not take") from error
        return self._one_by_one(cells, self.serde)

    def _one_by_one(self, cells: pa.Array, serde: ColumnSerde) -> tuple[pa.Array, RowFault | None]:
        made: list[bytes | None] = []
        try:
            for cell in objects_of(cells):
                given = cell if cell is None or serde.from_plain is None else serde.from_plain(cell)
                made.append(None if given is None else serde.serialize(given))
        except PylogError:
            # A registry does not answer, or refuses: the row is not at fault.
            raise
        except Exception as error:  # noqa: BLE001 - serdes raise anything; `append_table` raises it with its row
            reason = f"its serde refuses it: {error}"
            return pa.array(made, pa.binary()), RowFault(len(made), self.what, reason, cause=error)
        return pa.array(made, pa.binary()), None


class RecordPlan:
    """The way from a batch of a table to the columns of records."""

    def __init__(self, schema: pa.Schema, source: RecordSource, rules: TopicRules) -> None:
        """Raises ValueError for a column that is not there, or is there twice; TypeError for one of a wrong type."""
        self._schema = schema
        self._rules = rules
        self._value = self._value_cells(source.value, source.fields)
        self._key = self._key_cells(source.key)
        self._times = self._place(source.timestamp, "timestamp", _check_times)
        self._headers = self._place(source.headers, "headers", _check_headers)
        self._partition: int | None = None
        self._partitions: int | None = None
        if isinstance(source.partition, int):
            self._partition = source.partition
            if not 0 <= source.partition < rules.partitions:
                raise ValueError(f"there is no partition {source.partition}: the topic has {rules.partitions}")
        else:
            self._partitions = self._place(source.partition, "partition", _check_partitions)

    def columns(self, batch: pa.RecordBatch, now_ms: int) -> tuple[RecordColumns, RowFault | None]:
        """The rows of a batch; where one fails, the rows before it."""
        values, first = self._value.of(batch)
        keys, second = (None, None) if self._key is None else self._key.of(batch)
        faults = [first, second]
        rows = min([len(values)] if keys is None else [len(values), len(keys)])
        batch = batch.slice(0, rows)
        stamps = now_ms if self._times is None else as_times(batch.column(self._times), now_ms)
        partitions: pa.Array | int | None = self._partition
        if self._partitions is not None:
            partitions = _numbers(batch.column(self._partitions))
        headers = None if self._headers is None else _headers(batch.column(self._headers))
        found = RecordColumns(values, keys, stamps, partitions, headers).slice(0, rows)
        faults += self._faults(found)
        fault = min((one for one in faults if one is not None), key=lambda one: one.row, default=None)
        return (found, None) if fault is None else (found.slice(0, fault.row), fault)

    def _faults(self, found: RecordColumns) -> list[RowFault | None]:
        rules, faults = self._rules, []
        if self._partitions is not None:
            wrong = out_of_range(found.partitions, rules.partitions)
            faults.append(self._fault(wrong, self._partitions, f"the topic has partitions 0 to {rules.partitions - 1}"))
        if self._times is not None:
            wrong = compute.or_(
                compute.less(found.stamps, rules.earliest_ms), compute.greater(found.stamps, rules.latest_ms)
            )
            words = (
                f"the time is not in [{rules.earliest_ms}, {rules.latest_ms}] ms since 1970 (see the topic's "
                "message.timestamp.before.max.ms and message.timestamp.after.max.ms)"
            )
            faults.append(self._fault(wrong, self._times, words))
        if self._headers is not None:
            faults.append(self._fault(without_name(found.headers), self._headers, "a header has no key"))
        if rules.needs_key:
            row = 0 if found.keys is None and len(found.values) else -1
            row = row if found.keys is None else compute.index(compute.is_null(found.keys), True).as_py()
            if row >= 0:
                faults.append(RowFault(row, "key", "the key is null, and a compacted topic needs keys", InvalidRecord))
        sizes = _sizes(found)
        if len(sizes) and int(sizes.max()) > rules.max_message_bytes:
            row = int(np.argmax(sizes > rules.max_message_bytes))
            words = f"the record takes up to {sizes[row]} bytes, over {rules.limit_name} {rules.max_message_bytes}"
            faults.append(RowFault(row, self._value.what, words, RecordTooLarge))
        return faults

    def _fault(self, wrong: pa.Array, place: int, reason: str) -> RowFault | None:
        row = compute.index(wrong, True).as_py()
        return None if row < 0 else RowFault(row, self._schema.field(place).name, reason)

    def _place(self, name: str | None, usual: str, check: Callable[[pa.Field], None]) -> int | None:
        """The number of the column with this name; None: of the one with the usual name, if there is one."""
        if name is None and usual not in self._schema.names:
            return None
        place = self._number(usual if name is None else name, usual)
        check(self._schema.field(place))
        return place

    def _number(self, name: str, what: str) -> int:
        places = self._schema.get_all_field_indices(name)
        if len(places) != 1:
            there = ", ".join(self._schema.names) or "none"
            how = "twice" if places else "not"
            raise ValueError(f"{what}: the column {name!r} is {how} in the table, which has the columns {there}")
        return int(places[0])

    def _key_cells(self, given: object) -> _Cells | None:
        if given is None and "key" not in self._schema.names:
            return None
        return self._cells("key", "key" if given is None else given)

    def _value_cells(self, given: object, fields: Sequence[str] | None) -> _Cells:
        if isinstance(given, str | tuple):
            if fields is not None:
                raise ValueError("fields are for a value that a serde makes of them: give value=serde, not a column")
            return self._cells("value", given)
        if isinstance(fields, str):
            raise TypeError(f"fields is a list of names, [{fields!r}], not one name")
        names = self._schema.names if fields is None else list(fields)
        return _Cells("value", tuple(self._number(name, "fields") for name in names), _serde(given, "value"), True)

    def _cells(self, what: str, given: Any) -> _Cells:
        name, serde = given if isinstance(given, tuple) else (given, None)
        place = self._number(name, what)
        if serde is None:
            _check_bytes(self._schema.field(place), what)
        return _Cells(name, (place,), None if serde is None else _serde(serde, what))


def objects_of(cells: pa.Array) -> list[object]:
    """The cells as Python objects, with dicts for maps, which pyarrow gives as lists of pairs."""
    found: list[object] = cells.to_pylist()
    return [_with_dicts(one, cells.type) for one in found] if "map<" in str(cells.type) else found


def _with_dicts(value: Any, kind: pa.DataType) -> object:
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {key: _with_dicts(item, kind.item_type) for key, item in value}
    if pa.types.is_struct(kind):
        return {field.name: _with_dicts(value[field.name], field.type) for field in kind}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return [_with_dicts(one, kind.value_type) for one in value]
    return value


def _serde(given: Any, what: str) -> ColumnSerde:
    if not callable(getattr(given, "serialize", None)):
        raise TypeError(f"{what} is {type(given).__name__}: give the name of a column, a serde, or (name, serde)")
    found: ColumnSerde = given
    return found


def _stored(kind: pa.DataType) -> pa.DataType:
    """The type of the cells of a dictionary or an extension type."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _is_bytes(kind: pa.DataType) -> bool:
    return str(kind) in ("binary", "large_binary", "binary_view", "string", "large_string", "string_view") or (
        pa.types.is_fixed_size_binary(kind)
    )


def makes_bytes(kind: pa.DataType) -> bool:
    """True for the types of columns that `as_bytes` takes."""
    kind = _stored(kind)
    return bool(_is_bytes(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind))


def _check_bytes(field: pa.Field, what: str) -> None:
    if not makes_bytes(field.type):
        raise TypeError(
            f"{what}: the column {field.name!r} is {field.type}, not text, bytes or a whole number: cast it, or give "
            f"{what}=({field.name!r}, serde)"
        )


def as_bytes(cells: pa.Array) -> pa.Array:
    """A column as binary: text as UTF-8, whole numbers as their digits."""
    if isinstance(cells, pa.ExtensionArray):
        cells = cells.storage
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if pa.types.is_integer(cells.type):
        cells = cells.cast(pa.string())
    return cells if cells.type == pa.binary() else cells.cast(pa.binary())


def _check_times(field: pa.Field) -> None:
    of = pa.types
    if not any(is_it(field.type) for is_it in (of.is_timestamp, of.is_date, of.is_integer, of.is_null)):
        raise TypeError(
            f"timestamp: the column {field.name!r} is {field.type}, not a timestamp, a date, or milliseconds since "
            "1970: cast it, or rename it where it is not the time of the record"
        )


def as_times(cells: pa.Array, now_ms: int) -> pa.Array:
    """A column of times in milliseconds since 1970; `now_ms` where it is null. A time without a zone is UTC."""
    if pa.types.is_timestamp(cells.type):
        cells = cells.cast(pa.timestamp("ms", cells.type.tz), safe=False)
    elif pa.types.is_date(cells.type):
        cells = cells.cast(MS)
    # One beyond 63 bits becomes negative, and is refused with those before 1970.
    return compute.fill_null(cells.cast(pa.int64(), safe=False), now_ms)


def _check_partitions(field: pa.Field) -> None:
    if not (pa.types.is_integer(field.type) or pa.types.is_null(field.type)):
        raise TypeError(
            f"partition: the column {field.name!r} is {field.type}, not a whole number: cast it, or rename it where it "
            "is not the partition of the record"
        )


def _numbers(cells: pa.Array) -> pa.Array:
    # One beyond 63 bits becomes negative, and is refused with the others that no topic has.
    return cells.cast(pa.int64(), safe=False)


def _check_headers(field: pa.Field) -> None:
    kind = field.type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    pair = kind.value_type if is_list and pa.types.is_struct(kind.value_type) else ()
    if pa.types.is_null(kind):
        return
    if [one.name for one in pair] != ["key", "value"] or not all(_is_text(one.type) for one in pair):
        raise TypeError(
            f"headers: the column {field.name!r} is {field.type}, not a list<struct<key: string, value: binary>>: cast "
            "it, or rename it where it is not the headers of the record"
        )


def _is_text(kind: pa.DataType) -> bool:
    """True for a type of text or bytes, and for that of nulls alone."""
    return pa.types.is_null(kind) or _is_bytes(_stored(kind))


HEADERS = schema_of(["headers"]).field("headers").type


def _headers(cells: pa.Array) -> pa.Array:
    return cells if cells.type == HEADERS else cells.cast(HEADERS)


def out_of_range(numbers: pa.Array, count: int) -> pa.Array:
    """Whether a partition is not one of so many; null for a null."""
    return compute.or_(compute.less(numbers, 0), compute.greater_equal(numbers, count))


def without_name(headers: pa.Array) -> pa.Array:
    """Whether a row has a header that is null, or has no key."""
    pairs, rows = _pairs(headers)
    nameless = compute.or_(compute.is_null(pairs), compute.is_null(pairs.field("key")))
    wrong = np.zeros(len(headers), bool)
    wrong[rows[nameless.to_numpy(zero_copy_only=False)]] = True
    return pa.array(wrong)


def _pairs(headers: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The headers of all rows, and the row of each. The elements that Arrow lets a null list have do not count."""
    counts = compute.fill_null(compute.list_value_length(headers), 0).to_numpy(zero_copy_only=False)
    return headers.flatten(), np.repeat(np.arange(len(headers)), counts)


def _sizes(found: RecordColumns) -> pa.Array:
    """The most bytes that each record can have as a batch of its own."""
    sizes = _lengths(found.values) + (HEADER_BYTES + RECORD_OVERHEAD_MAX + LENGTHS_MOST)
    if found.keys is not None:
        sizes += _lengths(found.keys)
    if found.headers is not None:
        pairs, rows = _pairs(found.headers)
        lengths = _lengths(pairs.field("key")) + _lengths(pairs.field("value")) + LENGTHS_MOST
        sizes += np.bincount(rows, lengths, len(sizes)).astype(np.int64)
    return sizes


def _lengths(cells: pa.Array) -> pa.Array:
    return compute.fill_null(compute.binary_length(cells), 0).to_numpy(zero_copy_only=False).astype(np.int64)
