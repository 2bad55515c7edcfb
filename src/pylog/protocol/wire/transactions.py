"""Producer ids and transactions, as bodies and as messages.

AddPartitionsToTxn  one transaction up to 3, several from 4 on (brokers)
TxnOffsetCommit     the member from 3 on (KIP-447); up to 4 the group joins by AddOffsetsToTxn alone (KIP-890)
WriteTxnMarkers     the transaction's version from 2 on; an administrator ends with it what no coordinator has
"""

from pylog.errors import InvalidProducerEpoch, InvalidTxnState, ProducerFenced, PylogError, TransactionAbortable
from pylog.protocol.error_codes import error_code
from pylog.protocol.messages import (
    AddPartitionsToTxn,
    OffsetsCommitted,
    PartitionsAdded,
    TxnMarkers,
    TxnMarkersWritten,
    TxnOffsetCommit,
    WriteTxnMarkers,
)
from pylog.protocol.wire.groups import commit_parts, committed
from pylog.protocol.wire.mapping import Body, Mapping, topic_partitions
from pylog.record import TopicPartition

__all__ = ["MAPPINGS"]

ABORTABLE_FROM, JOINS_FROM = 4, 5
"""From which versions of TxnOffsetCommit on a client understands TransactionAbortable, and need not send
AddOffsetsToTxn.
"""
FENCED_FROM = 2
"""The version of AddPartitionsToTxn from which on ProducerFenced is an error of it."""
MarkerErrors = dict[TopicPartition, PylogError | None]


def without_fencing(error: PylogError | None) -> PylogError | None:
    """The error for a client that does not know ProducerFenced."""
    return InvalidProducerEpoch(str(error)) if isinstance(error, ProducerFenced) else error


# --- joining ----------------------------------------------------------------------------------------------------------


def _add_partitions(body: Body, version: int) -> list[AddPartitionsToTxn]:
    if version < 4:
        return [
            AddPartitionsToTxn(
                body["v3AndBelowTransactionalId"], body["v3AndBelowProducerId"], body["v3AndBelowProducerEpoch"],
                topic_partitions(body["v3AndBelowTopics"]),
            )
        ]  # fmt: skip
    return [
        AddPartitionsToTxn(
            one["transactionalId"], one["producerId"], one["producerEpoch"], topic_partitions(one["topics"]),
            one["verifyOnly"],
        )
        for one in body["transactions"]
    ]  # fmt: skip


def _added(body: Body, answers: list[PartitionsAdded], version: int) -> Body:
    if version < 4:
        return {"resultsByTopicV3AndBelow": _added_topics(body["v3AndBelowTopics"], answers[0], version)}
    results = [
        {"transactionalId": one["transactionalId"], "topicResults": _added_topics(one["topics"], answer, version)}
        for one, answer in zip(body["transactions"], answers, strict=True)
    ]
    return {"resultsByTransaction": results}


def _added_topics(topics: list[Body], answer: PartitionsAdded, version: int) -> list[Body]:
    errors = answer.errors
    if version < FENCED_FROM:
        errors = {key: without_fencing(error) for key, error in errors.items()}
    return [
        {
            "name": topic["name"],
            "resultsByPartition": [
                {
                    "partitionIndex": number,
                    "partitionErrorCode": error_code(errors.get(TopicPartition(topic["name"], number))),
                }
                for number in topic["partitions"]
            ],
        }
        for topic in topics
    ]


def _commit_offsets(body: Body, version: int) -> TxnOffsetCommit:
    return TxnOffsetCommit(
        body["transactionalId"], body["groupId"], body["producerId"], body["producerEpoch"], commit_parts(body),
        body.get("generationId", -1), body.get("memberId", ""), body.get("groupInstanceId"),
        joins=version >= JOINS_FROM,
    )  # fmt: skip


def _offsets_committed(body: Body, answer: OffsetsCommitted, version: int) -> Body:
    def told(error: PylogError | None) -> PylogError | None:
        is_unknown = isinstance(error, TransactionAbortable) and version < ABORTABLE_FROM
        return InvalidTxnState(str(error)) if is_unknown else error

    errors = {key: told(error) for key, error in answer.errors.items()}
    return committed(body, OffsetsCommitted(errors, told(answer.error)), version)


# --- ending -----------------------------------------------------------------------------------------------------------


def _write_markers(body: Body, version: int) -> WriteTxnMarkers:
    return WriteTxnMarkers([
        TxnMarkers(
            one["producerId"], one["producerEpoch"], one["transactionResult"], one["coordinatorEpoch"],
            tuple(topic_partitions(one["topics"], partitions="partitionIndexes")), one.get("transactionVersion", 0),
        )
        for one in body["markers"]
    ])  # fmt: skip


def _markers_written(body: Body, answer: TxnMarkersWritten, version: int) -> Body:
    def topic_of(topic: Body, errors: MarkerErrors) -> Body:
        entries = [
            {"partitionIndex": number, "errorCode": error_code(errors.get(TopicPartition(topic["name"], number)))}
            for number in topic["partitionIndexes"]
        ]
        return {"name": topic["name"], "partitions": entries}

    return {
        "markers": [
            {"producerId": one["producerId"], "topics": [topic_of(topic, errors) for topic in one["topics"]]}
            for one, errors in zip(body["markers"], answer.errors, strict=True)
        ]
    }


MAPPINGS = (
    Mapping(
        name="AddPartitionsToTxn", message=_add_partitions, response=_added, is_many=True,
        refusal=lambda message, error: PartitionsAdded(dict.fromkeys(message.partitions, error)),
    ),
    Mapping(
        name="TxnOffsetCommit", message=_commit_offsets, response=_offsets_committed,
        refusal=lambda message, error: OffsetsCommitted(error=error),
    ),
    Mapping(
        name="WriteTxnMarkers", message=_write_markers, response=_markers_written,
        refusal=lambda message, error: TxnMarkersWritten([
            dict.fromkeys(one.partitions, error) for one in message.markers
        ]),
    ),
)  # fmt: skip
