"""Damage that opening a partition meets: in sealed segments, in markers, and in what no CRC covers."""

import pytest

from pylog.errors import CorruptBatch
from pylog.kernel import Record
from pylog.partition import Checkpoint
from pylog.protocol.batch import encode
from pylog.segment import Segment
from pylog.storage.checkpoint import read_damages, write_damages, write_epochs
from pylog.storage.segment_files import file_name
from support.partition_log import DIRECTORY, NOW, Log


def positions(segment: Segment) -> dict[int, tuple[int, int]]:
    """Where each batch begins, and its size, by its last offset."""
    return {
        span.last_offset: (window.position + span.position, span.size)
        for window in segment.scan(check_crc=False) for span in window.spans
    }  # fmt: skip


def change(log: Log, segment: Segment, position: int, data: bytes) -> None:
    log.files.open(segment.path).write(position, data)


def test_epochs_are_read_anew_where_the_checkpoint_is_damaged() -> None:
    log = Log()
    log.append("a", epoch=1)
    log.append("b", epoch=4)
    log.files.replace_file(f"{DIRECTORY}/leader-epoch-checkpoint", b"\xff")
    assert log.reopen().epochs.entries == [(1, 0), (4, 1)]


def test_epochs_of_deleted_records_do_not_come_back() -> None:
    """Behind them is nothing but a gap, which a crash has left of what a leader had sent."""
    log = Log()
    for value in "abc":
        log.append(value, epoch=1)
    write_epochs(log.files, f"{DIRECTORY}/leader-epoch-checkpoint", [(1, 4)])
    log.files.open(f"{DIRECTORY}/{file_name(4, '.log')}", create=True)
    partition = log.reopen(Checkpoint(3, recovery_point=3, durable_offset=3, high_watermark=3, clean=False))
    assert (partition.start_offset, partition.next_offset, partition.epochs.entries) == (3, 4, [])
    write_epochs(log.files, f"{DIRECTORY}/leader-epoch-checkpoint", [(1, 4)])
    partition = log.reopen(Checkpoint(2, recovery_point=3, durable_offset=3, high_watermark=3, clean=False))
    assert partition.epochs.entries == [(1, 2)]


def test_batches_without_epochs_make_none() -> None:
    log = Log()
    for offset in range(3):
        batch = encode([Record(b"x", b"k", NOW)], now_ms=NOW, base_offset=offset, leader_epoch=-1)
        log.partition.append_follower(batch.data, epoch=0, now_ms=NOW)
    assert (log.partition.next_offset, log.partition.epochs.entries) == (3, [])
    log.files.replace_file(f"{DIRECTORY}/leader-epoch-checkpoint", b"\xff")
    partition = log.reopen()
    assert (partition.next_offset, partition.epochs.entries) == (3, [])


def test_unpromised_damage_is_kept_after_a_clean_close() -> None:
    """As after Kafka, of which no durable offset is known: what follows the damage in later segments is good."""
    log = Log()
    values = log.fill(60)
    log.partition.close()
    segment, end = log.partition.segments[1]
    log.files.remove(segment.path.removesuffix(".log") + ".index")
    at = positions(segment)
    for offset in (end - 2, end - 5):
        position, size = at[offset]
        change(log, segment, position + size - 1, b"\xff")
    partition = log.reopen(Checkpoint(high_watermark=60))
    assert sorted((lost.offset, lost.next_offset) for lost in partition.quarantined) == [
        (end - 5, end - 4), (end - 2, end - 1),
    ]  # fmt: skip
    assert partition.next_offset == 60
    assert log.values(end - 1) == values[end - 1 :]


def test_a_loss_at_the_end_of_a_sealed_segment_is_damage() -> None:
    log = Log()
    log.in_transaction("a", producer_id=5, sequence=0)
    log.end(5, commit=False)
    log.fill(40)
    log.partition.close()
    segment, end = log.partition.segments[0]
    position, _ = positions(segment)[end - 1]
    log.files.open(segment.path).truncate(position)
    partition = log.reopen(Checkpoint(durable_offset=42, high_watermark=42))
    (lost,) = partition.quarantined
    assert (lost.path, lost.position, lost.bytes_lost) == (segment.path, position, 0)
    assert (lost.offset, lost.next_offset, partition.next_offset) == (end - 1, end, 42)
    assert len(log.values(end)) == 42 - end


def test_a_transaction_stays_aborted_where_its_marker_is_damaged() -> None:
    log = Log()
    log.in_transaction("kept from readers", producer_id=5, sequence=0)
    log.end(5, commit=False)
    log.in_transaction("this too", producer_id=6, sequence=0)
    log.end(6, commit=False)
    log.fill(40)
    aborted = log.partition.aborted(0, 44)
    assert [txn.producer_id for txn in aborted] == [5, 6]
    segment = log.partition.segments[0][0]
    position, size = positions(segment)[1]
    change(log, segment, position + size - 1, b"\xff")
    partition = log.reopen(Checkpoint(clean=False, durable_offset=44, high_watermark=44))
    assert [(lost.offset, lost.next_offset) for lost in partition.quarantined] == [(1, 2)]
    assert [txn[:3] for txn in partition.aborted(0, 44)] == [txn[:3] for txn in aborted]


def moved(log: Log, segment: Segment, last_offset: int, by: int) -> None:
    """Let a batch say that it lies `by` offsets further on: no CRC covers that."""
    position, _ = positions(segment)[last_offset]
    base = int.from_bytes(log.files.open(segment.path).read(position, 8), "big")
    change(log, segment, position, (base + by).to_bytes(8, "big"))


@pytest.mark.parametrize("size", [10, 400_000])
def test_a_last_batch_that_lies_beyond_the_end_is_damaged(size: int) -> None:
    log = Log(segment_bytes=100 << 20)
    values = log.fill(6, size=size)
    log.partition.close()
    segment = log.partition.segments[0][0]
    moved(log, segment, 5, 3)
    partition = log.reopen(Checkpoint(recovery_point=6, durable_offset=6, high_watermark=6))
    (lost,) = partition.quarantined
    assert (lost.offset, lost.next_offset, lost.position) == (5, 6, positions(segment)[4][0] + positions(segment)[4][1])
    assert partition.next_offset == 6
    with pytest.raises(CorruptBatch, match="offsets 5 to 5 are damaged"):
        partition.read(5, 1, upto=6)
    assert log.append("goes on").base_offset == 6
    assert log.values(6) == ["goes on"] and values[5] not in log.values(6)


def test_a_length_that_leads_to_the_end_of_the_file_hides_no_good_batch() -> None:
    """After a clean close the headers of the last segment are enough, and this one leads past the last two batches."""
    log = Log(segment_bytes=100 << 20, index_interval_bytes=4096)
    values = log.fill(13)
    log.partition.close()
    segment = log.partition.segments[0][0]
    position, _ = positions(segment)[10]
    change(log, segment, position + 8, (segment.size - position - 12).to_bytes(4, "big"))
    partition = log.reopen(Checkpoint(recovery_point=13, durable_offset=13, high_watermark=13))
    (lost,) = partition.quarantined
    assert (lost.offset, lost.next_offset, lost.position, partition.next_offset) == (10, 11, position, 13)
    assert log.values(11) == values[11:]


def test_a_lie_behind_damage_is_not_believed_either() -> None:
    log = Log(segment_bytes=100 << 20)
    values = log.fill(20)
    log.partition.close()
    segment = log.partition.segments[0][0]
    assert segment.offsets.last is not None and segment.offsets.last[0] > 10
    damaged_at, _ = positions(segment)[5]
    moved(log, segment, 19, 3)
    change(log, segment, damaged_at + 8, b"\xff\xff\xff\xff")
    partition = log.reopen(Checkpoint(recovery_point=20, durable_offset=20, high_watermark=20))
    assert partition.next_offset == 20
    found = partition.read(0, 1 << 20, upto=5)
    assert found is not None and found.next_offset == 5 and len(values) == 20
    with pytest.raises(CorruptBatch) as caught:
        partition.read(5, 1, upto=20)
    assert caught.value.position == damaged_at
    log.append("after it")
    assert log.values(20) == ["after it"]


@pytest.mark.parametrize("bit", [0, 8, 20, 29])
def test_a_last_batch_with_a_false_place_is_damage_after_a_crash(bit: int) -> None:
    """No CRC covers where a batch lies; but what was promised ended with a batch."""
    log = Log()
    log.fill(60)
    log.partition.sync()
    segment, _ = log.partition.segments[-1]
    position, size = positions(segment)[59]
    change(log, segment, position, (59 ^ 1 << bit if bit else 61).to_bytes(8, "big"))
    partition = log.reopen(Checkpoint(clean=False, durable_offset=60, recovery_point=60, high_watermark=60))
    assert [(lost.offset, lost.next_offset, lost.bytes_lost) for lost in partition.quarantined] == [(59, 60, size)]
    assert partition.next_offset == 60
    assert log.append("goes on").base_offset == 60
    assert log.values(60) == ["goes on"]
    with pytest.raises(CorruptBatch):
        partition.read(59, 100, upto=60)
    partition.check()


def promised(end: int, recovery_point: int) -> Checkpoint:
    """Of a log that was durable up to `end`, and whose owner died."""
    return Checkpoint(clean=False, durable_offset=end, recovery_point=recovery_point, high_watermark=end)


@pytest.mark.parametrize("place", [0, 1, -1], ids=["first", "middle", "last"])
@pytest.mark.parametrize("left", [0, 100], ids=["emptied", "cut"])
def test_a_file_that_was_put_back_is_not_damaged_any_more(place: int, left: int) -> None:
    log = Log()
    values = log.fill(60)
    log.partition.close()
    end, segment = log.partition.next_offset, log.partition.segments[place][0]
    whole = log.files.read_file(segment.path)
    log.files.replace_file(segment.path, whole[:left])
    partition = log.reopen(promised(end, 0))
    assert partition.quarantined
    log.append("behind")
    values.append("behind")
    partition.close()
    end += 1
    log.files.replace_file(segment.path, whole)
    partition = log.reopen(promised(end, end))
    assert (partition.quarantined, log.values()) == ((), values)
    assert read_damages(log.files, DIRECTORY) == {}
    partition.check()


def test_damage_in_a_file_that_was_put_back_is_found_anew() -> None:
    log = Log()
    log.fill(60)
    log.partition.close()
    end, (segment, following) = log.partition.next_offset, log.partition.segments[1]
    at = positions(segment)
    whole = bytearray(log.files.read_file(segment.path))
    log.files.replace_file(segment.path, b"")
    log.reopen(promised(end, 0)).close()
    position, size = at[following - 1]
    whole[position + size - 1] ^= 1
    log.files.replace_file(segment.path, bytes(whole))
    (lost,) = log.reopen(promised(end, end)).quarantined
    assert (lost.position, lost.bytes_lost, lost.offset, lost.next_offset) == (position, size, following - 1, following)


def test_damage_in_a_file_that_is_gone_is_not_listed_any_more() -> None:
    log = Log()
    values = log.fill(20)
    write_damages(log.files, DIRECTORY, {999: [(0, 10, 999, 1000)]})
    assert (log.reopen().quarantined, log.values()) == ((), values)
    assert read_damages(log.files, DIRECTORY) == {}
