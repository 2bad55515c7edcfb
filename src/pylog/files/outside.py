"""Files of the system beside a log: certificates, the files of Unix sockets, and a directory for these."""

import os
import stat
from collections.abc import Iterable

__all__ = [
    "FileId", "file_id", "is_read_only", "is_socket", "make_private", "place_of", "remove_socket", "runtime_dir",
    "versions",
]  # fmt: skip

TEMPORARY = "/tmp"
FileId = tuple[int, int]
"""The device and the inode number of a file. The number may be given again when the file is removed and closed."""


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


def file_id(path: str) -> FileId | None:
    """The identity of a file; None: there is no file. Raises OSError."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino


def place_of(path: str) -> tuple[int, int]:
    """The device and the number of a directory, whatever its path, or (0, 0)."""
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0
    return status.st_dev, status.st_ino


def remove_socket(path: str) -> None:
    """Remove a socket, if it is there. Raises OSError."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def runtime_dir() -> str:
    """A directory of this user alone, for sockets: in XDG_RUNTIME_DIR, or else where temporary files lie.

    Raises OSError: it belongs to another user, or others can write into it.
    """
    given = os.environ.get("XDG_RUNTIME_DIR")
    path = (
        os.path.join(given, "pylog")
        if given
        else os.path.join(os.environ.get("TMPDIR") or TEMPORARY, f"pylog-{os.getuid()}")
    )
    try:
        os.mkdir(path, stat.S_IRWXU)
    except FileExistsError:
        status = os.lstat(path)
        is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
        if not is_own or status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise PermissionError(1, "it is not a directory of this user alone", path) from None
    return path


def is_read_only(path: str) -> bool:
    """Whether the file system that `path` lies on is mounted read-only; False where there is nothing."""
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False
