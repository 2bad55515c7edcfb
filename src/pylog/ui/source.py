"""The log that the pages show."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from pylog.client.admin.topics import DescribedTopic
from pylog.errors import NotLocal, UnknownTopicOrPartition
from pylog.files import Files
from pylog.handles.any_log import AnyLog
from pylog.handles.topic_facts import Ends, bytes_of, ends_of, ends_of_partitions
from pylog.record import TopicPartition

__all__ = ["Source"]


@dataclass(frozen=True, slots=True)
class Source:
    """A log, and what may be done with it. Thread-safe, as `ClientHalf` is."""

    name: str
    """Its path or its address, for people."""
    log: AnyLog
    files: Files | None = None
    """The files, where they are here."""
    paths: tuple[str, ...] = ()
    change: Callable[[], AbstractContextManager[AnyLog]] | None = None
    """Give the log for the time of one change; None: nothing is changed."""
    owner: Callable[[], AbstractContextManager[AnyLog]] | None = None
    """Give the log by way of its owner, for one look; None: `log` is that."""

    def working(self) -> AbstractContextManager[AnyLog]:
        """The log by way of its owner, which alone knows what goes on in it."""
        return nullcontext(self.log) if self.owner is None else self.owner()

    def local_files(self) -> Files:
        """The files. Raises NotLocal where the log is behind a network or in memory."""
        if self.files is None:
            raise NotLocal(f"this needs the files of the log, and {self.name} has none here: use --log where they lie")
        return self.files

    def ends(self) -> dict[TopicPartition, Ends]:
        """The extents of all partitions. Raises NetworkError."""
        topics = self.topics()
        keys = [TopicPartition(topic.name, one.partition) for topic in topics for one in topic.partitions]
        try:
            return ends_of_partitions(self.log, keys, bytes_of(self.log))
        except UnknownTopicOrPartition:
            # One was deleted meanwhile.
            return ends_of(self.log, [topic.name for topic in topics])

    def topics(self) -> list[DescribedTopic]:
        """All topics, internal ones too, with their partitions: one question. Raises NetworkError."""
        return self.log.admin.topics()
