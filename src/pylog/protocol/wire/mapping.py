"""An API key as a mapping between the bodies of Kafka's schemas and the values of `protocol/messages`.

    server    request body -> `message`  ...  answer -> `response` body

A `Mapping` is about one key in all its versions. Parts of a message lie flat, one for each partition; a body has them
by topic. The response has topics and partitions in the order of the request.

Later versions name topics by their ids. Before `message` sees such a body, each topic in it has got the field `name`
(`topic` in a Fetch): "" where the id is not known.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Protocol, TypeVar

from pylog.errors import PylogError, UnknownTopicId
from pylog.protocol.error_codes import error_code
from pylog.protocol.schema import Struct
from pylog.record import TopicPartition

__all__ = ["Body", "Mapping", "by_topic", "named_again", "named_code", "topic_partitions"]

Body = Struct


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapping:
    """One API key.

    `message(body, version)` is the message of a request. `response(body, answer, version)` is the answer to the request
    `body`. `refusal(message, error)` is the answer that says one error for all of a message. A request that carries
    several messages of one kind (OffsetFetch of many groups) has `is_many`: then `message` gives a list, and `answer`
    is a list.
    """

    name: str
    message: Callable[[Body, int], Any]
    response: Callable[[Any, Any, int], Body]
    refusal: Callable[[Any, PylogError], Any]
    is_many: bool = False


class OfPartition(Protocol):
    """A part of a message."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...


P = TypeVar("P", bound=OfPartition)


def named_code(topic: str, error: PylogError | None, *, by_id: bool) -> int:
    """The code of a part of an answer. A topic that was named `by_id` and has no name has an id that is not known."""
    return UnknownTopicId.code if by_id and not topic else error_code(error)


def by_topic(
    parts: Iterable[P], one: Callable[[P], object], *, topics: str = "name", partitions: str = "partitions",
    key: Callable[[P], object] = attrgetter("topic"),
) -> list[Body]:  # fmt: skip
    """Parts as a body has them: `one` makes the entry of a partition, `key` gives the name or the id of its topic."""
    found: dict[object, Body] = {}
    for part in parts:
        topic = key(part)
        body = found.get(topic)
        if body is None:
            body = found[topic] = {topics: topic, partitions: []}
        body[partitions].append(one(part))
    return list(found.values())


def named_again(topic: Body, entries: list[Body], name: str = "name", partitions: str = "partitions") -> Body:
    """The topic of a request in the response, by the name or the id that it had there, with the entries of its
    partitions.
    """
    topic_id = topic.get("topicId")
    return {name: topic[name], partitions: entries} if topic_id is None else {"topicId": topic_id, partitions: entries}


def topic_partitions(
    topics: Iterable[Body], *, name: str = "name", partitions: str = "partitions"
) -> list[TopicPartition]:
    """The partitions of a body in which each topic has a list of numbers."""
    return [TopicPartition(topic[name], number) for topic in topics for number in topic[partitions]]
