"""Work in a partition's folder that a crash has interrupted: finished or undone, before anything in it is read.

(Kafka: LogLoader.removeTempFilesAndCollectSwapFiles.)
"""

from pylog.commitlog.segments import is_segment_file, remove_orphans
from pylog.config import TopicConfig
from pylog.files import Files, join
from pylog.segment import Segment
from pylog.storage.segment_files import CLEANED, DELETED, LOG, SUFFIXES, SWAP, file_name


def settle(files: Files, directory: str) -> list[str]:
    """Finish or undo what a crash has interrupted in a partition's folder; gives the names that are there then.

    Deleted files go. A replacement that was complete (`.swap`, and no `.cleaned` at or below it) takes its place, any
    other is dropped. Indexes without a log go. Names may have reached the disk in any order.
    """
    names = files.list_dir(directory)
    half_written = [name for name in names if name.endswith(".tmp")]
    _remove(files, directory, half_written)
    if any(name.endswith((CLEANED, SWAP, DELETED)) for name in names):
        _remove(files, directory, [name for name in names if name.endswith(DELETED)])
        cleaned = [name for name in names if name.endswith(CLEANED)]
        lowest = min((_base(name) for name in cleaned), default=None)
        swaps = [name for name in names if name.endswith(SWAP)]
        undone = [name for name in swaps if lowest is not None and _base(name) >= lowest]
        _remove(files, directory, undone + cleaned)
        _swap_in(files, directory, [name for name in swaps if name not in undone])
        files.sync_dir(directory)
        names = files.list_dir(directory)
    return remove_orphans(files, directory, names)


def _base(name: str) -> int:
    stem = name.partition(".")[0]
    return int(stem) if stem.isascii() and stem.isdigit() else 0


def _remove(files: Files, directory: str, names: list[str]) -> None:
    for name in names:
        files.remove(join(directory, name))


def _swap_in(files: Files, directory: str, swaps: list[str]) -> None:
    """Put complete replacements in the place of what they replace: nothing of that may be left beside them."""
    for name in swaps:
        if name.endswith(LOG + SWAP):
            base = _base(name)
            end = _swapped_end(files, directory, base)
            names = files.list_dir(directory)
            kept = _renamed_alone(names, base)
            replaced = [
                other for other in names
                if other.endswith(SUFFIXES) and is_segment_file(other, "." + other.partition(".")[2])
                and base <= _base(other) < end and other != kept
            ]  # fmt: skip
            _remove(files, directory, replaced)
    # What was replaced is gone for good before its replacement can be seen.
    files.sync_dir(directory)
    for name in swaps:
        files.rename(join(directory, name), join(directory, name[: -len(SWAP)]))


def _renamed_alone(names: list[str], base_offset: int) -> str | None:
    """The transaction index of a replacement, where a power cut has kept its rename and not that of its log.

    It cannot be made again where markers are gone. Where it is the old one after all it does no harm: what it hides was
    aborted, and the seal of the replacement denies it.
    """
    log, index = file_name(base_offset, LOG), file_name(base_offset, ".txnindex")
    return index if index in names and not {log, index + SWAP} & set(names) else None


def _swapped_end(files: Files, directory: str, base_offset: int) -> int:
    segment = Segment(files, directory, base_offset, TopicConfig(), active=False, suffix=SWAP)
    segment.load()
    segment.close()
    return segment.next_offset
