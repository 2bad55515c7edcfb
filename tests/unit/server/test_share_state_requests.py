"""The states of share partitions over the wire, and what is left of them on disk."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog.protocol.messages import SHARE_STATES_TOPIC
from support.wire_node import WireNode, wire_node

GROUP = "g"


def named(topic_id: uuid.UUID, **part: Any) -> dict[str, Any]:
    return {"groupId": GROUP, "topics": [{"topicId": topic_id, "partitions": [{"partition": 0, **part}]}]}


def part_of(response: dict[str, Any]) -> dict[str, Any]:
    (topic,) = response["results"]
    (part,) = topic["partitions"]
    found: dict[str, Any] = part
    return found


@pytest.fixture
def node() -> Iterator[WireNode]:
    with wire_node() as made:
        made.log.create_topic("t")
        yield made


@pytest.fixture
def topic_id(node: WireNode) -> uuid.UUID:
    return node.log.broker.image.topics["t"].id


def test_a_state_is_begun_written_read_and_deleted(node: WireNode, topic_id: uuid.UUID) -> None:
    def ask(what: str, version: int = 0, **part: Any) -> dict[str, Any]:
        return part_of(node.ask(f"{what}ShareGroupState", version, named(topic_id, **part)))

    assert ask("Read", leaderEpoch=0)["errorCode"] == 42
    assert ask("Initialize", stateEpoch=3, startOffset=5)["errorCode"] == 0
    batches = [{"firstOffset": 5, "lastOffset": 9, "deliveryState": 0, "deliveryCount": 2}]
    told = {"stateEpoch": 3, "leaderEpoch": 1, "startOffset": 5, "deliveryCompleteCount": 4, "stateBatches": batches}
    assert ask("Write", 1, **told)["errorCode"] == 0
    assert ask("Write", 1, **told | {"stateEpoch": 2})["errorCode"] == 124
    found = ask("Read", leaderEpoch=1)
    assert (found["startOffset"], found["stateEpoch"], found["stateBatches"]) == (5, 3, batches)
    summary = part_of(node.ask("ReadShareGroupStateSummary", 1, named(topic_id, leaderEpoch=1)))
    assert (summary["startOffset"], summary["deliveryCompleteCount"], summary["leaderEpoch"]) == (5, 4, 1)
    assert ask("Delete")["errorCode"] == 0
    assert ask("Read", leaderEpoch=1)["errorCode"] == 42


def test_partitions_of_several_coordinators_are_answered_together(node: WireNode, topic_id: uuid.UUID) -> None:
    ids = [topic_id, uuid.UUID(int=77)]
    parts = [{"partition": number, "stateEpoch": 1, "startOffset": 0} for number in (1, 0)]
    body = {"groupId": GROUP, "topics": [{"topicId": one, "partitions": parts} for one in ids]}

    results = node.ask("InitializeShareGroupState", 0, body)["results"]

    told = [(one["topicId"], part["partition"], part["errorCode"]) for one in results for part in one["partitions"]]
    assert told == [(ids[0], 1, 3), (ids[0], 0, 0), (ids[1], 1, 3), (ids[1], 0, 3)]


def test_the_topic_of_the_states_is_made_as_kafka_makes_it(node: WireNode, topic_id: uuid.UUID) -> None:
    node.ask("InitializeShareGroupState", 0, named(topic_id, stateEpoch=1, startOffset=0))

    image = node.log.broker.image.topics[SHARE_STATES_TOPIC]
    assert len(image.partitions) == 50
    assert image.config == {"cleanup.policy": "delete", "retention.ms": "-1", "segment.bytes": "104857600"}


def test_a_state_is_there_after_a_new_start_and_goes_with_its_topic(tmp_path: Path) -> None:
    with pylog.open(tmp_path, config={"share.coordinator.state.topic.num.partitions": 2}) as log:
        log.create_topic("t")
        topic_id = log.broker.image.topics["t"].id
        node = WireNode(log)
        node.ask("InitializeShareGroupState", 0, named(topic_id, stateEpoch=1, startOffset=7))
    with pylog.open(tmp_path) as log:
        node = WireNode(log)
        read = named(topic_id, leaderEpoch=0)
        assert part_of(node.ask("ReadShareGroupState", 0, read))["startOffset"] == 7
        log.delete_topic("t")
        assert part_of(node.ask("ReadShareGroupState", 0, read))["errorCode"] == 42
