"""The records of `__consumer_offsets` about offsets and classic groups, as bytes and as values.

    key      i16 record type, then its fields        value    i16 version, then its fields; None: a tombstone

    type   key                                value
    0, 1   string group, string topic, i32    OffsetCommitValue: written as version 4, or as 1 where there is a time of
                                              expiry; read in all versions
    2      string group                       GroupMetadataValue: written as version 3, also for a group without members

Types 3 to 8 and 16 are the consumer protocol's (KIP-848). (Kafka: GroupCoordinatorRecordSerde,
GroupCoordinatorRecordHelpers.)

Invariants: a written record reads as the same value; a damaged record raises CorruptBatch, a record of a newer writer
raises UnsupportedFormat, and nothing else is raised.
"""

import uuid
from functools import lru_cache
from typing import NamedTuple

from pylog.coordinator.effects import LogRecord
from pylog.errors import CorruptBatch, UnsupportedFormat
from pylog.protocol.messages import NO_EPOCH, NO_ID
from pylog.protocol.schema import Struct, message
from pylog.record import TopicPartition

OFFSET_TYPES = (0, 1)
GROUP_TYPE = 2
CONSUMER_TYPES = frozenset((3, 4, 5, 6, 7, 8, 16))

_OFFSET_VERSION = 4
_OFFSET_VERSION_WITH_EXPIRY = 1
_GROUP_VERSION = 3
_NEVER = -1

_OFFSET_KEY = message("OffsetCommitKey")
_OFFSET_VALUE = message("OffsetCommitValue")
_GROUP_KEY = message("GroupMetadataKey")
_GROUP_VALUE = message("GroupMetadataValue")
_SUBSCRIPTION = message("ConsumerProtocolSubscription")


class Committed(NamedTuple):
    """An offset that was committed."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int = _NEVER
    """The time of expiry, where an old client set one; -1: by the node's rules."""
    topic_id: uuid.UUID = NO_ID


class StoredMember(NamedTuple):
    """A member as it is logged."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class StoredGroup(NamedTuple):
    """A classic group as it is logged: Stable where it has members, otherwise Empty."""

    protocol_type: str
    """"" where it never had members."""
    generation: int
    protocol: str | None
    leader: str | None
    state_ms: int
    """The time of the last change of its state; -1: not known."""
    members: tuple[StoredMember, ...] = ()


class OffsetChange(NamedTuple):
    """The content of a record about one partition's offset; None: a tombstone."""

    group_id: str
    partition: TopicPartition
    committed: Committed | None


class GroupChange(NamedTuple):
    """The content of a record about a classic group; None: a tombstone."""

    group_id: str
    stored: StoredGroup | None


# --- writing ---------------------------------------------------------------------------------------------------------


def _typed(kind: int, body: bytes) -> bytes:
    return kind.to_bytes(2, "big") + body


def offset_record(group_id: str, partition: TopicPartition, committed: Committed | None) -> LogRecord:
    """The record of an offset, or its tombstone. Raises ValueError for values that do not fit into one."""
    return LogRecord(_offset_key(group_id, partition), None if committed is None else _offset_value(committed))


@lru_cache(4096)
def _offset_key(group_id: str, partition: TopicPartition) -> bytes:
    key = {"group": group_id, "topic": partition.topic, "partition": partition.partition}
    return _typed(1, _OFFSET_KEY.encode(0, key))


def _offset_value(committed: Committed) -> bytes:
    value: Struct = {
        "offset": committed.offset,
        "metadata": committed.metadata,
        "commitTimestamp": committed.commit_ms,
    }
    if committed.expire_ms != _NEVER:
        version = _OFFSET_VERSION_WITH_EXPIRY
        value["expireTimestamp"] = committed.expire_ms
    else:
        version = _OFFSET_VERSION
        value |= {"leaderEpoch": committed.leader_epoch, "topicId": committed.topic_id}
    return _typed(version, _OFFSET_VALUE.encode(version, value))


def group_record(group_id: str, stored: StoredGroup | None) -> LogRecord:
    """The record of a classic group, or its tombstone. Raises ValueError for values that do not fit into one."""
    key = _typed(GROUP_TYPE, _GROUP_KEY.encode(0, {"group": group_id}))
    if stored is None:
        return LogRecord(key, None)
    value = {
        "protocolType": stored.protocol_type,
        "generation": stored.generation,
        "protocol": stored.protocol,
        "leader": stored.leader,
        "currentStateTimestamp": stored.state_ms,
        "members": [_member_value(member) for member in stored.members],
    }
    return LogRecord(key, _typed(_GROUP_VERSION, _GROUP_VALUE.encode(_GROUP_VERSION, value)))


def _member_value(member: StoredMember) -> Struct:
    return {
        "memberId": member.member_id,
        "groupInstanceId": member.group_instance_id,
        "clientId": member.client_id,
        "clientHost": member.client_host,
        "rebalanceTimeout": member.rebalance_timeout_ms,
        "sessionTimeout": member.session_timeout_ms,
        "subscription": member.subscription,
        "assignment": member.assignment,
    }


# --- reading ---------------------------------------------------------------------------------------------------------


def _prefix(data: bytes, what: str) -> int:
    if len(data) < 2:
        raise CorruptBatch(f"a {what} of __consumer_offsets has {len(data)} bytes: it starts with two of its kind")
    return int.from_bytes(data[:2], "big", signed=True)


def record_type(record: LogRecord) -> int:
    """The type of a record. Raises CorruptBatch."""
    return _prefix(record.key, "key")


def decode(record: LogRecord) -> OffsetChange | GroupChange:
    """The content of a record of types 0 to 2. Raises UnsupportedFormat (the type or the version), CorruptBatch."""
    kind = record_type(record)
    if kind in OFFSET_TYPES:
        return _offset_change(record)
    if kind == GROUP_TYPE:
        group_id = _GROUP_KEY.decode(0, record.key, 2)[0]["group"]
        return GroupChange(group_id, None if record.value is None else _stored(record.value))
    raise UnsupportedFormat(f"__consumer_offsets has records of type {kind}: a newer version wrote them, use that one")


def _offset_change(record: LogRecord) -> OffsetChange:
    key, _ = _OFFSET_KEY.decode(0, record.key, 2)
    partition = TopicPartition(key["topic"], key["partition"])
    if record.value is None:
        return OffsetChange(key["group"], partition, None)
    value, _ = _OFFSET_VALUE.decode(_prefix(record.value, "value"), record.value, 2)
    committed = Committed(
        value["offset"],
        value.get("leaderEpoch", NO_EPOCH),
        value["metadata"],
        value["commitTimestamp"],
        value.get("expireTimestamp", _NEVER),
        value.get("topicId", NO_ID),
    )
    return OffsetChange(key["group"], partition, committed)


def _stored(data: bytes) -> StoredGroup:
    value, _ = _GROUP_VALUE.decode(_prefix(data, "value"), data, 2)
    return StoredGroup(
        value["protocolType"],
        value["generation"],
        value["protocol"],
        value["leader"],
        value.get("currentStateTimestamp", -1),
        tuple(_stored_member(member) for member in value["members"] or ()),
    )


def _stored_member(member: Struct) -> StoredMember:
    session = member["sessionTimeout"]
    rebalance = member.get("rebalanceTimeout", -1)
    return StoredMember(
        member["memberId"],
        member.get("groupInstanceId"),
        member["clientId"],
        member["clientHost"],
        session if rebalance == -1 else rebalance,  # version 0 had one timeout for both
        session,
        bytes(member["subscription"]),
        bytes(member["assignment"]),
    )


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics in a member's subscription; None where it is not one of the consumer protocol.

    Topics come first in all versions, so it is read as version 0, as Kafka reads it here.
    """
    if len(metadata) < 2 or metadata[0] >= 0x80:
        return None
    try:
        return frozenset(_SUBSCRIPTION.decode(0, metadata, 2)[0]["topics"] or ())
    except CorruptBatch:
        return None
