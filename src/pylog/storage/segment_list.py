"""The list of the files in a partition's folder, written at a clean close, so that opening costs nothing per segment.

    pylog-listing    "PYLOGLST" | u32 version | i64 mtime of the folder, ns | i64 count of each of the three
                     | i64 each: base offsets of the .log files | of those with a .txnindex | offsets of .snapshot files
                     | u32 crc32c of all before; in the byte order of the machine, as no other one needs it

Every name that comes, goes or changes gives the folder another mtime, and then the listing says nothing. The mtime that
is put down was set for it, to a fraction of a millisecond that nobody else would choose: two changes within a tick of
the kernel's clock have the same one. Written only of a folder in which nothing has to be finished or repaired, and
believed only after a clean stop; lost or damaged, it costs a readdir. (Kafka lists every folder at every start.)

It is not synced, so a power cut may leave an older one beside a newer clean stop. That may lack names, and has none of
what was taken away since: it goes for good before a segment does (`forget_listing`).
"""

import struct
from array import array
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from random import randrange

from pylog.errors import StorageError
from pylog.files import Files, join
from pylog.kernel import crc32c
from pylog.kernel.format import LONG_MAX
from pylog.storage.producer_state import SNAPSHOT
from pylog.storage.segment_checksum import SEAL
from pylog.storage.segment_files import LOG

LISTING = "pylog-listing"

_MAGIC = b"PYLOGLST"
_VERSION = 1
_HEAD = struct.Struct("=8sIqqqq")
_CRC = struct.Struct("=I")
_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Listing:
    """The offsets in the names of a folder, each rising."""

    logs: list[int]
    transactional: list[int]
    snapshots: Sequence[int]
    unindexed: AbstractSet[int] = frozenset()
    """The logs without an offset index."""
    untimed: AbstractSet[int] = frozenset()
    """The logs without a time index."""
    in_order: bool = True
    """Whether nothing has to be finished or repaired."""
    gone: tuple[tuple[int, int], ...] = ()
    """Base offsets of logs that were there at a clean close and are not any more, each with that of the next one."""


def listed(names: Iterable[str]) -> Listing:
    """The listing of a list of names."""
    kinds: dict[str, list[int]] = {kind: [] for kind in (LOG, ".index", ".timeindex", ".txnindex", SEAL, SNAPSHOT)}
    in_order = True
    for name in names:
        stem, kind = name[:20], name[20:]
        if kind in kinds and stem.isascii() and stem.isdigit() and int(stem) <= LONG_MAX:
            kinds[kind].append(int(stem))
        elif name.endswith((".tmp", ".cleaned", ".swap", ".deleted")):
            in_order = False
    logs = kinds[LOG]
    known = set(logs)
    strays = [offset for offset in kinds[SNAPSHOT] if offset not in known]
    in_order &= known == set(kinds[".index"]) == set(kinds[".timeindex"]) >= {*kinds[".txnindex"], *kinds[SEAL]}
    in_order &= bool(logs) and (not strays or (len(strays) == 1 and strays[0] > logs[-1]))
    return Listing(
        logs, kinds[".txnindex"], array("q", kinds[SNAPSHOT]),
        known.difference(kinds[".index"]), known.difference(kinds[".timeindex"]), in_order,
    )  # fmt: skip


def write_listing(files: Files, directory: str) -> None:
    """Put down what is in a folder; of one in which something has to be repaired, nothing.

    What fails here costs a readdir later. What an earlier close has put down goes in any case: it would speak of what
    was dropped since then.
    """
    path = join(directory, LISTING)
    try:
        if read_listing(files, directory)[1]:
            return
        names = files.list_dir(directory)
        found = listed(names)
        if found.in_order:
            _put_down(files, directory, found, known=LISTING in names)
        elif LISTING in names:
            files.remove(path)
    except StorageError:
        with suppress(StorageError):
            files.remove(path)


def forget_listing(files: Files, directory: str) -> None:
    """Remove what an earlier close has put down, before something that it names is taken away on purpose."""
    path = join(directory, LISTING)
    if files.stat(path) is not None:
        files.remove(path)
        files.sync_dir(directory)


def _put_down(files: Files, directory: str, found: Listing, *, known: bool) -> None:
    path = join(directory, LISTING)
    before = parse_listing(files.read_file(path)) if known else None
    if before is not None and before[1] == found:
        files.set_modified(directory, before[0])
        return
    stat = files.stat(directory)
    stamp = (stat.mtime_ms if stat is not None else 0) * _MS + randrange(1, _MS)
    _write(files, path, stamp, found)
    files.set_modified(directory, stamp)


def _write(files: Files, path: str, stamp: int, found: Listing) -> None:
    parts = (found.logs, found.transactional, found.snapshots)
    body = _HEAD.pack(_MAGIC, _VERSION, stamp, *map(len, parts))
    body += b"".join(struct.pack(f"={len(part)}q", *part) for part in parts)
    file = files.open(path, create=True)
    try:
        file.truncate(0)
        file.write(0, body + _CRC.pack(crc32c(body)))
    finally:
        file.close()


def read_listing(files: Files, directory: str) -> tuple[Listing | None, bool]:
    """The listing that was written of a folder, if any, and whether the folder is still so."""
    try:
        found = parse_listing(files.read_file(join(directory, LISTING)))
    except StorageError:
        # Whatever is there says nothing.
        return None, False
    stat = files.stat(directory)
    if found is None:
        return None, False
    return found[1], stat is not None and stat.mtime_ns == found[0]


def compared(now: Listing, before: Listing) -> Listing:
    """A listing with what has gone since `before`. Of the last segment, the promises of the log tell what was in it."""
    there = set(now.logs)
    gone = tuple((base, following) for base, following in pairwise(before.logs) if base not in there)
    return replace(now, gone=gone)


def parse_listing(data: bytes) -> tuple[int, Listing] | None:
    """The mtime of the folder that a listing speaks of, and what it says; None where it is damaged."""
    if len(data) < _HEAD.size + _CRC.size or data[-_CRC.size :] != _CRC.pack(crc32c(memoryview(data)[: -_CRC.size])):
        return None
    magic, version, stamp, *counts = _HEAD.unpack_from(data)
    fits = min(counts) >= 0 and len(data) == _HEAD.size + 8 * sum(counts) + _CRC.size
    if magic != _MAGIC or version != _VERSION or not fits:
        return None
    numbers = memoryview(data)[_HEAD.size : -_CRC.size].cast("q")
    first, second = counts[0], counts[0] + counts[1]
    # Nearly none of these is ever looked at: no number is made of them before.
    snapshots = array("q", numbers[second:].tobytes())
    return stamp, Listing(numbers[:first].tolist(), numbers[first:second].tolist(), snapshots)
