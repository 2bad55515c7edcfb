"""What `recorder.c` has written down of a process, as the operations from which `tests.support.cuts` makes what a power
cut could leave.

The root is directory 0; a file or directory is known by a number of its own, since the system gives the inode of a
removed file to a new one.
"""

import os
import posixpath
import struct
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from pylog.logdirs.log_directory import SOCKET
from tests.support.operations import Cut, Entry, Named, NamesSynced, Noted, Operation, Reserved, Synced, Written

SOURCE = Path(__file__).with_name("recorder.c")
ROOT = 0
_HEAD = struct.Struct("<cQQQQ")


def build(folder: Path) -> Path:
    """The recorder, compiled into `folder`. Raises OSError or CalledProcessError where there is no C compiler."""
    library = folder / "recorder.so"
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl"], check=True)
    return library


def environment(library: Path, root: Path, trace: Path) -> dict[str, str]:
    """What a process needs to be recorded."""
    # LD_PRELOAD is cut at spaces, LD_LIBRARY_PATH is not.
    where = {"LD_PRELOAD": library.name, "LD_LIBRARY_PATH": str(library.parent)}
    return where | {"PYLOG_RECORD_ROOT": str(root), "PYLOG_RECORD_TRACE": str(trace)}


class _Event(NamedTuple):
    kind: str
    inode: int
    number: int
    first: bytes
    second: bytes


def _events(data: bytes) -> Iterator[_Event]:
    at = 0
    while at < len(data):
        kind, inode, number, first, second = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        yield _Event(kind.decode(), inode, number, data[at : at + first], data[at + first : at + first + second])
        at += first + second


@dataclass(slots=True)
class _Names:
    """Paths, and what the events call them."""

    root: str
    known: dict[str, tuple[int, bool]] = field(default_factory=lambda: {".": (ROOT, True)})
    by_inode: dict[int, int] = field(default_factory=dict)
    paths: dict[int, str] = field(default_factory=dict)
    following: int = 2  # 1 is the root of absolute paths

    def path(self, given: bytes) -> str:
        return posixpath.normpath(posixpath.relpath(given.decode(), self.root))

    def entry(self, path: str, number: int | None, *, is_dir: bool) -> Entry:
        parent, _ = self.known[posixpath.dirname(path) or "."]
        return Entry(parent, posixpath.basename(path), number, is_dir)

    def make(self, given: bytes, inode: int, *, is_dir: bool) -> Operation:
        path, number = self.path(given), self.following
        self.following += 1
        self.known[path] = number, is_dir
        self.by_inode[inode] = number
        self.paths[number] = path
        return Named((self.entry(path, number, is_dir=is_dir),))

    def rename(self, source: str, target: str) -> Operation:
        number, is_dir = self.known[source]
        operation = Named((self.entry(source, None, is_dir=is_dir), self.entry(target, number, is_dir=is_dir)))
        for path in [path for path in self.known if path == source or path.startswith(source + "/")]:
            moved = target + path[len(source) :]
            self.known[moved] = self.known.pop(path)
            self.paths[self.known[moved][0]] = moved
        return operation

    def remove(self, path: str) -> Operation:
        _, is_dir = self.known.pop(path)
        return Named((self.entry(path, None, is_dir=is_dir),))


def operations(data: bytes, root: str, inode: int, *, syncs: Callable[[str], bool]) -> list[Operation]:
    """The operations of a trace of everything below `root`, a directory with that inode that was empty at first.

    `syncs` says of a path, which ends in "/" where it is a directory, whether its syncs count: a program that forgets
    some is played by leaving them out.
    """
    names = _Names(root)
    names.by_inode[inode] = ROOT
    names.paths[ROOT] = "."
    made: dict[str, Callable[[_Event, int], Operation]] = {
        "W": lambda event, file: Written(file, event.number, (event.first,)),
        "T": lambda event, file: Cut(file, event.number),
        "A": lambda event, file: Reserved(file, event.number),
        "F": lambda event, file: Synced(file),
        "D": lambda event, file: NamesSynced(file),
    }
    found: list[Operation] = []
    for event in _events(data):
        if event.kind == "N":
            found.append(Noted(event.first))
        elif event.kind in "CM":
            found.append(names.make(event.first, event.inode, is_dir=event.kind == "M"))
        elif event.kind == "R":
            found.append(names.rename(names.path(event.first), names.path(event.second)))
        elif event.kind in "UX":
            path = names.path(event.first)
            # The socket of an owner is no file: how it is made is not recorded.
            if posixpath.basename(path) != SOCKET:
                found.append(names.remove(path))
        else:
            number = names.by_inode[event.inode]
            if event.kind not in "FD" or syncs(names.paths[number] + "/" * (event.kind == "D")):
                found.append(made[event.kind](event, number))
    return found


def tree_without_locks(tree: Mapping[str, bytes | None]) -> dict[str, bytes | None]:
    """The same without the files of locks: nothing depends on what is in them, and a crash frees the lock."""
    return {path: content for path, content in tree.items() if posixpath.basename(path) != ".lock"}
