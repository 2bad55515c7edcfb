"""Sequences and epochs of producers, their expiry, and that a plan changes nothing.

The numbers in the names of tests are Kafka's issues.
"""

import pytest

from pylog.errors import InvalidProducerEpoch, OutOfOrderSequence, TransactionCoordinatorFenced
from pylog.protocol.batch import Batch, Origin
from pylog.storage.producer_state import BatchMetadata, ProducerEntry, Producers
from support.producer_log import DAY, MAX_SEQUENCE, T0, Log, data, marker

# --- sequences -------------------------------------------------------------------------------------------------------


def test_sequences_go_on_where_the_last_batch_ended() -> None:
    log = Log()
    log.data(sequence=0, count=3)
    log.data(sequence=3)
    assert log.entry() == ProducerEntry(
        0, -1, T0, None, (BatchMetadata(0, 2, 0, 2, T0), BatchMetadata(3, 3, 3, 3, T0))
    )  # fmt: skip
    for sequence in (0, 2, 3, 5, MAX_SEQUENCE):
        with pytest.raises(OutOfOrderSequence, match=rf"t-0, offset 4.*sequence {sequence} where 4 comes next"):
            log.plan(data(4, sequence=sequence, count=2))


def test_batches_without_a_producer_leave_no_trace() -> None:
    log = Log()
    log.data(producer_id=-1, epoch=-1, sequence=-1)
    assert log.producers.entries() == {}


def test_an_unknown_producer_may_begin_anywhere() -> None:
    log = Log()
    log.data(sequence=17, epoch=3)
    log.data(sequence=18, epoch=3)
    with pytest.raises(OutOfOrderSequence):
        log.data(sequence=20, epoch=3)


@pytest.mark.parametrize("count", [1, 5])
def test_sequences_wrap_to_0(count: int) -> None:
    log = Log()
    log.data(sequence=MAX_SEQUENCE - 1, count=count)
    following = (MAX_SEQUENCE - 1 + count) & MAX_SEQUENCE
    log.data(sequence=following)
    assert log.entry().batches[0].last_sequence == (following - 1) & MAX_SEQUENCE
    retried = log.plan(data(99, sequence=MAX_SEQUENCE - 1, count=count))
    assert retried.duplicate == BatchMetadata(MAX_SEQUENCE - 1, (following - 1) & MAX_SEQUENCE, 0, count - 1, T0)


def test_a_new_epoch_begins_with_0_and_a_new_window() -> None:
    log = Log()
    log.data(sequence=0, count=2)
    with pytest.raises(OutOfOrderSequence, match="sequence 2 where 0 comes next"):
        log.data(epoch=1, sequence=2)
    log.data(epoch=1, sequence=0)
    assert log.entry().batches == (BatchMetadata(0, 0, 2, 2, T0),)


def test_an_older_epoch_is_refused() -> None:
    log = Log()
    log.data(epoch=2)
    for origin in (Origin.CLIENT, Origin.COORDINATOR, Origin.RAFT_LEADER):
        with pytest.raises(InvalidProducerEpoch, match="epoch 1, which ended when epoch 2 began"):
            log.data(epoch=1, origin=origin)


def test_the_last_five_batches_are_known_as_duplicates_with_their_offsets() -> None:
    log = Log()
    for number in range(7):
        log.data(sequence=2 * number, count=2)
    for number in (2, 3, 4, 5, 6):
        plan = log.data(sequence=2 * number, count=2)
        assert plan.duplicate == BatchMetadata(2 * number, 2 * number + 1, 2 * number, 2 * number + 1, T0)
    assert log.end_offset == 14
    with pytest.raises(OutOfOrderSequence):
        log.data(sequence=2, count=2)
    with pytest.raises(OutOfOrderSequence):
        log.data(sequence=12, count=1)  # The same beginning, another end.


def test_kafka_8335_sequences_of_an_older_epoch_are_no_duplicates() -> None:
    log = Log()
    log.data(epoch=0, sequence=0)
    log.data(epoch=1, sequence=0)
    with pytest.raises(InvalidProducerEpoch):
        log.data(epoch=0, sequence=0)
    assert log.data(epoch=1, sequence=0).duplicate == BatchMetadata(0, 0, 1, 1, T0)


def test_coordinators_and_leaders_write_any_sequence() -> None:
    log = Log()
    log.data(sequence=0)
    log.data(sequence=-1, origin=Origin.COORDINATOR)
    assert log.entry().batches[-1] == BatchMetadata(-1, -1, 1, 1, T0)
    assert log.data(sequence=-1, origin=Origin.COORDINATOR).duplicate is None
    log.data(sequence=40, origin=Origin.REPLICATION)
    log.data(sequence=41)


def test_a_repetition_is_known_behind_a_batch_without_sequences() -> None:
    """ProducerStateEntry.findDuplicateBatch comes before each check, and 0 comes next behind no sequence."""
    log = Log()
    log.data(sequence=0, count=2)
    log.data(sequence=-1, origin=Origin.COORDINATOR)
    assert log.data(sequence=0, count=2).duplicate == BatchMetadata(0, 1, 0, 1, T0)
    log.data(sequence=0)


def test_kafka_6003_a_follower_takes_a_producer_in_mid_sequence_and_after_gaps() -> None:
    log = Log()
    log.append(data(10, sequence=500), data(11, sequence=700), data(12, sequence=3), origin=Origin.REPLICATION)
    assert [batch.first_sequence for batch in log.entry().batches] == [500, 700, 3]
    log.data(sequence=4)


def test_a_follower_logs_an_older_epoch_and_takes_it(caplog: pytest.LogCaptureFixture) -> None:
    log = Log()
    log.data(epoch=2, sequence=5, origin=Origin.REPLICATION)
    log.data(epoch=1, sequence=9, origin=Origin.REPLICATION)
    assert log.entry().epoch == 1 and len(log.entry().batches) == 1
    assert "epoch 1, which ended when epoch 2 began" in caplog.text


def test_kafka_5490_an_emptied_last_batch_still_holds_the_last_sequence() -> None:
    """What compaction leaves of a producer's last batch: a header without records."""
    whole = data(4, sequence=10, count=5)
    emptied = bytearray(whole.data[:61])
    emptied[8:12], emptied[57:61] = (49).to_bytes(4, "big"), bytes(4)
    log = Log()
    log.batches.append(Batch.parse(emptied))
    log.replay(9)
    assert log.data(sequence=10, count=5).duplicate == BatchMetadata(10, 14, 4, 8, T0)
    log.data(sequence=15)


# --- a plan changes nothing ------------------------------------------------------------------------------------------


def test_kafka_6683_a_snapshot_never_tells_of_an_append_that_was_not_written() -> None:
    log = Log(verify=True)
    guard = log.producers.start_verification(7, 0, 0, T0, supports_epoch_bump=False)
    log.data(txn=True, guard=guard)
    log.end(abort=True)
    log.data(sequence=1)
    before = (log.producers.encode(), dict(log.producers.entries()), log.producers.first_unstable_offset)
    for batches, origin in (
        ([data(3, sequence=2)], Origin.CLIENT),
        ([data(3, sequence=9)], Origin.CLIENT),
        ([data(3, epoch=4), data(4, producer_id=9, txn=True), marker(5, producer_id=9)], Origin.REPLICATION),
        ([marker(3, epoch=1, coordinator_epoch=5)], Origin.COORDINATOR),
    ):
        try:
            log.plan(*batches, origin=origin)
        except OutOfOrderSequence:
            continue
    assert (log.producers.encode(), dict(log.producers.entries()), log.producers.first_unstable_offset) == before
    replayed = Producers("t-0")
    replayed.replay([(batch, batch.marker()) for batch in log.batches])
    assert replayed.encode() == log.producers.encode()


# --- expiry ----------------------------------------------------------------------------------------------------------


def test_an_idle_producer_expires_and_is_unknown_again() -> None:
    log = Log()
    log.data(sequence=0)
    log.data(producer_id=8, timestamp=T0 + 1)
    assert log.producers.expire(T0 + DAY - 1) == []
    assert log.producers.expire(T0 + DAY) == [7]
    log.data(sequence=99)


def test_a_producer_with_an_open_transaction_does_not_expire() -> None:
    log = Log()
    log.data(txn=True)
    assert log.producers.expire(T0 + 100 * DAY) == []
    log.end()
    assert log.producers.expire(T0 + 100 * DAY) == [7]


def test_kafka_9144_a_marker_puts_the_expiry_of_a_producer_off() -> None:
    log = Log()
    log.data(txn=True, timestamp=T0)
    log.end(timestamp=T0 + DAY, coordinator_epoch=9)
    assert log.producers.expire(T0 + 2 * DAY - 1) == []
    with pytest.raises(TransactionCoordinatorFenced):
        log.end(coordinator_epoch=8)


@pytest.mark.parametrize("step", [-15 * DAY, 0])
def test_kafka_8803_a_clock_that_goes_back_expires_nobody(step: int) -> None:
    log = Log()
    log.data()
    assert log.producers.expire(T0 + step) == []
    assert log.producers.expire(T0 + 15 * DAY) == [7]
