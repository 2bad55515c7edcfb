"""The messages of a group's members to each other: the "consumer" protocol. The coordinator does not read them.

    i16 version, then        ConsumerProtocolSubscription         ConsumerProtocolAssignment
    [string]                 topics                               [string topic, [i32] partitions]
    nullable bytes           user data of the assignor            the same
    [string, [i32]]          owned partitions      version 1+
    i32                      generation            version 2+
    nullable string          rack                  version 3+

Versions only append fields, so a higher version than the highest known is read as that one, and the fields behind it
are left alone (Kafka: ConsumerProtocol).
"""

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pylog.errors import CorruptBatch
from pylog.protocol.assignor.member import NO_GENERATION
from pylog.protocol.schema import MessageSchema, Struct, message
from pylog.record import TopicPartition

_SUBSCRIPTION = message("ConsumerProtocolSubscription")
_ASSIGNMENT = message("ConsumerProtocolAssignment")
_VERSION = struct.Struct(">h")


class Subscription(NamedTuple):
    """A member's message when it joins; a field that its version lacks has its default."""

    topics: list[str]
    user_data: bytes | None = None
    owned: list[TopicPartition] = []  # noqa: RUF012 - a default of a NamedTuple, never changed
    generation: int = NO_GENERATION
    rack_id: str | None = None


def encode_subscription(subscription: Subscription, version: int = 3) -> bytes:
    """The bytes of a subscription; fields that the version lacks are left out. Topics and partitions are sorted."""
    value = {
        "topics": sorted(subscription.topics),
        "userData": subscription.user_data,
        "ownedPartitions": by_topic(sorted(subscription.owned)),
        "generationId": subscription.generation,
        "rackId": subscription.rack_id,
    }
    since = {"ownedPartitions": 1, "generationId": 2, "rackId": 3}
    return _encode(_SUBSCRIPTION, version, {name: value[name] for name in value if since.get(name, 0) <= version})


def decode_subscription(data: bytes | memoryview) -> Subscription:
    """The subscription in these bytes. Raises CorruptBatch."""
    value = _decode(_SUBSCRIPTION, data)
    return Subscription(
        value["topics"],
        _bytes(value["userData"]),
        partitions_in(value.get("ownedPartitions", ())),
        value.get("generationId", NO_GENERATION),
        value.get("rackId"),
    )


def encode_assignment(partitions: Iterable[TopicPartition], user_data: bytes | None = None, version: int = 3) -> bytes:
    """The bytes of a member's assignment, in the order given."""
    return _encode(_ASSIGNMENT, version, {"assignedPartitions": by_topic(partitions), "userData": user_data})


def decode_assignment(data: bytes | memoryview) -> tuple[list[TopicPartition], bytes | None]:
    """The partitions, and the user data. No bytes mean no partitions: the answer to a member that the leader forgot.

    Raises: CorruptBatch.
    """
    if not len(data):
        return [], None
    value = _decode(_ASSIGNMENT, data)
    return partitions_in(value["assignedPartitions"]), _bytes(value["userData"])


def by_topic(partitions: Iterable[TopicPartition]) -> list[Struct]:
    """Partitions as the schemas have them, a struct for each topic; both in the order in which they come."""
    found: dict[str, list[int]] = {}
    for topic, partition in partitions:
        found.setdefault(topic, []).append(partition)
    return [{"topic": topic, "partitions": numbers} for topic, numbers in found.items()]


def partitions_in(structs: Sequence[Struct]) -> list[TopicPartition]:
    """The partitions of these structs: the inverse of `by_topic`."""
    return [TopicPartition(found["topic"], partition) for found in structs for partition in found["partitions"]]


def _encode(schema: MessageSchema, version: int, value: Struct) -> bytes:
    return _VERSION.pack(version) + schema.encode(version, value)


def _decode(schema: MessageSchema, data: bytes | memoryview) -> Struct:
    if len(data) < _VERSION.size:
        raise CorruptBatch(f"this is no {schema.name}: it has {len(data)} bytes, and its version alone takes two")
    (version,) = _VERSION.unpack_from(data)
    if version < schema.versions.low:
        raise CorruptBatch(f"this is no {schema.name}: there is no version {version}")
    decoded: Struct = schema.decode(min(version, schema.versions.high), data, _VERSION.size)[0]
    return decoded


def _bytes(view: memoryview | None) -> bytes | None:
    return None if view is None else bytes(view)
