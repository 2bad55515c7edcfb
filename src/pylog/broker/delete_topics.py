"""DeleteTopics: topics by their names or by their ids (KIP-516).

A topic that is named twice, by its name and an id, or by neither, is InvalidRequest (Kafka:
ControllerApis.deleteTopics).
"""

from collections import Counter
from collections.abc import Callable

from pylog.errors import InvalidRequest, PylogError, UnknownTopicId
from pylog.protocol.messages.records import NO_ID
from pylog.protocol.messages.topics import DeleteTopicsRequest, DeleteTopicsResponse
from pylog.protocol.metadata_image import MetadataImage

__all__ = ["topics_deleted"]

Result = DeleteTopicsResponse.DeletableTopicResult


def topics_deleted(
    asked: DeleteTopicsRequest, image: MetadataImage, delete: Callable[[str], PylogError | None]
) -> DeleteTopicsResponse:  # fmt: skip
    """Delete the topics that are named well. `delete` deletes one, and gives the error."""
    results = [Result(name=one.name, topic_id=one.topic_id) for one in asked.states]
    good = _named_once([one for one in results if (one.name is None) != (one.topic_id == NO_ID)])
    for one in good:
        _resolve(one, image)
    # A topic may be named by its name and, in another entry, by its id.
    good = _named_once(good)
    is_good = set(map(id, good))
    for one in results:
        if id(one) not in is_good:
            one.error = InvalidRequest("a topic is named once, by its name or by its id")
        elif one.name is None:
            one.error = UnknownTopicId(f"there is no topic with id {one.topic_id}")
        else:
            one.error = delete(one.name)
    return DeleteTopicsResponse(responses=results)


def _resolve(one: Result, image: MetadataImage) -> None:
    """Put down the name of a topic that was named by its id, and the id of one that was named by its name."""
    topic = image.with_id(one.topic_id) if one.name is None else image.topics.get(one.name)
    if topic is not None:
        one.name, one.topic_id = topic.name, topic.id


def _named_once(results: list[Result]) -> list[Result]:
    times_named = Counter(map(_key, results))
    return [one for one in results if times_named[_key(one)] == 1]


def _key(one: Result) -> object:
    return one.topic_id if one.name is None else one.name
