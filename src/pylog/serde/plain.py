"""Serdes that need no schema: text, whole numbers as Java's clients write them, JSON.

(Kafka: StringSerializer, IntegerSerializer, LongSerializer)
"""

from codecs import lookup
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from json import dumps, loads
from struct import Struct
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args, overload

from pylog.kernel.values import ArrowColumn
from pylog.serde.serde import Serde, plain_of

if TYPE_CHECKING:
    import pyarrow

T = TypeVar("T")


def string(encoding: str = "utf-8") -> Serde[str]:
    r"""Text. Raises LookupError (there is no such encoding) and, as it is used, UnicodeError.

    >>> serde.string().serialize("café")
    b'caf\xc3\xa9'
    """
    is_utf8 = lookup(encoding).name == "utf-8"
    return Serde(
        lambda text: text.encode(encoding), lambda data: data.decode(encoding),
        serialize_column=_utf8_column if is_utf8 else None, arrow_type=partial(_arrow, "string"),
    )  # fmt: skip


def integer() -> Serde[int]:
    r"""Whole numbers of 32 bits, the highest byte first, as Java's IntegerSerializer. Raises ValueError for others.

    >>> serde.integer().serialize(258)
    b'\x00\x00\x01\x02'
    """
    return _number(Struct(">i"))


def long() -> Serde[int]:
    r"""Whole numbers of 64 bits, the highest byte first, as Java's LongSerializer. Raises ValueError for others.

    >>> serde.long().deserialize(b"\0\0\0\0\0\0\x01\x02")
    258
    """
    return _number(Struct(">q"))


def _number(packed: Struct) -> Serde[int]:
    bits = 8 * packed.size

    def serialize(number: int) -> bytes:
        if not -(1 << bits - 1) <= number < 1 << bits - 1:
            raise ValueError(f"{number} does not fit into {bits} bits")
        return packed.pack(number)

    def deserialize(data: bytes) -> int:
        if len(data) != packed.size:
            raise ValueError(f"{len(data)} bytes are not a number of {bits} bits")
        return cast(int, packed.unpack(data)[0])

    return Serde(
        serialize,
        deserialize,
        serialize_column=partial(_number_column, packed),
        arrow_type=partial(_arrow, f"int{bits}"),
    )


def _arrow(name: str) -> "pyarrow.DataType":
    import pyarrow

    return pyarrow.type_for_alias(name)


def _utf8_column(cells: ArrowColumn) -> ArrowColumn:
    import pyarrow

    return cells.cast(pyarrow.string()).cast(pyarrow.binary())


def _number_column(packed: Struct, cells: ArrowColumn) -> ArrowColumn:
    import pyarrow
    from pyarrow import compute

    numbers = cells.cast(pyarrow.int32() if packed.size == 4 else pyarrow.int64())
    swapped = numbers.fill_null(0).to_numpy().byteswap()
    fixed = pyarrow.FixedSizeBinaryArray.from_buffers(
        pyarrow.binary(packed.size), len(cells), [None, pyarrow.py_buffer(swapped)]
    )
    found: ArrowColumn = compute.if_else(
        numbers.is_valid(), fixed.cast(pyarrow.binary()), pyarrow.scalar(None, pyarrow.binary())
    )
    return found


@overload
def json() -> Serde[Any]: ...
@overload
def json(of: type[T], /) -> Serde[T]: ...
@overload
def json(of: Any, /) -> Serde[Any]: ...
def json(of: Any = None, /) -> Serde[Any]:
    """JSON: of anything that JSON knows, by orjson where that is installed; or of a type.

    `of`: a pydantic model, or a type with models in it: `Annotated[Cat | Dog, Field(discriminator="kind")]`,
    `list[Cat]`... Or what msgspec knows: a Struct, a dataclass, a TypedDict, `list[int]`, a tagged union of Structs...
    Reading checks the types then. Raises ImportError, which says what to install.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Order:
    ...     item: str
    ...     amount: int = 1
    >>> serde.json(Order).serialize(Order("book"))
    b'{"item":"book","amount":1}'
    >>> serde.json(Order).deserialize(b'{"item":"pen","amount":3}')
    Order(item='pen', amount=3)
    """
    if of is None:
        return Serde(*_untyped(), serialize_column=_json_column)
    if hasattr(of, "model_validate_json"):
        return Serde(
            lambda model: cast(bytes, model.model_dump_json().encode()), of.model_validate_json, of.model_validate,
            to_plain=lambda model: plain_of(model.model_dump()), arrow_type=partial(_annotated, of),
        )  # fmt: skip
    if _has_model(of):
        from pydantic import TypeAdapter

        adapter = TypeAdapter(of)
        return Serde(
            adapter.dump_json, adapter.validate_json, adapter.validate_python,
            to_plain=lambda model: plain_of(adapter.dump_python(model)), arrow_type=partial(_annotated, of),
        )  # fmt: skip
    try:
        import msgspec
    except ModuleNotFoundError as error:
        raise ImportError(f"JSON of {of} needs msgspec: pip install msgspec ({error})") from error
    return Serde(
        msgspec.json.Encoder().encode, msgspec.json.Decoder(of).decode, partial(msgspec.convert, type=of),
        to_plain=partial(msgspec.to_builtins, builtin_types=(bytes, Decimal, date, datetime, time, timedelta)),
        arrow_type=partial(_annotated, of),
    )  # fmt: skip


def _annotated(of: object) -> "pyarrow.DataType | None":
    from pylog.serde.arrow_types import of_annotation

    return of_annotation(of)


def _json_column(cells: ArrowColumn) -> ArrowColumn:
    from pylog.tables.json_text import json_text

    return json_text(cells)


def _has_model(of: object) -> bool:
    """Whether a model of pydantic's is among the types that a type is made of."""
    return hasattr(of, "model_validate_json") or any(map(_has_model, get_args(of)))


def _untyped() -> tuple[Callable[[object], bytes], Callable[[bytes], object]]:
    try:
        import orjson
    except ModuleNotFoundError:
        return lambda value: dumps(value, separators=(",", ":"), ensure_ascii=False).encode(), loads
    return orjson.dumps, orjson.loads
