"""The names that a topic may have, and the error for one that is not there. (Kafka: Topic)"""

import re
from collections.abc import Iterable

from pylog.errors import InvalidTopic, UnknownTopicOrPartition

__all__ = ["METADATA_TOPIC", "flat_name", "is_topic_name", "unknown_topic", "validate_topic_name"]

METADATA_TOPIC = "__cluster_metadata"
MAX_TOPIC_NAME = 249
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+")


def validate_topic_name(name: str, others: Iterable[str] = ()) -> None:
    """Raise InvalidTopic with the reason, unless a topic may be called `name` (Kafka: Topic.validate).

    The name of the metadata log is refused, too: its folder is there already. So is a name that differs from another
    topic's in dots and underscores alone, which are one in the names of metrics (Topic.hasCollision).
    """
    reason = None
    if not name:
        reason = "it is empty"
    elif name in (".", ".."):
        reason = "'.' and '..' are folders"
    elif len(name) > MAX_TOPIC_NAME:
        reason = f"it has {len(name)} characters, {MAX_TOPIC_NAME} are the most"
    elif not _TOPIC_NAME.fullmatch(name):
        reason = "only ASCII letters, digits, '.', '_' and '-' may be in it"
    elif name == METADATA_TOPIC:
        reason = "the metadata log has that name"
    elif (
        other := next((one for one in others if one != name and flat_name(one) == flat_name(name)), None)
    ) is not None:
        reason = f"'.' and '_' are one in the names of metrics, and there is {other!r} already"
    if reason is not None:
        raise InvalidTopic(f"{name!r} cannot be the name of a topic: {reason}")


def flat_name(name: str) -> str:
    """A topic's name as it stands in the names of metrics: with underscores for dots. (Topic.unifyCollisionChars)"""
    return name.replace(".", "_")


def is_topic_name(name: str) -> bool:
    """Whether a topic may be called so."""
    try:
        validate_topic_name(name)
    except InvalidTopic:
        return False
    return True


def unknown_topic(name: str) -> UnknownTopicOrPartition:
    """The error for a topic that is not there."""
    return UnknownTopicOrPartition(f"there is no topic {name!r}; `pylog topic list` shows the topics")
