"""The segments of one partition, in order of their base offsets.

Readers take no lock: every change puts a new pair of lists in place of the old one, so whoever iterates goes on with
the segments there were when it began.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from pylog.files import Files, join
from pylog.segment import Segment


def base_offsets(files: Files, directory: str) -> list[int]:
    """The base offsets of the `.log` files in a partition's directory, rising."""
    return sorted(int(name[:-4]) for name in files.list_dir(directory) if _is_log(name))


def _is_log(name: str) -> bool:
    return name.endswith(".log") and name[:-4].isascii() and name[:-4].isdigit()


def remove_orphans(files: Files, directory: str) -> None:
    """Delete index files that have no log (LogLoader): a crash while a segment was removed leaves them."""
    names = files.list_dir(directory)
    logs = {name[:-4] for name in names if _is_log(name)}
    for name in names:
        stem, _, suffix = name.partition(".")
        if suffix in ("index", "timeindex", "txnindex") and stem not in logs:
            files.remove(join(directory, name))


def without_index(files: Files, directory: str) -> set[int]:
    """The base offsets of the segments that lack one of their two indexes, which have to be built anew."""
    names = set(files.list_dir(directory))
    stems = {name[:-4] for name in names if _is_log(name)}
    return {int(stem) for stem in stems if not {f"{stem}.index", f"{stem}.timeindex"} <= names}


class Segments:
    """A sorted sequence of segments; the last one is active."""

    def __init__(self, segments: Iterable[Segment] = ()) -> None:
        items = list(segments)
        self._state: tuple[list[int], list[Segment]] = ([s.base_offset for s in items], items)

    def __len__(self) -> int:
        return len(self._state[1])

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._state[1])

    def __getitem__(self, index: int) -> Segment:
        return self._state[1][index]

    @property
    def first(self) -> Segment:
        return self._state[1][0]

    @property
    def active(self) -> Segment:
        return self._state[1][-1]

    def index_of(self, offset: int) -> int:
        """Which segment holds `offset`: the last whose base is not above it, the first if all are."""
        return max(0, bisect_right(self._state[0], offset) - 1)

    def from_offset(self, offset: int) -> list[Segment]:
        """The segment that holds `offset` and all after it."""
        bases, items = self._state
        return items[max(0, bisect_right(bases, offset) - 1) :]

    def spans(self, end: int) -> list[tuple[Segment, int]]:
        """Each segment with the offset at which the next one begins (`end` for the last)."""
        bases, items = self._state
        # Without any (a partition that has no folder yet) `end` is left over.
        return list(zip(items, [*bases[1:], end], strict=False))

    def add(self, segment: Segment) -> None:
        bases, items = self._state
        self._state = ([*bases, segment.base_offset], [*items, segment])

    def keep(self, count: int) -> list[Segment]:
        """Keep the first `count` segments; gives the others."""
        bases, items = self._state
        self._state = (bases[:count], items[:count])
        return items[count:]
