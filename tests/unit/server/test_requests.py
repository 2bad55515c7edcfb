"""Requests to a node in memory, in the versions in which they differ. There are no sockets."""

import uuid
from collections.abc import Iterator

import pytest

from pylog.errors import UnknownTopicOrPartition
from pylog.kernel import crc32c
from pylog.protocol.batch import Batch
from pylog.protocol.compression import Codec
from pylog.protocol.messages import NO_ID
from pylog.server.api.api_versions import UNNAMED
from pylog.server.api.call import NO_RESPONSE, Later, Reply
from pylog.server.api.table import APIS
from pylog.server.dispatch import read_request
from support.wire_bodies import NOW, batch, fetch, fetched_part, produce, produced_parts
from support.wire_client import request_frame
from support.wire_node import WireNode, decoded, wire_node

UNKNOWN = uuid.UUID(int=77)


@pytest.fixture
def node() -> Iterator[WireNode]:
    with wire_node() as made:
        yield made


# --- served keys ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(5))
def test_api_versions_names_every_key_that_is_served(node: WireNode, version: int) -> None:
    software = {"clientSoftwareName": "test", "clientSoftwareVersion": "1.0"} if version >= 3 else {}

    response = node.ask("ApiVersions", version, software)

    assert response["errorCode"] == 0
    assert {one["apiKey"]: (one["minVersion"], one["maxVersion"]) for one in response["apiKeys"]} == {
        api.key: (api.low if api.key else 0, api.high) for api in APIS.values() if api.name not in UNNAMED
    }
    if version >= 3:
        lowest = {one["name"]: one["minVersion"] for one in response["supportedFeatures"]}
        least = 0 if version == 4 else 1
        assert lowest == {"metadata.version": 30, "group.version": least, "transaction.version": least}
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


@pytest.mark.parametrize(("name", "code"), [("", 17), ("no such name", 17), ("__transaction_state", 3)])
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


def _with_count(data: bytes, count: int) -> bytes:
    """The batch with another number of records in its header, and a CRC that is right."""
    body = data[21:57] + count.to_bytes(4, "big") + data[61:]
    return data[:17] + crc32c(body).to_bytes(4, "big") + body


def test_each_partition_has_its_own_error(node: WireNode) -> None:
    node.log.create_topic("t", 9)
    good = batch(b"a")
    broken = good[:-1] + bytes([good[-1] ^ 1])
    control = batch(b"a", control=True)
    records = [good, None, b"", good + good, b"short", broken, control, good[:40], _with_count(good, 7)]

    parts = produced_parts(node.ask("Produce", 9, produce("t", *records)))

    assert [part["errorCode"] for part in parts] == [0, 87, 87, 87, 2, 2, 87, 87, 87]
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


def test_the_first_append_to_a_partition_is_left_to_the_pool(node: WireNode) -> None:
    node.log.create_topic("t", 2)
    calls = [read_request(bytearray(request_frame("Produce", 9, produce("t", *records))[4:]), "/h") for records in (
        [batch(b"a")], [batch(b"b")], [batch(b"c"), batch(b"d")], [batch(b"e"), batch(b"f")])]  # fmt: skip

    outcomes = [call.answer(node.served) for call in calls]

    assert [isinstance(outcome, Later) for outcome in outcomes] == [True, False, True, False]


def test_records_that_are_refused_are_told_with_the_start_of_the_log(node: WireNode) -> None:
    node.log.create_topic("t", config={"cleanup.policy": "compact"})
    (part,) = produced_parts(node.ask("Produce", 9, produce("t", batch(b"no key"))))
    assert (part["errorCode"], part["logStartOffset"]) == (87, 0)
    (part,) = produced_parts(node.ask("Produce", 9, produce("none", batch(b"x"))))
    assert (part["errorCode"], part["logStartOffset"]) == (3, -1)


def test_acks_that_mean_nothing_are_refused(node: WireNode) -> None:
    node.log.create_topic("t")

    assert produced_parts(node.ask("Produce", 9, produce("t", batch(b"a"), acks=2)))[0]["errorCode"] == 21


def test_acks_that_mean_nothing_are_less_than_a_partition_that_is_missing(node: WireNode) -> None:
    node.log.create_topic("t")

    parts = produced_parts(node.ask("Produce", 9, produce("t", batch(b"a"), batch(b"a"), acks=2)))

    assert [part["errorCode"] for part in parts] == [21, 3]


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

    part = fetched_part(node.ask("Fetch", 12, fetch("t", 5)))

    assert part["errorCode"] == 1
    assert {part["highWatermark"], part["lastStableOffset"], part["logStartOffset"]} == {-1}


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
