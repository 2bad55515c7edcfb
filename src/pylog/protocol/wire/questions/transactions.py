"""Transactions, as a client asks for them.

    TxnOffsetCommit   from 5 on, where the group joins by it

A producer's transactions are of version 2: a node that has only older versions of these is too old for them.
"""

from operator import attrgetter

from pylog.errors import PylogError
from pylog.protocol.error_codes import of_code, untold
from pylog.protocol.messages import (
    OffsetsCommitted,
    TxnMarkers,
    TxnMarkersWritten,
    TxnOffsetCommit,
    WriteTxnMarkers,
)
from pylog.protocol.wire.mapping import Body, by_topic
from pylog.protocol.wire.questions.groups import commit_topics, offsets_committed
from pylog.protocol.wire.questions.question import ANY_VERSION, Question, entries
from pylog.record import TopicPartition

__all__ = ["QUESTIONS"]

VERSION_2_FROM = 5


def _commit(message: TxnOffsetCommit, version: int) -> Body:
    return {
        "transactionalId": message.transactional_id,
        "groupId": message.group_id,
        "producerId": message.producer_id,
        "producerEpoch": message.producer_epoch,
        "generationId": message.generation_id,
        "memberId": message.member_id,
        "groupInstanceId": message.group_instance_id,
        "topics": commit_topics(message.parts, epochs=True),
    }


def _committed(message: TxnOffsetCommit, body: Body, version: int) -> OffsetsCommitted:
    return offsets_committed(message.parts, body)


def _of_version_2(message: TxnOffsetCommit) -> tuple[int, int]:
    return VERSION_2_FROM, ANY_VERSION


def _markers(message: WriteTxnMarkers, version: int) -> Body:
    def one(marker: TxnMarkers) -> Body:
        entry: Body = {
            "producerId": marker.producer_id,
            "producerEpoch": marker.producer_epoch,
            "transactionResult": marker.committed,
            "topics": by_topic(marker.partitions, attrgetter("partition"), partitions="partitionIndexes"),
            "coordinatorEpoch": marker.coordinator_epoch,
        }
        return {**entry, "transactionVersion": max(marker.transaction_version, 0)} if version >= 2 else entry

    return {"markers": [one(marker) for marker in message.markers]}


def _markers_written(message: WriteTxnMarkers, body: Body, version: int) -> TxnMarkersWritten:
    errors: list[dict[TopicPartition, PylogError | None]] = []
    results = {one["producerId"]: entries(one["topics"]) for one in body["markers"]}
    for marker in message.markers:
        found = results.get(marker.producer_id, {})
        errors.append({
            key: of_code(found[key]["errorCode"]) if key in found else untold(*key) for key in marker.partitions
        })  # fmt: skip
    return TxnMarkersWritten(errors)


QUESTIONS: dict[type, Question] = {
    TxnOffsetCommit: Question(name="TxnOffsetCommit", body=_commit, answer=_committed, versions=_of_version_2),
    WriteTxnMarkers: Question(name="WriteTxnMarkers", body=_markers, answer=_markers_written),
}
