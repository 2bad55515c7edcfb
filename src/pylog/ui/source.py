"""The log that the pages show."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from pylog.client_half import ClientHalf
from pylog.errors import NotLocal
from pylog.files import Files
from pylog.record import TopicPartition

__all__ = ["Ends", "Source"]


@dataclass(frozen=True, slots=True)
class Ends:
    """The extent of a partition: half-open offsets, and the bytes of its `.log` files (-1: not known)."""

    start: int
    end: int
    size: int

    @property
    def count(self) -> int:
        """How many offsets there are; where records were compacted away, there are fewer of them."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Source:
    """A log, and what may be done with it. Thread-safe, as `ClientHalf` is."""

    name: str
    """Its path or its address, for people."""
    log: ClientHalf[Any]
    files: Files | None = None
    """The files, where they are here."""
    paths: tuple[str, ...] = ()
    change: Callable[[], AbstractContextManager[ClientHalf[Any]]] | None = None
    """Give the log for the time of one change; None: nothing is changed."""

    def local_files(self) -> Files:
        """The files. Raises NotLocal where the log is behind a network or in memory."""
        if self.files is None:
            raise NotLocal(f"this needs the files of the log, and {self.name} has none here: use --log where they lie")
        return self.files

    def ends(self) -> dict[TopicPartition, Ends]:
        """The extents of all partitions. Raises NetworkError."""
        admin = self.log.admin
        wanted = [TopicPartition(topic.name, one.partition) for topic in admin.topics() for one in topic.partitions]
        starts = admin.list_offsets(dict.fromkeys(wanted, "earliest"))
        ends = admin.list_offsets(dict.fromkeys(wanted, "latest"))
        sizes: dict[TopicPartition, int] = {}
        for directory in admin.describe_log_dirs():
            for key, size in directory.partitions.items():
                # A replica that is behind is smaller.
                sizes[key] = max(size, sizes.get(key, 0))
        return {key: Ends(starts[key].offset, ends[key].offset, sizes.get(key, 0)) for key in wanted}
