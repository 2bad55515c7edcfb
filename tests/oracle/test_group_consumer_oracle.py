"""The records of groups of the consumer protocol are Kafka's: what Kafka wrote is read, and written again as it was."""

import base64
import gzip
import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from pylog.coordinator.effects import LogRecord
from pylog.coordinator.group.consumer_records import (
    CURRENT,
    EPOCH,
    MEMBER,
    REGEX,
    TARGET,
    TARGET_EPOCH,
    ClassicMember,
    Current,
    GroupEpoch,
    MemberState,
    MemberSubscription,
    ResolvedRegex,
    TargetEpoch,
    consumer_record,
    decode_consumer,
)
from pylog.errors import CorruptBatch

pytestmark = pytest.mark.oracle

NAMES = {
    EPOCH: "ConsumerGroupMetadata",
    MEMBER: "ConsumerGroupMemberMetadata",
    TARGET_EPOCH: "ConsumerGroupTargetAssignmentMetadata",
    TARGET: "ConsumerGroupTargetAssignmentMember",
    CURRENT: "ConsumerGroupCurrentMemberAssignment",
    REGEX: "ConsumerGroupRegularExpression",
}
KEYS = {
    EPOCH: consumer_record(EPOCH, "g", "", None).key,
    **{kind: consumer_record(kind, "g", "m", None).key for kind in (MEMBER, TARGET, CURRENT, REGEX)},
    TARGET_EPOCH: consumer_record(TARGET_EPOCH, "g", "", None).key,
}

Case = dict[str, Any]


def cases_of(facts: Path, name: str) -> list[Case]:
    with gzip.open(facts / "coordinator_records.json.gz") as file:
        cases: list[Case] = json.load(file)["records"][name]["cases"]
    assert cases
    return cases


def slots(structs: list[Case]) -> dict[tuple[UUID, int], int]:
    found = {}
    for struct in structs:
        topic_id = UUID(bytes=base64.urlsafe_b64decode(struct["topicId"] + "=="))
        epochs = struct.get("assignmentEpochs") or [-1] * len(struct["partitions"])
        found.update({(topic_id, part): epoch for part, epoch in zip(struct["partitions"], epochs, strict=True)})
    return found


def classic_of(value: Case | None) -> ClassicMember | None:
    if value is None:
        return None
    protocols = [(found["name"], base64.b64decode(found["metadata"])) for found in value["supportedProtocols"]]
    return ClassicMember(value["sessionTimeoutMs"], tuple(protocols))


def value_of(kind: int, value: Case) -> Any:
    if kind == EPOCH:
        return GroupEpoch(value["epoch"], value.get("metadataHash", 0))
    if kind == TARGET_EPOCH:
        return TargetEpoch(value["assignmentEpoch"], value.get("assignmentTimestamp", 0))
    if kind == REGEX:
        return ResolvedRegex(tuple(value["topics"]), value["version"], value["timestamp"])
    if kind == TARGET:
        return frozenset(slots(value["topicPartitions"]))
    if kind == MEMBER:
        return MemberSubscription(
            value["instanceId"],
            value["rackId"],
            value["clientId"],
            value["clientHost"],
            tuple(sorted(value["subscribedTopicNames"])),
            value["subscribedTopicRegex"],
            value["rebalanceTimeoutMs"],
            value["serverAssignor"],
            classic_of(value["classicMemberMetadata"]),
        )
    known = {state.value for state in MemberState}
    return Current(
        value["memberEpoch"],
        value["previousMemberEpoch"],
        MemberState(value["state"]) if value["state"] in known else MemberState.UNKNOWN,
        slots(value["assignedPartitions"]),
        slots(value["partitionsPendingRevocation"]),
    )


@pytest.mark.parametrize("kind", NAMES)
def test_keys_are_kafkas(facts: Path, kind: int) -> None:
    for case in cases_of(facts, f"{NAMES[kind]}Key"):
        value, key = case["json"], bytes.fromhex(case["hex"])
        name = value.get("memberId", value.get("regularExpression", ""))
        assert consumer_record(kind, value["groupId"], name, None) == LogRecord(key, None)
        assert decode_consumer(LogRecord(key, None)) == (kind, value["groupId"], name, None)


def is_odd(value: Case) -> bool:
    """Whether a random record has as many epochs as no real one has."""
    structs = value.get("assignedPartitions", []) + value.get("partitionsPendingRevocation", [])
    return any(
        len(found.get("assignmentEpochs") or found["partitions"]) != len(found["partitions"]) for found in structs
    )


@pytest.mark.parametrize("kind", NAMES)
def test_values_are_kafkas(facts: Path, kind: int) -> None:
    read = 0
    for case in cases_of(facts, f"{NAMES[kind]}Value"):
        record = LogRecord(KEYS[kind], bytes.fromhex(case["hex"]))
        if is_odd(case["json"]):
            with pytest.raises(CorruptBatch, match="epochs"):
                decode_consumer(record)
            continue
        change = decode_consumer(record)
        assert change.value == value_of(kind, case["json"])
        again = consumer_record(kind, change.group_id, change.name, change.value)
        assert decode_consumer(again) == change
        topics = case["json"].get("subscribedTopicNames", [])
        if kind in (EPOCH, TARGET_EPOCH, REGEX) or (kind == MEMBER and topics == sorted(topics)):
            assert again == record
        read += 1
    assert read > 0
