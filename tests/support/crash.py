"""`CrashFiles`: files in memory that know, at each moment, what a power cut could leave of them.

    files = CrashFiles()
    ... write through `files`; files.note("acknowledged up to 7") where something was promised ...
    for state in files.power_cuts():
        reopen(MemoryFiles(tree=state.tree))      # must have everything that `state.notes` speaks of

Every call that changes something is written down as one or more operations, in order, as a disk would see them:

    Written, Cut, Reserved     bytes and length of one file         durable after Synced of that file
    Named                      entries of a directory are set       durable after NamesSynced of that directory
    Noted                      nothing happens: what was promised by then

A file or directory is known by a number, its name is an entry of a directory: so a rename may reach the disk before the
bytes of what it renames. `replace_file` and `make_dir` are the steps they consist of. The lock's file is no part of
this: nothing depends on its content, and a crash frees the lock.

What may be left after a prefix of the operations is told by `cuts`.
"""

import posixpath
import random
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pylog.files import SMALL_BYTES_MAX, DirectoryLock, File, FileStat, MemoryFiles
from pylog.runtime.clock import Clock
from tests.support.cuts import CrashState, kills, power_cut, power_cuts
from tests.support.operations import Cut, Entry, Named, NamesSynced, Noted, Operation, Reserved, Synced, Written


class _Inode(NamedTuple):
    number: int
    is_dir: bool


_ROOTS = {".": _Inode(0, True), "/": _Inode(1, True)}


class CrashFile:
    """A handle on a file of `CrashFiles`: what `protocol.File` says."""

    read_only = False

    def __init__(self, files: "CrashFiles", file: File, number: int) -> None:
        self._files = files
        self._file = file
        self._number = number
        self._reserved = 0

    @property
    def path(self) -> str:
        return self._file.path

    def is_in_place(self) -> bool:
        return self._file.is_in_place()

    def size(self) -> int:
        return self._file.size()

    def read(self, position: int, size: int) -> bytes:
        return self._file.read(position, size)

    def send(self, target: int, position: int, size: int) -> int:
        return self._file.send(target, position, size)

    def pin(self) -> None:
        self._file.pin()

    def unpin(self) -> None:
        self._file.unpin()

    def view(self) -> memoryview:
        return self._file.view()

    def write(self, position: int, *buffers: bytes | bytearray | memoryview) -> None:
        self._file.write(position, *buffers)
        if any(buffers):
            self._files.operations.append(Written(self._number, position, tuple(map(bytes, buffers))))

    def truncate(self, size: int) -> None:
        if size != self.size():
            self._file.truncate(size)
            self._reserved = 0
            self._files.operations.append(Cut(self._number, size))

    def allocate(self, size: int) -> None:
        self._file.allocate(size)
        if size > max(self._reserved, self.size()):
            self._reserved = size
            self._files.operations.append(Reserved(self._number, size))

    def trim(self) -> None:
        self._file.trim()
        if self._reserved > self.size():
            self._files.operations.append(Cut(self._number, self.size()))
        self._reserved = 0

    def sync(self) -> None:
        self._file.sync()
        self._files.operations.append(Synced(self._number))

    def close(self) -> None:
        if self._reserved:
            self.trim()
        self._file.close()


class CrashFiles:
    """A tree of its own in memory, at first `tree` (as `MemoryFiles` takes it), which is durable."""

    read_only = False

    def __init__(self, clock: Clock | None = None, tree: Mapping[str, bytes | None] | None = None) -> None:
        self.operations: list[Operation] = []
        self._files = MemoryFiles(clock, tree)
        self._inodes: dict[str, _Inode] = dict(_ROOTS)
        for path, data in (tree or {}).items():
            self._inodes[path] = _Inode(len(self._inodes), data is None)
        self._next = len(self._inodes)
        self._initial = [self._entry(path, inode) for path, inode in self._inodes.items() if path not in _ROOTS]
        self._contents = {self._inodes[path].number: data for path, data in (tree or {}).items() if data is not None}

    def note(self, what: object) -> None:
        """Write down, between two operations, what has been promised: states after it have it in their `notes`."""
        self.operations.append(Noted(what))

    def power_cuts(self, *, weak: bool = False, samples: int = 4, seed: int = 0) -> Iterator[CrashState]:
        """What a power cut could leave, after each operation: see `cuts.power_cuts`."""
        return power_cuts(
            self._initial, self._contents, list(self.operations), weak=weak, samples=samples, seed=seed
        )  # fmt: skip

    def power_cut(self, chance: random.Random, upto: int | None = None) -> dict[str, bytes | None]:
        """What one power cut leaves, after the first `upto` operations (None: all): `chance` says what the disk had of
        what was not synced. A tree, as `MemoryFiles` and `CrashFiles` take it.
        """
        return power_cut(self._initial, self._contents, self.operations[:upto], chance)

    def kills(self) -> Iterator[CrashState]:
        """What killing the process could leave, after each operation and within a write: see `cuts.kills`."""
        return kills(self._initial, self._contents, list(self.operations))

    # --- names -----------------------------------------------------------------------------------------------------

    def _entry(self, path: str, inode: _Inode | None) -> Entry:
        directory = self._inodes[_parent(path)].number
        name = posixpath.basename(path)
        if inode is None:
            return Entry(directory, name, None, False)
        return Entry(directory, name, inode.number, inode.is_dir)

    def _name(self, path: str, *, is_dir: bool) -> _Inode:
        inode = self._inodes[path] = _Inode(self._next, is_dir)
        self._next += 1
        self.operations.append(Named((self._entry(path, inode),)))
        return inode

    def _forget(self, path: str) -> None:
        self.operations.append(Named((self._entry(path, None),)))
        del self._inodes[path]

    def make_dir(self, path: str) -> None:
        path = posixpath.normpath(path)
        missing = []
        current = path
        while self._files.stat(current) is None:
            missing.append(current)
            current = _parent(current)
        self._files.make_dir(path)
        for directory in reversed(missing):
            self._name(directory, is_dir=True)
            self.sync_dir(_parent(directory))

    def open(self, path: str, *, create: bool = False, kept: bool = False) -> File:
        path = posixpath.normpath(path)
        file = self._files.open(path, create=create, kept=kept)
        inode = self._inodes.get(path) or self._name(path, is_dir=False)
        return CrashFile(self, file, inode.number)

    def replace_file(self, path: str, data: bytes) -> None:
        temporary = path + ".tmp"
        try:
            file = self.open(temporary, create=True)
            file.truncate(0)
            file.write(0, data)
            file.sync()
            self.rename(temporary, path)
        except BaseException:
            if self.stat(temporary) is not None:
                self.remove(temporary)
            raise
        self.sync_dir(_parent(path))

    def rename(self, source: str, target: str) -> None:
        source, target = posixpath.normpath(source), posixpath.normpath(target)
        self._files.rename(source, target)
        inode = self._inodes[source]
        self.operations.append(Named((self._entry(source, None), self._entry(target, inode))))
        moved = [path for path in self._inodes if path.startswith(source + "/")] if inode.is_dir else []
        for path in (source, *moved):
            self._inodes[target + path[len(source) :]] = self._inodes.pop(path)

    def remove(self, path: str) -> None:
        path = posixpath.normpath(path)
        self._files.remove(path)
        self._forget(path)

    def remove_dir(self, path: str) -> None:
        path = posixpath.normpath(path)
        self._files.remove_dir(path)
        inside = [other for other in self._inodes if other == path or other.startswith(path + "/")]
        for gone in sorted(inside, reverse=True):
            self._forget(gone)

    def set_modified(self, path: str, mtime_ns: int) -> None:
        # Times are no part of a state.
        self._files.set_modified(path, mtime_ns)

    def sync_dir(self, path: str) -> None:
        path = posixpath.normpath(path)
        self._files.sync_dir(path)
        self.operations.append(NamesSynced(self._inodes[path].number))

    def make_private(self, path: str) -> None:
        self.sync_dir(path)

    # --- what changes nothing --------------------------------------------------------------------------------------

    def list_dir(self, path: str) -> list[str]:
        return self._files.list_dir(path)

    def stat(self, path: str) -> FileStat | None:
        return self._files.stat(path)

    def read_file(self, path: str, bytes_max: int = SMALL_BYTES_MAX) -> bytes:
        return self._files.read_file(path, bytes_max)

    def watch(self, path: str) -> None:
        return None

    def incarnation(self, path: str) -> str | None:
        return self._files.incarnation(path)

    def lock(self, path: str, text: str) -> DirectoryLock:
        return self._files.lock(path, text)


def _parent(path: str) -> str:
    return posixpath.dirname(path) or "."
