"""Keys and values of records decoded into Arrow columns. It stands on pyarrow, an extra.

The types of the columns are those that were given, or those of the serde, or those of the values. For the last of these
the records are read twice: all of them are looked at, so that a field may appear or become wider in the middle.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow as pa

from pylog.errors import SchemaRegistryError
from pylog.tables.decoded import ERROR, ColumnDeserializer, Decoding
from pylog.tables.schema import schema_of

__all__ = ["RecordDecoder", "Undecodable"]

MISFITS = (pa.ArrowException, OverflowError, TypeError, ValueError)
"""The errors of pyarrow for a value that is not of a type."""


class Undecodable(Exception):  # noqa: N818 - `Selection` raises DeserializationError for it
    """A record that cannot be decoded."""

    def __init__(self, offset: int, reason: str, cause: BaseException) -> None:
        super().__init__(reason)
        self.offset = offset
        self.cause = cause


@dataclass(slots=True)
class _Output:
    """A column that is made of a decoded key or value: all of it, or the field at a path."""

    name: str
    source: str
    path: str | None
    kind: pa.DataType | None
    seen: set[pa.DataType] = field(default_factory=set)
    """The types of values, where `kind` is not known."""

    def cells(self, plain: list[object]) -> list[object]:
        return plain if self.path is None else [_field(one, self.path) for one in plain]


class RecordDecoder:
    """Batches of records to the same with decoded columns."""

    def __init__(self, columns: Sequence[str], decoding: Decoding) -> None:
        self._decoding = decoding
        self._columns = columns
        self._serdes: dict[str, ColumnDeserializer] = {
            name: serde for name, serde in (("key", decoding.key), ("value", decoding.value)) if serde is not None
        }
        self._outputs = {name: list(self._outputs_of(name, serde)) for name, serde in self._serdes.items()}

    @property
    def read(self) -> list[str]:
        """The columns that are read: those that are wanted, and the offset."""
        return list(dict.fromkeys([*self._columns, "offset"]))

    @property
    def knows_types(self) -> bool:
        """Whether the types are known without a look at the values."""
        return all(one.kind is not None for one in self._all())

    @property
    def schema(self) -> pa.Schema:
        """The schema of what `decoded` gives."""
        fields: list[object] = []
        for plain in schema_of(self._columns):
            outputs = self._outputs.get(plain.name)
            fields += [plain] if outputs is None else [pa.field(one.name, one.kind or pa.null()) for one in outputs]
        if self._decoding.on_error == "column":
            fields.append(pa.field(ERROR, pa.string()))
        return pa.schema(fields)

    def learn(self, batch: pa.RecordBatch) -> None:
        """Look at values for the types that are not known. Raises Undecodable, ValueError (values of several types)."""
        plains, _ = self._plains(batch)
        for one in self._all():
            if one.kind is None:
                try:
                    one.seen.add(pa.array(one.cells(plains[one.source])).type)
                except MISFITS as error:
                    raise _mixed(one, error) from error

    def settle(self) -> None:
        """Let the types be those that hold all values that were looked at. Raises ValueError."""
        for one in self._all():
            if one.kind is None:
                one.kind = _merged(one)

    def decoded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The same records with decoded columns. Raises Undecodable."""
        plains, errors = self._plains(batch)
        made = {one.name: self._array(one, plains[one.source], errors, batch) for one in self._all()}
        arrays: list[pa.Array] = []
        for name in self._columns:
            outputs = self._outputs.get(name)
            arrays += [batch.column(name)] if outputs is None else [made[one.name] for one in outputs]
        if self._decoding.on_error == "column":
            arrays.append(pa.array([errors.get(row) for row in range(batch.num_rows)], pa.string()))
        whole = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        if self._decoding.on_error == "skip" and errors:
            return whole.filter(pa.array([row not in errors for row in range(batch.num_rows)]))
        return whole

    def _all(self) -> Iterator[_Output]:
        for outputs in self._outputs.values():
            yield from outputs

    def _outputs_of(self, name: str, serde: ColumnDeserializer) -> Iterator[_Output]:
        kind = None if serde.arrow_type is None else serde.arrow_type()
        fields = self._decoding.fields if name == "value" else None
        if fields is None:
            yield _Output(name, name, None, kind)
            return
        for path in fields:
            given = fields[path] if isinstance(fields, Mapping) else None
            yield _Output(path, name, path, given if given is not None or kind is None else _kind_at(kind, path))

    def _plains(self, batch: pa.RecordBatch) -> tuple[dict[str, list[object]], dict[int, str]]:
        """The plain keys and values, and the errors by row."""
        errors: dict[int, str] = {}
        plains = {
            name: self._plain(name, serde.deserialize, serde.to_plain, batch, errors)
            for name, serde in self._serdes.items()
        }
        return plains, errors

    def _plain(
        self, name: str, deserialize: Callable[[bytes], object], to_plain: Callable[[object], object] | None,
        batch: pa.RecordBatch, errors: dict[int, str],
    ) -> list[object]:  # fmt: skip
        found: list[object] = []
        needs_fields = any(one.path is not None for one in self._outputs[name])
        for row, data in enumerate(batch.column(name).to_pylist()):
            plain = None
            try:
                if data is not None:
                    plain = deserialize(data)
                    if to_plain is not None:
                        plain = to_plain(plain)
                    if needs_fields and not isinstance(plain, dict):
                        raise ValueError(f"it is of type {type(plain).__name__}, and has no fields")
            except SchemaRegistryError:
                # A registry does not answer: the record is not at fault.
                raise
            except Exception as error:  # noqa: BLE001 - deserializers raise anything
                plain = None
                self._note(errors, batch, row, f"the {name} cannot be decoded: {error}", error)
            found.append(plain)
        return found

    def _array(self, one: _Output, plain: list[object], errors: dict[int, str], batch: pa.RecordBatch) -> pa.Array:
        cells = one.cells(plain)
        try:
            return _typed(cells, one.kind)
        except MISFITS:
            pass
        for row, cell in enumerate(cells):
            try:
                cells[row] = _typed([cell], one.kind)[0].as_py()
            except MISFITS as error:
                cells[row] = None
                self._note(errors, batch, row, f"{one.name} is not {one.kind}: {error}", error)
        return pa.array(cells, one.kind)

    def _note(self, errors: dict[int, str], batch: pa.RecordBatch, row: int, reason: str, error: Exception) -> None:
        if self._decoding.on_error == "raise":
            raise Undecodable(batch.column("offset")[row].as_py(), reason, error)
        errors.setdefault(row, reason)


def _typed(cells: list[object], kind: pa.DataType | None) -> pa.Array:
    """The cells as a column; cast where they are of another type: a time in a text, a number as text."""
    try:
        return pa.array(cells, kind)
    except MISFITS:
        return pa.array(cells).cast(kind)


def _field(plain: object, path: str) -> object:
    """The field of a dict, or of one in it; None where there is no such field. A name may have dots itself."""
    if not isinstance(plain, dict):
        return None
    if path in plain:
        return plain[path]
    head, dot, rest = path.partition(".")
    return _field(plain.get(head), rest) if dot else None


def _kind_at(kind: pa.DataType, path: str) -> pa.DataType:
    """The type of a field. Raises ValueError."""
    if pa.types.is_map(kind):
        _, dot, rest = path.partition(".")
        # A key may have dots itself.
        with suppress(ValueError):
            return _kind_at(kind.item_type, rest) if dot else kind.item_type
        return kind.item_type
    if not pa.types.is_struct(kind):
        raise ValueError(f"there is no field {path!r} in a {kind}")
    place = kind.get_field_index(path)
    if place >= 0:
        return kind.field(place).type
    head, dot, rest = path.partition(".")
    place = kind.get_field_index(head) if dot else -1
    if place < 0:
        raise ValueError(f"there is no field {path!r}; the fields are {', '.join(one.name for one in kind)}")
    return _kind_at(kind.field(place).type, rest)


def _merged(one: _Output) -> pa.DataType:
    # Sorted, so that the order of fields is the same each time.
    schemas = [pa.schema([(one.name, kind)]) for kind in sorted(one.seen or {pa.null()}, key=str)]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive").field(one.name).type
    except MISFITS as error:
        raise _mixed(one, error) from error


def _mixed(one: _Output, error: Exception) -> ValueError:
    way = "fields=[...]" if one.path is None else f"fields={{{one.name!r}: pyarrow.string()}}"
    return ValueError(
        f"{one.name!r} has values that are not of one type: {error}; give a serde of a type, as serde.json(Order), or "
        f"{way}: values of other types count as not decoded then"
    )
