"""Rules of messages about groups, share groups and transactions. (Kafka: KafkaApis)"""

from dataclasses import replace
from typing import Any
from uuid import UUID

from pylog.errors import OperationNotAttempted, PylogError, TopicAuthorization, UnknownTopicOrPartition
from pylog.protocol.acls import AclOperation, AclResourceType
from pylog.protocol.messages import INTERNAL_TOPICS
from pylog.protocol.messages.groups import ListGroupsRequest, ListGroupsResponse
from pylog.protocol.messages.share import (
    DeleteShareGroupOffsetsRequest,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from pylog.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    InitProducerIdRequest,
    ListTransactionsRequest,
    ListTransactionsResponse,
    PartitionsToAdd,
)
from pylog.runtime.future import completed
from pylog.server.gate.caller import Caller
from pylog.server.gate.needs import GROUP, TOPIC, Rule, refusal, then
from pylog.transport import PendingAnswer

READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
CLUSTER, TRANSACTIONAL_ID = AclResourceType.CLUSTER, AclResourceType.TRANSACTIONAL_ID

# --- groups -----------------------------------------------------------------------------------------------------------


def list_groups(caller: Caller, message: ListGroupsRequest) -> PendingAnswer:
    """DESCRIBE on the cluster, or on each group: the others are not told."""

    def told(answer: ListGroupsResponse) -> ListGroupsResponse:
        if caller.may(DESCRIBE, CLUSTER):
            return answer
        hidden = caller.refused(DESCRIBE, GROUP, [one.group_id for one in answer.groups])
        return replace(answer, groups=[one for one in answer.groups if one.group_id not in hidden])

    return then(caller.send(message), told)


def show_operations(caller: Caller, message: Any, answer: Any) -> None:
    """Tell what the client may do with the groups of an answer, where it has asked."""
    if message.include_authorized_operations:
        for group in answer.groups:
            if group.error is None:
                group.authorized_operations = caller.operations(GROUP, group.group_id)


def show_members(caller: Caller, message: Any, answer: Any) -> None:
    """The same, and hide the members of a group with a topic that the client may not describe."""
    show_operations(caller, message, answer)
    for group in answer.groups:
        assignments = [
            getattr(one, name, None) for one in group.members for name in ("assignment", "target_assignment")
        ]
        topics = [part.topic_name for one in assignments if one is not None for part in one.topic_partitions]
        if caller.refused(DESCRIBE, TOPIC, topics):
            group.error, group.members = TopicAuthorization(_HIDDEN), []


_HIDDEN = "The group has described topic(s) that the client is not authorized to describe."


def show_nothing_more(caller: Caller, message: object, answer: object) -> None:
    """Nothing is hidden in what a client may ask for."""


def heartbeat(caller: Caller, message: Any) -> PendingAnswer:
    """DESCRIBE on each topic that a member subscribes to."""
    if caller.refused(DESCRIBE, TOPIC, message.subscribed_topic_names or ()):
        return completed(message.refused(refusal(TOPIC)))
    return caller.send(message)


def offsets(name: str) -> Rule:
    """A rule for the offsets of several groups: DESCRIBE on each group, and on its topics, whose field is `name`.

    Where all topics are asked for, those that the client may not describe are left out.
    """

    def rule(caller: Caller, message: Any) -> PendingAnswer:
        refused = caller.refused(DESCRIBE, GROUP, [group.group_id for group in message.groups])
        left = [_describable(caller, name, group) for group in message.groups if group.group_id not in refused]

        def told(answer: Any) -> Any:
            found = iter(answer.groups)
            groups = []
            for group in message.groups:
                if group.group_id in refused:
                    groups.extend(replace(message, groups=[group]).refused(refusal(GROUP)).groups)
                else:
                    groups.append(_shown(caller, name, group, next(found)))
            return replace(answer, groups=groups)

        return then(caller.send(replace(message, groups=left)), told) if left else completed(told(message.response()))

    return rule


def _describable(caller: Caller, name: str, group: Any) -> Any:
    if group.topics is None:
        return group
    hidden = caller.refused(DESCRIBE, TOPIC, [getattr(topic, name) for topic in group.topics])
    return replace(group, topics=[topic for topic in group.topics if getattr(topic, name) not in hidden])


def _shown(caller: Caller, name: str, asked: Any, found: Any) -> Any:
    if asked.topics is None:
        hidden = caller.refused(DESCRIBE, TOPIC, [getattr(topic, name) for topic in found.topics])
        found.topics = [topic for topic in found.topics if getattr(topic, name) not in hidden]
        return found
    if found.error is not None:
        return found
    hidden = caller.refused(DESCRIBE, TOPIC, [getattr(topic, name) for topic in asked.topics])
    if not hidden:
        return found
    known, error = asked.found(found), refusal(TOPIC)
    return asked.answered(lambda key, _: asked.told(key, error) if key.topic in hidden else known[key])


# --- share groups -----------------------------------------------------------------------------------------------------


def share_records(caller: Caller, message: ShareFetchRequest | ShareAcknowledgeRequest) -> PendingAnswer:
    """READ on each topic, those of the session, too."""

    def told(answer: Any) -> Any:
        # None: the node has done nothing, as it would have to wait for a disk.
        if answer is None or answer.error is not None:
            return answer
        hidden = _unreadable(caller, [topic.topic_id for topic in answer.responses])
        topics = [_refused_topic(answer, topic) if topic.topic_id in hidden else topic for topic in answer.responses]
        return replace(answer, responses=topics + [_refused_topic(answer, topic) for topic in others])

    refused = _unreadable(caller, [topic.topic_id for topic in message.topics])
    others = [topic for topic in message.topics if topic.topic_id in refused]
    left: Any = message
    if others:
        left = replace(left, topics=[topic for topic in message.topics if topic.topic_id not in refused])
    return then(caller.send(left), told)


def _unreadable(caller: Caller, ids: list[UUID]) -> set[UUID]:
    names = caller.names(ids)
    refused = caller.refused(READ, TOPIC, names.values())
    return {one for one, name in names.items() if name in refused}


def _refused_topic(answer: Any, topic: Any) -> Any:
    error, numbers = refusal(TOPIC), [one.partition_index for one in topic.partitions]
    if isinstance(answer, ShareFetchResponse):
        fetched = answer.ShareFetchableTopicResponse
        parts = [
            fetched.PartitionData(partition_index=number, error=error, records=memoryview(b"")) for number in numbers
        ]
        return fetched(topic_id=topic.topic_id, partitions=parts)
    told = ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse
    others = [told.PartitionData(partition_index=number, error=error) for number in numbers]
    return told(topic_id=topic.topic_id, partitions=others)


def delete_share_offsets(caller: Caller, message: DeleteShareGroupOffsetsRequest) -> PendingAnswer:
    """READ on each topic."""
    refused = caller.refused(READ, TOPIC, [topic.topic_name for topic in message.topics])
    left = [topic for topic in message.topics if topic.topic_name not in refused]

    def told(answer: Any) -> Any:
        if answer.error is not None:
            return answer
        result = type(answer).DeleteShareGroupOffsetsResponseTopic
        others = [result(topic_name=name, error=refusal(TOPIC)) for name in sorted(refused)]
        return replace(answer, responses=answer.responses + others)

    return then(caller.send(replace(message, topics=left)), told)


# --- transactions -----------------------------------------------------------------------------------------------------


def init_producer_id(caller: Caller, message: InitProducerIdRequest) -> PendingAnswer:
    """WRITE on the transactional id; without one IDEMPOTENT_WRITE on the cluster, or WRITE on any topic."""
    if message.transactional_id is not None:
        if not caller.may(WRITE, TRANSACTIONAL_ID, message.transactional_id):
            return completed(message.refused(refusal(TRANSACTIONAL_ID)))
    elif not caller.may(AclOperation.IDEMPOTENT_WRITE, CLUSTER) and not caller.may_any(WRITE, TOPIC):
        return completed(message.refused(refusal(CLUSTER)))
    return caller.send(message)


def add_partitions(caller: Caller, message: AddPartitionsToTxnRequest) -> PendingAnswer:
    """WRITE on the transactional id, and on each topic: where one is refused, none joins."""
    (one,) = message.transactions
    if not caller.may(WRITE, TRANSACTIONAL_ID, one.transactional_id):
        return completed(message.refused(refusal(TRANSACTIONAL_ID)))
    names = {topic.name for topic in one.topics}
    refused = caller.refused(WRITE, TOPIC, names) | (names & set(INTERNAL_TOPICS))
    if not refused:
        return caller.send(message)
    errors: dict[str, PylogError] = dict.fromkeys(refused, refusal(TOPIC))
    there = {topic.name or "" for topic in caller.topics(names - refused)}
    errors |= dict.fromkeys(names - refused - there, UnknownTopicOrPartition("there is no such topic"))
    return completed(_not_added(one, errors))


def _not_added(one: PartitionsToAdd, errors: dict[str, PylogError]) -> AddPartitionsToTxnResponse:
    others = OperationNotAttempted("another partition of the request was refused")
    told = one.results({key: errors.get(key.topic, others) for key in one.partitions()})
    return AddPartitionsToTxnResponse(results_by_transaction=[told])


def show_topics(caller: Caller, message: object, answer: Any) -> None:
    """Leave out the topics of transactions that the client may not describe."""
    for one in answer.transaction_states:
        hidden = caller.refused(DESCRIBE, TOPIC, [topic.topic for topic in one.topics])
        one.topics = [topic for topic in one.topics if topic.topic not in hidden]


def list_transactions(caller: Caller, message: ListTransactionsRequest) -> PendingAnswer:
    """DESCRIBE on each transactional id: the others are not told."""

    def told(answer: ListTransactionsResponse) -> ListTransactionsResponse:
        states = answer.transaction_states
        hidden = caller.refused(DESCRIBE, TRANSACTIONAL_ID, [one.transactional_id for one in states])
        return replace(answer, transaction_states=[one for one in states if one.transactional_id not in hidden])

    return then(caller.send(message), told)
