"""The topics that a job writes to: made where they are missing."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pylog.client_half import ClientHalf

if TYPE_CHECKING:
    from pylog.config.typed import TopicOptions

_NEW_TOPIC: "Final[TopicOptions]" = {}


def make_topics(log: "ClientHalf[Any]", topics: Mapping[str, int]) -> None:
    """Make the topics that are missing, of so many partitions. Raises ValueError where one has fewer."""
    for name, count in topics.items():
        log.create_topic(name, count, _NEW_TOPIC, exist_ok=True)
        there = len(log.admin.topic(name).partitions)
        if there < count:
            raise ValueError(f"topic '{name}' has {there} partitions, and {count} are needed: add partitions")
