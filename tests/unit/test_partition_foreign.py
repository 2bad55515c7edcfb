"""What a partition takes from others: batches encoded elsewhere, a leader's bytes, transactions to be verified."""

from uuid import UUID

import pytest

from pylog.errors import CorruptRecord, InvalidTxnState, OffsetOutOfRange, RecordBatchTooLarge
from pylog.kernel import Record
from pylog.partition import Appended, Partition
from pylog.protocol.batch import Batch, Origin, encode
from support.leader_appends import append_bytes
from support.partition_log import DIRECTORY, NOW, Log, marker


def batch(offset: int, value: bytes = b"x", *, epoch: int = 0, **header: object) -> Batch:
    records = [Record(value, b"k", NOW)]
    return encode(records, now_ms=NOW, base_offset=offset, leader_epoch=epoch, **header)  # type: ignore[arg-type]


def in_transaction(offset: int, sequence: int) -> Batch:
    return batch(offset, producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True)


# --- encoded elsewhere ------------------------------------------------------------------------------------------------


def test_bytes_of_one_batch_are_appended_and_nothing_is_no_batch() -> None:
    log = Log()
    appended = append_bytes(log.partition, bytes(batch(0).data), epoch=3, now_ms=NOW)
    assert (appended.base_offset, appended.next_offset) == (0, 1)
    assert [(b.base_offset, b.leader_epoch) for b in log.batches()] == [(0, 3)]
    # Half a batch is none.
    for data in (b"", bytes(batch(0).data)[:40]):
        assert append_bytes(log.partition, data, epoch=3, now_ms=NOW) == Appended(1, 1)
    spoiled = bytearray(batch(0).data)
    spoiled[-1] ^= 1
    with pytest.raises(CorruptRecord):
        append_bytes(log.partition, bytes(spoiled), epoch=3, now_ms=NOW)
    assert log.partition.next_offset == 1


def test_a_batch_larger_than_a_segment_is_refused() -> None:
    log = Log()
    log.append("before")
    with pytest.raises(RecordBatchTooLarge, match=r"do not fit into a segment of t-0: segment\.bytes=2000"):
        log.append("x" * 2000)
    log.append("after")
    assert log.values() == ["before", "after"]


# --- a leader's bytes -------------------------------------------------------------------------------------------------


def test_a_follower_takes_only_batches_of_its_leaders_epoch() -> None:
    log = Log()
    data = b"".join(bytes(one.data) for one in (batch(0), batch(3, epoch=1), batch(4, epoch=2)))
    assert log.partition.append_follower(data, epoch=1, now_ms=NOW) == Appended(0, 4)
    assert [(b.base_offset, b.leader_epoch) for b in log.batches()] == [(0, 0), (3, 1)]
    # Of the next one nothing is of that leader.
    assert log.partition.append_follower(bytes(batch(4, epoch=2).data), epoch=1, now_ms=NOW) == Appended(4, 4)
    with pytest.raises(OffsetOutOfRange, match="fetched offset 3 is below the end of t-0, 4"):
        log.partition.append_follower(bytes(batch(3, epoch=1).data), epoch=1, now_ms=NOW)


def test_a_follower_notes_no_epoch_for_batches_that_have_none() -> None:
    """Of a log that was converted from a format without leader epochs."""
    log = Log()
    data = b"".join(bytes(one.data) for one in (batch(0, epoch=-1), batch(1, epoch=-1), batch(2, epoch=4)))
    assert log.partition.append_follower(data, epoch=4, now_ms=NOW) == Appended(0, 3)
    assert log.partition.epochs.entries == [(4, 2)]


def test_a_follower_knows_the_producers_of_its_leader() -> None:
    log = Log()
    ended = marker(7, commit=False)
    ended.stamp(2, 0)
    both = bytes(in_transaction(0, 0).data) + bytes(in_transaction(1, 1).data)
    for data in (both, bytes(ended.data)):
        log.partition.append_follower(data, epoch=0, now_ms=NOW)
    log.partition.advance_high_watermark(3)
    assert [(txn.producer_id, txn.first_offset) for txn in log.partition.aborted(0, 3)] == [(7, 0)]
    assert log.partition.producers.entries()[7].last_sequence == 1
    assert log.partition.last_stable_offset == 3


def test_a_log_that_is_truncated_below_its_first_segment_begins_there_anew() -> None:
    log = Log(retention_bytes=2000)
    log.fill(60)
    log.partition.apply_retention(NOW)
    first = log.partition.segments[0][0].base_offset
    assert log.partition.truncate(first - 2, NOW) and first > 2
    partition = log.partition
    assert (partition.start_offset, partition.next_offset, partition.durable_offset) == (first - 2,) * 3
    assert log.append("anew").base_offset == first - 2
    assert log.values() == ["anew"]


# --- verified transactions --------------------------------------------------------------------------------------------


def test_a_transaction_that_was_not_verified_is_refused() -> None:
    log = Log()
    log.partition = Partition(log.files, DIRECTORY + "1", "t", 1, log.config, verify_transactions=True)
    log.partition.create(UUID(int=7), NOW)
    with pytest.raises(InvalidTxnState):
        log.put(in_transaction(0, 0))
    guard = log.partition.start_verification(7, 0, 0, NOW)
    assert guard is not None
    first = log.partition.append(in_transaction(0, 0), epoch=0, now_ms=NOW, guard=guard)
    assert (first.base_offset, log.partition.start_verification(7, 1, 0, NOW)) == (0, None)
    # It is open now, and nobody has to ask again.
    assert log.put(in_transaction(0, 1)).base_offset == 1
    log.put(marker(7, commit=True), origin=Origin.COORDINATOR)
    assert log.partition.last_stable_offset == 3
    assert log.partition.expire_producers(NOW + (1 << 40)) == [7]
    assert log.partition.producers.entries() == {}


def test_a_repetition_behind_a_batch_without_sequences_is_not_plain() -> None:
    """ProducerStateEntry.findDuplicateBatch; 0 comes next behind a coordinator's batch, which has none."""
    log = Log()

    def sent(sequence: int) -> Batch:
        numbered = batch(0, producer_id=7, producer_epoch=0, base_sequence=sequence)
        log.partition.look_at(numbered, NOW)
        return numbered

    assert [log.put(sent(sequence)).base_offset for sequence in (0, 1)] == [0, 1]
    log.put(batch(0, producer_id=7, producer_epoch=0), origin=Origin.COORDINATOR)
    again = log.put(sent(0))
    assert (again.base_offset, again.duplicate, log.partition.next_offset) == (0, True, 3)


def test_an_epoch_that_a_refused_append_has_noted_begins_where_its_records_do() -> None:
    log = Log()
    log.append("a")
    far = batch(31, b"x" * 2000, epoch=1)
    with pytest.raises(RecordBatchTooLarge):
        log.partition.append_follower(bytes(far.data), epoch=1, now_ms=NOW)
    assert log.partition.epochs.entries[-1] == (1, 31)
    log.partition.append(batch(0), epoch=1, now_ms=NOW)
    assert log.partition.epochs.entries[-1] == (1, 1)
