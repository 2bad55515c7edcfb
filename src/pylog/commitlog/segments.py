"""The segments of one partition, in order of their base offsets.

A segment is made when it is first asked for, so opening a partition costs nothing per segment. Readers take no lock:
adding appends to the lists (an offset is found only when its segment is there), and everything else puts new lists in
place of the old ones, so an iteration goes on with the segments there were when it began.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence

from pylog.files import Files, join
from pylog.kernel.format import LONG_MAX
from pylog.segment import Segment
from pylog.storage.segment_files import LOG, SUFFIXES


def base_offsets(files: Files, directory: str) -> list[int]:
    """The base offsets of the `.log` files in a partition's directory, rising."""
    return logs_among(files.list_dir(directory))


def logs_among(names: Iterable[str]) -> list[int]:
    """The base offsets of the `.log` files among `names`, rising."""
    return sorted(int(name[:-4]) for name in names if is_segment_file(name, LOG))


def is_segment_file(name: str, suffix: str) -> bool:
    """Whether `name` is an offset and then `suffix`."""
    stem = name[: -len(suffix)]
    return name.endswith(suffix) and stem.isascii() and stem.isdigit() and int(stem) <= LONG_MAX


TIMESTAMP_MAX = 2**63 - 1


class Segments:
    """A sorted sequence of segments; the last one is active. `make` gives the segment with a base offset."""

    def __init__(self, make: Callable[[int], Segment], bases: Iterable[int] = ()) -> None:
        self._make = make
        self._state: tuple[list[int], dict[int, Segment]] = (list(bases), {})
        self._newest: tuple[list[int], list[int]] = ([], [])  # of these segments, the largest timestamp so far
        self._measured: tuple[list[int], int, int] = ([], 0, 0)  # so many of these segments have so many bytes

    def load(self, bases: Iterable[int]) -> list[Segment]:
        """Begin again with the segments of these base offsets; gives those that were made before."""
        before, self._state = self.made, (list(bases), {})
        return before

    def __len__(self) -> int:
        return len(self._state[0])

    def __iter__(self) -> Iterator[Segment]:
        return self.from_index(0)

    def __contains__(self, base_offset: int) -> bool:
        bases = self._state[0]
        at = bisect_left(bases, base_offset)
        return at < len(bases) and bases[at] == base_offset

    def __getitem__(self, index: int) -> Segment:
        bases, made = self._state
        return self._get(bases[index], made)

    def _get(self, base_offset: int, made: dict[int, Segment]) -> Segment:
        found = made.get(base_offset)
        # Two threads that come at once get the same one.
        return found if found is not None else made.setdefault(base_offset, self._make(base_offset))

    @property
    def bases(self) -> Sequence[int]:
        """The base offsets, rising. Those of segments that are added later come in behind."""
        return self._state[0]

    @property
    def start(self) -> int:
        """The base offset of the first one, which is not made for that."""
        return self._state[0][0]

    @property
    def active(self) -> Segment:
        return self[-1]

    @property
    def made(self) -> list[Segment]:
        """Those that were asked for since the partition was opened, in no order: only they can hold anything open."""
        return list(self._state[1].values())

    def size(self) -> int:
        """Bytes of all `.log` files. Each sealed one is looked at once."""
        bases, made = self._state
        known, count, size = self._measured
        if known is not bases:
            count = size = 0
        for base in bases[count:-1]:
            size += self._get(base, made).size
        self._measured = (bases, len(bases) - 1, size)
        return size + (self._get(bases[-1], made).size if bases else 0)

    def index_of(self, offset: int) -> int:
        """The place of the segment that holds `offset`: the last whose base is not above it, the first if all are."""
        return max(0, bisect_right(self._state[0], offset) - 1)

    def end_if_there(self, segment: Segment, end: int) -> int | None:
        """Where a segment ends, `end` for the last one; None when it is not one of these any more."""
        bases, made = self._state
        at = bisect_left(bases, segment.base_offset)
        if made.get(segment.base_offset) is not segment or at == len(bases):
            return None
        return bases[at + 1] if at + 1 < len(bases) else end

    def from_index(self, index: int) -> Iterator[Segment]:
        """The segment at `index` and all after it."""
        bases, made = self._state
        while index < len(bases):
            yield self._get(bases[index], made)
            index += 1

    def from_offset(self, offset: int) -> Iterator[Segment]:
        """The segment that holds `offset` and all after it."""
        return self.from_index(self.index_of(offset))

    def with_ends(self, offset: int, end: int) -> Iterator[tuple[Segment, int]]:
        """The same, each with where it ends: the base offset of the next one, `end` for the last."""
        bases, made = self._state
        return self._with_ends(bases, made, max(0, bisect_right(bases, offset) - 1), end)

    def from_time(self, timestamp: int, end: int) -> Iterator[tuple[Segment, int]]:
        """The first segment that may hold a record of that time or later, and all after it, with their ends."""
        bases, made = self._state
        return self._with_ends(bases, made, self._first_with_time(bases, made, timestamp), end)

    def _with_ends(
        self, bases: list[int], made: dict[int, Segment], index: int, end: int
    ) -> Iterator[tuple[Segment, int]]:
        while index < len(bases):
            segment = self._get(bases[index], made)
            index += 1
            yield segment, bases[index] if index < len(bases) else end

    def _first_with_time(self, bases: list[int], made: dict[int, Segment], timestamp: int) -> int:
        """The place of the first segment that may hold a record of that time or later: the active one where none is
        known.

        What the sealed ones have is asked once, and only as far as it has to be.
        """
        known, newest = self._newest
        if known is not bases:
            newest = []
        sealed = len(bases) - 1
        if len(newest) < sealed and (not newest or newest[-1] < timestamp):
            # A list of its own: another thread may be doing the same.
            newest = list(newest)
            while len(newest) < sealed and (not newest or newest[-1] < timestamp):
                segment = self._get(bases[len(newest)], made)
                # What cannot be read, or is gone, may have been of any time.
                lost = (
                    segment.log.damages
                    or segment.on_disk.is_cut()
                    or segment.on_disk.lacks_follower(bases[len(newest) + 1]) is not None
                )
                largest = TIMESTAMP_MAX if lost else segment.largest_timestamp
                newest.append(max(largest, newest[-1] if newest else largest))
            self._newest = (bases, newest)
        return bisect_left(newest, timestamp)

    def end_of(self, index: int, end: int) -> int:
        """Where the segment at `index` ends: the base offset of the next one, `end` for the last."""
        bases = self._state[0]
        return bases[index + 1] if index + 1 < len(bases) else end

    def add(self, segment: Segment) -> None:
        """Put a new active segment behind the others."""
        bases, made = self._state
        made[segment.base_offset] = segment
        bases.append(segment.base_offset)

    def keep(self, count: int) -> list[Segment]:
        """Keep the first `count` segments; gives the others."""
        gone = list(self.from_index(count))
        self._replace(self._state[0][:count])
        return gone

    def drop(self, count: int) -> None:
        """Drop the first `count` segments."""
        self._replace(self._state[0][count:])

    def swap(self, old: Iterable[Segment], new: Segment) -> None:
        """Put `new` in the place of `old`, neighbours that it holds the records of."""
        gone = {segment.base_offset for segment in old}
        bases, made = self._state
        kept = {base: segment for base, segment in made.items() if base not in gone}
        kept[new.base_offset] = new
        self._state = (sorted([*(base for base in bases if base not in gone), new.base_offset]), kept)

    def _replace(self, bases: list[int]) -> None:
        kept, made = set(bases), self._state[1]
        self._state = (bases, {base: segment for base, segment in made.items() if base in kept})


def remove_orphans(files: Files, directory: str, names: list[str]) -> list[str]:
    """Delete index files that have no log (LogLoader): a crash while a segment was removed leaves them.

    Gives the names that are left.
    """
    logs = {name[: -len(LOG)] for name in names if name.endswith(LOG)}
    orphans = [
        name
        for name in names
        if name.endswith(SUFFIXES[1:])
        and name.partition(".")[0] not in logs
        and is_segment_file(name, "." + name.partition(".")[2])
    ]
    for name in orphans:
        files.remove(join(directory, name))
    return [name for name in names if name not in orphans] if orphans else names
