"""Opening regular files, and nothing else.

A directory that was restored, mounted or prepared by hand may have anything under the name of a file: a FIFO, whose
open waits for a writer; a device that never ends; a socket. An open here never waits, and what it has opened must be a
regular file. Symbolic links are followed, as Kafka follows them; a lock is not taken by one (`lock`).
"""

import errno
import os
import stat

from pylog.errors import StorageError

CREATE_MODE = 0o644
OTHERS = stat.S_IRWXG | stat.S_IRWXO
"""The rights of all but a file's owner."""

_WITHOUT_WAITING = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_KINDS = {
    stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}  # fmt: skip


Identity = tuple[int, int]
"""The identity of a file, whatever its name: its device, and its inode there."""


def open_regular(path: str, flags: int, mode: int = CREATE_MODE) -> tuple[int, os.stat_result]:
    """The descriptor of the regular file at `path`, and its stat. `mode`: that of a file that is made.

    Raises OSError as `os.open` does (EISDIR for a directory, too), StorageError for anything but a regular file.
    """
    descriptor = os.open(path, flags | _WITHOUT_WAITING, mode)
    try:
        found = os.fstat(descriptor)
        kind = stat.S_IFMT(found.st_mode)
        if kind == stat.S_IFDIR:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if kind != stat.S_IFREG:
            raise irregular(path, kind)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, found


def identity_of(found: os.stat_result) -> Identity:
    """The identity of the file with this stat."""
    return found.st_dev, found.st_ino


def is_at(path: str, identity: Identity) -> bool:
    """Whether `path` leads to this file. Raises OSError where that cannot be known."""
    try:
        return identity_of(os.stat(path)) == identity
    except (FileNotFoundError, NotADirectoryError):
        return False


def irregular(path: str, kind: int = 0) -> StorageError:
    """The error for a thing of that kind (of a mode, by `stat`; 0: not known) that lies where a file should be."""
    what = _KINDS.get(kind, "a socket, a FIFO or a device")
    return StorageError(
        f"{path} is {what}, and a file should be there: move it away, and put the file back from a replica or a backup"
    )
