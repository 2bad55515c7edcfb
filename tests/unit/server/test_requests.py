"""Requests to a node in memory, in the versions in which they differ. There are no sockets."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from pylog.errors import UnknownTopicOrPartition
from pylog.protocol.batch import Batch, encode
from pylog.protocol.compression import Codec
from pylog.protocol.messages import NO_ID
from pylog.server.api.call import NO_RESPONSE, Reply
from pylog.server.api.table import APIS
from support.wire_client import request_frame
from support.wire_node import WireNode, decoded, wire_node

NOW = 1_700_000_000_000
UNKNOWN = uuid.UUID(int=77)


@pytest.fixture
def node() -> Iterator[WireNode]:
    with wire_node() as made:
        yield made


def batch(*values: bytes, codec: Codec = Codec.NONE, **more: Any) -> bytes:
    return bytes(encode([(value, None, NOW, ()) for value in values], now_ms=NOW, codec=codec, **more).data)


def produce(topic: str, *records: bytes | None, acks: int = -1) -> dict[str, Any]:
    parts = [{"index": number, "records": one} for number, one in enumerate(records)]
    return {
        "transactionalId": None, "acks": acks, "timeoutMs": 1000,
        "topicData": [{"name": topic, "partitionData": parts}],
    }  # fmt: skip


def produced_parts(response: dict[str, Any]) -> list[dict[str, Any]]:
    return [part for topic in response["responses"] for part in topic["partitionResponses"]]


def fetch(topic: str, offset: int = 0, *, topic_id: uuid.UUID | None = None, **more: Any) -> dict[str, Any]:
    part = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": 1 << 20}
    name: dict[str, Any] = {"topic": topic} if topic_id is None else {"topicId": topic_id}
    return {"maxWaitMs": 0, "minBytes": 1, "topics": [{**name, "partitions": [part]}], **more}


def fetched_part(response: dict[str, Any]) -> dict[str, Any]:
    return dict(response["responses"][0]["partitions"][0])


# --- served keys ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(5))
def test_api_versions_names_every_key_that_is_served(node: WireNode, version: int) -> None:
    software = {"clientSoftwareName": "test", "clientSoftwareVersion": "1.0"} if version >= 3 else {}

    response = node.ask("ApiVersions", version, software)

    assert response["errorCode"] == 0
    assert {one["apiKey"]: (one["minVersion"], one["maxVersion"]) for one in response["apiKeys"]} == {
        api.key: (api.low, api.high) for api in APIS.values()
    }
    if version >= 3:
        lowest = {one["name"]: one["minVersion"] for one in response["supportedFeatures"]}
        assert set(lowest.values()) == {0 if version == 4 else 1}
        assert lowest.keys() == {one["name"] for one in response["finalizedFeatures"]}


def test_a_client_whose_name_is_no_name_is_refused(node: WireNode) -> None:
    body = {"clientSoftwareName": "-no-", "clientSoftwareVersion": "1"}

    assert node.ask("ApiVersions", 3, body)["errorCode"] == 42


def test_a_version_from_the_future_gets_the_keys_in_version_0(node: WireNode) -> None:
    call, outcome = node.call(b"\0\x12\0\x63\0\0\0\x07 whatever")

    response = decoded(call, outcome)

    assert response["errorCode"] == 35
    assert response["apiKeys"]


# --- metadata ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(14))
def test_metadata_names_the_node_and_its_topics(node: WireNode, version: int) -> None:
    node.log.create_topic("t", 2)

    response = node.ask("Metadata", version, {"topics": [{"name": "t"}]})

    assert [(one["host"], one["port"]) for one in response["brokers"]] == [("127.0.0.1", 9092)]
    (topic,) = response["topics"]
    assert topic["errorCode"] == 0
    assert topic["name"] == "t"
    assert [part["leaderId"] for part in topic["partitions"]] == [response["brokers"][0]["nodeId"]] * 2
    if version >= 10:
        assert topic["topicId"] != NO_ID


def test_no_topics_mean_all_in_version_0_and_none_later(node: WireNode) -> None:
    node.log.create_topic("t")

    assert len(node.ask("Metadata", 0, {"topics": []})["topics"]) == 1
    assert node.ask("Metadata", 1, {"topics": []})["topics"] == []
    assert len(node.ask("Metadata", 1, {"topics": None})["topics"]) == 1


def test_a_missing_topic_is_made_where_that_is_allowed(node: WireNode) -> None:
    asked = {"topics": [{"name": "new"}], "allowAutoTopicCreation": False}
    assert node.ask("Metadata", 12, asked)["topics"][0]["errorCode"] == 3

    made = node.ask("Metadata", 12, {**asked, "allowAutoTopicCreation": True})["topics"][0]

    assert made["errorCode"] == 0
    assert len(made["partitions"]) == 1


@pytest.mark.parametrize(("name", "code"), [("no such name", 17), ("__transaction_state", 3)])
def test_a_topic_that_cannot_be_made_is_an_error(node: WireNode, name: str, code: int) -> None:
    assert node.ask("Metadata", 12, {"topics": [{"name": name}]})["topics"][0]["errorCode"] == code


def test_topics_are_made_by_nobody_where_the_config_says_so() -> None:
    with wire_node(auto_create_topics_enable=False) as node:
        assert node.ask("Metadata", 4, {"topics": [{"name": "new"}]})["topics"][0]["errorCode"] == 3


def test_a_topic_is_found_by_its_id(node: WireNode) -> None:
    node.log.create_topic("t")
    topic_id = node.ask("Metadata", 12, {"topics": [{"name": "t"}]})["topics"][0]["topicId"]

    topics = node.ask(
        "Metadata", 12, {"topics": [{"name": None, "topicId": topic_id}, {"name": None, "topicId": UNKNOWN}]}
    )["topics"]

    assert [(topic["name"], topic["errorCode"]) for topic in topics] == [("t", 0), (None, 100)]


# --- produce and fetch ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3, 13))
def test_a_batch_is_stored_as_it_came(node: WireNode, version: int) -> None:
    node.log.create_topic("t")
    data = batch(b"a", b"b", codec=Codec.LZ4)

    (part,) = produced_parts(node.ask("Produce", version, produce("t", data)))

    assert (part["errorCode"], part["baseOffset"]) == (0, 0)
    stored = Batch.parse(node.log.topic("t")[0].read(0))
    assert stored.crc == Batch.parse(data).crc


def test_from_13_on_topics_of_produce_are_named_by_id(node: WireNode) -> None:
    node.log.create_topic("t")
    topic_id = node.log.broker.image.topics["t"].id
    body = produce("t", batch(b"a"))
    body["topicData"] = [
        {"topicId": one, "partitionData": body["topicData"][0]["partitionData"]} for one in (topic_id, UNKNOWN)
    ]

    response = node.ask("Produce", 13, body)

    assert [topic["topicId"] for topic in response["responses"]] == [topic_id, UNKNOWN]
    assert [part["errorCode"] for part in produced_parts(response)] == [0, 100]


def test_each_partition_has_its_own_error(node: WireNode) -> None:
    node.log.create_topic("t", 7)
    good = batch(b"a")
    broken = good[:-1] + bytes([good[-1] ^ 1])
    control = batch(b"a", control=True)
    records = [good, None, b"", good + good, b"short", broken, control]

    parts = produced_parts(node.ask("Produce", 9, produce("t", *records)))

    assert [part["errorCode"] for part in parts] == [0, 87, 87, 87, 2, 2, 87]
    assert all(part["errorMessage"] for part in parts[1:])


def test_zstd_is_refused_below_version_7(node: WireNode) -> None:
    node.log.create_topic("t")
    data = batch(b"a" * 100, codec=Codec.ZSTD)

    assert produced_parts(node.ask("Produce", 6, produce("t", data)))[0]["errorCode"] == 76
    assert produced_parts(node.ask("Produce", 7, produce("t", data)))[0]["errorCode"] == 0


def test_without_acks_there_is_no_response(node: WireNode) -> None:
    node.log.create_topic("t")

    _, outcome = node.call(request_frame("Produce", 9, produce("t", batch(b"a"), acks=0))[4:])

    assert outcome == NO_RESPONSE
    assert node.log.topic("t")[0].next_offset == 1


def test_an_error_without_acks_is_told_by_the_end_of_the_connection(node: WireNode) -> None:
    _, outcome = node.call(request_frame("Produce", 9, produce("missing", batch(b"a"), acks=0))[4:])

    assert isinstance(outcome.error, UnknownTopicOrPartition)


def test_acks_that_mean_nothing_are_refused(node: WireNode) -> None:
    node.log.create_topic("t")

    assert produced_parts(node.ask("Produce", 9, produce("t", batch(b"a"), acks=2)))[0]["errorCode"] == 21


@pytest.mark.parametrize("version", range(4, 13))
def test_records_come_back_as_they_were_sent(node: WireNode, version: int) -> None:
    node.log.create_topic("t")
    data = batch(b"a", b"b")
    node.ask("Produce", 9, produce("t", data))

    part = fetched_part(node.ask("Fetch", version, fetch("t")))

    assert (part["errorCode"], part["highWatermark"], part["lastStableOffset"]) == (0, 2, 2)
    assert Batch.parse(part["records"]).crc == Batch.parse(data).crc


@pytest.mark.parametrize("version", range(13, 19))
def test_from_13_on_topics_of_fetch_are_named_by_id(node: WireNode, version: int) -> None:
    node.log.create_topic("t")
    node.ask("Produce", 9, produce("t", batch(b"a")))
    topic_id = node.log.broker.image.topics["t"].id

    known = node.ask("Fetch", version, fetch("", topic_id=topic_id))
    unknown = node.ask("Fetch", version, fetch("", topic_id=UNKNOWN))

    assert fetched_part(known)["highWatermark"] == 1
    assert fetched_part(unknown)["errorCode"] == 100


def test_a_fetch_beyond_the_end_is_out_of_range(node: WireNode) -> None:
    node.log.create_topic("t")

    assert fetched_part(node.ask("Fetch", 12, fetch("t", 5)))["errorCode"] == 1


def test_a_fetch_waits_for_records_and_is_answered_by_an_append(node: WireNode) -> None:
    node.log.create_topic("t")
    call, outcome = node.call(request_frame("Fetch", 12, {**fetch("t"), "maxWaitMs": 60_000})[4:])
    assert isinstance(outcome, Reply)

    node.ask("Produce", 9, produce("t", batch(b"a")))

    assert outcome.answer.done()
    assert fetched_part(decoded(call, outcome.body(outcome.answer.result())))["highWatermark"] == 1


def test_a_fetch_that_has_used_its_bytes_up_still_names_every_partition(node: WireNode) -> None:
    node.log.create_topic("t", 2)
    node.ask("Produce", 9, produce("t", batch(b"a" * 1000), batch(b"b" * 1000)))
    body = fetch("t", maxBytes=1)
    body["topics"][0]["partitions"].append({"partition": 1, "fetchOffset": 0, "partitionMaxBytes": 1})

    parts = node.ask("Fetch", 12, body)["responses"][0]["partitions"]

    assert [(part["partitionIndex"], len(part["records"]) > 0) for part in parts] == [(0, True), (1, False)]


def test_a_session_hears_only_what_is_new(node: WireNode) -> None:
    node.log.create_topic("t")
    first = node.ask("Fetch", 12, fetch("t", sessionId=0, sessionEpoch=0))
    session_id = first["sessionId"]
    assert session_id > 0
    following = {"maxWaitMs": 0, "minBytes": 1, "topics": [], "sessionId": session_id}

    quiet = node.ask("Fetch", 12, {**following, "sessionEpoch": 1})
    node.ask("Produce", 9, produce("t", batch(b"a")))
    news = node.ask("Fetch", 12, {**following, "sessionEpoch": 2})
    late = node.ask("Fetch", 12, {**following, "sessionEpoch": 2})

    assert quiet["responses"] == []
    assert fetched_part(news)["highWatermark"] == 1
    assert (late["errorCode"], late["responses"]) == (71, [])


def test_a_session_forgets_partitions_and_ends(node: WireNode) -> None:
    node.log.create_topic("t")
    node.ask("Produce", 9, produce("t", batch(b"a")))
    session_id = node.ask("Fetch", 12, fetch("t", sessionId=0, sessionEpoch=0))["sessionId"]
    empty = {"maxWaitMs": 0, "minBytes": 1, "topics": [], "sessionId": session_id}

    forgotten = node.ask(
        "Fetch", 12, {**empty, "sessionEpoch": 1, "forgottenTopicsData": [{"topic": "t", "partitions": [0]}]}
    )
    node.ask("Fetch", 12, {**empty, "sessionEpoch": -1})
    ended = node.ask("Fetch", 12, {**empty, "sessionEpoch": 2})

    assert forgotten["responses"] == []
    assert ended["errorCode"] == 70


# --- offsets ----------------------------------------------------------------------------------------------------------


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


# --- coordinators -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(7))
def test_this_node_coordinates_everything(node: WireNode, version: int) -> None:
    asked: dict[str, Any] = {"coordinatorKeys": ["a", "b"]} if version >= 4 else {"key": "a"}

    response = node.ask("FindCoordinator", version, asked)

    places = response["coordinators"] if version >= 4 else [response]
    assert {(one["host"], one["port"], one["errorCode"]) for one in places} == {("127.0.0.1", 9092, 0)}


def test_a_coordinator_of_another_kind_is_not_there(node: WireNode) -> None:
    response = node.ask("FindCoordinator", 6, {"keyType": 2, "coordinatorKeys": ["a"]})

    assert response["coordinators"][0]["errorCode"] == 42


def commit(node: WireNode, version: int, offset: int, *, topic: dict[str, Any] | None = None) -> int:
    parts = [{"partitionIndex": 0, "committedOffset": offset, "committedMetadata": "m"}]
    body = {"groupId": "g", "topics": [{**(topic or {"name": "t"}), "partitions": parts}]}
    (answered,) = node.ask("OffsetCommit", version, body)["topics"]
    return int(answered["partitions"][0]["errorCode"])


@pytest.mark.parametrize("version", range(2, 11))
def test_offsets_are_committed_and_found_again(node: WireNode, version: int) -> None:
    node.log.create_topic("t")
    name: dict[str, Any] = {"name": "t"} if version < 10 else {"topicId": node.log.broker.image.topics["t"].id}
    assert commit(node, version, 5, topic=name) == 0

    asked = [{**name, "partitionIndexes": [0, 1]}]
    if version >= 8:
        (group,) = node.ask("OffsetFetch", version, {"groups": [{"groupId": "g", "topics": asked}]})["groups"]
    else:
        group = node.ask("OffsetFetch", version, {"groupId": "g", "topics": asked})

    (topic,) = group["topics"]
    found = [(part["committedOffset"], part["metadata"], part["errorCode"]) for part in topic["partitions"]]
    assert found == [(5, "m", 0), (-1, "", 0)]


def test_all_offsets_of_many_groups_are_found_at_once(node: WireNode) -> None:
    node.log.create_topic("t")
    commit(node, 8, 5)
    asked = [{"groupId": group, "topics": None} for group in ("g", "other")]

    groups = node.ask("OffsetFetch", 8, {"groups": asked})["groups"]

    assert [group["groupId"] for group in groups] == ["g", "other"]
    assert [len(group["topics"]) for group in groups] == [1, 0]


def test_a_commit_for_an_unknown_id_is_an_error(node: WireNode) -> None:
    assert commit(node, 10, 5, topic={"topicId": UNKNOWN}) == 100


def test_a_member_joins_syncs_and_leaves(node: WireNode) -> None:
    protocol = {"name": "range", "metadata": b"m"}
    joining = {
        "groupId": "g", "sessionTimeoutMs": 10_000, "rebalanceTimeoutMs": 10_000, "memberId": "",
        "protocolType": "consumer", "protocols": [protocol],
    }  # fmt: skip
    asked = node.ask("JoinGroup", 9, joining)
    assert asked["errorCode"] == 79

    joined = node.ask("JoinGroup", 9, {**joining, "memberId": asked["memberId"]})
    member = {"groupId": "g", "generationId": joined["generationId"], "memberId": joined["memberId"]}
    assignments = [{"memberId": joined["memberId"], "assignment": b"all"}]
    synced = node.ask("SyncGroup", 5, {**member, "assignments": assignments})
    beat = node.ask("Heartbeat", 4, member)
    (described,) = node.ask("DescribeGroups", 6, {"groups": ["g"]})["groups"]
    left = node.ask("LeaveGroup", 5, {"groupId": "g", "members": [{"memberId": joined["memberId"]}]})

    assert joined["members"][0]["metadata"] == b"m"
    assert bytes(synced["assignment"]) == b"all"
    assert beat["errorCode"] == left["errorCode"] == left["members"][0]["errorCode"] == 0
    assert described["members"][0]["clientHost"] == "/127.0.0.1"
    assert described["members"][0]["clientId"] == "test"


@pytest.mark.parametrize(("version", "code"), [(0, 0), (5, 0), (6, 69)])
def test_a_group_that_is_absent_is_dead_or_not_found(node: WireNode, version: int, code: int) -> None:
    (group,) = node.ask("DescribeGroups", version, {"groups": ["none"]})["groups"]

    assert (group["errorCode"], group["groupState"]) == (code, "Dead")


@pytest.mark.parametrize("version", range(2))
def test_a_consumer_group_is_described_with_the_names_of_its_topics(node: WireNode, version: int) -> None:
    node.log.create_topic("t")
    beat = node.ask("ConsumerGroupHeartbeat", version, {
        "groupId": "g", "memberId": str(uuid.uuid4()), "memberEpoch": 0, "rebalanceTimeoutMs": 1000,
        "subscribedTopicNames": ["t"], "topicPartitions": [],
    })  # fmt: skip
    assert beat["errorCode"] == 0

    (group,) = node.ask("ConsumerGroupDescribe", version, {"groupIds": ["g"]})["groups"]
    (classic,) = node.ask("DescribeGroups", 6, {"groups": ["g"]})["groups"]

    target = group["members"][0]["targetAssignment"]["topicPartitions"]
    assert [(one["topicName"], one["partitions"]) for one in target] == [("t", [0])]
    assert classic["errorCode"] == 69


def test_a_classic_group_is_no_consumer_group(node: WireNode) -> None:
    node.log.create_topic("t")
    commit(node, 8, 5)

    (group,) = node.ask("ConsumerGroupDescribe", 0, {"groupIds": ["g"]})["groups"]

    assert group["errorCode"] == 69
    assert group["errorMessage"]


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed_and_deleted(node: WireNode, version: int) -> None:
    node.log.create_topic("t")
    commit(node, 8, 5)

    listed = node.ask("ListGroups", version, {})
    deleted = node.ask("DeleteGroups", 2, {"groupsNames": ["g", "none"]})

    assert [group["groupId"] for group in listed["groups"]] == ["g"]
    assert [one["errorCode"] for one in deleted["results"]] == [0, 69]


def test_single_offsets_of_a_group_are_deleted(node: WireNode) -> None:
    node.log.create_topic("t")
    commit(node, 8, 5)
    parts = [{"partitionIndex": 0}, {"partitionIndex": 7}]

    (topic,) = node.ask("OffsetDelete", 0, {"groupId": "g", "topics": [{"name": "t", "partitions": parts}]})["topics"]

    assert [part["errorCode"] for part in topic["partitions"]] == [0, 3]
    body = {"groupId": "none", "topics": [{"name": "t", "partitions": parts[:1]}]}
    assert node.ask("OffsetDelete", 0, body)["errorCode"] == 69


# --- transactions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "raised"), [(0, 0), (4, 0), (5, 1)])
def test_a_transaction_ends_and_its_epoch_rises_from_version_5_on(
    node: WireNode, version: int, raised: int
) -> None:  # fmt: skip
    node.log.create_topic("t")
    given = node.ask("InitProducerId", 5, {"transactionalId": "tx", "transactionTimeoutMs": 10_000})
    producer = {"producerId": given["producerId"], "producerEpoch": given["producerEpoch"]}
    added = node.ask("AddPartitionsToTxn", 3, {
        "v3AndBelowTransactionalId": "tx", "v3AndBelowProducerId": given["producerId"],
        "v3AndBelowProducerEpoch": given["producerEpoch"],
        "v3AndBelowTopics": [{"name": "t", "partitions": [0]}],
    })  # fmt: skip
    assert added["resultsByTopicV3AndBelow"][0]["resultsByPartition"][0]["partitionErrorCode"] == 0
    records = batch(
        b"a", producer_id=given["producerId"], producer_epoch=given["producerEpoch"], base_sequence=0,
        transactional=True,
    )  # fmt: skip
    assert produced_parts(node.ask("Produce", 9, {**produce("t", records), "transactionalId": "tx"}))[0][
        "errorCode"
    ] == 0  # fmt: skip
    assert fetched_part(node.ask("Fetch", 12, fetch("t", isolationLevel=1)))["lastStableOffset"] == 0
    (open_one,) = node.ask("DescribeTransactions", 0, {"transactionalIds": ["tx"]})["transactionStates"]

    ended = node.ask("EndTxn", version, {"transactionalId": "tx", **producer, "committed": True})
    again = node.ask("EndTxn", version, {"transactionalId": "tx", **producer, "committed": True})

    assert open_one["transactionState"] == "Ongoing"
    assert open_one["topics"] == [{"topic": "t", "partitions": [0]}]
    assert ended["errorCode"] == again["errorCode"] == 0
    assert fetched_part(node.ask("Fetch", 12, fetch("t", isolationLevel=1)))["lastStableOffset"] == 2
    (state,) = node.ask("DescribeTransactions", 0, {"transactionalIds": ["tx"]})["transactionStates"]
    assert state["transactionState"] == "CompleteCommit"
    assert state["producerEpoch"] == given["producerEpoch"] + raised


def test_an_aborted_transaction_is_told_to_who_reads_committed_records(node: WireNode) -> None:
    node.log.create_topic("t")
    given = node.ask("InitProducerId", 5, {"transactionalId": "tx", "transactionTimeoutMs": 10_000})
    producer = {"producerId": given["producerId"], "producerEpoch": given["producerEpoch"]}
    records = batch(b"a", producer_id=given["producerId"], producer_epoch=0, base_sequence=0, transactional=True)
    node.ask("Produce", 12, {**produce("t", records), "transactionalId": "tx"})
    node.ask("EndTxn", 5, {"transactionalId": "tx", **producer, "committed": False})

    part = fetched_part(node.ask("Fetch", 12, fetch("t", isolationLevel=1)))
    (producers,) = node.ask("DescribeProducers", 0, {"topics": [{"name": "t", "partitionIndexes": [0, 9]}]})["topics"]
    listed = node.ask("ListTransactions", 2, {"stateFilters": ["CompleteAbort", "Odd"]})

    assert part["abortedTransactions"] == [{"producerId": given["producerId"], "firstOffset": 0}]
    assert [one["errorCode"] for one in producers["partitions"]] == [0, 3]
    assert producers["partitions"][0]["activeProducers"][0]["producerId"] == given["producerId"]
    assert listed["unknownStateFilters"] == ["Odd"]
    assert [one["transactionalId"] for one in listed["transactionStates"]] == ["tx"]


def test_offsets_join_a_transaction(node: WireNode) -> None:
    node.log.create_topic("t")
    given = node.ask("InitProducerId", 5, {"transactionalId": "tx", "transactionTimeoutMs": 10_000})
    producer = {"producerId": given["producerId"], "producerEpoch": given["producerEpoch"], "transactionalId": "tx"}
    parts = [{"partitionIndex": 0, "committedOffset": 7, "committedMetadata": None}]

    joined = node.ask("AddOffsetsToTxn", 3, {**producer, "groupId": "g"})
    sent = node.ask("TxnOffsetCommit", 3, {**producer, "groupId": "g", "topics": [{"name": "t", "partitions": parts}]})
    node.ask("EndTxn", 3, {**producer, "committed": True})

    assert joined["errorCode"] == sent["topics"][0]["partitions"][0]["errorCode"] == 0
    (topic,) = node.ask("OffsetFetch", 7, {"groupId": "g", "topics": None})["topics"]
    assert topic["partitions"][0]["committedOffset"] == 7
