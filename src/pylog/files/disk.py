"""Files on a local file system.

    DiskFiles ── _Descriptors (one LRU of open descriptors, one lock)
        └─ DiskFile: path, logical size, descriptor or -1

A `DiskFile` opens its descriptor on first use. When more than `max_open` are open, the least recently used one that is
not in use is closed and opened again when it is needed: a thousand partitions fit into a small descriptor budget.

Invariants:
- a descriptor is closed only while no call uses it (pins, counted under the lock);
- a map needs a descriptor as well: what is small is copied instead, and so is the rest when half of the budget is maps;
- with `read_only` nothing is opened for writing and nothing is mapped: another process may cut the file, and touching
  a map behind the end of a file kills the process;
- after a failed sync a file takes no more writes and no more syncs.
"""

import errno
import mmap
import os
import resource
import shutil
import threading
import weakref
from collections import OrderedDict

from pylog.errors import Closed, StorageError
from pylog.files.lock import FileLock
from pylog.files.protocol import File, FileStat, Lock, refuse_write, typed_error

_IOV_MAX = 1024
_CREATE_MODE = 0o644
_COPY_BYTES_MAX = 1 << 16
_fdatasync = getattr(os, "fdatasync", os.fsync)


class _Descriptors:
    """Which files have a descriptor open, least recently used first."""

    def __init__(self, max_open: int) -> None:
        self.max_open = max_open
        self.lock = threading.Lock()
        self.recent: OrderedDict[DiskFile, None] = OrderedDict()
        # Each map keeps a descriptor of its own until nobody looks at it any more.
        self.maps: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()

    def __del__(self) -> None:
        # A log that was dropped without a close must not keep its descriptors for the life of the process.
        for file in self.recent:
            os.close(file.descriptor)

    def evict(self, allowed: int) -> None:
        """Close unused descriptors, oldest first, until `allowed` are open. The lock is held."""
        surplus = len(self.recent) + len(self.maps) - allowed
        if surplus <= 0:
            return
        idle = [file for file in self.recent if file.pins == 0][:surplus]
        for file in idle:
            del self.recent[file]
            os.close(file.descriptor)
            file.descriptor = -1


class DiskFile:
    """One file: what `protocol.File` says."""

    __slots__ = (
        "__weakref__", "_closed", "_descriptors", "_failed", "_size", "_synced", "_writes", "descriptor", "path",
        "pins", "read_only",
    )  # fmt: skip

    def __init__(self, descriptors: _Descriptors, path: str, *, read_only: bool, create: bool) -> None:
        self.path = path
        self.read_only = read_only
        self.descriptor = -1
        self.pins = 0
        self._descriptors = descriptors
        self._closed = False
        self._failed: str | None = None
        # Bytes that an earlier, killed process left in the page cache count as not synced.
        self._writes, self._synced = 1, 0
        descriptor = self._pin(os.O_CREAT if create else 0)
        try:
            self._size = os.fstat(descriptor).st_size
        finally:
            self._unpin()

    def _pin(self, flags: int = 0) -> int:
        """The descriptor, opened if need be, and safe from being closed until `_unpin`."""
        descriptors = self._descriptors
        with descriptors.lock:
            if self.descriptor < 0:
                self._open(flags)
            else:
                descriptors.recent.move_to_end(self)
            self.pins += 1
            return self.descriptor

    def _open(self, flags: int) -> None:
        if self._closed:
            raise Closed(f"{self.path} is closed; open the log again")
        descriptors = self._descriptors
        flags |= os.O_CLOEXEC | (os.O_RDONLY if self.read_only else os.O_RDWR)
        descriptors.evict(descriptors.max_open - 1)
        try:
            try:
                self.descriptor = os.open(self.path, flags, _CREATE_MODE)
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE):
                    raise
                # The process has fewer descriptors left than our budget: give half of ours back.
                descriptors.evict(len(descriptors.maps) + len(descriptors.recent) // 2)
                self.descriptor = os.open(self.path, flags, _CREATE_MODE)
        except OSError as error:
            raise typed_error(error, "open", self.path) from error
        descriptors.recent[self] = None

    def _unpin(self) -> None:
        with self._descriptors.lock:
            self.pins -= 1
            if self._closed and self.pins == 0:
                self._release()

    def _release(self) -> None:
        if self.descriptor >= 0:
            self._descriptors.recent.pop(self, None)
            os.close(self.descriptor)
            self.descriptor = -1

    def size(self) -> int:
        if self.read_only:
            descriptor = self._pin()
            try:
                return os.fstat(descriptor).st_size
            except OSError as error:
                raise typed_error(error, "stat", self.path) from error
            finally:
                self._unpin()
        return self._size

    def read(self, position: int, size: int) -> bytes:
        descriptor = self._pin()
        try:
            return os.pread(descriptor, size, position)
        except OSError as error:
            raise typed_error(error, f"read {size} bytes at position {position} of", self.path) from error
        finally:
            self._unpin()

    def write(self, position: int, *buffers: bytes | bytearray | memoryview) -> None:
        self._check_writable("write to", position)
        descriptor = self._pin()
        try:
            self._write(descriptor, position, buffers)
        finally:
            self._unpin()

    def _write(self, descriptor: int, position: int, buffers: tuple[bytes | bytearray | memoryview, ...]) -> None:
        end = position + sum(map(len, buffers))
        try:
            written = os.pwritev(descriptor, buffers[:_IOV_MAX], position)
            if position + written != end:
                _write_rest(descriptor, position, buffers, written)
        except OSError as error:
            self._roll_back(descriptor)
            raise typed_error(error, f"write {end - position} bytes at position {position} of", self.path) from error
        except BaseException:
            # A signal's exception between two system calls: the file must not keep half of a write.
            self._roll_back(descriptor)
            raise
        if end > self._size:
            self._size = end
        self._writes += 1

    def _roll_back(self, descriptor: int) -> None:
        """Give the file the length it had before a failed write."""
        try:
            if os.fstat(descriptor).st_size != self._size:
                os.ftruncate(descriptor, self._size)
        except OSError as error:
            self._failed = f"a failed write could not be undone ({error.strerror})"
            raise StorageError(
                f"{self.path}: {self._failed}; bytes behind position {self._size} are in doubt. "
                "Close the log and open it again"
            ) from error

    def _check_writable(self, doing: str, position: int) -> None:
        if self.read_only:
            raise refuse_write(doing, self.path)
        if self._failed is not None:
            raise StorageError(f"{self.path}: {self._failed}; close the log and open it again")
        if not 0 <= position <= self._size:
            raise ValueError(f"cannot {doing} {self.path} at position {position}: it has {self._size} bytes")

    def truncate(self, size: int) -> None:
        self._check_writable("truncate", size)
        if size == self._size:
            return
        descriptor = self._pin()
        try:
            os.ftruncate(descriptor, size)
            self._size = size
            self._writes += 1
        except OSError as error:
            raise typed_error(error, f"cut at position {size}", self.path) from error
        finally:
            self._unpin()

    def sync(self) -> None:
        self._check_writable("sync", 0)
        target = self._writes
        if self._synced >= target:
            return
        descriptor = self._pin()
        try:
            _fdatasync(descriptor)
        except OSError as error:
            self._failed = f"an earlier sync failed ({error.strerror}), and what it lost cannot be known"
            # Never DiskFull: that would say that nothing was written.
            raise StorageError(
                f"cannot sync {self.path}: {error.strerror}. Check the device and the kernel's log"
            ) from error
        finally:
            self._unpin()
        self._synced = max(self._synced, target)

    def view(self) -> memoryview:
        if self.read_only:
            return memoryview(self.read(0, self.size()))
        descriptors = self._descriptors
        if self._size <= _COPY_BYTES_MAX or len(descriptors.maps) >= descriptors.max_open // 2:
            return memoryview(self.read(0, self._size))
        descriptor = self._pin()
        try:
            mapped = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
            with descriptors.lock:
                descriptors.maps.add(mapped)
            return memoryview(mapped)
        except OSError as error:
            raise typed_error(error, "map", self.path) from error
        finally:
            self._unpin()

    def close(self) -> None:
        with self._descriptors.lock:
            self._closed = True
            if self.pins == 0:
                self._release()


def _write_rest(
    descriptor: int, position: int, buffers: tuple[bytes | bytearray | memoryview, ...], written: int
) -> None:
    """Go on where a short write stopped. The kernel says why it was short when it is asked to go on."""
    skip = written
    for start in range(0, len(buffers), _IOV_MAX):
        rest = []
        for buffer in buffers[start : start + _IOV_MAX]:
            taken = min(skip, len(buffer))
            skip -= taken
            if taken < len(buffer):
                rest.append(memoryview(buffer)[taken:])
        while rest:
            count = os.pwritev(descriptor, rest, position + written)
            if count == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            written += count
            while rest and count >= len(rest[0]):
                count -= len(rest.pop(0))
            if rest:
                rest[0] = rest[0][count:]


class DiskFiles:
    """A local file system, through at most `max_open` descriptors (more only while more are in use at one moment).

    Never more than half of what the process may open: the rest is for directories, sockets and whoever we live with.
    """

    def __init__(self, max_open: int = 256, read_only: bool = False) -> None:
        if max_open < 1:
            raise ValueError(f"max_open must be at least 1, not {max_open}")
        self.read_only = read_only
        allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if allowed != resource.RLIM_INFINITY:
            max_open = min(max_open, max(1, allowed // 2))
        self._descriptors = _Descriptors(max_open)
        self._open_files: weakref.WeakSet[DiskFile] = weakref.WeakSet()

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
            return sorted(os.listdir(path or "."))
        except OSError as error:
            raise typed_error(error, "list", path) from error

    def stat(self, path: str) -> FileStat | None:
        try:
            found = os.stat(path or ".")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise typed_error(error, "stat", path) from error
        is_dir = (found.st_mode & 0o170000) == 0o040000
        return FileStat(found.st_size, found.st_mtime_ns // 1_000_000, is_dir)

    def read_file(self, path: str) -> bytes:
        try:
            with open(path, "rb") as source:
                return source.read()
        except OSError as error:
            raise typed_error(error, "read", path) from error

    def replace_file(self, path: str, data: bytes) -> None:
        self._check_writable("replace", path)
        temporary = path + ".tmp"
        try:
            try:
                with open(temporary, "wb") as target:
                    target.write(data)
                    target.flush()
                    os.fsync(target.fileno())
                os.replace(temporary, path)
            except BaseException:
                if os.path.isfile(temporary):
                    os.unlink(temporary)
                raise
            self._sync_path(os.path.dirname(path) or ".")
        except OSError as error:
            raise typed_error(error, "replace", path) from error

    def open(self, path: str, *, create: bool = False) -> File:
        if create and self.read_only and self.stat(path) is None:
            raise refuse_write("create", path)
        file = DiskFile(self._descriptors, path, read_only=self.read_only, create=create and not self.read_only)
        self._open_files.add(file)
        return file

    def rename(self, source: str, target: str) -> None:
        self._check_writable("rename", source)
        try:
            os.replace(source, target)
        except OSError as error:
            raise typed_error(error, f"rename to {target} the file", source) from error
        for file in list(self._open_files):
            if file.path == source:
                file.path = target
            elif file.path.startswith(source + "/"):
                file.path = target + file.path[len(source) :]

    def remove(self, path: str) -> None:
        self._check_writable("remove", path)
        try:
            os.unlink(path)
        except OSError as error:
            raise typed_error(error, "remove", path) from error

    def remove_dir(self, path: str) -> None:
        self._check_writable("remove", path)
        try:
            shutil.rmtree(path)
        except OSError as error:
            raise typed_error(error, "remove", path) from error

    def sync_dir(self, path: str) -> None:
        self._check_writable("sync", path)
        try:
            self._sync_path(path or ".")
        except OSError as error:
            raise typed_error(error, "sync", path) from error

    def lock(self, path: str, text: str) -> Lock:
        self._check_writable("lock", path)
        return FileLock(path, text)

    def _check_writable(self, doing: str, path: str) -> None:
        if self.read_only:
            raise refuse_write(doing, path)

    @staticmethod
    def _sync_path(path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
