"""Files of the system beside a log: certificates, and the files of Unix sockets."""

import os
import stat
from collections.abc import Iterable

__all__ = ["FileId", "file_id", "is_socket", "make_private", "remove_socket", "versions"]

FileId = tuple[int, int, int]
"""The device, the number and the last change of a file: another one of its name may get its number."""


def versions(paths: Iterable[str]) -> tuple[tuple[int, ...] | None, ...]:
    """A value that changes when one of these files does; None for a file that is not there."""
    found: list[tuple[int, ...] | None] = []
    for path in paths:
        try:
            status = os.stat(path)
        except OSError:
            found.append(None)
        else:
            found.append((status.st_mtime_ns, status.st_size, status.st_ino, status.st_dev))
    return tuple(found)


def is_socket(path: str) -> bool:
    """Whether there is a Unix socket; False where there is nothing. Raises FileExistsError: there is something else."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return False
    if not stat.S_ISSOCK(status.st_mode):
        raise FileExistsError(17, "there is a file of that name already, and it is no socket", path)
    return True


def make_private(path: str) -> None:
    """Let nobody but the owner of a file use it: mode 0600."""
    os.chmod(path, stat.S_IRUSR | stat.S_IWUSR)


def file_id(path: str) -> FileId:
    """The identity of a file. Raises FileNotFoundError."""
    status = os.lstat(path)
    return status.st_dev, status.st_ino, status.st_ctime_ns


def remove_socket(path: str, known: FileId | None = None) -> None:
    """Remove a socket, if it is there, and is the `known` one."""
    try:
        if known is None or file_id(path) == known:
            os.unlink(path)
    except FileNotFoundError:
        return
