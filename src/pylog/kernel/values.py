"""The values that the record classes of both kernels are made of, and the checks of their fields."""

import enum
from collections.abc import Iterable, Mapping
from types import UnionType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pylog.errors import RecordTooLarge
from pylog.kernel.format import STREAM_BYTES_MAX

if TYPE_CHECKING:
    import pyarrow
    from typing_extensions import TypeVar

    Key = TypeVar("Key", default=bytes)
    Value = TypeVar("Value", default=bytes)
    SentKey = TypeVar("SentKey", default=bytes | bytearray | memoryview, contravariant=True)
    SentValue = TypeVar("SentValue", default=bytes | bytearray | memoryview, contravariant=True)
else:
    from typing import TypeVar

    Key, Value = TypeVar("Key"), TypeVar("Value")
    SentKey, SentValue = TypeVar("SentKey", contravariant=True), TypeVar("SentValue", contravariant=True)

_COPIED = bytearray, memoryview
BytesLike = bytes | bytearray | memoryview
"""Keys and values as `send` and serializers may give them."""

ArrowColumn: TypeAlias = "pyarrow.Array[Any]"
"""A column of Arrow; pyarrow is an extra."""

CREATE_TIME = 0
LOG_APPEND_TIME = 1


class Header(NamedTuple):
    """A record header. Order and repeated keys are kept."""

    key: str
    value: bytes | None


Headers = Mapping[str, bytes | None] | Iterable[tuple[str, bytes | None]]
"""Headers as they are given: by name, or as pairs, where a name may be there twice."""


class BatchScope(NamedTuple):
    """The common properties of the records of one batch."""

    topic: str
    partition: int
    leader_epoch: int
    timestamp_type: int
    """0: CreateTime, the producer's; 1: LogAppendTime, the broker's."""


ColumnSource = tuple[bytes | bytearray | memoryview, int, int, int, int, int | None]
"""A batch to decode into columns: its record stream, decompressed, record count, base offset, last offset, base
timestamp, append timestamp or None."""


def check_stream(count: int, size: int) -> None:
    """Raise ValueError where a stream has no records, RecordTooLarge where its bytes do not fit into a batch."""
    if count == 0:
        raise ValueError("a batch needs at least one record")
    if size > STREAM_BYTES_MAX:
        raise RecordTooLarge(f"{size} bytes of records do not fit into a batch (2 GiB): append them in parts")


class Judgement(enum.IntEnum):
    """The answer of a `KeyTable` about a record."""

    SUPERSEDED = 0
    """Its key has a newer one."""
    NEWEST = 1
    NEWEST_TOMBSTONE = 2
    """The same, but it has no value."""
    WITHOUT_KEY = 3
    UNSEEN = 4
    """It lies beyond the offsets with which the table was filled."""


def as_bytes(given: Any) -> Any:
    """The bytes of a bytearray or memoryview, copied, as its owner may change it; anything else as it is."""
    return bytes(given) if isinstance(given, _COPIED) else given


def check_fields(value: object, key: object, timestamp: object) -> None:
    """Raise TypeError or ValueError unless a record can have these fields."""
    if value is not None and not isinstance(value, bytes):
        raise TypeError(f"value is {type(value).__name__}, not bytes or None: encode it first")
    if key is not None and not isinstance(key, bytes):
        raise TypeError(f"key is {type(key).__name__}, not bytes or None: encode it first")
    if timestamp is not None:
        if not isinstance(timestamp, int) or isinstance(timestamp, bool):
            raise TypeError(f"timestamp is {type(timestamp).__name__}, not int (milliseconds) or None")
        if timestamp < -1:
            raise ValueError(f"timestamp {timestamp} is negative: -1 means none, and there is nothing below")
        if timestamp >= 1 << 63:
            raise ValueError(f"timestamp {timestamp} does not fit into 64 bits: it counts milliseconds")


def checked_headers(headers: Headers) -> tuple[Header, ...]:
    """The headers as a tuple. Raises TypeError where one is not (str, bytes or None)."""
    checked = []
    pairs: Iterable[Any] = headers.items() if isinstance(headers, Mapping) else headers
    for pair in pairs:
        try:
            name, value = pair
        except (TypeError, ValueError):
            raise TypeError(f"header {pair!r} is not a pair (str, bytes or None)") from None
        if not isinstance(name, str) or not (value is None or isinstance(value, bytes)):
            raise TypeError(f"header {pair!r} is not a pair (str, bytes or None)")
        checked.append(Header(name, value))
    return tuple(checked)


def check_received(offset: object, timestamp: object, key: object, value: object, scope: object) -> None:
    """Raise TypeError unless a record can have been read with these fields, ValueError for numbers no batch holds."""
    _check_kinds(
        ("offset", offset, int), ("timestamp", timestamp, int), ("key", key, bytes | None),
        ("value", value, bytes | None), ("scope", scope, BatchScope),
    )  # fmt: skip
    _check_widths(("offset", offset, 64), ("timestamp", timestamp, 64))


def check_landed(topic: object, partition: object, offset: object, timestamp: object) -> None:
    """Raise TypeError unless a record can have landed there, ValueError for numbers that no log has."""
    _check_kinds(
        ("topic", topic, str), ("partition", partition, int), ("offset", offset, int), ("timestamp", timestamp, int)
    )
    _check_widths(("partition", partition, 32), ("offset", offset, 64), ("timestamp", timestamp, 64))


def _check_kinds(*fields: tuple[str, object, type | UnionType]) -> None:
    for name, given, kind in fields:
        if not isinstance(given, kind):
            raise TypeError(f"{name} is {type(given).__name__}, not {getattr(kind, '__name__', kind)}")


def _check_widths(*fields: tuple[str, Any, int]) -> None:
    for name, number, bits in fields:
        if not -(1 << bits - 1) <= number < 1 << bits - 1:
            raise ValueError(f"{name} {number} does not fit into {bits} bits")


def record_table(record: object) -> str:
    """A record that was read, as a notebook shows it."""
    from pylog.kernel import notebook

    return notebook.record_table(record)


record_classes: dict[str, type] = {}
"""`Record`, `RecordMetadata` and `ConsumerRecord` of the kernel that runs, by name."""


def restored(name: str, *fields: object) -> object:
    """A pickled record, of either kernel, in a class of the one that runs here."""
    return record_classes[name](*fields)
