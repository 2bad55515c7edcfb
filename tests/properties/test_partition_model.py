"""A partition against a list: whatever is appended, rolled, cut, closed, torn and copied, it gives what the list says.

The list holds batches: (base offset, epoch, [(timestamp, value)]). It all lies in memory; the same code runs on disk.
"""

from typing import Any
from uuid import UUID

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pylog.batch import encode, split
from pylog.compression import Codec
from pylog.config import TopicConfig
from pylog.errors import RecordBatchTooLarge
from pylog.files import MemoryFiles
from pylog.kernel import Record
from pylog.message import FetchPart
from pylog.partition import Checkpoint, Partition
from pylog.replica import Follower, Leader, bounds_part

NOW = 1_700_000_000_000
LEADER, FOLLOWER = 1, 2

sizes = st.one_of(st.integers(0, 30), st.sampled_from([200, 900, 3000, 6000]))
times = st.one_of(st.integers(0, 50), st.integers(NOW - 5000, NOW), st.just(NOW))
rows = st.lists(st.tuples(times, sizes), min_size=1, max_size=4)
codecs = st.sampled_from([Codec.NONE, Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])


class Model(RuleBasedStateMachine):
    @initialize(segment_bytes=st.sampled_from([1000, 4000]), segment_ms=st.sampled_from([3000, 10**12]),
                interval=st.sampled_from([0, 100, 2000]))  # fmt: skip
    def make(self, segment_bytes: int, segment_ms: int, interval: int) -> None:
        self.config = TopicConfig.loaded(
            {"segment.bytes": str(segment_bytes), "segment.ms": str(segment_ms), "index.interval.bytes": str(interval)}
        )
        self.files, self.copies = MemoryFiles(), MemoryFiles()
        self.partition = self.partition_over(self.files)
        self.partition.create(UUID(int=7), NOW)
        self.copy = self.partition_over(self.copies)
        self.copy.create(UUID(int=7), NOW)
        self.batches: list[tuple[int, int, list[tuple[int, bytes]]]] = []
        self.epoch = 0
        self.durable = 0
        self.number = 0
        self.rolled = False

    def partition_over(self, files: MemoryFiles) -> Partition:
        return Partition(files, "log/t-0", "t", 0, self.config)

    @property
    def end(self) -> int:
        return self.batches[-1][0] + len(self.batches[-1][2]) if self.batches else 0

    def records(self, start: int = 0) -> list[tuple[int, int, bytes]]:
        flat = [(base + i, time, value) for base, _, rows in self.batches for i, (time, value) in enumerate(rows)]
        return flat[start:]

    # --- what happens to it ----------------------------------------------------------------------------------------

    @rule(rows=rows, codec=codecs)
    def append(self, rows: list[tuple[int, int]], codec: Codec) -> None:
        made = []
        for time, size in rows:
            self.number += 1
            made.append((time, b"%d:" % self.number + bytes((self.number * 31 + i * 7) & 255 for i in range(size))))
        batch = encode([Record(value, timestamp=time) for time, value in made], now_ms=NOW, codec=codec)
        if batch.size > self.config.segment_bytes:
            with pytest.raises(RecordBatchTooLarge):
                self.partition.append(batch, epoch=self.epoch, now_ms=NOW)
            return
        appended = self.partition.append(batch, epoch=self.epoch, now_ms=NOW)
        assert (appended.base_offset, appended.next_offset) == (self.end, self.end + len(made))
        self.batches.append((self.end, self.epoch, made))

    @rule()
    def roll(self) -> None:
        self.partition.roll(NOW)
        self.rolled = True

    @rule()
    def new_epoch(self) -> None:
        self.epoch += 1
        self.partition.begin_epoch(self.epoch)

    @rule()
    def sync(self) -> None:
        self.durable = self.partition.sync()
        assert self.durable == self.end

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        target = data.draw(st.sampled_from([base for base, _, _ in self.batches] + [self.end]))
        assert self.partition.truncate(target, NOW) is (target < self.end)
        self.partition.drop_empty_tail()
        while self.batches and self.end > target:
            self.batches.pop()
        self.durable = min(self.durable, self.end)
        self.epoch += 1

    @rule()
    def reopen(self) -> None:
        assert self.partition.close()
        self.partition = self.partition_over(self.files)
        self.partition.open(Checkpoint(durable_offset=self.end), NOW)
        assert self.partition.recovered is None and self.partition.next_offset == self.end
        self.durable = self.end

    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        """Nothing is closed, and the end of the last file is gone or garbage, down to what was durable at most."""
        active = self.partition.segments[-1][0]
        log = self.files.open(active.path)
        ends, position = [], 0
        whole = log.read(0, log.size())
        for batch in split(whole):
            position += batch.size
            ends.append((batch.next_offset, position))
        keep = max([position for offset, position in ends if offset <= self.durable], default=0)
        size = data.draw(st.integers(keep, log.size()))
        torn = size < log.size()
        log.truncate(size)
        garbage = data.draw(st.sampled_from([b"", b"", b"\0" * 100, b"\xff" * 70]))
        if torn and garbage:
            # Not what was there, or it would be whole again.
            garbage = bytes([whole[size] ^ 0x55]) + garbage
        log.write(size, garbage)
        end = max([offset for offset, position in ends if position <= size], default=active.base_offset)
        while self.batches and self.end > end:
            self.batches.pop()
        self.partition = self.partition_over(self.files)
        self.partition.open(Checkpoint(clean=False, durable_offset=self.durable), NOW)
        assert self.partition.next_offset == self.end
        if not torn and not garbage:
            assert self.partition.recovered is None
        self.epoch += 1

    @precondition(lambda self: not self.rolled)
    @rule(max_bytes=st.sampled_from([1, 700, 1 << 20]))
    def follow(self, max_bytes: int) -> None:
        """A follower that may have been here before becomes the same, byte for byte."""
        leader = Leader(self.partition, epoch=self.epoch, followers=frozenset({FOLLOWER}), visible_when_durable=False)
        self.partition.begin_epoch(self.epoch)
        follower = Follower(self.copy, leader=LEADER, epoch=self.epoch)
        rounds = 0
        while True:
            part = follower.next_fetch(max_bytes)
            if not follower.apply(leader.fetch(part, replica_id=FOLLOWER, max_bytes=1 << 20), NOW):
                break
            rounds += 1
            assert rounds < 5 * len(self.batches) + 50, "the follower makes no progress"
        assert self.copy.next_offset == self.end == self.partition.high_watermark == self.copy.high_watermark

        def content(partition: Partition) -> dict[int, bytes]:
            return {s.base_offset: partition.files.read_file(s.path) for s, _ in partition.segments}

        assert content(self.copy) == content(self.partition)
        self.copy.check()

    @rule()
    def follower_reopens(self) -> None:
        self.copy.close()
        end = self.copy.next_offset
        self.copy = self.partition_over(self.copies)
        self.copy.open(Checkpoint(durable_offset=end, high_watermark=0), NOW)

    # --- what is asked ---------------------------------------------------------------------------------------------

    @rule(data=st.data(), max_bytes=st.sampled_from([1, 100, 1500, 1 << 20]))
    def read(self, data: st.DataObject, max_bytes: int) -> None:
        offset = data.draw(st.integers(0, self.end))
        upto = data.draw(st.sampled_from([base for base, _, _ in self.batches] + [self.end]))
        wanted = [record for record in self.records(offset) if record[0] < upto]
        found: list[tuple[int, int, bytes | None]] = []
        while offset < upto:
            piece = self.partition.read(offset, max_bytes, upto=upto)
            assert piece is not None
            batches = list(split(piece.data, check_crc=True))
            assert batches and (len(piece.data) <= max_bytes or len(batches) == 1)
            assert batches[0].base_offset <= offset < batches[0].next_offset
            for batch in batches:
                found += [(r.offset, r.timestamp, r.value) for r in batch.records("t", 0, offset)]
                offset = batch.next_offset
        assert found == wanted
        assert self.partition.read(upto, max_bytes, upto=upto) is None

    @rule(data=st.data())
    def offset_for_time(self, data: st.DataObject) -> None:
        known = [time for _, time, _ in self.records()]
        time = data.draw(st.one_of(times, st.sampled_from(known or [0])))
        upto = data.draw(st.sampled_from([base for base, _, _ in self.batches] + [self.end]))
        wanted = next(((t, o) for o, t, _ in self.records() if t >= time and o < upto), None)
        found = self.partition.offset_for_time(time, upto=upto)
        assert (found and (found.timestamp, found.offset)) == wanted

    @rule()
    def a_fetch_at_the_end_gives_the_bounds(self) -> None:
        answer = bounds_part(self.partition, FetchPart("t", 0, self.end))
        assert (answer.log_start_offset, len(answer.data)) == (0, 0)

    @invariant()
    def everything_holds(self) -> None:
        if not hasattr(self, "partition"):
            return
        partition: Any = self.partition
        partition.check()
        assert (partition.start_offset, partition.next_offset) == (0, self.end)
        assert partition.durable_offset <= self.end and partition.high_watermark <= self.end
        starts: dict[int, int] = {}
        for base, epoch, _ in self.batches:
            starts.setdefault(epoch, base)
        assert [entry for entry in partition.epochs.entries if entry[1] < self.end] == sorted(starts.items())


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
