"""The kinds of rules: what a request needs as a whole, and what each of its parts needs."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from pylog.errors import (
    ClusterAuthorization,
    GroupAuthorization,
    ProtocolError,
    TopicAuthorization,
    TransactionalIdAuthorization,
)
from pylog.protocol.acls import CLUSTER_NAME, AclOperation, AclResourceType
from pylog.protocol.messages.api import ApiRequest, NamesRequest, PartitionsRequest
from pylog.runtime.future import completed, gathered
from pylog.server.gate.caller import Caller
from pylog.transport import PendingAnswer

Rule = Callable[[Caller, Any], PendingAnswer]
"""Answers a message of a caller: hands the node what the client may do of it, and refuses the rest."""
GROUP, TOPIC = AclResourceType.GROUP, AclResourceType.TOPIC
_ERRORS: dict[AclResourceType, type[ProtocolError]] = {
    TOPIC: TopicAuthorization,
    GROUP: GroupAuthorization,
    AclResourceType.CLUSTER: ClusterAuthorization,
    AclResourceType.TRANSACTIONAL_ID: TransactionalIdAuthorization,
}
_TEXTS = {
    TOPIC: "Topic authorization failed.",
    GROUP: "Group authorization failed.",
    AclResourceType.CLUSTER: "Cluster authorization failed.",
    AclResourceType.TRANSACTIONAL_ID: "Transactional Id authorization failed.",
}


def refusal(kind: AclResourceType) -> ProtocolError:
    """The error of a resource with which a client may not do what it asks for."""
    return _ERRORS[kind](_TEXTS[kind])


def then(answer: PendingAnswer, change: Callable[[Any], Any]) -> PendingAnswer:
    """The answer, changed."""
    return gathered([answer], lambda answers: change(answers[0]))


def anyone(caller: Caller, message: Any) -> PendingAnswer:
    """Needs nothing."""
    return caller.send(message)


class Need(NamedTuple):
    """An operation with the resource that a field of the request names; without a field: with the cluster."""

    operation: AclOperation
    kind: AclResourceType
    field: str = ""


def whole(*needs: Need, rest: Rule = anyone) -> Rule:
    """A rule: the first need that is not met refuses all of the request; `rest` goes on where they are met."""

    def rule(caller: Caller, message: ApiRequest[Any]) -> PendingAnswer:
        for operation, kind, name in needs:
            if not caller.may(operation, kind, (getattr(message, name) or "") if name else CLUSTER_NAME):
                return completed(message.refused(refusal(kind)))
        return rest(caller, message)

    return rule


def by_topic(operation: AclOperation, *, is_sent_empty: bool = False) -> Rule:
    """A rule for a request about partitions: each needs the operation with its topic.

    `is_sent_empty`: a request is sent without partitions, too.
    """

    def rule(caller: Caller, message: PartitionsRequest[Any, Any]) -> PendingAnswer:
        name = message.fields.name
        names = caller.refused(operation, TOPIC, [getattr(topic, name) for topic in message.topics])
        if not names:
            return caller.send(message)
        error = refusal(TOPIC)
        errors = {key: error for key in message.partitions() if key.topic in names}
        whole: Any = message
        # One of them may have no partitions.
        left = replace(whole, topics=[topic for topic in message.topics if getattr(topic, name) not in names])
        if not left.topics and not is_sent_empty:
            return completed(message.results(errors))
        return then(caller.send(left), lambda answer: message.with_errors(errors, answer))

    return rule


def by_name(operation: AclOperation, kind: AclResourceType, seen: Callable[[Caller, Any, Any], None]) -> Rule:
    """A rule for a request about names: each needs the operation. `seen` changes the answer to the others: it hides
    what the client may not see in it.
    """

    def rule(caller: Caller, message: NamesRequest[Any]) -> PendingAnswer:
        def shown(answer: Any) -> Any:
            seen(caller, message, answer)
            return answer if not names else message.joined([answer, others.refused(refusal(kind))])

        names = caller.refused(operation, kind, message.names)
        others = message.only([name for name in message.names if name in names])
        left = message if not names else message.only([name for name in message.names if name not in names])
        return then(caller.send(left), shown) if left.names else completed(others.refused(refusal(kind)))

    return rule
