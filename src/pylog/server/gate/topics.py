"""Rules of messages about records, topics and configs. (Kafka: KafkaApis, ControllerApis)"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from pylog.errors import TopicAuthorization, UnknownTopicOrPartition
from pylog.protocol.acls import AclOperation, AclResourceType
from pylog.protocol.messages import CONSUMER, NO_ID, Fetch, Fetched, FetchedPart, ProduceRequest, ResourceType
from pylog.protocol.messages.configs import AlterConfigsRequest, DescribeConfigsRequest, IncrementalAlterConfigsRequest
from pylog.protocol.messages.records import OffsetForLeaderEpochRequest
from pylog.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from pylog.runtime.future import completed
from pylog.server.gate.caller import Caller
from pylog.server.gate.needs import GROUP, TOPIC, by_topic, refusal, then
from pylog.transport import PendingAnswer

READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
CREATE, DELETE, ALTER = AclOperation.CREATE, AclOperation.DELETE, AclOperation.ALTER
CLUSTER, TRANSACTIONAL_ID = AclResourceType.CLUSTER, AclResourceType.TRANSACTIONAL_ID

# --- records ----------------------------------------------------------------------------------------------------------


def produce(caller: Caller, message: ProduceRequest) -> PendingAnswer:
    """WRITE on the topic, and on the transactional id of records of a transaction. A server sends each part alone."""
    (topic,) = message.topic_data
    batch, transactional_id = topic.partition_data[0].batch, message.transactional_id
    if batch is not None and batch.is_transactional and not caller.may(WRITE, TRANSACTIONAL_ID, transactional_id or ""):
        return completed(message.refused(refusal(TRANSACTIONAL_ID)))
    if topic.name and not caller.may(WRITE, TOPIC, topic.name):
        return completed(message.refused(refusal(TOPIC)))
    return caller.send(message)


def fetch(caller: Caller, message: Fetch) -> PendingAnswer:
    """READ on each topic. The Fetch of a replica was judged before."""
    if message.replica_id > CONSUMER:
        return caller.send(message)
    names = caller.refused(READ, TOPIC, [part.topic for part in message.parts])
    if not names:
        return caller.send(message)
    error = refusal(TOPIC)
    left = [part for part in message.parts if part.topic not in names]

    def told(answer: Fetched) -> Fetched:
        found = iter(answer.parts)
        parts = [
            FetchedPart(part.topic, part.partition, error)
            if part.topic in names
            # One behind the limit of bytes is not there.
            else next(found, FetchedPart(part.topic, part.partition))
            for part in message.parts
        ]
        return Fetched(parts)

    return then(caller.send(replace(message, parts=left)), told) if left else completed(told(Fetched([])))


def epoch_ends(caller: Caller, message: OffsetForLeaderEpochRequest) -> PendingAnswer:
    """CLUSTER_ACTION on the cluster, or DESCRIBE on each topic."""
    return (
        caller.send(message)
        if caller.may(AclOperation.CLUSTER_ACTION, CLUSTER)
        else by_topic(DESCRIBE)(caller, message)
    )


# --- topics -----------------------------------------------------------------------------------------------------------


def create_topics(caller: Caller, message: CreateTopicsRequest) -> PendingAnswer:
    """CREATE on the cluster, or on the topic; DESCRIBE_CONFIGS on it to be told of its configs."""
    refused = set() if caller.may(CREATE, CLUSTER) else caller.refused(CREATE, TOPIC, _named_once(message.topics))
    others = [topic for topic in message.topics if topic.name in refused]

    def told(answer: CreateTopicsResponse) -> CreateTopicsResponse:
        made = [one.name for one in answer.topics if one.error is None]
        hidden = caller.refused(AclOperation.DESCRIBE_CONFIGS, TOPIC, made)
        topics = [_without_configs(one) if one.name in hidden else one for one in answer.topics]
        error = TopicAuthorization("Authorization failed.")
        return replace(answer, topics=topics + replace(message, topics=others).refused(error).topics)

    return _sent(caller, message, "topics", refused, told, CreateTopicsResponse())


def _without_configs(topic: CreateTopicsResponse.CreatableTopicResult) -> CreateTopicsResponse.CreatableTopicResult:
    return CreateTopicsResponse.CreatableTopicResult(
        name=topic.name, topic_id=topic.topic_id, topic_config_error_code=TopicAuthorization.code
    )


def create_partitions(caller: Caller, message: CreatePartitionsRequest) -> PendingAnswer:
    """ALTER on each topic."""
    refused = caller.refused(ALTER, TOPIC, _named_once(message.topics))
    others = replace(message, topics=[topic for topic in message.topics if topic.name in refused])

    def told(answer: Any) -> Any:
        return replace(answer, results=answer.results + others.refused(refusal(TOPIC)).results)

    return _sent(caller, message, "topics", refused, told, message.response())


def _named_once(topics: Iterable[Any]) -> list[str]:
    """The names without those that are named twice, which are an error for every client."""
    return [name for name, times in Counter(topic.name for topic in topics).items() if times == 1]


def _sent(
    caller: Caller, message: Any, field: str, refused: set[str], told: Callable[[Any], Any], nothing: object
) -> PendingAnswer:
    """The answer to what is left of a request without the topics of some names."""
    topics = getattr(message, field)
    left = [topic for topic in topics if topic.name not in refused]
    if refused and not left:
        return completed(told(nothing))
    return then(caller.send(replace(message, **{field: left}) if refused else message), told)


def delete_topics(caller: Caller, message: DeleteTopicsRequest) -> PendingAnswer:
    """DELETE on the cluster, or on each topic. A name that the client may not describe is not told."""
    if caller.may(DELETE, CLUSTER):
        return caller.send(message)
    names = caller.names([one.topic_id for one in message.states if one.topic_id != NO_ID])
    there = {topic.name for topic in caller.topics([one.name for one in message.states if one.name])}
    refused: list[DeleteTopicsResponse.DeletableTopicResult] = []
    left = []
    for one in message.states:
        name = names.get(one.topic_id, "") if one.name is None else one.name
        is_named_twice = one.name is not None and one.topic_id != NO_ID
        if not name or is_named_twice or caller.may(DELETE, TOPIC, name):
            left.append(one)
        elif caller.may(DESCRIBE, TOPIC, name):
            error = refusal(TOPIC) if one.name is None or name in there else UnknownTopicOrPartition("no such topic")
            refused.append(DeleteTopicsResponse.DeletableTopicResult(name=name, topic_id=one.topic_id, error=error))
        else:
            refused.append(
                DeleteTopicsResponse.DeletableTopicResult(name=one.name, topic_id=one.topic_id, error=refusal(TOPIC))
            )
    if not left:
        return completed(DeleteTopicsResponse(responses=refused))
    asked = DeleteTopicsRequest(topics=left, timeout_ms=message.timeout_ms)
    return then(caller.send(asked), lambda answer: replace(answer, responses=answer.responses + refused))


# --- configs ----------------------------------------------------------------------------------------------------------

_OF_RESOURCE = {ResourceType.TOPIC.value: TOPIC, ResourceType.GROUP.value: GROUP}
"""What has the configs of a resource; those of all others are the cluster's."""


def _errors(caller: Caller, operation: AclOperation, resources: Iterable[Any]) -> list[Any]:
    """The error of each resource; None where the client may do this with it."""
    errors = []
    for one in resources:
        kind = _OF_RESOURCE.get(one.resource_type, CLUSTER)
        is_free = not one.resource_name and kind != CLUSTER
        may = is_free or (
            caller.may(operation, kind) if kind == CLUSTER else caller.may(operation, kind, one.resource_name)
        )
        errors.append(None if may else refusal(kind))
    return errors


def alter_configs(caller: Caller, message: AlterConfigsRequest | IncrementalAlterConfigsRequest) -> PendingAnswer:
    """ALTER_CONFIGS on each resource."""
    errors = _errors(caller, AclOperation.ALTER_CONFIGS, message.resources)

    def told(answer: Any) -> Any:
        found = iter(answer.responses)
        return message.answered([next(found).error if error is None else error for error in errors])

    left: Any = [one for one, error in zip(message.resources, errors, strict=True) if error is None]
    return then(caller.send(replace(message, resources=left)), told) if left else completed(message.answered(errors))


def describe_configs(caller: Caller, message: DescribeConfigsRequest) -> PendingAnswer:
    """DESCRIBE_CONFIGS on each resource."""
    errors = _errors(caller, AclOperation.DESCRIBE_CONFIGS, message.resources)
    pairs = list(zip(message.resources, errors, strict=True))
    refused = [
        result for one, error in pairs if error for result in replace(message, resources=[one]).refused(error).results
    ]
    left = [one for one, error in pairs if error is None]
    if not left and pairs:
        return completed(message.response(results=refused))
    answer = caller.send(replace(message, resources=left))
    return then(answer, lambda told: replace(told, results=told.results + refused))
