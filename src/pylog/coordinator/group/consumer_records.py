"""The records of `__consumer_offsets` about groups of the consumer protocol (KIP-848), as bytes and as values.

    type   key                            value, all of version 0
    3      string group                   ConsumerGroupMetadataValue: the group's epoch, a hash of the topics it reads
    4      string group                   the topics that 3 has a hash of; Kafka wrote it before 4.1; only deleted now
    5      string group, string member    ConsumerGroupMemberMetadataValue: what the member says of itself
    6      string group                   ConsumerGroupTargetAssignmentMetadataValue: the epoch of the target assignment
    7      string group, string member    ConsumerGroupTargetAssignmentMemberValue: what the member is to have
    8      string group, string member    ConsumerGroupCurrentMemberAssignmentValue: what it has, and what it gives up
    16     string group, string regex     ConsumerGroupRegularExpressionValue: the topics that match

In 8 each partition has the epoch in which the member was given it (KIP-1251), or none where an older Kafka wrote it.
(Kafka: GroupCoordinatorRecordHelpers, GroupCoordinatorRecordSerde.)

Invariants: as in `records`.
"""

import enum
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from pylog.coordinator.effects import LogRecord
from pylog.errors import CorruptBatch, UnsupportedFormat
from pylog.protocol.messages import NO_EPOCH
from pylog.protocol.schema import Struct, message

EPOCH, PARTITION_METADATA, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX = 3, 4, 5, 6, 7, 8, 16

Slot = tuple[UUID, int]
"""A partition, by the id of its topic."""
Slots = Mapping[Slot, int]
"""Partitions, each with the epoch in which its member was given it."""


class MemberState(enum.IntEnum):
    """The progress of a member towards its target."""

    STABLE = 0
    UNREVOKED = 1
    """It has yet to give partitions up."""
    UNRELEASED = 2
    """Another member has yet to give up partitions that it is to get."""
    UNKNOWN = 127


class GroupEpoch(NamedTuple):
    """The number of changes of the group, and a hash of its topics at the last one."""

    epoch: int
    topics_hash: int = 0


class ClassicMember(NamedTuple):
    """The further metadata of a classic member in a group of the consumer protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """The client-side assignors that it knows, best first, each with the member's bytes for it."""

    @property
    def first(self) -> tuple[str, bytes]:
        """The assignor that it likes best. It is answered by that name, though that assignor assigns nothing here."""
        return self.protocols[0] if self.protocols else ("", b"")


class MemberSubscription(NamedTuple):
    """The metadata of a member."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    """Sorted."""
    regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMember | None = None
    """None: the member speaks the consumer protocol."""


class TargetEpoch(NamedTuple):
    """The epoch of the group for which the target assignment was made, and the time."""

    epoch: int
    wall_ms: int = 0


class Current(NamedTuple):
    """The partitions of a member; a client is a member from its first record of this kind on."""

    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Slots = {}  # noqa: RUF012 - a default of a NamedTuple, never changed
    revoking: Slots = {}  # noqa: RUF012


class ResolvedRegex(NamedTuple):
    """The topics that match a regular expression, sorted."""

    topics: tuple[str, ...]
    version: int = 0
    wall_ms: int = 0


Value = GroupEpoch | MemberSubscription | TargetEpoch | frozenset[Slot] | Current | ResolvedRegex | None


class ConsumerChange(NamedTuple):
    """The content of a record. None: a tombstone; of PARTITION_METADATA: an empty set, whose content is not read."""

    kind: int
    group_id: str
    name: str
    """The member id, or the regular expression; "" where the record is about the group itself."""
    value: Value


# --- writing ---------------------------------------------------------------------------------------------------------

_NAMES = {
    EPOCH: ("ConsumerGroupMetadata", None),
    PARTITION_METADATA: ("ConsumerGroupPartitionMetadata", None),
    MEMBER: ("ConsumerGroupMemberMetadata", "memberId"),
    TARGET_EPOCH: ("ConsumerGroupTargetAssignmentMetadata", None),
    TARGET: ("ConsumerGroupTargetAssignmentMember", "memberId"),
    CURRENT: ("ConsumerGroupCurrentMemberAssignment", "memberId"),
    REGEX: ("ConsumerGroupRegularExpression", "regularExpression"),
}
_VERSION = b"\x00\x00"


def consumer_record(kind: int, group_id: str, name: str, value: Value) -> LogRecord:
    """The record with this content; without a value its tombstone. Raises ValueError for what does not fit."""
    schema, part = _NAMES[kind]
    key = {"groupId": group_id} if part is None else {"groupId": group_id, part: name}
    head = kind.to_bytes(2, "big") + message(f"{schema}Key").encode(0, key)
    return LogRecord(head, None if value is None else _VERSION + message(f"{schema}Value").encode(0, _body(value)))


def _body(value: Value) -> Struct:
    match value:
        case GroupEpoch():
            return {"epoch": value.epoch, "metadataHash": value.topics_hash}
        case TargetEpoch():
            return {"assignmentEpoch": value.epoch, "assignmentTimestamp": value.wall_ms}
        case ResolvedRegex():
            return {"topics": value.topics, "version": value.version, "timestamp": value.wall_ms}
        case Current():
            return {
                "memberEpoch": value.epoch,
                "previousMemberEpoch": value.previous_epoch,
                "state": value.state.value,
                "assignedPartitions": _structs(value.assigned, value.assigned),
                "partitionsPendingRevocation": _structs(value.revoking, value.revoking),
            }
        case MemberSubscription():
            return {
                "instanceId": value.instance_id,
                "rackId": value.rack_id,
                "clientId": value.client_id,
                "clientHost": value.client_host,
                "subscribedTopicNames": value.topics,
                "subscribedTopicRegex": value.regex,
                "rebalanceTimeoutMs": value.rebalance_timeout_ms,
                "serverAssignor": value.server_assignor,
                "classicMemberMetadata": None if value.classic is None else _classic_struct(value.classic),
            }
        case _:
            return {"topicPartitions": _structs(value or ())}


def _classic_struct(classic: ClassicMember) -> Struct:
    protocols = [{"name": name, "metadata": metadata} for name, metadata in classic.protocols]
    return {"sessionTimeoutMs": classic.session_timeout_ms, "supportedProtocols": protocols}


def by_topic_id(slots: Iterable[Slot]) -> list[tuple[UUID, list[int]]]:
    """Partitions as messages have them, in order."""
    found: dict[UUID, list[int]] = {}
    for topic_id, partition in sorted(slots):
        found.setdefault(topic_id, []).append(partition)
    return list(found.items())


def _structs(slots: Iterable[Slot], epochs: Slots | None = None) -> list[Struct]:
    structs: list[Struct] = []
    for topic_id, partitions in by_topic_id(slots):
        structs.append({"topicId": topic_id, "partitions": partitions})
        if epochs is not None:
            structs[-1]["assignmentEpochs"] = [epochs[topic_id, partition] for partition in partitions]
    return structs


# --- reading ---------------------------------------------------------------------------------------------------------


def decode_consumer(record: LogRecord) -> ConsumerChange:
    """The content of a record of one of these types. Raises UnsupportedFormat (the version), CorruptBatch."""
    kind = int.from_bytes(record.key[:2], "big")
    schema, part = _NAMES[kind]
    key, _ = message(f"{schema}Key").decode(0, record.key, 2)
    name = "" if part is None else key[part]
    if record.value is None:
        return ConsumerChange(kind, key["groupId"], name, None)
    if len(record.value) < len(_VERSION):
        raise CorruptBatch(f"the value of a record of type {kind} has {len(record.value)} bytes: its version takes two")
    version = int.from_bytes(record.value[:2], "big", signed=True)
    if version != 0:
        raise UnsupportedFormat(
            f"a record of type {kind} has version {version}: a newer version wrote it, use that one"
        )
    value, _ = message(f"{schema}Value").decode(0, record.value, 2)
    return ConsumerChange(kind, key["groupId"], name, _READ[kind](value))


def _classic(value: Struct | None) -> ClassicMember | None:
    if value is None:
        return None
    protocols = tuple((found["name"], bytes(found["metadata"])) for found in value["supportedProtocols"])
    return ClassicMember(value["sessionTimeoutMs"], protocols)


def _subscription(value: Struct) -> MemberSubscription:
    return MemberSubscription(
        value["instanceId"],
        value["rackId"],
        value["clientId"],
        value["clientHost"],
        tuple(sorted(value["subscribedTopicNames"])),
        value["subscribedTopicRegex"],
        value["rebalanceTimeoutMs"],
        value["serverAssignor"],
        _classic(value["classicMemberMetadata"]),
    )


def _current(value: Struct) -> Current:
    try:
        state = MemberState(value["state"])
    except ValueError:
        state = MemberState.UNKNOWN
    epoch = value["memberEpoch"]
    assigned, revoking = (_slots(value[name]) for name in ("assignedPartitions", "partitionsPendingRevocation"))
    return Current(epoch, value["previousMemberEpoch"], state, assigned, revoking)


def _slots(structs: list[Struct]) -> Slots:
    found: dict[Slot, int] = {}
    for struct in structs:
        partitions = struct["partitions"]
        epochs = struct["assignmentEpochs"] or [NO_EPOCH] * len(partitions)
        if len(epochs) != len(partitions):
            raise CorruptBatch(f"{len(partitions)} partitions of topic {struct['topicId']} have {len(epochs)} epochs")
        found.update(
            {(struct["topicId"], partition): epoch for partition, epoch in zip(partitions, epochs, strict=True)}
        )
    return found


_READ: dict[int, Callable[[Struct], Value]] = {
    EPOCH: lambda value: GroupEpoch(value["epoch"], value["metadataHash"]),
    PARTITION_METADATA: lambda value: frozenset(),
    MEMBER: _subscription,
    TARGET_EPOCH: lambda value: TargetEpoch(value["assignmentEpoch"], value["assignmentTimestamp"]),
    TARGET: lambda value: frozenset(
        _slots([{**struct, "assignmentEpochs": None} for struct in value["topicPartitions"]])
    ),
    CURRENT: _current,
    REGEX: lambda value: ResolvedRegex(tuple(value["topics"]), value["version"], value["timestamp"]),
}
