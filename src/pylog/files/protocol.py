"""The calls that the storage half may make of a disk: the `Files` and `File` protocols, and the types of errors.

A `File` is a path and a logical size; whether it has an open descriptor is a matter of the implementation. Reading is
positional and takes no lock that a writer holds. Invariants that both implementations keep:

- `write` is all or nothing as far as `size` goes: when it raises, the file has the length it had;
- no read goes behind `size`, whatever `allocate` has reserved there;
- there are no holes: writing begins at or below `size`;
- a handle follows its file when the file, or a directory above it, is renamed through the same `Files`;
- a handle that writes never writes to another file that was put in the place of its own: its file counts as gone
  (LogNotFound).
"""

import errno
from dataclasses import dataclass
from typing import Protocol

from pylog.errors import DirectoryLocked, DirectoryReplaced, DiskFull, LogNotFound, ReadOnly, StorageError
from pylog.files.regular import irregular
from pylog.files.watch import Watch

SMALL_BYTES_MAX = 16 << 20
"""The size limit of a small file: a checkpoint of 400,000 partitions takes that much."""

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_DENIED = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


@dataclass(frozen=True, slots=True)
class FileStat:
    """The state of a path right now."""

    size: int
    mtime_ns: int
    """The time of the last write, or of the last change of a name in the directory (ns since 1970 UTC)."""
    is_dir: bool

    @property
    def mtime_ms(self) -> int:
        """The same in ms."""
        return self.mtime_ns // 1_000_000


class DirectoryLock(Protocol):
    """An exclusive lock on a directory, held until `close` or until the process ends, however it ends."""

    def is_in_place(self) -> bool:
        """Whether the path still leads to the locked file: otherwise another process may own what is there now."""

    def write(self, text: str) -> None:
        """Put another text in the place of the one that the lock was taken with. Raises StorageError."""

    def close(self) -> None:
        """Release the lock; closing twice is fine."""


class File(Protocol):
    """An open file. Any thread may read, sync, and write within its size; one at a time makes it longer or shorter."""

    @property
    def path(self) -> str:
        """The present path of the file: a rename changes it."""

    @property
    def read_only(self) -> bool:
        """Whether writes are refused. Then another process may be growing the file, and `size` looks at the disk."""

    def is_in_place(self) -> bool:
        """Whether the path still leads to this very file: False where it was removed or replaced from outside."""

    def size(self) -> int:
        """Length in bytes: cached by a writer, asked of the disk by a reader.

        A reader in another process also sees the zeros that `allocate` reserved behind the last byte written: it goes
        by what the writer has published, never by the length.
        """

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position`; fewer at the end of the file, none behind it."""

    def send(self, target: int, position: int, size: int) -> int:
        """Hand up to `size` bytes from `position` to the socket whose descriptor is `target`; return how many it took.

        Nothing is copied where the system can do without (sendfile). Fewer than `size` where the socket takes no more
        now, or the file ends; 0 only behind the end of the file. Raises: StorageError when the file cannot be read. A
        refusal of the socket stays the OSError that it was, for the caller to judge: BlockingIOError when it takes
        nothing now, ConnectionError when the peer is gone.
        """

    def pin(self) -> None:
        """Keep the file readable until `unpin`, even when it is closed or removed meanwhile."""

    def unpin(self) -> None:
        """Take one `pin` back."""

    def write(self, position: int, *buffers: bytes | bytearray | memoryview) -> None:
        """Write the buffers (of single bytes), one after the other, at `position`, which is at most `size()`.

        Raises: DiskFull when they do not fit: none of their bytes count, and the file has its old length. StorageError:
        the device failed and the file is in doubt. ValueError for a position behind the end.
        """

    def truncate(self, size: int) -> None:
        """Cut the file at `size`. An equal size leaves it untouched (its mtime counts), a larger is a ValueError."""

    def allocate(self, size: int) -> None:
        """Reserve space, so that writing up to `size` cannot meet a full disk and a sync need not change the length.

        `size()` stays the same. A cut, or a write that failed, gives the reserve up. A file system that cannot reserve
        does nothing. Raises DiskFull, and nothing has changed then.
        """

    def trim(self) -> None:
        """Give back the reserve behind `size()`. A file without a reserve is not touched (its mtime counts)."""

    def sync(self) -> None:
        """Return when every byte written before the call is durable, and the file's length with it (fdatasync).

        Without a write since the last sync there is no system call. Raises StorageError when the sync fails, and from
        then on always: the system never reports again what a failed sync dropped (reliability R2).
        """

    def view(self) -> memoryview:
        """The whole file as it is now, read-only: a map for an owner. Only for files that are never cut any more."""

    def close(self) -> None:
        """Give up the handle, and the reserve behind `size()`. Later use raises Closed; closing twice is fine.

        Does not sync. A pinned file can still be read and sent.
        """


class Files(Protocol):
    """A tree of files and directories."""

    @property
    def read_only(self) -> bool:
        """Whether every call that would change something raises ReadOnly."""

    def make_dir(self, path: str) -> None:
        """Make the directory and its missing parents, each durable before the call returns. Fine if it exists."""

    def list_dir(self, path: str) -> list[str]:
        """The names in a directory, sorted."""

    def stat(self, path: str) -> FileStat | None:
        """The state of `path`; None when nothing is there. Raises StorageError unless it is a file or a directory."""

    def read_file(self, path: str, bytes_max: int = SMALL_BYTES_MAX) -> bytes:
        """A whole file. Raises StorageError, without reading it, where the file is larger than `bytes_max`."""

    def replace_file(self, path: str, data: bytes) -> None:
        """Put a file with exactly `data` at `path`, atomically and durably.

        `.tmp`, fsync, rename, fsync of the directory (Kafka's CheckpointFile).
        """

    def open(self, path: str, *, create: bool = False, kept: bool = False) -> File:
        """A handle on a file. `create` makes a missing file (and the caller syncs the directory).

        `kept`: the file is always needed, so its descriptor stays open until `close`.
        """

    def rename(self, source: str, target: str) -> None:
        """Rename a file (over an existing one) or a directory. Durable after `sync_dir`."""

    def remove(self, path: str) -> None:
        """Remove a file. Open handles may go on reading or raise LogNotFound."""

    def remove_dir(self, path: str) -> None:
        """Remove a directory with everything in it."""

    def set_modified(self, path: str, mtime_ns: int) -> None:
        """Set the time of the last change of a file or a directory, as exactly as the file system keeps it."""

    def sync_dir(self, path: str) -> None:
        """Make the names in a directory durable."""

    def make_private(self, path: str) -> None:
        """Keep other users out of a directory, and of all files in it, durably. Raises ReadOnly (it is another user's),
        StorageError.
        """

    def watch(self, path: str) -> Watch | None:
        """A watch of writes in the directory `path` from now on; None where the system has none to give."""

    def incarnation(self, path: str) -> str | None:
        """Where the file at `path` stands between two power cuts: a text that is the same later where it is that very
        file, and nothing that was written to its file system since can be lost. None where that cannot be told.
        """

    def lock(self, path: str, text: str) -> DirectoryLock:
        """Take the exclusive lock on the file `path` (made if missing, never removed) and write pid and `text` into it.

        Raises: DirectoryLocked with the owner's pid, also when this process holds the lock already.
        """


def join(parent: str, name: str) -> str:
    """`parent/name`; an empty parent is the current directory."""
    if not parent:
        return name
    return parent + name if parent.endswith("/") else f"{parent}/{name}"


def typed_error(error: OSError, doing: str, path: str) -> StorageError:
    """The StorageError for an OSError of an operation (`doing`, a verb) on `path`."""
    what = f"cannot {doing} {path}: {error.strerror or error}"
    code = error.errno
    if code in _FULL:
        return DiskFull(f"{what}. Free some space (or raise the quota or file size limit) and try again")
    if code in _DENIED:
        return ReadOnly(f"{what}. Check the permissions, and whether the file system is mounted read-only")
    if code == errno.ENOENT:
        return LogNotFound(f"{what}. Check the path")
    if code in (errno.ENOTDIR, errno.EEXIST):
        return StorageError(f"{what}. There is a file where a directory should be: move it away or choose another path")
    if code == errno.EISDIR:
        return StorageError(f"{what}. There is a directory where a file should be: move it away or choose another path")
    if code in (errno.EMFILE, errno.ENFILE):
        return StorageError(f"{what}. Raise `ulimit -n`, or lower max_open_files")
    if code == errno.ELOOP:
        return StorageError(f"{what}. Remove the symbolic link")
    if code == errno.ENAMETOOLONG:
        return StorageError(f"{what}. Choose another path")
    if code == errno.ENXIO:
        return irregular(path)
    return StorageError(f"{what}. Check the device and the kernel's log before opening this log again")


def unsynced_error(error: OSError, path: str) -> StorageError:
    """The StorageError for a sync that failed: never DiskFull, which would say that nothing was written."""
    typed = typed_error(error, "sync", path)
    return StorageError(str(typed)) if isinstance(typed, DiskFull) else typed


def too_large(path: str, size: int, bytes_max: int) -> StorageError:
    """The error for a file of `size` bytes that cannot have more than `bytes_max`."""
    return StorageError(
        f"{path} has {size} bytes, and such a file has {bytes_max} at most: it is damaged, or another file. Move it "
        "away, and put it back from a replica or a backup"
    )


def replaced(path: str) -> DirectoryReplaced:
    """The error for an open log in whose directory another file, or none, is at `path`."""
    return DirectoryReplaced(
        f"{path} is not the file any more that this log has opened: its directory was removed, or another one is in "
        "its place. Close this log, and open it again to go on with the files that are there now"
    )


def refuse_write(doing: str, path: str) -> ReadOnly:
    """The error for a change through files that were opened for reading."""
    return ReadOnly(f"cannot {doing} {path}: this log was opened for reading; open it with mode='own' to change it")


def locked_error(path: str, pid: int | None, heir: int | None = None) -> DirectoryLocked:
    """The error for a lock that process `pid` has; None when it has not written its pid yet. `heir`: that one has
    ended, and a process that was forked from it has the lock.
    """
    if heir is not None:
        return DirectoryLocked(
            f"cannot lock {path}: process {pid}, which owned this log directory, has ended, and process {heir}, which "
            "was forked from it by other code than Python's, still has its lock: end that process",
            heir, is_left=True,
        )  # fmt: skip
    owner = "another process" if pid is None else f"process {pid}"
    return DirectoryLocked(
        f"cannot lock {path}: {owner} owns this log directory. Close the log there, "
        "or open it with mode='auto' to share it, or with mode='read' to read beside it",
        pid,
    )
