"""Old bugs of compaction: reliability 2.3, numbers 46 to 55."""

import pytest

from pylog.broker.log_cleaner import Cleaned, Cleaner, clean, dirt
from pylog.commitlog.compaction.offset_map import SLOT_BYTES
from pylog.commitlog.compaction.plan import SegmentFacts, cleanable
from pylog.errors import OutOfOrderSequence
from pylog.kernel import Record
from pylog.partition import Checkpoint
from pylog.protocol.batch import Batch, Origin, encode
from pylog.protocol.compression import Codec
from support.partition_log import DAY, NOW, UNCLEAN, Log, marker

ABORT_KEY, COMMIT_KEY = bytes([0, 0, 0, 0]), bytes([0, 0, 0, 1])


def compacted(**config: object) -> Log:
    return Log(cleanup_policy="compact", **config)


def cleaned(log: Log, checkpoint: int | None = None, *, now_ms: int = NOW, slots: int = 10_000) -> Cleaned | None:
    log.partition.roll(NOW)
    found = clean(log.partition, checkpoint=checkpoint, now_ms=now_ms, buffer_bytes=slots * SLOT_BYTES)
    log.partition.check()
    return found


def test_kafka_14055_user_keys_like_those_of_markers_take_no_marker_away() -> None:
    log = compacted(delete_retention_ms=0)
    log.in_transaction("aborted", producer_id=5, sequence=0, key=b"a")
    log.end(5, commit=False)
    log.in_transaction("committed", producer_id=6, sequence=0, key=b"b")
    log.end(6, commit=True)
    log.append("looks like an abort", key=ABORT_KEY)
    log.append("looks like a commit", key=COMMIT_KEY)
    expected = ["committed", "looks like an abort", "looks like a commit"]
    checkpoint = None
    for _ in range(3):
        found = cleaned(log, checkpoint)
        checkpoint = found.end_offset if found is not None else checkpoint
        assert log.committed() == log.values() == expected
        log.append("more")
        expected.append("more")
        expected = [*expected[:3], "more"] if len(expected) > 4 else expected
    assert [batch.marker() for batch in log.batches() if batch.is_control], "the markers of live data are there"


@pytest.mark.parametrize("slots", [2, 3, 4, 5, 100])
def test_kafka_13727_aborted_data_stays_aborted_where_a_pass_ends_in_a_segment(slots: int) -> None:
    log = compacted(segment_bytes=1000)
    for i in range(6):
        log.in_transaction(f"aborted {i}", producer_id=5, sequence=2 * i, key=b"a%d" % i)
        log.append(f"plain {i}", key=b"p%d" % i)
        log.in_transaction(f"aborted too {i}", producer_id=5, sequence=2 * i + 1, key=b"b%d" % i)
        log.end(5, commit=False)
        log.in_transaction(f"committed {i}", producer_id=6, sequence=i, key=b"c%d" % i)
        log.end(6, commit=True)
    expected = log.committed()
    assert len(expected) == 12
    checkpoint: int | None = None
    for _ in range(12):
        found = cleaned(log, checkpoint, slots=slots)
        checkpoint = found.end_offset if found is not None else checkpoint
        assert log.committed() == expected
        log.reopen(Checkpoint(clean=False, high_watermark=log.partition.high_watermark))
        assert log.committed() == expected


def test_kafka_13194_nothing_from_the_high_watermark_on_takes_part() -> None:
    log = Log(cleanup_policy="compact", replicated=False)
    for i in range(20):
        log.append(f"committed {i} {'x' * 100}", key=b"%d" % (i % 5))
    mark = log.partition.next_offset
    log.partition.advance_high_watermark(mark)
    committed = {value.split()[1] for value in log.values()[-5:]}
    for i in range(60):
        log.append(f"uncommitted {i} {'x' * 100}", key=b"%d" % (i % 5))
    bases = [segment.base_offset for segment, _ in log.partition.segments]
    assert bases[1] <= mark < bases[-2], "the high watermark lies in a segment that is not the active one"
    cleaned(log)
    log.partition.truncate(mark, NOW)
    assert {value.split()[1] for value in log.values()} >= committed


@pytest.mark.parametrize("unclean", [True, False])
def test_kafka_5490_a_repeated_batch_is_a_duplicate_after_compaction(unclean: bool) -> None:
    log = compacted()
    log.append("old", producer_id=5, producer_epoch=0, base_sequence=0)
    log.append("last of 5", producer_id=5, producer_epoch=0, base_sequence=1)
    log.append("newer")
    cleaned(log)
    assert log.values() == ["newer"]
    end = log.partition.next_offset
    if not unclean:
        log.partition.close()
    log.reopen(Checkpoint(clean=not unclean, durable_offset=end if not unclean else 0, high_watermark=end))
    again = log.append("last of 5", producer_id=5, producer_epoch=0, base_sequence=1)
    assert (again.duplicate, again.base_offset, log.partition.next_offset) == (True, 1, end)
    with pytest.raises(OutOfOrderSequence):
        log.append("too far", producer_id=5, producer_epoch=0, base_sequence=3)
    assert log.append("next", producer_id=5, producer_epoch=0, base_sequence=2).base_offset == end


def test_kafka_8335_the_last_batch_of_the_newest_epoch_is_the_one_that_stays() -> None:
    log = compacted()
    log.append("epoch 0", producer_id=5, producer_epoch=0, base_sequence=0)
    log.append("epoch 1", producer_id=5, producer_epoch=1, base_sequence=0)
    log.append("newer")
    for unclean in (False, True):
        cleaned(log)
        entry = log.replayed().entries()[5]
        assert (entry.epoch, entry.last_sequence, entry.batches[-1].last_offset) == (1, 0, 1)
        if unclean:
            log.reopen(Checkpoint(clean=False, high_watermark=3))
    assert log.append("epoch 1", producer_id=5, producer_epoch=1, base_sequence=0).duplicate
    assert not log.append("epoch 1", producer_id=5, producer_epoch=1, base_sequence=1).duplicate


@pytest.mark.parametrize("clean", [True, False])
def test_kafka_17076_the_next_offset_is_known_when_every_record_is_gone(clean: bool) -> None:
    log = compacted(delete_retention_ms=0)
    for key in (b"a", b"b"):
        log.append("value", key=key)
        log.put(encode([Record(None, key, NOW)], now_ms=NOW))
    checkpoint, now_ms = None, NOW
    for _ in range(4):
        found = cleaned(log, checkpoint, now_ms=now_ms)
        checkpoint = 0 if found is None else None
        now_ms += DAY
    assert log.values() == [] and not [r for b in log.batches() for r in b.records("t", 0)]
    end = log.partition.next_offset
    assert end == 4
    if clean:
        log.partition.close()
    log.files.remove("log/t-0/00000000000000000004.log")
    log.reopen(Checkpoint(clean=clean, durable_offset=end if clean else 0))
    assert log.partition.next_offset == end and log.append("on").base_offset == end


@pytest.mark.parametrize("gap", [1, 7, 1000])
@pytest.mark.parametrize("slots", [2, 3, 100])
def test_kafka_8764_gaps_in_the_offsets_hold_no_pass_up(gap: int, slots: int) -> None:
    log = compacted()
    offset = 0
    for i in range(30):
        batch = encode([Record(b"x" * 100, b"%d" % (i % 3), NOW)], now_ms=NOW, base_offset=offset, leader_epoch=0)
        log.partition.append_follower(batch.data, epoch=0, now_ms=NOW)
        offset += 1 + (gap if i % 4 == 3 else 0)
    log.partition.advance_high_watermark(log.partition.next_offset)
    log.partition.roll(NOW)
    checkpoint, passes = 0, 0
    while (found := cleaned(log, checkpoint, slots=slots)) is not None:
        assert found.end_offset > checkpoint
        checkpoint, passes = found.end_offset, passes + 1
        assert passes < 40
    assert checkpoint == log.partition.segments[-1][0].base_offset
    assert len(log.values()) <= 4 and log.partition.next_offset >= checkpoint


@pytest.mark.parametrize("checkpoint", [1, 5, 13, 10_000])
def test_kafka_9826_a_checkpoint_inside_a_segment_is_used_as_it_is(checkpoint: int) -> None:
    log = compacted()
    log.fill(40)
    found = cleaned(log, checkpoint)
    assert found is not None
    assert found.end_offset == 40
    again = clean(log.partition, checkpoint=found.end_offset, now_ms=NOW, buffer_bytes=1 << 20)
    assert again is None, "what was cleaned is clean"


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_kafka_6834_a_batch_larger_than_any_buffer_is_cleaned(codec: Codec) -> None:
    log = compacted(segment_bytes=8 << 20, max_message_bytes=8 << 20)
    for i in range(2):
        big = [Record(bytes(100_000), b"%d" % key, NOW) for key in range(30)]
        log.put(encode(big, now_ms=NOW, codec=codec))
        log.append(f"small {i}")
    found = cleaned(log)
    assert found is not None and found.records_kept == 31
    assert len([r for b in log.batches() for r in b.records("t", 0)]) == 31


def test_kafka_6854_a_segment_without_remaining_records_is_cleaned() -> None:
    log = compacted()
    for i in range(40):
        log.in_transaction("x" * 100, producer_id=5, sequence=i, key=b"%d" % i)
    log.end(5, commit=False)
    log.append("kept")
    found = cleaned(log)
    assert found is not None and found.end_offset == 42
    assert log.values() == log.committed() == ["kept"]


def test_kafka_6030_the_dirty_ratio_of_many_gigabytes_does_not_overflow() -> None:
    huge = 2**31 - 1
    segments = [SegmentFacts(base_offset=i * 100, size=huge, largest_timestamp=-1) for i in range(9)]
    plan = cleanable(
        segments, checkpoint=400, start_offset=0, next_offset=900, last_stable_offset=900, min_lag_ms=0, now_ms=NOW
    )
    assert (plan.clean_bytes, plan.cleanable_bytes) == (4 * huge, 4 * huge)
    assert plan.dirty_ratio == 0.5 and plan.is_due(min_dirty_ratio=0.49, overdue_ms=0)


def test_kafka_8522_a_tombstone_goes_after_its_horizon_without_new_records() -> None:
    log = compacted(delete_retention_ms=1000)
    log.append("value", key=b"a")
    log.put(encode([Record(None, b"a", NOW)], now_ms=NOW))
    log.append("other", key=b"b")
    found = cleaned(log, None, now_ms=NOW)
    assert found is not None
    tombstones = [len([r for b in log.batches() for r in b.records("t", 0) if r.value is None])]
    checkpoint = found.end_offset
    for now_ms in (NOW + 999, NOW + 1000, NOW + 2001):
        log.append("again", key=b"c")
        found = cleaned(log, checkpoint, now_ms=now_ms)
        assert found is not None
        checkpoint = found.end_offset
        tombstones.append(len([r for b in log.batches() for r in b.records("t", 0) if r.value is None]))
    assert tombstones == [1, 1, 0, 0]
    assert dirt(log.partition, checkpoint=checkpoint, now_ms=NOW)[0].cleanable_bytes == 0


def state_of(batches: list[Batch]) -> dict[bytes, bytes]:
    """What a coordinator that replays its topic comes to know."""
    state: dict[bytes, bytes] = {}
    for batch in batches:
        for record in batch.records("t", 0):
            assert record.key is not None
            if record.value is None:
                state.pop(record.key, None)
            else:
                state[record.key] = record.value
    return state


@pytest.mark.parametrize("ahead", range(12))
def test_kafka_19862_a_coordinator_loads_while_its_topic_is_cleaned(ahead: int) -> None:
    log = compacted(segment_bytes=600)
    for i in range(30):
        log.append(f"{i} {'x' * 80}", key=b"%d" % (i % 4))
    log.partition.roll(NOW)
    expected = state_of(log.batches())
    steps = Cleaner(log.partition, checkpoint=None, now_ms=NOW, buffer_bytes=1 << 20).steps()
    for _ in range(ahead):
        next(steps, None)
    read: list[Batch] = []
    offset = log.partition.start_offset
    while (piece := log.partition.read(offset, 1, upto=log.partition.next_offset)) is not None:
        read.append(Batch.parse(piece.data))
        offset = piece.next_offset
        next(steps, None)
        log.partition.purge(NOW)
    assert state_of(read) == expected
    for _ in steps:
        pass
    assert state_of(log.batches()) == expected


def test_redpanda_16679_aborted_data_is_not_seen_when_its_marker_is_compacted() -> None:
    log = compacted(delete_retention_ms=0, segment_bytes=700)
    log.append("visible", key=b"v")
    log.in_transaction("aborted", producer_id=5, sequence=0, key=b"a")
    log.partition.roll(NOW)
    log.end(5, commit=False)
    log.append("later", key=b"l")
    checkpoint: int | None = None
    for i in range(5):
        assert log.committed()[:2] == ["visible", "later"] and "aborted" not in log.committed()
        found = cleaned(log, checkpoint, now_ms=NOW + i * DAY)
        checkpoint = found.end_offset if found is not None else checkpoint
        log.append(f"more {i}", key=b"m")
        log.reopen(Checkpoint(clean=False, high_watermark=log.partition.high_watermark))
        log.partition.advance_high_watermark(log.partition.next_offset)


def test_redpanda_13639_a_segment_of_nothing_but_markers_holds_no_reader_up() -> None:
    log = compacted()
    log.append("before")
    log.partition.roll(NOW)
    for producer_id in (5, 6, 7):
        log.put(marker(producer_id, commit=True), origin=Origin.COORDINATOR)
    log.partition.roll(NOW)
    log.append("after", key=b"z")
    for _ in range(2):
        assert log.committed() == ["before", "after"]
        assert [batch.is_control for batch in log.batches()] == [False, True, True, True, False]
        cleaned(log)
    log.reopen(UNCLEAN)
    log.partition.advance_high_watermark(log.partition.next_offset)
    assert log.committed() == ["before", "after"]
