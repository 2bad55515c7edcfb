"""Files in memory: for `:memory:` logs, and for tests that want no disk.

A tree of paths to nodes; a handle holds its node, so it outlives a rename and a removal as an open descriptor would.
Sync has nothing to do and always succeeds. Invariants: the same errors as `DiskFiles` for the same misuse, and no
memory of a file is ever exported, so a file can always grow.
"""

import os
import posixpath
import uuid
from collections.abc import Iterator, Mapping

from pylog.errors import Closed, LogNotFound, StorageError
from pylog.files.protocol import SMALL_BYTES_MAX, DirectoryLock, File, FileStat, join, locked_error, too_large
from pylog.runtime.clock import Clock, SystemClock
from pylog.runtime.signals import WholeLock

_SENT_BYTES_MAX = 1 << 16


class _Node:
    """The content of one file."""

    __slots__ = ("data", "mtime_ns", "path")

    def __init__(self, path: str, mtime_ns: int) -> None:
        self.path = path
        self.data = bytearray()
        self.mtime_ns = mtime_ns


class _Directory:
    """The names in one directory."""

    __slots__ = ("mtime_ns", "names")

    def __init__(self, mtime_ns: int) -> None:
        self.names: set[str] = set()
        self.mtime_ns = mtime_ns


class MemoryFile:
    """A handle on a node, as `protocol.File` describes it."""

    __slots__ = ("_closed", "_files", "_node", "_pins")

    def __init__(self, files: "MemoryFiles", node: _Node) -> None:
        self._files = files
        self._node = node
        self._closed = False
        self._pins = 0

    @property
    def path(self) -> str:
        return self._node.path

    @property
    def read_only(self) -> bool:
        return False

    def is_in_place(self) -> bool:
        return self._files.is_at(self._node.path, self._node)

    def size(self) -> int:
        return len(self._node.data)

    def read(self, position: int, size: int) -> bytes:
        node = self._readable()
        if position < 0 or size < 0:
            raise StorageError(f"cannot read {size} bytes at position {position} of {node.path}: Invalid argument")
        with self._files.mutex, memoryview(node.data) as whole:
            return bytes(whole[position : position + size])

    def send(self, target: int, position: int, size: int) -> int:
        # The copy includes what the socket does not take: that is never much.
        return os.write(target, self.read(position, min(size, _SENT_BYTES_MAX)))

    def pin(self) -> None:
        self._readable()
        with self._files.mutex:
            self._pins += 1

    def unpin(self) -> None:
        with self._files.mutex:
            self._pins -= 1

    def write(self, position: int, *buffers: bytes | bytearray | memoryview) -> None:
        node = self._usable()
        self._check_position("write to", position)
        with self._files.mutex:
            for buffer in buffers:
                node.data[position : position + len(buffer)] = buffer
                position += len(buffer)
            node.mtime_ns = self._files.now_ns()

    def truncate(self, size: int) -> None:
        node = self._usable()
        self._check_position("truncate", size)
        if size == len(node.data):
            return
        with self._files.mutex:
            del node.data[size:]
            node.mtime_ns = self._files.now_ns()

    def allocate(self, size: int) -> None:
        # Memory needs no reserving.
        self._usable()

    def trim(self) -> None:
        self._usable()

    def sync(self) -> None:
        self._usable()

    def view(self) -> memoryview:
        node = self._usable()
        return memoryview(self.read(0, len(node.data)))

    def close(self) -> None:
        self._closed = True

    def _usable(self) -> _Node:
        if self._closed:
            raise Closed(f"{self._node.path} is closed; open the log again")
        return self._node

    def _readable(self) -> _Node:
        return self._node if self._pins else self._usable()

    def _check_position(self, doing: str, position: int) -> None:
        if not 0 <= position <= len(self._node.data):
            raise ValueError(
                f"cannot {doing} {self._node.path} at position {position}: it has {len(self._node.data)} bytes"
            )


def _lock_content(text: str) -> bytes:
    return f"{os.getpid()}\n{text}\n".encode()


class _MemoryLock:
    __slots__ = ("_files", "_node", "_path")

    def __init__(self, files: "MemoryFiles", path: str, node: _Node) -> None:
        self._files = files
        self._node = node
        self._path: str | None = path

    def is_in_place(self) -> bool:
        return self._files.is_at(self._node.path, self._node)

    def write(self, text: str) -> None:
        self._node.data[:] = _lock_content(text)

    def close(self) -> None:
        path, self._path = self._path, None
        if path is not None:
            self._files.locked.discard(path)


class MemoryFiles:
    """A tree of its own: two `MemoryFiles` share nothing. The empty path, "." and "/" exist from the start.

    `tree` is the content at the start: paths of files with their bytes, and of directories with None. `boot` is that of
    other files where the tree is what a killed process has left in them: else it is one that a power cut has left.
    """

    read_only = False

    def __init__(
        self, clock: Clock | None = None, tree: Mapping[str, bytes | None] | None = None, *, boot: str | None = None
    ) -> None:
        self.boot = boot or uuid.uuid4().hex
        self.mutex = WholeLock()
        self.locked: set[str] = set()
        self._now_ms = (clock or SystemClock()).wall_ms
        self._dirs = {".": _Directory(0), "/": _Directory(0)}
        self._nodes: dict[str, _Node] = {}
        now_ns = self.now_ns() if tree else 0
        for path, data in (tree or {}).items():
            if data is None:
                self._dirs[path] = _Directory(now_ns)
            else:
                self._nodes[path] = node = _Node(path, now_ns)
                node.data += data
        for path in tree or ():
            parent, name = _split(path)
            self._dirs[parent].names.add(name)

    def tree(self) -> dict[str, bytes | None]:
        """The whole content, as `__init__` takes it."""
        with self.mutex:
            dirs: dict[str, bytes | None] = {path: None for path in self._dirs if path not in (".", "/")}
            return dirs | {path: bytes(node.data) for path, node in self._nodes.items()}

    def make_dir(self, path: str) -> None:
        path = posixpath.normpath(path)
        with self.mutex:
            missing: list[str] = []
            current = path
            while current not in self._dirs:
                if current in self._nodes:
                    raise _file_in_the_way("make the directory", path)
                missing.append(current)
                current = _split(current)[0]
            for directory in reversed(missing):
                self._dirs[directory] = _Directory(self.now_ns())
                self._enter(directory)

    def list_dir(self, path: str) -> list[str]:
        path = posixpath.normpath(path)
        with self.mutex:
            if path not in self._dirs:
                raise self._missing("list", path)
            return sorted(self._dirs[path].names)

    def stat(self, path: str) -> FileStat | None:
        path = posixpath.normpath(path)
        with self.mutex:
            if (node := self._nodes.get(path)) is not None:
                return FileStat(len(node.data), node.mtime_ns, is_dir=False)
            directory = self._dirs.get(path)
            return None if directory is None else FileStat(0, directory.mtime_ns, is_dir=True)

    def read_file(self, path: str, bytes_max: int = SMALL_BYTES_MAX) -> bytes:
        path = posixpath.normpath(path)
        with self.mutex:
            data = self._find("read", path).data
            if len(data) > bytes_max:
                raise too_large(path, len(data), bytes_max)
            return bytes(data)

    def replace_file(self, path: str, data: bytes) -> None:
        path = posixpath.normpath(path)
        with self.mutex:
            self._check_parent("replace", path)
            node = _Node(path, self.now_ns())
            node.data += data
            self._nodes[path] = node
            self._enter(path)

    def open(self, path: str, *, create: bool = False, kept: bool = False) -> File:
        path = posixpath.normpath(path)
        with self.mutex:
            if create and path not in self._nodes:
                self._check_parent("open", path)
                self._nodes[path] = _Node(path, self.now_ns())
                self._enter(path)
            return MemoryFile(self, self._find("open", path))

    def rename(self, source: str, target: str) -> None:
        source, target = posixpath.normpath(source), posixpath.normpath(target)
        with self.mutex:
            if source in self._dirs:
                self._rename_dir(source, target)
                return
            node = self._find("rename", source)
            self._check_parent("rename to", target)
            del self._nodes[source]
            self._nodes[target] = node
            node.path = target
            self._leave(source)
            self._enter(target)

    def _rename_dir(self, source: str, target: str) -> None:
        if target in self._nodes:
            raise _file_in_the_way("rename to", target)
        if target in self._dirs and self._dirs[target].names:
            raise StorageError(f"cannot rename to {target} the file {source}: the target is not empty")
        if _split(target)[0] not in self._dirs:
            raise self._missing("rename to", target)
        if target.startswith(join(source, "")):
            raise StorageError(f"cannot rename to {target} the file {source}: Invalid argument")
        for path in [source, *self._below(source)]:
            moved = target + path[len(source) :]
            if path in self._dirs:
                self._dirs[moved] = self._dirs.pop(path)
            else:
                node = self._nodes[moved] = self._nodes.pop(path)
                node.path = moved
        self._leave(source)
        self._enter(target)

    def remove(self, path: str) -> None:
        path = posixpath.normpath(path)
        with self.mutex:
            self._find("remove", path)
            del self._nodes[path]
            self._leave(path)

    def remove_dir(self, path: str) -> None:
        path = posixpath.normpath(path)
        with self.mutex:
            if path not in self._dirs:
                raise self._missing("remove", path)
            for inner in [path, *self._below(path)]:
                self._dirs.pop(inner, None)
                self._nodes.pop(inner, None)
            self._leave(path)

    def set_modified(self, path: str, mtime_ns: int) -> None:
        path = posixpath.normpath(path)
        with self.mutex:
            (self._dirs.get(path) or self._find("set the time of", path)).mtime_ns = mtime_ns

    def sync_dir(self, path: str) -> None:
        path = posixpath.normpath(path)
        with self.mutex:
            if path not in self._dirs:
                raise self._missing("sync", path)

    def make_private(self, path: str) -> None:
        # No other process sees what is in memory.
        self.sync_dir(path)

    def watch(self, path: str) -> None:
        # No other process sees what is in memory.
        return None

    def incarnation(self, path: str) -> str | None:
        return self.boot

    def lock(self, path: str, text: str) -> DirectoryLock:
        path = posixpath.normpath(path)
        if path in self.locked:
            raise locked_error(path, os.getpid())
        file = self.open(path, create=True)
        file.truncate(0)
        file.write(0, _lock_content(text))
        self.locked.add(path)
        return _MemoryLock(self, path, self._nodes[path])

    def is_at(self, path: str, node: _Node) -> bool:
        """Whether `path` leads to this file."""
        return self._nodes.get(path) is node

    def now_ns(self) -> int:
        """The time, in ns; in steps of 1 ms."""
        return self._now_ms() * 1_000_000

    # The helpers below run with the lock held.

    def _enter(self, path: str) -> None:
        """Record that `path` exists now."""
        parent, name = _split(path)
        directory = self._dirs[parent]
        directory.names.add(name)
        directory.mtime_ns = self.now_ns()

    def _leave(self, path: str) -> None:
        """Record that `path` does not exist any more."""
        parent, name = _split(path)
        directory = self._dirs[parent]
        directory.names.discard(name)
        directory.mtime_ns = self.now_ns()

    def _below(self, path: str) -> Iterator[str]:
        """All paths below a directory, at any depth."""
        for name in self._dirs[path].names:
            inner = join("" if path == "." else path, name)
            yield inner
            if inner in self._dirs:
                yield from self._below(inner)

    def _find(self, doing: str, path: str) -> _Node:
        node = self._nodes.get(path)
        if node is not None:
            return node
        if path in self._dirs:
            raise StorageError(
                f"cannot {doing} {path}: Is a directory. There is a directory where a file should be: "
                "move it away or choose another path"
            )
        raise self._missing(doing, path)

    def _check_parent(self, doing: str, path: str) -> None:
        if path in self._dirs:
            self._find(doing, path)
        if _split(path)[0] not in self._dirs:
            raise self._missing(doing, path)

    def _missing(self, doing: str, path: str) -> StorageError:
        current = path
        while current not in (".", "/"):
            if current in self._nodes:
                return _file_in_the_way(doing, path)
            current = _split(current)[0]
        return LogNotFound(f"cannot {doing} {path}: No such file or directory. Check the path")


def _split(path: str) -> tuple[str, str]:
    """The directory that a path is in, and its name there."""
    parent, name = posixpath.split(path)
    return parent or ".", name


def _file_in_the_way(doing: str, path: str) -> StorageError:
    return StorageError(
        f"cannot {doing} {path}: Not a directory. There is a file where a directory should be: "
        "move it away or choose another path"
    )
