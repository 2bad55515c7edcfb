"""Transactions in the log of a partition: open, completed, aborted, verified; and the marker in a batch.

The numbers in the names of tests are Kafka's issues.
"""

import struct

import pytest

from pylog.errors import (
    CorruptBatch,
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from pylog.protocol.batch import Batch, Marker, Origin
from pylog.storage.producer_state import ProducerEntry, Verification
from support.producer_log import DAY, T0, Log, control, data, marker

# --- transactions ----------------------------------------------------------------------------------------------------


def test_a_transaction_is_unstable_until_its_marker_is_below_the_high_watermark() -> None:
    log = Log()
    log.data(count=3, txn=True)
    assert log.entry().current_txn_first_offset == 0
    log.producers.advance(3)
    assert log.producers.first_unstable_offset == 0
    plan = log.end()
    assert plan.completed == [(7, 0, 3, False)] and log.aborted == []
    assert log.entry().current_txn_first_offset is None
    for high_watermark, unstable in ((0, 0), (3, 0), (4, None)):
        log.producers.advance(high_watermark)
        assert log.producers.first_unstable_offset == unstable


def test_an_abort_is_noted_with_the_last_stable_offset_after_it() -> None:
    log = Log()
    log.data(producer_id=1, txn=True)
    log.data(producer_id=2, txn=True)
    log.data(producer_id=3, txn=True)
    log.end(producer_id=2, abort=True)
    log.end(producer_id=1, abort=True)
    log.end(producer_id=3, abort=True)
    assert log.aborted == [(2, 1, 3, 0), (1, 0, 4, 2), (3, 2, 5, 6)]


def test_one_append_of_a_follower_may_hold_whole_transactions() -> None:
    log = Log()
    log.append(
        data(0, producer_id=1, txn=True), marker(1, producer_id=1, abort=True), data(2, producer_id=2, sequence=5),
        data(3, producer_id=1, sequence=1, txn=True), marker(4, producer_id=1), data(5, producer_id=1, sequence=2),
        origin=Origin.REPLICATION,
    )  # fmt: skip
    assert log.aborted == [(1, 0, 1, 2)]
    assert log.producers.first_unstable_offset == 0
    log.producers.advance(4)
    assert log.producers.first_unstable_offset == 3
    log.producers.advance(5)
    assert log.producers.first_unstable_offset is None


def test_an_empty_transaction_holds_nothing_and_is_noted_nowhere() -> None:
    log = Log()
    plan = log.end(abort=True, coordinator_epoch=3)
    assert plan.completed == [] and log.aborted == [] and log.producers.first_unstable_offset is None
    assert log.entry() == ProducerEntry(0, 3, T0, None, ())


def test_a_batch_outside_of_the_open_transaction_is_refused() -> None:
    log = Log()
    log.data(txn=True)
    for origin in (Origin.CLIENT, Origin.REPLICATION):
        with pytest.raises(InvalidTxnState, match="open since offset 0"):
            log.data(sequence=1, origin=origin)


def test_batches_in_the_log_are_never_refused() -> None:
    """A marker may have been lost with a damaged part of the log."""
    log = Log()
    log.batches += [data(0, txn=True), data(2, sequence=1), marker(3, epoch=0, abort=True)]
    log.replay(4)
    assert log.aborted == [(7, 0, 3, 4)]
    assert log.entry().last_sequence == 1


def test_a_marker_with_a_higher_epoch_begins_sequences_anew() -> None:
    log = Log()
    log.data(sequence=0, count=4, txn=True)
    log.end(epoch=1)
    assert log.entry() == ProducerEntry(1, 0, T0, None, ())
    with pytest.raises(OutOfOrderSequence, match="sequence 4 where 0 comes next"):
        log.data(epoch=1, sequence=4, txn=True)
    log.data(epoch=1, sequence=0, txn=True)


def test_a_marker_of_an_older_epoch_is_refused() -> None:
    log = Log()
    log.data(epoch=3, txn=True)
    with pytest.raises(InvalidProducerEpoch):
        log.end(epoch=2)


def test_a_marker_of_version_2_has_to_raise_the_epoch() -> None:
    log = Log()
    log.data(txn=True)
    with pytest.raises(InvalidProducerEpoch, match="KIP-890"):
        log.end(epoch=0, version=2)
    log.end(epoch=1, version=2)
    log.end(epoch=1, version=2)  # A retry: nothing is open.
    assert log.entry().current_txn_first_offset is None


def test_a_zombie_coordinator_is_fenced_by_leaders_and_tolerated_by_followers() -> None:
    log = Log()
    log.end(coordinator_epoch=5)
    with pytest.raises(TransactionCoordinatorFenced, match="coordinator epoch 4"):
        log.end(coordinator_epoch=4)
    log.end(coordinator_epoch=5)
    log.end(coordinator_epoch=4, origin=Origin.REPLICATION)
    assert log.entry().coordinator_epoch == 4


def test_a_control_batch_that_is_no_marker_changes_nothing() -> None:
    log = Log()
    log.data(txn=True)
    before = log.producers.encode()
    log.append(control(struct.pack(">hh", 0, 2), b"", 1), origin=Origin.REPLICATION)
    assert log.producers.encode() == before
    log.batches.append(control(struct.pack(">hh", 0, 2), b"", 2))
    log.replay(3)
    assert log.producers.encode() == before


# --- verification ----------------------------------------------------------------------------------------------------


def verify(log: Log, sequence: int = 0, epoch: int = 0, *, bump: bool = False) -> Verification | None:
    return log.producers.start_verification(7, sequence, epoch, T0, supports_epoch_bump=bump)


def test_a_transaction_begins_with_a_guard_and_goes_on_without() -> None:
    log = Log(verify=True)
    with pytest.raises(InvalidTxnState, match="has not been verified"):
        log.data(txn=True)
    guard = verify(log)
    assert guard is not None
    with pytest.raises(InvalidTxnState):
        log.data(txn=True)
    log.data(txn=True, guard=guard)
    assert verify(log, 1) is None
    log.data(sequence=1, txn=True)
    log.end()
    with pytest.raises(InvalidTxnState):
        log.data(sequence=2, txn=True, guard=guard)


def test_kafka_14402_a_marker_ends_the_guard_also_where_nothing_was_written() -> None:
    log = Log(verify=True)
    log.data(txn=True, guard=verify(log))
    log.end()
    guard = verify(log, 1)
    log.end(abort=True)
    with pytest.raises(InvalidTxnState):
        log.data(sequence=1, txn=True, guard=guard)
    assert log.producers.first_unstable_offset == 0  # The first transaction alone: nothing hangs.
    log.producers.advance(3)
    assert log.producers.first_unstable_offset is None


def test_the_late_marker_of_version_2_leaves_the_guard_of_the_next_transaction() -> None:
    log = Log(verify=True)
    log.data(epoch=5, txn=True, guard=verify(log, epoch=5, bump=True))
    guard = verify(log, epoch=6, bump=True)
    log.end(epoch=6)
    log.data(epoch=6, txn=True, guard=guard)


@pytest.mark.parametrize(("bump", "epoch"), [(False, 6), (True, 5)])
def test_another_marker_ends_the_guard(bump: bool, epoch: int) -> None:
    log = Log(verify=True)
    log.data(epoch=5, txn=True, guard=verify(log, epoch=5, bump=bump))
    guard = verify(log, epoch=6, bump=bump)
    log.end(epoch=epoch)
    with pytest.raises(InvalidTxnState):
        log.data(epoch=6, txn=True, guard=guard)


def test_a_guard_is_good_for_its_own_producer() -> None:
    log = Log(verify=True)
    other = log.producers.start_verification(8, 0, 0, T0, supports_epoch_bump=False)
    verify(log)
    with pytest.raises(InvalidTxnState):
        log.data(txn=True, guard=other)


def test_kafka_14920_the_lowest_sequence_that_is_being_verified_goes_first() -> None:
    log = Log(verify=True)
    guard = verify(log, 4)
    assert verify(log, 2) is guard and verify(log, 6) is guard
    for sequence in (3, 4):
        with pytest.raises(OutOfOrderSequence, match="2 is still being verified"):
            log.data(sequence=sequence, txn=True, guard=guard)
    log.data(sequence=2, txn=True, guard=guard)


def test_an_idempotent_batch_leaves_the_lowest_sequence_that_is_being_verified() -> None:
    """UnifiedLog.updateProducers: a transactional batch or a marker ends the question, and no other one."""
    log = Log(verify=True)
    log.data(sequence=0)
    guard = verify(log, 1)
    log.data(sequence=1)
    with pytest.raises(OutOfOrderSequence, match="sequence 2, and 1 is still being verified"):
        log.data(sequence=2, txn=True, guard=guard)
    with pytest.raises(OutOfOrderSequence, match="sequence 2, and 1 is still being verified"):
        log.data(sequence=2)


def test_a_new_epoch_forgets_the_sequences_of_the_old_one() -> None:
    log = Log(verify=True)
    guard = verify(log, 2, epoch=0)
    assert verify(log, 5, epoch=1) is guard and verify(log, 1, epoch=0) is guard
    log.data(sequence=5, epoch=1, txn=True, guard=guard)


def test_with_transaction_version_2_an_unknown_producer_begins_with_0() -> None:
    log = Log(verify=True)
    guard = verify(log, 3, bump=True)
    with pytest.raises(OutOfOrderSequence, match="has to begin with 0"):
        log.data(sequence=3, txn=True, guard=guard)
    assert verify(log, 0, bump=True) is guard
    log.data(sequence=0, txn=True, guard=guard)
    log.end()
    log.data(sequence=1, txn=True, guard=verify(log, 1, bump=True))


def test_an_epoch_that_has_ended_is_not_verified() -> None:
    log = Log(verify=True)
    log.end(epoch=3)
    with pytest.raises(InvalidProducerEpoch, match="epoch 2 of producer 7 ended when epoch 3 began"):
        verify(log, epoch=2)
    assert verify(log, epoch=3) is not None


def test_plain_batches_need_no_verification() -> None:
    log = Log(verify=True)
    log.data(sequence=0)
    log.data(sequence=1, txn=True, origin=Origin.REPLICATION)
    log.end()


def test_an_unused_verification_expires() -> None:
    log = Log(verify=True)
    guard = verify(log)
    for now_ms in (T0 + DAY - 1, T0 - DAY):
        log.producers.expire(now_ms)
        assert verify(log) is guard
    log.producers.expire(T0 + DAY)
    assert verify(log) is not guard


# --- the marker in a batch -------------------------------------------------------------------------------------------


def test_markers_are_read_from_control_batches() -> None:
    assert marker(0, abort=True, coordinator_epoch=5).marker() == Marker(True, 5)
    assert marker(0).marker() == Marker(False, 0)
    assert data(0, txn=True).marker() is None
    assert control(struct.pack(">hh", 3, 1), struct.pack(">hi", 2, 9) + b"more").marker() == Marker(False, 9)


@pytest.mark.parametrize("kind", [2, 3, 4, 5, 6, 700])
def test_other_control_batches_have_no_marker(kind: int) -> None:
    assert control(struct.pack(">hh", 0, kind), b"").marker() is None


def test_an_emptied_control_batch_has_no_marker() -> None:
    emptied = bytearray(marker(0).data[:61])
    emptied[8:12], emptied[57:61] = (49).to_bytes(4, "big"), bytes(4)
    assert Batch.parse(emptied).marker() is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, struct.pack(">hi", 0, 0)),
        (b"\0\0\0", struct.pack(">hi", 0, 0)),
        (struct.pack(">hh", -1, 0), struct.pack(">hi", 0, 0)),
        (struct.pack(">hh", 0, 0), None),
        (struct.pack(">hh", 0, 1), bytes(5)),
        (struct.pack(">hh", 0, 1), struct.pack(">hi", -1, 0)),
    ],
)
def test_a_marker_that_cannot_be_is_corrupt(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(CorruptBatch, match="offset 12"):
        control(key, value, 12).marker()
