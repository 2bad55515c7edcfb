"""`Serde`: a serializer and the deserializer that undoes it. (Kafka: Serde)"""

import enum
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pylog.kernel.values import ArrowColumn

if TYPE_CHECKING:
    import pyarrow

T = TypeVar("T")

__all__ = ["Serde", "plain_of"]


@dataclass(frozen=True, slots=True)
class Serde(Generic[T]):
    """The serialization of the objects of a type to bytes, and back.

    >>> cents = serde.Serde(lambda price: b"%d" % (100 * price), lambda data: int(data) / 100)
    >>> cents.serialize(2.5), cents.deserialize(b"250")
    (b'250', 2.5)
    """

    serialize: Callable[[T], bytes]
    """For `key_serializer` and `value_serializer` of a producer."""
    deserialize: Callable[[bytes], T]
    """For `key_deserializer` and `value_deserializer` of a consumer, which wraps what it raises in
    DeserializationError.
    """
    from_plain: Callable[[Any], T] | None = None
    """The object of a plain value, a dict, a list or a number, as the row of a table has it; None: the value itself."""
    serialize_column: Callable[[ArrowColumn], ArrowColumn] | None = None
    """`serialize` of each cell of an Arrow column, without an object a cell; null stays null. None: there is no such
    way. Raises pyarrow.ArrowInvalid for a cell that does not fit.
    """
    to_plain: Callable[[T], object] | None = None
    """The plain value of an object, of dicts, lists, texts and numbers, for a column of a table; None: the object is
    one.
    """
    arrow_type: "Callable[[], pyarrow.DataType | None] | None" = None
    """The Arrow type of plain values; None, or a result of None: it is that of the values themselves."""


def plain_of(value: object) -> object:
    """The same of dicts, lists, texts, numbers and times: enums are their values, and UUIDs are text."""
    if isinstance(value, dict):
        return {key: plain_of(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain_of(one) for one in value]
    if isinstance(value, enum.Enum):
        return value.value
    return str(value) if isinstance(value, uuid.UUID) else value
