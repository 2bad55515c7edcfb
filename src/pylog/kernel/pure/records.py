"""The record classes: sent by a user, returned for a send, and read.

    Record          value, key, timestamp, headers                           made by a user
    RecordMetadata  topic, partition, offset, timestamp                      made by a delivery
    ConsumerRecord  offset, timestamp, key, value, headers + its BatchScope   made by `decode_records`

All records of a batch share one object, the scope: topic, partition, leader epoch, timestamp type.
"""

from abc import abstractmethod
from typing import Generic

from pylog.kernel.values import (
    BatchScope,
    Header,
    Headers,
    Key,
    Value,
    check_fields,
    check_landed,
    check_received,
    checked_headers,
    record_table,
    restored,
)


class _Fields:
    """An object that is equal, hashed and pickled by its fields."""

    __slots__ = ()

    @abstractmethod
    def _fields(self) -> tuple[object, ...]:
        """All of its fields."""

    def __eq__(self, other: object) -> bool:
        return self._fields() == other._fields() if isinstance(other, type(self)) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._fields())

    def __reduce__(self) -> tuple[object, ...]:
        return restored, (type(self).__name__, *self._fields())


class Record(_Fields):
    """A record to append: `value` and `key` are bytes or None; a `timestamp` (ms) of None is the time of the append.

    Not to be changed once made, nor derived from: the compiled ones refuse both. Raises TypeError for anything else,
    ValueError for a negative timestamp.
    """

    __slots__ = ("headers", "key", "timestamp", "value")

    def __init__(
        self,
        value: bytes | None,
        key: bytes | None = None,
        timestamp: int | None = None,
        headers: Headers = (),
    ) -> None:
        check_fields(value, key, timestamp)
        self.value = value
        self.key = key
        self.timestamp = timestamp
        self.headers: tuple[Header, ...] = checked_headers(headers) if headers else ()

    def _fields(self) -> tuple[bytes | None, bytes | None, int | None, tuple[Header, ...]]:
        return self.value, self.key, self.timestamp, self.headers

    def __repr__(self) -> str:
        return f"Record(value={self.value!r}, key={self.key!r}, timestamp={self.timestamp}, headers={self.headers!r})"


class RecordMetadata(_Fields):
    """The place where a record landed; `offset` is -1 where it was not asked for (acks=0) or was forgotten.

    `timestamp` (ms) is the record's own, or the broker's under LogAppendTime. Not to be changed once
    made, nor derived from. Raises TypeError for other fields.
    """

    __slots__ = ("offset", "partition", "timestamp", "topic")

    def __init__(self, topic: str, partition: int, offset: int, timestamp: int) -> None:
        check_landed(topic, partition, offset, timestamp)
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp = timestamp

    def _fields(self) -> tuple[str, int, int, int]:
        return self.topic, self.partition, self.offset, self.timestamp

    def __repr__(self) -> str:
        return (
            f"RecordMetadata(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
            f"timestamp={self.timestamp})"
        )


class ConsumerRecord(_Fields, Generic[Key, Value]):
    """A record as it was read. `timestamp` is in milliseconds, -1 where the producer gave none.

    Its key and value are bytes; for type checkers they are what the deserializers of a consumer make of them. Not to be
    changed once made, nor derived from. Raises TypeError for fields that cannot be read from a batch.
    """

    __slots__ = ("headers", "key", "offset", "scope", "timestamp", "value")

    def __init__(
        self,
        offset: int,
        timestamp: int,
        key: Key | None,
        value: Value | None,
        headers: tuple[Header, ...],
        scope: BatchScope,
    ) -> None:
        check_received(offset, timestamp, key, value, scope)
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = checked_headers(headers)
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

    def _fields(self) -> tuple[object, ...]:
        return self.offset, self.timestamp, self.key, self.value, self.headers, self.scope

    def _repr_html_(self) -> str:
        return record_table(self)

    def __repr__(self) -> str:
        return (
            f"ConsumerRecord(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
            f"timestamp={self.timestamp}, key={self.key!r}, value={self.value!r}, headers={self.headers!r})"
        )
