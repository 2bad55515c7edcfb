"""The bodies of Kafka's schemas, and the values of `protocol/messages` in them.

Parts of a message lie flat, one for each partition; a body has them by topic. The response has topics and partitions in
the order of the request.

Later versions name topics by their ids. Before such a body becomes a message, each topic in it has got the field `name`
(`topic` in a Fetch): "" where the id is not known.
"""

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Protocol, TypeVar

from pylog.errors import PylogError, UnknownTopicId
from pylog.protocol.error_codes import error_code
from pylog.protocol.schema import Struct

__all__ = ["Body", "by_topic", "named_again", "named_code"]

Body = Struct


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
