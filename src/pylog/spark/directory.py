"""A log directory, as the source reads it: the partitions that a selection means, and the readers that a worker keeps.

A worker process keeps its readers open between tasks. A reader holds no lock, so the owner may write meanwhile.
"""

from collections.abc import Iterable
from typing import Final

from pylog.errors import UnknownTopicOrPartition
from pylog.log import Log
from pylog.opening import open as open_log
from pylog.record import TopicPartition
from pylog.spark.options.read import ReadOptions
from pylog.spark.options.selection import Assign, Subscribe
from pylog.spark.schema import LogRange
from pylog.views import PartitionView, TopicView

_READERS_MAX: Final = 8

_readers: dict[str, Log] = {}


def _reader(path: str, *, again: bool) -> Log:
    """This process's reader of a directory; `again` opens it anew. The least recently used are closed."""
    log = _readers.pop(path, None)
    if log is not None and again:
        log.close()
        log = None
    _readers[path] = log or open_log(path, mode="read")
    while len(_readers) > _READERS_MAX:
        _readers.pop(next(iter(_readers))).close()
    return _readers[path]


def partition_of(path: str, wanted: LogRange) -> PartitionView | None:
    """The partition that was planned, or None when its topic is gone; a reader that has gone stale is opened again."""
    for again in (False, True):
        log = _reader(path, again=again)
        if wanted.topic in log.topics(internal=True) and log.topic(wanted.topic).id == wanted.topic_id:
            return log.topic(wanted.topic)[wanted.partition]
    return None


def selected(log: Log, options: ReadOptions) -> dict[TopicPartition, PartitionView]:
    """The partitions that a selection means; a topic or partition named outright must exist."""
    selection = options.selection
    if isinstance(selection, Assign):
        return {at: _partition(log, at) for at in selection.partitions}
    if isinstance(selection, Subscribe):
        topics: Iterable[str] = selection.topics
    else:
        topics = selection.matching(log.topics())
    return {TopicPartition(topic, view.partition): view for topic in topics for view in _topic(log, topic)}


def _topic(log: Log, topic: str) -> TopicView:
    if topic not in log.topics(internal=True):
        known = ", ".join(log.topics()) or "none"
        raise UnknownTopicOrPartition(f"no topic '{topic}' in {log.path}; there are: {known}")
    return log.topic(topic)


def _partition(log: Log, at: TopicPartition) -> PartitionView:
    topic = _topic(log, at.topic)
    if at.partition >= len(topic):
        raise UnknownTopicOrPartition(f"no partition {at.partition}: topic '{at.topic}' in {log.path} has {len(topic)}")
    return topic[at.partition]
