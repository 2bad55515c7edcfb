"""One file on a local file system, as `protocol.File` describes it.

    0                    logical size              reserved
    [ what was written   )[ zeros, from `allocate` )        no read goes behind the logical size, `trim` cuts there

A `DiskFile` opens its descriptor on first use, and may lose it whenever no call uses it (`Descriptors`); one that is
`kept` has it from the beginning to the end.

Invariants:
- with `read_only` nothing is opened for writing and nothing is mapped: another process may cut the file, and touching a
  map behind the end of a file kills the process;
- a small file is copied instead of mapped, and so is every other one while half of the budget is maps;
- the reserved part has no bytes that were ever written: a cut is made on the disk and takes the reserve with it;
- after a failed sync a file takes no more writes and no more syncs;
- a descriptor stays open as long as the file is pinned, even when the file is closed or removed.

EINTR never shows: the calls of `os` try again by themselves (PEP 475), `posix_fallocate` and `pwritev` too.
"""

import errno
import mmap
import os
from contextlib import suppress
from typing import NoReturn

from pylog.errors import Closed, LogNotFound, StorageError
from pylog.files.descriptors import Descriptors
from pylog.files.protocol import refuse_write, typed_error
from pylog.files.regular import Identity, is_at
from pylog.files.syncing import sync_data
from pylog.kernel import OpenFile

_IOV_MAX = 1024
_COPY_BYTES_MAX = 1 << 16
_CANNOT_RESERVE = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.ENODEV})
_fallocate = getattr(os, "posix_fallocate", None)


class DiskFile(OpenFile):
    """One file, as `protocol.File` describes it."""

    __slots__ = ("_descriptors", "_name", "identity", "is_kept")

    def __init__(
        self, descriptors: Descriptors, path: str, *, read_only: bool, create: bool = False, kept: bool = False
    ) -> None:
        self._name = descriptors.name(path)
        self.read_only = read_only
        self.is_kept = kept
        self.descriptor = -1
        self.identity: Identity | None = None
        self.pins = 0
        self.was_used = False
        self._descriptors = descriptors
        self.closed = False
        self.failed: str | None = None
        # Bytes that an earlier, killed process left in the page cache count as not synced.
        self.writes, self.synced = 1, 0
        self.logical_size = self.physical_size = self.measured(os.O_CREAT if create else 0)

    @property
    def path(self) -> str:
        return self._name.path

    def is_in_place(self) -> bool:
        try:
            return self.identity is None or is_at(self.path, self.identity)
        except OSError as error:
            raise typed_error(error, "stat", self.path) from error

    def pin(self) -> None:
        self._pin()

    def _pin(self, flags: int = 0) -> int:
        """The descriptor, opened if need be. It cannot be closed until `unpin`."""
        descriptors = self._descriptors
        with descriptors.lock:
            if self.descriptor < 0:
                self._open(flags)
            else:
                self.was_used = True
            self.pinned(1)
            return self.descriptor

    def _open(self, flags: int) -> None:
        if self.closed:
            raise self._closed_error()
        flags |= os.O_RDONLY if self.read_only else os.O_RDWR
        try:
            self._descriptors.open(self, self.path, flags)
        except OSError as error:
            raise typed_error(error, "open", self.path) from error

    def _closed_error(self) -> Closed:
        return Closed(f"{self.path} is closed; open the log again")

    def unpin(self) -> None:
        with self._descriptors.lock:
            self.pinned(-1)
            if self.closed and self.pins == 0:
                self._descriptors.release(self)

    def measured(self, flags: int = 0) -> int:
        """The length that the disk knows."""
        descriptor = self._pin(flags)
        try:
            return os.fstat(descriptor).st_size
        except OSError as error:
            raise typed_error(error, "stat", self.path) from error
        finally:
            self.unpin()

    def read_on(self, position: int, size: int) -> bytes:
        descriptor = self._pin()
        try:
            return os.pread(descriptor, size, position)
        except OSError as error:
            raise typed_error(error, f"read {size} bytes at position {position} of", self.path) from error
        finally:
            self.unpin()

    def send(self, target: int, position: int, size: int) -> int:
        if self.physical_size > self.logical_size:
            size = min(size, max(0, self.logical_size - position))
        descriptor = self._pin()
        try:
            # No bytes mean all of them on some systems.
            return os.sendfile(target, descriptor, position, size) if size else 0
        except (BlockingIOError, ConnectionError):
            raise
        except OSError:
            # The OSError of a read and that of the socket look the same: only reading the file tells whose it is.
            self.read(position, size)
            raise
        finally:
            self.unpin()

    def write_on(self, position: int, buffers: tuple[bytes | bytearray | memoryview, ...]) -> None:
        end = position + sum(map(len, buffers))
        descriptor = self._pin()
        try:
            if len(buffers) == 1:
                written = os.pwrite(descriptor, buffers[0], position)
            else:
                written = os.pwritev(descriptor, buffers[:_IOV_MAX], position)
            if position + written != end:
                _write_rest(descriptor, position, buffers, written)
            self._note(end)
        except OSError as error:
            self._roll_back(descriptor, end)
            raise typed_error(error, f"write {end - position} bytes at position {position} of", self.path) from error
        except BaseException:
            # A signal's exception came between two system calls: the file must not keep half of a write.
            self._roll_back(descriptor, end)
            raise
        finally:
            self.unpin()

    def _note(self, end: int) -> None:
        with self._descriptors.lock:
            self.wrote(end)

    def opened(self) -> int:
        with self._descriptors.lock:
            if self.descriptor < 0:
                self._open(0)
            return self.descriptor

    def take_back(self, end: int) -> None:
        if self.descriptor >= 0 and self.failed is None:
            descriptor = self._pin()
            try:
                self._roll_back(descriptor, end)
            finally:
                self.unpin()

    def _roll_back(self, descriptor: int, end: int) -> None:
        """Give the file the length it had before a failed write up to `end`. The reserve goes, too: half a write lies
        in it. A write within the file has made it no longer, and another thread may make it longer just now.
        """
        if end <= self.logical_size:
            return
        try:
            if os.fstat(descriptor).st_size != self.logical_size:
                os.ftruncate(descriptor, self.logical_size)
            self.physical_size = self.logical_size
        except OSError as error:
            self.failed = f"a failed write could not be undone ({error.strerror})"
            raise StorageError(
                f"{self.path}: {self.failed}; bytes behind position {self.logical_size} are in doubt. "
                "Close the log and open it again"
            ) from error

    def check_writable(self, doing: str, position: int) -> None:
        if self.read_only:
            raise refuse_write(doing, self.path)
        if self.closed:
            raise self._closed_error()
        if self.failed is not None:
            raise StorageError(f"{self.path}: {self.failed}; close the log and open it again")
        if not 0 <= position <= self.logical_size:
            raise ValueError(f"cannot {doing} {self.path} at position {position}: it has {self.logical_size} bytes")

    def truncate(self, size: int) -> None:
        self.check_writable("truncate", size)
        if size != self.logical_size:
            self._cut(size)

    def _cut(self, size: int) -> None:
        descriptor = self._pin()
        try:
            os.ftruncate(descriptor, size)
            self.logical_size = self.physical_size = size
            self._note(size)
        except OSError as error:
            raise typed_error(error, f"cut at position {size}", self.path) from error
        finally:
            self.unpin()

    def allocate(self, size: int) -> None:
        self.check_writable("reserve space in", 0)
        if size <= self.physical_size or _fallocate is None:
            return
        descriptor = self._pin()
        try:
            _fallocate(descriptor, 0, size)
            self.physical_size = size
            self._note(self.logical_size)
        except OSError as error:
            # Part of it may have been reserved.
            self._roll_back(descriptor, size)
            if error.errno not in _CANNOT_RESERVE:
                raise typed_error(error, f"reserve {size} bytes for", self.path) from error
        finally:
            self.unpin()

    def trim(self) -> None:
        self.check_writable("trim", 0)
        if self.physical_size != self.logical_size:
            self._cut(self.logical_size)

    def sync_on(self) -> None:
        target = self.writes
        descriptor = self._pin()
        try:
            sync_data(descriptor)
        except OSError as error:
            self.sync_refused(error.errno or 0)
        finally:
            self.unpin()
        self.synced = max(self.synced, target)

    def sync_refused(self, number: int) -> NoReturn:
        why = os.strerror(number)
        self.failed = f"an earlier sync failed ({why}), and the bytes that it lost are not known"
        # Never DiskFull: that would say that nothing was written.
        raise StorageError(f"cannot sync {self.path}: {why}. Check the device and the kernel's log")

    def view(self) -> memoryview:
        if self.read_only:
            return memoryview(self.read(0, self.size()))
        descriptors = self._descriptors
        if self.logical_size == 0:
            return memoryview(b"")
        if self.logical_size <= _COPY_BYTES_MAX or len(descriptors.maps) >= descriptors.max_open // 2:
            return memoryview(self.read(0, self.logical_size))
        descriptor, size = self._pin(), self.logical_size
        try:
            mapped = descriptors.spared(lambda: mmap.mmap(descriptor, size, access=mmap.ACCESS_READ))
            with descriptors.lock:
                descriptors.maps.add(mapped)
            return memoryview(mapped)
        except OSError as error:
            raise typed_error(error, "map", self.path) from error
        finally:
            self.unpin()

    def close(self) -> None:
        try:
            if not self.closed and not self.read_only and self.failed is None:
                with suppress(LogNotFound):  # removed meanwhile
                    self.trim()
        finally:
            self.give_up()

    def give_up(self) -> None:
        with self._descriptors.lock:
            self.closed = True
            if self.pins == 0:
                self._descriptors.release(self)


def _write_rest(
    descriptor: int, position: int, buffers: tuple[bytes | bytearray | memoryview, ...], written: int
) -> None:
    """Go on where a short write stopped. The error of the next call tells why the write was short."""
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
