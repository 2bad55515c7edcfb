"""What a partition with a writer owes to others: one writer at a time, word of what may be seen, syncs, and a latch.

What may be seen from outside this process is said by `publish`, after the bytes are in the file and never before; what
is taken away is announced by a new generation, before it goes.

The latch falls with a failed write or sync, and with what strikes in the middle of one, or of a close: the files are in
doubt then, so every later call raises PartitionFailed until the log is opened again and recovery has read, and written
anew, what is really there (a failed fsync is never tried again: `durability`). A full disk does not latch an append:
the file was put back to the last whole batch. It does so where what is in the log could not be published: DiskFull
means that nothing was done.
"""

import logging
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from pylog.commitlog.partition_reader import PartitionReader
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
from pylog.files import Files
from pylog.runtime.signals import WholeLock
from pylog.storage.durability import Durability
from pylog.storage.published import Fields, PublishedEntry, PublishedState

logger = logging.getLogger("pylog")


class WrittenPartition(PartitionReader):
    """A partition with its lock, its latch and its place among the published ones (`entry`, if it has one)."""

    closed_whole = False
    """Whether it was closed, and everything in it was durable then: what makes a log clean."""

    def __init__(self, files: Files, directory: str, topic: str, number: int, entry: PublishedEntry | None) -> None:
        super().__init__(directory, topic, number)
        self._entry = entry
        self._generation = 0
        self._cuts = 0  # how often something was taken away from the end
        self._failure: BaseException | None = None
        self._closed = False
        self._lock = WholeLock()
        self._syncing = WholeLock()
        self._durability = Durability(files, directory)

    @property
    def failed(self) -> bool:
        """Whether an I/O error has latched it: what it holds is in doubt until the log is opened again."""
        return self._failure is not None

    def _begin_generation(self) -> None:
        before = self._entry.read() if self._entry is not None else None
        self._generation = (before.generation | 1) + 1 if before is not None else 0

    def publish(self) -> None:
        """Tell reader processes what they may see. Raises DurabilityUnknown, latched, when that cannot be written."""
        with self._lock:
            self._show()

    @abstractmethod
    def _publish(self) -> None:
        """The same with the lock held, of what can still be taken back. Raises DiskFull, StorageError."""

    def _show(self) -> None:
        """The same of what is done: it stays done. Where others cannot be told of it, it is latched, whatever the
        reason: a full disk would say that nothing was done.
        """
        try:
            self._publish()
        except BaseException as error:  # noqa: BLE001 - it is raised again
            self._give_up(error)

    def _publish_durably(self) -> None:
        """Bring what was just published to disk, in both slots: where a later publishing is torn and the one before it
        lost, what is left is not older.
        """
        if self._entry is not None:
            self._show()
            self._entry.sync()

    def state(self) -> PublishedState:
        """The offsets of this moment, as they are published."""
        return PublishedState(*self._state())

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

        Raises: DurabilityUnknown when the disk refused, now or earlier; the partition is latched then.
        """
        with self._syncing:
            while True:
                generation = self._generation
                with suppress(Closed, LogNotFound):
                    return self._sync()
                # A file was removed or replaced meanwhile; what is there now is synced (KAFKA-15391).
                if generation == self._generation:
                    # Unless it was a seal, it is missing for good.
                    return self._sync()

    def _sync(self) -> int:
        with self._lock:
            if self._closed or self.failed:
                return self._synced_before()
            target, cuts = self._written_end, self._cuts
        try:
            self._sync_files(target)
        except BaseException as error:
            self._not_synced(error)
            raise
        with self._lock:
            if self._durability.failure is not None:
                # Of two syncs of one file the system tells a single one that it has failed.
                return self._synced_before()
            if cuts == self._cuts:
                self.durable_offset = max(self.durable_offset, target)
            return self.durable_offset

    def _not_synced(self, error: BaseException) -> None:
        """Latch, and raise what follows from an error of a sync; unless a file was missing, which latches nothing."""
        if isinstance(error, Closed | LogNotFound):
            return
        with self._lock:
            self._latch(error)
        if not isinstance(error, Exception):
            raise error
        raise DurabilityUnknown(self._failed_words(error)) from error

    def _synced_before(self) -> int:
        """What is durable of a partition that is closed, as for a move: everything; of a failed one nobody knows."""
        failure = self._durability.failure
        if failure is not None:
            raise DurabilityUnknown(self._failed_words(failure))
        return self.durable_offset

    # --- the latch -------------------------------------------------------------------------------------------------

    def _latch(self, error: BaseException) -> None:
        self._durability.fail(error)
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
        if isinstance(error, DiskFull | DurabilityUnknown):
            # The second is latched already.
            raise error
        # Also an interrupt between the write and its bookkeeping.
        self._give_up(error)

    def _give_up(self, error: BaseException) -> NoReturn:
        """Latch, and raise what follows from an error behind a change: what was done is there, or in doubt."""
        self._latch(error)
        if not isinstance(error, Exception):
            raise error
        raise DurabilityUnknown(self._failed_words(error)) from error

    def _check_in_place(self) -> None:
        """Raise DirectoryReplaced where the paths of the log lead into another directory now."""
        if self._entry is not None:
            self._entry.check_in_place()

    def latch(self, error: StorageError) -> None:
        """Take no more appends: what the partition lies in is not what it was."""
        with self._lock:
            self._latch(error)

    @contextmanager
    def _changing_files(self) -> Iterator[None]:
        """Around a change of files that readers may know: the generation is odd meanwhile, for readers in other
        processes too.
        """
        with self._in_doubt():
            self._check_in_place()
            # Odd before already where a change was given up half-way.
            self._generation += 1 + self._generation % 2
            self._publish()
            yield
            self._generation += 1
            self._show()

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
