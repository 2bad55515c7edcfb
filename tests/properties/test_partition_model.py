"""A partition against a list: whatever is appended, cut, cleaned, closed, torn, it gives what the list says.

Everything that changes a partition is a rule here, on a log of plain, compressed, idempotent and transactional batches
in small segments; after every step the whole partition is held against the reference in partition_model.py.

25 runs by default; `make model RUNS=2000` makes more. It all lies in memory; the same code runs on disk.
"""

import logging
import os
from collections.abc import Iterator
from uuid import UUID

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from properties.partition_model import Reference, Row, Written, consumed, parsed, producers
from properties.test_sequence_model import Seen
from pylog.broker.log_cleaner import clean
from pylog.commitlog.compaction.offset_map import SLOT_BYTES
from pylog.config import TopicConfig
from pylog.errors import (
    FencedLeaderEpoch,
    OffsetOutOfRange,
    PolicyViolation,
    ProtocolError,
    RecordBatchTooLarge,
)
from pylog.files import MemoryFiles
from pylog.kernel import Record
from pylog.partition import Checkpoint, Partition
from pylog.protocol.batch import Batch, Origin, encode, split
from pylog.protocol.compression import Codec
from pylog.storage.producer_state import Producers, snapshot_name, snapshot_offsets
from pylog.testing import SimClock
from support.leader_appends import append_bytes

RUNS = int(os.environ.get("PYLOG_MODEL_RUNS", "25"))
STEPS = 40
T0 = 1_700_000_000_000
DAY = 86_400_000
DIRECTORY = "log/t-0"
PRODUCERS = [1, 2, 17]
REBUILT = [".index", ".timeindex", ".txnindex", ".snapshot"]

sizes = st.one_of(st.integers(0, 30), st.sampled_from([200, 900, 3000]))
times = st.one_of(st.integers(0, 50), st.integers(T0 - 5000, T0), st.just(T0))
keys = st.sampled_from([b"a", b"b", b"c", bytes(4)])  # the last one looks like the key of a marker
tombstones = st.sampled_from([False, False, False, True])
rows = st.lists(st.tuples(times, keys, sizes, tombstones), min_size=1, max_size=4)
codecs = st.sampled_from([Codec.NONE, Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
gaps = st.integers(0, 3)
shares = st.sampled_from([1.0, 1.0, 0.9, 0.5, 0.1, 0.0])
kinds = st.lists(
    st.tuples(st.sampled_from("plain idempotent txn txn end end".split()), st.sampled_from(PRODUCERS)),
    min_size=1, max_size=10,
)  # fmt: skip

Given = list[tuple[int, bytes, int, bool]]


@pytest.fixture(scope="module", autouse=True)
def quiet() -> Iterator[None]:
    """Recovery says what it cuts, and producers who is late: here that happens all the time."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class Machine(RuleBasedStateMachine):
    @initialize(
        segment_bytes=st.sampled_from([700, 1000, 4000]), segment_ms=st.sampled_from([3000, 10**12]),
        interval=st.sampled_from([0, 100, 2000]), index_bytes=st.sampled_from([60, 10_000]),
        policy=st.sampled_from(["delete", "compact", "compact,delete"]),
        retention=st.sampled_from([{}, {"retention.bytes": "1500"}, {"retention.ms": "4000"}]),
        delete_retention_ms=st.sampled_from([0, 10**9]), expiration_ms=st.sampled_from([DAY, 10**15]),
        has_followers=st.sampled_from([False, False, True]),
    )  # fmt: skip
    def make(
        self, segment_bytes: int, segment_ms: int, interval: int, index_bytes: int, policy: str,
        retention: dict[str, str], delete_retention_ms: int, expiration_ms: int, has_followers: bool,
    ) -> None:  # fmt: skip
        given = {
            "segment.bytes": segment_bytes, "segment.ms": segment_ms, "index.interval.bytes": interval,
            "segment.index.bytes": index_bytes, "cleanup.policy": policy, "file.delete.delay.ms": 1000,
            "delete.retention.ms": delete_retention_ms, "message.timestamp.after.max.ms": 10**15,
        }  # fmt: skip
        self.config = TopicConfig.loaded({name: str(value) for name, value in given.items()} | retention)
        self.expiration_ms = expiration_ms
        self.has_followers = has_followers
        self.clock = SimClock(wall_ms=T0)
        self.files = MemoryFiles(self.clock)
        self.model = Reference(producers_expire=expiration_ms == DAY)
        self.partition = self.made()
        self.partition.create(UUID(int=7), T0)
        self.epoch = 0
        self.checkpoint: int | None = None
        self.number = 0

    def made(self) -> Partition:
        return Partition(self.files, DIRECTORY, "t", 0, self.config, producer_id_expiration_ms=self.expiration_ms)

    @property
    def now_ms(self) -> int:
        return self.clock.wall_ms()

    @property
    def end(self) -> int:
        return self.model.end

    # --- appending -------------------------------------------------------------------------------------------------

    def encoded(self, given: Given, codec: Codec = Codec.NONE, **header: int | bool) -> Batch:
        records = []
        for time, key, size, is_tombstone in given:
            self.number += 1
            value = b"%d:" % self.number + bytes((self.number * 31 + i * 7) & 255 for i in range(size))
            records.append(Record(None if is_tombstone else value, key, time))
        return encode(records, now_ms=self.now_ms, codec=codec, **header)  # type: ignore[arg-type]

    def written(self, batch: Batch, base_offset: int, epoch: int) -> Written:
        """What is to be found in the log for a batch: worked out before it is appended."""
        rows = [Row(base_offset + r.offset, r.timestamp, r.key, r.value) for r in batch.records("t", 0)]
        return Written(
            base_offset, base_offset + len(rows), epoch, tuple(rows), batch.size, batch.max_timestamp,
            batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.is_transactional, batch.marker(),
        )  # fmt: skip

    def append(self, batch: Batch, *, origin: Origin = Origin.CLIENT, encoded_elsewhere: bool = False) -> None:
        wanted = self.written(batch, self.end, self.epoch)
        too_large = batch.size > self.config.segment_bytes
        seen = self.model.known.get(batch.producer_id)
        refusal = seen.refusal(wanted) if seen is not None and batch.producer_id >= 0 else None  # type: ignore[arg-type]
        if too_large:
            refusal = RecordBatchTooLarge
        try:
            if encoded_elsewhere:
                appended = append_bytes(
                    self.partition, bytes(batch.data), epoch=self.epoch, now_ms=self.now_ms, origin=origin
                )
            else:
                appended = self.partition.append(batch, epoch=self.epoch, now_ms=self.now_ms, origin=origin)
        except ProtocolError as error:
            assert type(error) is refusal
            self.model.assign(self.epoch, self.end)
            return
        assert refusal is None and not appended.duplicate
        assert (appended.base_offset, appended.next_offset) == (wanted.base_offset, wanted.next_offset)
        self.model.append(wanted)
        if not self.has_followers:
            self.advance_high_watermark(0)

    @rule(kinds=kinds, codec=codecs)
    def append_several(self, kinds: list[tuple[str, int]], codec: Codec) -> None:
        """What producers send when all goes well, so that there is something to cut, clean and lose."""
        for kind, producer_id in kinds:
            self.number += 1
            time, key = T0 - 5000 + self.number * 997 % 5000, b"abc"[self.number % 3 :][:1]
            given = [(time + i, key, self.number * 37 % 90, self.number % 7 == 0) for i in range(self.number % 3 + 1)]
            seen = self.model.known.get(producer_id, Seen(epoch=0))
            if kind == "end":
                if seen.open_since is not None:
                    self.append(self.marker(producer_id, self.number % 2 == 0), origin=Origin.COORDINATOR)
            elif kind == "plain":
                self.append(self.encoded(given, codec))
            else:
                self.append(
                    self.encoded(
                        given, codec, producer_id=producer_id, producer_epoch=seen.epoch,
                        base_sequence=seen.next_sequence(), transactional=kind == "txn" or seen.open_since is not None,
                    )
                )  # fmt: skip

    @rule(given=rows, codec=codecs, encoded_elsewhere=st.booleans())
    def fast_append(self, given: Given, codec: Codec, encoded_elsewhere: bool) -> None:
        self.append(self.encoded(given, codec), encoded_elsewhere=encoded_elsewhere)

    @rule(
        given=rows, codec=codecs, producer_id=st.sampled_from(PRODUCERS), transactional=st.booleans(),
        shift=st.sampled_from([0, 0, 0, 0, 0, 1, -1]), bump=st.sampled_from([0, 0, 0, 0, 0, 1, -1]),
    )  # fmt: skip
    def append_as_producer(
        self, given: Given, codec: Codec, producer_id: int, transactional: bool, shift: int, bump: int
    ) -> None:
        """Mostly what comes next; sometimes another sequence or epoch, and within a transaction something without."""
        seen = self.model.known.get(producer_id)
        epoch, sequence = 0, 0
        if seen is not None:
            epoch = max(seen.epoch + bump, 0)
            sequence = max((seen.next_sequence() if epoch == seen.epoch else 0) + shift, 0)
            transactional = transactional or (seen.open_since is not None and shift == 0)
            span = (sequence, sequence + len(given) - 1)
            if epoch == seen.epoch and any(known[:2] == span for known in seen.window):
                return
        header = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
        self.append(self.encoded(given, codec, **header, transactional=transactional))

    @precondition(lambda self: any(seen.window for seen in self.model.known.values()))
    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        """A producer did not get its answer and sends a batch again."""
        producer_id = data.draw(st.sampled_from(sorted(i for i, seen in self.model.known.items() if seen.window)))
        seen = self.model.known[producer_id]
        first, last, base_offset, last_offset, _ = data.draw(st.sampled_from(seen.window))
        again = self.encoded(
            [(T0, b"a", 1, False)] * (last_offset - base_offset + 1), producer_id=producer_id,
            producer_epoch=seen.epoch, base_sequence=first, transactional=seen.open_since is not None,
        )  # fmt: skip
        self.model.assign(self.epoch, self.end)
        appended = self.partition.append(again, epoch=self.epoch, now_ms=self.now_ms)
        assert appended.duplicate
        known = [known[2:4] for known in seen.window if known[:2] == (first, last)]
        assert (appended.base_offset, appended.next_offset - 1) in known

    @precondition(lambda self: self.model.known)
    @rule(data=st.data(), is_abort=st.booleans(), bump=st.sampled_from([0, 0, 1]))
    def end_transaction(self, data: st.DataObject, is_abort: bool, bump: int) -> None:
        """Also where there is none to end."""
        producer_id = data.draw(st.sampled_from(sorted(self.model.known)))
        self.append(self.marker(producer_id, is_abort, bump), origin=Origin.COORDINATOR)

    def marker(self, producer_id: int, is_abort: bool, bump: int = 0) -> Batch:
        record = Record(bytes(6), bytes([0, 0, 0, not is_abort]), self.now_ms)
        return encode(
            [record], now_ms=self.now_ms, producer_id=producer_id, transactional=True, control=True,
            producer_epoch=self.model.known[producer_id].epoch + bump,
        )  # fmt: skip

    @rule(
        batches=st.lists(st.tuples(rows, codecs, gaps, st.sampled_from([0, 0, 1])), min_size=1, max_size=3),
        producer_id=st.sampled_from([-1, *PRODUCERS]), ends=st.sampled_from([None, None, True, False]),
        newer=st.booleans(), partial=st.integers(0, 60),
    )  # fmt: skip
    def append_follower(
        self, batches: list[tuple[Given, Codec, int, int]], producer_id: int, ends: bool | None, newer: bool,
        partial: int,
    ) -> None:  # fmt: skip
        """Bytes of a leader: with gaps, later epochs, a part of a batch at the end, one of an epoch not yet known."""
        seen = self.model.known.get(producer_id)
        offset, epoch = self.end, max(self.epoch, self.model.epochs[-1][0] if self.model.epochs else 0)
        sequence = seen.next_sequence() if seen is not None else 0
        header = {"producer_id": producer_id, "producer_epoch": seen.epoch if seen is not None else min(producer_id, 0)}
        if producer_id > 0 and seen is None:
            header["producer_epoch"] = 0
        transactional = producer_id > 0 and (ends is not None or (seen is not None and seen.open_since is not None))
        wanted, sent = [], bytearray()
        for given, codec, gap, later in batches:
            offset, epoch = offset + gap, epoch + later
            base_sequence = sequence if producer_id > 0 else -1
            batch = self.encoded(given, codec, **header, base_sequence=base_sequence, transactional=transactional)
            wanted.append(self.sent(batch, offset, epoch, sent))
            offset, sequence = wanted[-1].next_offset, sequence + batch.count
        if producer_id > 0 and seen is not None and ends is not None:
            wanted.append(self.sent(self.marker(producer_id, ends), offset, epoch, sent))
        beyond = bytearray()
        if newer:
            self.sent(self.encoded([(T0, b"a", 1, False)]), wanted[-1].next_offset, epoch + 1, beyond)
        beyond += self.encoded([(T0, b"a", 1, False)]).data[:partial]
        if len(sent) > self.config.segment_bytes:
            with pytest.raises(RecordBatchTooLarge):
                self.partition.append_follower(bytes(sent + beyond), epoch=epoch, now_ms=self.now_ms)
            for batch in wanted:
                self.model.assign(batch.leader_epoch, batch.base_offset)
        else:
            appended = self.partition.append_follower(bytes(sent + beyond), epoch=epoch, now_ms=self.now_ms)
            assert appended.next_offset == wanted[-1].next_offset
            for batch in wanted:
                self.model.append(batch)
        self.epoch = epoch

    def sent(self, batch: Batch, offset: int, epoch: int, into: bytearray) -> Written:
        wanted = self.written(batch, offset, epoch)
        batch.stamp(offset, epoch)
        into += batch.data
        return wanted

    @precondition(lambda self: self.end > 0)
    @rule(back=st.integers(1, 5))
    def append_what_is_there(self, back: int) -> None:
        """A leader that sends offsets again is refused: the log would hold them twice (KAFKA-3047)."""
        batch = self.encoded([(T0, b"a", 1, False)])
        batch.stamp(max(self.end - back, 0), self.epoch)
        with pytest.raises(OffsetOutOfRange):
            self.partition.append_follower(batch.data, epoch=self.epoch, now_ms=self.now_ms)

    # --- what else changes it --------------------------------------------------------------------------------------

    @rule(what=st.sampled_from(["roll", "begin_epoch", "drop_empty_tail", "expire_producers", "read_outside"]))
    def small_things(self, what: str) -> None:
        getattr(self, what)()

    def roll(self) -> None:
        assert self.partition.roll(self.now_ms) == self.end
        self.note_rolls()

    def note_rolls(self) -> int:
        """A roll has synced what lies before the new segment; where that begins."""
        active = self.partition.segments[-1][0].base_offset
        if self.model.durable < self.partition.durable_offset <= active:
            self.model.durable = self.partition.durable_offset
        return active

    def begin_epoch(self) -> None:
        self.epoch += 1
        self.partition.begin_epoch(self.epoch)
        self.model.assign(self.epoch, self.end)
        with pytest.raises(FencedLeaderEpoch):
            self.partition.begin_epoch(self.epoch - 1)

    def drop_empty_tail(self) -> None:
        """Not a record goes by it, and no offset."""
        self.partition.drop_empty_tail()

    @rule(back=st.sampled_from([0, 0, 1, 3, 10]))
    def advance_high_watermark(self, back: int) -> None:
        offset = max(self.end - back, 0)
        assert self.partition.advance_high_watermark(offset) is (offset > self.model.high_watermark)
        self.model.advance(offset)

    @rule()
    def sync(self) -> None:
        """What lies in the files is durable; a gap that a truncation has left behind it is nothing."""
        self.model.durable = self.partition.sync()
        assert self.model.durable == self.data_end()

    def data_end(self) -> int:
        base = self.partition.segments[-1][0].base_offset
        return min(self.end, max([base, *(batch.next_offset for batch in self.model.batches)]))

    @rule(ms=st.sampled_from([1, 999, 1001, 5000, DAY]))
    def time_passes(self, ms: int) -> None:
        """The files of what was dropped go when their time has come."""
        self.clock.advance(ms)
        self.partition.purge(self.now_ms)
        due = self.partition.purge_due_ms
        assert due is None or due > self.now_ms
        assert due is not None or not [name for name in self.files.list_dir(DIRECTORY) if name.endswith(".deleted")]

    def expire_producers(self) -> None:
        gone = [producer_id for producer_id, seen in self.model.known.items() if self.is_expired(seen)]
        assert sorted(self.partition.expire_producers(self.now_ms)) == sorted(gone)
        for producer_id in gone:
            del self.model.known[producer_id]

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        """At the end of a batch, or inside of one, which leaves a gap."""
        edges = [batch.base_offset for batch in self.model.batches]
        near = st.sampled_from([self.end, *edges[-3:]]) | st.integers(max(0, self.end - 8), self.end)
        target = data.draw(near | near | st.sampled_from([0, *edges]))
        first_base = self.partition.segments[0][0].base_offset
        dropped = target < self.end
        assert self.partition.truncate(target, self.now_ms) is dropped
        if target < first_base:
            self.model.restart(target, target)
        else:
            # At the end, too, an epoch that has begun there and written nothing is forgotten.
            self.model.cut(target)
            if dropped:
                self.adopt()
        self.after_a_cut()

    @precondition(lambda self: self.number % 7 == 3)
    @rule(data=st.data())
    def truncate_fully(self, data: st.DataObject) -> None:
        """What a follower does that lags behind its leader's start: seldom, or there would never be much of a log."""
        offset = data.draw(st.integers(0, self.end + 10))
        start = data.draw(st.integers(0, offset) | st.none())
        self.partition.truncate_fully(offset, self.now_ms, start_offset=start)
        self.model.restart(offset, offset if start is None else start)
        self.after_a_cut()

    def after_a_cut(self) -> None:
        self.model.durable = min(self.model.durable, self.partition.durable_offset)
        assert self.model.durable == self.partition.durable_offset
        if self.checkpoint is not None:
            self.checkpoint = min(self.checkpoint, self.end)

    def adopt(self) -> None:
        self.model.adopt(dict(self.partition.producers.entries()), self.is_expired)

    def is_expired(self, seen: Seen) -> bool:
        return seen.open_since is None and self.now_ms - seen.timestamp >= self.expiration_ms

    @rule(share=shares)
    def delete_records(self, share: float) -> None:
        offset = int(self.model.high_watermark * share)
        if "delete" not in self.config.cleanup_policy:
            with pytest.raises(PolicyViolation):
                self.partition.delete_records(offset)
            return
        with pytest.raises(OffsetOutOfRange):
            self.partition.delete_records(self.model.high_watermark + 1)
        assert self.partition.delete_records(offset) == max(offset, self.model.start)
        self.model.start_at(offset)

    @rule()
    def apply_retention(self) -> None:
        """The oldest segments go, up to the first that has to stay, and none beyond the high watermark."""
        count, start = self.expired()
        assert self.partition.apply_retention(self.now_ms) == count
        if count:
            self.model.start_at(start)
            self.model.drop_files_below(self.partition.segments[0][0].base_offset)

    def expired(self) -> tuple[int, int]:
        segments = [
            (segment.base_offset, end, segment.size, self.newest(segment.base_offset, end))
            for segment, end in self.partition.segments
        ]
        start, dropped = self.model.start, 0
        rules = ["start", "size", "age"] if "delete" in self.config.cleanup_policy else ["start"]
        for name in rules:
            surplus = sum(size for _, _, size, _ in segments) - self.config.retention_bytes
            while segments:
                _, end, size, newest = segments[0]
                is_active = len(segments) == 1
                goes = {
                    "start": not is_active and end <= start,
                    "size": self.config.retention_bytes >= 0 and surplus - size >= 0,
                    "age": self.config.retention_ms >= 0 and self.now_ms - newest > self.config.retention_ms,
                }[name]
                if not goes or end > self.model.high_watermark or (is_active and size == 0):
                    break
                surplus -= size
                segments.pop(0)
                start, dropped = max(start, end), dropped + 1
        return dropped, start

    def newest(self, start: int, end: int) -> int:
        inside = [batch.max_timestamp for batch in self.model.batches if start <= batch.base_offset < end]
        stat = self.files.stat(f"{DIRECTORY}/{start:020d}.log")
        assert stat is not None
        return max(inside, default=stat.mtime_ms)

    @precondition(lambda self: "compact" in self.config.cleanup_policy)
    @rule(slots=st.sampled_from([2, 3, 10_000]), forget=st.booleans(), rolled=st.booleans())
    def clean(self, slots: int, forget: bool, rolled: bool) -> None:
        """What is left is some of what was there, with the newest of each key that a reader was given."""
        if rolled:
            self.roll()
        before, stable = list(self.model.batches), self.partition.last_stable_offset
        given = self.model.committed(stable)
        checkpoint = None if forget else self.checkpoint
        cleaned = clean(self.partition, checkpoint=checkpoint, now_ms=self.now_ms, buffer_bytes=slots * SLOT_BYTES)
        if self.partition.durable_offset > self.model.durable:
            # It syncs before it takes anything away.
            self.model.durable = self.data_end()
        if cleaned is None:
            return
        assert cleaned.end_offset > cleaned.first_dirty, "a pass must come further"
        self.checkpoint, self.model.is_compacted = cleaned.end_offset, True
        after = [
            batch for segment, _ in self.partition.segments for batch in parsed(self.files.read_file(segment.path))
        ]
        there = {row for batch in before for row in batch.rows}
        assert {row for batch in after for row in batch.rows} <= there
        assert [b for b in before if b.base_offset >= stable] == [b for b in after if b.base_offset >= stable]
        self.model.batches = after
        left = self.model.committed(stable)
        last = cleaned.end_offset
        assert [row for row in given if row.offset >= last] == [row for row in left if row.offset >= last]
        newest = {row.key: row for row in given}
        for row in newest.values():
            # A tombstone may go when its time has come, and then nothing older may be left.
            assert row in left or (row.value is None and not any(other.key == row.key for other in left))

    # --- closing and crashing --------------------------------------------------------------------------------------

    @rule(share=shares)
    def reopen(self, share: float) -> None:
        assert self.partition.close()
        # A gap that a truncation has left at the end is forgotten: nothing says where it ended.
        self.model.end = self.data_end()
        self.open(self.partition.durable_offset, clean=True, share=share)
        assert self.partition.recovered is None
        assert self.partition.durable_offset == self.end
        self.model.durable = self.end

    @rule(data=st.data(), share=shares)
    def crash(self, data: st.DataObject, share: float) -> None:
        """What was not synced is gone from some place on, or garbage; so are the indexes and snapshots of it."""
        durable = self.partition.durable_offset
        unsynced = [segment for segment, end in self.partition.segments if end >= durable]
        edges = [0]
        for batch in self.model.batches:
            if batch.base_offset >= unsynced[0].base_offset:
                edges.append(edges[-1] + batch.size)
        whole = b"".join(self.files.read_file(segment.path) for segment in unsynced)
        assert len(whole) == edges[-1]
        kept = [b for b in self.model.batches if b.base_offset >= unsynced[0].base_offset and b.next_offset <= durable]
        keep = edges[len(kept)]
        size = data.draw(st.integers(keep, len(whole)) | st.sampled_from([e for e in edges if e >= keep]))
        garbage = data.draw(st.sampled_from([b"", b"", b"\0" * 100, b"\xff" * 70]))
        self.leave(unsynced, size, garbage)
        for kind in data.draw(st.sets(st.sampled_from(REBUILT))):
            # A roll syncs what it seals, and below the start nobody looks.
            self.spoil(kind, max(durable, self.model.start), data.draw(st.sampled_from(["remove", "cut", "zeros"])))
        survivors = [b for b in self.model.batches if b.base_offset < unsynced[0].base_offset]
        survivors += self.model.batches[len(survivors) :][: sum(edge <= size for edge in edges[1:])]
        bases = [base for base in map(int, self.left("log")) if base >= unsynced[0].base_offset]
        end = max([*bases, *(batch.next_offset for batch in survivors)])
        self.model.batches = survivors
        self.model.history = [batch for batch in self.model.history if batch.next_offset <= max(end, durable)]
        self.model.end = end
        self.model.note_epochs(max(b for b in [unsynced[0].base_offset, *bases] if b <= max(durable, self.model.start)))
        self.open(durable, clean=False, share=share)

    def leave(self, unsynced: list, size: int, garbage: bytes) -> None:
        """Of the bytes of these segments the first `size`, and then `garbage`; a segment behind them has no file."""
        for segment in unsynced:
            file = self.files.open(segment.path)
            here = file.size()
            if 0 <= size < here or (segment is unsynced[-1] and size >= 0):
                following = file.read(min(size, here), 1)
                file.truncate(min(size, here))
                # Not what was there, or it would be whole again.
                lead = bytes([following[0] ^ 0x55]) if following and garbage else b""
                file.write(file.size(), lead + garbage)
                size = -1
            elif size < 0:
                self.files.remove(segment.path)
            size = size - here if size >= 0 else size

    def left(self, kind: str) -> list[str]:
        names = self.files.list_dir(DIRECTORY)
        return [name.removesuffix("." + kind) for name in names if name.endswith("." + kind)]

    def spoil(self, kind: str, durable: int, how: str) -> None:
        """Damage what is not the truth, where it was not synced: names ending in `kind`, from `durable` on."""
        base = self.partition.segments[0][0].base_offset
        for segment, _ in self.partition.segments:
            base = segment.base_offset if segment.base_offset <= durable else base
        for name in self.files.list_dir(DIRECTORY):
            number = name.partition(".")[0]
            if name != number + kind or int(number) < base or (kind == ".snapshot" and int(number) <= durable):
                continue
            path = f"{DIRECTORY}/{name}"
            data = self.files.read_file(path)
            if how == "remove":
                self.files.remove(path)
            else:
                self.files.replace_file(path, data[: len(data) * 2 // 3] if how == "cut" else bytes(len(data)))

    def open(self, durable: int, *, clean: bool, share: float) -> None:
        """Open what is there, with a high watermark that may be late."""
        model = self.model
        late = int(model.high_watermark * share)
        self.partition = self.made()
        self.partition.open(
            Checkpoint(model.start, recovery_point=durable, durable_offset=durable, high_watermark=late, clean=clean),
            self.now_ms,
        )
        assert not self.partition.quarantined
        if model.end < model.start:
            # All that was left had been deleted.
            model.restart(model.start, model.start)
        else:
            model.cut(model.end)
        model.start = max(model.start, self.partition.segments[0][0].base_offset)
        model.start_epochs_at(model.start)
        model.high_watermark = min(max(late, model.start), model.end)
        model.durable = self.partition.durable_offset
        assert model.durable >= min(durable, model.end)
        self.adopt()
        if self.checkpoint is not None:
            self.checkpoint = min(self.checkpoint, self.end)

    # --- questions -------------------------------------------------------------------------------------------------

    @rule(data=st.data(), max_bytes=st.sampled_from([1, 100, 1500, 1 << 20]))
    def read(self, data: st.DataObject, max_bytes: int) -> None:
        """From any offset up to any other, as many bytes at a time as one likes."""
        offset = data.draw(st.integers(self.model.start, self.end))
        upto = data.draw(st.integers(offset, self.end) | st.just(self.model.high_watermark))
        wanted = [b for b in self.model.batches if b.next_offset > offset and b.base_offset < upto]
        if offset >= upto:
            wanted = []
        found: list[Written] = []
        while (piece := self.partition.read(offset, max_bytes, upto=upto)) is not None:
            batches = parsed(piece.data)
            assert batches and (len(piece.data) <= max_bytes or len(batches) == 1)
            assert piece.next_offset == batches[-1].next_offset > offset
            found += batches
            offset = piece.next_offset
        assert found == wanted

    def read_outside(self) -> None:
        for offset in (self.model.start - 1, self.end + 1):
            with pytest.raises(OffsetOutOfRange):
                self.partition.read(offset, 100, upto=self.end)

    @rule(data=st.data())
    def offset_for_time(self, data: st.DataObject) -> None:
        known = self.model.rows(self.model.start, self.end)
        time = data.draw(st.one_of(times, st.sampled_from([row.timestamp for row in known] or [0])))
        upto = data.draw(st.sampled_from([self.model.high_watermark, self.end]) | st.integers(0, self.end))
        wanted = next(
            ((row.timestamp, row.offset) for row in known if row.timestamp >= time and row.offset < upto), None
        )
        found = self.partition.offset_for_time(time, upto=upto)
        assert (found and (found.timestamp, found.offset)) == wanted

    @rule()
    def max_timestamp(self) -> None:
        known = self.model.rows(self.model.start, self.end)
        found = self.partition.max_timestamp(self.end)
        if found is not None:
            assert (found.offset, found.timestamp) in [(row.offset, row.timestamp) for row in known]
            assert self.model.is_compacted or found.timestamp >= max(row.timestamp for row in known)

    # --- what always holds -----------------------------------------------------------------------------------------

    @invariant()
    def the_offsets_are_the_models(self) -> None:
        partition, model = self.partition, self.model
        partition.check()
        assert (partition.start_offset, partition.next_offset) == (model.start, model.end)
        active = self.note_rolls()
        assert (partition.high_watermark, partition.durable_offset) == (model.high_watermark, model.durable)
        assert all(batch.next_offset <= model.durable for batch in model.batches if batch.base_offset < active)
        assert partition.last_stable_offset in model.stable_offsets()
        assert partition.epochs.entries == model.epochs
        assert partition.size == sum(batch.size for batch in model.batches)
        # A batch that compaction has taken records from may be larger, compressed anew.
        assert model.is_compacted or all(s.size <= self.config.segment_bytes for s, _ in partition.segments)

    @invariant()
    def what_a_reader_of_committed_data_is_given_is_the_models(self) -> None:
        partition, found = self.partition, list[Row]()
        offset, stable = partition.start_offset, partition.last_stable_offset
        while True:
            piece, aborted = partition.read_stable(offset, 1500, upto=stable)
            if piece is None:
                break
            found += consumed(split(piece.data, check_crc=True), aborted)
            offset = piece.next_offset
        # From a batch that begins below: consumers drop what they did not ask for.
        assert [row for row in found if partition.start_offset <= row.offset < stable] == self.model.committed(stable)

    @invariant()
    def the_aborted_transactions_are_the_models(self) -> None:
        model, base = self.model, self.partition.segments[0][0].base_offset
        found = self.partition.aborted(model.start, model.end)
        wanted = [txn for txn in model.aborted() if txn.last_offset >= max(model.start, base)]
        told = {txn[:3:2]: txn.first_offset for txn in found}
        true = {txn[:3:2]: txn.first_offset for txn in wanted}
        assert len(told) == len(found) and told.keys() <= true.keys()
        # Compaction takes an entry away after its data. A log that was opened again knows of what began below its
        # start only what lies above.
        unsure = {txn for txn, first in true.items() if first < model.deleted_below}
        assert model.is_compacted or true.keys() - unsure <= told.keys()
        unsure |= true.keys() if model.is_compacted else set()
        assert all(first == true[txn] or (txn in unsure and first > true[txn]) for txn, first in told.items())

    @invariant()
    def no_record_up_to_a_time_entry_is_newer(self) -> None:
        for segment, end in self.partition.segments:
            batches = [b for b in self.model.batches if segment.base_offset <= b.base_offset < end]
            for timestamp, offset in segment.times:
                assert all(b.max_timestamp <= timestamp for b in batches if b.last_offset <= offset)

    @invariant()
    def the_producers_are_the_models(self) -> None:
        entries = self.partition.producers.entries()
        found = {producer_id: tuple(entry) for producer_id, entry in entries.items()}
        assert found == {producer_id: seen.as_entry() for producer_id, seen in self.model.known.items()}

    @invariant()
    def a_snapshot_says_what_the_log_said_below_it(self) -> None:
        for offset in snapshot_offsets(self.files, DIRECTORY):
            loaded = Producers("t-0", expiration_ms=10**18)
            loaded.load(self.files.read_file(f"{DIRECTORY}/{snapshot_name(offset)}"), offset, self.now_ms)
            truth = producers(batch for batch in self.model.history if batch.next_offset <= offset)
            for producer_id, entry in loaded.entries().items():
                assert len(entry.batches) <= 1
                self.model.same_producer(entry, truth[producer_id])


TestMachine = Machine.TestCase
TestMachine.settings = settings(
    max_examples=RUNS, stateful_step_count=STEPS, deadline=None, suppress_health_check=list(HealthCheck)
)
