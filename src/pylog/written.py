"""What a partition with a writer owes to others: one writer at a time, word of what may be seen, syncs, and a latch.

What may be seen from outside this process is said by `publish`, after the bytes are in the file and never before; what
is taken away is announced by a new generation, before it goes.

The latch falls with a failed write or sync: the files are in doubt then, so every later call raises PartitionFailed
until the log is opened again and recovery has read what is really there (a failed fsync is never tried again). A full
disk does not latch an append: the file was put back to the last whole batch.
"""

import logging
import threading
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from pylog.errors import (
    Closed,
    DiskFull,
    DurabilityUnknown,
    LogNotFound,
    NotLeaderOrFollower,
    PartitionFailed,
    PylogError,
    StorageError,
)
from pylog.published import Entry, Fields, State
from pylog.readable import ReadablePartition

logger = logging.getLogger("pylog")


class WrittenPartition(ReadablePartition):
    """A partition with its lock, its latch and its place among the published ones (`entry`, if it has one)."""

    def __init__(self, directory: str, topic: str, number: int, entry: Entry | None) -> None:
        super().__init__(directory, topic, number)
        self._entry = entry
        self._generation = 0
        self._cuts = 0  # how often something was taken away from the end
        self._failure: BaseException | None = None
        self._closed = False
        self._lock = threading.Lock()
        self._syncing = threading.Lock()
        self._closing = threading.Lock()

    @property
    def failed(self) -> bool:
        """Whether an I/O error has latched it: what it holds is in doubt until the log is opened again."""
        return self._failure is not None

    def _begin_generation(self) -> None:
        before = self._entry.read() if self._entry is not None else None
        self._generation = (before.generation | 1) + 1 if before is not None else 0

    def publish(self) -> None:
        """Tell reader processes what they may see."""
        with self._lock:
            self._publish()

    @abstractmethod
    def _publish(self) -> None:
        """The same with the lock held."""

    def _publish_durably(self) -> None:
        """Bring what was just published to disk, in both slots: where a later publishing is torn and the one before it
        lost, what is left is not older.
        """
        if self._entry is not None:
            self._publish()
            self._entry.sync()

    def state(self) -> State:
        """The offsets of this moment, as they are published."""
        return State(*self._state())

    @abstractmethod
    def _state(self) -> Fields:
        """What is published."""

    # --- durability ------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def _written_end(self) -> int:
        """What a sync makes durable."""

    @abstractmethod
    def _sync_files(self, target: int) -> None:
        """Bring to the disk what lies below `target`, and the names of files, as far as they are not there yet."""

    def sync(self) -> int:
        """Make everything appended so far durable and give `durable_offset`. Others may append meanwhile.

        Raises: DurabilityUnknown when the disk refused; the partition is latched then.
        """
        with self._syncing:
            return self._sync()

    def _sync(self) -> int:
        with self._lock:
            if not self._closed:
                self._check_usable()
            target, generation, cuts = self._written_end, self._generation, self._cuts
        if self._closed:
            return self._synced_by_close(target)
        try:
            self._sync_files(target)
        except BaseException as error:  # noqa: BLE001 - it is raised again
            self._not_synced(error, generation)
        with self._lock:
            if cuts == self._cuts:
                self.durable_offset = max(self.durable_offset, target)
            return self.durable_offset

    def _not_synced(self, error: BaseException, generation: int) -> None:
        """Raise what follows from an error of a sync that began in this generation: unless all is gone, latched."""
        if isinstance(error, Closed | LogNotFound):
            # Removed meanwhile, and with it what was to be synced (KAFKA-15391); else it is missing for good.
            if generation != self._generation or self._closed:
                return
            raise error
        with self._lock:
            self._latch(error)
        if not isinstance(error, Exception):
            raise error
        raise DurabilityUnknown(self._failed_words(error)) from error

    def _synced_by_close(self, target: int) -> int:
        """What is durable when it is closed, as for a move to another directory: all that was appended before."""
        with self._closing:
            if self.durable_offset < target:
                self._check_usable()
            return self.durable_offset

    # --- the latch -------------------------------------------------------------------------------------------------

    def _latch(self, error: BaseException) -> None:
        if self._failure is None:
            self._failure = error
            logger.error("%s-%d failed and takes no more appends: %s", self.topic, self.number, error)
            try:
                self._publish()
            except PylogError as second:
                # The same disk that failed may refuse this too; the latch in memory stands.
                logger.error("%s-%d: its failure could not be published: %s", self.topic, self.number, second)

    def _failed_words(self, error: BaseException) -> str:
        return (
            f"{self.topic}-{self.number} in {self.directory}: {error!r}. Whether the records of this append are on "
            "disk is unknown; close the log and open it again to read what is there"
        )

    def _check_usable(self) -> None:
        if self._closed:
            raise NotLeaderOrFollower(f"{self.topic}-{self.number} was closed here, moved or deleted; ask again")
        if self._failure is not None:
            raise PartitionFailed(
                f"{self.topic}-{self.number} in {self.directory} failed earlier ({self._failure!r}); "
                "close the log and open it again"
            )

    @contextmanager
    def _in_doubt(self) -> Iterator[None]:
        """Latch the partition when a change is interrupted: what memory says is in doubt then, the file is not."""
        try:
            yield
        except BaseException as error:  # noqa: BLE001 - it is raised again
            self._interrupted(error)

    def _interrupted(self, error: BaseException) -> NoReturn:
        """Raise what follows from an error in the middle of a change: unless the disk is full, latched."""
        if isinstance(error, DiskFull):
            raise error
        # Also an interrupt between the write and its bookkeeping.
        self._latch(error)
        if not isinstance(error, Exception):
            raise error
        raise DurabilityUnknown(self._failed_words(error)) from error

    @contextmanager
    def _changing_files(self) -> Iterator[None]:
        """Around a change of files that readers may know: the generation is odd meanwhile, for readers in other
        processes too.
        """
        with self._in_doubt():
            # Odd before already where a change was given up half-way.
            self._generation += 1 + self._generation % 2
            self._publish()
            yield
            self._generation += 1
            self._publish()

    @contextmanager
    def _taking_away(self, offset: int, durable_offset: int) -> Iterator[None]:
        """Around a change that takes away what lies at `offset` and beyond.

        Readers in other processes are told first that there is less to see.
        """
        self.high_watermark = min(self.high_watermark, offset)
        self.durable_offset = min(self.durable_offset, durable_offset)
        self._cuts += 1
        with self._changing_files():
            # Before the files get shorter: else the next open would miss what was taken away on purpose.
            self._publish_durably()
            with self._whole(f"was being cut at offset {offset}"):
                yield

    @contextmanager
    def _whole(self, what: str) -> Iterator[None]:
        """Around what a full disk must not leave half done: unlike an append, it cannot be taken back."""
        try:
            yield
        except DiskFull as error:
            raise StorageError(f"{self.directory} {what}: {error}") from error
