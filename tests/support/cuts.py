"""What a crash can leave of files, when one knows every operation that was made on them: the model of the disk.

A killed process (`kills`) leaves everything it had written, and of the write it was in, a part.

A power cut (`power_cuts`) leaves what was synced, and of the rest any of this:

- of the unsynced operations on a file, every subset (up to 6; of more, every prefix and random subsets);
- of the last of them a part: 1 byte, a batch header, up to each 512-byte boundary; or its length without its bytes
  (zeros, or whatever lay on the disk before), or a part of its bytes and zeros up to its length;
- of the names set since the directory's last sync, every prefix; with `weak`, every subset too.

All of it combined: each file's possibilities with the other files whole and with them as synced; all files whole or as
synced, in every combination; each possibility of the names with all bytes and with none; and random mixtures. A state
is given once for each set of promises (`notes`) it can be left with.
"""

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from tests.support.operations import Cut, Entry, Named, NamesSynced, Noted, Operation, Reserved, Synced, Written

SUBSETS_MAX = 6
STALE = b"\xa5"
_BLOCK = 512
_HEADER_BYTES = 61  # of a record batch


Names = Mapping[tuple[int, str], Entry]
Key = tuple[tuple[str, ...], tuple[bytes | None, ...]]
_Change = Written | Cut | Reserved


@dataclass(frozen=True, slots=True)
class CrashState:
    """What is left after a crash."""

    operation: int
    """How many operations had been made."""
    notes: tuple[object, ...]
    """What had been promised by then."""
    paths: tuple[str, ...]
    contents: tuple[bytes | None, ...]
    """Of each path: bytes of a file, None for a directory."""

    @property
    def tree(self) -> dict[str, bytes | None]:
        """What is there, as `MemoryFiles` and `CrashFiles` take it."""
        return dict(zip(self.paths, self.contents, strict=True))

    @property
    def key(self) -> Key:
        """The same for the same tree."""
        return self.paths, self.contents


class _Bytes:
    """What may be on the disk of one file."""

    def __init__(self, durable: bytes) -> None:
        self.whole = durable
        self.settle()

    def settle(self) -> None:
        """Everything is durable."""
        self.durable = self.whole
        self.pending: list[_Change] = []
        self.possible = [self.durable]

    def add(self, change: _Change, chance: random.Random, samples: int) -> list[bytes]:
        """One more unsynced change; gives what becomes possible by it."""
        bases = [self.durable, self.whole]
        if len(self.pending) < SUBSETS_MAX:
            bases += _subsets(self.durable, self.pending)
        else:
            for _ in range(samples):
                bases.append(_applied(self.durable, [one for one in self.pending if chance.random() < 0.5]))
        self.pending.append(change)
        self.whole = _applied(self.whole, [change])
        torn = _torn(change, bases[:2])
        new = dict.fromkeys((*(_applied(base, [change]) for base in bases), *torn))
        known = set(self.possible)
        found = [content for content in new if content not in known]
        self.possible += found
        return found


def _subsets(durable: bytes, changes: Sequence[_Change]) -> list[bytes]:
    chosen = product((False, True), repeat=len(changes))
    return [_applied(durable, [one for one, take in zip(changes, takes, strict=True) if take]) for takes in chosen]


def _applied(content: bytes, changes: Iterable[_Change]) -> bytes:
    data = bytearray(content)
    for change in changes:
        _apply(data, change)
    return bytes(data)


def _apply(data: bytearray, change: _Change) -> None:
    if isinstance(change, Written):
        _put(data, change.position, b"".join(change.buffers))
    elif isinstance(change, Cut):
        del data[change.size :]
        data += bytes(change.size - len(data))
    else:
        data += bytes(max(0, change.size - len(data)))


def _put(data: bytearray, position: int, new: bytes) -> None:
    data += bytes(max(0, position - len(data)))
    data[position : position + len(new)] = new


def _torn(change: _Change, bases: Iterable[bytes]) -> Iterator[bytes]:
    """A write that reached the disk in part, over each of `bases`."""
    if not isinstance(change, Written):
        return
    new = b"".join(change.buffers)
    first = change.position
    ends = {1, _HEADER_BYTES, *(at - first for at in range(first - first % _BLOCK + _BLOCK, first + len(new), _BLOCK))}
    parts = [new[:end] for end in sorted(ends) if 0 < end < len(new)]
    for base in bases:
        grows = change.position + len(new) > len(base)
        for part in [*parts, *([part.ljust(len(new), b"\0") for part in parts[-2:]] if grows else [])]:
            yield _applied(base, [Written(change.inode, change.position, (part,))])
        if grows:
            for filling in (bytes(len(new)), STALE * len(new)):
                data = bytearray(base)
                kept = max(0, len(base) - change.position)
                _put(data, change.position + kept, filling[kept:])
                yield bytes(data)


class _Directories:
    """What may be on the disk of all names."""

    def __init__(self, entries: Iterable[Entry], weak: bool) -> None:
        self.weak = weak
        self.durable: Names = _set({}, entries)
        self.pending: list[Named] = []
        self.possible: list[Names] = [self.durable]

    def add(self, named: Named) -> list[Names]:
        """One more change; gives what becomes possible by it, everything that was named last."""
        known = self.possible
        new = [_set(known[-1], named.entries)]
        if self.weak and len(self.pending) < SUBSETS_MAX:
            new = [_set(names, named.entries) for names in known]
        self.pending.append(named)
        self.possible = known + new
        return new

    def sync(self, directory: int) -> None:
        """What was named in one directory is durable."""
        settled = [named for named in self.pending if any(entry.directory == directory for entry in named.entries)]
        if settled:
            waiting = [named for named in self.pending if named not in settled]
            for named in settled:
                self.durable = _set(self.durable, named.entries)
            self.pending, self.possible = [], [self.durable]
            for named in waiting:
                self.add(named)


def _set(names: Names, entries: Iterable[Entry]) -> Names:
    new = dict(names)
    for entry in entries:
        if entry.inode is None:
            new.pop((entry.directory, entry.name), None)
        else:
            new[entry.directory, entry.name] = entry
    return new


def _paths(names: Names) -> list[tuple[str, int | None]]:
    """What can be reached: paths of directories with None, of files with their inode."""
    inside: dict[int, list[Entry]] = {}
    for entry in names.values():
        inside.setdefault(entry.directory, []).append(entry)
    found: list[tuple[str, int | None]] = []
    waiting = [(0, ""), (1, "/")]
    while waiting:
        directory, prefix = waiting.pop()
        for entry in inside.get(directory, ()):
            path = prefix + entry.name
            found.append((path, None if entry.is_dir else entry.inode))
            if entry.is_dir and entry.inode is not None:
                waiting.append((entry.inode, path + "/"))
    return sorted(found)


_Paths = list[tuple[str, int | None]]
_Choice = Callable[[int, _Bytes], bytes]


def _whole(_: int, file: _Bytes) -> bytes:
    return file.whole


def _durable(_: int, file: _Bytes) -> bytes:
    return file.durable


def _but(inode: int, content: bytes, others: _Choice) -> _Choice:
    return lambda at, file: content if at == inode else others(at, file)


def _whole_of(inodes: Collection[int]) -> _Choice:
    return lambda at, file: file.whole if at in inodes else file.durable


class _Model:
    """The disk after some operations, and the states that a power cut could leave then."""

    def __init__(
        self, entries: Iterable[Entry], contents: Mapping[int, bytes], weak: bool, samples: int, seed: int
    ) -> None:
        self.names = _Directories(entries, weak)
        self.files = {inode: _Bytes(content) for inode, content in contents.items()}
        self.samples = samples
        self.chance = random.Random(seed)
        self.count = 0
        self.notes: tuple[object, ...] = ()
        self.seen: set[Key] = set()

    def step(self, operation: Operation) -> Iterator[CrashState]:
        """Make one operation; gives the states that are new."""
        self.count += 1
        if isinstance(operation, Noted):
            self.notes += (operation.what,)
            self.seen.clear()
            yield from self._all()
        elif isinstance(operation, Named):
            for entry in operation.entries:
                if entry.inode is not None and not entry.is_dir:
                    self.files.setdefault(entry.inode, _Bytes(b""))
            for names in self.names.add(operation):
                yield from self._plain(names)
        elif isinstance(operation, NamesSynced):
            self.names.sync(operation.directory)
        elif isinstance(operation, Synced):
            self.files[operation.inode].settle()
        else:
            new = self.files[operation.inode].add(operation, self.chance, self.samples)
            yield from self._around(operation.inode, new)
        yield from self._mixtures()

    def _all(self) -> Iterator[CrashState]:
        for names in self.names.possible:
            yield from self._plain(names)
        for inode, file in self.files.items():
            if file.pending:
                yield from self._around(inode, file.possible)

    def _plain(self, names: Names) -> Iterator[CrashState]:
        """All files whole, and all as they were synced."""
        paths = _paths(names)
        yield from self._state(paths, _whole)
        yield from self._state(paths, _durable)

    def _around(self, inode: int, contents: list[bytes]) -> Iterator[CrashState]:
        """One file with each of `contents`; and all unsynced files whole or as synced, in every combination."""
        for names in {id(names): names for names in (self.names.durable, self.names.possible[-1])}.values():
            paths = _paths(names)
            there = {number for _, number in paths}
            if inode not in there:
                continue
            for content in contents:
                yield from self._state(paths, _but(inode, content, _whole))
                yield from self._state(paths, _but(inode, content, _durable))
            unsynced = [number for number, file in self.files.items() if number in there and file.pending]
            for chosen in product((False, True), repeat=min(len(unsynced), SUBSETS_MAX)):
                kept = {number for number, take in zip(unsynced, chosen, strict=False) if take}
                yield from self._state(paths, _whole_of(kept))

    def _mixtures(self) -> Iterator[CrashState]:
        choose = self.chance.choice
        if len(self.names.possible) == 1 and not any(file.pending for file in self.files.values()):
            return
        for _ in range(self.samples):
            yield from self._state(_paths(choose(self.names.possible)), lambda _, file: choose(file.possible))

    def _state(self, paths: _Paths, content_of: _Choice) -> Iterator[CrashState]:
        contents = [None if inode is None else content_of(inode, self.files[inode]) for _, inode in paths]
        yield from _unseen(self.seen, self.count, self.notes, paths, contents)


def _unseen(
    seen: set[Key], operation: int, notes: tuple[object, ...], paths: _Paths, contents: list[bytes | None]
) -> Iterator[CrashState]:
    state = CrashState(operation, notes, tuple([path for path, _ in paths]), tuple(contents))
    if state.key not in seen:
        seen.add(state.key)
        yield state


def power_cuts(
    entries: Iterable[Entry], contents: Mapping[int, bytes], operations: Iterable[Operation], *, weak: bool,
    samples: int, seed: int,
) -> Iterator[CrashState]:  # fmt: skip
    """What a power cut could leave, after each of `operations` on a disk that has `entries` and `contents`.

    `samples` and `seed` say how many random choices are added to the systematic ones, and which.
    """
    model = _Model(entries, contents, weak, samples, seed)
    for operation in operations:
        yield from model.step(operation)


def kills(
    entries: Iterable[Entry], contents: Mapping[int, bytes], operations: Iterable[Operation]
) -> Iterator[CrashState]:
    """What a killed process could leave: everything before each operation, and parts of a write."""
    names, files = _set({}, entries), dict(contents)
    notes: tuple[object, ...] = ()
    seen: set[Key] = set()
    for count, operation in enumerate(operations, 1):
        changed, befores = -1, list[bytes]()
        if isinstance(operation, Noted):
            notes += (operation.what,)
            seen.clear()
        elif isinstance(operation, Named):
            names = _set(names, operation.entries)
            for entry in operation.entries:
                if entry.inode is not None and not entry.is_dir:
                    files.setdefault(entry.inode, b"")
        elif isinstance(operation, Written | Cut | Reserved):
            changed, changes = operation.inode, (*_parts(operation), operation)
            *befores, files[changed] = [_applied(files[changed], [change]) for change in changes]
        paths = _paths(names)
        for before in befores:
            partly = files | {changed: before}
            yield from _unseen(seen, count, notes, paths, [None if at is None else partly[at] for _, at in paths])
        yield from _unseen(seen, count, notes, paths, [None if at is None else files[at] for _, at in paths])


def _parts(change: _Change) -> Iterator[_Change]:
    """A write that was stopped after its first byte, at a boundary between its buffers, or between blocks."""
    if not isinstance(change, Written):
        return
    new, ends, end = b"".join(change.buffers), {1}, 0
    for buffer in change.buffers:
        end += len(buffer)
        ends.add(end)
    ends |= set(range(_BLOCK, len(new), _BLOCK))
    for at in sorted(ends):
        if 0 < at < len(new):
            yield Written(change.inode, change.position, (new[:at],))


def power_cut(
    entries: Iterable[Entry], contents: Mapping[int, bytes], operations: Iterable[Operation], chance: random.Random
) -> dict[str, bytes | None]:
    """One tree that a power cut could leave after all of `operations`, for long runs: it costs no more than they do.

    Of each file there may be anything of what was not synced, the last write also in part; of the names, too.
    """
    names = _Directories(entries, weak=True)
    durable = {inode: bytearray(content) for inode, content in contents.items()}
    pending: dict[int, list[_Change]] = {}
    for operation in operations:
        if isinstance(operation, Named):
            names.add(operation)
        elif isinstance(operation, NamesSynced):
            names.sync(operation.directory)
        elif isinstance(operation, Synced):
            for change in pending.pop(operation.inode, ()):
                _apply(durable.setdefault(operation.inode, bytearray()), change)
        elif not isinstance(operation, Noted):
            pending.setdefault(operation.inode, []).append(operation)
    tree: dict[str, bytes | None] = {}
    for path, inode in _paths(chance.choice(names.possible)):
        tree[path] = None if inode is None else _left(durable.get(inode, bytearray()), pending.get(inode, []), chance)
    return tree


def _left(durable: bytearray, changes: Sequence[_Change], chance: random.Random) -> bytes:
    share = chance.choice((0.0, 0.5, 1.0))
    content = _applied(bytes(durable), [change for change in changes if chance.random() < share])
    if changes and chance.random() < 0.25:
        torn = [*_torn(changes[-1], [content])]
        content = chance.choice(torn) if torn else content
    return content
