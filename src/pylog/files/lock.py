"""The lock that makes one process the owner of a log directory.

A `flock` on a file that holds the owner's pid on its first line and a text on the second, and one on its directory. The
owner may write another text. Invariants:

- the kernel frees the lock when the process ends, however it ends; no time-out ever steals it from a slow owner;
- the mode of the file is 0600, because each user who can open a file can lock it, and keep the owner out. Readers can
  open the directory, so a lock of the directory counts only for users who can own a log in it;
- the file is never unlinked here. Where a cleaner that removes old files unlinks it, the lock of the directory keeps a
second
  owner out; systemd-tmpfiles leaves the files of a locked directory alone;
- the lock belongs to the open file, so a second `FileLock` of the same process is refused as well;
- a forked child closes the locks it inherited, or it would keep its parent's directory locked. One that other code than
  Python's forks does not: a close frees the lock for all copies of the descriptor, and where the owner was killed the
  error names the child.
"""

import fcntl
import logging
import os
import stat
import weakref

from pylog.errors import StorageError
from pylog.files.processes import heir_of, is_gone, lock_holders
from pylog.files.protocol import locked_error, typed_error
from pylog.files.regular import OTHERS, Identity, identity_of, is_at, open_regular
from pylog.runtime.forking import is_stray, undivided

logger = logging.getLogger("pylog.files")

PRIVATE_MODE = 0o600


class FileLock:
    """The exclusive lock on the file `path`, from now until `close`.

    Raises: DirectoryLocked with the pid of the process that has it, ReadOnly, LogNotFound, StorageError.
    """

    __slots__ = ("__weakref__", "_descriptor", "_directory", "_identity", "_path", "_size")

    def __init__(self, path: str, text: str) -> None:
        self._path = path
        content = _content(text)
        self._size = len(content)
        with undivided:
            self._descriptor, self._directory, self._identity = _take(path, content)
            _held.add(self)

    def is_in_place(self) -> bool:
        """Whether the path still leads to the locked file."""
        try:
            return is_at(self._path, self._identity)
        except OSError as error:
            raise typed_error(error, "stat the lock", self._path) from error

    def write(self, text: str) -> None:
        """Put another text in the place of the second line. Raises StorageError."""
        content = _content(text)
        try:
            # After `close` the number belongs to another file.
            with undivided:
                os.pwrite(self._descriptor, content, 0)
                if len(content) < self._size:
                    os.ftruncate(self._descriptor, len(content))
                self._size = len(content)
        except OSError as error:
            raise typed_error(error, "write into the lock", self._path) from error

    def close(self) -> None:
        """Release the lock, even if another process has a copy of its descriptor; the text in the file stays."""
        with undivided:
            try:
                for descriptor in (self._descriptor, self._directory):
                    if descriptor >= 0 and not is_stray():
                        fcntl.flock(descriptor, fcntl.LOCK_UN)
            finally:
                self.abandon()

    def abandon(self) -> None:
        """Close the descriptors in a forked child: the locks are its parent's."""
        held, self._descriptor, self._directory = (self._descriptor, self._directory), -1, -1
        for descriptor in held:
            if descriptor >= 0:
                os.close(descriptor)


_held: weakref.WeakSet[FileLock] = weakref.WeakSet()


def close_inherited() -> None:
    """Close every lock of this process: the first step of a forked child."""
    # Closing the child's copy does not release the parent's lock: the lock lives as long as any copy is open.
    for lock in list(_held):
        lock.abandon()


os.register_at_fork(after_in_child=close_inherited)


def _content(text: str) -> bytes:
    return f"{os.getpid()}\n{text}\n".encode()


def _take(path: str, content: bytes) -> tuple[int, int, Identity]:
    try:
        # Not by a link: the file it leads to would lose what it has.
        descriptor, found = open_regular(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, PRIVATE_MODE)
    except OSError as error:
        raise typed_error(error, "open the lock", path) from error
    directory = -1
    try:
        if found.st_mode & OTHERS and found.st_uid == os.geteuid():
            # A copy that was restored has the mode that its copier gave it.
            os.fchmod(descriptor, PRIVATE_MODE)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _require_effect(path)
        directory = _take_directory(path)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, content, 0)
    except BlockingIOError as error:
        pid = _owner_pid(os.pread(descriptor, 64, 0))
        heir = heir_of(descriptor) if pid is not None and is_gone(pid) else None
        os.close(descriptor)
        raise locked_error(path, pid, heir) from error
    except OSError as error:
        for one in filter(lambda one: one >= 0, (descriptor, directory)):
            os.close(one)
        raise typed_error(error, "lock", path) from error
    except StorageError:
        os.close(descriptor)
        raise
    return descriptor, directory, identity_of(found)


def _take_directory(path: str) -> int:
    """A descriptor of the locked directory of the lock at `path`; -1 where the file system locks no directories, or a
    user who can own no log there has locked it.

    Raises DirectoryLocked, OSError.
    """
    folder = os.path.dirname(path) or os.curdir
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        try:
            strangers = _strangers(os.fstat(descriptor))
        finally:
            os.close(descriptor)
        if not strangers:
            raise locked_error(folder, None) from error
        logger.warning("%s is locked by process %d of another user, which cannot own a log there", folder, strangers[0])
        return -1
    except OSError:
        # NFS locks only what is open for writing.
        os.close(descriptor)
        return -1
    return descriptor


def _strangers(directory: os.stat_result) -> list[int]:
    """The processes that have the lock of a directory, where each is of a user who may not write there."""
    found = lock_holders(directory)
    may_write = {0, directory.st_uid, os.geteuid()}
    is_shared = bool(directory.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    return [] if is_shared or any(user in may_write for _, user in found) else [pid for pid, _ in found]


def _require_effect(path: str) -> None:
    """Raise StorageError where a second descriptor gets the lock, too: some mounts let everybody have it."""
    second, _ = open_regular(path, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    finally:
        os.close(second)
    raise StorageError(
        f"{path} cannot be locked: the file system lets two descriptors have the lock (flock) at once, so it protects "
        "the log from no other process. Put the log on a local file system, or mount this one with locks"
    )


def _owner_pid(content: bytes) -> int | None:
    first = content.split(b"\n", 1)[0]
    return int(first) if first.isdigit() else None
