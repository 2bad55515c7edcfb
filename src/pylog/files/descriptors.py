"""The open files and their descriptors: one LRU with a budget, shared by every file of a `DiskFiles`.

Invariants:
- a descriptor is closed only while no call uses it: all uses are counted (`kernel.OpenFile`). A call counts itself
  before it looks at the descriptor; a close takes the descriptor away before it looks at the count. So a use takes no
  lock;
- a holder that was used since the last look at it goes behind the others once, because a use does not move it in the
  order. A holder in use does, too;
- a map keeps a descriptor until the last reference to the map is gone: maps count in the budget, too;
- a file that is always needed is `kept`: it is not in the LRU, does not count in the budget, and has its descriptor
  until it is closed;
- a holder that finds no descriptor left in the process gets one from half of ours, which are closed for it;
- a file is opened again by the name that it has then. Names change under the lock, on the disk and here together. A
  writer to which another file answers under that name takes its own file for gone.
"""

import errno
import mmap
import os
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol, TypeVar

from pylog.errors import LogNotFound
from pylog.files.regular import Identity, identity_of, open_regular
from pylog.runtime.signals import WholeLock

_NONE_LEFT = frozenset({errno.EMFILE, errno.ENFILE})

T = TypeVar("T")


class Holder(Protocol):
    """A file that may have a descriptor: -1 while it is closed."""

    descriptor: int
    identity: Identity | None
    """The device and inode of the file, once it was opened."""
    read_only: bool
    is_kept: bool
    pins: int
    was_used: bool

    def __hash__(self) -> int: ...


class Name:
    """The present name of a file. All handles share one, so a rename costs the same however many files are open."""

    __slots__ = ("__weakref__", "path")

    def __init__(self, path: str) -> None:
        self.path = path


class Descriptors:
    """The holders with an open descriptor: those of the LRU, least recently used first, and those that are kept.

    `lock` guards the attributes.
    """

    def __init__(self, max_open: int) -> None:
        self.max_open = max_open
        self.lock = WholeLock()
        self.recent: OrderedDict[Holder, None] = OrderedDict()
        self.kept: set[Holder] = set()
        self.maps: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()
        self.names: weakref.WeakValueDictionary[str, Name] = weakref.WeakValueDictionary()

    def __del__(self) -> None:
        # A log that was dropped without a close must not keep its descriptors for the life of the process.
        # A signal may have kept them from being made.
        for holder in (*getattr(self, "recent", ()), *getattr(self, "kept", ())):
            os.close(holder.descriptor)

    def name(self, path: str) -> Name:
        """The name that every handle on `path` shares."""
        with self.lock:
            return self.names.setdefault(path, Name(path))

    def rename(self, source: str, target: str) -> None:
        """Rename a file or a directory, and the handles open below it. The lock is not held. Raises OSError."""
        with self.lock:
            os.replace(source, target)
            renamed = self.names.pop(source, None)
            if renamed is not None:
                self._called(renamed, target)
            elif os.path.isdir(target):
                # Go through a copy that is made in one step: a name disappears at any moment, with its last handle.
                for reference in self.names.valuerefs():
                    name = reference()
                    if name is not None and name.path.startswith(source + "/"):
                        del self.names[name.path]
                        self._called(name, target + name.path[len(source) :])

    def _called(self, name: Name, path: str) -> None:
        name.path = path
        self.names[path] = name

    def open(self, holder: Holder, path: str, flags: int) -> None:
        """Open `path` for `holder`, which becomes the most recently used unless it is kept. The lock is held.

        Raises what `open_regular` raises.
        """
        if not holder.is_kept:
            self._evict(self.max_open - 1)
        try:
            descriptor, found = open_regular(path, flags)
        except OSError as error:
            if error.errno not in _NONE_LEFT:
                raise
            self._give_back()
            descriptor, found = open_regular(path, flags)
        identity = identity_of(found)
        if holder.identity is None:
            holder.identity = identity
        elif holder.identity != identity and not holder.read_only:
            os.close(descriptor)
            raise LogNotFound(
                f"{path} is gone, and another file is in its place: if the directory was replaced, close the log and "
                "open it again"
            )
        holder.descriptor = descriptor
        if holder.is_kept:
            self.kept.add(holder)
        else:
            self.recent[holder] = None

    def spared(self, call: Callable[[], T]) -> T:
        """Return what `call` returns; `call` needs descriptors of its own for a moment. The lock is not held.

        Where the process has no descriptor left, half of ours are closed and `call` runs again: it must allow that.
        """
        try:
            return call()
        except OSError as error:
            if error.errno not in _NONE_LEFT:
                raise
            with self.lock:
                self._give_back()
            return call()

    def _give_back(self) -> None:
        self._evict(len(self.maps) + len(self.recent) // 2)

    def _evict(self, allowed: int) -> None:
        """Close unused descriptors, oldest first, until `allowed` are open. Closing one costs no look at the others."""
        surplus = len(self.recent) + len(self.maps) - allowed
        chances = 2 * len(self.recent)
        while surplus > 0 and chances > 0:
            holder = next(iter(self.recent))
            if holder.was_used or not self.release(holder):
                holder.was_used = False
                self.recent.move_to_end(holder)
                chances -= 1
            else:
                surplus -= 1

    def release(self, holder: Holder) -> bool:
        """Close the descriptor of `holder`, if it has one; False while it is in use. The lock is held."""
        descriptor, holder.descriptor = holder.descriptor, -1
        if descriptor < 0:
            return False
        if holder.pins:
            holder.descriptor = descriptor
            return False
        self.recent.pop(holder, None)
        self.kept.discard(holder)
        os.close(descriptor)
        return True
