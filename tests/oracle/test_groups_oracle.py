"""Our group coordinator on what Kafka's wrote: records byte for byte, and partitions of `__consumer_offsets`."""

import base64
import gzip
import json
import shutil
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import pylog
from pylog import TopicPartition
from pylog.config import DynamicBrokerConfig, NodeConfig
from pylog.coordinator.effects import LogRecord, Now, Stamp, TopicInfo
from pylog.coordinator.group import GroupCoordinator
from pylog.coordinator.group.records import (
    Committed,
    GroupChange,
    OffsetChange,
    StoredGroup,
    StoredMember,
    decode,
    group_record,
    offset_record,
)
from pylog.protocol.batch import split
from pylog.protocol.messages import Session
from pylog.protocol.messages.groups import DescribeGroupsRequest
from pylog.protocol.partitioner import partition_for
from support.group_host import T0, FixedTopics
from support.messages import fetched, offset_fetch

pytestmark = pytest.mark.oracle

TOPIC = "__consumer_offsets"


@pytest.fixture(scope="module")
def records(facts: Path) -> dict[str, Any]:
    with gzip.open(facts / "coordinator_records.json.gz", "rt", encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)["records"]
    return found


def logged(case: dict[str, Any]) -> LogRecord:
    value = case["value_hex"]
    return LogRecord(bytes.fromhex(case["key_hex"]), None if value is None else bytes.fromhex(value))


def uuid_of(text: str | None) -> UUID:
    return UUID(int=0) if text is None else UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def test_offsets_are_the_bytes_that_kafka_writes(records: dict[str, Any]) -> None:
    for case in records["written_offset_commits"]:
        committed = None
        if not case.get("tombstone"):
            committed = Committed(
                case["offset"],
                -1 if case["leader_epoch"] is None else case["leader_epoch"],
                case["metadata"],
                case["commit_timestamp"],
                -1 if case["expire_timestamp"] is None else case["expire_timestamp"],
                uuid_of(case["topic_id"]),
            )
        at = TopicPartition(case["topic"], case["partition"])
        assert offset_record(case["group"], at, committed) == logged(case)
        read = decode(logged(case))
        assert isinstance(read, OffsetChange)
        assert (read.group_id, read.partition) == (case["group"], at)
        if committed is None or committed.expire_ms < 0:
            assert read.committed == committed
        else:  # version 1 has no room for these
            assert read.committed == committed._replace(leader_epoch=-1, topic_id=UUID(int=0))


def stored_of(value: dict[str, Any]) -> StoredGroup:
    members = tuple(
        StoredMember(
            member["memberId"], member["groupInstanceId"], member["clientId"], member["clientHost"],
            member["rebalanceTimeout"], member["sessionTimeout"],
            base64.b64decode(member["subscription"]), base64.b64decode(member["assignment"]),
        )
        for member in value["members"]
    )  # fmt: skip
    return StoredGroup(
        value["protocolType"], value["generation"], value["protocol"], value["leader"],
        value["currentStateTimestamp"], members,
    )  # fmt: skip


def test_groups_are_the_bytes_that_kafka_writes(records: dict[str, Any]) -> None:
    for case in records["written_group_metadata"]:
        stored = stored_of(case["json"]) if case["value_hex"] is not None else None
        assert group_record(case["group"], stored) == logged(case)
        assert decode(logged(case)) == GroupChange(case["group"], stored)


@pytest.mark.parametrize(("key", "value"), [("OffsetCommit", "offset"), ("GroupMetadata", "generation")])
def test_values_of_all_versions_are_read(records: dict[str, Any], key: str, value: str) -> None:
    prefix = bytes.fromhex(records[f"{key}Key"]["cases"][0]["hex"])
    for case in records[f"{key}Value"]["cases"]:
        read = decode(LogRecord(prefix, bytes.fromhex(case["hex"])))
        found = read.committed if isinstance(read, OffsetChange) else read.stored
        assert getattr(found, value) == case["json"][value]


def test_groups_belong_to_the_partitions_of_javas_hash(facts: Path) -> None:
    for name, _, of_50, of_3 in json.loads((facts / "string_hash.json").read_text())["rows"]:
        assert (partition_for(name, 50), partition_for(name, 3)) == (of_50, of_3)


# --- partitions ------------------------------------------------------------------------------------------------------


def loaded(log: pylog.Log, number: int) -> GroupCoordinator:
    """A coordinator that has taken over from a partition as it lies there."""
    topics = FixedTopics()
    topics.topics = {name: TopicInfo(log.topic(name).id, len(log.topic(name))) for name in log.topics()}
    coordinator = GroupCoordinator(number, DynamicBrokerConfig(NodeConfig()), topics, is_lost=lambda host: False)
    view = log.topic(TOPIC)[number]
    offset = view.start_offset
    while offset < view.high_watermark:
        for batch in split(view.read(offset)):
            offset = batch.next_offset
            stamp = Stamp(batch.producer_id, batch.producer_epoch) if batch.is_transactional else None
            marker = batch.marker()
            if marker is not None and stamp is not None:
                coordinator.replay_marker(stamp, committed=not marker.is_abort)
            for record in [] if batch.is_control else batch.records(TOPIC, number):
                coordinator.replay(LogRecord(record.key or b"", record.value), stamp)
    coordinator.take_over(Now(T0, 0))
    return coordinator


def ask(coordinator: GroupCoordinator, message: Any) -> Any:
    (effect,) = coordinator.handle(message, Session(), 1, Now(T0, 0))
    return effect.message if hasattr(effect, "message") else effect.answers[0].message  # type: ignore[union-attr]


def test_partitions_that_kafka_wrote_give_its_groups_and_offsets(fixtures: Path, tmp_path: Path) -> None:
    expected = fixtures / "clean" / "expected" / "groups.json"
    if not expected.is_file():
        pytest.skip(f"{expected} is absent")
    groups = json.loads(expected.read_text())
    shutil.copytree(fixtures / "clean" / "logdir", tmp_path / "log")
    for inside in [tmp_path / "log", *(tmp_path / "log").rglob("*")]:
        inside.chmod(0o755 if inside.is_dir() else 0o644)
    with pylog.open(tmp_path / "log", mode="read") as log:
        coordinators = [loaded(log, number) for number in range(len(log.topic(TOPIC)))]
    for name, group in groups.items():
        coordinator = coordinators[partition_for(name, len(coordinators))]
        offsets = fetched(ask(coordinator, offset_fetch(name)))
        assert sorted([p.topic, p.partition, p.offset, p.metadata, p.leader_epoch] for p in offsets) == sorted(
            group["offsets"]
        )
        if group["type"] == "CLASSIC":
            (described,) = ask(coordinator, DescribeGroupsRequest(groups=[name])).groups
            assert described.error is None
            # A rebalance that was on when the picture was taken is not in the log: there the group is Stable.
            assert described.group_state == ("Empty" if group["state"] == "EMPTY" else "Stable")
            assert len(described.members) == group["members"] or described.group_state == "Stable"
    known = {name for coordinator in coordinators for name in coordinator._groups}
    assert known == groups.keys()
