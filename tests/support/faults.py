"""`FaultFiles`: files whose k-th call fails, to show what a program makes of it.

    files = FaultFiles(DiskFiles())                         notes which calls are made, and from where: `sites`
    files = FaultFiles(DiskFiles(), fail_at=7)              the 7th call raises as EIO would, later ones work
    files = FaultFiles(..., error=errno.ENOSPC, once=False) it and all later ones that need room
    files = FaultFiles(..., short=True)                     a write keeps half of its bytes, and does not roll them back
    files = FaultFiles(..., interrupt=KeyboardInterrupt)    a signal's handler raises this before the call is made
    files = FaultFiles(..., interrupt=..., late=True)       or when it has been made

An error is raised as `DiskFiles` raises it: typed, with the OSError as its cause. What `DiskFiles` undoes when it fails
is undone here: nothing of a failed write is left, a failed sync is the last one, a failed replacement leaves the old
file. A full disk (ENOSPC, EDQUOT) refuses what needs room: writes, reservations, new names. `heal` ends it.
"""

import errno
import os
import sys
from collections.abc import Callable
from typing import TypeVar

from pylog.errors import StorageError
from pylog.files import SMALL_BYTES_MAX, DirectoryLock, File, Files, FileStat, Watch
from pylog.files.protocol import typed_error

T = TypeVar("T")

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
_NEEDS_ROOM = frozenset("write allocate make_dir rename replace_file create".split())
_NEEDS_DESCRIPTOR = frozenset(
    "open create read_file list_dir replace_file sync_dir read write send pin lock view".split()
)


class Faults:
    """When a call fails; shared by all handles of a `FaultFiles`."""

    def __init__(
        self, fail_at: int | None, error: int, once: bool, short: bool, interrupt: type[BaseException] | None,
        late: bool,
    ) -> None:  # fmt: skip
        self.fail_at = fail_at
        self.interrupt = interrupt
        self.late = late
        self.error = error
        self.once = once
        self.short = short
        self.sites: list[str] = []
        self.failed: list[str] = []

    def applies(self, call: str) -> bool:
        """Whether a call of this name can meet this error."""
        if self.interrupt is not None:
            return True
        if call == "close":
            return False
        if self.error in _FULL:
            return call in _NEEDS_ROOM
        return self.error not in _NO_DESCRIPTORS or call in _NEEDS_DESCRIPTOR

    def hits(self, call: str) -> bool:
        """Count a call; whether it is to fail."""
        if not self.applies(call):
            return False
        self.sites.append(_site(call))
        made = len(self.sites)
        if self.fail_at is None or made < self.fail_at or (self.once and made > self.fail_at):
            return False
        self.failed.append(self.sites[-1])
        return True

    def do(self, call: str, path: str, how: Callable[[], T]) -> T:
        """Make a call, unless it is to fail."""
        if not self.hits(call):
            return how()
        if self.late:
            how()
        raise self.raised(call, path)

    def raised(self, call: str, path: str) -> BaseException:
        """The error, as `DiskFiles` would raise it, or the interrupt."""
        if self.interrupt is not None:
            return self.interrupt()
        cause = OSError(self.error, os.strerror(self.error))
        error = typed_error(cause, call.replace("_", " "), path)
        error.__cause__ = cause
        return error


def _site(call: str) -> str:
    """The line outside this module that made the call: `pylog.segment:210 write`."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals["__name__"] == __name__:
        frame = frame.f_back
    return f"{frame.f_globals['__name__']}:{frame.f_lineno} {call}"


class FaultFile:
    """A handle whose calls may fail: what `protocol.File` says."""

    def __init__(self, file: File, faults: Faults) -> None:
        self._file = file
        self._faults = faults
        self._failed = False

    @property
    def path(self) -> str:
        return self._file.path

    @property
    def read_only(self) -> bool:
        return self._file.read_only

    def is_in_place(self) -> bool:
        return self._file.is_in_place()

    def size(self) -> int:
        return self._file.size()

    def read(self, position: int, size: int) -> bytes:
        return self._do("read", lambda: self._file.read(position, size))

    def send(self, target: int, position: int, size: int) -> int:
        return self._do("send", lambda: self._file.send(target, position, size))

    def pin(self) -> None:
        self._do("pin", self._file.pin)

    def unpin(self) -> None:
        self._file.unpin()

    def write(self, position: int, *buffers: bytes | bytearray | memoryview) -> None:
        self._usable()
        if self._faults.interrupt is not None:
            self._do("write", lambda: self._file.write(position, *buffers))
            return
        if self._faults.hits("write"):
            if self._faults.short:
                whole = b"".join(map(bytes, buffers))
                self._file.write(position, whole[: len(whole) // 2])
                # Neither the rest can be written nor what was written be taken back.
                self._failed = True
            raise self._faults.raised("write", self.path)
        self._file.write(position, *buffers)

    def truncate(self, size: int) -> None:
        self._usable()
        self._do("truncate", lambda: self._file.truncate(size))

    def allocate(self, size: int) -> None:
        self._usable()
        self._do("allocate", lambda: self._file.allocate(size))

    def trim(self) -> None:
        self._usable()
        self._do("trim", self._file.trim)

    def sync(self) -> None:
        self._usable()
        if self._faults.interrupt is not None:
            self._do("sync", self._file.sync)
            return
        if self._faults.hits("sync"):
            self._failed = True
            # Never DiskFull: that would say that nothing was written.
            raise StorageError(f"cannot sync {self.path}: {os.strerror(self._faults.error)}")
        self._file.sync()

    def view(self) -> memoryview:
        return self._do("view", self._file.view)

    def close(self) -> None:
        self._do("close", self._file.close)

    def _do(self, call: str, how: Callable[[], T]) -> T:
        return self._faults.do(call, self.path, how)

    def _usable(self) -> None:
        if self._failed:
            raise StorageError(f"{self.path}: an earlier call failed; close the log and open it again")


class FaultFiles:
    """`inner`, the `fail_at`-th call of which (from 1 on; None: none) fails with the errno `error`.

    `once`: only that one; otherwise every later call that can meet this error. `short`: a write that fails leaves half
    of its bytes behind, as a device does that fails in the middle. `interrupt`: that is raised instead of an error, and
    closing a file counts as a call, too; `late`: after the call.
    """

    def __init__(
        self, inner: Files, fail_at: int | None = None, *, error: int = errno.EIO, once: bool = True,
        short: bool = False, interrupt: type[BaseException] | None = None, late: bool = False,
    ) -> None:  # fmt: skip
        self.inner = inner
        self.faults = Faults(fail_at, error, once, short, interrupt, late)

    @property
    def read_only(self) -> bool:
        return self.inner.read_only

    @property
    def sites(self) -> list[str]:
        """From where each call was made that can meet the error, in order: `fail_at=k` lets the k-th of them fail."""
        return self.faults.sites

    @property
    def failed(self) -> list[str]:
        """From where the calls were made that failed."""
        return self.faults.failed

    def heal(self) -> None:
        """No call fails from now on."""
        self.faults.fail_at = None

    def make_dir(self, path: str) -> None:
        self._do("make_dir", path, lambda: self.inner.make_dir(path))

    def list_dir(self, path: str) -> list[str]:
        return self._do("list_dir", path, lambda: self.inner.list_dir(path))

    def stat(self, path: str) -> FileStat | None:
        return self._do("stat", path, lambda: self.inner.stat(path))

    def read_file(self, path: str, bytes_max: int = SMALL_BYTES_MAX) -> bytes:
        return self._do("read_file", path, lambda: self.inner.read_file(path, bytes_max))

    def replace_file(self, path: str, data: bytes) -> None:
        self._do("replace_file", path, lambda: self.inner.replace_file(path, data))

    def open(self, path: str, *, create: bool = False, kept: bool = False) -> File:
        creates = create and self.inner.stat(path) is None
        file = self._do("create" if creates else "open", path, lambda: self.inner.open(path, create=create, kept=kept))
        return FaultFile(file, self.faults)

    def rename(self, source: str, target: str) -> None:
        self._do("rename", source, lambda: self.inner.rename(source, target))

    def remove(self, path: str) -> None:
        self._do("remove", path, lambda: self.inner.remove(path))

    def remove_dir(self, path: str) -> None:
        self._do("remove_dir", path, lambda: self.inner.remove_dir(path))

    def set_modified(self, path: str, mtime_ns: int) -> None:
        self._do("set_modified", path, lambda: self.inner.set_modified(path, mtime_ns))

    def sync_dir(self, path: str) -> None:
        self._do("sync_dir", path, lambda: self.inner.sync_dir(path))

    def make_private(self, path: str) -> None:
        self._do("make_private", path, lambda: self.inner.make_private(path))

    def watch(self, path: str) -> Watch | None:
        return self.inner.watch(path)

    def incarnation(self, path: str) -> str | None:
        return self.inner.incarnation(path)

    def lock(self, path: str, text: str) -> DirectoryLock:
        return self._do("lock", path, lambda: self.inner.lock(path, text))

    def _do(self, call: str, path: str, how: Callable[[], T]) -> T:
        return self.faults.do(call, path, how)
