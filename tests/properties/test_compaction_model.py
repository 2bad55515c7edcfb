"""Cleaning against a dict: the newest committed record of each key stays, and nobody sees anything that was not there.

A log of plain and transactional batches, with tombstones, open and aborted transactions and records without keys, is
cleaned again and again, with key maps that may be far too small, while the clock goes on and more is appended.
"""

from uuid import UUID

import hypothesis.strategies as st
from hypothesis import given
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pylog.broker.log_cleaner import clean
from pylog.commitlog.compaction.offset_map import SLOT_BYTES
from pylog.config import TopicConfig
from pylog.errors import CorruptBatch
from pylog.files import MemoryFiles
from pylog.kernel import HEADER_BYTES, BatchScope, Record, decode_records, keep_records, scan_records
from pylog.partition import Checkpoint, Partition
from pylog.protocol.batch import Batch, Origin, encode, split
from pylog.protocol.compression import Codec

T0 = 1_700_000_000_000
END = 2**63 - 1

blobs = st.none() | st.binary(max_size=100) | st.integers(0, 10_000).map(bytes)
timestamps = st.integers(-1, END) | st.integers(T0, T0 + 10**8)
headers = st.lists(st.tuples(st.text(max_size=20), st.none() | st.binary(max_size=20)), max_size=3)
rows = st.lists(st.tuples(blobs, blobs, timestamps, headers), min_size=1, max_size=100)


@st.composite
def batches(draw):
    batch = encode(draw(rows), now_ms=T0)
    batch.stamp(draw(st.integers(0, END - 200)), 0)
    if draw(st.booleans()):
        batch.stamp_append_time(draw(st.integers(0, END)))
    return batch


def scanned(batch, payload):
    return scan_records(
        payload, batch.count, batch.base_offset, batch.last_offset, batch.base_timestamp, batch.append_timestamp
    )


def decoded(batch, payload, count=None, base_timestamp=None):
    return decode_records(
        payload, batch.count if count is None else count, batch.base_offset,
        batch.base_timestamp if base_timestamp is None else base_timestamp, None, BatchScope("t", 0, 0, 0), 0,
        batch.last_offset,
    )  # fmt: skip


@given(batches())
def test_scanning_finds_the_records_that_decoding_finds(batch):
    payload = batch.payload()
    spans = scanned(batch, payload)
    assert [(offset, key, has_value, timestamp) for offset, key, has_value, timestamp, _, _ in spans] == [
        (r.offset, r.key, r.value is not None, r.timestamp) for r in batch.records("t", 0)
    ]
    assert spans[-1][5] == len(payload)


@given(batches(), st.data(), timestamps)
def test_records_that_are_kept_decode_as_before(batch, data, base_timestamp):
    spans = scanned(batch, batch.payload())
    mask = data.draw(st.lists(st.booleans(), min_size=len(spans), max_size=len(spans)))
    kept = spans.select(bytes(mask))
    stream = keep_records(kept, base_timestamp)
    assert not any(stream[:HEADER_BYTES])
    found = decoded(batch, bytes(stream[HEADER_BYTES:]), len(kept), base_timestamp)
    expected = [r for r, keeps in zip(batch.records("t", 0), mask, strict=True) if keeps]
    assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in found] == [
        (r.offset, r.timestamp, r.key, r.value, r.headers) for r in expected
    ]


@given(batches(), st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4), st.data())
def test_damaged_records_are_scanned_or_refused(batch, flips, data):
    payload = bytearray(batch.payload())
    for at, mask in flips:
        payload[at % len(payload)] ^= mask
    payload = bytes(payload[: data.draw(st.integers(0, len(payload)) | st.just(len(payload)))])
    try:
        records = decoded(batch, payload)
    except CorruptBatch:
        records = None
    try:
        spans = scanned(batch, payload)
    except CorruptBatch:
        assert records is None
    else:
        # A scan does not look into headers, which stay as they are: there it may take what decoding refuses.
        assert records is None or [(s[0], s[1]) for s in spans] == [(r.offset, r.key) for r in records]


# --- a partition ------------------------------------------------------------------------------------------------------

keys = st.sampled_from([b"a", b"b", b"c", b"", bytes(4), bytes([0, 0, 0, 1])])  # two of them look like markers' keys
values = st.one_of(st.none(), st.binary(max_size=30), st.just(bytes(100)))
pairs = st.lists(st.tuples(keys, values), min_size=1, max_size=4)
codecs = st.sampled_from([Codec.NONE, Codec.NONE, Codec.GZIP, Codec.ZSTD])
producers = st.sampled_from([11, 12, 13])

Row = tuple[int, bytes | None, bytes | None, int]


class Compacted(RuleBasedStateMachine):
    @initialize(segment_bytes=st.sampled_from([700, 2000]), retention_ms=st.sampled_from([0, 500, 10**9]),
                index_bytes=st.sampled_from([120, 10_000]))  # fmt: skip
    def make(self, segment_bytes: int, retention_ms: int, index_bytes: int) -> None:
        self.config = TopicConfig.loaded(
            {
                "cleanup.policy": "compact", "segment.bytes": str(segment_bytes), "index.interval.bytes": "100",
                "delete.retention.ms": str(retention_ms), "segment.index.bytes": str(index_bytes),
            }
        )  # fmt: skip
        self.files = MemoryFiles()
        self.partition = self.over_files()
        self.partition.create(UUID(int=7), T0)
        self.now_ms = T0
        self.committed: list[Row] = []
        self.open: dict[int, list[Row]] = {}
        self.last: dict[int, Batch] = {}
        self.checkpoint: int | None = None

    def over_files(self) -> Partition:
        return Partition(self.files, "t-0", "t", 0, self.config, producer_id_expiration_ms=10**15)

    def put(self, batch: Batch, origin: Origin = Origin.CLIENT) -> list[Row]:
        base = self.partition.append(batch, epoch=0, now_ms=self.now_ms, origin=origin).base_offset
        self.partition.advance_high_watermark(self.partition.next_offset)
        return [(base + i, r.key, r.value, r.timestamp) for i, r in enumerate(batch.records("t", 0))]

    def batch(self, pairs: list[tuple[bytes, bytes | None]], codec: Codec, **kwargs: object) -> Batch:
        records = [Record(value, key, self.now_ms) for key, value in pairs]
        return encode(records, now_ms=self.now_ms, codec=codec, **kwargs)  # type: ignore[arg-type]

    @rule(pairs=pairs, codec=codecs)
    def append(self, pairs: list[tuple[bytes, bytes | None]], codec: Codec) -> None:
        self.committed += self.put(self.batch(pairs, codec))

    @rule(pairs=pairs, codec=codecs, producer_id=producers, transactional=st.booleans())
    def append_as_producer(
        self, pairs: list[tuple[bytes, bytes | None]], codec: Codec, producer_id: int, transactional: bool
    ) -> None:
        transactional = transactional or producer_id in self.open
        before = self.last.get(producer_id)
        sequence = before.base_sequence + before.last_offset_delta + 1 if before is not None else 0
        batch = self.batch(
            pairs, codec, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=transactional
        )
        self.last[producer_id] = Batch(bytes(batch.data))
        rows = self.put(batch)
        if transactional:
            self.open.setdefault(producer_id, []).extend(rows)
        else:
            self.committed += rows

    @rule(producer_id=producers, commit=st.booleans())
    def end(self, producer_id: int, commit: bool) -> None:
        if producer_id in self.last:
            marker = Record(bytes(6), bytes([0, 0, 0, commit]), self.now_ms)
            batch = encode(
                [marker],
                now_ms=self.now_ms,
                producer_id=producer_id,
                producer_epoch=0,
                transactional=True,
                control=True,
            )
            self.put(batch, Origin.COORDINATOR)
            rows = self.open.pop(producer_id, [])
            self.committed += rows if commit else []

    @rule()
    def roll(self) -> None:
        self.partition.roll(self.now_ms)

    @rule(ms=st.sampled_from([1, 499, 500, 10**9]))
    def wait(self, ms: int) -> None:
        self.now_ms += ms

    @rule(slots=st.sampled_from([2, 3, 5, 10_000]), forget=st.booleans())
    def clean(self, slots: int, forget: bool) -> None:
        """With the checkpoint or without, as a log may be given another cleaner."""
        self.partition.roll(self.now_ms)
        checkpoint = None if forget else self.checkpoint
        cleaned = clean(self.partition, checkpoint=checkpoint, now_ms=self.now_ms, buffer_bytes=slots * SLOT_BYTES)
        if cleaned is not None:
            assert cleaned.end_offset > cleaned.first_dirty, "a pass must come further"
            self.checkpoint = cleaned.end_offset
        self.partition.check()

    @rule(unclean=st.booleans())
    def reopen(self, unclean: bool) -> None:
        end, mark = self.partition.next_offset, self.partition.high_watermark
        self.partition.close()
        self.partition = self.over_files()
        self.partition.open(Checkpoint(high_watermark=mark, clean=not unclean), self.now_ms)
        assert self.partition.next_offset == end

    @precondition(lambda self: self.last)
    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        """A producer whose last batch may be compacted away sends it again: it is known."""
        batch = self.last[data.draw(st.sampled_from(sorted(self.last)))]
        if self.partition.producers.entries().get(batch.producer_id) is not None:
            end = self.partition.next_offset
            again = Batch(bytearray(batch.data))
            if not again.is_transactional or again.producer_id in self.open:
                assert self.partition.append(again, epoch=0, now_ms=self.now_ms).duplicate
                assert self.partition.next_offset == end

    @invariant()
    def committed_records_are_seen(self) -> None:
        stable = self.partition.last_stable_offset
        put = {row[0]: row for row in self.committed if row[0] < stable}
        seen = self.seen(stable)
        assert seen.items() <= put.items()
        newest = {row[1]: row for row in sorted(put.values())}
        for row in newest.values():
            # A tombstone may go when its time has come, and then nothing older may be left.
            assert row[0] in seen or (row[2] is None and not any(other[1] == row[1] for other in seen.values()))

    def seen(self, upto: int) -> dict[int, Row]:
        """What a read_committed consumer gets, as Kafka's does it (CompletedFetch)."""
        rows: dict[int, Row] = {}
        offset = self.partition.start_offset
        while (part := self.partition.read(offset, 1, upto=upto)) is not None:
            [batch] = split(part.data, check_crc=True)
            aborted = self.partition.aborted(offset, batch.next_offset)
            hidden = batch.is_transactional and any(
                txn.producer_id == batch.producer_id and txn.first_offset <= batch.base_offset < txn.last_offset
                for txn in aborted
            )
            if not batch.is_control and not hidden:
                rows |= {r.offset: (r.offset, r.key, r.value, r.timestamp) for r in batch.records("t", 0)}
            offset = batch.next_offset
        return rows


TestCompacted = Compacted.TestCase
