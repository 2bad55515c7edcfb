"""DeleteTopics: topics by their names; from version 6 on by their ids, too (KIP-516).

A topic that is named twice, by its name and an id, or by neither, is InvalidRequest (Kafka:
ControllerApis.deleteTopics).
"""

from collections import Counter
from typing import Any

from pylog.errors import InvalidRequest
from pylog.protocol.messages import NO_ID
from pylog.protocol.wire import versions
from pylog.protocol.wire.mapping import Body
from pylog.protocol.wire.table import MAPPINGS
from pylog.server.api.call import NoResponse, Outcome, Reply, Request, api
from pylog.server.api.plain import reply
from pylog.server.served_node import ServedNode

BY_ID_FROM = versions.BY_ID_FROM["DeleteTopics"]
MAPPING = MAPPINGS["DeleteTopics"]


def answer(request: Request, node: ServedNode) -> Outcome:
    """Delete the topics that are named well."""
    field = "topics" if request.version >= BY_ID_FROM else "topicNames"
    topics = request.body[field]
    good = _named_once([topic for topic in topics if _is_named_well(topic)])
    if request.version >= BY_ID_FROM:
        node.name_topics(good, request.session)
        node.identify(good, request.session)
        # A topic may be named by its name and, in another entry, by its id.
        good = _named_once(good)
    is_good = set(map(id, good))
    outcome = reply(MAPPING, request._replace(body={**request.body, field: good}), node)

    def whole(body: Any) -> "Body | NoResponse":
        told = iter(body["responses"])
        return {"responses": [next(told) if id(topic) in is_good else _refused(topic) for topic in topics]}

    if not isinstance(outcome, Reply):
        return whole(outcome)
    body, refused = outcome.body, outcome.refused
    return outcome._replace(body=lambda given: whole(body(given)), refused=lambda error: whole(refused(error)))


def _key(topic: "Body | str") -> object:
    return topic if isinstance(topic, str) else topic["name"] or topic["topicId"]


def _named_once(topics: list[Any]) -> list[Any]:
    times_named = Counter(map(_key, topics))
    return [topic for topic in topics if times_named[_key(topic)] == 1]


def _is_named_well(topic: "Body | str") -> bool:
    return isinstance(topic, str) or (topic["name"] is None) != (topic["topicId"] == NO_ID)


def _refused(topic: "Body | str") -> Body:
    named = {"name": topic} if isinstance(topic, str) else {"name": topic["name"], "topicId": topic["topicId"]}
    told = "a topic is named once, by its name or by its id"
    return {**named, "errorCode": InvalidRequest.code, "errorMessage": told}


API = api("DeleteTopics", answer, may_wait=True)
