"""One writer at a time, syncs, and the latch of a partition: what was promised, and when nothing is promised any more.

The latch falls with a failed write or sync, and with what strikes in the middle of one, or of a close: the files are in
doubt then, so every later call raises PartitionFailed until the log is opened again and recovery has read, and written
again, what is really there (a failed fsync is never tried again: `storage/pending_syncs`). A full disk does not latch
an append: the file was put back to the last whole batch. It does so where what is in the log could not be published:
DiskFull means that nothing was done.

Where a sync happens, and for whom: `storage/pending_syncs` has the list. Where no more is owed than the batches of the
active segment, the compiled kernel syncs that file itself, for a group commit and for `sync` up to an offset.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from pylog.commitlog.local_log import LocalLog
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
from pylog.kernel import AppendState
from pylog.runtime.clock import stopwatch_ns
from pylog.runtime.log_fields import partition_fields
from pylog.runtime.signals import FIRM, WholeLock
from pylog.storage.pending_syncs import PendingSyncs
from pylog.storage.producer_state import Producers
from pylog.storage.published import PublishedEntry

logger = logging.getLogger("pylog.commitlog")


class Durability:
    """The lock, the latch and the syncs of one partition, with its place among the published ones (`entry`).

    It writes `failure` and `is_closed` in the state. `name` is for messages.
    """

    def __init__(
        self, state: AppendState, local: LocalLog, pending: PendingSyncs, name: str, entry: PublishedEntry | None
    ) -> None:
        self._state = state
        self._local = local
        self._pending = pending
        self._name = name
        self._entry = entry
        self.lock = WholeLock()
        self.syncing = WholeLock()
        state.lock, state.syncing, state.latch, state.entry = self.lock, self.syncing, self, entry

    # --- what may be seen from outside -----------------------------------------------------------------------------

    def publish(self) -> None:
        """Tell reader processes what they may see. Raises DurabilityUnknown, latched, when that cannot be written."""
        with self.lock:
            self.show()

    def show(self) -> None:
        """The same of what is done, with the lock held: it stays done.

        Where others cannot be told of it, it is latched, whatever the reason: a full disk would say that nothing was
        done.
        """
        try:
            self._state.publish()
        except BaseException as error:  # noqa: BLE001 - it is raised again
            self.give_up(error)

    def publish_durably(self) -> None:
        """Bring what was just published to disk, in both slots: where a later publishing is torn and the one before it
        lost, what is left is not older.
        """
        if self._entry is not None:
            self.show()
            self._entry.sync()

    def published_generation(self) -> int | None:
        """The generation that was published last; None where nothing was."""
        before = self._entry.read() if self._entry is not None else None
        return None if before is None else before.generation

    def check_in_place(self) -> None:
        """Raise DirectoryReplaced where the paths of the log lead into another directory now."""
        if self._entry is not None:
            self._entry.check_in_place()

    # --- syncing ---------------------------------------------------------------------------------------------------

    def sync(self, upto: int | None = None) -> int:
        """Make everything appended so far durable and give `durable_offset`. Others may append meanwhile.

        `upto`: nothing is done where a sync that this one has waited for has made durable all that lies below it.
        Raises: DurabilityUnknown when the disk refused, now or earlier; the partition is latched then.
        """
        state = self._state
        if upto is not None and upto > state.durable_offset:
            with FIRM:
                is_synced = state.fast_sync(upto)
            if is_synced:  # pragma: no cover - the pure kernel is measured
                return state.durable_offset
        with self.syncing:
            if upto is not None and upto <= state.durable_offset:
                return state.durable_offset
            while True:
                generation = state.generation
                with suppress(Closed, LogNotFound):
                    return self._sync()
                # A file was removed or replaced meanwhile; what is there now is synced (KAFKA-15391).
                if generation == state.generation:
                    # Unless it was a seal, it is missing for good.
                    return self._sync()

    def _sync(self) -> int:
        state = self._state
        with self.lock:
            if state.is_closed or self.failed:
                return self._synced_before()
            target, cuts = state.written_end, state.cuts
        try:
            if target > state.durable_offset or self._pending.has_unsynced_names:
                began = stopwatch_ns()
                self._local.sync(state.durable_offset)
                state.note_sync(stopwatch_ns() - began)
        except BaseException as error:
            self.not_synced(error)
            raise
        with self.lock:
            if self._pending.failure is not None:
                # Of two syncs of one file the system tells a single one that it has failed.
                return self._synced_before()
            self._pending.promise(target, cuts)
            return state.durable_offset

    def not_synced(self, error: BaseException) -> None:
        """Latch, and raise what follows from an error of a sync; unless a file was missing, which latches nothing."""
        if isinstance(error, Closed | LogNotFound):
            return
        with self.lock:
            self._latch(error)
        if not isinstance(error, Exception):
            raise error
        raise DurabilityUnknown(self._failed_words(error)) from error

    def _synced_before(self) -> int:
        """The durable offset of a partition that is closed, as for a move: everything. Raises DurabilityUnknown for one
        that has failed.
        """
        failure = self._pending.failure
        if failure is not None:
            raise DurabilityUnknown(self._failed_words(failure))
        return self._state.durable_offset

    def finish(self, producers: Producers) -> bool:
        """Take no more appends, make everything durable and seal it, with `syncing` held; whether nothing is owed then.

        A log that is closed already, or has failed, is left as it is.
        """
        state, local = self._state, self._local
        with self.lock:
            was_closed, state.is_closed = state.is_closed, True
            if was_closed or self.failed:
                return False
            self.check_in_place()
            local.active.finish()
            local.snapshot(producers, state.next_offset)
        local.sync(state.durable_offset)
        local.seal_active()
        self._pending.promise(state.written_end, state.cuts)
        self.publish()
        # Both slots, so that neither of them, damaged, shows an older end.
        self.publish()
        # Another thread's sync, as of a roll, may have been told what this one was not.
        return self._pending.owes_nothing

    # --- the latch -------------------------------------------------------------------------------------------------

    @property
    def failed(self) -> bool:
        """Whether an I/O error has latched it: what it holds is in doubt until the log is opened again."""
        return self._state.failure is not None

    def latch(self, error: BaseException) -> None:
        """Take no more appends: what the partition lies in is not what it was."""
        with self.lock:
            self._latch(error)

    def _latch(self, error: BaseException) -> None:
        self._pending.fail(error)
        if self._state.failure is None:
            self._state.failure = error
            logger.error(
                "%s failed and takes no more appends: %s", self._name, error, extra=partition_fields(self._name)
            )
            try:
                self._state.publish()
            except PylogError as second:
                # The same disk that failed may refuse this too; the latch in memory stands.
                logger.error(
                    "%s: its failure could not be published: %s", self._name, second, extra=partition_fields(self._name)
                )

    def _failed_words(self, error: BaseException) -> str:
        return (
            f"{self._name} in {self._local.directory}: {error!r}. Whether the records of this append are on disk is "
            "unknown; close the log and open it again to read what is there"
        )

    def check_usable(self) -> None:
        """Raise NotLeaderOrFollower where the partition is closed, PartitionFailed where it is latched."""
        if self._state.is_closed:
            raise NotLeaderOrFollower(f"{self._name} was closed here, moved or deleted; ask again")
        if self._state.failure is not None:
            raise PartitionFailed(
                f"{self._name} in {self._local.directory} failed earlier ({self._state.failure!r}); "
                "close the log and open it again"
            )

    def check_led(self) -> None:
        """As `check_usable`; and NotLeaderOrFollower where this node follows. Called with the lock held."""
        self.check_usable()
        if not self._state.rules.is_led:
            raise NotLeaderOrFollower(f"{self._name}: this node has lost the lead just now; ask again")

    @contextmanager
    def in_doubt(self) -> Iterator[None]:
        """Latch the partition when a change is interrupted: what memory says is in doubt then, the file is not."""
        try:
            yield
        except BaseException as error:  # noqa: BLE001 - it is raised again
            self.interrupted(error)

    def interrupted(self, error: BaseException) -> NoReturn:
        """Raise what follows from an error in the middle of a change: unless the disk is full, latched."""
        if isinstance(error, DiskFull | DurabilityUnknown):
            # The second is latched already.
            raise error
        # Also an interrupt between the write and its bookkeeping.
        self.give_up(error)

    def give_up(self, error: BaseException) -> NoReturn:
        """Latch, and raise what follows from an error behind a change: what was done is there, or in doubt."""
        self._latch(error)
        if not isinstance(error, Exception):
            raise error
        raise DurabilityUnknown(self._failed_words(error)) from error

    @contextmanager
    def not_half_done(self, what: str) -> Iterator[None]:
        """Around what a full disk must not leave half done: unlike an append, it cannot be taken back."""
        try:
            yield
        except DiskFull as error:
            raise StorageError(f"{self._local.directory} {what}: {error}") from error
