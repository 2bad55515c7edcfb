"""An API key as a client asks it.

    client    message -> request body ... response body -> answer

The versions of a message lie in [low, high]: below, it could not say what it says; above, it would have to name topics
by an id that is not known.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pylog.errors import PylogError
from pylog.protocol.error_codes import of_code
from pylog.protocol.wire.mapping import Body
from pylog.record import TopicPartition

__all__ = ["ANY_VERSION", "Question", "entries", "error_in"]

ANY_VERSION = 1 << 15
"""Above every version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One API key, for one class of messages.

    `body(message, version)` is the request. `answer(message, response, version)` is the value that a node in the same
    process would have answered. `versions(message)` are the lowest and the highest version that can say the message.
    """

    name: str
    body: Callable[[Any, int], Body]
    answer: Callable[[Any, Body, int], Any]
    versions: Callable[[Any], tuple[int, int]]


def error_in(body: Body, key: str = "errorCode", text: str = "errorMessage") -> PylogError | None:
    """The error in a struct of a response."""
    return of_code(body.get(key, 0), body.get(text))


def entries(topics: Iterable[Body], names: Mapping[UUID, str] | None = None) -> dict[TopicPartition, Body]:
    """The partitions of a response, by name. `names`: the names of the topics that it has by id."""
    found: dict[TopicPartition, Body] = {}
    for topic in topics:
        known = topic["topic"] if names is None else names.get(topic["topicId"])
        if known is not None:
            for entry in topic["partitions"]:
                found[TopicPartition(known, entry["partitionIndex"])] = entry
    return found
