"""Transactions, as a client asks for them.

    TxnOffsetCommit   from 5 on, where the group joins by it

A producer's transactions are of version 2: a node that has only older versions of these is too old for them.
"""

from pylog.protocol.messages import (
    OffsetsCommitted,
    TxnOffsetCommit,
)
from pylog.protocol.wire.mapping import Body
from pylog.protocol.wire.questions.groups import commit_topics, offsets_committed
from pylog.protocol.wire.questions.question import ANY_VERSION, Question

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


QUESTIONS: dict[type, Question] = {
    TxnOffsetCommit: Question(name="TxnOffsetCommit", body=_commit, answer=_committed, versions=_of_version_2),
}
