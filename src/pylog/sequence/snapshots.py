"""The .snapshot files of a partition's directory.

    %020d.snapshot      the number is the first offset that the snapshot knows nothing of

They begin segments, and end a log that was closed. None is ever needed: a bad one is removed and the next older one
taken, and without any the log is replayed from its start.
"""

import logging

from pylog.errors import CorruptBatch, DiskFull
from pylog.files import File, Files, join
from pylog.sequence.producers import Producers

logger = logging.getLogger("pylog")

_SUFFIX = ".snapshot"


def snapshot_name(offset: int) -> str:
    """The name of the snapshot that speaks for everything below `offset`."""
    return f"{offset:020d}{_SUFFIX}"


def snapshot_offsets(files: Files, directory: str) -> list[int]:
    """The offsets of the snapshots in a partition's directory, rising."""
    stems = (name[: -len(_SUFFIX)] for name in files.list_dir(directory) if name.endswith(_SUFFIX))
    return sorted(int(stem) for stem in stems if len(stem) == 20 and stem.isascii() and stem.isdigit())


def take_snapshot(files: Files, directory: str, producers: Producers) -> File | None:
    """Write a snapshot of this moment, unless there is one already; gives the file, which the caller syncs.

    Raises DiskFull, with no file left behind. (ProducerStateManager.takeSnapshot)
    """
    if producers.end_offset <= producers.snapshot_offset:
        return None
    path = join(directory, snapshot_name(producers.end_offset))
    file = files.open(path, create=True)
    try:
        file.truncate(0)
        file.write(0, producers.encode())
    except DiskFull:
        file.close()
        files.remove(path)
        raise
    producers.note_snapshot(producers.end_offset)
    return file


def restore(files: Files, directory: str, producers: Producers, start: int, end: int, now_ms: int) -> None:
    """Bring `producers` to an offset at or below `end` from which the log can be replayed: where they are, or at the
    newest good snapshot, or at `start`, with nothing known.

    Snapshots outside (start, end] go, and so do bad ones. (ProducerStateManager.truncateAndReload)
    """
    offsets = []
    for offset in snapshot_offsets(files, directory):
        if start < offset <= end:
            offsets.append(offset)
        else:
            files.remove(join(directory, snapshot_name(offset)))
    if producers.end_offset == end:
        producers.note_snapshot(offsets[-1] if offsets else None)
        producers.start_at(start)
        return
    for offset in reversed(offsets):
        path = join(directory, snapshot_name(offset))
        try:
            producers.load(files.read_file(path), offset, now_ms)
            return
        except CorruptBatch as error:
            logger.warning("%s is of no use and is removed: %s", path, error)
            files.remove(path)
    producers.clear(start)
    producers.snapshot_offset = start


def drop_strays(files: Files, directory: str, bases: list[int]) -> None:
    """Remove the snapshots that match no segment, but for the newest if it lies above the last one: that is the one
    of a clean stop. (ProducerStateManager.removeStraySnapshots)
    """
    known = set(bases)
    strays = [offset for offset in snapshot_offsets(files, directory) if offset not in known]
    if strays and strays[-1] > max(bases, default=-1):
        strays.pop()
    for offset in strays:
        files.remove(join(directory, snapshot_name(offset)))
