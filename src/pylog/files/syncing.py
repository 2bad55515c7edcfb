"""The system calls that make writes durable: of a file's data, and of a file or a directory as a whole.

macOS: `fsync` hands the bytes to the drive, which may keep them in its cache; only `F_FULLFSYNC` waits until they would
survive a power cut. Where a file system does not know it (of a network, or of another system), `fsync` has to do. The
twin in C is in `kernel.compiled.open_file`.
"""

import errno
import fcntl
import os

FULL = getattr(fcntl, "F_FULLFSYNC", None)
_NOT_KNOWN = frozenset({errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOTTY})

_fdatasync = getattr(os, "fdatasync", os.fsync)


def sync_data(descriptor: int, command: int | None = FULL) -> None:
    """Make the bytes of a file durable, and its length. Raises OSError."""
    if command is None or not _told(descriptor, command):
        _fdatasync(descriptor)


def sync_all(descriptor: int, command: int | None = FULL) -> None:
    """Make a file or a directory durable as a whole. Raises OSError."""
    if command is None or not _told(descriptor, command):
        os.fsync(descriptor)


def _told(descriptor: int, command: int) -> bool:
    """Whether the drive itself has confirmed that all is durable."""
    try:
        fcntl.fcntl(descriptor, command)
    except OSError as error:
        if error.errno not in _NOT_KNOWN:
            raise
        return False
    return True
