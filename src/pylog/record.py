"""The values that users hold: the names of topics' partitions and positions, and the kernel's record classes."""

from collections.abc import Iterable, Mapping
from typing import Any, Generic, NamedTuple

from pylog.kernel import ConsumerRecord, Header, Record, RecordMetadata
from pylog.kernel.values import Key, Value, record_table

__all__ = [
    "ConsumerGroupMetadata",
    "ConsumerRecord",
    "DeserializedRecord",
    "Header",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "Record",
    "RecordMetadata",
    "ShareRecord",
    "TopicPartition",
    "checked_position",
]


class TopicPartition(NamedTuple):
    """One partition of a topic, by name and number (from 0 on).

    >>> TopicPartition("orders", 0).topic
    'orders'
    """

    topic: str
    partition: int


def by_topic(keys: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The numbers of partitions by their topics, in the order in which they come."""
    found: dict[str, list[int]] = {}
    for topic, partition in keys:
        found.setdefault(topic, []).append(partition)
    return found


class OffsetAndMetadata(NamedTuple):
    """A group's commit in a partition: the offset of the next record to read, and a text of its own.

    >>> log.admin.alter_offsets("billing", {orders: pylog.OffsetAndMetadata(1, "set by hand")})
    >>> log.admin.committed("billing")[orders].metadata
    'set by hand'
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


def checked_partition(given: object) -> TopicPartition:
    """A partition that a caller named, perhaps by a plain pair. Raises TypeError."""
    if type(given) is TopicPartition and type(given.topic) is str and type(given.partition) is int:
        return given
    match given:
        case (str(topic), partition) if type(partition) is int:
            return TopicPartition(topic, partition)
    raise TypeError(f"{given!r} is not a partition: give TopicPartition(topic, number), several of them in a list")


def flat_partitions(given: Iterable[TopicPartition | Iterable[TopicPartition]]) -> list[TopicPartition]:
    """Partitions that were given one by one, or as a list or another collection. They are not checked yet."""
    found: list[TopicPartition] = []
    one: Any
    for one in given:
        # A partition is a tuple itself.
        is_one = isinstance(one, tuple) and not all(isinstance(part, tuple) for part in one)
        found += [one] if is_one or isinstance(one, str) or not isinstance(one, Iterable) else one
    return found


def checked_positions(given: object) -> dict[TopicPartition, OffsetAndMetadata]:
    """Check positions by partition that a caller gave. Raises TypeError, ValueError."""
    # Most are a dict, which takes no look into a registry.
    if type(given) is not dict and not isinstance(given, Mapping):
        raise TypeError(f"offsets is a dict of partitions and offsets, not {type(given).__name__}")
    return {(key := checked_partition(one)): checked_position(key, at) for one, at in given.items()}


def checked_position(key: TopicPartition, given: int | OffsetAndMetadata) -> OffsetAndMetadata:
    """Check a position that a caller gave for a partition. Raises TypeError, ValueError."""
    if type(given) is int and given >= 0:
        return OffsetAndMetadata(given)
    at = given if isinstance(given, OffsetAndMetadata) else OffsetAndMetadata(given)
    for what, value, kind in (
        ("offset", at.offset, int), ("metadata", at.metadata, str), ("leader epoch", at.leader_epoch, int)
    ):  # fmt: skip
        if type(value) is not kind:
            raise TypeError(
                f"{key.topic}-{key.partition}: the {what} is {type(value).__name__}, not {kind.__name__}"
                + (" or OffsetAndMetadata" if what == "offset" else "")
            )
    if at.offset < 0:
        raise ValueError(f"{key.topic}-{key.partition}: offset {at.offset} is negative")
    return at


class ConsumerGroupMetadata(NamedTuple):
    """The identity of a consumer that commits for a group: a member, in a generation (Kafka: ConsumerGroupMetadata)."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class OffsetAndTimestamp(NamedTuple):
    """The first record at or after a time."""

    offset: int
    timestamp: int
    leader_epoch: int


class DeserializedRecord(NamedTuple, Generic[Key, Value]):
    """A `ConsumerRecord` whose key and value are what the deserializers of a consumer have made of them.

    For type checkers a consumer gives a `ConsumerRecord` of these types, whose fields it has.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: Key | None
    value: Value | None
    headers: tuple[Header, ...]
    leader_epoch: int

    def _repr_html_(self) -> str:
        return record_table(self)


class ShareRecord(NamedTuple, Generic[Key, Value]):
    """A record as a share consumer gives it: a `ConsumerRecord` and how often it was delivered, this time too."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: Key | None
    value: Value | None
    headers: tuple[Header, ...]
    leader_epoch: int
    delivery_count: int

    def _repr_html_(self) -> str:
        return record_table(self)
