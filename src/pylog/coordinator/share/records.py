"""The records of `__share_group_state`, as bytes and as values: the state of one partition of a share group.

    key      i16 record type, string group, uuid topic id, i32 partition       value    i16 version 0, then its fields

    type   value
    0      ShareSnapshotValue: all of the state; without a value the state is deleted
    1      ShareUpdateValue: what has changed since

What is written before the last snapshot of a partition has no effect any more. (Kafka: ShareCoordinatorRecordSerde,
ShareCoordinatorRecordHelpers.)

Invariants: as those of the records of groups, see `coordinator.group.records`.
"""

import uuid
from functools import lru_cache
from typing import NamedTuple

from pylog.coordinator.effects import LogRecord
from pylog.coordinator.share.states import StoredBatch
from pylog.errors import CorruptBatch, UnsupportedFormat
from pylog.protocol.schema import MessageSchema, Struct, message

SNAPSHOT, UPDATE = 0, 1
VALUE_VERSION = 0
_VERSION_BYTES = 2
KEYS_MAX = 1000
"""How many keys are kept as bytes: a share partition is written of again and again."""

_KEYS = message("ShareSnapshotKey"), message("ShareUpdateKey")
_SNAPSHOT_VALUE, _UPDATE_VALUE = message("ShareSnapshotValue"), message("ShareUpdateValue")


class ShareKey(NamedTuple):
    """A partition of a share group. `topic` is the number of its topic's id: a UUID takes long to hash."""

    group_id: str
    topic: int
    partition: int

    @classmethod
    def of(cls, group_id: str, topic_id: uuid.UUID, partition: int) -> "ShareKey":
        """A partition of the topic with an id."""
        return cls(group_id, topic_id.int, partition)


class ShareState(NamedTuple):
    """The state of a partition of a share group, as it is written down."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    """The first record that is not done with; -1: the group has not begun the partition."""
    delivery_complete_count: int
    """How many records from there on are done with; -1: it is not known."""
    created_ms: int
    """When the state was first written as a whole after it had changed."""
    written_ms: int
    batches: list[StoredBatch]


class ShareUpdate(NamedTuple):
    """A change of the state of a partition of a share group. -1: as before."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: list[StoredBatch]


# --- writing ---------------------------------------------------------------------------------------------------------


def record_of(key: ShareKey, content: ShareState | ShareUpdate | None) -> LogRecord:
    """The record that says so; None: the state is deleted. Raises ValueError for values that do not fit into one."""
    if content is None:
        return LogRecord(_key_bytes(SNAPSHOT, key), None)
    fields: Struct = {
        "snapshotEpoch": content.snapshot_epoch,
        "leaderEpoch": content.leader_epoch,
        "startOffset": content.start_offset,
        "deliveryCompleteCount": content.delivery_complete_count,
        "stateBatches": [_batch_value(batch) for batch in content.batches],
    }
    if isinstance(content, ShareUpdate):
        return LogRecord(_key_bytes(UPDATE, key), _versioned(_UPDATE_VALUE, fields))
    fields |= {
        "stateEpoch": content.state_epoch,
        "createTimestamp": content.created_ms,
        "writeTimestamp": content.written_ms,
    }
    return LogRecord(_key_bytes(SNAPSHOT, key), _versioned(_SNAPSHOT_VALUE, fields))


@lru_cache(KEYS_MAX)
def _key_bytes(kind: int, key: ShareKey) -> bytes:
    fields = {"groupId": key.group_id, "topicId": uuid.UUID(int=key.topic), "partition": key.partition}
    return kind.to_bytes(_VERSION_BYTES, "big") + _KEYS[kind].encode(0, fields)


def _versioned(value: MessageSchema, fields: Struct) -> bytes:
    return VALUE_VERSION.to_bytes(_VERSION_BYTES, "big") + value.encode(VALUE_VERSION, fields)


def _batch_value(batch: StoredBatch) -> Struct:
    return {
        "firstOffset": batch.first_offset,
        "lastOffset": batch.last_offset,
        "deliveryState": batch.delivery_state,
        "deliveryCount": batch.delivery_count,
    }


# --- reading ---------------------------------------------------------------------------------------------------------


def read(record: LogRecord) -> tuple[ShareKey, ShareState | ShareUpdate | None]:
    """The partition that a record is about, and its content. Raises UnsupportedFormat, CorruptBatch."""
    kind = _prefix(record.key, "key")
    if kind not in (SNAPSHOT, UPDATE):
        raise UnsupportedFormat(
            f"__share_group_state has records of type {kind}: a newer version wrote them, use that one"
        )
    found, _ = _KEYS[kind].decode(0, record.key, _VERSION_BYTES)
    key = ShareKey.of(found["groupId"], found["topicId"], found["partition"])
    if record.value is None:
        return key, None
    schema = _SNAPSHOT_VALUE if kind == SNAPSHOT else _UPDATE_VALUE
    value, _ = schema.decode(_prefix(record.value, "value"), record.value, _VERSION_BYTES)
    return key, _state(value) if kind == SNAPSHOT else _update(value)


def _state(value: Struct) -> ShareState:
    return ShareState(
        value["snapshotEpoch"], value["stateEpoch"], value["leaderEpoch"], value["startOffset"],
        value["deliveryCompleteCount"], value["createTimestamp"], value["writeTimestamp"], _batches(value),
    )  # fmt: skip


def _update(value: Struct) -> ShareUpdate:
    return ShareUpdate(
        value["snapshotEpoch"], value["leaderEpoch"], value["startOffset"], value["deliveryCompleteCount"],
        _batches(value),
    )  # fmt: skip


def _batches(value: Struct) -> list[StoredBatch]:
    return [
        StoredBatch(one["firstOffset"], one["lastOffset"], one["deliveryState"], one["deliveryCount"])
        for one in value["stateBatches"]
    ]


def _prefix(data: bytes, what: str) -> int:
    if len(data) < _VERSION_BYTES:
        raise CorruptBatch(f"a {what} of __share_group_state has {len(data)} bytes: it starts with two of its kind")
    return int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
