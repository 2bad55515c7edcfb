"""The offsets of groups, where versions mean something else.

OffsetCommit       9    member epochs, too (KIP-848); before, a client has generations alone
                   10   topics are named by ids
TxnOffsetCommit    4    TransactionAbortable is known; before, it is InvalidTxnState
                   5    the group joins by it; before, by AddOffsetsToTxn alone (KIP-890)
OffsetFetch        2    an error of the group as a whole; before, each partition has it
                   8    several groups; before, one in other fields
                   10   topics are named by ids
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from pylog.errors import (
    GroupAuthorization,
    GroupIdNotFound,
    IllegalGeneration,
    InvalidTxnState,
    PylogError,
    TransactionAbortable,
    UnknownTopicId,
)
from pylog.protocol.messages import NO_ID
from pylog.protocol.messages.offsets import (
    SEVERAL_GROUPS_FROM,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetsToFetch,
    TxnOffsetCommitRequest,
)
from pylog.protocol.wire.versions import BY_ID_FROM
from pylog.record import TopicPartition
from pylog.server.api.call import Outcome, Request, api
from pylog.server.api.plain import changed, handed_on
from pylog.server.served_node import ServedNode

EPOCHS_FROM, ABORTABLE_FROM, JOINS_FROM, GROUP_ERROR_FROM = 9, 4, 5, 2
UNKNOWN = "there is no topic of this id"

# --- commit -----------------------------------------------------------------------------------------------------------


def _commit(request: Request, node: ServedNode) -> Outcome:
    asked: OffsetCommitRequest = request.body
    asked.knows_epochs = request.version >= EPOCHS_FROM
    if request.version >= BY_ID_FROM["OffsetCommit"]:
        node.name_topics(asked.topics, request.session)
        return changed(handed_on(request, node), partial(_by_id, asked))
    outcome = handed_on(request, node)
    return outcome if asked.knows_epochs else changed(outcome, partial(_with_errors, _of_generation))


def _by_id(asked: OffsetCommitRequest, answer: OffsetCommitResponse) -> OffsetCommitResponse:
    """The response with the topics as they were asked for: by their ids. One that is not known has no name."""
    found = asked.found(answer)
    topics = []
    for topic in asked.topics:
        keys = [TopicPartition(topic.name, part.partition_index) for part in topic.partitions]
        is_known = topic.name or isinstance(found[keys[0]].error if keys else None, GroupAuthorization)
        parts = [found[key] if is_known else asked.told(key, UnknownTopicId(UNKNOWN)) for key in keys]
        topics.append(OffsetCommitResponse.OffsetCommitResponseTopic(topic_id=topic.topic_id, partitions=parts))
    return OffsetCommitResponse(topics=topics)


def _with_errors(told: Callable[[PylogError | None], PylogError | None], answer: Any) -> Any:
    """The response with the errors that a version knows."""
    for topic in answer.topics:
        for part in topic.partitions:
            part.error = told(part.error)
    return answer


def _of_generation(error: PylogError | None) -> PylogError | None:
    """A client that understands generations alone joins again after IllegalGeneration."""
    return IllegalGeneration(str(error)) if isinstance(error, GroupIdNotFound) else error


def _of_state(error: PylogError | None) -> PylogError | None:
    return InvalidTxnState(str(error)) if isinstance(error, TransactionAbortable) else error


def _commit_in_transaction(request: Request, node: ServedNode) -> Outcome:
    request.body.joins = request.version >= JOINS_FROM
    outcome = handed_on(request, node)
    return outcome if request.version >= ABORTABLE_FROM else changed(outcome, partial(_with_errors, _of_state))


# --- fetch ------------------------------------------------------------------------------------------------------------


def _fetch(request: Request, node: ServedNode) -> Outcome:
    asked: OffsetFetchRequest = request.body
    if request.version < SEVERAL_GROUPS_FROM:
        return _fetch_one(request, node)
    if request.version < BY_ID_FROM["OffsetFetch"]:
        return handed_on(request, node)
    node.name_topics([topic for group in asked.groups for topic in group.topics or ()], request.session)
    return changed(handed_on(request, node), lambda answer: _identified(request, answer, node))


def _fetch_one(request: Request, node: ServedNode) -> Outcome:
    asked: OffsetFetchRequest = request.body
    # Both kinds of topics have the same fields there.
    topics: Any = asked.topics
    group = OffsetsToFetch(group_id=asked.group_id, topics=topics)
    whole = OffsetFetchRequest(groups=[group], require_stable=asked.require_stable)

    def told(answer: OffsetFetchResponse) -> OffsetFetchResponse:
        (found,) = answer.groups
        offsets: Any = found.topics
        if found.error is not None and topics is not None:
            error = found.error if request.version < GROUP_ERROR_FROM else None
            offsets = group.answered(lambda key, _: group.told(key, error)).topics
        return OffsetFetchResponse(topics=offsets, error=found.error)

    return changed(handed_on(request._replace(body=whole), node), told)


def _identified(request: Request, answer: OffsetFetchResponse, node: ServedNode) -> OffsetFetchResponse:
    """The response with the ids of topics. Where all were asked for, one that is not there any more has none, and is
    left out (Kafka: KafkaApis.fetchAllOffsetsForGroup).
    """
    for group, asked in zip(answer.groups, request.body.groups, strict=True):
        if asked.topics is None:
            node.identify(group.topics, request.session)
            group.topics = [topic for topic in group.topics if topic.topic_id != NO_ID]
            continue
        # There are none where the group has an error.
        for topic, wanted in zip(group.topics, asked.topics, strict=False):
            topic.topic_id = wanted.topic_id
            if not topic.name:
                for part in topic.partitions:
                    part.error = UnknownTopicId(UNKNOWN)
    return answer


APIS = (
    api("OffsetCommit", _commit, may_wait=True, into=OffsetCommitRequest),
    api("TxnOffsetCommit", _commit_in_transaction, may_wait=True, into=TxnOffsetCommitRequest),
    api("OffsetFetch", _fetch, may_wait=True, into=OffsetFetchRequest),
)
