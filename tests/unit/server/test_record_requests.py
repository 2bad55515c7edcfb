"""Produce and Fetch to a node in memory, in the versions in which they differ."""

import itertools
import random
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

import pylog
from pylog.errors import (
    InconsistentTopicId,
    InvalidRecord,
    TransactionalIdAuthorization,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from pylog.kernel import crc32c
from pylog.protocol.batch import Batch
from pylog.protocol.compression import Codec
from pylog.server.api.call import NO_RESPONSE, Later, Reply
from pylog.server.api.produce import PACKED_AT_ONCE
from pylog.server.dispatch import read_request
from support.wire_bodies import batch, fetch, fetched_part, produce, produced_parts
from support.wire_client import request_frame
from support.wire_node import WireNode, decoded, wire_node

UNKNOWN = uuid.UUID(int=77)


@pytest.fixture
def node() -> Iterator[WireNode]:
    with wire_node() as made:
        yield made


@pytest.mark.parametrize("version", range(3, 13))
def test_a_batch_is_stored_as_it_came(node: WireNode, version: int) -> None:
    node.log.create_topic("t")
    data = batch(b"a", b"b", codec=Codec.LZ4)

    (part,) = produced_parts(node.ask("Produce", version, produce("t", data)))

    assert (part["errorCode"], part["baseOffset"]) == (0, 0)
    stored = Batch.parse(node.log.topic("t")[0].read(0))
    assert stored.crc == Batch.parse(data).crc


def by_id(*topic_ids: uuid.UUID) -> dict[str, Any]:
    """A Produce of one record to topics with these ids."""
    body = produce("t", batch(b"a"))
    (named,) = body["topicData"]
    return {**body, "topicData": [{"topicId": one, "partitionData": named["partitionData"]} for one in topic_ids]}


def test_from_13_on_topics_of_produce_are_named_by_id(node: WireNode) -> None:
    node.log.create_topic("t")
    topic_id = node.log.broker.image.topics["t"].id

    response = node.ask("Produce", 13, by_id(topic_id, UNKNOWN))

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

    outcomes = []
    for call in calls:
        outcomes.append(call.answer(node.served))
        if isinstance(outcomes[-1], Later):
            outcomes[-1].call()

    assert [isinstance(outcome, Later) for outcome in outcomes] == [True, False, True, False]
    assert [node.log.topic("t")[number].next_offset for number in (0, 1)] == [4, 2]


def goes_to_a_pool(node: WireNode) -> bool:
    """Whether an append to the topic "t" takes a thread that may block; it is done there then."""
    outcome = read_request(bytearray(request_frame("Produce", 9, produce("t", batch(b"a")))[4:]), "/h").answer(
        node.served
    )
    if isinstance(outcome, Later):
        outcome.call()
        return outcome.is_append
    return False


@pytest.mark.parametrize(
    "config", [{"flush.messages": "5"}, {"retention.bytes": "100000", "pylog.full.policy": "block"}]
)
def test_an_append_goes_to_the_pool_from_when_it_may_block_on(node: WireNode, config: dict[str, str]) -> None:
    node.log.create_topic("t")
    went = [goes_to_a_pool(node), goes_to_a_pool(node)]
    node.log.admin.alter_config("t", config)
    went.append(goes_to_a_pool(node))
    node.log.admin.alter_config("t", delete=list(config))
    went.append(goes_to_a_pool(node))

    assert went == [True, False, True, False]
    assert node.log.topic("t")[0].high_watermark == 4


@pytest.mark.parametrize("flush", ["sync", "none"])
def test_an_append_to_a_partition_with_followers_needs_no_thread(flush: str) -> None:
    with pylog.open(":memory:", flush=flush) as log:
        node = WireNode(log)
        log.create_topic("t")
        goes_to_a_pool(node)
        leader = log.broker.node.roles.writer("t", 0)
        assert not goes_to_a_pool(node)
        leader.set_followers(frozenset({2}), frozenset(), 0)
        assert not goes_to_a_pool(node)


def test_a_large_compressed_batch_is_looked_at_by_the_pool(node: WireNode) -> None:
    node.log.create_topic("t")
    large, small = random.Random(1).randbytes(PACKED_AT_ONCE), b"s"
    node.ask("Produce", 9, produce("t", batch(small)))
    batches = [batch(large), batch(small, codec=Codec.LZ4), batch(large, codec=Codec.LZ4)]

    outcomes = [
        read_request(bytearray(request_frame("Produce", 9, produce("t", one))[4:]), "/h").answer(node.served)
        for one in batches
    ]

    assert [isinstance(outcome, Later) and outcome.is_append for outcome in outcomes] == [False, False, True]


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

    asked = fetch("", topic_id=topic_id)
    asked["topics"][0]["partitions"][0]["partition"] = 9

    assert fetched_part(known)["highWatermark"] == 1
    assert fetched_part(unknown)["errorCode"] == 100
    assert fetched_part(node.ask("Fetch", version, asked))["errorCode"] == 3


def test_an_epoch_below_zero_is_none(node: WireNode) -> None:
    node.log.create_topic("t")
    asked = fetch("t")
    asked["topics"][0]["partitions"][0] |= {"currentLeaderEpoch": -2, "lastFetchedEpoch": -2}

    assert fetched_part(node.ask("Fetch", 12, asked))["errorCode"] == 0


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


def test_an_answer_has_no_more_bytes_than_the_node_allows() -> None:
    with wire_node(**{"fetch.max.bytes": 2048}) as node:
        node.log.create_topic("t", 4)
        node.ask("Produce", 9, produce("t", *[batch(b"a" * 900)] * 4))
        body = fetch("t", maxBytes=2**31 - 1)
        (part,) = body["topics"][0]["partitions"]
        body["topics"][0]["partitions"] = [{**part, "partition": n, "partitionMaxBytes": 2**31 - 1} for n in range(4)]

        parts = node.ask("Fetch", 12, body)["responses"][0]["partitions"]

    assert [len(part["records"]) > 0 for part in parts] == [True, True, False, False]


def test_a_partition_that_is_named_many_times_is_read_once(node: WireNode) -> None:
    node.log.create_topic("t")
    node.ask("Produce", 9, produce("t", batch(b"a", b"b")))
    body = fetch("t", 7)
    body["topics"] += fetch("t", 2)["topics"]

    (topic,) = node.ask("Fetch", 12, body)["responses"]

    assert [(part["partitionIndex"], part["errorCode"]) for part in topic["partitions"]] == [(0, 0)]


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


def test_a_session_tells_what_became_of_the_topic_of_an_id(node: WireNode) -> None:
    node.log.create_topic("t")
    topic_id = node.log.broker.image.topics["t"].id
    first = node.ask("Fetch", 13, fetch("", topic_id=topic_id, sessionId=0, sessionEpoch=0))
    epochs = itertools.count(1)

    def error() -> int:
        going_on = {"sessionId": first["sessionId"], "sessionEpoch": next(epochs), "maxWaitMs": 0, "minBytes": 0}
        code: int = fetched_part(node.ask("Fetch", 13, {"topics": [], **going_on}))["errorCode"]
        return code

    node.log.delete_topic("t")
    gone = error(), error()
    alone = fetched_part(node.ask("Fetch", 13, fetch("", topic_id=topic_id)))["errorCode"]
    written = produced_parts(node.ask("Produce", 13, by_id(topic_id)))[0]["errorCode"]
    node.log.create_topic("t")
    again = error(), error()

    unknown, other, absent = UnknownTopicId.code, InconsistentTopicId.code, UnknownTopicOrPartition.code
    assert (gone, again) == ((absent, absent), (other, other))
    assert (alone, written) == (unknown, unknown)
    assert fetched_part(node.ask("Fetch", 13, fetch("", topic_id=topic_id)))["errorCode"] == unknown


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


def test_what_is_not_there_is_told_before_what_is_wrong_with_its_records(node: WireNode) -> None:
    node.log.create_topic("t")
    body = produce("t", b"", b"")

    missing = [part["errorCode"] for part in produced_parts(node.ask("Produce", 9, body))]
    transactional = batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    refused = [part["errorCode"] for part in produced_parts(node.ask("Produce", 9, produce("none", transactional)))]

    assert missing == [InvalidRecord.code, UnknownTopicOrPartition.code]
    assert refused == [TransactionalIdAuthorization.code]


@pytest.mark.parametrize(("isolation", "aborted"), [(0, None), (1, [])])
def test_aborted_transactions_are_listed_for_who_reads_committed_records(
    node: WireNode, isolation: int, aborted: list[Any] | None
) -> None:
    node.log.create_topic("t")

    parts = [
        fetched_part(node.ask("Fetch", 12, {**fetch(topic, offset), "isolationLevel": isolation}))
        for topic, offset in (("t", 0), ("t", 9), ("none", 0))
    ]

    assert [part["abortedTransactions"] for part in parts] == [aborted, None, []]
