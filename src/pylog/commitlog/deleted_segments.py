"""The files of dropped segments, kept under the suffix `.deleted` for a while: somebody may be reading them.

What a full disk has no room to rename is gone at once, and so makes room. What could not be removed waits to be tried
again. A crash costs nothing: what has the suffix goes when the partition is opened. (Kafka: file.delete.delay.ms.)
"""

from collections import deque

from pylog.errors import StorageError
from pylog.files import Files, join
from pylog.runtime.signals import WholeLock
from pylog.segment import Segment
from pylog.storage.producer_state import snapshot_name
from pylog.storage.segment_files import DELETED, rename_or_remove

RETRY_MS = 60_000
"""How long what could not be removed waits."""


class DeletedSegments:
    """The segments that wait to be removed, in the order they came. One thread adds, under the partition's lock; any
    may purge.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._waiting: deque[tuple[int, Segment, str]] = deque()
        self._purging = WholeLock()

    def add(self, segment: Segment, due_ms: int, *, with_snapshot: bool = True) -> None:
        """Rename a segment's files, and its producer snapshot; they go when `due_ms` has come."""
        segment.on_disk.discard()
        snapshot = join(segment.directory, snapshot_name(segment.base_offset))
        if with_snapshot and self._files.stat(snapshot) is not None:
            rename_or_remove(self._files, snapshot, snapshot + DELETED)
        self._waiting.append((due_ms, segment, snapshot + DELETED))

    @property
    def due_ms(self) -> int | None:
        """When the next one goes, or None."""
        try:
            return self._waiting[0][0]
        except IndexError:
            # Asked first, it might be purged before the answer.
            return None

    def purge(self, now_ms: int) -> None:
        """Remove what is due. Raises StorageError for what could not be removed, when all else is; it is tried again
        `RETRY_MS` later.
        """
        failure: StorageError | None = None
        with self._purging:
            while self._waiting and self._waiting[0][0] <= now_ms:
                _, segment, snapshot = self._waiting.popleft()
                try:
                    segment.remove()
                    if self._files.stat(snapshot) is not None:
                        self._files.remove(snapshot)
                except StorageError as error:
                    failure = failure or error
                    self._waiting.append((now_ms + RETRY_MS, segment, snapshot))
        if failure is not None:
            raise failure

    def close(self) -> None:
        """Give the descriptors back; the files go when the partition is opened again."""
        for _, segment, _ in self._waiting:
            segment.close()
