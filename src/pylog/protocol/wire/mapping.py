"""The bodies of Kafka's schemas, and the parts of a Fetch in one.

Parts of a message lie flat, one for each partition; a body has them by topic. Later versions name topics by their ids.
Before such a body becomes a message, each topic in it has got the field `topic`: "" where the id is not known.
"""

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar
from uuid import UUID

from pylog.protocol.schema import Struct

__all__ = ["Body", "by_topic"]

Body = Struct


class OfPartition(Protocol):
    """A part of a message."""

    @property
    def topic(self) -> str: ...

    @property
    def topic_id(self) -> UUID: ...


P = TypeVar("P", bound=OfPartition)


def by_topic(parts: Iterable[P], one: Callable[[P], object], *, by_id: bool) -> list[Body]:
    """Parts as a body has them: `one` makes the entry of a partition. `by_id`: topics are named by their ids."""
    found: dict[object, Body] = {}
    for part in parts:
        topic = part.topic_id if by_id else part.topic
        body = found.get(topic)
        if body is None:
            body = found[topic] = {"topicId" if by_id else "topic": topic, "partitions": []}
        body["partitions"].append(one(part))
    return list(found.values())
