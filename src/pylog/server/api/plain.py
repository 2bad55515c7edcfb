"""Keys whose request goes to the node as it is, and whose response is its answer.

    OffsetForLeaderEpoch    in the loop: nothing of it waits
    DescribeProducers       in the thread of large requests: there may be many producers, and nothing of it waits
    the others              in the pool: a heartbeat, too, may write and sync, or load a coordinator

Where topics may be named by their ids (OffsetCommit and OffsetFetch from 10 on), they get their
names first. In an OffsetFetch of all topics they get their ids at the end.
"""

from collections.abc import Callable
from typing import Any, cast

from pylog.errors import PylogError
from pylog.protocol.messages import NO_ID, ApiResponse
from pylog.protocol.messages.requests import REQUESTS
from pylog.protocol.wire.mapping import Body, Mapping
from pylog.protocol.wire.table import MAPPINGS
from pylog.protocol.wire.versions import BY_ID_FROM
from pylog.runtime.future import gathered
from pylog.server.api.call import Answer, Api, Outcome, Reply, Request, api
from pylog.server.served_node import ServedNode
from pylog.transport import PendingAnswer

LONG = frozenset({"DescribeProducers"})
AT_ONCE = frozenset({"OffsetForLeaderEpoch"})


def reply(mapping: Mapping, request: Request, node: ServedNode) -> Reply | Body:
    """Send the message that a request is to the node."""
    body, version = request.body, request.version
    asked = mapping.message(body, version)

    def refused(error: PylogError) -> Body:
        if mapping.is_many:
            return mapping.response(body, [mapping.refusal(one, error) for one in asked], version)
        return mapping.response(body, mapping.refusal(asked, error), version)

    try:
        if mapping.is_many:
            answer: PendingAnswer = gathered([node.handle(one, request.session) for one in asked], list)
        else:
            answer = node.handle(asked, request.session)
    except PylogError as error:
        return refused(error)
    return Reply(answer, lambda given: mapping.response(body, given, version), refused)


def handed_on(request: Request, node: ServedNode) -> Outcome:
    """Hand a request to the node. Its answer is the response."""
    try:
        answer = node.handle(request.body, request.session)
    except PylogError as error:
        return cast(ApiResponse, request.body.refused(error))
    return Reply(answer, _as_it_is, request.body.refused)


def changed(outcome: Outcome, change: Callable[[Any], ApiResponse]) -> Outcome:
    """An outcome with another response, as an older version has it."""
    if isinstance(outcome, Reply):
        body, refused = outcome.body, outcome.refused
        return Reply(outcome.answer, lambda given: change(body(given)), lambda error: change(refused(error)))
    return change(outcome)


def _as_it_is(answer: ApiResponse) -> ApiResponse:
    return answer


def _answer(mapping: Mapping) -> Answer:
    def answer(request: Request, node: ServedNode) -> Outcome:
        if request.version >= BY_ID_FROM.get(mapping.name, 1 << 15):
            for topics in _topics(request.body):
                node.name_topics(topics, request.session)
        outcome = reply(mapping, request, node)
        if mapping.name == "OffsetFetch" and isinstance(outcome, Reply) and None in _asked(request.body):
            return outcome._replace(body=lambda given: _identified(outcome.body(given), request, node))
        return outcome

    return answer


def _topics(body: Body) -> list[list[Body]]:
    """The lists of topics in a body: of several groups in an OffsetFetch."""
    return [topics for topics in _asked(body) if topics is not None]


def _asked(body: Body) -> list[list[Body] | None]:
    """The same; None where all topics are asked for."""
    return [owner["topics"] for owner in body.get("groups", [body])]


def _identified(body: object, request: Request, node: ServedNode) -> Body:
    """The offsets of all topics, with the ids of these. A topic that is not there any more has none, and is left out
    (Kafka: KafkaApis.fetchAllOffsetsForGroup).
    """
    assert isinstance(body, dict), "an OffsetFetch has a response"
    found: Body = body
    if request.version >= BY_ID_FROM["OffsetFetch"]:
        for group, asked in zip(found["groups"], _asked(request.body), strict=True):
            if asked is None:
                node.identify(group["topics"], request.session)
                group["topics"] = [topic for topic in group["topics"] if topic.get("topicId", NO_ID) != NO_ID]
    return found


APIS: tuple[Api, ...] = tuple(
    api(mapping.name, _answer(mapping), may_wait=True)
    for mapping in MAPPINGS.values()
) + tuple(
    api(name, handed_on, may_wait=name not in AT_ONCE, is_long=name in LONG, into=kind)
    for name, kind in REQUESTS.items()
)  # fmt: skip
"""All keys that have a mapping, or a class. `table` puts those that have a file of their own in their places."""
