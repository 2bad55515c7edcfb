"""What becomes of a folder when a partition is opened: work that a crash has interrupted, and damage."""

from contextlib import nullcontext

import pytest

from pylog.commitlog.crash_cleanup import settle
from pylog.errors import CorruptBatch
from pylog.files import MemoryFiles
from pylog.kernel import Record
from pylog.partition import Checkpoint
from pylog.protocol.batch import Origin, encode
from pylog.storage.producer_state import snapshot_name, snapshot_offsets
from pylog.storage.producer_state.snapshot import decode_snapshot
from pylog.storage.segment_checksum import forget_seals
from pylog.storage.segment_files import file_name
from support.partition_log import DAY, DIRECTORY, NOW, UNCLEAN, Log, marker


def names(log: Log) -> list[str]:
    return log.files.list_dir(DIRECTORY)


def put(log: Log, name: str, data: bytes = b"") -> None:
    log.files.open(f"{DIRECTORY}/{name}", create=True).write(0, data)


def copied(log: Log, source: str, target: str) -> None:
    put(log, target, log.files.read_file(f"{DIRECTORY}/{source}"))


def test_a_complete_replacement_takes_the_place_of_its_segments() -> None:
    log = Log()
    values = log.fill(40)
    bases = [segment.base_offset for segment, _ in log.partition.segments]
    assert len(bases) > 3
    joined = b"".join(log.files.read_file(f"{DIRECTORY}/{file_name(base, '.log')}") for base in bases[:2])
    put(log, file_name(0, ".log.swap"), joined)
    put(log, file_name(0, ".index.swap"))
    put(log, file_name(0, ".timeindex.swap"))
    settle(log.files, DIRECTORY)
    assert file_name(bases[1], ".log") not in names(log) and file_name(bases[1], ".index") not in names(log)
    partition = log.reopen(Checkpoint(clean=False, recovery_point=bases[-1], durable_offset=40))
    assert [segment.base_offset for segment, _ in partition.segments] == [0, *bases[2:]]
    assert log.values() == values
    partition.check()


@pytest.mark.parametrize("cleaned_at", [0, 3])
def test_a_replacement_beside_one_that_is_still_written_is_undone(cleaned_at: int) -> None:
    log = Log()
    values = log.fill(40)
    copied(log, file_name(0, ".log"), file_name(5, ".log.swap"))
    put(log, file_name(cleaned_at, ".log.cleaned"), b"half of it")
    before = [name for name in names(log) if not name.endswith((".swap", ".cleaned"))]
    assert settle(log.files, DIRECTORY) == before
    log.reopen()
    assert log.values() == values


def test_deleted_and_half_written_files_are_removed() -> None:
    log = Log()
    for name in (file_name(7, ".log.deleted"), "checkpoint.tmp", "what.cleaned", file_name(9, ".index")):
        put(log, name)
    left = settle(log.files, DIRECTORY)
    assert left == names(log)
    assert not [name for name in left if name.endswith((".deleted", ".tmp", ".cleaned"))]
    assert file_name(9, ".index") not in left, "an index without a log"


def test_a_sealed_segment_without_its_index_is_read_anew_and_nothing_else() -> None:
    log = Log()
    values = log.fill(60)
    log.partition.close()
    second = log.partition.segments[1][0].base_offset
    log.files.remove(f"{DIRECTORY}/{file_name(second, '.index')}")
    partition = log.reopen(Checkpoint(durable_offset=60, high_watermark=60))
    assert log.values() == values
    assert partition.segments[1][0].offsets.entries > 0
    partition.check()


def test_damage_in_a_sealed_segment_that_is_read_anew_is_stepped_over() -> None:
    log = Log()
    values = log.fill(60)
    log.partition.close()
    segment, end = log.partition.segments[1]
    log.files.remove(segment.path.removesuffix(".log") + ".index")
    data = bytearray(log.files.read_file(segment.path))
    data[len(data) // 2] ^= 1
    log.files.replace_file(segment.path, bytes(data))
    partition = log.reopen(Checkpoint(durable_offset=60, high_watermark=60))
    (lost,) = partition.quarantined
    assert segment.base_offset < lost.offset < lost.next_offset <= end
    assert log.values(lost.next_offset) == values[lost.next_offset :]
    with pytest.raises(CorruptBatch, match="are damaged"):
        partition.read(lost.offset, 1, upto=60)


def test_a_missing_time_index_is_built_without_a_look_at_transactions() -> None:
    log = Log()
    log.in_transaction("x" * 900, producer_id=5, sequence=0)
    log.end(5, commit=False)
    log.fill(40)
    aborted = log.partition.aborted(0, 42)
    log.partition.close()
    log.files.remove(f"{DIRECTORY}/{file_name(0, '.timeindex')}")
    partition = log.reopen(Checkpoint(durable_offset=42, high_watermark=42))
    assert partition.aborted(0, 42) == aborted
    found = partition.offset_for_time(NOW, upto=42)
    assert found is not None and found.offset == 0


def test_a_transaction_index_that_cannot_be_is_built_from_the_log() -> None:
    log = Log()
    log.in_transaction("a", producer_id=5, sequence=0)
    log.end(5, commit=False)
    log.fill(40)
    aborted = log.partition.aborted(0, 42)
    log.partition.close()
    log.files.replace_file(f"{DIRECTORY}/{file_name(0, '.txnindex')}", b"\xff" * 34)
    partition = log.reopen(Checkpoint(durable_offset=42, high_watermark=42))
    assert partition.aborted(0, 42) == aborted and len(aborted) == 1


def test_an_epoch_that_the_checkpoint_has_missed_is_noted() -> None:
    log = Log()
    log.append("a", epoch=1)
    log.append("b", epoch=4)
    log.files.remove(f"{DIRECTORY}/leader-epoch-checkpoint")
    assert log.reopen().epochs.entries == [(1, 0), (4, 1)]


def test_a_torn_tail_of_the_last_segment_is_cut() -> None:
    log = Log()
    values = log.fill(60)
    segment, end = log.partition.segments[-1]
    size = log.partition.size
    log.files.open(segment.path).truncate(segment.size - 1)
    partition = log.reopen()
    assert partition.recovered is not None
    assert partition.recovered.offset == partition.next_offset == end - 1
    assert partition.recovered.bytes_cut == size - partition.size - 1
    assert log.values() == values[: end - 1]


def test_segments_behind_a_torn_one_that_kafka_wrote_are_cut_too() -> None:
    """Kafka goes on in a new segment before the last one is on the disk, and writes no seals."""
    log = Log()
    values = log.fill(60)
    segment, end = log.partition.segments[1]
    size = log.partition.size
    log.files.open(segment.path).truncate(segment.size - 1)
    forget_seals(log.files, DIRECTORY)
    partition = log.reopen()
    assert partition.recovered is not None
    assert partition.recovered.offset == partition.next_offset == end - 1
    assert partition.recovered.bytes_cut == size - partition.size - 1
    assert log.values() == values[: end - 1]


def test_an_unknown_control_record_does_not_stop_an_open() -> None:
    log = Log()
    log.in_transaction("a", producer_id=5, sequence=0)
    nonsense = encode(
        [Record(b"?", b"?", NOW)], now_ms=NOW, producer_id=5, producer_epoch=0, transactional=True, control=True,
        base_offset=1, leader_epoch=0,
    )  # fmt: skip
    segment = log.partition.segments[0][0]
    log.files.open(segment.path).write(segment.size, nonsense.data)
    partition = log.reopen()
    assert partition.next_offset == 2
    partition.advance_high_watermark(2)
    assert partition.last_stable_offset == 0, "it ended no transaction"
    log.put(marker(5, commit=True), origin=Origin.COORDINATOR)
    assert partition.last_stable_offset == 3


def test_a_log_without_records_behind_its_start_begins_anew_there() -> None:
    log = Log()
    log.fill(10)
    partition = log.reopen(Checkpoint(start_offset=50, clean=False))
    assert (partition.start_offset, partition.next_offset, partition.size) == (50, 50, 0)
    assert log.append("on").base_offset == 50


def test_an_empty_folder_is_an_empty_log() -> None:
    log = Log()
    log.files = MemoryFiles()
    log.files.make_dir(DIRECTORY)
    partition = log.reopen(Checkpoint(start_offset=7))
    assert (partition.start_offset, partition.next_offset) == (7, 7)
    assert log.append("on").base_offset == 7


def test_a_gap_that_a_truncation_leaves_at_the_end_is_not_missed_later() -> None:
    for clean in (True, False):
        log = Log()
        log.append("a")
        log.append("b", "c", "d")
        log.partition.truncate(3, NOW)
        assert log.partition.sync() == 1 and log.partition.next_offset == 3
        if clean:
            log.partition.close()
            assert log.partition.durable_offset == 1
        partition = log.reopen(Checkpoint(clean=clean, recovery_point=1, durable_offset=1))
        assert (partition.quarantined, partition.next_offset) == ((), 1)


def test_a_gap_before_a_cut_was_never_durable() -> None:
    log = Log()
    batch = encode([Record(b"x", b"k", NOW)] * 4, now_ms=NOW, base_offset=3, leader_epoch=0)
    log.partition.append_follower(batch.data, epoch=0, now_ms=NOW)
    assert log.partition.sync() == 7
    log.partition.truncate(5, NOW)
    assert (log.partition.durable_offset, log.partition.next_offset) == (0, 5)
    assert log.partition.sync() == 0
    assert log.reopen().quarantined == ()


def test_deleted_records_are_not_durable_by_their_deletion() -> None:
    log = Log()
    log.fill(5)
    log.partition.delete_records(4)
    partition = log.reopen(Checkpoint(start_offset=4, clean=False, high_watermark=5))
    assert (partition.start_offset, partition.durable_offset, partition.next_offset) == (4, 0, 5)
    segment = partition.segments[0][0]
    log.files.open(segment.path).truncate(0)
    partition = log.reopen(Checkpoint(start_offset=4, clean=False, durable_offset=0))
    assert (partition.quarantined, partition.start_offset, partition.next_offset) == ((), 4, 4)
    assert UNCLEAN.durable_offset == 0


# --- producers, as Kafka's LogLoader.recoverSegment and UnifiedLog.rebuildProducerState leave them --------------------


def numbered(offset: int, producer_id: int, *, timestamp: int = NOW) -> bytes:
    """A batch of one record as a leader has it."""
    row = (b"v", b"k", timestamp, ())
    batch = encode([row], now_ms=NOW, producer_id=producer_id, producer_epoch=0, base_sequence=0, base_offset=offset)
    batch.stamp(offset, 0)
    return bytes(batch.data)


def follow(log: Log, *batches: bytes) -> None:
    for data in batches:
        log.partition.append_follower(data, epoch=0, now_ms=NOW)


def snapshots(log: Log) -> list[int]:
    return snapshot_offsets(log.files, DIRECTORY)


def known_at(log: Log, offset: int) -> set[int]:
    return {
        producer_id for producer_id, _ in decode_snapshot(log.files.read_file(f"{DIRECTORY}/{snapshot_name(offset)}"))
    }


def test_no_snapshot_of_the_end_of_a_segment_stays_before_a_gap() -> None:
    """ProducerStateManager.removeStraySnapshots comes behind the segments that were read anew."""
    log = Log(segment_bytes=100)
    follow(log, numbered(0, 7), numbered(9, 8), numbered(30, 9))
    assert [segment.base_offset for segment, _ in log.partition.segments] == [0, 9, 30]
    log.reopen()
    assert snapshots(log) == [9, 30, 31]


def test_a_producer_below_the_start_is_known_after_its_segment_was_read_anew() -> None:
    """The snapshot of a segment's end has all that is in the segment; the next one goes on from it."""
    log = Log()
    follow(log, numbered(0, 7), numbered(1, 8))
    log.partition.roll(NOW)
    follow(log, numbered(2, 9))
    log.reopen(Checkpoint(start_offset=1, clean=False))
    assert set(log.partition.producers.entries()) == {7, 8, 9} == known_at(log, 3)


def test_a_producer_that_has_expired_is_not_carried_on_to_the_next_segment() -> None:
    log = Log()
    follow(log, numbered(0, 7, timestamp=NOW - 2 * DAY), numbered(1, 8))
    log.partition.roll(NOW)
    follow(log, numbered(2, 9))
    log.reopen()
    assert known_at(log, 3) == {8, 9}


def test_the_last_two_segments_have_snapshots_where_the_others_were_lost() -> None:
    log = Log()
    for offset in range(4):
        follow(log, numbered(offset, 7 + offset))
        log.partition.roll(NOW)
    follow(log, numbered(4, 11))
    for offset in snapshots(log):
        log.files.remove(f"{DIRECTORY}/{snapshot_name(offset)}")
    log.reopen(Checkpoint(recovery_point=4, clean=False))
    assert snapshots(log) == [3, 4, 5]
    assert known_at(log, 3) == {7, 8, 9}


# --- segments that overlap, which Kafka opens and reads without a word ------------------------------------------------


@pytest.mark.parametrize(("offset", "lost"), [(12, (2, 2)), (1, (1, 2))])
def test_a_batch_that_lies_in_the_next_segment_is_stepped_over(
    offset: int, lost: tuple[int, int], caplog: pytest.LogCaptureFixture
) -> None:
    """Its offsets begin there, or reach into it; what it says of an epoch and of a producer is not believed."""
    log = Log()
    follow(log, numbered(0, 7), numbered(1, 7))
    log.partition.roll(NOW)
    follow(log, numbered(2, 8), numbered(3, 8))
    forged = encode(
        [(b"forged", b"k", NOW, ())] * 3, now_ms=NOW, producer_id=99, producer_epoch=0, base_sequence=0,
        base_offset=offset, leader_epoch=9,
    )  # fmt: skip
    path = log.partition.segments[0][0].path
    data = log.files.read_file(path)
    position = len(data) // lost[1] * lost[0]
    log.files.replace_file(path, data[:position] + bytes(forged.data))
    partition = log.reopen(Checkpoint(clean=False, durable_offset=4, high_watermark=4))
    (damage,) = partition.quarantined
    assert (damage.path, damage.position, damage.offset, damage.next_offset) == (path, position, *lost)
    assert f"{path}, position {position}" in caplog.text and f"says offset {offset}" in caplog.text
    assert partition.next_offset == 4 and partition.epochs.entries == [(0, 0)]
    assert set(partition.producers.entries()) == {7, 8}
    assert [one.base_offset for one in log.batches(lost[1])] == [2, 3]
    with pytest.raises(CorruptBatch, match="are damaged") if lost[0] < 2 else nullcontext():
        assert [one.base_offset for one in log.batches()] == [0, 1, 2, 3]
