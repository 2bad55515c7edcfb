"""The two record classes, and what goes with them: what a user sends, and what comes back.

    Record          value, key, timestamp, headers                           made by a user
    ConsumerRecord  offset, timestamp, key, value, headers + its BatchScope   made by `decode_records`

What all records of a batch share (topic, partition, leader epoch, timestamp type) is one object, the scope.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

CREATE_TIME = 0
LOG_APPEND_TIME = 1


class Header(NamedTuple):
    """A record header. Order and repeated keys are kept."""

    key: str
    value: bytes | None


class BatchScope(NamedTuple):
    """What the records of one batch have in common."""

    topic: str
    partition: int
    leader_epoch: int
    timestamp_type: int
    """0: CreateTime, the producer's; 1: LogAppendTime, the broker's."""


class Record:
    """A record to append: `value` and `key` are bytes or None; a `timestamp` (ms) of None is the time of the append.

    Raises TypeError for anything else, ValueError for a negative timestamp.
    """

    __slots__ = ("headers", "key", "timestamp", "value")

    def __init__(
        self,
        value: bytes | None,
        key: bytes | None = None,
        timestamp: int | None = None,
        headers: Iterable[tuple[str, bytes | None]] = (),
    ) -> None:
        check_fields(value, key, timestamp)
        self.value = value
        self.key = key
        self.timestamp = timestamp
        self.headers: tuple[Header, ...] = checked_headers(headers) if headers else ()

    def _fields(self) -> tuple[Any, ...]:
        return self.value, self.key, self.timestamp, self.headers

    def __eq__(self, other: object) -> bool:
        return self._fields() == other._fields() if isinstance(other, Record) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        return f"Record(value={self.value!r}, key={self.key!r}, timestamp={self.timestamp}, headers={self.headers!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Record, self._fields()


class ConsumerRecord:
    """A record as it was read. `timestamp` is in milliseconds, -1 where the producer gave none."""

    __slots__ = ("headers", "key", "offset", "scope", "timestamp", "value")

    def __init__(
        self,
        offset: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[Header, ...],
        scope: BatchScope,
    ) -> None:
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = headers
        self.scope = scope

    @property
    def topic(self) -> str:
        return self.scope.topic

    @property
    def partition(self) -> int:
        return self.scope.partition

    @property
    def leader_epoch(self) -> int:
        return self.scope.leader_epoch

    @property
    def timestamp_type(self) -> int:
        return self.scope.timestamp_type

    def _fields(self) -> tuple[Any, ...]:
        return self.offset, self.timestamp, self.key, self.value, self.headers, self.scope

    def __eq__(self, other: object) -> bool:
        return self._fields() == other._fields() if isinstance(other, ConsumerRecord) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        return (
            f"ConsumerRecord(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
            f"timestamp={self.timestamp}, key={self.key!r}, value={self.value!r}, headers={self.headers!r})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return ConsumerRecord, self._fields()


def check_fields(value: object, key: object, timestamp: object) -> None:
    """Raise TypeError or ValueError unless a record can have these."""
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


def checked_headers(headers: Iterable[Any]) -> tuple[Header, ...]:
    """The headers as a tuple. Raises TypeError where one is not (str, bytes or None)."""
    checked = []
    for pair in headers:
        try:
            name, value = pair
        except (TypeError, ValueError):
            raise TypeError(f"header {pair!r} is not a pair (str, bytes or None)") from None
        if not isinstance(name, str) or not (value is None or isinstance(value, bytes)):
            raise TypeError(f"header {pair!r} is not a pair (str, bytes or None)")
        checked.append(Header(name, value))
    return tuple(checked)
