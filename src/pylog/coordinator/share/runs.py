"""The records of a share partition that are in flight: neighbours in one state are one run.

    offsets   [start ........................................ end)
    runs      | acknowledged | acquired by m1 | available | acquired by m2 |

Invariants: runs are sorted and cover [start, end) without a gap. A run ends where the next one begins. As many records
as there are in one state cost one run: it is cut where a record of it changes alone, and joined again.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from pylog.coordinator.share.states import RecordState, StoredBatch

NEVER = 1 << 63


@dataclass(slots=True, eq=False)
class StateChange:
    """States that change together. An instance is known by its identity."""

    batches: list[StoredBatch] = field(default_factory=list)
    """What is to be written."""

    def add(self, run: "Run", end: int, target: RecordState) -> None:
        """Let the records of a run have another state."""
        batch = StoredBatch(run.first, end - 1, target, run.deliveries)
        last = self.batches[-1] if self.batches else None
        if last is not None and last.last_offset + 1 == run.first and last[2:] == batch[2:]:
            self.batches[-1] = last._replace(last_offset=end - 1)
        else:
            self.batches.append(batch)


@dataclass(slots=True)
class Run:
    """Neighbouring records in one state."""

    first: int
    state: RecordState
    deliveries: int = 0
    member: str = ""
    """Who has acquired them."""
    due_ms: int = NEVER
    """When the lock of an acquired run ends."""
    change: StateChange | None = None
    """The change of the state of acquired records that is not written down yet."""
    target: RecordState = RecordState.AVAILABLE
    """Their state after it."""

    def is_like(self, other: "Run") -> bool:
        """Whether two neighbours can be one run."""
        return (
            self.state is other.state
            and self.deliveries == other.deliveries
            and self.due_ms == other.due_ms
            and self.member == other.member
            and self.change is other.change
            and self.target is other.target
        )

    @property
    def is_final(self) -> bool:
        """Whether it is acknowledged or archived, or will be by its change."""
        state = self.state if self.change is None else self.target
        return state is RecordState.ACKNOWLEDGED or state is RecordState.ARCHIVED


class Runs:
    """The runs between `start` and `end`."""

    def __init__(self, start: int) -> None:
        self.start = start
        """The first offset that is in flight; `end` where none is."""
        self.end = start
        self._firsts: list[int] = []
        self._runs: list[Run] = []

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def end_of(self, index: int) -> int:
        """Where a run ends."""
        return self._firsts[index + 1] if index + 1 < len(self._firsts) else self.end

    def spans(self, first: int, end: int) -> list[tuple[Run, int, int]]:
        """The runs with records in [first, end), each with the part of it that lies there."""
        firsts, found = self._firsts, []
        first, end = max(first, self.start), min(end, self.end)
        index = bisect_right(firsts, first) - 1
        while first < end:
            index += 1
            stop = min(firsts[index] if index < len(firsts) else self.end, end)
            found.append((self._runs[index - 1], first, stop))
            first = stop
        return found

    def cut_out(self, first: int, end: int) -> list[Run]:
        """The runs of [first, end), which is in flight, cut so that none has records elsewhere."""
        low = self._cut(first)
        return self._runs[low : self._cut(end)]

    def _cut(self, offset: int) -> int:
        """Let a run begin at an offset; gives its number."""
        if offset >= self.end:
            return len(self._runs)
        index = bisect_right(self._firsts, offset) - 1
        run = self._runs[index]
        if run.first == offset:
            return index
        rest = Run(offset, run.state, run.deliveries, run.member, run.due_ms, run.change, run.target)
        self._runs.insert(index + 1, rest)
        self._firsts.insert(index + 1, offset)
        return index + 1

    def append(self, run: Run, end: int) -> None:
        """Add a run behind the others, which begins at `end`."""
        assert run.first == self.end < end, "runs have no gaps"
        self._runs.append(run)
        self._firsts.append(run.first)
        self.end = end

    def cut_off(self, end: int) -> None:
        """Let nothing be in flight from `end` on."""
        index = self._cut(end)
        del self._runs[index:], self._firsts[index:]
        self.end = end

    def drop_before(self, offset: int) -> None:
        """Let nothing be in flight below an offset, which may be behind all of them."""
        index = self._cut(offset)
        del self._runs[:index], self._firsts[:index]
        self.end = max(self.end, offset)
        self.start = offset

    def join(self, first: int, end: int) -> None:
        """Make one run of neighbours in one state, in [first, end) and at its edges."""
        low = max(bisect_left(self._firsts, first) - 1, 0)
        high = min(bisect_left(self._firsts, end) + 1, len(self._runs))
        kept: list[Run] = []
        for run in self._runs[low:high]:
            if not (kept and kept[-1].is_like(run)):
                kept.append(run)
        if len(kept) < high - low:
            self._runs[low:high] = kept
            self._firsts[low:high] = [run.first for run in kept]

    def check(self) -> None:
        """Verify the invariants."""
        assert self._firsts == [run.first for run in self._runs], "the index is that of the runs"
        assert self._firsts == sorted(set(self._firsts)), "runs are sorted"
        assert not self._firsts or self._firsts[-1] < self.end, "the last run has records"
        assert self.start == (self._firsts[0] if self._firsts else self.end), "the first run begins at the start"
