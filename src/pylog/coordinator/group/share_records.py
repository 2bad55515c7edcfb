"""The records of `__consumer_offsets` about share groups (KIP-932), as bytes and as values.

    type   key                            value, all of version 0
    10     string group, string member    ShareGroupMemberMetadataValue: what the member says of itself
    11     string group                   ShareGroupMetadataValue: the group's epoch, a hash of the topics it reads
    12     string group                   ShareGroupTargetAssignmentMetadataValue: the epoch of the target assignment
    13     string group, string member    ShareGroupTargetAssignmentMemberValue: what the member is to have
    14     string group, string member    ShareGroupCurrentMemberAssignmentValue: what it has
    15     string group                   ShareGroupStatePartitionMetadataValue: the partitions that have a state, those
                                          that are to get one, and the topics that are to lose theirs

(Kafka: GroupCoordinatorRecordHelpers.) Invariants: as in `records`.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple
from uuid import UUID

from pylog.coordinator.effects import LogRecord
from pylog.coordinator.group.consumer_records import GroupEpoch, Slot, TargetEpoch, by_topic_id
from pylog.errors import CorruptBatch, UnsupportedFormat
from pylog.protocol.schema import Struct, message

MEMBER, EPOCH, TARGET_EPOCH, TARGET, CURRENT, STATE = range(10, 16)
STABLE = 0


class ShareMember(NamedTuple):
    """The metadata of a member."""

    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    """Sorted."""


class ShareCurrent(NamedTuple):
    """The partitions of a member; others may have them, too."""

    epoch: int = 0
    previous_epoch: int = 0
    assigned: frozenset[Slot] = frozenset()


class Begun(NamedTuple):
    """Some partitions of a topic."""

    name: str
    partitions: frozenset[int]


class PartitionStates(NamedTuple):
    """The topics of a group, by their ids."""

    initializing: Mapping[UUID, Begun] = {}
    """The partitions whose state the share coordinator is asked to begin."""
    initialized: Mapping[UUID, Begun] = {}
    deleting: Mapping[UUID, str] = {}
    """The names of topics whose state the share coordinator is asked to delete."""

    def without(self, topic_id: UUID) -> "PartitionStates":
        """The same without a topic."""
        return PartitionStates(
            {one: begun for one, begun in self.initializing.items() if one != topic_id},
            {one: begun for one, begun in self.initialized.items() if one != topic_id},
            {one: name for one, name in self.deleting.items() if one != topic_id},
        )


ShareValue = ShareMember | GroupEpoch | TargetEpoch | frozenset[Slot] | ShareCurrent | PartitionStates | None


class ShareChange(NamedTuple):
    """The content of a record; None: a tombstone."""

    kind: int
    group_id: str
    name: str
    """The member id; "" where the record is about the group itself."""
    value: ShareValue


# --- writing ---------------------------------------------------------------------------------------------------------

_NAMES = {
    MEMBER: ("ShareGroupMemberMetadata", "memberId"),
    EPOCH: ("ShareGroupMetadata", None),
    TARGET_EPOCH: ("ShareGroupTargetAssignmentMetadata", None),
    TARGET: ("ShareGroupTargetAssignmentMember", "memberId"),
    CURRENT: ("ShareGroupCurrentMemberAssignment", "memberId"),
    STATE: ("ShareGroupStatePartitionMetadata", None),
}
SHARE_TYPES = frozenset(_NAMES)
_VERSION = b"\x00\x00"


def share_record(kind: int, group_id: str, name: str, value: ShareValue) -> LogRecord:
    """The record with this content; without a value its tombstone. Raises ValueError for what does not fit."""
    schema, part = _NAMES[kind]
    key = {"groupId": group_id} if part is None else {"groupId": group_id, part: name}
    head = kind.to_bytes(2, "big") + message(f"{schema}Key").encode(0, key)
    return LogRecord(head, None if value is None else _VERSION + message(f"{schema}Value").encode(0, _body(value)))


def _body(value: ShareValue) -> Struct:
    match value:
        case ShareMember():
            return {
                "rackId": value.rack_id,
                "clientId": value.client_id,
                "clientHost": value.client_host,
                "subscribedTopicNames": value.topics,
            }
        case GroupEpoch():
            return {"epoch": value.epoch, "metadataHash": value.topics_hash}
        case TargetEpoch():
            return {"assignmentEpoch": value.epoch, "assignmentTimestamp": value.wall_ms}
        case ShareCurrent():
            return {
                "memberEpoch": value.epoch,
                "previousMemberEpoch": value.previous_epoch,
                "state": STABLE,
                "assignedPartitions": _structs(value.assigned),
            }
        case PartitionStates():
            return {
                "initializingTopics": _begun_structs(value.initializing),
                "initializedTopics": _begun_structs(value.initialized),
                "deletingTopics": [
                    {"topicId": topic_id, "topicName": name} for topic_id, name in value.deleting.items()
                ],
            }
        case _:
            return {"topicPartitions": _structs(value or frozenset())}


def _structs(slots: frozenset[Slot]) -> list[Struct]:
    return [{"topicId": topic_id, "partitions": partitions} for topic_id, partitions in by_topic_id(slots)]


def _begun_structs(begun: Mapping[UUID, Begun]) -> list[Struct]:
    return [
        {"topicId": topic_id, "topicName": one.name, "partitions": sorted(one.partitions)}
        for topic_id, one in sorted(begun.items())
    ]


# --- reading ---------------------------------------------------------------------------------------------------------


def decode_share(record: LogRecord) -> ShareChange:
    """The content of a record of one of these types. Raises UnsupportedFormat (the version), CorruptBatch."""
    kind = int.from_bytes(record.key[:2], "big")
    schema, part = _NAMES[kind]
    key, _ = message(f"{schema}Key").decode(0, record.key, 2)
    name = "" if part is None else key[part]
    if record.value is None:
        return ShareChange(kind, key["groupId"], name, None)
    if len(record.value) < len(_VERSION):
        raise CorruptBatch(f"the value of a record of type {kind} has {len(record.value)} bytes: its version takes two")
    version = int.from_bytes(record.value[:2], "big", signed=True)
    if version != 0:
        raise UnsupportedFormat(
            f"a record of type {kind} has version {version}: a newer version wrote it, use that one"
        )
    value, _ = message(f"{schema}Value").decode(0, record.value, 2)
    return ShareChange(kind, key["groupId"], name, _READ[kind](value))


def _slots(structs: list[Struct]) -> frozenset[Slot]:
    return frozenset((struct["topicId"], partition) for struct in structs for partition in struct["partitions"])


def _begun(structs: list[Struct]) -> dict[UUID, Begun]:
    return {one["topicId"]: Begun(one["topicName"], frozenset(one["partitions"])) for one in structs}


_READ: dict[int, Callable[[Struct], ShareValue]] = {
    MEMBER: lambda value: ShareMember(
        value["rackId"], value["clientId"], value["clientHost"], tuple(sorted(value["subscribedTopicNames"]))
    ),
    EPOCH: lambda value: GroupEpoch(value["epoch"], value["metadataHash"]),
    TARGET_EPOCH: lambda value: TargetEpoch(value["assignmentEpoch"], value["assignmentTimestamp"]),
    TARGET: lambda value: _slots(value["topicPartitions"]),
    CURRENT: lambda value: ShareCurrent(
        value["memberEpoch"], value["previousMemberEpoch"], _slots(value["assignedPartitions"])
    ),
    STATE: lambda value: PartitionStates(
        _begun(value["initializingTopics"]),
        _begun(value["initializedTopics"]),
        {one["topicId"]: one["topicName"] for one in value["deletingTopics"]},
    ),
}
