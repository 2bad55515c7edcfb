"""Files on a local file system.

    DiskFiles ── Descriptors (one LRU of open descriptors, and the kept ones; one lock)
        └─ DiskFile: path, logical size, descriptor or -1

When more than `max_open` descriptors are open, the least recently used one that is not in use is closed and opened
again when it is needed: a thousand partitions fit into a small descriptor budget.
"""

import os
import resource
import shutil
import stat

from pylog.files.descriptors import Descriptors
from pylog.files.disk_file import DiskFile
from pylog.files.incarnation import incarnation
from pylog.files.lock import FileLock
from pylog.files.protocol import (
    SMALL_BYTES_MAX,
    DirectoryLock,
    File,
    FileStat,
    refuse_write,
    too_large,
    typed_error,
    unsynced_error,
)
from pylog.files.regular import OTHERS, irregular, open_regular
from pylog.files.syncing import sync_all
from pylog.files.watch import Watch, watch


class DiskFiles:
    """A local file system, through at most `max_open` descriptors: more only while more are in use at one moment, and
    for files that are opened to be kept.

    The limit is half of what the process may open: the rest is for directories, sockets and the program around the log.
    """

    def __init__(self, max_open: int = 256, read_only: bool = False) -> None:
        if max_open < 1:
            raise ValueError(f"max_open must be at least 1, not {max_open}")
        self.read_only = read_only
        allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if allowed != resource.RLIM_INFINITY:  # pragma: no branch  (Linux always has a limit, macOS may have none)
            max_open = min(max_open, max(1, allowed // 2))
        self._descriptors = Descriptors(max_open)

    def make_dir(self, path: str) -> None:
        missing: list[str] = []
        current = path
        while current and not os.path.isdir(current):
            missing.append(current)
            current = os.path.dirname(current.rstrip("/"))
        if missing:
            self._check_writable("make the directory", path)
        try:
            for directory in reversed(missing):
                try:
                    os.mkdir(directory)
                except FileExistsError:
                    # Another process may have made it just now; a file of that name is an error.
                    if not os.path.isdir(directory):
                        raise
                self._sync_path(os.path.dirname(directory.rstrip("/")) or ".")
        except OSError as error:
            raise typed_error(error, "make the directory", path) from error

    def list_dir(self, path: str) -> list[str]:
        try:
            return sorted(self._descriptors.spared(lambda: os.listdir(path or ".")))
        except OSError as error:
            raise typed_error(error, "list", path) from error

    def stat(self, path: str) -> FileStat | None:
        try:
            found = os.stat(path or ".")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise typed_error(error, "stat", path) from error
        kind = found.st_mode & 0o170000
        if kind != 0o100000 and kind != 0o040000:
            raise irregular(path, kind)
        return FileStat(found.st_size, found.st_mtime_ns, kind == 0o040000)

    def read_file(self, path: str, bytes_max: int = SMALL_BYTES_MAX) -> bytes:
        try:
            return self._descriptors.spared(lambda: _read(path, bytes_max))
        except OSError as error:
            raise typed_error(error, "read", path) from error

    def replace_file(self, path: str, data: bytes) -> None:
        self._check_writable("replace", path)
        try:
            self._descriptors.spared(lambda: _put(path, data))
        except OSError as error:
            raise typed_error(error, "replace", path) from error
        self.sync_dir(os.path.dirname(path) or ".")

    def open(self, path: str, *, create: bool = False, kept: bool = False) -> File:
        if create and self.read_only and self.stat(path) is None:
            raise refuse_write("create", path)
        creates = create and not self.read_only
        return DiskFile(self._descriptors, path, read_only=self.read_only, create=creates, kept=kept)

    def rename(self, source: str, target: str) -> None:
        self._check_writable("rename", source)
        try:
            self._descriptors.rename(source, target)
        except OSError as error:
            raise typed_error(error, f"rename to {target} the file", source) from error

    def remove(self, path: str) -> None:
        self._check_writable("remove", path)
        try:
            os.unlink(path)
        except OSError as error:
            raise typed_error(error, "remove", path) from error

    def remove_dir(self, path: str) -> None:
        self._check_writable("remove", path)
        try:
            self._descriptors.spared(lambda: shutil.rmtree(path))
        except OSError as error:
            raise typed_error(error, "remove", path) from error

    def set_modified(self, path: str, mtime_ns: int) -> None:
        self._check_writable("set the time of", path)
        try:
            os.utime(path, ns=(mtime_ns, mtime_ns))
        except OSError as error:
            raise typed_error(error, "set the time of", path) from error

    def make_private(self, path: str) -> None:
        self._check_writable("change the mode of", path)
        try:
            if stat.S_IMODE(os.stat(path).st_mode) & OTHERS:
                os.chmod(path, stat.S_IRWXU)
        except OSError as error:
            raise typed_error(error, "keep other users out of", path) from error
        self.sync_dir(path)

    def sync_dir(self, path: str) -> None:
        self._check_writable("sync", path)
        try:
            self._sync_path(path or ".")
        except OSError as error:
            raise unsynced_error(error, path) from error

    def watch(self, path: str) -> Watch | None:
        return watch(path)

    def incarnation(self, path: str) -> str | None:
        return incarnation(path)

    def lock(self, path: str, text: str) -> DirectoryLock:
        self._check_writable("lock", path)
        return FileLock(path, text)

    def _check_writable(self, doing: str, path: str) -> None:
        if self.read_only:
            raise refuse_write(doing, path)

    def _sync_path(self, path: str) -> None:
        self._descriptors.spared(lambda: _sync_dir(path))


def _read(path: str, bytes_max: int) -> bytes:
    # `open` would ask more of the kernel and take twice the time.
    descriptor, found = open_regular(path, os.O_RDONLY)
    size = found.st_size
    try:
        if size > bytes_max:
            raise too_large(path, size, bytes_max)
        return os.read(descriptor, size)
    finally:
        os.close(descriptor)


def _put(path: str, data: bytes) -> None:
    temporary = path + ".tmp"
    try:
        with open(temporary, "wb", opener=_opener) as target:
            target.write(data)
            target.flush()
            sync_all(target.fileno())
        os.replace(temporary, path)
    except BaseException:
        if os.path.isfile(temporary):
            os.unlink(temporary)
        raise


def _opener(path: str, flags: int) -> int:
    return open_regular(path, flags | os.O_NOFOLLOW)[0]


def _sync_dir(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync_all(descriptor)
    finally:
        os.close(descriptor)
