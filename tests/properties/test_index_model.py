"""The indexes against sorted lists: any order of calls, and any bytes at the end of a file."""

import struct
from bisect import bisect_left, bisect_right

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pylog.files import MemoryFiles
from pylog.index import UNWRITTEN_MAX, OffsetIndex, TimeIndex
from pylog.storage.pending_syncs import sync_new

BASES = st.sampled_from([0, 1, 1042, 2**31, 2**63 - 2**20])
STEPS = st.integers(1, 50)


def check_file(files: MemoryFiles, packed: bytes, entry_bytes: int, *, active: bool) -> None:
    """The file has all entries; while some are being added it may lack the last few of them."""
    written = files.read_file("index")
    assert packed.startswith(written)
    assert len(packed) - len(written) <= (entry_bytes * (UNWRITTEN_MAX - 1) if active else 0)


class OffsetIndexMachine(RuleBasedStateMachine):
    """Model: the list of (offset, position) pairs."""

    @initialize(base=BASES, capacity=st.integers(1, 30))
    def make(self, base: int, capacity: int) -> None:
        self.files = MemoryFiles()
        self.base, self.max_bytes = base, capacity * 8 + 5
        self.model: list[tuple[int, int]] = []
        self.open(active=True)

    def open(self, *, active: bool) -> None:
        self.active = active
        self.index = OffsetIndex(self.files, "index", self.base, self.max_bytes, active=active)

    @precondition(lambda self: self.active)
    @rule(offset_step=STEPS, position_step=STEPS)
    def add(self, offset_step: int, position_step: int) -> None:
        offset, position = self.model[-1] if self.model else (self.base - 1, 0)
        entry = offset + offset_step, position + position_step
        assert self.index.is_full == (len(self.model) >= self.max_bytes // 8)
        if self.index.add(*entry):
            self.model.append(entry)
        else:
            assert len(self.model) >= self.max_bytes // 8

    @rule(back=st.integers(-2, 400))
    def truncate(self, back: int) -> None:
        offset = (self.model[-1][0] if self.model else self.base) - back
        kept = [entry for entry in self.model if entry[0] < offset]
        self.index.truncate(offset)
        self.active = self.active or len(kept) < len(self.model)
        self.model = kept

    @rule()
    def seal(self) -> None:
        self.index.seal()
        self.active = False

    @rule(active=st.booleans())
    def reopen(self, active: bool) -> None:
        self.index.close()
        self.open(active=active)
        assert self.index.sanity() is None

    @rule()
    def reset(self) -> None:
        self.index.reset()
        self.model, self.active = [], True

    @rule(away=st.integers(-5, 1600), log_size=st.none() | st.integers(0, 1600))
    def lookup(self, away: int, log_size: int | None) -> None:
        offset = self.base + away
        within = [e for e in self.model if e[0] <= offset and (log_size is None or e[1] < log_size)]
        assert self.index.lookup(offset, log_size=log_size) == (within[-1] if within else (self.base, 0))

    @invariant()
    def same(self) -> None:
        if hasattr(self, "model"):
            assert list(self.index) == self.model
            assert self.index.last == (self.model[-1] if self.model else None)
            packed = b"".join(struct.pack(">ii", o - self.base, p) for o, p in self.model)
            check_file(self.files, packed, 8, active=self.active)


class TimeIndexMachine(RuleBasedStateMachine):
    """Model: the list of (timestamp, offset) pairs."""

    @initialize(base=BASES, capacity=st.integers(2, 30))
    def make(self, base: int, capacity: int) -> None:
        self.files = MemoryFiles()
        self.base, self.capacity = base, capacity
        self.model: list[tuple[int, int]] = []
        self.open(active=True)

    def open(self, *, active: bool) -> None:
        self.active = active
        self.index = TimeIndex(self.files, "index", self.base, self.capacity * 12, active=active)

    @precondition(lambda self: self.active)
    @rule(time_step=st.integers(0, 50), offset_step=st.integers(0, 50), force=st.booleans())
    def add(self, time_step: int, offset_step: int, force: bool) -> None:
        timestamp, offset = self.model[-1] if self.model else (-1, self.base)
        full = len(self.model) >= self.capacity - 1
        added = self.index.maybe_add(timestamp + time_step, offset + offset_step, force=force)
        assert added == (time_step > 0 and (force or not full))
        if added:
            self.model.append((timestamp + time_step, offset + offset_step))

    @rule(back=st.integers(-2, 400))
    def truncate(self, back: int) -> None:
        offset = (self.model[-1][1] if self.model else self.base) - back
        kept = [entry for entry in self.model if entry[1] < offset]
        self.index.truncate(offset)
        self.active = self.active or len(kept) < len(self.model)
        self.model = kept

    @rule()
    def seal(self) -> None:
        self.index.seal()
        self.active = False

    @rule(active=st.booleans())
    def reopen(self, active: bool) -> None:
        self.index.close()
        self.open(active=active)

    @rule(timestamp=st.integers(-1, 1600), away=st.none() | st.integers(0, 1600))
    def lookup(self, timestamp: int, away: int | None) -> None:
        upto = None if away is None else self.base + away
        within = [e for e in self.model if e[0] <= timestamp and (upto is None or e[1] < upto)]
        assert self.index.lookup(timestamp, upto=upto) == (within[-1] if within else (-1, self.base))

    @invariant()
    def same(self) -> None:
        if hasattr(self, "model"):
            assert list(self.index) == self.model
            packed = b"".join(struct.pack(">qi", t, o - self.base) for t, o in self.model)
            check_file(self.files, packed, 12, active=self.active)


TestOffsetIndexMachine = OffsetIndexMachine.TestCase
TestTimeIndexMachine = TimeIndexMachine.TestCase

SMALL = st.integers(-3, 12)
ANY_INT32 = st.integers(-(2**31), 2**31 - 1)
OFFSET_ROWS = st.lists(st.tuples(SMALL | ANY_INT32, SMALL | ANY_INT32), max_size=12)
TIME_ROWS = st.lists(st.tuples(SMALL | st.integers(-(2**63), 2**63 - 1), SMALL | ANY_INT32), max_size=12)


@given(rows=OFFSET_ROWS, tail=st.binary(max_size=24), base=BASES, active=st.booleans())
def test_any_offset_index_file_is_believed_as_far_as_it_rises(
    rows: list[tuple[int, int]], tail: bytes, base: int, active: bool
) -> None:
    data = b"".join(struct.pack(">ii", *row) for row in rows) + tail
    files = MemoryFiles()
    files.replace_file("index", data)
    index = OffsetIndex(files, "index", base, 800, active=active)
    believed: list[tuple[int, int]] = []
    for relative, position in struct.iter_unpack(">ii", data[: len(data) - len(data) % 8]):
        last = believed[-1] if believed else (-1, 0)
        if relative <= last[0] or position <= last[1]:
            break
        believed.append((relative, position))
    assert list(index) == [(base + relative, position) for relative, position in believed]
    assert (index.sanity() is None) == (len(believed) * 8 == len(data))
    firsts = [relative for relative, _ in believed]
    for target in (0, 1, 5, 100, 2**31):
        at = bisect_right(firsts, target)
        assert index.lookup(base + target) == ((base + firsts[at - 1], believed[at - 1][1]) if at else (base, 0))
    index.truncate(base + 5)
    assert index.entries == bisect_left(firsts, 5)
    index.close()
    assert OffsetIndex(files, "index", base, 800, active=False).entries == index.entries


@given(rows=TIME_ROWS, tail=st.binary(max_size=30) | st.builds(bytes, st.integers(0, 60)), active=st.booleans())
def test_any_time_index_file_is_believed_as_far_as_it_rises(
    rows: list[tuple[int, int]], tail: bytes, active: bool
) -> None:
    data = b"".join(struct.pack(">qi", *row) for row in rows) + tail
    files = MemoryFiles()
    files.replace_file("index", data)
    index = TimeIndex(files, "index", 100, 1200, active=active)
    believed: list[tuple[int, int]] = []
    for timestamp, relative in struct.iter_unpack(">qi", data[: len(data) - len(data) % 12]):
        last = believed[-1] if believed else (-1, 0)
        if timestamp <= last[0] or relative < last[1]:
            break
        believed.append((timestamp, relative))
    if len(data) > 12 and not any(data[:24]):
        believed = []
    assert list(index) == [(timestamp, 100 + relative) for timestamp, relative in believed]
    assert all(index.lookup(t) == (t, 100 + relative) for t, relative in believed)
    if active:
        index.maybe_add(2**63 - 1, 100 + 2**31 - 1, force=True)
        sync_new(index.to_sync())
        reopened = list(TimeIndex(files, "index", 100, 1200, active=False))
        assert reopened == list(index)
        assert reopened[-1][0] == 2**63 - 1
