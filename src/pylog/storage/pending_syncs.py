"""The syncs that a log owes to the disk besides its batches, and the one road by which its bytes get there.

    Durability          `sync`, for all that promise: group commits, followers, the metadata log, background syncs;
                        `finish`: all that is left, before a segment is sealed and a directory called clean
    LocalLog            `roll` (all is durable, with the seal, before a segment follows), `truncate`, `restart`
    kernel              `AppendState.is_synced` (kernel/compiled/fast_append): a group commit, or a `Durability.sync` up
                        to an offset, that owes no more than the active segment's batches; what is refused is told to
                        `Durability`, which latches

Each of them comes to `PendingSyncs.sync`, except the last one, its twin for one file. The call of the system is in
`files/syncing`, the twin's in `kernel/compiled/open_file`. Nothing else calls `File.sync` for a part of a log.
`sync_new` is for a segment that is not yet part of a log, and for the index of one that is being read again: where that
fails the file goes, or the log is not opened, and nothing was promised.

Invariants:
- a sync that was refused, or interrupted, is the last one: the system forgets what it has lost when it has said so once
  (ATC'20, Rebello et al.). Only recovery ends that, which writes again what it keeps;
- a caller whose sync succeeded looks at `failure` under the partition's lock before it believes that: of two syncs of
  one descriptor the system tells a single one;
- a closed file is not opened again for a sync;
- `durable_offset` rises here (`promise`) and in the kernel's twin, behind a sync of everything from it on, and nowhere
  else once a log is open.
"""

from collections.abc import Iterable
from contextlib import suppress

from pylog.errors import Closed, DiskFull, LogNotFound, PartitionFailed, StorageError
from pylog.files import File, Files
from pylog.kernel import AppendState


class PendingSyncs:
    """New files and names that the next sync makes durable. It writes `owed` and the counts of names in the state, and
    raises `durable_offset`.

    A sync that others overtake, or that two threads make at once, promises what was there when it began.
    """

    def __init__(self, state: AppendState, files: Files, directory: str) -> None:
        self.failure: BaseException | None = None
        """What has ended the road, if anything has."""
        self._state = state
        self._files = files
        self._directory = directory

    def owe(self, file: File) -> None:
        """Let the next sync make a new file durable, and close it."""
        self._state.owed.append(file)
        self._state.name_changes += 1

    def note_names(self) -> None:
        """A file has come or gone."""
        self._state.name_changes += 1

    @property
    def has_unsynced_names(self) -> bool:
        """Whether files came or went since the last sync."""
        return self._state.name_changes > self._state.synced_name_changes

    @property
    def owes_nothing(self) -> bool:
        """Whether no sync has failed, and nothing waits for the next one."""
        return self.failure is None and not self._state.owed and not self.has_unsynced_names

    def fail(self, error: BaseException) -> None:
        """Sync nothing any more; the first failure is the one that is told."""
        if self.failure is None:
            self.failure = error

    def sync(self, files: Iterable[File]) -> None:
        """Make `files`, what is owed, and the names in the directory durable, in this order.

        Raises: PartitionFailed (a sync has failed before), StorageError (this one has); and what fails nothing: Closed
        and LogNotFound (a file was taken away meanwhile), DiskFull (there is no room for what was to be synced).
        """
        if self.failure is not None:
            raise PartitionFailed(f"nothing in {self._directory} is synced any more: {self.failure!r}")
        state = self._state
        changes = state.name_changes
        owed, state.owed = state.owed, []
        try:
            for file in files:
                file.sync()
            while owed:
                with suppress(LogNotFound):  # removed since, and with it what was to be synced
                    owed[-1].sync()
                owed.pop().close()
            if changes > state.synced_name_changes:
                self._sync_names()
                state.synced_name_changes = max(state.synced_name_changes, changes)
        except BaseException as error:
            state.owed += owed
            if not isinstance(error, Closed | LogNotFound | DiskFull):
                self.fail(error)
            raise

    def sync_all(self, files: Iterable[File], end: int) -> None:
        """`sync` all files from the durable offset on, with the partition's lock held: below `end` all is durable then.

        Nothing is promised while another thread syncs: of two syncs of one file the system tells a single one that it
        has failed. What that thread, or the next sync, promises includes it.
        """
        syncing = self._state.syncing
        # The order of the two locks is the other way round, so it is not waited for.
        is_alone = syncing.acquire(False)
        try:
            self.sync(files)
            if is_alone:
                self.promise(end, self._state.cuts)
        finally:
            if is_alone:
                syncing.release()

    def promise(self, end: int, cuts: int) -> None:
        """Let `durable_offset` rise to `end`, with both locks held: everything from it on was synced, when the log had
        been cut so many times. After a cut, or a failure, it stays.
        """
        if self.failure is None and cuts == self._state.cuts:
            self._state.durable_offset = max(self._state.durable_offset, end)

    def _sync_names(self) -> None:
        try:
            self._files.sync_dir(self._directory)
        except DiskFull as error:
            # That would say that nothing was written.
            raise StorageError(f"cannot sync {self._directory}: {error}") from error

    def close(self) -> None:
        """Give the descriptors back."""
        for file in self._state.owed:
            file.close()


def sync_new(files: Iterable[File]) -> None:
    """Make files durable that are not yet part of a log. Where it raises they must not become part of one."""
    for file in files:
        file.sync()
