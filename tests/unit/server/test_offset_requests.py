"""Requests for offsets, leader epochs and deletions of records to a node in memory."""

from collections.abc import Iterator

import pytest

from support.wire_bodies import NOW, batch, produce
from support.wire_node import WireNode, wire_node


@pytest.fixture
def node() -> Iterator[WireNode]:
    with wire_node() as made:
        yield made


@pytest.mark.parametrize("version", range(1, 12))
def test_list_offsets_finds_ends_and_times(node: WireNode, version: int) -> None:
    node.log.create_topic("t", 4)
    node.ask("Produce", 9, produce("t", *[batch(b"a", b"b")] * 4))
    times = [-2, -1, NOW, NOW + 1]
    parts = [{"partitionIndex": number, "timestamp": time} for number, time in enumerate(times)]

    (topic,) = node.ask("ListOffsets", version, {"topics": [{"name": "t", "partitions": parts}], "replicaId": -1})[
        "topics"
    ]

    assert [part["offset"] for part in topic["partitions"]] == [0, 2, 0, -1]
    if version >= 4:
        assert [part["leaderEpoch"] for part in topic["partitions"]] == [0, 0, 0, -1]


def test_list_offsets_has_nothing_of_tiers_and_refuses_what_is_named_twice(node: WireNode) -> None:
    node.log.create_topic("t", 4)
    parts = [
        {"partitionIndex": number, "timestamp": time} for number, time in ((0, -4), (1, -5), (2, -1), (3, 0), (3, 0))
    ]

    (topic,) = node.ask("ListOffsets", 11, {"topics": [{"name": "t", "partitions": parts}], "replicaId": -1})["topics"]

    assert [(part["errorCode"], part["offset"]) for part in topic["partitions"]] == [
        (0, 0), (0, -1), (0, 0), (42, -1), (42, -1),
    ]  # fmt: skip


def test_a_leader_epoch_that_is_another_one_is_an_error(node: WireNode) -> None:
    node.log.create_topic("t")
    node.ask("Produce", 9, produce("t", batch(b"a")))
    part = {"partitionIndex": 0, "timestamp": -1, "currentLeaderEpoch": 9}

    (topic,) = node.ask("ListOffsets", 4, {"topics": [{"name": "t", "partitions": [part]}], "replicaId": -1})["topics"]

    assert topic["partitions"][0]["errorCode"] == 75


@pytest.mark.parametrize("version", range(2, 5))
def test_an_epoch_ends_where_the_log_does(node: WireNode, version: int) -> None:
    node.log.create_topic("t")
    node.ask("Produce", 9, produce("t", batch(b"a", b"b")))
    parts = [{"partition": 0, "leaderEpoch": epoch} for epoch in (0, 5)]
    parts.append({"partition": 9, "leaderEpoch": 0})

    (topic,) = node.ask("OffsetForLeaderEpoch", version, {"topics": [{"topic": "t", "partitions": parts}]})["topics"]

    assert [(part["errorCode"], part["leaderEpoch"], part["endOffset"]) for part in topic["partitions"]] == [
        (0, 0, 2), (0, -1, -1), (3, -1, -1),
    ]  # fmt: skip


@pytest.mark.parametrize("version", range(3))
def test_records_below_an_offset_are_deleted(node: WireNode, version: int) -> None:
    node.log.create_topic("t")
    node.ask("Produce", 9, produce("t", batch(b"a", b"b")))
    parts = [{"partitionIndex": 0, "offset": 1}, {"partitionIndex": 1, "offset": 0}]

    (topic,) = node.ask("DeleteRecords", version, {"topics": [{"name": "t", "partitions": parts}], "timeoutMs": 1})[
        "topics"
    ]

    assert [(part["lowWatermark"], part["errorCode"]) for part in topic["partitions"]] == [(1, 0), (-1, 3)]


@pytest.mark.parametrize(("timestamp", "since"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11), (-7, 12)])
def test_a_time_below_zero_means_something_from_a_version_on(node: WireNode, timestamp: int, since: int) -> None:
    node.log.create_topic("t")

    def codes(version: int) -> list[int]:
        parts = [{"partitionIndex": number, "timestamp": timestamp} for number in (0, 9)]
        asked = {"topics": [{"name": "t", "partitions": parts}], "replicaId": -1}
        (topic,) = node.ask("ListOffsets", version, asked)["topics"]
        return [part["errorCode"] for part in topic["partitions"]]

    assert {version: codes(version) for version in range(1, 12)} == {
        version: [35, 35] if version < since else [0, 3] for version in range(1, 12)
    }


def test_a_partition_that_is_named_twice_is_deleted_from_once_as_it_was_named_last(node: WireNode) -> None:
    node.log.create_topic("t")
    node.ask("Produce", 9, produce("t", batch(b"a", b"b")))
    topics = [{"name": "t", "partitions": [{"partitionIndex": 0, "offset": offset}]} for offset in (2, 1)]

    (topic,) = node.ask("DeleteRecords", 2, {"topics": topics, "timeoutMs": 1})["topics"]

    assert [(part["lowWatermark"], part["errorCode"]) for part in topic["partitions"]] == [(1, 0)]
