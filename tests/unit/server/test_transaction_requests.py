"""Requests of transactions to a node in memory, in the versions in which they differ."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from pylog.errors import InvalidRequest, UnknownTopicOrPartition
from support.wire_bodies import batch, fetch, fetched_part, produce, produced_parts
from support.wire_node import WireNode, wire_node

UNKNOWN = uuid.UUID(int=77)


@pytest.fixture
def node() -> Iterator[WireNode]:
    with wire_node() as made:
        yield made


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


def begun(node: WireNode) -> dict[str, Any]:
    """The producer of a transaction."""
    node.log.create_topic("t")
    given = node.ask("InitProducerId", 5, {"transactionalId": "tx", "transactionTimeoutMs": 10_000})
    return {"producerId": given["producerId"], "producerEpoch": given["producerEpoch"]}


def records_of(producer: dict[str, Any], sequence: int = 0) -> bytes:
    return batch(
        b"a", producer_id=producer["producerId"], producer_epoch=producer["producerEpoch"], base_sequence=sequence,
        transactional=True,
    )  # fmt: skip


@pytest.mark.parametrize(("version", "code"), [(9, 48), (10, 48), (11, 120), (12, 0)])
def test_a_partition_joins_by_a_produce_from_version_12_on_alone(node: WireNode, version: int, code: int) -> None:
    producer = begun(node)

    body = {**produce("t", records_of(producer)), "transactionalId": "tx"}

    assert produced_parts(node.ask("Produce", version, body))[0]["errorCode"] == code
    assert node.log.topic("t")[0].next_offset == (not code)


def test_a_late_produce_of_an_old_client_does_not_join_its_next_transaction(node: WireNode) -> None:
    producer = begun(node)
    added = {
        "v3AndBelowTransactionalId": "tx", "v3AndBelowProducerId": producer["producerId"],
        "v3AndBelowProducerEpoch": producer["producerEpoch"],
        "v3AndBelowTopics": [{"name": "t", "partitions": [0]}],
    }  # fmt: skip
    node.ask("AddPartitionsToTxn", 3, added)
    body = {**produce("t", records_of(producer)), "transactionalId": "tx"}
    assert produced_parts(node.ask("Produce", 11, body))[0]["errorCode"] == 0
    node.ask("EndTxn", 4, {"transactionalId": "tx", **producer, "committed": False})

    late = {**produce("t", records_of(producer, 1)), "transactionalId": "tx"}

    assert produced_parts(node.ask("Produce", 11, late))[0]["errorCode"] == 120
    (state,) = node.ask("DescribeTransactions", 0, {"transactionalIds": ["tx"]})["transactionStates"]
    assert state["transactionState"] == "CompleteAbort"


@pytest.mark.parametrize(("version", "code"), [(3, 48), (4, 120), (5, 0)])
def test_a_group_joins_by_its_offsets_from_version_5_on_alone(node: WireNode, version: int, code: int) -> None:
    producer = begun(node)
    parts = [{"partitionIndex": 0, "committedOffset": 7, "committedMetadata": None}]
    body = {**producer, "transactionalId": "tx", "groupId": "g", "topics": [{"name": "t", "partitions": parts}]}

    (topic,) = node.ask("TxnOffsetCommit", version, body)["topics"]

    assert topic["partitions"][0]["errorCode"] == code


def test_records_of_a_transaction_need_its_id(node: WireNode) -> None:
    producer = begun(node)

    parts = produced_parts(node.ask("Produce", 12, produce("t", records_of(producer), batch(b"b"))))

    assert [part["errorCode"] for part in parts] == [53, 53]


@pytest.mark.parametrize(("version", "code"), [(1, 47), (2, 90)])
def test_a_fenced_producer_is_told_so_in_the_words_of_its_version(node: WireNode, version: int, code: int) -> None:
    producer = begun(node)
    node.ask("InitProducerId", 5, {"transactionalId": "tx", "transactionTimeoutMs": 10_000})
    added = {
        "v3AndBelowTransactionalId": "tx", "v3AndBelowProducerId": producer["producerId"],
        "v3AndBelowProducerEpoch": producer["producerEpoch"],
        "v3AndBelowTopics": [{"name": "t", "partitions": [0]}],
    }  # fmt: skip

    (topic,) = node.ask("AddPartitionsToTxn", version, added)["resultsByTopicV3AndBelow"]
    codes = [
        topic["resultsByPartition"][0]["partitionErrorCode"],
        node.ask("AddOffsetsToTxn", version, {"transactionalId": "tx", **producer, "groupId": "g"})["errorCode"],
        node.ask("EndTxn", version, {"transactionalId": "tx", **producer, "committed": True})["errorCode"],
    ]

    assert codes == [code] * 3


@pytest.mark.parametrize(("version", "code"), [(3, 47), (4, 90)])
def test_a_fenced_producer_gets_no_epoch(node: WireNode, version: int, code: int) -> None:
    producer = begun(node)
    more = {"transactionalId": "tx", "transactionTimeoutMs": 10_000}
    for _ in range(2):
        node.ask("InitProducerId", 5, more)

    assert node.ask("InitProducerId", version, {**more, **producer})["errorCode"] == code


def test_an_unknown_transaction_has_nothing_but_its_error(node: WireNode) -> None:
    (state,) = node.ask("DescribeTransactions", 0, {"transactionalIds": ["none"]})["transactionStates"]

    assert state["errorCode"] == 105
    assert (state["transactionTimeoutMs"], state["producerEpoch"]) == (0, 0)


@pytest.mark.parametrize("version", [1, 2])
def test_a_marker_ends_a_transaction_in_its_partition(node: WireNode, version: int) -> None:
    producer = begun(node)
    node.ask("Produce", 12, {**produce("t", records_of(producer)), "transactionalId": "tx"})
    marker = {**producer, "transactionResult": False, "coordinatorEpoch": 0, "topics": [
        {"name": "t", "partitionIndexes": [0, 9]}, {"name": "none", "partitionIndexes": [0]}]}  # fmt: skip
    assert fetched_part(node.ask("Fetch", 12, fetch("t", isolationLevel=1)))["lastStableOffset"] == 0

    (written,) = node.ask("WriteTxnMarkers", version, {"markers": [marker]})["markers"]

    codes = {topic["name"]: [one["errorCode"] for one in topic["partitions"]] for topic in written["topics"]}
    assert codes == {"t": [0, 3], "none": [3]}
    assert written["producerId"] == producer["producerId"]
    assert fetched_part(node.ask("Fetch", 12, fetch("t", isolationLevel=1)))["lastStableOffset"] == 2


@pytest.mark.parametrize(("version", "code"), [(3, 48), (4, 48), (5, 0)])
def test_nothing_is_aborted_from_version_5_on_alone(node: WireNode, version: int, code: int) -> None:
    owner = node.ask("InitProducerId", 5, {"transactionalId": "x", "transactionTimeoutMs": 60_000})
    asked = {"transactionalId": "x", "committed": False, "producerId": owner["producerId"]}
    ended = node.ask("EndTxn", version, {**asked, "producerEpoch": owner["producerEpoch"]})
    assert ended["errorCode"] == code


@pytest.mark.parametrize(("name", "body"), [
    ("EndTxn", {"producerId": 7, "producerEpoch": 0, "committed": True}),
    ("AddOffsetsToTxn", {"producerId": 7, "producerEpoch": 0, "groupId": "g"}),
    ("InitProducerId", {"transactionTimeoutMs": 1000}),
])  # fmt: skip
def test_a_transactional_id_has_a_character(node: WireNode, name: str, body: dict[str, Any]) -> None:
    answer = node.ask(name, 4, {"transactionalId": "", **body})

    assert answer["errorCode"] == InvalidRequest.code


@pytest.mark.parametrize("transactional_id", [None, "tx"])
@pytest.mark.parametrize("half", [{"producerId": 7, "producerEpoch": -1}, {"producerId": -1, "producerEpoch": 0}])
def test_a_producer_id_comes_with_its_epoch(node: WireNode, transactional_id: str | None, half: dict[str, int]) -> None:
    asked = {"transactionalId": transactional_id, "transactionTimeoutMs": -1, **half}

    answer = node.ask("InitProducerId", 4, asked)

    assert (answer["errorCode"], answer["producerId"]) == (InvalidRequest.code, -1)


def test_offsets_of_what_is_not_there_are_told_before_a_transaction_is(node: WireNode) -> None:
    node.log.create_topic("t")
    parts = [{"partitionIndex": number, "committedOffset": 1, "committedMetadata": ""} for number in (0, 9)]
    body = {"transactionalId": "tx", "groupId": "g", "producerId": 7, "producerEpoch": 0}

    (topic,) = node.ask("TxnOffsetCommit", 4, {**body, "topics": [{"name": "t", "partitions": parts}]})["topics"]

    codes = {part["partitionIndex"]: part["errorCode"] for part in topic["partitions"]}
    assert codes[9] == UnknownTopicOrPartition.code != codes[0] != 0


def test_a_description_of_transactions_without_sense_says_so(node: WireNode) -> None:
    (nameless,) = node.ask("DescribeTransactions", 0, {"transactionalIds": [""]})["transactionStates"]
    listed = node.ask("ListTransactions", 2, {"stateFilters": ["what"], "transactionalIdPattern": "("})

    assert nameless["errorCode"] == InvalidRequest.code
    assert listed["errorCode"] != 0 and listed["unknownStateFilters"] == []
