"""An API key as a client asks it.

    client    message -> request body ... response body -> answer

The versions of a message lie in [low, high]: below, it could not say what it says; above, it would have to name topics
by an id that is not known.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pylog.errors import PylogError, UnknownServer, for_code
from pylog.protocol.wire.mapping import Body, OfPartition
from pylog.record import TopicPartition

__all__ = ["Question", "error_in", "grouped", "of_code", "partitions_by_topic"]

P = TypeVar("P", bound=OfPartition)


def _any_version(message: Any) -> tuple[int, int]:
    return 0, 1 << 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One API key, for one class of messages.

    `body(message, version)` is the request. `answer(message, response, version)` is the value that a node in the same
    process would have answered. `versions(message)` are the lowest and the highest version that can say the message.
    """

    name: str
    body: Callable[[Any, int], Body]
    answer: Callable[[Any, Body, int], Any]
    versions: Callable[[Any], tuple[int, int]] = _any_version


def of_code(code: int, text: str | None = None) -> PylogError | None:
    """The error of a code in a response; None for 0. A code that no class has is UnknownServer, and names it."""
    if code == 0:
        return None
    kind = for_code(code)
    if kind is UnknownServer and code != UnknownServer.code:
        return UnknownServer(f"the node answers with error code {code}, which is not known: {text or 'without a text'}")
    return kind(text or f"the node answers {kind.kafka_name}: {kind.__doc__}")


def error_in(body: Body, key: str = "errorCode", text: str = "errorMessage") -> PylogError | None:
    """The error in a struct of a response."""
    return of_code(body.get(key, 0), body.get(text))


def grouped(
    parts: Iterable[P], one: Callable[[P], Body], *, topics: str = "name", partitions: str = "partitions",
    ids: bool = False,
) -> list[Body]:  # fmt: skip
    """Parts as a request has them, by topic. With `ids` a topic is named by the `topic_id` of its parts."""
    found: dict[Any, Body] = {}
    for part in parts:
        key = part.topic_id if ids else part.topic  # type: ignore[attr-defined]
        body = found.get(key)
        if body is None:
            body = found[key] = {"topicId" if ids else topics: key, partitions: []}
        body[partitions].append(one(part))
    return list(found.values())


def partitions_by_topic(
    keys: Iterable[TopicPartition], *, topics: str = "name", partitions: str = "partitions"
) -> list[Body]:
    """Partitions as lists of numbers by topic."""
    found: dict[str, list[int]] = {}
    for key in keys:
        found.setdefault(key.topic, []).append(key.partition)
    return [{topics: topic, partitions: numbers} for topic, numbers in found.items()]


def entries(
    topics: Iterable[Body], *, name: str = "name", partitions: str = "partitions", index: str = "partitionIndex",
    names: Mapping[Any, str] | None = None,
) -> dict[TopicPartition, Body]:  # fmt: skip
    """The partitions of a response, by name. `names`: the names of the topics that it has by id."""
    found: dict[TopicPartition, Body] = {}
    for topic in topics:
        known = topic[name] if names is None else names.get(topic["topicId"])
        if known is not None:
            for entry in topic[partitions]:
                found[TopicPartition(known, entry[index])] = entry
    return found


def untold(topic: str, partition: int) -> PylogError:
    """The error of a part that the response has not."""
    return UnknownServer(f"the node has answered without a word of {topic}-{partition}")
