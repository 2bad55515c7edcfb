"""The offset checkpoints of a log directory: what it remembers of its partitions from one time it is open to the next.

    recovery-point-offset-checkpoint    below it everything was fsynced     topic partition offset
    log-start-offset-checkpoint         where a log starts, if that is above its first segment
    replication-offset-checkpoint       high watermarks
    cleaner-offset-checkpoint           up to where compacted partitions are clean

Invariants: no checkpoint leads. One that rises is written after what it speaks of is durable, and one that falls before
anything is cut (`lower`). What a file has is what memory had at one moment; a full disk makes it late, never wrong.
(Kafka: OffsetCheckpointFile, LogManager.)
"""

import logging
from collections.abc import Iterable

from pylog.errors import DiskFull, LogNotFound, StorageError, UnsupportedFormat
from pylog.files import Files, join
from pylog.record import TopicPartition
from pylog.runtime.signals import WholeLock
from pylog.storage.checkpoint import read_offsets, write_offsets

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
NAMES = (RECOVERY_POINTS, START_OFFSETS, HIGH_WATERMARKS, CLEANER_OFFSETS)

logger = logging.getLogger("pylog.storage")


class Checkpoints:
    """The four checkpoints in `path`. Thread-safe.

    Raises: UnsupportedFormat (a newer version), StorageError (the disk).
    """

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path
        self._lock = WholeLock()
        self._late: set[str] = set()
        self.damaged = False
        """Whether one of them could not be read."""
        self._offsets = {name: self._read(name) for name in NAMES}

    def _read(self, name: str) -> dict[TopicPartition, int]:
        """The entries of a checkpoint: nothing, where it is damaged. The next one written takes its place."""
        try:
            return read_offsets(self._files, join(self._path, name))
        except LogNotFound:
            return {}
        except UnsupportedFormat:
            raise
        except StorageError as error:
            logger.warning("a checkpoint is of no use, and is rewritten: %s", error)
        self.damaged = True
        return {}

    def get(self, name: str, key: TopicPartition) -> int | None:
        """The entry of one partition in one checkpoint; None: nothing."""
        return self._offsets[name].get(key)

    @property
    def keys(self) -> set[TopicPartition]:
        """The partitions that they speak of."""
        with self._lock:
            return {key for offsets in self._offsets.values() for key in offsets}

    def note(self, name: str, key: TopicPartition, offset: int | None) -> None:
        """Remember an offset, or forget it (None); `write_late` brings it to disk."""
        with self._lock:
            self._note(name, key, offset)

    def _note(self, name: str, key: TopicPartition, offset: int | None) -> None:
        offsets = self._offsets[name]
        if offsets.get(key) != offset:
            self._late.add(name)
            if offset is None:
                del offsets[key]
            else:
                offsets[key] = offset

    def write_late(self) -> None:
        """Write the checkpoints that are behind what is remembered, durably.

        Raises DiskFull, StorageError; they are late then, and tried again.
        """
        with self._lock:
            for name in sorted(self._late):
                self._write(name)

    def _write(self, name: str) -> None:
        write_offsets(self._files, join(self._path, name), self._offsets[name])
        self._late.discard(name)

    def write_starts(self) -> None:
        """Persist where logs start now, which was published durably: so a full disk makes it late, and loses nothing.

        Raises StorageError.
        """
        with self._lock:
            self._write_if_room([START_OFFSETS])

    def lower(self, key: TopicPartition, end: int, start: int) -> None:
        """Say no more of a log than that it starts at `start` and ends at `end`: it is about to be cut there.

        A start that led would win over the lower one that is published, so that one is durable when this returns.
        Raises DiskFull, StorageError: then nothing may be cut.
        """
        limits = dict.fromkeys(NAMES, end) | {START_OFFSETS: start}
        with self._lock:
            leading = [name for name in NAMES if self._offsets[name].get(key, 0) > limits[name]]
            if START_OFFSETS in leading or START_OFFSETS in self._late:
                # The first of all: where it cannot be written nothing has changed.
                starts = dict(self._offsets[START_OFFSETS])
                if key in starts:
                    starts[key] = min(starts[key], start)
                write_offsets(self._files, join(self._path, START_OFFSETS), starts)
                self._offsets[START_OFFSETS] = starts
                self._late.discard(START_OFFSETS)
            for name in leading:
                self._note(name, key, limits[name])
            self._write_if_room(leading)

    def _write_if_room(self, names: Iterable[str]) -> None:
        try:
            for name in names:
                if name in self._late:
                    self._write(name)
        except DiskFull:
            logger.warning("%s is full: checkpoints are late", self._path)

    def forget(self, keys: Iterable[TopicPartition]) -> None:
        """Drop partitions; `write_late` brings that to disk."""
        with self._lock:
            for key in keys:
                for name in NAMES:
                    self._note(name, key, None)
