"""Which batches and records a pass keeps: keys, tombstones, transactions, producers, the end of the range."""

import pytest

from pylog.commitlog.compaction.filter import spans_of
from pylog.commitlog.compaction.offset_map import SLOT_BYTES, KeyMap
from pylog.commitlog.compaction.rules import LastBatch, Rules
from pylog.commitlog.compaction.transactions import CleanedTransactionMetadata
from pylog.errors import CorruptBatch
from pylog.kernel import Record
from pylog.protocol.batch import encode
from pylog.storage.transaction_index import AbortedTxn

T0 = 1_700_000_000_000
ABORT, COMMIT = 0, 1


def data(offset, *pairs, producer_id=-1, epoch=0, transactional=False):
    """Records (key, value) in a batch at `offset`."""
    return encode(
        [Record(value, key, T0) for key, value in pairs], now_ms=T0, base_offset=offset, producer_id=producer_id,
        producer_epoch=epoch if producer_id >= 0 else -1, base_sequence=0 if producer_id >= 0 else -1,
        transactional=transactional,
    )  # fmt: skip


def in_transaction(offset, *pairs, producer_id=7):
    return data(offset, *pairs, producer_id=producer_id, transactional=True)


def marker(offset, kind, producer_id=7, epoch=0):
    return encode(
        [Record(bytes(6), bytes([0, 0, 0, kind]), T0)], now_ms=T0, base_offset=offset, producer_id=producer_id,
        producer_epoch=epoch, transactional=True, control=True,
    )  # fmt: skip


def aborted(first, last, producer_id=7):
    return AbortedTxn(producer_id, first, last, last + 1)


class Log:
    """Batches that are cleaned again and again, as a log is; its index of aborted transactions goes along."""

    def __init__(self, *batches, index=(), producers=None):
        self.batches = list(batches)
        self.index = list(index)
        self.producers = producers or {}

    def clean(self, *, now_ms=T0, delete_retention_ms=1000, upto=None):
        end = self.batches[-1].next_offset + 1000
        keys = KeyMap(1 << 16)
        transactions = CleanedTransactionMetadata()
        transactions.add(self.index)
        for batch in self.batches:
            if upto is not None and batch.base_offset >= upto:
                break
            if batch.is_control:
                transactions.end(batch)
            elif not transactions.is_aborted(batch) and batch.count:
                keys.put(spans_of(batch))
            keys.latest_offset = batch.last_offset
        transactions = CleanedTransactionMetadata()
        transactions.add(self.index)
        self.rules = Rules(
            keys=keys, transactions=transactions, producers=self.producers, end_offset=end, now_ms=now_ms,
            delete_retention_ms=delete_retention_ms,
        )  # fmt: skip
        self.batches = [batch for batch in map(self.kept, self.batches) if batch is not None]
        self.index = list(self.rules.aborted)
        return self.seen()

    def kept(self, batch):
        return self.rules.apply(batch).batch

    def seen(self):
        """(offset, value) of what is left, "marker" for a control record."""
        return [
            (r.offset, "marker" if batch.is_control else r.value)
            for batch in self.batches
            for r in batch.records("t", 0)
        ]

    def spans(self):
        return [(batch.base_offset, batch.last_offset, batch.count) for batch in self.batches]


def test_only_the_newest_record_of_a_key_stays():
    log = Log(data(0, (b"a", b"1"), (b"b", b"2")), data(2, (b"a", b"3")), data(3, (b"c", b"4"), (b"a", b"5")))
    assert log.clean() == [(1, b"2"), (3, b"4"), (4, b"5")]
    assert log.spans() == [(0, 1, 1), (3, 4, 2)]


def test_records_beyond_the_map_stay():
    log = Log(data(0, (b"a", b"1")), data(1, (b"a", b"2")), data(2, (b"a", b"3"), (None, b"4")))
    assert log.clean(upto=2) == [(1, b"2"), (2, b"3"), (3, b"4")]


def test_a_map_that_ends_inside_a_batch_says_nothing_of_the_rest_of_it():
    keys = KeyMap(3 * SLOT_BYTES)
    assert not keys.put(spans_of(data(0, (b"0", b""), (b"1", b""), (b"2", b""))))
    rules = Rules(keys, CleanedTransactionMetadata(), {}, end_offset=100, now_ms=T0, delete_retention_ms=0)
    found = rules.apply(data(0, (None, b"0"), (b"1", b"1"), (None, b"2"), (b"3", None)))
    assert [record.offset for record in found.batch.records("t", 0)] == [1, 2, 3]
    assert rules.without_key == 1


def test_records_without_a_key_go():
    log = Log(data(0, (None, b"1"), (b"", b"2")))
    assert log.clean() == [(1, b"2")]
    assert log.rules.without_key == 1


def test_tombstones_go_when_their_horizon_is_over_and_not_before():
    """KAFKA-8522: the horizon counts from the first pass that saw them, whatever happens to the file."""
    log = Log(data(0, (b"a", b"1"), (b"b", b"2")), data(2, (b"a", None)))
    expected = [(1, b"2"), (2, None)]
    assert log.clean(now_ms=T0) == expected
    assert log.clean(now_ms=T0 + 999) == expected
    assert log.clean(now_ms=T0 + 1000) == [(1, b"2")]


def test_a_tombstone_that_is_superseded_goes_at_once():
    assert Log(data(0, (b"a", None)), data(1, (b"a", b"2"))).clean() == [(1, b"2")]


def test_aborted_data_goes_at_once_and_supersedes_nothing():
    log = Log(data(0, (b"a", b"1")), in_transaction(1, (b"a", b"2")), marker(2, ABORT), index=[aborted(1, 2)])
    assert log.clean() == [(0, b"1"), (2, "marker")]


def test_an_abort_marker_goes_two_horizons_after_its_data():
    log = Log(in_transaction(1, (b"a", b"2")), marker(2, ABORT), index=[aborted(1, 2)])
    assert log.clean(now_ms=T0) == [(2, "marker")]
    assert len(log.index) == 1 and not log.batches[-1].has_delete_horizon
    assert log.clean(now_ms=T0 + 1) == [(2, "marker")]
    assert not log.index and log.batches[-1].has_delete_horizon
    assert log.clean(now_ms=T0 + 1000) == [(2, "marker")]
    assert log.clean(now_ms=T0 + 1001) == []


def test_a_commit_marker_stays_as_long_as_its_data():
    log = Log(in_transaction(0, (b"a", b"1")), marker(1, COMMIT))
    for pass_number in range(3):
        assert log.clean(now_ms=T0 + 10_000 * pass_number) == [(0, b"1"), (1, "marker")]
    log.batches.append(data(2, (b"a", b"2")))
    assert log.clean(now_ms=T0 + 40_000) == [(1, "marker"), (2, b"2")]
    assert log.clean(now_ms=T0 + 50_000) == [(1, "marker"), (2, b"2")]
    assert log.clean(now_ms=T0 + 51_000) == [(2, b"2")]


def test_transactions_of_one_producer_follow_each_other():
    log = Log(
        in_transaction(0, (b"a", b"1")), marker(1, ABORT), in_transaction(2, (b"a", b"2")), marker(3, COMMIT),
        in_transaction(4, (b"b", b"3")), marker(5, ABORT), marker(6, COMMIT), index=[aborted(0, 1), aborted(4, 5)],
    )  # fmt: skip
    assert log.clean() == [(1, "marker"), (2, b"2"), (3, "marker"), (5, "marker"), (6, "marker")]
    assert [entry.first_offset for entry in log.index] == [0, 4]
    assert [batch.has_delete_horizon for batch in log.batches] == [False, False, False, False, True]


def test_user_keys_that_look_like_markers_do_not_disturb_markers():
    """KAFKA-14055: neither does a marker supersede a record, nor a record a marker."""
    looks = bytes([0, 0, 0, COMMIT])
    log = Log(
        data(0, (looks, b"1")), in_transaction(1, (b"a", b"2")), marker(2, COMMIT), data(3, (looks, b"3")),
        data(4, (b"a", b"4")), marker(5, COMMIT),
    )  # fmt: skip
    assert log.clean() == [(2, "marker"), (3, b"3"), (4, b"4"), (5, "marker")]


def test_the_last_batch_of_an_active_producer_stays_empty():
    """KAFKA-5490: else its next sequence number would be out of order."""
    log = Log(
        data(0, (b"a", b"1"), producer_id=7), data(1, (b"a", b"2"), producer_id=7), data(2, (b"a", b"3")),
        producers={7: LastBatch(1, 0)},
    )  # fmt: skip
    assert log.clean() == [(2, b"3")]
    assert log.spans() == [(1, 1, 0), (2, 2, 1)]
    assert (log.batches[0].producer_id, log.batches[0].base_sequence) == (7, 0)


def test_the_last_batch_of_an_active_producer_stays_empty_though_it_was_aborted():
    log = Log(in_transaction(0, (b"a", b"1")), marker(1, ABORT), index=[aborted(0, 1)], producers={7: LastBatch(0, 0)})
    for _ in range(3):
        assert log.clean() == [(1, "marker")]
        assert log.spans() == [(0, 0, 0), (1, 1, 1)]
        assert len(log.index) == 1  # the marker is needed as long as the batch is there


def test_the_marker_of_a_producer_without_data_stays_as_its_epoch():
    log = Log(marker(0, COMMIT, epoch=2), marker(1, COMMIT, epoch=3), producers={7: LastBatch(-1, 3)})
    log.clean(now_ms=T0)
    log.clean(now_ms=T0 + 1000)
    assert log.spans() == [(1, 1, 0)]
    log.producers = {}
    log.clean()
    assert log.spans() == []


def test_the_last_batch_of_the_range_stays_empty():
    """KAFKA-17076: else the log would forget its next offset."""
    log = Log(data(0, (b"a", b"1")), data(1, (None, b"2")))
    keys = KeyMap(1000)
    keys.latest_offset = 1
    rules = Rules(keys, CleanedTransactionMetadata(), {}, end_offset=2, now_ms=T0, delete_retention_ms=0)
    found = [rules.apply(batch).batch for batch in log.batches]
    assert [(batch.base_offset, batch.count) for batch in found] == [(0, 1), (1, 0)]


def test_control_batches_that_are_no_markers_stay():
    leader_change = encode([Record(bytes(6), bytes([0, 0, 0, 2]), T0)], now_ms=T0, control=True)
    unknown = encode([Record(bytes(6), bytes([0, 0, 0, 99]), T0)], now_ms=T0, base_offset=1, control=True)
    log = Log(leader_change, unknown)
    for pass_number in range(3):
        assert log.clean(now_ms=T0 + 10_000 * pass_number) == [(0, "marker"), (1, "marker")]
    assert log.batches == [leader_change, unknown]


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00"])
def test_a_control_record_without_a_type_is_refused(key):
    batch = encode([Record(bytes(6), key, T0)], now_ms=T0, producer_id=7, control=True)
    with pytest.raises(CorruptBatch, match="control record"):
        CleanedTransactionMetadata().end(batch)


def test_an_entry_may_be_added_once_for_each_segment_the_transaction_spans():
    transactions = CleanedTransactionMetadata()
    entry = aborted(5, 25)
    for first in (0, 10, 20):
        transactions.add([entry])
        assert transactions.is_aborted(in_transaction(first + 6, (b"a", b"1")))
    assert transactions.end(marker(27, ABORT)) == (False, entry)
    assert not transactions.is_aborted(in_transaction(28, (b"a", b"1")))
